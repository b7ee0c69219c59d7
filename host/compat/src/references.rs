//! Resolves references to files of the skill, in all forms that clients support, and finds missing
//! files.

use super::judge::Facts;
use super::need::{Lines, Need, NeedEffect, NeedKind, NeedStatus, Place};
use skillhost_skill::runtime::scripts;

/// The result of resolving a reference.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// The file of the skill at this path.
    Own(String),
    /// A file of the skill that does not exist, by its path.
    Missing(String),
    /// Something else.
    Other,
}

/// Folders that are in the skill by convention.
const FOLDERS: [&str; 2] = ["scripts/", "bin/"];

const SCRIPTS: [&str; 12] =
    [".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".rb", ".pl"];

/// The most missing files that are reported.
const MAX_MISSING: usize = 50;

/// Resolves a reference.
pub(super) fn resolve(name: &str, facts: &Facts<'_>) -> Resolved {
    let plain = name.strip_prefix("./").unwrap_or(name);
    let Some(path) = scripts::path_in_skill(&[facts.name], name) else { return Resolved::Other };
    // The reference started with a prefix for the skill's folder.
    let rooted = plain.len() > path.len();
    let path = path.as_str();
    if facts.has(path) {
        return Resolved::Own(path.to_owned());
    }
    let sure = path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
    if sure && (rooted || FOLDERS.iter().any(|folder| path.starts_with(folder))) {
        return Resolved::Missing(path.to_owned());
    }
    // A file name, or one below a variable.
    let file = path.rsplit('/').next().unwrap_or(path);
    if (file == path || path.starts_with('$')) && SCRIPTS.iter().any(|end| file.ends_with(end)) {
        return facts.named(file).map_or(Resolved::Other, |path| Resolved::Own(path.to_owned()));
    }
    Resolved::Other
}

/// Returns the missing scripts and linked files to which SKILL.md refers, from an offset on.
pub(super) fn missing(facts: &Facts<'_>, file: &str, text: &str, from: usize) -> Vec<Need> {
    let body = &text[from..];
    let ends = |c: char| c.is_whitespace() || "`\"'()[],;|=!?".contains(c);
    let mut needs: Vec<Need> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut lines = None;
    let mut at = from;
    for part in body.split_inclusive(ends) {
        let offset = at;
        at += part.len();
        let name = part.trim_end_matches(ends).trim_end_matches(['.', ':']);
        let plain = name.trim_start_matches("./");
        let candidate = SCRIPTS.iter().any(|end| name.ends_with(end))
            && (name.contains("skills/")
                || plain.starts_with(['{', '$', '/'])
                || FOLDERS.iter().any(|folder| plain.starts_with(folder)));
        if !candidate || needs.len() == MAX_MISSING {
            continue;
        }
        if let Resolved::Missing(path) = resolve(name, facts)
            && seen.insert(path.clone())
        {
            let place = lines.get_or_insert_with(|| Lines::new(text)).place(file, offset);
            needs.push(missing_file(facts, path, place));
        }
    }
    for (offset, path) in links(body) {
        let exists = facts.has(&path) || facts.has_folder(&path);
        if !exists && needs.len() < MAX_MISSING && seen.insert(path.clone()) {
            let lines = lines.get_or_insert_with(|| Lines::new(text));
            needs.push(missing_file(facts, path, lines.place(file, from + offset)));
        }
    }
    needs
}

fn missing_file(facts: &Facts<'_>, path: String, place: Place) -> Need {
    let elsewhere = path.rsplit('/').next().and_then(|file| facts.named(file));
    Need {
        kind: NeedKind::File,
        status: NeedStatus::Missing,
        effect: NeedEffect::None,
        version: None,
        place,
        message: Some(format!("SKILL.md refers to `{path}`, which does not exist")),
        fix: elsewhere.map(|there| format!("did you mean `{there}`?")),
        name: path,
    }
}

/// Returns the paths to which links of Markdown point, `[text](docs/usage.md)`, with their offsets.
/// Leaves out code, addresses, and paths that are computed or lead out of the skill.
fn links(body: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut is_code, mut start) = (false, 0);
    for line in body.split_inclusive('\n') {
        let at_line = start;
        start += line.len();
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_code = !is_code;
            continue;
        }
        for (at, _) in line.match_indices("](").filter(|_| !is_code) {
            let is_in_code = line[..at].matches('`').count() % 2 == 1;
            let rest = &line[at + 2..];
            let Some(target) = rest.find(')').map(|end| &rest[..end]).filter(|_| !is_in_code)
            else {
                continue;
            };
            let path = target.split('#').next().unwrap_or(target);
            let path = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
            let is_plain = path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
            let is_inside = !path.starts_with('/') && !path.split('/').any(|part| part == "..");
            if is_plain && is_inside && path.contains('.') {
                found.push((at_line + at + 2, path.to_owned()));
            }
        }
    }
    found
}
