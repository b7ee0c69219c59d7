//! The launcher starts programs with what its arguments allow, or not at all.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start programs and write files"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A filter that refuses `unshare` of x86-64 with EPERM: load the number of the call, compare it,
/// allow, refuse.
fn filter() -> Vec<u8> {
    let instructions: [(u16, u8, u8, u32); 4] =
        [(0x20, 0, 0, 0), (0x15, 1, 0, 272), (0x06, 0, 0, 0x7fff_0000), (0x06, 0, 0, 0x0005_0001)];
    let bytes = |(code, jt, jf, k): (u16, u8, u8, u32)| {
        [&code.to_ne_bytes()[..], &[jt, jf], &k.to_ne_bytes()].concat()
    };
    instructions.into_iter().flat_map(bytes).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for name in ["readable", "writable"] {
            std::fs::create_dir(folder.path(name)).unwrap();
        }
        std::fs::write(folder.path("secret"), "secret").unwrap();
        std::fs::write(folder.path("readable/text"), "text").unwrap();
        std::fs::write(folder.path("readable/filter"), filter()).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, filter: &Path, script: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost-bench-confine"));
        command.arg("--seccomp").arg(filter);
        for folder in ["/usr", "/lib", "/lib64", "/bin", "/dev"] {
            command.args(["--read", folder]);
        }
        command.arg("--read").arg(self.path("readable"));
        command.arg("--write").arg(self.path("writable"));
        command.args(["--", "/bin/sh", "-c", script]).current_dir(self.0.path()).output().unwrap()
    }

    /// Returns the output and the errors of a script.
    fn script(&self, script: &str) -> (String, String) {
        let output = self.run(&self.path("readable/filter"), script);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }
}

#[test]
fn only_the_listed_files_can_be_read_and_written() {
    let folder = Folder::new();
    let (read, errors) = folder.script("cat readable/text secret");
    assert_eq!(read, "text", "{errors}");
    assert!(errors.contains("secret: Permission denied"), "{errors}");
    let (_, errors) = folder.script("echo 1 > writable/new; echo 1 > readable/new");
    assert!(errors.contains("readable/new: Permission denied"), "{errors}");
    assert_eq!(std::fs::read_to_string(folder.path("writable/new")).unwrap(), "1\n");
    assert!(!folder.path("readable/new").exists());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn filtered_call_is_refused() {
    let (output, errors) = Folder::new().script("unshare -U true; echo $?");
    assert_eq!(output, "1\n", "{errors}");
    assert!(errors.contains("Operation not permitted"), "{errors}");
}

#[test]
fn program_does_not_start_without_a_whole_filter() {
    let folder = Folder::new();
    std::fs::write(folder.path("readable/part"), &filter()[..12]).unwrap();
    for (filter, error) in [("readable/part", "instructions"), ("secret", "Permission denied")] {
        let output = folder.run(&folder.path(filter), "echo started");
        assert!(output.stdout.is_empty() && !output.status.success());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.starts_with("confine: ") && errors.contains(error), "{errors}");
    }
}
