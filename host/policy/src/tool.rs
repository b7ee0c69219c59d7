//! The patterns that entries of `allowed-tools` (and of a policy's `allow` and `deny`) are made of:
//! paths, commands and hosts.
//!
//! Each has `matches`, which the sandbox enforces, and `covers` and `overlaps`, which tell how two
//! sides meet.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use super::glob::PathGlob;
use super::program_name::{canonical, script_interpreter};
use crate::outcome::{Denial, DenialKind};

/// A command: its first words, and whether more may follow.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CommandPattern {
    /// The words that argv starts with; the first is the program's name. Empty: any command.
    pub words: Vec<String>,
    /// Whether further arguments may follow.
    pub open: bool,
}

impl CommandPattern {
    /// Any program with any arguments.
    pub fn any() -> CommandPattern {
        CommandPattern { words: Vec::new(), open: true }
    }

    /// Whether an argv matches. A program named by a path matches by its file name, unless the
    /// pattern names a path itself.
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

    /// Whether a denial of this stops an argv: the program is compared under all its names.
    pub fn denies(&self, argv: &[String]) -> bool {
        let Some((program, words)) = self.words.split_first() else { return true };
        let Some((given, args)) = argv.split_first() else { return false };
        canonical(program) == canonical(given)
            && args.starts_with(words)
            && (self.open || args.len() == words.len())
    }

    /// What a denial of this is noted as, for a command that it stopped.
    pub fn denial(&self, argv: &[String]) -> Denial {
        let command: String = argv.join(" ").chars().take(200).collect();
        Denial {
            what: format!("start `{command}`"),
            rule: format!("the policy denies `{self}`"),
            fix: None,
            kind: DenialKind::Program,
        }
    }

    /// Whether a denial of this stops every command of `other`.
    pub fn denies_all(&self, other: &CommandPattern) -> bool {
        let Some(program) = self.words.first() else { return true };
        let named = CommandPattern { words: vec![program.clone()], open: true };
        let covered = *self == named && named.denies(&other.words);
        covered || self.covers(other)
    }

    /// Whether a denial of this may stop some command of `other`: a script runs by its interpreter.
    pub fn denies_some(&self, other: &CommandPattern) -> bool {
        let Some((program, _)) = other.words.split_first() else { return true };
        let starts =
            |name: &str| self.words.first().is_none_or(|word| canonical(word) == canonical(name));
        starts(program) || script_interpreter(program).is_some_and(starts)
    }

    /// Whether every command of `other` matches here.
    pub fn covers(&self, other: &CommandPattern) -> bool {
        let long_enough =
            if self.open { self.words.len() <= other.words.len() } else { *self == *other };
        let mut pairs = self.words.iter().zip(&other.words);
        let program =
            pairs.next().is_none_or(|(mine, theirs)| mine == theirs || mine == file_name(theirs));
        long_enough && program && pairs.all(|(mine, theirs)| mine == theirs)
    }

    /// Whether some command may match both.
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
    /// As an entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.words.is_empty(), self.open) {
            (true, _) => f.write_str("Bash"),
            (false, true) => write!(f, "Bash({}:*)", self.words.join(" ")),
            (false, false) => write!(f, "Bash({})", self.words.join(" ")),
        }
    }
}

/// Hosts that may be asked.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct HostPattern {
    /// Which names.
    pub host: HostName,
    /// The port; `None` is the scheme's own (any port where the host is any), [`EVERY_PORT`] is
    /// what a denial without a port means.
    pub port: Option<u16>,
    /// Whether plain `http` will do; else HTTPS alone.
    pub plain: bool,
    /// Whether this side agrees to private, loopback and link-local addresses. The operator's side
    /// does only for an entry that names such an address, or `localhost`, itself; the skill's side
    /// and a denial always do.
    pub private: bool,
}

/// Stands for all ports: `deny: [WebFetch(domain:example.com)]` means the host, wherever it
/// listens. No request goes to port 0.
pub const EVERY_PORT: u16 = 0;

/// The host part of a pattern.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HostName {
    /// Every host.
    Any,
    /// Exactly this name or address, lower case, without a trailing dot; an IPv6 address without
    /// brackets.
    Exact(String),
    /// Every name below this one (`*.example.com` holds `example.com` here), not the name itself.
    Below(String),
}

/// Where a request goes, as the sender has normalised it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `https`, else `http`.
    pub https: bool,
    /// Lower case, without a trailing dot or brackets.
    pub host: String,
    /// The port, explicit or the scheme's own.
    pub port: u16,
}

impl HostPattern {
    /// Whether a request may go there. Which address the name resolves to is the sender's to check
    /// against `private`.
    pub fn matches(&self, to: &Target) -> bool {
        self.host.matches(&to.host)
            && self.doors().any(|d| d.covers(Door { https: to.https, port: Some(to.port) }))
    }

    /// What keeps a request from matching, if anything does.
    pub fn mismatch(&self, to: &Target) -> Option<Mismatch> {
        match () {
            () if self.matches(to) => None,
            () if !self.host.matches(&to.host) => Some(Mismatch::Host),
            () if !self.doors().any(|door| door.https == to.https) => Some(Mismatch::Scheme),
            () => Some(Mismatch::Port),
        }
    }

    /// Whether every request that `other` matches matches here, private addresses included.
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
        host && address && other.doors().all(|theirs| self.doors().any(|mine| mine.covers(theirs)))
    }

    /// Whether some request may match both.
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
                .doors()
                .any(|theirs| self.doors().any(|mine| mine.covers(theirs) || theirs.covers(mine)))
    }

    /// Whether the pattern itself names an address, or the name, of this machine or its network.
    fn names_private(&self) -> bool {
        matches!(&self.host, HostName::Exact(name) if name == "localhost" || name.parse().is_ok_and(is_private))
    }

    /// The pairs of scheme and port that the pattern opens.
    fn doors(&self) -> impl Iterator<Item = Door> {
        let port = |own: u16| match (self.port, &self.host) {
            (Some(EVERY_PORT), _) | (None, HostName::Any) => None,
            (Some(port), _) => Some(port),
            (None, _) => Some(own),
        };
        let https = Door { https: true, port: port(443) };
        let plain = Door { https: false, port: port(80) };
        std::iter::once(https).chain(self.plain.then_some(plain))
    }
}

/// What a request and a pattern do not have in common: the further down, the nearer they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// The host.
    Host,
    /// The host alone is as the pattern says; the scheme is `http`, which the pattern does not let
    /// through.
    Scheme,
    /// Host and scheme are; the port is not.
    Port,
}

/// A scheme and its port; `None` is every port.
#[derive(Clone, Copy)]
struct Door {
    https: bool,
    port: Option<u16>,
}

impl Door {
    fn covers(self, other: Door) -> bool {
        self.https == other.https && (self.port.is_none() || self.port == other.port)
    }
}

impl HostName {
    /// Whether a host's name, or address, is meant. `::ffff:127.0.0.1` is `127.0.0.1`.
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

/// Whether an address belongs to this machine or its own network (RFC 6890: private, shared,
/// loopback, link-local, unspecified).
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
