//! `cargo xtask conformance shell`, `shell-scripts` and `tools`: the shell next to bash and its tools. Also
//! `python-scripts`, which draws and compares scripts as `shell-scripts` does.
//!
//! The scripts `components/shell/conformance/*.py` select what runs, and compare what differs with the
//! lists next to them.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use skillhost_toolchain::{Error, Progress};

use super::{build_host, host};
use crate::{components, workspace};

/// The arguments of the three commands.
#[derive(Args)]
pub(crate) struct Options {
    /// Run this program, with the runtimes that are built, instead of building both
    #[arg(long, value_name = "FILE")]
    skillhost: Option<PathBuf>,
    /// Only these cases, with their differences, and further arguments of the script
    #[arg(last = true)]
    args: Vec<String>,
}

/// Compares the shell with bash on the spec tests of Oils.
pub(crate) fn spec(
    suite: Option<&Path>,
    options: &Options,
    progress: &Progress,
) -> Result<(), Error> {
    let source = "git clone https://github.com/oils-for-unix/oils, and check out the commit that docs/reference/conformance.md names";
    compare("oils.py", Some((suite, source)), options, progress)
}

/// Compares public scripts of skills in a language with bash or Python.
pub(crate) fn scripts(
    language: &str,
    suite: Option<&Path>,
    options: &Options,
    progress: &Progress,
) -> Result<(), Error> {
    let source = "a folder with checkouts of the repositories that components/shell/conformance/skill_scripts.txt names";
    let mut args = vec!["--language".to_owned(), language.to_owned()];
    args.extend(options.args.iter().cloned());
    let options = Options { skillhost: options.skillhost.clone(), args };
    compare("skill_scripts.py", Some((suite, source)), &options, progress)
}

/// Compares builtins and commands with the originals on generated programs.
pub(crate) fn tools(options: &Options, progress: &Progress) -> Result<(), Error> {
    compare("tools.py", None, options, progress)
}

fn compare(
    script: &str,
    suite: Option<(Option<&Path>, &str)>,
    options: &Options,
    progress: &Progress,
) -> Result<(), Error> {
    let mut command = Command::new("python3");
    let root = workspace::root();
    command.arg(root.join("components/shell/conformance").join(script)).current_dir(&root);
    if let Some((folder, source)) = suite {
        let folder = folder.ok_or_else(|| {
            Error::new("the suite is not part of this repository")
                .help(format!("add `--suite DIR`: {source}"))
        })?;
        command
            .arg("--suite")
            .arg(std::path::absolute(folder).map_err(Error::context(folder.display()))?);
    }
    let program = match &options.skillhost {
        Some(program) => std::path::absolute(program).map_err(Error::context(program.display()))?,
        None => {
            components::run(progress)?;
            build_host(progress)?;
            host()
        }
    };
    command.arg("--skillhost").arg(program).args(&options.args);
    let status = command.status().map_err(|error| Error::new(format!("python3: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::new(format!("the differences are not those of the list of {script}")))
    }
}
