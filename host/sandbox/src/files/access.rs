//! Which paths a guest may read and write, and the record of what it was refused.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, OnceLock};

use rustix::io::Errno;

use super::mount::{Layer, OpenMount, Rules};
use super::overlay::Tree;
use super::{Vfs, beneath, lock};
use skillhost_policy::capabilities::{Mount, PathAccess, PathRules, Scope};
use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_policy::pattern::PathGlob;
use skillhost_policy::protected::normalize_name;

/// Denials that an outcome lists.
const DENIALS_MAX: usize = 100;

/// Decisions remembered per mount; then they are forgotten and found again.
const DECISIONS_MAX: usize = 4_096;

/// The rules of an invocation, what they decided, and what they refused.
#[derive(Debug)]
pub(super) struct Decisions {
    rules: PathRules,
    known: Vec<Mutex<HashMap<String, PathAccess>>>,
    denials: Mutex<BTreeSet<Denial>>,
    /// What may not be read, and not be written, in lower case: for file systems that fold it.
    folded: OnceLock<[Vec<PathGlob>; 2]>,
}

/// What a denial is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denied {
    Read,
    Write,
}

/// What a guest was about to do, for the record of denials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Read,
    /// To something that must exist: forbidden things do not.
    Change,
    /// To something that need not exist.
    Create,
}

impl Decisions {
    pub(super) fn new(rules: PathRules, mounts: usize) -> Decisions {
        Decisions {
            rules,
            known: (0..mounts).map(|_| Mutex::default()).collect(),
            denials: Mutex::default(),
            folded: OnceLock::new(),
        }
    }

    /// Whether a denial matches a path of the rules on a file system that folds case.
    fn denies_folded(&self, denied: Denied, path: &str) -> bool {
        let [read, write] = self.folded.get_or_init(|| {
            let PathRules { read, write } = &self.rules;
            [&read.none_of, &write.none_of].map(|globs| {
                // A glob that does not compile would be one that does not hold.
                globs
                    .iter()
                    .map(|glob| {
                        PathGlob::new(&fold_path(glob.pattern()))
                            .unwrap_or_else(|_| PathGlob::everything())
                    })
                    .collect()
            })
        });
        let globs: &Vec<PathGlob> = if denied == Denied::Read { read } else { write };
        globs.iter().any(|glob| glob.matches(&fold_path(path)))
    }

    pub(super) fn denials(&self) -> Vec<Denial> {
        lock(&self.denials).iter().cloned().collect()
    }

    fn record(&self, denial: Denial) {
        let mut denials = lock(&self.denials);
        if denials.len() < DENIALS_MAX {
            denials.insert(denial);
        }
    }
}

impl Vfs {
    /// What the rules say of a canonical path. Nothing is allowed below a folder that is not there
    /// for the guest.
    pub(super) fn access(&self, m: usize, rel: &str) -> PathAccess {
        let mount = &self.mounts[m];
        let granted = match &mount.rules {
            Rules::Skill(hidden) if hidden.contains(rel) => return PathAccess::None,
            Rules::Skill(_) => return PathAccess::Read,
            Rules::Scratch | Rules::State(_) => return PathAccess::Write,
            Rules::Root(_) => return self.access_of_root(m, rel),
            Rules::Packages => None,
            Rules::Granted(granted) => Some(granted),
        };
        let mut known = lock(&self.decisions.known[m]);
        if let Some(access) = known.get(rel) {
            return *access;
        }
        let top = (!rel.is_empty()).then_some("");
        let mut access = PathAccess::Write;
        for path in top.into_iter().chain(beneath::ancestors(rel)).chain([rel]) {
            access = match known.get(path) {
                Some(access) => *access,
                None => {
                    let access = self.decide(m, granted, path);
                    if known.len() >= DECISIONS_MAX {
                        known.clear();
                    }
                    known.insert(path.to_owned(), access);
                    access
                }
            };
            if access == PathAccess::None {
                break;
            }
        }
        access
    }

    /// A mount that is not there for the guest is not there in `/` either.
    fn access_of_root(&self, m: usize, rel: &str) -> PathAccess {
        let path = self.mounts[m].guest_path(rel);
        match self.mounts.iter().position(|mount| mount.guest == path).filter(|other| *other != m) {
            Some(other) => self.access(other, "").min(PathAccess::Read),
            None => PathAccess::Read,
        }
    }

    pub(super) fn decide(&self, m: usize, granted: Option<&Mount>, rel: &str) -> PathAccess {
        let mount = &self.mounts[m];
        let (rules, path) = (&self.decisions.rules, mount.guest_path(rel));
        let access = match granted {
            Some(_)
                if self.folds_case(m)
                    && self.decisions.denies_folded(Denied::Read, &mount.rule_path(rel)) =>
            {
                PathAccess::None
            }
            Some(granted)
                if self.folds_case(m)
                    && self.decisions.denies_folded(Denied::Write, &mount.rule_path(rel)) =>
            {
                rules.access(granted, &path).min(PathAccess::Read)
            }
            Some(granted) => rules.access(granted, &path),
            None if rules.read.none_of.iter().any(|glob| glob.matches(&path)) => PathAccess::None,
            None => PathAccess::Read,
        };
        match mount.layer {
            Layer::ReadOnly => access.min(PathAccess::Read),
            Layer::InPlace | Layer::Overlay(_) => access,
        }
    }

    /// Whether everything below a mount has the same rules, so that a folder may change its name
    /// with all that is in it.
    pub(super) fn is_uniform(&self, m: usize) -> bool {
        let mount = &self.mounts[m];
        if !matches!(mount.rules, Rules::Granted(_)) {
            return true;
        }
        let own = format!("{}/**", mount.rule_path(""));
        let whole = |pattern: &PathGlob| pattern.pattern() == "/**" || pattern.pattern() == own;
        let PathRules { read, write } = &self.decisions.rules;
        let all = !write.is_empty() && write.all_of.iter().all(|side| side.iter().any(whole));
        all && write.none_of.is_empty() && read.none_of.is_empty()
    }

    /// Lets a change through, or records the refusal.
    pub(super) fn check_write(
        &self,
        tree: &Tree,
        m: usize,
        rel: &str,
        attempt: Attempt,
    ) -> Result<(), Errno> {
        match self.access(m, rel) {
            PathAccess::Write => {
                self.check_reach(m, rel, attempt)?;
                self.check_repository(tree, m, rel, attempt)?;
                self.note_written(m, rel);
                Ok(())
            }
            access => {
                self.refuse(m, rel, attempt);
                Err(match access {
                    PathAccess::None if attempt == Attempt::Change => Errno::NOENT,
                    PathAccess::None => Errno::ACCESS,
                    _ if matches!(self.mounts[m].layer, Layer::ReadOnly) => Errno::ROFS,
                    _ => Errno::ACCESS,
                })
            }
        }
    }

    /// Records that the rules refused something.
    pub(super) fn refuse(&self, m: usize, rel: &str, attempt: Attempt) {
        let mount = &self.mounts[m];
        let (path, rule_path) = (mount.guest_path(rel), mount.rule_path(rel));
        let PathRules { read, write } = &self.decisions.rules;
        let (verb, tool, scope) = match attempt {
            Attempt::Read => ("read", "Read", read),
            Attempt::Change | Attempt::Create => ("write", "Write", write),
        };
        let what = format!("{verb} {path}");
        let denied_by = |scope: &Scope<PathGlob>, path: &str| {
            scope.none_of.iter().find(|g| g.matches(path)).map(|g| g.pattern().to_owned())
        };
        let above =
            |path: &str| beneath::ancestors(path).skip(1).map(str::to_owned).collect::<Vec<_>>();
        let paths = || above(&rule_path).into_iter().chain([rule_path.clone()]);
        let denied =
            denied_by(scope, &rule_path).or_else(|| paths().find_map(|p| denied_by(read, &p)));
        let protected = match &mount.rules {
            Rules::Granted(granted) if attempt != Attempt::Read => {
                self.decisions.rules.protection(granted, &rule_path)
            }
            _ => None,
        };
        let read_only = matches!(mount.layer, Layer::ReadOnly) && attempt != Attempt::Read;
        let denial = match (&mount.rules, denied) {
            (Rules::Root(_), _) => {
                let fix = Some("write below /workspace (`--workspace DIR`) or /tmp".to_owned());
                Denial {
                    what,
                    rule: "no folder that may be written is there".to_owned(),
                    fix,
                    kind: DenialKind::Path,
                }
            }
            (Rules::Skill(hidden), _) if hidden.contains(rel) => Denial {
                what,
                rule: format!("a level denies {rel}"),
                fix: Some("skillhost permissions".into()),
                kind: DenialKind::Path,
            },
            (Rules::Skill(_) | Rules::Scratch | Rules::State(_), _) | (Rules::Packages, None) => {
                Denial {
                    what,
                    rule: format!("{} is read-only", mount.guest),
                    fix: None,
                    kind: DenialKind::Path,
                }
            }
            (Rules::Granted(_) | Rules::Packages, Some(pattern)) => Denial {
                what,
                rule: format!("`{pattern}` is denied"),
                fix: None,
                kind: DenialKind::Path,
            },
            (Rules::Granted(granted), None) if read_only => Denial {
                what,
                rule: format!("the mount {} is read-only", mount.guest),
                fix: Some(if granted.guest == "/workspace" {
                    "--workspace DIR".to_owned()
                } else {
                    format!("`mode: write` for the mount {} in the policy", granted.guest)
                }),
                kind: DenialKind::Path,
            },
            (Rules::Granted(_), None) if let Some(kind) = protected => {
                let rule = format!(
                    "it configures {}: only an entry of the operator's that names it grants writing it",
                    kind.description()
                );
                return self.record_protected(what, rule, &rule_path);
            }
            (Rules::Granted(_), None) => Denial {
                what,
                rule: "no entry of allowed-tools or the policy covers it".to_owned(),
                fix: entry(tool, &rule_path),
                kind: DenialKind::Path,
            },
        };
        self.decisions.record(denial);
    }

    /// The error for what lies behind another mount, which is recorded; any other error as it is.
    pub(super) fn refuse_crossing(&self, m: usize, rel: &str, error: Errno) -> Errno {
        if error != Errno::XDEV {
            return error;
        }
        let what = format!("reach {}", self.mounts[m].guest_path(rel));
        let rule = "another file system is mounted there, and mounts are not crossed".to_owned();
        let fix = Some("grant the inner folder by itself: an entry of `mounts` in the policy, with a `guest` path of its own".to_owned());
        self.decisions.record(Denial { what, rule, fix, kind: DenialKind::Path });
        Errno::ACCESS
    }

    /// Records the refusal of a path that only a literal entry grants.
    pub(super) fn record_protected(&self, what: String, rule: String, rule_path: &str) {
        self.decisions.record(Denial {
            what,
            rule,
            fix: entry("Write", rule_path),
            kind: DenialKind::Path,
        });
    }

    /// Whether any rule denies paths.
    pub(super) fn has_denials(&self) -> bool {
        !self.decisions.rules.read.none_of.is_empty()
            || !self.decisions.rules.write.none_of.is_empty()
    }

    /// Forgets what was decided in a mount.
    pub(super) fn forget_decisions(&self, m: usize) {
        lock(&self.decisions.known[m]).clear();
    }

    pub(super) fn path_rules(&self) -> &PathRules {
        &self.decisions.rules
    }

    /// Records that something was refused for what it is, whatever the rules say.
    pub(super) fn refuse_kind(&self, m: usize, rel: &str, attempt: Attempt, rule: &str) {
        let verb = if attempt == Attempt::Read { "read" } else { "write" };
        let what = format!("{verb} {}", self.mounts[m].guest_path(rel));
        self.decisions.record(Denial {
            what,
            rule: rule.to_owned(),
            fix: None,
            kind: DenialKind::Path,
        });
    }
}

impl OpenMount {
    /// The absolute guest path of a canonical path.
    pub(super) fn guest_path(&self, rel: &str) -> String {
        if rel.is_empty() {
            self.guest.clone()
        } else {
            format!("{}/{rel}", self.guest.trim_end_matches('/'))
        }
    }

    /// The path that rules use for a canonical path.
    pub(super) fn rule_path(&self, rel: &str) -> String {
        let path = self.guest_path(rel);
        match &self.rules {
            Rules::Granted(mount) => mount.rule_path(&path).into_owned(),
            _ => path,
        }
    }
}

fn fold_path(path: &str) -> String {
    path.split('/').map(normalize_name).collect::<Vec<_>>().join("/")
}

/// The flag that allows one path; `None` where the path has characters that mean something in a
/// pattern or to a shell.
fn entry(tool: &str, path: &str) -> Option<String> {
    let plain = |c: char| !c.is_control() && !"*?[]{}\\'()".contains(c);
    let path = path.strip_prefix("/workspace/").unwrap_or(path);
    path.chars().all(plain).then(|| format!("--allow '{tool}({path})'"))
}
