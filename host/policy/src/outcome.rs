//! Outcomes: how a run ended, with its output, usage and denials, as plain data.

pub mod uses;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::Limit;
use crate::pattern::{CommandPattern, HostPattern, PathGlob};
use uses::GrantUse;

/// The outcome of one run, however it ended.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What the guest wrote to stdout, up to the limit. Kept if the guest is stopped.
    pub stdout: Output,
    /// What the guest wrote to stderr, up to the limit.
    pub stderr: Output,
    /// The result of a typed tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<serde_json::Value>,
    /// The error that a typed tool returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The resources that the run used.
    pub usage: ResourceUsage,
    /// The guest paths that were read, written, created or removed, except in the scratch folder.
    pub files: BTreeMap<String, FileActivity>,
    /// The outbound HTTP requests, in order, including refused ones.
    pub requests: Vec<HttpRequest>,
    /// The programs that the first program and its children started, in order, at most 1,000.
    pub processes: Vec<ChildProcess>,
    /// The number of started programs that are not in `processes`.
    pub processes_omitted: u64,
    /// The programs of the embedding application that the run was allowed to start, and how often
    /// each was started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_programs: BTreeMap<String, u64>,
    /// With an overlay: the changes that the run would make in the folder, sorted by path.
    pub changes: Vec<Change>,
    /// The attempts that rules refused, without duplicates, at most 100.
    pub denials: Vec<Denial>,
    /// The limits that the run hit, in order. A guest may handle some of them and still succeed.
    pub limits_hit: Vec<LimitHit>,
    /// What the run used of its grants, if that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<GrantUse>,
    /// The digests of the standard streams, for the audit log.
    #[serde(skip)]
    pub streams: StreamDigests,
}

impl Outcome {
    /// Returns the limit that a run with exit code 0 hit while one of the programs that it started
    /// failed, as in a pipeline: its status does not say so.
    pub fn limit_of_failed_program(&self) -> Option<&LimitHit> {
        let succeeded = self.status == Status::Exited { code: 0 };
        let failed = |process: &ChildProcess| {
            !matches!(process.exit, ProcessEnd::Exited { code: 0 } | ProcessEnd::Killed)
        };
        self.limits_hit.first().filter(|_| succeeded && self.processes.iter().any(failed))
    }
}

/// The digests of the standard streams, `sha256:` and 64 hex digits; `None` for an unused stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamDigests {
    /// The input that the guest read.
    pub stdin: Option<String>,
    /// The output on stdout, up to the limit.
    pub stdout: Option<String>,
    /// The output on stderr, up to the limit.
    pub stderr: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Status {
    /// The guest exited. A typed tool that returned an error has code 1.
    Exited {
        /// The guest's exit code, 0 to 255.
        code: u8,
    },
    /// The host refused to run it.
    Denied(Denial),
    /// The target cannot run: it is not a component, or lacks the required export.
    Invalid {
        /// What is wrong with it.
        message: String,
        /// How to fix it.
        fix: Option<String>,
    },
    /// The host failed: its cache, its compiler or one of its folders is not usable.
    Failed {
        /// What failed.
        message: String,
        /// How to fix it.
        fix: Option<String>,
    },
    /// A limit ended it.
    LimitHit(LimitHit),
    /// The guest trapped.
    Trapped {
        /// The trap, with the guest's frames if it has names.
        message: String,
    },
    /// Something that differs between machines, such as a time limit, ended a deterministic run. It
    /// has no result.
    Aborted {
        /// What ended it.
        reason: String,
    },
    /// The operator or the embedder stopped the run, with Ctrl-C or by dropping the request.
    #[default]
    Interrupted,
}

/// A limit that was hit, and how to raise it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LimitHit {
    /// The limit.
    pub limit: Limit,
    /// Its value, in its unit: milliseconds, bytes or a count.
    pub value: u64,
}

impl LimitHit {
    /// Returns one sentence with the limit, its value, and how to raise it.
    pub fn explain(&self) -> String {
        let key = self.limit.key();
        let mut raise = Vec::new();
        if let Some(flag) = self.limit.flag() {
            raise.push(format!("`{flag} VALUE`"));
        }
        raise.push(format!("`limits: {{ {key}: VALUE }}` in the policy"));
        let asked = if self.limit.in_manifest() {
            format!(" (`metadata.{key}` in SKILL.md may lower it)")
        } else {
            String::new()
        };
        format!(
            "the limit `{key}` of {} was hit; raise it by {}{asked}",
            self.limit.show(self.value),
            raise.join(" or ")
        )
    }
}

/// An attempt that a rule refused: the attempt, the rule, and the line that would allow it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Denial {
    /// The attempt, in the guest's terms: with guest paths, never host paths.
    pub what: String,
    /// The rule that refused it, with the rule's place if it has one.
    pub rule: String,
    /// The line or flag that would allow it; `None` if nothing can.
    pub fix: Option<String>,
    /// What the rule is about. Only the audit log uses it.
    #[serde(skip)]
    pub kind: DenialKind,
}

/// What a denial is about. The audit log stores the rule only if it contains no text that the guest
/// chose.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DenialKind {
    /// Unknown: the rule may contain any text.
    #[default]
    Unknown,
    /// A path of the guest.
    Path,
    /// A path that this pattern denies.
    DeniedPath(Box<PathGlob>),
    /// A request to this host.
    Host(String),
    /// A request to this host, which the pattern denies.
    DeniedHost(String, Box<HostPattern>),
    /// A request to this host with a method that the rule names.
    Method(String),
    /// A request to a URL without a valid host. The rule may quote parts of the URL.
    Url,
    /// The start of a program.
    Program,
    /// The start of a program that this pattern denies.
    DeniedProgram(Box<CommandPattern>),
    /// The start of a program that does not exist. The rule may name it.
    NoProgram,
    /// A folder that the operator or the host provides.
    Mount,
    /// The whole run.
    Run,
}

impl DenialKind {
    /// Returns the kind as one word.
    pub fn name(&self) -> &'static str {
        match self {
            DenialKind::Unknown => "other",
            DenialKind::Path | DenialKind::DeniedPath(_) => "path",
            DenialKind::Host(_) | DenialKind::DeniedHost(..) => "host",
            DenialKind::Method(_) => "method",
            DenialKind::Url => "url",
            DenialKind::Program | DenialKind::DeniedProgram(_) => "program",
            DenialKind::NoProgram => "no-program",
            DenialKind::Mount => "mount",
            DenialKind::Run => "run",
        }
    }
}

/// The resources that a run used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ResourceUsage {
    /// Wall time from the request to the end, in milliseconds.
    pub wall_ms: f64,
    /// Fuel consumed; only on the engine that counts fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Epochs (of `sandbox::EPOCH`) during which the guest ran; only on the engine that does not
    /// count fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// The most linear memory in use at once, in bytes.
    pub memory_peak: u64,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Files and folders created.
    pub files_created: u64,
    /// Bytes written to stdout.
    pub stdout_bytes: u64,
    /// Bytes written to stderr.
    pub stderr_bytes: u64,
    /// Bytes sent in HTTP bodies.
    pub http_sent: u64,
    /// Bytes received in HTTP bodies.
    pub http_received: u64,
    /// Programs that the guest started.
    pub processes: u64,
}

/// What a run did with one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FileActivity {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// It was truncated or resized, or another file was renamed over it.
    pub resized: bool,
    /// It did not exist before.
    pub created: bool,
    /// It was removed, or renamed away.
    pub removed: bool,
}

/// One outbound HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct HttpRequest {
    /// The method, in upper case.
    pub method: String,
    /// Scheme, host, port and path, without the query, which may contain secrets.
    pub url: String,
    /// The status of the response; `None` without a response.
    pub status: Option<u16>,
    /// Why the request failed or was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Bytes of the request body.
    pub sent: u64,
    /// Bytes of the response body.
    pub received: u64,
    /// The digest of the sent part of the request body; only in a run with a receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_digest: Option<String>,
    /// The digest of the received part of the response body; only in a run with a receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_digest: Option<String>,
    /// How the HTTP cache answered, if the body came from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<CacheUse>,
    /// A code for `error` without text of the guest or the server, for the audit log.
    #[serde(skip)]
    pub failure: Option<&'static str>,
}

impl HttpRequest {
    /// Creates a request without a response.
    pub fn new(method: String, url: String, error: &str, failure: &'static str) -> HttpRequest {
        let (status, error, failure) = (None, Some(error.to_owned()), Some(failure));
        HttpRequest {
            method,
            url,
            status,
            error,
            sent: 0,
            received: 0,
            sent_digest: None,
            received_digest: None,
            cached: None,
            failure,
        }
    }
}

/// How the HTTP cache answered a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheUse {
    /// Nothing was sent.
    Fresh,
    /// The server confirmed that the stored response is still current.
    Confirmed,
}

impl fmt::Display for CacheUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheUse::Fresh => "fresh",
            CacheUse::Confirmed => "confirmed",
        })
    }
}

/// One program that a guest started.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ChildProcess {
    /// The name by which it was started, at most 200 bytes.
    pub argv0: String,
    /// The digest of the whole command line, with a NUL after each word: `sha256:` and 64 hex
    /// digits. The words themselves may be secret.
    pub argv_digest: String,
    /// How it ended.
    pub exit: ProcessEnd,
    /// Wall time from start to end, in milliseconds.
    pub wall_ms: f64,
    /// Fuel consumed, without the programs that it started; only on the engine that counts fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Epochs (of `sandbox::EPOCH`) during which it ran; only on the engine without fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// 1 for a child of the first program, 2 for a grandchild, and so on.
    pub depth: u64,
    /// The program in the host's terms, for the audit log: a built-in program or a file of the
    /// skill.
    #[serde(skip)]
    pub program: String,
    /// The start of its command line, for an audit log that stores text.
    #[serde(skip)]
    pub command: String,
}

/// How a started program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ProcessEnd {
    /// It exited.
    Exited {
        /// Its exit code, 0 to 255.
        code: u8,
    },
    /// Another program killed it, or its parent or the run ended.
    Killed,
    /// It trapped.
    Trapped {
        /// The start of the trap message.
        message: String,
    },
    /// A limit ended it.
    Limit {
        /// The key of the limit.
        limit: String,
    },
}

/// A change of one path under an overlay.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct Change {
    /// The path, relative to the folder under the overlay.
    pub path: String,
    /// The kind of change.
    pub kind: ChangeKind,
}

/// The kind of change of a path under an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum ChangeKind {
    Added,
    Changed,
    Removed,
}

/// The bytes of an output stream. JSON has a string for UTF-8, otherwise `{"base64": "..."}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output(pub Vec<u8>);

impl Output {
    /// Returns the bytes as text, with invalid sequences replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use base64::Engine as _;
        use serde::ser::SerializeMap;
        match std::str::from_utf8(&self.0) {
            Ok(text) => s.serialize_str(text),
            Err(_) => {
                let mut map = s.serialize_map(Some(1))?;
                map.serialize_entry(
                    "base64",
                    &base64::engine::general_purpose::STANDARD.encode(&self.0),
                )?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Output, D::Error> {
        use base64::Engine as _;
        use serde::de::Error as _;
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Bytes { base64: String },
        }
        match Form::deserialize(d)? {
            Form::Text(text) => Ok(Output(text.into_bytes())),
            Form::Bytes { base64 } => base64::engine::general_purpose::STANDARD
                .decode(base64)
                .map(Output)
                .map_err(D::Error::custom),
        }
    }
}

impl schemars::JsonSchema for Output {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Output".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Text, or base64 if the bytes are not UTF-8.",
            "oneOf": [
                { "type": "string" },
                { "type": "object", "required": ["base64"], "properties": { "base64": { "type": "string", "contentEncoding": "base64" } } }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_utf8_output_is_base64() {
        let json = |b: &[u8]| serde_json::to_string(&Output(b.to_vec())).unwrap();
        assert_eq!(json(b"hi\n"), r#""hi\n""#);
        assert_eq!(json(b"\xff\xfe"), r#"{"base64":"//4="}"#);
        assert_eq!(json(b"\xff"), r#"{"base64":"/w=="}"#);
        assert_eq!(json(b"\xff\xfe\xfd"), r#"{"base64":"//79"}"#);
        for bytes in [&b"hi\n"[..], b"\xff", b""] {
            assert_eq!(
                serde_json::from_str::<Output>(&json(bytes)).unwrap(),
                Output(bytes.to_vec())
            );
        }
    }

    #[test]
    fn limit_hit_explains_how_to_raise_the_limit() {
        let text = LimitHit { limit: Limit::Timeout, value: 1_500 }.explain();
        assert_eq!(
            text,
            "the limit `timeout` of 1s 500ms was hit; raise it by `--timeout VALUE` or `limits: { timeout: VALUE }` in the policy \
             (`metadata.timeout` in SKILL.md may lower it)"
        );
    }
}
