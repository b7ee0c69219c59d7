//! The tiers: ways to isolate a skill, each as the command that runs a case in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, files};

use super::cases::{Case, What};
use super::container::{self, Runtime};
use super::measure;
use super::place::Place;
use super::root::Root;
use super::seccomp;

/// A way to isolate, from none to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Tier {
    Native,
    Landlock,
    Bubblewrap,
    Runc,
    Crun,
    Cold,
    Warm,
    Deterministic,
}

impl Tier {
    pub(crate) const ALL: [Tier; 8] = [
        Tier::Native,
        Tier::Landlock,
        Tier::Bubblewrap,
        Tier::Runc,
        Tier::Crun,
        Tier::Cold,
        Tier::Warm,
        Tier::Deterministic,
    ];

    pub(crate) fn id(self) -> &'static str {
        match self {
            Tier::Native => "native",
            Tier::Landlock => "landlock",
            Tier::Bubblewrap => "bubblewrap",
            Tier::Runc => "runc",
            Tier::Crun => "crun",
            Tier::Cold => "skillhost-cold",
            Tier::Warm => "skillhost-warm",
            Tier::Deterministic => "skillhost-deterministic",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Tier::Native => "native process",
            Tier::Landlock => "Landlock + seccomp",
            Tier::Bubblewrap => "bubblewrap",
            Tier::Runc => "container (runc)",
            Tier::Crun => "container (crun)",
            Tier::Cold => "skillhost, cold",
            Tier::Warm => "skillhost, warm",
            Tier::Deterministic => "skillhost, deterministic",
        }
    }
}

/// The programs of the tiers, as far as they are here.
pub(crate) struct Tools {
    pub(crate) root: Root,
    bubblewrap: Result<PathBuf, String>,
    runc: Result<Runtime, String>,
    crun: Result<Runtime, String>,
    landlock: Result<PathBuf, String>,
    warm: Result<PathBuf, String>,
    deterministic: Result<(), String>,
}

impl Tools {
    pub(crate) fn find(place: &Place) -> Result<Tools, Error> {
        let install = |name: &str| {
            format!(
                "no `{name}` on this machine: `cargo xtask bench isolation --install` installs it"
            )
        };
        let runtime = |name: &str| {
            which(name)
                .map(|path| Runtime { path, state: place.folder.join(name) })
                .ok_or_else(|| install(name))
        };
        Ok(Tools {
            root: Root::make(place)?,
            bubblewrap: which("bwrap").ok_or_else(|| install("bwrap")),
            runc: runtime("runc"),
            crun: runtime("crun"),
            landlock: landlock(place),
            warm: place
                .driver
                .clone()
                .ok_or_else(|| "a binary was given to measure, and no driver for it".into()),
            deterministic: deterministic(&place.skillhost),
        })
    }

    /// Why a tier cannot be tried at all.
    pub(crate) fn lacks(&self, tier: Tier) -> Option<&str> {
        match tier {
            Tier::Native | Tier::Cold => None,
            Tier::Landlock => self.landlock.as_ref().err(),
            Tier::Bubblewrap => self.bubblewrap.as_ref().err(),
            Tier::Runc => self.runc.as_ref().err(),
            Tier::Crun => self.crun.as_ref().err(),
            Tier::Warm => self.warm.as_ref().err(),
            Tier::Deterministic => self.deterministic.as_ref().err(),
        }
        .map(String::as_str)
    }

    /// The command that runs a case in a tier.
    ///
    /// # Errors
    /// The tier is missing, or is no process of its own (the warm one).
    pub(crate) fn command(&self, place: &Place, tier: Tier, case: &Case) -> Result<Command, Error> {
        let missing = |why: &String| Error::new(why.clone());
        match tier {
            Tier::Native => Ok(native(place, case)),
            Tier::Landlock => Ok(restricted(self.landlock.as_ref().map_err(missing)?, place, case)),
            Tier::Bubblewrap => {
                Ok(bubblewrap(self.bubblewrap.as_ref().map_err(missing)?, &self.root, place, case))
            }
            Tier::Runc => {
                container::command(self.runc.as_ref().map_err(missing)?, &self.root, place, case)
            }
            Tier::Crun => {
                container::command(self.crun.as_ref().map_err(missing)?, &self.root, place, case)
            }
            Tier::Cold | Tier::Deterministic => {
                Ok(skillhost(place, case, tier == Tier::Deterministic))
            }
            Tier::Warm => Err(Error::new("the warm tier is no process of its own")),
        }
    }

    /// Bytes on disk that a tier needs for all the cases.
    pub(crate) fn disk(&self, tier: Tier, place: &Place) -> Option<u64> {
        let size = |path: &Path| path.metadata().map_or(0, |m| m.len());
        let root = self.root.bytes();
        match tier {
            Tier::Native => Some(root),
            Tier::Landlock => self.landlock.as_ref().ok().map(|tool| size(tool) + root),
            Tier::Bubblewrap => self.bubblewrap.as_ref().ok().map(|tool| size(tool) + root),
            Tier::Runc => self.runc.as_ref().ok().map(|tool| size(&tool.path) + root),
            Tier::Crun => self.crun.as_ref().ok().map(|tool| size(&tool.path) + root),
            Tier::Cold | Tier::Warm | Tier::Deterministic => {
                let wasm = [
                    place.programs.join("python.wasm"),
                    place.programs.join("shell.wasm"),
                    place.skill("data-convert").join("data-convert.wasm"),
                ];
                let compiled = super::root::bytes_below(&place.home().join(".cache"));
                Some(
                    size(&place.skillhost)
                        + wasm.iter().map(|path| size(path)).sum::<u64>()
                        + compiled,
                )
            }
        }
    }
}

/// What runs inside the root of a sandbox, where the skill is `/skill`.
pub(crate) fn inside(case: &Case, place: &Place) -> Vec<String> {
    let mut argv = match case.what {
        What::Python(script) => {
            vec![place.python.display().to_string(), format!("/skill/{script}")]
        }
        What::Bash(script) => vec!["/bin/bash".to_owned(), format!("/skill/{script}")],
        What::Component => vec![super::root::CONVERTER.to_owned()],
    };
    argv.extend(case.args.iter().cloned());
    argv
}

pub(crate) fn native(place: &Place, case: &Case) -> Command {
    let skill = place.skill(case.skill);
    let mut command = match case.what {
        What::Python(script) => with(place.command(&place.python), &skill.join(script)),
        What::Bash(script) => with(place.command(Path::new("/bin/bash")), &skill.join(script)),
        What::Component => place.command(&place.converter),
    };
    command.args(&case.args);
    command
}

fn with(mut command: Command, script: &Path) -> Command {
    command.arg(script);
    command
}

/// All namespaces, no capabilities, a root of its own. The program is process 1 of it: bubblewrap
/// does not wait for one below its own process 1, so that what that one used would count for
/// nobody.
fn bubblewrap(tool: &Path, root: &Root, place: &Place, case: &Case) -> Command {
    let mut command = place.command(tool);
    command
        .args([
            "--unshare-all",
            "--as-pid-1",
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--ro-bind",
        ])
        .arg(&root.folder)
        .arg("/");
    command
        .args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind"])
        .arg(place.skill(case.skill))
        .arg("/skill");
    command
        .arg("--bind")
        .arg(place.workspace())
        .args(["/workspace", "--chdir", "/workspace", "--"])
        .args(inside(case, place));
    command
}

/// The rules of the file system, and no more privileges; what the kernel offers a process about
/// itself.
fn restricted(tool: &Path, place: &Place, case: &Case) -> Command {
    let inner = native(place, case);
    let mut command = place.command(tool);
    command
        .args(["--no-new-privs", "--landlock-access", "fs", "--seccomp-filter"])
        .arg(place.folder.join(SECCOMP));
    for folder in [
        Path::new("/usr"),
        Path::new("/lib"),
        Path::new("/lib64"),
        Path::new("/bin"),
        Path::new("/dev"),
        &place.folder,
    ] {
        command
            .arg("--landlock-rule")
            .arg(format!("path-beneath:read-file,read-dir,execute:{}", folder.display()));
    }
    command.arg("--landlock-rule").arg(format!(
        "path-beneath:read-file,write-file,make-reg,truncate:{}",
        place.workspace().display()
    ));
    command.arg("--").arg(inner.get_program()).args(inner.get_args());
    command
}

/// More than the largest input takes: a limit that is met measures nothing.
const TIMEOUT: &str = "10m";

pub(crate) fn skillhost(place: &Place, case: &Case, deterministic: bool) -> Command {
    let mut command = place.command(&place.skillhost);
    command.env("SKILLHOST_PROGRAMS", &place.programs).arg("run").arg(place.skill(case.skill));
    if let What::Python(script) | What::Bash(script) = case.what {
        command.arg(script);
    }
    if case.input.is_some() {
        command.arg("--workspace").arg(place.workspace()).args(["--timeout", TIMEOUT]);
    }
    if let Some(policy) = &case.policy {
        command.arg("--policy").arg(policy);
    }
    command.args(deterministic.then_some("--deterministic")).arg("--").args(&case.args);
    command
}

/// The filter of system calls, in the folder of the benchmark.
const SECCOMP: &str = "seccomp.bpf";

/// util-linux has both since 2.41; nothing else that is packaged widely has.
fn landlock(place: &Place) -> Result<PathBuf, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the filter of system calls is for x86-64".into());
    }
    let lacks = "no tool for it: `setpriv` of util-linux 2.41 or later has `--landlock-access` and `--seccomp-filter`";
    let tool = which("setpriv").ok_or(lacks)?;
    let help = measure::output(Command::new(&tool).arg("--help")).unwrap_or_default();
    let has = ["--landlock-access", "--seccomp-filter"].iter().all(|flag| help.contains(flag));
    if !has {
        return Err(lacks.into());
    }
    files::write_if_changed(&place.folder.join(SECCOMP), &seccomp::filter())
        .map_err(|error| error.to_string())?;
    Ok(tool)
}

/// The binary says what it can.
fn deterministic(skillhost: &Path) -> Result<(), String> {
    let help = measure::output(Command::new(skillhost).args(["run", "--help"])).unwrap_or_default();
    if help.contains("--deterministic") {
        Ok(())
    } else {
        Err("`skillhost run` has no `--deterministic`".into())
    }
}

/// A program on the path, or where administrators' programs are.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}
