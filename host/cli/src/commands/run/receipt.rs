//! `run --receipt`: stdin is read before the run, and the receipt is written after it.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use skillhost_ledger::receipt::{Receipt, envelope};
use skillhost_policy::limits::show_size;
use skillhost_sandbox::Stdin;

use super::plan::ReceiptFile;
use crate::commands::key;
use crate::context::Places;
use crate::error::CliError;
use crate::output;

/// The most that is read of stdin for a receipt, in bytes.
const STDIN_MAX: u64 = 64 << 20;

/// Reads all of stdin, whose digest the receipt has. A terminal counts as empty.
pub(crate) fn stdin() -> Result<Stdin, CliError> {
    if std::io::stdin().is_terminal() {
        return Ok(Stdin::Empty);
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(STDIN_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| CliError::io("read stdin for the receipt", error))?;
    if bytes.len() as u64 > STDIN_MAX {
        let most = show_size(STDIN_MAX);
        return Err(CliError::usage(format!("a receipt allows at most {most} of stdin")));
    }
    Ok(Stdin::Bytes(bytes))
}

/// Writes a receipt to a file, either completely or not at all.
pub(super) fn write(
    receipt: Option<&Receipt>,
    file: &ReceiptFile,
    places: &Places,
) -> Result<(), CliError> {
    let Some(receipt) = receipt else {
        output::warning("no receipt was written, because the run has no result", None);
        return Ok(());
    };
    let text = if file.sign {
        envelope::encode_signed(receipt, &key::signing(places)?)
    } else {
        envelope::encode(receipt)
    };
    let folder = file.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // As readable as the user's other new files.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let written = tempfile::Builder::new()
        .permissions(mode)
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .and_then(|mut new| {
            new.write_all(text.trim_ascii_end())?;
            new.write_all(b"\n")?;
            new.persist(&file.path).map_err(|error| error.error)
        });
    written.map(drop).map_err(|error| {
        // tempfile appends the temporary name, which means nothing to the user.
        let error = error.to_string();
        let error = error.split(" at path \"").next().unwrap_or(&error);
        CliError::io(format_args!("write the receipt {}", file.path.display()), error)
    })
}
