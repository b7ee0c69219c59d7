//! `skillhost build`: compile a skill's source to its component.

use std::path::{Path, PathBuf};

use serde::Serialize;
use skillhost_policy::{self as policy, Policy};
use skillhost_sandbox::with_listing;
use skillhost_sandbox::world::{self, World};
use skillhost_skill::Skill;
use skillhost_skill::runtime::{Component, digest};
use skillhost_toolchain::{Progress, Source, find, skill};

use crate::commands::inspect;
use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// Compile a skill's Rust source to the component that its SKILL.md names
///
/// Finds a toolchain for wasm32-unknown-unknown, or builds one. Prints what the component imports
/// and exports, and warns about imports that allowed-tools does not request.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost build word-count
  skillhost build skills/data-convert --verbose")]
pub(crate) struct Args {
    /// The skill's folder, with a Cargo.toml next to SKILL.md
    skill: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    component: PathBuf,
    digest: String,
    size: usize,
    #[serde(flatten)]
    world: World,
    warnings: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let skill = Skill::load(&args.skill, &Default::default())?;
    if !args.skill.join("Cargo.toml").is_file() {
        let message = format!("nothing to build: {} has no Cargo.toml", args.skill.display());
        return Err(
            CliError::invalid(message).fix("create a skill that has one: skillhost new NAME")
        );
    }
    let cache = Places::find()?.cache;
    let progress = if args.json || output::is_quiet() {
        Progress::silent()
    } else {
        // With the compiler's output.
        Progress::new(output::is_verbose())
    };
    let toolchain = find(&cache, Source::Any, &progress)?;
    let path = progress.step("build the component", |step| {
        skill::build(&args.skill, skill.manifest.component.as_deref(), &toolchain, &cache, step)
    })?;
    #[expect(clippy::disallowed_methods, reason = "the file that was just built")]
    let bytes = std::fs::read(&path)
        .map_err(|error| CliError::io(format_args!("read {}", path.display()), error))?;
    let world = world::read(&bytes)
        .map_err(|message| CliError::invalid(format!("{}: {message}", path.display())))?;
    let bytes = if world.offers_tools() { list_tools(&path, bytes)? } else { bytes };
    let report = Report {
        warnings: warnings(&skill, &world),
        digest: digest(&bytes),
        size: bytes.len(),
        component: path,
        world,
    };
    if args.json {
        output::json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(Exit::Ok)
}

/// Asks a component for its tools and writes them into one of its sections, where they can be read
/// without running it.
fn list_tools(path: &Path, component: Vec<u8>) -> Result<Vec<u8>, CliError> {
    let tools = inspect::tools(&Component::new(component.clone()))?;
    let listed = with_listing(&component, &tools)
        .map_err(|message| CliError::invalid(format!("{}: {message}", path.display())))?;
    #[expect(clippy::disallowed_methods, reason = "the file that was just built")]
    std::fs::write(path, &listed)
        .map_err(|error| CliError::io(format_args!("write {}", path.display()), error))?;
    Ok(listed)
}

/// What the component could use and the skill does not request, whatever a policy would grant.
fn warnings(skill: &Skill, world: &World) -> Vec<String> {
    let mut warnings = match skill.manifest.allowed_tools {
        // A skill without allowed-tools requests all that the policy allows.
        None => Vec::new(),
        Some(_) => world.unasked(
            &policy::grant(&skill.policy_manifest(), &Policy::allow_everything()).capabilities,
        ),
    };
    if skill.manifest.component.is_none() {
        let fix = "write `metadata: { component: NAME.wasm }`";
        warnings.push(format!("SKILL.md names no component, so it will not run: {fix}"));
    }
    warnings
}

fn print(report: &Report) -> Result<(), CliError> {
    let Report { component, digest, size, world, warnings } = report;
    let World { imports, exports, .. } = world;
    output::text(&format!(
        "{}  {size} bytes  {digest}\nexports {}\nimports {}",
        component.display(),
        exports.join(", "),
        imports.join(", ")
    ))?;
    warnings.iter().for_each(|warning| output::warning(warning, None));
    Ok(())
}
