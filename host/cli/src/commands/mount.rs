//! `skillhost mount`: copy skills into the folder of an agent, and enable and disable them there.

use std::path::{Path, PathBuf};

use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_policy::limits::show_size;
use skillhost_skill::mount::{self, MountRequest, MountedSkill};
use skillhost_skill::{SkillFolder, SourceKind};

use crate::args::permissions::PolicyFile;
use crate::args::skills::{SkillRef, Skills};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::{output, requirements};

/// Copy skills into an agent's skill folder, and enable or disable them there
///
/// Checks the skills, and copies exactly the files that it checked, each skill as a whole. Symlinks
/// inside a skill become files; others are an error. A single `.md` file becomes a skill of
/// instructions only, which requests no permissions. A folder of the same name is replaced only if it
/// was mounted and is unchanged. A skill that lacks what `require` of the policy demands, such as a
/// signature, is not mounted. Without SKILL, lists what is mounted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost mount --into ~/.claude/skills SKILL
  skillhost mount --into ~/.claude/skills SKILL --as monthly-report
  skillhost mount --into ~/.claude/skills ./notes.md --disabled
  skillhost mount --into ~/.claude/skills             list what is mounted
  skillhost mount --into ~/.claude/skills --disable monthly-report
  skillhost mount --into ~/.claude/skills --enable notes
  skillhost mount --into ~/.claude/skills --json | jq -r '.[] | select(.changed) | .name'")]
pub(crate) struct Args {
    /// The folder in which the agent looks for skills. It is created if it is missing
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Skills: folders or `.md` files by their paths with a `/` (`./NAME`), or names from `skillhost
    /// list`
    #[arg(value_name = "SKILL")]
    named: Vec<PathBuf>,
    /// Give the skill this name: in the agent's folder, and in its frontmatter
    #[arg(long = "as", value_name = "NAME", requires = "named")]
    name: Option<String>,
    /// Mount the skills disabled: the agent does not find them
    #[arg(long, requires = "named")]
    disabled: bool,
    /// Mount an invalid skill too, as instructions only: without scripts, components and permissions
    #[arg(long, requires = "named")]
    no_validate: bool,
    /// Enable a mounted skill (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with = "named")]
    enable: Vec<String>,
    /// Disable a mounted skill and keep its files (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with = "named")]
    disable: Vec<String>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    policy: PolicyFile,
}

/// What was done with a skill, for people.
enum Done {
    Mounted,
    Enabled,
    Disabled,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    if args.name.is_some() && args.named.len() != 1 {
        return Err(CliError::usage("--as names one skill, and there are several")
            .fix("mount them one by one"));
    }
    if args.named.is_empty() && args.enable.is_empty() && args.disable.is_empty() {
        return list(args);
    }
    let skills = match args.named.is_empty() {
        true => switch(args)?,
        false => copy(args)?,
    };
    if args.json {
        output::json(&skills.iter().map(|(skill, _)| skill).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    for (skill, done) in &skills {
        output::text(&sentence(skill, done))?;
    }
    Ok(Exit::Ok)
}

/// Mounts the named skills.
fn copy(args: &Args) -> Result<Vec<(MountedSkill, Done)>, CliError> {
    let context = Context::with_file(&args.policy)?;
    let request = |named: &PathBuf| {
        let named = match is_file_here(named) {
            true => Path::new(".").join(named),
            false => named.clone(),
        };
        let skill = args.skills.resolve(&named, &context)?;
        Ok(MountRequest {
            verified: verified(&skill, args.name.as_deref(), &context)?,
            skill: skill.folder().to_owned(),
            name: args.name.clone(),
            is_enabled: !args.disabled,
            is_validated: !args.no_validate,
        })
    };
    let requests = args.named.iter().map(request).collect::<Result<Vec<_>, CliError>>()?;
    let mounted = mount::mount(&args.into, &requests)?;
    Ok(mounted.into_iter().map(|skill| (skill, Done::Mounted)).collect())
}

/// Checks that a skill has what the policy requires. Returns the digest of the files that were
/// verified.
fn verified(
    skill: &SkillRef,
    renamed: Option<&str>,
    context: &Context,
) -> Result<Option<String>, CliError> {
    let path = skill.folder();
    let folder = match skill {
        // Only skills of a folder of skills can be single files.
        SkillRef::Path(path) if path.is_file() => SkillFolder::new(path, SourceKind::Flag),
        skill => skill.skill_folder(),
    };
    let real = || path.canonicalize().ok().and_then(|path| path.file_name().map(ToOwned::to_owned));
    let name = path.file_name().map(ToOwned::to_owned).or_else(real).unwrap_or_default();
    let name = name.to_string_lossy();
    let name: &str = if path.is_file() { name.strip_suffix(".md").unwrap_or(&name) } else { &name };
    Ok(requirements::verify(folder, name, renamed, context)?)
}

/// Whether an argument is a `.md` file of the current folder. The name of a skill has no dot.
fn is_file_here(named: &Path) -> bool {
    named.extension().is_some_and(|end| end == "md")
        && named.parent() == Some(Path::new(""))
        && named.is_file()
}

/// Enables and disables skills.
fn switch(args: &Args) -> Result<Vec<(MountedSkill, Done)>, CliError> {
    let mut skills = Vec::new();
    for (names, is_enabled) in [(&args.enable, true), (&args.disable, false)] {
        for name in names {
            let skill = mount::set_enabled(&args.into, name, is_enabled)?;
            skills.push((skill, if is_enabled { Done::Enabled } else { Done::Disabled }));
        }
    }
    Ok(skills)
}

fn list(args: &Args) -> Result<Exit, CliError> {
    let skills = mount::list(&args.into)?;
    if args.json {
        output::json(&skills)?;
    } else if skills.is_empty() {
        output::text(&format!("no skill is mounted in {}", shown(&args.into)))?;
    } else {
        let rows = skills.iter().map(|skill| {
            let status = [
                (!skill.is_enabled, "disabled"),
                (skill.instructions_only, "instructions only"),
                (skill.is_changed, "changed since it was mounted"),
            ];
            let status: Vec<&str> =
                status.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect();
            let status = if status.is_empty() { "enabled".to_owned() } else { status.join(", ") };
            [skill.name.clone(), status, show_size(skill.bytes), shown(&skill.source)]
        });
        output::text(&output::table(["skill", "status", "size", "from"], rows, 2..3))?;
    }
    Ok(Exit::Ok)
}

fn sentence(skill: &MountedSkill, done: &Done) -> String {
    let folder = shown(&skill.folder);
    match done {
        Done::Mounted => {
            let files = output::count(skill.files as u64, "file");
            let size = show_size(skill.bytes);
            let more = match (skill.instructions_only, skill.is_enabled) {
                (true, true) => ", instructions only",
                (true, false) => ", instructions only, disabled",
                (false, true) => "",
                (false, false) => ", disabled",
            };
            format!("mounted {folder} ({files}, {size}{more})")
        }
        Done::Enabled => format!("enabled {folder}"),
        Done::Disabled => format!("disabled {folder}"),
    }
}

fn shown(path: &Path) -> String {
    quoted(&printable(&path.to_string_lossy()))
}
