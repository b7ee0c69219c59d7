//! Session folders. Requests without a session share those that no run has changed: creating and
//! removing a folder can take longer than a small run.
//!
//! A folder also keeps the skill that was last loaded for it, since the grant names the folder.
//! Loading the skill again is skipped if that would give the same skill.

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cap_std::fs::Dir;

use skillhost::invoke::LoadedSkill;
use skillhost_policy::Policy;
use skillhost_policy::outcome::Outcome;
use skillhost_skill::SkillFolder;
use skillhost_skill::private::{Purpose, TempFolder};

/// The most unused folders. Each has three open files, its own and two of its skill, and a process
/// may usually have 1,024.
const IDLE: usize = 64;

/// Creates session folders, and keeps unused ones.
pub(super) struct Folders {
    /// Where folders are created.
    within: PathBuf,
    /// The unused folders, the least recently used first; `None` once the server is closed.
    idle: Mutex<Option<Vec<Arc<OwnFolder>>>>,
}

/// A session's own folder, which exists as long as the session and the results of its runs.
pub(super) struct Folder {
    own: Arc<OwnFolder>,
    /// Runs that have not ended. If a run is dropped, its programs may write for a moment longer.
    unfinished: AtomicUsize,
    /// Where the folder goes after use; `None` if it is removed.
    pool: Option<Arc<Folders>>,
}

struct OwnFolder {
    made: TempFolder,
    /// The server's policy with this folder as the workspace.
    policy: OnceLock<Arc<Policy>>,
    loaded: Mutex<Option<Arc<LoadedSkill>>>,
}

impl Folders {
    pub(super) fn new(within: PathBuf) -> Folders {
        Folders { within, idle: Mutex::new(Some(Vec::new())) }
    }

    /// Creates a folder for a session. It is removed after use.
    ///
    /// # Errors
    /// The file system fails.
    pub(super) fn create(&self) -> io::Result<Folder> {
        Ok(Folder {
            own: Arc::new(OwnFolder::new(&self.within)?),
            unfinished: AtomicUsize::new(0),
            pool: None,
        })
    }

    /// Returns a folder for a run of a skill without a session: an unused one, or a new one.
    ///
    /// # Errors
    /// The file system fails.
    pub(super) fn take(self: &Arc<Folders>, skill: SkillFolder<'_>) -> io::Result<Folder> {
        // Another process of this user may have changed it in the meantime.
        let unused = self.unused(skill).filter(|own| own.made.is_pristine());
        let own = match unused {
            Some(own) => own,
            None => Arc::new(OwnFolder::new(&self.within)?),
        };
        Ok(Folder { own, unfinished: AtomicUsize::new(0), pool: Some(self.clone()) })
    }

    /// Takes an unused folder, preferably one for which the skill was loaded.
    fn unused(&self, skill: SkillFolder<'_>) -> Option<Arc<OwnFolder>> {
        let mut idle = self.idle();
        let idle = idle.as_mut()?;
        let at = idle.iter().rposition(|own| own.is_for(skill));
        let at = at.or_else(|| idle.iter().rposition(|own| own.loaded().is_none()));
        // Until there are many, skills that take turns each get their own.
        let at = at.or((idle.len() >= IDLE).then_some(0))?;
        Some(idle.remove(at))
    }

    fn put(&self, own: Arc<OwnFolder>) {
        let excess = {
            let mut idle = self.idle();
            let Some(idle) = idle.as_mut() else { return };
            idle.push(own);
            (idle.len() > IDLE).then(|| idle.remove(0))
        };
        // Without the lock, because removing a folder may take long.
        drop(excess);
    }

    /// Removes the unused folders, and keeps no more.
    pub(super) fn close(&self) {
        drop(self.idle().take());
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Arc<OwnFolder>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnFolder {
    fn new(within: &Path) -> io::Result<OwnFolder> {
        let made = TempFolder::new_in(within, Purpose::Session)?;
        Ok(OwnFolder { made, policy: OnceLock::new(), loaded: Mutex::default() })
    }

    /// Checks whether the skill that was last loaded for this folder had this path.
    fn is_for(&self, skill: SkillFolder<'_>) -> bool {
        self.loaded().as_ref().is_some_and(|loaded| *loaded.skill.root == *skill.path)
    }

    fn loaded(&self) -> MutexGuard<'_, Option<Arc<LoadedSkill>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folder {
    pub(super) fn path(&self) -> &Path {
        self.own.made.path()
    }

    /// Returns the server's policy with this folder as the workspace, which `make` creates.
    pub(super) fn policy(
        &self,
        make: impl FnOnce(&Path) -> Result<Policy, String>,
    ) -> Result<Arc<Policy>, String> {
        if let Some(policy) = self.own.policy.get() {
            return Ok(policy.clone());
        }
        let policy = Arc::new(make(self.path())?);
        Ok(self.own.policy.get_or_init(|| policy).clone())
    }

    /// Returns the skill in a folder as it was last loaded for this workspace, if loading it again
    /// would give the same.
    pub(super) fn loaded(&self, skill: SkillFolder<'_>) -> Option<Arc<LoadedSkill>> {
        let loaded = self.own.loaded().clone()?;
        if loaded.is_at(skill) {
            return Some(loaded);
        }
        self.own.loaded().take();
        None
    }

    /// Keeps a loaded skill for the next run.
    pub(super) fn keep_loaded(&self, loaded: LoadedSkill) {
        *self.own.loaded() = Some(Arc::new(loaded));
    }

    /// Notes that a run begins.
    pub(super) fn begin(&self) {
        self.unfinished.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a run has ended. Programs that it started are stopped at their next await, which
    /// may come later, so a folder with such a run is not used again.
    pub(super) fn end(&self, outcome: &Outcome) {
        if outcome.processes.is_empty() && outcome.processes_omitted == 0 {
            self.unfinished.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Removes the folder after use, although it is unchanged.
    pub(super) fn discard(&self) {
        self.begin();
    }

    /// Closes the skill that was loaded for a request without a session. Its results keep the
    /// folder, and the skill's open folders would add up.
    pub(super) fn unload(&self) {
        if self.pool.is_some() {
            self.own.loaded().take();
        }
    }

    fn dir(&self) -> io::Result<Dir> {
        Ok(Dir::from_std_file(self.own.made.as_fd().try_clone_to_owned()?.into()))
    }

    /// Writes a file. The path is resolved below an opened folder, whatever links a guest has
    /// created.
    pub(super) fn put(&self, path: &str, text: &str) -> io::Result<()> {
        let path = Path::new(path.strip_prefix("/workspace/").unwrap_or(path));
        if !path.components().all(|part| matches!(part, Component::Normal(_)))
            || path.as_os_str().is_empty()
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a path inside /workspace",
            ));
        }
        let dir = self.dir()?;
        if let Some(parent) = path.parent() {
            dir.create_dir_all(parent)?;
        }
        dir.write(path, text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool
            && *self.unfinished.get_mut() == 0
            && self.own.made.is_pristine()
        {
            pool.put(self.own.clone());
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;
    use skillhost_skill::SourceKind;

    const SKILL: &str = "/skills/one";

    fn skill() -> SkillFolder<'static> {
        SkillFolder::new(Path::new(SKILL), SourceKind::Policy)
    }

    fn folders(scratch: &Path) -> Arc<Folders> {
        Arc::new(Folders::new(scratch.to_owned()))
    }

    fn idle(folders: &Folders) -> usize {
        folders.idle().as_ref().map_or(0, Vec::len)
    }

    #[test]
    fn files_stay_in_the_session_folder() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folders::new(scratch.path().to_owned()).create().unwrap();
        std::os::unix::fs::symlink("/tmp", folder.path().join("out")).unwrap();
        for bad in ["", "/etc/x", "../x", "a/../../x", "./x", "out/escaped"] {
            assert!(folder.put(bad, "x").is_err(), "{bad}");
        }
        folder.put("/workspace/a/b.txt", "text").unwrap();
        assert_eq!(folder.dir().unwrap().read_to_string("a/b.txt").unwrap(), "text");
    }

    #[test]
    fn only_unchanged_folders_of_ended_runs_are_reused() {
        let scratch = tempfile::tempdir().unwrap();
        let folders = folders(scratch.path());
        let unchanged = folders.take(skill()).unwrap();
        unchanged.begin();
        unchanged.end(&Outcome::default());
        drop(unchanged);
        assert_eq!(idle(&folders), 1);
        let with_children = folders.take(skill()).unwrap();
        with_children.begin();
        with_children.end(&Outcome { processes_omitted: 1, ..Outcome::default() });
        drop(with_children);
        assert_eq!(idle(&folders), 0);
        let discarded = folders.take(skill()).unwrap();
        discarded.discard();
        drop(discarded);
        let dropped = folders.take(skill()).unwrap();
        assert_eq!(idle(&folders), 0);
        dropped.begin();
        drop(dropped);
        let changed = folders.take(skill()).unwrap();
        changed.put("x", "text").unwrap();
        drop(changed);
        drop(folders.create().unwrap());
        assert_eq!(idle(&folders), 0);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn unused_folder_that_was_changed_is_not_taken() {
        let scratch = tempfile::tempdir().unwrap();
        let folders = folders(scratch.path());
        let many: Vec<Folder> = (0..IDLE + 2).map(|_| folders.take(skill()).unwrap()).collect();
        drop(many);
        assert_eq!(idle(&folders), IDLE, "the others are removed");
        let next = folders.idle().as_ref().unwrap().last().unwrap().made.path().to_owned();
        std::fs::write(next.join("planted"), "text").unwrap();
        let taken = folders.take(skill()).unwrap();
        assert!(taken.path() != next && !next.exists());
    }

    #[test]
    fn closed_server_leaves_no_session_folders() {
        let scratch = tempfile::tempdir().unwrap();
        let folders = folders(scratch.path());
        let (one, other) = (folders.take(skill()).unwrap(), folders.take(skill()).unwrap());
        drop(one);
        folders.close();
        drop(other);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
