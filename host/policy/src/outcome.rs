//! What an invocation came to: plain data, printed by the edges and kept by the audit log.

pub mod uses;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::Limit;
use uses::Uses;

/// The result of one invocation, whatever happened.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What the guest wrote to stdout, as far as the limit let it. Kept when the guest was stopped.
    pub stdout: Output,
    /// What the guest wrote to stderr, likewise.
    pub stderr: Output,
    /// The result of a typed tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<serde_json::Value>,
    /// What a typed tool said instead of a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it cost.
    pub usage: Usage,
    /// Each guest path that was read, written, created or removed, outside the scratch folder.
    pub files: BTreeMap<String, Touched>,
    /// Each outbound HTTP request, in order, refused ones included.
    pub requests: Vec<RequestMade>,
    /// Each program that was started, in order, at most 1,000. The first program of the run is not
    /// among them.
    pub processes: Vec<Process>,
    /// Programs that were started beyond those.
    pub processes_omitted: u64,
    /// With an overlay: what the run would change in the folder, sorted by path.
    pub changes: Vec<Change>,
    /// What the guest tried and was not allowed, once each, at most 100.
    pub denials: Vec<Denial>,
    /// The limits it ran into, in order. A guest may cope with some of them and still end well.
    pub limits_hit: Vec<LimitHit>,
    /// What it used of its grants, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<Uses>,
    /// The digests of its streams, for the audit log.
    #[serde(skip)]
    pub streams: StreamDigests,
}

/// The SHA-256 digests of what went through the standard streams, `sha256:` and 64 hex digits;
/// `None` where nothing did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamDigests {
    /// What the guest read.
    pub stdin: Option<String>,
    /// What it wrote to stdout, as far as the limit let it.
    pub stdout: Option<String>,
    /// What it wrote to stderr, likewise.
    pub stderr: Option<String>,
}

/// How an invocation ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Status {
    /// The guest ended by itself. A typed tool that returned an error has code 1.
    Exited {
        /// The guest's own exit code, 0 to 255.
        code: u8,
    },
    /// The host refused to run it.
    Denied(Denial),
    /// What was to run is not something that runs here: no component, or none with the right
    /// export.
    Invalid {
        /// What is wrong with it.
        message: String,
        /// What would make it right.
        fix: Option<String>,
    },
    /// The host could not do its part: its cache, its compiler or one of its folders is not usable.
    Failed {
        /// What failed.
        message: String,
        /// What would mend it.
        fix: Option<String>,
    },
    /// A limit ended it.
    LimitHit(LimitHit),
    /// The guest trapped.
    Trapped {
        /// The trap, with the guest's frames where it has names.
        message: String,
    },
    /// A deterministic run was ended by something that is not the same on every machine, such as
    /// time: it came to no result.
    Aborted {
        /// What ended it.
        reason: String,
    },
    /// The user or the host's owner stopped it (Ctrl-C, a dropped request).
    #[default]
    Interrupted,
}

/// A limit that was hit, and how to raise it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LimitHit {
    /// Which limit.
    pub limit: Limit,
    /// Its value, in its own unit (milliseconds, bytes or a count).
    pub value: u64,
}

impl LimitHit {
    /// One sentence: the limit, its value, and every place that raises it.
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

/// Something that was asked for and refused: the rule, and the line that would allow it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Denial {
    /// What was tried, in the guest's terms (guest paths, never host paths).
    pub what: String,
    /// The rule that refused it, with its place where it has one.
    pub rule: String,
    /// The line or flag that would allow it; `None` where nothing does.
    pub fix: Option<String>,
    /// What the rule is about, for the audit log; shown nowhere else.
    #[serde(skip)]
    pub kind: DenialKind,
}

/// What a denial is about. The audit log keeps the rule only where it holds no text that the guest
/// chose.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DenialKind {
    /// Read from somewhere that does not say: the rule may hold any text.
    #[default]
    Unknown,
    /// A path of the guest.
    Path,
    /// A request to this host.
    Host(String),
    /// A request to this host by a method, which the rule names.
    Method(String),
    /// A request to a URL that has no valid host; the rule may name parts of it.
    Url,
    /// The start of a program.
    Program,
    /// The start of a program that is not there; the rule may name it.
    NoProgram,
    /// A folder that the operator or the host provides.
    Mount,
    /// The whole run.
    Run,
}

/// What an invocation cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Usage {
    /// From the request to the end, in milliseconds.
    pub wall_ms: f64,
    /// Fuel burnt; only on the engine that counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Epochs (of `sandbox::EPOCH`) during which the guest ran; only on the engine that counts no
    /// fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Highest linear memory alive at once, in bytes.
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

/// What happened to one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Touched {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// It was cut, its size was set, or another file was renamed over it.
    pub resized: bool,
    /// It did not exist before.
    pub created: bool,
    /// It was removed, or renamed away.
    pub removed: bool,
}

/// One outbound HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RequestMade {
    /// The method, upper case.
    pub method: String,
    /// Scheme, host, port and path; never the query, which may carry secrets.
    pub url: String,
    /// The response's status; `None` where there was none.
    pub status: Option<u16>,
    /// Why it failed or was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Bytes of the request body.
    pub sent: u64,
    /// Bytes of the response body.
    pub received: u64,
    /// The digest of the request body, as far as it was sent; only of a run with a receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_digest: Option<String>,
    /// The digest of the response body, as far as it came; only of a run with a receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_digest: Option<String>,
    /// A code for `error` that holds no text of the guest or the server, for the audit log.
    #[serde(skip)]
    pub failure: Option<&'static str>,
}

impl RequestMade {
    /// One that has come to nothing yet, or never will.
    pub fn new(method: String, url: String, error: &str, failure: &'static str) -> RequestMade {
        let (status, error, failure) = (None, Some(error.to_owned()), Some(failure));
        RequestMade {
            method,
            url,
            status,
            error,
            sent: 0,
            received: 0,
            sent_digest: None,
            received_digest: None,
            failure,
        }
    }
}

/// One program that a guest started.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Process {
    /// The name it was started by: at most 200 bytes of it.
    pub argv0: String,
    /// Over the whole command line, each word closed by a NUL: `sha256:` and 64 hex digits. The
    /// words themselves may hold secrets.
    pub argv_digest: String,
    /// How it ended.
    pub exit: ProcessEnd,
    /// From its start to its end, in milliseconds.
    pub wall_ms: f64,
    /// Fuel burnt, without the programs that it started; only on the engine that counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Epochs (of `sandbox::EPOCH`) during which it ran; only on the engine that counts no fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// 1 where the first program started it, one more for each between.
    pub depth: u64,
    /// The program that it is, in the host's terms, for the audit log: a built-in program, or a
    /// file of the skill.
    #[serde(skip)]
    pub program: String,
    /// The start of its command line, for an audit log that keeps texts.
    #[serde(skip)]
    pub command: String,
}

/// How a started program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ProcessEnd {
    /// By itself.
    Exited {
        /// Its exit code, 0 to 255.
        code: u8,
    },
    /// Another program killed it, or it ended with the one that started it or with the run.
    Killed,
    /// By a trap.
    Trapped {
        /// The start of the trap's message.
        message: String,
    },
    /// A limit ended it.
    Limit {
        /// The limit's key.
        limit: String,
    },
}

/// One path that an overlay run would change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct Change {
    /// Relative to the folder under the overlay.
    pub path: String,
    /// What happened to it.
    pub kind: ChangeKind,
}

/// What happened to a path under an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ChangeKind {
    Added,
    Changed,
    Removed,
}

/// Bytes of an output stream. As JSON: a string where they are UTF-8, else `{"base64": "..."}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output(pub Vec<u8>);

impl Output {
    /// The bytes as text, invalid sequences replaced.
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
            "description": "Text, or base64 where the bytes are not UTF-8.",
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
    fn output_that_is_not_utf8_is_base64() {
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
    fn a_limit_says_how_to_raise_it() {
        let text = LimitHit { limit: Limit::Timeout, value: 1_500 }.explain();
        assert_eq!(
            text,
            "the limit `timeout` of 1s 500ms was hit; raise it by `--timeout VALUE` or `limits: { timeout: VALUE }` in the policy \
             (`metadata.timeout` in SKILL.md may lower it)"
        );
    }
}
