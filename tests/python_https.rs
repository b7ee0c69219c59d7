//! The Python runtime in a host that trusts an additional certificate authority. The scripts in
//! `components/python/tests` cover further cases.

use std::path::Path;

use skillhost::invoke::{RunRequest, Runner, RunnerOptions, Target};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::files::GuardedPaths;
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{Allocation, Io, Options};

use crate::support::repository;
use crate::tls::secure;

/// The output of each client for a server that the host trusts, then for one that it does not.
const SCRIPT: &str = r#"
import http.client, ssl, sys, urllib.error, urllib.request

trusted, other = sys.argv[1:]
with urllib.request.urlopen(f"https://localhost:{trusted}/x") as answer:
    print(answer.status, answer.read())
connection = http.client.HTTPSConnection("localhost", int(trusted))
connection.request("POST", "/y", body=b"z")
print(connection.getresponse().read())
for context in (None, ssl._create_unverified_context()):
    try:
        urllib.request.urlopen(f"https://localhost:{other}/", context=context)
    except urllib.error.URLError as error:
        print(type(error.reason).__name__, isinstance(error.reason, ssl.SSLError))
"#;

#[test]
fn scripts_reach_only_https_servers_that_the_host_trusts() {
    let (root, trusted) = secure("secure");
    let (_, other) = secure("not read");
    let dir = tempfile::tempdir().unwrap();
    let skill = dir.path().join("client");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    std::fs::create_dir(dir.path().join("scratch")).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: client\ndescription: Asks servers.\nallowed-tools: Read WebFetch\n---\n",
    )
    .unwrap();
    std::fs::write(skill.join("scripts/ask.py"), SCRIPT).unwrap();
    let host = Runner::new(RunnerOptions {
        sandbox: Options {
            compiler: crate::COMPILER.into(),
            cache: Path::new(env!("CARGO_TARGET_TMPDIR")).join("skillhost/components"),
            allocation: Allocation::OnDemand,
            tls: Tls::new(Roots { extra: vec![root] }).unwrap().into(),
            resolver: Resolver::System,
        },
        programs: vec![repository("target/components")],
        scratch: dir.path().join("scratch"),
        guarded: GuardedPaths::default(),
        state: dir.path().join("kept"),
        settings: None,
        audit: dir.path().join("audit.jsonl"),
        caps: Default::default(),
        verifier: None,
    });
    let overrides = Overrides {
        allow: [trusted, other].map(|port| format!("WebFetch(domain:localhost:{port})")).to_vec(),
        // Compiling the runtime on a loaded machine takes long.
        limits: vec![(Limit::Timeout, 300_000)],
        ..Overrides::default()
    };
    let policy = Policy::builtin().with_command_line(overrides).unwrap();
    let args = vec![trusted.to_string(), other.to_string()];
    let request = RunRequest {
        skill: (&skill).into(),
        policy: &policy,
        target: Target::Main,
        args,
        io: Io::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(host.invoke(request)).unwrap().finished.outcome;
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    let expected = "200 b'secure GET /x'\nb'secure POST /y'\nSSLCertVerificationError True\nSSLCertVerificationError True\n";
    assert_eq!(outcome.stdout.text(), expected);
}
