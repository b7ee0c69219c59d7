//! JavaScript scripts of a skill, in the real runtime: arguments, variables, limits, records,
//! receipts and recordings.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use crate::cli::{User, repository, text};

/// A user with a skill `js` that has one script.
pub struct Skill {
    user: User,
}

/// Runs once before the others, so that concurrent tests do not all compile the runtime.
static READY: LazyLock<()> = LazyLock::new(|| {
    let wasm = repository("target").join("components/javascript.wasm");
    assert!(wasm.is_file(), "{} is missing: run `cargo xtask components` first", wasm.display());
    let skill = Skill::new("main.js", "console.log('hi')");
    let run = skill.command(&[]).output().unwrap();
    assert_eq!((text(&run.stdout).as_str(), text(&run.stderr).as_str()), ("hi\n", ""));
});

impl Skill {
    pub fn new(name: &str, script: &str) -> Skill {
        Skill::requesting("", name, script)
    }

    /// Creates a skill with these `allowed-tools`.
    pub fn requesting(tools: &str, name: &str, script: &str) -> Skill {
        let skill = Skill { user: User::new() };
        let tools =
            if tools.is_empty() { String::new() } else { format!("allowed-tools: {tools}\n") };
        let manifest =
            format!("---\nname: js\ndescription: Tests JavaScript. Use to test.\n{tools}---\n");
        skill.write("SKILL.md", &manifest);
        skill.write(&format!("scripts/{name}"), script);
        skill
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.user.work().join("js").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        self.verb("run", &[&["./js"], args].concat())
    }

    fn verb(&self, verb: &str, args: &[&str]) -> Command {
        let mut command = self.user.command(env!("CARGO_BIN_EXE_skillhost"));
        // Compiled once for all runs of the tests.
        command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR"))).arg(verb).args(args);
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        LazyLock::force(&READY);
        self.command(args).output().unwrap()
    }

    /// Returns the run's stdout, and asserts that it exited with 0 and an empty stderr.
    pub fn prints(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(
            (run.status.code(), text(&run.stderr).as_str()),
            (Some(0), ""),
            "{}",
            text(&run.stdout)
        );
        text(&run.stdout)
    }

    /// Returns the outcome of a run as JSON.
    fn outcome(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.run(&[args, &["--json"]].concat()).stdout).unwrap()
    }
}

#[test]
fn arguments_and_names_match_node() {
    let skill = Skill::new(
        "main.js",
        "console.log(JSON.stringify([process.argv.slice(1), __filename, __dirname, require.main === module, require('./helper').name]))",
    );
    skill.write("scripts/helper.js", "exports.name = module.id");
    let printed = "[[\"/skill/scripts/main.js\",\"-v\",\"a b\",\"\"],\"/skill/scripts/main.js\",\"/skill/scripts\",true,\"/skill/scripts/helper.js\"]\n";
    for name in [
        "scripts/main.js",
        "main.js",
        "main",
        "{baseDir}/scripts/main.js",
        "skills/js/scripts/main.js",
    ] {
        assert_eq!(skill.prints(&[name, "--", "-v", "a b", ""]), printed, "{name}");
    }
}

#[test]
fn scripts_read_the_callers_stdin() {
    let skill =
        Skill::new("main.js", "process.stdout.write(require('node:fs').readFileSync(0).reverse())");
    LazyLock::force(&READY);
    let mut child =
        skill.command(&["main"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes).unwrap();
    let run = child.wait_with_output().unwrap();
    assert!(run.status.success() && run.stdout.iter().eq(bytes.iter().rev()));
    assert_eq!(skill.prints(&["main"]), "", "stdin is empty by default");
}

#[test]
fn exit_codes_and_stack_traces_come_from_the_script() {
    for (script, code, words) in [
        ("process.exit(7)", 7, ""),
        ("process.exitCode = 3", 3, ""),
        (
            "throw new Error('no')",
            1,
            "Error: no\n    at Object.<anonymous> (/skill/scripts/main.js:1:",
        ),
        ("Promise.reject(new TypeError('later'))", 1, "TypeError: later"),
        ("require('/none')", 1, "Error: Cannot find module '/none'"),
        ("let x = (", 1, "SyntaxError"),
        (
            "require('node:fs').readFileSync('/none')",
            1,
            "ENOENT: no such file or directory, open '/none'",
        ),
    ] {
        let run = Skill::new("main.js", script).run(&["main"]);
        assert!(
            run.status.code() == Some(code) && text(&run.stderr).contains(words),
            "{script}: {run:?}"
        );
    }
}

#[test]
fn variables_are_those_of_the_sandbox_and_the_operator() {
    let script =
        "console.log(Object.entries(process.env).sort().map((pair) => pair.join('=')).join('\\n'))";
    let skill = Skill::new("main.js", script);
    let own = |args: &[&str]| -> Vec<String> {
        let printed = skill.prints(&[&["main"], args].concat());
        printed.lines().map(str::to_owned).collect()
    };
    let variables = own(&[]);
    let names: Vec<&str> =
        variables.iter().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let documented = [
        "CLAUDE_PLUGIN_ROOT",
        "CLAUDE_SKILL_DIR",
        "HOME",
        "LANG",
        "PATH",
        "PWD",
        "SKILL_DIR",
        "TMPDIR",
    ];
    assert_eq!(names, documented);
    let more = own(&["--env", "LEVEL=a=b", "--env", "NODE_ENV=production"]);
    let added: Vec<&String> = more.iter().filter(|line| !variables.contains(line)).collect();
    assert_eq!(added, ["LEVEL=a=b", "NODE_ENV=production"]);
    // The operator's own options of node apply.
    skill.write("scripts/early.js", "console.log('early')");
    let run = skill.prints(&["main", "--env", "NODE_OPTIONS=--require=/skill/scripts/early.js"]);
    assert!(run.starts_with("early\n"), "{run}");
}

#[test]
fn recursion_and_memory_are_errors_of_the_script() {
    let deep = "function f(n) { return f(n + 1) + 1; }\ntry { f(0) } catch (error) { console.log(`${error}`) }";
    assert_eq!(
        Skill::new("main.js", deep).prints(&["main"]),
        "RangeError: Maximum call stack size exceeded\n"
    );
    let large = "try { Buffer.alloc(300 << 20) } catch (error) { console.log(error.name) }";
    let skill = Skill::new("main.js", large);
    assert!(skill.prints(&["main", "--memory", "256MiB"]).contains("Error"));
    assert_eq!(skill.prints(&["main", "--memory", "1GiB"]), "");
}

#[test]
fn a_lack_of_memory_is_explained() {
    let explained =
        "the limit `memory` of 64 MiB, set by `--memory`, was hit; raise it by `--memory VALUE`";
    let skill = Skill::requesting(
        "Bash",
        "main.js",
        "const all = []; for (;;) all.push('x'.repeat(1e6) + all.length)",
    );
    let run = skill.run(&["main", "--memory", "64MiB"]);
    assert!(run.status.code() != Some(0) && text(&run.stderr).contains(explained), "{run:?}");
}

#[test]
fn a_lower_stack_limit_of_the_operator_applies() {
    let skill = Skill::new("main.js", "function f() { return f() + 1; }\nf()");
    std::fs::write(skill.user.work().join("policy.yaml"), "limits: { stack: 128KiB }\n").unwrap();
    let explained = skill.prints(&["main", "--policy", "policy.yaml", "--explain"]);
    assert!(
        explained.contains("it needs 64 MiB of stack and the limit `stack` is 128 KiB"),
        "{explained}"
    );
    let run = skill.run(&["main", "--policy", "policy.yaml"]);
    assert!(
        run.status.code() == Some(125)
            && text(&run.stderr).contains("the limit `stack` of 128 KiB, set by `limits` at "),
        "{run:?}"
    );
    assert!(skill.prints(&["main", "--explain"]).contains("stack 64 MiB"));
}

#[test]
fn output_before_a_timeout_is_kept() {
    let script = "console.log('begun'); process.stdout.write('unfinished'); for (;;);";
    let outcome = Skill::new("main.js", script).outcome(&["main", "--timeout", "3s"]);
    assert_eq!(
        (&outcome["stdout"], &outcome["status"]["kind"]),
        (&"begun\nunfinished".into(), &"limit-hit".into()),
        "{outcome:#}"
    );
}

#[test]
fn fuel_is_counted_exactly() {
    let skill =
        Skill::new("main.js", "let n = 0; for (let i = 0; i < 100000; i++) n += i; console.log(n)");
    let fuel = |args: &[&str]| {
        let outcome = skill.outcome(&[&["main", "--deterministic"], args].concat());
        (
            outcome["status"]["kind"].as_str().unwrap().to_owned(),
            outcome["usage"]["fuel"].as_u64().unwrap(),
        )
    };
    let (kind, burnt) = fuel(&["--fuel", "5000000000"]);
    assert_eq!(kind, "exited");
    let (exact, less) = (burnt.to_string(), (burnt - 100_000).to_string());
    assert_eq!(fuel(&["--fuel", &exact]), ("exited".to_owned(), burnt));
    assert_eq!(fuel(&["--fuel", &less]), ("limit-hit".to_owned(), burnt - 100_000));
}

#[test]
fn the_record_names_the_program_and_the_script() {
    let skill = Skill::new("main.ts", "console.log(1 as number)");
    skill.prints(&["main", "--", "secret"]);
    let record = skill.user.records().pop().unwrap();
    let script = std::fs::read(skill.user.work().join("js/scripts/main.ts")).unwrap();
    let program = &record["program"];
    assert_eq!(
        (&program["name"], &program["script"]["path"]),
        (&"node".into(), &"scripts/main.ts".into())
    );
    assert_eq!(program["script"]["digest"], skillhost_skill::runtime::digest(&script));
    assert!(program["version"].as_str().unwrap().starts_with("22."), "{record:#}");
    assert!(!record.to_string().contains("secret"));
}

/// Uses everything that differs between two runs of node.
const VARYING: &str = "import crypto from 'node:crypto';
import fs from 'node:fs';
import { execFileSync } from 'node:child_process';
console.log(Math.random(), Date.now(), performance.now(), crypto.randomUUID(), crypto.getRandomValues(new Uint8Array(8)));
for (const delay of [30, 10, 20]) setTimeout(() => console.log(delay, Date.now()), delay * 1000);
console.log(execFileSync('node', ['-p', 'Math.random()']).toString());
fs.writeFileSync('/workspace/out.txt', `${process.hrtime.bigint()} ${fs.readFileSync('/workspace/in.txt', 'utf8')}`);";

fn varying() -> Skill {
    let skill = Skill::requesting("Read Write Bash WebFetch", "main.mjs", VARYING);
    std::fs::create_dir(skill.user.work().join("w")).unwrap();
    std::fs::write(skill.user.work().join("w/in.txt"), "input").unwrap();
    skill
}

const FLAGS: [&str; 5] = ["main", "--workspace", "w", "--receipt", "r.json"];

#[test]
fn receipts_of_deterministic_runs_are_equal_and_name_the_runtime() {
    let receipt = |flags: &[&str]| {
        let skill = varying();
        let run = skill.run(&[&FLAGS, flags].concat());
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        text(&std::fs::read(skill.user.work().join("r.json")).unwrap())
    };
    let one = receipt(&["--deterministic"]);
    assert_eq!(one, receipt(&["--deterministic"]));
    assert_ne!(one, receipt(&["--deterministic", "--seed", "7"]));
    assert_ne!(receipt(&[]), receipt(&[]));
    let facts = std::fs::read(repository("target/components/javascript.json")).unwrap();
    let facts: Value = serde_json::from_slice(&facts).unwrap();
    assert!(one.contains(facts["digest"].as_str().unwrap()), "{one}");
}

#[test]
fn recordings_are_replayed_without_the_network() {
    let server = crate::servers::Server::start(|_, stream| {
        crate::servers::respond(stream, "200 OK", "x-number: 5\r\n", b"from the server");
    });
    let script = format!(
        "{VARYING}\nconst response = await fetch('{url}/a');\nconsole.log(response.headers.get('x-number'), await response.text());
        import http from 'node:http';\nhttp.get('{url}/b', (response) => response.pipe(process.stdout));",
        url = server.url()
    );
    let skill = varying();
    skill.write("scripts/main.mjs", &script);
    let entry = format!("WebFetch({})", server.url());
    let flags = ["main", "--workspace", "w", "--record", "rec", "--allow", &entry];
    let run = skill.run(&flags);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    let connections = server.connections();
    assert_eq!(connections, 2);
    for _ in 0..2 {
        let replay = skill.verb("replay", &["rec"]).output().unwrap();
        assert_eq!(
            (replay.status.code(), text(&replay.stdout)),
            (Some(0), text(&run.stdout)),
            "{replay:?}"
        );
        assert!(text(&replay.stderr).contains("the replay produced the same result"), "{replay:?}");
    }
    assert_eq!(server.connections(), connections);
    // A replay of a script that changed since is another run.
    std::fs::rename(skill.user.work().join("rec"), skill.user.work().join("first")).unwrap();
    let again = skill.run(&flags);
    assert_ne!(
        text(&again.stdout),
        text(&run.stdout),
        "time and randomness are new in each recording"
    );
}
