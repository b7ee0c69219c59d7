//! Git repositories: finds a tag, branch or commit, transfers that one commit, and stages its files.
//!
//! Fetching only reads objects. Configuration, hooks, filters and attributes of a repository have
//! no effect. Submodules are fetched only on request. Everything that a server sends is bounded
//! before it is parsed, each object is compared with its id, and ids are computed with the detection
//! of collision attacks.
//!
//! `remote` speaks version 2 of the protocol with a server, `local` reads the objects of a repository
//! on this machine, `pack` decodes packs, `tree` stages the files of a commit, and `push` publishes a
//! skill as a tag.

mod local;
mod object;
mod pack;
mod packet;
mod push;
mod remote;
mod submodules;
mod tree;

use std::path::Path;

use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::network::Network;
use crate::signature::ssh::SignedObjects;
use crate::staging::Staged;

pub use object::ObjectId;
pub use push::{TagCommit, publish};

/// The most bytes of a commit or a tag that is kept for its signature: those in use have some KiB.
const MAX_SIGNED: usize = 1 << 20;

/// A commit of a repository, staged.
#[derive(Debug)]
pub struct Commit {
    /// Its id.
    pub id: ObjectId,
    /// Whether a tag led to it.
    pub is_tag: bool,
    /// Its files.
    pub staged: Staged,
    /// The paths of its submodules, which have no files here, and their commits.
    pub submodules: Vec<(String, ObjectId)>,
    /// The commit and its tag, whose signatures cover the files. `None` if the commit is too large
    /// to be kept.
    pub objects: Option<SignedObjects>,
}

impl Commit {
    /// Adds the files of the submodules. `url`: that of the repository.
    ///
    /// # Errors
    /// As [`fetch`].
    pub fn with_submodules(
        self,
        url: &str,
        network: &dyn Network,
        limits: &TransferLimits,
    ) -> Result<Commit, SourceError> {
        submodules::add(self, url, network, limits)
    }
}

/// The commit that the lock file names, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// None is named.
    None,
    /// This commit is fetched. A tag must lead to it, and a branch must contain it: servers of forges
    /// also have the commits of forks.
    Exactly(Pinned),
    /// A tag must lead to this commit. Branches are followed.
    Tags(Pinned),
}

/// A commit that the lock file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// Its id.
    pub id: ObjectId,
    /// Whether a tag led to it.
    pub is_tag: bool,
}

/// Fetches the commit that a reference names; without a reference, that of the default branch.
///
/// If the lock file names a commit, a tag must still lead there: see [`Pin`].
///
/// # Errors
/// The reference does not exist or has moved, the server or a limit refuses, or what was sent is
/// broken.
pub fn fetch(
    url: &str,
    reference: Option<&str>,
    pin: Pin,
    network: &dyn Network,
    within: &Path,
    limits: &TransferLimits,
) -> Result<Commit, SourceError> {
    if let Some(path) = url.strip_prefix("file://") {
        let repository = local::Repository::open(Path::new(path), limits)?;
        let found = resolve(&repository.references()?, reference, url)?;
        let tag = Some(found.id).filter(|_| matches!(found.kind, ResolvedKind::Tag(_)));
        let found = Resolved { id: tree::commit(&repository, found.id)?.0, tag, ..found };
        let id = pin.apply(&found, url)?;
        if id != found.id && !tree::contains(&repository, found.id, id)? {
            return Err(not_on_branch(id, url));
        }
        return pin.stage(&repository, found, url, within, limits);
    }
    let remote = remote::Remote::open(network, url, limits)?;
    let found = resolve(&remote.references(reference)?, reference, url)?;
    let id = pin.apply(&found, url)?;
    if id != found.id && !tree::contains(&remote.history(found.id)?, found.id, id)? {
        return Err(not_on_branch(id, url));
    }
    pin.stage(&remote.fetch(id, found.tag)?, found, url, within, limits)
}

fn not_on_branch(id: ObjectId, url: &str) -> SourceError {
    SourceError::Moved(format!(
        "skills.lock names the commit {id}, which the branch of {url} does not contain"
    ))
}

/// What a reference leads to.
struct Resolved {
    id: ObjectId,
    /// The object that a tag names: the commit itself unless the tag is annotated.
    tag: Option<ObjectId>,
    kind: ResolvedKind,
}

/// How a reference was named.
enum ResolvedKind {
    /// As a branch, or not at all.
    Branch,
    /// As a tag, which must not move.
    Tag(String),
    /// As a commit, which is always the same.
    Commit,
}

/// A reference of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reference {
    /// The full name, such as `refs/tags/v1`, or `HEAD`.
    name: String,
    /// What it points to; for an annotated tag, the commit that the tag points to.
    id: ObjectId,
    /// The annotated tag.
    tag: Option<ObjectId>,
}

/// Finds a reference as `git` does: a tag before a branch. 40 hex digits are a commit.
fn resolve(
    references: &[Reference],
    reference: Option<&str>,
    url: &str,
) -> Result<Resolved, SourceError> {
    let find = |name: &str| references.iter().find(|found| found.name == name);
    let Some(reference) = reference else {
        let head = find("HEAD").ok_or_else(|| {
            SourceError::request(
                format!("{url} has no default branch"),
                "name a branch: SOURCE@BRANCH",
            )
        })?;
        return Ok(Resolved { id: head.id, tag: None, kind: ResolvedKind::Branch });
    };
    if let Ok(id) = reference.parse() {
        return Ok(Resolved { id, tag: None, kind: ResolvedKind::Commit });
    }
    if let Some(found) = find(&format!("refs/tags/{reference}")) {
        let kind = ResolvedKind::Tag(reference.to_owned());
        return Ok(Resolved { id: found.id, tag: found.tag, kind });
    }
    if let Some(found) = find(&format!("refs/heads/{reference}")) {
        return Ok(Resolved { id: found.id, tag: None, kind: ResolvedKind::Branch });
    }
    let is_short = reference.len() >= 4 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fix = match is_short {
        true => "write all 40 digits of a commit",
        false => "name a tag, a branch or a commit of the repository",
    };
    Err(SourceError::request(format!("{url} has no tag or branch `{reference}`"), fix))
}

impl Pin {
    /// Returns the commit to fetch.
    fn apply(self, found: &Resolved, url: &str) -> Result<ObjectId, SourceError> {
        let Pinned { id: locked, is_tag } = match self {
            Pin::None => return Ok(found.id),
            Pin::Exactly(pinned) | Pin::Tags(pinned) => pinned,
        };
        match &found.kind {
            ResolvedKind::Branch if is_tag => Err(SourceError::Moved(format!(
                "the tag of {url} that skills.lock names was deleted, and a branch has its name"
            ))),
            ResolvedKind::Branch if matches!(self, Pin::Tags(_)) => Ok(found.id),
            ResolvedKind::Tag(tag) if locked != found.id => Err(SourceError::Moved(format!(
                "the tag `{tag}` of {url} was moved: skills.lock names {locked}, and it is now {}",
                found.id
            ))),
            // The source itself says which commit, whatever the lock file names.
            ResolvedKind::Commit => Ok(found.id),
            _ => Ok(locked),
        }
    }

    /// Stages the commit.
    fn stage(
        self,
        objects: &dyn object::Objects,
        found: Resolved,
        url: &str,
        within: &Path,
        limits: &TransferLimits,
    ) -> Result<Commit, SourceError> {
        let staged = tree::stage(objects, self.apply(&found, url)?, within, limits)?;
        let tree::StagedCommit { id, text, staged, submodules } = staged;
        let is_tag = matches!(found.kind, ResolvedKind::Tag(_));
        let tag = match (&found.kind, found.tag) {
            (ResolvedKind::Tag(name), Some(tag)) => tree::tag(objects, tag, name, id),
            _ => None,
        };
        let tag = tag.filter(|tag| tag.len() <= MAX_SIGNED);
        let signed = (text.len() <= MAX_SIGNED).then_some(SignedObjects { commit: text, tag });
        match (self, found.kind) {
            (Pin::Exactly(locked) | Pin::Tags(locked), ResolvedKind::Commit) if locked.id != id => {
                Err(SourceError::Moved(format!(
                    "skills.lock names the commit {} of {url}, and the source is {id}",
                    locked.id
                )))
            }
            _ => Ok(Commit { id, is_tag, staged, submodules, objects: signed }),
        }
    }
}

fn corrupt(why: impl Into<String>) -> SourceError {
    Refusal::new(RefusalRule::Corrupt, why).into()
}

#[cfg(test)]
mod tests;
