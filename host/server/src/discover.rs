//! `discover_skills`: finds skills for a task.

use rmcp::model::CallToolResult;
use serde::Deserialize;

use super::Shared;
use super::definitions::weight;
use super::result::{failed, said};
use skillhost_catalog::Query;
use skillhost_ledger::usage::{UsageEvent, UsageSession};

#[derive(Deserialize)]
pub(super) struct Input {
    #[serde(default)]
    query: String,
    category: Option<String>,
}

/// The most characters of a description to show. The instructions have the rest.
const DESCRIPTION: usize = 400;

impl Shared {
    pub(super) fn discover(&self, input: Input, tally: &UsageSession) -> CallToolResult {
        let query = Query {
            text: input.query,
            tag: input.category,
            enabled: Some(true),
            ..Query::default()
        };
        let hits = match self.catalog.search(&query) {
            Ok(hits) => hits,
            Err(error) => return failed(self.hidden.text(&error.to_string())),
        };
        let lines: Vec<String> = hits
            .iter()
            .map(|hit| {
                let description: String =
                    hit.entry.description.split_whitespace().collect::<Vec<_>>().join(" ");
                let short: String = description.chars().take(DESCRIPTION).collect();
                let dots = if short.len() < description.len() { " ..." } else { "" };
                format!("{}: {short}{dots}", hit.entry.name)
            })
            .collect();
        let all =
            self.catalog.entries().iter().filter(|entry| self.catalog.is_enabled(entry)).count();
        let end = match lines.len() {
            0 => format!("No skill matches. {all} are installed; try other words."),
            found => format!(
                "\n{found} of {all} installed skills. Use activate_skill with the name of one."
            ),
        };
        tally.count_answer(end.len() as u64);
        for (hit, line) in hits.iter().zip(&lines) {
            tally.count(
                &hit.entry.name,
                || weight(&hit.entry),
                UsageEvent::Discovered { sent: line.len() as u64 + 1 },
            );
        }
        let lines: String = lines.into_iter().map(|line| line + "\n").collect();
        said(lines + &end)
    }
}
