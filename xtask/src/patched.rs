//! The source of a published crate, with the patches of a component.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use skillhost_toolchain::{Error, Step, TARGET, files};

use crate::shell::hex;
use crate::workspace;

/// What a component takes from a published crate.
pub(crate) struct Patched {
    /// The component: its folder has `upstream/Cargo.lock`.
    pub(crate) component: &'static str,
    /// The folder of the patches, in the component's.
    pub(crate) patches: &'static str,
    /// The crate.
    pub(crate) upstream: &'static str,
    /// The files and folders of the crate, and where they are copied to below target/COMPONENT.
    pub(crate) copied: &'static [(&'static str, &'static str)],
    /// The folder below target/COMPONENT that the patches apply to.
    pub(crate) patched_in: &'static str,
}

impl Patched {
    /// Writes the patched source to target/COMPONENT, unless it is up to date.
    pub(crate) fn prepare(&self, root: &Path, step: &Step) -> Result<(), Error> {
        let dir = root.join("target").join(self.component);
        let patches = self.patches(root)?;
        let source = self.source(root, step)?;
        let stamp = stamp(&source, &patches)?;
        let done = dir.join(format!("{}.stamp", self.patched_in));
        if std::fs::read_to_string(&done).is_ok_and(|old| old == stamp) {
            return Ok(());
        }
        let copy = dir.join(self.patched_in);
        // The stamp goes first: an interrupted run must not leave a partial copy that counts as
        // complete.
        for old in [&done, &copy] {
            workspace::remove(old)?;
        }
        std::fs::create_dir_all(&copy).map_err(Error::context(copy.display()))?;
        for (from, to) in self.copied {
            copy_tree(&source.join(from), &dir.join(to))
                .map_err(Error::context(source.join(from).display()))?;
        }
        // The source keeps its authors' formatting.
        files::write_if_changed(&dir.join("rustfmt.toml"), b"disable_all_formatting = true\n")?;
        for patch in &patches {
            let mut apply = Command::new("git");
            // Hides the repository: inside one, git does not patch files that the repository ignores.
            apply
                .current_dir(&copy)
                .env("GIT_CEILING_DIRECTORIES", &dir)
                .args(["apply", "--whitespace=nowarn"])
                .arg(patch);
            step.run(&mut apply)?;
        }
        std::fs::write(&done, stamp).map_err(Error::context(done.display()))
    }

    /// Returns our patches, sorted by name.
    fn patches(&self, root: &Path) -> Result<Vec<PathBuf>, Error> {
        let dir = root.join("components").join(self.component).join(self.patches);
        let entries = std::fs::read_dir(&dir)
            .and_then(|e| e.map(|e| Ok(e?.path())).collect::<Result<Vec<_>, _>>());
        let mut patches = entries.map_err(Error::context(dir.display()))?;
        patches.retain(|patch| patch.extension().is_some_and(|e| e == "patch"));
        patches.sort();
        Ok(patches)
    }

    /// Returns the folder of the published source, which cargo fetches and checks against
    /// components/COMPONENT/upstream/Cargo.lock.
    fn source(&self, root: &Path, step: &Step) -> Result<PathBuf, Error> {
        let folder = root.join("components").join(self.component).join("upstream");
        let mut cargo = workspace::cargo(&folder);
        let metadata = step.run(cargo.args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            TARGET,
        ]))?;
        let metadata: Value =
            serde_json::from_slice(&metadata).map_err(Error::context("cargo metadata"))?;
        let package = metadata["packages"]
            .as_array()
            .and_then(|all| all.iter().find(|package| package["name"] == self.upstream));
        let manifest = package
            .and_then(|package| package["manifest_path"].as_str())
            .map(Path::new)
            .and_then(Path::parent);
        manifest
            .map(Path::to_owned)
            .ok_or_else(|| Error::new(format!("`cargo metadata` does not list {}", self.upstream)))
    }
}

/// Identifies the source and the patches of the patched copy.
fn stamp(source: &Path, patches: &[PathBuf]) -> Result<String, Error> {
    let mut hash = Sha256::new();
    for patch in patches {
        hash.update(std::fs::read(patch).map_err(Error::context(patch.display()))?);
    }
    Ok(format!("{} {}\n", source.display(), hex(&hash.finalize())))
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return if from.exists() { std::fs::copy(from, to).map(drop) } else { Ok(()) };
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        copy_tree(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
