//! The library `skillhost` as an embedder uses it.

mod included;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use skillhost::invoke::hooks::{PlannedRun, RunHooks};
use skillhost::invoke::{self, RecordingStatus, ReplayRequest, Target};
use skillhost::{BuildError, Host, HostBuilder, InvokeError, Request, Runtime};
use skillhost_ledger::audit::{Record, StatusRecord};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::determinism::DeterminismRule;
use skillhost_policy::outcome::{Denial, DenialKind, Status};
use skillhost_policy::{ClientNames, Overrides, Policy};
use skillhost_sandbox::recording::folder::{Draft, StoredRecording};
use skillhost_sandbox::recording::network::RecordedNetwork;
use skillhost_sandbox::recording::scene::Scene;
use skillhost_sandbox::recording::seal::Seal;
use skillhost_sandbox::{Io, RecordingIo};

use crate::cli::{copy_compiled_runtimes, repository};
use crate::hostile_host::shell_host;

fn components() -> PathBuf {
    repository("target/components")
}

fn builder(home: &Path) -> HostBuilder {
    Host::builder().home(home).compiler(env!("CARGO_BIN_EXE_skillhost")).programs(components())
}

/// Creates a skill with some files.
fn skill(folder: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let skill = folder.join(name);
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        format!("---\nname: {name}\ndescription: Tests.\nallowed-tools: Read Write Bash\n---\n"),
    )
    .unwrap();
    files.iter().for_each(|(path, text)| std::fs::write(skill.join(path), text).unwrap());
    skill
}

/// The hello component as an interpreter: it prints its arguments.
struct Greeting;

impl Runtime for Greeting {
    fn commands(&self) -> Vec<String> {
        vec!["greet".into(), "python3".into()]
    }

    fn extensions(&self) -> Vec<String> {
        vec!["greet".into(), "py".into()]
    }

    fn component(&self) -> std::io::Result<Vec<u8>> {
        std::fs::read(components().join("hello.wasm"))
    }
}

struct UnbuildableRuntime;

impl Runtime for UnbuildableRuntime {
    fn commands(&self) -> Vec<String> {
        vec!["broken".into()]
    }

    fn extensions(&self) -> Vec<String> {
        vec!["broken".into()]
    }

    fn component(&self) -> std::io::Result<Vec<u8>> {
        Err(std::io::Error::other("it is nowhere"))
    }
}

#[test]
fn the_example_of_the_library_runs() {
    let example = repository("docs/examples/embed.rs");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("work/people.csv");
    std::fs::create_dir(folder.path().join("work")).unwrap();
    std::fs::write(&file, "name,city,age\nAda,London,36\nGrace,New York,85\n").unwrap();
    let program =
        Path::new(env!("CARGO_BIN_EXE_skillhost")).with_file_name("examples").join("embed");
    let modified = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    assert!(
        modified(&program) >= modified(&example),
        "the example is older than its source: `cargo build -p skillhost-cli --examples`"
    );
    copy_compiled_runtimes(&folder.path().join("home/cache/components"));
    let ran = Command::new(program)
        .arg(folder.path().join("home"))
        .args([components(), file.clone()])
        .arg(repository("skills"))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{output}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(
        output.starts_with(
            "recorded: csv-report Exited { code: 0 }\npeople.csv: 2 rows, 3 columns\n"
        ),
        "{output}"
    );
    assert!(
        output.contains(
            "recorded: customer-note Exited { code: 0 }\nDear Ada Lovelace,\nstarted: {\"lookup-customer\": 1}\n"
        ),
        "{output}"
    );
    assert!(
        output.contains("recorded: calculator Denied(") && output.contains("\ncalculator: Denied("),
        "{output}"
    );
    assert!(file.with_file_name("people.report.html").is_file());
    let log = std::fs::read_to_string(folder.path().join("home/audit.jsonl")).unwrap();
    assert_eq!(crate::cli::ends(&log).len(), 3, "{log}");
}

#[test]
fn names_of_other_clients_count_only_if_a_hook_approves_runs() {
    let folder = tempfile::tempdir().unwrap();
    let policy = || Policy::allow_everything().with_client_names();
    let silent = builder(&folder.path().join("silent")).policy(policy()).build().unwrap();
    assert_eq!(silent.policy().client_names, ClientNames::Ignored);
    let asking = builder(&folder.path().join("asking")).policy(policy()).approve(|_| Ok(()));
    assert_eq!(asking.build().unwrap().policy().client_names, ClientNames::NeedApproval);
}

#[tokio::test]
async fn hooks_refuse_runs_and_see_every_record() {
    let folder = tempfile::tempdir().unwrap();
    let skill = skill(folder.path(), "writes", &[("x.sh", "echo written > /workspace/out.txt\n")]);
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let keep = events.clone();
    let host = builder(&folder.path().join("home"))
        .approve(|asking| {
            Err(Denial {
                what: asking.skill.name.clone(),
                rule: "not today".into(),
                fix: None,
                kind: DenialKind::Run,
            })
        })
        .on_record(move |record| {
            keep.lock()
                .unwrap()
                .push((record.skill.name.clone(), matches!(record.status, StatusRecord::Denied(_))))
        })
        .build()
        .unwrap();
    let request = Request::of(&skill).script("x.sh").workspace(&work, MountMode::Write);
    let outcome = host.invoke(request).await.unwrap().outcome;
    let denial = Status::Denied(Denial {
        what: "writes".into(),
        rule: "not today".into(),
        fix: None,
        kind: DenialKind::Run,
    });
    assert_eq!(outcome.status, denial);
    assert!(!work.join("out.txt").exists());
    assert_eq!(*events.lock().unwrap(), [("writes".to_owned(), true)]);
}

#[tokio::test]
async fn hooks_see_recorded_runs_and_replays() {
    let folder = tempfile::tempdir().unwrap();
    let (skill, scratch) =
        (skill(folder.path(), "says-hi", &[("x.sh", "echo hi\n")]), folder.path().join("scratch"));
    let host = shell_host(folder.path());
    let events = Arc::new(Mutex::new(Vec::new()));
    let hooked = |allows: bool| {
        let (asked, recorded) = (events.clone(), events.clone());
        let approve = move |asking: &PlannedRun<'_>| {
            asked.lock().unwrap().push(format!("asked: {}", asking.skill.name));
            if allows {
                Ok(())
            } else {
                Err(Denial {
                    what: "it".into(),
                    rule: "not today".into(),
                    fix: None,
                    kind: DenialKind::Run,
                })
            }
        };
        let record = move |record: &Record<'_>| {
            let is_denied = matches!(record.status, StatusRecord::Denied(_));
            recorded.lock().unwrap().push(format!(
                "recorded: {}{}",
                record.skill.name,
                if is_denied { ", denied" } else { "" }
            ));
        };
        host.clone().with_hooks(RunHooks {
            approve: Some(Arc::new(approve)),
            recorded: Some(Arc::new(record)),
            ..RunHooks::default()
        })
    };
    let determinism = DeterminismRule { on: Some(true), seed: Some(7), start_time: Some(0) };
    let policy = Policy::builtin()
        .with_command_line(Overrides { determinism, ..Overrides::default() })
        .unwrap();
    for (allows, expected) in [
        (true, ["asked: says-hi", "recorded: says-hi"]),
        (false, ["asked: says-hi", "recorded: says-hi, denied"]),
    ] {
        let host = hooked(allows);
        let place = folder.path().join(if allows { "recording" } else { "none" });
        let draft = Draft::new(&place, &scratch).unwrap();
        let target = Target::Named("x.sh".into());
        let loaded = host.load_for_run(&skill, &policy).unwrap();
        let call = invoke::LoadedRequest {
            loaded: &loaded,
            policy: &policy,
            target: &target,
            args: Vec::new(),
            io: Io::default(),
        };
        let (invoked, written) = host.record(call, draft).await.unwrap();
        assert_eq!(
            invoked.finished.outcome.stdout.text(),
            if allows { "hi\n" } else { "" },
            "{:?}",
            invoked.finished.outcome
        );
        assert_eq!(
            (matches!(written, RecordingStatus::Written), place.exists()),
            (allows, allows),
            "{written:?}"
        );
        assert_eq!(std::mem::take(&mut *events.lock().unwrap()), expected);

        let kept = StoredRecording::read(&folder.path().join("recording")).unwrap();
        let seal = Seal::open(&kept.recording.sealed, &Default::default()).unwrap();
        let (scene, contents) = Scene::create(&kept, &seal, &scratch).unwrap();
        let network = RecordedNetwork::new_replay(Vec::new(), &kept.recording.sealed);
        let outside =
            RecordingIo { network: Some(Arc::new(network)), contents: Some(Arc::new(contents)) };
        let replayed = host
            .replay(ReplayRequest {
                kept: &kept,
                scene: &scene,
                outside,
                fuel: None,
                io: Io::default(),
            })
            .await
            .unwrap();
        assert_eq!(
            replayed.finished.outcome.stdout.text(),
            if allows { "hi\n" } else { "" },
            "{:?}",
            replayed.finished.outcome
        );
        assert_eq!(std::mem::take(&mut *events.lock().unwrap()), expected);
    }
}

#[tokio::test]
async fn two_hosts_of_one_process_share_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let skills = folder.path().join("skills");
    let named = skill(&skills, "says-hi", &[("x.sh", "echo hi\n")]);
    let [first, second] = ["first", "second"].map(|home| folder.path().join(home));
    let one = builder(&first).skills(&skills).build().unwrap();
    let other = builder(&second).build().unwrap();
    for home in [&first, &second] {
        copy_compiled_runtimes(&home.join("cache/components"));
    }
    let (a, b) =
        tokio::join!(one.invoke(Request::of("says-hi")), other.invoke(Request::of(&named)));
    assert_eq!(a.unwrap().outcome.stdout.text(), "hi\n");
    assert_eq!(b.unwrap().outcome.stdout.text(), "hi\n");
    for home in [&first, &second] {
        assert_eq!(
            std::fs::metadata(home).unwrap().permissions().mode() & 0o777,
            0o700,
            "only the owner may read it"
        );
        assert_eq!(
            crate::cli::ends(&std::fs::read_to_string(home.join("audit.jsonl")).unwrap()).len(),
            1
        );
    }
    // A name never refers to a folder in the current directory.
    assert!(matches!(other.invoke(Request::of("says-hi")).await, Err(InvokeError::NoSkill(_))));
    one.close().await;
    assert!(matches!(one.invoke(Request::of("says-hi")).await, Err(InvokeError::Service(_))));
    assert_eq!(
        other.invoke(Request::of(&named)).await.unwrap().outcome.status,
        Status::Exited { code: 0 }
    );
}

#[tokio::test]
async fn an_embedders_language_replaces_no_built_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("x.greet", "one\n"),
        ("y.txt", "#!/usr/bin/env greet\n"),
        ("z.broken", ""),
        ("own.py", "print('Python')\n"),
        ("calls.sh", "greet from bash && /skill/y.txt\n"),
    ];
    let skill = skill(folder.path(), "speaks", &files);
    let home = folder.path().join("home");
    let host = builder(&home).runtime(Greeting).runtime(UnbuildableRuntime).build().unwrap();
    copy_compiled_runtimes(&home.join("cache/components"));
    let run = async |name: &str| {
        host.invoke(Request::of(&skill).script(name).args(["a b"])).await.unwrap().outcome
    };
    for (script, says) in
        [("x.greet", "/skill/x.greet"), ("y.txt", "/skill/y.txt"), ("calls.sh", "from")]
    {
        let outcome = run(script).await;
        assert_eq!(
            outcome.status,
            Status::Exited { code: 0 },
            "{script}: {}",
            outcome.stderr.text()
        );
        assert!(outcome.stdout.text().contains(says), "{script}: {}", outcome.stdout.text());
    }
    assert_eq!(run("own.py").await.stdout.text(), "Python\n");
    let Status::Failed { message, .. } = run("z.broken").await.status else {
        panic!("a component that is nowhere")
    };
    assert!(message.contains("it is nowhere"), "{message}");
    // Without the language, the same file is not a script.
    let plain = builder(&folder.path().join("plain")).build().unwrap();
    let outcome = plain.invoke(Request::of(&skill).script("x.greet")).await.unwrap().outcome;
    assert!(matches!(outcome.status, Status::Invalid { .. }), "{:?}", outcome.status);
}

#[test]
fn a_missing_setting_is_named() {
    assert!(matches!(Host::builder().build(), Err(BuildError::Missing("home"))));
    assert!(matches!(
        Host::builder().home("/nowhere").build(),
        Err(BuildError::Missing("compiler"))
    ));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert!(matches!(builder(&folder.path().join("file")).build(), Err(BuildError::Folder { .. })));
}
