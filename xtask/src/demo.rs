//! `cargo xtask demo`: builds everything from a clean clone, runs skills on real data, and shows
//! the permissions and the cost of each run.

mod inputs;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use skillhost_toolchain::{Error, Progress, Step};

use crate::components::Guests;
use crate::steps::{in_parallel, list_slowest};
use crate::{components, host, print_line, python, requirements, toolchain, workspace};

/// One run of a skill.
struct Scene {
    skill: &'static str,
    /// The script to run, or `None` for a component.
    script: Option<&'static str>,
    args: &'static [&'static str],
    /// The input file, in the folder of the demo, which is also the workspace.
    input: &'static str,
    /// Whether the input is passed on stdin, without a workspace.
    stdin: bool,
}

const SCENES: [Scene; 3] = [
    Scene {
        skill: "data-convert",
        script: None,
        args: &["-f", inputs::LICENCES],
        input: inputs::METADATA,
        stdin: true,
    },
    Scene {
        skill: "csv-report",
        script: Some("scripts/csv_report.py"),
        args: &[inputs::DEPENDENCIES, "-o", "dependencies.html"],
        input: inputs::DEPENDENCIES,
        stdin: false,
    },
    Scene {
        skill: "log-triage",
        script: Some("scripts/triage.sh"),
        args: &["--top", "5", inputs::LOG],
        input: inputs::LOG,
        stdin: false,
    },
];

/// The number of lines of each result to show.
const SHOWN_LINES: usize = 24;

pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    let start = Instant::now();
    let root = workspace::root();
    requirements::check()?;
    let toolchain = toolchain::get(&root, progress)?;
    let mut built = Err(Error::new("the host was not built"));
    // The guests compile in few threads, and part of the Python runtime waits for the network.
    in_parallel(
        || {
            in_parallel(
                || python::run(progress),
                || {
                    let guests = Guests::ShellAnd("skills/data-convert");
                    components::build(&root, &toolchain, guests, progress).map(drop)
                },
            )
        },
        || {
            built =
                progress.step("build the host", |step| host::build_for_development(&root, step));
            Ok(())
        },
    )?;
    let skillhost = built?;
    progress.step("compile the runtimes", |step| host::compile_runtimes(&skillhost, step))?;
    let demo = Demo { folder: root.join("target/demo"), skillhost, root };
    progress.step("list this workspace's dependencies", |step| {
        inputs::metadata(&demo.root, &demo.folder, step)
    })?;
    progress.step("convert them to CSV with data-convert", |_| inputs::dependencies(&demo))?;
    progress.step("generate an access log", |_| inputs::log(&demo.folder))?;
    for scene in &SCENES {
        let (allowed, outcome) =
            progress.step(&format!("run {}", scene.skill), |step| demo.play(scene, step))?;
        print_line(format!("\n# {}\n\n{allowed}", demo.command_line(scene)));
        print_line(format!("\n{}", shortened(text(&outcome["stdout"]))));
        print_line(format!("\n{}", cost(&outcome["usage"], &demo.folder.join(scene.input))?));
    }
    print_line(format!(
        "\nThe report is {}.",
        workspace::name(&demo.root, &demo.folder.join("dependencies.html"))
    ));
    list_slowest(progress);
    print_line(format!("xtask demo: ok in {:.1} s", start.elapsed().as_secs_f64()));
    Ok(())
}

/// The paths that the demo uses.
struct Demo {
    root: PathBuf,
    /// The folder of the inputs and results.
    folder: PathBuf,
    skillhost: PathBuf,
}

impl Demo {
    /// Runs the skill. Returns its permissions, and the outcome as `--json` prints it.
    fn play(&self, scene: &Scene, step: &Step) -> Result<(String, Value), Error> {
        let mut explain = self.command(scene);
        let explained = step.run(explain.args(["--explain", "--json"]))?;
        let explained =
            serde_json::from_slice(&explained).map_err(Error::context("--explain --json"))?;
        Ok((allowed(&explained), self.outcome(scene)?))
    }

    fn outcome(&self, scene: &Scene) -> Result<Value, Error> {
        let mut command = self.command(scene);
        command.args(["--json", "--"]).args(scene.args).stderr(Stdio::piped());
        if scene.stdin {
            let input = self.folder.join(scene.input);
            command.stdin(File::open(&input).map_err(Error::context(input.display()))?);
        }
        let output = command.output().map_err(Error::context(self.skillhost.display()))?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let outcome: Value = serde_json::from_slice(&output.stdout).map_err(Error::context(
            format!("skillhost printed no outcome ({})\n{stderr}", output.status),
        ))?;
        if outcome["status"]["kind"] == "exited"
            && outcome["status"]["code"] == 0
            && output.status.success()
        {
            return Ok(outcome);
        }
        Err(Error::new(format!(
            "{} failed: {}\n{}{stderr}",
            scene.skill,
            outcome["status"],
            text(&outcome["stderr"])
        )))
    }

    /// Returns the command `skillhost run` for a scene, without the arguments after `--`.
    fn command(&self, scene: &Scene) -> Command {
        let mut command = Command::new(&self.skillhost);
        command
            .current_dir(&self.root)
            .arg("run")
            .arg(format!("skills/{}", scene.skill))
            .args(scene.script);
        if !scene.stdin {
            command.arg("--workspace").arg(&self.folder);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Formats the command as the operator would type it.
    fn command_line(&self, scene: &Scene) -> String {
        let folder = workspace::name(&self.root, &self.folder);
        let script = scene.script.map(|script| format!(" {script}")).unwrap_or_default();
        let (workspace, stdin) = match scene.stdin {
            true => (String::new(), format!(" < {folder}/{}", scene.input)),
            false => (format!(" --workspace {folder}"), String::new()),
        };
        let quoted = |arg: &&str| {
            if arg.contains([' ', '[', '"']) { format!("'{arg}'") } else { (*arg).to_owned() }
        };
        let args: Vec<String> = scene.args.iter().map(quoted).collect();
        format!(
            "skillhost run skills/{}{script}{workspace} -- {}{stdin}",
            scene.skill,
            args.join(" ")
        )
    }
}

/// Formats the verdict on each entry and the main limits, from the output of `--explain --json`.
fn allowed(explained: &Value) -> String {
    let entries = explained["decisions"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = entries
        .map(|e| {
            format!("{:<12} {}: {}", text(&e["verdict"]), text(&e["entry"]), text(&e["meaning"]))
        })
        .collect();
    let limits = &explained["capabilities"]["limits"];
    let seconds = limits["timeout_ms"].as_f64().unwrap_or_default() / 1000.0;
    let mib = limits["memory"].as_f64().unwrap_or_default() / 1_048_576.0;
    lines.push(format!("{:<12} {seconds:.0} s, {mib:.0} MiB of memory", "at most"));
    lines.join("\n")
}

fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let mut shown = lines[..lines.len().min(SHOWN_LINES)].join("\n");
    if lines.len() > SHOWN_LINES {
        shown += &format!("\n... and {} more lines", lines.len() - SHOWN_LINES);
    }
    shown
}

fn cost(usage: &Value, input: &Path) -> Result<String, Error> {
    let size = fs::metadata(input).map_err(Error::context(input.display()))?.len();
    let number = |key: &str| {
        usage[key]
            .as_f64()
            .ok_or_else(|| Error::new(format!("the outcome has no usage.{key}: {usage}")))
    };
    let mib = |bytes: f64| format!("{:.1} MiB", bytes / 1_048_576.0);
    let rows = [
        ("time", format!("{:.0} ms", number("wall_ms")?)),
        ("peak memory", mib(number("memory_peak")?)),
        ("input", mib(size as f64)),
        (
            "files",
            format!(
                "{} read, {} written",
                mib(number("bytes_read")?),
                mib(number("bytes_written")?)
            ),
        ),
        (
            "network",
            format!(
                "{} sent, {} received",
                mib(number("http_sent")?),
                mib(number("http_received")?)
            ),
        ),
        ("programs", format!("{}", number("processes")?)),
    ];
    Ok(rows.map(|(name, value)| format!("{name:<12} {value}")).join("\n"))
}

/// Returns the text of a JSON string.
pub(crate) fn text(output: &Value) -> &str {
    output.as_str().unwrap_or("(not text)")
}
