//! The sources files of the user and of the project, and what the commands that change them share.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skillhost_catalog::{Catalog, LockedOrigin, Source, SourceKind};
use skillhost_policy::Policy;
use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_policy::source::LockedRequirement;
use skillhost_skill::ownership;
use skillhost_sources::digest::Digest;
use skillhost_sources::limits::TransferLimits;
use skillhost_sources::lock::{self, LockedSkill};
use skillhost_sources::project::{Change, ChangeKind, Project};
use skillhost_sources::requires;
use skillhost_sources::source;
use skillhost_sources::store::{Store, StoreUse};
use skillhost_sources::wanted::{self, SourcesFile};

use crate::args::skills;
use crate::commands::key;
use crate::context::{Context, Places};
use crate::error::{CliError, Exit};
use crate::network::HostNetwork;
use crate::{output, terminal};

/// Which sources file.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SourcesFileArg {
    /// Use this sources file, such as a project's, instead of yours (skills.yaml in your
    /// configuration folder). Its lock file, skills.lock, is next to it
    #[arg(long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Fetch what FILE names, if this is its SHA-256 (`sha256sum FILE`). Without it, you are asked
    /// once for each version of a FILE that is not yours
    #[arg(long, value_name = "DIGEST", requires = "file")]
    confirm: Option<String>,
}

impl SourcesFileArg {
    /// Checks whether the operator named a file.
    pub(crate) fn is_named(&self) -> bool {
        self.file.is_some()
    }

    /// Opens the project of the file.
    pub(crate) fn open(&self, places: &Places) -> Result<Project, CliError> {
        let own = user_file(places);
        let file = self.file.as_deref().map_or(own, real);
        if file.file_name().is_none_or(|name| name != wanted::FILE) {
            let message = format!("{} is not named {}", file.display(), wanted::FILE);
            return Err(CliError::usage(message).fix("--file DIR/skills.yaml"));
        }
        let trust = key::skill_trust(places)?;
        Ok(open(&file, places)?.with_trust(trust))
    }

    /// Checks that the operator has confirmed the content of a file that others may have written,
    /// before anything is fetched for it. The returned project uses only that content.
    pub(crate) fn confirm(&self, project: Project, places: &Places) -> Result<Project, CliError> {
        if self.file.is_none() || project.file() == real(&user_file(places)) {
            return Ok(project);
        }
        let (digest, wanted) = project.to_confirm()?;
        let project = project.confirmed(digest);
        let is_confirmed = self.confirm.as_deref() == Some(digest.to_string().as_str())
            || wanted.skills.is_empty()
            || is_confirmed(places, project.file(), digest);
        if is_confirmed {
            remember(places, project.file(), digest)?;
            return Ok(project);
        }
        let file = quoted(&project.file().display().to_string());
        if !terminal::is_interactive() {
            let message = format!("the content of {file} was not confirmed, so nothing is fetched");
            return Err(CliError::new(Exit::Denied, message)
                .fix(format!("read the file, and then: --confirm {digest}")));
        }
        for (name, skill) in wanted.skills {
            output::note(&printable(&format!("{name}: {}", skill.source)));
        }
        match terminal::ask(&format!("Fetch what {file} names? [y/N] "))?.as_str() {
            "y" | "yes" => {
                remember(places, project.file(), digest)?;
                Ok(project)
            }
            _ => Err(CliError::new(Exit::Denied, "not confirmed")),
        }
    }
}

/// Opens the project of a sources file, with what the user's own file replaces.
fn open(file: &Path, places: &Places) -> Result<Project, CliError> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let env = |name: &str| std::env::var(name).ok();
    let own = user_file(places);
    let project = Project::open(file, &places.state, &places.home)?.with_env(env);
    if file == real(&own) {
        return Ok(project.of_user()?);
    }
    if !own.exists() {
        return Ok(project);
    }
    let user = Project::open(&own, &places.state, &places.home)?.of_user()?;
    let limits = user.limits().clone();
    Ok(project.with_replacements(user.replacements().clone()).with_limits(limits))
}

/// Returns the path of a file in its real folder, so that a file has one path however it is named.
fn real(file: &Path) -> PathBuf {
    let folder = file.parent().map(|folder| match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    });
    let folder = folder.and_then(|folder| folder.canonicalize().ok());
    folder.zip(file.file_name()).map_or_else(|| file.to_owned(), |(folder, name)| folder.join(name))
}

/// Where it is remembered that the operator confirmed this content of this file: the same text means
/// other skills in another folder.
fn confirmed(places: &Places, file: &Path, digest: Digest) -> PathBuf {
    let key = [file.as_os_str().as_encoded_bytes(), digest.to_string().as_bytes()].join(&b'\n');
    places.state.join("sources/confirmed").join(Digest::of(&key).to_string())
}

fn is_confirmed(places: &Places, file: &Path, digest: Digest) -> bool {
    confirmed(places, file, digest).exists()
}

/// Remembers that the operator confirmed or wrote this content of the file.
pub(crate) fn remember(places: &Places, file: &Path, digest: Digest) -> Result<(), CliError> {
    let path = confirmed(places, file, digest);
    skillhost_skill::private::create_missing(&path)
        .map_err(|error| CliError::io(format_args!("create {}", path.display()), error))
}

/// The user's own sources file.
pub(crate) fn user_file(places: &Places) -> PathBuf {
    places.config.join(wanted::FILE)
}

/// Applies the sections of the policy that the user's own sources file chooses for skills. Warns of
/// those that do not exist.
pub(crate) fn choose_sections(policy: Policy, places: &Places) -> Result<Policy, CliError> {
    let (policy, warnings) = with_chosen_sections(policy, places)?;
    for warning in warnings {
        output::warning(&warning, Some("remove `policy:` there, or add the section"));
    }
    Ok(policy)
}

/// As [`choose_sections`], but returns the warnings.
pub(crate) fn with_chosen_sections(
    policy: Policy,
    places: &Places,
) -> Result<(Policy, Vec<String>), CliError> {
    let own = user_file(places);
    let Some(text) = own_text(&own)? else { return Ok((policy, Vec::new())) };
    // Most choose no section: then a run parses nothing of it. Quoted keys can have escapes.
    if !text.contains("policy") && !text.contains('\\') {
        return Ok((policy, Vec::new()));
    }
    let wanted = SourcesFile::parse(&own.display().to_string(), &text)?;
    let skills = wanted.skills.iter();
    let choices: Vec<(&str, &str)> = skills
        .filter_map(|(name, skill)| Some((skill.section.as_deref()?, name.as_str())))
        .collect();
    let (policy, missing) = policy.with_sections(&choices, &own);
    let file = quoted(&own.display().to_string());
    let warning = |(section, name): (&str, &str)| {
        format!(
            "`{name}` is refused: {file} chooses the section `{}` for it, and the policy has none of this name",
            printable(section)
        )
    };
    Ok((policy, missing.into_iter().map(warning).collect()))
}

/// Reads the user's own sources file; `None` if it does not exist. Like the policy, it decides what
/// skills may do, so no other user may be able to write it, and a file that cannot be read is not a
/// missing one.
fn own_text(file: &Path) -> Result<Option<String>, CliError> {
    let failed = |error: io::Error| CliError::io(format_args!("read {}", file.display()), error);
    // Opening a pipe must not wait for a writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    #[expect(clippy::disallowed_methods, reason = "the operator's own file")]
    let opened = match std::fs::OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        opened => opened.map_err(failed)?,
    };
    let found = rustix::fs::fstat(&opened).map_err(|error| failed(error.into()))?;
    ownership::check(file, &found)?;
    let is_file = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
    let mut bytes = Vec::new();
    if is_file {
        opened.take(wanted::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    }
    if !is_file || bytes.len() > wanted::MAX_BYTES {
        let message = format!("{} is not a file of at most 1 MiB", file.display());
        return Err(CliError::invalid(message));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        CliError::invalid(format!("cannot read {}: it is not valid UTF-8", file.display()))
    })?;
    Ok(Some(text))
}

/// Keeps everything that was fetched while the result is held. Without a store, there is nothing.
pub(crate) fn keep_store(places: &Places) -> Result<Option<StoreUse>, CliError> {
    if !places.state.join("sources").exists() {
        return Ok(None);
    }
    Ok(Some(Store::open(&places.state)?.keep_all()?))
}

/// The skills that were fetched: for the user, and for the project if its sources file is confirmed.
/// With `frozen`, all that the files name must be locked and stored.
pub(crate) fn installed(places: &Places, frozen: bool) -> Result<Vec<Source>, CliError> {
    let own = user_file(places);
    let of_project = skills::project(&places.home).map(|folder| folder.join(wanted::FILE));
    let mut sources = Vec::new();
    for (file, is_own) in
        [(Some(own.clone()), true), (of_project.filter(|file| *file != own), false)]
    {
        let Some(file) = file else { continue };
        // These files are rare, so a run reads nothing else.
        let is_used = file.with_file_name(lock::FILE).exists() || frozen && file.exists();
        if !is_used {
            continue;
        }
        let mut project = open(&real(&file), places)?;
        // The files of a project must not stop what does not use them, so one that cannot be read is
        // only not confirmed.
        let digest = if is_own { None } else { project.digest().ok() };
        if let Some(digest) = digest.filter(|digest| is_confirmed(places, &file, *digest)) {
            project = project.confirmed(digest);
        } else if !is_own {
            let file = quoted(&file.display().to_string());
            let message = format!("skills of {file} are not used: its content was not confirmed");
            let fix = format!("skillhost sync --file {file}");
            if frozen {
                return Err(CliError::new(Exit::Denied, message).fix(fix));
            }
            output::warning(&message, Some(&fix));
            continue;
        }
        sources.push(installed_of(&project, places, frozen)?);
    }
    if frozen && sources.is_empty() {
        return Err(CliError::usage(
            "there is no skills.lock, and --frozen allows only locked skills",
        )
        .fix("skillhost add SOURCE"));
    }
    Ok(sources)
}

fn installed_of(project: &Project, places: &Places, frozen: bool) -> Result<Source, CliError> {
    if frozen {
        project.require_locked()?;
    }
    let found = project.installed()?;
    if !found.missing.is_empty() {
        let message = format!(
            "{} of {} not fetched as locked: {}",
            output::count(found.missing.len() as u64, "skill"),
            quoted(&project.lock_file().display().to_string()),
            found.missing.join(", ")
        );
        let fix = match project.file() == user_file(places) {
            true => "skillhost sync".to_owned(),
            false => {
                format!("skillhost sync --file {}", quoted(&project.file().display().to_string()))
            }
        };
        if frozen {
            return Err(CliError::invalid(message).fix(fix));
        }
        output::warning(&message, Some(&fix));
    }
    let base = project.file().parent().unwrap_or(Path::new("/"));
    let locked: BTreeMap<String, LockedOrigin> = found
        .skills
        .iter()
        .filter_map(|(name, skill)| {
            let origin = |name: &str, skill: &LockedSkill| {
                let source = skill.source.parse::<source::Source>().ok()?;
                Some(LockedOrigin {
                    source: project.place_of(&source).identity(base, &places.home),
                    digest: skill.content.clone(),
                    evidence: found.origins.get(name).cloned(),
                    requires: Vec::new(),
                })
            };
            let requires = requires::closure(&found.skills, name)
                .into_iter()
                .filter_map(|(name, skill)| {
                    let (folder, locked) = (found.view.join(name), origin(name, skill)?);
                    Some(LockedRequirement { name: name.to_owned(), folder, locked })
                })
                .collect();
            Some((name.clone(), LockedOrigin { requires, ..origin(name, skill)? }))
        })
        .collect();
    let locked = Arc::new(locked);
    Ok(Source { folder: found.view, kind: SourceKind::Fetched, locked })
}

/// Parses a source that was typed in the current folder, as the project's file names it.
pub(crate) fn typed(source: &str, project: &Project) -> Result<source::Source, CliError> {
    #[expect(clippy::disallowed_methods, reason = "the command line is used in a folder")]
    let here =
        std::env::current_dir().map_err(|error| CliError::io("find the current folder", error))?;
    let base = project.file().parent().unwrap_or(Path::new("/"));
    Ok(source.parse::<source::Source>()?.rebased(&here, base))
}

/// The network for fetching what a source names, within the operator's rules.
pub(crate) fn network(context: &Context) -> Result<HostNetwork, CliError> {
    let places = &context.places;
    let own = user_file(places);
    let limits = match own.exists() {
        true => open(&real(&own), places)?.limits().clone(),
        false => TransferLimits::default(),
    };
    HostNetwork::new(&context.policy, places, &limits)
}

/// Why a name is taken, and what the operator should know before giving it to a fetched skill.
pub(crate) fn taken(name: &str, policy: &Policy, catalog: &Catalog) -> Option<String> {
    let mut reasons = Vec::new();
    if let Some(entry) = catalog.get(name)
        && entry.source != SourceKind::Fetched
    {
        reasons.push(format!("a skill of this name is in {}", entry.folder.display()));
    }
    for layer in policy.layers_for(name) {
        let (Some(_), Some(place)) = (&layer.applies_to, &layer.place) else { continue };
        if layer.require.is_some() && layer.only_restricts() {
            continue;
        }
        let allowed: Vec<&str> = layer.allow.iter().map(|rule| rule.text.as_str()).collect();
        let allows = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
        let source = layer.source.as_deref().map(|source| format!(" to skills of {source}"));
        reasons.push(format!(
            "{place} has a section for it, which allows {allows}{}",
            source.unwrap_or_default()
        ));
    }
    (!reasons.is_empty()).then(|| printable(&reasons.join("; ")))
}

/// Revokes the approvals of skills that request more, have another component or lost a signature.
/// Those of a commit that is no longer signed may have the same content, which stays approved
/// otherwise.
pub(crate) fn revoke_approvals(changes: &[Change], places: &Places) -> Result<(), CliError> {
    for change in changes.iter().filter(|change| !change.reasons().is_empty()) {
        places.approvals().revoke(&change.name)?;
    }
    Ok(())
}

/// Prints changes, one line for each skill, and the differences below it.
pub(crate) fn report(changes: &[Change]) -> Result<(), CliError> {
    for change in changes {
        output::text(&printable(&headline(change)))?;
        if matches!(change.kind, ChangeKind::Updated) {
            for line in details(change) {
                output::text(&format!("  {}", printable(&line)))?;
            }
        }
    }
    Ok(())
}

fn headline(change: &Change) -> String {
    let short =
        |revision: &Option<String>| match revision.as_deref().map(|text| text.split_once(':')) {
            Some(Some((kind, hex))) => format!("{kind}:{}", &hex[..12.min(hex.len())]),
            Some(None) => revision.clone().unwrap_or_default(),
            None => "nothing".to_owned(),
        };
    let Change { name, kind, from, to, .. } = change;
    match kind {
        ChangeKind::Added => {
            let files = output::count(change.files.len() as u64, "file");
            format!("added {name} ({}, {files})", short(to))
        }
        ChangeKind::Updated => format!("updated {name}: {} -> {}", short(from), short(to)),
        ChangeKind::Removed => format!("removed {name}"),
        ChangeKind::Fetched => format!("fetched {name} again ({})", short(to)),
        ChangeKind::Unchanged => format!("unchanged {name} ({})", short(to)),
    }
}

/// What differs between two versions of a skill.
fn details(change: &Change) -> Vec<String> {
    let mut lines = Vec::new();
    for file in &change.files {
        lines.push(match (&file.before, &file.after) {
            (None, Some(after)) => format!("+ {} {after}", file.path),
            (Some(before), None) => format!("- {} {before}", file.path),
            (Some(before), Some(after)) => format!("~ {} {before} -> {after}", file.path),
            (None, None) => continue,
        });
    }
    lines.extend(change.more_permissions.iter().map(|entry| format!("+ allowed-tools: {entry}")));
    lines.extend(change.fewer_permissions.iter().map(|entry| format!("- allowed-tools: {entry}")));
    let reasons = change.reasons();
    if !reasons.is_empty() {
        lines.push(format!("needs approval again: {}", reasons.join("; ")));
    }
    lines
}
