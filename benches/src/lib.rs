//! What `cargo xtask bench` measures, and its reports, tables and charts.
//!
//! [`isolation()`] runs the same skills natively, in other sandboxes and in skillhost; [`targets()`]
//! measures every figure that the project has a goal for; [`phases()`] shows where the time of a cold
//! start goes. xtask builds the programs and passes them in a [`Place`]. Read in this order:
//!
//! - `cases`: what is run; `inputs`: what it reads; `place`: the programs and folders;
//! - `measure`: one process; `driver`: the host of the warm tier; `bench`: measuring in turns;
//! - `isolation` and `targets`: the two benchmarks with a report; `phases`; `shell`: constructs of
//!   scripts beside bash;
//! - `report`: JSON, and what is written from committed runs; `table`, `units`, `samples`, `stats`.
//!
//! The library does not depend on the host: it measures processes from outside. The benchmarks of
//! the host's own parts (`invoke`, `check`, `soak`, `search`, `catalog`) and the driver are other
//! targets of this package, and only they use the host's crates.

#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark starts programs, and works on the files of this repository"
)]

mod bench;
mod cases;
mod driver;
mod inputs;
mod isolation;
mod measure;
mod phases;
mod place;
mod random;
mod report;
mod samples;
mod server;
mod shell;
mod stats;
mod table;
mod targets;
mod units;

use std::path::{Path, PathBuf};

use skillhost_toolchain::{Error, Progress};

pub use measure::{nanoseconds, sizes};
pub use place::{Place, native_python};
pub use random::Random;
pub use server::serve;
pub use shell::{Shell, constructs};

/// Measures what isolation costs, with `rounds` samples of each case in each tier. `say` gets what
/// is printed: the tables, and where the page is. With `commit`, the run is written to docs/figures
/// and the documents.
///
/// # Errors
/// Something cannot run natively or in skillhost, or a file cannot be written.
pub fn isolation(
    place: &Place,
    rounds: usize,
    commit: bool,
    progress: &Progress,
    say: &dyn Fn(&str),
) -> Result<(), Error> {
    let report = isolation::run(place, rounds, progress, say)?;
    say(&isolation::tables::markdown(&report));
    let page = isolation::page::save(&report, &place.folder)?;
    if commit {
        report::commit(&report)?;
    }
    let page = page.strip_prefix(repository("")).unwrap_or(&page);
    say(&format!("The page is {}, and the JSON beside it.", page.display()));
    Ok(())
}

/// Measures every figure that the project has a goal for, with `rounds` samples of what is short.
/// `say` gets the table. With `commit`, the run is written to docs/figures and the documents.
///
/// # Errors
/// The machine cannot be described, or a file cannot be written. Whatever cannot run is missing in
/// the table, with the reason.
pub fn targets(
    place: &Place,
    rounds: usize,
    commit: bool,
    progress: &Progress,
    say: &dyn Fn(&str),
) -> Result<(), Error> {
    let report = targets::run(place, rounds, progress, say)?;
    say(&targets::report::markdown(&report));
    if commit { report::commit(&report) } else { Ok(()) }
}

/// Measures the phases of cold starts, `rounds` times each, and returns them as a table.
///
/// # Errors
/// The driver is missing or fails.
pub fn phases(place: &Place, rounds: usize, progress: &Progress) -> Result<String, Error> {
    let table = phases::table(&phases::measure(place, rounds, progress)?);
    Ok(table
        .map_or_else(String::new, |table| format!("## {}\n\n{}", phases::TITLE, table.markdown())))
}

/// Writes everything that is written from committed runs anew.
///
/// # Errors
/// A committed run cannot be read, or a file cannot be written.
pub fn write_committed() -> Result<(), Error> {
    report::write::<isolation::Report>()?;
    report::write::<targets::Report>()
}

/// A path of the repository.
pub fn repository(path: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).join(path)
}

/// The program `skillhost` that was built next to a benchmark of this package, which starts it to
/// compile. `cargo xtask bench` builds it first.
///
/// # Panics
/// There is none.
pub fn skillhost() -> PathBuf {
    let benchmark = std::env::current_exe().expect("a running program has a path");
    let program = benchmark.with_file_name("..").join("skillhost");
    assert!(
        program.is_file(),
        "no {}: `cargo build --release -p skillhost-cli` builds it",
        program.display()
    );
    program
}
