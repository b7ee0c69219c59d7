//! Writes the records of runs. Every change is a compare-and-set on the record's revision; what holds a
//! run for a worker is its claim, so that a client's cancellation in between does no harm.

use std::sync::Arc;

use crate::broker::{Broker, Written, unavailable};
use crate::identity::Identity;
use crate::names;
use crate::types::{Bounded, Claim, Job, RunEnd, RunRecord, RunState, SignedEnd, VERSION};
use skillhost_ledger::runs::RunStatus;
use skillhost_server::api::fleet::{Content, FleetEnd, FleetError, RunClass, RunEvent};

/// How often a change is tried again that others came before. Only a client's cancellations and another
/// worker change a run in progress.
const TRIES: usize = 16;

/// Announces that a run has changed but not ended.
const CHANGED: &[u8] = b"changed";

/// A record, and its revision.
pub(crate) struct Read {
    pub(crate) record: RunRecord,
    pub(crate) revision: u64,
}

/// What came of a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Made,
    /// The record does not exist, or is in another state.
    Refused,
}

/// The runs of one tenant.
#[derive(Clone)]
pub(crate) struct Runs {
    pub(crate) broker: Broker,
    pub(crate) tenant: Arc<str>,
}

impl Runs {
    pub(crate) fn new(broker: Broker, tenant: &str) -> Runs {
        Runs { broker, tenant: tenant.into() }
    }

    pub(crate) async fn read(&self, run: &str) -> Result<Option<Read>, FleetError> {
        let subject = names::run(&self.tenant, run);
        let Some(found) = self.broker.get(&names::runs_stream(&self.tenant), &subject).await?
        else {
            return Ok(None);
        };
        let record = RunRecord::read(&found.bytes)
            .map_err(|why| FleetError::Untrusted(format!("the record of the run {run}: {why}")))?;
        if record.id != run {
            return Err(FleetError::Untrusted(format!("the record of the run {run}")));
        }
        Ok(Some(Read { record, revision: found.revision }))
    }

    /// Adds a record, unless there is one. Returns the revision of the new one.
    ///
    /// If there may be one, read it first: after a kill, a broker before 2.10.19 may repeat as many writes as
    /// it has refused, and later lose others.
    pub(crate) async fn create(&self, record: &RunRecord) -> Result<Option<u64>, FleetError> {
        match self.write(record, 0).await? {
            Written::At(revision) => Ok(Some(revision)),
            Written::Conflict => Ok(None),
            Written::Full => Err(FleetError::Full),
        }
    }

    /// Puts a run into its queue.
    pub(crate) async fn enqueue(
        &self,
        record: &RunRecord,
        id: &str,
    ) -> Result<Written, FleetError> {
        let job = Job { version: VERSION, run: record.id.clone() };
        let subject = names::queue(&self.tenant, record.class.name());
        let written = self.broker.add(subject, bytes(&job)?, id).await?;
        self.broker.tell(names::hint(&self.tenant, record.class), Vec::new()).await;
        Ok(written)
    }

    /// Checks whether a queue will never deliver a message again: the message counts as acknowledged, or the
    /// queue is empty and has not reached it. If the run has not ended, the brokers have lost the message:
    /// a worker acknowledges it after the end.
    pub(crate) async fn is_forgotten(
        &self,
        class: RunClass,
        message: u64,
    ) -> Result<bool, FleetError> {
        let info = self.broker.queue_info(&self.tenant, class).await?;
        let is_acknowledged = info.ack_floor.stream_sequence >= message;
        let is_unknown = info.num_pending == 0 && info.delivered.stream_sequence < message;
        Ok(is_acknowledged || is_unknown)
    }

    /// Changes a record by compare-and-set, and tries again after each concurrent change. `change`
    /// returns the new record, or `None` to leave it.
    pub(crate) async fn change(
        &self,
        run: &str,
        change: impl Fn(RunRecord) -> Option<RunRecord>,
    ) -> Result<Change, FleetError> {
        let Some(read) = self.read(run).await? else { return Ok(Change::Refused) };
        let changed = self.change_from(read, change).await?;
        Ok(changed.map_or(Change::Refused, |_| Change::Made))
    }

    /// Changes a record that was read before, without reading it again unless it has changed. Returns
    /// the new record.
    pub(crate) async fn change_from(
        &self,
        read: Read,
        change: impl Fn(RunRecord) -> Option<RunRecord>,
    ) -> Result<Option<Read>, FleetError> {
        let Read { mut record, mut revision } = read;
        for _ in 0..TRIES {
            let run = record.id.clone();
            let Some(changed) = change(record) else { return Ok(None) };
            match self.write(&changed, revision).await? {
                Written::At(revision) => return Ok(Some(Read { record: changed, revision })),
                Written::Conflict => {}
                Written::Full => return Err(FleetError::Full),
            }
            let Some(read) = self.read(&run).await? else { return Ok(None) };
            Read { record, revision } = read;
        }
        Err(unavailable(&"others change the run all the time"))
    }

    /// Stores the end of a run for the holder of a claim. `known`: the record, if it was read before.
    pub(crate) async fn commit(
        &self,
        run: &str,
        claim: &Claim,
        end: &SignedEnd,
        known: Option<Read>,
    ) -> Result<Change, FleetError> {
        let change = |record: RunRecord| {
            record
                .is_held_by(claim)
                .then(|| RunRecord { state: RunState::Ended(end.clone()), ..record })
        };
        let changed = match known {
            Some(read) => {
                let changed = self.change_from(read, change).await;
                changed.map(|changed| changed.map_or(Change::Refused, |_| Change::Made))
            }
            None => self.change(run, change).await,
        };
        let is_stored = |record: &RunRecord| match &record.state {
            RunState::Ended(stored) => stored.is_same(end),
            _ => false,
        };
        let made = match changed {
            Ok(made) => made,
            // The answer may have been lost and not the write.
            Err(error) => match self.read(run).await? {
                Some(read) if is_stored(&read.record) => Change::Made,
                _ => return Err(error),
            },
        };
        if made == Change::Refused
            && let Some(read) = self.read(run).await?
            && is_stored(&read.record)
        {
            return Ok(Change::Made);
        }
        Ok(made)
    }

    /// Writes the signed end of a run into the tenant's record of all runs, once. Without its output,
    /// which must expire: nothing expires there, and nothing counts towards the quota of storage.
    pub(crate) async fn record(&self, run: &str, end: &SignedEnd) -> Result<(), FleetError> {
        let bytes = serde_json::to_vec(&end.without_inline());
        let bytes = bytes.map_err(|error| unavailable(&error))?;
        match self.broker.put(names::audit(&self.tenant, run), bytes, Some(0)).await? {
            // A worker before this one got as far.
            Written::At(_) | Written::Conflict => Ok(()),
            Written::Full => Err(FleetError::Full),
        }
    }

    /// Writes the end of a run into the record, unless the run is lost: a dead letter can be queued again,
    /// and then has another end.
    pub(crate) async fn record_end(&self, run: &str, end: &SignedEnd) -> Result<(), FleetError> {
        match RunEnd::read(end.payload.as_bytes()) {
            Ok(read) if read.status != RunStatus::Lost => self.record(run, end).await,
            _ => Ok(()),
        }
    }

    /// Returns the end of a run that the tenant's record of all runs has.
    pub(crate) async fn recorded(&self, run: &str) -> Result<Option<SignedEnd>, FleetError> {
        let (stream, subject) =
            (names::audit_stream(&self.tenant), names::audit(&self.tenant, run));
        let Some(found) = self.broker.get(&stream, &subject).await? else { return Ok(None) };
        serde_json::from_slice(&found.bytes)
            .map(Some)
            .map_err(|error| FleetError::Untrusted(format!("the record of the run {run}: {error}")))
    }

    /// Restores the end of a run from the record of all runs. The output, which was stored with the end, is
    /// lost.
    pub(crate) async fn restore(&self, run: &str, end: &SignedEnd) -> Result<(), FleetError> {
        let restored = self.change(run, |record| {
            let has_ended = matches!(record.state, RunState::Ended(_));
            (!has_ended).then(|| RunRecord { state: RunState::Ended(end.clone()), ..record })
        });
        if restored.await? == Change::Made {
            tracing::warn!(tenant = &*self.tenant, run, "the brokers had lost the end of the run");
            self.announce(run, RunEvent::Ended).await;
        }
        Ok(())
    }

    /// Announces a change.
    pub(crate) async fn announce(&self, run: &str, event: RunEvent) {
        let bytes = if event == RunEvent::Changed { CHANGED } else { b"" };
        self.broker.tell(names::event(&self.tenant, run), bytes.to_vec()).await;
    }

    async fn write(&self, record: &RunRecord, revision: u64) -> Result<Written, FleetError> {
        let subject = names::run(&self.tenant, &record.id);
        self.broker.put(subject, bytes(record)?, Some(revision)).await
    }
}

/// Returns what an announcement says.
pub(crate) fn event(bytes: &[u8]) -> RunEvent {
    if bytes == CHANGED { RunEvent::Changed } else { RunEvent::Ended }
}

/// Returns the end of a run that ended without an outcome.
pub(crate) fn end_without_outcome(
    identity: &Identity,
    tenant: &str,
    record: &RunRecord,
    status: RunStatus,
    now: i64,
) -> Result<SignedEnd, FleetError> {
    let end = RunEnd {
        version: VERSION,
        tenant: tenant.to_owned(),
        run: record.id.clone(),
        skill: record.pinned.clone(),
        request: digest_of(&record.request),
        worker: identity.name.clone(),
        host: skillhost_server::api::worker::WorkerHost::HOST.into(),
        engine: skillhost_server::api::worker::WorkerHost::ENGINE.into(),
        attempt: record.attempts,
        status,
        kind: None,
        exit_code: None,
        started: None,
        ended: now,
        cpu_ms: 0,
        bytes: 0,
        key: None,
        session: None,
        left: FleetEnd::default(),
    };
    identity.sign(&end).map_err(|error| unavailable(&error))
}

/// Returns the digest of some content.
pub(crate) fn digest_of(content: &Content) -> String {
    match content {
        Content::Inline(bytes) => skillhost_skill::runtime::digest(&bytes.0),
        Content::Blob(digest) | Content::Digest(digest) => digest.clone(),
    }
}

fn bytes(value: &impl Bounded) -> Result<Vec<u8>, FleetError> {
    value.write().map_err(FleetError::TooLarge)
}

/// The time, in milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
