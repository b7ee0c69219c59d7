//! The record of all runs of a tenant: the signed ends in the order in which they were stored, without
//! output.
//!
//! Several workers write it at once, so no record names the one before it. The reader chains the records: a
//! head covers each of them and their order.

use crate::broker::{Broker, unavailable};
use crate::names;
use crate::types::SignedEnd;
use skillhost_ledger::audit::ChainHead;
use skillhost_server::api::fleet::FleetError;
use skillhost_skill::runtime::digest;

/// What follows the id of a program of a session in the subject of the record that it has begun.
pub(crate) const BEGUN: &str = "-begun";

/// Verifies the ends of all runs of a tenant, and passes each to `print` as JSON. Returns the head of their
/// chain: its digest is that of three lines, the digest before, the subject of the record, and the record.
///
/// # Errors
/// The brokers do not answer; an end is not signed by a worker of the tenant; some were removed; or the
/// records do not continue those of the head `from`.
pub async fn verify<E: From<FleetError>>(
    broker: &Broker,
    tenant: &str,
    from: Option<&ChainHead>,
    mut print: impl FnMut(&str) -> Result<(), E>,
) -> Result<ChainHead, E> {
    let name = names::audit_stream(tenant);
    let stream = broker.stream(&name).await?;
    let info = stream.get_info().await.map_err(|error| unavailable(&error))?;
    let (stored, last) = (info.state.messages, info.state.last_sequence);
    let not_continued = |why: String| Err(FleetError::Untrusted(format!("{name}: {why}")).into());
    if let Some(from) = from.filter(|from| from.sequence > last) {
        return not_continued(format!("{last} records, and the head is of {}", from.sequence));
    }
    let continues =
        |head: &ChainHead| from.is_none_or(|from| from.sequence != head.sequence || from == head);
    let mut head = ChainHead::start();
    if !continues(&head) {
        return not_continued("the head of no records has a digest of zeros".into());
    }
    for sequence in 1..=last {
        let found = stream.get_raw_message(sequence).await;
        let found = found.map_err(|error| {
            // The stream permits no deletion, so an administrator of the broker removed it.
            FleetError::Untrusted(format!("{name}: record {sequence} of {last}: {error}"))
        })?;
        let wrong = |why: &dyn std::fmt::Display| {
            FleetError::Untrusted(format!("record {sequence}: {why}"))
        };
        let run = found.subject.rsplit('.').next().unwrap_or_default();
        let run = run.strip_suffix("-lost").or_else(|| run.strip_suffix(BEGUN)).unwrap_or(run);
        let end: SignedEnd =
            serde_json::from_slice(&found.payload).map_err(|error| wrong(&error))?;
        broker.identity.verify(&end, tenant, run).map_err(|error| wrong(&error))?;
        head = next(&head, &found.subject, &found.payload);
        if !continues(&head) {
            return not_continued(format!(
                "the first {sequence} records are not those of the head"
            ));
        }
        print(&end.payload)?;
    }
    if stored != last {
        let why = format!("{name}: {stored} of {last} records are left");
        return Err(FleetError::Untrusted(why).into());
    }
    Ok(head)
}

fn next(head: &ChainHead, subject: &str, record: &[u8]) -> ChainHead {
    let text = [head.digest.as_bytes(), subject.as_bytes(), record].join(&b'\n');
    ChainHead { sequence: head.sequence + 1, digest: digest(&text) }
}
