//! `cargo xtask install`: installs the program, its runtimes and the built-in skills where
//! `skillhost` looks for them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use skillhost_toolchain::{Error, Progress, Step, files};

use crate::machine::Machine;
use crate::{components, dependencies, host, print_line, shell, workspace};

/// The runtimes in `target/components`. Each has a manifest, a component and perhaps packages.
const RUNTIMES: [&str; 3] = ["javascript", "python", "shell"];

/// The built-in skills that keep state, and its size.
const STATE: [(&str, &str); 3] =
    [("memory-recall", "16MiB"), ("notes", "16MiB"), ("tasks", "16MiB")];

/// Files of a skill that only its author needs.
const AUTHOR_FILES: [&str; 6] = ["Cargo.toml", "src", "tests", "target", "examples", "__pycache__"];

/// Builds everything and installs it below `prefix`, by default `~/.local`.
pub(crate) fn run(prefix: Option<PathBuf>, progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let default = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    let prefix = prefix
        .or_else(default)
        .ok_or_else(|| Error::new("HOME is not set").help("use `--prefix DIR`"))?;
    components::run(progress)?;
    let built = progress
        .step("build skillhost in release mode", |step| host::build(&root, &Machine::This, step))?;
    let share = prefix.join("share/skillhost");
    let installed = progress.step(&format!("install below {}", prefix.display()), |step| {
        place(&root, &built, &prefix, &Machine::This, step)
    })?;
    progress.step("compile the runtimes", |step| host::compile_runtimes(&installed, step))?;
    let bin = prefix.join("bin");
    print_line(format!(
        "{} is installed, with its runtimes and skills in {}",
        bin.join("skillhost").display(),
        share.display()
    ));
    if !std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder == bin))
    {
        print_line(format!("{} is not on your PATH", bin.display()));
    }
    Ok(())
}

/// Copies the program, the runtimes and the built-in skills below a prefix, and returns the path of
/// the program.
pub(crate) fn place(
    root: &Path,
    built: &Path,
    prefix: &Path,
    machine: &Machine,
    step: &Step,
) -> Result<PathBuf, Error> {
    let share = prefix.join("share/skillhost");
    for name in RUNTIMES {
        copy_runtime(&root.join("target/components"), name, &share)?;
    }
    for entry in fs::read_dir(root.join("skills")).map_err(Error::context("skills"))? {
        let from = entry.map_err(Error::context("skills"))?.path();
        if from.join("SKILL.md").is_file() {
            let name = from.file_name().unwrap_or_default();
            copy_skill(&from, &share.join("skills").join(name))?;
        }
    }
    copy_tree(&root.join("plugins"), &share.join("plugins"), &[])?;
    // The program comes last, so that an installed program finds the rest.
    let installed = prefix.join("bin/skillhost");
    copy_program_to(built, &installed)?;
    list_state(machine, &installed, &share, step)?;
    Ok(installed)
}

/// Writes the list that lets the built-in skills keep state without a policy file. The list names
/// their digests, so a skill that is changed later is not in it.
fn list_state(machine: &Machine, program: &Path, share: &Path, step: &Step) -> Result<(), Error> {
    let mut state = serde_json::Map::new();
    for (skill, size) in STATE {
        let mut show = machine.command(program);
        show.args(["show", skill, "--json", "--skills"]).arg(share.join("skills"));
        // The user's policy and skills must not matter.
        show.env("SKILLHOST_POLICY", "").env("XDG_CONFIG_HOME", share).current_dir(share);
        let shown: serde_json::Value =
            serde_json::from_slice(&step.run(&mut show)?).map_err(Error::context(skill))?;
        let digest = shown["skill_digest"]
            .as_str()
            .ok_or_else(|| Error::new(format!("{skill} has no digest")))?;
        state.insert(digest.to_owned(), size.into());
    }
    let list = serde_json::json!({ "state": state });
    let path = share.join("state.json");
    fs::write(&path, format!("{list:#}\n")).map_err(Error::context(path.display()))
}

/// Checks every dependency, including for advisories, then builds and installs the release files.
pub(crate) fn release(db: &Path, prefix: PathBuf, progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    progress.step("prepare the source of the shell", |step| shell::prepare(&root, step))?;
    crate::javascript::prepare(&root, progress)?;
    dependencies::check(&root, Some(db), progress)?;
    run(Some(prefix), progress)
}

/// Copies a program into the folder `bin` below `prefix` atomically, and returns the path of the
/// copy.
pub(crate) fn copy_program(program: &Path, prefix: &Path) -> Result<PathBuf, Error> {
    let to = prefix.join("bin").join(program.file_name().unwrap_or_default());
    copy_program_to(program, &to)?;
    Ok(to)
}

/// Copies a program to this path atomically.
///
/// A linker writes its output page by page, so the kernel caches it in single pages and maps each
/// page that a start touches separately. A file that is written at once is cached in pieces of up
/// to 2 MiB, which makes a start faster (docs/contribute/start-up.md has the figures). `fs::copy`
/// writes 64 KiB at a time, which loses part of the gain.
fn copy_program_to(program: &Path, to: &Path) -> Result<(), Error> {
    let new = to.with_extension("new");
    let copy = || {
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&new, fs::read(program)?)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        // A running program keeps its old file.
        fs::rename(&new, to)
    };
    copy().map_err(Error::context(to.display()))
}

fn copy_runtime(built: &Path, name: &str, share: &Path) -> Result<(), Error> {
    let path = built.join(format!("{name}.json"));
    // `components` has already reported why the runtime was not built.
    let Ok(text) = fs::read(&path) else { return Ok(()) };
    let manifest: serde_json::Value =
        serde_json::from_slice(&text).map_err(Error::context(path.display()))?;
    if let Some(packages) = manifest["packages"].as_str() {
        copy_tree(&built.join(packages), &share.join(packages), &[])?;
    }
    // The manifest comes last, because it refers to the component.
    for file in [format!("{name}.wasm"), format!("{name}.json")] {
        files::copy_if_changed(&built.join(&file), &share.join(&file))?;
    }
    Ok(())
}

/// Copies a skill without the files that only its author needs.
pub(crate) fn copy_skill(from: &Path, to: &Path) -> Result<(), Error> {
    copy_tree(from, to, &AUTHOR_FILES)
}

/// Copies a folder, except files and folders of the names in `exclude`.
pub(crate) fn copy_tree(from: &Path, to: &Path, exclude: &[&str]) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(Error::context(to.display()))?;
    for entry in fs::read_dir(from).map_err(Error::context(from.display()))? {
        let entry = entry.map_err(Error::context(from.display()))?;
        let name = entry.file_name();
        if exclude.iter().any(|excluded| name == *excluded) {
            continue;
        }
        match entry.path().is_dir() {
            true => copy_tree(&entry.path(), &to.join(&name), exclude)?,
            false => drop(files::copy_if_changed(&entry.path(), &to.join(&name))?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn skills_are_copied_without_sources_and_runtimes_with_packages() {
        let dir = tempfile::tempdir().unwrap();
        let (from, share) = (dir.path().join("from"), dir.path().join("share"));
        for file in [
            "x/SKILL.md",
            "x/x.wasm",
            "x/scripts/a.py",
            "x/Cargo.toml",
            "x/src/lib.rs",
            "x/scripts/tests/t.py",
        ] {
            write(&from.join(file), file);
        }
        copy_skill(&from.join("x"), &share.join("x")).unwrap();
        assert_eq!(fs::read_to_string(share.join("x/scripts/a.py")).unwrap(), "x/scripts/a.py");
        for excluded in ["x/Cargo.toml", "x/src", "x/scripts/tests"] {
            assert!(!share.join(excluded).exists(), "{excluded}");
        }
        write(&from.join("python.json"), r#"{"packages": "some"}"#);
        write(&from.join("python.wasm"), "wasm");
        write(&from.join("some/pkg/tests/data.py"), "part of the package");
        copy_runtime(&from, "python", &share).unwrap();
        copy_runtime(&from, "shell", &share).unwrap();
        assert!(
            share.join("some/pkg/tests/data.py").is_file()
                && share.join("python.wasm").is_file()
                && share.join("python.json").is_file()
        );
        assert!(!share.join("shell.json").exists(), "a runtime that was not built is skipped");
    }

    #[test]
    fn running_program_can_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (built, prefix) = (dir.path().join("sleep"), dir.path().join("prefix"));
        fs::copy("/bin/sleep", &built).unwrap();
        let installed = copy_program(&built, &prefix).unwrap();
        let mut running = std::process::Command::new(&installed).arg("60").spawn().unwrap();
        assert_eq!(copy_program(&built, &prefix).unwrap(), installed);
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(fs::read_dir(prefix.join("bin")).unwrap().count(), 1);
    }
}
