//! `cargo xtask demo`: from a clean clone to a skill that worked on real data, with what it was allowed and what it cost.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use skillhost_toolchain::{Error, Progress, Step, files};

use crate::{components, say, toolchain, workspace};

const SKILL: &str = "skills/data-convert";

/// What the skill is asked: which licences the project's dependencies are under, and how many are under each.
const FILTER: &str = "[.packages[].license // \"none\"] | group_by(.) | map({license: .[0], crates: length}) | sort_by(-.crates) | .[:8]";

pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    let start = Instant::now();
    let root = workspace::root();
    let toolchain = toolchain::get(&root, progress)?;
    components::build(&root, &toolchain, progress)?;
    let skillhost = progress.step("build skillhost in release mode", |step| build_host(&root, step))?;
    let input = progress.step("describe this workspace's dependencies", |step| write_input(&root, step))?;

    let explained = progress.step("ask what the skill may do", |step| {
        step.run(Command::new(&skillhost).current_dir(&root).args(["run", SKILL, "--explain"])).map_err(Error::from)
    })?;
    let outcome = progress.step("run the skill", |_| run_skill(&root, &skillhost, &input))?;

    say(format!("\n# skillhost run {SKILL} --explain\n\n{}", String::from_utf8_lossy(&explained).trim_end()));
    say(format!(
        "\n# skillhost run {SKILL} -- -f '{FILTER}' < {}\n\n{}",
        workspace::name(&root, &input),
        text(&outcome["stdout"]).trim_end()
    ));
    say(format!("\n# What it cost\n\n{}", cost(&outcome["usage"], &input)?));
    say(format!("\nxtask demo: ok in {:.1} s", start.elapsed().as_secs_f64()));
    Ok(())
}

/// Returns the program.
fn build_host(root: &Path, step: &Step) -> Result<PathBuf, Error> {
    let args = ["build", "--release", "--locked", "-p", "skillhost", "--message-format=json-render-diagnostics"];
    let messages = step.run(workspace::cargo(root).args(args))?;
    let messages = String::from_utf8_lossy(&messages).into_owned();
    let mut messages = messages.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    let built = messages.find_map(|m| m["executable"].as_str().map(PathBuf::from));
    built.ok_or_else(|| Error::new("cargo reports no program skillhost"))
}

/// A megabyte or two of JSON that every machine has: what cargo knows of the crates that this workspace stands on.
fn write_input(root: &Path, step: &Step) -> Result<PathBuf, Error> {
    let version = step.run(Command::new("rustc").arg("-vV"))?;
    let version = String::from_utf8_lossy(&version).into_owned();
    let host = version.lines().find_map(|l| l.strip_prefix("host: ")).ok_or_else(|| Error::new("`rustc -vV` names no host"))?;
    let metadata = step.run(workspace::cargo(root).args(["metadata", "--format-version", "1", "--locked", "--filter-platform", host]))?;
    let path = root.join("target/demo/metadata.json");
    files::write_if_changed(&path, &metadata)?;
    Ok(path)
}

/// Returns the outcome, as `--json` prints it.
fn run_skill(root: &Path, skillhost: &Path, input: &Path) -> Result<Value, Error> {
    let stdin = File::open(input).map_err(Error::context(input.display()))?;
    let mut command = Command::new(skillhost);
    command.current_dir(root).args(["run", SKILL, "--json", "--", "-f", FILTER]).stdin(stdin).stderr(Stdio::piped());
    let output = command.output().map_err(Error::context(skillhost.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let outcome: Value = serde_json::from_slice(&output.stdout)
        .map_err(Error::context(format!("skillhost printed no outcome ({})\n{stderr}", output.status)))?;
    if outcome["status"]["kind"] == "exited" && outcome["status"]["code"] == 0 && output.status.success() {
        return Ok(outcome);
    }
    Err(Error::new(format!("the skill failed: {}\n{}{stderr}", outcome["status"], text(&outcome["stderr"]))))
}

fn cost(usage: &Value, input: &Path) -> Result<String, Error> {
    let size = fs::metadata(input).map_err(Error::context(input.display()))?.len();
    let number = |key: &str| usage[key].as_f64().ok_or_else(|| Error::new(format!("the outcome has no usage.{key}: {usage}")));
    let mib = |bytes: f64| format!("{:.1} MiB", bytes / 1_048_576.0);
    let rows = [
        ("time", format!("{:.0} ms", number("wall_ms")?)),
        ("peak memory", mib(number("memory_peak")?)),
        ("input", format!("{} on stdin", mib(size as f64))),
        ("files", format!("{} read, {} written", mib(number("bytes_read")?), mib(number("bytes_written")?))),
        ("network", format!("{} sent, {} received", mib(number("http_sent")?), mib(number("http_received")?))),
        ("programs", format!("{}", number("processes")?)),
    ];
    Ok(rows.map(|(name, value)| format!("{name:<12} {value}")).join("\n"))
}

/// A stream of the outcome that is text.
fn text(output: &Value) -> &str {
    output.as_str().unwrap_or("(not text)")
}
