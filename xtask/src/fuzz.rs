//! `cargo xtask fuzz`: runs each fuzz target for a given time, with coverage if cargo-fuzz and a
//! nightly toolchain are installed.

use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use crate::{print_line, workspace};

/// Runs one target, or all of them in turn. Stops at the first failure.
pub(crate) fn run(
    seconds: u32,
    target: Option<String>,
    seed: Option<u64>,
    progress: &Progress,
) -> Result<(), Error> {
    let root = workspace::root();
    let targets = targets()?;
    if let Some(unknown) = target.as_ref().filter(|target| !targets.contains(target)) {
        return Err(Error::new(format!("no fuzz target is named `{unknown}`"))
            .help(format!("use one of {}", targets.join(", "))));
    }
    let succeeds = |args: &[&str]| {
        Command::new("cargo").args(args).output().is_ok_and(|output| output.status.success())
    };
    if seed.is_none() && succeeds(&["+nightly", "fuzz", "--version"]) {
        for name in
            targets.iter().filter(|name| target.as_ref().is_none_or(|target| target == *name))
        {
            progress.loud_step(&format!("fuzz {name}"), |step| {
                let mut fuzz = workspace::cargo(&root);
                fuzz.args(["+nightly", "fuzz", "run", name, "--"])
                    .arg(format!("-max_total_time={seconds}"))
                    .arg("-timeout=10");
                step.run_loud(&mut fuzz)
            })?;
        }
        return Ok(());
    }
    print_line("fuzzing without coverage, which requires cargo-fuzz and no `--seed`");
    let run = progress.loud_step("fuzz", |step| {
        let mut test = workspace::cargo(&root);
        test.args([
            "test",
            "-p",
            "skillhost-cli",
            "--locked",
            "--test",
            "main",
            "fuzz::targets_withstand_mutations_for_a_given_time",
        ]);
        test.args(["--", "--exact", "--ignored", "--nocapture"])
            .env("FUZZ_SECONDS", seconds.to_string());
        for (name, value) in
            [("FUZZ_TARGET", target.clone()), ("FUZZ_SEED", seed.map(|seed| seed.to_string()))]
        {
            match value {
                Some(value) => test.env(name, value),
                None => test.env_remove(name),
            };
        }
        step.run_loud(&mut test)
    });
    Ok(run?)
}

/// Returns the names of the fuzz targets.
fn targets() -> Result<Vec<String>, Error> {
    let folder = workspace::root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder)
        .and_then(|entries| entries.map(|e| Ok(e?.path())).collect::<Result<Vec<_>, _>>());
    let paths = entries.map_err(Error::context(folder.display()))?;
    let mut names: Vec<String> =
        paths.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}
