//! Where a benchmark happens: the programs that it measures, and a folder with copies of the skills
//! and their inputs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::Error;

use crate::{inputs, measure};

/// The programs that are measured, and the folders that they work on.
pub struct Place {
    /// The folder of the benchmark. `skills/` in it has copies of the skills, and `packages/` one of
    /// the sandbox's Python packages.
    pub folder: PathBuf,
    /// The program `skillhost`, as it is installed.
    pub skillhost: PathBuf,
    /// The driver of the warm tier. Without it, nothing warm is measured.
    pub driver: Option<PathBuf>,
    /// The components: the runtimes, and the small one.
    pub programs: PathBuf,
    /// The native Python, as [`native_python`] finds it.
    pub python: PathBuf,
    /// data-convert, compiled for this machine.
    pub converter: PathBuf,
}

impl Place {
    /// The copy of a skill.
    pub fn skill(&self, name: &str) -> PathBuf {
        self.folder.join("skills").join(name)
    }

    /// The copy of the sandbox's packages, for the native Python, which may write compiled modules
    /// next to them.
    pub fn packages(&self) -> PathBuf {
        self.folder.join("packages")
    }

    /// Writes the inputs, and checks that the components are built.
    ///
    /// # Errors
    /// A component is missing, or a file cannot be written.
    pub fn fill(&self) -> Result<(), Error> {
        for folder in [self.workspace(), self.home()] {
            fs::create_dir_all(&folder).map_err(Error::context(folder.display()))?;
        }
        if let Some(missing) = self.components().iter().find(|path| !path.is_file()) {
            let error = Error::new(format!("there is no {}", missing.display()));
            return Err(error.help("`cargo xtask components`"));
        }
        inputs::write(&self.workspace())
    }

    /// The components that the cases of the isolation benchmark run.
    pub(crate) fn components(&self) -> [PathBuf; 3] {
        let converter = self.skill("data-convert").join("data-convert.wasm");
        [converter, self.programs.join("python.wasm"), self.programs.join("shell.wasm")]
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    /// The home of the measured skillhost: its cache, state and configuration are its own.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// The folder of compiled code.
    pub(crate) fn cache(&self) -> PathBuf {
        self.home().join(".cache")
    }

    /// Removes compiled code: that of earlier versions would count as space that this one takes.
    pub(crate) fn remove_compiled(&self) -> Result<(), Error> {
        match fs::remove_dir_all(self.cache()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::context(self.cache().display())(error))
            }
            _ => Ok(()),
        }
    }

    /// A command with nothing of this process's environment.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.env("HOME", self.home()).current_dir(self.workspace());
        command
    }
}

/// Finds the native Python: the system's own if there is one. It is built with its distribution's
/// optimisations, and a version manager's wrapper costs more than the interpreter.
///
/// # Errors
/// There is none.
pub fn native_python() -> Result<PathBuf, Error> {
    let system = Path::new("/usr/bin/python3");
    let python = if system.is_file() { system } else { Path::new("python3") };
    let executable =
        measure::output(Command::new(python).args(["-c", "import sys; print(sys.executable)"]));
    let executable = executable.map_err(|error| {
        Error::new(format!("no native Python to compare with: {error}"))
            .help("`apt-get install python3`")
    })?;
    Path::new(executable.trim()).canonicalize().map_err(Error::context(executable.trim()))
}

/// Finds a program on the path, or where administrators' programs are.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}
