//! The files of the skill that a text names, in the forms that clients know, and those that are not
//! there.

use super::judge::Facts;
use super::need::{Lines, Need, NeedEffect, NeedKind, NeedStatus};
use skillhost_skill::runtime::scripts;

/// What a name in a text means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// A file of the skill, by its path.
    Own(String),
    /// A file that the skill should hold and does not, by its path.
    Missing(String),
    /// Something else.
    Other,
}

/// Folders that are a skill's own by convention.
const FOLDERS: [&str; 2] = ["scripts/", "bin/"];

const SCRIPTS: [&str; 9] = [".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl"];

/// Missing files that are told.
const MAX_MISSING: usize = 50;

/// What a name means.
pub(super) fn resolve(name: &str, facts: &Facts<'_>) -> Resolved {
    let plain = name.strip_prefix("./").unwrap_or(name);
    let Some(path) = scripts::path_in_skill(&[facts.name], name) else { return Resolved::Other };
    // Something stood before it that means the skill's folder.
    let rooted = plain.len() > path.len();
    let path = path.as_str();
    if facts.has(path) {
        return Resolved::Own(path.to_owned());
    }
    let sure = path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
    if sure && (rooted || FOLDERS.iter().any(|folder| path.starts_with(folder))) {
        return Resolved::Missing(path.to_owned());
    }
    // A bare name, or one below a variable.
    let file = path.rsplit('/').next().unwrap_or(path);
    if (file == path || path.starts_with('$')) && SCRIPTS.iter().any(|end| file.ends_with(end)) {
        return facts.named(file).map_or(Resolved::Other, |path| Resolved::Own(path.to_owned()));
    }
    Resolved::Other
}

/// The scripts that SKILL.md names, from an offset on, and the skill does not hold.
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
                place: lines.get_or_insert_with(|| Lines::of(text)).place(file, offset),
                message: Some(format!("SKILL.md names `{path}`, which the skill does not hold")),
                fix: elsewhere.map(|there| format!("name it as it is: {there}")),
                name: path,
            });
        }
    }
    needs
}
