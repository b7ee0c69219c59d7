//! A control group for the clients, so that their work does not count as the server's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folders of groups that share the processor, by the version of control groups.
const FOLDERS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];

/// A group that this process is in. It leaves the group when this value is dropped.
pub(super) struct Group {
    parent: PathBuf,
    folder: PathBuf,
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
        fs::create_dir(&folder)?;
        let group = Group { parent, folder };
        group.enter_folder(&group.folder)?;
        Ok(group)
    }

    fn enter_folder(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("cgroup.procs"), std::process::id().to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Without the right to leave it, the group ends with this process.
        if self.enter_folder(&self.parent).is_ok() {
            drop(fs::remove_dir(&self.folder));
        }
    }
}
