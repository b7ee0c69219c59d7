//! Checks that no other user can change the files that decide what runs.

use std::path::Path;

use rustix::fs::{FileType, Stat};
use skillhost_policy::refusal::Refusal;

/// Checks that only this user or root owns a file or folder and can write to it. Accepts devices
/// such as `/dev/null`, which contain nothing to change.
///
/// # Errors
/// Who else owns it or can write to it.
pub fn check(path: &Path, found: &Stat) -> Result<(), Refusal> {
    let kind = FileType::from_raw_mode(found.st_mode);
    let is_own = found.st_uid == 0 || found.st_uid == rustix::process::geteuid().as_raw();
    let what = match found.st_mode & 0o777 {
        _ if kind == FileType::CharacterDevice => return Ok(()),
        _ if !is_own => format!("is owned by uid {}", found.st_uid),
        mode if mode & 0o022 != 0 => format!("is writable by others (mode {mode:o})"),
        _ => return Ok(()),
    };
    let path = path.display();
    Err(Refusal {
        why: format!("{path} {what}, so it cannot be trusted"),
        fix: Some(format!("chown it, or chmod go-w {path}")),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_that_others_own_or_can_write_are_refused() {
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
        assert!(check(file.path(), &found).unwrap_err().why.contains("owned by uid 4242424"));
        found.st_uid = 0;
        assert_eq!(check(file.path(), &found), Ok(()), "root can write anything anyway");
        check(Path::new("/dev/null"), &rustix::fs::stat("/dev/null").unwrap()).unwrap();
    }
}
