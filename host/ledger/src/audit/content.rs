//! What a record says about a run. Texts that a client, a guest or a server chose (arguments,
//! paths, messages) may contain secrets: a record has keyed digests of them, and the texts only if
//! the policy says so.

use std::collections::BTreeMap;

use http::{Method, Uri};
use serde::Serialize;

use super::ProgramId;
use super::key::{KeyedDigest, LogKey};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::outcome::{
    CacheUse, ChildProcess, Denial, DenialKind, HttpRequest, LimitHit, Outcome, ProcessEnd, Status,
    StreamDigests,
};
use skillhost_policy::{AuditDetail, Policy};
use skillhost_sandbox::recording::seal::Seal;
use skillhost_skill::runtime::ScriptId;

/// The program that ran.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ProgramRecord {
    /// The name that it was started by.
    pub name: String,
    /// The version of a built-in program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The script of the skill that it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptId>,
    /// The typed tool that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The component's digest.
    pub component: String,
    /// Digest of the arguments, each followed by a NUL; for a tool, of its input.
    pub arguments: KeyedDigest,
}

/// The data that went through the standard streams; absent if there was none.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
pub struct StreamsRecord {
    /// Digest of what the guest read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<KeyedDigest>,
    /// Digest of what it wrote to stdout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<KeyedDigest>,
    /// Digest of what it wrote to stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<KeyedDigest>,
}

/// How a run ended.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StatusRecord {
    /// The guest exited.
    Exited {
        /// Its exit code.
        code: u8,
    },
    /// The host refused to run it.
    Denied(DenialRecord),
    /// The program cannot run here.
    Invalid {
        /// Digest of the explanation.
        message: KeyedDigest,
    },
    /// The host failed.
    Failed {
        /// Digest of the explanation.
        message: KeyedDigest,
    },
    /// It hit a limit.
    LimitHit(LimitHit),
    /// The guest trapped.
    Trapped {
        /// Digest of the trap's message.
        message: KeyedDigest,
    },
    /// A deterministic run was aborted by something that differs between machines.
    Aborted {
        /// Digest of the reason.
        reason: KeyedDigest,
    },
    /// The user or the host's owner interrupted it.
    Interrupted,
}

/// A refused attempt.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct DenialRecord {
    /// The kind of rule.
    pub about: DenialSubject,
    /// The rule that refused it, without text that the guest chose.
    pub rule: String,
    /// The host, if it was a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Digest of the attempt, as the outcome shows it.
    pub what: KeyedDigest,
}

/// The kind of rule that refused an attempt.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum DenialSubject {
    Path,
    Request,
    Program,
    Mount,
    Run,
    Unknown,
}

/// An outbound HTTP request.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct RequestRecord {
    /// The method; `other` if the HTTP standards do not define it.
    pub method: String,
    /// The scheme, if it is `http` or `https`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<&'static str>,
    /// The host, if the URL has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port, if the URL has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Digest of the path, without the query.
    pub path: KeyedDigest,
    /// The response's status; `null` if there was no response.
    pub status: Option<u16>,
    /// Why it failed or was refused, as a fixed name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<&'static str>,
    /// The size of the request body, in bytes.
    pub sent: u64,
    /// The size of the response body, in bytes.
    pub received: u64,
    /// Digest of the request body, as far as it was sent; only with a receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_digest: Option<KeyedDigest>,
    /// Digest of the response body, as far as it was received; only with a receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_digest: Option<KeyedDigest>,
    /// How the HTTP cache answered, if the body came from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<CacheUse>,
}

/// A program that a guest started.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ProcessRecord {
    /// A built-in program or a file of the skill, whatever name it was started by.
    pub program: String,
    /// Digest of the whole command line, each word followed by a NUL.
    pub argv: KeyedDigest,
    /// How it ended.
    pub exit: ExitRecord,
    /// The time from its start to its end, in milliseconds.
    pub wall_ms: f64,
    /// The fuel it burnt, without the programs that it started; only on the engine that counts
    /// fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// The epochs during which it ran; only on the engine that does not count fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// 1 if the first program of the run started it, and 1 more for each program in between.
    pub depth: u64,
}

/// How a started program ended.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "as in the outcome")]
pub enum ExitRecord {
    Exited { code: u8 },
    Killed,
    Trapped { message: KeyedDigest },
    Limit { limit: String },
}

/// The texts of a run, if the policy says `audit: { detail: text }`. The values of its variables
/// are redacted.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
pub struct TextRecord {
    /// The arguments, or the input of a tool.
    pub arguments: Vec<String>,
    /// The message of the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The refused attempts, in the order of `denials`.
    pub denials: Vec<String>,
    /// The URLs of the requests, without queries, in order.
    pub requests: Vec<String>,
    /// The start of each command line, in the order of `processes`.
    pub processes: Vec<String>,
}

/// Redacts the values of a run's variables.
#[derive(Debug)]
pub struct Redactor {
    seal: Seal,
    /// Secret values that are too short for the seal to search for.
    short: Vec<String>,
    /// All values to search for.
    values: Vec<String>,
}

/// A text of this many bytes may have been cut, even inside a value: what a guest chooses is cut at
/// 200 bytes or characters.
const MAYBE_CUT: usize = 190;
/// How many bytes of a value are recognised at the end of such a text.
const START: usize = 4;

/// Replaces a value.
const REDACTED: &str = "[redacted]";

/// The shortest value, in bytes, that the seal searches for inside other texts.
const LONG: usize = 8;

impl Redactor {
    /// Creates a redactor if the policy keeps texts.
    pub fn of(policy: &Policy, capabilities: &Capabilities) -> Option<Redactor> {
        (policy.audit_detail == AuditDetail::Text)
            .then(|| Redactor::new(&policy.secrets.env, &capabilities.env))
    }

    fn new(secrets: &[String], env: &BTreeMap<String, String>) -> Redactor {
        let values = env.iter().map(|(name, value)| (name.clone(), value.as_bytes().to_vec()));
        let short = secrets
            .iter()
            .filter_map(|name| env.get(name))
            .filter(|value| (1..LONG).contains(&value.len()));
        let mut short: Vec<String> = short.cloned().collect();
        short.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let mut all: Vec<String> = env
            .values()
            .filter(|value| value.len() >= LONG)
            .cloned()
            .chain(short.iter().cloned())
            .collect();
        all.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Redactor { seal: Seal::new(String::new(), values), short, values: all }
    }

    fn text(&self, text: &str) -> String {
        let sealed = String::from_utf8_lossy(&self.seal.seal_bytes(text.as_bytes())).into_owned();
        let sealed = self.short.iter().fold(sealed, |text, secret| text.replace(secret, REDACTED));
        // Host names are in lower case, whatever the guest wrote.
        let lower = self.values.iter().map(|value| value.to_lowercase());
        let text = lower.fold(sealed, |text, secret| text.replace(&secret, REDACTED));
        self.without_start(text)
    }

    /// Removes the start of a value from the end of a text that was cut. The command of a denial is
    /// in backticks.
    fn without_start(&self, mut text: String) -> String {
        if text.len() < MAYBE_CUT {
            return text;
        }
        let end = text.strip_suffix('`').unwrap_or(&text);
        let starts = |value: &String| {
            let lengths = (START..value.len()).rev().filter(|at| value.is_char_boundary(*at));
            lengths.map(|at| &value[..at]).find(|start| end.ends_with(start)).map(str::len)
        };
        if let Some(length) = self.values.iter().filter_map(starts).max() {
            text.truncate(end.len() - length);
            text.push_str(REDACTED);
        }
        text
    }

    /// Returns the redacted texts of a run.
    pub fn texts(&self, arguments: &[String], outcome: &Outcome) -> TextRecord {
        let message = match &outcome.status {
            Status::Denied(denial) => Some(&denial.what),
            Status::Invalid { message, .. }
            | Status::Failed { message, .. }
            | Status::Trapped { message } => Some(message),
            Status::Aborted { reason } => Some(reason),
            Status::Exited { .. } | Status::LimitHit(_) | Status::Interrupted => None,
        };
        TextRecord {
            arguments: arguments.iter().map(|text| self.text(text)).collect(),
            message: message.map(|text| self.text(text)),
            denials: outcome.denials.iter().map(|denial| self.text(&denial.what)).collect(),
            requests: outcome.requests.iter().map(|request| self.text(&request.url)).collect(),
            processes: outcome
                .processes
                .iter()
                .map(|process| self.text(&process.command))
                .collect(),
        }
    }
}

impl ProgramRecord {
    pub(super) fn of(program: &ProgramId, key: &LogKey) -> ProgramRecord {
        let ProgramId { name, version, script, tool, component, arguments } = program.clone();
        ProgramRecord { name, version, script, tool, component, arguments: key.keyed(&arguments) }
    }
}

impl StreamsRecord {
    pub(super) fn of(streams: &StreamDigests, key: &LogKey) -> StreamsRecord {
        let keyed = |plain: &Option<String>| plain.as_deref().map(|plain| key.keyed(plain));
        StreamsRecord {
            stdin: keyed(&streams.stdin),
            stdout: keyed(&streams.stdout),
            stderr: keyed(&streams.stderr),
        }
    }
}

impl StatusRecord {
    pub(super) fn of(status: &Status, key: &LogKey) -> StatusRecord {
        let over = |text: &str| key.digest(text.as_bytes());
        match status {
            Status::Exited { code } => StatusRecord::Exited { code: *code },
            Status::Denied(denial) => StatusRecord::Denied(DenialRecord::of(denial, key)),
            Status::Invalid { message, .. } => StatusRecord::Invalid { message: over(message) },
            Status::Failed { message, .. } => StatusRecord::Failed { message: over(message) },
            Status::LimitHit(hit) => StatusRecord::LimitHit(hit.clone()),
            Status::Trapped { message } => StatusRecord::Trapped { message: over(message) },
            Status::Aborted { reason } => StatusRecord::Aborted { reason: over(reason) },
            Status::Interrupted => StatusRecord::Interrupted,
        }
    }
}

impl DenialRecord {
    pub(super) fn of(denial: &Denial, key: &LogKey) -> DenialRecord {
        let own = || denial.rule.clone();
        let (about, rule, host) = match &denial.kind {
            DenialKind::Path | DenialKind::DeniedPath(_) => (DenialSubject::Path, own(), None),
            DenialKind::Host(host) | DenialKind::DeniedHost(host, _) => {
                (DenialSubject::Request, own(), Some(host.clone()))
            }
            DenialKind::Method(host) => {
                (DenialSubject::Request, "the method is not allowed".into(), Some(host.clone()))
            }
            DenialKind::Url => (DenialSubject::Request, "the URL is not valid".into(), None),
            DenialKind::Program | DenialKind::DeniedProgram(_) => {
                (DenialSubject::Program, own(), None)
            }
            DenialKind::NoProgram => {
                (DenialSubject::Program, "there is no such program".into(), None)
            }
            DenialKind::Mount => (DenialSubject::Mount, own(), None),
            DenialKind::Run => (DenialSubject::Run, own(), None),
            DenialKind::Unknown => (DenialSubject::Unknown, "not recorded".into(), None),
        };
        DenialRecord { about, rule, host, what: key.digest(denial.what.as_bytes()) }
    }
}

impl RequestRecord {
    pub(super) fn of(request: &HttpRequest, key: &LogKey) -> RequestRecord {
        let HttpRequest {
            method,
            url,
            status,
            sent,
            received,
            sent_digest,
            received_digest,
            cached,
            failure,
            ..
        } = request;
        const KNOWN: [Method; 9] = [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::CONNECT,
            Method::OPTIONS,
            Method::TRACE,
            Method::PATCH,
        ];
        let uri = url.parse::<Uri>().ok();
        let uri = uri.as_ref();
        let scheme = uri
            .and_then(Uri::scheme_str)
            .and_then(|scheme| ["http", "https"].into_iter().find(|known| *known == scheme));
        let keyed = |plain: &Option<String>| plain.as_deref().map(|plain| key.keyed(plain));
        RequestRecord {
            method: if KNOWN.iter().any(|known| known.as_str() == method) {
                method.clone()
            } else {
                "other".into()
            },
            scheme,
            host: uri.and_then(Uri::host).map(str::to_ascii_lowercase),
            port: uri.and_then(Uri::port_u16),
            path: key.digest(uri.map_or(url.as_str(), Uri::path).as_bytes()),
            status: *status,
            failure: *failure,
            sent: *sent,
            received: *received,
            sent_digest: keyed(sent_digest),
            received_digest: keyed(received_digest),
            cached: *cached,
        }
    }
}

impl ProcessRecord {
    pub(super) fn of(process: &ChildProcess, key: &LogKey) -> ProcessRecord {
        let exit = match &process.exit {
            ProcessEnd::Exited { code } => ExitRecord::Exited { code: *code },
            ProcessEnd::Killed => ExitRecord::Killed,
            ProcessEnd::Trapped { message } => {
                ExitRecord::Trapped { message: key.digest(message.as_bytes()) }
            }
            ProcessEnd::Limit { limit } => ExitRecord::Limit { limit: limit.clone() },
        };
        let ChildProcess { program, argv_digest, wall_ms, fuel, epochs, depth, .. } = process;
        let argv = key.keyed(argv_digest);
        ProcessRecord {
            program: program.clone(),
            argv,
            exit,
            wall_ms: *wall_ms,
            fuel: *fuel,
            epochs: *epochs,
            depth: *depth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2-of-a-guest";

    fn denial(kind: DenialKind, rule: &str) -> Denial {
        Denial { what: format!("do {SECRET}"), rule: rule.into(), fix: Some(SECRET.into()), kind }
    }

    #[test]
    fn values_are_redacted_in_cut_or_lowercased_texts() {
        let env = BTreeMap::from([("TOKEN".to_owned(), "SK-Abcdefghijklmnop".to_owned())]);
        let redactor = Redactor::new(&[], &env);
        let padding = "x".repeat(190);
        for cut in ["SK-Abcdefghij", "SK-A"] {
            assert_eq!(
                redactor.text(&format!("start `{padding} {cut}`")),
                format!("start `{padding} [redacted]"),
                "{cut}"
            );
        }
        let padding = "\u{20ac}".repeat(63);
        assert_eq!(
            redactor.text(&format!("{padding} SK-Abcdefghi")),
            format!("{padding} [redacted]"),
            "200 bytes, 76 characters"
        );
        assert_eq!(redactor.text("https://sk-abcdefghijklmnop/x"), "https://[redacted]/x");
        assert_eq!(
            redactor.text("a short text that ends in SK-A"),
            "a short text that ends in SK-A"
        );
    }

    #[test]
    fn records_contain_no_text_of_a_guest() {
        let key = LogKey::of_process();
        let rule = format!("`{SECRET}` is not here");
        for kind in [
            DenialKind::Method("example.com".into()),
            DenialKind::Url,
            DenialKind::NoProgram,
            DenialKind::Unknown,
        ] {
            let record =
                serde_json::to_string(&DenialRecord::of(&denial(kind.clone(), &rule), &key))
                    .unwrap();
            assert!(!record.contains(SECRET), "{kind:?}: {record}");
        }
        let kept = serde_json::to_string(&DenialRecord::of(
            &denial(DenialKind::Path, "`*.key` is denied"),
            &key,
        ))
        .unwrap();
        assert!(kept.contains("`*.key` is denied") && !kept.contains(SECRET), "{kept}");
        let message = || SECRET.to_owned();
        for status in [
            Status::Invalid { message: message(), fix: None },
            Status::Failed { message: message(), fix: Some(message()) },
            Status::Trapped { message: message() },
            Status::Aborted { reason: message() },
        ] {
            let record = serde_json::to_string(&StatusRecord::of(&status, &key)).unwrap();
            assert!(record.contains("hmac-sha256:") && !record.contains(SECRET), "{record}");
        }
        for (method, url) in [
            ("GET", format!("https://api.example.com:8443/{SECRET}")),
            (SECRET, format!("{SECRET} is no URL")),
        ] {
            let request = HttpRequest::new(method.into(), url, SECRET, "denied");
            let record = serde_json::to_string(&RequestRecord::of(&request, &key)).unwrap();
            assert!(
                !record.contains(SECRET) && record.contains("\"failure\":\"denied\""),
                "{record}"
            );
            assert_eq!(record.contains("api.example.com"), method == "GET", "{record}");
        }
    }

    #[test]
    fn variables_and_short_secrets_are_redacted() {
        let env = [("TOKEN", "hunter2-hunter2"), ("PIN", "1234"), ("LANG", "C")]
            .map(|(name, value)| (name.into(), value.into()));
        let redactor = Redactor::new(&["PIN".into()], &env.into());
        let text = redactor.text("curl -H hunter2-hunter2 --pin 1234 C");
        assert!(
            !text.contains("hunter2") && !text.contains("1234") && text.ends_with(" C"),
            "{text}"
        );
    }
}
