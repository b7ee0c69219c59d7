//! Who may change the files that decide what runs.

use std::path::Path;

use rustix::fs::{FileType, Stat};

/// Whether nobody but this user and root owns a file or folder, or may write it.
///
/// # Errors
/// Who else does, and how to change that. A device, such as `/dev/null`, holds nothing to change.
pub fn check(path: &Path, found: &Stat) -> Result<(), Foreign> {
    let kind = FileType::from_raw_mode(found.st_mode);
    let is_own = found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw();
    let what = match found.st_mode & 0o777 {
        _ if kind == FileType::CharacterDevice => return Ok(()),
        _ if !is_own => format!("belongs to uid {}", found.st_uid),
        mode if mode & 0o022 != 0 => format!("may be written by others (mode {mode:o})"),
        _ => return Ok(()),
    };
    let path = path.display();
    Err(Foreign {
        message: format!("{path} {what}, so it does not say what the operator said"),
        fix: format!("chown it, or chmod go-w {path}"),
    })
}

/// A file or folder that somebody else may have written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Foreign {
    /// What is wrong with it.
    pub message: String,
    /// What would mend it.
    pub fix: String,
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_others_may_write_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, is_own) in
            [(0o600, true), (0o644, true), (0o664, false), (0o646, false), (0o622, false)]
        {
            file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            let found = rustix::fs::stat(file.path()).unwrap();
            assert_eq!(check(file.path(), &found).is_ok(), is_own, "{mode:o}");
        }
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut found = rustix::fs::stat(file.path()).unwrap();
        found.st_uid = 4_242_424;
        assert!(check(file.path(), &found).unwrap_err().message.contains("belongs to uid 4242424"));
        found.st_uid = 0;
        assert_eq!(check(file.path(), &found), Ok(()), "root may write anything anyway");
        check(Path::new("/dev/null"), &rustix::fs::stat("/dev/null").unwrap()).unwrap();
    }
}
