//! What a tenant has used in the last hour, on all servers and workers together: one record, which
//! changes by compare-and-set, so that no two of them lose what the other has counted.

use std::time::Duration;

use crate::broker::{Broker, Written, unavailable};
use crate::names;
use crate::types::{Bounded as _, MinuteUsage, UsageRecord, VERSION};
use skillhost_ledger::runs::HourlyUsage;
use skillhost_server::api::fleet::FleetError;

const MINUTE: i64 = 60_000;
/// The time over which usage is summed, in minutes.
const HOUR: i64 = 60;
/// How often a change is tried again that others came before, and the longest pause in between.
const TRIES: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);

/// Adds to the usage of the current minute.
pub(crate) async fn charge(
    broker: &Broker,
    tenant: &str,
    (cpu_ms, bytes): (u64, u64),
    now: i64,
) -> Result<(), FleetError> {
    for _ in 0..TRIES {
        let (mut record, revision) = read(broker, tenant).await?;
        record.add(cpu_ms, bytes, now);
        let text = record.write().map_err(FleetError::TooLarge)?;
        match broker.put(names::usage(tenant), text, Some(revision)).await? {
            Written::At(_) => return Ok(()),
            Written::Full => return Err(FleetError::Full),
            // Not all at once again.
            Written::Conflict => {
                tokio::time::sleep(PAUSE.mul_f64(rand::random_range(0.0..1.0))).await;
            }
        }
    }
    Err(unavailable(&"others count what the tenant uses all the time"))
}

/// Returns the usage of the last hour.
pub(crate) async fn usage(
    broker: &Broker,
    tenant: &str,
    now: i64,
) -> Result<HourlyUsage, FleetError> {
    Ok(read(broker, tenant).await?.0.hourly(now))
}

async fn read(broker: &Broker, tenant: &str) -> Result<(UsageRecord, u64), FleetError> {
    let found = broker.get(&names::runs_stream(tenant), &names::usage(tenant)).await?;
    let Some(found) = found else {
        return Ok((UsageRecord { version: VERSION, minutes: Default::default() }, 0));
    };
    let record = UsageRecord::read(&found.bytes)
        .map_err(|why| FleetError::Untrusted(format!("the usage of {tenant}: {why}")))?;
    Ok((record, found.revision))
}

impl UsageRecord {
    fn add(&mut self, cpu_ms: u64, bytes: u64, now: i64) {
        let minute = now / MINUTE;
        self.minutes.retain(|known, _| *known > minute - HOUR);
        let used = self.minutes.entry(minute).or_default();
        used.cpu_ms = used.cpu_ms.saturating_add(cpu_ms);
        used.bytes = used.bytes.saturating_add(bytes);
    }

    /// What a machine whose clock is ahead has counted counts, too.
    fn hourly(&self, now: i64) -> HourlyUsage {
        let first = now / MINUTE - HOUR + 1;
        let counted = || self.minutes.range(first..);
        let sum = |of: fn(&MinuteUsage) -> u64| {
            counted().map(|(_, used)| of(used)).fold(0, u64::saturating_add)
        };
        let expires = counted().next().map_or(0, |(minute, _)| (minute + HOUR) * MINUTE - now);
        HourlyUsage {
            cpu_ms: sum(|used| used.cpu_ms),
            bytes: sum(|used| used.bytes),
            expires_in: u64::try_from(expires / 1000).unwrap_or(0) + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_a_fleet_counts_for_an_hour() {
        let mut record = UsageRecord { version: VERSION, minutes: Default::default() };
        record.add(5, 7, 0);
        record.add(5, 7, 10 * MINUTE);
        let used = record.hourly(30 * MINUTE);
        assert_eq!((used.cpu_ms, used.bytes, used.expires_in), (10, 14, 1801));
        assert_eq!(record.hourly(61 * MINUTE).cpu_ms, 5);
        assert_eq!(record.hourly(200 * MINUTE).bytes, 0);
        record.add(1, 1, 200 * MINUTE);
        assert_eq!(record.minutes.len(), 1, "what no longer counts is dropped");
        let text = record.write().unwrap();
        assert_eq!(UsageRecord::read(&text).unwrap(), record);
    }
}
