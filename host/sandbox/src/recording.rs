//! A recording: everything that came to a run from outside, in a folder, so that it can be run
//! again with nothing else.
//!
//! Chance and time are two numbers (a recorded run is a deterministic one), what programs gave each
//! other follows from those, and so what is kept is the skill, the input and the answers of the
//! network. In reading order: the form of `recording.json` is here, `folder` writes and reads it,
//! `keep` takes in files as they are read, `seal` keeps secrets out, `vault` encrypts those that
//! this host may have again, `tape` records and answers requests, `scene` makes the recorded
//! folders again.
//!
//! What is read back is a stranger's: bounded, checked against its digests, and used whole or not
//! at all.

pub mod folder;
pub mod keep;
pub mod scene;
pub mod seal;
pub mod tape;
pub mod vault;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use skillhost_policy::outcome::uses::GrantUse;
use skillhost_policy::outcome::{Output, Status};

/// The version of the recording's form.
pub const VERSION: u32 = 1;

/// What `recording.json` holds. Numbers above 2^53 - 1 are strings, as RFC 8785 needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The form of this recording: 1.
    pub version: u32,
    /// The name of the skill's folder.
    pub skill: String,
    /// What of the skill ran.
    pub target: Target,
    /// The arguments.
    pub arguments: Vec<String>,
    /// What the run stood on: host, engine, and the digests of the built-in programs.
    pub runtime: Runtime,
    /// The digest of the policy, as in a receipt.
    pub policy: String,
    /// What the run was allowed, as in a receipt. Seed and start time are in `determinism`.
    pub capabilities: Value,
    /// The operator's variables. The values of secret ones are placeholders.
    pub environment: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: Digested,
    /// Folders as the guest found them.
    pub folders: Vec<Folder>,
    /// HTTP requests that left the host, in order, and what came back.
    pub exchanges: Vec<Exchange>,
    /// How the run ended.
    pub status: Status,
    /// The receipt, where the run came to a result. The digests of secret variables are
    /// placeholders.
    pub receipt: Option<Value>,
    /// What the run used of its grants, for `check --used`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<GrantUse>,
    /// What stands for secrets.
    pub sealed: Sealed,
    /// Digest of each file under `blobs/` that stands for other bytes, since these hold a secret:
    /// by the digest of those.
    pub blobs: BTreeMap<String, String>,
    /// Over all of this but itself, as canonical JSON (RFC 8785). `None` once it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What of a skill ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Target {
    /// Its component's command, or its only script.
    Main,
    /// The script or tool of that name.
    Named {
        /// As it was named.
        name: String,
    },
    /// A typed tool.
    Tool {
        /// Its name.
        name: String,
        /// Its input, a JSON text.
        input: String,
    },
    /// A text for the shell.
    Shell {
        /// The text.
        text: String,
    },
}

/// What a run stood on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// The host and its version.
    pub host: String,
    /// The engine and its version.
    pub engine: String,
    /// Over what of the engine decides the result.
    pub fingerprint: String,
    /// The built-in programs that it could start, by name: their digests.
    pub programs: BTreeMap<String, String>,
}

/// Bytes that are known by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Digested {
    /// How many.
    pub bytes: u64,
    /// Their digest, and where they are kept the name of their file under `blobs/`, without
    /// `sha256:`.
    pub digest: String,
}

/// A folder that the guest found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Folder {
    /// Its guest path.
    pub guest: String,
    /// What was in it, by path: a folder comes before what is in it.
    pub entries: Vec<Entry>,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Entry {
    /// Its path in the folder.
    pub path: String,
    /// What it was.
    #[serde(flatten)]
    pub kind: EntryKind,
}

/// What an entry was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EntryKind {
    /// A file.
    File {
        /// Bytes.
        bytes: u64,
        /// Their digest.
        digest: String,
        /// Whether the run read it, so that its content is kept.
        kept: bool,
        /// Whether the user that ran it could write to it.
        writable: bool,
        /// A number that all names of one file have, where it has several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        names: Option<u64>,
    },
    /// A folder.
    Folder {
        /// Whether the user that ran it could write to it.
        writable: bool,
        /// Whether it held what guests are not shown.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hides: bool,
    },
    /// A symlink; where it leads is `None` for a place of the host.
    Link {
        /// Where it leads, as written.
        target: Option<String>,
        /// Bytes of that.
        bytes: u64,
    },
    /// A device, a FIFO or a socket, which guests see and cannot open.
    Other,
}

/// A request that left the host, and what came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The request.
    pub request: Asked,
    /// What came back: a response, or why there was none.
    pub response: Answer,
    /// Nanoseconds that it took, by which the run's clock was moved.
    pub took: u64,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// All of the URL.
    pub url: String,
    /// Its fields, in order.
    pub headers: Vec<Header>,
    /// Its body, which is not kept.
    pub body: Digested,
    /// Fields after the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<Header>,
}

/// A field of a request or a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Lower case.
    pub name: String,
    /// Its value; of a request's secret one the salted digest, in `secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Output>,
    /// Over the salt and the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The response's head; `None` where none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Why there is no response, or no more of it, as the host names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// Its fields, in order.
    pub headers: Vec<Header>,
    /// Its body.
    pub body: Digested,
    /// Fields after the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<Header>,
}

/// What stands for secrets: `{{secret:SALT:NAME}}`, wherever a value stood.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// By chance, for each recording anew: 32 hex digits.
    pub salt: String,
    /// The secrets that a replay asks for, by name: the SHA-256 of `skillhost secret 1`, the salt
    /// and the value.
    pub secrets: BTreeMap<String, String>,
    /// Names of header fields whose values are stored by digest, lower case.
    pub headers: Vec<String>,
    /// Values of secrets, encrypted under a key that stays on the recording host, which has them
    /// again by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
}

impl Digested {
    /// Of some bytes.
    pub fn of(bytes: &[u8]) -> Digested {
        Digested { bytes: bytes.len() as u64, digest: skillhost_skill::runtime::digest(bytes) }
    }
}

impl Recording {
    /// The digests of all bytes that a replay needs, with their sizes.
    pub fn needed(&self) -> impl Iterator<Item = &str> {
        let files =
            self.folders.iter().flat_map(|folder| &folder.entries).filter_map(|entry| match &entry
                .kind
            {
                EntryKind::File { digest, kept: true, .. } => Some(digest.as_str()),
                _ => None,
            });
        let bodies = self
            .exchanges
            .iter()
            .filter_map(|exchange| exchange.response.head.as_ref())
            .map(|head| head.body.digest.as_str());
        files.chain(bodies).chain([self.stdin.digest.as_str()])
    }
}
