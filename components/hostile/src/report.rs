//! What an attempt came to: one JSON line, and an exit code that says whether it got out.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde_json::json;

/// The exit code of an attempt that got what it must not get.
pub(crate) const ESCAPED: u8 = 3;

/// What one verb tried and got.
#[derive(Default)]
pub(crate) struct Report {
    tried: u64,
    /// What worked and must not.
    escapes: Vec<String>,
    /// How often each answer came.
    answers: BTreeMap<String, u64>,
}

impl Report {
    /// Notes an attempt that must fail.
    pub(crate) fn must_fail<T, E: Debug>(&mut self, what: impl Into<String>, result: Result<T, E>) {
        self.tried += 1;
        match result {
            Ok(_) => self.escape(what),
            Err(error) => self.answer(short(error)),
        }
    }

    /// Notes an attempt that may seem to work, so long as what it yields is not what was looked
    /// for.
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

    /// Notes what must not be.
    pub(crate) fn escape(&mut self, what: impl Into<String>) {
        // A guest that floods its own report would only hide what it found first.
        if self.escapes.len() < 20 {
            self.escapes.push(what.into());
        }
    }

    /// Notes an answer.
    pub(crate) fn answer(&mut self, answer: impl Into<String>) {
        *self.answers.entry(answer.into()).or_default() += 1;
    }

    /// The line to print.
    pub(crate) fn line(&self, verb: &str) -> String {
        let detail =
            json!({ "tried": self.tried, "escapes": self.escapes, "answers": self.answers });
        json!({ "verb": verb, "denied": self.escapes.is_empty(), "detail": detail }).to_string()
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        if self.escapes.is_empty() { 0 } else { ESCAPED }
    }
}

/// An error in a word or two: a code of 0.2 shows its whole documentation otherwise.
pub(crate) fn short(error: impl Debug) -> String {
    let text = format!("{error:?}");
    let text = match text.split_once("name: \"").and_then(|(_, rest)| rest.split_once('"')) {
        Some((name, _)) => name,
        None => text.trim_matches('"'),
    };
    text.chars().take(200).collect()
}

/// Whether bytes hold a text.
pub(crate) fn contains(bytes: &[u8], text: &str) -> bool {
    !text.is_empty() && bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
