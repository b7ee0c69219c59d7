//! The secrets that a recording does not hold: asked for on the terminal, or taken from variables
//! that the user names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use skillhost_policy::diagnostic::printable;
use skillhost_sandbox::recording::folder::Kept;
use skillhost_sandbox::recording::seal::{Seal, SecretError};
use skillhost_sandbox::recording::vault::Key;

use super::exit::Exit;
use super::{Failure, record};

/// The recording with its secrets, and those. Values that it stores under this host's key, in a
/// folder, are taken from there; the user is asked for the others.
pub(super) fn open(kept: Kept, from: &[String], keys: &Path) -> Result<(Kept, Seal), Failure> {
    let needed = &kept.recording.sealed.secrets;
    if let Some(other) = from.iter().find(|name| !needed.contains_key(*name)) {
        let names: Vec<String> = needed.keys().map(|name| printable(name)).collect();
        let needs = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(Failure::new(
            Exit::Usage,
            format!("the recording has no secret {}; it needs {needs}", printable(other)),
        ));
    }
    let key = Key::find(keys)
        .map_err(|error| Failure::new(Exit::Io, format!("the key of recordings: {error}")))?;
    let stored = key.map(|key| kept.stored(&key)).unwrap_or_default();
    let mut given = BTreeMap::new();
    for name in needed.keys() {
        let value = match stored.get(name).filter(|_| !from.contains(name)) {
            Some(value) => value.clone(),
            None => value(name, from.contains(name))?,
        };
        given.insert(name.clone(), value);
    }
    let seal = Seal::opened(&kept.recording.sealed, &given).map_err(|error| {
        let (SecretError::Missing(name) | SecretError::Wrong(name)) = &error;
        Failure::new(Exit::NotRepeatable, error.to_string())
            .fix(format!("give the value that {} had in the recorded run", printable(name)))
    })?;
    let kept = kept.unsealed(&seal).map_err(record::failure)?;
    Ok((kept, seal))
}

fn value(name: &str, from_variable: bool) -> Result<Vec<u8>, Failure> {
    let missing = |why: String| {
        let name = printable(name);
        Failure::new(
            Exit::Usage,
            format!("the secret {name} is needed, which the recording does not hold: {why}"),
        )
        .fix(format!("set the variable {name}, and give --secret-env {name}"))
    };
    if from_variable {
        #[expect(clippy::disallowed_methods, reason = "a variable that the user names")]
        let found = std::env::var(name);
        return found
            .map(String::into_bytes)
            .map_err(|_| missing("no variable of that name is set".into()));
    }
    asked(name).map_err(|error| missing(format!("it cannot be asked for ({error})")))
}

/// Asks on the terminal, which does not show what is typed.
fn asked(name: &str) -> std::io::Result<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "the terminal of the user")]
    let mut terminal = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let shown = tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    // Whoever gives up finds the terminal as it was: the key is an end of the line, and no signal.
    hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
    hidden.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let line = write!(terminal, "{}: ", printable(name)).and_then(|()| line(&terminal));
    tcsetattr(&terminal, OptionalActions::Flush, &shown)?;
    writeln!(terminal)?;
    line
}

const CTRL_C: u8 = 3;

fn line(terminal: &File) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut terminal = BufReader::new(terminal);
    let mut byte = [0];
    while !matches!(line.last(), Some(&(b'\n' | CTRL_C))) && terminal.read(&mut byte)? == 1 {
        line.push(byte[0]);
    }
    match line.pop() {
        Some(CTRL_C) => Err(std::io::ErrorKind::Interrupted.into()),
        Some(b'\n') | None => Ok(line),
        Some(other) => {
            line.push(other);
            Ok(line)
        }
    }
}
