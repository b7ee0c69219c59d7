//! `skillhost audit`: finds records by each filter, and prints them in each format.

use serde_json::{Value, json};
use skillhost_ledger::audit::{AuditError, RecordFilter};

use super::chain::{Journal, record};
use crate::cli::{User, text};

const COUNT: u64 = 200;

fn numbers(journal: &Journal, filter: &RecordFilter) -> Vec<u64> {
    let mut found = Vec::new();
    let each = |line: &[u8]| {
        found.push(serde_json::from_slice::<Value>(line).unwrap()["sequence"].as_u64().unwrap());
        Ok::<(), AuditError>(())
    };
    journal.store().query(filter, each).unwrap();
    found
}

#[test]
fn each_filter_matches_a_full_scan() {
    let journal = Journal::new(COUNT, 10_000);
    let time = |number: i64| jiff::Timestamp::from_second(1_800_000_000 + 600 * number).unwrap();
    let text = |text: &str| Some(text.to_owned());
    let all = RecordFilter::default();
    type Matches = fn(u64) -> bool;
    let cases: [(RecordFilter, Matches); 13] = [
        (all.clone(), |_| true),
        (RecordFilter { skill: text("two"), ..all.clone() }, |n| n % 3 == 1),
        (RecordFilter { status: text("denied"), ..all.clone() }, |n| n % 10 == 0),
        (RecordFilter { program: text("scripts/4.py"), ..all.clone() }, |n| n % 7 == 4),
        (RecordFilter { program: text("jq"), ..all.clone() }, |_| true),
        (RecordFilter { host: text("api.example.com"), ..all.clone() }, |n| n % 10 == 0),
        (RecordFilter { since: Some(time(50)), until: Some(time(60)), ..all.clone() }, |n| {
            (50..60).contains(&n)
        }),
        (
            RecordFilter {
                skill: text("one"),
                status: text("exited"),
                host: text("example.org"),
                program: text("jq"),
                since: Some(time(100)),
                ..all.clone()
            },
            |n| n % 3 == 0 && n % 10 != 0 && n >= 100,
        ),
        (RecordFilter { user: text("anna"), ..all.clone() }, |n| n % 2 == 0),
        (RecordFilter { user: text("1000"), session: text("editor"), ..all.clone() }, |n| {
            n % 20 == 0
        }),
        (
            RecordFilter {
                session: text("agent 0"),
                program: text("jq"),
                skill: text("one"),
                ..all.clone()
            },
            |n| n % 60 == 0,
        ),
        (RecordFilter { skill: text("four"), ..all.clone() }, |_| false),
        (RecordFilter { host: text("x' OR 1 --"), ..all.clone() }, |_| false),
    ];
    for (filter, holds) in cases {
        let mut expected: Vec<u64> =
            (0..COUNT).filter(|number| holds(*number)).map(|number| number + 1).collect();
        assert_eq!(
            numbers(&journal, &RecordFilter { oldest_first: true, ..filter.clone() }),
            expected,
            "{filter:?}"
        );
        expected.reverse();
        expected.truncate(7);
        assert_eq!(
            numbers(&journal, &RecordFilter { limit: Some(7), ..filter.clone() }),
            expected,
            "{filter:?}"
        );
    }
}

#[test]
fn the_command_line_lists_shows_verifies_and_exports() {
    let user = User::new();
    user.skillhost(&["run", "./hello"]);
    user.skillhost(&["run", "./code3"]);
    user.skillhost(&["run", "./nowhere"]);
    let ok = |args: &[&str]| {
        let run = user.skillhost(&[&["audit"], args].concat());
        assert!(run.status.success() && run.stderr.is_empty(), "{args:?}: {run:?}");
        text(&run.stdout)
    };
    let table = ok(&["list"]);
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        (rows.len(), &rows[1][0], &rows[3][2..6]),
        (4, &"5", &["hello", "hello", "exited", "0"][..]),
        "{table}"
    );
    assert_eq!(ok(&["list", "--status", "exited", "--json"]).lines().count(), 2);
    assert_eq!(
        ok(&["list", "--skill", "code3", "--since", "1h", "--limit", "1"]).lines().count(),
        2
    );
    assert_eq!(ok(&["list", "--until", "2020-01-01", "--json"]), "");
    // Each record has the user; a run from the command line has no session.
    let uid = rustix::process::getuid().as_raw();
    let last: Value = serde_json::from_str(&ok(&["show", "5", "--json"])).unwrap();
    assert_eq!((&last["user"]["uid"], &last["session"]), (&uid.into(), &Value::Null));
    assert_eq!(ok(&["list", "--user", &uid.to_string(), "--json"]).lines().count(), 3);
    assert_eq!(ok(&["list", "--user", "nobody-here", "--json"]), "");
    assert_eq!(ok(&["list", "--session", "editor", "--json"]), "");
    let shown: Value = serde_json::from_str(&ok(&["show", "4", "--json"])).unwrap();
    assert_eq!((&shown["skill"]["name"], &shown["sequence"]), (&"code3".into(), &4.into()));
    let journal =
        std::fs::read_to_string(user.home().join(".local/state/skillhost/audit.jsonl")).unwrap();
    assert_eq!(ok(&["export"]), journal, "exported records equal those in the log");
    let with_user = journal.matches(&format!(r#""user":{{"uid":{uid}"#)).count();
    assert_eq!(with_user, 5, "records of starts and of ends");
    assert_eq!(
        ok(&["export", "--form", "csv", "--skill", "hello"])
            .lines()
            .nth(1)
            .unwrap()
            .split(',')
            .nth(2),
        Some("hello")
    );
    let head = ok(&["head"]);
    assert!(ok(&["verify", "--head", head.trim()]).contains("OK: 5 records, chain intact"));
    let verified: Value = serde_json::from_str(&ok(&["verify", "--json"])).unwrap();
    assert_eq!((&verified["records"], &verified["faults"]), (&5.into(), &Value::Array(vec![])));
    let pruned: Value =
        serde_json::from_str(&ok(&["prune", "--keep-size", "0", "--json"])).unwrap();
    assert_eq!(pruned["pruned"]["sequence"], 5);
    assert!(ok(&["list"]).contains("pruned up to 5"));
    assert!(ok(&["verify"]).contains("`audit prune` removed"));
    for (args, code) in [
        (&["show", "1"][..], 64),
        (&["list", "--audit", "nowhere.jsonl"], 74),
        (&["list", "--audit", "/dev/full"], 74),
        (&["list", "--since", "soon"], 64),
        (&["verify", "--head", "3:abc"], 64),
        (&["prune"], 64),
    ] {
        let run = user.skillhost(&[&["audit"], args].concat());
        assert_eq!(run.status.code(), Some(code), "{args:?}: {run:?}");
    }
    // An altered log.
    std::fs::write(
        user.home().join(".local/state/skillhost/audit.jsonl"),
        journal.replace("code3", "code4"),
    )
    .unwrap();
    let run = user.skillhost(&["audit", "verify"]);
    assert_eq!(run.status.code(), Some(1), "{run:?}");
}

#[test]
fn only_this_user_can_read_the_database() {
    use std::os::unix::fs::PermissionsExt as _;
    let journal = Journal::new(3, 1 << 20);
    let store = journal.store();
    for file in ["db", "db-wal"] {
        assert_eq!(
            std::fs::metadata(journal.sibling(file)).unwrap().permissions().mode() & 0o777,
            0o600,
            "{file}"
        );
    }
    drop(store);
}

/// Not part of the test suite, because timing differs between machines: `cargo test -p
/// skillhost-cli --test main -- --ignored a_million --nocapture` prints how long queries over a
/// million records take.
#[test]
#[ignore = "takes a minute and half a gigabyte"]
#[expect(clippy::print_stderr, reason = "this measurement prints times")]
fn a_million_records() {
    let timed = |what: &str, work: &mut dyn FnMut() -> usize| {
        let started = std::time::Instant::now();
        let count = work();
        eprintln!("{:9.1} ms  {what}: {count}", started.elapsed().as_secs_f64() * 1e3);
    };
    // A record of usual size, again and again, without sealing journals.
    let mut usual = record(1);
    usual["padding"] = "x".repeat(1000).into();
    let place = Journal::new(0, u64::MAX);
    let alone = place.log();
    timed("100,000 appended alone", &mut || {
        (0..100_000).for_each(|_| drop(alone.append(&usual).unwrap()));
        100_000
    });
    let journal = Journal::new(0, 4 << 20);
    timed("append", &mut || {
        journal.append(0..1_000_000);
        1_000_000
    });
    timed("open and take in what is left", &mut || {
        usize::try_from(journal.store().head().unwrap().sequence).unwrap()
    });
    timed("open", &mut || usize::try_from(journal.store().head().unwrap().sequence).unwrap());
    let name = |name: &str| Some(name.to_owned());
    let time = |number: i64| jiff::Timestamp::from_second(1_800_000_000 + 600 * number).ok();
    let page = RecordFilter { limit: Some(50), ..RecordFilter::default() };
    for (what, filter) in [
        ("the newest", page.clone()),
        ("of a skill", RecordFilter { skill: name("two"), ..page.clone() }),
        ("denied", RecordFilter { status: name("denied"), ..page.clone() }),
        (
            "of a skill and denied",
            RecordFilter { skill: name("two"), status: name("denied"), ..page.clone() },
        ),
        ("of a script", RecordFilter { program: name("scripts/4.py"), ..page.clone() }),
        (
            "that asked a host, in a range of times",
            RecordFilter {
                host: name("api.example.com"),
                since: time(500_000),
                until: time(501_000),
                ..page.clone()
            },
        ),
        ("of none", RecordFilter { skill: name("none"), ..page.clone() }),
        (
            "a skill that never asked a host",
            RecordFilter { skill: name("none"), host: name("api.example.com"), ..page.clone() },
        ),
        ("all", RecordFilter::default()),
    ] {
        timed(what, &mut || numbers_of(&journal, &filter));
    }
    timed("verify", &mut || journal.store().verify(None).unwrap().records as usize);
    assert_eq!(record(0)["version"], 2);
}

/// Returns how many records a filter finds.
pub fn numbers_of(journal: &Journal, filter: &RecordFilter) -> usize {
    let mut count = 0;
    journal
        .store()
        .query::<AuditError>(filter, |_| {
            count += 1;
            Ok(())
        })
        .unwrap();
    count
}

#[test]
fn a_machine_without_runs_has_an_empty_log() {
    let user = User::new();
    let state = user.work().join("fresh-state");
    let audit = |args: &[&str]| {
        let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.env("XDG_STATE_HOME", &state).arg("audit").args(args).output().unwrap()
    };
    for (args, stdout) in [
        (&["list"][..], "no run is recorded yet\n"),
        (&["tail"], "no run is recorded yet\n"),
        (&["show", "1"], "no run is recorded yet\n"),
        (&["verify"], "no run is recorded yet\n"),
        (&["list", "--json"], ""),
        (&["tail", "--json"], ""),
        (&["show", "1", "--json"], "null\n"),
        (&["head"], ""),
        (&["export"], ""),
    ] {
        let answer = audit(args);
        assert_eq!(answer.status.code(), Some(0), "{args:?}: {answer:?}");
        assert_eq!(text(&answer.stdout), stdout, "{args:?}");
    }
    let verified: Value = serde_json::from_slice(&audit(&["verify", "--json"]).stdout).unwrap();
    assert_eq!((&verified["records"], &verified["faults"]), (&json!(0), &json!([])));

    // A log that was named, or of which a record is known, must be there.
    let head = format!("1:sha256:{}", "0".repeat(64));
    for args in [&["list", "--audit", "missing.jsonl"][..], &["verify", "--head", &head]] {
        assert_eq!(audit(args).status.code(), Some(74), "{args:?}");
    }
    assert!(!state.exists(), "a query creates nothing");
}

#[test]
fn a_removed_log_is_not_an_empty_one() {
    let user = User::new();
    user.skillhost(&["run", "./hello"]);
    let state = user.home().join(".local/state/skillhost");
    for end in ["", ".db", ".db-wal", ".db-shm"] {
        // SQLite may have removed the last two.
        std::fs::remove_file(state.join(format!("audit.jsonl{end}"))).ok();
    }
    for action in ["verify", "list", "head"] {
        let answer = user.skillhost(&["audit", action]);
        assert_eq!(answer.status.code(), Some(74), "{action}: {answer:?}");
    }
}

#[test]
fn audit_show_and_tail_print_readable_records() {
    use std::io::{BufRead as _, BufReader};
    let user = User::new();
    user.skillhost(&["run", "./hello", "--workspace", "data"]);
    let ok = |args: &[&str]| text(&user.skillhost(&[&["audit"], args].concat()).stdout);
    let (list, shown) = (ok(&["list"]), ok(&["show", "2"]));
    let work = user.work().canonicalize().unwrap().join("data").display().to_string();
    assert!(list.contains("workspace") && list.lines().nth(1).unwrap().contains(&work), "{list}");
    for line in ["record 2\n", "  skill      hello path sha256:", "  status     exited 0\n"] {
        assert!(shown.contains(line), "{line:?} in {shown}");
    }
    assert!(shown.contains(&format!("  workspace  {work} write\n")), "{shown}");
    assert!(shown.contains("\n  user       ") && !shown.contains("\n  session "), "{shown}");
    let mut follow = user.command(env!("CARGO_BIN_EXE_skillhost"));
    let follow =
        follow.args(["audit", "tail", "-f", "--json"]).stdout(std::process::Stdio::piped());
    let mut follow = follow.spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["sequence"], 2);
    user.skillhost(&["run", "./code3"]);
    let added = std::iter::repeat_with(next).find(|record| record["status"]["kind"] == "exited");
    assert_eq!(added.unwrap()["status"]["code"], 3);
    follow.kill().unwrap();
    follow.wait().unwrap();
    assert_eq!(ok(&["tail", "--json"]).lines().count(), 2);
    let tail = ok(&["tail"]);
    assert!(tail.lines().next_back().unwrap().contains("  code3  code3  exited 3  0  "), "{tail}");
}
