//! The goals of the project: each figure, the figure that it is compared with, and the bound, as
//! plain data.

use serde::{Deserialize, Serialize};

use super::cells::{CHILDREN, REQUESTS};
use crate::measure::Sample;
use crate::samples::Samples;
use Bound::{Faster, Part, Times};
use Figure::{Above, Mean, Median, P99};

/// A row of the table: the name of a figure, the figure of skillhost, the reference, and the bound.
pub(crate) type Goal = (&'static str, Figure, Reference, Bound);

/// The figure that another one is compared with.
#[derive(Clone, Copy)]
pub(crate) struct Reference {
    pub(crate) name: &'static str,
    pub(crate) figure: Figure,
}

/// How a figure is calculated from measurements, by their names (`cells::names`).
#[derive(Clone, Copy)]
pub(crate) enum Figure {
    /// The median.
    Median(&'static str),
    /// The 99th percentile.
    P99(&'static str),
    /// The difference of two medians, divided by a count: the cost of each of several operations.
    Above(&'static str, &'static str, u64),
    /// The geometric mean of figures.
    Mean(&'static [Figure]),
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Size,
    /// Per second.
    Rate,
}

/// The bound of a goal, for the figure `here`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// At most this multiple of the reference.
    Times(f64),
    /// At least this many times faster than the reference.
    Faster(f64),
    /// At most this many nanoseconds.
    Time(u64),
    /// Less than this many bytes.
    Size(u64),
    /// At least this many per second.
    Rate(u64),
    /// No bound: a part of another figure.
    Part,
}

pub(crate) const GOALS: [Goal; 38] = [
    ("Python hello, cold", Median("hello, cold"), HELLO, Times(0.4)),
    ("Python hello, cold", Median("hello, cold"), BARE, Times(0.55)),
    ("Python with six imports, cold", Median("imports, cold"), IMPORTS, Times(0.18)),
    ("Python hello, warm", Median("hello, warm"), HELLO, microseconds(250)),
    ("Python hello, warm", Median("hello, warm"), HELLO, Faster(35.0)),
    ("small Rust component, cold", Median("component, cold"), TRUE, Part),
    (
        "the same, above `/bin/true`",
        Above("component, cold", "true, native", 1),
        TRUE,
        microseconds(2_000),
    ),
    ("small Rust component, warm, p50", Median("component, warm"), TRUE, microseconds(20)),
    ("small Rust component, warm, p99", P99("component, warm"), TRUE_P99, microseconds(60)),
    (
        "small Rust component, warm, on one core",
        Median("component, a second"),
        TRUE_RATE,
        Bound::Rate(40_000),
    ),
    ("bash hello, cold", Median("bash, cold"), BASH, Times(2.0)),
    ("bash hello, warm", Median("bash, warm"), BASH, microseconds(400)),
    ("JavaScript hello, cold", Median("javascript, cold"), NODE, Times(0.15)),
    ("JavaScript hello, cold", Median("javascript, cold"), BARE, Times(0.6)),
    (
        "JavaScript with six modules, cold",
        Median("modules, cold"),
        reference("`node modules.mjs`", Median("modules, native")),
        Part,
    ),
    ("JavaScript hello, warm", Median("javascript, warm"), NODE, microseconds(500)),
    (
        "JavaScript, whole run: 1 MB of JSON transformed",
        Median("transform, cold"),
        node(Median("transform, native")),
        Part,
    ),
    (
        "computing in JavaScript: fib",
        javascript("javascript fib, cold"),
        node(native_javascript("javascript fib, native")),
        Part,
    ),
    (
        "computing in JavaScript: nbody",
        javascript("javascript nbody, cold"),
        node(native_javascript("javascript nbody, native")),
        Part,
    ),
    (
        "computing in JavaScript: regular expressions",
        javascript("javascript expressions, cold"),
        node(native_javascript("javascript expressions, native")),
        Part,
    ),
    (
        "computing in JavaScript: strings",
        javascript("javascript strings, cold"),
        node(native_javascript("javascript strings, native")),
        Part,
    ),
    ("computing: fib", FIB, python(FIB_NATIVE), Part),
    ("computing: nbody", NBODY, python(NBODY_NATIVE), Part),
    ("computing: json, re, sort", TEXT, python(TEXT_NATIVE), Part),
    (
        "computing: geometric mean of the three",
        Mean(&[FIB, NBODY, TEXT]),
        python(Mean(&[FIB_NATIVE, NBODY_NATIVE, TEXT_NATIVE])),
        Times(2.1),
    ),
    ("Rust, whole run: 5 MB of JSON grouped", Median("json, cold"), JSON, Times(1.3)),
    (
        "Python: 50 MB in blocks of 4 KiB",
        cold("blocks, cold"),
        python(native("blocks, native")),
        Times(1.5),
    ),
    ("Python: 2,000 small files", cold("files, cold"), python(native("files, native")), Times(1.5)),
    (
        "a Python child of Python, to its end",
        Above("python children, cold", "no child, cold", CHILDREN),
        python(Above("python children, native", "no child, native", CHILDREN)),
        microseconds(600),
    ),
    (
        "a bash child of Python, to its end",
        Above("bash children, cold", "no child, cold", CHILDREN),
        python(Above("bash children, native", "no child, native", CHILDREN)),
        microseconds(300),
    ),
    (
        "an HTTP request by `requests`",
        Above("requests, cold", "requests none, cold", REQUESTS),
        PACKAGE,
        Times(1.5),
    ),
    (
        "an HTTP request by `urllib`",
        Above("urllib, cold", "urllib none, cold", REQUESTS),
        python(Above("urllib, native", "urllib none, native", REQUESTS)),
        Times(1.5),
    ),
    (
        "1,000 Python guests alive, memory of each",
        Median("1,000 alive, of each"),
        TEN_GUESTS,
        mebibytes(3),
    ),
    ("1,000 Python guests alive, start of the last", LAST_START, FIRST_START, Times(2.0)),
    ("1,000 Python guests alive, start of the last", LAST_START, TENTH_START, Part),
    (
        "1,000 JavaScript guests alive, memory of each",
        Median("1,000 JavaScript alive, of each"),
        reference("1,000 Python guests", Median("1,000 alive, of each")),
        mebibytes(3),
    ),
    ("`skillhost mcp`, idle", Median("mcp, idle"), IDLE, mebibytes(30)),
    ("`skillhost serve`, idle", Median("serve, idle"), IDLE, mebibytes(30)),
];

const HELLO: Reference = reference("`python3 hello.py`", Median("hello, native"));
const BARE: Reference = reference("`python3 -S -E hello.py`", Median("hello, bare"));
const IMPORTS: Reference = reference("`python3 imports.py`", Median("imports, native"));
const BASH: Reference = reference("`bash hello.sh`", Median("bash, native"));
const NODE: Reference = reference("`node hello.js`", Median("javascript, native"));
const TRUE: Reference = reference("`/bin/true`", Median("true, native"));
const TRUE_P99: Reference = reference("`/bin/true`", P99("true, native"));
const TRUE_RATE: Reference = reference("`/bin/true`", Median("true, a second"));
const JSON: Reference = reference("the same crate", Median("json, native"));
const PACKAGE: Reference =
    reference("the same package", Above("requests, packages", "requests none, packages", REQUESTS));
const TEN_GUESTS: Reference = reference("10 guests", Median("10 alive, of each"));
const FIRST_START: Reference = reference("the first", Median("1,000 alive, first start"));
const TENTH_START: Reference = reference("the 10th of 10", Median("10 alive, last start"));
const IDLE: Reference = reference("`python3`, idle", Median("python3, idle"));

const LAST_START: Figure = Median("1,000 alive, last start");

const FIB: Figure = cold("fib, cold");
const FIB_NATIVE: Figure = native("fib, native");
const NBODY: Figure = cold("nbody, cold");
const NBODY_NATIVE: Figure = native("nbody, native");
const TEXT: Figure = cold("text, cold");
const TEXT_NATIVE: Figure = native("text, native");

/// Subtracts the time of an empty run of the same script, because a faster start is not faster
/// computing.
const fn cold(name: &'static str) -> Figure {
    Above(name, "nothing, cold", 1)
}

const fn native(name: &'static str) -> Figure {
    Above(name, "nothing, native", 1)
}

/// As [`cold`], for JavaScript.
const fn javascript(name: &'static str) -> Figure {
    Above(name, "javascript nothing, cold", 1)
}

/// As [`native`], for JavaScript.
const fn native_javascript(name: &'static str) -> Figure {
    Above(name, "javascript nothing, native", 1)
}

const fn reference(name: &'static str, figure: Figure) -> Reference {
    Reference { name, figure }
}

const fn python(figure: Figure) -> Reference {
    reference("`python3`", figure)
}

const fn node(figure: Figure) -> Reference {
    reference("`node`", figure)
}

const fn microseconds(most: u64) -> Bound {
    Bound::Time(most * 1_000)
}

const fn mebibytes(bound: u64) -> Bound {
    Bound::Size(bound << 20)
}

impl Figure {
    /// Calculates the figure, or returns the reason why there is none.
    pub(crate) fn figure(self, samples: &Samples) -> Result<u64, String> {
        match self {
            Median(name) => samples.spread(name).map(|spread| spread.p50),
            P99(name) => samples.spread(name).map(|spread| spread.p99),
            Above(name, from, count) => {
                let (value, from) = (samples.spread(name)?.p50, samples.spread(from)?.p50);
                let above = value.checked_sub(from);
                Ok(above.ok_or("it took less time than the empty run")? / count)
            }
            Mean(figures) => {
                let logs =
                    figures.iter().map(|f| f.figure(samples).map(|value| (value as f64).ln()));
                let sum = logs.sum::<Result<f64, String>>()?;
                Ok((sum / figures.len() as f64).exp().round() as u64)
            }
        }
    }
}

/// Calculates the rate per second of a turn on one core. The CPU time of all threads counts.
pub(crate) fn rate(turn: &[Sample]) -> u64 {
    let sum = |of: fn(&Sample) -> u64| turn.iter().map(of).sum::<u64>();
    let time = sum(|sample| sample.wall).max(sum(|sample| sample.cpu)).max(1);
    (turn.len() as f64 * 1e9 / time as f64) as u64
}

impl Bound {
    /// Returns the unit of the figures.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Bound::Size(_) => Unit::Size,
            Bound::Rate(_) => Unit::Rate,
            Times(_) | Faster(_) | Bound::Time(_) | Part => Unit::Time,
        }
    }

    /// Returns whether the figure `here` is within the bound, or `None` for a part.
    pub(crate) fn is_met(self, here: u64, reference: u64) -> Option<bool> {
        match self {
            Times(most) => Some(here as f64 <= most * reference as f64),
            Faster(least) => Some(reference as f64 >= least * here as f64),
            Bound::Time(most) => Some(here <= most),
            Bound::Size(bound) => Some(here < bound),
            Bound::Rate(least) => Some(here >= least),
            Part => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    #[test]
    fn bounds_are_exact_and_parts_have_none() {
        for (bound, reference, within, outside) in [
            (Times(0.4), 100, 40, 41),
            (Faster(35.0), 350, 10, 11),
            (Bound::Time(250), 0, 250, 251),
            (Bound::Size(30), 0, 29, 30),
            (Bound::Rate(40), 0, 40, 39),
        ] {
            let met = [within, outside].map(|here| bound.is_met(here, reference));
            assert_eq!(met, [Some(true), Some(false)], "{bound:?}");
        }
        assert_eq!(Part.is_met(1, 1), None);
    }

    #[test]
    fn figures_are_medians_differences_and_means() {
        let mut samples = Samples::default();
        samples.record("fifty", Ok([1_200, 1_000, 1_100]));
        samples.record("none", Ok([90, 100, 110]));
        samples.record("long", Ok([8_800, 8_800, 8_800]));
        let figure = |figure: Figure| figure.figure(&samples);
        assert_eq!([Median("fifty"), P99("fifty")].map(figure), [Ok(1_100), Ok(1_200)]);
        assert_eq!(figure(Above("fifty", "none", 50)), Ok(20));
        assert_eq!(figure(Mean(&[Median("none"), Median("fifty"), Median("long")])), Ok(989));
        assert!(figure(Above("none", "fifty", 50)).unwrap_err().contains("less time"));
        assert_eq!(figure(Mean(&[Median("fifty"), Median("x")])), Err("not measured".into()));
    }

    #[test]
    fn rate_includes_the_time_of_all_threads() {
        let turn = |wall, cpu| [Sample { wall, cpu }; 10];
        assert_eq!((rate(&turn(20_000, 18_000)), rate(&turn(20_000, 40_000))), (50_000, 25_000));
    }

    /// Returns the names of the measurements that a figure is calculated from.
    fn parts(figure: Figure) -> Vec<&'static str> {
        match figure {
            Median(name) | P99(name) => vec![name],
            Above(name, from, _) => vec![name, from],
            Mean(figures) => figures.iter().copied().flat_map(parts).collect(),
        }
    }

    #[test]
    fn figures_and_measurements_correspond() {
        let figures = GOALS.iter().flat_map(|(_, here, reference, _)| [*here, reference.figure]);
        let named: Vec<&str> = figures.flat_map(parts).collect();
        let measured = cells::names();
        for name in &named {
            assert!(measured.iter().any(|measured| measured == name), "{name} is not measured");
        }
        for name in &measured {
            assert!(named.contains(&name.as_str()), "no figure uses {name}");
        }
    }
}
