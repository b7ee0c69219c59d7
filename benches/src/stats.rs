//! The spread of samples as percentiles. There is no mean, because a single interruption would
//! distort it.

use serde::{Deserialize, Serialize};

/// The spread of a figure, in the unit of the figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// The number of samples.
    pub(crate) n: usize,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
}

impl Spread {
    /// Calculates nearest-rank percentiles, so that each is one of the samples. Returns `None` if
    /// there are no samples.
    pub(crate) fn of(samples: impl IntoIterator<Item = u64>) -> Option<Spread> {
        let mut sorted: Vec<u64> = samples.into_iter().collect();
        sorted.sort_unstable();
        let n = sorted.len();
        let at = |percent: usize| sorted.get((n * percent).div_ceil(100).max(1) - 1).copied();
        Some(Spread { n, p50: at(50)?, p90: at(90)?, p99: at(99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_at_the_nearest_rank() {
        let spread = |n, p50, p90, p99| Some(Spread { n, p50, p90, p99 });
        assert_eq!(Spread::of((1..=100).rev()), spread(100, 50, 90, 99));
        assert_eq!(Spread::of([7, 3, 5]), spread(3, 5, 7, 7));
        assert_eq!(Spread::of([4, 2]), spread(2, 2, 4, 4));
        assert_eq!(Spread::of([9]), spread(1, 9, 9, 9));
        assert_eq!(Spread::of([]), None);
    }
}
