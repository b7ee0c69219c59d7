//! Staged writes as rows.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

use crate::approval::PendingChange;
use skillhost_sandbox::files::{NewEntry, OldEntry, StagedChange};

pub(super) const SELECT: &str = "SELECT folder, guest, path, before, after, mode, bytes FROM change
    WHERE pending = ?1 AND EXISTS (SELECT 1 FROM pending WHERE id = ?1 AND time >= ?2) ORDER BY number";

/// Stands for a folder in a column that has a digest for a file.
const FOLDER: &str = "folder";
const FILE: &str = "file";
const LINK: &str = "link";
/// Comes before the target of a symlink in a column that has a digest for a file.
const LINK_TO: &str = "link ";

pub(super) fn write(
    db: &Connection,
    pending: i64,
    changes: &[PendingChange],
) -> rusqlite::Result<()> {
    let mut insert =
        db.prepare("INSERT INTO change VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
    for (number, PendingChange { folder, staged }) in (0i64..).zip(changes) {
        let before = staged.before.as_ref().map(|before| match before {
            OldEntry::Folder => FOLDER.to_owned(),
            OldEntry::File(digest) => digest.clone(),
            OldEntry::Link(target) => format!("{LINK_TO}{target}"),
        });
        let (after, mode, bytes) = match &staged.after {
            None => (None, 0, &[][..]),
            Some(NewEntry::Folder) => (Some(FOLDER), 0, &[][..]),
            Some(NewEntry::File { bytes, mode }) => (Some(FILE), *mode, bytes.as_slice()),
            Some(NewEntry::Link(target)) => (Some(LINK), 0, target.as_bytes()),
        };
        let folder = folder.as_os_str().as_bytes();
        insert.execute(params![
            pending,
            number,
            folder,
            staged.guest,
            staged.path,
            before,
            after,
            mode,
            bytes
        ])?;
    }
    Ok(())
}

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<PendingChange> {
    let (before, after): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
    let before = before.map(|text| match text.strip_prefix(LINK_TO) {
        Some(target) => OldEntry::Link(target.to_owned()),
        None if text == FOLDER => OldEntry::Folder,
        None => OldEntry::File(text),
    });
    let after = match after.as_deref() {
        None => None,
        Some(FOLDER) => Some(NewEntry::Folder),
        Some(LINK) => {
            let target = String::from_utf8(row.get(6)?).map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(6, Type::Blob, Box::new(error))
            })?;
            Some(NewEntry::Link(target))
        }
        Some(_) => Some(NewEntry::File { bytes: row.get(6)?, mode: row.get(5)? }),
    };
    let folder: Vec<u8> = row.get(0)?;
    let staged = StagedChange { guest: row.get(1)?, path: row.get(2)?, before, after };
    Ok(PendingChange { folder: Path::new(OsStr::from_bytes(&folder)).to_owned(), staged })
}
