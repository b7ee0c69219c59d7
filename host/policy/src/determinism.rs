//! Deterministic runs: the seed and start time, and how the layers of a policy set them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The initial state of a deterministic run. The same state, skill and input give the same result
/// on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Determinism {
    /// The seed of all randomness.
    pub seed: u64,
    /// The time that guests see at the start, in whole seconds since 1970. JSON has it in RFC 3339
    /// form, in UTC.
    #[serde(serialize_with = "rfc3339", deserialize_with = "from_rfc3339")]
    #[schemars(with = "String")]
    pub start_time: u64,
}

/// The default start time: the first second of 2026, in UTC.
pub const START_TIME: u64 = 1_767_225_600;

/// The fuel limit of a deterministic run without an explicit one. The run has to end by itself or
/// by this limit, because a time limit aborts it without a result.
pub const DEFAULT_FUEL: u64 = 200_000_000_000;

impl Default for Determinism {
    fn default() -> Determinism {
        Determinism { seed: 0, start_time: START_TIME }
    }
}

/// The settings of one layer. A setting that is `None` comes from the layers below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeterminismRule {
    /// Whether runs are deterministic.
    pub on: Option<bool>,
    /// The seed.
    pub seed: Option<u64>,
    /// The start, in seconds since 1970.
    pub start_time: Option<u64>,
}

impl DeterminismRule {
    /// Combines all rules, lowest priority first.
    pub(super) fn resolve<'a>(
        rules: impl Iterator<Item = &'a DeterminismRule>,
    ) -> Option<Determinism> {
        let all = rules.fold(DeterminismRule::default(), |below, rule| DeterminismRule {
            on: rule.on.or(below.on),
            seed: rule.seed.or(below.seed),
            start_time: rule.start_time.or(below.start_time),
        });
        let default = Determinism::default();
        all.on.unwrap_or(false).then(|| Determinism {
            seed: all.seed.unwrap_or(default.seed),
            start_time: all.start_time.unwrap_or(default.start_time),
        })
    }
}

/// Parses a start time: RFC 3339, from 1970 on, in whole seconds.
///
/// # Errors
/// A message that states the expected form.
pub fn parse_start_time(text: &str) -> Result<u64, String> {
    let time: Option<jiff::Timestamp> = text.trim().parse().ok();
    time.filter(|time| time.subsec_nanosecond() == 0)
        .and_then(|time| u64::try_from(time.as_second()).ok())
        .ok_or_else(|| {
            format!("`{text}` is not a time in whole seconds, such as 2026-01-01T00:00:00Z")
        })
}

/// Formats a start time in RFC 3339 form.
pub fn show_start_time(seconds: u64) -> String {
    let time =
        i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| format!("{seconds} seconds since 1970"), |time| time.to_string())
}

fn rfc3339<S: Serializer>(seconds: &u64, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&show_start_time(*seconds))
}

fn from_rfc3339<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    parse_start_time(&String::deserialize(d)?).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_parses_back_from_its_text() {
        for text in ["2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-30T22:00:00Z"] {
            assert_eq!(show_start_time(parse_start_time(text).unwrap()), text);
        }
        assert_eq!(parse_start_time("2026-01-01T02:00:00+02:00"), Ok(START_TIME));
        for text in [
            "",
            "now",
            "1767225600",
            "1969-12-31T23:59:59Z",
            "2026-01-01",
            "2026-01-01T00:00:00.5Z",
        ] {
            assert!(parse_start_time(text).unwrap_err().contains("whole seconds"), "{text}");
        }
    }

    #[test]
    fn later_rules_override_only_what_they_set() {
        let rule = |on, seed| DeterminismRule { on, seed, start_time: None };
        let resolve = |rules: &[DeterminismRule]| DeterminismRule::resolve(rules.iter());
        assert_eq!(resolve(&[]), None);
        assert_eq!(resolve(&[rule(None, Some(7))]), None);
        assert_eq!(resolve(&[rule(Some(true), None)]), Some(Determinism::default()));
        assert_eq!(resolve(&[rule(Some(true), Some(7)), rule(None, None)]).unwrap().seed, 7);
        assert_eq!(resolve(&[rule(Some(true), Some(7)), rule(None, Some(8))]).unwrap().seed, 8);
        assert_eq!(resolve(&[rule(Some(true), None), rule(Some(false), None)]), None);
    }
}
