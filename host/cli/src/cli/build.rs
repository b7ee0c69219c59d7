//! `skillhost build`: a skill's source becomes its component.

use std::path::{Path, PathBuf};

use serde::Serialize;
use skillhost_policy::{self as policy, Policy};
use skillhost_sandbox::with_listing;
use skillhost_sandbox::world::{self, World};
use skillhost_skill::Skill;
use skillhost_skill::runtime::{Component, digest};
use skillhost_toolchain::{Progress, Source, find, skill};

use super::exit::Exit;
use super::new::failure;
use super::places::Places;
use super::{Failure, inspect, show};

/// Compiles a skill's Rust source to the component that its SKILL.md names
///
/// Finds a toolchain for wasm32-unknown-unknown, or makes one. Prints what the component imports
/// and exports, and warns where it imports the means for something that allowed-tools does not ask
/// for.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost build word-count
  skillhost build skills/data-convert --verbose")]
pub(crate) struct Args {
    /// The skill's folder; its Cargo.toml is beside SKILL.md
    skill: PathBuf,
    /// Show what the compiler prints
    #[arg(short, long)]
    verbose: bool,
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

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let skill = Skill::load(&args.skill, &Default::default()).map_err(super::run::invalid_skill)?;
    if !args.skill.join("Cargo.toml").is_file() {
        return Err(Failure::new(
            Exit::Invalid,
            format!("{} has no Cargo.toml: there is nothing to build", args.skill.display()),
        )
        .fix("`skillhost new NAME` makes a skill with one"));
    }
    let cache = Places::find()?.cache;
    let progress = if args.json { Progress::silent() } else { Progress::new(args.verbose) };
    let toolchain = find(&cache, Source::Any, &progress).map_err(failure)?;
    let built = progress.step("build the component", |step| {
        skill::build(&args.skill, skill.manifest.component.as_deref(), &toolchain, &cache, step)
    });
    let path = built.map_err(failure)?;
    #[expect(clippy::disallowed_methods, reason = "the file that was just built")]
    let bytes = std::fs::read(&path)
        .map_err(|error| Failure::new(Exit::Io, format!("{}: {error}", path.display())))?;
    let world = world::read(&bytes)
        .map_err(|message| Failure::new(Exit::Invalid, format!("{}: {message}", path.display())))?;
    let bytes = if world.offers_tools() { list_tools(&path, bytes)? } else { bytes };
    let digest = digest(&bytes);
    let report = Report {
        warnings: warnings(&skill, &world),
        component: path,
        digest,
        size: bytes.len(),
        world,
    };
    if args.json {
        show::json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(Exit::Ok)
}

/// Asks a component for its tools, and writes them into a section of it: whoever activates the
/// skill then knows them without running it.
fn list_tools(path: &Path, component: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let tools = inspect::tools(&Component::new(component.clone()))?;
    let failed =
        |message: String| Failure::new(Exit::Invalid, format!("{}: {message}", path.display()));
    let listed = with_listing(&component, &tools).map_err(failed)?;
    #[expect(clippy::disallowed_methods, reason = "the file that was just built")]
    std::fs::write(path, &listed)
        .map_err(|error| Failure::new(Exit::Io, format!("{}: {error}", path.display())))?;
    Ok(listed)
}

/// What the component could use and the skill does not ask for, whatever an operator would grant.
fn warnings(skill: &Skill, world: &World) -> Vec<String> {
    let mut warnings = match skill.manifest.allowed_tools {
        // A skill without allowed-tools asks for all that the policy allows.
        None => Vec::new(),
        Some(_) => world.unasked(
            &policy::grant(&skill.policy_manifest(), &Policy::allow_everything()).capabilities,
        ),
    };
    if skill.manifest.component.is_none() {
        warnings.push("SKILL.md names no component, so it will not run: write `metadata: { component: NAME.wasm }`".into());
    }
    warnings
}

fn print(report: &Report) -> Result<(), Failure> {
    let World { imports, exports, .. } = &report.world;
    show::text(&format!(
        "{}  {} bytes  {}",
        report.component.display(),
        report.size,
        report.digest
    ))?;
    show::text(&format!("exports {}\nimports {}", exports.join(", "), imports.join(", ")))?;
    for warning in &report.warnings {
        show::warning(warning, None);
    }
    Ok(())
}
