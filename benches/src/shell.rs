//! `cargo xtask bench shell`: each construct and tool of shell scripts at up to three
//! sizes, in the sandbox and in bash.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use skillhost_toolchain::{Error, Progress, Step};

use crate::measure;
use crate::stats::Spread;
use crate::table::Table;

/// The constructs, in the order of how many scripts use them.
const CASES: &str = include_str!("shell/cases.sh");

/// Each size is this many times the one before.
const GROWTH: u32 = 4;
const SIZES: usize = 3;
/// A construct that takes longer at one size is not measured at the next: some take 16 times as
/// long there, in bash too.
const GROWS_BELOW: Duration = Duration::from_millis(300);
/// A construct that has taken longer gets no further round, so that all of them take minutes.
const ENOUGH: Duration = Duration::from_secs(3);

/// The skill's manifest.
const MANIFEST: &str = "---
name: constructs
description: Runs a construct of the shell many times. Use when measuring the shell.
allowed-tools: Bash
---
";

/// A script that does nothing, for the time of a start.
const START: Construct = Construct { name: "start", share: 100, size: 1, script: ":" };

/// A script that uses a construct as many times as its argument says, or a tool on that many lines.
#[derive(Debug, Clone, Copy)]
struct Construct {
    name: &'static str,
    /// The rough share of public skills' shell scripts that use it, in percent.
    share: u32,
    /// The smallest size.
    size: u32,
    script: &'static str,
}

/// What is measured, and where.
pub struct Shell {
    /// The program `skillhost`.
    pub skillhost: PathBuf,
    /// The folder of runtimes.
    pub programs: PathBuf,
    /// The folder of the benchmark, which it creates.
    pub folder: PathBuf,
}

/// One construct's times in nanoseconds, by size.
struct Times {
    ours: Vec<f64>,
    bash: Vec<f64>,
}

/// Measures the constructs whose names contain `select`, at most `rounds` times each, and returns
/// the table.
///
/// # Errors
/// A start fails, or a file cannot be written. What else fails is missing in the table, with the reason.
pub fn constructs(
    shell: &Shell,
    select: &str,
    rounds: usize,
    progress: &Progress,
) -> Result<String, Error> {
    for folder in ["skill/scripts", "home"].map(|name| shell.folder.join(name)) {
        std::fs::create_dir_all(&folder).map_err(Error::context(folder.display()))?;
    }
    write(&shell.folder.join("skill/SKILL.md"), MANIFEST)?;
    let start = progress.step("start", |step| shell.samples(&START, rounds, step))?;
    let mut table = Table::new([
        "construct",
        "% of scripts",
        "size",
        "bash",
        "skillhost",
        "times bash",
        "exponent",
        "bash's",
    ]);
    for construct in all().filter(|construct| construct.name.contains(select)) {
        match progress.step(construct.name, |step| shell.samples(&construct, rounds, step)) {
            Ok(times) => table.row(row(&construct, &times.beyond(&start))),
            Err(error) => table.row([
                construct.name.to_owned(),
                construct.share.to_string(),
                format!("missing: {error}"),
            ]),
        }
    }
    Ok(table.markdown())
}

impl Shell {
    /// Runs a construct at each size, in turns.
    fn samples(&self, construct: &Construct, rounds: usize, step: &Step) -> Result<Times, Error> {
        let script = format!("#!/bin/bash\n{}\n", construct.script);
        write(&self.script(construct), &script)?;
        // The first round fills caches, and may compile the shell.
        let mut measured = 0;
        for size in sizes(construct) {
            measured += 1;
            if self.run_both(construct, size)?.into_iter().max() > Some(nanoseconds(GROWS_BELOW)) {
                break;
            }
        }
        let started = Instant::now();
        let mut samples = vec![[Vec::new(), Vec::new()]; measured];
        for round in 1..=rounds {
            for (size, samples) in sizes(construct).into_iter().zip(&mut samples) {
                for (took, samples) in self.run_both(construct, size)?.into_iter().zip(samples) {
                    samples.push(took);
                }
            }
            step.note(&format!("{round} of {rounds}"));
            if started.elapsed() > ENOUGH {
                break;
            }
        }
        let median = |samples: &Vec<u64>| {
            Spread::of(samples.clone()).map_or(0.0, |spread| spread.p50 as f64)
        };
        Ok(Times {
            bash: samples.iter().map(|[bash, _]| median(bash)).collect(),
            ours: samples.iter().map(|[_, ours]| median(ours)).collect(),
        })
    }

    /// Runs a construct in bash and in the sandbox, and returns the nanoseconds that each took.
    fn run_both(&self, construct: &Construct, size: u32) -> Result<[u64; 2], Error> {
        let run = |mut command: Command| {
            let workspace = self.empty_workspace()?;
            let took = measure::run(command.arg(size.to_string()).current_dir(&workspace))?;
            Ok::<_, Error>(took.wall)
        };
        Ok([run(self.bash(construct))?, run(self.skillhost(construct))?])
    }

    fn script(&self, construct: &Construct) -> PathBuf {
        self.folder.join("skill/scripts").join(construct.name).with_extension("sh")
    }

    fn bash(&self, construct: &Construct) -> Command {
        let mut command = self.command("/bin/bash");
        command.arg(self.script(construct));
        command
    }

    fn skillhost(&self, construct: &Construct) -> Command {
        let mut command = self.command(&self.skillhost);
        command.env("SKILLHOST_PROGRAMS", &self.programs).arg("run").arg(self.folder.join("skill"));
        command.arg(format!("scripts/{}.sh", construct.name));
        command.args(["--workspace", ".", "--timeout", "10m", "--"]);
        command
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.env("HOME", self.folder.join("home"));
        command
    }

    fn empty_workspace(&self) -> Result<PathBuf, Error> {
        let workspace = self.folder.join("workspace");
        match std::fs::remove_dir_all(&workspace) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::context(workspace.display())(error));
            }
            _ => {}
        }
        std::fs::create_dir(&workspace).map_err(Error::context(workspace.display()))?;
        Ok(workspace)
    }
}

impl Times {
    fn beyond(&self, start: &Times) -> Times {
        let beyond = |times: &[f64], start: &[f64]| {
            times.iter().map(|time| (time - start[0]).max(0.0)).collect()
        };
        Times { ours: beyond(&self.ours, &start.ours), bash: beyond(&self.bash, &start.bash) }
    }
}

/// Reads the constructs.
fn all() -> impl Iterator<Item = Construct> {
    CASES.split("#--- ").skip(1).map(|case| {
        let (head, script) = case.split_once('\n').unwrap_or((case, ""));
        let mut words = head.split(' ');
        let name = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        Construct { name, share: number(), size: number(), script }
    })
}

fn sizes(construct: &Construct) -> [u32; SIZES] {
    std::array::from_fn(|index| construct.size * GROWTH.pow(index as u32))
}

fn row(construct: &Construct, times: &Times) -> Vec<String> {
    let last = times.bash.len() - 1;
    let milliseconds = |time: f64| format!("{:.1} ms", time / 1e6);
    let exponent = |times: &[f64]| {
        let before = last.checked_sub(1).map_or(f64::NAN, |before| times[before]);
        let exponent = (times[last] / before).log(f64::from(GROWTH));
        if exponent.is_finite() { format!("{exponent:.2}") } else { "-".into() }
    };
    vec![
        construct.name.into(),
        construct.share.to_string(),
        sizes(construct)[last].to_string(),
        milliseconds(times.bash[last]),
        milliseconds(times.ours[last]),
        format!("{:.1}", times.ours[last] / times.bash[last]),
        exponent(&times.ours),
        exponent(&times.bash),
    ]
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(Error::context(path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructs_have_distinct_names_and_are_ranked() {
        let all: Vec<_> = all().collect();
        assert!(all.is_sorted_by_key(|construct| std::cmp::Reverse(construct.share)));
        assert!(all.iter().all(|construct| construct.share > 0 && construct.size > 0), "{all:?}");
        let names: std::collections::BTreeSet<_> =
            all.iter().map(|construct| construct.name).collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn exponents_are_those_of_the_larger_sizes() {
        let times = Times { ours: vec![1e6, 16e6, 256e6], bash: vec![1e6, 4e6, 16e6] };
        let construct = Construct { name: "loop", share: 5, size: 10, script: ":" };
        let row = row(&construct, &times);
        assert_eq!(row, ["loop", "5", "160", "16.0 ms", "256.0 ms", "16.0", "2.00", "1.00"]);
    }

    #[test]
    fn rows_name_the_largest_size_that_was_measured() {
        let times = Times { ours: vec![1e6, 4e6], bash: vec![1e6, 16e6] };
        let construct = Construct { name: "loop", share: 5, size: 10, script: ":" };
        assert_eq!(
            super::row(&construct, &times),
            ["loop", "5", "40", "16.0 ms", "4.0 ms", "0.2", "1.00", "2.00"]
        );
        let times = Times { ours: vec![4e6], bash: vec![1e6] };
        assert_eq!(
            super::row(&construct, &times),
            ["loop", "5", "10", "1.0 ms", "4.0 ms", "4.0", "-", "-"]
        );
    }
}
