//! `cargo xtask components`: builds the guests of this repository, and puts each component in its
//! place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use skillhost_toolchain::{Build, Component, Error, Progress, WasmToolchain, files};

use crate::sources::{self, Sources};
use crate::{javascript, javascript_packages, print_line, python, shell, toolchain, workspace};

/// Builds all components. If the tools for the Python runtime are missing, builds the others, and
/// then reports what is missing.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let python_check = python::check();
    let toolchain = toolchain::get(&root, progress)?;
    for path in build(&root, &toolchain, Guests::All, progress)? {
        let size = path.metadata().map_err(Error::context(path.display()))?.len();
        print_line(format!("{:>9.1} KiB  {}", size as f64 / 1024.0, workspace::name(&root, &path)));
    }
    // What fails here must not prevent the Python runtime from being built.
    let packages = javascript_packages::run(progress);
    match python_check {
        Ok(()) => python::run(progress)?,
        Err(error) => print_line(format!(
            "The Python runtime was not built, so the host cannot run Python scripts:\n{error}"
        )),
    }
    packages
}

/// The workspace of the shell.
const SHELL: &str = "components/shell";

/// The Rust guests to build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guests {
    /// All of them.
    All,
    /// The shell, and the guests in this folder.
    ShellAnd(&'static str),
}

/// Builds Rust guests, and returns the paths of their components: in the skill's folder for skills,
/// else in `target/components`.
pub(crate) fn build(
    root: &Path,
    toolchain: &WasmToolchain,
    guests: Guests,
    progress: &Progress,
) -> Result<Vec<PathBuf>, Error> {
    let target_dir = workspace::guest_target_dir(root);
    let sources = Sources::read(root)?;
    let mut placed = Vec::new();
    progress.step("prepare the source of the shell", |step| shell::prepare(root, step))?;
    for dir in workspace::guests(root) {
        let name = workspace::name(root, &dir);
        let is_javascript = name == javascript::WORKSPACE;
        if is_javascript && guests != Guests::All {
            continue;
        }
        let record = Record::of(root, &name, &sources);
        if let Some(built) = record.built() {
            placed.extend(built);
            continue;
        }
        let part = match guests {
            Guests::ShellAnd(folder) if name != SHELL => Some(folder),
            _ => None,
        };
        let dir = part.map_or(dir, |folder| root.join(folder));
        let args = if is_javascript {
            javascript::prepare(root, progress)?;
            javascript::cargo_args(root)
        } else {
            Vec::new()
        };
        let build = Build { dir: &dir, profile: "release", target_dir: &target_dir, args: &args };
        let step = format!("build components of {}", part.unwrap_or(&name));
        let built = progress.step(&step, |step| toolchain.build(build, step))?;
        let files = built.iter().map(|component| place(root, component, progress));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        if part.is_none() {
            record.write(&files)?;
        }
        placed.extend(files);
    }
    shell::write_manifest(root, &root.join("target/components/shell.wasm"))?;
    if guests == Guests::All {
        javascript::write_manifest(root, &root.join("target/components/javascript.wasm"))?;
    }
    placed.sort();
    Ok(placed)
}

fn place(root: &Path, component: &Component, progress: &Progress) -> Result<PathBuf, Error> {
    let file = format!("{}.wasm", component.name);
    let skill = component.package_dir.join("SKILL.md");
    let to = if skill.is_file() {
        let text = std::fs::read_to_string(&skill).map_err(Error::context(skill.display()))?;
        if !text.contains(&file) {
            let message = format!("{} does not name its component {file}", skill.display());
            return Err(
                Error::new(message).help(format!("add `component: {file}` below `metadata:`"))
            );
        }
        component.package_dir.join(file)
    } else {
        root.join("target/components").join(file)
    };
    if component.name == shell::NAME {
        shell::write_ordered(root, &component.wasm, &to)?;
    } else if component.name == javascript::NAME {
        javascript::write_initialized(root, &component.wasm, &to, progress)?;
    } else {
        files::copy_if_changed(&component.wasm, &to)?;
    }
    Ok(to)
}

/// Folders of the components' sources, and of the programs that build them.
const SOURCES: [&str; 8] =
    ["guests/", "guest-sdk/", "components/", "skills/", "wit/", "xtask/", "tools/", "toolchain/"];

/// The digests of a guest workspace's sources and of the components that were built from them. The
/// workspace is rebuilt if either has changed.
struct Record {
    file: PathBuf,
    sources: String,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Built {
    sources: String,
    components: BTreeMap<PathBuf, String>,
}

impl Record {
    fn of(root: &Path, workspace: &str, sources: &Sources) -> Record {
        Record {
            file: root
                .join("target/xtask")
                .join(workspace.replace('/', "-"))
                .with_extension("json"),
            sources: sources.digest(|path| SOURCES.iter().any(|folder| path.starts_with(folder))),
        }
    }

    /// Returns the components, unless they or their sources have changed.
    fn built(&self) -> Option<Vec<PathBuf>> {
        let built: Built = serde_json::from_slice(&std::fs::read(&self.file).ok()?).ok()?;
        let unchanged = |(path, digest): (&PathBuf, &String)| {
            std::fs::read(path).is_ok_and(|bytes| sources::digest(&bytes) == *digest)
        };
        (built.sources == self.sources && built.components.iter().all(unchanged))
            .then(|| built.components.into_keys().collect())
    }

    fn write(&self, files: &[PathBuf]) -> Result<(), Error> {
        let mut components = BTreeMap::new();
        for path in files {
            let bytes = std::fs::read(path).map_err(Error::context(path.display()))?;
            components.insert(path.clone(), sources::digest(&bytes));
        }
        let built = Built { sources: self.sources.clone(), components };
        let text = serde_json::to_vec_pretty(&built).map_err(Error::context("components"))?;
        files::write_if_changed(&self.file, &text).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_kept_until_their_sources_change() {
        let folder = tempfile::tempdir().unwrap();
        let component = folder.path().join("a.wasm");
        std::fs::write(&component, "component").unwrap();
        let all = ["skills/a.rs", "guest-sdk/a.rs", "host/cli/a.rs"];
        let mut sources = Sources::of("1", all.into_iter().map(|path| (path, "old")));
        let record = |sources: &Sources| Record::of(folder.path(), "skills", sources);
        assert_eq!(record(&sources).built(), None);
        record(&sources).write(std::slice::from_ref(&component)).unwrap();
        sources.change("host/cli/a.rs");
        assert_eq!(record(&sources).built(), Some(vec![component.clone()]));
        std::fs::write(&component, "altered").unwrap();
        assert_eq!(record(&sources).built(), None);
        std::fs::write(&component, "component").unwrap();
        sources.change("guest-sdk/a.rs");
        assert_eq!(record(&sources).built(), None);
    }
}
