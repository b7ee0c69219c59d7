//! Converts uses to patterns: one for each use, or one for many similar uses.

use std::collections::{BTreeMap, BTreeSet};

use super::within::{STATE, is_below};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::entry::SHELL_CHARACTERS;
use skillhost_policy::outcome::uses::{GrantUse, PathUse};
use skillhost_policy::pattern::{CommandPattern, Destination, HostPattern, PathGlob};
use skillhost_policy::{WORKSPACE, entry};

/// The number of similar uses that become one pattern.
const MANY: usize = 3;
/// With more files than this in one folder, the pattern is for the whole folder.
const CROWD: usize = 8;
/// The most words of a command in an entry, and the most bytes of a word.
const WORDS_MAX: usize = 8;
const WORD_MAX: usize = 100;

/// A needed pattern, with its uses.
pub(super) struct Need<P, U> {
    /// The pattern; `None` if the use cannot be written as an entry.
    pub(super) pattern: Option<P>,
    /// The pattern as an entry.
    pub(super) entry: String,
    pub(super) uses: Vec<U>,
    /// Why it allows more than what was used.
    pub(super) why: Option<String>,
}

/// All needs of a run.
#[derive(Default)]
pub(super) struct Needs {
    pub(super) read: Vec<Need<PathGlob, (String, PathUse)>>,
    pub(super) write: Vec<Need<PathGlob, (String, PathUse)>>,
    pub(super) spawn: Vec<Need<CommandPattern, Vec<String>>>,
    pub(super) fetch: Vec<Need<HostPattern, Destination>>,
}

impl Needs {
    pub(super) fn of(uses: &GrantUse) -> Needs {
        let mut needs =
            Needs { spawn: commands(&uses.commands), fetch: hosts(uses), ..Needs::default() };
        let by_entry = uses.paths.iter().filter(|(path, _)| !is_below(path, STATE));
        let mut left: BTreeMap<&str, PathUse> =
            by_entry.map(|(path, what)| (path.as_str(), *what)).collect();
        needs.write_paths(&mut left);
        needs.read_paths(&mut left);
        needs
    }

    fn write_paths(&mut self, left: &mut BTreeMap<&str, PathUse>) {
        for (mount, _) in left.clone().into_iter().filter(|(_, what)| what.whole) {
            self.write.push(path(
                "Write",
                &below(mount),
                "a folder was renamed, which requires that the whole mount is writable",
                left,
            ));
        }
        // Handle a folder before its contents.
        for (folder, _) in left.clone().into_iter().filter(|(_, what)| what.written && what.folder)
        {
            if left.contains_key(folder) {
                self.write.push(path(
                    "Write",
                    &below(folder),
                    "the folder itself was created or changed, and its entry covers everything below it",
                    left,
                ));
            }
        }
        let written: Vec<&str> =
            left.iter().filter(|(_, what)| what.written).map(|(path, _)| *path).collect();
        files("Write", &written, left, &mut self.write);
    }

    fn read_paths(&mut self, left: &mut BTreeMap<&str, PathUse>) {
        let all = left.clone();
        let known = |needs: &Needs, folder: &str| {
            let mut patterns =
                needs.read.iter().chain(&needs.write).filter_map(|need| need.pattern.as_ref());
            patterns.any(|pattern| pattern.may_contain(folder) || pattern.matches(folder))
        };
        for (folder, _) in all.iter().filter(|(_, what)| what.listed) {
            let listed_below = [below(folder), in_it(folder)];
            let done = |glob: &String| {
                self.read.iter().any(|need| {
                    need.pattern
                        .as_ref()
                        .is_some_and(|p| PathGlob::new(glob).is_ok_and(|g| p.covers(&g)))
                })
            };
            if listed_below.iter().any(done) {
                continue;
            }
            let children: Vec<(&str, PathUse)> = all
                .iter()
                .filter(|(path, _)| parent(path) == *folder)
                .map(|(p, w)| (*p, *w))
                .collect();
            if children.is_empty() && known(self, folder) {
                // Other entries already cover its contents.
                left.remove(folder);
                continue;
            }
            let (glob, why) =
                if is_whole_tree(folder, &all) && children.iter().any(|(_, what)| what.folder) {
                    (below(folder), "the folder and all its subfolders were listed".to_owned())
                } else if let Some(extension) = common_extension(&children) {
                    (
                        format!("{}/*.{extension}", shown(folder)),
                        format!(
                            "the folder was listed, and all {} entries end in .{extension}",
                            children.len()
                        ),
                    )
                } else {
                    (in_it(folder), "the folder was listed, which shows its contents".to_owned())
                };
            self.read.push(path("Read", &glob, &why, left));
            left.remove(folder);
        }
        let seen: Vec<&str> = left
            .iter()
            .filter(|(_, what)| !what.folder && !what.written)
            .map(|(path, _)| *path)
            .collect();
        files("Read", &seen, left, &mut self.read);
        let folders: Vec<&str> =
            left.iter().filter(|(_, what)| what.folder).map(|(path, _)| *path).collect();
        for folder in folders {
            if !known(self, folder) {
                let why =
                    "the folder itself was used, and no narrower entry makes a folder visible";
                self.read.push(path(
                    "Read",
                    &in_it(folder),
                    why,
                    &mut BTreeMap::from([(folder, all[folder])]),
                ));
            }
        }
    }
}

/// Converts files to needs. Many files of one folder with one extension become one entry.
fn files(
    tool: &str,
    paths: &[&str],
    left: &mut BTreeMap<&str, PathUse>,
    needs: &mut Vec<Need<PathGlob, (String, PathUse)>>,
) {
    let mut groups: BTreeMap<(&str, Option<&str>), Vec<&str>> = BTreeMap::new();
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths {
        groups.entry((parent(path), extension(path))).or_default().push(path);
    }
    for ((folder, extension), group) in &groups {
        if extension.is_none() || group.len() < MANY {
            *folders.entry(folder).or_default() += group.len();
        }
    }
    for ((folder, extension), group) in groups {
        match extension {
            Some(extension) if group.len() >= MANY => {
                let why = format!("{} files in one folder end in .{extension}", group.len());
                needs.push(path(tool, &format!("{}/*.{extension}", shown(folder)), &why, left));
            }
            _ if folders[folder] > CROWD => {
                if group.iter().any(|path| left.contains_key(path)) {
                    let why = format!("{} files in one folder were used", folders[folder]);
                    needs.push(path(tool, &in_it(folder), &why, left));
                }
            }
            _ => {
                for file in group {
                    let glob = shown(file);
                    let why = if glob == file {
                        ""
                    } else {
                        "`?` stands for a character with a special meaning in entries"
                    };
                    needs.push(path(
                        tool,
                        &glob,
                        why,
                        &mut BTreeMap::from([(file, left.get(file).copied().unwrap_or_default())]),
                    ));
                    left.remove(file);
                }
            }
        }
    }
}

/// Creates the need for a glob, and removes the uses that it covers from `left`.
fn path(
    tool: &str,
    glob: &str,
    why: &str,
    left: &mut BTreeMap<&str, PathUse>,
) -> Need<PathGlob, (String, PathUse)> {
    let relative = glob.strip_prefix(WORKSPACE).and_then(|rest| rest.strip_prefix('/'));
    let entry = format!("{tool}({})", relative.unwrap_or(glob));
    let pattern = PathGlob::new(glob).ok().filter(|pattern| {
        let read_back = match entry::parse(&entry, entry::EntryList::AllowedTools) {
            entry::Permission::Read(glob) | entry::Permission::Write(glob) => Some(glob),
            _ => None,
        };
        read_back.as_ref() == Some(pattern)
    });
    let takes = |path: &str, what: &PathUse| {
        let writes = what.written || what.whole;
        (tool == "Write" || !writes)
            && pattern.as_ref().is_some_and(|p| {
                p.matches(path) || (what.folder && p.may_contain(path) && in_it(path) == glob)
            })
    };
    let mut uses: Vec<(String, PathUse)> = left
        .iter()
        .filter(|(path, what)| takes(path, what))
        .map(|(p, w)| ((*p).to_owned(), *w))
        .collect();
    left.retain(|path, what| !takes(path, what));
    if uses.is_empty() {
        uses = left.iter().take(1).map(|(p, w)| ((*p).to_owned(), *w)).collect();
    }
    Need { pattern, entry, uses, why: (!why.is_empty()).then(|| why.to_owned()) }
}

/// Checks whether a folder and all known folders below it were listed.
fn is_whole_tree(folder: &str, all: &BTreeMap<&str, PathUse>) -> bool {
    let inside = |path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    all.iter().filter(|(path, what)| what.folder && inside(path)).all(|(_, what)| what.listed)
}

/// Returns the extension that all entries of a listed folder have, if all are files.
fn common_extension<'p>(children: &[(&'p str, PathUse)]) -> Option<&'p str> {
    let first = extension(children.first()?.0)?;
    children
        .iter()
        .all(|(path, what)| !what.folder && extension(path) == Some(first))
        .then_some(first)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Returns the extension of a file, if it can be used in an entry.
fn extension(path: &str) -> Option<&str> {
    let (stem, extension) = path.rsplit('/').next()?.rsplit_once('.')?;
    (!stem.is_empty()
        && !extension.is_empty()
        && extension.bytes().all(|b| b.is_ascii_alphanumeric()))
    .then_some(extension)
}

fn below(folder: &str) -> String {
    format!("{}/**", shown(folder))
}

fn in_it(folder: &str) -> String {
    format!("{}/*", shown(folder))
}

/// Converts a path to a glob, with `?` for each character with a special meaning in entries.
fn shown(path: &str) -> String {
    let special = |c: char| {
        "*?[]{}\\'\"(),$~!#`".contains(c)
            || c.is_whitespace()
            || printable(c.encode_utf8(&mut [0; 4])) != c.to_string()
    };
    path.chars().map(|c| if special(c) { '?' } else { c }).collect()
}

fn commands(used: &BTreeSet<Vec<String>>) -> Vec<Need<CommandPattern, Vec<String>>> {
    let mut by_program: BTreeMap<&str, Vec<&Vec<String>>> = BTreeMap::new();
    for argv in used {
        by_program.entry(argv.first().map_or("", String::as_str)).or_default().push(argv);
    }
    let mut needs = Vec::new();
    for (program, group) in by_program {
        if group.len() < MANY {
            needs.extend(group.into_iter().map(|argv| one_command(argv)));
            continue;
        }
        let first = group[0];
        let common = (0..first.len())
            .take_while(|at| group.iter().all(|argv| argv.get(*at) == first.get(*at)))
            .count();
        let words: Vec<String> = first[..common]
            .iter()
            .take_while(|word| is_plain(word))
            .take(WORDS_MAX)
            .cloned()
            .collect();
        let why =
            format!("{} command lines start with `{}`", group.len(), printable(&words.join(" ")));
        let uses = group.into_iter().cloned().collect();
        needs.push(command(words, true, uses, Some(why), program));
    }
    needs
}

fn one_command(argv: &[String]) -> Need<CommandPattern, Vec<String>> {
    let words: Vec<String> =
        argv.iter().take_while(|word| is_plain(word)).take(WORDS_MAX).cloned().collect();
    let open = words.len() < argv.len();
    let why = "the rest is specific to this run, or cannot be written in an entry".to_owned();
    command(
        words,
        open,
        vec![argv.to_vec()],
        open.then_some(why),
        argv.first().map_or("", String::as_str),
    )
}

fn command(
    words: Vec<String>,
    open: bool,
    uses: Vec<Vec<String>>,
    why: Option<String>,
    program: &str,
) -> Need<CommandPattern, Vec<String>> {
    let entry = format!("Bash({}{})", words.join(" "), if open { ":*" } else { "" });
    let fits = !words.is_empty() && !program.contains('=');
    let pattern = Some(CommandPattern { words, open }).filter(|_| fits);
    let pattern = pattern.filter(|pattern| {
        entry::parse(&entry, entry::EntryList::AllowedTools)
            == entry::Permission::Bash(pattern.clone())
    });
    Need { pattern, entry, uses, why }
}

/// Checks whether a word can be used in an entry, and does not change between runs.
fn is_plain(word: &str) -> bool {
    let odd =
        |c: char| SHELL_CHARACTERS.contains(c) || c == ',' || c.is_whitespace() || c.is_control();
    !word.is_empty()
        && word.len() <= WORD_MAX
        && !word.contains(odd)
        && !word.starts_with(['~', '#'])
        && !word.contains("/tmp/")
        && printable(word) == word
}

/// Returns needs for single hosts. Subdomains may belong to different owners, so they are not merged.
fn hosts(uses: &GrantUse) -> Vec<Need<HostPattern, Destination>> {
    let targets: BTreeSet<(bool, &str, u16)> =
        uses.requests.iter().map(|r| (r.https, r.host.as_str(), r.port)).collect();
    let need = |(https, host, port): (bool, &str, u16)| {
        let name = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let (scheme, own) = if https { ("domain:", 443) } else { ("http://", 80) };
        let entry = if port == own {
            format!("WebFetch({scheme}{name})")
        } else {
            format!("WebFetch({scheme}{name}:{port})")
        };
        let pattern = match entry::parse(&entry, entry::EntryList::AllowedTools) {
            entry::Permission::WebFetch(pattern) => Some(pattern),
            _ => None,
        };
        let why = (!https).then(|| "an entry for plain HTTP also allows HTTPS".to_owned());
        Need { pattern, entry, uses: vec![Destination { https, host: host.to_owned(), port }], why }
    };
    targets.into_iter().map(need).collect()
}
