//! `discover_skills`: finds skills for a task, or lists them.

use rmcp::model::CallToolResult;
use serde::Deserialize;

use super::Shared;
use super::definitions::weight;
use super::result::{failed, said};
use super::session::Session;
use skillhost_catalog::{CatalogEntry, Query, summary};
use skillhost_ledger::usage::{UsageEvent, UsageSession};

#[derive(Deserialize)]
pub(super) struct Input {
    #[serde(default)]
    query: String,
    category: Option<String>,
}

/// The categories that are not tags: every skill, and those that the session has activated.
const ALL: &str = "all";
const ACTIVE: &str = "active";
/// The most skills in a list of one of these, and the most characters of each description.
const LISTED: usize = 100;
const LISTED_DESCRIPTION: usize = 120;
/// The most characters of a description of a match. The instructions have the rest.
const DESCRIPTION: usize = 400;
/// How many hexadecimal digits of a digest identify a skill.
const ID: usize = 12;

impl Shared {
    pub(super) fn discover(
        &self,
        input: Input,
        session: &Session,
        tally: &UsageSession,
    ) -> CallToolResult {
        let Input { query: text, category } = input;
        let query = Query { text, for_agents: true, ..Query::default() };
        let (query, description) = match category.as_deref() {
            Some(ALL) => (Query { limit: LISTED, ..query }, LISTED_DESCRIPTION),
            Some(ACTIVE) => {
                // These may include skills that only users start.
                let active: Vec<String> = session.state().active.keys().cloned().collect();
                let known = |name: &String| self.entry_in(session, name).is_some();
                let names = Some(active.into_iter().filter(known).collect());
                let query = Query { names, for_agents: false, limit: LISTED, ..query };
                (query, LISTED_DESCRIPTION)
            }
            _ => (Query { tag: category.clone(), ..query }, DESCRIPTION),
        };
        let hits = match self.catalog.search(&query) {
            Ok(hits) => hits,
            Err(error) => return failed(self.hidden.text(&error.to_string())),
        };
        let line = |entry: &CatalogEntry| {
            format!(
                "{}: {} [{}, id {}]",
                entry.name,
                summary(&entry.description, description),
                self.disclosure(session, &entry.name).name(),
                id(entry),
            )
        };
        let lines: Vec<String> = hits.iter().map(|hit| line(&hit.entry)).collect();
        let all = self.entries().len();
        let end = match lines.len() {
            0 if category.as_deref() == Some(ACTIVE) => "No such skill is active.".to_owned(),
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

/// Returns the start of the digest of a skill's SKILL.md. It differs if the file was changed.
fn id(entry: &CatalogEntry) -> &str {
    let digest = entry.digest.strip_prefix("sha256:").unwrap_or(&entry.digest);
    digest.get(..ID).unwrap_or(digest)
}
