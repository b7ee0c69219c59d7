//! Finds the shell scripts of a skill that source each other (`. lib.sh`). They run in one shell, so
//! each can call the functions of the others.

use std::collections::{HashMap, HashSet};

use super::judge::Facts;
use super::references::{self, Resolved};
use super::units::MAX_SCRIPT;
use super::{shell_blocks, shell_words};
use skillhost_skill::Skill;
use skillhost_skill::runtime::scripts;

/// The functions of the scripts that source each other, directly or through other scripts.
#[derive(Debug, Default)]
pub(super) struct SharedFunctions {
    /// The group of each script that sources another one or is sourced.
    groups: HashMap<String, usize>,
    /// The functions of each group.
    functions: Vec<HashSet<String>>,
}

/// What one script defines and sources.
#[derive(Default)]
struct Definitions {
    functions: HashSet<String>,
    /// The sourced files of the skill, by path.
    sources: HashSet<String>,
}

impl SharedFunctions {
    /// Reads the shell scripts and the shell blocks of a skill, and the files that they source.
    pub(super) fn of(skill: &Skill, facts: &Facts<'_>) -> SharedFunctions {
        let mut scripts: HashMap<String, Definitions> = HashMap::new();
        let mut blocks = Definitions::default();
        for block in shell_blocks::find(&skill.source, skill.body_offset) {
            block.parts.into_iter().for_each(|part| blocks.read(&skill.source, part, facts));
        }
        let is_shell = |path: &str| {
            let run = scripts::script_at(skill, path).map(|script| script.run);
            matches!(run, Some(Ok(by)) if by.command != "python3")
        };
        let mut paths: Vec<String> = blocks.sources.iter().cloned().collect();
        scripts.insert(skill.skill_file.clone(), blocks);
        let files = skill.files.iter().filter(|file| file.link.is_none());
        paths.extend(files.map(|file| file.path.clone()).filter(|path| is_shell(path)));
        while let Some(path) = paths.pop() {
            if scripts.contains_key(&path) {
                continue;
            }
            let mut script = Definitions::default();
            if let Some(text) = text(skill, &path) {
                script.read(&text, 0..text.len(), facts);
            }
            paths.extend(script.sources.iter().cloned());
            scripts.insert(path, script);
        }
        SharedFunctions::grouped(&scripts)
    }

    fn grouped(scripts: &HashMap<String, Definitions>) -> SharedFunctions {
        let mut linked: HashMap<&str, Vec<&str>> = HashMap::new();
        for (path, script) in scripts {
            for sourced in &script.sources {
                linked.entry(path).or_default().push(sourced);
                linked.entry(sourced).or_default().push(path);
            }
        }
        let mut shared = SharedFunctions::default();
        for start in linked.keys() {
            if shared.groups.contains_key(*start) {
                continue;
            }
            let (group, mut functions) = (shared.functions.len(), HashSet::new());
            let mut members = vec![*start];
            while let Some(path) = members.pop() {
                if shared.groups.insert(path.to_owned(), group).is_none() {
                    functions.extend(scripts[path].functions.iter().cloned());
                    members.extend(&linked[path]);
                }
            }
            shared.functions.push(functions);
        }
        shared
    }

    /// Checks whether a script of the group of this one defines a function.
    pub(super) fn has(&self, script: &str, function: &str) -> bool {
        self.groups.get(script).is_some_and(|group| self.functions[*group].contains(function))
    }
}

impl Definitions {
    fn read(&mut self, text: &str, part: std::ops::Range<usize>, facts: &Facts<'_>) {
        let script = shell_words::read(text, part);
        self.functions.extend(script.functions);
        for command in script.commands {
            let [name, file, ..] = command.words.as_slice() else { continue };
            if let "source" | "." = name.text.as_str()
                && let Resolved::Own(path) = references::resolve(&file.text, facts)
            {
                self.sources.insert(path);
            }
        }
    }
}

/// Returns the text of a file; `None` if it is too large to be analyzed.
fn text(skill: &Skill, path: &str) -> Option<String> {
    let at = skill.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
    if skill.files[at].size > MAX_SCRIPT {
        return None;
    }
    Some(String::from_utf8_lossy(&skill.read(path).ok()?).into_owned())
}
