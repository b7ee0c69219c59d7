//! Embeds the guest SDK and its WIT, so that a host that was installed without this repository can
//! build skills.

#![expect(clippy::disallowed_methods, reason = "a build script reads the sources beside it")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The folders that a skill's build needs, beside one another as they are here.
const FOLDERS: [&str; 2] = ["guest-sdk", "wit"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(var("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let mut files = Vec::new();
    for folder in FOLDERS {
        let path = root.join(folder);
        walk(&path, folder, &mut files)?;
    }
    files.sort();
    let mut table = String::from("&[\n");
    for (name, path) in &files {
        writeln!(table, "    ({name:?}, include_bytes!({path:?})),")
            .expect("a String takes every write");
    }
    table.push(']');
    fs::write(Path::new(&var("OUT_DIR")).join("sdk_files.rs"), table)
}

fn var(name: &str) -> String {
    env::var(name).expect("cargo sets it for build scripts")
}

/// Lists the files below `dir`, symlinks followed, without build output and hidden files.
fn walk(dir: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let file_name = entry
            .file_name()
            .into_string()
            .map_err(|n| io::Error::other(format!("{n:?} is not UTF-8")))?;
        if file_name.starts_with('.') || file_name == "target" {
            continue;
        }
        // Not the folder itself, in which cargo would see a target folder change.
        println!("cargo:rerun-if-changed={}", entry.path().display());
        let (path, name) = (entry.path(), format!("{name}/{file_name}"));
        if path.metadata()?.is_dir() {
            walk(&path, &name, files)?;
        } else {
            files.push((name, path));
        }
    }
    Ok(())
}
