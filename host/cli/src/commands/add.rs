//! `skillhost add`: fetch skills, lock them, and make them known by their names.

use std::io::Read as _;
use std::path::Path;

use skillhost_policy::diagnostic::printable;
use skillhost_skill::scan;
use skillhost_sources::digest::Digest;
use skillhost_sources::import::{self, ImportedSkill};
use skillhost_sources::project::{AddRequest, Change, Project};

use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::network::HostNetwork;
use crate::sources::{self, SourcesFileArg};
use crate::{operator, output, terminal};

/// Fetch a skill, lock its files, and make it known by its name
///
/// SOURCE is a Git repository (OWNER/REPO on GitHub, an https, ssh or file URL, or USER@HOST:PATH),
/// each with @TAG, @BRANCH or @COMMIT; the https URL of a .zip, .tar.gz or .tar.zst archive; an
/// archive in an S3 store (s3://BUCKET/KEY); a repository of an OCI registry (oci://HOST/REPO, with
/// :TAG or @sha256:DIGEST); a server that lists its skills (https://HOST/.well-known/agent-skills/);
/// an MCP server with skills (mcp+https://HOST/PATH); or a folder or archive of this machine
/// (./PATH). Nothing that is fetched is executed. The skill is written to
/// skills.yaml, and the digest of every file to skills.lock. A run of it needs approval, as for any
/// skill that you did not write.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost add anthropics/skills@main --path pdf
  skillhost add ./skill
  skillhost add git@git.example:team/skills.git@v2 --path report
  skillhost add oci://ghcr.io/team/report:1.2.0
  skillhost add ./skill.tar.gz --as monthly-report
  skillhost add ./skills --all --file ./skills.yaml
  skillhost add ./skills-lock.json --import           what `npx skills` has installed")]
pub(crate) struct Args {
    /// Where the skill comes from
    source: String,
    /// Read SOURCE as skills-lock.json of `npx skills`, or as a folder of skills that `gh skill`
    /// installed, and add the skills that it names from where they came
    #[arg(long, conflicts_with_all = ["name", "path", "all"])]
    import: bool,
    /// Give the skill this name
    #[arg(long = "as", value_name = "NAME", conflicts_with = "all")]
    name: Option<String>,
    /// The folder of the skill in the source, or the name of one of its skills
    #[arg(long, value_name = "SUB", conflicts_with = "all")]
    path: Option<String>,
    /// Add all skills of the source
    #[arg(long)]
    all: bool,
    /// Fetch the submodules of the repository, too
    #[arg(long)]
    submodules: bool,
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
    let mut project = args.file.confirm(project, &context.places)?;
    let network = sources::network(&context)?;
    let mut changes = Vec::new();
    for request in requests(args, &project)? {
        // The file of another installer names places that the operator did not write; mirrors of
        // them are in the operator's own file.
        let source = &request.add.source;
        let place = project.place_of(source);
        if !args.import || place != *source {
            network.allow(&place.place);
        }
        let (added, digest) = add(args, &request, &context, &project, &network)?;
        changes.extend(added);
        project = project.changed(digest);
    }
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

/// What is added, and the digest that another installer has recorded.
struct Request {
    add: AddRequest,
    hash: Option<String>,
}

/// Returns what the arguments name.
fn requests(args: &Args, project: &Project) -> Result<Vec<Request>, CliError> {
    if args.import {
        let imported = imported(Path::new(&args.source))?;
        let request = |one: ImportedSkill| Request {
            add: AddRequest {
                source: one.source,
                name: Some(one.name),
                path: Some(one.path).filter(|path| !path.is_empty()),
                all: false,
                submodules: false,
            },
            hash: one.hash,
        };
        return Ok(imported.into_iter().map(request).collect());
    }
    let add = AddRequest {
        source: sources::typed(&args.source, project)?,
        name: args.name.clone(),
        path: args.path.clone(),
        all: args.all,
        submodules: args.submodules,
    };
    Ok(vec![Request { add, hash: None }])
}

/// Reads what another installer remembers, from its lock file or from a folder of skills.
fn imported(path: &Path) -> Result<Vec<ImportedSkill>, CliError> {
    let fail = |error: std::io::Error| CliError::io(format_args!("read {}", path.display()), error);
    let read = |path: &Path| {
        #[expect(clippy::disallowed_methods, reason = "a file that the operator names")]
        let file = std::fs::File::open(path).map_err(fail)?;
        let mut bytes = Vec::new();
        file.take(import::MAX_BYTES).read_to_end(&mut bytes).map_err(fail)?;
        Ok::<_, CliError>(bytes)
    };
    if !path.is_dir() {
        return Ok(import::npx(&String::from_utf8_lossy(&read(path)?))?);
    }
    let mut found = Vec::new();
    for folder in scan::find_skills(path).map_err(fail)? {
        // `.` has no name of its own.
        let folder = folder.canonicalize().map_err(fail)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match import::gh(&read(&folder.join("SKILL.md"))?, &name)? {
            Some(one) => found.push(one),
            None => output::note(&printable(&format!("{name}: `gh skill` has not installed it"))),
        }
    }
    if found.is_empty() {
        let message = format!("{} has no skill that `gh skill` installed", path.display());
        return Err(CliError::usage(message).fix("skillhost add FOLDER --all"));
    }
    Ok(found)
}

/// Fetches and adds skills.
fn add(
    args: &Args,
    request: &Request,
    context: &Context,
    project: &Project,
    network: &HostNetwork,
) -> Result<(Vec<Change>, Digest), CliError> {
    let addition = project.fetch(&request.add, network)?;
    let (wanted, catalog) = (project.wanted()?, context.catalog(&Skills::default())?);
    for name in addition.skills.keys() {
        let other = wanted.skills.get(name).filter(|other| !addition.is_from(&other.source));
        let why = match other {
            Some(other) => Some(format!("it is fetched from {}", other.source)),
            None => sources::taken(name, &context.policy, &catalog),
        };
        if let Some(why) = why {
            require_confirmed(args, name, &why, context)?;
        }
    }
    if let Some(hash) = &request.hash
        && !addition.has_hash(hash)?
    {
        let name = request.add.name.as_deref().unwrap_or_default();
        let message = format!("`{name}` has changed since the lock file was written");
        output::warning(&printable(&message), Some("compare the files before you approve a run"));
    }
    let (changes, digest) = project.add(addition)?;
    sources::remember(&context.places, project.file(), digest)?;
    Ok((changes, digest))
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
