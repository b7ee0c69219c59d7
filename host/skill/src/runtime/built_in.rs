//! Built-in programs: components in folders of the operator, each with a JSON file that describes
//! it.
//!
//! Nothing is read until a run needs a program. Then the small JSON files are read. A component is
//! read only to compile it, and then must have the digest in its JSON file. Compiled code is kept
//! by that digest, so what runs is what the JSON file names.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_std::fs::Dir;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::custom::Runtimes;
use super::stamp::file_digest;
use super::{Component, Source, digest};
use skillhost_policy::limits::Limit;

/// The folders of built-in programs, and the cache for their stamps.
#[derive(Debug, Clone, Default)]
pub struct BuiltIns {
    /// The folders, in order of precedence. A missing folder is ignored.
    pub folders: Vec<PathBuf>,
    /// The runtimes that an embedder adds.
    pub custom: Runtimes,
    /// The names of the host programs that an embedder adds.
    pub host_programs: Arc<BTreeSet<String>>,
}

/// A built-in program.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    /// The content of its JSON file.
    pub description: ProgramDescription,
    /// The stack that it needs, in bytes; 0 if it declares none.
    pub stack: u64,
    /// Its folder.
    pub folder: PathBuf,
    /// The name of its JSON file in the folder.
    pub file: String,
    opened: OnceLock<Arc<Dir>>,
}

/// The JSON description of a built-in program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramDescription {
    /// The name, such as `python`.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The commands that start it, such as `python3` and `python`.
    pub programs: Vec<String>,
    /// The file name of the component, in the same folder.
    pub wasm: String,
    /// The size of the component in bytes.
    pub size: u64,
    /// The digest of the component: `sha256:` and 64 hex digits.
    pub digest: String,
    /// The limits that it needs.
    #[serde(default)]
    pub limits: ProgramLimits,
    /// The name of a folder with its packages, in the same folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<String>,
}

/// The limits that a built-in program needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramLimits {
    /// The stack, written as in a policy: `32MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
}

/// The reason why a program is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProgramError {
    /// The problem, with the file.
    pub message: String,
    /// How to fix it.
    pub fix: Option<String>,
}

/// The command that builds the built-in programs.
pub const BUILD_COMMAND: &str = "cargo xtask components";

/// The programs that every host should have, with their commands.
pub const EXPECTED_PROGRAMS: [(&str, &[&str]); 3] =
    [("javascript", &["node"]), ("python", &["python3", "python"]), ("shell", &["bash", "sh"])];

/// The name of the built-in program that runs JavaScript.
const JAVASCRIPT: &str = "javascript";

/// The most bytes of a JSON file, far more than one needs.
const DESCRIPTION_MAX: u64 = 64 << 10;

/// A JSON file is usually smaller than this, so that one read is enough.
const DESCRIPTION_USUAL: usize = 4 << 10;

impl BuiltIns {
    /// Reads the JSON files of all folders, sorted by name. Ignores JSON files without `programs`,
    /// which describe something else, and files that hold another value than an object.
    ///
    /// # Errors
    /// A folder or file is unreadable or invalid.
    pub fn list(&self) -> Result<Vec<BuiltIn>, ProgramError> {
        let mut found: Vec<BuiltIn> = Vec::new();
        for path in &self.folders {
            let folder = match open_folder(path) {
                Ok(folder) => folder,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(broken(path, format!("cannot open the folder: {error}")));
                }
            };
            for file in json_files(&folder)
                .map_err(|error| broken(path, format!("cannot read the folder: {error}")))?
            {
                let here = || path.join(&file);
                let text = read_object(&folder, &file, DESCRIPTION_MAX)
                    .map_err(|error| broken(&here(), error.to_string()))?;
                let Some(text) = text else { continue };
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
                        opened: OnceLock::new(),
                    });
                }
            }
        }
        Ok(found)
    }

    /// Returns the size of the state that a skill of the host has without a policy file, by the
    /// digest of the skill. `None` for every other skill, and if the list is missing or broken.
    pub fn state_of(&self, digest: &str) -> Option<u64> {
        self.folders.iter().find_map(|path| {
            let text = read(&open_folder(path).ok()?, STATE_LIST, DESCRIPTION_MAX).ok()?;
            let list: StateList = serde_json::from_slice(&text).ok()?;
            Limit::State.parse(list.state.get(digest)?).ok()
        })
    }
}

/// The name of the [`StateList`] in a folder of built-in programs.
const STATE_LIST: &str = "state.json";

/// The sizes of the state of the skills that ship with the host, by digest, such as `16MiB`.
#[derive(Deserialize)]
struct StateList {
    state: BTreeMap<String, String>,
}

impl ProgramDescription {
    /// Parses a JSON file. Returns `None` if it does not describe a program.
    fn parse(text: &[u8]) -> Result<Option<ProgramDescription>, String> {
        let description: ProgramDescription = match serde_json::from_slice(text) {
            Ok(description) => description,
            Err(error) => {
                // Do not use a struct here: serde also reads structs from lists.
                let of_a_program: Result<BTreeMap<String, IgnoredAny>, _> =
                    serde_json::from_slice(text);
                let of_a_program = of_a_program.map(|entries| entries.contains_key("programs"));
                return match of_a_program {
                    Ok(true) => Err(error.to_string()),
                    Ok(false) => Ok(None),
                    // Another JSON value, or invalid JSON.
                    Err(_) => match serde_json::from_slice(text) {
                        Ok(IgnoredAny) => Ok(None),
                        Err(other) => Err(format!("invalid JSON: {other}")),
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
            return Err("`name`, `programs`, `wasm` and `packages` must be plain names".into());
        }
        let hex = description.digest.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            return Err("`digest` must be `sha256:` and 64 hex digits".into());
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
    /// Returns the component. Checks that its file is there and has the right size; what is read
    /// from it is checked then.
    ///
    /// # Errors
    /// The file is missing, or has another size than the JSON file says.
    pub fn component(self: &Arc<Self>) -> Result<Component, ProgramError> {
        self.open_complete()?;
        Ok(Component {
            digest: self.description.digest.clone(),
            source: Source::BuiltIn(self.clone()),
        })
    }

    /// Returns the component. Checks that its file matches the JSON file, by reading it.
    ///
    /// # Errors
    /// The file is missing, unreadable, or does not match.
    pub fn verify(self: &Arc<Self>) -> Result<Component, ProgramError> {
        let found = file_digest(&self.open_complete()?)
            .map_err(|error| broken(&self.wasm(), format!("cannot read the file: {error}")))?;
        self.check(&found)?;
        self.component()
    }

    /// Opens the component, and checks its size.
    fn open_complete(&self) -> Result<std::fs::File, ProgramError> {
        let wrong = |message: String| broken(&self.wasm(), message);
        let file = self.open().map_err(|error| self.unreadable(&error))?;
        let stat = rustix::fs::fstat(&file).map_err(|error| wrong(error.to_string()))?;
        if u64::try_from(stat.st_size) != Ok(self.description.size) {
            return Err(wrong(format!(
                "the file has {} bytes, but {} says {}",
                stat.st_size, self.file, self.description.size
            )));
        }
        Ok(file)
    }

    /// Reads the component, and checks its digest.
    pub(super) fn bytes(&self) -> io::Result<Arc<[u8]>> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.description.size).unwrap_or(0));
        self.open()?.take(self.description.size + 1).read_to_end(&mut bytes)?;
        let found = digest(&bytes);
        self.check(&found["sha256:".len()..]).map_err(|error| io::Error::other(error.message))?;
        Ok(bytes.into())
    }

    /// Opens the folder of its packages, and returns it with its guest path.
    ///
    /// # Errors
    /// The folder exists, but cannot be opened.
    pub fn packages(&self) -> Result<Option<(String, Arc<Dir>)>, ProgramError> {
        let Some(name) = &self.description.packages else { return Ok(None) };
        let guest = match self.description.name.as_str() {
            JAVASCRIPT => "/usr/lib/node_modules".to_owned(),
            language => {
                let series: Vec<&str> = self.description.version.split('.').take(2).collect();
                format!("/usr/lib/{language}{}/site-packages", series.join("."))
            }
        };
        if let Some(folder) = self.opened.get() {
            return Ok(Some((guest, folder.clone())));
        }
        match open_folder(&self.folder).and_then(|folder| folder.open_dir(name)) {
            Ok(folder) => Ok(Some((guest, self.opened.get_or_init(|| Arc::new(folder)).clone()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(broken(&self.folder.join(name), format!("cannot open the folder: {error}")))
            }
        }
    }

    /// Returns the names and versions of its packages, such as `requests 2.32.5`, from their
    /// metadata; `None` without a folder of packages.
    ///
    /// # Errors
    /// The folder exists, but cannot be read.
    pub fn package_names(&self) -> Result<Option<Vec<String>>, ProgramError> {
        let Some((_, folder)) = self.packages()? else { return Ok(None) };
        let wrong =
            |error: io::Error| broken(&self.folder, format!("cannot list the packages: {error}"));
        let names = folder
            .entries()
            .and_then(|all| all.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>())
            .map_err(wrong)?;
        let named = |name: std::ffi::OsString| {
            Some(name.to_str()?.strip_suffix(".dist-info")?.replacen('-', " ", 1))
        };
        let mut names: Vec<String> = if self.description.name == JAVASCRIPT {
            names.iter().flat_map(|name| npm_packages(&folder, Path::new(name))).collect()
        } else {
            names.into_iter().filter_map(named).collect()
        };
        names.sort();
        Ok(Some(names))
    }

    /// Opens a file of a folder beside its component.
    ///
    /// # Errors
    /// The file is missing, unreadable, outside of the folder or not a regular file.
    pub fn open_beside(&self, folder: &str, name: &str) -> io::Result<std::fs::File> {
        regular(open_folder(&self.folder)?.open_dir(folder)?.open(name)?.into_std())
    }

    /// Returns the path of its component.
    pub fn wasm(&self) -> PathBuf {
        self.folder.join(&self.description.wasm)
    }

    fn open(&self) -> io::Result<std::fs::File> {
        regular(open_folder(&self.folder)?.open(&self.description.wasm)?.into_std())
    }

    fn unreadable(&self, error: &io::Error) -> ProgramError {
        let message = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("missing file {}, which {} describes", self.wasm().display(), self.file)
            }
            _ => format!("cannot open {}: {error}", self.wasm().display()),
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

/// Returns the name and version of the npm package in a folder, or of all packages of a scope.
fn npm_packages(folder: &Dir, name: &Path) -> Vec<String> {
    #[derive(Deserialize)]
    struct Manifest {
        version: String,
    }
    if name.to_string_lossy().starts_with('@') && name.components().count() == 1 {
        let entries = folder.read_dir(name).into_iter().flatten().flatten();
        return entries
            .flat_map(|entry| npm_packages(folder, &name.join(entry.file_name())))
            .collect();
    }
    let manifest = folder.open(name.join("package.json")).map(|file| {
        let mut text = Vec::new();
        file.take(DESCRIPTION_MAX).read_to_end(&mut text).map(|_| text)
    });
    let Ok(Ok(text)) = manifest else { return Vec::new() };
    let found = serde_json::from_slice(&text).ok();
    found.map(|Manifest { version }| format!("{} {version}", name.display())).into_iter().collect()
}

fn regular(file: std::fs::File) -> io::Result<std::fs::File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

fn open_folder(path: &Path) -> io::Result<Dir> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the folder of built-in programs is the operator's"
    )]
    Dir::open_ambient_dir(path, cap_std::ambient_authority())
}

/// Returns the names of the JSON files in a folder, sorted. Skips names that are not UTF-8.
fn json_files(folder: &Dir) -> io::Result<Vec<String>> {
    let names =
        folder.entries()?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    let mut names = names.collect::<io::Result<Vec<String>>>()?;
    names.retain(|name| name.ends_with(".json") && !name.starts_with('.'));
    names.sort();
    Ok(names)
}

fn read(folder: &Dir, file: &str, most: u64) -> io::Result<Vec<u8>> {
    read_rest(folder.open(file)?, Vec::new(), most)
}

/// Reads a file that may hold a JSON object. Returns `None` if it starts like another value: each
/// run lists the programs, and must not read and parse the lists of packages next to them.
fn read_object(folder: &Dir, file: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = folder.open(file)?;
    let mut start = vec![0; DESCRIPTION_USUAL];
    let count = file.read(&mut start)?;
    start.truncate(count);
    match start.trim_ascii_start().first() {
        Some(b'{') | None => read_rest(file, start, most).map(Some),
        Some(_) => Ok(None),
    }
}

/// Reads a file to its end, after what was read of it.
fn read_rest(file: cap_std::fs::File, mut bytes: Vec<u8>, most: u64) -> io::Result<Vec<u8>> {
    bytes.reserve(DESCRIPTION_USUAL - bytes.len().min(DESCRIPTION_USUAL) + 32);
    file.take(most + 1 - bytes.len() as u64).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(io::Error::other("too large")) } else { Ok(bytes) }
}

fn broken(path: &Path, message: String) -> ProgramError {
    ProgramError {
        message: format!("{}: {message}", path.display()),
        fix: Some(format!("rebuild the programs: `{BUILD_COMMAND}`")),
    }
}
