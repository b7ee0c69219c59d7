//! Proposes limits from the peaks of one run, with headroom.

use super::within::{STATE, is_below};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::Outcome;

const MIB: u64 = 1 << 20;

/// The remark on how the limits were chosen.
pub(super) const REMARK: &str = "the limits are the peaks of this run with headroom: ten times its wall time but at least 10 s, \
     and at least twice the other peaks; no limit is above the current one";

/// Returns limits for the peaks that are known, in the order of the documentation. No limit is above
/// that of the run.
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
        // Other runs also use the state.
        all.push((Limit::State, old.state));
    }
    if used.is_some_and(|uses| !uses.requests.is_empty()) {
        all.push((Limit::HttpRequests, twice(outcome.requests.len() as u64, 4, 1)));
        // What the operator chose for servers stays. A cache is a grant, so it stays if it was used.
        let rates = [Limit::HttpRate, Limit::HttpHostRate, Limit::HttpBurst];
        let has_rate = old.http_rate.or(old.http_host_rate).is_some();
        let cache = [Limit::HttpCache, Limit::HttpCacheKeep];
        let is_cached = outcome.requests.iter().any(|request| request.cached.is_some());
        let kept = rates.into_iter().filter(|_| has_rate);
        let kept = kept.chain(cache.into_iter().filter(|_| is_cached));
        all.extend(kept.filter_map(|limit| Some((limit, old.get(limit)?))));
    }
    if used.is_some_and(|uses| !uses.commands.is_empty()) {
        all.push((Limit::Processes, twice(usage.processes, 4, 1)));
    }
    all.into_iter()
        .map(|(limit, value)| (limit, old.get(limit).map_or(value, |bound| bound.min(value))))
        .collect()
}

/// Formats a limit for a policy.
pub(super) fn shown(limit: Limit, value: u64) -> String {
    let shown = limit.show(value).replace(' ', "");
    if limit.parse(&shown) == Ok(value) { shown } else { value.to_string() }
}
