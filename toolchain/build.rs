//! Embeds the guest SDK and its WIT files, so that an installed host can build skills without this
//! repository.

#![expect(clippy::disallowed_methods, reason = "a build script reads sources of the repository")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The folders needed to build a skill. They are embedded side by side, as in the repository.
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
            .expect("writing to a String does not fail");
    }
    table.push(']');
    fs::write(Path::new(&var("OUT_DIR")).join("sdk_files.rs"), table)
}

fn var(name: &str) -> String {
    env::var(name).expect("cargo sets this variable for build scripts")
}

/// Lists the files below `dir`, following symlinks. Leaves out build output and hidden files.
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
        // Each file is watched, not the folder: cargo would notice changes of a target folder in
        // it.
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
