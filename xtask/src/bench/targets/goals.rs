//! The goals that the project set itself: each figure, what it is held against, and how far it may
//! be from it. Plain data.

use serde::{Deserialize, Serialize};

use super::Unit;
use super::cells::{CHILDREN, REQUESTS};

/// A row of the table.
pub(crate) struct Goal {
    pub(crate) figure: &'static str,
    pub(crate) here: Of,
    /// What it is held against.
    pub(crate) name: &'static str,
    pub(crate) beside: Of,
    pub(crate) unit: Unit,
    pub(crate) bound: Bound,
}

/// How a figure is made of what was measured, by its name (`cells::names`).
#[derive(Clone, Copy)]
pub(crate) enum Of {
    Median(&'static str),
    /// The 99th percentile.
    P99(&'static str),
    /// By how much the median of one is above that of another, divided: what each of so many things
    /// costs.
    Above(&'static str, &'static str, u64),
    /// The geometric mean of figures.
    Mean(&'static [Of]),
}

/// What a goal asks of the figure `here`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// At most so many times what is beside it.
    Times(f64),
    /// What is beside it takes at least so many times as long.
    Faster(f64),
    /// At most so many nanoseconds.
    Time(u64),
    /// Less than so many bytes.
    Size(u64),
    /// At least so many a second.
    Rate(u64),
    /// None of its own: a part of another figure.
    Part,
}

const MILLISECOND: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

pub(crate) const GOALS: [Goal; 28] = [
    time(
        "Python hello, cold",
        Of::Median("hello, cold"),
        "`python3 hello.py`",
        Of::Median("hello, native"),
        Bound::Times(0.4),
    ),
    time(
        "Python hello, cold",
        Of::Median("hello, cold"),
        "`python3 -S -E hello.py`",
        Of::Median("hello, bare"),
        Bound::Times(0.55),
    ),
    time(
        "Python with six imports, cold",
        Of::Median("imports, cold"),
        "`python3 imports.py`",
        Of::Median("imports, native"),
        Bound::Times(0.18),
    ),
    time(
        "Python hello, warm",
        Of::Median("hello, warm"),
        "`python3 hello.py`",
        Of::Median("hello, native"),
        Bound::Time(MILLISECOND / 4),
    ),
    time(
        "Python hello, warm",
        Of::Median("hello, warm"),
        "`python3 hello.py`",
        Of::Median("hello, native"),
        Bound::Faster(35.0),
    ),
    time(
        "small Rust component, cold",
        Of::Median("component, cold"),
        TRUE,
        Of::Median("true, native"),
        Bound::Part,
    ),
    time(
        "the same, above `/bin/true`",
        Of::Above("component, cold", "true, native", 1),
        TRUE,
        Of::Median("true, native"),
        Bound::Time(2 * MILLISECOND),
    ),
    time(
        "small Rust component, warm, p50",
        Of::Median("component, warm"),
        TRUE,
        Of::Median("true, native"),
        Bound::Time(20_000),
    ),
    time(
        "small Rust component, warm, p99",
        Of::P99("component, warm"),
        TRUE,
        Of::P99("true, native"),
        Bound::Time(60_000),
    ),
    Goal {
        figure: "small Rust component, warm, on one core",
        here: Of::Median("component, a second"),
        name: TRUE,
        beside: Of::Median("true, a second"),
        unit: Unit::Rate,
        bound: Bound::Rate(40_000),
    },
    time(
        "bash hello, cold",
        Of::Median("bash, cold"),
        "`bash hello.sh`",
        Of::Median("bash, native"),
        Bound::Times(2.0),
    ),
    time(
        "bash hello, warm",
        Of::Median("bash, warm"),
        "`bash hello.sh`",
        Of::Median("bash, native"),
        Bound::Time(400_000),
    ),
    time("computing: fib", FIB[0], PYTHON, FIB[1], Bound::Part),
    time("computing: nbody", NBODY[0], PYTHON, NBODY[1], Bound::Part),
    time("computing: json, re, sort", TEXT[0], PYTHON, TEXT[1], Bound::Part),
    time(
        "computing: geometric mean of the three",
        Of::Mean(&[FIB[0], NBODY[0], TEXT[0]]),
        PYTHON,
        Of::Mean(&[FIB[1], NBODY[1], TEXT[1]]),
        Bound::Times(2.1),
    ),
    time(
        "Rust, whole run: 5 MB of JSON grouped",
        Of::Median("json, cold"),
        "the same crate",
        Of::Median("json, native"),
        Bound::Times(1.3),
    ),
    time("Python: 50 MB in blocks of 4 KiB", BLOCKS[0], PYTHON, BLOCKS[1], Bound::Times(1.5)),
    time("Python: 2,000 small files", FILES[0], PYTHON, FILES[1], Bound::Times(1.5)),
    time(
        "a Python child of Python, to its end",
        Of::Above("python children, cold", "no child, cold", CHILDREN),
        PYTHON,
        Of::Above("python children, native", "no child, native", CHILDREN),
        Bound::Time(600_000),
    ),
    time(
        "a bash child of Python, to its end",
        Of::Above("bash children, cold", "no child, cold", CHILDREN),
        PYTHON,
        Of::Above("bash children, native", "no child, native", CHILDREN),
        Bound::Time(300_000),
    ),
    time(
        "an HTTP request by `requests`",
        Of::Above("requests, cold", "requests none, cold", REQUESTS),
        "the same package",
        Of::Above("requests, packages", "requests none, packages", REQUESTS),
        Bound::Times(1.5),
    ),
    time(
        "an HTTP request by `urllib`",
        Of::Above("urllib, cold", "urllib none, cold", REQUESTS),
        PYTHON,
        Of::Above("urllib, native", "urllib none, native", REQUESTS),
        Bound::Times(1.5),
    ),
    size(
        "1,000 Python guests alive, memory of each",
        "1,000 alive, of each",
        "10 guests",
        "10 alive, of each",
        3 * MIB,
    ),
    time(
        "1,000 Python guests alive, start of the last",
        Of::Median("1,000 alive, last start"),
        "the first",
        Of::Median("1,000 alive, first start"),
        Bound::Times(2.0),
    ),
    time(
        "1,000 Python guests alive, start of the last",
        Of::Median("1,000 alive, last start"),
        "the 10th of 10",
        Of::Median("10 alive, last start"),
        Bound::Part,
    ),
    size("`skillhost mcp`, idle", "mcp, idle", "`python3`, idle", "python3, idle", 30 * MIB),
    size("`skillhost serve`, idle", "serve, idle", "`python3`, idle", "python3, idle", 30 * MIB),
];

// Without what a run of the same script takes that does nothing: a quicker start is no quicker
// computing.
const FIB: [Of; 2] = beyond_start("fib, cold", "fib, native");
const NBODY: [Of; 2] = beyond_start("nbody, cold", "nbody, native");
const TEXT: [Of; 2] = beyond_start("text, cold", "text, native");
const BLOCKS: [Of; 2] = beyond_start("blocks, cold", "blocks, native");
const FILES: [Of; 2] = beyond_start("files, cold", "files, native");

const TRUE: &str = "`/bin/true`";
const PYTHON: &str = "`python3`";

const fn beyond_start(cold: &'static str, native: &'static str) -> [Of; 2] {
    [Of::Above(cold, "nothing, cold", 1), Of::Above(native, "nothing, native", 1)]
}

const fn time(
    figure: &'static str,
    here: Of,
    name: &'static str,
    beside: Of,
    bound: Bound,
) -> Goal {
    Goal { figure, here, name, beside, unit: Unit::Time, bound }
}

const fn size(
    figure: &'static str,
    here: &'static str,
    name: &'static str,
    beside: &'static str,
    bound: u64,
) -> Goal {
    Goal {
        figure,
        here: Of::Median(here),
        name,
        beside: Of::Median(beside),
        unit: Unit::Size,
        bound: Bound::Size(bound),
    }
}

impl Bound {
    /// Whether the figure `here` is within it; none of a part.
    pub(crate) fn holds(self, here: u64, beside: u64) -> Option<bool> {
        match self {
            Bound::Times(most) => Some(here as f64 <= most * beside as f64),
            Bound::Faster(least) => Some(beside as f64 >= least * here as f64),
            Bound::Time(most) => Some(here <= most),
            Bound::Size(bound) => Some(here < bound),
            Bound::Rate(least) => Some(here >= least),
            Bound::Part => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    #[test]
    fn a_bound_is_met_at_its_edge_and_a_part_has_none() {
        assert_eq!(
            [39, 40, 41].map(|here| Bound::Times(0.4).holds(here, 100)),
            [Some(true), Some(true), Some(false)]
        );
        assert_eq!(
            [10, 11].map(|here| Bound::Faster(35.0).holds(here, 350)),
            [Some(true), Some(false)]
        );
        assert_eq!(
            [250, 251].map(|here| Bound::Time(250).holds(here, 0)),
            [Some(true), Some(false)]
        );
        assert_eq!([29, 30].map(|here| Bound::Size(30).holds(here, 0)), [Some(true), Some(false)]);
        assert_eq!([40, 39].map(|here| Bound::Rate(40).holds(here, 0)), [Some(true), Some(false)]);
        assert_eq!(Bound::Part.holds(1, 1), None);
    }

    /// What a figure is made of.
    fn parts(of: Of) -> Vec<&'static str> {
        match of {
            Of::Median(name) | Of::P99(name) => vec![name],
            Of::Above(of, from, _) => vec![of, from],
            Of::Mean(figures) => figures.iter().copied().flat_map(parts).collect(),
        }
    }

    #[test]
    fn figures_and_measurements_correspond() {
        let named: Vec<&str> =
            GOALS.iter().flat_map(|goal| [goal.here, goal.beside]).flat_map(parts).collect();
        let measured = cells::names();
        for name in &named {
            assert!(measured.iter().any(|measured| measured == name), "{name} is not measured");
        }
        for name in &measured {
            assert!(named.contains(&name.as_str()), "{name} is in no figure");
        }
    }
}
