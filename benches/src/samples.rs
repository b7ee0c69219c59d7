//! Measured samples, by name.

use std::collections::BTreeMap;

use skillhost_toolchain::Error;

use crate::stats::Spread;

/// Samples in nanoseconds, bytes or per second, or the reason why there are none.
#[derive(Default)]
pub(crate) struct Samples(BTreeMap<String, Result<Vec<u64>, String>>);

impl Samples {
    /// Records samples or an error. Incomplete measurements do not count: an error discards earlier
    /// samples, and later ones are ignored.
    pub(crate) fn record<I>(&mut self, name: &str, result: Result<I, &Error>)
    where
        I: IntoIterator<Item = u64>,
    {
        let samples = self.0.entry(name.to_owned()).or_insert_with(|| Ok(Vec::new()));
        match (samples.as_mut(), result) {
            (Ok(samples), Ok(new)) => samples.extend(new),
            (_, Err(error)) => *samples = Err(error.to_string()),
            (Err(_), Ok(_)) => {}
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Returns the reason why the samples of a name are missing.
    pub(crate) fn failure(&self, name: &str) -> Option<String> {
        self.0.get(name)?.as_ref().err().cloned()
    }

    /// Returns the spread of samples, or the reason why there is none.
    pub(crate) fn spread(&self, name: &str) -> Result<Spread, String> {
        Spread::of(self.all(name)?.iter().copied()).ok_or_else(|| "not measured".into())
    }

    /// Returns the samples in the order of the rounds, or the reason why they are missing.
    pub(crate) fn all(&self, name: &str) -> Result<&[u64], String> {
        let samples = self.0.get(name).ok_or("not measured")?.as_ref().map_err(Clone::clone)?;
        if samples.is_empty() { Err("not measured".into()) } else { Ok(samples) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_discards_samples() {
        let mut samples = Samples::default();
        samples.record("some", Ok([3, 1, 2]));
        samples.record("none", Ok([1]));
        samples.record::<[u64; 0]>("none", Err(&Error::new("no such program")));
        samples.record("none", Ok([1]));
        assert_eq!(samples.spread("some").unwrap().p50, 2);
        assert_eq!(samples.spread("none"), Err("no such program".into()));
        assert_eq!(samples.spread("other"), Err("not measured".into()));
        assert_eq!([samples.failure("some"), samples.failure("other")], [None, None]);
        assert!(samples.failure("none").is_some() && samples.names().count() == 2);
    }
}
