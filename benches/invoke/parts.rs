//! Measures single operations of invocations and, where possible, the same operations without a
//! sandbox.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use criterion::Criterion;
use http_body_util::{BodyExt as _, Empty};
use skillhost::invoke::Target;
use skillhost_ledger::audit::{Log, Record, SkillId};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::manifest;
use skillhost_policy::outcome::Outcome;
use skillhost_policy::{Policy, grant};
use skillhost_sandbox::Allocation;
use skillhost_sandbox::http::{Body, Resolver, Roots, Sender, Timeouts, Tls};
use skillhost_skill::Skill;

use crate::bench::{Bench, SKILL_MD};

pub(crate) fn reading(c: &mut Criterion) {
    let bench = Bench::new("hello");
    let policy = Policy::builtin();
    let parsed = manifest::parse(SKILL_MD.as_bytes(), "hello", "SKILL.md").manifest.unwrap();
    c.bench_function("parse a manifest", |b| {
        b.iter(|| manifest::parse(SKILL_MD.as_bytes(), "hello", "SKILL.md"))
    });
    c.bench_function("grant", |b| b.iter(|| grant(&parsed, &policy)));
    c.bench_function("load a skill", |b| {
        b.iter(|| Skill::load(&bench.skill, &Default::default()).unwrap())
    });
}

pub(crate) fn recording(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(&folder.path().join("audit.jsonl")).unwrap();
    let id = SkillId { name: "hello".into(), ..SkillId::default() };
    let (capabilities, outcome) = (Capabilities::default(), Outcome::default());
    let record =
        Record::of("2030-01-01T00:00:00Z".into(), &id, None, &capabilities, &outcome, &log)
            .unwrap();
    c.bench_function("append to the audit log", |b| b.iter(|| log.append(&record).unwrap()));
}

/// Runs guests that repeat an operation a thousand times, and guests that skip it. The difference
/// is the cost of the operation.
pub(crate) fn calls(c: &mut Criterion) {
    let bench = Bench::new("hostile");
    let policy = Policy::builtin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let host = bench.host(Allocation::Pooling(64));
    for (action, verb, rest) in [
        ("opens a folder", "open", &["/tmp"][..]),
        ("opens a folder with WASI 0.2", "open", &["/tmp", "0.2"]),
        ("creates a file", "create", &["/tmp"]),
    ] {
        for count in ["0", "1000"] {
            let args = [&[verb, count], rest].concat();
            let args = args.as_slice();
            c.bench_function(&format!("a guest that {action} {count} times"), |b| {
                b.to_async(&runtime).iter(|| bench.invoke(&host, &policy, Target::Main, args));
            });
        }
    }
    for wasi in ["0.3", "0.2"] {
        let args = &["write", "50000000", "/tmp", wasi];
        c.bench_function(&format!("a guest that writes 50 MB with WASI {wasi}"), |b| {
            b.to_async(&runtime).iter(|| bench.invoke(&host, &policy, Target::Main, args));
        });
    }
    c.bench_function("50 MB written without a sandbox", |b| {
        b.iter(|| {
            let mut file = tempfile::tempfile_in(bench.folder.path()).unwrap();
            let chunk = vec![b'x'; 64 << 10];
            (0..763).for_each(|_| file.write_all(&chunk).unwrap());
        });
    });
}

pub(crate) fn requests(c: &mut Criterion) {
    let port = skillhost_bench::serve().unwrap();
    let entry = format!("WebFetch(http://127.0.0.1:{port})");
    let text = SKILL_MD.replace("Bash(jq:*)", &entry);
    let parsed = manifest::parse(text.as_bytes(), "hello", "SKILL.md").manifest.unwrap();
    let overrides = skillhost_policy::Overrides { allow: vec![entry], ..Default::default() };
    let policy = Policy::builtin().with_command_line(overrides).unwrap();
    let mut capabilities = grant(&parsed, &policy).capabilities;
    capabilities.limits.http_requests = u64::MAX;
    let tls = std::sync::Arc::new(Tls::new(Roots::default()).unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    c.bench_function("an HTTP request through the sender", |b| {
        b.to_async(&runtime).iter(|| async {
            let (rules, limits) = (capabilities.network_rules(), capabilities.limits.clone());
            let sender = Sender::new(rules, limits, tls.clone(), Resolver::System);
            let body: Body = Empty::new().map_err(|never| match never {}).boxed_unsync();
            let request =
                http::Request::get(format!("http://127.0.0.1:{port}/")).body(body).unwrap();
            let response = sender.send(request, Timeouts::default()).await.unwrap();
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hi\n");
        });
    });
    c.bench_function("an HTTP request over a plain socket", |b| {
        b.iter(|| {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(answer.ends_with(b"hi\n"));
        });
    });
}
