//! Speaks version 2 of Git's protocol with a server, over HTTP or SSH.

use std::cell::RefCell;
use std::io::{ErrorKind, Read};
use std::rc::Rc;

use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;

use super::object::ObjectId;
use super::pack::Pack;
use super::packet::{self, DELIMITER, FLUSH, Packet};
use super::{Reference, corrupt};
use crate::credentials::Login;
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::network::{self, Connection, Method, Network, Request};
use crate::source::SshPlace;

/// The field that asks for version 2, in which a server sends only the references that are asked for.
const VERSION: (&str, &str) = ("git-protocol", "version=2");

/// The most references that a server may send for one name, `HEAD` included.
const MAX_REFERENCES: usize = 1000;

/// The most lines of capabilities.
const MAX_CAPABILITIES: usize = 100;

/// A repository of a server.
pub(super) struct Remote<'a> {
    transport: Transport<'a>,
    url: String,
    limits: &'a TransferLimits,
    /// Whether the server can leave out files.
    has_filter: bool,
}

/// How commands reach a server.
enum Transport<'a> {
    /// Each command is a request.
    Http {
        network: &'a dyn Network,
        /// The URL after redirects.
        url: String,
        /// The value of `Authorization`, if the server requires credentials.
        authorization: Option<String>,
    },
    /// All commands use one connection.
    Ssh(Rc<RefCell<Box<dyn Connection>>>),
}

impl<'a> Remote<'a> {
    /// Connects, and checks that the server speaks version 2.
    pub(super) fn open(
        network: &'a dyn Network,
        url: &str,
        limits: &'a TransferLimits,
    ) -> Result<Remote<'a>, SourceError> {
        let (transport, mut body) = match SshPlace::parse(url) {
            Some(place) => over_ssh(network, &place)?,
            None => over_http(network, url)?,
        };
        let (mut is_version_2, mut has_filter) = (false, false);
        for _ in 0..MAX_CAPABILITIES {
            match packet::read(&mut *body).map_err(|error| transport.explain(error, url))? {
                None => return Err(transport.explain(not_version_2(url), url)),
                Some(Packet::Data(data)) => match packet::text(&data)? {
                    "version 2" => is_version_2 = true,
                    // A server of version 0 now waits for a request.
                    _ if !is_version_2 && matches!(transport, Transport::Ssh(_)) => break,
                    text if text.starts_with("object-format=") && text != "object-format=sha1" => {
                        let why = "repositories with SHA-256 ids are not supported";
                        return Err(Refusal::new(RefusalRule::Unsupported, why).into());
                    }
                    text if text.starts_with("fetch=") => has_filter = text.contains("filter"),
                    _ => {}
                },
                Some(Packet::Flush) if is_version_2 => break,
                Some(_) => {}
            }
        }
        match is_version_2 {
            true => Ok(Remote { transport, url: url.to_owned(), limits, has_filter }),
            false if matches!(transport, Transport::Ssh(_)) => {
                let why = "the server does not speak version 2 of the protocol, or its SSH server does not accept GIT_PROTOCOL";
                Err(network::problem(url, why))
            }
            false => Err(not_version_2(url)),
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
        self.transfer(id, tag, "deepen 1")
    }

    /// Transfers the history of a commit, without files if the server can leave them out.
    pub(super) fn history(&self, id: ObjectId) -> Result<Pack, SourceError> {
        let filter = if self.has_filter { "filter tree:0" } else { "include-tag" };
        self.transfer(id, None, filter)
    }

    fn transfer(
        &self,
        id: ObjectId,
        tag: Option<ObjectId>,
        extent: &str,
    ) -> Result<Pack, SourceError> {
        let mut request = Vec::new();
        packet::line(&mut request, "command=fetch");
        request.extend(DELIMITER);
        for line in ["no-progress", "ofs-delta", extent, &format!("want {id}")] {
            packet::line(&mut request, line);
        }
        for tag in tag.iter().filter(|tag| **tag != id) {
            packet::line(&mut request, &format!("want {tag}"));
        }
        packet::line(&mut request, "done");
        request.extend(FLUSH);
        let mut body = self.command(request)?;
        let mut is_pack = false;
        let (mut pack, mut received) = (Vec::new(), 0);
        loop {
            let packet = packet::read(&mut *body)?;
            // Messages count, too: otherwise a server could send them without an end.
            received += match &packet {
                Some(Packet::Data(data)) => 4 + data.len() as u64,
                _ => 4,
            };
            if received > self.limits.bytes {
                let why = format!("the transfer is larger than {}", show_size(self.limits.bytes));
                return Err(Refusal::new(RefusalRule::TransferSize, why).into());
            }
            match packet {
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
        match &self.transport {
            Transport::Ssh(connection) => {
                let sent = connection.borrow_mut().write_all(&body);
                sent.map_err(|error| self.transport.explain(SourceError::Input(error), &self.url))?;
                Ok(Box::new(Shared(connection.clone())))
            }
            Transport::Http { network, url, authorization } => {
                let mut request = Request::new(Method::Post, format!("{url}/git-upload-pack"))
                    .header("content-type", "application/x-git-upload-pack-request")
                    .header("accept", "application/x-git-upload-pack-result")
                    .header(VERSION.0, VERSION.1)
                    .body(body);
                if let Some(authorization) = authorization {
                    request = request.header("authorization", authorization);
                }
                let response = network.send(&request)?;
                match (response.status, response.header("content-type")) {
                    (200, Some("application/x-git-upload-pack-result")) => Ok(response.body),
                    (200, _) => {
                        Err(network::problem(url, "the response is not one of a Git server"))
                    }
                    (status, _) => Err(network::failed(url, status)),
                }
            }
        }
    }
}

/// Asks a server for its capabilities. Uses the credentials of the operator if it requires some.
fn over_http<'a>(
    network: &'a dyn Network,
    url: &str,
) -> Result<(Transport<'a>, Box<dyn Read>), SourceError> {
    const QUERY: &str = "/info/refs?service=git-upload-pack";
    let request =
        || Request::new(Method::Get, format!("{url}{QUERY}")).header(VERSION.0, VERSION.1);
    let (mut end, mut response) = network::follow(network, request())?;
    let mut authorization = None;
    if response.status == 401
        && let Some(credential) = network.credential(&Login::Git(url))?
    {
        let value = credential.basic();
        let (first, authorized) =
            network::follow(network, request().header("authorization", &value))?;
        // A redirect to another server has dropped them, and they are not for it.
        authorization = (network::origin(&first) == network::origin(url)).then_some(value);
        (end, response) = (first, authorized);
    }
    match response.status {
        200 => {}
        status @ (401 | 403) => {
            return Err(SourceError::Network {
                url: url.to_owned(),
                why: format!("the server requires credentials (status {status})"),
                fix: Some(
                    "configure a helper in your Git configuration: git config --global credential.helper store"
                        .to_owned(),
                ),
            });
        }
        status => return Err(network::failed(url, status)),
    }
    let is_git =
        response.header("content-type") == Some("application/x-git-upload-pack-advertisement");
    match end.strip_suffix(QUERY).filter(|_| is_git) {
        Some(url) => {
            let url = url.to_owned();
            Ok((Transport::Http { network, url, authorization }, response.body))
        }
        None => Err(not_version_2(url)),
    }
}

fn over_ssh<'a>(
    network: &'a dyn Network,
    place: &SshPlace,
) -> Result<(Transport<'a>, Box<dyn Read>), SourceError> {
    // The path has no quotes: see the parser of sources.
    let connection = network.ssh(place, &format!("git-upload-pack '{}'", place.path))?;
    let connection = Rc::new(RefCell::new(connection));
    Ok((Transport::Ssh(connection.clone()), Box::new(Shared(connection))))
}

fn not_version_2(url: &str) -> SourceError {
    network::problem(
        url,
        "it is not a Git repository of a server that speaks version 2 of the protocol",
    )
}

impl Transport<'_> {
    /// Adds what `ssh` says to an error after which nothing more follows.
    fn explain(&self, error: SourceError, url: &str) -> SourceError {
        let Transport::Ssh(connection) = self else { return error };
        // The host has ended it, so `ssh` has nothing to say.
        if matches!(&error, SourceError::Input(error) if error.kind() == ErrorKind::TimedOut) {
            return error;
        }
        match connection.borrow_mut().failure() {
            Some(why) => network::problem(url, printable(&why)),
            None => match error {
                SourceError::Input(_) | SourceError::Refused(_) => {
                    network::problem(url, "the server closed the connection")
                }
                error => error,
            },
        }
    }
}

impl Drop for Transport<'_> {
    fn drop(&mut self) {
        if let Transport::Ssh(connection) = self {
            // No more commands follow. The server may be gone already.
            drop(connection.borrow_mut().write_all(FLUSH));
        }
    }
}

/// The output of a command on a connection that others follow on.
struct Shared(Rc<RefCell<Box<dyn Connection>>>);

impl Read for Shared {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().read(buffer)
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
