//! `skillhost inspect`: what a component is, before anything trusts it.

use std::path::{Path, PathBuf};

use serde::Serialize;
use skillhost::invoke::{self, Runner};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::world::{self, World};
use skillhost_sandbox::{self as sandbox, Tool, check_kind};
use skillhost_skill::Skill;
use skillhost_skill::runtime::Component;

use super::exit::Exit;
use super::places::{HostArgs, Places};
use super::run::invalid_skill;
use super::{Failure, show};

/// Prints a component's world, its tools and their schemas
///
/// The world is read from the file. The tools are asked of the component, in a sandbox that grants
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

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let (file, component) = component(&args.path)?;
    let bytes =
        component.bytes().map_err(|error| Failure::new(Exit::Io, format!("{file}: {error}")))?;
    check_kind(&bytes).map_err(|status| not_run(&status, &format!("{file}: ")))?;
    let world = world::read(&bytes)
        .map_err(|message| Failure::new(Exit::Invalid, format!("{file}: {message}")))?;
    let tools = if world.offers_tools() { tools(&component)? } else { Vec::new() };
    let report = Report { digest: component.digest.clone(), size: bytes.len(), world, tools };
    if args.json {
        show::json(&report)?
    } else {
        show::text(&text(&report))?
    }
    Ok(Exit::Ok)
}

/// The component of a skill, or of a file; with the path of its file.
fn component(path: &Path) -> Result<(String, Component), Failure> {
    if path.is_dir() {
        let skill = Skill::load(path, &Default::default()).map_err(invalid_skill)?;
        let (file, component) =
            invoke::declared_component(&skill).map_err(|status| not_run(&status, ""))?;
        return Ok((path.join(file).display().to_string(), component));
    }
    let file = path.display().to_string();
    #[expect(clippy::disallowed_methods, reason = "the file is named by the user")]
    match std::fs::read(path) {
        Ok(bytes) => Ok((file, Component::new(bytes))),
        Err(error) => Err(Failure::new(Exit::Invalid, format!("{file} cannot be read: {error}"))
            .fix("name a skill's folder, or a .wasm file")),
    }
}

/// Asks a component for its tools, in a sandbox that grants nothing.
pub(crate) fn tools(component: &Component) -> Result<Vec<Tool>, Failure> {
    let host = Runner::new(Places::find()?.host_options(&HostArgs::default())?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::Io, format!("no event loop: {error}")))?;
    runtime
        .block_on(host.component_tools(component))
        .map_err(|status| not_run(&status, "the component does not list its tools: "))
}

/// Why there is nothing to show.
fn not_run(status: &Status, context: &str) -> Failure {
    let failure = Failure::new(Exit::of(status), format!("{context}{}", sandbox::say(status)));
    match status {
        Status::Invalid { fix: Some(fix), .. } | Status::Failed { fix: Some(fix), .. } => {
            failure.fix(fix)
        }
        _ => failure,
    }
}

/// The report as people read it. Names, descriptions and schemas are the component's own.
fn text(report: &Report) -> String {
    let mut out = format!("{}\n{} bytes\n", report.digest, report.size);
    out += &format!(
        "exports\n{}\nimports\n{}\n",
        list(&report.world.exports),
        list(&report.world.imports)
    );
    for tool in &report.tools {
        out +=
            &format!("\ntool {}\n  {}\n", printable(&tool.name), show::lines(&tool.description, 2));
        for (what, schema) in
            [("input", Some(&tool.input_schema)), ("output", tool.output_schema.as_ref())]
        {
            if let Some(schema) = schema {
                let text = serde_json::to_string_pretty(schema).unwrap_or_default();
                out += &format!("  {what}: {}\n", show::lines(&text, 2));
            }
        }
    }
    out += &format!("\n{}", show::lines(&report.world.wit, 0));
    out
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "  (none)".into()
    } else {
        names.iter().map(|name| format!("  {}", printable(name))).collect::<Vec<_>>().join("\n")
    }
}
