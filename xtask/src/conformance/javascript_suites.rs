//! `cargo xtask conformance node` and `test262`: run Node.js 22's own tests, and those of ECMAScript,
//! in the sandbox.
//!
//! The scripts `components/javascript/conformance/*.py` select the tests, run them and compare what
//! fails with the lists next to them.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use skillhost_toolchain::{Error, Progress};

use crate::{components, workspace};

/// The arguments of both commands.
#[derive(Args)]
pub(crate) struct Options {
    /// A checkout of the suite
    #[arg(long, value_name = "DIR")]
    suite: Option<PathBuf>,
    /// Run this program, with the runtimes that are built, instead of building both: an optimised
    /// one takes half the time
    #[arg(long, value_name = "FILE")]
    skillhost: Option<PathBuf>,
    /// Only these tests: modules (`fs`) and tests of Node.js, folders and files of test262
    names: Vec<String>,
}

/// A suite of tests that is not part of the repository.
struct Suite {
    /// The script in `components/javascript/conformance`.
    script: &'static str,
    name: &'static str,
    /// How to get it.
    source: &'static str,
}

const NODE: Suite = Suite {
    script: "node.py",
    name: "Node.js's tests",
    source: "git clone --depth 1 --branch v22.22.2 https://github.com/nodejs/node, or Debian's source package nodejs 22.22.2",
};
const TEST262: Suite = Suite {
    script: "test262.py",
    name: "test262",
    source: "git clone https://github.com/tc39/test262, and check out the commit that docs/reference/conformance.md names",
};

/// Runs Node.js's own tests.
pub(crate) fn node(options: &Options, progress: &Progress) -> Result<(), Error> {
    run(&NODE, options, progress)
}

/// Runs test262.
pub(crate) fn test262(options: &Options, progress: &Progress) -> Result<(), Error> {
    run(&TEST262, options, progress)
}

fn run(suite: &Suite, options: &Options, progress: &Progress) -> Result<(), Error> {
    let folder = options.suite.as_deref().ok_or_else(|| {
        Error::new("the suite is not part of this repository: name a checkout with --suite DIR")
            .help(suite.source)
    })?;
    if !folder.is_dir() {
        return Err(Error::new(format!("{} is not a folder", folder.display())).help(suite.source));
    }
    let built = super::host();
    let skillhost = match &options.skillhost {
        Some(skillhost) => skillhost,
        None => {
            components::run(progress)?;
            super::build_host(progress)?;
            &built
        }
    };
    let status = command(suite, folder, skillhost)
        .args(&options.names)
        .status()
        .map_err(|error| Error::new(format!("python3: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::new(format!("{}: the results differ from the lists", suite.name))
            .help("BLESS=1 writes the lists; give new lines a reason"))
    }
}

fn command(suite: &Suite, folder: &Path, skillhost: &Path) -> Command {
    let script = workspace::root().join("components/javascript/conformance").join(suite.script);
    let mut command = Command::new("python3");
    command.arg(script).arg("--suite").arg(folder).arg("--skillhost").arg(skillhost);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suite_must_be_named() {
        let options = Options { suite: None, skillhost: None, names: Vec::new() };
        for (run, source) in [(node as fn(&_, &_) -> _, "nodejs/node"), (test262, "tc39/test262")] {
            let error = run(&options, &Progress::silent()).unwrap_err().to_string();
            assert!(error.contains("--suite DIR") && error.contains(source), "{error}");
        }
    }
}
