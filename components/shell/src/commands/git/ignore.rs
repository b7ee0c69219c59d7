//! `.gitignore`: the files that are left out.

use std::path::Path;

use bashkit::FileSystem;

use super::repository::text_of;

#[derive(Clone, Default)]
pub(super) struct Ignore(Vec<Rule>);

#[derive(Clone)]
struct Rule {
    /// The folder of the `.gitignore` file, with a trailing slash.
    folder: String,
    pattern: String,
    keeps: bool,
    folders_only: bool,
    /// Whether the pattern matches the path from its folder on, rather than a name at any depth.
    anchored: bool,
}

impl Ignore {
    pub(super) async fn read(&mut self, fs: &dyn FileSystem, file: &Path, folder: &str) {
        for line in text_of(fs, file).await.unwrap_or_default().lines() {
            let line = if line.ends_with("\\ ") { line } else { line.trim_end() };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (keeps, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
            let (folders_only, line) =
                line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
            let pattern = line.strip_prefix('/').unwrap_or(line).to_owned();
            self.0.push(Rule {
                folder: folder.to_owned(),
                pattern,
                keeps,
                folders_only,
                anchored: line.contains('/'),
            });
        }
    }

    /// Returns whether a path is ignored. The folders above it must not be.
    pub(super) fn covers(&self, path: &str, is_folder: bool) -> bool {
        let matches = |rule: &&Rule| {
            let Some(below) = path.strip_prefix(rule.folder.as_str()) else { return false };
            let text =
                if rule.anchored { below } else { below.rsplit('/').next().unwrap_or(below) };
            (is_folder || !rule.folders_only) && glob(rule.pattern.as_bytes(), text.as_bytes())
        };
        // Of rules in several folders, the deepest one was read last and wins.
        self.0.iter().rev().find(matches).is_some_and(|rule| !rule.keeps)
    }
}

/// Matches git's patterns: `*` and `?` do not match slashes, `**` does.
pub(super) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', b'*', b'/', rest @ ..] => {
            glob(rest, text)
                || (0..text.len()).any(|at| text[at] == b'/' && glob(rest, &text[at + 1..]))
        }
        [b'/', b'*', b'*'] => text.len() > 1 && text[0] == b'/',
        [b'*', b'*', rest @ ..] => (0..=text.len()).any(|at| glob(rest, &text[at..])),
        [b'*', rest @ ..] => {
            let name = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
            (0..=name).any(|at| glob(rest, &text[at..]))
        }
        [b'?', rest @ ..] => {
            text.first().is_some_and(|byte| *byte != b'/') && glob(rest, &text[1..])
        }
        [b'[', rest @ ..] => {
            let Some((byte, after)) = text.split_first() else { return false };
            let Some(end) = (1..rest.len()).find(|at| rest[*at] == b']') else {
                return *byte == b'[' && glob(rest, after);
            };
            let (inverted, set) = match rest[..end].split_first() {
                Some((b'!' | b'^', set)) => (true, set),
                _ => (false, &rest[..end]),
            };
            let (mut found, mut at) = (false, 0);
            while at < set.len() {
                let range = set.get(at + 1) == Some(&b'-') && at + 2 < set.len();
                let last = if range { set[at + 2] } else { set[at] };
                found |= (set[at]..=last).contains(byte);
                at += if range { 3 } else { 1 };
            }
            found != inverted && glob(&rest[end + 1..], after)
        }
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => {
            text.first() == Some(byte) && glob(rest, &text[1..])
        }
    }
}
