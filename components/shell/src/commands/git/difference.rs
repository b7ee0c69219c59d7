//! Formats differences: patches, statistics and names.

use super::objects::Id;
use super::repository::Repository;
use super::trees::{FileChange, Item, SUBMODULE, quote_path};
use crate::commands::diff::print::unified;
use crate::commands::diff::script::{Change, changes};

/// The information to show for each difference.
#[derive(Clone, Default)]
pub(super) struct Show {
    pub(super) patch: bool,
    pub(super) stat: bool,
    pub(super) numstat: bool,
    pub(super) shortstat: bool,
    pub(super) names: bool,
    pub(super) letters: bool,
    /// Suppresses the default format.
    pub(super) none: bool,
    /// Separates names by NUL bytes.
    pub(super) zeros: bool,
    /// Lines of context, 3 by default.
    pub(super) context: Option<usize>,
    /// Letters of the change types to show. Empty means all.
    pub(super) filter: String,
}

/// Columns of `--stat`.
const WIDTH: usize = 80;

/// A NUL in this many leading bytes marks a file as binary.
const HEAD: usize = 8000;

/// Added and deleted lines of one file.
struct Count {
    name: String,
    added: usize,
    deleted: usize,
    /// The old and new size of a binary file.
    binary: Option<(usize, usize)>,
}

impl Show {
    /// Applies an option. Returns `false` if it is not one of these.
    pub(super) fn option(&mut self, option: &str) -> bool {
        match option {
            "-p" | "-u" | "--patch" => self.patch = true,
            "--stat" => self.stat = true,
            "--numstat" => self.numstat = true,
            "--shortstat" => self.shortstat = true,
            "--name-only" => self.names = true,
            "--name-status" => self.letters = true,
            "-s" | "--no-patch" => self.none = true,
            "-z" => self.zeros = true,
            // Options that request the only behaviour there is.
            "--no-color" | "--color=never" | "--color=auto" | "--no-ext-diff" | "--no-textconv"
            | "-M" | "--find-renames" | "--no-pager" => {}
            _ => {
                if let Some(letters) = option.strip_prefix("--diff-filter=") {
                    self.filter = letters.to_owned();
                    return true;
                }
                let count = option.strip_prefix("--unified=").or_else(|| option.strip_prefix("-U"));
                let Some(count) = count.and_then(|count| count.parse().ok()) else { return false };
                (self.context, self.patch) = (Some(count), true);
            }
        }
        true
    }

    pub(super) fn is_any(&self) -> bool {
        self.none
            || self.patch
            || self.stat
            || self.numstat
            || self.shortstat
            || self.names
            || self.letters
    }
}

impl Repository {
    pub(super) async fn show(
        &mut self,
        changed: &[FileChange],
        show: &Show,
    ) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let kinds =
            |one: &&FileChange| show.filter.is_empty() || show.filter.contains(one.letter());
        let changed: Vec<&FileChange> = changed.iter().filter(kinds).collect();
        if changed.is_empty() || show.none {
            return Ok(out);
        }
        let (between, end) = if show.zeros { ('\0', '\0') } else { ('\t', '\n') };
        let name = |path: &str| if show.zeros { path.to_owned() } else { quote_path(path) };
        for one in changed.iter().filter(|_| show.letters) {
            match &one.from {
                Some(from) => out.extend(
                    format!("R100{between}{}{between}{}{end}", name(from), name(&one.path)).bytes(),
                ),
                None => {
                    out.extend(format!("{}{between}{}{end}", one.letter(), name(&one.path)).bytes())
                }
            }
        }
        for one in changed.iter().filter(|_| show.names) {
            out.extend(format!("{}{end}", name(&one.path)).bytes());
        }
        if show.stat || show.numstat || show.shortstat {
            let mut counts = Vec::new();
            for one in &changed {
                counts.push(self.count(one).await?);
            }
            if show.numstat {
                for count in &counts {
                    let line = match count.binary {
                        Some(_) => format!("-\t-\t{}{end}", count.name),
                        None => format!("{}\t{}\t{}{end}", count.added, count.deleted, count.name),
                    };
                    out.extend(line.bytes());
                }
            }
            if show.stat {
                out.extend(stat(&counts).bytes());
            }
            if show.stat || show.shortstat {
                out.extend(total(&counts).bytes());
            }
        }
        if show.patch {
            if !out.is_empty() {
                out.push(b'\n');
            }
            for one in changed {
                let patch = self.patch(one, show.context.unwrap_or(3)).await?;
                out.extend(patch);
            }
        }
        Ok(out)
    }

    async fn patch(&mut self, one: &FileChange, context: usize) -> Result<Vec<u8>, String> {
        let (from, to) =
            (format!("a/{}", one.from.as_ref().unwrap_or(&one.path)), format!("b/{}", one.path));
        let mut out =
            format!("diff --git {} {}\n", quote_path(&from), quote_path(&to)).into_bytes();
        let mode = |item: Option<Item>| item.map(|item| item.mode);
        match (mode(one.old), mode(one.new)) {
            (None, Some(mode)) => out.extend(format!("new file mode {mode:06o}\n").bytes()),
            (Some(mode), None) => out.extend(format!("deleted file mode {mode:06o}\n").bytes()),
            (Some(old), Some(new)) if old != new => {
                out.extend(format!("old mode {old:06o}\nnew mode {new:06o}\n").bytes())
            }
            _ => {}
        }
        if let Some(from) = &one.from {
            out.extend(
                format!(
                    "similarity index 100%\nrename from {}\nrename to {}\n",
                    quote_path(from),
                    quote_path(&one.path)
                )
                .bytes(),
            );
        }
        let id = |item: Option<Item>| item.map(|item| item.id);
        if id(one.old) == id(one.new) {
            return Ok(out);
        }
        let (mut names, same) = (Vec::new(), mode(one.old) == mode(one.new));
        for item in [one.old, one.new] {
            names.push(match item {
                Some(item) => self.short(item.id).await,
                None => "0".repeat(self.short(Id::default()).await.len()),
            });
        }
        // Both names get the length of the longer one.
        let length = names.iter().map(String::len).max().unwrap_or(7);
        for (name, item) in names.iter_mut().zip([one.old, one.new]) {
            *name = item.map_or_else(
                || "0".repeat(length),
                |item| item.id.to_string()[..length].to_owned(),
            );
        }
        let mode = if same {
            mode(one.old).map(|mode| format!(" {mode:06o}")).unwrap_or_default()
        } else {
            String::new()
        };
        out.extend(format!("index {}..{}{mode}\n", names[0], names[1]).bytes());
        let (old, new) =
            (self.content(one.old, &one.path).await?, self.content(one.new, &one.path).await?);
        let (from, to) = (
            one.old.map_or("/dev/null".into(), |_| quote_path(&from)),
            one.new.map_or("/dev/null".into(), |_| quote_path(&to)),
        );
        if is_binary(&old) || is_binary(&new) {
            out.extend(format!("Binary files {from} and {to} differ\n").bytes());
            return Ok(out);
        }
        let (old, new) = (lines(&old), lines(&new));
        let tab = |name: &str| if name.contains(' ') { "\t" } else { "" };
        let hunks = unified(&old, &new, &changes(&old, &new, usize::MAX), context, |at| {
            heading(&old[..at])
        });
        if !hunks.is_empty() {
            out.extend(format!("--- {from}{}\n+++ {to}{}\n", tab(&from), tab(&to)).bytes());
            out.extend(hunks);
        }
        Ok(out)
    }

    async fn count(&mut self, one: &FileChange) -> Result<Count, String> {
        let (old, new) =
            (self.content(one.old, &one.path).await?, self.content(one.new, &one.path).await?);
        let name =
            one.from.as_ref().map_or_else(|| quote_path(&one.path), |from| moved(from, &one.path));
        if is_binary(&old) || is_binary(&new) {
            return Ok(Count { name, added: 0, deleted: 0, binary: Some((old.len(), new.len())) });
        }
        let changes: Vec<Change> = changes(&lines(&old), &lines(&new), 0);
        let sum = |side: fn(&Change) -> usize| changes.iter().map(side).sum();
        Ok(Count {
            name,
            added: sum(|one| one.new.len()),
            deleted: sum(|one| one.old.len()),
            binary: None,
        })
    }

    async fn content(&mut self, item: Option<Item>, path: &str) -> Result<Vec<u8>, String> {
        match item {
            None => Ok(Vec::new()),
            Some(item) if item.mode == SUBMODULE => {
                Ok(format!("Subproject commit {}\n", item.id).into_bytes())
            }
            Some(item) if item.work => {
                let path = self.work()?.join(path);
                let stat = self
                    .fs
                    .lstat(&path)
                    .await
                    .map_err(|error| format!("fatal: {}: {error}", path.display()))?;
                Ok(super::index::content(&*self.fs, &path, &stat).await.unwrap_or_default())
            }
            Some(item) => Ok(self.object(item.id).await?.data.clone()),
        }
    }
}

/// Formats a rename as `src/{old => new}/file`.
fn moved(from: &str, to: &str) -> String {
    let start = from
        .bytes()
        .zip(to.bytes())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a)
        .collect::<Vec<u8>>();
    let start = start.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let same = from[start..]
        .bytes()
        .rev()
        .zip(to[start..].bytes().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let end = from.as_bytes()[from.len() - same..]
        .iter()
        .position(|byte| *byte == b'/')
        .map_or(0, |at| same - at);
    if start == 0 && end == 0 {
        return format!("{} => {}", quote_path(from), quote_path(to));
    }
    let (old, new) =
        (&from[start..(from.len() - end).max(start)], &to[start..(to.len() - end).max(start)]);
    format!("{}{{{old} => {new}}}{}", &from[..start], &from[from.len() - end..])
}

fn stat(counts: &[Count]) -> String {
    let digits = |number: usize| number.to_string().len();
    let most = counts.iter().map(|count| count.added + count.deleted).max().unwrap_or(0);
    let number = counts
        .iter()
        .map(|count| if count.binary.is_some() { 3 } else { digits(most) })
        .max()
        .unwrap_or(1);
    let longest = counts.iter().map(|count| count.name.chars().count()).max().unwrap_or(0);
    let bars = |count: &Count| match count.binary {
        Some((old, new)) => digits(old) + digits(new) + " ->  bytes".len(),
        None => count.added + count.deleted,
    };
    let (mut name, mut graph) = (longest, counts.iter().map(bars).max().unwrap_or(0).max(most));
    if name + number + 6 + graph > WIDTH {
        graph = graph.min((WIDTH * 3 / 8).saturating_sub(number + 6).max(6));
        if name > WIDTH - number - 6 - graph {
            name = WIDTH - number - 6 - graph;
        } else {
            graph = WIDTH - number - 6 - name;
        }
    }
    let scaled = |count: usize| if count == 0 { 0 } else { 1 + count * (graph - 1) / most };
    let mut out = String::new();
    for count in counts {
        let mut label = count.name.clone();
        if label.chars().count() > name {
            let end: String =
                label.chars().skip(label.chars().count() - name.saturating_sub(3)).collect();
            label = format!("...{}", end.find('/').map_or(end.as_str(), |at| &end[at..]));
        }
        let pad = " ".repeat(name.saturating_sub(label.chars().count()));
        let bar = match count.binary {
            Some((old, new)) => {
                out += &format!(" {label}{pad} | {:>number$} {old} -> {new} bytes\n", "Bin");
                continue;
            }
            None if most <= graph => (count.added, count.deleted),
            None => {
                let sum = count.added + count.deleted;
                let all = scaled(sum).max(if count.added > 0 && count.deleted > 0 { 2 } else { 0 });
                if count.added < count.deleted {
                    (scaled(count.added), all - scaled(count.added))
                } else {
                    (all - scaled(count.deleted), scaled(count.deleted))
                }
            }
        };
        let line = format!(
            " {label}{pad} | {:>number$} {}{}",
            count.added + count.deleted,
            "+".repeat(bar.0),
            "-".repeat(bar.1)
        );
        out += line.trim_end();
        out.push('\n');
    }
    out
}

fn total(counts: &[Count]) -> String {
    let (added, deleted) = counts
        .iter()
        .fold((0, 0), |(added, deleted), count| (added + count.added, deleted + count.deleted));
    let say = |count: usize, what: &str, sign: &str| {
        format!(", {count} {what}{}{sign}", if count == 1 { "" } else { "s" })
    };
    let mut out =
        format!(" {} file{} changed", counts.len(), if counts.len() == 1 { "" } else { "s" });
    if added > 0 || deleted == 0 {
        out += &say(added, "insertion", "(+)");
    }
    if deleted > 0 || added == 0 {
        out += &say(deleted, "deletion", "(-)");
    }
    out + "\n"
}

/// Finds the nearest line above that looks like the head of a function.
fn heading<'a>(above: &[&'a [u8]]) -> Option<&'a [u8]> {
    let line = above.iter().rev().find(|line| {
        line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'))
    })?;
    Some(line[..line.len().min(80)].trim_ascii_end())
}

fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(HEAD)].contains(&0)
}
