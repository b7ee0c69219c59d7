//! What was measured, by name.

use std::collections::BTreeMap;

use skillhost_toolchain::Error;

use crate::stats::Spread;

/// Samples, in nanoseconds, bytes or so many per second; or why there are none.
#[derive(Default)]
pub(crate) struct Samples(BTreeMap<String, Result<Vec<u64>, String>>);

impl Samples {
    /// Records samples, or why they are missing. Half of a measurement is none: from an error on,
    /// the earlier samples are missing too, and later ones are ignored.
    pub(crate) fn note<I>(&mut self, name: &str, found: Result<I, &Error>)
    where
        I: IntoIterator<Item = u64>,
    {
        let samples = self.0.entry(name.to_owned()).or_insert_with(|| Ok(Vec::new()));
        match (samples.as_mut(), found) {
            (Ok(samples), Ok(found)) => samples.extend(found),
            (_, Err(error)) => *samples = Err(error.to_string()),
            (Err(_), Ok(_)) => {}
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Why the samples of a name are missing.
    pub(crate) fn failure(&self, name: &str) -> Option<String> {
        self.0.get(name)?.as_ref().err().cloned()
    }

    /// The spread of samples, or why there is none.
    pub(crate) fn spread(&self, name: &str) -> Result<Spread, String> {
        let samples = self.0.get(name).ok_or("not measured")?.as_ref().map_err(Clone::clone)?;
        Spread::of(samples.iter().copied()).ok_or_else(|| "not measured".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_missing_from_an_error_on() {
        let mut samples = Samples::default();
        samples.note("some", Ok([3, 1, 2]));
        samples.note("none", Ok([1]));
        samples.note::<[u64; 0]>("none", Err(&Error::new("no such program")));
        samples.note("none", Ok([1]));
        assert_eq!(samples.spread("some").unwrap().p50, 2);
        assert_eq!(samples.spread("none"), Err("no such program".into()));
        assert_eq!(samples.spread("other"), Err("not measured".into()));
        assert_eq!([samples.failure("some"), samples.failure("other")], [None, None]);
        assert!(samples.failure("none").is_some() && samples.names().count() == 2);
    }
}
