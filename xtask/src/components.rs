//! `cargo xtask components`: every guest of this repository, each component in its place.

use std::path::{Path, PathBuf};

use skillhost_toolchain::{Build, Component, Error, Progress, WasmToolchain, files};

use crate::{python, say, shell, toolchain, workspace};

/// Builds them all. Where the Python runtime cannot be built, the others are, and what is missing
/// is said at the end.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let lacking = python::check();
    let toolchain = toolchain::get(&root, progress)?;
    for path in build(&root, &toolchain, progress)? {
        let size = path.metadata().map_err(Error::context(path.display()))?.len();
        say(format!("{:>9.1} KiB  {}", size as f64 / 1024.0, workspace::name(&root, &path)));
    }
    match lacking {
        Ok(()) => python::run(progress),
        Err(why) => {
            say(format!(
                "not built: the Python runtime. The host will have no `python3`, and run no Python scripts.\n{why}"
            ));
            Ok(())
        }
    }
}

/// Builds those of Rust, and returns where they are: a skill's component in the skill's folder, the
/// others in `target/components`.
pub(crate) fn build(
    root: &Path,
    toolchain: &WasmToolchain,
    progress: &Progress,
) -> Result<Vec<PathBuf>, Error> {
    let target_dir = workspace::guest_target_dir(root);
    let mut placed = Vec::new();
    progress.step("prepare the source of the shell", |step| shell::prepare(root, step))?;
    for dir in workspace::guests(root) {
        let build = Build { dir: &dir, profile: "release", target_dir: &target_dir, args: &[] };
        let built = progress
            .step(&format!("build components of {}", workspace::name(root, &dir)), |step| {
                toolchain.build(build, step)
            })?;
        for component in built {
            placed.push(place(root, &component)?);
        }
    }
    shell::describe(root, &root.join("target/components/shell.wasm"))?;
    placed.sort();
    Ok(placed)
}

fn place(root: &Path, component: &Component) -> Result<PathBuf, Error> {
    let file = format!("{}.wasm", component.name);
    let skill = component.package_dir.join("SKILL.md");
    let to = if skill.is_file() {
        let text = std::fs::read_to_string(&skill).map_err(Error::context(skill.display()))?;
        if !text.contains(&file) {
            let what = format!("{} does not name its component {file}", skill.display());
            return Err(Error::new(what).help(format!("`component: {file}` below `metadata:`")));
        }
        component.package_dir.join(file)
    } else {
        root.join("target/components").join(file)
    };
    if component.name == shell::NAME {
        shell::put_in_order(root, &component.wasm, &to)?;
    } else {
        files::copy_if_changed(&component.wasm, &to)?;
    }
    Ok(to)
}
