//! Python and JavaScript files that belong to other scripts of a skill: they are imported and never
//! started.

use std::collections::{BTreeMap, BTreeSet};

use super::javascript::imported_files;
use super::scripts::SkillScript;
use crate::Skill;
use skillhost_policy::program_name::script_interpreter;

/// The most files of a language in a skill. If it has more, none counts as a module.
const FILES_MAX: usize = 64;
/// The most bytes of all files of a language. If they have more, none counts as a module.
const BYTES_MAX: u64 = 1 << 20;
/// A longer line, in bytes, is no import that a person wrote.
const LINE_MAX: usize = 512;
/// The most folders above a file in which its imports are searched.
const FOLDERS_MAX: usize = 8;

/// Removes the modules from a list of scripts. A file is a module if another script of the skill
/// imports it, unless it has a `#!` line or mentions what only programs use: `__main__` in Python,
/// `require.main`, `import.meta` or `process.argv` in JavaScript. Reads the files of a language, if
/// there are several.
///
/// The files are the skill author's, so the work is bounded. What cannot be told apart counts as a
/// program.
pub(super) fn without_modules(skill: &Skill, scripts: Vec<SkillScript>) -> Vec<SkillScript> {
    LANGUAGES.iter().fold(scripts, |scripts, language| without(skill, scripts, language))
}

/// Checks whether a file may be a program, by its content.
pub(super) fn starts_itself(path: &str, text: &str) -> bool {
    let language = LANGUAGES.iter().find(|language| (language.is_file)(path));
    language.is_none_or(|language| language.is_program(text))
}

/// Returns the files that the imports of a file may refer to, by its path and text.
type Imported = fn(&str, &str, &dyn Fn(&str) -> bool) -> BTreeSet<String>;

/// A language with modules.
struct Language {
    is_file: fn(&str) -> bool,
    /// The words of programs.
    program: &'static [&'static str],
    imported: Imported,
}

const LANGUAGES: [Language; 2] = [
    Language {
        is_file: |path| path.ends_with(".py"),
        program: &["__main__"],
        imported: |importer, text, is_file| imported(importer, text, is_file),
    },
    Language {
        is_file: |path| script_interpreter(path) == Some("node"),
        program: &["require.main", "import.meta", "process.argv"],
        imported: |importer, text, is_file| imported_by_javascript(importer, text, is_file),
    },
];

impl Language {
    fn is_program(&self, text: &str) -> bool {
        text.starts_with("#!") || self.program.iter().any(|word| text.contains(word))
    }
}

fn without(skill: &Skill, scripts: Vec<SkillScript>, language: &Language) -> Vec<SkillScript> {
    let paths: BTreeSet<&str> = scripts
        .iter()
        .map(|script| script.path.as_str())
        .filter(|path| (language.is_file)(path))
        .collect();
    // A symlink leads to a file that is listed under its own path.
    let files = skill.files.iter().filter(|file| file.link.is_none());
    let files: Vec<_> = files.filter(|file| paths.contains(file.path.as_str())).collect();
    let bytes = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
    if !(2..=FILES_MAX).contains(&files.len()) || bytes > BYTES_MAX {
        return scripts;
    }
    let texts: BTreeMap<&str, String> = files
        .into_iter()
        .filter_map(|file| {
            let bytes = skill.read(&file.path).ok()?;
            Some((file.path.as_str(), String::from_utf8_lossy(&bytes).into_owned()))
        })
        .collect();
    let can_be_module = |path: &str| texts.get(path).is_some_and(|text| !language.is_program(text));
    let modules: BTreeSet<String> = texts
        .iter()
        .flat_map(|(importer, text)| {
            let is_other = |path: &str| path != *importer && can_be_module(path);
            (language.imported)(importer, text, &is_other)
        })
        .collect();
    scripts.into_iter().filter(|script| !modules.contains(&script.path)).collect()
}

/// Returns the files of the skill that the imports of a JavaScript file may refer to: those of the
/// relative paths in `from './x'`, `import './x'`, `import('./x')` and `require('./x')`.
fn imported_by_javascript(
    importer: &str,
    text: &str,
    is_file: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut paths = BTreeSet::new();
    for line in text.lines().filter(|line| line.len() <= LINE_MAX) {
        for quote in ['\'', '"', '`'] {
            // Every second part is between quotes.
            let parts: Vec<&str> = line.split(quote).collect();
            let named = parts.windows(2).step_by(2).filter(|pair| {
                let before = pair[0].trim_end().trim_end_matches('(').trim_end();
                ["from", "import", "require"].iter().any(|word| before.ends_with(word))
            });
            let files = named.filter_map(|pair| imported_files(folder, pair[1])).flatten();
            paths.extend(files.filter(|path| is_file(path)));
        }
    }
    paths
}

/// Returns the files of the skill that the imports of a Python file may refer to.
fn imported(importer: &str, text: &str, is_file: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    // Python searches the folder of the program, which is this one or one above.
    let above = std::iter::successors(Some(folder), |folder| {
        (!folder.is_empty()).then(|| folder.rsplit_once('/').map_or("", |(above, _)| above))
    });
    let above: Vec<&str> = above.take(FOLDERS_MAX).collect();
    let mut paths = BTreeSet::new();
    let lines = text.lines().filter(|line| line.len() <= LINE_MAX);
    for name in lines.flat_map(|line| names(line.trim())) {
        let relative = name.bytes().take_while(|byte| *byte == b'.').count();
        let rest = name[relative..].replace('.', "/");
        let folders = match relative {
            0 => above.as_slice(),
            dots => above.get(dots - 1..dots).unwrap_or_default(),
        };
        for folder in folders.iter().filter(|_| !rest.is_empty()) {
            let path = format!("{folder}/{rest}.py");
            let path = path.trim_start_matches('/');
            if is_file(path) {
                paths.insert(path.to_owned());
            }
        }
    }
    paths
}

/// Returns the modules that a line names, with leading dots if they are relative. Of `from a import
/// b`, these are `a` and `a.b`: `b` may be a module or a name in one.
fn names(line: &str) -> Vec<String> {
    let listed = |list: &str| -> Vec<String> {
        let list = list.split('#').next().unwrap_or_default().trim_matches(['(', ')', ' ', '\\']);
        let items = list.split(',').filter_map(|item| item.split_whitespace().next());
        items.map(str::to_owned).collect()
    };
    if let Some(list) = line.strip_prefix("import ") {
        return listed(list);
    }
    let Some((module, list)) =
        line.strip_prefix("from ").and_then(|rest| rest.split_once(" import"))
    else {
        return Vec::new();
    };
    let module = module.trim();
    let joint = if module.ends_with('.') { "" } else { "." };
    let inner = listed(list).into_iter().map(|name| format!("{module}{joint}{name}"));
    inner.chain([module.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_name_files_beside_and_above_the_importer() {
        for (importer, line, expected) in [
            ("scripts/a.py", "import money", "money.py scripts/money.py"),
            (
                "scripts/a.py",
                "import lib.money as m, os",
                "lib/money.py os.py scripts/lib/money.py scripts/os.py",
            ),
            (
                "scripts/a.py",
                "from lib.money import total  # EUR",
                "lib/money.py lib/money/total.py scripts/lib/money.py scripts/lib/money/total.py",
            ),
            ("scripts/lib/b.py", "from . import money", "scripts/lib/money.py"),
            (
                "scripts/lib/b.py",
                "from .money import (total)",
                "scripts/lib/money.py scripts/lib/money/total.py",
            ),
            ("scripts/lib/b.py", "from ..util import x", "scripts/util.py scripts/util/x.py"),
            ("a.py", "from ...far import x", ""),
            ("a.py", "important = 1", ""),
            ("a.py", "x = 'import money'", ""),
        ] {
            let found: Vec<String> = imported(importer, line, |_| true).into_iter().collect();
            assert_eq!(found.join(" "), expected, "{importer}: {line}");
        }
    }

    #[test]
    fn relative_imports_of_javascript_name_files() {
        let files = ["lib/money.js", "lib/index.ts", "scripts/lib/money.ts", "scripts/x.mjs"];
        for (importer, line, expected) in [
            ("scripts/a.js", "import { x } from './lib/money.js'", "scripts/lib/money.ts"),
            ("scripts/a.js", "const m = require( \"../lib/money\" ), y = 1", "lib/money.js"),
            ("scripts/a.mjs", "await import(`./x.mjs`)", "scripts/x.mjs"),
            ("scripts/a.ts", "import './x.mjs'; import \"../lib\"", "lib/index.ts scripts/x.mjs"),
            ("a.ts", "export * from './lib/money'", "lib/money.js"),
            ("a.ts", "export * from '../lib/money'", ""),
            ("a.js", "import x from 'lib/money'", ""),
            ("a.js", "// './lib/money' is not imported", ""),
        ] {
            let is_file = |path: &str| files.contains(&path);
            let found: Vec<String> =
                imported_by_javascript(importer, line, is_file).into_iter().collect();
            assert_eq!(found.join(" "), expected, "{importer}: {line}");
        }
    }

    #[test]
    fn work_for_a_hostile_file_is_bounded() {
        let long = format!("from {} import {}", "a".repeat(100_000), "a,".repeat(100_000));
        assert!(imported("a.py", &long, |_| true).is_empty());
        let deep = format!("{}a.py", "d/".repeat(1_000));
        assert_eq!(imported(&deep, "import x", |_| true).len(), FOLDERS_MAX);
    }
}
