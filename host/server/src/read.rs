//! `read_skill_file`: returns a file of a skill, or some of its lines.

use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde::Deserialize;

use super::definitions::weight;
use super::result::{cut, failed, said};
use super::session::Session;
use super::skills::uri;
use super::{Shared, trace};
use skillhost_ledger::usage::{UsageEvent, UsageSession};

#[derive(Deserialize)]
pub(super) struct Input {
    name: String,
    path: String,
    range: Option<String>,
}

/// The most bytes of a file in an answer.
const TEXT: usize = 64 << 10;

impl Shared {
    pub(super) fn read(
        &self,
        input: Input,
        session: &Session,
        tally: &UsageSession,
    ) -> CallToolResult {
        let Some(entry) = self.entry_in(session, &input.name) else {
            return failed(self.no_skill(&input.name));
        };
        trace::about(&entry);
        let hidden = self.hidden.and(&entry.folder, "/skill");
        let skill = match self.load(&entry) {
            Ok(skill) => skill,
            Err(error) => return failed(hidden.text(&error.to_string())),
        };
        let path =
            input.path.strip_prefix("/skill/").unwrap_or(&input.path).trim_start_matches("./");
        let path = if path.eq_ignore_ascii_case("SKILL.md") { &skill.skill_file } else { path };
        let bytes = match skill.read(path) {
            Ok(bytes) => bytes,
            Err(error) => return failed(hidden.text(&error.to_string())),
        };
        tally.count(&entry.name, || weight(&entry), UsageEvent::Read);
        let link = || {
            ContentBlock::resource_link(
                Resource::new(uri(&entry.name, path), path).with_size(bytes.len() as u64),
            )
        };
        let Ok(text) = std::str::from_utf8(&bytes) else {
            let mut result = said(format!(
                "`{path}` is not text: read its {} bytes as a resource.",
                bytes.len()
            ));
            result.content.push(link());
            return result;
        };
        let lines = match input.range.as_deref().map(range) {
            None => text.to_owned(),
            Some(Some((first, last))) => {
                text.split_inclusive('\n').skip(first - 1).take(last - first + 1).collect()
            }
            Some(None) => {
                return failed(
                    "invalid range: write FIRST-LAST, counting lines from 1, e.g. `1-50`".into(),
                );
            }
        };
        let (shown, is_cut) = cut(lines.as_bytes(), TEXT);
        let mut result = said(shown);
        if is_cut {
            let all = text.lines().count();
            result.content.push(ContentBlock::text(format!(
                "[truncated after 64 KiB; `{path}` has {all} lines: request a range]"
            )));
            result.content.push(link());
        }
        result
    }
}

/// Parses `FIRST-LAST`, `FIRST-` or `LINE`.
fn range(text: &str) -> Option<(usize, usize)> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let (first, last) = match text.split_once('-') {
        Some((first, "")) => (number(first)?, usize::MAX - 1),
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    (first >= 1 && first <= last && last < usize::MAX).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_count_lines_from_one() {
        assert_eq!(range("1-50"), Some((1, 50)));
        assert_eq!(range(" 7 "), Some((7, 7)));
        assert_eq!(range("3-").map(|(first, _)| first), Some(3));
        for bad in ["0-1", "5-2", "-3", "a-b", "", "1-2-3"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}
