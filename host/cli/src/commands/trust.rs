//! `skillhost trust`: approve the skills that are in a folder now.

use std::path::{Path, PathBuf};

use serde::Serialize;
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

/// Approve the skills that are in one of your skills folders now, or a fetched skill
///
/// Lists each skill with its digest, and approves that digest until you revoke it. The skill then
/// runs without a question unless it may write to a folder. A new or changed skill needs approval
/// again, and so does one that requests network access.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost trust ~/.agents/skills
  skillhost trust ~/.agents/skills --json
  skillhost trust pdf                                 a skill that was fetched with `add`
  skillhost permissions
  skillhost permissions revoke csv-report")]
pub(crate) struct Args {
    /// The folder of skills (.agents/skills or .claude/skills in your home folder), or the name of a
    /// skill that was fetched
    folder: PathBuf,
    /// Print one JSON array with an object for each skill
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    policy: PolicyFile,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let mut context = Context::with_file(&args.policy)?;
    context.policy = context.policy.with_client_names();
    operator::require(&context.places)?;
    let skills = Skills::default();
    let catalog = context.catalog(&skills)?;
    let entries = entries_in(&args.folder, catalog.entries().to_vec())?;
    let host = Runner::new(context.host_options(&HostArgs::default(), &skills)?);
    let approvals = context.places.approvals();
    let mut reports = Vec::new();
    for entry in &entries {
        let report = trust(&context, &host, &approvals, entry, catalog.is_enabled(entry))?;
        reports.push(report);
    }
    if args.json {
        output::json(&reports)?;
    } else {
        let lines: Vec<String> = reports.iter().map(Report::line).collect();
        output::text(&lines.join("\n"))?;
    }
    Ok(Exit::Ok)
}

/// Whether a skill was approved.
#[derive(Debug, Serialize)]
struct Report {
    skill: String,
    result: TrustResult,
    /// The digest of the skill's files; `null` if they could not be read.
    digest: Option<String>,
    /// Why it was not approved.
    reason: Option<String>,
    fix: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum TrustResult {
    Approved,
    ApprovedAlready,
    NotApproved,
}

impl Report {
    fn approved(skill: &str, result: TrustResult, digest: &str) -> Report {
        let (skill, digest) = (skill.to_owned(), Some(digest.to_owned()));
        Report { skill, result, digest, reason: None, fix: None }
    }

    fn not_approved(skill: &str, digest: Option<&str>, reason: &str, fix: Option<&str>) -> Report {
        Report {
            skill: skill.to_owned(),
            result: TrustResult::NotApproved,
            digest: digest.map(str::to_owned),
            reason: Some(reason.to_owned()),
            fix: fix.map(str::to_owned),
        }
    }

    fn line(&self) -> String {
        let Report { skill, result, digest, reason, fix } = self;
        let [skill, digest, reason, fix] =
            [Some(skill), digest.as_ref(), reason.as_ref(), fix.as_ref()]
                .map(|text| text.map_or_else(String::new, |text| printable(text)));
        let fix = if fix.is_empty() { fix } else { format!("; {fix}") };
        match result {
            TrustResult::Approved => format!("{skill}: approved: {digest}"),
            TrustResult::ApprovedAlready => format!("{skill}: approved already: {digest}"),
            TrustResult::NotApproved => format!("{skill}: not approved: {reason}{fix}"),
        }
    }
}

/// The skills of a folder, which must be one of the user's: others may have written the project's.
fn entries_in(folder: &Path, entries: Vec<CatalogEntry>) -> Result<Vec<CatalogEntry>, CliError> {
    let is_fetched = |entry: &&CatalogEntry| {
        entry.source == SourceKind::Fetched && folder.as_os_str() == &*entry.name
    };
    if let Some(fetched) = entries.iter().find(is_fetched) {
        return Ok(vec![fetched.clone()]);
    }
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

/// Approves a skill as it is now. One that requests network access must be enabled by its name,
/// whether or not today's policy grants the request.
fn trust(
    context: &Context,
    host: &Runner,
    approvals: &Approvals,
    entry: &CatalogEntry,
    is_enabled: bool,
) -> Result<Report, CliError> {
    let name = &entry.name;
    // What is approved is what was loaded, even if the folder changes meanwhile.
    let loaded = match host.load_for_run(SkillFolder::from(entry), &context.policy) {
        Ok(loaded) => loaded,
        Err(error) => return Ok(Report::not_approved(name, None, &error.to_string(), None)),
    };
    let Some(digest) = loaded.id().digest.as_deref() else {
        return Ok(Report::not_approved(name, None, "its files cannot be digested", None));
    };
    if entry.network && !is_enabled {
        let fix = format!("skillhost permissions set {name} enabled");
        let reason = "it requests network access, so it is disabled";
        return Ok(Report::not_approved(name, Some(digest), reason, Some(&fix)));
    }
    let request = ApprovalRequest {
        skill: &loaded.skill,
        digest,
        part: &SkillPart::Skill,
        capabilities: &loaded.grant.capabilities,
        needs_approval: loaded.grant.needs_approval,
        trusted: approvals.is_trusted(&loaded.skill, digest, "")?,
        session_folder: None,
        session: "",
        input: RunInput::default(),
    };
    Ok(match approvals.decide(&context.policy, &request)? {
        RunDecision::Allowed(_) => Report::approved(name, TrustResult::ApprovedAlready, digest),
        RunDecision::Refused(refusal) => {
            Report::not_approved(name, Some(digest), &refusal.why, Some(&refusal.fix))
        }
        RunDecision::NeedsApproval(id, _) => {
            approvals.approve(id, Term::Always, &operator::name())?;
            Report::approved(name, TrustResult::Approved, digest)
        }
    })
}
