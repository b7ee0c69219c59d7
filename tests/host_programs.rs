//! Host programs: functions of an embedder that a skill starts as commands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde_json::Value;
use skillhost::invoke::hooks::RunHooks;
use skillhost::invoke::{self, Target};
use skillhost::{
    BuildError, Host, HostBuilder, HostCall, HostOutput, HostProgramError, PANIC_EXIT_CODE,
    Request, Run, load_policy,
};
use skillhost_ledger::receipt::canonical;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, ProcessEnd, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::{HostFunction, HostPrograms, Io};

use crate::cli::{copy_compiled_runtimes, repository};
use crate::hostile_host::{Fixture, shell_host};

/// A folder with a host's home, and with skills.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { root: tempfile::tempdir().unwrap() };
        copy_compiled_runtimes(&place.root.path().join("home/cache/components"));
        place
    }

    fn builder(&self) -> HostBuilder {
        Host::builder()
            .home(self.root.path().join("home"))
            .compiler(env!("CARGO_BIN_EXE_skillhost"))
            .programs(repository("target/components"))
    }

    /// Creates a skill with this line of frontmatter, and some files.
    fn skill(&self, asks: &str, files: &[(&str, &str)]) -> PathBuf {
        skill(self.root.path(), asks, files)
    }

    /// Returns the last record of the audit log.
    fn record(&self) -> Value {
        let log = std::fs::read_to_string(self.root.path().join("home/audit.jsonl")).unwrap();
        serde_json::from_str(log.lines().last().unwrap()).unwrap()
    }
}

fn skill(folder: &Path, asks: &str, files: &[(&str, &str)]) -> PathBuf {
    let skill = folder.join("customers");
    std::fs::create_dir_all(&skill).unwrap();
    for (path, text) in files {
        let file = skill.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let manifest = format!("---\nname: customers\ndescription: Tests.\n{asks}\n---\n");
    std::fs::write(skill.join("SKILL.md"), manifest).unwrap();
    skill
}

const ASKS: &str = "allowed-tools: Bash(lookup:*) Bash(python3:*) Bash(bash:*)";

/// Allows the programs of the sandbox, and names `lookup`.
fn naming() -> Policy {
    policy("default: { allow: [Read, Write, Bash, 'Bash(lookup:*)'], env: [TENANT=acme] }")
}

fn policy(text: &str) -> Policy {
    load_policy(Path::new("policy.yaml"), text, None).unwrap()
}

/// Prints its arguments, its variables and its input.
async fn lookup(mut call: HostCall) -> HostOutput {
    let input = String::from_utf8(call.stdin().await).unwrap();
    let env: Vec<String> = call.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let text = format!("{} | {} | {}\n", call.argv.join(" "), env.join(" "), input.trim());
    HostOutput { exit_code: 3, stderr: b"note\n".to_vec(), ..HostOutput::success(text) }
}

async fn run(host: &Host, skill: &Path, command: &str) -> Run {
    host.invoke(Request::of(skill).command(command)).await.unwrap()
}

fn starts(outcome: &Outcome) -> Option<u64> {
    outcome.host_programs.get("lookup").copied()
}

#[tokio::test]
async fn skills_start_host_programs_from_shell_and_python() {
    let place = Place::new();
    let script = "import subprocess\n\
                  print(subprocess.run(['/usr/bin/lookup', '7'], input=b'python', capture_output=True))\n";
    let skill = place.skill(ASKS, &[("x.py", script)]);
    let host = place.builder().policy(naming()).host_program("lookup", lookup).build().unwrap();

    let command = "echo bash | TENANT=other lookup 'a b' x; echo $?; \
                   echo one | while read line; do echo seen > /dev/null; lookup </dev/null; done";
    let ran = run(&host, &skill, command).await;
    let Outcome { status, stdout, stderr, processes, .. } = &ran.outcome;
    assert_eq!(
        stdout.text(),
        "lookup a b x | TENANT=acme | bash\n3\nlookup | TENANT=acme | \n",
        "{}",
        stderr.text()
    );
    assert_eq!((status, &*stderr.text()), (&Status::Exited { code: 3 }, "note\nnote\n"));
    assert!(processes.iter().all(|one| one.exit == ProcessEnd::Exited { code: 3 }));

    let ran = host.invoke(Request::of(&skill).script("x.py")).await.unwrap().outcome;
    let text = ran.stdout.text();
    assert!(text.contains("returncode=3") && text.contains("lookup 7 | TENANT=acme | python"));
}

#[tokio::test]
async fn runs_name_their_host_programs_in_grant_outcome_and_record() {
    let place = Place::new();
    let skill = place.skill(ASKS, &[]);
    let host = place
        .builder()
        .policy(naming())
        .host_program("lookup", lookup)
        .host_program("unnamed", lookup)
        .approve(|planned| {
            assert_eq!(planned.capabilities.host_programs, ["lookup".to_owned()].into());
            Ok(())
        })
        .build()
        .unwrap();
    let schema = |of: &str| {
        let printed = crate::cli::User::new().skillhost(&["schema", of]);
        jsonschema::validator_for(&serde_json::from_slice(&printed.stdout).unwrap()).unwrap()
    };
    let (outcomes, records) = (schema("outcome"), schema("audit"));
    for (command, count) in [("lookup a; lookup b | cat", 2), ("echo hi", 0)] {
        let ran = run(&host, &skill, command).await;
        assert_eq!(starts(&ran.outcome), Some(count), "{:?}", ran.outcome.denials);
        assert!(!ran.outcome.host_programs.contains_key("unnamed"));
        let record = place.record();
        records.validate(&record).unwrap();
        outcomes.validate(&serde_json::to_value(&ran.outcome).unwrap()).unwrap();
        assert_eq!(record["host_programs"], serde_json::json!({ "lookup": count }));
        assert_eq!(record["capabilities"]["host_programs"], serde_json::json!(["lookup"]));
        let programs = record["processes"].as_array().unwrap().iter();
        assert!(programs.into_iter().all(|process| process["program"] == "lookup"));
        let permissions = ran.permissions(200);
        assert!(permissions.contains("host program lookup"), "{permissions}");
        assert!(permissions.contains("lookup (outside the sandbox)"), "{permissions}");
    }
}

#[tokio::test]
async fn a_skill_without_the_grant_cannot_start_a_host_program() {
    let place = Place::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let both = "default: { allow: [Read, Write, Bash, 'Bash(lookup:*)'] }";
    let bash = "default: { allow: [Read, Write, Bash] }";
    let one = "default: { allow: [Read, Write, Bash, 'Bash(lookup get:*)'] }";
    let denied = "default: { allow: [Bash, 'Bash(lookup:*)'], deny: ['Bash(lookup:*)'] }";
    let other = "allowed-tools: Bash(bash:*) Bash(python3:*)";
    let broad = "allowed-tools: Bash";
    let itself = "allowed-tools: Bash\ndisallowed-tools: Bash(lookup)";
    for (asks, rules, why) in [
        (ASKS, bash, "the policy has no entry that names"),
        (broad, bash, "the policy has no entry that names"),
        (ASKS, one, "the policy has no entry that names"),
        (other, both, "allowed-tools has no entry"),
        ("", both, "allowed-tools has no entry"),
        (other, bash, "neither allowed-tools nor the policy has an entry"),
        (broad, denied, "denies `Bash(lookup:*)`"),
        (itself, both, "denies `Bash(lookup"),
    ] {
        let script = "#!/usr/bin/python3\nimport subprocess, sys\n\
                      sys.exit(subprocess.run(['/usr/bin/lookup']).returncode)\n";
        let skill = place.skill(asks, &[("x.py", script)]);
        let counter = calls.clone();
        let host = place
            .builder()
            .policy(policy(rules))
            .host_program("lookup", move |call| {
                counter.fetch_add(1, SeqCst);
                lookup(call)
            })
            .build()
            .unwrap();
        for command in ["lookup", "env lookup", "timeout 5 lookup", "xargs lookup", "python3 x.py"]
        {
            let outcome = run(&host, &skill, command).await.outcome;
            let message = format!("{asks} {rules} {command}: {outcome:?}");
            assert_ne!(outcome.status, Status::Exited { code: 0 }, "{message}");
            assert_eq!(calls.load(SeqCst), 0, "{message}");
            assert_eq!(starts(&outcome).unwrap_or(0), 0, "{message}");
            assert!(outcome.denials.iter().any(|one| one.rule.contains(why)), "{message}");
        }
    }
    // The entry that is missing for one command is there for another.
    let skill = place.skill(ASKS, &[]);
    let host = place.builder().policy(policy(one)).host_program("lookup", lookup).build().unwrap();
    let outcome = run(&host, &skill, "lookup get 1; lookup delete 1").await.outcome;
    assert_eq!((starts(&outcome), outcome.denials.len()), (Some(1), 1), "{outcome:?}");
}

#[tokio::test]
async fn a_file_of_a_skill_never_becomes_or_replaces_a_host_program() {
    let place = Place::new();
    let own = "#!/usr/bin/python3\nprint('a file of the skill')\n";
    let files = [("lookup", own), ("bin/lookup", own)];
    let skill = place.skill("allowed-tools: Read Write Bash", &files);
    std::fs::copy(repository("target/components/hello.wasm"), skill.join("bin/lookup.wasm"))
        .unwrap();
    let host = |rules| {
        place.builder().policy(policy(rules)).host_program("lookup", lookup).build().unwrap()
    };

    let named = host("default: { allow: [Read, Write, Bash, 'Bash(lookup:*)'] }");
    for command in ["lookup", "cd /skill && lookup", "cd /skill/bin; env lookup"] {
        let outcome = run(&named, &skill, command).await.outcome;
        assert_eq!(outcome.stdout.text(), "lookup |  | \n", "{command}: {outcome:?}");
        assert_eq!(starts(&outcome), Some(1), "{command}");
    }
    for command in ["/skill/lookup", "cd /skill; ./lookup", "cp /skill/lookup /tmp; /tmp/lookup"] {
        let outcome = run(&named, &skill, command).await.outcome;
        assert_eq!(outcome.stdout.text(), "a file of the skill\n", "{command}: {outcome:?}");
        assert_eq!(starts(&outcome), Some(0), "{command}");
    }
    // An entry that names the host program does not cover a file of that name.
    let only = host("default: { allow: [Read, 'Bash(lookup:*)'] }");
    let outcome = run(&only, &skill, "/skill/lookup || lookup </dev/null").await.outcome;
    assert_eq!((outcome.stdout.text(), starts(&outcome)), ("lookup |  | \n".into(), Some(1)));
    // Without a grant, the name still does not mean the file.
    let ungranted = host("default: { allow: [Read, Bash] }");
    let outcome = run(&ungranted, &skill, "lookup").await.outcome;
    assert_eq!((outcome.status, &*outcome.stdout.text()), (Status::Exited { code: 126 }, ""));
}

#[tokio::test]
async fn a_panic_ends_only_the_host_program() {
    let place = Place::new();
    let skill = place.skill(ASKS, &[]);
    let host = place
        .builder()
        .policy(naming())
        .host_program("lookup", |call: HostCall| async move {
            assert!(call.argv.len() > 1, "a secret of the application");
            HostOutput::success("fine\n")
        })
        .build()
        .unwrap();
    for _ in 0..2 {
        let outcome = run(&host, &skill, "lookup; echo $?; lookup x").await.outcome;
        assert_eq!(outcome.stdout.text(), format!("{PANIC_EXIT_CODE}\nfine\n"), "{outcome:?}");
        assert_eq!(outcome.stderr.text(), "lookup: the host program panicked\n");
        assert_eq!(outcome.status, Status::Exited { code: 0 });
    }
}

#[tokio::test]
async fn a_run_ends_at_its_deadline_whatever_a_host_program_does() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let place = Place::new();
    let skill = place.skill(ASKS, &[]);
    let policy = naming()
        .with_command_line(Overrides {
            limits: vec![(Limit::Timeout, 1_000)],
            ..Overrides::default()
        })
        .unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = dropped.clone();
    let host = place
        .builder()
        .policy(policy)
        .host_program("lookup", move |call: HostCall| {
            let guard = Dropped(flag.clone());
            async move {
                if call.argv[1] == "blocks" {
                    std::thread::sleep(Duration::from_secs(600));
                }
                std::future::pending::<()>().await;
                drop(guard);
                HostOutput::default()
            }
        })
        .build()
        .unwrap();
    for how in ["waits", "blocks"] {
        for command in [format!("lookup {how}"), format!("lookup {how} & wait")] {
            dropped.store(false, SeqCst);
            let started = Instant::now();
            let outcome = run(&host, &skill, &command).await.outcome;
            assert!(
                matches!(&outcome.status, Status::LimitHit(hit) if hit.limit == Limit::Timeout),
                "{command}: {outcome:?}"
            );
            assert!(started.elapsed() < Duration::from_secs(60), "{command}");
            if how == "waits" {
                let until = Instant::now() + Duration::from_secs(60);
                while !dropped.load(SeqCst) && Instant::now() < until {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                assert!(dropped.load(SeqCst), "{command}: the future was not dropped");
            }
        }
    }
    // A command ends it earlier, and the run goes on.
    let outcome = run(&host, &skill, "timeout 0.1 lookup blocks; echo $?").await.outcome;
    assert_eq!(outcome.stdout.text(), "124\n");
}

#[tokio::test]
async fn limits_of_the_run_bound_a_host_program() {
    let place = Place::new();
    let skill = place.skill(ASKS, &[]);
    let limited = |limit, value| {
        let limits = vec![(limit, value)];
        let policy = naming().with_command_line(Overrides { limits, ..Overrides::default() });
        place
            .builder()
            .policy(policy.unwrap())
            .host_program("lookup", |mut call: HostCall| async move {
                let count = call.stdin().await.len();
                HostOutput { stderr: vec![b'e'; count], ..HostOutput::success(vec![b'o'; count]) }
            })
            .build()
            .unwrap()
    };
    let of = |limit: Limit, outcome: &Outcome| outcome.limits_hit.iter().any(|h| h.limit == limit);
    let command = "head -c 5000 /dev/zero | lookup 2>/dev/null | wc -c; echo end";
    for limit in [Limit::Stdout, Limit::Stderr] {
        let outcome = run(&limited(limit, 5_000), &skill, command).await.outcome;
        assert_eq!(outcome.stdout.text(), "5000\nend\n", "{outcome:?}");
        let outcome = run(&limited(limit, 4_999), &skill, command).await.outcome;
        assert!(of(limit, &outcome), "{outcome:?}");
        assert!(matches!(outcome.status, Status::LimitHit(_)), "{outcome:?}");
    }
    let host = limited(Limit::Processes, 2);
    let outcome = run(&host, &skill, "for i in 1 2 3; do lookup </dev/null; done").await.outcome;
    assert_eq!((starts(&outcome), of(Limit::Processes, &outcome)), (Some(2), true), "{outcome:?}");

    // A function that blocks counts until it returns, although its program has ended.
    let limits = vec![(Limit::ProcessesAlive, 1)];
    let policy = naming().with_command_line(Overrides { limits, ..Overrides::default() }).unwrap();
    let blocking = place.builder().policy(policy).host_program("lookup", |call| async move {
        if call.argv.len() > 1 {
            std::thread::sleep(Duration::from_secs(600));
        }
        HostOutput::success("fine\n")
    });
    let command = "lookup; lookup; timeout 0.1 lookup blocks; lookup";
    let outcome = run(&blocking.build().unwrap(), &skill, command).await.outcome;
    assert!(of(Limit::ProcessesAlive, &outcome), "{outcome:?}");
    assert_eq!((&*outcome.stdout.text(), starts(&outcome)), ("fine\nfine\n", Some(3)));

    let input = vec![b'x'; 1 << 20];
    for (value, fits) in [(1 << 20, true), ((1 << 20) - 1, false)] {
        let host = limited(Limit::HostCall, value);
        let request = Request::of(&skill).command("lookup | wc -c").stdin(input.clone());
        let outcome = host.invoke(request).await.unwrap().outcome;
        assert_eq!(of(Limit::HostCall, &outcome), !fits, "{value}: {outcome:?}");
        assert_eq!(outcome.stdout.text(), if fits { "1048576\n" } else { "0\n" });
    }
}

#[test]
fn host_programs_cannot_have_the_name_of_a_command_of_the_sandbox() {
    struct Lua;
    impl skillhost::Runtime for Lua {
        fn commands(&self) -> Vec<String> {
            vec!["lua".into()]
        }
        fn extensions(&self) -> Vec<String> {
            vec!["lua".into()]
        }
        fn component(&self) -> std::io::Result<Vec<u8>> {
            Err(std::io::Error::other("never started"))
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str| {
        let builder = Host::builder()
            .home(folder.path().join("home"))
            .compiler(env!("CARGO_BIN_EXE_skillhost"))
            .programs(repository("target/components"));
        builder.runtime(Lua).host_program(name, lookup).build().map(drop)
    };
    // `shell` is only in the description of a built-in program.
    for name in ["python3", "bash", "cd", "jq", "lua", "shell"] {
        let error = build(name).unwrap_err();
        assert!(
            matches!(&error, BuildError::HostProgram(HostProgramError::Reserved(taken)) if taken == name),
            "{name}: {error}"
        );
    }
    let error = build("../lookup").unwrap_err();
    assert!(matches!(error, BuildError::HostProgram(HostProgramError::Invalid(_))), "{error}");
    build("ffmpeg").unwrap();
}

#[test]
fn front_ends_have_no_host_programs() {
    let user = crate::cli::User::new();
    let skill = skill(&user.work(), "allowed-tools: Bash", &[]);
    let ran = user.skillhost(&[
        "run",
        skill.to_str().unwrap(),
        "--programs",
        repository("target/components").to_str().unwrap(),
        "--allow",
        "Bash(lookup:*)",
        "--json",
        "--command",
        "lookup",
    ]);
    let outcome: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(outcome["status"]["code"], 127, "{outcome}");
    assert!(outcome.get("host_programs").is_none(), "{outcome}");
}

#[test]
fn components_start_host_programs() {
    let fixture = Fixture::new();
    let host = fixture.host.clone().with_hooks(RunHooks {
        host_programs: HostPrograms::new([("lookup".to_owned(), HostFunction::new(lookup))]),
        ..RunHooks::default()
    });
    let launch = |tools: &str| {
        let manifest = format!(
            "---\nname: hostile\ndescription: Tests.\nallowed-tools: {tools}\nmetadata:\n  component: hostile.wasm\n---\n"
        );
        std::fs::write(fixture.path("skills/hostile/SKILL.md"), manifest).unwrap();
        let run = fixture.run(&["launch", "lookup", "7"]).by(host.clone());
        run.allow("Bash(lookup:*)").go()
    };
    let outcome = launch("Bash(lookup:*)");
    assert_eq!(outcome.processes[0].exit, ProcessEnd::Exited { code: 3 }, "{outcome:?}");
    assert_eq!((&*outcome.stdout.text(), starts(&outcome)), ("lookup 7 |  | \n", Some(1)));
    let outcome = launch("Bash(hostile:*)");
    assert_eq!((outcome.status, outcome.processes), (Status::Exited { code: 126 }, Vec::new()));
}

#[tokio::test]
async fn deterministic_runs_refuse_host_programs() {
    let place = Place::new();
    let skill = place.skill(ASKS, &[]);
    let overrides = Overrides {
        determinism: skillhost_policy::determinism::DeterminismRule {
            on: Some(true),
            ..Default::default()
        },
        ..Overrides::default()
    };
    let policy = naming().with_command_line(overrides).unwrap();
    let host = place.builder().policy(policy).host_program("lookup", lookup).build().unwrap();
    let ran = run(&host, &skill, "lookup").await;
    assert_eq!(ran.outcome.status, Status::Exited { code: 126 }, "{:?}", ran.outcome);
    assert!(ran.outcome.host_programs.is_empty());
    let why = "a deterministic run starts no host programs";
    assert!(ran.outcome.denials[0].rule.contains(why), "{:?}", ran.outcome.denials);
    assert!(ran.permissions(200).contains(why), "{}", ran.permissions(200));
}

#[tokio::test]
async fn verify_reports_that_a_receipt_depends_on_host_programs() {
    let root = tempfile::tempdir().unwrap();
    let skill = skill(root.path(), ASKS, &[]);
    let host = shell_host(root.path()).with_hooks(RunHooks {
        host_programs: HostPrograms::new([("lookup".to_owned(), HostFunction::new(lookup))]),
        ..RunHooks::default()
    });
    let policy = naming();
    let loaded = host.load_for_run(&*skill, &policy).unwrap();
    for (command, times) in [("lookup; lookup", "started 2 times"), ("echo", "not started")] {
        let request = invoke::LoadedRequest {
            loaded: &loaded,
            policy: &policy,
            target: &Target::Shell(command.into()),
            args: Vec::new(),
            io: Io::default(),
        };
        let receipt = host.invoke_with_receipt(request).await.unwrap().receipt.unwrap();
        let file = root.path().join("receipt.json");
        std::fs::write(&file, canonical::text(&receipt)).unwrap();
        let receipt = canonical::value(&receipt);
        assert_eq!(
            receipt["grant"]["capabilities"]["host_programs"],
            serde_json::json!(["lookup"])
        );
        assert!(receipt["result"]["host_programs"]["lookup"].is_u64(), "{receipt}");

        let verified = Command::new(env!("CARGO_BIN_EXE_skillhost"))
            .env("HOME", root.path().join("home"))
            .env("SKILLHOST_PROGRAMS", repository("target/components"))
            .args(["verify", "--unsigned", "--skill"])
            .args([&skill, &file])
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&verified.stderr);
        assert_eq!(verified.status.code(), Some(83), "{message}");
        assert!(message.contains("depended on host programs"), "{message}");
        assert!(message.contains(&format!("`lookup` ({times})")), "{message}");
    }
}
