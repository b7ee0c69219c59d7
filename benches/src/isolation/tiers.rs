//! The tiers: ways to isolate a skill, and the commands that run a case in each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, files};

use super::root::{self, Root};
use super::{container, seccomp};
use crate::cases::{Case, Target};
use crate::measure;
use crate::place::{Place, which};

/// A way to isolate a skill, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    pub(crate) const ALL: [Tier; 8] = {
        use Tier::*;
        [Native, Landlock, Bubblewrap, Runc, Crun, Cold, Warm, Deterministic]
    };

    pub(crate) fn id(self) -> &'static str {
        self.names().0
    }

    pub(crate) fn name(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Tier::Native => ("native", "native process"),
            Tier::Landlock => ("landlock", "Landlock + seccomp"),
            Tier::Bubblewrap => ("bubblewrap", "bubblewrap"),
            Tier::Runc => ("runc", "container (runc)"),
            Tier::Crun => ("crun", "container (crun)"),
            Tier::Cold => ("skillhost-cold", "skillhost, cold"),
            Tier::Warm => ("skillhost-warm", "skillhost, warm"),
            Tier::Deterministic => ("skillhost-deterministic", "skillhost, deterministic"),
        }
    }
}

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
        let no_driver = || "`--skillhost` was given without `--driver`".to_owned();
        let mut programs = BTreeMap::new();
        for tier in Tier::ALL {
            let program = match tier {
                Tier::Native => Ok(place.python.clone()),
                Tier::Landlock => landlock(place),
                Tier::Bubblewrap => installed("bwrap"),
                Tier::Runc => installed("runc"),
                Tier::Crun => installed("crun"),
                Tier::Cold => Ok(place.skillhost.clone()),
                Tier::Warm => place.driver.clone().ok_or_else(no_driver),
                Tier::Deterministic => deterministic(&place.skillhost),
            };
            match program {
                Ok(program) => drop(programs.insert(tier, program)),
                Err(why) => drop(missing.insert(tier, why)),
            }
        }
        Ok(Tools { root: Root::build(place)?, programs })
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
            Tier::Landlock => restricted(tool, place, case),
            Tier::Bubblewrap => bubblewrap(tool, &self.root, place, case),
            Tier::Runc | Tier::Crun => container::command(tool, &self.root, place, case)?,
            Tier::Cold => case.cold(place, &[]),
            Tier::Warm => return Ok(None),
            Tier::Deterministic => case.cold(place, &["--deterministic"]),
        }))
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
            Tier::Cold | Tier::Warm | Tier::Deterministic => {
                let components: u64 = place.components().iter().map(|path| size(path)).sum();
                size(&place.skillhost) + components + root::bytes_below(&place.cache())
            }
        })
    }
}

/// Returns the command line inside the root of a sandbox, where the skill is `/skill`.
pub(crate) fn inside(case: &Case, place: &Place) -> Vec<String> {
    let program = match case.target {
        Target::Python(_) => place.python.display().to_string(),
        Target::Bash(_) => "/bin/bash".to_owned(),
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

/// Isolates with Landlock rules for the file system, no new privileges, and a seccomp filter.
fn restricted(tool: &Path, place: &Place, case: &Case) -> Command {
    let mut command = place.command(tool);
    command.args(["--no-new-privs", "--landlock-access", "fs", "--seccomp-filter"]);
    command.arg(place.folder.join(SECCOMP));
    let mut allow = |access: &str, folder: &Path| {
        let rule = format!("path-beneath:{access}:{}", folder.display());
        command.arg("--landlock-rule").arg(rule);
    };
    for folder in ["/usr", "/lib", "/lib64", "/bin", "/dev"] {
        allow("read-file,read-dir,execute", folder.as_ref());
    }
    allow("read-file,read-dir,execute", &place.folder);
    allow("read-file,write-file,make-reg,truncate", &place.workspace());
    let native = case.native(place);
    command.arg("--").arg(native.get_program()).args(native.get_args());
    command
}

/// The seccomp filter, in the folder of the benchmark.
const SECCOMP: &str = "seccomp.bpf";

/// Finds `setpriv`, which has supported Landlock and seccomp filters since util-linux 2.41. No
/// other widely packaged tool does.
fn landlock(place: &Place) -> Result<PathBuf, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the seccomp filter supports only x86-64".into());
    }
    let missing = "no `setpriv` of util-linux 2.41 or later, which has `--landlock-access` and `--seccomp-filter`";
    let tool = which("setpriv").ok_or(missing)?;
    let help = measure::output(Command::new(&tool).arg("--help")).unwrap_or_default();
    if !["--landlock-access", "--seccomp-filter"].iter().all(|flag| help.contains(flag)) {
        return Err(missing.into());
    }
    let written = files::write_if_changed(&place.folder.join(SECCOMP), &seccomp::filter());
    written.map(|_| tool).map_err(|error| error.to_string())
}

/// Returns the binary, if its help lists the flag.
fn deterministic(skillhost: &Path) -> Result<PathBuf, String> {
    let help = measure::output(Command::new(skillhost).args(["run", "--help"])).unwrap_or_default();
    match help.contains("--deterministic") {
        true => Ok(skillhost.to_owned()),
        false => Err("`skillhost run` has no `--deterministic`".into()),
    }
}
