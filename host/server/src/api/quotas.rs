//! What a tenant may use in an hour, and may store. In a fleet, all servers and workers together
//! count what it uses, in the brokers; elsewhere, its store does.

use std::sync::Arc;

use super::Answered;
use super::problem::{Problem, ProblemCode};
use super::state::now;
use super::tenant::Tenant;
use super::tenants::Quotas;
use skillhost_ledger::runs::HourlyUsage;

impl Quotas {
    /// Checks whether a quota of an hour bounds the tenant, so that its usage has to be counted.
    pub(super) fn has_hourly(&self) -> bool {
        self.cpu_seconds_per_hour.is_some() || self.bytes_per_hour.is_some()
    }
}

impl Tenant {
    /// Refuses what a tenant sends that has used up what it may use in an hour, or what it may
    /// store. What cannot be read refuses, too.
    pub(super) async fn require_quotas(&self) -> Answered<()> {
        let settings = self.settings();
        let quotas = &settings.quotas;
        let used = match &self.fleet {
            Some(_) if !quotas.has_hourly() => HourlyUsage::default(),
            Some(fleet) => fleet.usage(&self.name, now()).await?,
            None => self.state.store.usage(now()).map_err(|error| Problem::internal(&error))?,
        };
        let wait =
            |code, detail: String| Err(Problem::new(code, detail).retry_after(used.expires_in));
        if let Some(seconds) = quotas.cpu_seconds_per_hour
            && used.cpu_ms >= seconds.saturating_mul(1000)
        {
            return wait(
                ProblemCode::CpuQuota,
                format!("{seconds} s of processor time in an hour"),
            );
        }
        if let Some(bytes) = quotas.bytes_per_hour
            && used.bytes >= bytes.0
        {
            return wait(ProblemCode::BytesQuota, format!("{} bytes in an hour", bytes.0));
        }
        let stored = self.state.store.stored_bytes().map_err(|error| Problem::internal(&error))?;
        match stored >= settings.local_storage {
            true => Err(storage_quota(settings.local_storage)),
            false => Ok(()),
        }
    }

    /// As [`Tenant::require_quotas`], off the event loop.
    pub(super) fn require_quotas_blocking(&self) -> Answered<()> {
        tokio::runtime::Handle::current().block_on(self.require_quotas())
    }

    /// Counts processor time in milliseconds, and bytes that came in or went out.
    pub(super) async fn charge(self: &Arc<Tenant>, cpu_ms: u64, bytes: u64) {
        let tenant = self.clone();
        // It fails only by a panic, which is reported.
        tokio::task::spawn_blocking(move || tenant.charge_blocking(cpu_ms, bytes)).await.ok();
    }

    /// As [`Tenant::charge`], off the event loop.
    pub(super) fn charge_blocking(&self, cpu_ms: u64, bytes: u64) {
        if cpu_ms == 0 && bytes == 0 {
            return;
        }
        let now = now();
        let charged = match &self.fleet {
            Some(fleet) if self.settings().quotas.has_hourly() => {
                let charging = fleet.charge(&self.name, cpu_ms, bytes, now);
                tokio::runtime::Handle::current()
                    .block_on(charging)
                    .map_err(|error| error.to_string())
            }
            Some(_) => Ok(()),
            None => self.state.store.charge(cpu_ms, bytes, now).map_err(|error| error.to_string()),
        };
        if let Err(error) = charged {
            tracing::error!(tenant = self.name, error, "cannot count what was used");
        }
    }
}

pub(super) fn storage_quota(most: u64) -> Problem {
    let detail = format!(
        "at most {most} bytes of files, skills, requests, results and output; they expire in time"
    );
    Problem::new(ProblemCode::StorageQuota, detail)
}
