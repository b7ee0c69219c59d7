//! `skillhost doctor`: report what this machine has and lacks, and how to fix it.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use skillhost::invoke::Runner;
use skillhost_catalog::{Catalog, Source, SourceKind};
use skillhost_policy::Policy;
use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_policy::limits::show_size;
use skillhost_sandbox::kernel::{self, KernelFeature};
use skillhost_sandbox::{CodeState, ENGINE, Mode};
use skillhost_skill::extent::Extent;
use skillhost_skill::ownership;
use skillhost_skill::runtime::built_in::{BUILD_COMMAND, BuiltIn, EXPECTED_PROGRAMS};

use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::args::{HostArgs, RuntimesArg};
use crate::commands::connect::{self, ClientState, Connection};
use crate::context::{Context, Places, source_name};
use crate::error::{CliError, Exit};
use crate::output::{self, CYAN, RED, YELLOW};

/// Report what this machine has and lacks, and the command that fixes each problem
///
/// Looks at the versions, the kernel's features (each is tried), the runtimes and their compiled code,
/// the folders, the policy, the skills, and the agents' clients. Changes nothing, and compiles
/// nothing. Exits with 1 if there is a problem. Lines that start with `!` are problems, and with `-`
/// notes: something that works less well.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost doctor
  skillhost doctor --policy policy.yaml
  skillhost doctor --json | jq -r '.facts[] | select(.status == \"problem\") | .fix'")]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    runtimes: RuntimesArg,
    #[command(flatten)]
    policy: PolicyFile,
    #[command(flatten)]
    skills: Skills,
}

/// Output of `--json`.
#[derive(Debug, Default, Serialize)]
struct Report {
    problems: usize,
    facts: Vec<Fact>,
}

#[derive(Debug, Serialize)]
struct Fact {
    section: &'static str,
    name: String,
    status: Status,
    value: String,
    /// The command that fixes a problem, or what improves a note.
    fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Ok,
    Note,
    Problem,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let places = Places::unchecked()?;
    let mut report = Report::default();
    report.versions();
    report.kernel();
    report.runtimes(args, &places);
    report.folders(&places);
    let policy = report.policy(&args.policy, &places);
    let context = Context { places, policy };
    report.catalog(&args.skills, &context);
    report.clients(&context.places);
    report.problems = report.facts.iter().filter(|fact| fact.status == Status::Problem).count();
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&report.text())?;
    }
    Ok(if report.problems == 0 { Exit::Ok } else { Exit::Findings })
}

impl Report {
    fn add(
        &mut self,
        section: &'static str,
        name: impl Into<String>,
        status: Status,
        value: impl Into<String>,
        fix: Option<String>,
    ) {
        let (name, value) = (name.into(), value.into());
        self.facts.push(Fact { section, name, status, value, fix });
    }

    fn versions(&mut self) {
        const SECTION: &str = "versions";
        let executable =
            std::env::current_exe().map_or_else(|_| String::new(), |path| shown(&path));
        let version = format!("{} ({executable})", env!("CARGO_PKG_VERSION"));
        self.add(SECTION, "skillhost", Status::Ok, version, None);
        self.add(SECTION, "engine", Status::Ok, ENGINE, None);
        #[expect(clippy::disallowed_methods, reason = "a file of the kernel's")]
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let system = format!("Linux {} on {}", kernel.trim(), std::env::consts::ARCH);
        self.add(SECTION, "system", Status::Ok, system, None);
    }

    fn kernel(&mut self) {
        for feature in kernel::features() {
            let KernelFeature { name, is_available, detail, without, is_required } = feature;
            let (status, value, fix) = match (is_available, is_required) {
                (true, _) => {
                    let detail = detail.map_or(String::new(), |detail| format!(": {detail}"));
                    (Status::Ok, format!("works{detail}"), None)
                }
                (false, false) => (Status::Note, format!("does not work: {without}"), None),
                (false, true) => {
                    let fix =
                        "run skillhost where its system calls are allowed, or on a newer kernel";
                    (Status::Problem, format!("does not work: {without}"), Some(fix.to_owned()))
                }
            };
            self.add("kernel", name, status, value, fix);
        }
    }

    fn runtimes(&mut self, args: &Args, places: &Places) {
        const SECTION: &str = "runtimes";
        let host = HostArgs { runtimes: args.runtimes.clone(), ..HostArgs::default() };
        let host = match places.host_options(&host) {
            Ok(options) => Runner::new(options),
            Err(error) => {
                let fix =
                    "name the folder of runtimes: --programs DIR, or unset SKILLHOST_PROGRAMS";
                let fix = error.fix.unwrap_or_else(|| fix.to_owned());
                return self.add(SECTION, "folder", Status::Problem, error.message, Some(fix));
            }
        };
        let found = match host.built_ins().list() {
            Ok(found) => found,
            Err(error) => {
                return self.add(SECTION, "list", Status::Problem, error.message, error.fix);
            }
        };
        let missing = if found.is_empty() { Status::Problem } else { Status::Note };
        for (name, commands) in EXPECTED_PROGRAMS {
            if found.iter().all(|runtime| runtime.description.name != name) {
                let value = format!("is missing, so nothing runs {}", commands.join(" or "));
                self.add(SECTION, name, missing, value, Some(BUILD_COMMAND.to_owned()));
            }
        }
        for runtime in found {
            self.runtime(SECTION, Arc::new(runtime), &host);
        }
    }

    fn runtime(&mut self, section: &'static str, runtime: Arc<BuiltIn>, host: &Runner) {
        let name = runtime.description.name.clone();
        let component = match runtime.verify() {
            Ok(component) => component,
            Err(error) => {
                return self.add(section, name, Status::Problem, error.message, error.fix);
            }
        };
        let version = &runtime.description.version;
        let warm = || Some("skillhost cache warm".to_owned());
        let (status, value, fix) = match host.code_state(&component, Mode::Fast) {
            CodeState::Ready => (Status::Ok, "compiled for this machine".to_owned(), None),
            CodeState::Missing => {
                (Status::Note, "not compiled; the first run takes seconds".to_owned(), warm())
            }
            CodeState::Unusable(why) => {
                let value = format!("its compiled code cannot run on this machine: {why}");
                (Status::Note, value, warm())
            }
            CodeState::NoCache(why) => {
                let fix = last_code(&why).unwrap_or("set $XDG_CACHE_HOME").to_owned();
                (Status::Problem, format!("its compiled code cannot be used: {why}"), Some(fix))
            }
        };
        self.add(section, name, status, format!("{version}, {value}"), fix);
    }

    fn folders(&mut self, places: &Places) {
        const SECTION: &str = "folders";
        for (name, folder) in [
            ("config", &places.config),
            ("state", &places.state),
            ("data", &places.data),
            ("cache", &places.cache),
        ] {
            let (status, value, fix) = folder_fact(folder);
            self.add(SECTION, name, status, value, fix);
        }
        let scratch = &places.scratch;
        let (status, value, fix) = match rustix::fs::access(scratch, rustix::fs::Access::WRITE_OK) {
            Ok(()) if scratch.is_dir() => (Status::Ok, shown(scratch), None),
            Ok(()) => (Status::Problem, format!("{} is not a folder", shown(scratch)), tmpdir()),
            Err(error) => {
                (Status::Problem, format!("cannot write to {}: {error}", shown(scratch)), tmpdir())
            }
        };
        self.add(SECTION, "scratch", status, value, fix);
    }

    /// Returns the policy in force, or the built-in one if the file is wrong.
    fn policy(&mut self, file: &PolicyFile, places: &Places) -> Policy {
        const SECTION: &str = "policy";
        let Some((path, named_by)) = file.found(places) else {
            self.add(SECTION, "file", Status::Ok, "none, so the built-in policy applies", None);
            return Policy::builtin();
        };
        let shown = format!("{} (from {named_by})", shown(&path));
        match file.read(places) {
            Ok(policy) => {
                self.add(SECTION, "file", Status::Ok, shown, None);
                policy
            }
            Err(error) => {
                let findings = error.findings.as_ref().map(|found| &found.0);
                let first = findings.and_then(|found| found.first());
                let place = first.map_or(String::new(), |first| {
                    let line =
                        first.span.map_or(String::new(), |span| format!("line {}: ", span.line));
                    format!("; {line}{}", first.message)
                });
                let fix = error.fix.unwrap_or_else(|| {
                    let path = quoted(&path.to_string_lossy());
                    format!("skillhost config show --policy {path}")
                });
                let value = format!("{}{place}", error.message);
                self.add(SECTION, "file", Status::Problem, value, Some(fix));
                Policy::builtin()
            }
        }
    }

    fn catalog(&mut self, skills: &Skills, context: &Context) {
        const SECTION: &str = "skills";
        let sources = match skills.all_sources(context) {
            Ok(sources) => sources,
            Err(error) => {
                return self.add(SECTION, "sources", Status::Problem, error.message, error.fix);
            }
        };
        // In memory: the index in the cache folder stays as it is.
        let catalog = match Catalog::open(sources.clone(), None) {
            Ok(catalog) => catalog,
            Err(error) => {
                let fix = "name folders that exist: --skills DIR".to_owned();
                return self.add(SECTION, "list", Status::Problem, error.to_string(), Some(fix));
            }
        };
        let entries = catalog.entries();
        for (position, Source { folder, kind, .. }) in (1..).zip(&sources) {
            let count = entries.iter().filter(|entry| entry.position == position).count();
            let is_named = matches!(kind, SourceKind::Policy | SourceKind::Flag);
            let (status, value) = match folder.is_dir() {
                true => (Status::Ok, output::count(count as u64, "skill")),
                false if is_named => (Status::Note, "does not exist".to_owned()),
                false => (Status::Ok, "none".to_owned()),
            };
            let value = format!("{}, {value}", shown(folder));
            self.add(SECTION, source_name(*kind), status, value, None);
        }
        for problem in catalog.problems().iter() {
            let folder = shown(&problem.folder);
            let fix = format!("skillhost check {}", quoted(&problem.folder.to_string_lossy()));
            let value = format!("{folder}: {}", problem.why);
            self.add(SECTION, "broken", Status::Problem, value, Some(fix));
        }
        let shadowed = catalog.shadowed().len();
        if shadowed > 0 {
            let value = format!(
                "{} hidden by another of the same name",
                output::count(shadowed as u64, "skill")
            );
            let fix = Some("skillhost list --all".to_owned());
            self.add(SECTION, "shadowed", Status::Note, value, fix);
        }
    }

    fn clients(&mut self, places: &Places) {
        const SECTION: &str = "clients";
        let states = match connect::connections(places) {
            Ok(states) => states,
            Err(error) => {
                return self.add(SECTION, "list", Status::Problem, error.message, error.fix);
            }
        };
        for ClientState { title, command, file, connection } in states {
            let file = shown(&file);
            let (status, value, fix) = match connection {
                Connection::NoFile => (Status::Ok, format!("not configured ({file})"), None),
                Connection::Absent => (Status::Ok, format!("not connected ({file})"), None),
                Connection::Broken(why) => {
                    let fix = Some(format!("correct {file}, then {command}"));
                    (Status::Problem, why, fix)
                }
                Connection::Connected(program) => match connect::executable(&program) {
                    Some(_) => (Status::Ok, format!("connected ({file})"), None),
                    None => {
                        let value = format!("starts `{program}`, which does not exist ({file})");
                        (Status::Problem, value, Some(command))
                    }
                },
            };
            self.add(SECTION, title, status, value, fix);
        }
    }

    /// One line for each fact, and then the problems with their fixes.
    fn text(&self) -> String {
        let width = self.facts.iter().map(|fact| fact.name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        let mut section = "";
        for Fact { section: own, name, status, value, .. } in &self.facts {
            if section != *own {
                text += &format!("{CYAN}{own}{CYAN:#}\n");
                section = own;
            }
            let (name, value) = (printable(name), printable(value));
            let line = format!("{name:<width$}  {value}");
            text += &match status {
                Status::Ok => format!("  {line}\n"),
                Status::Note => format!("{YELLOW}-{YELLOW:#} {line}\n"),
                Status::Problem => format!("{RED}! {line}{RED:#}\n"),
            };
        }
        for (status, noun, style) in
            [(Status::Note, "note", YELLOW), (Status::Problem, "problem", RED)]
        {
            for Fact { section, name, fix, .. } in
                self.facts.iter().filter(|fact| fact.status == status)
            {
                if let Some(fix) = fix {
                    let (name, fix) = (printable(name), printable(fix));
                    text += &format!("\n{style}{noun}{style:#}: {section}, {name}: {fix}");
                }
            }
        }
        match self.problems {
            0 => text += "\nno problems",
            count => text += &format!("\n{}", output::count(count as u64, "problem")),
        }
        text
    }
}

/// The size and mode of one of the host's own folders.
fn folder_fact(folder: &Path) -> (Status, String, Option<String>) {
    let path = shown(folder);
    let found = match rustix::fs::stat(folder) {
        Ok(found) => found,
        Err(rustix::io::Errno::NOENT) => {
            return (Status::Ok, format!("{path}, not created yet"), None);
        }
        Err(error) => return (Status::Problem, format!("{path}: {error}"), None),
    };
    if let Err(refusal) = ownership::check(folder, &found) {
        let own = rustix::process::geteuid().as_raw();
        let quoted = quoted(&folder.to_string_lossy());
        let fix = match found.st_uid == own {
            true => format!("chmod go-w {quoted}"),
            false => format!("chown {own} {quoted}"),
        };
        return (Status::Problem, refusal.why, Some(fix));
    }
    let mode = found.st_mode & 0o7777;
    match Extent::of_folder(folder) {
        Ok(Extent { files, bytes, .. }) => {
            let count = output::count(files, "file");
            (Status::Ok, format!("{path}, {} in {count}, mode {mode:o}", show_size(bytes)), None)
        }
        Err(error) => {
            let fix = format!("chmod u+rwx {}", quoted(&folder.to_string_lossy()));
            (Status::Problem, format!("cannot read {path}: {error}"), Some(fix))
        }
    }
}

fn tmpdir() -> Option<String> {
    Some("set $TMPDIR to a folder that you can write to".to_owned())
}

/// Returns the last text between backticks.
fn last_code(text: &str) -> Option<&str> {
    text.rsplit('`').nth(1)
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}
