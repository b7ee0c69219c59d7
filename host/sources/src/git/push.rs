//! Publishes a skill as a tag of a repository: one commit without history, whose only folder has the
//! skill's files. The same files result in the same commit, so nothing is published twice.

use std::io::{Read, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use skillhost_policy::diagnostic::printable;

use super::object::{Object, ObjectId, ObjectKind};
use super::packet::{self, FLUSH, Packet};
use super::{corrupt, local};
use crate::credentials::Login;
use crate::error::SourceError;
use crate::limits::TransferLimits;
use crate::network::{self, Method, Network, Request};
use crate::source::SshPlace;

/// Who the commit is by, and when: a published skill has no machine, no time and no history.
const SIGNATURE: &str = "skillhost <skillhost@localhost> 0 +0000";

/// The id before a reference that is new.
const NONE: &str = "0000000000000000000000000000000000000000";

/// The most references that a server may advertise.
const MAX_REFERENCES: usize = 100_000;

/// A commit with the files of a skill.
#[derive(Debug)]
pub struct TagCommit {
    /// The id of the commit.
    pub id: ObjectId,
    objects: Vec<(ObjectId, Object)>,
}

impl TagCommit {
    /// Creates the commit. `files`: the paths in the skill, and the contents.
    ///
    /// # Errors
    /// A file is part of a collision attack on SHA-1.
    pub fn new(name: &str, files: &[(String, Vec<u8>)]) -> Result<TagCommit, SourceError> {
        let mut objects = Vec::new();
        let paths: Vec<(String, ObjectId)> = files
            .iter()
            .map(|(path, content)| {
                let blob = Object { kind: ObjectKind::Blob, content: content.clone() };
                Ok((format!("{name}/{path}"), add(&mut objects, blob)?))
            })
            .collect::<Result<_, SourceError>>()?;
        let paths: Vec<(&str, ObjectId)> =
            paths.iter().map(|(path, id)| (path.as_str(), *id)).collect();
        let tree = tree(&mut objects, &paths)?;
        let text = format!(
            "tree {tree}\nauthor {SIGNATURE}\ncommitter {SIGNATURE}\n\nThe skill {name}, published by skillhost.\n"
        );
        let commit = Object { kind: ObjectKind::Commit, content: text.into_bytes() };
        let id = add(&mut objects, commit)?;
        Ok(TagCommit { id, objects })
    }

    /// Writes the objects as a pack.
    fn pack(&self) -> Result<Vec<u8>, SourceError> {
        let fail = |error| SourceError::io("write a pack", error);
        let count = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        let mut pack = [b"PACK\0\0\0\x02".as_slice(), &count.to_be_bytes()].concat();
        for (_, object) in &self.objects {
            let kind = match object.kind {
                ObjectKind::Commit => 1,
                ObjectKind::Tree => 2,
                ObjectKind::Blob => 3,
                ObjectKind::Tag => 4,
            };
            let mut size = object.content.len();
            let mut byte = kind << 4 | (size & 15) as u8;
            size >>= 4;
            while size > 0 {
                pack.push(byte | 0x80);
                byte = (size & 127) as u8;
                size >>= 7;
            }
            pack.push(byte);
            pack.extend(compressed(&object.content).map_err(fail)?);
        }
        let checksum = sha1dc::digest(&pack).map_err(|_| corrupt("the pack has a collision"))?;
        pack.extend_from_slice(checksum.as_ref());
        Ok(pack)
    }
}

/// Adds an object, and returns its id.
fn add(objects: &mut Vec<(ObjectId, Object)>, object: Object) -> Result<ObjectId, SourceError> {
    let id = object.id()?;
    if !objects.iter().any(|(known, _)| *known == id) {
        objects.push((id, object));
    }
    Ok(id)
}

/// Adds the trees of some paths. Returns the id of the tree at the top.
fn tree(
    objects: &mut Vec<(ObjectId, Object)>,
    paths: &[(&str, ObjectId)],
) -> Result<ObjectId, SourceError> {
    let mut entries: Vec<(String, &str, &str, ObjectId)> = Vec::new();
    let mut left = paths;
    while let Some(((path, id), rest)) = left.split_first() {
        let Some((folder, _)) = path.split_once('/') else {
            entries.push(((*path).to_owned(), "100644", path, *id));
            left = rest;
            continue;
        };
        let is_inside = |path: &str| path.split_once('/').is_some_and(|(name, _)| name == folder);
        // Paths of one folder may be apart: `a-b` sorts between `a` and `a/b`.
        let inside: Vec<(&str, ObjectId)> = paths
            .iter()
            .filter(|(path, _)| is_inside(path))
            .map(|(path, id)| (&path[folder.len() + 1..], *id))
            .collect();
        if !entries.iter().any(|(_, mode, name, _)| *name == folder && *mode == "40000") {
            let id = tree(objects, &inside)?;
            entries.push((format!("{folder}/"), "40000", folder, id));
        }
        left = rest;
    }
    // Git sorts folders as if their names ended with `/`.
    entries.sort();
    let mut content = Vec::new();
    for (_, mode, name, id) in entries {
        content.extend(format!("{mode} {name}\0").into_bytes());
        content.extend(id.0);
    }
    add(objects, Object { kind: ObjectKind::Tree, content })
}

fn compressed(content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}

/// Publishes a commit as a new tag of the repository with this URL. Does nothing if the tag leads to
/// this commit already.
///
/// # Errors
/// The tag leads to another commit, or the server refuses.
pub fn publish(
    url: &str,
    tag: &str,
    commit: &TagCommit,
    network: &dyn Network,
    limits: &TransferLimits,
) -> Result<(), SourceError> {
    if let Some(path) = url.strip_prefix("file://") {
        let repository = local::Repository::open(Path::new(path), limits)?;
        let name = format!("refs/tags/{tag}");
        let known = repository.references()?.into_iter().find(|found| found.name == name);
        if is_published(known.map(|found| found.id.to_string()).as_deref(), url, tag, commit)? {
            return Ok(());
        }
        for (id, object) in &commit.objects {
            let header = format!("{} {}\0", object.kind.name(), object.content.len());
            let content = [header.as_bytes(), &object.content].concat();
            let content =
                compressed(&content).map_err(|error| SourceError::io("write an object", error))?;
            repository.write_object(*id, &content)?;
        }
        return repository.write_tag(tag, commit.id);
    }
    match SshPlace::parse(url) {
        Some(place) => {
            let mut connection =
                network.ssh(&place, &format!("git-receive-pack '{}'", place.path))?;
            let result = over(&mut connection, url, tag, commit);
            // What `ssh` says explains why the stream ended early.
            result.map_err(|error| match (&error, connection.failure()) {
                (SourceError::Input(_) | SourceError::Refused(_), Some(why)) => {
                    network::problem(url, printable(&why))
                }
                _ => error,
            })
        }
        None => over_http(network, url, tag, commit),
    }
}

/// Compares what a tag leads to.
fn is_published(
    known: Option<&str>,
    url: &str,
    tag: &str,
    commit: &TagCommit,
) -> Result<bool, SourceError> {
    match known {
        None => Ok(false),
        Some(id) if id == commit.id.to_string() => Ok(true),
        Some(id) => Err(SourceError::request(
            format!("the tag `{tag}` of {url} exists already, and is {id}"),
            "publish another version under another tag",
        )),
    }
}

/// Publishes over a connection on which the server speaks first.
fn over(
    connection: &mut Box<dyn network::Connection>,
    url: &str,
    tag: &str,
    commit: &TagCommit,
) -> Result<(), SourceError> {
    let known = advertised(connection, url, tag)?;
    if is_published(known.as_deref(), url, tag, commit)? {
        connection.write_all(FLUSH).map_err(SourceError::Input)?;
        return Ok(());
    }
    connection.write_all(&request(tag, commit)?).map_err(SourceError::Input)?;
    connection.flush().map_err(SourceError::Input)?;
    report(connection, url)
}

fn over_http(
    network: &dyn Network,
    url: &str,
    tag: &str,
    commit: &TagCommit,
) -> Result<(), SourceError> {
    let start = || Request::new(Method::Get, format!("{url}/info/refs?service=git-receive-pack"));
    let mut response = network.send(&start())?;
    let mut authorization = None;
    if response.status == 401
        && let Some(credential) = network.credential(&Login::Git(url))?
    {
        authorization = Some(credential.basic());
        response = network.send(&start().header("authorization", credential.basic()))?;
    }
    if response.status != 200 {
        return Err(network::failed(url, response.status));
    }
    // `# service=git-receive-pack`, and the end of that section.
    for _ in 0..2 {
        packet::read(&mut *response.body)?;
    }
    let known = advertised(&mut *response.body, url, tag)?;
    if is_published(known.as_deref(), url, tag, commit)? {
        return Ok(());
    }
    let mut request = Request::new(Method::Post, format!("{url}/git-receive-pack"))
        .header("content-type", "application/x-git-receive-pack-request")
        .header("accept", "application/x-git-receive-pack-result")
        .body(request(tag, commit)?);
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let mut response = network.send(&request)?;
    match response.status {
        200 => report(&mut *response.body, url),
        status => Err(network::failed(url, status)),
    }
}

/// Reads the references that a server has. Returns what the tag leads to.
fn advertised(from: &mut dyn Read, url: &str, tag: &str) -> Result<Option<String>, SourceError> {
    let name = format!("refs/tags/{tag}");
    let mut known = None;
    for count in 0.. {
        match packet::read(from)? {
            Some(Packet::Data(_)) if count > MAX_REFERENCES => break,
            Some(Packet::Data(data)) => {
                // Capabilities follow the first name.
                let line = data.split(|byte| *byte == 0).next().unwrap_or_default();
                let line = packet::text(line)?;
                if let Some(why) = line.strip_prefix("ERR ") {
                    return Err(network::problem(url, printable(why)));
                }
                match line.split_once(' ') {
                    Some((id, found)) if found == name => known = Some(id.to_owned()),
                    _ => {}
                }
            }
            Some(Packet::Flush) => return Ok(known),
            _ => return Err(packet::truncated()),
        }
    }
    Err(corrupt("the server sent too many references"))
}

/// Asks for a new tag, with the objects that it needs.
fn request(tag: &str, commit: &TagCommit) -> Result<Vec<u8>, SourceError> {
    let command = format!("{NONE} {} refs/tags/{tag}\0 report-status agent=skillhost", commit.id);
    let mut request = format!("{:04x}{command}", command.len() + 4).into_bytes();
    request.extend(FLUSH);
    request.extend(commit.pack()?);
    Ok(request)
}

/// Reads whether the server has stored the objects and the tag.
fn report(from: &mut dyn Read, url: &str) -> Result<(), SourceError> {
    let mut is_stored = false;
    loop {
        match packet::read(from)? {
            Some(Packet::Data(data)) => match packet::text(&data)? {
                "unpack ok" => {}
                line if line.starts_with("ok ") => is_stored = true,
                line => {
                    let why = format!("the server refuses the tag: {}", printable(line));
                    return Err(network::problem(url, why));
                }
            },
            Some(Packet::Flush) if is_stored => return Ok(()),
            _ => return Err(packet::truncated()),
        }
    }
}
