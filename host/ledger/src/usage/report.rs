//! Figures of what was counted: of sessions from the file, of all runs from the audit log.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::UsageError;
use super::store::{SessionRow, UsageStore};
use super::tally::Counts;
use crate::audit::{self, LogEntry, RecordFilter};

/// Bytes of a token, as no tokenizer in use counts more for English and JSON; they take about 4.
const TOKEN: i64 = 3;

/// How skills were used.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Stats {
    /// The form of these figures: 1.
    pub version: u32,
    /// Since when, RFC 3339 in UTC.
    pub since: String,
    /// Sessions in which something was asked for.
    pub sessions: u64,
    /// Tokens that these sessions were spared, against every skill's definition.
    pub tokens_saved: i64,
    /// Each skill that came up, the most used first.
    pub skills: Vec<SkillStats>,
    /// Each session, the newest first.
    pub by_session: Vec<SessionStats>,
}

/// How one skill was used.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SkillStats {
    /// Its name.
    pub skill: String,
    /// Sessions that used it: activated it, read a file of it or ran it.
    pub sessions: u64,
    /// The figures; `runs`, `succeeded` and `denials` are those of the audit log, with runs on the
    /// command line.
    #[serde(flatten)]
    pub figures: Figures,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SessionStats {
    /// Its number.
    pub session: i64,
    /// When something was asked for first, RFC 3339 in UTC.
    pub started: String,
    /// Whether it is no session, but the requests that stood alone while a server ran.
    pub alone: bool,
    /// Tokens that it was spared.
    pub tokens_saved: i64,
    /// Each skill that came up in it.
    pub skills: Vec<SkillInSession>,
}

/// How a session used a skill.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SkillInSession {
    /// Its name.
    pub skill: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What is counted of a skill.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Figures {
    /// Searches that named it.
    pub discovered: u64,
    /// How often its instructions were given.
    pub activated: u64,
    /// Files of it that were read.
    pub read: u64,
    /// Runs of its programs and tools that started.
    pub runs: u64,
    /// Those that exited with 0.
    pub succeeded: u64,
    /// Which part of them that is, from 0 to 1; `null` without runs.
    pub success_rate: Option<f64>,
    /// What was refused: runs that were not let start, and what runs tried.
    pub denials: u64,
    /// From the first search that named it to its first use, in milliseconds; of several sessions
    /// the median.
    pub first_use_ms: Option<u64>,
    /// Tokens of its definition less those that were sent about it, in the sessions in which it
    /// came up.
    pub tokens_saved: i64,
}

/// The figures of all skills, or of one.
///
/// # Errors
/// The file or the audit log cannot be read.
pub fn report(
    store: &UsageStore,
    audit: Option<&audit::UsageStore>,
    since: Timestamp,
    skill: Option<&str>,
) -> Result<Stats, UsageError> {
    let mut skills = BTreeMap::<String, Sum>::new();
    let mut by_session = BTreeMap::<i64, Vec<(String, Counts)>>::new();
    let kept = store.sessions(since)?;
    let real: BTreeSet<i64> = kept.iter().filter(|one| !one.alone).map(|one| one.id).collect();
    let mut sent = BTreeMap::<i64, i64>::new();
    for (session, name, counts) in store.used(since)? {
        *sent.entry(session).or_default() += counts.sent.cast_signed();
        if skill.is_some_and(|wanted| wanted != name) {
            continue;
        }
        skills.entry(name.clone()).or_default().add(&counts, real.contains(&session));
        by_session.entry(session).or_default().push((name, counts));
    }
    if let Some(audit) = audit {
        let filter = RecordFilter {
            skill: skill.map(str::to_owned),
            since: Some(since),
            ..RecordFilter::default()
        };
        audit.query::<UsageError>(&filter, |line| {
            let record: LogEntry = serde_json::from_slice(line).unwrap_or_default();
            // What does not load did not run, and a record of a removal is of no skill.
            if !record.skill.name.is_empty() && record.status.kind != "invalid" {
                skills.entry(record.skill.name.clone()).or_default().ran(&record);
            }
            Ok(())
        })?;
    }
    let spared = |one: &SessionRow| match one.alone {
        true => 0,
        false => tokens(one.spared - sent.get(&one.id).copied().unwrap_or(0)),
    };
    let tokens_saved = kept.iter().map(spared).sum();
    let sessions = real.len() as u64;
    let of_session = |one: &SessionRow| {
        let came_up = by_session.remove(&one.id).unwrap_or_default();
        let skills = came_up
            .into_iter()
            .map(|(skill, counts)| SkillInSession { skill, figures: figures(&counts) });
        SessionStats {
            session: one.id,
            started: one.started.to_string(),
            alone: one.alone,
            tokens_saved: spared(one),
            skills: skills.collect(),
        }
    };
    let by_session: Vec<SessionStats> = kept
        .iter()
        .map(of_session)
        .filter(|one| skill.is_none() || !one.skills.is_empty())
        .collect();
    let mut skills: Vec<SkillStats> =
        skills.into_iter().map(|(skill, sum)| sum.stats(skill)).collect();
    let rank = |one: &SkillStats| {
        (one.sessions, one.figures.runs, one.figures.activated, one.figures.discovered)
    };
    skills.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.skill.cmp(&b.skill)));
    Ok(Stats { version: 1, since: since.to_string(), sessions, tokens_saved, skills, by_session })
}

/// A skill over all sessions, and all records.
#[derive(Default)]
struct Sum {
    sessions: u64,
    figures: Figures,
    waited: Vec<u64>,
    /// Bytes.
    saved: i64,
}

impl Sum {
    fn add(&mut self, counts: &Counts, is_session: bool) {
        self.sessions += u64::from(is_session && counts.activated + counts.read + counts.runs > 0);
        self.figures.discovered += counts.discovered;
        self.figures.activated += counts.activated;
        self.figures.read += counts.read;
        self.waited.extend(counts.waited_ms);
        self.saved += saved(counts);
    }

    fn ran(&mut self, LogEntry { status, denials, .. }: &LogEntry) {
        // What was not let start has no denial beside its status.
        let is_refused = status.kind == "denied";
        self.figures.runs += u64::from(!is_refused);
        self.figures.succeeded += u64::from(status.kind == "exited" && status.code == Some(0));
        self.figures.denials += (denials.len() as u64).max(u64::from(is_refused));
    }

    fn stats(mut self, skill: String) -> SkillStats {
        self.waited.sort_unstable();
        self.figures.first_use_ms =
            self.waited.get(self.waited.len().saturating_sub(1) / 2).copied();
        self.figures.success_rate = rate(&self.figures);
        self.figures.tokens_saved = tokens(self.saved);
        SkillStats { skill, sessions: self.sessions, figures: self.figures }
    }
}

/// Those of one skill in one session.
fn figures(counts: &Counts) -> Figures {
    let Counts { discovered, activated, read, runs, succeeded, denials, waited_ms, .. } = *counts;
    let tokens_saved = tokens(saved(counts));
    let mut figures = Figures {
        discovered,
        activated,
        read,
        runs,
        succeeded,
        denials,
        first_use_ms: waited_ms,
        tokens_saved,
        success_rate: None,
    };
    figures.success_rate = rate(&figures);
    figures
}

fn rate(figures: &Figures) -> Option<f64> {
    (figures.runs > 0).then(|| figures.succeeded as f64 / figures.runs as f64)
}

fn saved(counts: &Counts) -> i64 {
    counts.defined.cast_signed() - counts.sent.cast_signed()
}

/// Rounded to nought: neither a saving nor a cost is made larger.
fn tokens(bytes: i64) -> i64 {
    bytes / TOKEN
}
