//! Skills that are one Markdown file, `NAME.md`, directly in a folder of skills. Such a skill is
//! instructions only, whatever its frontmatter says.

use std::path::Path;

use skillhost_policy::manifest;

/// Documents about the folder that they are in, and SKILL.md in another spelling.
const DOCUMENTS: [&str; 9] = [
    "readme",
    "changelog",
    "license",
    "contributing",
    "security",
    "index",
    "agents",
    "claude",
    "skill",
];

/// Returns the name of the skill in a file of this name, if it can be one.
pub fn name_of(file: &str) -> Option<&str> {
    let name = file.strip_suffix(".md")?;
    (manifest::is_name(name) && !DOCUMENTS.contains(&name)).then_some(name)
}

/// Checks whether a path leads to such a file. A symlink does not count: its owner would choose
/// which file agents read.
pub(crate) fn is_at(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(name_of).is_some() && path.symlink_metadata().is_ok_and(|found| found.is_file())
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn names_are_those_of_skills_and_not_of_documents() {
        assert_eq!(name_of("word-count.md"), Some("word-count"));
        for other in [
            "README.md",
            "readme.md",
            "Notes.md",
            "a b.md",
            "notes.txt",
            ".md",
            "SKILL.md",
            "skill.md",
            "a--b.md",
        ] {
            assert_eq!(name_of(other), None, "{other}");
        }
    }
}
