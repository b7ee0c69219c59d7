//! Takes up changes while the process runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use notify::event::{Flag, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::{Catalog, CatalogError};

/// Changes come in numbers: a clone, an editor that saves. They are taken together once none came
/// for so long.
const QUIET: Duration = Duration::from_millis(200);
/// Where they never cease, they are taken up every so often.
const MOST: Duration = Duration::from_secs(2);
/// Paths that are remembered of changes that are taken together.
const PATHS: usize = 10_000;

/// What changed in the catalogue, and in the folders of its skills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The skills that came, went, or say something else of themselves.
    pub skills: Vec<String>,
    /// Files and folders of other skills: the skill's name, and the path in its folder.
    pub files: BTreeSet<(String, String)>,
    /// More changed at once than is told one by one: any file may have.
    pub all: bool,
}

/// As long as it is held, changes are taken up. Dropping it ends that.
pub struct Watch {
    tell: Sender<Notice>,
}

enum Notice {
    Change(Event),
    Stop,
}

/// What came until it was quiet.
#[derive(Default)]
struct Touched {
    paths: BTreeSet<PathBuf>,
    /// Those of them that came or were moved: what a folder held before it was watched is told of
    /// by nobody else.
    came: BTreeSet<PathBuf>,
    all: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A thread that has ended needs no word.
        let _ = self.tell.send(Notice::Stop);
    }
}

impl Catalog {
    /// Looks at the sources again whenever something in them changes, on a thread of its own, and
    /// calls `changed` with what did. It is called on that thread. Files are not read for it: that
    /// one was written is a change.
    ///
    /// # Errors
    /// The system does not tell of changes.
    pub fn watch(&self, changed: impl Fn(Changes) + Send + 'static) -> Result<Watch, CatalogError> {
        let failed = |error: &dyn std::fmt::Display| {
            CatalogError::Index(format!("changes cannot be watched: {error}"))
        };
        let (tell, told) = mpsc::channel();
        let watch = Watch { tell: tell.clone() };
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // What cannot be told may be anything.
            let event = event.unwrap_or_else(|_| Event::default().set_flag(Flag::Rescan));
            // Reading is no change; without this, looking at the folders would tell of itself.
            if !matches!(event.kind, EventKind::Access(_)) {
                // Nobody listens any more: the watcher is about to be dropped.
                let _ = tell.send(Notice::Change(event));
            }
        });
        let mut folders =
            Folders { watcher: watcher.map_err(|error| failed(&error))?, watched: Vec::new() };
        folders.cover(self);
        let catalog = self.clone();
        let follow = move || {
            while let Some(mut touched) = wait(&told) {
                folders.cover(&catalog);
                touched.look_below();
                match catalog.refresh() {
                    Ok(skills) => {
                        let changes = touched.within(&catalog, skills);
                        if changes != Changes::default() {
                            changed(changes);
                        }
                    }
                    Err(error) => tracing::warn!(%error, "the catalogue stays as it was"),
                }
            }
        };
        std::thread::Builder::new()
            .name("catalogue".into())
            .spawn(follow)
            .map_err(|error| failed(&error))?;
        // What changed between the search and the watch.
        self.refresh()?;
        Ok(watch)
    }
}

/// Waits for changes, and until they cease. `None`: nobody wants them any more.
fn wait(told: &Receiver<Notice>) -> Option<Touched> {
    let Ok(Notice::Change(first)) = told.recv() else { return None };
    let mut touched = Touched::default();
    touched.add(first);
    let started = Instant::now();
    while started.elapsed() < MOST {
        match told.recv_timeout(QUIET) {
            Ok(Notice::Change(event)) => touched.add(event),
            Err(RecvTimeoutError::Timeout) => break,
            Ok(Notice::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    Some(touched)
}

impl Touched {
    fn add(&mut self, event: Event) {
        self.all |= event.need_rescan() || self.paths.len() >= PATHS;
        if !self.all {
            if matches!(event.kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_))) {
                self.came.extend(event.paths.iter().cloned());
            }
            self.paths.extend(event.paths);
        }
    }

    /// Adds what is in the folders that came.
    fn look_below(&mut self) {
        let mut came: Vec<PathBuf> = std::mem::take(&mut self.came).into_iter().collect();
        while let Some(path) = came.pop() {
            if self.all || !path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                continue;
            }
            // One that went meanwhile has nothing in it.
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

    /// The same as paths of skills; those of skills that are named already say nothing more.
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
    /// Watches each source; for one that is not there, the nearest folder above it.
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
                    tracing::warn!(folder = %folder.display(), %error, "changes are not noticed")
                }
            }
        }
        // One that went is watched anew when it comes back.
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
    fn what_is_too_much_to_tell_is_anything() {
        let event = |path: String| Event::default().add_path(path.into());
        let mut touched = Touched::default();
        (0..PATHS).for_each(|number| touched.add(event(format!("/{number}"))));
        assert_eq!((touched.paths.len(), touched.all), (PATHS, false));
        touched.add(event("/more".into()));
        assert_eq!((touched.paths.len(), touched.all), (PATHS, true));
        let mut touched = Touched::default();
        touched.add(Event::default().set_flag(Flag::Rescan));
        assert!(touched.all);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
    fn what_is_in_a_folder_that_came_is_told_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [new, other] = ["new", "other"].map(|name| dir.path().join(name));
        std::fs::create_dir_all(new.join("deep")).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::fs::write(new.join("deep/file"), "").unwrap();
        std::fs::write(other.join("file"), "").unwrap();
        std::os::unix::fs::symlink(&other, new.join("link")).unwrap();
        let event = |kind, path: &PathBuf| Event::new(kind).add_path(path.clone());
        let mut touched = Touched::default();
        touched.add(event(EventKind::Create(CreateKind::Folder), &new));
        touched.add(event(EventKind::Modify(ModifyKind::Any), &other));
        touched.look_below();
        let expected =
            [new.clone(), new.join("deep"), new.join("deep/file"), new.join("link"), other];
        assert_eq!((touched.paths, touched.all), (expected.into(), false));
    }
}
