//! `run --explain`: the grant, and the program that would run.

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use skillhost::invoke::TargetError;
use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_policy::limits::{Limit, Limits, show_size};
use skillhost_policy::{self as policy, Grant};
use skillhost_sandbox::{self as sandbox, stack};
use skillhost_skill::runtime::{EntryPoint, Program, ScriptId};

use super::plan::Plan;
use crate::error::{CliError, Exit};
use crate::output;

/// Output of `--explain --json`.
#[derive(Serialize)]
struct Explanation {
    #[serde(flatten)]
    grant: Grant,
    program: ProgramReport,
    /// What a recording never contains, if the policy names something.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<policy::Secrets>,
}

pub(super) fn explain(plan: Plan) -> Result<Exit, CliError> {
    let policy = &plan.context.policy;
    let loaded = plan.host.load(plan.skill.skill_folder(), policy)?;
    output::withheld_grant(&loaded.skill);
    let grant = Grant::clone(&loaded.grant);
    let program = plan.host.program(&loaded, &plan.target, &plan.args);
    let program = ProgramReport::of(program, &grant.capabilities.limits);
    let secrets =
        Some(policy.secrets.clone()).filter(|secrets| *secrets != policy::Secrets::default());
    if plan.json {
        output::json(&Explanation { grant, program, secrets })?;
        return Ok(Exit::Ok);
    }
    let mut text =
        format!("{}\n{}", policy::explain(&grant, output::width()), program.table(output::width()));
    let names = secrets.map(|secrets| [secrets.env, secrets.headers].concat()).unwrap_or_default();
    if !names.is_empty() {
        text += &format!("\nnever recorded: {}", output::lines(&names.join(", "), 0));
    }
    output::text(&text)?;
    Ok(Exit::Ok)
}

/// The program that would run, or why none would.
#[derive(Debug, Default, Serialize)]
struct ProgramReport {
    /// The runtime and its version, such as `python 3.14.0`.
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
    /// The size of its stack, in bytes.
    stack: u64,
    /// Anything else that the operator should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl ProgramReport {
    fn of(program: Result<Program, TargetError>, limits: &Limits) -> ProgramReport {
        let program = match program {
            Ok(program) => program,
            Err(TargetError::Unresolved(choice)) => {
                return ProgramReport { note: Some(choice.message), ..ProgramReport::default() };
            }
            Err(TargetError::Status(status)) => {
                let note = Some(sandbox::say(&status));
                return ProgramReport { note, ..ProgramReport::default() };
            }
        };
        let built_in = program.component.built_in();
        let stack = stack(&program.component, limits);
        let note = built_in.filter(|built_in| built_in.stack > stack).map(|built_in| {
            let (needed, key) = (show_size(built_in.stack), Limit::Stack.key());
            format!(
                "it needs {needed} of stack and the limit `{key}` is {}: deep recursion may hit it",
                show_size(stack)
            )
        });
        ProgramReport {
            built_in: built_in.map(|built_in| {
                format!("{} {}", built_in.description.name, built_in.description.version)
            }),
            component: Some(program.component.digest.clone()),
            argv: std::iter::once(program.name).chain(program.args).collect(),
            script: program.script,
            tool: if let EntryPoint::Tool { name, .. } = program.entry { Some(name) } else { None },
            stack,
            note,
        }
    }

    /// A table of at most `width` columns. `inspect` shows the digest of a skill's own component.
    fn table(&self, width: u16) -> String {
        let argv: Vec<String> = self.argv.iter().map(|word| quoted(word)).collect();
        let runs = match (&self.tool, argv.is_empty()) {
            (_, true) => "nothing".to_owned(),
            (Some(tool), _) => format!("the tool {} of {}", quoted(tool), argv[0]),
            (None, _) => argv.join(" "),
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
                "runtime".to_owned(),
                format!("{program}, stack {}\n{digest}", show_size(self.stack)),
            ]);
        }
        if let Some(note) = &self.note {
            table.add_row(["note".to_owned(), printable(note)]);
        }
        table.to_string()
    }
}
