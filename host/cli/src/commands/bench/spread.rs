//! The spread of many times: percentiles, each of them a time that was measured.

use std::time::Duration;

use serde::Serialize;

/// Percentiles of wall times, in milliseconds.
#[derive(Debug, Serialize)]
pub(super) struct Spread {
    pub(super) p50_ms: f64,
    pub(super) p90_ms: f64,
    pub(super) p99_ms: f64,
}

impl Spread {
    /// Takes percentiles by the nearest rank; zeros if there are no samples.
    pub(super) fn of(mut samples: Vec<Duration>) -> Spread {
        samples.sort_unstable();
        let at = |percent: usize| {
            let rank = (samples.len() * percent).div_ceil(100).max(1);
            samples.get(rank - 1).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
        };
        Spread { p50_ms: at(50), p90_ms: at(90), p99_ms: at(99) }
    }
}

/// Formats a time with two or three digits.
pub(super) fn shown(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.0} µs", ms * 1000.0),
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_times() {
        let Spread { p50_ms, p90_ms, p99_ms } =
            Spread::of((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!([p50_ms, p90_ms, p99_ms], [50.0, 90.0, 99.0]);
        assert_eq!([0.18, 2.73, 27.4, 1733.0].map(shown), ["180 µs", "2.7 ms", "27 ms", "1.7 s"]);
    }
}
