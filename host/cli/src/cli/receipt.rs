//! The receipt of a run, as the command line asks for it and keeps it.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use skillhost_ledger::receipt::{Receipt, envelope};
use skillhost_policy::limits::show_size;
use skillhost_sandbox::Stdin;

use super::exit::Exit;
use super::key;
use super::places::Places;
use super::{Failure, show};

/// The most that is read of stdin for a receipt, in bytes.
const STDIN_MAX: u64 = 64 << 20;

/// All of stdin, which the receipt has the digest of; of a terminal nothing.
pub(super) fn stdin() -> Result<Stdin, Failure> {
    if std::io::stdin().is_terminal() {
        return Ok(Stdin::Empty);
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(STDIN_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| {
        Failure::new(Exit::Io, format!("stdin cannot be read for the receipt: {error}"))
    })?;
    if bytes.len() as u64 > STDIN_MAX {
        return Err(Failure::new(
            Exit::Usage,
            format!("a receipt takes in {} of stdin at most", show_size(STDIN_MAX)),
        ));
    }
    Ok(Stdin::Bytes(bytes))
}

/// Puts a receipt into a file: whole, or not at all.
pub(super) fn keep(
    receipt: Option<&Receipt>,
    file: &Path,
    sign: bool,
    places: &Places,
) -> Result<(), Failure> {
    let Some(receipt) = receipt else {
        show::warning("there is no receipt: the run came to no result", None);
        return Ok(());
    };
    let text = if sign {
        envelope::encode_signed(receipt, &key::signing(places)?)
    } else {
        envelope::encode(receipt)
    };
    let folder =
        file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Readable as this user's files are.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let kept =
        tempfile::Builder::new().permissions(mode).tempfile_in(folder).and_then(|mut new| {
            new.write_all(&text)?;
            new.persist(file).map_err(|error| error.error)
        });
    kept.map(drop).map_err(|error| {
        Failure::new(Exit::Io, format!("the receipt {} cannot be written: {error}", file.display()))
    })
}
