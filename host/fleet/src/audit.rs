//! The record of all runs of a tenant: the signed ends in the order in which they were stored, without
//! output.

use crate::broker::{Broker, unavailable};
use crate::names;
use crate::types::SignedEnd;
use skillhost_server::api::fleet::FleetError;

/// What follows the id of a program of a session in the subject of the record that it has begun.
pub(crate) const BEGUN: &str = "-begun";

/// Verifies the ends of all runs of a tenant, and passes each to `print` as JSON. Returns their number.
///
/// # Errors
/// The brokers do not answer; an end is not signed by a worker of the tenant; or some were removed.
pub async fn verify<E: From<FleetError>>(
    broker: &Broker,
    tenant: &str,
    mut print: impl FnMut(&str) -> Result<(), E>,
) -> Result<u64, E> {
    let name = names::audit_stream(tenant);
    let stream = broker.stream(&name).await?;
    let info = stream.get_info().await.map_err(|error| unavailable(&error))?;
    let (stored, last) = (info.state.messages, info.state.last_sequence);
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
        print(&end.payload)?;
    }
    if stored != last {
        let why = format!("{name}: {stored} of {last} records are left");
        return Err(FleetError::Untrusted(why).into());
    }
    Ok(last)
}
