//! Control groups for the clients, so that their work does not count as the server's, nor that of
//! clients that flood the server as that of the others.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folders of groups that share the processor, by the version of control groups.
const FOLDERS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];

/// A group that this process is in, and one for some of its threads. It leaves the group when this value
/// is dropped.
pub(super) struct Group {
    parent: PathBuf,
    folder: PathBuf,
    apart: PathBuf,
}

impl Group {
    /// Enters a new group. The server, which has started, stays in the old one.
    pub(super) fn enter() -> io::Result<Group> {
        let usable = |folder: &&&str| {
            let file = Path::new(folder);
            file.join("cpu.shares").is_file() || file.join("cgroup.controllers").is_file()
        };
        let parent = FOLDERS.iter().find(usable).ok_or(io::ErrorKind::Unsupported)?;
        let parent = PathBuf::from(parent);
        let folder = parent.join(format!("skillhost-bench-{}", std::process::id()));
        let apart = parent.join(format!("skillhost-bench-{}-apart", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Group { parent, folder, apart };
        // Version 2 would need groups of another type for threads.
        if group.parent.join("cpu.shares").is_file() {
            fs::create_dir(&group.apart)?;
        }
        group.enter_folder(&group.folder)?;
        Ok(group)
    }

    /// Moves this thread into the group of its own, if the kernel can separate threads.
    pub(super) fn move_thread_apart(&self) -> io::Result<()> {
        if !self.apart.is_dir() {
            return Ok(());
        }
        // A link to PID/task/TID.
        let thread = fs::read_link("/proc/thread-self")?;
        let thread = thread.file_name().ok_or(io::ErrorKind::InvalidData)?;
        fs::write(self.apart.join("tasks"), thread.as_encoded_bytes())
    }

    /// Returns whether threads have been moved apart.
    pub(super) fn separates_threads(&self) -> bool {
        self.apart.is_dir()
    }

    fn enter_folder(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("cgroup.procs"), std::process::id().to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Without the right to leave it, the group ends with this process.
        if self.enter_folder(&self.parent).is_ok() {
            drop(fs::remove_dir(&self.apart));
            drop(fs::remove_dir(&self.folder));
        }
    }
}
