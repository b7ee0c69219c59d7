//! Fetches a source: the step from the text of a source to staged files.

use std::io;
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::{FileType, Mode, OFlags};

use crate::error::{Refusal, RefusalRule, SourceError};
use crate::git::{self, ObjectId, Pin};
use crate::limits::TransferLimits;
use crate::network::{self, Network};
use crate::signature::ssh::SignedObjects;
use crate::source::{Place, Source};
use crate::staging::{Staged, Unpacker};
use crate::transfer::Transfer;
use crate::{archive, staging};

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
    /// The signed objects of a repository.
    pub objects: Option<SignedObjects>,
}

/// Fetches a source.
///
/// # Errors
/// The source does not exist, is refused, or is not what the lock file says.
pub fn fetch(
    source: &Source,
    locked: Locked<'_>,
    around: Surroundings<'_>,
    network: &dyn Network,
) -> Result<Fetched, SourceError> {
    match &source.place {
        Place::Git(url) => {
            let commit = |revision: &str| revision.strip_prefix("git:")?.parse::<ObjectId>().ok();
            let pin = match locked {
                Locked::Not => Pin::None,
                Locked::At(revision) => commit(revision).map_or(Pin::None, Pin::Exactly),
                Locked::From(revision) => commit(revision).map_or(Pin::None, Pin::Tags),
            };
            let Surroundings { within, limits, .. } = around;
            let reference = source.reference.as_deref();
            let commit = git::fetch(url, reference, pin, network, within, limits)?;
            let (staged, objects) = (commit.staged, Some(commit.objects));
            Ok(Fetched { staged, revision: format!("git:{}", commit.id), objects })
        }
        Place::Archive(url) => {
            let (_, mut response) = network::get(network, url, &[])?;
            unpack(&mut response.body, url, locked, around)
        }
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
                    Ok(Fetched { staged, revision: "folder".to_owned(), objects: None })
                }
                _ => Err(fail(io::Error::other("neither a file nor a folder"))),
            }
        }
    }
}

/// Unpacks an archive while nobody can change it.
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
    Ok(Fetched { staged, revision, objects: None })
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
