//! The programs that come with the host: components in a folder of the operator's, each described
//! by a JSON file beside it.
//!
//! Nothing is read until a run needs one of them. Then the JSON files are read, which are small;
//! the component itself only when it has to be compiled: that it is still the file whose digest the
//! JSON names, a stamp in the cache folder says.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_std::fs::Dir;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::custom::Runtimes;
use super::stamp::{self, Stamp, file_digest};
use super::{Component, Source, digest};
use skillhost_policy::limits::Limit;

/// Where the built-in programs are, and where their stamps are kept.
#[derive(Debug, Clone, Default)]
pub struct BuiltIns {
    /// The folders, first come first served; one that is not there holds none.
    pub folders: Vec<PathBuf>,
    /// The cache folder, which only the host writes.
    pub cache: PathBuf,
    /// What an embedder adds to them.
    pub custom: Runtimes,
}

/// A program that comes with the host.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    /// What its JSON file says.
    pub description: ProgramDescription,
    /// The stack that it needs, in bytes; 0 where it does not say.
    pub stack: u64,
    /// The folder that it is in.
    pub folder: PathBuf,
    /// The name of its JSON file in that folder.
    pub file: String,
    cache: PathBuf,
    /// That its component is what its JSON file says; once a process.
    vouched: OnceLock<()>,
    opened: OnceLock<Arc<Dir>>,
}

/// The JSON file of a built-in program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramDescription {
    /// What it is called, such as `python`.
    pub name: String,
    /// The version of what it is.
    pub version: String,
    /// The commands that it answers to, such as `python3` and `python`.
    pub programs: Vec<String>,
    /// The component, a file in the same folder.
    pub wasm: String,
    /// Bytes of the component.
    pub size: u64,
    /// Its digest, `sha256:` and 64 hex digits.
    pub digest: String,
    /// What it needs of the limits that hold for it.
    #[serde(default)]
    pub limits: ProgramLimits,
    /// A folder beside it with packages that come with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<String>,
}

/// What a built-in program needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramLimits {
    /// Its stack, written as in a policy: `32MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
}

/// A program that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProgramError {
    /// What is wrong, and in which file.
    pub message: String,
    /// What would mend it.
    pub fix: Option<String>,
}

/// What builds the programs, as people type it.
pub const BUILD_COMMAND: &str = "cargo xtask components";

/// The programs that a host is expected to have, and their first commands.
pub const EXPECTED_PROGRAMS: [(&str, &[&str]); 2] =
    [("python", &["python3", "python"]), ("shell", &["bash", "sh"])];

/// Bytes of a JSON file: far more than one needs.
const DESCRIPTION_MAX: u64 = 64 << 10;

impl BuiltIns {
    /// Reads the JSON files of all folders, by name. A JSON file without `programs` describes
    /// something else.
    ///
    /// # Errors
    /// A folder or a file that cannot be read, or is not what it should be: nothing is left out in
    /// silence.
    pub fn list(&self) -> Result<Vec<BuiltIn>, ProgramError> {
        let mut found: Vec<BuiltIn> = Vec::new();
        for path in &self.folders {
            let folder = match open_folder(path) {
                Ok(folder) => folder,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(broken(path, format!("the folder cannot be opened: {error}")));
                }
            };
            for file in json_files(&folder)
                .map_err(|error| broken(path, format!("the folder cannot be read: {error}")))?
            {
                let here = || path.join(&file);
                let text = read(&folder, &file, DESCRIPTION_MAX)
                    .map_err(|error| broken(&here(), error.to_string()))?;
                let Some(description) =
                    ProgramDescription::parse(&text).map_err(|message| broken(&here(), message))?
                else {
                    continue;
                };
                let stack = description.stack().map_err(|message| broken(&here(), message))?;
                if found.iter().all(|other| other.description.name != description.name) {
                    found.push(BuiltIn {
                        description,
                        stack,
                        folder: path.clone(),
                        file,
                        cache: self.cache.clone(),
                        vouched: OnceLock::new(),
                        opened: OnceLock::new(),
                    });
                }
            }
        }
        Ok(found)
    }
}

impl ProgramDescription {
    /// Reads a JSON file; `None` where it describes no program.
    fn parse(text: &[u8]) -> Result<Option<ProgramDescription>, String> {
        let description: ProgramDescription = match serde_json::from_slice(text) {
            Ok(description) => description,
            Err(error) => {
                // Not as a struct: one is read from a list too.
                let of_a_program: Result<BTreeMap<String, IgnoredAny>, _> =
                    serde_json::from_slice(text);
                let of_a_program = of_a_program.map(|entries| entries.contains_key("programs"));
                return match of_a_program {
                    Ok(true) => Err(error.to_string()),
                    Ok(false) => Ok(None),
                    // A list, or a word: or no JSON at all.
                    Err(_) => match serde_json::from_slice(text) {
                        Ok(IgnoredAny) => Ok(None),
                        Err(other) => Err(format!("this is not valid JSON: {other}")),
                    },
                };
            }
        };
        let plain = |name: &str| {
            !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
        };
        if description.programs.is_empty()
            || !description
                .programs
                .iter()
                .chain([&description.name, &description.wasm])
                .chain(&description.packages)
                .all(|n| plain(n))
        {
            return Err("`name`, `programs`, `wasm` and `packages` are plain names".into());
        }
        let hex = description.digest.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            return Err("`digest` is `sha256:` and 64 hex digits".into());
        }
        Ok(Some(description))
    }

    fn stack(&self) -> Result<u64, String> {
        self.limits.stack.as_deref().map_or(Ok(0), |text| {
            Limit::Stack.parse(text).map_err(|error| format!("`limits.stack`: {error}"))
        })
    }
}

impl BuiltIn {
    /// The component. Reads it only where no stamp vouches for it.
    ///
    /// # Errors
    /// It is not there, or not the file that the JSON describes.
    pub fn component(self: &Arc<Self>) -> Result<Component, ProgramError> {
        if self.vouched.get().is_none() {
            self.vouch()?;
            // Whoever else came to the same end meanwhile has said so.
            let _ = self.vouched.set(());
        }
        Ok(Component {
            digest: self.description.digest.clone(),
            source: Source::BuiltIn(self.clone()),
        })
    }

    fn vouch(&self) -> Result<(), ProgramError> {
        let path = self.wasm();
        let wrong = |message: String| broken(&path, message);
        let file = self.open().map_err(|error| self.unreadable(&error))?;
        let stat = rustix::fs::fstat(&file).map_err(|error| wrong(error.to_string()))?;
        if u64::try_from(stat.st_size) != Ok(self.description.size) {
            return Err(wrong(format!(
                "it has {} bytes, and {} says {}",
                stat.st_size, self.file, self.description.size
            )));
        }
        let cache = stamp::open_cache_folder(&self.cache)
            .map_err(|error| wrong(format!("the cache is not usable: {error}")))?;
        let name =
            format!("{}.program", &digest(path.as_os_str().as_encoded_bytes())["sha256:".len()..]);
        let known = Stamp::read(&cache, &name).filter(|stamp| {
            *stamp == Stamp::of(&stat, stamp.digest.clone()) && stamp::has_reliable_ctime(&file)
        });
        let found = match known {
            Some(stamp) => stamp.digest,
            None => {
                let found = file_digest(&file)
                    .map_err(|error| wrong(format!("it cannot be read: {error}")))?;
                if let Err(error) = Stamp::of(&stat, found.clone()).write(&cache, &name) {
                    tracing::debug!(%error, "no stamp was written; the next run computes the digest again");
                }
                found
            }
        };
        self.check(&found)
    }

    /// The component's bytes, checked against the digest.
    pub(super) fn bytes(&self) -> io::Result<Arc<[u8]>> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.description.size).unwrap_or(0));
        self.open()?.take(self.description.size + 1).read_to_end(&mut bytes)?;
        let found = digest(&bytes);
        self.check(&found["sha256:".len()..]).map_err(|error| io::Error::other(error.message))?;
        Ok(bytes.into())
    }

    /// The folder of packages that comes with it, opened; with the guest path where it is expected.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    pub fn packages(&self) -> Result<Option<(String, Arc<Dir>)>, ProgramError> {
        let Some(name) = &self.description.packages else { return Ok(None) };
        let series: Vec<&str> = self.description.version.split('.').take(2).collect();
        let guest = format!("/usr/lib/{}{}/site-packages", self.description.name, series.join("."));
        if let Some(folder) = self.opened.get() {
            return Ok(Some((guest, folder.clone())));
        }
        match open_folder(&self.folder).and_then(|folder| folder.open_dir(name)) {
            Ok(folder) => Ok(Some((guest, self.opened.get_or_init(|| Arc::new(folder)).clone()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(broken(
                &self.folder.join(name),
                format!("the folder cannot be opened: {error}"),
            )),
        }
    }

    /// The packages that come with it, such as `requests 2.32.5`, as far as they say so themselves;
    /// `None` where there is no folder of them.
    ///
    /// # Errors
    /// The folder is there and cannot be read.
    pub fn package_names(&self) -> Result<Option<Vec<String>>, ProgramError> {
        let Some((_, folder)) = self.packages()? else { return Ok(None) };
        let wrong = |error: io::Error| {
            broken(&self.folder, format!("the packages cannot be listed: {error}"))
        };
        let names = folder
            .entries()
            .and_then(|all| all.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>())
            .map_err(wrong)?;
        let named = |name: std::ffi::OsString| {
            Some(name.to_str()?.strip_suffix(".dist-info")?.replacen('-', " ", 1))
        };
        let mut names: Vec<String> = names.into_iter().filter_map(named).collect();
        names.sort();
        Ok(Some(names))
    }

    /// Where its component is.
    pub fn wasm(&self) -> PathBuf {
        self.folder.join(&self.description.wasm)
    }

    fn open(&self) -> io::Result<std::fs::File> {
        let file = open_folder(&self.folder)?.open(&self.description.wasm)?.into_std();
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("it is no regular file"))
        }
    }

    fn unreadable(&self, error: &io::Error) -> ProgramError {
        let message = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("{} is missing, which {} describes", self.wasm().display(), self.file)
            }
            _ => format!("{}: it cannot be opened: {error}", self.wasm().display()),
        };
        ProgramError { message, fix: Some(format!("build it: `{BUILD_COMMAND}`")) }
    }

    fn check(&self, found: &str) -> Result<(), ProgramError> {
        if self.description.digest.strip_prefix("sha256:") == Some(found) {
            return Ok(());
        }
        Err(broken(
            &self.wasm(),
            format!(
                "its digest is sha256:{found}, and {} says {}",
                self.file, self.description.digest
            ),
        ))
    }
}

fn open_folder(path: &Path) -> io::Result<Dir> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the folder of built-in programs is the operator's"
    )]
    Dir::open_ambient_dir(path, cap_std::ambient_authority())
}

/// The names of a folder's JSON files, sorted. One that is not UTF-8 is none of ours.
fn json_files(folder: &Dir) -> io::Result<Vec<String>> {
    let names =
        folder.entries()?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    let mut names = names.collect::<io::Result<Vec<String>>>()?;
    names.retain(|name| name.ends_with(".json") && !name.starts_with('.'));
    names.sort();
    Ok(names)
}

fn read(folder: &Dir, file: &str, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    folder.open(file)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(io::Error::other("it is too large")) } else { Ok(bytes) }
}

fn broken(path: &Path, message: String) -> ProgramError {
    ProgramError {
        message: format!("{}: {message}", path.display()),
        fix: Some(format!("build the programs again: `{BUILD_COMMAND}`")),
    }
}
