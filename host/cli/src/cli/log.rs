//! What servers say of themselves: lines on stderr, without secrets, and spans where the
//! environment asks for them.

use std::io::{self, Write};
use std::sync::Arc;

use skillhost_policy::{EnvValue, Policy};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry};

use super::Failure;
use super::exit::Exit;
use super::traces::{self, Traces};

/// What is logged, and how.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Log {
    /// What to log on stderr: error, warn, info, debug or trace, or directives such as
    /// `skillhost=debug,rmcp=warn`
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: String,
    /// One JSON object a line instead of text
    #[arg(long)]
    log_json: bool,
}

impl Log {
    /// Starts logging. None of the secrets reaches a line. What is returned collects spans; its end
    /// sends the last of them.
    pub(super) fn start(&self, mut secrets: Vec<String>) -> Result<Option<Traces>, Failure> {
        let filter = EnvFilter::try_new(&self.log).map_err(|error| {
            Failure::new(Exit::Usage, format!("--log {}: {error}", self.log)).fix("--log info")
        })?;
        secrets.extend(traces::secrets());
        let lines = fmt::layer().with_ansi(false).with_writer(Redacting::new(secrets));
        let lines = if self.log_json { lines.json().boxed() } else { lines.boxed() };
        let (traces, untraced) =
            Traces::of_environment().map_or_else(|why| (None, Some(why)), |traces| (traces, None));
        let spans = traces.as_ref().map(Traces::layer);
        let started = registry().with(lines.with_filter(filter)).with(spans).try_init();
        started
            .map_err(|error| Failure::new(Exit::Io, format!("logging cannot start: {error}")))?;
        if let Some(why) = untraced {
            tracing::warn!(%why, "spans are sent nowhere");
        }
        Ok(traces)
    }
}

/// The values of variables that a policy passes on.
pub(super) fn secrets(policy: &Policy) -> Vec<String> {
    let rules = policy.layers.iter().flat_map(|layer| &layer.env);
    rules
        .filter_map(|rule| {
            if let EnvValue::Literal(value) = &rule.value { Some(value.clone()) } else { None }
        })
        .collect()
}

/// Stderr, with secrets replaced. A line comes in one piece.
#[derive(Clone)]
struct Redacting(Arc<Vec<String>>);

/// Shorter values are found in any text.
const SHORTEST: usize = 4;

impl Redacting {
    fn new(mut secrets: Vec<String>) -> Redacting {
        secrets.retain(|secret| secret.len() >= SHORTEST);
        // As texts of errors quote them, and as lines of JSON hold both.
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

/// Replaces every UUID. The protocol's session ids are UUIDs, and whoever knows one can act in that
/// session; the protocol's library logs them.
fn without_uuids(line: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(at) = (0..rest.len()).find(|at| is_uuid(&rest.as_bytes()[*at..])) {
        out.push_str(&rest[..at]);
        out.push_str("[redacted]");
        rest = &rest[at + UUID..];
    }
    out + rest
}

/// Bytes of a UUID as text: 8, 4, 4, 4 and 12 hex digits, joined by hyphens.
const UUID: usize = 36;

fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() >= UUID
        && bytes[..UUID].iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A text inside the quotes of JSON.
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
    fn secrets_are_replaced_the_longest_first() {
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
    fn secrets_are_found_in_quotes_too() {
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
