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
    /// The URL of a Git repository: `https://`, `ssh://` or `file://`. On loopback, `http://` is
    /// possible.
    Git(String),
}

/// The ends of the names of archives.
const ARCHIVES: [&str; 5] = [".zip", ".tar.gz", ".tgz", ".tar.zst", ".tzst"];

/// How to write a source.
const FORMS: &str = "OWNER/REPO, https://HOST/REPO, file:///REPO, each with @TAG, @BRANCH or @COMMIT; https://HOST/FILE.tar.gz; ./FOLDER or ./FILE.zip";

impl Source {
    /// Returns what the place is called in a policy and in comparisons: the URL, or the absolute path
    /// of a folder or file. `base`: the folder that relative paths start at.
    pub fn identity(&self, base: &Path, home: &Path) -> String {
        match &self.place {
            Place::Local(_) => self.local(base, home).unwrap_or_default().display().to_string(),
            Place::Archive(url) | Place::Git(url) => url.clone(),
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
        let (Place::Local(place) | Place::Archive(place) | Place::Git(place)) = &self.place;
        f.write_str(place)?;
        self.reference.iter().try_for_each(|reference| write!(f, "@{reference}"))
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

/// Parses `OWNER/REPO`, with a reference.
fn short(text: &str) -> Result<Source, Problem> {
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
        _ if text.contains(':') => {
            Err(("it is not a URL", "write `git@HOST:PATH` as `https://HOST/PATH`"))
        }
        _ => Err(("it is neither a URL nor OWNER/REPO", FORMS)),
    }
}

fn url(scheme: &str, rest: &str) -> Result<Source, Problem> {
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
    let is_loopback = matches!(host.split(':').next(), Some("localhost" | "127.0.0.1"))
        || host.starts_with("[::1]");
    let user = match (scheme, user) {
        ("https" | "http", Some(_)) => {
            return Err((
                "a URL must not contain credentials",
                "only what is public is fetched over https://; clone it and use file:///PATH",
            ));
        }
        ("ssh", Some(user)) => {
            let is_plain =
                |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
            if user.is_empty() || user.starts_with('-') || !user.chars().all(is_plain) {
                return Err(("the user is invalid", "ssh://git@HOST/PATH"));
            }
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
    if scheme != "ssh" && ARCHIVES.iter().any(|end| path.ends_with(end)) {
        return Ok(Source {
            place: Place::Archive(format!("{scheme}://{host}/{path}")),
            reference: None,
        });
    }
    let (path, reference) = split_reference(path)?;
    let path = path.trim_end_matches('/');
    let path = if scheme == "ssh" { path } else { path.strip_suffix(".git").unwrap_or(path) };
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
            ("file:///srv/r@v1", "file:///srv/r@v1"),
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
            "git@host:r",
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
        fn canonical_text_is_parsed_to_the_same_source(text in "[a-z./:@~-]{0,24}") {
            if let Ok(source) = text.parse::<Source>() {
                prop_assert_eq!(source.to_string().parse::<Source>().ok(), Some(source));
            }
        }
    }
}
