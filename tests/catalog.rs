//! The catalogue: where skills are found, which one wins, what the cache stores, and what is
//! reported.

mod cache;
mod commands;
mod identity;
mod labelled;
mod queries;
mod scan;
mod trust;

use std::path::{Path, PathBuf};

use skillhost_catalog::{Catalog, Source, SourceKind};
use tempfile::TempDir;

/// Folders of skills, and a cache folder.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// Creates a skill with that name and description in a folder.
    fn skill(&self, path: &str, description: &str) -> PathBuf {
        write(&self.path(path), &format!("description: {description}\n"), "Instructions.\n")
    }

    fn sources(&self, sources: &[(&str, SourceKind)]) -> Vec<Source> {
        sources.iter().map(|(folder, kind)| Source::new(self.path(folder), *kind)).collect()
    }

    /// Opens a catalogue of one folder of the user.
    fn open(&self, folder: &str) -> Catalog {
        Catalog::open(self.sources(&[(folder, SourceKind::User)]), Some(&self.cache())).unwrap()
    }
}

/// Writes a skill with the name of its folder.
fn write(folder: &Path, frontmatter: &str, body: &str) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    std::fs::write(folder.join("SKILL.md"), format!("---\nname: {name}\n{frontmatter}---\n{body}"))
        .unwrap();
    folder.to_owned()
}

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.entries().iter().map(|entry| entry.name.to_string()).collect()
}
