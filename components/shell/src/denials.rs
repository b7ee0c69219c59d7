//! Enforces the policy's denials of commands that the shell runs itself. No program starts for
//! them, so the host cannot see them.
//!
//! The host lists them in an environment variable that scripts do not see. The shell asks the host
//! to start each one that is called; the host refuses and records the denial.

use std::collections::HashSet;

use bashkit::hooks::{HookAction, Interceptor, ToolEvent};

use crate::bindings::skillhost::skill::process::{self, Error, Input, Output};

/// The variable, set by the host. Names are separated by spaces.
pub(crate) const VARIABLE: &str = "SKILLHOST_DENIED_COMMANDS";

/// Commands that execute a text, or expand one that may contain commands. They are denied together
/// with `bash`.
const EVALUATORS: [&str; 13] = [
    "eval", "source", ".", "trap", "compgen", "declare", "typeset", "local", "readonly", "export",
    "let", "read", "mapfile",
];

/// Returns a hook that cancels the commands in `names`.
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

/// Returns the host's message for a denied command. Nothing is started, whatever the host responds.
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
