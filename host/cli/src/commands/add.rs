//! `skillhost add`: fetch skills, lock them, and make them known by their names.

use std::path::Path;

use skillhost_policy::diagnostic::printable;
use skillhost_sources::project::AddRequest;
use skillhost_sources::source::{Place, Source};

use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::sources::{self, SourcesFileArg};
use crate::{operator, output, terminal};

/// Fetch a skill, lock its files, and make it known by its name
///
/// SOURCE is a Git repository (OWNER/REPO on GitHub, or an https or file URL), each with @TAG,
/// @BRANCH or @COMMIT; the https URL of a .zip, .tar.gz or .tar.zst archive; or a folder or archive
/// of this machine (./PATH). Nothing that is fetched is executed. The skill is written to
/// skills.yaml, and the digest of every file to skills.lock. A run of it needs approval, as for any
/// skill that you did not write.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost add anthropics/skills@main --path pdf
  skillhost add ./skill
  skillhost add ./skill.tar.gz --as monthly-report
  skillhost add ./skills --all --file ./skills.yaml")]
pub(crate) struct Args {
    /// Where the skill comes from
    source: String,
    /// Give the skill this name
    #[arg(long = "as", value_name = "NAME", conflicts_with = "all")]
    name: Option<String>,
    /// The folder of the skill in the source, or the name of one of its skills
    #[arg(long, value_name = "SUB", conflicts_with = "all")]
    path: Option<String>,
    /// Add all skills of the source
    #[arg(long)]
    all: bool,
    /// Add the skill even if the name is used by another skill or by a section of the policy. Only
    /// the operator may do this
    #[arg(long)]
    force: bool,
    /// Print one JSON array with what was added
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: SourcesFileArg,
    #[command(flatten)]
    policy: PolicyFile,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_file(&args.policy)?;
    // What else the file names is used with the new skill.
    let project = args.file.open(&context.places)?;
    let project = args.file.confirm(project, &context.places)?;
    #[expect(clippy::disallowed_methods, reason = "the command line is used in a folder")]
    let here =
        std::env::current_dir().map_err(|error| CliError::io("find the current folder", error))?;
    let base = project.file().parent().unwrap_or(Path::new("/"));
    let source = args.source.parse::<Source>()?.rebased(&here, base);
    let network = sources::network(&context.policy)?;
    if let Place::Git(url) | Place::Archive(url) = &source.place {
        network.allow(url);
    }
    let request =
        AddRequest { source, name: args.name.clone(), path: args.path.clone(), all: args.all };
    let addition = project.fetch(&request, &network)?;
    let (wanted, catalog) = (project.wanted()?, context.catalog(&Skills::default())?);
    for name in addition.skills.keys() {
        let other = wanted.skills.get(name).filter(|other| !addition.is_from(&other.source));
        let why = match other {
            Some(other) => Some(format!("it is fetched from {}", other.source)),
            None => sources::taken(name, &context.policy, &catalog),
        };
        if let Some(why) = why {
            require_confirmed(args, name, &why, &context)?;
        }
    }
    let (changes, digest) = project.add(addition)?;
    sources::remember(&context.places, project.file(), digest)?;
    if args.json {
        output::json(&changes)?;
        return Ok(Exit::Ok);
    }
    sources::report(&changes)?;
    for change in &changes {
        let requested = change.more_permissions.join(", ");
        let requested = if requested.is_empty() { "nothing".to_owned() } else { requested };
        output::text(&format!("  requests: {}", printable(&requested)))?;
    }
    Ok(Exit::Ok)
}

/// Refuses a name that something else has, unless the operator confirms after seeing what it grants.
fn require_confirmed(
    args: &Args,
    name: &str,
    why: &str,
    context: &Context,
) -> Result<(), CliError> {
    let message = format!("the name `{name}` is taken: {}", printable(why));
    if args.force {
        operator::require(&context.places)?;
        output::warning(&message, None);
        return Ok(());
    }
    if terminal::is_interactive() {
        output::warning(&message, None);
        if matches!(terminal::ask("Add the skill under this name? [y/N] ")?.as_str(), "y" | "yes") {
            return Ok(());
        }
    }
    Err(CliError::new(Exit::Denied, message)
        .fix("choose another name: --as NAME; or confirm as the operator: --force"))
}
