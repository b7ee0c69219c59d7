//! The benchmarks of `cargo xtask bench`, with their reports, tables and charts.
//!
//! [`isolation()`] runs the same skills natively, in other sandboxes and in skillhost;
//! [`targets()`] measures every figure that has a goal; [`phases()`] measures the phases of a cold
//! start; [`served()`] measures clients of `skillhost serve`, and [`load()`] hundreds of clients of its
//! run API; [`fleet()`] measures a fleet on one machine, and [`sessions()`] sessions of a server. xtask builds the programs and passes them in a [`Place`]. Read in this order:
//!
//! - `cases`: the programs to run; `inputs`: their input; `place`: the binaries and folders;
//! - `measure`: one process; `driver`: the host of the warm tier; `bench`: interleaved measurement;
//! - `isolation`, `targets`, `served`, `load`, `fleet` and `sessions`: the benchmarks with a report; `phases`;
//!   `shell`: constructs of scripts next to bash; `fetched`: the commands of fetched skills;
//! - `report`: JSON, and files generated from committed runs; `table`, `units`, `samples`, `stats`.
//!
//! The library does not depend on the host: it measures processes from outside. The benchmarks of
//! the host's own parts (`invoke`, `check`, `soak`, `search`, `catalog`) and the driver are other
//! targets of this package, and only they use the host's crates.

#![expect(
    clippy::disallowed_methods,
    reason = "benchmarks run programs and access the files of this repository"
)]

mod bench;
mod cases;
mod driver;
mod fetched;
mod fleet;
mod inputs;
mod isolation;
mod listening;
mod load;
mod measure;
mod phases;
mod place;
mod random;
mod report;
mod samples;
mod series;
mod served;
mod server;
mod sessions;
mod shell;
mod stats;
mod table;
mod targets;
mod units;

use std::path::{Path, PathBuf};

use skillhost_toolchain::{Error, Progress};

pub use fetched::fetched;
pub use measure::{nanoseconds, sizes};
pub use place::{Place, native_python};
pub use random::Random;
pub use server::serve;
pub use shell::{Shell, constructs};

/// Measures the cost of isolation, with `rounds` samples of each case in each tier. Passes the
/// tables and the path of the page to `print`. With `commit`, writes the run to docs/figures and
/// the documents.
///
/// # Errors
/// Returns an error if a case cannot run natively or in skillhost, or if a file cannot be written.
pub fn isolation(
    place: &Place,
    rounds: usize,
    commit: bool,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<(), Error> {
    let report = isolation::run(place, rounds, progress, print)?;
    print(&isolation::tables::markdown(&report));
    let page = isolation::page::save(&report, &place.folder)?;
    if commit {
        report::commit(&report)?;
    }
    let page = page.strip_prefix(repository("")).unwrap_or(&page);
    print(&format!("The page is {}. The JSON file is in the same folder.", page.display()));
    Ok(())
}

/// Measures every figure that has a goal, with `rounds` samples of each short case. Passes the
/// table to `print`. With `commit`, writes the run to docs/figures and the documents.
///
/// # Errors
/// Returns an error if the machine cannot be described, or if a file cannot be written. The table
/// lists cases that cannot run as missing, with the reason.
pub fn targets(
    place: &Place,
    rounds: usize,
    commit: bool,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<(), Error> {
    let report = targets::run(place, rounds, progress, print)?;
    print(&targets::report::markdown(&report));
    if commit { report::commit(&report) } else { Ok(()) }
}

/// Measures small calls of `skillhost serve` by 1, 16 and 128 clients, in this many rounds, next to
/// the same runs in one process. Passes the table to `print`. With `commit`, writes the run to
/// docs/figures and the documents.
///
/// # Errors
/// Returns an error if the server or the driver fails, or if a file cannot be written.
pub fn served(
    place: &Place,
    rounds: usize,
    commit: bool,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<(), Error> {
    let report = served::run(place, rounds, progress, print)?;
    print(&served::markdown(&report));
    if commit { report::commit(&report) } else { Ok(()) }
}

/// Measures hundreds of clients of the run API, with mixed skills for this many minutes, next to a
/// pool of native processes. Passes the table to `print`. With `commit`, writes the run to
/// docs/figures and the documents.
///
/// # Errors
/// Returns an error if the server fails, or if a file cannot be written.
pub fn load(
    place: &Place,
    minutes: u64,
    commit: bool,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<(), Error> {
    let report = load::run(place, minutes, progress, print)?;
    print(&load::markdown(&report));
    if commit { report::commit(&report) } else { Ok(()) }
}

/// Measures a fleet on this machine with this broker, in this many rounds, next to one server. Passes
/// the tables to `print`. With `commit`, writes the run to docs/figures and the documents.
///
/// # Errors
/// Returns an error if a process does not start or a request fails, or if a file cannot be written.
pub fn fleet(
    place: &Place,
    broker: &Path,
    rounds: usize,
    commit: bool,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<(), Error> {
    let report = fleet::run(place, broker, rounds, progress, print)?;
    print(&fleet::markdown(&report));
    if commit { report::commit(&report) } else { Ok(()) }
}

/// Measures sessions of `skillhost serve`, with `rounds` samples of each first command. Passes the table
/// to `print`. With `commit`, writes the run to docs/figures and the documents.
///
/// # Errors
/// Returns an error if the server does not start or refuses a request, or if a file cannot be written.
pub fn sessions(
    place: &Place,
    rounds: usize,
    commit: bool,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<(), Error> {
    let report = sessions::run(place, rounds, progress, print)?;
    print(&sessions::markdown(&report));
    if commit { report::commit(&report) } else { Ok(()) }
}

/// Measures the phases of cold starts, `rounds` times each, and returns them as a table.
///
/// # Errors
/// Returns an error if the driver fails.
pub fn phases(place: &Place, rounds: usize, progress: &Progress) -> Result<String, Error> {
    let table = phases::table(&phases::measure(place, rounds, progress)?);
    Ok(table
        .map_or_else(String::new, |table| format!("## {}\n\n{}", phases::TITLE, table.markdown())))
}

/// Regenerates all files that are generated from committed runs.
///
/// # Errors
/// Returns an error if a committed run cannot be read, or if a file cannot be written.
pub fn write_committed() -> Result<(), Error> {
    report::write::<isolation::Report>()?;
    report::write::<targets::Report>()?;
    report::write::<served::Report>()?;
    report::write::<load::Report>()?;
    report::write::<fleet::Report>()?;
    report::write::<sessions::Report>()
}

/// Returns the absolute path of a file of the repository.
pub fn repository(path: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).join(path)
}

/// Returns the `skillhost` binary that was built next to the benchmarks, which use it to compile
/// components. `cargo xtask bench` builds it first.
///
/// # Panics
/// Panics if the binary is missing.
pub fn skillhost() -> PathBuf {
    let benchmark = std::env::current_exe().expect("a running program has a path");
    let program = benchmark.with_file_name("..").join("skillhost");
    assert!(
        program.is_file(),
        "{} is missing: `cargo build --release -p skillhost-cli` builds it",
        program.display()
    );
    program
}
