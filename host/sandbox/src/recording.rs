//! A recording: everything that reached a run from outside, in a folder that suffices to run it
//! again.
//!
//! A recorded run is deterministic, so randomness and time are two numbers, and whatever programs
//! exchange follows from the rest. A recording therefore stores the skill, the input and the
//! responses of the network. In reading order: this file defines `recording.json`; `folder` writes
//! and reads it; `blobs` stores files as they are read; `seal` keeps secrets out; `vault` encrypts
//! the secrets that this host may restore; `network` records and answers requests; `scene`
//! recreates the recorded folders.
//!
//! A recording is untrusted input: it is bounded, checked against its digests, and used completely
//! or not at all.

pub mod blobs;
pub mod folder;
pub mod network;
pub mod scene;
pub mod seal;
pub mod vault;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use skillhost_policy::outcome::uses::GrantUse;
use skillhost_policy::outcome::{Output, Status};

/// The version of the recording's format.
pub const VERSION: u32 = 1;

/// The content of `recording.json`. Numbers above 2^53 - 1 are strings, as RFC 8785 requires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The format of this recording: 1.
    pub version: u32,
    /// The name of the skill's folder.
    pub skill: String,
    /// Which part of the skill ran.
    pub target: RecordedTarget,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The host, the engine, and the digests of the built-in programs.
    pub runtime: RecordedRuntime,
    /// The digest of the policy, as in a receipt.
    pub policy: String,
    /// The capabilities of the run, as in a receipt. Seed and start time are in `determinism`.
    /// They are interpreted once the secrets in them are unsealed.
    pub capabilities: Value,
    /// The operator's variables. Placeholders replace the values of secret ones.
    pub environment: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: BlobDigest,
    /// The folders as the guest found them.
    pub folders: Vec<Folder>,
    /// The HTTP requests that left the host, in order, and their responses.
    pub exchanges: Vec<RecordedExchange>,
    /// How the run ended.
    pub status: Status,
    /// The receipt, if the run had a result. Placeholders replace the digests of secret variables.
    pub receipt: Option<Value>,
    /// What the run used of its grants, for `check --used`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<GrantUse>,
    /// The placeholders of secrets.
    pub sealed: SealedSecrets,
    /// The digest of each file under `blobs/` that replaces content with a secret, by the digest of
    /// that content.
    pub blobs: BTreeMap<String, String>,
    /// The digest of everything but this field, as canonical JSON (RFC 8785). `None` once it has
    /// been read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Which part of a skill ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum RecordedTarget {
    /// Its component's command, or its only script.
    Main,
    /// The script or tool of that name.
    Named {
        /// The name.
        name: String,
    },
    /// A typed tool.
    Tool {
        /// Its name.
        name: String,
        /// Its input, as JSON text.
        input: String,
    },
    /// A command line for the shell.
    Shell {
        /// The text.
        text: String,
    },
}

/// The host and engine of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedRuntime {
    /// The host and its version.
    pub host: String,
    /// The engine and its version.
    pub engine: String,
    /// The digest of everything in the engine that affects the result.
    pub fingerprint: String,
    /// The built-in programs that it could start, by name, with their digests.
    pub programs: BTreeMap<String, String>,
}

/// The size and digest of some bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlobDigest {
    /// The number of bytes.
    pub bytes: u64,
    /// The digest. If the bytes are stored, this is also the name of their file under `blobs/`,
    /// without `sha256:`.
    pub digest: String,
}

/// A folder that the guest found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Folder {
    /// Its guest path.
    pub guest: String,
    /// Its entries, by path: a folder comes before its contents.
    pub entries: Vec<RecordedEntry>,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RecordedEntry {
    /// Its path in the folder.
    pub path: String,
    /// The kind of entry.
    #[serde(flatten)]
    pub kind: EntryKind,
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EntryKind {
    /// A file.
    File {
        /// Its size in bytes.
        bytes: u64,
        /// Its digest.
        digest: String,
        /// Whether the run read it, so that its content is stored.
        kept: bool,
        /// Whether the user that ran it could write to it.
        writable: bool,
        /// A number that all names of one file share, if it has several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        names: Option<u64>,
    },
    /// A folder.
    Folder {
        /// Whether the user that ran it could write to it.
        writable: bool,
        /// Whether it contained entries that guests do not see.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hides: bool,
    },
    /// A symlink; `target` is `None` if it leads to a host path.
    Link {
        /// Its target, as written.
        target: Option<String>,
        /// The length of the target in bytes.
        bytes: u64,
    },
    /// A device, a FIFO or a socket, which guests see but cannot open.
    Other,
}

/// A request that left the host, and the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedExchange {
    /// The request.
    pub request: RecordedRequest,
    /// The response, or why there was none.
    pub response: Answer,
    /// The nanoseconds that it took, by which the run's clock advanced.
    pub took: u64,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordedRequest {
    /// The method.
    pub method: String,
    /// The full URL.
    pub url: String,
    /// Its fields, in order.
    pub headers: Vec<Header>,
    /// Its body, which is not stored.
    pub body: BlobDigest,
    /// Fields after the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<Header>,
}

/// A field of a request or a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The name, in lower case.
    pub name: String,
    /// The value. For a secret field of a request, `secret` has its salted digest instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Output>,
    /// The digest of the salt and the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A response, or why there was none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The head of the response; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Why there is no response, or why it ended early, as the host names it.
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
    pub body: BlobDigest,
    /// Fields after the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<Header>,
}

/// The secrets of a recording. The placeholder `{{secret:SALT:NAME}}` replaces each occurrence of a
/// value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SealedSecrets {
    /// A random salt of each recording: 32 hex digits.
    pub salt: String,
    /// The secrets that a replay asks for, by name: the SHA-256 of `skillhost secret 1`, the salt
    /// and the value.
    pub secrets: BTreeMap<String, String>,
    /// The names of header fields whose values are stored by digest, in lower case.
    pub headers: Vec<String>,
    /// The values of secrets, encrypted under a key that stays on the recording host, so that this
    /// host can restore them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
}

impl BlobDigest {
    /// Digests some bytes.
    pub fn of(bytes: &[u8]) -> BlobDigest {
        BlobDigest { bytes: bytes.len() as u64, digest: skillhost_skill::runtime::digest(bytes) }
    }
}

impl Recording {
    /// Returns the digests of all stored content that a replay needs.
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
