//! `skillhost publish`: check, test, sign and upload a skill, and lock what others will fetch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_policy::limits::show_size;
use skillhost_skill::Skill;
use skillhost_sources::digest::Digest;
use skillhost_sources::git::{self, TagCommit};
use skillhost_sources::limits::TransferLimits;
use skillhost_sources::network::Network;
use skillhost_sources::oci::{self, Publication, Published};
use skillhost_sources::pack::{self, File, PackFormat, pack};
use skillhost_sources::project::{AddRequest, Project};
use skillhost_sources::signature;
use skillhost_sources::source::{Place, Source};

use crate::args::permissions::Permissions;
use crate::args::skills::require_path;
use crate::commands::{check, key, sign, test};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output;
use crate::sources::{self, SourcesFileArg};

/// Publish a skill: check it, run its test cases, sign it, and upload it
///
/// TARGET is a repository of an OCI registry with a tag (oci://HOST/REPO:TAG), or a Git repository
/// with a new tag (as `skillhost add` takes it, with @TAG): the tag gets one commit without history,
/// which has only the skill. Without a tag, `metadata.version` of the skill is the tag. A tag that
/// exists is never moved, except `latest` of a registry. After the upload, the skill is fetched again
/// and compared; with --file, it is locked in that sources file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost publish SKILL oci://ghcr.io/team/report:1.2.0 --dry-run
  skillhost publish SKILL oci://ghcr.io/team/report:1.2.0
  skillhost publish SKILL git@git.example:team/skills.git@report-1.2.0
  skillhost publish SKILL oci://localhost:5000/report:1.2.0 --no-sign --file ./skills.yaml

Exit codes:
    1  the check found errors, or a test case failed
   77  a test case needs approval, or is not allowed
Others are those of `skillhost --help`.")]
pub(crate) struct Args {
    /// The skill's folder, as a path with a `/`
    skill: PathBuf,
    /// Where to publish it
    target: String,
    /// Do everything but sign and upload, and say what would be uploaded
    #[arg(long)]
    dry_run: bool,
    /// Do not run the test cases of the skill
    #[arg(long)]
    no_test: bool,
    /// Do not sign the skill with your key
    #[arg(long)]
    no_sign: bool,
    #[command(flatten)]
    file: SourcesFileArg,
    #[command(flatten)]
    permissions: Permissions,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    require_path(&args.skill)?;
    let context = Context::with_permissions(&args.permissions)?;
    // Nothing starts before it is known that it can end.
    let project = args.file.open(&context.places)?;
    let project = args.file.confirm(project, &context.places)?;
    // What was published is compared at the target itself, not at a mirror of it.
    let project = project.with_replacements(BTreeMap::new());
    let skill = load(&args.skill)?;
    let target = target(args, &skill, &project)?;
    require_lockable(args, &project, &skill, &target)?;
    let checked = statement(&skill, &read(&skill)?);
    if !args.no_sign && !args.dry_run {
        key::signing(&context.places)?;
    }
    let exit = check::main(&check::Args::of(&args.skill, &args.permissions))?;
    if exit != Exit::Ok {
        output::error("not published: the check found errors", None);
        return Ok(exit);
    }
    if !args.no_test && args.skill.join("tests").is_dir() {
        let exit = test::main(&test::Args::of(&args.skill, &args.permissions))?;
        if exit != Exit::Ok {
            output::error("not published: a test case failed", None);
            return Ok(exit);
        }
    }
    if !args.no_sign && !args.dry_run {
        sign::main(&sign::Args::of(&args.skill))?;
    }
    let skill = load(&args.skill)?;
    // Read once: what is compared is what is uploaded.
    let files = read(&skill)?;
    if statement(&skill, &files) != checked {
        let message = "the skill changed while it was being checked";
        return Err(CliError::invalid(message).fix("publish it again"));
    }
    let content = Content::of(&skill, &files, &target)?;
    let network = sources::network(&context)?;
    network.allow(&target.place);
    if !args.dry_run {
        content.upload(&target, &network)?;
        let changes = lock(args, &context, &project, &target, &content, &network)?;
        sources::report(&changes)?;
    }
    report(args, &target, &content)
}

fn load(path: &Path) -> Result<Skill, CliError> {
    Ok(Skill::load(path, &Default::default())?)
}

/// Parses the target. Without a tag, it gets the skill's version.
fn target(args: &Args, skill: &Skill, project: &Project) -> Result<Source, CliError> {
    let mut target = sources::typed(&args.target, project)?;
    if !matches!(target.place, Place::Oci(_) | Place::Git(_)) {
        let message = "a skill is published in an OCI registry or as a tag of a Git repository";
        return Err(CliError::usage(message).fix("oci://HOST/REPO:TAG, or OWNER/REPO@TAG"));
    }
    if target.reference.is_none() {
        let version = skill.manifest.metadata.get("version");
        target.reference = Some(version.cloned().ok_or_else(|| {
            CliError::usage("the target has no tag, and the skill has no `metadata.version`")
                .fix(format!("{}{}", args.target, if is_oci(&target) { ":TAG" } else { "@TAG" }))
        })?);
        // The version becomes part of a source.
        target = target.to_string().parse()?;
    }
    match &target.reference {
        Some(reference) if reference.contains(':') => {
            Err(CliError::usage("a digest cannot be chosen").fix("name a tag: oci://HOST/REPO:TAG"))
        }
        _ => Ok(target),
    }
}

/// Checks that what is published can be locked in the file that is named. After the upload, it would
/// be too late.
fn require_lockable(
    args: &Args,
    project: &Project,
    skill: &Skill,
    target: &Source,
) -> Result<(), CliError> {
    if !args.file.is_named() {
        return Ok(());
    }
    let (wanted, locked) = (project.wanted()?, project.locked()?);
    let file = quoted(&project.file().display().to_string());
    let other = wanted.skills.get(&skill.name).map(|other| &other.source);
    if let Some(other) = other.filter(|other| other.place != target.place) {
        let message = format!("{file} names `{}` from another source: {other}", skill.name);
        return Err(CliError::usage(printable(&message))
            .fix(format!("skillhost remove {} --file {file}", skill.name)));
    }
    let mut required = skill.manifest.required_skills().map(|(name, _)| name);
    match required.find(|name| !locked.skills.contains_key(*name)) {
        Some(name) => {
            let message = format!("the skill requires `{name}`, which {file} does not lock");
            Err(CliError::usage(printable(&message))
                .fix(format!("skillhost add SOURCE --as {name} --file {file}")))
        }
        None => Ok(()),
    }
}

fn read(skill: &Skill) -> Result<Vec<File>, CliError> {
    pack::read(skill)
        .map_err(|error| CliError::io(format_args!("pack {}", skill.root.display()), error))
}

/// Returns what a signature would say about the skill: the digest of every file but the signatures.
fn statement(skill: &Skill, files: &[File]) -> serde_json::Value {
    signature::statement(&skill.name, &pack::listing(files))
}

fn is_oci(target: &Source) -> bool {
    matches!(target.place, Place::Oci(_))
}

/// What is uploaded.
struct Content {
    form: Form,
    files: usize,
    bytes: u64,
    /// The skill, by which others know it.
    name: String,
}

enum Form {
    Archive { archive: Vec<u8>, description: String, version: Option<String>, digest: Digest },
    Commit(TagCommit),
}

impl Content {
    fn of(skill: &Skill, content: &[File], target: &Source) -> Result<Content, CliError> {
        let fail = |error: std::io::Error| {
            CliError::io(format_args!("pack {}", skill.root.display()), error)
        };
        let name = skill.name.clone();
        let files = content.len();
        if is_oci(target) {
            let archive = pack(&name, content, PackFormat::Gzip, Vec::new()).map_err(fail)?;
            let description = skill.manifest.description.clone();
            let version = skill.manifest.metadata.get("version").cloned();
            let publication = Publication {
                name: &name,
                description: &description,
                version: version.as_deref(),
                archive: &archive,
            };
            let digest = Published::new(&publication).digest;
            let bytes = archive.len() as u64;
            let form = Form::Archive { archive, description, version, digest };
            return Ok(Content { form, files, bytes, name });
        }
        let bytes = content.iter().map(|(_, content)| content.len() as u64).sum();
        let commit = TagCommit::new(&name, content)?;
        Ok(Content { form: Form::Commit(commit), files, bytes, name })
    }

    fn revision(&self) -> String {
        match &self.form {
            Form::Archive { digest, .. } => format!("sha256:{digest}"),
            Form::Commit(commit) => format!("git-tag:{}", commit.id),
        }
    }

    fn upload(&self, target: &Source, network: &dyn Network) -> Result<(), CliError> {
        match (&self.form, &target.place) {
            (Form::Archive { archive, description, version, .. }, Place::Oci(place)) => {
                let publication = Publication {
                    name: &self.name,
                    description,
                    version: version.as_deref(),
                    archive,
                };
                oci::publish(place, target.reference.as_deref(), &publication, network)?;
            }
            (Form::Commit(commit), Place::Git(url)) => {
                let tag = target.reference.as_deref().unwrap_or_default();
                git::publish(url, tag, commit, network, &TransferLimits::default())?;
            }
            // `target` accepts no other place.
            _ => {}
        }
        Ok(())
    }
}

/// Fetches what was published, and compares it. Locks it if a sources file is named.
fn lock(
    args: &Args,
    context: &Context,
    project: &Project,
    target: &Source,
    content: &Content,
    network: &dyn Network,
) -> Result<Vec<skillhost_sources::project::Change>, CliError> {
    let request = AddRequest {
        source: target.clone(),
        name: Some(content.name.clone()),
        path: None,
        all: false,
        submodules: false,
    };
    let addition = project.fetch(&request, network)?;
    if addition.revision() != content.revision() {
        return Err(CliError::invalid(format!(
            "{target} leads to {}, and {} was published",
            addition.revision(),
            content.revision()
        )));
    }
    if !args.file.is_named() {
        return Ok(Vec::new());
    }
    let (changes, digest) = project.add(addition)?;
    sources::remember(&context.places, project.file(), digest)?;
    Ok(changes)
}

fn report(args: &Args, target: &Source, content: &Content) -> Result<Exit, CliError> {
    let published = !args.dry_run;
    let files = output::count(content.files as u64, "file");
    let what = format!("{files}, {}", show_size(content.bytes));
    let line = match published {
        true => format!("published {target} ({what})"),
        false => format!("would publish {target} ({what})"),
    };
    output::text(&printable(&line))?;
    output::text(&format!("  {}", content.revision()))?;
    if !published {
        let signed = if args.no_sign { "" } else { "signed or " };
        output::note(&format!("nothing was {signed}uploaded (--dry-run)"));
    }
    Ok(Exit::Ok)
}
