//! The built-in programs: when their files are read, that only components matching their
//! description run, and which program a command starts.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use skillhost_skill::Skill;
use skillhost_skill::runtime::built_in::{BuiltIns, ProgramError};
use skillhost_skill::runtime::digests::Digests;
use skillhost_skill::runtime::{Programs, digest};
use tempfile::TempDir;

use crate::cli::{User, guest, text};

/// Writes a program with this component.
pub fn program(folder: &Path, name: &str, commands: &[&str], component: &[u8]) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(format!("{name}.wasm")), component).unwrap();
    std::fs::write(
        folder.join(format!("{name}.json")),
        facts(name, commands, component).to_string(),
    )
    .unwrap();
}

fn facts(name: &str, commands: &[&str], component: &[u8]) -> serde_json::Value {
    let wasm = format!("{name}.wasm");
    let (size, digest) = (component.len(), digest(component));
    serde_json::json!({ "name": name, "version": "1.2.3", "programs": commands, "wasm": wasm, "size": size, "digest": digest })
}

/// Writes stand-ins for the programs that take minutes to build: each prints its argv.
pub fn stand_ins(folder: &Path) {
    program(folder, "javascript", &["node", "nodejs"], guest("argv"));
    program(folder, "python", &["python3", "python"], guest("argv"));
    program(folder, "shell", &["bash", "sh"], guest("argv"));
}

/// A folder of programs, a cache, a skill.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { root: tempfile::tempdir().unwrap() };
        stand_ins(&place.programs());
        place.skill(&[]);
        place
    }

    fn programs(&self) -> PathBuf {
        self.root.path().join("programs")
    }

    fn path(&self, rel: &str) -> PathBuf {
        self.root.path().join(rel)
    }

    /// Writes files of the skill.
    fn skill(&self, files: &[(&str, &[u8])]) -> Arc<Skill> {
        let skill = self.path("my-skill");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: my-skill\ndescription: Tests.\n---\n")
            .unwrap();
        for (path, content) in files {
            std::fs::create_dir_all(skill.join(path).parent().unwrap()).unwrap();
            std::fs::write(skill.join(path), content).unwrap();
        }
        Arc::new(Skill::load(&skill, &Default::default()).unwrap())
    }

    fn built_ins(&self) -> BuiltIns {
        BuiltIns { folders: vec![self.path("nowhere"), self.programs()], ..BuiltIns::default() }
    }

    fn find(&self, command: &str) -> Result<Option<String>, ProgramError> {
        let programs = programs(self.skill(&[]), self.built_ins());
        programs.find(command).map(|found| found.map(|component| component.digest))
    }

    /// Returns why `python3` cannot be found.
    fn problem(&self) -> String {
        self.find("python3").unwrap_err().to_string()
    }
}

fn programs(skill: Arc<Skill>, built_ins: BuiltIns) -> Programs {
    let digests = Digests::of(&skill).unwrap();
    Programs::new(skill, digests, built_ins)
}

#[test]
fn a_broken_description_is_an_error_that_names_the_file() {
    let place = Place::new();
    let file = place.programs().join("python.json");
    let valid = facts("python", &["python3"], guest("argv"));
    let with = |key: &str, value: serde_json::Value| {
        let mut facts = valid.clone();
        facts[key] = value;
        facts.to_string()
    };
    let without = |key: &str| {
        let mut facts = valid.clone();
        facts.as_object_mut().unwrap().remove(key);
        facts.to_string()
    };
    for (text, words) in [
        ("{".to_owned(), "invalid JSON"),
        (with("colour", "red".into()), "unknown field `colour`"),
        (without("version"), "missing field `version`"),
        (without("digest"), "missing field `digest`"),
        (with("size", "big".into()), "invalid type"),
        (with("size", (-1).into()), "invalid value"),
        (with("programs", serde_json::json!([])), "plain names"),
        (with("programs", serde_json::json!(["a/b"])), "plain names"),
        (with("programs", serde_json::json!({})), "invalid type"),
        (with("wasm", "../python.wasm".into()), "plain names"),
        (with("wasm", "".into()), "plain names"),
        (with("packages", "..".into()), "plain names"),
        (with("digest", "sha256:12".into()), "64 hex digits"),
        (with("digest", "12".into()), "64 hex digits"),
        (with("digest", format!("sha256:{}", "G".repeat(64)).into()), "64 hex digits"),
        (with("limits", serde_json::json!({ "stack": "much" })), "`limits.stack`"),
        (with("limits", serde_json::json!({ "memory": "1GiB" })), "unknown field `memory`"),
        (" ".repeat(70_000), "too large"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let problem = place.problem();
        assert!(
            problem.contains(words) && problem.contains("programs/python.json"),
            "{text}: {problem}"
        );
        // A broken description is an error for every command.
        assert!(place.find("bash").is_err(), "{text}");
    }
    // Files that do not describe a program are ignored, and what cannot be an object is not read on.
    for other in [
        without("programs"),
        "{}".into(),
        "[]".into(),
        "\n [1".into(),
        format!("[{}]", "1,".repeat(70_000)),
    ] {
        std::fs::write(&file, other).unwrap();
        assert!(place.problem().contains("not installed"));
        assert!(place.find("bash").unwrap().is_some());
    }
}

#[test]
fn components_that_differ_from_their_description_never_run() {
    let place = Place::new();
    let file = place.programs().join("python.wasm");
    assert_eq!(place.find("python3"), Ok(Some(digest(guest("argv")))));
    let mut changed = guest("argv").to_vec();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(&file, &changed).unwrap();
    let python = programs(place.skill(&[]), place.built_ins()).find("python3").unwrap().unwrap();
    let refused = python.bytes().unwrap_err().to_string();
    assert!(refused.contains("its digest is sha256:"), "{refused}");
    std::fs::write(&file, &changed[1..]).unwrap();
    assert!(place.problem().contains(" bytes, but python.json says "), "{}", place.problem());
    std::fs::write(&file, guest("argv")).unwrap();
    assert!(place.find("python").unwrap().is_some(), "the original component is restored");
    std::fs::remove_file(&file).unwrap();
    let error = place.find("python3").unwrap_err();
    assert!(
        error.message.contains("which python.json describes")
            && error.fix.unwrap().contains("cargo xtask components")
    );
    std::fs::create_dir(&file).unwrap();
    assert!(place.find("python3").is_err());
    assert!(place.find("bash").unwrap().is_some(), "other programs still work");
}

#[test]
fn symlinks_are_followed_only_within_the_folder() {
    let place = Place::new();
    let (file, real) = (place.programs().join("python.wasm"), place.programs().join("real.wasm"));
    std::fs::rename(&file, &real).unwrap();
    symlink("real.wasm", &file).unwrap();
    assert!(place.find("python3").unwrap().is_some());
    std::fs::remove_file(&file).unwrap();
    std::fs::rename(&real, place.path("elsewhere.wasm")).unwrap();
    symlink("../elsewhere.wasm", &file).unwrap();
    assert!(place.problem().contains("cannot open"), "{}", place.problem());
}

#[test]
fn a_skill_cannot_replace_a_built_in_program() {
    let place = Place::new();
    let own: &[u8] = guest("hello");
    let files = ["python3.wasm", "bash.wasm", "bin/python.wasm", "python3.9.wasm", "jq.wasm"]
        .map(|path| (path, own));
    let find = |built_ins: BuiltIns, command: &str| {
        programs(place.skill(&files), built_ins)
            .find(command)
            .map(|found| found.map(|component| component.digest))
    };
    for command in [
        "python3",
        "/skill/python3",
        "./python3",
        "bin/python",
        "python3.9",
        "/usr/bin/python3",
        "bash",
        "/bin/sh",
        "dash",
        "node",
        "./nodejs",
        "bin/bun",
        "tsx",
    ] {
        let found = find(place.built_ins(), command);
        assert_ne!(found, Ok(Some(digest(own))), "{command}");
        // Not even if the built-in program is missing.
        let found = find(BuiltIns { folders: Vec::new(), ..place.built_ins() }, command);
        assert_ne!(found, Ok(Some(digest(own))), "{command}");
    }
    assert_eq!(find(place.built_ins(), "python3"), Ok(Some(digest(guest("argv")))));
    assert_eq!(find(place.built_ins(), "python3.9"), Ok(Some(digest(guest("argv")))));
    // A name that no entry for `python3` covers is an ordinary command.
    assert_eq!(find(place.built_ins(), "/skill/python3.wasm"), Ok(Some(digest(own))));
    assert_eq!(
        find(place.built_ins(), "jq"),
        Ok(Some(digest(own))),
        "a skill may use any name that no built-in program has"
    );
    program(&place.programs(), "shell", &["bash", "sh", "jq"], guest("argv"));
    for (command, expected) in [
        ("jq", Some(guest("argv"))),
        ("/usr/local/bin/jq", Some(guest("argv"))),
        ("/bin/jq", Some(guest("argv"))),
        // Explicit paths mean the caller's files, never the built-in program.
        ("./jq", None),
        ("/skill/jq", None),
        ("/opt/bin/jq", None),
        ("/skill/jq.wasm", Some(own)),
    ] {
        assert_eq!(find(place.built_ins(), command), Ok(expected.map(digest)), "{command}");
    }
}

#[test]
fn command_lines_resolve_to_programs_and_scripts() {
    let place = Place::new();
    program(&place.programs(), "shell", &["bash", "sh", "sort"], guest("argv"));
    let (component, js): (&[u8], &[u8]) = (guest("hello"), b"");
    let skill = place.skill(&[
        ("scripts/a.py", b"print()"),
        ("scripts/run", b"#!/usr/bin/env bash\r\n"),
        ("scripts/own.sh", b"#!/usr/bin/env python3\n"),
        ("scripts/x.js", js),
        ("scripts/x.rb", b"puts 1"),
        ("notes.txt", b"no script"),
        ("tool.wasm", component),
    ]);
    let there = |path: &str| {
        let skill_file = path
            .strip_prefix("/skill/")
            .and_then(|rel| std::fs::read(place.path("my-skill").join(rel)).ok());
        let workspace: Option<&[u8]> = match path {
            "/workspace/here.py" | "/workspace/scripts/both.py" | "/workspace/python3" => {
                Some(b"print()")
            }
            "/workspace/do" | "/workspace/sort" => Some(b"#!/bin/sh\n"),
            _ => None,
        };
        workspace.map(<[u8]>::to_vec).or(skill_file)
    };
    let programs = programs(skill, place.built_ins());
    for (line, expected) in [
        ("python3 here.py a b", "python3 here.py a b"),
        ("python3 scripts/a.py", "python3 /skill/scripts/a.py"),
        ("python3 ./scripts/a.py -v", "python3 /skill/scripts/a.py -v"),
        ("/usr/bin/python3 -u scripts/a.py", "/usr/bin/python3 -u /skill/scripts/a.py"),
        ("python3 ~/.claude/skills/my-skill/scripts/a.py", "python3 /skill/scripts/a.py"),
        ("python3 skills/my-skill/scripts/a.py", "python3 /skill/scripts/a.py"),
        ("python3 scripts/both.py", "python3 scripts/both.py"),
        ("python3 scripts/none.py", "python3 scripts/none.py"),
        ("python3 -c scripts/a.py", "python3 -c scripts/a.py"),
        ("bash scripts/run x", "bash /skill/scripts/run x"),
        ("scripts/run x", "bash /skill/scripts/run x"),
        ("/skill/scripts/run x", "bash /skill/scripts/run x"),
        ("./scripts/own.sh", "python3 /skill/scripts/own.sh"),
        ("./do x", "sh /workspace/do x"),
        ("sort -r", "sort -r"),
        ("/usr/bin/sort", "/usr/bin/sort"),
        ("./sort -r", "sh /workspace/sort -r"),
        ("scripts/x.js a", "node /skill/scripts/x.js a"),
        ("node scripts/x.js a", "node /skill/scripts/x.js a"),
        ("nodejs -r ./b.js scripts/x.js", "nodejs -r ./b.js /skill/scripts/x.js"),
        ("node -e scripts/x.js", "node -e scripts/x.js"),
        ("./x/sort", "error: no program `./x/sort` in the sandbox"),
        // A guest's file does not run under a built-in program's name either.
        ("/workspace/python3 x", "/workspace/python3 x"),
        ("tool a", "tool a"),
        ("run", "error: no program `run` in the sandbox; the skill provides: tool"),
        ("./none", "error: no program `./none` in the sandbox"),
        (
            "scripts/x.rb",
            "error: `scripts/x.rb` is a Ruby script, which the sandbox does not support",
        ),
        ("./notes.txt", "error: `./notes.txt` is not a supported script"),
        ("ffmpeg -i x", "error: no program `ffmpeg` in the sandbox"),
    ] {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = match programs.resolve_command(&argv, "/workspace", there) {
            Ok(program) => {
                std::iter::once(program.name).chain(program.args).collect::<Vec<_>>().join(" ")
            }
            Err(error) => format!("error: {error}"),
        };
        assert!(
            if expected.starts_with("error") {
                found.starts_with(expected)
            } else {
                found == expected
            },
            "{line}: {found}"
        );
    }
    assert!(programs.resolve_command(&[], "/workspace", there).is_err());
}

#[test]
fn an_unchanged_component_is_read_once() {
    let user = User::new();
    let (folder, cache) = (user.work().join("programs"), user.work().join("cache"));
    // As large as a real one: a custom section of zeros follows (id 0, its length, the length of
    // its name, its name).
    let mut component = guest("argv").to_vec();
    let zeros = 24 << 20;
    component.push(0);
    component.extend(leb128(zeros + 2));
    component.extend([1, b'x']);
    component.resize(component.len() + zeros, 0);
    program(&folder, "python", &["python3"], &component);
    std::fs::create_dir_all(user.work().join("scripted/scripts")).unwrap();
    std::fs::write(
        user.work().join("scripted/SKILL.md"),
        "---\nname: scripted\ndescription: Tests.\n---\n",
    )
    .unwrap();
    std::fs::write(user.work().join("scripted/scripts/a.py"), "").unwrap();
    let read_in_a_run = || {
        let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
        command
            .env("XDG_CACHE_HOME", &cache)
            .args(["run", "./scripted", "--programs"])
            .arg(&folder)
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        // The child has exited but has not been reaped, so its accounting can still be read.
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
        let accounts = std::fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
        let mut printed = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut printed).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(printed, "python3\n/skill/scripts/a.py\n");
        accounts
            .lines()
            .find_map(|line| line.strip_prefix("rchar: "))
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert!(read_in_a_run() > zeros as u64);
    let again = read_in_a_run();
    assert!(again < 4 << 20, "{again} bytes were read");
}

fn leb128(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[test]
fn built_in_programs_are_not_read_unless_a_run_needs_them() {
    let user = User::new();
    let folder = user.work().join("programs");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("python.json"), "{").unwrap();
    let run = user.skillhost(&["run", "./hello", "--programs", "programs"]);
    assert!(
        run.status.code() == Some(74) && text(&run.stderr).contains("python.json: invalid JSON"),
        "{run:?}"
    );
    let skill = user.work().join("hello/SKILL.md");
    let manifest = std::fs::read_to_string(&skill)
        .unwrap()
        .replace("metadata:", "allowed-tools: Read\nmetadata:");
    std::fs::write(skill, manifest).unwrap();
    let run = user.skillhost(&["run", "./hello", "--programs", "programs"]);
    assert_eq!(text(&run.stdout), "hello from 0.3\n", "it may start nothing: {run:?}");
}

#[test]
fn packages_of_a_program_are_available_read_only() {
    let place = Place::new();
    let file = place.programs().join("python.json");
    let mut facts = facts("python", &["python3"], guest("argv"));
    facts["packages"] = "packages".into();
    std::fs::write(&file, facts.to_string()).unwrap();
    let list = || {
        place
            .built_ins()
            .list()
            .unwrap()
            .into_iter()
            .find(|program| program.description.name == "python")
            .unwrap()
    };
    assert_eq!(list().package_names(), Ok(None), "the folder is missing");
    for name in ["six-1.17.0.dist-info", "requests", "requests-2.32.5.dist-info"] {
        std::fs::create_dir_all(place.programs().join("packages").join(name)).unwrap();
    }
    assert_eq!(
        list().package_names(),
        Ok(Some(vec!["requests 2.32.5".into(), "six 1.17.0".into()]))
    );
    assert_eq!(list().packages().unwrap().unwrap().0, "/usr/lib/python1.2/site-packages");
}

#[test]
fn packages_of_javascript_are_a_global_node_modules() {
    let place = Place::new();
    let mut facts = facts("javascript", &["node"], guest("argv"));
    facts["packages"] = "npm-packages".into();
    std::fs::write(place.programs().join("javascript.json"), facts.to_string()).unwrap();
    for (name, manifest) in [
        ("axios", r#"{"name": "axios", "version": "1.7.2"}"#),
        ("@scope/b", r#"{"version": "0.1.0"}"#),
        ("@scope/a", r#"{"version": "2.0.0"}"#),
        ("broken", "{"),
        (".cache", r#"{"main": "x.js"}"#),
    ] {
        let folder = place.programs().join("npm-packages").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("package.json"), manifest).unwrap();
    }
    let all = place.built_ins().list().unwrap();
    let javascript = all.iter().find(|one| one.description.name == "javascript").unwrap();
    let names = javascript.package_names().unwrap().unwrap();
    assert_eq!(names, ["@scope/a 2.0.0", "@scope/b 0.1.0", "axios 1.7.2"]);
    assert_eq!(javascript.packages().unwrap().unwrap().0, "/usr/lib/node_modules");
}

#[test]
fn runtimes_are_compiled_ahead_of_their_first_use() {
    let user = User::new();
    let (programs, cache) = (user.stand_ins(), user.root().join("cache"));
    let compile = |name: &str| {
        let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.env("XDG_CACHE_HOME", &cache).env("SKILLHOST_PROGRAMS", &programs);
        let run = command.args([name, "compile"]).output().unwrap();
        assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
        text(&run.stdout)
    };
    // The stand-ins are one component under three names.
    let first = compile("runtimes");
    assert!(
        first.starts_with("javascript 1.2.3: compiled in ")
            && first
                .ends_with(" s\npython 1.2.3: already compiled\nshell 1.2.3: already compiled\n"),
        "{first}"
    );
    let again = compile("programs");
    assert_eq!(
        again,
        "javascript 1.2.3: already compiled\npython 1.2.3: already compiled\nshell 1.2.3: already compiled\n"
    );
}
