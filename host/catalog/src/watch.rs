//! Follows changes while the process runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use notify::event::{Flag, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::{Catalog, CatalogError};

/// Changes come in bursts, such as a clone or an editor that saves. A burst ends after this pause.
const QUIET: Duration = Duration::from_millis(200);
/// If changes never stop, they are handled this often.
const MOST: Duration = Duration::from_secs(2);
/// The most paths to remember of one burst.
const PATHS: usize = 10_000;

/// The changes of the catalogue, and in the folders of its skills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The skills that were added, removed or described differently.
    pub skills: Vec<String>,
    /// Changed files and folders of other skills: the skill's name, and the path in its folder.
    pub files: BTreeSet<(String, String)>,
    /// Too much has changed to list: any file may have.
    pub all: bool,
}

/// Follows changes until it is dropped.
pub struct Watch {
    sender: Sender<Notice>,
}

enum Notice {
    Change(Event),
    Stop,
}

/// The changes of one burst.
#[derive(Default)]
struct ChangeBatch {
    paths: BTreeSet<PathBuf>,
    /// Paths that were created or moved. The kernel does not report what a folder contained before
    /// it was watched.
    came: BTreeSet<PathBuf>,
    all: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The thread may have ended already.
        let _ = self.sender.send(Notice::Stop);
    }
}

impl Catalog {
    /// Refreshes the catalogue whenever something in the sources changes, and calls `changed`, both
    /// on a background thread. Does not read files: writing to one counts as a change.
    ///
    /// # Errors
    /// The system cannot watch for changes.
    pub fn watch(&self, changed: impl Fn(Changes) + Send + 'static) -> Result<Watch, CatalogError> {
        let failed = |error: &dyn std::fmt::Display| {
            CatalogError::Index(format!("cannot watch for changes: {error}"))
        };
        let (sender, receiver) = mpsc::channel();
        let watch = Watch { sender: sender.clone() };
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An event that cannot be read may be any change.
            let event = event.unwrap_or_else(|_| Event::default().set_flag(Flag::Rescan));
            // Reading is not a change. Otherwise, looking at the folders would cause events of its
            // own.
            if !matches!(event.kind, EventKind::Access(_)) {
                // The receiver is gone: the watcher is about to be dropped.
                let _ = sender.send(Notice::Change(event));
            }
        });
        let mut folders =
            Folders { watcher: watcher.map_err(|error| failed(&error))?, watched: Vec::new() };
        folders.cover(self);
        // Changes between the search and the watch.
        let missed = Changes { skills: self.refresh()?, ..Changes::default() };
        let catalog = self.clone();
        let follow = move || {
            if missed != Changes::default() {
                changed(missed);
            }
            while let Some(mut touched) = wait(&receiver) {
                folders.cover(&catalog);
                touched.look_below();
                match catalog.refresh() {
                    Ok(skills) => {
                        let changes = touched.within(&catalog, skills);
                        if changes != Changes::default() {
                            changed(changes);
                        }
                    }
                    Err(error) => tracing::warn!(%error, "cannot refresh the catalogue"),
                }
            }
        };
        std::thread::Builder::new()
            .name("catalogue".into())
            .spawn(follow)
            .map_err(|error| failed(&error))?;
        Ok(watch)
    }
}

/// Waits for a burst of changes to end. `None`: the watch was dropped.
fn wait(receiver: &Receiver<Notice>) -> Option<ChangeBatch> {
    let Ok(Notice::Change(first)) = receiver.recv() else { return None };
    let mut touched = ChangeBatch::default();
    touched.add(first);
    let started = Instant::now();
    while started.elapsed() < MOST {
        match receiver.recv_timeout(QUIET) {
            Ok(Notice::Change(event)) => touched.add(event),
            Err(RecvTimeoutError::Timeout) => break,
            Ok(Notice::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    Some(touched)
}

impl ChangeBatch {
    fn add(&mut self, event: Event) {
        self.all |= event.need_rescan() || self.paths.len() >= PATHS;
        if !self.all {
            if matches!(event.kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_))) {
                self.came.extend(event.paths.iter().cloned());
            }
            self.paths.extend(event.paths);
        }
    }

    /// Adds the contents of the folders that were created or moved.
    fn look_below(&mut self) {
        let mut came: Vec<PathBuf> = std::mem::take(&mut self.came).into_iter().collect();
        while let Some(path) = came.pop() {
            if self.all || !path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                continue;
            }
            // A folder that was removed in the meantime is empty.
            #[expect(
                clippy::disallowed_methods,
                reason = "folders below the sources, by the kernel's word"
            )]
            for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
                self.all |= self.paths.len() >= PATHS;
                if self.all {
                    break;
                }
                self.paths.insert(entry.path());
                came.push(entry.path());
            }
        }
    }

    /// Converts the paths to paths in skills. Leaves out skills that are named already.
    fn within(self, catalog: &Catalog, skills: Vec<String>) -> Changes {
        let mut files = BTreeSet::new();
        for path in &self.paths {
            for folder in path.ancestors().skip(1) {
                let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
                    continue;
                };
                let Some(entry) = catalog.get(name).filter(|entry| *entry.folder == *folder) else {
                    continue;
                };
                if let (Ok(below), false) =
                    (path.strip_prefix(folder), skills.iter().any(|skill| *skill == *entry.name))
                {
                    files.insert((entry.name.to_string(), below.to_string_lossy().into_owned()));
                }
            }
        }
        Changes { skills, files, all: self.all }
    }
}

struct Folders {
    watcher: RecommendedWatcher,
    watched: Vec<(PathBuf, RecursiveMode)>,
}

impl Folders {
    /// Watches each source; for a missing one, the nearest existing folder above it.
    fn cover(&mut self, catalog: &Catalog) {
        let wanted: Vec<(PathBuf, RecursiveMode)> =
            catalog.shared.sources.iter().filter_map(|source| place(&source.folder)).collect();
        for (folder, mode) in &wanted {
            if self.watched.contains(&(folder.clone(), *mode)) {
                continue;
            }
            match self.watcher.watch(folder, *mode) {
                Ok(()) => self.watched.push((folder.clone(), *mode)),
                Err(error) => {
                    tracing::warn!(folder = %folder.display(), %error, "cannot watch this folder for changes")
                }
            }
        }
        // A source that was removed is watched again when it returns.
        self.watched.retain(|watched| wanted.contains(watched));
    }
}

fn place(folder: &Path) -> Option<(PathBuf, RecursiveMode)> {
    if folder.is_dir() {
        return Some((folder.to_owned(), RecursiveMode::Recursive));
    }
    let above = folder.ancestors().skip(1).find(|above| above.is_dir())?;
    Some((above.to_owned(), RecursiveMode::NonRecursive))
}

#[cfg(test)]
mod tests {
    use notify::event::CreateKind;

    use super::*;

    #[test]
    fn too_many_changes_are_reported_as_any_change() {
        let event = |path: String| Event::default().add_path(path.into());
        let mut touched = ChangeBatch::default();
        (0..PATHS).for_each(|number| touched.add(event(format!("/{number}"))));
        assert_eq!((touched.paths.len(), touched.all), (PATHS, false));
        touched.add(event("/more".into()));
        assert_eq!((touched.paths.len(), touched.all), (PATHS, true));
        let mut touched = ChangeBatch::default();
        touched.add(Event::default().set_flag(Flag::Rescan));
        assert!(touched.all);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
    fn new_folders_are_reported_with_contents_without_links() {
        let dir = tempfile::tempdir().unwrap();
        let [new, other] = ["new", "other"].map(|name| dir.path().join(name));
        std::fs::create_dir_all(new.join("deep")).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::fs::write(new.join("deep/file"), "").unwrap();
        std::fs::write(other.join("file"), "").unwrap();
        std::os::unix::fs::symlink(&other, new.join("link")).unwrap();
        let event = |kind, path: &PathBuf| Event::new(kind).add_path(path.clone());
        let mut touched = ChangeBatch::default();
        touched.add(event(EventKind::Create(CreateKind::Folder), &new));
        touched.add(event(EventKind::Modify(ModifyKind::Any), &other));
        touched.look_below();
        let expected =
            [new.clone(), new.join("deep"), new.join("deep/file"), new.join("link"), other];
        assert_eq!((touched.paths, touched.all), (expected.into(), false));
    }
}
