//! Digests of the repository's files. They decide what is rebuilt and retested. Modification times
//! would not do, because they change with every checkout.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use sha2::{Digest as _, Sha256};
use skillhost_toolchain::Error;

/// The files that git tracks or would track, with their digests, and the compiler's version.
pub(crate) struct Sources {
    compiler: String,
    files: BTreeMap<String, String>,
}

impl Sources {
    pub(crate) fn read(root: &Path) -> Result<Sources, Error> {
        let compiler = output(Command::new("rustc").arg("-vV"))?;
        let listed = output(Command::new("git").current_dir(root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut files = BTreeMap::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            // A file that was deleted is still listed until the deletion is committed.
            if let Ok(bytes) = std::fs::read(root.join(path)) {
                files.insert(path.to_owned(), digest(&bytes));
            }
        }
        Ok(Sources { compiler, files })
    }

    /// Returns one digest of the compiler's version and of all files whose path, relative to the
    /// repository, is among the inputs.
    pub(crate) fn digest(&self, is_input: impl Fn(&str) -> bool) -> String {
        let mut text = self.compiler.clone();
        for (path, digest) in self.files.iter().filter(|(path, _)| is_input(path)) {
            text += &format!("{path}\0{digest}\n");
        }
        digest(text.as_bytes())
    }

    #[cfg(test)]
    pub(crate) fn of<'a>(
        compiler: &str,
        files: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Sources {
        let files = files.map(|(path, digest)| (path.to_owned(), digest.to_owned()));
        Sources { compiler: compiler.to_owned(), files: files.collect() }
    }

    #[cfg(test)]
    pub(crate) fn change(&mut self, path: &str) {
        self.files.insert(path.to_owned(), "changed".to_owned());
    }
}

/// Returns the SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a command and returns its stdout.
///
/// # Errors
/// Returns an error if the command cannot be started, fails, or prints invalid UTF-8.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let done = command.output().map_err(Error::context(format!("{command:?}")))?;
    if !done.status.success() {
        return Err(Error::new(String::from_utf8_lossy(&done.stderr).trim()));
    }
    String::from_utf8(done.stdout).map_err(Error::context(format!("{command:?}")))
}
