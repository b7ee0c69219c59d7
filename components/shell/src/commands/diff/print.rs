//! Formats changes: the normal and the unified format.

use std::ops::Range;

use super::script::Change;

/// Formats a change as `2,3c2` and its lines.
pub(super) fn normal(old: &[&[u8]], new: &[&[u8]], changes: &[Change]) -> Vec<u8> {
    let mut out = Vec::new();
    for Change { old: from, new: to } in changes {
        let verb = match (from.is_empty(), to.is_empty()) {
            (true, _) => 'a',
            (_, true) => 'd',
            _ => 'c',
        };
        out.extend(format!("{}{verb}{}\n", lines(from), lines(to)).bytes());
        from.clone().for_each(|at| line(&mut out, b"< ", old[at]));
        if verb == 'c' {
            out.extend(b"---\n");
        }
        to.clone().for_each(|at| line(&mut out, b"> ", new[at]));
    }
    out
}

/// Formats hunks with `context` lines around the changes, without the two header lines. `heading`
/// returns the text after the second `@@` of a hunk that begins at that line of the old file.
pub(crate) fn unified<'a>(
    old: &[&[u8]],
    new: &[&[u8]],
    changes: &[Change],
    context: usize,
    heading: impl Fn(usize) -> Option<&'a [u8]>,
) -> Vec<u8> {
    let mut out = Vec::new();
    // Changes whose contexts touch share a hunk.
    for hunk in changes.chunk_by(|a, b| b.old.start - a.old.end <= context.saturating_mul(2)) {
        let (first, last) = (&hunk[0], &hunk[hunk.len() - 1]);
        let (before, after) = (context.min(first.old.start), context.min(old.len() - last.old.end));
        let from = first.old.start - before..last.old.end + after;
        let to = first.new.start - before..last.new.end + after;
        out.extend(format!("@@ -{} +{} @@", range_header(&from), range_header(&to)).bytes());
        if let Some(text) = heading(from.start) {
            out.push(b' ');
            out.extend(text);
        }
        out.push(b'\n');
        let mut at = from.start;
        for change in hunk {
            (at..change.old.start).for_each(|at| line(&mut out, b" ", old[at]));
            change.old.clone().for_each(|at| line(&mut out, b"-", old[at]));
            change.new.clone().for_each(|at| line(&mut out, b"+", new[at]));
            at = change.old.end;
        }
        (at..from.end).for_each(|at| line(&mut out, b" ", old[at]));
    }
    out
}

fn line(out: &mut Vec<u8>, mark: &[u8], text: &[u8]) {
    out.extend(mark);
    out.extend(text);
    if !text.ends_with(b"\n") {
        out.extend(b"\n\\ No newline at end of file\n");
    }
}

/// First and last line of a range. An empty range is the line before it.
fn lines(range: &Range<usize>) -> String {
    match range.len() {
        0 | 1 => range.end.to_string(),
        _ => format!("{},{}", range.start + 1, range.end),
    }
}

/// First line and number of lines.
fn range_header(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.end),
        1 => range.end.to_string(),
        count => format!("{},{count}", range.start + 1),
    }
}
