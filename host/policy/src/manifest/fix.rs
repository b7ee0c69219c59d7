//! Fixes that are certain: a name that differs from the folder's, a misspelt field, and a last line
//! without its end. Permission keys are left alone, because they decide what a skill may do.

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
