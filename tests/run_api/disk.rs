//! A server that cannot write to its disk.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use skillhost_server::api::tenants::new_token;

use super::sessions::{Session, until as until_program};
use super::{ApiServer, tenants_file};
use crate::hostile_host::HANG_TIMEOUT;
use crate::mcp::Place;
use crate::mcp::http::Server;

/// Starts a server that a limit on the size of its files does not end: writes beyond it fail.
fn server_with_limit(place: &Place, args: &[&str]) -> Server {
    let command = place.server("serve", &[&["--listen", "127.0.0.1:0"], args].concat());
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    Server::of(&mut shell)
}

/// Lets no file of the server grow beyond this, as a full disk would; `None`: there is room again.
fn limit_files(server: &Server, bytes: Option<u64>) {
    let Rlimit { current, maximum } = getrlimit(Resource::Fsize);
    let limit = Rlimit { current: bytes.or(current), maximum };
    prlimit(Some(Pid::from_child(&server.child)), Resource::Fsize, limit).unwrap();
}

#[test]
fn queued_runs_and_results_outlast_a_full_disk() {
    let place = Place::new();
    let (token, sha256) = new_token();
    let file = tenants_file(&place, &[("one", &sha256, "quotas: { running: 1 }")]);
    let mut server = server_with_limit(&place, &["--tenants", file.to_str().unwrap()]);
    let mut stderr = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let server = ApiServer { server, token };
    let mut log = Vec::new();
    let mut says = |what: &str| {
        loop {
            let line = stderr.next().expect("the server has ended").unwrap();
            let is_it = line.contains(what);
            log.push(line);
            if is_it {
                return;
            }
        }
    };

    // The end of a run. What it has printed needs more room in the database than there is, and its audit
    // record does not.
    let command = "x=x; for ((i = 0; i < 13; i++)); do x=$x$x; done; echo $x; sleep 4";
    let id = server.submit(&json!({ "skill": "scribe", "target": { "command": command } }));
    let began = Instant::now();
    while server.get(&format!("/v1/runs/{id}/stdout")).body.len() <= 8192 {
        assert!(began.elapsed() < HANG_TIMEOUT, "the run prints nothing");
        std::thread::sleep(Duration::from_millis(10));
    }
    limit_files(&server.server, Some(16 << 10));
    says("cannot store the end of a run yet");
    assert_eq!(server.get(&format!("/v1/runs/{id}")).json()["status"], "running");
    limit_files(&server.server, None);
    let result = server.result(&id);
    assert_eq!(result["run"]["status"], "succeeded", "{result}");
    assert_eq!(result["outcome"]["stdout"].as_str().unwrap().len(), 8193);

    // The begin of a run, and the end of one that was cancelled before. A program of a session has the
    // only turn, and leaves it without writing to the database.
    let session = Session::new(&server);
    let program = session.start(&json!({ "target": { "command": "sleep 3000" } }));
    until_program(&server, &program, "running");
    let note =
        |arg: &str| json!({ "skill": "scribe", "target": { "script": "note.sh" }, "args": [arg] });
    let [first, second] = ["first", "second"].map(|arg| server.submit(&note(arg)));
    limit_files(&server.server, Some(0));
    server.call("DELETE", &format!("/v1/sessions/{}", session.id), &Value::Null);
    says("cannot start a run yet");
    let cancelled = server.call("POST", &format!("/v1/runs/{second}/cancel"), &Value::Null);
    assert_eq!(cancelled.status, 202, "{}", cancelled.text());
    says("cannot store the end of a run yet");
    // Further attempts are not reported.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(server.get(&format!("/v1/runs/{first}")).json()["status"], "queued");
    limit_files(&server.server, None);
    assert_eq!(server.result(&first)["outcome"]["stdout"], "note: first\n");
    assert_eq!(server.result(&second)["run"]["status"], "cancelled");

    server.server.stop();
    log.extend(stderr.map(Result::unwrap));
    let count = |what: &str| log.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("cannot start a run yet"), 1, "{log:#?}");
    assert_eq!(count("cannot store the end of a run yet"), 2, "{log:#?}");
}
