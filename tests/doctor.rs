//! `doctor` reports facts about this machine, and for each problem a command that fixes it. It changes
//! nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::cli::{User, copy_compiled_runtimes, repository, text};

/// A user with a separate cache and the runtimes of this repository.
struct Place(User);

impl Place {
    fn new() -> Place {
        Place(User::new())
    }

    fn doctor(&self, args: &[&str]) -> Output {
        let mut command = self.0.command(env!("CARGO_BIN_EXE_skillhost"));
        command.env("XDG_CACHE_HOME", self.0.root().join("cache"));
        command.arg("doctor").args(args).output().unwrap()
    }

    /// The exit code, and the facts.
    fn facts(&self, args: &[&str]) -> (Option<i32>, Vec<Value>) {
        let programs = repository("target/components");
        let programs = ["--json", "--programs", programs.to_str().unwrap()];
        let output = self.doctor(&[&programs, args].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let facts = report["facts"].as_array().unwrap().clone();
        let problems = facts.iter().filter(|fact| fact["status"] == "problem").count();
        assert_eq!(report["problems"], problems);
        (output.status.code(), facts)
    }

    /// The only problem.
    #[track_caller]
    fn problem(&self, args: &[&str]) -> Value {
        let (code, facts) = self.facts(args);
        let problems: Vec<&Value> =
            facts.iter().filter(|fact| fact["status"] == "problem").collect();
        assert_eq!((code, problems.len()), (Some(1), 1), "{problems:#?}");
        problems[0].clone()
    }

    /// Runs the fix of the only problem as a shell does.
    #[track_caller]
    fn run_fix(&self, problem: &Value) {
        let fix = problem["fix"].as_str().unwrap();
        let ran = self.0.command("bash").args(["-c", fix]).output().unwrap();
        assert!(ran.status.success(), "{fix}: {ran:?}");
    }

    #[track_caller]
    fn is_healthy(&self) {
        let (code, facts) = self.facts(&[]);
        let problems: Vec<&Value> =
            facts.iter().filter(|fact| fact["status"] == "problem").collect();
        assert_eq!((code, problems.len()), (Some(0), 0), "{problems:#?}");
    }
}

/// All paths below a folder, with the sizes of files.
fn snapshot(folder: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            found.push((path.display().to_string(), metadata.len()));
            if metadata.is_dir() {
                left.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn doctor_changes_nothing() {
    let place = Place::new();
    let skill = place.0.work().join(".agents/skills/hello");
    crate::cli::skill_of("hello", &skill);
    fs::create_dir_all(place.0.home().join(".cursor")).unwrap();
    fs::write(place.0.home().join(".cursor/mcp.json"), "{}").unwrap();
    let before = snapshot(place.0.root());
    place.is_healthy();
    let output = place.doctor(&[]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{output:?}");
    assert_eq!(snapshot(place.0.root()), before);
}

#[test]
fn facts_cover_each_section() {
    let place = Place::new();
    let (_, facts) = place.facts(&[]);
    let value = |section: &str, name: &str| -> String {
        let fact = facts.iter().find(|fact| fact["section"] == section && fact["name"] == name);
        let fact = fact.unwrap_or_else(|| panic!("no {name} in {section}: {facts:#?}"));
        fact["value"].as_str().unwrap().to_owned()
    };
    assert!(value("versions", "skillhost").starts_with(env!("CARGO_PKG_VERSION")));
    assert!(value("versions", "engine").starts_with("wasmtime "));
    for feature in ["openat2", "PAGEMAP_SCAN", "Landlock", "cgroup"] {
        let value = value("kernel", feature);
        assert!(value.starts_with("works") || value.starts_with("does not work: "), "{value}");
    }
    assert!(value("kernel", "seccomp").starts_with("works"), "components compile in these tests");
    for runtime in ["python", "shell"] {
        assert!(value("runtimes", runtime).contains("not compiled"));
    }
    for folder in ["config", "state", "data", "cache", "scratch"] {
        assert!(value("folders", folder).starts_with('/'));
    }
    assert!(value("policy", "file").contains("built-in"));
    assert!(value("skills", "yours").contains("/.agents/skills"));
    for client in
        ["Claude Code", "Codex", "Gemini CLI", "Cursor", "VS Code", "opencode", "Zed", "Goose"]
    {
        assert!(value("clients", client).starts_with("not configured"));
    }
    // For people, one line each.
    let shown = text(
        &place.doctor(&["--programs", repository("target/components").to_str().unwrap()]).stdout,
    );
    for fact in &facts {
        let [name, value] = ["name", "value"].map(|key| fact[key].as_str().unwrap());
        let is_shown = |line: &str| line.contains(name) && line.contains(value);
        assert!(shown.lines().any(is_shown), "{name}: {value}\n{shown}");
    }
    assert!(shown.ends_with("no problems\n"), "{shown}");
}

#[test]
fn compiled_runtimes_are_recognised() {
    let place = Place::new();
    copy_compiled_runtimes(&place.0.root().join("cache/skillhost/components"));
    let cache = place.0.root().join("cache/skillhost/components");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    let (_, facts) = place.facts(&[]);
    let states = |facts: &[Value]| -> Vec<String> {
        let runtimes = facts.iter().filter(|fact| fact["section"] == "runtimes");
        runtimes.map(|fact| fact["value"].as_str().unwrap().to_owned()).collect()
    };
    let found = states(&facts);
    assert!(found.iter().all(|state| state.ends_with("compiled for this machine")), "{found:?}");
    // Code that was changed does not count, and stays where it is.
    for entry in fs::read_dir(&cache).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "cwasm") {
            fs::write(path, "not code").unwrap();
        }
    }
    let before = snapshot(&cache);
    let found = states(&place.facts(&[]).1);
    assert!(found.iter().all(|state| state.contains("not compiled")), "{found:?}");
    assert_eq!(snapshot(&cache), before);
}

#[test]
fn folder_that_others_can_write_is_closed_by_the_fix() {
    let place = Place::new();
    for folder in [".config/skillhost", ".local/state/skillhost", ".local/share/skillhost"] {
        let folder = place.0.home().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        let problem = place.problem(&[]);
        assert!(problem["value"].as_str().unwrap().contains("writable by others (mode 770)"));
        place.run_fix(&problem);
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o750);
        place.is_healthy();
    }
}

#[test]
fn client_that_starts_a_missing_program_is_connected_again_by_the_fix() {
    let place = Place::new();
    let file = place.0.home().join(".codex/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(
        &file,
        "[mcp_servers.skillhost]\ncommand = \"/nowhere/skillhost\"\nargs = [\"mcp\"]\n",
    )
    .unwrap();
    let problem = place.problem(&[]);
    assert_eq!(
        (&problem["name"], &problem["fix"]),
        (&"Codex".into(), &"skillhost connect codex".into())
    );
    place.run_fix(&problem);
    place.is_healthy();
    let (_, facts) = place.facts(&[]);
    let codex = facts.iter().find(|fact| fact["name"] == "Codex").unwrap();
    assert!(codex["value"].as_str().unwrap().starts_with("connected"), "{codex}");
}

#[test]
fn broken_configurations_are_problems() {
    let place = Place::new();
    let client = place.0.home().join(".config/zed/settings.json");
    fs::create_dir_all(client.parent().unwrap()).unwrap();
    fs::write(&client, "{ \"context_servers\": ").unwrap();
    let problem = place.problem(&[]);
    assert!(problem["fix"].as_str().unwrap().contains("settings.json, then skillhost connect zed"));
    fs::remove_file(&client).unwrap();
    let policy = place.0.home().join(".config/skillhost/policy.yaml");
    fs::create_dir_all(policy.parent().unwrap()).unwrap();
    fs::write(&policy, "limits:\n  tiemout: 1s\n").unwrap();
    let problem = place.problem(&[]);
    assert_eq!(problem["section"], "policy");
    assert!(
        problem["value"].as_str().unwrap().contains("line 2: unknown key `tiemout`"),
        "{problem}"
    );
    let fix = problem["fix"].as_str().unwrap();
    assert!(fix.starts_with("skillhost config show --policy "), "{fix}");
    fs::write(&policy, "limits:\n  timeout: 1s\n").unwrap();
    place.is_healthy();
}

#[test]
fn broken_skills_and_runtimes_are_problems() {
    let place = Place::new();
    let skill = place.0.home().join(".agents/skills/broken");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "---\nname: broken\nname: twice\n---\n").unwrap();
    let problem = place.problem(&[]);
    assert_eq!(problem["section"], "skills");
    assert!(problem["fix"].as_str().unwrap().starts_with("skillhost check "), "{problem}");
    fs::remove_dir_all(&skill).unwrap();
    let programs = place.0.stand_ins();
    let programs = ["--json", "--programs", programs.to_str().unwrap()];
    let report = |place: &Place| -> Value {
        serde_json::from_slice(&place.doctor(&programs).stdout).unwrap()
    };
    assert_eq!(report(&place)["problems"], 0);
    let wasm = fs::read_dir(place.0.stand_ins()).unwrap().map(|entry| entry.unwrap().path());
    let wasm = wasm.filter(|path| path.extension().is_some_and(|end| end == "wasm"));
    // Of the same size, and with other content.
    for path in wasm {
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let report = report(&place);
    let runtime = &report["facts"].as_array().unwrap().iter().find(|f| f["section"] == "runtimes");
    let runtime = runtime.unwrap();
    assert_eq!(runtime["status"], "problem");
    assert!(runtime["value"].as_str().unwrap().contains("its digest is"), "{runtime}");
    let missing = place.doctor(&["--json", "--programs", "./nowhere"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stdout).contains("cannot open the folder of runtimes"));
}
