//! Builds a root file system for the sandboxes that need one. It has only the machine's own Python
//! and shell, and Node.js, with their libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::Error;

use crate::measure;
use crate::place::Place;

/// The path of the native data-convert in the root.
pub(crate) const CONVERTER: &str = "/usr/bin/data-convert";

/// The programs in /usr/bin that the pipeline starts.
const PROGRAMS: [&str; 5] = ["grep", "awk", "sort", "uniq", "env"];

/// The parts of Python's standard library that slim images leave out.
const EXCLUDED: [&str; 4] = ["test", "site-packages", "idlelib", "tkinter"];

/// A root file system.
pub(crate) struct Root {
    pub(crate) folder: PathBuf,
}

impl Root {
    pub(crate) fn build(place: &Place) -> Result<Root, Error> {
        let root = Root { folder: place.folder.join("root") };
        if root.folder.exists() {
            fs::remove_dir_all(&root.folder).map_err(Error::context(root.folder.display()))?;
        }
        for folder in ["proc", "dev", "tmp", "sys", "etc", "skill", "workspace"] {
            let folder = root.folder.join(folder);
            fs::create_dir_all(&folder).map_err(Error::context(folder.display()))?;
        }
        let stdlib = measure::output(
            Command::new(&place.python)
                .args(["-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]),
        )?;
        let stdlib = Path::new(stdlib.trim());
        root.copy_tree(stdlib)?;
        let programs = [PathBuf::from("/bin/bash"), place.python.clone(), place.node.clone()];
        let mut files = BTreeSet::from(programs);
        files.extend(PROGRAMS.map(|program| Path::new("/usr/bin").join(program)));
        let loaded = fs::read_dir(stdlib.join("lib-dynload")).into_iter().flatten().flatten();
        let linked = files.iter().cloned().chain(loaded.map(|entry| entry.path()));
        let linked = linked.chain([place.converter.clone()]).collect::<Vec<_>>();
        files.extend(linked.iter().flat_map(|path| libraries(path)));
        files.iter().try_for_each(|path| root.copy(path, path))?;
        root.copy(&place.converter, Path::new(CONVERTER))?;
        Ok(root)
    }

    pub(crate) fn bytes(&self) -> u64 {
        bytes_below(&self.folder)
    }

    /// Copies a folder with its modification times, because compiled modules are valid only for
    /// sources with the same time.
    fn copy_tree(&self, from: &Path) -> Result<(), Error> {
        let parent = self.at(from.parent().unwrap_or(from));
        fs::create_dir_all(&parent).map_err(Error::context(parent.display()))?;
        measure::output(Command::new("cp").arg("-a").arg(from).arg(&parent))?;
        let excluded = EXCLUDED.iter().map(|name| self.at(from).join(name));
        for folder in excluded.filter(|folder| folder.is_dir()) {
            fs::remove_dir_all(&folder).map_err(Error::context(folder.display()))?;
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let to = self.at(to);
        let parent = to.parent().unwrap_or(&to);
        fs::create_dir_all(parent).map_err(Error::context(parent.display()))?;
        fs::copy(from, &to).map(drop).map_err(Error::context(from.display()))
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.folder.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// Returns the libraries of a program or library, as `ldd` lists them, or none if it is static.
fn libraries(path: &Path) -> Vec<PathBuf> {
    let listed = measure::output(Command::new("ldd").arg(path)).unwrap_or_default();
    let library = |line: &str| {
        let line = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
        let path = line.split(" (").next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    listed.lines().filter_map(library).collect()
}

/// Returns the total size of the files below a folder, without symlinks.
pub(crate) fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    };
    entries.map(bytes).sum()
}
