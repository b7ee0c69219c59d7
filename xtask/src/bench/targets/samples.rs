//! What was measured, by name, and the figures made of it.

use std::collections::BTreeMap;

use skillhost_toolchain::Error;

use super::super::measure::Sample;
use super::super::stats::Spread;
use super::goals::Of;
use super::report::Measured;

/// Nanoseconds, bytes or so many a second; or why there are none.
#[derive(Default)]
pub(crate) struct Samples(BTreeMap<String, Result<Vec<u64>, String>>);

impl Samples {
    pub(crate) fn add(&mut self, name: &str, sample: u64) {
        if let Ok(samples) = self.0.entry(name.to_owned()).or_insert_with(|| Ok(Vec::new())) {
            samples.push(sample);
        }
    }

    /// From now on it is missing, also where there were samples: half of a measurement is none.
    pub(crate) fn fail(&mut self, name: &str, error: &Error) {
        self.0.insert(name.to_owned(), Err(error.to_string()));
    }

    pub(crate) fn failed(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(Result::is_err)
    }

    /// A figure, or why there is none.
    pub(crate) fn figure(&self, of: Of) -> Result<u64, String> {
        match of {
            Of::Median(name) => self.spread(name).map(|spread| spread.p50),
            Of::P99(name) => self.spread(name).map(|spread| spread.p99),
            Of::Above(name, from, count) => {
                let (of, from) = (self.spread(name)?.p50, self.spread(from)?.p50);
                let above =
                    of.checked_sub(from).ok_or("it took less time than what does nothing")?;
                Ok(above / count)
            }
            Of::Mean(figures) => Ok(mean(
                &figures.iter().map(|of| self.figure(*of)).collect::<Result<Vec<u64>, _>>()?,
            )),
        }
    }

    pub(crate) fn spreads(&self) -> Vec<Measured> {
        let measured = |name: &String| {
            let spread = self.spread(name);
            Measured {
                name: name.clone(),
                missing: spread.as_ref().err().cloned(),
                spread: spread.ok(),
            }
        };
        self.0.keys().map(measured).collect()
    }

    fn spread(&self, name: &str) -> Result<Spread, String> {
        let samples = self.0.get(name).ok_or("not measured")?.as_ref().map_err(Clone::clone)?;
        Spread::of(samples).ok_or_else(|| "not measured".into())
    }
}

/// How many a second a turn comes to on one core: where threads beside it work for it, their time
/// counts too.
pub(crate) fn rate(turn: &[Sample]) -> u64 {
    let sum = |of: fn(&Sample) -> u64| turn.iter().map(of).sum::<u64>();
    let took = sum(|sample| sample.wall).max(sum(|sample| sample.cpu)).max(1);
    (turn.len() as f64 * 1e9 / took as f64) as u64
}

/// The geometric mean.
fn mean(values: &[u64]) -> u64 {
    let logs: f64 = values.iter().map(|value| (*value as f64).ln()).sum();
    (logs / values.len() as f64).exp().round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let mut samples = Samples::default();
        for (name, found) in [
            ("fifty", [1_200, 1_000, 1_100]),
            ("none", [90, 100, 110]),
            ("long", [8_800, 8_800, 8_800]),
        ] {
            found.iter().for_each(|sample| samples.add(name, *sample));
        }
        samples
    }

    #[test]
    fn figures_are_medians_differences_and_means() {
        let samples = samples();
        assert_eq!(samples.figure(Of::Median("fifty")), Ok(1_100));
        assert_eq!(samples.figure(Of::P99("fifty")), Ok(1_200));
        assert_eq!(samples.figure(Of::Above("fifty", "none", 50)), Ok(20));
        assert_eq!(
            samples.figure(Of::Mean(&[
                Of::Median("none"),
                Of::Median("fifty"),
                Of::Median("long")
            ])),
            Ok(989)
        );
        assert!(samples.figure(Of::Above("none", "fifty", 50)).unwrap_err().contains("less time"));
    }

    #[test]
    fn a_failed_sample_and_its_figures_are_missing_with_a_reason() {
        let mut samples = samples();
        samples.fail("none", &Error::new("no such program"));
        samples.add("none", 100);
        assert!(samples.failed("none") && !samples.failed("fifty"));
        assert_eq!(samples.figure(Of::Above("fifty", "none", 50)), Err("no such program".into()));
        assert_eq!(
            samples.figure(Of::Mean(&[Of::Median("fifty"), Of::Median("other")])),
            Err("not measured".into())
        );
        let measured = samples.spreads();
        assert_eq!(measured.iter().filter(|one| one.spread.is_some()).count(), 2);
        assert_eq!(measured.iter().find_map(|one| one.missing.as_deref()), Some("no such program"));
    }

    #[test]
    fn a_rate_counts_the_time_of_all_threads() {
        let turn = |wall, cpu| [Sample { wall, cpu }; 10];
        assert_eq!((rate(&turn(20_000, 18_000)), rate(&turn(20_000, 40_000))), (50_000, 25_000));
    }
}
