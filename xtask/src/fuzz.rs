//! `cargo xtask fuzz`: the fuzz targets for a given time each, with coverage where cargo-fuzz and a
//! nightly toolchain are there.

use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use crate::{say, workspace};

/// Runs one target, or all of them one after the other. The first failure ends it.
pub(crate) fn run(
    seconds: u32,
    target: Option<String>,
    seed: Option<u64>,
    progress: &Progress,
) -> Result<(), Error> {
    let root = workspace::root();
    let targets = targets()?;
    if let Some(unknown) = target.as_ref().filter(|target| !targets.contains(target)) {
        return Err(
            Error::new(format!("there is no fuzz target `{unknown}`")).help(targets.join(", "))
        );
    }
    let answers = |args: &[&str]| {
        Command::new("cargo").args(args).output().is_ok_and(|output| output.status.success())
    };
    if seed.is_none() && answers(&["+nightly", "fuzz", "--version"]) {
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
    say("cargo-fuzz is not here: what is made of the seeds is not guided by coverage");
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

/// The names of the targets.
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
