//! curl reports misbehaving servers with the same exit code and output as the machine's own curl,
//! against the same server on loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use skillhost::invoke::{RunRequest, Target};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::Io;

use crate::hostile_host::shell_host;
use crate::servers::{Server, respond};
use crate::tls::secure;

/// The exit code and stdout of a curl command, in the sandbox and on the machine. `URL` is the
/// server's.
fn both(url: &str, command: &str) -> [(i32, String); 2] {
    let text = format!("{}; echo \" exit $?\"", command.replace("URL", url));
    let native = Command::new("bash")
        .args(["-c", &text])
        .env_remove("http_proxy")
        .env_remove("https_proxy")
        .output()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let skill = dir.path().join("skill");
    std::fs::create_dir(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: skill\ndescription: Asks. Use to test.\nallowed-tools: Bash WebFetch\n---\n",
    )
    .unwrap();
    let host = shell_host(dir.path());
    let allow = match url.strip_prefix("https://") {
        Some(place) => format!("WebFetch(domain:{place})"),
        None => format!("WebFetch({url})"),
    };
    // Compiling the runtime on a loaded machine takes long.
    let overrides = Overrides {
        allow: vec![allow],
        limits: vec![(Limit::Timeout, 100_000)],
        ..Overrides::default()
    };
    let policy = Policy::builtin().with_command_line(overrides).unwrap();
    let request = RunRequest {
        skill: (&skill).into(),
        policy: &policy,
        target: Target::Shell(text),
        args: Vec::new(),
        io: Io::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(host.invoke(request)).unwrap().finished.outcome;
    let Status::Exited { code } = outcome.status else { panic!("{command}: {outcome:?}") };
    [
        (i32::from(code), outcome.stdout.text().into_owned()),
        (native.status.code().unwrap(), String::from_utf8_lossy(&native.stdout).into_owned()),
    ]
}

#[track_caller]
fn agree(url: &str, command: &str, expected: &str) {
    let [ours, native] = both(url, command);
    assert_eq!(ours, native, "{command}");
    assert!(ours.1.ends_with(expected), "{command}: {ours:?}");
}

#[test]
fn a_server_without_tls_exits_with_35() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        listener.incoming().for_each(|stream| {
            respond(&mut stream.unwrap(), "400 Bad Request", "", b"this is not TLS")
        })
    });
    agree(&url, "curl -s -m 60 URL/", " exit 35\n");
}

#[test]
fn an_empty_reply_exits_with_52() {
    let server = Server::start(|_, _| {});
    agree(&server.url(), "curl -s -m 60 URL/", " exit 52\n");
}

#[test]
fn a_connection_reset_exits_with_56() {
    let server = Server::start(|_, stream| {
        // Closing with a zero linger time sends a reset.
        rustix::net::sockopt::set_socket_linger(&*stream, Some(std::time::Duration::ZERO)).unwrap();
    });
    agree(&server.url(), "curl -s -m 60 URL/", " exit 56\n");
}

#[test]
fn an_untrusted_certificate_exits_with_60() {
    let (_, port) = secure("never read");
    agree(&format!("https://localhost:{port}"), "curl -s -m 60 URL/", " exit 60\n");
}

#[test]
fn only_transient_errors_are_retried() {
    let failing = |times: usize, status: &'static str| {
        let asked = Arc::new(AtomicUsize::new(0));
        Server::start(move |_, stream| {
            // The two clients send their requests one after the other; each sees the same server
            // behaviour.
            match asked.fetch_add(1, Ordering::SeqCst) % (times + 1) < times {
                true => respond(stream, status, "", b"not yet\n"),
                false => respond(stream, "200 OK", "", b"at last\n"),
            }
        })
    };
    let server = failing(2, "503 Service Unavailable");
    agree(
        &server.url(),
        "curl -s --retry 2 --retry-delay 1 -o \"$(mktemp)\" -w '%{http_code}' URL/",
        "200 exit 0\n",
    );
    assert_eq!(server.connections(), 6);
    let server = failing(100, "404 Not Found");
    let [ours, _] = both(&server.url(), "curl -sf --retry 3 URL/");
    assert_eq!((ours.1.as_str(), server.connections()), (" exit 22\n", 2), "one each");
    let server = failing(100, "503 Service Unavailable");
    agree(&server.url(), "curl -sf --retry 2 --retry-delay 1 URL/", " exit 22\n");
}
