//! Speaks version 2 of Git's protocol with a server, over HTTP.

use std::io::Read;

use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;

use super::object::ObjectId;
use super::pack::Pack;
use super::packet::{self, DELIMITER, FLUSH, Packet};
use super::{Reference, corrupt};
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::network::{self, Network, Request};

/// The field that asks for version 2, in which a server sends only the references that are asked for.
const VERSION: (&str, &str) = ("git-protocol", "version=2");

/// The most references that a server may send for one name, `HEAD` included.
const MAX_REFERENCES: usize = 1000;

/// The most lines of capabilities.
const MAX_CAPABILITIES: usize = 100;

/// A repository of a server.
pub(super) struct Remote<'a> {
    network: &'a dyn Network,
    /// The URL after redirects.
    url: String,
    limits: &'a TransferLimits,
}

impl<'a> Remote<'a> {
    /// Connects, and checks that the server speaks version 2.
    pub(super) fn open(
        network: &'a dyn Network,
        url: &str,
        limits: &'a TransferLimits,
    ) -> Result<Remote<'a>, SourceError> {
        const QUERY: &str = "/info/refs?service=git-upload-pack";
        let headers = [(VERSION.0, VERSION.1.to_owned())];
        let (end, mut response) = network::get(network, &format!("{url}{QUERY}"), &headers)?;
        let unsupported = || {
            network::problem(
                url,
                "it is not a Git repository of a server that speaks version 2 of the protocol",
            )
        };
        let is_git =
            response.content_type.as_deref() == Some("application/x-git-upload-pack-advertisement");
        let Some(url) = end.strip_suffix(QUERY).filter(|_| is_git) else {
            return Err(unsupported());
        };
        let mut is_version_2 = false;
        for _ in 0..MAX_CAPABILITIES {
            match packet::read(&mut *response.body)? {
                None => break,
                Some(Packet::Data(data)) => match packet::text(&data)? {
                    "version 2" => is_version_2 = true,
                    text if text.starts_with("object-format=") && text != "object-format=sha1" => {
                        let why = "repositories with SHA-256 ids are not supported";
                        return Err(Refusal::new(RefusalRule::Unsupported, why).into());
                    }
                    _ => {}
                },
                Some(Packet::Flush) if is_version_2 => break,
                Some(_) => {}
            }
        }
        match is_version_2 {
            true => Ok(Remote { network, url: url.to_owned(), limits }),
            false => Err(unsupported()),
        }
    }

    /// Returns the references that may be meant, and `HEAD`.
    pub(super) fn references(
        &self,
        reference: Option<&str>,
    ) -> Result<Vec<Reference>, SourceError> {
        let mut request = Vec::new();
        packet::line(&mut request, "command=ls-refs");
        request.extend(DELIMITER);
        packet::line(&mut request, "peel");
        match reference {
            None => packet::line(&mut request, "ref-prefix HEAD"),
            Some(reference) => {
                packet::line(&mut request, &format!("ref-prefix refs/tags/{reference}"));
                packet::line(&mut request, &format!("ref-prefix refs/heads/{reference}"));
            }
        }
        request.extend(FLUSH);
        let mut body = self.command(request)?;
        let mut references = Vec::new();
        loop {
            match packet::read(&mut *body)? {
                Some(Packet::Flush) => return Ok(references),
                Some(Packet::Data(_)) if references.len() >= MAX_REFERENCES => {
                    return Err(corrupt("the server sent too many references"));
                }
                Some(Packet::Data(data)) => references.extend(reference_of(packet::text(&data)?)?),
                Some(Packet::Delimiter) | None => return Err(packet::truncated()),
            }
        }
    }

    /// Transfers a commit with its files and the tag that names it, and without its history.
    pub(super) fn fetch(&self, id: ObjectId, tag: Option<ObjectId>) -> Result<Pack, SourceError> {
        let mut request = Vec::new();
        packet::line(&mut request, "command=fetch");
        request.extend(DELIMITER);
        for line in ["no-progress", "ofs-delta", "deepen 1", &format!("want {id}")] {
            packet::line(&mut request, line);
        }
        for tag in tag.iter().filter(|tag| **tag != id) {
            packet::line(&mut request, &format!("want {tag}"));
        }
        packet::line(&mut request, "done");
        request.extend(FLUSH);
        let mut body = self.command(request)?;
        let mut is_pack = false;
        let mut pack = Vec::new();
        loop {
            match packet::read(&mut *body)? {
                Some(Packet::Data(data)) if is_pack => {
                    self.side_band(&data, &mut pack)?;
                }
                Some(Packet::Data(data)) => match packet::text(&data)? {
                    "packfile" => is_pack = true,
                    text if text.starts_with("ERR ") => return Err(self.refused(&text[4..])),
                    _ => {}
                },
                Some(Packet::Flush) if is_pack => return Pack::decode(&pack, self.limits),
                Some(Packet::Delimiter) if !is_pack => {}
                _ => return Err(packet::truncated()),
            }
        }
    }

    /// Handles a packet whose first byte says whether it is a part of the pack, a message about the
    /// progress, or an error.
    fn side_band(&self, data: &[u8], pack: &mut Vec<u8>) -> Result<(), SourceError> {
        match data.split_first() {
            Some((1, part)) => {
                if (pack.len() + part.len()) as u64 > self.limits.bytes {
                    let why =
                        format!("the transfer is larger than {}", show_size(self.limits.bytes));
                    return Err(Refusal::new(RefusalRule::TransferSize, why).into());
                }
                pack.extend(part);
                Ok(())
            }
            Some((2, _)) => Ok(()),
            Some((3, message)) => Err(self.refused(&String::from_utf8_lossy(message))),
            _ => Err(corrupt("the server sent a packet of an unknown kind")),
        }
    }

    fn refused(&self, message: &str) -> SourceError {
        let message: String = message.trim().chars().take(300).collect();
        network::problem(&self.url, format!("the server refuses: {}", printable(&message)))
    }

    fn command(&self, body: Vec<u8>) -> Result<Box<dyn Read>, SourceError> {
        let request = Request {
            url: format!("{}/git-upload-pack", self.url),
            headers: vec![
                ("content-type", "application/x-git-upload-pack-request".into()),
                ("accept", "application/x-git-upload-pack-result".into()),
                (VERSION.0, VERSION.1.into()),
            ],
            body: Some(body),
        };
        let response = self.network.send(&request)?;
        match (response.status, response.content_type.as_deref()) {
            (200, Some("application/x-git-upload-pack-result")) => Ok(response.body),
            (200, _) => Err(network::problem(&self.url, "the response is not one of a Git server")),
            (status, _) => Err(network::failed(&self.url, status)),
        }
    }
}

/// Parses `ID NAME`, with what an annotated tag points to. `None` for a branch without a commit.
fn reference_of(line: &str) -> Result<Option<Reference>, SourceError> {
    let mut words = line.split(' ');
    let (Some(id), Some(name)) = (words.next(), words.next()) else {
        return Err(corrupt("the server sent an invalid reference"));
    };
    if id == "unborn" {
        return Ok(None);
    }
    let parse = |id: &str| id.parse().map_err(|_| corrupt("the server sent an invalid object id"));
    let (id, tag) = match words.find_map(|word| word.strip_prefix("peeled:")) {
        Some(peeled) => (parse(peeled)?, Some(parse(id)?)),
        None => (parse(id)?, None),
    };
    Ok(Some(Reference { name: name.to_owned(), id, tag }))
}
