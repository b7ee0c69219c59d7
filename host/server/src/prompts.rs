//! Offers skills as prompts, for clients whose users choose one by name.

use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, ListPromptsResult, PaginatedRequestParams, Prompt,
    PromptArgument, PromptMessage, Role,
};

use super::Shared;
use super::pages::{self, PAGE};
use super::run::Caller;
use super::session::{ActivatedBy, ActiveSkill};
use skillhost_catalog::CatalogEntry;
use skillhost_policy::diagnostic::printable;

/// The argument with the user's request.
const REQUEST: &str = "request";
/// Where the instructions want the argument.
const PLACEHOLDER: &str = "$ARGUMENTS";
/// The most bytes of the argument.
const ARGUMENT: usize = 64 << 10;
/// The most bytes of a prompt: as many as a SKILL.md may have.
const TEXT: usize = 1 << 20;

impl Shared {
    pub(super) fn list_prompts(
        &self,
        request: Option<&PaginatedRequestParams>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let entries = self.sorted(|entry| self.catalog.is_for_users(entry));
        let rest = pages::after(&entries, request)?;
        let page = &rest[..rest.len().min(PAGE)];
        let prompt = |entry: &CatalogEntry| {
            let hint = entry.argument_hint.as_deref().unwrap_or("what to do with the skill");
            let argument =
                PromptArgument::new(REQUEST).with_description(printable(hint)).with_required(false);
            Prompt::new(&*entry.name, Some(&*entry.description), Some(vec![argument]))
        };
        let mut result = ListPromptsResult::with_all_items(page.iter().map(prompt).collect());
        result.next_cursor = pages::next(rest, page.len());
        Ok(result)
    }

    /// Returns the instructions of a skill. If agents cannot activate the skill themselves, the
    /// session can use it from now on, because its user asked for it.
    pub(super) async fn get_prompt(
        &self,
        params: &GetPromptRequestParams,
        caller: Caller<'_>,
    ) -> Result<GetPromptResult, ErrorData> {
        let Caller { session, context, .. } = caller;
        let invalid = |why: String| ErrorData::invalid_params(why, None);
        let entry = self.catalog.get(&params.name);
        let entry = entry
            .filter(|entry| self.catalog.is_for_users(entry))
            .ok_or_else(|| invalid(format!("no prompt `{}`", params.name)))?;
        let skill = self
            .load(&entry)
            .map_err(|_| invalid(format!("cannot load the skill `{}`", entry.name)))?;
        let body = skill.source[skill.body_offset..].trim();
        let request =
            params.arguments.as_ref().and_then(|arguments| arguments.get(REQUEST)?.as_str());
        let filled = filled(body, request).map_err(invalid)?;
        let text = format!("Follow these instructions of the skill `{}`.\n\n{filled}", entry.name);
        if entry.user_only && !session.is_alone(context) {
            // A component that does not list its tools is not run for that.
            let tools = self.known_tools(&skill).await.ok().flatten().unwrap_or_default();
            let tools = self.tools_for_agents(&entry.name, tools);
            let skill = ActiveSkill { tools, by: ActivatedBy::User };
            session.state().active.insert(entry.name.to_string(), skill);
            session.tools_changed().await;
        }
        self.count_activation(&entry, session, context, text.len());
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
            .with_description(&*entry.description))
    }
}

/// Puts the argument into the instructions: literally, in place of each placeholder, or else at the
/// end.
fn filled(body: &str, request: Option<&str>) -> Result<String, String> {
    let argument = request.unwrap_or_default();
    if argument.len() > ARGUMENT {
        return Err(format!("the argument `{REQUEST}` has more than {ARGUMENT} bytes"));
    }
    let places = body.matches(PLACEHOLDER).count();
    if places == 0 {
        let end = request.map_or(String::new(), |request| format!("\n\n---\n{request}"));
        return Ok(format!("{body}{end}"));
    }
    if body.len() + places * argument.len() > TEXT {
        return Err(format!(
            "with the argument in {places} places, the instructions have more than {TEXT} bytes"
        ));
    }
    Ok(body.replace(PLACEHOLDER, argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_replaces_each_placeholder_literally() {
        let fill = |body: &str, request| filled(body, request).unwrap();
        assert_eq!(fill("Do $ARGUMENTS, then $ARGUMENTS.", Some("x y")), "Do x y, then x y.");
        assert_eq!(fill("[$ARGUMENTS]", None), "[]");
        // The argument is not read again, and nothing else is expanded.
        let argument = "$ARGUMENTS $1 {x} !`id` \\0";
        assert_eq!(fill("<$ARGUMENTS>", Some(argument)), format!("<{argument}>"));
        assert_eq!(fill("$1 $0 $ARGUMENTS[0] ${HOME}", Some("a")), "$1 $0 a[0] ${HOME}");
        assert_eq!(fill("Do it.", Some("now")), "Do it.\n\n---\nnow");
        assert_eq!(fill("Do it.", None), "Do it.");
    }

    #[test]
    fn the_argument_and_the_text_are_bounded() {
        let longest = "x".repeat(ARGUMENT);
        assert!(filled("$ARGUMENTS", Some(&longest)).is_ok());
        assert!(filled("", Some(&format!("{longest}x"))).is_err());
        let body = |places: usize| PLACEHOLDER.repeat(places);
        assert!(filled(&body(15), Some(&longest)).is_ok());
        assert!(filled(&body(16), Some(&longest)).is_err());
        assert!(filled(&body(100_000), None).is_ok());
    }
}
