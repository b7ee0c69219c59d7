//! `cargo xtask chaos`: the test of a fleet under faults, with many runs. tests/fleet/chaos.rs has the
//! faults and the checks; the suite runs it for less than a minute.

use std::path::PathBuf;

use skillhost_toolchain::{Error, Progress, unpack_program};

use crate::{host, workspace};

/// The test.
const TEST: &str = "fleet::chaos::no_acknowledged_run_is_lost_or_ends_twice";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Submit this many runs; there is a fault for each 100
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Choose which process each fault hits by this number
    #[arg(long, default_value_t = 7)]
    seed: u32,
    /// Start this nats-server, 2.10 or later, instead of the one of Debian 12, and let each write reach
    /// the disk before it is acknowledged
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    for package in ["libfaketime", "nats-server"] {
        unpack_program(&root.join("target/tools"), package, progress)?;
    }
    let nats_server = options.nats_server.as_ref().map(|program| {
        // The tests run in another folder.
        program.canonicalize().map_err(Error::context(program.display()))
    });
    let nats_server = nats_server.transpose()?;
    let what = format!("{} runs under faults, seed {}", options.runs, options.seed);
    progress.loud_step(&what, |step| {
        let mut cargo = workspace::cargo(&root);
        host::linted(&mut cargo);
        cargo.args(["test", "--workspace", "--locked", "--test", "main", "--", "--exact", TEST]);
        cargo.arg("--nocapture");
        cargo.env("SKILLHOST_CHAOS_RUNS", options.runs.to_string());
        cargo.env("SKILLHOST_CHAOS_RUNS_PER_FAULT", "100");
        cargo.env("SKILLHOST_CHAOS_SEED", options.seed.to_string());
        if let Some(program) = nats_server {
            cargo.env("SKILLHOST_CHAOS_NATS_SERVER", program);
        }
        step.run_loud(&mut cargo)
    })?;
    Ok(())
}
