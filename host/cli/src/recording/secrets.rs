//! The secrets that a recording does not contain: asked for on the terminal, or taken from
//! variables that the operator names.

use std::collections::BTreeMap;
use std::path::Path;

use skillhost_policy::diagnostic::printable;
use skillhost_sandbox::recording::folder::StoredRecording;
use skillhost_sandbox::recording::seal::{Seal, SecretError};
use skillhost_sandbox::recording::vault::Key;

use crate::error::{CliError, Exit};
use crate::terminal;

/// Opens a recording with its secrets. Values that are stored under this host's key, in the folder
/// `keys`, are taken from there; the operator is asked for the others.
pub(crate) fn open(
    recording: StoredRecording,
    variables: &[String],
    keys: &Path,
) -> Result<(StoredRecording, Seal), CliError> {
    let needed = &recording.recording.sealed.secrets;
    if let Some(other) = variables.iter().find(|name| !needed.contains_key(*name)) {
        let names: Vec<String> = needed.keys().map(|name| printable(name)).collect();
        let fix = match names.as_slice() {
            [] => "the recording needs no secrets; leave out --secret-env".to_owned(),
            names => format!("it needs: {}", names.join(", ")),
        };
        let message = format!("the recording has no secret {}", printable(other));
        return Err(CliError::usage(message).fix(fix));
    }
    let key = Key::find(keys).map_err(|error| CliError::io("read the key of recordings", error))?;
    let stored = key.map(|key| recording.stored(&key)).unwrap_or_default();
    let mut values = BTreeMap::new();
    for name in needed.keys() {
        let value = match stored.get(name).filter(|_| !variables.contains(name)) {
            Some(value) => value.clone(),
            None => value(name, variables.contains(name))?,
        };
        values.insert(name.clone(), value);
    }
    let seal = Seal::open(&recording.recording.sealed, &values).map_err(|error| {
        let (SecretError::Missing(name) | SecretError::Wrong(name)) = &error;
        CliError::new(Exit::NotRepeatable, error.to_string())
            .fix(format!("use the value that {} had in the recorded run", printable(name)))
    })?;
    Ok((recording.unseal(&seal)?, seal))
}

fn value(name: &str, from_variable: bool) -> Result<Vec<u8>, CliError> {
    let missing = |why: String| {
        let name = printable(name);
        let message = format!("the secret {name} is needed and not in the recording: {why}");
        CliError::usage(message)
            .fix(format!("set the variable {name} and pass --secret-env {name}"))
    };
    if from_variable {
        #[expect(clippy::disallowed_methods, reason = "a variable that the operator names")]
        let value = std::env::var(name);
        return value
            .map(String::into_bytes)
            .map_err(|_| missing("the variable of that name is not set".into()));
    }
    terminal::ask_secret(name).map_err(|error| missing(format!("the prompt failed ({error})")))
}
