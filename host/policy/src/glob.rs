//! Globs over absolute guest paths, matched segment by segment.
//!
//! globset alone lets a character class match `/`, and cannot tell which folders lead to a match.
//! This module therefore splits a glob at its slashes, matches each segment with globset, and
//! treats `**` as a state that repeats.

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

/// Braces multiply: `{a,b}{c,d}` expands to four globs. Real entries stay far below this limit.
const MAX_ALTERNATIVES: usize = 64;
/// Four times the longest path segment on Linux, which is enough for a deep path.
const MAX_LENGTH: usize = 1024;

/// A glob over absolute guest paths: `/workspace/docs/**`.
///
/// `*`, `?` and `[a-z]` match within one path segment, `**` matches any number of segments, and
/// `{a,b}` matches either alternative. A glob without wildcards matches a file, or a folder and
/// everything below it. `docs/**` also matches `docs` itself.
#[derive(Debug, Clone)]
pub struct PathGlob {
    pattern: String,
    alternatives: Vec<Vec<Segment>>,
}

#[derive(Debug, Clone)]
enum Segment {
    /// `**`: any number of segments.
    Deep,
    Literal(String),
    Wild(Box<GlobMatcher>),
}

impl PathGlob {
    /// Compiles an absolute guest glob. Drops empty and `.` segments.
    ///
    /// # Errors
    /// A message if the glob is not absolute, contains `..` or a control character, is too long, has
    /// too many alternatives or does not compile.
    pub fn new(pattern: &str) -> Result<PathGlob, String> {
        if !pattern.starts_with('/') {
            return Err("the glob is not absolute".into());
        }
        if pattern.len() > MAX_LENGTH {
            return Err(format!("the glob is longer than {MAX_LENGTH} bytes"));
        }
        if pattern.chars().any(char::is_control) {
            return Err("the glob contains a control character".into());
        }
        let mut expanded = Vec::new();
        expand(pattern, &mut expanded)?;
        let alternatives = expanded.iter().map(|text| segments(text)).collect::<Result<_, _>>()?;
        Ok(PathGlob { pattern: tidy(pattern), alternatives })
    }

    /// Returns the glob that matches every path.
    pub fn everything() -> PathGlob {
        PathGlob { pattern: "/**".into(), alternatives: vec![vec![Segment::Deep]] }
    }

    /// Returns the text of the glob.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Returns the path of a glob without wildcards, or `None` for other globs.
    pub fn literal(&self) -> Option<&str> {
        (!self.pattern.contains(['*', '?', '[', ']', '{', '}', '\\'])).then_some(&self.pattern)
    }

    /// Returns the path without wildcards that all matching paths start with.
    pub(super) fn literal_start(&self) -> String {
        let start = match self.alternatives.as_slice() {
            [glob] => literals(glob).collect::<Vec<_>>().join("/"),
            _ => String::new(),
        };
        format!("/{start}")
    }

    /// Checks whether an absolute guest path matches.
    pub fn matches(&self, path: &str) -> bool {
        self.alternatives.iter().any(|glob| walk(glob, path).last() == Some(&true))
    }

    /// Checks whether a folder may contain a matching path at any depth. May err towards yes.
    pub fn may_contain(&self, folder: &str) -> bool {
        self.alternatives.iter().any(|glob| {
            let live = walk(glob, folder);
            live[..glob.len()].contains(&true)
        })
    }

    /// Checks whether this glob matches everything that `other` matches. May err towards no.
    pub fn covers(&self, other: &PathGlob) -> bool {
        let Some(folder) = self.subtree() else { return self.pattern == other.pattern };
        other.alternatives.iter().all(|glob| {
            let prefix: Vec<&str> = literals(glob).collect();
            folder.len() <= prefix.len() && folder.iter().zip(&prefix).all(|(a, b)| a == b)
        })
    }

    /// Checks whether some path may match both globs. May err towards yes.
    pub fn overlaps(&self, other: &PathGlob) -> bool {
        self.alternatives.iter().any(|a| {
            other.alternatives.iter().any(|b| {
                // After the first `**` of either glob, anything can match. Before it, only a
                // literal segment rules out a match.
                for (left, right) in a.iter().zip(b) {
                    match (left, right) {
                        (Segment::Deep, _) | (_, Segment::Deep) => return true,
                        (Segment::Literal(l), Segment::Literal(r)) if l != r => return false,
                        (Segment::Literal(text), Segment::Wild(glob))
                        | (Segment::Wild(glob), Segment::Literal(text))
                            if !glob.is_match(text) =>
                        {
                            return false;
                        }
                        _ => {}
                    }
                }
                let rest = &a[b.len().min(a.len())..];
                let rest = if rest.is_empty() { &b[a.len().min(b.len())..] } else { rest };
                rest.iter().all(|s| matches!(s, Segment::Deep))
            })
        })
    }

    /// Returns the folder of a glob that matches one whole folder, such as `/a/b` and `/a/b/**`.
    fn subtree(&self) -> Option<Vec<&str>> {
        let [glob] = self.alternatives.as_slice() else { return None };
        let folder: Vec<&str> = literals(glob).collect();
        (folder.len() + 1 == glob.len() && matches!(glob.last(), Some(Segment::Deep)))
            .then_some(folder)
    }
}

/// Returns the states after matching a path: `live[i]` means that the first `i` segments of the glob
/// match the whole path.
fn walk(glob: &[Segment], path: &str) -> Vec<bool> {
    let mut live = vec![false; glob.len() + 1];
    live[0] = true;
    skip_deep(glob, &mut live);
    for name in path.split('/').filter(|s| !s.is_empty()) {
        let mut next = vec![false; live.len()];
        for (i, segment) in glob.iter().enumerate().filter(|(i, _)| live[*i]) {
            match segment {
                Segment::Deep => next[i] = true,
                Segment::Literal(text) => next[i + 1] |= text == name,
                Segment::Wild(matcher) => next[i + 1] |= matcher.is_match(name),
            }
        }
        skip_deep(glob, &mut next);
        live = next;
    }
    live
}

/// Adds the states that follow because `**` can match no segment.
fn skip_deep(glob: &[Segment], live: &mut [bool]) {
    for (i, segment) in glob.iter().enumerate() {
        live[i + 1] |= live[i] && matches!(segment, Segment::Deep);
    }
}

fn literals(glob: &[Segment]) -> impl Iterator<Item = &str> {
    glob.iter()
        .map_while(|s| if let Segment::Literal(text) = s { Some(text.as_str()) } else { None })
}

fn segments(glob: &str) -> Result<Vec<Segment>, String> {
    let mut out: Vec<Segment> = Vec::new();
    for text in glob.split('/').filter(|s| !s.is_empty() && *s != ".") {
        match text {
            ".." => return Err("`..` leads out of the folder".into()),
            "**" if matches!(out.last(), Some(Segment::Deep)) => {}
            "**" => out.push(Segment::Deep),
            _ if !text.contains(['*', '?', '[', '\\']) => {
                out.push(Segment::Literal(text.to_owned()))
            }
            _ => {
                let matcher =
                    GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
                let matcher =
                    matcher.map_err(|e| format!("the glob is not valid: {}", e.kind()))?;
                out.push(Segment::Wild(Box::new(matcher.compile_matcher())));
            }
        }
    }
    let names_a_folder =
        glob.ends_with('/') || out.iter().all(|s| matches!(s, Segment::Literal(_)));
    if names_a_folder && !matches!(out.last(), Some(Segment::Deep)) {
        out.push(Segment::Deep);
    }
    Ok(out)
}

/// Expands `{a,b}` to two globs, because alternatives may contain slashes.
fn expand(glob: &str, out: &mut Vec<String>) -> Result<(), String> {
    let Some((open, close, commas)) = first_braces(glob)? else {
        if out.len() == MAX_ALTERNATIVES {
            return Err(format!("the glob has more than {MAX_ALTERNATIVES} alternatives"));
        }
        out.push(glob.to_owned());
        return Ok(());
    };
    let mut start = open + 1;
    for end in commas.into_iter().chain([close]) {
        expand(&format!("{}{}{}", &glob[..open], &glob[start..end], &glob[close + 1..]), out)?;
        start = end + 1;
    }
    Ok(())
}

/// Finds the first pair of braces, and the commas directly inside it. Skips escaped characters and
/// character classes.
fn first_braces(glob: &str) -> Result<Option<(usize, usize, Vec<usize>)>, String> {
    let (mut open, mut depth, mut commas) = (0, 0usize, Vec::new());
    let bytes = glob.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 1,
            b'[' => i = class_end(bytes, i),
            b'{' => {
                depth += 1;
                if depth == 1 {
                    open = i;
                }
            }
            b',' if depth == 1 => commas.push(i),
            b'}' if depth == 0 => return Err("unmatched `}` in the glob".into()),
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some((open, i, commas)));
                }
            }
            _ => {}
        }
        i += 1;
    }
    if depth > 0 { Err("unmatched `{` in the glob".into()) } else { Ok(None) }
}

/// Returns the index of the `]` that closes the class at `start`, or the length if it is not closed.
/// A `]` in first position is a member of the class.
fn class_end(bytes: &[u8], start: usize) -> usize {
    let negated = matches!(bytes.get(start + 1), Some(b'!' | b'^'));
    let first = start + 1 + usize::from(negated);
    (first + 1..bytes.len()).find(|i| bytes[*i] == b']').unwrap_or(bytes.len())
}

/// Normalizes the text of a glob: single slashes, no `.` segments.
fn tidy(pattern: &str) -> String {
    let segments: Vec<&str> = pattern.split('/').filter(|s| !s.is_empty() && *s != ".").collect();
    let slash = if pattern.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{slash}", segments.join("/"))
}

impl PartialEq for PathGlob {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}
impl Eq for PathGlob {}
impl PartialOrd for PathGlob {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for PathGlob {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.pattern.cmp(&other.pattern)
    }
}

impl Serialize for PathGlob {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.pattern)
    }
}

impl<'de> Deserialize<'de> for PathGlob {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<PathGlob, D::Error> {
        PathGlob::new(&String::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for PathGlob {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PathGlob".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "A glob over absolute guest paths." })
    }
}
