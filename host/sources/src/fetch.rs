//! Fetches a source: the step from the text of a source to staged files.

use std::io;
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::{FileType, Mode, OFlags};
use skillhost_policy::diagnostic::printable;

use crate::error::{Refusal, RefusalRule, SourceError};
use crate::git::{self, ObjectId, Pin, Pinned};
use crate::limits::TransferLimits;
use crate::network::{self, Network};
use crate::signature::ssh::SignedObjects;
use crate::source::{Place, Source};
use crate::staging::{Staged, Unpacker};
use crate::transfer::Transfer;
use crate::{archive, mcp, oci, skills, staging, well_known};

/// The folders and limits of a transfer.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The folder that relative paths start at: that of the file that names the source.
    pub base: &'a Path,
    /// The user's home folder.
    pub home: &'a Path,
    /// The folder for what is being fetched.
    pub within: &'a Path,
    /// The limits.
    pub limits: &'a TransferLimits,
    /// Whether the submodules of a repository are fetched, too.
    pub submodules: bool,
}

/// The skills of a source that are needed. Sources that list their skills transfer only these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection<'a> {
    /// The only one.
    Only,
    /// The one of this name, or in the folder of this name.
    Named(&'a str),
    /// All of them.
    All,
}

impl Selection<'_> {
    /// Returns the positions of the names that are selected.
    pub(crate) fn choose(self, names: &[&str]) -> Result<Vec<usize>, SourceError> {
        let offered = || {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            offered(&names)
        };
        match (self, names) {
            (_, []) => Err(SourceError::request("the source has no skill", "name another source")),
            (Selection::All, _) => Ok((0..names.len()).collect()),
            (Selection::Only, [_]) => Ok(vec![0]),
            (Selection::Only, _) => {
                let why = format!("the source has {} skills", names.len());
                Err(SourceError::request(why, format!("{}; or --all", offered())))
            }
            (Selection::Named(path), _) => {
                let name = path.split('/').next().unwrap_or_default();
                match names.iter().position(|found| *found == name) {
                    Some(at) => Ok(vec![at]),
                    None => {
                        let why = format!("the source has no skill `{}`", printable(name));
                        Err(SourceError::request(why, offered()))
                    }
                }
            }
        }
    }
}

/// A skill that a source offers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Offer {
    /// The path of its folder in the source, or its name there. Empty at the top.
    pub path: String,
    /// What it does, in its own words.
    pub description: String,
}

/// What the lock file says about a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked<'a> {
    /// Nothing.
    Not,
    /// This revision is fetched.
    At(&'a str),
    /// A newer revision may be fetched than this one. A tag must not have moved.
    From(&'a str),
}

/// A source that was fetched.
#[derive(Debug)]
pub struct Fetched {
    /// What it holds.
    pub staged: Staged,
    /// What the source led to, as the lock file writes it.
    pub revision: String,
    /// Whether the source has more skills than were fetched.
    pub is_partial: bool,
    /// The signed objects of a repository, unless they are too large to be kept.
    pub objects: Option<SignedObjects>,
}

/// Fetches a source.
///
/// # Errors
/// The source does not exist, is refused, or is not what the lock file says.
pub fn fetch(
    source: &Source,
    selection: Selection<'_>,
    locked: Locked<'_>,
    around: Surroundings<'_>,
    network: &dyn Network,
) -> Result<Fetched, SourceError> {
    match &source.place {
        Place::Git(url) => {
            let pinned = |revision: &str| {
                let (kind, id) = revision.split_once(':')?;
                let id = id.parse::<ObjectId>().ok()?;
                kind.starts_with("git").then_some(Pinned { id, is_tag: kind == "git-tag" })
            };
            let pin = match locked {
                Locked::Not => Pin::None,
                Locked::At(revision) => pinned(revision).map_or(Pin::None, Pin::Exactly),
                Locked::From(revision) => pinned(revision).map_or(Pin::None, Pin::Tags),
            };
            let Surroundings { within, limits, .. } = around;
            let reference = source.reference.as_deref();
            let mut commit = git::fetch(url, reference, pin, network, within, limits)?;
            if around.submodules {
                commit = commit.with_submodules(url, network, limits)?;
            }
            let kind = if commit.is_tag { "git-tag" } else { "git" };
            let revision = format!("{kind}:{}", commit.id);
            let git::Commit { staged, objects, .. } = commit;
            Ok(Fetched { staged, revision, is_partial: false, objects })
        }
        Place::Archive(url) => {
            let (_, mut response) = network::get(network, url, &[])?;
            unpack(&mut response.body, url, locked, around)
        }
        Place::S3(place) => {
            let object = place.strip_prefix("s3://").and_then(|rest| rest.split_once('/'));
            let (bucket, key) = object.unwrap_or_default();
            let (_, mut response) = network::get(network, &network.object(bucket, key)?, &[])?;
            unpack(&mut response.body, place, locked, around)
        }
        Place::Oci(place) => {
            oci::fetch(place, source.reference.as_deref(), locked, around, network)
        }
        Place::WellKnown(place) => well_known::fetch(place, selection, around, network),
        Place::Mcp(place) => mcp::fetch(place, selection, around, network),
        Place::Local(text) => {
            let path = source.local(around.base, around.home).unwrap_or_default();
            let fail =
                |error: io::Error| SourceError::io(format!("open {}", path.display()), error);
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = rustix::fs::open(&path, flags, Mode::empty())
                .map_err(|error| fail(error.into()))?;
            let stat = rustix::fs::fstat(&opened).map_err(|error| fail(error.into()))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    unpack(&mut std::fs::File::from(opened), text, locked, around)
                }
                FileType::Directory => {
                    let staged = folder(Dir::from_std_file(opened.into()), around)?;
                    let revision = "folder".to_owned();
                    Ok(Fetched { staged, revision, is_partial: false, objects: None })
                }
                _ => Err(fail(io::Error::other("neither a file nor a folder"))),
            }
        }
    }
}

/// Unpacks an archive from a private copy.
fn unpack(
    from: &mut dyn io::Read,
    shown: &str,
    locked: Locked<'_>,
    around: Surroundings<'_>,
) -> Result<Fetched, SourceError> {
    let transfer = Transfer::receive(around.within, around.limits, from)?;
    let revision = format!("sha256:{}", transfer.digest);
    if let Locked::At(expected) = locked
        && expected != revision
    {
        return Err(SourceError::Moved(format!(
            "{shown} was changed: skills.lock names {expected}, and it is now {revision}"
        )));
    }
    let staged = archive::unpack(&transfer.file, transfer.size, around.within, around.limits)?;
    Ok(Fetched { staged, revision, is_partial: false, objects: None })
}

/// Returns the skills that a source offers. Only sources that list their skills are not fetched.
///
/// # Errors
/// As [`fetch`].
pub fn offers(
    source: &Source,
    around: Surroundings<'_>,
    network: &dyn Network,
) -> Result<Vec<Offer>, SourceError> {
    match &source.place {
        Place::WellKnown(place) => well_known::offers(place, network),
        Place::Mcp(place) => mcp::offers(place, around.limits, network),
        _ => {
            let fetched = fetch(source, Selection::All, Locked::Not, around, network)?;
            let offer = |path: String| {
                let found = skills::read(&fetched.staged, &path, around.limits);
                let description = found.map_or_else(
                    |error| format!("invalid: {error}"),
                    |found| found.manifest.description,
                );
                Offer { path, description }
            };
            Ok(skills::find(&fetched.staged, "").into_iter().map(offer).collect())
        }
    }
}

/// The skills of a source, as options to choose one.
pub(crate) fn offered(all: &[String]) -> String {
    const MAX: usize = 20;
    let shown: Vec<String> =
        all.iter().take(MAX).map(|path| format!("--path {}", printable(path))).collect();
    let more = all.len().saturating_sub(MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match shown.is_empty() {
        true => "the source has none".to_owned(),
        false => format!("choose one: {}{more}", shown.join(", ")),
    }
}

/// Copies a folder of this machine.
fn folder(top: Dir, around: Surroundings<'_>) -> Result<Staged, SourceError> {
    let limits = around.limits;
    let mut to = Unpacker::new(around.within, limits, limits.bytes)?;
    // Only paths wait here: there may be more folders than a process can keep open.
    let mut folders = vec![String::new()];
    while let Some(path) = folders.pop() {
        let fail = |error: io::Error| SourceError::io(format!("read the folder `{path}`"), error);
        let folder = staging::open_folder(top.try_clone().map_err(fail)?.into_std_file(), &path);
        let folder = Dir::from_std_file(folder.map_err(fail)?.into());
        for entry in folder.entries().map_err(fail)? {
            let name = entry.map_err(fail)?.file_name();
            let Some(name) = name.to_str() else {
                let why = "the name is not valid UTF-8";
                return Err(
                    Refusal::at(RefusalRule::InvalidName, name.as_encoded_bytes(), why).into()
                );
            };
            let inner = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            if crate::names::is_repository(name) {
                to.count()?;
                continue;
            }
            if copy(&folder, name, &inner, &mut to)? {
                folders.push(inner);
            }
        }
    }
    Ok(to.finish())
}

/// Copies an entry of a folder. Returns whether it is a folder.
fn copy(folder: &Dir, name: &str, path: &str, to: &mut Unpacker) -> Result<bool, SourceError> {
    let fail = |error: io::Error| SourceError::io(format!("read `{path}`"), error);
    let stat = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    match FileType::from_raw_mode(stat.map_err(|error| fail(error.into()))?.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder, name, Vec::new());
            to.link(path.as_bytes(), target.map_err(|error| fail(error.into()))?.to_bytes())?;
            Ok(false)
        }
        FileType::Directory | FileType::RegularFile => {
            let opened = staging::open_entry(folder, name).map_err(fail)?;
            let stat = rustix::fs::fstat(&opened).map_err(|error| fail(error.into()))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    to.folder(path.as_bytes())?;
                    Ok(true)
                }
                FileType::RegularFile => {
                    to.file(path.as_bytes(), &mut std::fs::File::from(opened))?;
                    Ok(false)
                }
                _ => Err(fail(io::Error::other("it was replaced meanwhile"))),
            }
        }
        _ => {
            let why = "devices, pipes and sockets are not supported";
            Err(Refusal::at(RefusalRule::SpecialFile, path.as_bytes(), why).into())
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

    use super::*;

    #[test]
    fn invalid_skills_are_offered_with_their_error() {
        let base = tempfile::tempdir().unwrap();
        for name in ["bad", "good"] {
            let folder = base.path().join("skills").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            let text = format!("---\nname: {name}\ndescription: Tests.\n---\n");
            std::fs::write(folder.join("SKILL.md"), text).unwrap();
        }
        std::os::unix::fs::symlink("missing", base.path().join("skills/bad/link")).unwrap();
        let within = tempfile::tempdir().unwrap();
        let limits = TransferLimits::default();
        let around = Surroundings {
            base: base.path(),
            home: base.path(),
            within: within.path(),
            limits: &limits,
            submodules: false,
        };
        let source: Source = "./skills".parse().unwrap();
        let found = offers(&source, around, &network::Offline).unwrap();
        assert_eq!((found.len(), found[1].description.as_str()), (2, "Tests."));
        assert!(found[0].description.starts_with("invalid: "), "{found:?}");
    }
}
