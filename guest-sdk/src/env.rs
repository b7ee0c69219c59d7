//! Arguments, variables and the working directory.

use std::path::PathBuf;

pub use std::env::VarError;

use crate::bindings::environment::wasi::cli::environment;

/// The arguments; the first is the program's name, as in `std::env::args`.
///
/// ```no_run
/// let name = skillhost_guest::env::args().into_iter().nth(1);
/// ```
pub fn args() -> Vec<String> {
    environment::get_arguments()
}

/// A variable of the environment. Only those that the host passes are there, never its own.
///
/// # Errors
///
/// [`VarError::NotPresent`].
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

/// All variables.
///
/// ```no_run
/// for (name, value) in skillhost_guest::env::vars() {
///     skillhost_guest::println!("{name}={value}");
/// }
/// ```
pub fn vars() -> Vec<(String, String)> {
    environment::get_environment()
}

/// The working directory, which relative paths start from; `/` where the host names none.
///
/// ```no_run
/// let config = skillhost_guest::env::current_dir().join("config.toml");
/// ```
pub fn current_dir() -> PathBuf {
    environment::get_initial_cwd().unwrap_or_else(|| "/".into()).into()
}
