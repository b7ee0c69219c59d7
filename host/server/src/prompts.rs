//! Offers skills as prompts, for clients whose users choose one by name.

use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, ListPromptsResult, PaginatedRequestParams, Prompt,
    PromptArgument, PromptMessage, Role,
};

use super::Shared;
use super::definitions::weight;
use super::pages::{self, PAGE};
use skillhost_ledger::usage::{UsageEvent, UsageSession};

/// The argument with the user's request.
const REQUEST: &str = "request";

impl Shared {
    pub(super) fn list_prompts(
        &self,
        request: Option<&PaginatedRequestParams>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let entries = self.entries();
        let rest = pages::after(&entries, request)?;
        let page = &rest[..rest.len().min(PAGE)];
        let argument = PromptArgument::new(REQUEST)
            .with_description("what to do with the skill")
            .with_required(false);
        let prompt = |entry: &skillhost_catalog::CatalogEntry| {
            Prompt::new(&*entry.name, Some(&*entry.description), Some(vec![argument.clone()]))
        };
        let mut result = ListPromptsResult::with_all_items(page.iter().map(prompt).collect());
        result.next_cursor = pages::next(rest, page.len());
        Ok(result)
    }

    pub(super) fn get_prompt(
        &self,
        params: &GetPromptRequestParams,
        tally: &UsageSession,
    ) -> Result<GetPromptResult, ErrorData> {
        let none = || ErrorData::invalid_params(format!("no prompt `{}`", params.name), None);
        let entry = self.entry(&params.name).ok_or_else(none)?;
        let skill = self.load(&entry).map_err(|_| {
            ErrorData::invalid_params(format!("cannot load the skill `{}`", entry.name), None)
        })?;
        let body = skill.source[skill.body_offset..].trim();
        let request =
            params.arguments.as_ref().and_then(|arguments| arguments.get(REQUEST)?.as_str());
        let request = request.map_or(String::new(), |request| format!("\n\n---\n{request}"));
        let text =
            format!("Follow these instructions of the skill `{}`.\n\n{body}{request}", entry.name);
        tally.count(
            &entry.name,
            || weight(&entry),
            UsageEvent::Activated { sent: text.len() as u64 },
        );
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
            .with_description(&*entry.description))
    }
}
