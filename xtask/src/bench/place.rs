//! Where the benchmark happens: one folder with copies of the skills, their inputs, and the
//! programs that are measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use super::{inputs, measure};
use crate::host::{self, executable};
use crate::{install, workspace};

/// What is run, and in what.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) skillhost: PathBuf,
    /// The driver of the warm tier; none where only another's binary is measured.
    pub(crate) driver: Option<PathBuf>,
    pub(crate) programs: PathBuf,
    pub(crate) python: PathBuf,
    /// data-convert, compiled for this machine.
    pub(crate) converter: PathBuf,
}

/// The skills, by their folders in the repository.
const SKILLS: [&str; 4] =
    ["benches/hello", "benches/work", "skills/csv-report", "skills/data-convert"];

impl Place {
    /// Builds what is measured, and writes what it reads. A binary that is given is measured as it
    /// is.
    pub(crate) fn make(
        given: Option<&Path>,
        driver: Option<&Path>,
        progress: &Progress,
    ) -> Result<Place, Error> {
        let root = workspace::root();
        let folder = root.join("target/bench");
        let python = python()?;
        let converter = progress.step("build data-convert for this machine", |step| {
            let mut cargo = workspace::cargo(&root.join("guests"));
            cargo.env("CARGO_TARGET_DIR", workspace::guest_target_dir(&root));
            cargo.args([
                "build",
                "--release",
                "--locked",
                "-p",
                "data-convert",
                "--example",
                "native",
                "--message-format=json-render-diagnostics",
            ]);
            executable(&step.run(&mut cargo)?, "native")
        })?;
        let (skillhost, driver) = match given {
            Some(given) => (absolute(given)?, driver.map(absolute).transpose()?),
            None => {
                let skillhost = progress
                    .step("build skillhost in release mode", |step| host::build(&root, step))?;
                let driver = progress.step("build the driver of the warm tier", |step| {
                    let mut cargo = workspace::cargo(&root);
                    cargo.args([
                        "build",
                        "--release",
                        "--locked",
                        "-p",
                        "skillhost-warm",
                        "--message-format=json-render-diagnostics",
                    ]);
                    executable(&step.run(&mut cargo)?, "warm")
                })?;
                (skillhost, Some(driver))
            }
        };
        let (skillhost, driver) = (
            install::program(&skillhost, &folder)?,
            driver.map(|driver| install::program(&driver, &folder)).transpose()?,
        );
        let place = Place {
            programs: root.join("target/components"),
            folder,
            skillhost,
            driver,
            python,
            converter,
        };
        progress.step("write the skills and their inputs", |_| place.fill(&root))?;
        Ok(place)
    }

    pub(crate) fn skill(&self, name: &str) -> PathBuf {
        self.folder.join("skills").join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    /// The home of the measured skillhost: its cache, state and configuration are its own.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// A copy of the sandbox's packages, for the native Python: a Python may write to packages
    /// where they lie, what it compiles and more.
    pub(crate) fn packages(&self) -> PathBuf {
        self.folder.join("packages")
    }

    /// Removes compiled code: that of earlier versions is no part of what takes space.
    pub(crate) fn forget_compiled(&self) -> Result<(), Error> {
        let cache = self.home().join(".cache");
        match fs::remove_dir_all(&cache) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::context(cache.display())(error))
            }
            _ => Ok(()),
        }
    }

    /// A program with nothing of this process's environment.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8");
        command.current_dir(self.workspace());
        command
    }

    fn fill(&self, root: &Path) -> Result<(), Error> {
        for folder in [self.workspace(), self.home()] {
            fs::create_dir_all(&folder).map_err(Error::context(folder.display()))?;
        }
        for skill in SKILLS.map(|skill| root.join(skill)) {
            let to = self.skill(&skill.file_name().unwrap_or_default().to_string_lossy());
            install::skill(&skill, &to)?;
        }
        let component = self.skill("data-convert").join("data-convert.wasm");
        for made in
            [&component, &self.programs.join("python.wasm"), &self.programs.join("shell.wasm")]
        {
            if !made.is_file() {
                return Err(Error::new(format!("there is no {}", made.display()))
                    .help("`cargo xtask components`"));
            }
        }
        install::tree(&self.programs.join("python-packages"), &self.packages(), &["__pycache__"])?;
        inputs::write(&self.workspace())
    }
}

/// The system's own: it is built with its distribution's optimisations, and a version manager's
/// wrapper costs more than the interpreter.
fn python() -> Result<PathBuf, Error> {
    let system = Path::new("/usr/bin/python3");
    let found = if system.is_file() { system } else { Path::new("python3") };
    let real =
        measure::output(Command::new(found).args(["-c", "import sys; print(sys.executable)"]));
    let real = real.map_err(|error| {
        Error::new(format!("no native Python to compare with: {error}"))
            .help("`apt-get install python3`")
    })?;
    absolute(Path::new(real.trim()))
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(Error::context(path.display()))
}
