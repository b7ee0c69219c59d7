//! Rules for Markdown.

use pulldown_cmark::{
    BrokenLink, CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd,
};

use crate::finding::Findings;

/// Checks a text. Everything is valid Markdown, so there are no syntax errors.
pub fn lint(text: &str, findings: &mut Findings<'_>) {
    let mut undefined = Vec::new();
    let mut on_broken = |link: BrokenLink<'_>| -> Option<(CowStr<'_>, CowStr<'_>)> {
        // `[x]` alone is most often no link.
        if matches!(link.link_type, LinkType::Reference | LinkType::Collapsed) {
            undefined.push((link.span.start, link.reference.to_string()));
        }
        None
    };
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_with_broken_link_callback(text, options, Some(&mut on_broken));
    let mut level = 0;
    // The start of the open image, and whether it has a text.
    let mut image: Option<(usize, bool)> = None;
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level: next, .. }) => {
                let next = next as usize;
                if level > 0 && next > level + 1 {
                    let message = format!("a heading of level {next} follows one of level {level}");
                    findings.at(range.start, "heading-level", message);
                }
                level = next;
            }
            Event::Start(Tag::Link { dest_url, .. }) if dest_url.trim().is_empty() => {
                findings.at(range.start, "empty-link", "the link has no address");
            }
            Event::Start(Tag::Image { .. }) => image = Some((range.start, false)),
            Event::Text(_) | Event::Code(_) => {
                if let Some((_, has_text)) = &mut image {
                    *has_text = true;
                }
            }
            Event::End(TagEnd::Image) => {
                if let Some((start, false)) = image.take() {
                    findings.at(start, "missing-alt", "the image has no alternative text");
                }
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_)))
                if !is_closed(&text[range.clone()]) =>
            {
                let message = "the code block is not closed, so it contains the rest";
                findings.at(range.start, "unclosed-fence", message);
            }
            _ => {}
        }
    }
    for (start, reference) in undefined {
        let message = format!("the reference `{reference}` is not defined");
        findings.at(start, "undefined-reference", message);
    }
}

/// Returns whether a fenced block ends with a fence like the one that it begins with.
fn is_closed(block: &str) -> bool {
    let fence = |line: &str| {
        let line = line.trim_start_matches([' ', '\t', '>']);
        let mark = line.chars().next().filter(|c| "`~".contains(*c))?;
        Some((mark, line.chars().take_while(|c| *c == mark).count(), line.trim_end().to_owned()))
    };
    let mut lines = block.lines();
    let Some((mark, length, _)) = lines.next().and_then(fence) else { return true };
    lines.next_back().and_then(fence).is_some_and(|(last, count, line)| {
        last == mark && count >= length && line.chars().all(|c| c == mark)
    })
}
