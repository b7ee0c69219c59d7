//! Programs that start programs: streams flow while both run, buffers are bounded, and nothing
//! outlives the run.

use skillhost::invoke::{RunRequest, Target};
use skillhost_policy::Policy;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, ProcessEnd, Status};
use skillhost_sandbox::{Io, Stdin};

use crate::hostile_host::Fixture;

/// Returns how each started program ended, in order.
fn ends(outcome: &Outcome) -> Vec<ProcessEnd> {
    outcome.processes.iter().map(|process| process.exit.clone()).collect()
}

/// Returns the answer in the report of a load.
fn answer(outcome: &Outcome) -> String {
    let text = outcome.stdout.text();
    let report: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|_| panic!("{outcome:?}"));
    report["detail"]["answers"].as_object().unwrap().keys().next().unwrap().clone()
}

#[test]
fn a_program_answers_while_both_run() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["talk", "1"]).succeeds();
    assert_eq!(ends(&outcome), [ProcessEnd::Exited { code: 0 }]);
    // Ten concurrent programs, which answer in turns.
    let outcome = fixture.run(&["talk", "10"]).succeeds();
    assert_eq!(ends(&outcome), vec![ProcessEnd::Exited { code: 0 }; 10]);
}

#[test]
fn pipes_carry_large_streams_in_little_memory() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["pipeline", "100000000"]).limit(Limit::Memory, 16 << 20).succeeds();
    assert_eq!(answer(&outcome), "100000000");
    // Tests the two ends separately: `count` counts what `pour` writes.
    let poured = fixture.run(&["pour", "1000"]).succeeds().stdout.0;
    assert_eq!(poured, (0..1000).map(|at| at as u8).collect::<Vec<_>>());
    assert_eq!(
        fixture.run(&["count"]).stdin(Stdin::Bytes(poured)).succeeds().stdout.text(),
        "1000\n"
    );
}

#[test]
fn shared_stdin_is_not_read_ahead() {
    let fixture = Fixture::new();
    let outcome =
        fixture.run(&["share", "3"]).stdin(Stdin::Bytes(b"one two three".into())).succeeds();
    assert_eq!(outcome.stdout.text(), "one| two three");
    let (stdin, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"one two three").unwrap();
    drop(writer);
    let outcome = fixture.run(&["share", "3"]).stdin(Stdin::Descriptor(stdin.into())).succeeds();
    assert_eq!(
        (outcome.stdout.text().as_ref(), outcome.status),
        ("one| two three", Status::Exited { code: 0 })
    );
}

#[test]
fn joined_streams_keep_their_order() {
    let fixture = Fixture::new();
    let expected: String = (0..100).map(|n| format!("out {n}\nerr {n}\n")).collect();
    assert_eq!(fixture.run(&["joined"]).succeeds().stdout.text(), expected);
    // Streams that are not joined are inherited from the caller.
    let outcome = fixture.run(&["launch", "hostile", "both"]).succeeds();
    let (mut out, mut err) = (expected.lines().step_by(2), expected.lines().skip(1).step_by(2));
    assert!(
        out.all(|line| outcome.stdout.text().contains(line))
            && err.all(|line| outcome.stderr.text().contains(line)),
        "{outcome:?}"
    );
    assert_eq!((outcome.usage.stdout_bytes, outcome.usage.stderr_bytes), (690, 690));
}

#[test]
fn inherited_output_counts_towards_the_callers_limit() {
    let fixture = Fixture::new();
    fixture.run(&["launch", "hostile", "print", "70000"]).limit(Limit::Stdout, 70_000).succeeds();
    let outcome = fixture
        .run(&["launch", "hostile", "print", "70001"])
        .limit(Limit::Stdout, 70_000)
        .hits(Limit::Stdout);
    assert_eq!(outcome.stdout.0.len(), 70_000);
}

#[test]
fn inherited_output_is_live() {
    let fixture = Fixture::new();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let (stdin, mut input) = std::io::pipe().unwrap();
    let run = fixture
        .run(&["launch", "hostile", "launch", "hostile", "cat"])
        .stdin(Stdin::Descriptor(stdin.into()))
        .stdout(writer);
    std::thread::scope(|scope| {
        // Each word must come back before the next is sent, so all three programs run at the same
        // time.
        scope.spawn(move || {
            use std::io::{Read as _, Write as _};
            for word in ["one ", "two ", "three"] {
                input.write_all(word.as_bytes()).unwrap();
                let mut back = vec![0; word.len()];
                reader.read_exact(&mut back).unwrap();
                assert_eq!(back, word.as_bytes());
            }
        });
        run.succeeds();
    });
}

#[test]
fn programs_can_start_in_another_folder_and_environment() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["elsewhere"]).succeeds().stdout.text(), "/tmp\nB=2\nA=1\n");
    // By default, a program inherits both.
    let (own, inherited) = (
        fixture.run(&["surroundings"]).succeeds(),
        fixture.run(&["launch", "hostile", "surroundings"]).succeeds(),
    );
    assert!(
        own.stdout.text().starts_with("/workspace\n")
            && own.stdout.text().contains("\nHOME=/tmp\n"),
        "{own:?}"
    );
    assert_eq!(own.stdout, inherited.stdout);
}

#[test]
fn single_bytes_arrive_in_order() {
    let fixture = Fixture::new();
    fixture.run(&["drip", "20000"]).succeeds();
}

#[test]
fn waits_can_be_cancelled_and_programs_killed() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["patience"]).succeeds();
    assert_eq!(
        (answer(&outcome).as_str(), ends(&outcome)),
        ("Some(Status::Killed)", vec![ProcessEnd::Killed])
    );
    // A program is killed at the end of the run if its caller never kills it.
    let outcome = fixture
        .run(&["launch", "hostile", "sleep"])
        .limit(Limit::Timeout, 300)
        .hits(Limit::Timeout);
    assert_eq!(ends(&outcome), [ProcessEnd::Killed]);
}

#[test]
fn one_poll_waits_for_several_pipe_ends() {
    Fixture::new().run(&["poll"]).succeeds();
}

#[test]
fn started_programs_outlive_an_exit_but_not_a_kill() {
    let fixture = Fixture::new();
    // The middle program exits by itself; the program that it started continues until the run ends.
    let outcome = fixture.run(&["grandchild", "leaves"]).succeeds();
    assert_eq!(answer(&outcome), "Exited(0)");
    assert_eq!(ends(&outcome), [ProcessEnd::Exited { code: 0 }, ProcessEnd::Killed]);
    // Killing the middle program kills the program that it started.
    let outcome = fixture.run(&["grandchild", "keeps"]).succeeds();
    assert_eq!(answer(&outcome), "Killed");
    assert_eq!(ends(&outcome), [ProcessEnd::Killed, ProcessEnd::Killed]);
}

#[test]
fn a_program_survives_writing_to_a_broken_pipe() {
    // A program that keeps writing to a closed pipe gets an error and exits on its own.
    let fixture = Fixture::new();
    let outcome = fixture.run(&["launch", "hostile", "deaf"]).succeeds();
    assert_eq!(outcome.usage.stdout_bytes, 10_000 * 4096);
}

#[test]
fn each_programs_exit_is_reported_and_recorded() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["launch", "hostile", "launch", "hostile", "exit", "7"]).go();
    let [first, second] = &outcome.processes[..] else { panic!("{outcome:?}") };
    assert_eq!((first.argv0.as_str(), first.depth, second.depth), ("hostile", 1, 2));
    let digest = skillhost_skill::runtime::digest(b"hostile\0exit\x007\0");
    assert_eq!((&second.argv_digest, &second.exit), (&digest, &first.exit));
    assert!(
        second.epochs.is_some() && second.fuel.is_none() && first.wall_ms >= second.wall_ms,
        "{outcome:?}"
    );
    let record = &fixture.audit()[0];
    assert_eq!(
        (&record["processes"][1]["program"], &record["processes"][1]["depth"]),
        (&"hostile.wasm".into(), &2.into())
    );
    assert_eq!(
        (&record["processes"][0]["exit"]["kind"], &record["processes_omitted"]),
        (&"exited".into(), &0.into())
    );
    // At most 1,000 programs are listed.
    let outcome = fixture
        .run(&["turns", "1005"])
        .limit(Limit::Processes, 2_000)
        .limit(Limit::Timeout, 100_000)
        .succeeds();
    assert_eq!(
        (outcome.processes.len(), outcome.processes_omitted, outcome.usage.processes),
        (1_000, 5, 1_005)
    );
}

#[test]
fn fuel_is_one_pool() {
    let fixture = Fixture::new();
    let spend = |args: &[&str]| fixture.run(args).limit(Limit::Fuel, 2_000_000_000).succeeds();
    // For programs that run in turn, the fuel is exact and the same each time.
    let (once, again) = (
        spend(&["launch", "hostile", "burn", "100000"]),
        spend(&["launch", "hostile", "burn", "100000"]),
    );
    assert_eq!(once.usage.fuel, again.usage.fuel);
    assert_eq!(once.processes[0].fuel, again.processes[0].fuel);
    let (all, child) = (once.usage.fuel.unwrap(), once.processes[0].fuel.unwrap());
    assert!(child > 100_000 && child < all, "{child} of {all}");
    // The exact amount suffices; slightly less does not.
    fixture
        .run(&["launch", "hostile", "burn", "100000"])
        .limit(Limit::Fuel, all + 1_000)
        .succeeds();
    fixture
        .run(&["launch", "hostile", "burn", "100000"])
        .limit(Limit::Fuel, all - 1_000)
        .hits(Limit::Fuel);
    // Concurrent programs share the limit, including nested ones.
    let limit = 400_000_000;
    let outcome = fixture.run(&["side-by-side", "8"]).limit(Limit::Fuel, limit).hits(Limit::Fuel);
    let burnt: u64 = outcome.processes.iter().filter_map(|process| process.fuel).sum();
    assert_eq!((outcome.processes.len(), outcome.usage.fuel), (16, Some(limit)));
    assert!(burnt < 2 * limit, "{burnt} of {limit}");
}

#[test]
fn wrapper_commands_are_removed_before_entries_are_checked() {
    let fixture = Fixture::new();
    let manifest = |tools: &str| {
        let text = format!(
            "---\nname: hostile\ndescription: Starts itself.\nallowed-tools: {tools}\nmetadata:\n  component: hostile.wasm\n---\n"
        );
        std::fs::write(fixture.path("skills/hostile/SKILL.md"), text).unwrap();
    };
    let launch = |line: &str| {
        fixture.run(&["launch"].into_iter().chain(line.split(' ')).collect::<Vec<_>>()).go()
    };
    manifest("Bash(hostile exit:*)");
    for line in [
        "hostile exit 3",
        "env A=1 hostile exit 3",
        "/usr/bin/env nohup nice -n 5 time -p timeout 60 hostile exit 3",
    ] {
        let outcome = launch(line);
        assert_eq!(
            outcome.processes[0].exit,
            ProcessEnd::Exited { code: 3 },
            "{line}: {outcome:?}"
        );
    }
    // Wrappers neither avoid a check nor extend an allowance for the wrapped command.
    for line in [
        "hostile verbs",
        "env hostile verbs",
        "timeout 60 nohup hostile verbs",
        "env env env hostile verbs",
    ] {
        for tools in ["Bash(hostile exit:*)", "Bash(env:*) Bash(timeout:*) Bash(hostile exit:*)"] {
            manifest(tools);
            let outcome = launch(line);
            assert_eq!(
                (outcome.status, outcome.processes),
                (Status::Exited { code: 126 }, vec![]),
                "{line}"
            );
            assert_eq!(outcome.denials[0].what, format!("start `{line}`"));
            assert!(
                outcome.denials[0].fix.as_ref().unwrap().contains("Bash(hostile:*)"),
                "{:?}",
                outcome.denials
            );
        }
    }
    // A denied wrapper stays denied.
    manifest("Bash");
    let outcome =
        fixture.run(&["launch", "timeout", "60", "hostile", "verbs"]).deny("Bash(timeout:*)").go();
    assert_eq!(outcome.status, Status::Exited { code: 126 });
    let outcome = launch("timeout 0.2 hostile sleep");
    assert_eq!(
        (&outcome.status, &outcome.processes[0].exit),
        (&Status::Exited { code: 124 }, &ProcessEnd::Exited { code: 124 })
    );
    assert_eq!(
        launch("env -i A=2 hostile surroundings").stdout.text().lines().skip(1).collect::<Vec<_>>(),
        ["A=2"]
    );
}

#[test]
fn unavailable_commands_have_a_reason() {
    let fixture = Fixture::new();
    for (line, reason) in [
        ("ffmpeg -i x", "`ffmpeg` is not available: native programs cannot run in the sandbox"),
        (
            "/usr/bin/ruby x.rb",
            "`/usr/bin/ruby` is not available: the sandbox has no runtime for its language",
        ),
        ("env docker ps", "`docker` is not available: the sandbox has no containers"),
        ("nonesuch", "no program `nonesuch` in the sandbox"),
        ("env", "`env` needs a command to run"),
        ("uv sync", "only `uv run` and `uv pip` are available"),
    ] {
        let outcome =
            fixture.run(&["launch"].into_iter().chain(line.split(' ')).collect::<Vec<_>>()).go();
        assert_eq!(outcome.status, Status::Exited { code: 127 }, "{line}");
        assert!(outcome.stderr.text().contains(reason), "{line}: {}", outcome.stderr.text());
        let [denial] = &outcome.denials[..] else { panic!("{line}: {outcome:?}") };
        assert!(
            denial.what == format!("start `{line}`") && denial.rule.starts_with(reason),
            "{denial:?}"
        );
    }
}

/// The subset of the interface that a WASI 0.2 guest uses, without `async` functions.
const SUBSET: &str = "
package test:old;

package wasi:cli@0.2.12 {
  interface run { run: func() -> result; }
}

package skillhost:skill@0.1.0 {
  interface process {
    variant error { not-found(string), denied(string), limit(string), trapped(string), closed, timeout }
    resource reader { read: func(max: u32, timeout-ms: option<u32>) -> result<list<u8>, error>; }
    resource writer;
    pipe: func() -> result<tuple<reader, writer>, error>;
    variant input { inherit, none, pipe, %from(borrow<reader>) }
    variant output { inherit, none, pipe, to(borrow<writer>), to-stdout }
    variant status { exited(u8), killed, trapped(string), limit(string) }
    resource child { wait: func(timeout-ms: option<u32>) -> option<status>; }
    spawn: func(argv: list<string>, env: option<list<tuple<string, string>>>, cwd: option<string>, stdin: input, stdout: output, stderr: output) -> result<child, error>;
  }
}

world guest {
  import skillhost:skill/process@0.1.0;
  export wasi:cli/run@0.2.12;
}
";

/// A WASI 0.2 guest whose `run` has this body, which returns 0 on success.
fn old_guest(body: &str) -> Vec<u8> {
    let process = r#"(import "skillhost:skill/process@0.1.0""#;
    let module = format!(
        r#"(module
            {process} "pipe" (func $pipe (param i32)))
            {process} "[method]reader.read" (func $read (param i32 i32 i32 i32 i32)))
            {process} "[method]child.wait" (func $wait (param i32 i32 i32 i32)))
            {process} "spawn" (func $spawn (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
            (memory (export "memory") 4)
            (global $top (mut i32) (i32.const 4096))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (global.set $top (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
                (global.get $top)
                (global.set $top (i32.add (global.get $top) (local.get 3))))
            ;; `other exit 7`: three strings.
            (data (i32.const 0) "otherexit7")
            (data (i32.const 16) "\00\00\00\00\05\00\00\00\05\00\00\00\04\00\00\00\09\00\00\00\01\00\00\00")
            (func (export "wasi:cli/run@0.2.12#run") (result i32) {body}))"#
    );
    let mut module = wat::parse_str(&module).unwrap();
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("old.wit", SUBSET).unwrap();
    let world = resolve.select_world(&[package], Some("guest")).unwrap();
    wit_component::embed_component_metadata(
        &mut module,
        &resolve,
        world,
        wit_component::StringEncoding::UTF8,
    )
    .unwrap();
    wit_component::ComponentEncoder::default()
        .module(&module)
        .unwrap()
        .validate(true)
        .encode()
        .unwrap()
}

#[test]
fn wasi_0_2_guests_start_programs_and_wait_for_them() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("skills/hostile/other.wasm"), crate::hostile_host::hostile())
        .unwrap();
    // Spawns a program with inherited environment and streams, waits for it, and compares the
    // status: some, exited, 7.
    fixture.replace_component(&old_guest(
        "(call $spawn (i32.const 16) (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1024))
        (if (i32.load8_u (i32.const 1024)) (then unreachable))
        (call $wait (i32.load (i32.const 1028)) (i32.const 0) (i32.const 0) (i32.const 2048))
        (if (i32.ne (i32.load8_u (i32.const 2048)) (i32.const 1)) (then unreachable))
        (i32.ne (i32.load16_u (i32.const 2052)) (i32.const 0)) (i32.ne (i32.load8_u (i32.const 2056)) (i32.const 7)) i32.or",
    ));
    let outcome = fixture.run(&[]).succeeds();
    assert_eq!(ends(&outcome), [ProcessEnd::Exited { code: 7 }]);
}

#[test]
fn a_blocking_wasi_0_2_guest_does_not_block_other_guests() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    // Reads a pipe while holding its write end, so the read never ends.
    fixture.replace_component(&old_guest(
        "(call $pipe (i32.const 1024))
        (call $read (i32.load (i32.const 1028)) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 2048)) unreachable",
    ));
    fixture.run(&[]).limit(Limit::Timeout, 300).hits(Limit::Timeout);
    let policy = Policy::builtin();
    let invoke = async |fixture: &Fixture, args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let skill = fixture.path("skills/hostile");
        let request = RunRequest {
            skill: (&skill).into(),
            policy: &policy,
            target: Target::Main,
            args,
            io: Io::default(),
        };
        fixture.host.invoke(request).await.unwrap().finished.outcome
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::select! {
            biased;
            blocked = invoke(&fixture, &[]) => panic!("it did not block: {blocked:?}"),
            served = invoke(&other, &["talk", "2"]) => assert_eq!(served.status, Status::Exited { code: 0 }),
        }
    });
}
