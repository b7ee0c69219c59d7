//! The patterns in entries of `allowed-tools`, `allow` and `deny`: paths, commands and hosts.
//!
//! The sandbox enforces `matches` of each pattern. `covers` and `overlaps` compare two patterns.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use super::glob::PathGlob;
use super::program_name::{canonical_name, script_interpreter};
use crate::outcome::{Denial, DenialKind};

/// A pattern for command lines: the first words, and whether more may follow.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CommandPattern {
    /// The words at the start of the command line, the program's name first. Empty for any command.
    pub words: Vec<String>,
    /// Whether further arguments may follow.
    pub open: bool,
}

impl CommandPattern {
    /// Returns the pattern for any program with any arguments.
    pub fn any() -> CommandPattern {
        CommandPattern { words: Vec::new(), open: true }
    }

    /// Checks whether a command line matches. A program that is started by a path matches by its
    /// file name, unless the pattern has a path itself.
    pub fn matches(&self, argv: &[String]) -> bool {
        if argv.is_empty() || argv.len() < self.words.len() {
            return false;
        }
        let mut pairs = self.words.iter().zip(argv);
        let program =
            pairs.next().is_none_or(|(word, given)| word == given || word == file_name(given));
        program
            && pairs.all(|(word, given)| word == given)
            && (self.open || argv.len() == self.words.len())
    }

    /// Checks whether a denial of this pattern applies to a command line, under any program alias.
    pub fn denies(&self, argv: &[String]) -> bool {
        let Some((program, words)) = self.words.split_first() else { return true };
        let Some((given, args)) = argv.split_first() else { return false };
        canonical_name(program) == canonical_name(given)
            && args.starts_with(words)
            && (self.open || args.len() == words.len())
    }

    /// Returns the denial to record for a command line that this pattern denied.
    pub fn denial(&self, argv: &[String]) -> Denial {
        let command: String = argv.join(" ").chars().take(200).collect();
        Denial {
            what: format!("start `{command}`"),
            rule: format!("the policy denies `{self}`"),
            fix: None,
            kind: DenialKind::DeniedProgram(Box::new(self.clone())),
        }
    }

    /// Checks whether a denial of this pattern applies to every command that `other` matches.
    pub fn denies_all(&self, other: &CommandPattern) -> bool {
        let Some(program) = self.words.first() else { return true };
        let named = CommandPattern { words: vec![program.clone()], open: true };
        let covered = *self == named && named.denies(&other.words);
        covered || self.covers(other)
    }

    /// Checks whether a denial of this pattern may apply to some command that `other` matches. A
    /// script also counts as its interpreter.
    pub fn denies_some(&self, other: &CommandPattern) -> bool {
        let Some((program, _)) = other.words.split_first() else { return true };
        let starts = |name: &str| {
            self.words.first().is_none_or(|word| canonical_name(word) == canonical_name(name))
        };
        starts(program) || script_interpreter(program).is_some_and(starts)
    }

    /// Checks whether this pattern matches every command that `other` matches.
    pub fn covers(&self, other: &CommandPattern) -> bool {
        let long_enough =
            if self.open { self.words.len() <= other.words.len() } else { *self == *other };
        let mut pairs = self.words.iter().zip(&other.words);
        let program =
            pairs.next().is_none_or(|(mine, theirs)| mine == theirs || mine == file_name(theirs));
        long_enough && program && pairs.all(|(mine, theirs)| mine == theirs)
    }

    /// Checks whether some command may match both patterns.
    pub fn overlaps(&self, other: &CommandPattern) -> bool {
        let lengths = match self.words.len().cmp(&other.words.len()) {
            std::cmp::Ordering::Less => self.open,
            std::cmp::Ordering::Equal => true,
            std::cmp::Ordering::Greater => other.open,
        };
        let mut pairs = self.words.iter().zip(&other.words);
        let program = pairs.next().is_none_or(|(a, b)| file_name(a) == file_name(b));
        lengths && program && pairs.all(|(a, b)| a == b)
    }
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

impl fmt::Display for CommandPattern {
    /// Prints the pattern as an entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.words.is_empty(), self.open) {
            (true, _) => f.write_str("Bash"),
            (false, true) => write!(f, "Bash({}:*)", self.words.join(" ")),
            (false, false) => write!(f, "Bash({})", self.words.join(" ")),
        }
    }
}

/// A pattern for the destinations of HTTP requests.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct HostPattern {
    /// The host names that match.
    pub host: HostName,
    /// The port. `None` means the default port of the scheme, or any port if the host is any.
    /// [`EVERY_PORT`] is for denials without a port.
    pub port: Option<u16>,
    /// Whether plain HTTP matches too, and not only HTTPS.
    pub plain: bool,
    /// Whether private, loopback and link-local addresses match. An operator's `allow` matches them
    /// only if it names such an address or `localhost` itself. Requests and denials always do.
    pub private: bool,
}

/// The value that stands for all ports: `deny: [WebFetch(domain:example.com)]` denies every port.
/// No request goes to port 0.
pub const EVERY_PORT: u16 = 0;

/// The host of a pattern.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HostName {
    /// Every host.
    Any,
    /// Exactly this name or address, in lower case, without a trailing dot. An IPv6 address has no
    /// brackets.
    Exact(String),
    /// Every subdomain of this name, but not the name itself: `example.com` for `*.example.com`.
    Below(String),
}

/// The normalized destination of an HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// `https`, else `http`.
    pub https: bool,
    /// The host in lower case, without a trailing dot or brackets.
    pub host: String,
    /// The port, explicit or the default of the scheme.
    pub port: u16,
}

impl HostPattern {
    /// Checks whether a destination matches. The HTTP sender checks the resolved address against
    /// `private`.
    pub fn matches(&self, to: &Destination) -> bool {
        self.host.matches(&to.host)
            && self.schemes().any(|d| d.covers(SchemePort { https: to.https, port: Some(to.port) }))
    }

    /// Returns why a destination does not match, or `None` if it does.
    pub fn mismatch(&self, to: &Destination) -> Option<Mismatch> {
        match () {
            () if self.matches(to) => None,
            () if !self.host.matches(&to.host) => Some(Mismatch::Host),
            () if !self.schemes().any(|scheme| scheme.https == to.https) => Some(Mismatch::Scheme),
            () => Some(Mismatch::Port),
        }
    }

    /// Checks whether this pattern matches every request that `other` matches, including requests to
    /// private addresses.
    pub fn covers(&self, other: &HostPattern) -> bool {
        let host = match (&self.host, &other.host) {
            (HostName::Any, _) => true,
            (HostName::Exact(_), HostName::Any | HostName::Below(_))
            | (HostName::Below(_), HostName::Any) => false,
            (_, HostName::Exact(name)) => self.host.matches(name),
            (HostName::Below(mine), HostName::Below(theirs)) => {
                mine == theirs || self.host.matches(theirs)
            }
        };
        let address = self.private || !other.names_private();
        host && address
            && other.schemes().all(|theirs| self.schemes().any(|mine| mine.covers(theirs)))
    }

    /// Checks whether some request may match both patterns.
    pub fn overlaps(&self, other: &HostPattern) -> bool {
        let host = match (&self.host, &other.host) {
            (HostName::Any, _) | (_, HostName::Any) => true,
            (mine, HostName::Exact(name)) => mine.matches(name),
            (HostName::Exact(name), theirs) => theirs.matches(name),
            (HostName::Below(a), HostName::Below(b)) => {
                a == b || self.host.matches(b) || other.host.matches(a)
            }
        };
        let address =
            (self.private || !other.names_private()) && (other.private || !self.names_private());
        host && address
            && other
                .schemes()
                .any(|theirs| self.schemes().any(|mine| mine.covers(theirs) || theirs.covers(mine)))
    }

    /// Checks whether the pattern names a private address or `localhost`.
    fn names_private(&self) -> bool {
        matches!(&self.host, HostName::Exact(name) if name == "localhost" || name.parse().is_ok_and(is_private))
    }

    /// Returns the pairs of scheme and port that match.
    fn schemes(&self) -> impl Iterator<Item = SchemePort> {
        let port = |own: u16| match (self.port, &self.host) {
            (Some(EVERY_PORT), _) | (None, HostName::Any) => None,
            (Some(port), _) => Some(port),
            (None, _) => Some(own),
        };
        let https = SchemePort { https: true, port: port(443) };
        let plain = SchemePort { https: false, port: port(80) };
        std::iter::once(https).chain(self.plain.then_some(plain))
    }
}

/// The first part of a destination that does not match. A higher value is a closer match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// The host differs.
    Host,
    /// The host matches. The scheme is `http`, which the pattern does not match.
    Scheme,
    /// Host and scheme match, but the port differs.
    Port,
}

/// A scheme and a port; `None` means every port.
#[derive(Clone, Copy)]
struct SchemePort {
    https: bool,
    port: Option<u16>,
}

impl SchemePort {
    fn covers(self, other: SchemePort) -> bool {
        self.https == other.https && (self.port.is_none() || self.port == other.port)
    }
}

impl HostName {
    /// Checks whether a host name or address matches. `::ffff:127.0.0.1` equals `127.0.0.1`.
    fn matches(&self, host: &str) -> bool {
        match self {
            HostName::Any => true,
            HostName::Exact(name) if name == host => true,
            HostName::Exact(name) => match (name.parse::<IpAddr>(), host.parse::<IpAddr>()) {
                (Ok(mine), Ok(theirs)) => mine.to_canonical() == theirs.to_canonical(),
                _ => false,
            },
            HostName::Below(parent) => host
                .strip_suffix(parent.as_str())
                .is_some_and(|sub| sub.len() > 1 && sub.ends_with('.')),
        }
    }
}

/// Checks whether an address belongs to this machine or its local network: private, shared,
/// loopback, link-local or unspecified by RFC 6890.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_unspecified()
                || shared
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
        }
    }
}
