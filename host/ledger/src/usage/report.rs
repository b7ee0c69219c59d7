//! Statistics: of sessions from the usage file, and of all runs from the audit log.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::UsageError;
use super::store::{SessionRow, UsageStore};
use super::tally::Counts;
use crate::approval::Approval;
use crate::audit::{self, LogEntry, RecordFilter};

/// Bytes per token. Tokenizers in use need about 4 bytes per token for English and JSON, and no
/// fewer than this.
const TOKEN: i64 = 3;

/// The most rules to list for a skill.
const RULES: usize = 20;

/// Statistics of all skills.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Stats {
    /// The version of this format: 1.
    pub version: u32,
    /// The start of the period, RFC 3339 in UTC.
    pub since: String,
    /// Sessions with at least one request.
    pub sessions: u64,
    /// Tokens that these sessions saved, compared to listing every skill's definition.
    pub tokens_saved: i64,
    /// How often instructions were sent, by how their skill was disclosed.
    pub activations: TierCounts,
    /// Each skill that was found or used, most used first.
    pub skills: Vec<SkillStats>,
    /// Each session, newest first.
    pub by_session: Vec<SessionStats>,
}

/// A count for each way in which skills are disclosed. Hidden skills have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct TierCounts {
    /// Skills that the session had from its start.
    pub always: u64,
    /// Skills that a search finds.
    pub deferred: u64,
}

/// Statistics of one skill.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SkillStats {
    /// Its name.
    pub skill: String,
    /// Sessions that used it: activated it, read one of its files, or ran it.
    pub sessions: u64,
    /// The time of its last run, or of the start of the last session that used it, RFC 3339 in UTC.
    pub last_used: Option<String>,
    /// Requests for approval of its runs and changes that were approved.
    pub approved: u64,
    /// Requests that were rejected.
    pub rejected: u64,
    /// The share of answered requests that were approved, from 0 to 1; `null` without answers.
    pub approval_rate: Option<f64>,
    /// Refused runs and attempts, by the rule that refused them: the 20 most frequent rules.
    pub denials_by_rule: BTreeMap<String, u64>,
    /// The figures. `runs`, `succeeded` and `denials` come from the audit log, and include runs on
    /// the command line.
    #[serde(flatten)]
    pub figures: Figures,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SessionStats {
    /// Its number.
    pub session: i64,
    /// The time of its first request, RFC 3339 in UTC.
    pub started: String,
    /// Whether this counts requests without a session, rather than one session.
    pub alone: bool,
    /// Tokens that it saved.
    pub tokens_saved: i64,
    /// Each skill that was found or used in it.
    pub skills: Vec<SkillInSession>,
}

/// Statistics of one skill in one session.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SkillInSession {
    /// Its name.
    pub skill: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The figures of a skill.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Figures {
    /// Searches that returned it.
    pub discovered: u64,
    /// How often its instructions were sent.
    pub activated: u64,
    /// Those of `activated` in sessions that had the skill from their start.
    pub activated_always: u64,
    /// Files of it that were read.
    pub read: u64,
    /// Runs of its programs and tools that started.
    pub runs: u64,
    /// Runs that exited with 0.
    pub succeeded: u64,
    /// The share of successful runs, from 0 to 1; `null` without runs.
    pub success_rate: Option<f64>,
    /// Refused runs, and refused attempts during runs.
    pub denials: u64,
    /// The time from the first search that returned it to its first use, in milliseconds; the
    /// median of several sessions.
    pub first_use_ms: Option<u64>,
    /// The size of its definition, less what was sent about it, in tokens, in the sessions in which
    /// it was found or used.
    pub tokens_saved: i64,
}

/// Returns the statistics of all skills, or of one.
///
/// # Errors
/// The file or the audit log cannot be read.
pub fn report(
    store: &UsageStore,
    audit: Option<&audit::LogStore>,
    answers: &[Approval],
    since: Timestamp,
    skill: Option<&str>,
) -> Result<Stats, UsageError> {
    let mut skills = BTreeMap::<String, Sum>::new();
    let mut by_session = BTreeMap::<i64, Vec<(String, Counts)>>::new();
    let kept = store.sessions(since)?;
    let real: BTreeSet<i64> = kept.iter().filter(|one| !one.alone).map(|one| one.id).collect();
    let starts: BTreeMap<i64, Timestamp> = kept.iter().map(|one| (one.id, one.started)).collect();
    let mut sent = BTreeMap::<i64, i64>::new();
    for (session, name, counts) in store.used(since)? {
        *sent.entry(session).or_default() += counts.sent.cast_signed();
        if skill.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let started = starts.get(&session).copied();
        skills.entry(name.clone()).or_default().add(&counts, real.contains(&session), started);
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
            // A skill that does not load did not run, and a removal record has no skill.
            if !record.skill.name.is_empty() && record.status.kind != "invalid" {
                skills.entry(record.skill.name.clone()).or_default().ran(&record);
            }
            Ok(())
        })?;
    }
    let since_text = since.to_string();
    for answer in answers.iter().filter(|answer| answer.time >= since_text) {
        if skill.is_none_or(|wanted| wanted == answer.skill) {
            skills.entry(answer.skill.clone()).or_default().answered(answer);
        }
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
    let sum = |count: fn(&Figures) -> u64| skills.iter().map(|one| count(&one.figures)).sum();
    let (all, always) = (sum(|one| one.activated), sum(|one| one.activated_always));
    let activations = TierCounts { always, deferred: u64::saturating_sub(all, always) };
    let rank = |one: &SkillStats| {
        (one.sessions, one.figures.runs, one.figures.activated, one.figures.discovered)
    };
    skills.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.skill.cmp(&b.skill)));
    Ok(Stats {
        version: 1,
        since: since.to_string(),
        sessions,
        tokens_saved,
        activations,
        skills,
        by_session,
    })
}

/// A skill's sums over all sessions and records.
#[derive(Default)]
struct Sum {
    sessions: u64,
    figures: Figures,
    waited: Vec<u64>,
    /// In bytes.
    saved: i64,
    last_used: Option<Timestamp>,
    approved: u64,
    rejected: u64,
    denials_by_rule: BTreeMap<String, u64>,
}

impl Sum {
    fn add(&mut self, counts: &Counts, is_session: bool, started: Option<Timestamp>) {
        let is_used = counts.activated + counts.read + counts.runs > 0;
        self.sessions += u64::from(is_session && is_used);
        self.last_used = self.last_used.max(started.filter(|_| is_used));
        self.figures.discovered += counts.discovered;
        self.figures.activated += counts.activated;
        self.figures.activated_always += counts.activated_always;
        self.figures.read += counts.read;
        self.waited.extend(counts.waited_ms);
        self.saved += saved(counts);
    }

    fn answered(&mut self, answer: &Approval) {
        self.approved += u64::from(!answer.rejected);
        self.rejected += u64::from(answer.rejected);
    }

    fn ran(&mut self, LogEntry { status, denials, time, .. }: &LogEntry) {
        // A refused run has its denial in the status only.
        let is_refused = status.kind == "denied";
        self.figures.runs += u64::from(!is_refused);
        self.figures.succeeded += u64::from(status.kind == "exited" && status.code == Some(0));
        self.figures.denials += (denials.len() as u64).max(u64::from(is_refused));
        let rules = denials.iter().map(|denial| &denial.rule);
        let refused = status.rule.iter().filter(|_| is_refused && denials.is_empty());
        for rule in rules.chain(refused) {
            *self.denials_by_rule.entry(rule.clone()).or_default() += 1;
        }
        if !is_refused {
            self.last_used = self.last_used.max(time.parse().ok());
        }
    }

    fn stats(mut self, skill: String) -> SkillStats {
        self.waited.sort_unstable();
        self.figures.first_use_ms =
            self.waited.get(self.waited.len().saturating_sub(1) / 2).copied();
        self.figures.success_rate = rate(&self.figures);
        self.figures.tokens_saved = tokens(self.saved);
        let mut rules: Vec<(String, u64)> = self.denials_by_rule.into_iter().collect();
        rules.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        rules.truncate(RULES);
        let answers = self.approved + self.rejected;
        SkillStats {
            skill,
            sessions: self.sessions,
            last_used: self.last_used.map(|time| time.to_string()),
            approved: self.approved,
            rejected: self.rejected,
            approval_rate: (answers > 0).then(|| self.approved as f64 / answers as f64),
            denials_by_rule: rules.into_iter().collect(),
            figures: self.figures,
        }
    }
}

/// Returns the figures of one skill in one session.
fn figures(counts: &Counts) -> Figures {
    let Counts {
        discovered,
        activated,
        activated_always,
        read,
        runs,
        succeeded,
        denials,
        waited_ms,
        ..
    } = *counts;
    let tokens_saved = tokens(saved(counts));
    let mut figures = Figures {
        discovered,
        activated,
        activated_always,
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

/// Rounds toward zero, so that neither savings nor costs are exaggerated.
fn tokens(bytes: i64) -> i64 {
    bytes / TOKEN
}
