//! The tiers: ways to isolate a skill, and the commands that run a case in each.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, files};

use super::root::{self, Root};
use super::{container, microvm, seccomp, webassembly};
use crate::cases::{self, Case, Target};
use crate::measure;
use crate::place::{Place, which};
use crate::{report, repository};

/// A way to isolate a skill, by kind: processes, containers, machines, WebAssembly, skillhost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    Native,
    Landlock,
    Bubblewrap,
    Runc,
    Crun,
    Gvisor,
    MicroVm,
    Pyodide,
    Wasmtime,
    Cold,
    Warm,
    Deterministic,
}

impl Tier {
    pub(crate) const ALL: [Tier; 12] = {
        use Tier::*;
        [
            Native,
            Landlock,
            Bubblewrap,
            Runc,
            Crun,
            Gvisor,
            MicroVm,
            Pyodide,
            Wasmtime,
            Cold,
            Warm,
            Deterministic,
        ]
    };

    pub(crate) fn id(self) -> &'static str {
        self.names().0
    }

    pub(crate) fn name(self) -> &'static str {
        self.names().1
    }

    /// Returns the number of rounds of a tier whose starts take hundreds of milliseconds: fewer than
    /// those of the other tiers.
    pub(crate) fn rounds(self, rounds: usize) -> usize {
        if self.is_slow() { rounds.min(SLOW_ROUNDS) } else { rounds }
    }

    pub(crate) fn is_slow(self) -> bool {
        matches!(self, Tier::Gvisor | Tier::MicroVm | Tier::Pyodide | Tier::Wasmtime)
    }

    /// Returns why a tier does not run every case.
    pub(crate) fn only(self) -> Option<&'static str> {
        matches!(self, Tier::Pyodide | Tier::Wasmtime).then_some("it only runs Python")
    }

    pub(crate) fn runs(self, case: &Case) -> bool {
        self.only().is_none() || matches!(case.target, Target::Python(_))
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Tier::Native => ("native", "native process"),
            Tier::Landlock => ("landlock", "Landlock + seccomp"),
            Tier::Bubblewrap => ("bubblewrap", "bubblewrap"),
            Tier::Runc => ("runc", "container (runc)"),
            Tier::Crun => ("crun", "container (crun)"),
            Tier::Gvisor => ("gvisor", "gVisor (runsc)"),
            Tier::MicroVm => ("microvm", "microVM (QEMU)"),
            Tier::Pyodide => ("pyodide", "Pyodide (node)"),
            Tier::Wasmtime => ("wasmtime", "CPython in wasmtime"),
            Tier::Cold => ("skillhost-cold", "skillhost, cold"),
            Tier::Warm => ("skillhost-warm", "skillhost, warm"),
            Tier::Deterministic => ("skillhost-deterministic", "skillhost, deterministic"),
        }
    }
}

/// The maximal number of rounds of slow tiers.
const SLOW_ROUNDS: usize = 10;

/// The programs of the tiers, and the root of the sandboxes.
pub(crate) struct Tools {
    root: Root,
    programs: BTreeMap<Tier, PathBuf>,
}

impl Tools {
    /// Finds the programs. Adds tiers whose program is not installed to `missing`, with the reason.
    pub(crate) fn find(
        place: &Place,
        missing: &mut BTreeMap<Tier, String>,
    ) -> Result<Tools, Error> {
        let installed = |name: &str| {
            let help = "`cargo xtask bench isolation --install` installs it";
            which(name).ok_or_else(|| format!("no `{name}` on this machine: {help}"))
        };
        let in_path =
            |name: &str| which(name).ok_or_else(|| format!("no `{name}` on this machine"));
        let no_driver = || "`--skillhost` was given without `--driver`".to_owned();
        let mut programs = BTreeMap::new();
        for tier in Tier::ALL {
            let program = match tier {
                Tier::Native => Ok(place.python.clone()),
                Tier::Landlock => landlock(place),
                Tier::Bubblewrap => installed("bwrap"),
                Tier::Runc => installed("runc"),
                Tier::Crun => installed("crun"),
                Tier::Gvisor => place.tool("runsc"),
                Tier::MicroVm => place.tool("qemu"),
                Tier::Pyodide => place.tool("pyodide").and_then(|_| in_path("node")),
                Tier::Wasmtime => webassembly::compile(place),
                Tier::Cold => Ok(place.skillhost.clone()),
                Tier::Warm => place.driver.clone().ok_or_else(no_driver),
                Tier::Deterministic => deterministic(&place.skillhost),
            };
            match program {
                Ok(program) => drop(programs.insert(tier, program)),
                Err(why) => drop(missing.insert(tier, why)),
            }
        }
        let root = Root::build(place)?;
        if let Some(Err(error)) =
            programs.get(&Tier::MicroVm).map(|_| microvm::prepare(&root, place))
        {
            programs.remove(&Tier::MicroVm);
            missing.insert(Tier::MicroVm, error.to_string());
        }
        Ok(Tools { root, programs })
    }

    /// Returns the command that runs a case in a tier, or `None` for the warm tier, which runs in
    /// the driver.
    ///
    /// # Errors
    /// Returns an error if the tier is missing.
    pub(crate) fn command(
        &self,
        place: &Place,
        tier: Tier,
        case: &Case,
    ) -> Result<Option<Command>, Error> {
        let missing = || Error::new(format!("the tier {} is missing", tier.name()));
        let tool = self.programs.get(&tier).ok_or_else(missing)?;
        Ok(Some(match tier {
            Tier::Native => case.native(place),
            Tier::Landlock => confined(tool, place, case),
            Tier::Bubblewrap => bubblewrap(tool, &self.root, place, case),
            Tier::Runc | Tier::Crun => container::command(tool, &self.root, place, case)?,
            Tier::Gvisor => container::command(tool, &self.root, place, case)?,
            Tier::MicroVm => microvm::command(tool, place, case)?,
            Tier::Pyodide => webassembly::pyodide(tool, place, case),
            Tier::Wasmtime => webassembly::wasmtime(tool, place, case),
            Tier::Cold => case.cold(place, &[]),
            Tier::Warm => return Ok(None),
            Tier::Deterministic => case.cold(place, &["--deterministic"]),
        }))
    }

    /// Returns the version of the program that isolates.
    pub(crate) fn version(&self, tier: Tier, place: &Place) -> String {
        let program = match tier {
            Tier::Cold | Tier::Warm | Tier::Deterministic => Some(&place.skillhost),
            _ => self.programs.get(&tier),
        };
        let version = program.and_then(|program| report::version(program));
        let version = match tier {
            Tier::MicroVm => microvm::version(place),
            Tier::Pyodide => {
                version.map(|node| format!("{}, node {node}", webassembly::version(place, tier)))
            }
            Tier::Wasmtime => Some(webassembly::version(place, tier)),
            _ => version,
        };
        version.unwrap_or_else(|| "unknown".to_owned())
    }

    /// Returns the command of the Python hello as a line of shell, with paths relative to the
    /// repository, which say nothing about this machine.
    pub(crate) fn line(&self, tier: Tier, place: &Place) -> Option<String> {
        let hello = cases::hello();
        let words: Vec<String> = match self.command(place, tier, &hello).ok()? {
            Some(command) => {
                // The others are the same in every tier.
                let own = |(name, value): (&OsStr, Option<&OsStr>)| {
                    let (name, value) = (name.to_str()?, value?.to_string_lossy());
                    let is_own = !["PATH", "LANG", "HOME"].contains(&name);
                    is_own.then(|| format!("{name}={}", quoted(&value)))
                };
                let words = [command.get_program()].into_iter().chain(command.get_args());
                let words = words.map(|word| quoted(&word.to_string_lossy()));
                command.get_envs().filter_map(own).chain(words).collect()
            }
            None => vec![format!(
                "{} SETUP <<< 'each {} N'",
                place.driver.as_ref()?.display(),
                hello.key()
            )],
        };
        Some(words.join(" ").replace(
            &format!("{}/", repository("").display().to_string().trim_end_matches('/')),
            "",
        ))
    }

    /// Returns the disk space of a tier for all cases, in bytes.
    pub(crate) fn disk(&self, tier: Tier, place: &Place) -> Option<u64> {
        let size = |path: &Path| path.metadata().map_or(0, |file| file.len());
        let tool = self.programs.get(&tier)?;
        Some(match tier {
            Tier::Native => self.root.bytes(),
            Tier::Landlock | Tier::Bubblewrap | Tier::Runc | Tier::Crun => {
                size(tool) + self.root.bytes()
            }
            Tier::Gvisor => size(tool) + self.root.bytes(),
            Tier::MicroVm => microvm::disk(tool, place) + self.root.bytes(),
            Tier::Pyodide | Tier::Wasmtime => webassembly::disk(tier, place),
            Tier::Cold | Tier::Warm | Tier::Deterministic => {
                let components: u64 = place.components().iter().map(|path| size(path)).sum();
                size(&place.skillhost) + components + root::bytes_below(&place.cache())
            }
        })
    }
}

/// Quotes a word for a shell where necessary. The host has the same function, but xtask is built
/// without the host.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.,:=_-+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Returns the command line inside the root of a sandbox, where the skill is `/skill`.
pub(crate) fn inside(case: &Case, place: &Place) -> Vec<String> {
    let program = match case.target {
        Target::Python(_) => place.python.display().to_string(),
        Target::Bash(_) => "/bin/bash".to_owned(),
        Target::JavaScript(_) => place.node.display().to_string(),
        Target::Component => root::CONVERTER.to_owned(),
        Target::True => "/bin/true".to_owned(),
    };
    let script = case.target.script().map(|script| format!("/skill/{script}"));
    [program].into_iter().chain(script).chain(case.args.iter().cloned()).collect()
}

/// Isolates with all namespaces, no capabilities, and a separate root. The program runs as process
/// 1: bubblewrap does not wait for the children of its own process 1, so their CPU time would be
/// lost.
fn bubblewrap(tool: &Path, root: &Root, place: &Place, case: &Case) -> Command {
    let mut command = place.command(tool);
    command.args(["--unshare-all", "--as-pid-1", "--die-with-parent", "--new-session"]);
    command.args(["--cap-drop", "ALL", "--ro-bind"]).arg(&root.folder).arg("/");
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    command.arg("--ro-bind").arg(place.skill(case.skill)).arg("/skill");
    command.arg("--bind").arg(place.workspace()).arg("/workspace");
    command.args(["--chdir", "/workspace", "--"]).args(inside(case, place));
    command
}

/// Isolates with Landlock rules for files and TCP, no new privileges, and a seccomp filter.
fn confined(tool: &Path, place: &Place, case: &Case) -> Command {
    let mut command = place.command(tool);
    command.arg("--seccomp").arg(place.folder.join(SECCOMP));
    // Node reads the configuration of OpenSSL.
    for folder in ["/usr", "/lib", "/lib64", "/bin", "/dev", "/etc/ssl"] {
        command.arg("--read").arg(folder);
    }
    command.arg("--read").arg(&place.folder).arg("--write").arg(place.workspace());
    // The native program of the component is in cargo's folder.
    command.arg("--read").arg(&place.converter);
    let native = case.native(place);
    command.arg("--").arg(native.get_program()).args(native.get_args());
    command
}

/// The seccomp filter, in the folder of the benchmark.
const SECCOMP: &str = "seccomp.bpf";

/// Writes the seccomp filter, and checks that the kernel enforces it and Landlock.
fn landlock(place: &Place) -> Result<PathBuf, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the seccomp filter supports only x86-64".into());
    }
    let tool = place.tool("confine")?;
    let written = files::write_if_changed(&place.folder.join(SECCOMP), &seccomp::filter());
    written.map_err(|error| error.to_string())?;
    let empty = measure::output(&mut confined(&tool, place, &cases::nothing()));
    empty.map(|_| tool).map_err(|error| error.to_string())
}

/// Returns the binary, if its help lists the flag.
fn deterministic(skillhost: &Path) -> Result<PathBuf, String> {
    let help = measure::output(Command::new(skillhost).args(["run", "--help"])).unwrap_or_default();
    match help.contains("--deterministic") {
        true => Ok(skillhost.to_owned()),
        false => Err("`skillhost run` has no `--deterministic`".into()),
    }
}
