//! What a machine needs before anything is built. Everything that lacks is named at once, with the
//! command that installs it.

use std::process::Command;

use skillhost_toolchain::Error;

use crate::python;

/// Programs that are started, and how they are installed.
const PROGRAMS: [(&str, &str); 2] =
    [("cc", "a C compiler: `apt install gcc libc6-dev`"), ("git", "`apt install git`")];

/// Checks that all is there that a build needs: a C compiler, git, and what the Python runtime is
/// built with.
///
/// # Errors
/// Names everything that is missing.
pub(crate) fn check() -> Result<(), Error> {
    let mut missing: Vec<String> = PROGRAMS
        .into_iter()
        .filter(|(program, _)| Command::new(program).arg("--version").output().is_err())
        .map(|(program, fix)| format!("{program} is not installed\n  fix: {fix}"))
        .collect();
    missing.extend(python::check().err().map(|error| error.to_string()));
    if missing.is_empty() { Ok(()) } else { Err(Error::new(missing.join("\n"))) }
}
