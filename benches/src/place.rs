//! The programs that a benchmark measures, and its folder, with copies of the skills and their
//! inputs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::Error;

use crate::{inputs, measure};

/// The programs to measure, and their folders.
pub struct Place {
    /// The folder of the benchmark. It has copies of the skills in `skills/`, and of the sandbox's
    /// Python packages in `packages/`.
    pub folder: PathBuf,
    /// The installed program `skillhost`.
    pub skillhost: PathBuf,
    /// The driver of the warm tier. Without it, the warm tier is not measured.
    pub driver: Option<PathBuf>,
    /// The folder of the components: the runtimes and the small component.
    pub programs: PathBuf,
    /// The native Python, as [`native_python`] finds it.
    pub python: PathBuf,
    /// data-convert, compiled for this machine.
    pub converter: PathBuf,
    /// A copy of Node.js 22, in `folder`.
    pub node: PathBuf,
    /// The programs that isolate and that are built or fetched for the benchmark, or the reasons
    /// why they are missing.
    pub tools: BTreeMap<&'static str, Result<PathBuf, String>>,
}

impl Place {
    /// Returns the copy of a skill.
    pub fn skill(&self, name: &str) -> PathBuf {
        self.folder.join("skills").join(name)
    }

    /// Returns the copy of the sandbox's packages for the native Python, which may write compiled
    /// modules next to them.
    pub fn packages(&self) -> PathBuf {
        self.folder.join("packages")
    }

    /// Writes the inputs, and checks that the components are built.
    ///
    /// # Errors
    /// Returns an error if a component is missing, or if a file cannot be written.
    pub fn fill(&self) -> Result<(), Error> {
        for folder in [self.workspace(), self.home()] {
            fs::create_dir_all(&folder).map_err(Error::context(folder.display()))?;
        }
        if let Some(missing) = self.components().iter().find(|path| !path.is_file()) {
            let error = Error::new(format!("{} is missing", missing.display()));
            return Err(error.help("run `cargo xtask components`"));
        }
        inputs::write(&self.workspace())
    }

    /// Returns a program that isolates, or the reason why it is missing.
    pub(crate) fn tool(&self, name: &str) -> Result<PathBuf, String> {
        self.tools.get(name).cloned().unwrap_or_else(|| Err(format!("`{name}` was not built")))
    }

    /// Returns the components that the cases of the isolation benchmark run.
    pub(crate) fn components(&self) -> [PathBuf; 4] {
        let runtime = |name: &str| self.programs.join(name).with_extension("wasm");
        let converter = self.skill("data-convert").join("data-convert.wasm");
        [converter, runtime("javascript"), runtime("python"), runtime("shell")]
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    /// Returns the home folder of the measured skillhost, which has its own cache, state and
    /// configuration.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// Returns the folder of compiled code.
    pub(crate) fn cache(&self) -> PathBuf {
        self.home().join(".cache")
    }

    /// Removes compiled code, because that of earlier versions would count towards the disk space.
    pub(crate) fn remove_compiled(&self) -> Result<(), Error> {
        match fs::remove_dir_all(self.cache()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::context(self.cache().display())(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns a command that inherits nothing from this process's environment.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.env("HOME", self.home()).current_dir(self.workspace());
        command
    }
}

/// Finds the native Python, preferably that of the system: it has the optimisations of its
/// distribution, whereas the wrapper of a version manager takes longer than the interpreter.
///
/// # Errors
/// Returns an error if there is no Python.
pub fn native_python() -> Result<PathBuf, Error> {
    let system = Path::new("/usr/bin/python3");
    let python = if system.is_file() { system } else { Path::new("python3") };
    let executable =
        measure::output(Command::new(python).args(["-c", "import sys; print(sys.executable)"]));
    let executable = executable.map_err(|error| {
        Error::new(format!("no native Python to compare with: {error}"))
            .help("run `apt-get install python3`")
    })?;
    Path::new(executable.trim()).canonicalize().map_err(Error::context(executable.trim()))
}

/// Finds a program in `PATH`, `/usr/sbin` or `/sbin`.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}
