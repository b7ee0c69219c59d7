//! The chain, and what `skillhost audit verify` finds when the log was altered.

use std::path::PathBuf;

use serde_json::{Value, json};
use skillhost_ledger::audit::{
    AuditError, ChainHead, FaultKind, Log, LogStore, RecordFilter, RetentionWindow, Verification,
};
use skillhost_policy::Retention;

use super::digest;
use crate::cli::User;

/// A log of `count` records, sealed whenever a journal reaches this size.
pub struct Journal {
    dir: tempfile::TempDir,
    seal_at: u64,
}

impl Journal {
    pub fn new(count: u64, seal_at: u64) -> Journal {
        let journal = Journal { dir: tempfile::tempdir().unwrap(), seal_at };
        journal.append(0..count);
        journal
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("audit.jsonl")
    }

    pub fn sibling(&self, extension: &str) -> PathBuf {
        self.dir.path().join(format!("audit.jsonl.{extension}"))
    }

    pub fn log(&self) -> Log {
        Log::open_sealing_at(&self.path(), self.seal_at).unwrap()
    }

    pub fn append(&self, numbers: std::ops::Range<u64>) {
        let log = self.log();
        numbers.for_each(|number| drop(log.append(&record(number)).unwrap()));
        log.settle();
    }

    pub fn store(&self) -> LogStore {
        LogStore::open(&self.path()).unwrap()
    }

    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    pub fn write_lines(&self, lines: &[String]) {
        std::fs::write(
            self.path(),
            lines.iter().map(|line| format!("{line}\n")).collect::<String>(),
        )
        .unwrap();
    }

    /// Returns the faults: kind, first and last record.
    fn faults(&self) -> Vec<(FaultKind, u64, u64)> {
        faults(&self.store().verify(None).unwrap())
    }
}

fn faults(verified: &Verification) -> Vec<(FaultKind, u64, u64)> {
    verified.faults.iter().map(|fault| (fault.kind, fault.sequence, fault.last)).collect()
}

/// Returns something like a record, of one of three skills, ten minutes after the previous one.
pub fn record(number: u64) -> Value {
    let skill = ["one", "two", "three"][(number % 3) as usize];
    let time = jiff::Timestamp::from_second(1_800_000_000 + 600 * number as i64).unwrap();
    let (kind, host) = if number.is_multiple_of(10) {
        ("denied", "api.example.com")
    } else {
        ("exited", "example.org")
    };
    let mut record = json!({
        "version": 2, "time": time.to_string(), "skill": { "name": skill }, "status": { "kind": kind },
        "program": { "name": "python3", "script": { "path": format!("scripts/{}.py", number % 7) } },
        "requests": [{ "url": format!("https://{host}/x") }], "processes": [{ "argv0": "jq" }],
    });
    // Older records have neither.
    if number.is_multiple_of(2) {
        record["user"] = json!({ "uid": 1000, "name": "anna" });
    }
    if number.is_multiple_of(20) {
        record["session"] = json!({ "id": "agent 0", "client": "editor" });
    }
    record
}

#[test]
fn each_line_has_the_digest_of_the_previous_one() {
    let user = User::new();
    for args in [["run", "./hello"], ["run", "./code3"], ["run", "./nowhere"]] {
        user.skillhost(&args);
    }
    let log =
        std::fs::read_to_string(user.home().join(".local/state/skillhost/audit.jsonl")).unwrap();
    let mut before = format!("sha256:{}", "0".repeat(64));
    for (index, line) in log.lines().enumerate() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&record["sequence"], &record["previous"]),
            (&(index + 1).into(), &before.as_str().into())
        );
        before = digest(line.rsplit_once(",\"digest\":").unwrap().0.as_bytes());
        assert_eq!(record["digest"], before);
    }
    // Two that ran, with their starts, and one that could not be loaded.
    assert_eq!(log.lines().count(), 5);
}

#[test]
fn an_untouched_log_verifies() {
    for seal_at in [1 << 20, 2000, 1] {
        let journal = Journal::new(50, seal_at);
        let verified = journal.store().verify(None).unwrap();
        assert_eq!(
            (verified.records, verified.head.sequence, faults(&verified)),
            (50, 50, vec![]),
            "sealed at {seal_at}"
        );
        // Again, now that everything is in the database; and again with more records.
        assert_eq!(journal.faults(), []);
        journal.append(50..60);
        assert_eq!((journal.faults(), journal.store().head().unwrap().sequence), (vec![], 60));
    }
}

/// Alterations of the log, and the expected faults with their records.
type Case = (&'static str, fn(&mut Vec<String>), &'static [(FaultKind, u64, u64)]);

#[test]
fn changes_to_the_journal_are_located() {
    use FaultKind::*;
    let cases: [Case; 8] = [
        (
            "a word changed",
            |lines| lines[4] = lines[4].replace("python3", "python2"),
            &[(Changed, 5, 5)],
        ),
        ("a record taken out", |lines| drop(lines.remove(4)), &[(Missing, 5, 5)]),
        ("three taken out", |lines| drop(lines.drain(4..7)), &[(Missing, 5, 7)]),
        ("the first taken out", |lines| drop(lines.remove(0)), &[(Missing, 1, 1)]),
        ("two in each other's place", |lines| lines.swap(4, 5), &[(Moved, 5, 5)]),
        ("one put in twice", |lines| lines.insert(5, lines[4].clone()), &[(Moved, 5, 5)]),
        ("a line put in", |lines| lines.insert(5, "{}".into()), &[(Foreign, 5, 5)]),
        ("a rewritten record", |lines| lines[4] = rewritten(&lines[4]), &[(Replaced, 5, 5)]),
    ];
    for (what, tamper, found) in cases {
        let journal = Journal::new(10, 1 << 20);
        let mut lines = journal.lines();
        tamper(&mut lines);
        journal.write_lines(&lines);
        assert_eq!(journal.faults(), found, "{what}");
    }
    // A changed number causes further faults.
    let journal = Journal::new(10, 1 << 20);
    let mut lines = journal.lines();
    lines[4] = lines[4].replace("\"sequence\":5", "\"sequence\":99");
    journal.write_lines(&lines);
    let faults = journal.faults();
    assert!(
        [(Missing, 5, 5), (Changed, 99, 99)].iter().all(|fault| faults.contains(fault)),
        "{faults:?}"
    );
}

/// The same record with another program, and a digest that the host would compute.
fn rewritten(line: &str) -> String {
    let content = line.rsplit_once(",\"digest\":").unwrap().0.replace("python3", "python2");
    format!("{content},\"digest\":\"{}\"}}", digest(content.as_bytes()))
}

#[test]
fn changes_after_a_read_of_the_log_are_found() {
    use FaultKind::*;
    let cases: [Case; 3] = [
        (
            "a word changed",
            |lines| lines[4] = lines[4].replace("python3", "python2"),
            &[(Foreign, 5, 5)],
        ),
        ("the end cut off", |lines| lines.truncate(7), &[(Missing, 8, 10)]),
        ("a line put in", |lines| lines.insert(5, "{}".into()), &[(Foreign, 5, 5)]),
    ];
    for (what, tamper, found) in cases {
        let journal = Journal::new(10, 1 << 20);
        journal.store();
        let mut lines = journal.lines();
        tamper(&mut lines);
        journal.write_lines(&lines);
        assert_eq!(journal.faults(), found, "{what}");
        // A fault stays known, even if the journal is gone.
        std::fs::remove_file(journal.path()).unwrap();
        assert!(!journal.faults().is_empty(), "{what}");
    }
}

#[test]
fn changes_to_the_database_are_located() {
    use FaultKind::*;
    for (statement, found) in [
        ("DELETE FROM record WHERE sequence = 5", (Missing, 5, 5)),
        ("DELETE FROM record WHERE sequence BETWEEN 5 AND 7", (Missing, 5, 7)),
        (
            "UPDATE record SET line = CAST(replace(CAST(line AS TEXT), 'python3', 'python2') AS BLOB) WHERE sequence = 5",
            (Changed, 5, 5),
        ),
        (
            "UPDATE record SET line = (SELECT line FROM record WHERE sequence = 6) WHERE sequence = 5",
            (Changed, 5, 5),
        ),
        ("UPDATE record SET skill = 'other' WHERE sequence = 5", (Misfiled, 5, 5)),
        ("UPDATE record SET status = 'exited' WHERE sequence = 11", (Misfiled, 11, 11)),
        ("UPDATE record SET time = 0 WHERE sequence = 5", (Misfiled, 5, 5)),
        ("DELETE FROM name WHERE sequence = 5", (Misfiled, 5, 5)),
        ("INSERT INTO name VALUES ('host', 'innocent.example', 0, 5)", (Misfiled, 0, 0)),
        (
            "DELETE FROM record WHERE sequence <= 5; INSERT INTO pruned SELECT 5, 'sha256:0'",
            (Missing, 1, 5),
        ),
    ] {
        let journal = Journal::new(30, 2000);
        drop(journal.store());
        let db = rusqlite::Connection::open(journal.sibling("db")).unwrap();
        db.execute_batch(statement).unwrap();
        drop(db);
        let faults = journal.faults();
        assert!(faults.contains(&found), "{statement}: {faults:?}");
    }
}

#[test]
fn a_saved_head_reveals_a_truncated_log() {
    let journal = Journal::new(10, 1 << 20);
    let head = journal.store().head().unwrap();
    assert_eq!(faults(&journal.store().verify(Some(&head)).unwrap()), []);
    // The journal loses its end, and so does the database.
    let lines = journal.lines();
    journal.write_lines(&lines[..7]);
    std::fs::remove_file(journal.sibling("db")).unwrap();
    assert_eq!(journal.faults(), [], "the remaining files reveal nothing");
    assert_eq!(
        faults(&journal.store().verify(Some(&head)).unwrap()),
        [(FaultKind::Missing, 8, 10)]
    );
    // Other records in place of the lost ones.
    journal.append(20..23);
    assert_eq!(
        faults(&journal.store().verify(Some(&head)).unwrap()),
        [(FaultKind::Replaced, 10, 10)]
    );
    let other = ChainHead { sequence: 3, ..head };
    assert_eq!(
        faults(&journal.store().verify(Some(&other)).unwrap()),
        [(FaultKind::Replaced, 3, 3)]
    );
}

#[test]
fn a_pruned_log_can_still_be_verified() {
    for seal_at in [1 << 20, 3000] {
        let journal = Journal::new(30, seal_at);
        let since = jiff::Timestamp::from_second(1_800_000_000 + 600 * 10).unwrap();
        let removal = journal
            .store()
            .prune(&journal.log(), RetentionWindow { since: Some(since), bytes: None })
            .unwrap()
            .unwrap();
        assert_eq!(removal.pruned.sequence, 10);
        // 20 remaining records, and the one that records the removal.
        let verified = journal.store().verify(None).unwrap();
        assert_eq!(
            (verified.records, verified.pruned.as_ref(), faults(&verified)),
            (21, Some(&removal.pruned), vec![])
        );
        assert!(journal.store().record(10).unwrap().is_none());
        journal.append(30..40);
        let removal = journal
            .store()
            .prune(&journal.log(), RetentionWindow { since: None, bytes: Some(5000) })
            .unwrap()
            .unwrap();
        let verified = journal.store().verify(None).unwrap();
        assert_eq!(
            (verified.head.sequence - verified.records, faults(&verified)),
            (removal.pruned.sequence, vec![])
        );
        // Everything may be removed: the chain continues.
        journal
            .store()
            .prune(&journal.log(), RetentionWindow { since: None, bytes: Some(0) })
            .unwrap()
            .unwrap();
        journal.append(40..41);
        assert_eq!((journal.faults(), journal.store().head().unwrap().sequence), (vec![], 44));
        assert!(
            journal
                .store()
                .prune(
                    &journal.log(),
                    RetentionWindow { since: Some(jiff::Timestamp::UNIX_EPOCH), bytes: None }
                )
                .unwrap()
                .is_none()
        );
    }
}

/// Writes a log of that many records with the given age, under a retention, sealed at about ten
/// records.
fn journal_of_age(count: u64, age: jiff::SignedDuration, retention: Retention) -> Journal {
    let journal = Journal { dir: tempfile::tempdir().unwrap(), seal_at: 3000 };
    let log = journal.log();
    for number in 0..count {
        let mut record = record(number);
        record["time"] = (jiff::Timestamp::now() - age).to_string().into();
        log.append_with_retention(&record, retention).unwrap();
        // Like a host that runs slowly, so that each sealed journal is imported before the next is
        // full.
        log.settle();
    }
    journal
}

#[test]
fn expired_records_are_removed_with_a_full_journal() {
    let day = std::time::Duration::from_secs(86_400);
    let (new, old) =
        (jiff::SignedDuration::from_secs(0), jiff::SignedDuration::from_hours(24 * 100));
    let aged = Retention { age: Some(day * 90), bytes: None };
    let sized = Retention { age: None, bytes: Some(5000) };
    for (age, retention, goes) in [
        (new, Retention::default(), false),
        (old, Retention::default(), false),
        (new, aged, false),
        (old, aged, true),
        (new, sized, true),
        (new, Retention { bytes: Some(1 << 20), ..aged }, false),
        (old, Retention { bytes: Some(1 << 20), ..aged }, true),
    ] {
        let journal = journal_of_age(50, age, retention);
        let store = journal.store();
        let verified = store.verify(None).unwrap();
        assert_eq!(
            (verified.pruned.is_some(), faults(&verified)),
            (goes, vec![]),
            "{age:?} {retention:?}"
        );
        // The removed and the remaining records are complete, and so are the records of the
        // removals.
        let first = verified.pruned.map_or(0, |head| head.sequence);
        assert_eq!(verified.head.sequence - first, verified.records);
        assert!(verified.head.sequence >= 50);
        if retention == sized {
            let mut bytes = 0;
            store
                .query(&RecordFilter::default(), |line| -> Result<(), AuditError> {
                    bytes += line.len() + 1;
                    Ok(())
                })
                .unwrap();
            // Those since the last full journal are kept too.
            assert!(bytes < 5000 + 3000 + 1000, "{bytes}");
        }
    }
}

#[test]
fn only_a_full_journal_opens_the_database() {
    let user = User::new();
    let config = user.home().join(".config/skillhost");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("policy.yaml"),
        "audit: { keep: 1s, keep-size: 0 }\ndefault: { allow: [Read] }\n",
    )
    .unwrap();
    user.skillhost(&["run", "./hello"]);
    user.skillhost(&["run", "./hello"]);
    let log = user.home().join(".local/state/skillhost/audit.jsonl");
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 4);
    assert!(!log.with_extension("jsonl.db").exists());
    // `audit prune` does not wait for a full journal.
    let pruned = user.skillhost(&["audit", "prune", "--json"]);
    let pruned: Value = serde_json::from_slice(&pruned.stdout).unwrap();
    assert_eq!(pruned["pruned"]["sequence"], 4);
    assert!(user.skillhost(&["audit", "verify"]).status.success());
}
