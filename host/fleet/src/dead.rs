//! Runs that no worker could end: an operator lists them, and puts them into their queue again.

use futures::TryStreamExt as _;

use crate::broker::{Broker, Written, unavailable};
use crate::names;
use crate::runs::{Change, Runs};
use crate::streams;
use crate::types::{Bounded as _, DeadLetter, RunRecord, RunState};
use skillhost_ledger::runs::RunStatus;
use skillhost_server::api::fleet::{FleetError, RunEvent};

/// Returns the dead letters of a tenant, the earliest first.
///
/// # Errors
/// The brokers do not answer, or the tenant has no queue.
pub async fn list(broker: &Broker, tenant: &str) -> Result<Vec<DeadLetter>, FleetError> {
    let name = names::dead_stream(tenant);
    let stream = broker.stream(&name).await?;
    let subjects = stream
        .info_with_subjects(names::dead(tenant, "*"))
        .await
        .map_err(|error| unavailable(&error))?;
    let subjects: Vec<(String, usize)> =
        subjects.try_collect().await.map_err(|error| unavailable(&error))?;
    let mut letters = Vec::new();
    for (subject, _) in subjects {
        if let Some(found) = broker.get(&name, &subject).await? {
            letters.push(DeadLetter::read(&found.bytes).map_err(FleetError::Untrusted)?);
        }
    }
    letters.sort_by_key(|letter| letter.at);
    Ok(letters)
}

/// Puts a run into its queue again, with all its attempts. Returns whether it was given up.
///
/// # Errors
/// The brokers do not answer, or the queue is full.
pub async fn requeue(broker: &Broker, tenant: &str, run: &str) -> Result<bool, FleetError> {
    let runs = Runs::new(broker.clone(), tenant);
    let was_given_up = |record: &RunRecord| match &record.state {
        RunState::Ended(end) => {
            broker.identity.verify(end, tenant, run).is_ok_and(|end| end.status == RunStatus::Lost)
        }
        _ => false,
    };
    let changed = runs
        .change(run, |record| {
            was_given_up(&record).then_some(RunRecord {
                attempts: 0,
                refused: 0,
                state: RunState::Queued,
                ..record
            })
        })
        .await?;
    // Read before the run is in the queue again: if it fails again, it gets another letter, which must stay.
    let stream = names::dead_stream(tenant);
    let letter = broker.get(&stream, &names::dead(tenant, run)).await?;
    let forget = async || match &letter {
        Some(letter) => broker.delete(&stream, letter.revision).await,
        None => Ok(()),
    };
    let Some(read) = runs.read(run).await? else {
        // It has expired, and its letter says nothing any more.
        forget().await?;
        return Ok(false);
    };
    // An earlier call may have ended before the run was in the queue.
    if changed == Change::Refused && (read.record.state != RunState::Queued || letter.is_none()) {
        return Ok(false);
    }
    // Another id than that of its first message, which the broker may remember.
    let again = format!("{run}-{}", crate::runs::now());
    if runs.enqueue(&read.record, &again).await? == Written::Full {
        return Err(FleetError::Full);
    }
    runs.announce(run, RunEvent::Changed).await;
    forget().await?;
    Ok(true)
}

/// Deletes everything of a tenant in the fleet. Returns whether there was anything.
///
/// # Errors
/// The brokers do not answer.
pub async fn delete_tenant(broker: &Broker, tenant: &str) -> Result<bool, FleetError> {
    streams::delete(broker, tenant).await
}
