//! Python files that belong to other scripts of a skill: they are imported, and nobody starts them.

use std::collections::{BTreeMap, BTreeSet};

use super::scripts::SkillScript;
use crate::Skill;

/// A longer file counts as a program, in bytes: reading it would cost more than the answer is worth.
const LONGEST: usize = 256 << 10;

/// Removes the modules from a list of scripts. A Python file is a module if another script of the
/// skill imports it, unless it has a `#!` line or mentions `__main__`. Reads the Python files, if
/// there are several.
///
/// A name that cannot be resolved to a file is ignored: then the file counts as a program.
pub(super) fn without_modules(skill: &Skill, scripts: Vec<SkillScript>) -> Vec<SkillScript> {
    let is_python = |script: &&SkillScript| script.path.ends_with(".py");
    let texts: BTreeMap<&str, String> = scripts
        .iter()
        .filter(is_python)
        .filter_map(|script| {
            let bytes = skill.read(&script.path).ok().filter(|bytes| bytes.len() <= LONGEST)?;
            Some((script.path.as_str(), String::from_utf8_lossy(&bytes).into_owned()))
        })
        .collect();
    if texts.len() < 2 {
        return scripts;
    }
    let can_be_module = |path: &str| {
        texts.get(path).is_some_and(|text| !text.starts_with("#!") && !text.contains("__main__"))
    };
    let modules: BTreeSet<String> = texts
        .iter()
        .flat_map(|(importer, text)| {
            let found = imported(importer, text).into_iter();
            found.filter(move |path| path != importer)
        })
        .filter(|path| can_be_module(path))
        .collect();
    scripts.into_iter().filter(|script| !modules.contains(&script.path)).collect()
}

/// Returns the paths that the imports of a file may refer to, in the skill.
fn imported(importer: &str, text: &str) -> BTreeSet<String> {
    let folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    // Python searches the folder of the program, which is this one or one above.
    let above = std::iter::successors(Some(folder), |folder| {
        (!folder.is_empty()).then(|| folder.rsplit_once('/').map_or("", |(above, _)| above))
    });
    let above: Vec<&str> = above.collect();
    let mut paths = BTreeSet::new();
    for name in text.lines().flat_map(|line| names(line.trim())) {
        let relative = name.bytes().take_while(|byte| *byte == b'.').count();
        let rest = name[relative..].replace('.', "/");
        let folders = match relative {
            0 => above.as_slice(),
            dots => above.get(dots - 1..dots).unwrap_or_default(),
        };
        for folder in folders.iter().filter(|_| !rest.is_empty()) {
            paths.insert(format!("{folder}/{rest}.py").trim_start_matches('/').to_owned());
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
            let found: Vec<String> = imported(importer, line).into_iter().collect();
            assert_eq!(found.join(" "), expected, "{importer}: {line}");
        }
    }
}
