//! Finds the frontmatter: the text between a first line `---` and the next line `---`.

use std::ops::Range;

use super::findings::Findings;
use super::rules;

/// The parts of a SKILL.md, as byte offsets.
pub(super) struct Fences {
    /// The opening `---`.
    pub(super) open: Range<usize>,
    /// The YAML between the fences, or up to the first empty line or heading without a closing fence.
    pub(super) yaml: Range<usize>,
    /// Where the instructions start.
    pub(super) body: usize,
}

/// The byte order mark.
pub(super) const BOM: &str = "\u{feff}";

/// Finds the fences, and reports problems with them. Returns `None` without frontmatter.
pub(super) fn find(source: &str, folder: &str, findings: &mut Findings<'_>) -> Option<Fences> {
    let text_start = if source.starts_with(BOM) { BOM.len() } else { 0 };
    let mut lines =
        lines_from(source, text_start).skip_while(|line| source[line.clone()].trim().is_empty());
    let open = lines.next().filter(|line| is_fence(&source[line.clone()]));
    let Some(open) = open else {
        let first = lines_from(source, text_start).next().unwrap_or(text_start..text_start);
        let fix = format!("start the file with\n{}", super::fields::template(folder));
        findings.add(
            &rules::FRONTMATTER_MISSING,
            first,
            "the file does not start with frontmatter",
            Some(fix),
        );
        return None;
    };
    if open.start != text_start {
        let message = "there are empty lines before the frontmatter";
        findings.add(
            &rules::FRONTMATTER_START,
            open.clone(),
            message,
            Some("delete the lines above `---`".into()),
        );
    }
    report_blanks(source, &open, findings);

    let yaml_start = after_line_end(source, open.end);
    if let Some(close) = lines_from(source, yaml_start).find(|line| is_fence(&source[line.clone()]))
    {
        report_blanks(source, &close, findings);
        return Some(Fences {
            open,
            yaml: yaml_start..close.start,
            body: after_line_end(source, close.end),
        });
    }
    let ends = |line: &Range<usize>| {
        source[line.clone()].trim().is_empty() || source[line.clone()].starts_with('#')
    };
    let end = lines_from(source, yaml_start).find(ends).map_or(source.len(), |line| line.start);
    let message = "the frontmatter that starts here is not closed";
    findings.add(
        &rules::FRONTMATTER_END,
        open.clone(),
        message,
        Some("add a line `---` after the last field".into()),
    );
    Some(Fences { open, yaml: yaml_start..end, body: end })
}

/// Returns the lines from an offset on, without their line ends (LF or CRLF).
pub(super) fn lines_from(source: &str, start: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = start;
    source[start..].split_inclusive('\n').map(move |line| {
        let begin = at;
        at += line.len();
        let content = line.strip_suffix('\n').map_or(line, |l| l.strip_suffix('\r').unwrap_or(l));
        begin..begin + content.len()
    })
}

/// Checks for `---` with at most blanks after it. An indented one belongs to a value.
fn is_fence(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.chars().all(|c| c == ' ' || c == '\t'))
}

fn report_blanks(source: &str, line: &Range<usize>, findings: &mut Findings<'_>) {
    let blanks = line.start + 3..line.end;
    if !blanks.is_empty() {
        let message = format!(
            "trailing {} after `---`",
            if source[blanks.clone()].contains('\t') { "tabs" } else { "spaces" }
        );
        findings.add(&rules::FENCE_BLANKS, blanks, message, Some("---".into()));
    }
}

fn after_line_end(source: &str, end: usize) -> usize {
    source[end..].find('\n').map_or(source.len(), |i| end + i + 1)
}
