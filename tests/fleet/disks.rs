//! Small disks for processes of a fleet, which a test fills.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::until;

/// Disks in memory, mounted where only processes of these tests see them. They exist until this value
/// is dropped, also while no process uses them.
pub struct Disks {
    /// Has the namespace of the mounts.
    holder: Child,
    folders: Vec<PathBuf>,
}

impl Disks {
    /// Mounts a disk of so many MiB at each folder. `None` where the kernel refuses mounts.
    pub fn new(folders: &[(PathBuf, u32)]) -> Option<Disks> {
        let mut script = String::from("set -e\n");
        for (folder, mebibytes) in folders {
            std::fs::create_dir_all(folder).unwrap();
            let folder = folder.display();
            script += &format!("mount -t tmpfs -o size={mebibytes}m,mode=700 disk '{folder}'\n");
        }
        let mark = folders.last()?.0.join("mounted");
        script += &format!("touch '{}'\nexec sleep infinity\n", mark.display());
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private"]);
        if !rustix::process::geteuid().is_root() {
            unshare.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        let child = unshare.args(["sh", "-c", &script]).stdin(Stdio::null()).spawn().ok()?;
        let folders = folders.iter().map(|(folder, _)| folder.clone()).collect();
        let mut disks = Disks { holder: child, folders };
        let mut is_refused = false;
        until("the disks are mounted or refused", || {
            is_refused = disks.holder.try_wait().unwrap().is_some();
            is_refused || disks.path(&mark).exists()
        });
        if is_refused {
            return None;
        }
        std::fs::remove_file(disks.path(&mark)).unwrap();
        Some(disks)
    }

    /// Prepares a command that sees the disks.
    pub fn seeing(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["--target", &self.holder.id().to_string(), "--mount"]);
        if !rustix::process::geteuid().is_root() {
            inside.args(["--user", "--preserve-credentials"]);
        }
        if let Some(folder) = command.get_current_dir() {
            inside.arg(format!("--wdns={}", folder.display()));
        }
        inside.arg("--").arg(command.get_program()).args(command.get_args());
        inside.env_clear().env("PATH", "/usr/bin:/bin");
        inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside
    }

    /// Fills a disk.
    pub fn fill(&self, disk: usize) {
        use rustix::fs::{FallocateFlags, fallocate};
        let file = std::fs::File::create(self.filling(disk)).unwrap();
        let mut at = 0;
        // As much as there is, while others write.
        for part in [64 << 20, 1 << 20, 4 << 10] {
            while fallocate(&file, FallocateFlags::empty(), at, part).is_ok() {
                at += part;
            }
        }
    }

    /// Frees what [`Disks::fill`] has used.
    pub fn free(&self, disk: usize) {
        std::fs::remove_file(self.filling(disk)).unwrap();
    }

    fn filling(&self, disk: usize) -> PathBuf {
        self.path(&self.folders[disk]).join("filling")
    }

    /// Where this process finds a file of the disks.
    fn path(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(path.strip_prefix("/").unwrap())
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}
