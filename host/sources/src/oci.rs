//! OCI registries: pulls a skill from a repository, and pushes one.
//!
//! The parts of the distribution protocol that this needs are small, and every request has to pass
//! the operator's rules, so the protocol is spoken here instead of by a client library with an HTTP
//! stack of its own. Whatever is received is compared with its digest before it is used.
//!
//! `registry` sends the requests and authenticates, `manifest` reads and writes manifests, and
//! `layers` unpacks what they name.

mod layers;
mod manifest;
mod registry;

use crate::digest::Digest;
use crate::error::SourceError;
use crate::fetch::{Fetched, Locked, Surroundings};
use crate::limits::TransferLimits;
use crate::network::Network;

use manifest::Descriptor;
use registry::{Access, Registry};

pub use manifest::Published;

/// The tag without which nothing is pulled. It follows what is published, and the others must not
/// move.
const LATEST: &str = "latest";

/// Pulls the skill that a reference names; without a reference, that of the tag `latest`.
///
/// # Errors
/// The reference does not exist or has moved, the registry or a limit refuses, or what was sent is
/// broken.
pub(crate) fn fetch(
    place: &str,
    reference: Option<&str>,
    locked: Locked<'_>,
    around: Surroundings<'_>,
    network: &dyn Network,
) -> Result<Fetched, SourceError> {
    let registry = Registry::open(place, Access::Pull, network)?;
    let reference = reference.unwrap_or(LATEST);
    let (digest, text) = match locked {
        Locked::At(locked) => {
            if reference != LATEST {
                require_same(place, reference, locked, &registry.digest(reference)?)?;
            }
            registry.manifest(locked)?
        }
        Locked::Not | Locked::From(_) => registry.manifest(reference)?,
    };
    let revision = format!("sha256:{digest}");
    if let Locked::From(locked) = locked
        && reference != LATEST
    {
        require_same(place, reference, locked, &revision)?;
    }
    let mut found = manifest::parse(&text)?;
    if let Some(chosen) = manifest::choose(&found)? {
        let (_, text) = registry.manifest(&chosen)?;
        found = manifest::parse(&text)?;
    }
    let name = place.rsplit('/').next().unwrap_or_default();
    let staged = layers::stage(&registry, &found, name, around)?;
    Ok(Fetched { staged, revision, is_partial: false, objects: None })
}

fn require_same(place: &str, tag: &str, locked: &str, found: &str) -> Result<(), SourceError> {
    match locked == found {
        true => Ok(()),
        false => Err(SourceError::Moved(format!(
            "the tag `{tag}` of {place} was moved: skills.lock names {locked}, and it is now {found}"
        ))),
    }
}

/// What is published.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// The name of the skill.
    pub name: &'a str,
    /// Its description.
    pub description: &'a str,
    /// Its version, if it has one.
    pub version: Option<&'a str>,
    /// The `.tar.gz` archive.
    pub archive: &'a [u8],
}

/// Pushes a skill, and returns the digest of its manifest. The tag must be new, or lead to exactly
/// this already, unless it is `latest`.
///
/// # Errors
/// The tag leads to something else, or the registry refuses.
pub fn publish(
    place: &str,
    tag: Option<&str>,
    publication: &Publication<'_>,
    network: &dyn Network,
) -> Result<Digest, SourceError> {
    let published = Published::new(publication);
    let tag = tag.unwrap_or(LATEST);
    let registry = Registry::open(place, Access::Push, network)?;
    let digest = format!("sha256:{}", published.digest);
    if tag != LATEST {
        match registry.find(tag)? {
            Some(found) if found == digest => return Ok(published.digest),
            Some(found) => {
                return Err(SourceError::request(
                    format!("{place}:{tag} exists already, and is {found}"),
                    "publish another version under another tag",
                ));
            }
            None => {}
        }
    }
    registry.upload(publication.archive)?;
    registry.upload(published.config.as_bytes())?;
    registry.put_manifest(tag, published.manifest.as_bytes())?;
    Ok(published.digest)
}

/// Checks that what a manifest names fits into one transfer.
fn check_sizes(layers: &[Descriptor], limits: &TransferLimits) -> Result<(), SourceError> {
    use crate::error::{Refusal, RefusalRule};
    use skillhost_policy::limits::show_size;

    if layers.len() as u64 > limits.entries {
        let why = format!("more than {} layers", limits.entries);
        return Err(Refusal::new(RefusalRule::EntryCount, why).into());
    }
    let total = layers.iter().try_fold(0_u64, |sum, layer| sum.checked_add(layer.size));
    match total.is_some_and(|total| total <= limits.bytes) {
        true => Ok(()),
        false => {
            let why = format!("the transfer is larger than {}", show_size(limits.bytes));
            Err(Refusal::new(RefusalRule::TransferSize, why).into())
        }
    }
}

#[cfg(test)]
mod tests;
