//! The README does what it says: each of its blocks is run, loaded or compiled. `BLESS=1` writes
//! outputs that differ anew.

pub mod blocks;
mod shell;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::PoisonError;

use skillhost_policy as policy;
use skillhost_policy::diagnostic::Severity;
use skillhost_policy::manifest;

use crate::cli::repository;
use blocks::{BLESSING, Document, matches};
use shell::Place;

/// What no test can run, and why the README says so.
const NOT_RUN: [(&str, &str); 4] = [
    ("cargo xtask demo", "builds the host in release mode and every component; needs minutes"),
    ("cargo xtask test", "runs this test"),
    ("cargo xtask install", "installs into the home folder"),
    ("python3 -m http.server --bind 127.0.0.1 8000", "the test serves the folder itself"),
];

/// Runs all the commands in the README's order, in one folder, as a reader would. Builds a skill,
/// which takes a minute the first time.
#[test]
fn commands_do_what_the_readme_shows() {
    let _turn = BLESSING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut readme = Document::read("README.md");
    let place = Place::new();
    let mut wrong = String::new();
    let mut blessed = Vec::new();
    for block in readme.blocks() {
        if let Some(name) = file_name(&block.text) {
            place.write(name, &block.text);
        }
        if block.lang != "console" || block.not_run.is_some() {
            continue;
        }
        for step in readme.steps(&block) {
            let (output, success) = place.run(&step.command);
            let shown: Vec<&str> =
                readme.lines[step.shown.clone()].iter().map(String::as_str).collect();
            let got: Vec<&str> = output.lines().collect();
            let at = step.shown.start;
            // That no output can mend.
            assert!(success, "README.md:{at}: `{}` fails\n{output}", step.command);
            if !matches(&shown, &got) {
                writeln!(
                    wrong,
                    "README.md:{at}: `{}`\n--- shown\n{}\n--- is\n{output}",
                    step.command,
                    shown.join("\n")
                )
                .unwrap();
                blessed.push((step.shown, output.lines().map(stable).collect::<Vec<_>>()));
            }
        }
    }
    if std::env::var_os("BLESS").is_some() {
        for (range, lines) in blessed.into_iter().rev() {
            readme.lines.splice(range, lines);
        }
        return readme.write();
    }
    assert!(wrong.is_empty(), "{wrong}\nBLESS=1 writes what is");
}

#[test]
fn what_is_not_run_is_known_and_says_why() {
    let readme = Document::read("README.md");
    let blocks = readme.blocks().into_iter().filter_map(|b| Some((b.text.clone(), b.not_run?)));
    let found: Vec<(String, String)> = blocks
        .map(|(text, why)| (text.trim_start_matches("$ ").trim_end().to_owned(), why))
        .collect();
    let known: Vec<(String, String)> =
        NOT_RUN.map(|(command, why)| (command.to_owned(), why.to_owned())).into();
    assert_eq!(found, known);
}

#[test]
fn every_block_is_of_a_kind_that_is_tested() {
    let host = std::fs::read_to_string(repository("host/skillhost/src/lib.rs")).unwrap();
    let template =
        std::fs::read_to_string(repository("toolchain/templates/rust/src/lib.rs")).unwrap();
    for block in Document::read("README.md").blocks() {
        let at = block.inner.start;
        match block.lang.as_str() {
            "console" => assert!(block.text.starts_with("$ "), "README.md:{at}"),
            "yaml" if block.text.starts_with("---\n") => frontmatter(at, &block.text),
            "yaml" => policy_file(at, &block.text),
            "json" => client_entry(at, &block.text),
            // Doc tests of the library.
            "rust" | "rust,no_run" => {
                assert!(host.contains("include_str!(\"../../../README.md\")"))
            }
            // Files, which the commands above run.
            "python" | "bash" => assert!(
                file_name(&block.text).is_some(),
                "README.md:{at}: its first line is no `# PATH`"
            ),
            // What `skillhost new` writes and `skillhost build` compiles, in the commands above.
            "rust,ignore" => assert!(
                template.contains(&block.text),
                "README.md:{at}: not in the template of `skillhost new`"
            ),
            other => panic!("README.md:{at}: no test knows blocks of `{other}`"),
        }
    }
}

#[test]
fn the_chores_that_the_readme_names_are_there() {
    let verbs = std::fs::read_to_string(repository("xtask/src/main.rs")).unwrap();
    for file in ["README.md", "CONTRIBUTING.md"] {
        let text = Document::read(file).lines.join("\n");
        let named: Vec<&str> = text
            .split("cargo xtask ")
            .skip(1)
            .map(|t| t.split(|c: char| !c.is_alphanumeric()).next().unwrap())
            .collect();
        assert!(!named.is_empty());
        for verb in named {
            let variant = verb[..1].to_uppercase() + &verb[1..];
            assert!(
                verbs.contains(&format!("Verb::{variant}")),
                "{file}: `cargo xtask {verb}` is not there"
            );
        }
    }
}

/// What a client starts is a verb that there is.
fn client_entry(at: usize, text: &str) {
    let value: serde_json::Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("README.md:{at}: {error}"));
    let server = &value["mcpServers"]["skillhost"];
    assert_eq!(server["command"], "skillhost", "README.md:{at}");
    let args: Vec<&str> = server["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .chain(["--help"])
        .collect();
    assert!(crate::cli::User::new().skillhost(&args).status.success(), "README.md:{at}");
}

fn frontmatter(at: usize, text: &str) {
    let folder = text.lines().find_map(|l| l.strip_prefix("name: ")).unwrap();
    let parsed = manifest::parse(text.as_bytes(), folder, "SKILL.md");
    assert_eq!(parsed.diagnostics, [], "README.md:{at}");
    assert!(parsed.manifest.is_some_and(|m| !m.recovered), "README.md:{at}");
}

fn policy_file(at: usize, text: &str) {
    let loaded = policy::load(Path::new("policy.yaml"), text, Some(Path::new("/home/operator")));
    let errors = loaded.err().map_or_else(Vec::new, |e| e.diagnostics);
    assert!(errors.iter().all(|d| d.severity != Severity::Error), "README.md:{at}: {errors:#?}");
}

/// The file that a block is: its first line is `# NAME.yaml`, or the path of a script.
fn file_name(text: &str) -> Option<&str> {
    let name = text.lines().next()?.strip_prefix("# ").filter(|name| !name.contains(' '))?;
    [".yaml", ".py", ".sh"].iter().any(|end| name.ends_with(end)).then_some(name)
}

/// A line without what differs from run to run.
fn stable(line: &str) -> String {
    let mut line = line.to_owned();
    for (before, after) in
        [("sha256:", ""), ("done in ", " s"), (".wasm  ", " bytes"), ("\"wall_ms\": ", ",")]
    {
        if let Some((head, tail)) = line.split_once(before) {
            let end = if after.is_empty() {
                tail.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(tail.len())
            } else {
                tail.find(after).unwrap_or(0)
            };
            line = format!("{head}{before}...{}", &tail[end..]);
        }
    }
    line
}
