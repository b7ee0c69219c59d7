//! Protection by device and inode: the host's own folders, skill folders, and mounts.
#![expect(clippy::disallowed_methods, reason = "tests set up and move real folders")]

use std::path::Path;

use super::support::*;
use super::*;
use skillhost_policy::capabilities::MountMode;

fn own(w: &Path) {
    fill(w, "a/state/audit.jsonl", "x");
    fill(w, "a/policy.yaml", "x");
    fill(w, "b/plain", "x");
}

#[test]
fn host_folders_are_unreachable_under_any_name() {
    for mode in [MountMode::Write, MountMode::Overlay] {
        let guest =
            Grant { mode, hidden: &["a/state", "a/policy.yaml"], ..Grant::default() }.guest(own);
        // No rule names these paths: the folder and its parent were renamed after the guest
        // started.
        std::fs::rename(guest.host("a/state"), guest.host("a/cache")).unwrap();
        std::fs::rename(guest.host("a"), guest.host("moved")).unwrap();
        for path in ["moved/cache/audit.jsonl", "moved/cache", "moved/policy.yaml"] {
            let path = format!("/workspace/{path}");
            assert_eq!(guest.read(&path).unwrap_err(), Errno::NOENT, "{path}");
            assert_eq!(guest.stat(&path).unwrap_err(), Errno::NOENT, "{path}");
            assert!(guest.write(&path, "y").is_err(), "{path}");
            assert!(guest.unlink(&path).is_err() && guest.rmdir(&path).is_err(), "{path}");
            assert!(guest.rename(&path, "/workspace/mine").is_err(), "{path}");
            assert!(guest.rename("/workspace/b/plain", &path).is_err(), "{path}");
        }
        assert_eq!(guest.write("/workspace/moved/cache/new", "y").unwrap_err(), Errno::ACCESS);
        assert_eq!(guest.mkdir("/workspace/moved/cache/new").unwrap_err(), Errno::ACCESS);
        assert!(guest.list("/workspace/moved/cache").is_err());
        assert!(
            guest.rename("/workspace/moved", "/workspace/again").is_err(),
            "a folder that contains a guarded one"
        );
        guest.write("/workspace/moved/other", "y").unwrap();
        assert_eq!(std::fs::read_to_string(guest.host("moved/cache/audit.jsonl")).unwrap(), "x");
        assert!(
            guest.denials().iter().any(|denial| denial.contains("belongs to skillhost itself")),
            "{:?}",
            guest.denials()
        );
    }
}

#[test]
fn skill_folders_are_readable_but_not_writable() {
    for mode in [MountMode::Write, MountMode::Overlay] {
        let guest = Grant { mode, read_only: &["x/skills"], ..Grant::default() }
            .guest(|w| fill(w, "x/skills/one/main.py", "print(1)"));
        let path = "/workspace/x/skills/one/main.py";
        assert_eq!(guest.read(path).unwrap(), "print(1)");
        assert_eq!(guest.list("/workspace/x/skills").unwrap(), ["one"]);
        for options in [WRITE, UPDATE, OpenOptions { truncate: true, ..READ }] {
            assert_eq!(guest.open(path, options).unwrap_err(), Errno::ACCESS);
        }
        assert_eq!(guest.unlink(path).unwrap_err(), Errno::ACCESS);
        assert_eq!(guest.write("/workspace/x/skills/one/new.py", "y").unwrap_err(), Errno::ACCESS);
        assert_eq!(guest.mkdir("/workspace/x/skills/two").unwrap_err(), Errno::ACCESS);
        for folder in ["x/skills/one", "x/skills", "x"] {
            assert!(
                guest.rename(&format!("/workspace/{folder}"), "/workspace/y").is_err(),
                "{folder}"
            );
        }
        guest.write("/workspace/x/other", "y").unwrap();
        assert!(
            guest.denials().iter().any(|denial| denial.contains("guests cannot write to it")),
            "{:?}",
            guest.denials()
        );
    }
}

#[test]
fn mounts_below_guarded_folders_are_guarded() {
    let guest = Grant { hidden: &["../../"], ..Grant::default() }.guest(own);
    assert!(guest.vfs.preopens().unwrap().iter().all(|(_, name)| name != "/workspace"));
    let guest = Grant { read_only: &[".."], ..Grant::default() }.guest(own);
    assert_eq!(guest.read("/workspace/b/plain").unwrap(), "x");
    assert_eq!(guest.write("/workspace/b/plain", "y").unwrap_err(), Errno::ACCESS);
    assert_eq!(guest.write("/workspace/new", "y").unwrap_err(), Errno::ACCESS);
}

#[test]
fn denials_ignore_case_on_case_insensitive_file_systems() {
    let denials = || Grant {
        deny_read: &["/workspace/secrets/**"],
        deny_write: &["/workspace/*.Lock"],
        hidden: &["own"],
        ..Grant::default()
    };
    let contents = |w: &Path| {
        for file in ["own/x", "SECRETS/key", "Secret\u{17f}/key", "cargo.lock"] {
            fill(w, file, "x");
        }
    };
    let exact = denials().guest(contents);
    assert_eq!(exact.read("/workspace/SECRETS/key").unwrap(), "x");
    exact.write("/workspace/cargo.lock", "y").unwrap();
    let folding = denials().guest(contents);
    let workspace = 2;
    folding.vfs.fold_case(workspace);
    assert_eq!(folding.read("/workspace/SECRETS/key").unwrap_err(), Errno::NOENT);
    assert_eq!(folding.read("/workspace/Secret\u{17f}/key").unwrap_err(), Errno::NOENT);
    assert_eq!(folding.write("/workspace/cargo.lock", "y").unwrap_err(), Errno::ACCESS);
    assert_eq!(folding.read("/workspace/cargo.lock").unwrap(), "x");
    folding.write("/workspace/other", "y").unwrap();
}
