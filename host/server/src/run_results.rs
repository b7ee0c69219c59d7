//! Keeps the results of runs for a while, as `run://` resources: output that is too long for an
//! answer, and the files that were written.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rand::RngExt as _;

use super::folders::Folder;
use skillhost_sandbox::files::read_file;

/// The most runs to keep.
const RUNS: usize = 256;
/// The most bytes of output to keep, of all runs.
const BYTES: usize = 64 << 20;
/// The most bytes of one stream of one run to keep.
pub(super) const STREAM: usize = 16 << 20;
/// The largest file that can be read as a resource, in bytes.
const FILE: u64 = 16 << 20;

/// The latest runs; the oldest are removed first.
#[derive(Default)]
pub(super) struct Runs(Mutex<VecDeque<(String, Arc<RunResults>)>>);

/// The results of one run.
#[derive(Default)]
pub(super) struct RunResults {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// The diff of its staged writes, if it is too long for an answer.
    pub(super) diff: Vec<u8>,
    pub(super) files: Vec<WrittenFile>,
    /// Keeps the session's own folder, as long as its files can be read.
    pub(super) _folder: Option<Arc<Folder>>,
}

/// A file that a run wrote.
pub(super) struct WrittenFile {
    /// Its guest path.
    pub(super) guest: String,
    /// The opened folder of the mount.
    pub(super) dir: Arc<OwnedFd>,
    /// The path in that folder.
    pub(super) path: String,
    /// The size at the end of the run, in bytes.
    pub(super) size: u64,
}

impl Runs {
    /// Keeps the results of a run. The id cannot be guessed: only the client that got it can read
    /// them.
    pub(super) fn keep(&self, id: String, kept: RunResults) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push_back((id, Arc::new(kept)));
        let mut bytes: usize = runs.iter().map(|(_, kept)| kept.bytes()).sum();
        while runs.len() > RUNS || (bytes > BYTES && runs.len() > 1) {
            let oldest = runs.pop_front();
            bytes -= oldest.map_or(0, |(_, kept)| kept.bytes());
        }
    }

    /// Removes everything.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Reads a `run://` resource.
    pub(super) fn read(&self, uri: &str) -> Option<io::Result<Vec<u8>>> {
        let (id, what) = uri.strip_prefix("run://")?.split_once('/')?;
        let kept = {
            let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            runs.iter().find(|(known, _)| known == id)?.1.clone()
        };
        match what {
            "stdout" => Some(Ok(kept.stdout.clone())),
            "stderr" => Some(Ok(kept.stderr.clone())),
            "diff" => Some(Ok(kept.diff.clone())),
            _ => kept
                .files
                .iter()
                .find(|file| file.guest.strip_prefix('/') == what.strip_prefix("files/"))
                .map(WrittenFile::read),
        }
    }
}

/// Returns a new id that cannot be guessed.
pub(super) fn id() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}

impl RunResults {
    fn bytes(&self) -> usize {
        self.stdout.len() + self.stderr.len() + self.diff.len()
    }
}

impl WrittenFile {
    fn read(&self) -> io::Result<Vec<u8>> {
        // A link may have replaced the file, or a folder on the way to it.
        let file = read_file(self.dir.as_fd(), &self.path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() > FILE {
            return Err(io::Error::other("not a file of at most 16 MiB"));
        }
        let mut bytes = Vec::new();
        file.take(FILE).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own folders")]
mod tests {
    use super::*;

    #[test]
    fn files_of_runs_are_not_read_through_links() {
        let made = tempfile::tempdir().unwrap();
        let root = made.path().canonicalize().unwrap();
        for (folder, file) in [("out", "out/x"), ("secrets", "secrets/x")] {
            std::fs::create_dir(root.join(folder)).unwrap();
            std::fs::write(root.join(file), folder).unwrap();
        }
        let dir = Arc::new(skillhost_sandbox::files::open_root(&root).unwrap());
        let runs = Runs::default();
        let file = |path: &str| WrittenFile {
            guest: format!("/workspace/{path}"),
            dir: dir.clone(),
            path: path.into(),
            size: 3,
        };
        runs.keep(
            "a".into(),
            RunResults { files: vec![file("out/x"), file("y")], ..RunResults::default() },
        );
        assert_eq!(runs.read("run://a/files/workspace/out/x").unwrap().unwrap(), b"out");
        std::fs::remove_dir_all(root.join("out")).unwrap();
        std::os::unix::fs::symlink("secrets", root.join("out")).unwrap();
        std::os::unix::fs::symlink("secrets/x", root.join("y")).unwrap();
        for path in ["out/x", "y"] {
            assert!(
                runs.read(&format!("run://a/files/workspace/{path}")).unwrap().is_err(),
                "{path}"
            );
        }
    }

    #[test]
    fn the_oldest_runs_are_removed_first() {
        let runs = Runs::default();
        for number in 0..=RUNS {
            runs.keep(
                number.to_string(),
                RunResults { stdout: vec![b'x'; 10], ..RunResults::default() },
            );
        }
        assert!(runs.read("run://0/stdout").is_none());
        assert_eq!(runs.read("run://1/stdout").unwrap().unwrap().len(), 10);
        for large in ["a", "b"] {
            runs.keep(
                large.into(),
                RunResults { stdout: vec![0; BYTES / 2 + 1], ..RunResults::default() },
            );
        }
        assert!(runs.read("run://a/stdout").is_none() && runs.read("run://256/stdout").is_none());
        assert!(runs.read("run://b/stdout").is_some());
        for nothing in [
            "run://b",
            "run://b/files/x",
            "run://b/../b/stdout",
            "file:///etc/passwd",
            "run:///stdout",
        ] {
            assert!(runs.read(nothing).is_none(), "{nothing}");
        }
    }
}
