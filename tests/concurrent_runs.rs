//! Many concurrent runs of one host on a shared runtime: none affects another, and none leaves
//! anything behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use skillhost::invoke::{RunRequest, Runner, Target};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{Allocation, Io, Options, Sandbox, run_alone};
use skillhost_skill::runtime::built_in::BuiltIns;
use skillhost_skill::runtime::{EntryPoint, Program, digest};

use crate::hostile_host::{Fixture, HANG_TIMEOUT, hostile};

fn policy(fixture: &Fixture, limits: &[(Limit, u64)]) -> Policy {
    let workspace = Some((fixture.path("workspace"), MountMode::Write));
    Policy::builtin()
        .with_command_line(Overrides { workspace, limits: limits.to_vec(), ..Overrides::default() })
        .unwrap()
}

async fn invoke(
    host: Runner,
    fixture: &Fixture,
    limits: &[(Limit, u64)],
    args: &[&str],
) -> Outcome {
    let policy = policy(fixture, limits);
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let skill = fixture.path("skills/hostile");
    let request = RunRequest {
        skill: (&skill).into(),
        policy: &policy,
        target: Target::Main,
        args,
        io: Io::default(),
    };
    host.invoke(request).await.unwrap().finished.outcome
}

/// Waits until scratch space is empty again; killed programs may take a moment to end.
fn assert_scratch_is_empty(fixture: &Fixture) {
    let started = Instant::now();
    loop {
        let names: Vec<_> = std::fs::read_dir(fixture.path("scratch"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        if names == ["outside"] {
            return;
        }
        assert!(started.elapsed() < HANG_TIMEOUT, "{names:?} remain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_spinning_guest_does_not_block_others_on_its_thread() {
    let fixture = Fixture::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::select! {
            biased;
            served = invoke(fixture.host.clone(), &fixture, &[], &["burn", "1000"]) => assert_eq!(served.status, Status::Exited { code: 0 }),
            spun = invoke(fixture.host.clone(), &fixture, &[(Limit::Timeout, 60_000)], &["spin"]) => panic!("the other run was not served before {spun:?}"),
        }
    });
}

#[test]
fn started_programs_end_with_their_run() {
    let fixture = Fixture::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for child in
        [&["spin"][..], &["sleep"], &["files", "/tmp"], &["flood"], &["start", "1", "spin"]]
    {
        let mut args = vec!["start", "1"];
        args.extend(child);
        let limits = [
            (Limit::Timeout, 300),
            (Limit::Files, 1_000_000),
            (Limit::Stdout, 1 << 40),
            (Limit::Memory, 1 << 40),
        ];
        let outcome = runtime.block_on(invoke(fixture.host.clone(), &fixture, &limits, &args));
        assert!(
            matches!(&outcome.status, Status::LimitHit(hit) if hit.limit == Limit::Timeout),
            "{child:?}: {outcome:?}"
        );
        assert_scratch_is_empty(&fixture);
    }
    // No background task remains that could use the processor.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "tasks of ended runs are alive");
}

#[test]
fn a_run_that_is_dropped_is_cleaned_up_and_recorded() {
    let fixture = Fixture::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for args in [&["sleep"][..], &["spin"], &["start", "1", "sleep"]] {
        let dropped = runtime.block_on(async {
            tokio::time::timeout(
                Duration::from_millis(300),
                invoke(fixture.host.clone(), &fixture, &[], args),
            )
            .await
        });
        assert!(dropped.is_err(), "{args:?} ended: {dropped:?}");
        assert_scratch_is_empty(&fixture);
    }
    fixture.assert_alive();
    let statuses: Vec<_> = fixture
        .audit()
        .iter()
        .map(|line| line["status"]["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(statuses, ["interrupted", "interrupted", "interrupted", "exited"]);
}

#[test]
fn concurrent_attackers_do_not_affect_each_other() {
    let fixture = Arc::new(Fixture::new());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let attacks: Vec<&[&str]> = vec![
        &["spin"],
        &["memory-in-pieces"],
        &["fork", "8"],
        &["flood"],
        &["recursion"],
        &["trap"],
        &["handles"],
        &["random"],
        &["disk", "/tmp"],
        &["sleep"],
    ];
    let limits = [
        (Limit::Timeout, 3_000),
        (Limit::Memory, 64 << 20),
        (Limit::Processes, 20),
        (Limit::Disk, 1 << 20),
        (Limit::Stdout, 1 << 20),
    ];
    let mut running = Vec::new();
    for _ in 0..3 {
        for attack in &attacks {
            let (fixture, attack) = (fixture.clone(), attack.to_vec());
            running.push(runtime.spawn(async move {
                invoke(fixture.host.clone(), &fixture, &limits, &attack).await
            }));
        }
    }
    for run in running {
        let outcome = runtime.block_on(run).unwrap();
        assert!(
            !matches!(outcome.status, Status::Exited { code: 3 } | Status::Interrupted),
            "{outcome:?}"
        );
    }
    assert_scratch_is_empty(&fixture);
    assert_eq!(fixture.audit().len(), 3 * attacks.len());
    fixture.assert_alive();
}

#[test]
fn pooled_memory_keeps_limits_and_isolation() {
    let fixture = Fixture::allocating(Allocation::Pooling(4));
    fixture.run(&["nest", "3"]).succeeds();
    fixture.run(&["alloc", "40"]).limit(Limit::Memory, 64 << 20).succeeds();
    fixture.run(&["alloc", "70"]).limit(Limit::Memory, 64 << 20).hits(Limit::Memory);
    fixture.run(&["recursion"]).hits(Limit::Stack);
    fixture.run(&["handles"]).go();
    fixture.run(&["spin"]).limit(Limit::Timeout, 200).hits(Limit::Timeout);
    // More programs at once than the pool has room for: the excess is refused, and the caller
    // continues.
    let outcome = fixture.run(&["fork", "8"]).limit(Limit::Processes, 100).go();
    assert!(!matches!(outcome.status, Status::Trapped { .. }), "{outcome:?}");
    for _ in 0..10 {
        fixture.assert_alive();
    }
    // A slot is cleared before reuse, so a guest never sees another guest's memory.
    fixture.run(&["alloc", "40"]).succeeds();
    fixture.run(&["zeroed", "40"]).succeeds();
}

#[test]
fn built_in_programs_start_with_cleared_memory() {
    let root = tempfile::tempdir().unwrap();
    let (programs, cache, scratch) =
        (root.path().join("programs"), root.path().join("cache"), root.path().join("scratch"));
    for folder in [&programs, &scratch] {
        std::fs::create_dir(folder).unwrap();
    }
    let wasm = hostile();
    std::fs::write(programs.join("hostile.wasm"), &wasm).unwrap();
    let facts = serde_json::json!({
        "name": "hostile", "version": "1", "programs": ["hostile"], "wasm": "hostile.wasm", "size": wasm.len(), "digest": digest(&wasm),
    });
    std::fs::write(programs.join("hostile.json"), facts.to_string()).unwrap();
    let built_ins = BuiltIns { folders: vec![programs], ..BuiltIns::default() };
    let component = Arc::new(built_ins.list().unwrap().remove(0)).component().unwrap();
    let tls = Tls::new(Roots::default()).unwrap().into();
    let compiler = env!("CARGO_BIN_EXE_skillhost").into();
    let sandbox = Sandbox::new(Options {
        compiler,
        cache,
        allocation: Allocation::OnDemand,
        tls,
        resolver: Resolver::System,
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let run = async |verb: &str, mebibytes: &str| {
        let args = [verb, mebibytes].map(str::to_owned).into();
        let program = Program {
            name: "hostile".into(),
            component: component.clone(),
            entry: EntryPoint::Command,
            args,
            script: None,
        };
        let outcome =
            run_alone(&sandbox, &program, &scratch, Arc::default(), Io::default()).await.outcome;
        assert_eq!(outcome.status, Status::Exited { code: 0 }, "{verb} {mebibytes}: {outcome:?}");
    };
    runtime.block_on(async {
        // Sizes below and above the amount that the pool resets in place, and above what it keeps.
        for mebibytes in ["1", "6", "40"] {
            for _ in 0..4 {
                futures::join!(
                    run("alloc", mebibytes),
                    run("alloc", mebibytes),
                    run("zeroed", mebibytes)
                );
                run("zeroed", mebibytes).await;
            }
        }
    });
}
