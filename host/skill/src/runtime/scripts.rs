//! The scripts of a skill, and the names by which people and instructions refer to them.

use super::dispatch::{self, FileKind, HEAD_BYTES, Interpreter};
use super::modules;
use crate::Skill;
use skillhost_policy::program_name::script_interpreter;

/// A script of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillScript {
    /// The path in the skill.
    pub path: String,
    /// The interpreter, or the unsupported language.
    pub run: Result<Interpreter, String>,
}

/// The result of looking up a script by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptMatch {
    /// The file at this path in the skill.
    File(String),
    /// Several files match the name.
    Ambiguous(Vec<String>),
    /// No file matches.
    None,
}

/// Returns the scripts of a skill, sorted by path. Reads the first line of files without an
/// extension. Skips `__init__.py`, which belongs to a package, and `node_modules`.
pub fn list(skill: &Skill) -> Vec<SkillScript> {
    list_by(skill, dispatch::classify)
}

/// As [`list`], with a function that classifies files. A skill that is instructions only has none.
pub fn list_by(skill: &Skill, kind: impl Fn(&str, &[u8]) -> FileKind) -> Vec<SkillScript> {
    if skill.manifest.recovered {
        return Vec::new();
    }
    let is_listed = |path: &str| !path.ends_with("__init__.py") && !is_of_package(path);
    let named = skill.files.iter().filter(|file| is_listed(&file.path));
    named.filter_map(|file| of_kind(skill, &file.path, &kind)).collect()
}

/// Returns the scripts that people start: those of [`list_by`] without modules that other scripts
/// import, and without JavaScript of web pages and templates. If none is left, returns all.
pub fn programs_by(skill: &Skill, kind: impl Fn(&str, &[u8]) -> FileKind) -> Vec<SkillScript> {
    let all = list_by(skill, kind);
    let is_started = |script: &SkillScript| is_program(skill, &script.path);
    let started = all.iter().filter(|script| is_started(script)).cloned().collect();
    let programs = modules::without_modules(skill, started);
    if programs.is_empty() { all } else { programs }
}

/// Checks whether a file is for starting. JavaScript files are also parts of web pages, templates
/// and configurations: they are programs of the skill by their first line, their folder, or SKILL.md.
pub fn is_program(skill: &Skill, path: &str) -> bool {
    script_interpreter(path) != Some("node") || is_for_running(skill, path)
}

/// Checks whether the first line of a file, its folder, or SKILL.md says that it is for starting.
pub fn is_for_running(skill: &Skill, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut folders = path.split('/').rev().skip(1);
    folders.any(|folder| matches!(folder, "scripts" | "bin"))
        || skill.source.contains(name)
        || skill.head(path, HEAD_BYTES).is_ok_and(|head| head.starts_with(b"#!"))
}

/// Checks whether a script does something when it is started. Modules only define what others import.
pub fn starts_itself(path: &str, text: &str) -> bool {
    modules::starts_itself(path, text)
}

/// Checks whether a path belongs to an installed package of JavaScript, or has only types.
pub fn is_of_package(path: &str) -> bool {
    path.split('/').any(|part| part == "node_modules")
        || [".d.ts", ".d.mts", ".d.cts"].iter().any(|end| path.ends_with(end))
}

/// As [`programs_by`], of the built-in languages.
pub fn programs(skill: &Skill) -> Vec<SkillScript> {
    programs_by(skill, dispatch::classify)
}

/// Returns the script at a path, or `None` for other files. An unreadable file is reported when it
/// runs.
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

/// Finds the file that a name refers to.
///
/// Tries these in turn: a path in the skill, which may start with a common prefix for the skill's
/// folder (`{baseDir}/`, `${CLAUDE_SKILL_DIR}/`, `/skill/`, `skills/NAME/`,
/// `~/.claude/skills/NAME/`); a path below `scripts/`; a file name; and the name of a script without
/// its extension. Among several files of one name, prefers a single one in `scripts/`.
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

/// Returns the path in the skill that a text refers to: without a prefix for the skill's folder, and
/// normalized. `names` are the possible names of the folder. Returns `None` for paths outside the
/// skill.
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

/// The prefixes that instructions use for the skill's folder.
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

/// Returns the rest of a text after a prefix for the skill's folder; `None` without such a prefix.
fn below<'t>(names: &[&str], text: &'t str) -> Option<&'t str> {
    let after = |text: &'t str, folder: &str| {
        text.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'))
    };
    let rest = FOLDERS.iter().find_map(|folder| after(text, folder));
    let home = ["~", "$HOME", "${HOME}", "/tmp"].into_iter().find_map(|home| after(text, home));
    // Agents use folders such as `.claude/skills/NAME/`, in the home folder or in the project.
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
    fn prefixes_for_the_skill_folder_are_removed() {
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
    fn file_in_scripts_is_preferred_among_files_of_one_name() {
        let file = |path: &str| Some(ScriptMatch::File(path.to_owned()));
        assert_eq!(one_of(vec![]), None);
        assert_eq!(one_of(vec!["a/x.py"]), file("a/x.py"));
        assert_eq!(one_of(vec!["a/x.py", "scripts/x.py"]), file("scripts/x.py"));
        let several = ScriptMatch::Ambiguous(vec!["a/x.py".into(), "b/x.py".into()]);
        assert_eq!(one_of(vec!["a/x.py", "b/x.py"]), Some(several));
    }
}
