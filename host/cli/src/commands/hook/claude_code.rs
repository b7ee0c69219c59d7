//! Claude Code's side of the hook: the tool call on stdin, and the decision on stdout.
//!
//! The format is that of Claude Code's hooks reference, <https://code.claude.com/docs/en/hooks>.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::decision::{self, Decision, Language};
use super::{Args, configuration};
use crate::context::Context;
use crate::error::CliError;

/// A `PreToolUse` event. Other fields have no effect on the decision.
#[derive(Debug, Deserialize)]
struct Event {
    hook_event_name: String,
    /// The folder in which the client runs the command.
    cwd: PathBuf,
    tool_name: String,
    #[serde(default)]
    tool_input: Map<String, Value>,
}

/// The tools that run the text of `command`, and its language.
const SHELL_TOOLS: [(&str, Language); 3] =
    [("Bash", Language::Posix), ("Monitor", Language::Posix), ("PowerShell", Language::Other)];

/// Returns the answer to an event; `None` leaves the decision to the client.
pub(super) fn answer(args: &Args, event: &[u8]) -> Result<Option<Value>, CliError> {
    let event: Event = serde_json::from_slice(event).map_err(|error| {
        CliError::invalid(format!("stdin has no tool call of Claude Code: {error}"))
    })?;
    if event.hook_event_name != "PreToolUse" {
        let message = format!("the event is {:?}, not PreToolUse", event.hook_event_name);
        return Err(CliError::invalid(message).fix("start this hook for PreToolUse only"));
    }
    let context = Context::with_file(&args.policy)?;
    configuration::check(args.settings.as_deref(), &context.places.home, &event.cwd)?;
    let Some((_, language)) = SHELL_TOOLS.into_iter().find(|(name, _)| *name == event.tool_name)
    else {
        return Ok(None);
    };
    let Some(command) = event.tool_input.get("command").and_then(Value::as_str) else {
        return Err(CliError::invalid("the tool call has no `command`"));
    };
    let decision = decision::decide(args, &context, &event.cwd, command, language)?;
    Ok(match decision {
        Decision::Pass => None,
        Decision::Deny(reason) => Some(output("deny", &reason, None)),
        Decision::Run { line, starts, note } => {
            // This replaces the whole input, so the other fields are repeated.
            let mut input = event.tool_input;
            input.insert("command".to_owned(), line.into());
            Some(output(if starts { "allow" } else { "ask" }, &note, Some(input)))
        }
    })
}

fn output(decision: &str, reason: &str, input: Option<Map<String, Value>>) -> Value {
    let mut specific = json!({
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    });
    if let Some(input) = input {
        specific["updatedInput"] = Value::Object(input);
    }
    json!({ "hookSpecificOutput": specific })
}
