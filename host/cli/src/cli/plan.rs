//! What `run --explain` shows beside the grant: the program that would run.

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use skillhost::invoke::TargetError;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::{Limit, Limits, show_size};
use skillhost_sandbox::{self as sandbox, stack};
use skillhost_skill::runtime::{EntryPoint, Program, ScriptId};

/// What would run, or why nothing would.
#[derive(Debug, Default, Serialize)]
pub(super) struct Plan {
    /// The built-in program and its version, such as `python 3.14.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    built_in: Option<String>,
    /// The component's digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<String>,
    /// The script.
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<ScriptId>,
    /// The typed tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The command line that the guest sees.
    argv: Vec<String>,
    /// The stack that it is given, in bytes.
    stack: u64,
    /// What the operator should know of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Plan {
    /// The plan for a program under limits.
    pub(super) fn of(program: Result<Program, TargetError>, limits: &Limits) -> Plan {
        let program = match program {
            Ok(program) => program,
            Err(TargetError::Unresolved(choice)) => {
                return Plan { note: Some(choice.message), ..Plan::default() };
            }
            Err(TargetError::Status(status)) => {
                return Plan { note: Some(sandbox::say(&status)), ..Plan::default() };
            }
        };
        let built_in = program.component.built_in();
        let given = stack(&program.component, limits);
        let note = built_in.filter(|built_in| built_in.stack > given).map(|built_in| {
            let (needs, key) = (show_size(built_in.stack), Limit::Stack.key());
            format!(
                "it needs {needs} of stack, and the limit `{key}` is {}: deep recursion may hit it",
                show_size(given)
            )
        });
        Plan {
            built_in: built_in.map(|built_in| {
                format!("{} {}", built_in.description.name, built_in.description.version)
            }),
            component: Some(program.component.digest.clone()),
            argv: std::iter::once(program.name).chain(program.args).collect(),
            script: program.script,
            tool: if let EntryPoint::Tool { name, .. } = program.entry { Some(name) } else { None },
            stack: given,
            note,
        }
    }

    /// As people read it: a table of at most `width` columns. The digest of a skill's own component
    /// is left to `inspect`.
    pub(super) fn text(&self, width: u16) -> String {
        let words: Vec<String> = self.argv.iter().map(|word| shown(word)).collect();
        let runs = match (&self.tool, words.is_empty()) {
            (_, true) => "nothing".to_owned(),
            (Some(tool), _) => format!("the tool {} of {}", shown(tool), words[0]),
            (None, _) => words.join(" "),
        };
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
        table.add_row(["runs".to_owned(), runs]);
        if let Some(script) = &self.script {
            table.add_row([
                "script".to_owned(),
                format!("{}\n{}", printable(&script.path), script.digest),
            ]);
        }
        if let (Some(program), Some(digest)) = (&self.built_in, &self.component) {
            table.add_row([
                "program".to_owned(),
                format!("{program}, stack {}\n{digest}", show_size(self.stack)),
            ]);
        }
        if let Some(note) = &self.note {
            table.add_row(["note".to_owned(), printable(note)]);
        }
        table.to_string()
    }
}

/// A word as a shell would take it.
fn shown(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+@%,=:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", printable(word).replace('\'', "'\\''"))
    }
}
