//! `skillhost inspect`: describe a component before anything trusts it.

use std::path::{Path, PathBuf};

use serde::Serialize;
use skillhost::invoke::{self, Runner};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::world::{self, World};
use skillhost_sandbox::{self as sandbox, Tool, check_kind};
use skillhost_skill::Skill;
use skillhost_skill::runtime::Component;

use crate::args::HostArgs;
use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::{event_loop, output};

/// Show a component's world, its tools and their schemas
///
/// Reads the world from the file. Runs the component to list its tools, in a sandbox that grants
/// nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost inspect skills/calculator
  skillhost inspect target/component.wasm --json")]
pub(crate) struct Args {
    /// A skill's folder, or a .wasm file
    #[arg(value_name = "SKILL|FILE")]
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    digest: String,
    size: usize,
    #[serde(flatten)]
    world: World,
    tools: Vec<Tool>,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let (file, component) = component(&args.path)?;
    let bytes =
        component.bytes().map_err(|error| CliError::new(Exit::Io, format!("{file}: {error}")))?;
    check_kind(&bytes).map_err(|status| not_run(&status, &format!("{file}: ")))?;
    let world =
        world::read(&bytes).map_err(|message| CliError::invalid(format!("{file}: {message}")))?;
    let tools = if world.offers_tools() { tools(&component)? } else { Vec::new() };
    let report = Report { digest: component.digest.clone(), size: bytes.len(), world, tools };
    if args.json {
        output::json(&report)?
    } else {
        output::text(&text(&report))?
    }
    Ok(Exit::Ok)
}

/// The component of a skill or of a file, with the path of its file.
fn component(path: &Path) -> Result<(String, Component), CliError> {
    if path.is_dir() {
        let skill = Skill::load(path, &Default::default())?;
        let (file, component) =
            invoke::declared_component(&skill).map_err(|status| not_run(&status, ""))?;
        return Ok((path.join(file).display().to_string(), component));
    }
    let file = path.display().to_string();
    #[expect(clippy::disallowed_methods, reason = "the file is named by the operator")]
    match std::fs::read(path) {
        Ok(bytes) => Ok((file, Component::new(bytes))),
        Err(error) => Err(CliError::invalid(format!("cannot read {file}: {error}"))
            .fix("name a skill's folder or a .wasm file")),
    }
}

/// Asks a component for its tools, in a sandbox that grants nothing.
pub(crate) fn tools(component: &Component) -> Result<Vec<Tool>, CliError> {
    let host = Runner::new(Places::find()?.host_options(&HostArgs::default())?);
    event_loop::one_thread()?
        .block_on(host.component_tools(component))
        .map_err(|status| not_run(&status, "the component does not list its tools: "))
}

fn not_run(status: &Status, context: &str) -> CliError {
    let error = CliError::new(Exit::of(status), format!("{context}{}", sandbox::say(status)));
    match status {
        Status::Invalid { fix: Some(fix), .. } | Status::Failed { fix: Some(fix), .. } => {
            error.fix(fix)
        }
        _ => error,
    }
}

/// The report as text. Names, descriptions and schemas are the component's own.
fn text(report: &Report) -> String {
    let mut out = format!(
        "{}\n{} bytes\nexports\n{}\nimports\n{}\n",
        report.digest,
        report.size,
        list(&report.world.exports),
        list(&report.world.imports)
    );
    for tool in &report.tools {
        let description = output::lines(&tool.description, 2);
        out += &format!("\ntool {}\n  {description}\n", printable(&tool.name));
        for (direction, schema) in
            [("input", Some(&tool.input_schema)), ("output", tool.output_schema.as_ref())]
        {
            if let Some(schema) = schema {
                let text = serde_json::to_string_pretty(schema).unwrap_or_default();
                out += &format!("  {direction}: {}\n", output::lines(&text, 2));
            }
        }
    }
    out + &format!("\n{}", output::lines(&report.world.wit, 0))
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "  (none)".into()
    } else {
        names.iter().map(|name| format!("  {}", printable(name))).collect::<Vec<_>>().join("\n")
    }
}
