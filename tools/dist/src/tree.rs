//! The files of a staged installation.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::{self, Error};
use crate::manifest::hex;

/// The folder of the runtimes.
const RUNTIMES: &str = "share/skillhost/";

/// Files with paths relative to the prefix, such as `bin/skillhost`, sorted by path, except that the
/// compiled code of a runtime precedes its component.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) source: PathBuf,
    pub(crate) size: u64,
    pub(crate) is_executable: bool,
}

impl File {
    /// The mode in archives: read by everyone, written by the owner.
    pub(crate) fn mode(&self) -> u32 {
        if self.is_executable { 0o755 } else { 0o644 }
    }
}

impl Tree {
    /// Lists the files below a folder.
    ///
    /// # Errors
    /// There is no program, or an entry that is neither a file nor a folder.
    pub(crate) fn read(folder: &Path) -> Result<Tree, Error> {
        let mut files = Vec::new();
        list(folder, folder, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        put_code_before_components(&mut files)?;
        match files.iter().any(|file| file.path == "bin/skillhost" && file.is_executable) {
            true => Ok(Tree { files }),
            false => Err(Error::new(format!("{} has no program bin/skillhost", folder.display()))),
        }
    }

    /// The sum of the files' sizes, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

/// Moves the code of each component to its component, from which it repeats the content of memory:
/// a compressor then finds both in its window.
fn put_code_before_components(files: &mut Vec<File>) -> Result<(), Error> {
    let runtimes: Vec<String> = files
        .iter()
        .filter(|file| file.path.starts_with(RUNTIMES) && file.path.ends_with(".wasm"))
        .filter(|file| !file.path[RUNTIMES.len()..].contains('/'))
        .map(|file| file.path.clone())
        .collect();
    for runtime in runtimes {
        let find = |files: &[File], path: &str| files.iter().position(|file| file.path == path);
        let Some(component) = find(files, &runtime) else { continue };
        let digest = hex(&error::read(&files[component].source)?);
        let Some(code) = find(files, &format!("{RUNTIMES}compiled/{digest}.cwasm")) else {
            continue;
        };
        let code = files.remove(code);
        let component = find(files, &runtime).unwrap_or(files.len());
        files.insert(component, code);
    }
    Ok(())
}

fn list(root: &Path, folder: &Path, files: &mut Vec<File>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::at(folder.display()))? {
        let source = entry.map_err(Error::at(folder.display()))?.path();
        let meta = fs::symlink_metadata(&source).map_err(Error::at(source.display()))?;
        if meta.is_dir() {
            list(root, &source, files)?;
        } else if meta.is_file() {
            let path = source.strip_prefix(root).unwrap_or(&source);
            let path = path
                .to_str()
                .ok_or_else(|| Error::new(format!("{} is not a UTF-8 path", source.display())))?;
            files.push(File {
                path: path.to_owned(),
                size: meta.len(),
                is_executable: meta.permissions().mode() & 0o100 != 0,
                source,
            });
        } else {
            return Err(Error::new(format!("{} is not a regular file", source.display())));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small installation.
    pub(crate) fn example() -> (tempfile::TempDir, Tree) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text, mode) in [
            ("share/skillhost/skills/x/SKILL.md", "a skill", 0o600),
            ("bin/skillhost", "#!/bin/sh\necho a program\n", 0o755),
            ("share/skillhost/python.json", "{}", 0o644),
        ] {
            let to = dir.path().join(path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(&to, text).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(mode)).unwrap();
        }
        let tree = Tree::read(dir.path()).unwrap();
        (dir, tree)
    }

    #[test]
    fn files_are_sorted_and_readable_by_everyone() {
        let (_dir, tree) = example();
        let listed: Vec<_> = tree.files.iter().map(|f| (f.path.as_str(), f.mode())).collect();
        assert_eq!(
            listed,
            [
                ("bin/skillhost", 0o755),
                ("share/skillhost/python.json", 0o644),
                ("share/skillhost/skills/x/SKILL.md", 0o644),
            ]
        );
    }

    #[test]
    fn compiled_code_precedes_its_component() {
        let (dir, _) = example();
        let share = dir.path().join("share/skillhost");
        fs::create_dir(share.join("compiled")).unwrap();
        for component in ["a", "b"] {
            fs::write(share.join(format!("{component}.wasm")), component).unwrap();
            let code = format!("compiled/{}.cwasm", hex(component.as_bytes()));
            fs::write(share.join(code), "code").unwrap();
        }
        let tree = Tree::read(dir.path()).unwrap();
        let code = |component: &str| {
            format!("share/skillhost/compiled/{}.cwasm", hex(component.as_bytes()))
        };
        let listed: Vec<_> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            listed,
            [
                "bin/skillhost",
                &code("a"),
                "share/skillhost/a.wasm",
                &code("b"),
                "share/skillhost/b.wasm",
                "share/skillhost/python.json",
                "share/skillhost/skills/x/SKILL.md",
            ]
        );
    }

    #[test]
    fn links_and_missing_programs_are_errors() {
        let (dir, _) = example();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("share/link")).unwrap();
        let error = Tree::read(dir.path()).err().unwrap().to_string();
        assert!(error.contains("share/link is not a regular file"), "{error}");
        fs::remove_file(dir.path().join("share/link")).unwrap();
        fs::remove_file(dir.path().join("bin/skillhost")).unwrap();
        let error = Tree::read(dir.path()).err().unwrap().to_string();
        assert!(error.contains("has no program bin/skillhost"), "{error}");
    }
}
