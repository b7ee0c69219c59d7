//! The counts of one session, until they are written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;

use super::writer::Writer;

/// The most skills that one session counts. A client that asks for more is not read by anyone.
const SKILLS: usize = 1_000;

/// An event that is counted for a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageEvent {
    /// A search returned it.
    Discovered {
        /// The size of its entry in the answer, in bytes.
        sent: u64,
    },
    /// Its instructions were sent.
    Activated {
        /// The size of the answer, in bytes.
        sent: u64,
        /// Whether the skill was disclosed to the session from the start.
        always: bool,
    },
    /// One of its files was read.
    Read,
    /// One of its programs or tools ran.
    Ran {
        /// Whether it exited with 0.
        succeeded: bool,
        /// The number of refused attempts during the run.
        denials: u64,
    },
    /// A run of it was refused.
    Refused,
}

/// A session, which counts or not.
pub struct UsageSession(Option<(Arc<Writer>, Arc<Tally>)>);

/// The counts of a session, and how to compute the size of all definitions.
pub(super) struct Tally {
    /// `None` for requests without a session.
    whole: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
    state: Mutex<TallyState>,
}

#[derive(Default)]
struct TallyState {
    /// Counts that are not written yet.
    batch: Batch,
    /// The skills that appeared in this session.
    seen: BTreeMap<String, SeenSkill>,
    /// The session's row in the file.
    row: Option<i64>,
    listed: u64,
    whole: Option<u64>,
}

struct SeenSkill {
    /// When a search first returned it.
    found: Option<Instant>,
    used: bool,
}

/// Counts to be written: those since the last write.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// When the first event happened.
    pub(super) started: Option<Timestamp>,
    /// Bytes of answers that were not about one skill.
    pub(super) told: u64,
    pub(super) skills: BTreeMap<String, Counts>,
}

/// The counts of one skill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) discovered: u64,
    pub(super) activated: u64,
    /// Those of `activated` that were disclosed from the start.
    pub(super) activated_always: u64,
    pub(super) read: u64,
    pub(super) runs: u64,
    pub(super) succeeded: u64,
    pub(super) denials: u64,
    /// Bytes that were sent about it.
    pub(super) sent: u64,
    /// The size of its definition, in bytes.
    pub(super) defined: u64,
    /// The time from the first search that returned it to its first use.
    pub(super) waited_ms: Option<u64>,
}

/// The columns of a session, apart from its skills.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) id: Option<i64>,
    pub(super) alone: bool,
    pub(super) whole: u64,
    pub(super) listed: u64,
}

impl UsageSession {
    pub(super) fn new(writer: Option<Arc<Writer>>, tally: Tally) -> UsageSession {
        UsageSession(writer.map(|writer| (writer, Arc::new(tally))))
    }

    /// Records an event of a skill, whose definition has `defined` bytes.
    pub fn count(&self, skill: &str, defined: impl FnOnce() -> u64, event: UsageEvent) {
        let Some((writer, tally)) = &self.0 else { return };
        if tally.state().count(skill, defined, event) {
            writer.changed(tally);
        }
    }

    /// Records the size of a tool list, without the tools of skills, which would be sent in any
    /// case.
    pub fn count_listing(&self, bytes: impl FnOnce() -> u64) {
        let Some((_, tally)) = &self.0 else { return };
        let mut state = tally.state();
        state.listed = state.listed.max(bytes());
    }

    /// Records the size of an answer that was not about one skill.
    pub fn count_answer(&self, bytes: u64) {
        let Some((writer, tally)) = &self.0 else { return };
        tally.state().count_answer(bytes);
        writer.changed(tally);
    }
}

impl Tally {
    pub(super) fn new(whole: Option<Box<dyn Fn() -> u64 + Send + Sync>>) -> Tally {
        Tally { whole, state: Mutex::default() }
    }

    /// Takes the counts to be written, with the columns of the session; `None` if there are none.
    pub(super) fn take(&self) -> Option<(Row, Batch)> {
        let alone = self.whole.is_none();
        let known = self.state().whole;
        // Outside the lock: it looks at every skill.
        let whole = known.or_else(|| self.whole.as_ref().map(|whole| whole()));
        let mut state = self.state();
        state.whole = whole;
        let mut batch = std::mem::take(&mut state.batch);
        batch.started?;
        if alone {
            // The search may have been one client's, and the use another's.
            batch.skills.values_mut().for_each(|counts| counts.waited_ms = None);
        }
        Some((
            Row {
                id: state.row,
                alone,
                whole: whole.unwrap_or(0),
                listed: if alone { 0 } else { state.listed },
            },
            batch,
        ))
    }

    /// Stores the id of the row that was written.
    pub(super) fn written(&self, row: i64) {
        self.state().row = Some(row);
    }

    /// Puts back counts that could not be written.
    pub(super) fn put_back(&self, batch: Batch) {
        let mut state = self.state();
        state.batch.started = batch.started.or(state.batch.started);
        state.batch.told += batch.told;
        for (skill, counts) in batch.skills {
            if let Some(sum) = state.room(&skill) {
                sum.add(&counts);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, TallyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TallyState {
    /// Returns whether the event was counted. Events of skills beyond the maximum are not.
    fn count(&mut self, skill: &str, defined: impl FnOnce() -> u64, event: UsageEvent) -> bool {
        if !self.seen.contains_key(skill) {
            if self.seen.len() >= SKILLS {
                return false;
            }
            self.seen.insert(skill.to_owned(), SeenSkill { found: None, used: false });
        }
        let is_use = !matches!(event, UsageEvent::Discovered { .. } | UsageEvent::Refused);
        let waited = self.seen.get_mut(skill).and_then(|seen| {
            if matches!(event, UsageEvent::Discovered { .. }) {
                seen.found.get_or_insert_with(Instant::now);
            }
            let is_first = is_use && !std::mem::replace(&mut seen.used, true);
            seen.found.filter(|_| is_first)
        });
        self.batch.started.get_or_insert_with(Timestamp::now);
        let Some(counts) = self.room(skill) else { return false };
        counts.defined = defined();
        counts.waited_ms = counts
            .waited_ms
            .or(waited.map(|found| u64::try_from(found.elapsed().as_millis()).unwrap_or(u64::MAX)));
        match event {
            UsageEvent::Discovered { sent } => {
                counts.discovered += 1;
                counts.sent += sent;
            }
            UsageEvent::Activated { sent, always } => {
                counts.activated += 1;
                counts.activated_always += u64::from(always);
                counts.sent += sent;
            }
            UsageEvent::Read => counts.read += 1,
            UsageEvent::Ran { succeeded, denials } => {
                counts.runs += 1;
                counts.succeeded += u64::from(succeeded);
                counts.denials += denials;
            }
            UsageEvent::Refused => counts.denials += 1,
        }
        true
    }

    fn count_answer(&mut self, bytes: u64) {
        self.batch.started.get_or_insert_with(Timestamp::now);
        self.batch.told += bytes;
    }

    /// Returns the pending counts of a skill.
    fn room(&mut self, skill: &str) -> Option<&mut Counts> {
        if self.batch.skills.len() >= SKILLS && !self.batch.skills.contains_key(skill) {
            return None;
        }
        Some(self.batch.skills.entry(skill.to_owned()).or_default())
    }
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        let Counts {
            discovered,
            activated,
            activated_always,
            read,
            runs,
            succeeded,
            denials,
            sent,
            defined,
            waited_ms,
        } = other;
        for (sum, more) in [
            (&mut self.discovered, discovered),
            (&mut self.activated, activated),
            (&mut self.activated_always, activated_always),
            (&mut self.read, read),
            (&mut self.runs, runs),
            (&mut self.succeeded, succeeded),
            (&mut self.denials, denials),
            (&mut self.sent, sent),
        ] {
            *sum += more;
        }
        self.defined = self.defined.max(*defined);
        self.waited_ms = waited_ms.or(self.waited_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Tally {
        Tally::new(Some(Box::new(|| 70)))
    }

    #[test]
    fn a_session_counts_at_most_a_thousand_skills() {
        let tally = session();
        let noted =
            |number: usize| tally.state().count(&number.to_string(), || 1, UsageEvent::Read);
        assert!((0..SKILLS).all(noted));
        assert!(!noted(SKILLS) && noted(0));
        assert_eq!(tally.take().map(|(_, batch)| batch.skills.len()), Some(SKILLS));
        // Nor any others, after those were written.
        assert!(!noted(SKILLS) && noted(1));
    }

    #[test]
    fn unwritten_counts_are_added_to_the_next_ones() {
        let tally = session();
        tally.state().count("a", || 7, UsageEvent::Discovered { sent: 5 });
        let (_, batch) = tally.take().unwrap();
        assert!(tally.take().is_none());
        tally.state().count("a", || 7, UsageEvent::Ran { succeeded: true, denials: 2 });
        tally.put_back(batch);
        let (row, batch) = tally.take().unwrap();
        assert_eq!((row.id, row.whole, row.alone), (None, 70, false));
        let Counts { discovered, runs, succeeded, denials, sent, defined, waited_ms, .. } =
            batch.skills["a"];
        assert_eq!((discovered, runs, succeeded, denials, sent, defined), (1, 1, 1, 2, 5, 7));
        assert!(waited_ms.is_some());
    }

    #[test]
    fn only_the_first_use_sets_the_waiting_time() {
        let tally = session();
        for event in [
            UsageEvent::Activated { sent: 1, always: false },
            UsageEvent::Discovered { sent: 1 },
            UsageEvent::Read,
        ] {
            tally.state().count("used first", || 1, event);
        }
        for event in [UsageEvent::Discovered { sent: 1 }, UsageEvent::Refused] {
            tally.state().count("never used", || 1, event);
        }
        let (_, batch) = tally.take().unwrap();
        assert!(batch.skills.values().all(|counts| counts.waited_ms.is_none()), "{batch:?}");
    }
}
