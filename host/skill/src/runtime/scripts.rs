//! The scripts of a skill, and how people and instructions name them.

use super::dispatch::{self, FileKind, HEAD_BYTES, Interpreter};
use crate::Skill;

/// A file of a skill that someone may want to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillScript {
    /// Its path in the skill.
    pub path: String,
    /// How it is run; the language where it does not run here.
    pub run: Result<Interpreter, String>,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptMatch {
    /// This path in the skill.
    File(String),
    /// One of these paths; the name does not say which.
    Ambiguous(Vec<String>),
    /// No file.
    None,
}

/// The scripts of a skill, by path. Files without an extension are looked into; `__init__.py` is a
/// package's, not for running.
pub fn list(skill: &Skill) -> Vec<SkillScript> {
    list_by(skill, dispatch::classify)
}

/// The same where `kind` says what a file is.
pub fn list_by(skill: &Skill, kind: impl Fn(&str, &[u8]) -> FileKind) -> Vec<SkillScript> {
    let named = skill.files.iter().filter(|file| !file.path.ends_with("__init__.py"));
    named.filter_map(|file| of_kind(skill, &file.path, &kind)).collect()
}

/// The file at that path, if it is a script. What cannot be read is told when it is run.
pub fn script_at(skill: &Skill, path: &str) -> Option<SkillScript> {
    of_kind(skill, path, dispatch::classify)
}

fn of_kind(
    skill: &Skill,
    path: &str,
    kind: impl Fn(&str, &[u8]) -> FileKind,
) -> Option<SkillScript> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let known = matches!(kind(path, b""), FileKind::Script(_) | FileKind::UnsupportedScript { .. });
    let head = if known || !name.contains('.') {
        skill.head(path, HEAD_BYTES).unwrap_or_default()
    } else {
        Vec::new()
    };
    let run = match kind(path, &head) {
        FileKind::Script(interpreter) => Ok(interpreter),
        FileKind::UnsupportedScript { language } => Err(language),
        FileKind::Other => return None,
    };
    Some(SkillScript { path: path.to_owned(), run })
}

/// Finds the file that a name stands for.
///
/// A path in the skill is itself, with or without what instructions put before it: `{baseDir}/`,
/// `${CLAUDE_SKILL_DIR}/`, `/skill/`, `skills/NAME/`, `~/.claude/skills/NAME/`. Then a path below
/// `scripts/`; then a file's name, and a script's without its extension, where there is one of that
/// name only, those in `scripts/` first.
pub fn find(skill: &Skill, text: &str) -> ScriptMatch {
    let files: Vec<&str> = skill.files.iter().map(|file| file.path.as_str()).collect();
    let Some(path) = path_in_skill(&[&skill.name, &skill.manifest.name], text) else {
        return ScriptMatch::None;
    };
    for path in [path.clone(), format!("scripts/{path}")] {
        if files.contains(&path.as_str()) {
            return ScriptMatch::File(path);
        }
    }
    if path.contains('/') {
        return ScriptMatch::None;
    }
    let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    let stem = |file: &str| name(file).rsplit_once('.').map(|(stem, _)| stem.to_owned());
    let is_script = |file: &str| {
        matches!(
            dispatch::classify(file, b""),
            FileKind::Script(_) | FileKind::UnsupportedScript { .. }
        )
    };
    let same_name = files.iter().filter(|file| name(file) == path).copied().collect();
    let same_stem = files
        .iter()
        .filter(|file| is_script(file) && stem(file).as_deref() == Some(&path))
        .copied()
        .collect();
    one_of(same_name).or_else(|| one_of(same_stem)).unwrap_or(ScriptMatch::None)
}

fn one_of(found: Vec<&str>) -> Option<ScriptMatch> {
    let owned = |path: &&str| (*path).to_owned();
    let preferred: Vec<&str> =
        found.iter().filter(|path| path.starts_with("scripts/")).copied().collect();
    match (found.as_slice(), preferred.as_slice()) {
        ([], _) => None,
        ([one], _) | (_, [one]) => Some(ScriptMatch::File(owned(one))),
        (several, _) => Some(ScriptMatch::Ambiguous(several.iter().map(owned).collect())),
    }
}

/// The path in the skill that a text means: without what stands for the skill's folder, in its
/// shortest form. `names` are what the skill's folder may be called. `None` for what leads
/// elsewhere.
pub fn path_in_skill(names: &[&str], text: &str) -> Option<String> {
    let below = below(names, text);
    let relative = below.unwrap_or(text);
    if relative.starts_with('/') || (below.is_none() && relative.starts_with('~')) {
        return None;
    }
    let mut parts = Vec::new();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/")).filter(|path| !path.is_empty())
}

/// What instructions write for the skill's folder.
const FOLDERS: [&str; 10] = [
    "{baseDir}",
    "${baseDir}",
    "${CLAUDE_SKILL_DIR}",
    "$CLAUDE_SKILL_DIR",
    "${CLAUDE_PLUGIN_ROOT}",
    "$CLAUDE_PLUGIN_ROOT",
    "${SKILL_DIR}",
    "$SKILL_DIR",
    "/skill",
    ".",
];

/// What follows the skill's folder in a text that names it; `None` where it does not.
fn below<'t>(names: &[&str], text: &'t str) -> Option<&'t str> {
    let after = |text: &'t str, folder: &str| {
        text.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'))
    };
    let rest = FOLDERS.iter().find_map(|folder| after(text, folder));
    let home = ["~", "$HOME", "${HOME}", "/tmp"].into_iter().find_map(|home| after(text, home));
    // `.claude/skills/NAME/`, as other agents' folders, in the home folder or in the project's.
    let agent = home.or(rest).unwrap_or(text);
    let skills = agent
        .strip_prefix('.')
        .and_then(|agent| agent.split_once('/'))
        .map_or(agent, |(_, rest)| rest);
    let own = skills
        .strip_prefix("skills/")
        .and_then(|rest| names.iter().find_map(|name| after(rest, name)));
    own.or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_instructions_put_before_a_path() {
        for (text, expected) in [
            ("scripts/x.py", "scripts/x.py"),
            ("./scripts/x.py", "scripts/x.py"),
            ("scripts//./x.py", "scripts/x.py"),
            ("scripts/a/../x.py", "scripts/x.py"),
            ("{baseDir}/scripts/x.py", "scripts/x.py"),
            ("${CLAUDE_SKILL_DIR}/scripts/x.py", "scripts/x.py"),
            ("$CLAUDE_SKILL_DIR/x.py", "x.py"),
            ("${CLAUDE_PLUGIN_ROOT}/scripts/x.py", "scripts/x.py"),
            ("${CLAUDE_PLUGIN_ROOT}/skills/my-skill/scripts/x.py", "scripts/x.py"),
            ("skills/my-skill/scripts/x", "scripts/x"),
            ("./skills/my-skill/scripts/x", "scripts/x"),
            (".claude/skills/my-skill/scripts/x", "scripts/x"),
            ("~/.claude/skills/my-skill/scripts/x", "scripts/x"),
            ("$HOME/.codex/skills/named/x", "x"),
            ("/tmp/.claude/skills/my-skill/x", "x"),
            ("/skill/scripts/x.py", "scripts/x.py"),
            ("skills/other/scripts/x", "skills/other/scripts/x"),
            ("~/.claude/skills/other/x", "-"),
            ("~/x", "-"),
            ("/etc/passwd", "-"),
            ("/skillet/x", "-"),
            ("/skill/../x", "-"),
            ("../x", "-"),
            ("scripts/../../x", "-"),
            ("", "-"),
            (".", "-"),
            ("/skill", "-"),
        ] {
            assert_eq!(
                path_in_skill(&["my-skill", "named"], text).as_deref().unwrap_or("-"),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn one_file_of_a_name_is_found_and_those_in_scripts_come_first() {
        let file = |path: &str| Some(ScriptMatch::File(path.to_owned()));
        assert_eq!(one_of(vec![]), None);
        assert_eq!(one_of(vec!["a/x.py"]), file("a/x.py"));
        assert_eq!(one_of(vec!["a/x.py", "scripts/x.py"]), file("scripts/x.py"));
        let several = ScriptMatch::Ambiguous(vec!["a/x.py".into(), "b/x.py".into()]);
        assert_eq!(one_of(vec!["a/x.py", "b/x.py"]), Some(several));
    }
}
