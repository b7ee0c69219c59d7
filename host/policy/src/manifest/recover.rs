//! Reads name, description and who may start the skill from broken frontmatter, line by line. Such
//! a skill requests nothing and is granted nothing.

use std::ops::Range;

use super::findings::Findings;
use super::frontmatter::lines_from;
use super::rules;
use super::{Manifest, client};

/// A value and its place.
pub(super) struct Line {
    pub(super) text: String,
    pub(super) at: Range<usize>,
}

/// The recovered fields.
#[derive(Default)]
pub(super) struct Recovered {
    pub(super) name: Option<Line>,
    pub(super) description: Option<Line>,
    /// Who may start the skill.
    pub(super) manifest: Manifest,
}

/// Reads `name:` and `description:` at the start of a line, with the indented lines that follow.
pub(super) fn read(source: &str, part: Range<usize>, findings: &mut Findings<'_>) -> Recovered {
    let mut recovered = Recovered::default();
    let mut lines = lines_from(&source[..part.end], part.start).peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = source[line.clone()].split_once(':') else { continue };
        let slot = match key.trim_end() {
            "name" => &mut recovered.name,
            "description" => &mut recovered.description,
            key => {
                client::recover(key, value.trim(), &mut recovered.manifest);
                continue;
            }
        };
        let start = line.end - value.trim_start().len();
        let mut text = without_block_indicator(value.trim()).to_owned();
        while let Some(more) = lines.next_if(|next| source[next.clone()].starts_with([' ', '\t'])) {
            text = format!("{text} {}", source[more].trim());
        }
        if slot.is_some() {
            findings.add(
                &rules::DUPLICATE_KEY,
                line.start..line.start + key.len(),
                format!("duplicate key `{}`", key.trim_end()),
                None,
            );
            continue;
        }
        *slot = Some(Line { text: unquoted(text.trim()).to_owned(), at: start..line.end });
    }
    recovered
}

fn without_block_indicator(value: &str) -> &str {
    match value {
        "|" | "|-" | "|+" | ">" | ">-" | ">+" => "",
        _ => value,
    }
}

fn unquoted(text: &str) -> &str {
    ['"', '\''].into_iter().find_map(|q| text.strip_prefix(q)?.strip_suffix(q)).unwrap_or(text)
}
