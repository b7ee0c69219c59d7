//! What is known by device and inode: the host's own folders, those that skills run from, and
//! mounts.
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
fn what_is_the_hosts_own_is_out_of_reach_under_any_name() {
    for mode in [MountMode::Write, MountMode::Overlay] {
        let guest =
            Grant { mode, hidden: &["a/state", "a/policy.yaml"], ..Grant::default() }.guest(own);
        // No rule names these places: the folder and its parent have other names than when the
        // guest was started.
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
            "with what is in it"
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
fn folders_that_skills_run_from_are_read_and_not_written() {
    for mode in [MountMode::Write, MountMode::Overlay] {
        let guest = Grant { mode, fixed: &["x/skills"], ..Grant::default() }
            .guest(|w| fill(w, "x/skills/one/main.py", "print(1)"));
        let path = "/workspace/x/skills/one/main.py";
        assert_eq!(guest.read(path).unwrap(), "print(1)");
        assert_eq!(guest.list("/workspace/x/skills").unwrap(), ["one"]);
        for want in [WRITE, UPDATE, Want { truncate: true, ..READ }] {
            assert_eq!(guest.open(path, want).unwrap_err(), Errno::ACCESS);
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
            guest.denials().iter().any(|denial| denial.contains("no guest writes what runs")),
            "{:?}",
            guest.denials()
        );
    }
}

#[test]
fn a_mount_below_a_guarded_folder_is_guarded() {
    let guest = Grant { hidden: &["../../"], ..Grant::default() }.guest(own);
    assert!(guest.vfs.preopens().unwrap().iter().all(|(_, name)| name != "/workspace"));
    let guest = Grant { fixed: &[".."], ..Grant::default() }.guest(own);
    assert_eq!(guest.read("/workspace/b/plain").unwrap(), "x");
    assert_eq!(guest.write("/workspace/b/plain", "y").unwrap_err(), Errno::ACCESS);
    assert_eq!(guest.write("/workspace/new", "y").unwrap_err(), Errno::ACCESS);
}

#[test]
fn denials_hold_in_any_case_where_the_file_system_folds_it() {
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
