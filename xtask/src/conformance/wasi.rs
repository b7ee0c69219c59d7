//! `cargo xtask conformance wasi`: runs the WASI 0.3 components of wasi-testsuite in the sandbox.
//!
//! The components run in a test of the sandbox, `wasi_testsuite`. The tables of
//! `docs/reference/conformance.md` list how many pass, and why the others do not. The command fails
//! if the results differ from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use skillhost_toolchain::{Error, Progress};

use crate::{print_line, workspace};

/// The folder of the suite with the components, and its source in the repository of the suite.
const COMPONENTS: &str = "tests/rust/testsuite/wasm32-wasip3";
const SUITE: &str =
    "git clone --branch prod/testsuite-base https://github.com/WebAssembly/wasi-testsuite";

/// Why each component failed; `None` if it passed.
type Results = BTreeMap<String, Option<String>>;

/// Runs the suite, and compares the results with the documentation.
pub(crate) fn run(suite: Option<&Path>, progress: &Progress) -> Result<(), Error> {
    let suite = suite.ok_or_else(|| {
        Error::new("the suite is not part of this repository: name a checkout with --suite DIR")
            .help(SUITE)
    })?;
    let folder = suite.join(COMPONENTS);
    let folder = folder.canonicalize().map_err(|error| {
        Error::new(format!("{} has no compiled tests: {}: {error}", suite.display(), COMPONENTS))
            .help(SUITE)
    })?;
    super::build_host(progress)?;
    let root = workspace::root();
    let results = root.join("target/wasi-testsuite.json");
    drop(fs::remove_file(&results));
    let mut tests = workspace::cargo(&root);
    tests
        .args(["test", "-p", "skillhost-sandbox", "--lib", "--", "--ignored", "--exact"])
        .arg("run::wasi_testsuite::components_of_the_suite_run")
        .env("WASI_TESTSUITE", &folder)
        .env("WASI_RESULTS", &results)
        .env("WASI_COMPILER", super::host());
    progress.loud_step("run the components", |step| step.run_loud(&mut tests))?;
    let text = fs::read_to_string(&results).map_err(Error::context(results.display()))?;
    let results: Results =
        serde_json::from_str(&text).map_err(Error::context(results.display()))?;
    let page = root.join("docs/reference/conformance.md");
    let page = fs::read_to_string(&page).map_err(Error::context(page.display()))?;
    compare(&results, &page)
}

fn compare(results: &Results, page: &str) -> Result<(), Error> {
    let mut groups: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (name, failure) in results {
        let (passed, all) = groups.entry(group(name)).or_default();
        *all += 1;
        *passed += usize::from(failure.is_none());
    }
    let mut is_same = true;
    for (group, (passed, all)) in &groups {
        let row = format!("| {group} | {passed} of {all} |");
        print_line(&row);
        if !page.contains(&row) {
            print_line("  not a row of docs/reference/conformance.md");
            is_same = false;
        }
    }
    let known = explained(page);
    for (name, failure) in results {
        match (failure, known.contains(name)) {
            (Some(why), false) => print_line(format!("{name} fails: {why}")),
            (None, true) => print_line(format!("{name} passes, but is listed")),
            (Some(_), true) | (None, false) => continue,
        }
        is_same = false;
    }
    let all: BTreeSet<&String> = results.keys().collect();
    for name in known.iter().filter(|name| !all.contains(name)) {
        print_line(format!("{name} is listed, but is not in the suite"));
        is_same = false;
    }
    if is_same {
        Ok(())
    } else {
        Err(Error::new("the results are not those of docs/reference/conformance.md"))
    }
}

/// The subject of a test: the first word of its name, or `other` if no other test has it.
fn group(name: &str) -> &str {
    match name.split_once('-') {
        Some((group @ ("cli" | "filesystem" | "sockets"), _)) => group,
        Some(("http", rest)) if rest.starts_with("client") || rest.starts_with("service") => {
            "http service"
        }
        Some(("http", _)) => "http",
        _ => "other",
    }
}

/// Returns the tests in the table of tests that do not pass.
fn explained(page: &str) -> BTreeSet<String> {
    let rows =
        page.lines().skip_while(|line| !line.starts_with("| tests | why they do not pass |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let tests = rows.filter_map(|row| row.split('|').nth(1));
    tests.flat_map(|tests| tests.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| subject | passed |\n|---|---|\n| cli | 1 of 2 |\n\n\
                        | tests | why they do not pass |\n|---|---|\n| `cli-b` | a reason |\n";

    fn results(failing: &[&str]) -> Results {
        let result = |name: &&str| {
            let failure = failing.contains(name).then(|| "reason".to_owned());
            ((*name).to_owned(), failure)
        };
        ["cli-a", "cli-b"].iter().map(result).collect()
    }

    #[test]
    fn results_must_be_those_of_the_page() {
        compare(&results(&["cli-b"]), PAGE).unwrap();
        for failing in [&[][..], &["cli-a"], &["cli-a", "cli-b"]] {
            compare(&results(failing), PAGE).unwrap_err();
        }
        let gone: Results = [("cli-a".to_owned(), None)].into();
        compare(&gone, PAGE).unwrap_err();
    }

    #[test]
    fn suite_must_be_named() {
        let error = run(None, &Progress::silent()).unwrap_err().to_string();
        assert!(error.contains("--suite DIR") && error.contains("prod/testsuite-base"), "{error}");
    }
}
