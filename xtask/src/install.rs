//! `cargo xtask install`: the program, its runtimes and the built-in skills, where `skillhost`
//! looks for them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use skillhost_toolchain::{Error, Progress, files};

use crate::{components, dependencies, host, say, shell, workspace};

/// The runtimes, as `target/components` has them: a manifest, a component, and perhaps packages.
const RUNTIMES: [&str; 2] = ["python", "shell"];

/// What only the author of a skill needs.
const AUTHORS: [&str; 6] = ["Cargo.toml", "src", "tests", "target", "examples", "__pycache__"];

/// Builds all of it and puts it below `prefix`, by default `~/.local`.
pub(crate) fn run(prefix: Option<PathBuf>, progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    let prefix = prefix
        .or_else(home)
        .ok_or_else(|| Error::new("there is no home folder").help("`--prefix DIR`"))?;
    components::run(progress)?;
    let built =
        progress.step("build skillhost in release mode", |step| host::build(&root, step))?;
    let share = prefix.join("share/skillhost");
    progress.step(&format!("install below {}", prefix.display()), |_| {
        for name in RUNTIMES {
            runtime(&root.join("target/components"), name, &share)?;
        }
        for entry in fs::read_dir(root.join("skills")).map_err(Error::context("skills"))? {
            let from = entry.map_err(Error::context("skills"))?.path();
            if from.join("SKILL.md").is_file() {
                skill(&from, &share.join("skills").join(from.file_name().unwrap_or_default()))?;
            }
        }
        // The program last: one that is there finds the rest.
        program(&built, &prefix)
    })?;
    let installed = prefix.join("bin/skillhost");
    progress.step("compile the runtimes", |step| host::compile_runtimes(&installed, step))?;
    let bin = prefix.join("bin");
    say(format!(
        "{} is installed, with its runtimes and skills in {}",
        bin.join("skillhost").display(),
        share.display()
    ));
    if !std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder == bin))
    {
        say(format!("{} is not on your PATH", bin.display()));
    }
    Ok(())
}

/// Builds what is published, once every dependency is checked: without the advisories it is not
/// built.
pub(crate) fn release(db: &Path, prefix: PathBuf, progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    progress.step("prepare the source of the shell", |step| shell::prepare(&root, step))?;
    dependencies::check(&root, Some(db), progress)?;
    run(Some(prefix), progress)
}

/// Puts a copy of a program into the folder `bin` below `prefix`, whole or not at all, and returns
/// it. What a linker has written page by page lies so in the kernel's page cache, and each page
/// that a start touches is mapped by itself: with the copy a small run takes a quarter less time.
/// What is written at once lies there in pieces of up to 2 MiB, and `fs::copy`, which moves 64 KiB
/// at a time, would cost a tenth of it again.
pub(crate) fn program(program: &Path, prefix: &Path) -> Result<PathBuf, Error> {
    let to = prefix.join("bin").join(program.file_name().unwrap_or_default());
    let new = to.with_extension("new");
    let copy = || {
        fs::create_dir_all(prefix.join("bin"))?;
        fs::write(&new, fs::read(program)?)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        // One that runs keeps its file.
        fs::rename(&new, &to)
    };
    copy().map_err(Error::context(to.display()))?;
    Ok(to)
}

fn runtime(built: &Path, name: &str, share: &Path) -> Result<(), Error> {
    let manifest = built.join(format!("{name}.json"));
    // `components` has said why it was not built.
    let Ok(text) = fs::read(&manifest) else { return Ok(()) };
    let facts: serde_json::Value =
        serde_json::from_slice(&text).map_err(Error::context(manifest.display()))?;
    if let Some(packages) = facts["packages"].as_str() {
        tree(&built.join(packages), &share.join(packages), &[])?;
    }
    // The manifest last: it tells of the component.
    for file in [format!("{name}.wasm"), format!("{name}.json")] {
        files::copy_if_changed(&built.join(&file), &share.join(&file))?;
    }
    Ok(())
}

/// Copies a skill without what only its author needs.
pub(crate) fn skill(from: &Path, to: &Path) -> Result<(), Error> {
    tree(from, to, &AUTHORS)
}

pub(crate) fn tree(from: &Path, to: &Path, without: &[&str]) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(Error::context(to.display()))?;
    for entry in fs::read_dir(from).map_err(Error::context(from.display()))? {
        let entry = entry.map_err(Error::context(from.display()))?;
        let name = entry.file_name();
        if without.iter().any(|author| name == *author) {
            continue;
        }
        match entry.path().is_dir() {
            true => tree(&entry.path(), &to.join(&name), without)?,
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
    fn skills_lack_their_source_and_runtimes_have_packages() {
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
        skill(&from.join("x"), &share.join("x")).unwrap();
        assert_eq!(fs::read_to_string(share.join("x/scripts/a.py")).unwrap(), "x/scripts/a.py");
        for author in ["x/Cargo.toml", "x/src", "x/scripts/tests"] {
            assert!(!share.join(author).exists(), "{author}");
        }
        write(&from.join("python.json"), r#"{"packages": "some"}"#);
        write(&from.join("python.wasm"), "wasm");
        write(&from.join("some/pkg/tests/data.py"), "part of the package");
        runtime(&from, "python", &share).unwrap();
        runtime(&from, "shell", &share).unwrap();
        assert!(
            share.join("some/pkg/tests/data.py").is_file()
                && share.join("python.wasm").is_file()
                && share.join("python.json").is_file()
        );
        assert!(!share.join("shell.json").exists(), "what was not built is not there");
    }

    #[test]
    fn an_installed_program_is_replaced_while_it_runs() {
        let dir = tempfile::tempdir().unwrap();
        let (built, prefix) = (dir.path().join("sleep"), dir.path().join("prefix"));
        fs::copy("/bin/sleep", &built).unwrap();
        let installed = program(&built, &prefix).unwrap();
        let mut running = std::process::Command::new(&installed).arg("60").spawn().unwrap();
        assert_eq!(program(&built, &prefix).unwrap(), installed);
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(fs::read_dir(prefix.join("bin")).unwrap().count(), 1);
    }
}
