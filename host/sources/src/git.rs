//! Git repositories: finds a tag, branch or commit, transfers that one commit, and stages its files.
//!
//! Only objects are read. Configuration, hooks, filters and attributes of a repository have no
//! effect, and submodules are left out. Everything that a server sends is bounded before it is
//! parsed, each object is compared with its id, and ids are computed with the detection of collision
//! attacks.
//!
//! `remote` speaks version 2 of the protocol with a server, `local` reads the objects of a repository
//! on this machine, `pack` decodes packs, and `tree` stages the files of a commit.

mod local;
mod object;
mod pack;
mod packet;
mod remote;
mod tree;

use std::path::Path;

use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::network::Network;
use crate::signature::ssh::SignedObjects;
use crate::staging::Staged;

pub use object::ObjectId;

/// A commit of a repository, staged.
#[derive(Debug)]
pub struct Commit {
    /// Its id.
    pub id: ObjectId,
    /// Its files.
    pub staged: Staged,
    /// The commit and its tag, whose signatures cover the files.
    pub objects: SignedObjects,
}

/// The commit that the lock file names, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// None is named.
    None,
    /// This commit is fetched. A tag must lead to it.
    Exactly(ObjectId),
    /// A tag must lead to this commit. Branches are followed.
    Tags(ObjectId),
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
        return pin.stage(&repository, found, url, within, limits);
    }
    if url.starts_with("ssh://") {
        let why = "repositories are not fetched over SSH yet; use https://";
        return Err(Refusal::new(RefusalRule::Unsupported, why).into());
    }
    let remote = remote::Remote::open(network, url, limits)?;
    let found = resolve(&remote.references(reference)?, reference, url)?;
    let id = pin.apply(&found, url)?;
    pin.stage(&remote.fetch(id, found.tag)?, found, url, within, limits)
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
        let locked = match self {
            Pin::None => return Ok(found.id),
            Pin::Exactly(id) | Pin::Tags(id) => id,
        };
        match &found.kind {
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
        let (id, commit, staged) = tree::stage(objects, self.apply(&found, url)?, within, limits)?;
        let tag = match (&found.kind, found.tag) {
            (ResolvedKind::Tag(name), Some(tag)) => tree::tag(objects, tag, name, id),
            _ => None,
        };
        let signed = SignedObjects { commit, tag };
        match (self, found.kind) {
            (Pin::Exactly(locked) | Pin::Tags(locked), ResolvedKind::Commit) if locked != id => {
                Err(SourceError::Moved(format!(
                    "skills.lock names the commit {locked} of {url}, and the source is {id}"
                )))
            }
            _ => Ok(Commit { id, staged, objects: signed }),
        }
    }
}

fn corrupt(why: impl Into<String>) -> SourceError {
    Refusal::new(RefusalRule::Corrupt, why).into()
}

#[cfg(test)]
mod tests;
