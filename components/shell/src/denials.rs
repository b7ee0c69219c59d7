//! Commands that the policy denies, among those that the shell runs itself: no program starts, so
//! the host cannot see them.
//!
//! The host names them in a variable, which scripts do not see. It is asked about each that is
//! called, so that it notes the denial.

use std::collections::HashSet;

use bashkit::hooks::{HookAction, Interceptor, ToolEvent};

use crate::bindings::skillhost::skill::process::{self, Error, Input, Output};

/// The variable, which the host alone sets. Names are separated by spaces.
pub(crate) const VARIABLE: &str = "SKILLHOST_DENIED_COMMANDS";

/// Commands that run a text as a shell does, or expand one that may hold commands: denied with
/// `bash`.
const EVALUATORS: [&str; 13] = [
    "eval", "source", ".", "trap", "compgen", "declare", "typeset", "local", "readonly", "export",
    "let", "read", "mapfile",
];

/// A hook that cancels the commands that `names` lists.
pub(crate) fn hook(names: &str) -> Interceptor<ToolEvent> {
    let denied: HashSet<String> = names.split_whitespace().map(str::to_owned).collect();
    Box::new(move |event| {
        let name = event.name.rsplit('/').next().unwrap_or(&event.name);
        let is_evaluator = EVALUATORS.contains(&name)
            || name == "printf" && event.args.iter().any(|arg| arg.starts_with("-v"));
        let evaluates = is_evaluator && denied.contains("bash");
        if !evaluates && !denied.contains(name) {
            return HookAction::Continue(event);
        }
        let program = if evaluates { "bash" } else { name };
        HookAction::Cancel(refusal(program, &event.args))
    })
}

/// What the host says about a denied command. It starts nothing, whatever that is.
fn refusal(program: &str, args: &[String]) -> String {
    let argv: Vec<String> =
        std::iter::once(program.to_owned()).chain(args.iter().cloned()).collect();
    let why = match process::spawn(&argv, None, None, &Input::None, &Output::None, &Output::None) {
        Err(Error::Denied(why)) => why,
        Err(_) => "the policy denies it".to_owned(),
        Ok(child) => {
            child.kill();
            "the policy denies it".to_owned()
        }
    };
    format!("Permission denied: {why}")
}
