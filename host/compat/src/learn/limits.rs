//! Bounds from the peaks of one run, with headroom.

use super::within::{STATE, is_below};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::Outcome;

const MIB: u64 = 1 << 20;

/// How the bounds come about.
pub(super) const REMARK: &str = "the limits are the peaks of this one run with headroom: ten times its wall time and at least 10 s, \
     twice the rest and a little more; none is above what holds now";

/// The bounds, in the order of their documentation; those alone whose peak is known. None is above
/// what held for the run.
pub(super) fn proposed(outcome: &Outcome, old: &Limits) -> Vec<(Limit, u64)> {
    let usage = &outcome.usage;
    let wall = usage.wall_ms.max(0.0) as u64;
    let twice = |peak: u64, least: u64, step: u64| {
        peak.saturating_mul(2).max(least).div_ceil(step).saturating_mul(step)
    };
    let used = outcome.uses.as_ref();
    let mut all =
        vec![(Limit::Timeout, wall.saturating_mul(10).max(10_000).div_ceil(1_000) * 1_000)];
    all.extend(usage.fuel.map(|fuel| (Limit::Fuel, twice(fuel, 1_000_000, 1_000_000))));
    all.push((Limit::Memory, twice(usage.memory_peak, 16 * MIB, MIB)));
    all.push((Limit::Stdout, twice(usage.stdout_bytes, MIB, MIB)));
    all.push((Limit::Stderr, twice(usage.stderr_bytes, MIB, MIB)));
    all.push((Limit::Files, twice(usage.files_created, 16, 1)));
    if used.is_some_and(|uses| uses.paths.keys().any(|path| is_below(path, STATE))) {
        // How much is kept is not of this run alone.
        all.push((Limit::State, old.state));
    }
    if used.is_some_and(|uses| !uses.requests.is_empty()) {
        all.push((Limit::HttpRequests, twice(outcome.requests.len() as u64, 4, 1)));
    }
    if used.is_some_and(|uses| !uses.commands.is_empty()) {
        all.push((Limit::Processes, twice(usage.processes, 4, 1)));
    }
    all.into_iter()
        .map(|(limit, value)| (limit, old.get(limit).map_or(value, |bound| bound.min(value))))
        .collect()
}

/// A bound as it is written in a policy.
pub(super) fn shown(limit: Limit, value: u64) -> String {
    let shown = limit.show(value).replace(' ', "");
    if limit.parse(&shown) == Ok(value) { shown } else { value.to_string() }
}
