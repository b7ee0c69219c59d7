//! Limits needs to what was granted before. A pattern that is not completely granted is replaced by
//! the entries that granted the uses.

use super::ProposedEntry;
use super::needs::{Need, Needs};
use skillhost_policy::Rule;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::entry::{self, EntryList, Permission};
use skillhost_policy::manifest::ToolEntry;
use skillhost_policy::outcome::uses::PathUse;
use skillhost_policy::pattern::{CommandPattern, Destination, HostPattern, PathGlob};

/// An entry for no further files. Without an entry about files, `Bash` requests all files.
const NO_FILES: &str = "Read(/skill/**)";

/// The most examples of uses for an entry.
const EXAMPLES: usize = 5;

/// The patterns of one side, with the texts of their entries.
#[derive(Default)]
pub(super) struct Granted {
    read: Vec<(PathGlob, String)>,
    write: Vec<(PathGlob, String)>,
    spawn: Vec<(CommandPattern, String)>,
    fetch: Vec<(HostPattern, String)>,
}

impl Granted {
    /// Returns what a skill requests.
    pub(super) fn asked(entries: &[ToolEntry]) -> Granted {
        let names_paths = entries.iter().any(|entry| entry::names_paths(&entry.text));
        let mut side = Granted::of(entries.iter().map(|entry| {
            (entry::parse(&entry.text, EntryList::AllowedTools), entry.text.as_str())
        }));
        if !names_paths {
            side.imply();
        }
        side
    }

    /// Returns what rules of a policy allow.
    pub(super) fn allowed<'r>(rules: impl Iterator<Item = &'r Rule>) -> Granted {
        Granted::of(rules.map(|rule| (rule.permission.clone(), rule.text.as_str())))
    }

    fn of<'t>(tools: impl Iterator<Item = (Permission, &'t str)>) -> Granted {
        let mut side = Granted::default();
        for (tool, text) in tools {
            let text = text.to_owned();
            match tool {
                Permission::Read(glob) => side.read.push((glob, text)),
                Permission::Write(glob) => {
                    side.read.push((glob.clone(), text.clone()));
                    side.write.push((glob, text));
                }
                Permission::Bash(command) => side.spawn.push((command, text)),
                Permission::WebFetch(host) => side.fetch.push((host, text)),
                Permission::NotGrantable { .. } => {}
            }
        }
        side
    }

    /// Adds `Read` and `Write`, which a skill's `Bash` implies without entries about files.
    fn imply(&mut self) {
        if !self.spawn.is_empty() && self.read.is_empty() {
            self.read = vec![
                (PathGlob::everything(), "Read".into()),
                (PathGlob::everything(), "Write".into()),
            ];
            self.write = vec![(PathGlob::everything(), "Write".into())];
        }
    }
}

/// Returns entries for the needs. None allows more than what was granted.
pub(super) fn entries(needs: &Needs, old: &Granted) -> Vec<ProposedEntry> {
    let mut all = Vec::new();
    for need in &needs.write {
        all.extend(limit_to_granted(need, &old.write, covers_path, uses_path, |(path, _)| {
            printable(path)
        }));
    }
    for need in &needs.read {
        all.extend(limit_to_granted(need, &old.read, covers_path, uses_path, |(path, _)| {
            printable(path)
        }));
    }
    for need in &needs.spawn {
        all.extend(limit_to_granted(
            need,
            &old.spawn,
            CommandPattern::covers,
            |p, argv| p.matches(argv),
            |argv| printable(&argv.join(" ")),
        ));
    }
    for need in &needs.fetch {
        all.extend(limit_to_granted(
            need,
            &old.fetch,
            HostPattern::covers,
            |p, to| p.matches(to),
            show_target,
        ));
    }
    let mut kept: Vec<ProposedEntry> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let holds_it = |other: usize| match (path_of(&all[other].entry), path_of(&one.entry)) {
            // Keep the first of two equal entries.
            (Some((wide, writes)), Some((narrow, needs))) => {
                (writes || !needs)
                    && wide.covers(&narrow)
                    && (other < at || !(narrow.covers(&wide) && (needs || !writes)))
            }
            _ => other < at && all[other].entry == one.entry,
        };
        if !(0..all.len()).any(|other| other != at && holds_it(other)) {
            kept.push(one.clone());
        }
    }
    kept
}

/// Returns entries for `allowed-tools`. Adds an entry about files if `Bash` would imply all files.
pub(super) fn asking(needs: &Needs, old: &Granted) -> Vec<ProposedEntry> {
    let mut kept = entries(needs, old);
    let starts = kept.iter().any(|one| one.entry.starts_with("Bash"));
    if starts && !kept.iter().any(|one| entry::names_paths(&one.entry)) {
        let why = "without an entry about files, `Bash` would request all files; every skill can read its own folder anyway".to_owned();
        kept.push(ProposedEntry {
            entry: NO_FILES.into(),
            used_for: Vec::new(),
            generalised: Some(why),
        });
    }
    kept
}

/// Returns the needs that a side does not cover.
pub(super) fn beyond(needs: &Needs, side: &Granted) -> Needs {
    fn left<P: Clone, U: Clone>(
        needs: &[Need<P, U>],
        side: &[(P, String)],
        covers: impl Fn(&P, &P) -> bool,
        uses: impl Fn(&P, &U) -> bool,
    ) -> Vec<Need<P, U>> {
        let held = |need: &Need<P, U>| {
            need.pattern
                .as_ref()
                .is_some_and(|pattern| side.iter().any(|(old, _)| covers(old, pattern)))
                || need.uses.iter().all(|one| side.iter().any(|(old, _)| uses(old, one)))
        };
        let copy = |need: &Need<P, U>| Need {
            pattern: need.pattern.clone(),
            entry: need.entry.clone(),
            uses: need.uses.clone(),
            why: need.why.clone(),
        };
        needs.iter().filter(|need| !held(need)).map(copy).collect()
    }
    Needs {
        read: left(&needs.read, &side.read, covers_path, uses_path),
        write: left(&needs.write, &side.write, covers_path, uses_path),
        spawn: left(&needs.spawn, &side.spawn, CommandPattern::covers, |p, argv| p.matches(argv)),
        fetch: left(&needs.fetch, &side.fetch, HostPattern::covers, |p, to| p.matches(to)),
    }
}

fn limit_to_granted<P, U>(
    need: &Need<P, U>,
    old: &[(P, String)],
    covers: impl Fn(&P, &P) -> bool,
    uses: impl Fn(&P, &U) -> bool,
    show: impl Fn(&U) -> String,
) -> Vec<ProposedEntry> {
    let used_for: Vec<String> = need.uses.iter().take(EXAMPLES).map(show).collect();
    if need.pattern.as_ref().is_some_and(|pattern| old.iter().any(|(old, _)| covers(old, pattern)))
    {
        return vec![ProposedEntry {
            entry: need.entry.clone(),
            used_for,
            generalised: need.why.clone(),
        }];
    }
    let granted = old.iter().filter(|(old, _)| need.uses.iter().any(|one| uses(old, one)));
    let why = "unchanged: a narrower entry could not be verified".to_owned();
    granted
        .map(|(_, text)| ProposedEntry {
            entry: text.clone(),
            used_for: used_for.clone(),
            generalised: Some(why.clone()),
        })
        .collect()
}

fn covers_path(old: &PathGlob, new: &PathGlob) -> bool {
    old.covers(new)
}

/// Checks whether a pattern granted a use. A folder is also visible if a pattern matches inside it.
fn uses_path(pattern: &PathGlob, (path, what): &(String, PathUse)) -> bool {
    pattern.matches(path) || (what.folder && !what.written && pattern.may_contain(path))
}

fn path_of(entry: &str) -> Option<(PathGlob, bool)> {
    match entry::parse(entry, EntryList::AllowedTools) {
        Permission::Read(glob) => Some((glob, false)),
        Permission::Write(glob) => Some((glob, true)),
        _ => None,
    }
}

fn show_target(to: &Destination) -> String {
    let host = if to.host.contains(':') { format!("[{}]", to.host) } else { to.host.clone() };
    format!("{}://{host}:{}", if to.https { "https" } else { "http" }, to.port)
}
