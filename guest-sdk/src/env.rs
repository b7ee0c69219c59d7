//! Arguments, environment variables and the working directory.

use std::path::PathBuf;

pub use std::env::VarError;

use crate::bindings::environment::wasi::cli::environment;

/// Returns the arguments. The first is the program's name, as in `std::env::args`.
///
/// ```no_run
/// let name = skillhost_guest::env::args().into_iter().nth(1);
/// ```
pub fn args() -> Vec<String> {
    environment::get_arguments()
}

/// Returns an environment variable. A guest sees the variables that the policy grants, never the
/// host's own environment.
///
/// # Errors
///
/// Returns [`VarError::NotPresent`] if the variable is not set.
///
/// ```no_run
/// let language = skillhost_guest::env::var("LANG").unwrap_or("C".into());
/// ```
pub fn var(name: &str) -> Result<String, VarError> {
    vars()
        .into_iter()
        .find_map(|(known, value)| (known == name).then_some(value))
        .ok_or(VarError::NotPresent)
}

/// Returns all environment variables.
///
/// ```no_run
/// for (name, value) in skillhost_guest::env::vars() {
///     skillhost_guest::println!("{name}={value}");
/// }
/// ```
pub fn vars() -> Vec<(String, String)> {
    environment::get_environment()
}

/// Returns the working directory, which relative paths are resolved against. It is `/` if the host
/// sets none.
///
/// ```no_run
/// let config = skillhost_guest::env::current_dir().join("config.toml");
/// ```
pub fn current_dir() -> PathBuf {
    environment::get_initial_cwd().unwrap_or_else(|| "/".into()).into()
}
