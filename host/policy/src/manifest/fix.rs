//! Fixes that are certain: a name that differs from the folder's, a misspelt field, and a last line
//! without its end. Permission keys are left alone, because they decide what a skill may do.

use super::findings::as_yaml;
use super::frontmatter::lines_from;
use super::{Diagnostic, fields, parse, rules};

/// Returns the text of a SKILL.md with what can be fixed mechanically. Every other byte stays as it
/// is. `folder` is the name of its folder.
///
/// An edit is made only if the new text has fewer problems and no new one.
pub fn fixed(source: &str, folder: &str) -> String {
    let mut text = source.to_owned();
    while let Some(better) =
        problems(&text, folder).iter().find_map(|problem| without(problem, &text, folder))
    {
        text = better;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str(if text.contains("\r\n") { "\r\n" } else { "\n" });
    }
    text
}

/// Returns the text of a SKILL.md with the name of another folder. Every other byte stays as it is.
/// Returns `None` if that takes more than one certain edit.
pub fn renamed(source: &str, folder: &str) -> Option<String> {
    let old = problems(source, folder);
    let Some(problem) = old.iter().find(|problem| is_about_name(problem)) else {
        return Some(source.to_owned());
    };
    let span = problem.span?;
    let name = as_yaml(folder);
    let text = if problem.rule == rules::NAME_MISSING.name {
        // The problem is at the line that opens the frontmatter.
        let fence = lines_from(source, span.offset).next()?;
        let (before, after) = source.split_at(fence.end);
        let end = if after.starts_with("\r\n") { "\r\n" } else { "\n" };
        format!("{before}{end}name: {name}{after}")
    } else {
        let (start, end) = (span.offset, span.offset + span.length);
        [source.get(..start)?, &name, source.get(end..)?].concat()
    };
    let left = problems(&text, folder);
    let is_old = |one: &Diagnostic| old.iter().any(|o| o.rule == one.rule);
    left.iter().all(|one| !is_about_name(one) && is_old(one)).then_some(text)
}

/// Checks whether a problem is that the name is missing, or is not the folder's.
fn is_about_name(problem: &Diagnostic) -> bool {
    [rules::NAME_MISSING, rules::NAME_LENGTH, rules::NAME_PATTERN, rules::NAME_FOLDER]
        .iter()
        .any(|rule| rule.name == problem.rule)
}

fn problems(text: &str, folder: &str) -> Vec<Diagnostic> {
    parse(text.as_bytes(), folder, "SKILL.md").diagnostics
}

/// The text without one problem, if that takes one certain edit.
fn without(problem: &Diagnostic, text: &str, folder: &str) -> Option<String> {
    let span = problem.span?;
    let (start, end) = (span.offset, span.offset + span.length);
    let new = match problem.rule {
        rule if [rules::NAME_PATTERN.name, rules::NAME_FOLDER.name].contains(&rule) => {
            Some(folder).filter(|folder| fields::is_plain_name(folder))
        }
        rule if rule == rules::UNKNOWN_FIELD.name => fields::near_field(text.get(start..end)?),
        _ => None,
    }?;
    let better = [text.get(..start)?, new, text.get(end..)?].concat();
    let (old, left) = (problems(text, folder), problems(&better, folder));
    let is_old =
        |one: &Diagnostic| old.iter().any(|o| (o.rule, &o.message) == (one.rule, &one.message));
    (left.len() < old.len() && left.iter().all(is_old)).then_some(better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixes_change_only_the_bytes_of_certain_problems() {
        for (source, expected) in [
            (
                "---\r\nname: Word_Count  # mine\r\ndescription: 'a b'\r\n---\r\nText",
                "---\r\nname: word-count  # mine\r\ndescription: 'a b'\r\n---\r\nText\r\n",
            ),
            (
                "---\nname: \"other\"\ndescripton: a\n---\n\n \n",
                "---\nname: word-count\ndescription: a\n---\n\n \n",
            ),
            (
                "---\nname: word-count\nlicence: MIT\ndescription: a\n---\n",
                "---\nname: word-count\nlicense: MIT\ndescription: a\n---\n",
            ),
        ] {
            assert_eq!(fixed(source, "word-count"), expected);
            assert_eq!(fixed(expected, "word-count"), expected);
        }
    }

    #[test]
    fn renaming_changes_only_the_name() {
        for (source, expected) in [
            (
                "---\nname: old  # mine\ndescription: a\n---\n",
                "---\nname: new-1  # mine\ndescription: a\n---\n",
            ),
            ("---\r\nname: \"old\"\r\n---\r\nText", "---\r\nname: new-1\r\n---\r\nText"),
            ("---\ndescription: a\n---\n", "---\nname: new-1\ndescription: a\n---\n"),
            ("---\r\ndescription: a\r\n---\r\n", "---\r\nname: new-1\r\ndescription: a\r\n---\r\n"),
            ("---\nname: new-1\n---\n", "---\nname: new-1\n---\n"),
            ("---\nname: Old Name\n---\n", "---\nname: new-1\n---\n"),
        ] {
            assert_eq!(renamed(source, "new-1").as_deref(), Some(expected), "{source:?}");
        }
        assert_eq!(renamed("---\nname: old\n---\n", "123").unwrap(), "---\nname: \"123\"\n---\n");
        for source in [
            "---\nname:\n  - old\n---\n",
            "---\nname: >-\n  old\n  name\n---\n",
            "---\nname:\ndescription: a\n---\n",
        ] {
            assert_eq!(renamed(source, "new-1"), None, "{source:?}");
        }
    }

    #[test]
    fn uncertain_problems_are_left_alone() {
        for source in [
            // The field exists already.
            "---\nname: word-count\ndescription: a\ndescripton: b\n---\n",
            // A permission key.
            "---\nname: word-count\ndescription: a\nallowed-tool: Read\n---\n",
            "---\nname: word-count\ndescription: a\ncolour: red\n---\n",
            "no frontmatter\n",
            "",
        ] {
            assert_eq!(fixed(source, "word-count"), source);
        }
        // The folder's name is not a name either, or YAML reads it as another type.
        for folder in ["Word_Count", "123", "true", "1e3"] {
            let source = "---\nname: other\ndescription: a\n---\n";
            assert_eq!(fixed(source, folder), source, "{folder}");
        }
    }
}
