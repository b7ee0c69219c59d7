//! Globs over absolute guest paths, matched segment by segment.
//!
//! globset alone lets a character class match `/`, and cannot tell which folders lead to a match.
//! So a glob is taken apart at its slashes, each segment is globset's, and `**` is a state that
//! stays.

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

/// Braces may multiply: `{a,b}{c,d}` is four globs. No honest entry comes near this.
const MAX_ALTERNATIVES: usize = 64;
/// Twice Linux' longest path segment, and room for a deep path.
const MAX_LENGTH: usize = 1024;

/// A glob over absolute guest paths: `/workspace/docs/**`.
///
/// `*`, `?` and `[a-z]` stay within one path segment, `**` crosses them, `{a,b}` is either. A glob
/// without wildcards names a file, or a folder with everything below it. `docs/**` matches `docs`
/// itself too.
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
    /// Compiles an absolute guest glob. Empty and `.` segments are dropped.
    ///
    /// # Errors
    /// What is wrong with it: not absolute, `..`, a control character, too long, too many
    /// alternatives, or the glob's own complaint.
    pub fn new(pattern: &str) -> Result<PathGlob, String> {
        if !pattern.starts_with('/') {
            return Err("the glob is not absolute".into());
        }
        if pattern.len() > MAX_LENGTH {
            return Err(format!("the glob is longer than {MAX_LENGTH} bytes"));
        }
        if pattern.chars().any(char::is_control) {
            return Err("the glob holds a control character".into());
        }
        let mut expanded = Vec::new();
        expand(pattern, &mut expanded)?;
        let alternatives = expanded.iter().map(|text| segments(text)).collect::<Result<_, _>>()?;
        Ok(PathGlob { pattern: tidy(pattern), alternatives })
    }

    /// Every path of every mount.
    pub fn everything() -> PathGlob {
        PathGlob { pattern: "/**".into(), alternatives: vec![vec![Segment::Deep]] }
    }

    /// The glob's text.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The path of a glob without wildcards.
    pub fn literal(&self) -> Option<&str> {
        (!self.pattern.contains(['*', '?', '[', ']', '{', '}', '\\'])).then_some(&self.pattern)
    }

    /// The folder, or file, that all paths of the glob are in.
    pub(super) fn literal_start(&self) -> String {
        let start = match self.alternatives.as_slice() {
            [glob] => literals(glob).collect::<Vec<_>>().join("/"),
            _ => String::new(),
        };
        format!("/{start}")
    }

    /// Whether an absolute guest path matches.
    pub fn matches(&self, path: &str) -> bool {
        self.alternatives.iter().any(|glob| walk(glob, path).last() == Some(&true))
    }

    /// Whether a folder may hold, at any depth, something that matches: may say yes where the
    /// answer is no, never the reverse.
    pub fn may_hold(&self, folder: &str) -> bool {
        self.alternatives.iter().any(|glob| {
            let live = walk(glob, folder);
            live[..glob.len()].contains(&true)
        })
    }

    /// Whether everything that `other` matches is matched here: may say no where the answer is yes,
    /// never the reverse.
    pub fn covers(&self, other: &PathGlob) -> bool {
        let Some(folder) = self.subtree() else { return self.pattern == other.pattern };
        other.alternatives.iter().all(|glob| {
            let prefix: Vec<&str> = literals(glob).collect();
            folder.len() <= prefix.len() && folder.iter().zip(&prefix).all(|(a, b)| a == b)
        })
    }

    /// Whether some path may match both: may say yes where the answer is no, never the reverse.
    pub fn overlaps(&self, other: &PathGlob) -> bool {
        self.alternatives.iter().any(|a| {
            other.alternatives.iter().any(|b| {
                // Beyond the first `**` of either side anything can meet; before it, only pairs of
                // literals can differ for certain.
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

    /// The folder of a glob that is one whole folder: `/a/b` and `/a/b/**`.
    fn subtree(&self) -> Option<Vec<&str>> {
        let [glob] = self.alternatives.as_slice() else { return None };
        let folder: Vec<&str> = literals(glob).collect();
        (folder.len() + 1 == glob.len() && matches!(glob.last(), Some(Segment::Deep)))
            .then_some(folder)
    }
}

/// The states alive after reading a path: `live[i]`: the first `i` segments of the glob have
/// matched all of it.
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

/// `**` may match no segment at all.
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
                    matcher.map_err(|e| format!("the glob does not compile: {}", e.kind()))?;
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

/// `{a,b}` becomes two globs, so that each can be taken apart at its slashes.
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

/// The first pair of braces and the commas directly inside it. Escaped characters and classes are
/// passed over.
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
            b'}' if depth == 0 => return Err("the glob has a `}` without `{`".into()),
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
    if depth > 0 { Err("the glob has a `{` without `}`".into()) } else { Ok(None) }
}

/// The `]` of the class that opens at `start`; a `]` that comes first in it is a member. The end,
/// where it is not closed.
fn class_end(bytes: &[u8], start: usize) -> usize {
    let negated = matches!(bytes.get(start + 1), Some(b'!' | b'^'));
    let first = start + 1 + usize::from(negated);
    (first + 1..bytes.len()).find(|i| bytes[*i] == b']').unwrap_or(bytes.len())
}

/// The text as it is shown: single slashes, no `.` segments.
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
