//! The log of a server: lines on stderr, without secrets, and spans if the environment names a
//! collector.

use std::io::{self, Write};
use std::sync::Arc;

use skillhost_policy::{EnvValue, Policy};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry};

use crate::error::CliError;
use crate::output;
use crate::server::traces::{self, Traces};

/// What is logged, and in which form.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Log {
    /// Log to stderr from this level on: error, warn, info or debug; or by directives, such as
    /// `skillhost=debug,rmcp=warn` [default: warn; error with --quiet, info with --verbose]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Log one JSON object per line instead of text
    #[arg(long)]
    log_json: bool,
}

impl Log {
    /// Starts logging, with the secrets redacted. Returns the collection of spans, which sends the
    /// last of them when it ends.
    pub(crate) fn start(&self, mut secrets: Vec<String>) -> Result<Option<Traces>, CliError> {
        let default = match (output::is_quiet(), output::is_verbose()) {
            (true, _) => "error",
            (_, true) => "info",
            _ => "warn",
        };
        let level = self.log.as_deref().unwrap_or(default);
        let filter = EnvFilter::try_new(level).map_err(|error| {
            CliError::usage(format!("--log {level}: {error}")).fix("--log info")
        })?;
        secrets.extend(traces::secrets());
        let lines = fmt::layer().with_ansi(false).with_writer(Redacting::new(secrets));
        let lines = if self.log_json { lines.json().boxed() } else { lines.boxed() };
        let (traces, untraced) = Traces::from_environment()
            .map_or_else(|why| (None, Some(why)), |traces| (traces, None));
        let spans = traces.as_ref().map(Traces::layer);
        let started = registry().with(lines.with_filter(filter)).with(spans).try_init();
        started.map_err(|error| CliError::io("start logging", error))?;
        if let Some(why) = untraced {
            tracing::warn!(%why, "no spans are sent");
        }
        Ok(traces)
    }
}

/// The values of the variables that a policy passes to guests.
pub(crate) fn secrets(policy: &Policy) -> Vec<String> {
    let rules = policy.layers.iter().flat_map(|layer| &layer.env);
    rules
        .filter_map(|rule| {
            if let EnvValue::Literal(value) = &rule.value { Some(value.clone()) } else { None }
        })
        .collect()
}

/// Stderr, with secrets redacted. Expects whole lines.
#[derive(Clone)]
struct Redacting(Arc<Vec<String>>);

/// The fewest bytes of a secret; shorter values cause false matches.
const SHORTEST: usize = 4;

impl Redacting {
    fn new(mut secrets: Vec<String>) -> Redacting {
        secrets.retain(|secret| secret.len() >= SHORTEST);
        // Messages quote secrets as Rust does, and lines of JSON escape both forms.
        for _ in 0..2 {
            let quoted: Vec<String> = secrets
                .iter()
                .flat_map(|secret| [secret.escape_debug().to_string(), in_json(secret)])
                .collect();
            secrets.extend(quoted);
            secrets.sort();
            secrets.dedup();
        }
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Redacting(Arc::new(secrets))
    }

    fn clean(&self, line: &str) -> String {
        let line = without_uuids(line);
        self.0.iter().fold(line, |line, secret| line.replace(secret, "[redacted]"))
    }
}

/// Redacts every UUID. Session ids of the protocol are UUIDs, its library logs them, and anyone
/// who knows one can act in that session.
fn without_uuids(line: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(at) = (0..rest.len()).find(|at| is_uuid(&rest.as_bytes()[*at..])) {
        out.push_str(&rest[..at]);
        out.push_str("[redacted]");
        rest = &rest[at + UUID..];
    }
    out + rest
}

/// The length of a UUID as text, in bytes: 8, 4, 4, 4 and 12 hex digits, joined by hyphens.
const UUID: usize = 36;

fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() >= UUID
        && bytes[..UUID].iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A text as it appears between the quotes of a JSON string.
fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

impl Write for Redacting {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(self.clean(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl MakeWriter<'_> for Redacting {
    type Writer = Redacting;

    fn make_writer(&self) -> Redacting {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::Redacting;

    #[test]
    fn longer_secrets_are_redacted_first() {
        let redacting = Redacting::new(["abcd", "abcdefgh", "x"].map(str::to_owned).to_vec());
        assert_eq!(redacting.clean("a=abcdefgh b=abcd x"), "a=[redacted] b=[redacted] x");
    }

    #[test]
    fn session_ids_are_redacted() {
        let redacting = Redacting::new(Vec::new());
        let id = "5e9a1c2d-0b3f-4c6e-8d7a-9f00aa11bb22";
        let line = format!("session_id=Some(\"{id}\") and {id}{id}, é{id}");
        assert_eq!(
            redacting.clean(&line),
            "session_id=Some(\"[redacted]\") and [redacted][redacted], é[redacted]"
        );
        for other in ["5e9a1c2d-0b3f-4c6e-8d7a-9f00aa11bb2", "2026-01-31T12:00:00Z", "é-é", ""] {
            assert_eq!(redacting.clean(other), other);
        }
    }

    #[test]
    fn quoted_secrets_are_redacted() {
        let secret = "a\"b\\c\n\u{e9}";
        let redacting = Redacting::new(vec![secret.to_owned()]);
        let quoted = format!("{secret:?}");
        for text in [
            secret.to_owned(),
            quoted.clone(),
            serde_json::json!(secret).to_string(),
            serde_json::json!({ "x": quoted }).to_string(),
        ] {
            let clean = redacting.clean(&text);
            assert!(clean.contains("[redacted]") && !clean.contains('b'), "{text}: {clean}");
        }
    }
}
