//! `skillhost trust`: approve the skills that are in a folder now.

use std::path::{Path, PathBuf};

use skillhost::invoke::Runner;
use skillhost_catalog::CatalogEntry;
use skillhost_ledger::approval::{
    ApprovalRequest, Approvals, RunDecision, RunInput, SkillPart, Term,
};
use skillhost_policy::diagnostic::printable;
use skillhost_skill::{SkillFolder, SourceKind};

use crate::args::HostArgs;
use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::{operator, output};

/// Approve the skills that are in one of your skills folders now
///
/// Lists each skill with its digest, and approves that digest until you revoke it. The skill then
/// runs without a question unless it may write to a folder. A new or changed skill needs approval
/// again, and so does one that requests network access.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost trust ~/.agents/skills
  skillhost permissions
  skillhost permissions revoke csv-report")]
pub(crate) struct Args {
    /// The folder of skills: .agents/skills or .claude/skills in your home folder
    folder: PathBuf,
    #[command(flatten)]
    policy: PolicyFile,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_file(&args.policy)?;
    operator::require(&context.places)?;
    let skills = Skills::default();
    let entries = entries_in(&args.folder, context.catalog(&skills)?.entries().to_vec())?;
    let host = Runner::new(context.host_options(&HostArgs::default(), &skills)?);
    let approvals = context.places.approvals();
    let mut lines = Vec::new();
    for entry in &entries {
        lines.push(trust(&context, &host, &approvals, entry)?);
    }
    output::text(&lines.join("\n"))?;
    Ok(Exit::Ok)
}

/// The skills of a folder, which must be one of the user's: others may have written the project's.
fn entries_in(folder: &Path, entries: Vec<CatalogEntry>) -> Result<Vec<CatalogEntry>, CliError> {
    let real = |path: &Path| path.canonicalize().ok();
    let wanted =
        real(folder).ok_or_else(|| CliError::usage(format!("no folder {}", folder.display())))?;
    let is_in = |entry: &CatalogEntry| {
        entry.folder.parent().and_then(real).is_some_and(|parent| parent == wanted)
    };
    let (mine, others): (Vec<_>, Vec<_>) =
        entries.into_iter().filter(is_in).partition(|entry| entry.source == SourceKind::User);
    if !mine.is_empty() {
        return Ok(mine);
    }
    let folder = folder.display();
    Err(match others.first().map(|entry| entry.source) {
        Some(SourceKind::Policy | SourceKind::BuiltIn) => {
            CliError::usage(format!("{folder} is trusted already"))
        }
        _ => CliError::usage(format!("{folder} is not one of your skills folders"))
            .fix("add it to `skill-folders` in the policy, or approve its runs one by one"),
    })
}

/// Approves a skill as it is now, and says so.
fn trust(
    context: &Context,
    host: &Runner,
    approvals: &Approvals,
    entry: &CatalogEntry,
) -> Result<String, CliError> {
    let name = printable(&entry.name);
    // What is approved is what was loaded, even if the folder changes meanwhile.
    let loaded = match host.load_for_run(SkillFolder::from(entry), &context.policy) {
        Ok(loaded) => loaded,
        Err(error) => {
            return Ok(format!("{name}: not approved: {}", printable(&error.to_string())));
        }
    };
    let Some(digest) = loaded.id().digest.as_deref() else {
        return Ok(format!("{name}: not approved: its files cannot be digested"));
    };
    let request = ApprovalRequest {
        skill: &loaded.skill,
        digest,
        part: &SkillPart::Skill,
        capabilities: &loaded.grant.capabilities,
        trusted: approvals.is_trusted(&loaded.skill, digest, "")?,
        session_folder: None,
        session: "",
        input: RunInput::default(),
    };
    Ok(match approvals.decide(&context.policy, &request)? {
        RunDecision::Allowed(_) => format!("{name}: approved already: {digest}"),
        RunDecision::Refused(refusal) => {
            format!("{name}: not approved: {}; {}", printable(&refusal.why), refusal.fix)
        }
        RunDecision::NeedsApproval(id, _) => {
            approvals.approve(id, Term::Always, &operator::name())?;
            format!("{name}: approved: {digest}")
        }
    })
}
