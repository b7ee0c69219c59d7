//! The text of a source, as people write it. Parsing does no I/O.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use crate::error::SourceError;

/// Where a skill comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The place.
    pub place: Place,
    /// The tag, branch or commit of a repository. Without one, its default branch.
    pub reference: Option<String>,
}

/// The place of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A folder or an archive on this machine, as written: absolute, below `~/`, or relative to the
    /// folder of the file that names it.
    Local(String),
    /// The `https://` URL of an archive. On loopback, `http://` is possible.
    Archive(String),
    /// The URL of a Git repository: `https://`, `ssh://` or `file://`, or `USER@HOST:PATH`. On
    /// loopback, `http://` is possible.
    Git(String),
    /// `oci://HOST/REPOSITORY`: a repository of an OCI registry.
    Oci(String),
    /// `s3://BUCKET/KEY`: an archive in the S3 store that is configured.
    S3(String),
    /// The `https://` URL of `/.well-known/agent-skills` of a server. On loopback, `http://` is
    /// possible.
    WellKnown(String),
    /// `mcp+https://HOST/PATH`: a server that has skills as resources of MCP. On loopback,
    /// `mcp+http://` is possible.
    Mcp(String),
}

impl Place {
    /// Returns the URL whose server is reached, for the operator's rules. `None` if that does not
    /// follow from the place: for this machine, and for the configured S3 store.
    pub fn server(&self) -> Option<String> {
        match self {
            Place::Local(_) | Place::S3(_) => None,
            Place::Archive(url) | Place::WellKnown(url) => Some(url.clone()),
            Place::Mcp(url) => url.strip_prefix("mcp+").map(str::to_owned),
            Place::Oci(url) => {
                let repository = url.strip_prefix("oci://").unwrap_or_default();
                let host = repository.split('/').next().unwrap_or_default();
                Some(format!("{}://{host}/", if is_loopback(host) { "http" } else { "https" }))
            }
            Place::Git(url) => match SshPlace::parse(url) {
                Some(place) => Some(place.server()),
                None => Some(url.clone()).filter(|url| !url.starts_with("file://")),
            },
        }
    }

    fn text(&self) -> &str {
        let (Place::Local(text)
        | Place::Archive(text)
        | Place::Git(text)
        | Place::Oci(text)
        | Place::S3(text)
        | Place::WellKnown(text)
        | Place::Mcp(text)) = self;
        text
    }
}

/// A repository that is reached over SSH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshPlace {
    /// The user on the server.
    pub user: Option<String>,
    /// The host: a name or an address, without brackets. Never starts with `-`.
    pub host: String,
    /// The port, if it is not the default one.
    pub port: Option<u16>,
    /// The path of the repository: absolute, or relative to the home folder there.
    pub path: String,
    /// Whether it is written as `USER@HOST:PATH`.
    is_short: bool,
}

impl SshPlace {
    /// Takes the place of a source apart. `None` if it is not reached over SSH.
    pub fn parse(place: &str) -> Option<SshPlace> {
        let user = |authority: &'_ str| match authority.split_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host.to_owned()),
            None => (None, authority.to_owned()),
        };
        let Some(rest) = place.strip_prefix("ssh://") else {
            let (authority, path) = place.split_once(':').filter(|_| !place.contains("://"))?;
            let (user, host) = user(authority);
            return Some(SshPlace {
                user,
                host,
                port: None,
                path: path.to_owned(),
                is_short: true,
            });
        };
        let (authority, path) = rest.split_once('/')?;
        let (user, host) = user(authority);
        let (host, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, rest)) => (address.to_owned(), rest.strip_prefix(':')),
            None => match host.split_once(':') {
                Some((host, port)) => (host.to_owned(), Some(port)),
                None => (host.clone(), None),
            },
        };
        let port = match port {
            Some(port) => Some(port.parse().ok()?),
            None => None,
        };
        let path = if path.starts_with('~') { path.to_owned() } else { format!("/{path}") };
        Some(SshPlace { user, host, port, path, is_short: false })
    }

    /// Returns the server as a URL, for the rules of the network.
    fn server(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("https://{host}:{}/", self.port.unwrap_or(22))
    }
}

impl fmt::Display for SshPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        if self.is_short {
            return write!(f, "{user}{}:{}", self.host, self.path);
        }
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "ssh://{user}{host}{port}/{}", self.path.trim_start_matches('/'))
    }
}

/// Checks whether a host, with or without a port, is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    matches!(host.split(':').next(), Some("localhost" | "127.0.0.1"))
        || host == "[::1]"
        || host.starts_with("[::1]:")
}

/// The ends of the names of archives.
const ARCHIVES: [&str; 5] = [".zip", ".tar.gz", ".tgz", ".tar.zst", ".tzst"];

/// Where a server lists its skills, by the draft for their discovery.
const WELL_KNOWN: &str = ".well-known/agent-skills";

/// How to write a source.
const FORMS: &str = "OWNER/REPO, https://HOST/REPO, git@HOST:REPO or file:///REPO, each with @TAG, @BRANCH or @COMMIT; https://HOST/FILE.tar.gz; oci://HOST/REPO:TAG; s3://BUCKET/FILE.tar.gz; https://HOST/.well-known/agent-skills/; mcp+https://HOST/PATH; ./FOLDER or ./FILE.zip";

impl Source {
    /// Returns what the place is called in a policy and in comparisons: the URL, or the absolute path
    /// of a folder or file. `base`: the folder that relative paths start at.
    pub fn identity(&self, base: &Path, home: &Path) -> String {
        match &self.place {
            Place::Local(_) => self.local(base, home).unwrap_or_default().display().to_string(),
            place => place.text().to_owned(),
        }
    }

    /// Returns the source as the file in `base` names it, for one that was typed in the folder `here`:
    /// what is below `base` relative to it, and everything else absolute.
    #[must_use]
    pub fn rebased(self, here: &Path, base: &Path) -> Source {
        let is_relative = |text: &str| !text.starts_with('/') && !text.starts_with("~/");
        match &self.place {
            Place::Local(text) if is_relative(text) => {
                let path = normal(&here.join(text));
                let text = match path.strip_prefix(base) {
                    Ok(rest) => format!("./{}", rest.display()),
                    Err(_) => path.display().to_string(),
                };
                Source { place: Place::Local(text), ..self }
            }
            _ => self,
        }
    }

    /// Returns the absolute path of a place on this machine.
    pub fn local(&self, base: &Path, home: &Path) -> Option<PathBuf> {
        let Place::Local(text) = &self.place else { return None };
        let path = match text.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => base.join(text),
        };
        Some(normal(&path))
    }
}

/// Removes `.` and `..` from a path by its text alone.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.place.text())?;
        let is_tag = |reference: &String| !reference.contains(':');
        let separator = match (&self.place, &self.reference) {
            (Place::Oci(_), Some(reference)) if is_tag(reference) => ':',
            _ => '@',
        };
        self.reference.iter().try_for_each(|reference| write!(f, "{separator}{reference}"))
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Source, SourceError> {
        parse(text).map_err(|(why, fix)| SourceError::Syntax {
            text: text.chars().take(200).collect(),
            why: why.to_owned(),
            fix: fix.to_owned(),
        })
    }
}

type Problem = (&'static str, &'static str);

fn parse(text: &str) -> Result<Source, Problem> {
    if text.is_empty() || text.len() > 2000 || text.starts_with('-') {
        return Err(("it is empty, too long, or starts with `-`", FORMS));
    }
    if text.chars().any(|char| char.is_control() || char.is_whitespace() && char != ' ') {
        return Err(("it contains a control character or a line break", FORMS));
    }
    let is_local = ["./", "../", "/", "~/"].iter().any(|start| text.starts_with(start));
    if is_local || matches!(text, "." | "..") {
        return Ok(Source { place: Place::Local(text.to_owned()), reference: None });
    }
    if text.contains(' ') || text.contains('\\') {
        return Err(("it contains a space or a backslash", "write a path with `./` before it"));
    }
    match text.split_once("://") {
        Some((scheme, rest)) => url(&scheme.to_ascii_lowercase(), rest),
        None => short(text),
    }
}

/// Parses `OWNER/REPO` or `USER@HOST:PATH`, with a reference.
fn short(text: &str) -> Result<Source, Problem> {
    if let Some((authority, path)) = text.split_once(':') {
        return over_ssh(authority, path);
    }
    let (place, reference) = split_reference(text)?;
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(['.', '-'])
            && name
                .chars()
                .all(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-'))
    };
    match place.split('/').collect::<Vec<_>>().as_slice() {
        [owner, repository] if is_name(owner) && is_name(repository) => {
            let repository = repository.strip_suffix(".git").unwrap_or(repository);
            let place = Place::Git(format!("https://github.com/{owner}/{repository}"));
            Ok(Source { place, reference })
        }
        _ => Err(("it is neither a URL nor OWNER/REPO", FORMS)),
    }
}

/// Parses `USER@HOST` and `PATH`, with a reference.
fn over_ssh(authority: &str, path: &str) -> Result<Source, Problem> {
    const FORM: &str = "git@HOST:PATH, or ssh://git@HOST:PORT/PATH";
    let (user, host) = authority.split_once('@').ok_or(("it names no user", FORM))?;
    let host = host.to_ascii_lowercase();
    check_user(user)?;
    check_host(&host)?;
    let (path, reference) = split_reference(path)?;
    let path = path.trim_end_matches('/');
    check_ssh_path(path)?;
    let place = format!("{user}@{host}:{path}");
    // A port would be the first part of the path.
    match host.contains([':', '[']) {
        true => Err(("the host is invalid", FORM)),
        false => Ok(Source { place: Place::Git(place), reference }),
    }
}

fn check_user(user: &str) -> Result<(), Problem> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
    match !user.is_empty() && !user.starts_with('-') && user.chars().all(is_plain) {
        true => Ok(()),
        false => Err(("the user is invalid", "ssh://git@HOST/PATH")),
    }
}

/// Checks a path that becomes an argument of a shell command on the server.
fn check_ssh_path(path: &str) -> Result<(), Problem> {
    let is_unsafe = |char: char| matches!(char, '\'' | '"' | '!' | '`' | '$' | ';' | '&' | '|');
    match path.is_empty() || path.starts_with('-') || path.contains(is_unsafe) {
        true => Err(("it names no repository, or the path is invalid", "ssh://git@HOST/PATH")),
        false => Ok(()),
    }
}

/// Parses `HOST/REPOSITORY`, with a tag or a digest.
fn oci(rest: &str) -> Result<Source, Problem> {
    const FORM: &str = "oci://HOST/REPOSITORY:TAG, or oci://HOST/REPOSITORY@sha256:DIGEST";
    let (host, path) = rest.split_once('/').ok_or(("it names no repository", FORM))?;
    let host = host.to_ascii_lowercase();
    check_host(&host)?;
    let (path, reference) = match path.split_once('@') {
        Some((path, digest)) => {
            let is_digest = digest
                .strip_prefix("sha256:")
                .is_some_and(|hex| hex.parse::<crate::digest::Digest>().is_ok());
            if !is_digest {
                return Err(("the digest is not sha256: and 64 hex digits in lower case", FORM));
            }
            (path, Some(digest))
        }
        None => match path.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (path, None),
        },
    };
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_plain)
            && part.ends_with(is_plain)
            && part.chars().all(|char| is_plain(char) || matches!(char, '.' | '_' | '-'))
    };
    if path.len() > 255 || !path.split('/').all(is_part) {
        return Err(("the repository is not in lower case, or has other characters", FORM));
    }
    let is_tag = |tag: &str| {
        let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
        tag.starts_with(is_word)
            && tag.len() <= 128
            && tag.chars().all(|char| is_word(char) || matches!(char, '.' | '-'))
    };
    if reference.is_some_and(|reference| !reference.contains(':') && !is_tag(reference)) {
        return Err(("the tag is invalid", FORM));
    }
    let place = Place::Oci(format!("oci://{host}/{path}"));
    Ok(Source { place, reference: reference.map(str::to_owned) })
}

/// Parses `BUCKET/KEY`.
fn s3(rest: &str) -> Result<Source, Problem> {
    const FORM: &str = "s3://BUCKET/FOLDER/FILE.tar.gz";
    let (bucket, key) = rest.split_once('/').ok_or(("it names no object", FORM))?;
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let is_bucket = (3..=63).contains(&bucket.len())
        && bucket.starts_with(is_plain)
        && bucket.chars().all(|char| is_plain(char) || matches!(char, '.' | '-'));
    if !is_bucket {
        return Err(("the bucket is invalid", FORM));
    }
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    if key.len() > 1024 || key.contains(['?', '#', '%']) || !key.split('/').all(is_name) {
        return Err(("the key is empty, too long, or has `..`, `%`, `?` or `#`", FORM));
    }
    match ARCHIVES.iter().any(|end| key.ends_with(end)) {
        true => Ok(Source { place: Place::S3(format!("s3://{bucket}/{key}")), reference: None }),
        false => Err(("the object is not an archive", FORM)),
    }
}

fn url(scheme: &str, rest: &str) -> Result<Source, Problem> {
    match scheme {
        "oci" => return oci(rest),
        "s3" => return s3(rest),
        _ => {}
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if scheme == "file" {
        if !authority.is_empty() || path.is_empty() {
            return Err(("a file URL names an absolute path", "file:///PATH/TO/REPOSITORY"));
        }
        let (path, reference) = split_reference(path)?;
        return Ok(Source { place: Place::Git(format!("file:///{path}")), reference });
    }
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let host = host.to_ascii_lowercase();
    check_host(&host)?;
    let (scheme, is_mcp) = match scheme.strip_prefix("mcp+") {
        Some(scheme @ ("https" | "http")) => (scheme, true),
        _ => (scheme, false),
    };
    let is_loopback = is_loopback(&host);
    let user = match (scheme, user) {
        ("https" | "http", Some(_)) => {
            return Err((
                "a URL must not contain credentials",
                "remove them; Git's credential helper and the Docker configuration are asked",
            ));
        }
        ("ssh", Some(user)) => {
            check_user(user)?;
            format!("{user}@")
        }
        _ => String::new(),
    };
    match scheme {
        "https" | "ssh" => {}
        "http" if is_loopback => {}
        "http" => {
            return Err(("it is not encrypted", "use https://; http:// works on loopback only"));
        }
        "git" => {
            return Err(("git:// is neither encrypted nor authenticated", "use https://"));
        }
        _ => return Err(("the scheme is not supported", FORMS)),
    }
    if path.is_empty() || path.contains(['?', '#']) {
        return Err(("it has no path, or a query", FORMS));
    }
    if path.split('/').any(|name| matches!(name, "." | "..")) {
        return Err(("its path contains `..`", FORMS));
    }
    if is_mcp {
        return match path.contains('@') {
            true => Err(("what an MCP server has is not versioned", "mcp+https://HOST/PATH")),
            false => Ok(Source {
                place: Place::Mcp(format!("mcp+{scheme}://{host}/{path}")),
                reference: None,
            }),
        };
    }
    let directory = path.strip_suffix("/index.json").unwrap_or(path).trim_end_matches('/');
    if scheme != "ssh" && directory == WELL_KNOWN {
        let place = Place::WellKnown(format!("{scheme}://{host}/{WELL_KNOWN}"));
        return Ok(Source { place, reference: None });
    }
    if scheme != "ssh" && ARCHIVES.iter().any(|end| path.ends_with(end)) {
        return Ok(Source {
            place: Place::Archive(format!("{scheme}://{host}/{path}")),
            reference: None,
        });
    }
    let (path, reference) = split_reference(path)?;
    let path = path.trim_end_matches('/');
    let path = if scheme == "ssh" { path } else { path.strip_suffix(".git").unwrap_or(path) };
    if scheme == "ssh" {
        check_ssh_path(path)?;
    }
    if path.is_empty() || path.starts_with('-') {
        return Err(("it names no repository", FORMS));
    }
    Ok(Source { place: Place::Git(format!("{scheme}://{user}{host}/{path}")), reference })
}

/// A host never looks like an option of `ssh`.
fn check_host(host: &str) -> Result<(), Problem> {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
            if !is_address {
                return Err(("the host is invalid", FORMS));
            }
            ("v6", rest.strip_prefix(':'))
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
    let is_name = !name.is_empty() && !name.starts_with(['-', '.']) && name.chars().all(is_plain);
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    if is_name && is_port { Ok(()) } else { Err(("the host or the port is invalid", FORMS)) }
}

/// Splits `PATH@REFERENCE`. The reference starts after the first `@`.
fn split_reference(text: &str) -> Result<(&str, Option<String>), Problem> {
    match text.split_once('@') {
        None => Ok((text, None)),
        Some((place, reference)) if is_reference(reference) => {
            Ok((place, Some(reference.to_owned())))
        }
        Some(_) => Err(("the tag, branch or commit after `@` is invalid", "PLACE@TAG")),
    }
}

/// Checks a name by the rules of `git check-ref-format`.
pub fn is_reference(name: &str) -> bool {
    let is_forbidden = |char: char| {
        char.is_control() || matches!(char, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\')
    };
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    !name.is_empty()
        && name.len() <= 250
        && !name.starts_with('-')
        && !name.ends_with('.')
        && name != "@"
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(is_forbidden)
        && name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sources_have_one_canonical_text() {
        let cases = [
            ("anthropics/skills", "https://github.com/anthropics/skills"),
            ("anthropics/skills@v1.2", "https://github.com/anthropics/skills@v1.2"),
            ("a/b.git@feature/x", "https://github.com/a/b@feature/x"),
            ("https://GitLab.com/g/s/r.git", "https://gitlab.com/g/s/r"),
            ("https://host:8443/r@0123abc", "https://host:8443/r@0123abc"),
            ("ssh://git@host:22/r.git@main", "ssh://git@host:22/r.git@main"),
            ("ssh://git@[::1]:22/~/r@v1", "ssh://git@[::1]:22/~/r@v1"),
            ("git@Host:owner/r.git@v1", "git@host:owner/r.git@v1"),
            ("file:///srv/r@v1", "file:///srv/r@v1"),
            ("oci://Host:5000/a/b-c:v1.2", "oci://host:5000/a/b-c:v1.2"),
            ("oci://host/a", "oci://host/a"),
            ("s3://my-bucket/a/b.tar.gz", "s3://my-bucket/a/b.tar.gz"),
            (
                "https://HOST/.well-known/agent-skills/index.json",
                "https://host/.well-known/agent-skills",
            ),
            ("https://host/.well-known/agent-skills/", "https://host/.well-known/agent-skills"),
            ("mcp+https://host/mcp", "mcp+https://host/mcp"),
            ("mcp+http://127.0.0.1:80/mcp", "mcp+http://127.0.0.1:80/mcp"),
            ("http://127.0.0.1:80/r", "http://127.0.0.1:80/r"),
            ("http://[::1]:80/r", "http://[::1]:80/r"),
            ("https://host/a/b.tar.zst", "https://host/a/b.tar.zst"),
            ("./skills/x@1", "./skills/x@1"),
            ("~/my skills.zip", "~/my skills.zip"),
        ];
        for (text, expected) in cases {
            let source: Source = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(source.to_string(), expected);
            assert_eq!(expected.parse::<Source>().unwrap(), source, "{expected}");
        }
    }

    #[test]
    fn unsafe_sources_are_refused() {
        let cases = [
            "",
            "-oProxyCommand=x/y",
            "--upload-pack=x/y",
            "http://host/r",
            "git://host/r",
            "ftp://host/r",
            "ext::sh -c x",
            "host:r",
            "-oProxyCommand=x@host:r",
            "git@-oProxyCommand=x:r",
            "git@host:-r",
            "git@host:",
            "git@host:a'b",
            "git@host:$(x)",
            "ssh://host/a'b",
            "oci://host",
            "oci://host/A",
            "oci://host/a//b",
            "oci://host/../b",
            "oci://-host/a",
            "oci://host/a:",
            "oci://host/a:-x",
            "oci://host/a@sha256:00",
            "oci://host/a@v1",
            "oci://user:password@host/a",
            "s3://b/a.zip",
            "s3://bucket/a",
            "s3://bucket/../a.zip",
            "s3://bucket/a.zip?x",
            "mcp+http://host/mcp",
            "mcp+ftp://host/mcp",
            "mcp+https://host/mcp?x",
            "mcp+https://user:password@host/mcp",
            "https://user:password@host/r",
            "https://host",
            "https://host/r?x",
            "https://host/../r",
            "https:///r",
            "ssh://-oProxyCommand=x/r",
            "ssh://-u@host/r",
            "ssh://host/-r",
            "ssh://host:0/r",
            "ssh://host:x/r",
            "https://[::1/r",
            "https://[x]/r",
            "file://host/r",
            "file://",
            "name",
            "a/b/c",
            "a/..",
            "a/b@-x",
            "a/b@x..y",
            "a/b@",
            "a/b@x^{commit}",
            "a b/c",
            "https://host/a b",
            "a/b\nc",
        ];
        for text in cases {
            let error = text.parse::<Source>().expect_err(text);
            assert!(matches!(error, SourceError::Syntax { .. }) && error.fix().is_some(), "{text}");
        }
    }

    #[test]
    fn places_have_servers() {
        let digest = format!("oci://ghcr.io/a/b@sha256:{}", "0".repeat(64));
        let cases = [
            ("./x", None),
            ("file:///r", None),
            ("s3://bucket/a.zip", None),
            ("a/b@main", Some("https://github.com/a/b")),
            ("git@host:r", Some("https://host:22/")),
            ("ssh://git@[::1]:2222/r", Some("https://[::1]:2222/")),
            ("oci://localhost:5000/a", Some("http://localhost:5000/")),
            (&digest, Some("https://ghcr.io/")),
            ("mcp+https://host/mcp", Some("https://host/mcp")),
        ];
        for (text, expected) in cases {
            let source: Source = text.parse().unwrap();
            assert_eq!(source.place.server().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn places_that_are_reached_over_ssh_are_taken_apart() {
        let parse = |text: &str| {
            let SshPlace { user, host, port, path, .. } = SshPlace::parse(text)?;
            Some((user.unwrap_or_default(), host, port, path))
        };
        let place = |user: &str, host: &str, port, path: &str| {
            Some((user.to_owned(), host.to_owned(), port, path.to_owned()))
        };
        assert_eq!(parse("git@host:owner/r.git"), place("git", "host", None, "owner/r.git"));
        assert_eq!(parse("ssh://host/srv/r"), place("", "host", None, "/srv/r"));
        assert_eq!(parse("ssh://git@[::1]:22/~/r"), place("git", "::1", Some(22), "~/r"));
        assert_eq!(parse("https://host/r"), None);
        for text in ["git@host:owner/r.git", "ssh://host/srv/r", "ssh://git@[::1]:22/~/r"] {
            assert_eq!(SshPlace::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn local_places_are_absolute() {
        let local = |text: &str| {
            text.parse::<Source>().unwrap().identity(Path::new("/project"), Path::new("/home/u"))
        };
        assert_eq!(local("./a/../b"), "/project/b");
        assert_eq!(local("~/x.zip"), "/home/u/x.zip");
        assert_eq!(local("/srv/./x"), "/srv/x");
        assert_eq!(local("../../../x"), "/x");
    }

    #[test]
    fn typed_paths_are_relative_to_the_file_that_names_them() {
        let rebased = |text: &str, base: &str| {
            let source: Source = text.parse().unwrap();
            source.rebased(Path::new("/work/here"), Path::new(base)).to_string()
        };
        assert_eq!(rebased("./a", "/work"), "./here/a");
        assert_eq!(rebased("../a", "/work"), "./a");
        assert_eq!(rebased("./a", "/home/.config"), "/work/here/a");
        assert_eq!(rebased("~/a", "/work"), "~/a");
        assert_eq!(rebased("/a", "/"), "/a");
        assert_eq!(rebased("owner/repo", "/work"), "https://github.com/owner/repo");
    }

    proptest! {
        #[test]
        fn canonical_text_is_parsed_to_the_same_source(text in "(oci://|s3://|mcp\\+https://|ssh://|https://)?[a-z./:@~-]{0,24}") {
            if let Ok(source) = text.parse::<Source>() {
                prop_assert_eq!(source.to_string().parse::<Source>().ok(), Some(source));
            }
        }
    }
}
