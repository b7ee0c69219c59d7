//! What an invocation costs, phase by phase and whole: `cargo bench -p skillhost`.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark that cannot run says so by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use skillhost::invoke::{Host, HostOptions, Request, Target};
use skillhost::outcome::Status;
use skillhost::policy::{Policy, grant};
use skillhost::sandbox::files::Guarded;
use skillhost::sandbox::http::{Resolver, Roots, Tls};
use skillhost::sandbox::{Allocation, Io, Options};
use skillhost::skill::{Skill, manifest};

const SKILL_MD: &str = "---\nname: hello\ndescription: Says hello. Use when timing.\nallowed-tools: Read Write(out/**) Bash(jq:*)\nmetadata:\n  component: hello.wasm\n---\n# Hello\n";

/// A folder with one skill in it, and a host beside it.
struct Bench {
    folder: tempfile::TempDir,
    skill: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let skill = folder.path().join(name);
        let file = format!("{name}.wasm");
        let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/components").join(&file);
        std::fs::create_dir(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), SKILL_MD.replace("hello", name).replace("jq:*", &format!("{name}:*"))).unwrap();
        std::fs::copy(component, skill.join(file)).unwrap_or_else(|_| panic!("no {name}.wasm: `cargo xtask components` builds it"));
        Bench { folder, skill }
    }

    fn host(&self, allocation: Allocation) -> Host {
        Host::new(HostOptions {
            sandbox: Options {
                compiler: env!("CARGO_BIN_EXE_skillhost").into(),
                cache: self.folder.path().join("cache"),
                allocation,
                tls: Arc::new(Tls::new(Roots::default()).unwrap()),
                resolver: Resolver::System,
            },
            programs: Vec::new(),
            scratch: self.folder.path().into(),
            guarded: Guarded::default(),
            state: self.folder.path().join("kept"),
            audit: self.folder.path().join("audit.jsonl"),
            caps: Default::default(),
        })
    }

    async fn invoke(&self, host: &Host, policy: &Policy, args: &[&str]) {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let request = Request { skill: &self.skill, policy, target: Target::Main, args, io: Io::default() };
        let done = host.invoke(request).await.unwrap();
        assert_eq!(done.finished.outcome.status, Status::Exited { code: 0 });
    }
}

fn stages(c: &mut Criterion) {
    let bench = Bench::new("hello");
    let policy = Policy::builtin();
    let parsed = manifest::parse(SKILL_MD.as_bytes(), "hello", "SKILL.md").manifest.unwrap();
    c.bench_function("parse a manifest", |b| b.iter(|| manifest::parse(SKILL_MD.as_bytes(), "hello", "SKILL.md")));
    c.bench_function("grant", |b| b.iter(|| grant(&parsed, &policy)));
    c.bench_function("load a skill", |b| b.iter(|| Skill::load(&bench.skill, &Default::default()).unwrap()));
}

fn invocations(c: &mut Criterion) {
    let bench = Bench::new("hello");
    let policy = Policy::builtin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    let warm = bench.host(Allocation::Pooling(64));
    runtime.block_on(bench.invoke(&warm, &policy, &["x"]));
    c.bench_function("warm invocation: skill read, granted, run, recorded", |b| {
        b.to_async(&runtime).iter(|| bench.invoke(&warm, &policy, &["x"]));
    });
    c.bench_function("first invocation of a host, component cached", |b| {
        b.to_async(&runtime).iter(|| async {
            let host = bench.host(Allocation::OnDemand);
            bench.invoke(&host, &policy, &["x"]).await;
        });
    });
}

fn programs(c: &mut Criterion) {
    let bench = Bench::new("hostile");
    let policy = Policy::builtin();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let warm = bench.host(Allocation::Pooling(64));
    // The difference of the first two is a program's start, its end and what its caller does about it: a hundred times.
    for (name, args) in [
        ("a program that starts none", &["start", "0"][..]),
        ("a program that starts 100 in turn and waits for each", &["turns", "100"]),
        ("a program that joins two by a pipe, through which 100 MB flow", &["pipeline", "100000000"]),
    ] {
        runtime.block_on(bench.invoke(&warm, &policy, args));
        c.bench_function(name, |b| b.to_async(&runtime).iter(|| bench.invoke(&warm, &policy, args)));
    }
}

criterion_group!(benches, stages, invocations, programs);
criterion_main!(benches);
