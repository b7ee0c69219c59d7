//! Samples and what is told of them: percentiles, never a mean, since one interruption would move
//! it.

use serde::{Deserialize, Serialize};

/// The spread of a figure, in its own unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// How many samples.
    pub(crate) n: usize,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
}

impl Spread {
    /// None of no samples.
    pub(crate) fn of(samples: &[u64]) -> Option<Spread> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let at = |percent| percentile(&sorted, percent);
        Some(Spread { n: sorted.len(), p50: at(50)?, p90: at(90)?, p99: at(99)? })
    }
}

/// By the nearest rank: the smallest sample that at least `percent` of 100 are not above. So it is
/// one that was measured.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_at_the_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(Spread::of(&hundred), Some(Spread { n: 100, p50: 50, p90: 90, p99: 99 }));
        assert_eq!(Spread::of(&[7, 3, 5]), Some(Spread { n: 3, p50: 5, p90: 7, p99: 7 }));
        assert_eq!(Spread::of(&[4, 2]), Some(Spread { n: 2, p50: 2, p90: 4, p99: 4 }));
        assert_eq!(Spread::of(&[9]), Some(Spread { n: 1, p50: 9, p90: 9, p99: 9 }));
        assert_eq!(Spread::of(&[]), None);
    }
}
