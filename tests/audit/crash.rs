//! Hosts that share a log, are killed at any point, or run out of disk space: no complete record is
//! lost, and no later run fails.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost_ledger::audit::{Log, LogStore, RecordFilter};

use super::chain::{Journal, record};
use super::query::numbers_of;
use crate::cli::{User, text};
use crate::hostile_host::HANG_TIMEOUT;

/// In a child process, this test is a host that writes to a log until it is killed, and reports
/// what it has written.
const WRITER: &str = "SKILLHOST_TEST_WRITER";

#[test]
fn writer() {
    use std::io::Write as _;
    let Some(setting) = std::env::var_os(WRITER) else { return };
    let setting: Value = serde_json::from_str(setting.to_str().unwrap()).unwrap();
    let log = Log::open_sealing_at(
        setting["log"].as_str().unwrap().as_ref(),
        setting["seal_at"].as_u64().unwrap(),
    )
    .unwrap();
    let mut reports = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(setting["reports"].as_str().unwrap())
        .unwrap();
    for number in 0.. {
        let mut record = record(number);
        record["writer"] = setting["writer"].clone();
        let head = log.append(&record).unwrap();
        // Reported after the record, so that every report is true; and to a file of its own, since
        // a killed process may write half a line.
        reports.write_all(format!("{} {}\n", head.sequence, head.digest).as_bytes()).unwrap();
    }
}

fn start(journal: &Journal, seal_at: u64, writer: u64, reports: &Path) -> std::process::Child {
    let setting =
        json!({ "log": journal.path(), "reports": reports, "seal_at": seal_at, "writer": writer });
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "audit::crash::writer", "--nocapture"])
        .env(WRITER, setting.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns the complete lines of every file in a folder.
fn lines(folder: &Path) -> Vec<String> {
    let texts = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    texts
        .flat_map(|text| {
            text.split_inclusive('\n')
                .filter_map(|line| Some(line.strip_suffix('\n')?.to_owned()))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn hosts_killed_at_any_point_lose_no_record() {
    const ROUNDS: u64 = 25;
    let seal_at = 8000;
    let journal = Journal::new(0, seal_at);
    let folder = journal.sibling("reports");
    std::fs::create_dir(&folder).unwrap();
    for round in 0..ROUNDS {
        let report = |writer: u64| folder.join(format!("{round}-{writer}"));
        let mut writers: Vec<_> =
            (0..3).map(|writer| start(&journal, seal_at, writer, &report(writer))).collect();
        // One is killed early, one while it moves a journal, one late, at whatever point.
        let reported = || lines(&folder).len();
        let (before, started) = (reported(), Instant::now());
        while reported() < before + 20 + (round as usize * 7) % 60 {
            assert!(
                started.elapsed() < HANG_TIMEOUT,
                "the writers of round {round} make no progress"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        for writer in &mut writers {
            std::thread::sleep(Duration::from_micros(300 * (round % 5)));
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
        if round % 6 == 5 {
            LogStore::open(&journal.path()).unwrap();
        }
    }
    let store = journal.store();
    let verified = store.verify(None).unwrap();
    assert!(verified.faults.is_empty(), "{:#?}", verified.faults);
    let mut reports = 0;
    for line in lines(&folder) {
        let (sequence, digest) = line.split_once(' ').unwrap();
        let record = store
            .record(sequence.parse().unwrap())
            .unwrap()
            .unwrap_or_else(|| panic!("record {sequence} is lost"));
        let record: Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["digest"], digest, "record {sequence}");
        reports += 1;
    }
    assert!(reports > 500, "{reports} records");
    // A writer that was killed between its record and its report has one more record.
    assert!(
        (reports..=reports + 3 * ROUNDS).contains(&verified.records),
        "{reports} were reported, {} exist",
        verified.records
    );
}

#[test]
fn torn_records_are_moved_aside_and_the_chain_continues() {
    for (what, tail) in [
        ("a part of a line", "{\"version\":2,\"time\":\"20"),
        ("a complete line without its newline", "{}"),
    ] {
        let journal = Journal::new(3, 1 << 20);
        let text = std::fs::read_to_string(journal.path()).unwrap() + tail;
        std::fs::write(journal.path(), text).unwrap();
        journal.append(3..5);
        let verified = journal.store().verify(None).unwrap();
        assert_eq!(
            (verified.records, verified.faults, verified.torn > 0),
            (5, vec![], true),
            "{what}"
        );
        assert!(std::fs::read_to_string(journal.sibling("torn")).unwrap().contains(tail), "{what}");
    }
    // The very first record.
    let journal = Journal::new(0, 1 << 20);
    std::fs::write(journal.path(), "{\"version\"").unwrap();
    journal.append(0..2);
    assert_eq!(journal.store().verify(None).unwrap().records, 2);
}

#[test]
fn a_file_that_is_not_a_log_is_left_unchanged() {
    let user = User::new();
    std::fs::write(user.work().join("notes.txt"), "my\nnotes\n").unwrap();
    let run = user.skillhost(&["run", "./hello", "--audit", "notes.txt"]);
    assert_eq!(run.status.code(), Some(74));
    assert!(text(&run.stderr).contains("its last line is not an audit record"), "{run:?}");
    assert_eq!(std::fs::read_to_string(user.work().join("notes.txt")).unwrap(), "my\nnotes\n");
}

#[test]
fn a_log_with_a_foreign_last_line_is_refused() {
    let zeros = "0".repeat(64);
    let forged = format!(
        "{{\"sequence\":99,\"previous\":\"sha256:{zeros}\",\"digest\":\"sha256:{zeros}\"}}\n"
    );
    for foreign in ["{}\n", "\n", "{\"version\":2}\n{\"version\":2", "a note\nand a torn ", &forged]
    {
        let journal = Journal::new(3, 1 << 20);
        let before = std::fs::read_to_string(journal.path()).unwrap() + foreign;
        std::fs::write(journal.path(), &before).unwrap();
        let error = journal.log().append(&record(3)).unwrap_err().to_string();
        assert!(error.contains("its last line is not an audit record"), "{foreign:?}: {error}");
        assert_eq!(std::fs::read_to_string(journal.path()).unwrap(), before, "{foreign:?}");
        assert!(!journal.sibling("torn").exists(), "{foreign:?}");
    }
}

#[test]
fn long_records_are_followed_by_others() {
    let journal = Journal::new(1, 1 << 20);
    let mut long = record(1);
    long["status"]["text"] = "x".repeat(40_000).into();
    journal.log().append(&long).unwrap();
    journal.append(2..4);
    assert_eq!(numbers_of(&journal, &RecordFilter::default()), 4);
    assert!(!journal.sibling("torn").exists(), "no record was torn");
    assert!(journal.store().verify(None).unwrap().faults.is_empty());
}

#[test]
fn a_full_journal_stays_if_its_next_name_is_taken() {
    // Every record fills the journal. The name under which the first is to be sealed is taken by a
    // file of an older log.
    let journal = Journal::new(0, 1);
    let older = journal.sibling("00000000000000000001");
    std::fs::write(&older, "older\n").unwrap();
    let log = journal.log();
    log.append(&record(0)).unwrap();
    assert_eq!(std::fs::read_to_string(&older).unwrap(), "older\n");
    // The next name is free.
    log.append(&record(1)).unwrap();
    log.settle();
    assert_eq!(numbers_of(&journal, &RecordFilter::default()), 2, "a record is gone");
}

#[test]
fn a_missing_journal_is_recreated_and_continues() {
    let journal = Journal::new(30, 3000);
    let log = journal.log();
    log.append(&record(30)).unwrap();
    drop(journal.store());
    std::fs::remove_file(journal.path()).unwrap();
    assert_eq!(log.append(&record(31)).unwrap().sequence, 32);
    assert_eq!(journal.store().verify(None).unwrap().faults, []);
    // From a sealed journal that no host has imported.
    let journal = Journal::new(0, 1);
    journal.append(0..1);
    std::fs::remove_file(journal.path()).unwrap();
    assert_eq!(journal.log().append(&record(1)).unwrap().sequence, 2);
}

#[test]
fn a_full_disk_fails_only_the_current_run() {
    let user = User::new();
    // Until there is room for only a part of the next record. A limit on file size, in KiB, stands
    // for a full disk.
    let journal = user.work().join("log.jsonl");
    let before = loop {
        assert_eq!(
            user.skillhost(&["run", "./hello", "--audit", "log.jsonl"]).status.code(),
            Some(0)
        );
        let written = std::fs::read(&journal).unwrap();
        if written.len() % 1024 > 700 {
            break written;
        }
    };
    let runs = crate::cli::ends(&text(&before)).len() as u64;
    let script = format!(
        "ulimit -f {} && trap '' XFSZ && exec skillhost run ./hello --audit log.jsonl",
        before.len() / 1024 + 1
    );
    let mut run = user.command("bash");
    let run = run.args(["-c", &script]).output().unwrap();
    assert_eq!(run.status.code(), Some(74), "{run:?}");
    assert!(text(&run.stderr).contains("File too large"), "{run:?}");
    assert_eq!(std::fs::read(&journal).unwrap(), before, "the partial record is removed");
    assert_eq!(user.skillhost(&["run", "./hello", "--audit", "log.jsonl"]).status.code(), Some(0));
    let verified = LogStore::open(&journal).unwrap().verify(None).unwrap();
    assert_eq!((verified.records, verified.faults, verified.unfinished), (2 * runs + 2, vec![], 0));
}

#[test]
fn an_unwritable_folder_fails_the_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::new();
    let folder = user.work().join("kept");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut run = user.command(env!("CARGO_BIN_EXE_skillhost"));
    run.args(["run", "./hello", "--audit", "kept/log.jsonl"]);
    if rustix::process::geteuid().is_root() {
        // Modes do not stop root, so the command gives up that privilege.
        let status = Command::new("setpriv").args(["--bounding-set", "-all", "true"]).status();
        if !status.is_ok_and(|status| status.success()) {
            return;
        }
        let inner = run;
        run = user.command("setpriv");
        run.args(["--bounding-set", "-all", "--inh-caps", "-all"])
            .arg(inner.get_program())
            .args(inner.get_args());
    }
    let run = run.output().unwrap();
    assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(74), ""), "{run:?}");
    assert!(text(&run.stderr).contains("Permission denied"), "{run:?}");
}

#[test]
fn hosts_sharing_a_log_share_one_chain() {
    let journal = Journal::new(0, 4000);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let log = journal.log();
            std::thread::spawn(move || {
                (0..100).for_each(|number| drop(log.append(&record(number)).unwrap()))
            })
        })
        .collect();
    let shared = journal.log();
    std::thread::scope(|scope| {
        (0..4).for_each(|_| {
            drop(
                scope.spawn(|| {
                    (0..50).for_each(|number| drop(shared.append(&record(number)).unwrap()))
                }),
            )
        })
    });
    let heads = (0..10).map(|_| journal.store().head().unwrap().sequence).collect::<Vec<_>>();
    assert!(heads.is_sorted(), "{heads:?}");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    shared.settle();
    let store = journal.store();
    let verified = store.verify(None).unwrap();
    assert_eq!((verified.records, verified.faults), (600, vec![]));
    assert_eq!(numbers_of(&journal, &RecordFilter::default()), 600);
    let remaining = std::fs::read_dir(journal.path().parent().unwrap()).unwrap().count();
    assert!(remaining <= 4, "{remaining} files: the journal, the database and SQLite's own files");
}

#[test]
fn a_killed_run_is_recorded_completely_or_not_at_all() {
    let user = User::new();
    for delay in 0..12 {
        let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
        let mut child = command
            .args(["run", "./hello"])
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(5 * delay));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(user.skillhost(&["run", "./hello"]).status.code(), Some(0));
    let verified = LogStore::open(&user.home().join(".local/state/skillhost/audit.jsonl"))
        .unwrap()
        .verify(None)
        .unwrap();
    assert!(verified.faults.is_empty() && verified.records >= 2, "{verified:?}");
}

#[test]
fn a_killed_host_leaves_the_start_of_its_run() {
    let user = User::new();
    user.skillhost(&["run", "./hello"]);
    let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
    let mut child = command
        .args(["run", "./spin", "--timeout", "10m", "--", "secret"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let list = || {
        let run = user.skillhost(&["audit", "list", "--status", "started"]);
        assert!(run.status.success(), "{run:?}");
        text(&run.stdout)
    };
    let started = Instant::now();
    while !list().contains("spin") {
        assert!(started.elapsed() < HANG_TIMEOUT, "the start is not recorded");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(list().contains(" running "), "{}", list());
    child.kill().unwrap();
    child.wait().unwrap();
    let listed = list();
    assert!(listed.contains("started, no end recorded") && !listed.contains("running"), "{listed}");
    assert_eq!(listed.lines().count(), 2, "completed runs are not listed as incomplete: {listed}");
    let verified = user.skillhost(&["audit", "verify"]);
    assert!(
        verified.status.success()
            && text(&verified.stdout).contains("1 run started, no end recorded"),
        "{verified:?}"
    );
    // Filled in: who ran what.
    let export = text(&user.skillhost(&["audit", "export"]).stdout);
    let start: Value = serde_json::from_str(export.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&start["status"]["kind"], &start["skill"]["name"], &start["owner"]["pid"]),
        (&"started".into(), &"spin".into(), &child.id().into())
    );
    assert!(start["program"]["component"].is_string() && !export.contains("secret"), "{start}");
    // Records from before this version are found from the journal alone.
    std::fs::remove_file(user.home().join(".local/state/skillhost/audit.jsonl.db")).unwrap();
    assert_eq!(list().lines().count(), 2);
}

#[test]
fn a_run_needs_a_recorded_start() {
    let user = User::new();
    let journal = user.work().join("log.jsonl");
    // A folder has the name of the lock file.
    std::fs::create_dir(user.work().join("log.jsonl.running")).unwrap();
    let run = user.skillhost(&["run", "./hello", "--audit", "log.jsonl"]);
    assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(74), ""), "{run:?}");
    let log = std::fs::read_to_string(&journal).unwrap();
    let record: Value = serde_json::from_str(log.trim_end()).unwrap();
    assert_eq!((&record["status"]["kind"], record.get("run")), (&"failed".into(), None));
}

#[test]
fn concurrent_first_readers_of_a_log_agree() {
    let journal = Journal::new(0, 1 << 20);
    journal.append(0..200);
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let looks: Vec<_> =
            (0..8).map(|_| scope.spawn(|| journal.store().verify(None).unwrap().records)).collect();
        looks.into_iter().map(|look| look.join().unwrap()).collect()
    });
    assert_eq!(counts, [200; 8]);
}
