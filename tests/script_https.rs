//! The Python and the JavaScript runtime in a host that trusts an additional certificate authority.
//! The scripts in `components/python/tests` and `components/javascript/tests` cover further cases.

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

/// Prints what each client gets from a server that the host trusts, then from one that it does not.
const PYTHON: &str = r#"
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

/// As [`PYTHON`].
const JAVASCRIPT: &str = r#"
import https from 'node:https';
import axios from 'axios';

const [, , trusted, other] = process.argv;
const ask = (port, options) => new Promise((done, fail) => {
    https.request({ hostname: 'localhost', port, ...options }, async (response) => {
        done(`${response.statusCode} ${Buffer.concat(await response.toArray())}`);
    }).on('error', fail).end(options.body);
});
const response = await fetch(`https://localhost:${trusted}/x`);
console.log(response.status, await response.text());
console.log(await ask(trusted, { path: '/y', method: 'POST', body: 'z' }));
console.log((await axios.get(`https://localhost:${trusted}/z`)).data);
await fetch(`https://localhost:${other}/`).catch((error) => console.log(error.message, error.cause.code));
for (const rejectUnauthorized of [true, false]) {
    await ask(other, { path: '/', rejectUnauthorized }).catch((error) => console.log(error.code));
}
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
await ask(other, { path: '/' }).catch((error) => console.log(error.code));
"#;

#[test]
fn python_reaches_only_https_servers_that_the_host_trusts() {
    let expected = "200 b'secure GET /x'\nb'secure POST /y'\nSSLCertVerificationError True\nSSLCertVerificationError True\n";
    assert_eq!(ask("ask.py", PYTHON), expected);
}

#[test]
fn javascript_reaches_only_https_servers_that_the_host_trusts() {
    let code = "UNABLE_TO_VERIFY_LEAF_SIGNATURE";
    let expected = format!(
        "200 secure GET /x\n200 secure POST /y\nsecure GET /z\nfetch failed {code}\n{code}\n{code}\n{code}\n"
    );
    assert_eq!(ask("ask.mjs", JAVASCRIPT), expected);
}

/// Runs a script with the ports of both servers, and returns its output.
fn ask(name: &str, script: &str) -> String {
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
    std::fs::write(skill.join("scripts").join(name), script).unwrap();
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
    outcome.stdout.text().into_owned()
}
