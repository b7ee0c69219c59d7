//! Takes up changes while the process runs.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::{Catalog, CatalogError};

/// Changes come in numbers: a clone, an editor that saves. They are taken together once none came for so long.
const QUIET: Duration = Duration::from_millis(200);
/// Where they never cease, they are taken up every so often.
const MOST: Duration = Duration::from_secs(2);

/// As long as it is held, changes are taken up. Dropping it ends that.
pub struct Watch {
    tell: Sender<Told>,
}

enum Told {
    Change,
    Stop,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A thread that has ended needs no word.
        let _ = self.tell.send(Told::Stop);
    }
}

impl Catalog {
    /// Looks at the sources again whenever something in them changes, on a thread of its own, and calls `changed` with the names of the
    /// skills that came, went or differ. It is called on that thread.
    ///
    /// # Errors
    /// The system does not tell of changes.
    pub fn watch(&self, changed: impl Fn(Vec<String>) + Send + 'static) -> Result<Watch, CatalogError> {
        let failed = |error: &dyn std::fmt::Display| CatalogError::Index(format!("changes cannot be watched: {error}"));
        let (tell, told) = mpsc::channel();
        let watch = Watch { tell: tell.clone() };
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Reading is no change; without this, looking at the folders would tell of itself.
            if !event.as_ref().is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                // Nobody listens any more: the watcher is about to be dropped.
                let _ = tell.send(Told::Change);
            }
        });
        let mut folders = Folders { watcher: watcher.map_err(|error| failed(&error))?, watched: Vec::new() };
        folders.cover(self);
        let catalog = self.clone();
        let follow = move || {
            while wait(&told) {
                folders.cover(&catalog);
                match catalog.refresh() {
                    Ok(names) if names.is_empty() => {}
                    Ok(names) => changed(names),
                    Err(error) => tracing::warn!(%error, "the catalogue stays as it was"),
                }
            }
        };
        std::thread::Builder::new().name("catalogue".into()).spawn(follow).map_err(|error| failed(&error))?;
        // What changed between the search and the watch.
        self.refresh()?;
        Ok(watch)
    }
}

/// Waits for changes, and until they cease. `false`: nobody wants them any more.
fn wait(told: &Receiver<Told>) -> bool {
    let Ok(Told::Change) = told.recv() else { return false };
    let started = Instant::now();
    while started.elapsed() < MOST {
        match told.recv_timeout(QUIET) {
            Ok(Told::Change) => {}
            Err(RecvTimeoutError::Timeout) => break,
            Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    true
}

struct Folders {
    watcher: RecommendedWatcher,
    watched: Vec<(PathBuf, RecursiveMode)>,
}

impl Folders {
    /// Watches each source; for one that is not there, the nearest folder above it.
    fn cover(&mut self, catalog: &Catalog) {
        let wanted: Vec<(PathBuf, RecursiveMode)> = catalog.shared.sources.iter().filter_map(|source| place(&source.folder)).collect();
        for (folder, mode) in &wanted {
            if self.watched.contains(&(folder.clone(), *mode)) {
                continue;
            }
            match self.watcher.watch(folder, *mode) {
                Ok(()) => self.watched.push((folder.clone(), *mode)),
                Err(error) => tracing::warn!(folder = %folder.display(), %error, "changes are not noticed"),
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
