//! The samples of a figure in a committed report, from which its spread can be recomputed.

use serde::{Deserialize, Serialize};

use crate::stats::Spread;

/// Times in microseconds, or sizes in KiB, in the order of the rounds. In JSON, they are one string:
/// with a line for each sample, the file would be too long to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Series(Vec<u64>);

impl Series {
    /// Rounds times in nanoseconds to microseconds.
    pub(crate) fn of_times(samples: &[u64]) -> Series {
        Series(samples.iter().map(|time| time.saturating_add(500) / 1000).collect())
    }

    /// Rounds sizes in bytes down to KiB. The kernel counts whole pages.
    pub(crate) fn of_sizes(samples: &[u64]) -> Series {
        Series(samples.iter().map(|size| size / 1024).collect())
    }

    /// Returns the spread of times, in nanoseconds.
    pub(crate) fn times(&self) -> Option<Spread> {
        Spread::of(self.0.iter().map(|time| time * 1000))
    }

    /// Returns the largest size, in bytes.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.0.iter().max().map(|size| size * 1024)
    }
}

impl From<Series> for String {
    fn from(series: Series) -> String {
        let words: Vec<String> = series.0.iter().map(u64::to_string).collect();
        words.join(" ")
    }
}

impl TryFrom<String> for Series {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Series, Self::Error> {
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_is_one_string_and_yields_the_spread() {
        let series = Series::of_times(&[2_400, 900, 1_600]);
        let json = serde_json::to_string(&series).unwrap();
        assert_eq!(json, r#""2 1 2""#);
        assert_eq!(serde_json::from_str::<Series>(&json).unwrap(), series);
        assert_eq!(series.times(), Some(Spread { n: 3, p50: 2000, p90: 2000, p99: 2000 }));
        assert_eq!(Series::of_sizes(&[4096, 8192]).largest(), Some(8192));
        assert!(serde_json::from_str::<Series>(r#""1 x""#).is_err());
    }
}
