//! Decides which paths a guest may read and write, and records denials.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, OnceLock};

use rustix::io::Errno;

use super::mount::{Layer, OpenMount, Rules};
use super::overlay::Tree;
use super::{Vfs, beneath, lock};
use skillhost_policy::WORKSPACE;
use skillhost_policy::capabilities::{MissingEntry, Mount, PathAccess, PathRules, Scope};
use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_policy::pattern::PathGlob;
use skillhost_policy::protected::normalize_name;

/// The most denials that an outcome lists.
const DENIALS_MAX: usize = 100;

/// Decisions cached per mount; a full cache is cleared.
const DECISIONS_MAX: usize = 4_096;

/// The rules of an invocation, with cached decisions and recorded denials.
#[derive(Debug)]
pub(super) struct Decisions {
    rules: PathRules,
    cache: Vec<Mutex<HashMap<String, PathAccess>>>,
    denials: Mutex<BTreeSet<Denial>>,
    /// The read and write denials in lower case, for file systems that ignore case.
    folded: OnceLock<[Vec<PathGlob>; 2]>,
}

/// Which of a path's two denial lists applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessKind {
    Read,
    Write,
}

/// What a guest tried to do, for the record of denials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Read,
    /// A change to an existing entry; entries that the guest cannot see do not exist for it.
    Change,
    /// The creation of an entry, which may exist already.
    Create,
}

impl Decisions {
    pub(super) fn new(rules: PathRules, mounts: usize) -> Decisions {
        Decisions {
            rules,
            cache: (0..mounts).map(|_| Mutex::default()).collect(),
            denials: Mutex::default(),
            folded: OnceLock::new(),
        }
    }

    /// Checks whether a denial matches a path on a file system that ignores case.
    fn denies_folded(&self, denied: AccessKind, path: &str) -> bool {
        let [read, write] = self.folded.get_or_init(|| {
            let PathRules { read, write } = &self.rules;
            [&read.none_of, &write.none_of].map(|globs| {
                // Dropping a glob that does not compile would drop its denial, so it matches
                // everything.
                globs
                    .iter()
                    .map(|glob| {
                        PathGlob::new(&fold_path(glob.pattern()))
                            .unwrap_or_else(|_| PathGlob::everything())
                    })
                    .collect()
            })
        });
        let globs: &Vec<PathGlob> = if denied == AccessKind::Read { read } else { write };
        globs.iter().any(|glob| glob.matches(&fold_path(path)))
    }

    pub(super) fn denials(&self) -> Vec<Denial> {
        lock(&self.denials).iter().cloned().collect()
    }

    pub(super) fn record(&self, denial: Denial) {
        let mut denials = lock(&self.denials);
        if denials.len() < DENIALS_MAX {
            denials.insert(denial);
        }
    }
}

impl Vfs {
    /// Returns what the rules allow at a canonical path. Nothing is allowed below a folder that the
    /// guest cannot see.
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
        let mut cache = lock(&self.decisions.cache[m]);
        if let Some(access) = cache.get(rel) {
            return *access;
        }
        let top = (!rel.is_empty()).then_some("");
        let mut access = PathAccess::Write;
        for path in top.into_iter().chain(beneath::ancestors(rel)).chain([rel]) {
            access = match cache.get(path) {
                Some(access) => *access,
                None => {
                    let access = self.decide(m, granted, path);
                    if cache.len() >= DECISIONS_MAX {
                        cache.clear();
                    }
                    cache.insert(path.to_owned(), access);
                    access
                }
            };
            if access == PathAccess::None {
                break;
            }
        }
        access
    }

    /// Hides a mount in `/` if the guest cannot see the mount itself.
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
                    && self.decisions.denies_folded(AccessKind::Read, &mount.rule_path(rel)) =>
            {
                PathAccess::None
            }
            Some(granted)
                if self.folds_case(m)
                    && self.decisions.denies_folded(AccessKind::Write, &mount.rule_path(rel)) =>
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

    /// Checks whether the same rules apply to everything below a mount, which means that a folder
    /// can be renamed with its contents.
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

    /// Allows a change, or records its denial.
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

    /// Records a denial, with the rule and the fix.
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
            scope.none_of.iter().find(|glob| glob.matches(path)).cloned()
        };
        let above =
            |path: &str| beneath::ancestors(path).skip(1).map(str::to_owned).collect::<Vec<_>>();
        let paths = || above(&rule_path).into_iter().chain([rule_path.clone()]);
        let pattern =
            denied_by(scope, &rule_path).or_else(|| paths().find_map(|p| denied_by(read, &p)));
        let protected = match &mount.rules {
            Rules::Granted(granted) if attempt != Attempt::Read => {
                self.decisions.rules.protection(granted, &rule_path)
            }
            _ => None,
        };
        let missing = scope.missing_entry(|glob| glob.matches(&rule_path));
        let read_only = matches!(mount.layer, Layer::ReadOnly) && attempt != Attempt::Read;
        let mut kind = DenialKind::Path;
        let (rule, fix) = match (&mount.rules, pattern) {
            (Rules::Root(_), _) => (
                "/ is read-only".to_owned(),
                Some("write to /workspace (`--workspace DIR`) or /tmp".to_owned()),
            ),
            (Rules::Skill(hidden), _) if hidden.contains(rel) => (
                format!("a permission level blocks {rel}"),
                Some("skillhost permissions".to_owned()),
            ),
            (Rules::Skill(_), _) if !self.mounts.iter().any(|mount| mount.guest == WORKSPACE) => (
                format!("{} is read-only", mount.guest),
                Some("write to /workspace (`--workspace DIR`) or /tmp".to_owned()),
            ),
            (Rules::Skill(_) | Rules::Scratch | Rules::State(_), _) | (Rules::Packages, None) => {
                (format!("{} is read-only", mount.guest), None)
            }
            (Rules::Granted(_) | Rules::Packages, Some(pattern)) => {
                let rule = format!("`{}` is denied", pattern.pattern());
                kind = DenialKind::DeniedPath(Box::new(pattern));
                (rule, None)
            }
            (Rules::Granted(granted), None) if read_only && missing.is_none() => {
                let fix = if granted.guest == "/workspace" {
                    "--workspace DIR".to_owned()
                } else {
                    format!("`mode: write` for the mount {} in the policy", granted.guest)
                };
                (format!("the mount {} is read-only", mount.guest), Some(fix))
            }
            (Rules::Granted(_), None) if let Some(kind) = protected => {
                let rule = format!(
                    "it configures {}; only an operator entry that names it can grant writing to it",
                    kind.description()
                );
                return self.record_protected(what, rule, &rule_path);
            }
            (Rules::Granted(_), None) => {
                let missing = missing.unwrap_or(MissingEntry::Operator);
                let rule = format!("not granted: {} for this path", missing.describe());
                (rule, entry_for(tool, &rule_path).map(|entry| missing.fix(&entry)))
            }
        };
        self.decisions.record(Denial { what, rule, fix, kind });
    }

    /// Maps `XDEV` to a recorded denial; returns any other error unchanged.
    pub(super) fn refuse_crossing(&self, m: usize, rel: &str, error: Errno) -> Errno {
        if error != Errno::XDEV {
            return error;
        }
        let what = format!("reach {}", self.mounts[m].guest_path(rel));
        let rule = "another file system is mounted there; a grant does not cross mounts".to_owned();
        let fix = Some(
            "grant the inner folder separately: add an entry with its own `guest` path to `mounts` in the policy"
                .to_owned(),
        );
        self.decisions.record(Denial { what, rule, fix, kind: DenialKind::Path });
        Errno::ACCESS
    }

    /// Records the denial of a path that only a literal entry can grant.
    pub(super) fn record_protected(&self, what: String, rule: String, rule_path: &str) {
        self.decisions.record(Denial {
            what,
            rule,
            fix: entry_for("Write", rule_path).map(|entry| MissingEntry::Operator.fix(&entry)),
            kind: DenialKind::Path,
        });
    }

    /// Checks whether any rule denies paths.
    pub(super) fn has_denials(&self) -> bool {
        !self.decisions.rules.read.none_of.is_empty()
            || !self.decisions.rules.write.none_of.is_empty()
    }

    /// Clears the cached decisions of a mount.
    pub(super) fn forget_decisions(&self, m: usize) {
        lock(&self.decisions.cache[m]).clear();
    }

    pub(super) fn path_rules(&self) -> &PathRules {
        &self.decisions.rules
    }

    /// Records a denial that depends on what the entry is, not on the rules for its path.
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
    /// Returns the absolute guest path of a canonical path.
    pub(super) fn guest_path(&self, rel: &str) -> String {
        if rel.is_empty() {
            self.guest.clone()
        } else {
            format!("{}/{rel}", self.guest.trim_end_matches('/'))
        }
    }

    /// Returns the path that rules use for a canonical path.
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

/// Returns the entry that grants one path, or `None` if the path contains characters that are
/// special in a pattern or a shell.
fn entry_for(tool: &str, path: &str) -> Option<String> {
    let plain = |c: char| !c.is_control() && !"*?[]{}\\'()".contains(c);
    if !path.chars().all(plain) {
        return None;
    }
    // The next run of the command has another temporary file in the same folder.
    if let Some((folder, name)) = path.rsplit_once('/')
        && name.starts_with(SHELL_TEMPORARY)
    {
        return Some(match folder.strip_prefix("/workspace") {
            Some("") => tool.to_owned(),
            Some(below) if below.starts_with('/') => format!("{tool}({}/**)", &below[1..]),
            _ => format!("{tool}({folder}/**)"),
        });
    }
    let path = path.strip_prefix("/workspace/").unwrap_or(path);
    Some(format!("{tool}({path})"))
}

/// The start of the names of the shell's temporary files, from which commands such as `sed -i`
/// rename their result.
const SHELL_TEMPORARY: &str = ".bashkit-";
