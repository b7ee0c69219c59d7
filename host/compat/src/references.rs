//! Resolves references to files of the skill, in all forms that clients support, and finds missing
//! files.

use super::judge::Facts;
use super::need::{Lines, Need, NeedEffect, NeedKind, NeedStatus};
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

const SCRIPTS: [&str; 9] = [".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl"];

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

/// Returns the missing scripts to which SKILL.md refers, from an offset on.
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
            let elsewhere = path.rsplit('/').next().and_then(|file| facts.named(file));
            needs.push(Need {
                kind: NeedKind::File,
                status: NeedStatus::Missing,
                effect: NeedEffect::None,
                version: None,
                place: lines.get_or_insert_with(|| Lines::new(text)).place(file, offset),
                message: Some(format!("SKILL.md refers to `{path}`, which does not exist")),
                fix: elsewhere.map(|there| format!("did you mean `{there}`?")),
                name: path,
            });
        }
    }
    needs
}
