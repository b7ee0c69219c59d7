//! Checks that the tools that a build requires are installed. The error lists everything that is
//! missing, with the commands that install it.

use std::process::Command;

use skillhost_toolchain::Error;

use crate::python;

/// Required programs, and how to install them.
const PROGRAMS: [(&str, &str); 2] =
    [("cc", "a C compiler: `apt install gcc libc6-dev`"), ("git", "`apt install git`")];

/// Checks for a C compiler, git, and the tools that build the Python runtime.
///
/// # Errors
/// Lists everything that is missing.
pub(crate) fn check() -> Result<(), Error> {
    let mut missing: Vec<String> = PROGRAMS
        .into_iter()
        .filter(|(program, _)| Command::new(program).arg("--version").output().is_err())
        .map(|(program, fix)| format!("{program} is not installed\n  fix: {fix}"))
        .collect();
    missing.extend(python::check().err().map(|error| error.to_string()));
    if missing.is_empty() { Ok(()) } else { Err(Error::new(missing.join("\n"))) }
}
