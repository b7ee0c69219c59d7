//! The result of an attempt: one JSON line, and an exit code that says whether it escaped.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde_json::json;

/// The exit code of an attempt that succeeded and must not.
pub(crate) const ESCAPED: u8 = 3;

/// The attempts of one verb and their results.
#[derive(Default)]
pub(crate) struct Report {
    tried: u64,
    /// Attempts that succeeded and must not.
    escapes: Vec<String>,
    /// The number of times that each result occurred.
    answers: BTreeMap<String, u64>,
}

impl Report {
    /// Records an attempt that must fail.
    pub(crate) fn must_fail<T, E: Debug>(&mut self, what: impl Into<String>, result: Result<T, E>) {
        self.tried += 1;
        match result {
            Ok(_) => self.escape(what),
            Err(error) => self.answer(short(error)),
        }
    }

    /// Records an attempt that may succeed as long as it does not yield `secret`.
    pub(crate) fn must_not_yield<E: Debug>(
        &mut self,
        what: impl Into<String>,
        result: Result<Vec<u8>, E>,
        secret: &str,
    ) {
        self.tried += 1;
        match result {
            Ok(bytes) if contains(&bytes, secret) => self.escape(what),
            Ok(bytes) => self.answer(format!("{} other bytes", bytes.len())),
            Err(error) => self.answer(short(error)),
        }
    }

    /// Records an escape.
    pub(crate) fn escape(&mut self, what: impl Into<String>) {
        // A limit, because a guest that floods its own report would hide the first findings.
        if self.escapes.len() < 20 {
            self.escapes.push(what.into());
        }
    }

    /// Records a result.
    pub(crate) fn answer(&mut self, answer: impl Into<String>) {
        *self.answers.entry(answer.into()).or_default() += 1;
    }

    /// Returns the line to print.
    pub(crate) fn line(&self, verb: &str) -> String {
        let detail =
            json!({ "tried": self.tried, "escapes": self.escapes, "answers": self.answers });
        json!({ "verb": verb, "denied": self.escapes.is_empty(), "detail": detail }).to_string()
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        if self.escapes.is_empty() { 0 } else { ESCAPED }
    }
}

/// Shortens an error to its name: codes of WASI 0.2 print their whole documentation.
pub(crate) fn short(error: impl Debug) -> String {
    let text = format!("{error:?}");
    let text = match text.split_once("name: \"").and_then(|(_, rest)| rest.split_once('"')) {
        Some((name, _)) => name,
        None => text.trim_matches('"'),
    };
    text.chars().take(200).collect()
}

/// Returns whether the bytes contain a text.
pub(crate) fn contains(bytes: &[u8], text: &str) -> bool {
    !text.is_empty() && bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
