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
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let skill = folder.path().join("hello");
        let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/components/hello.wasm");
        std::fs::create_dir(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), SKILL_MD).unwrap();
        std::fs::copy(component, skill.join("hello.wasm")).expect("target/components/hello.wasm: `cargo xtask components` builds it");
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
            audit: self.folder.path().join("audit.jsonl"),
            caps: Default::default(),
        })
    }

    async fn invoke(&self, host: &Host, policy: &Policy) {
        let request = Request { skill: &self.skill, policy, target: Target::Main, args: vec!["x".into()], io: Io::default() };
        let done = host.invoke(request).await.unwrap();
        assert_eq!(done.finished.outcome.status, Status::Exited { code: 0 });
    }
}

fn stages(c: &mut Criterion) {
    let bench = Bench::new();
    let policy = Policy::builtin();
    let parsed = manifest::parse(SKILL_MD.as_bytes(), "hello", "SKILL.md").manifest.unwrap();
    c.bench_function("parse a manifest", |b| b.iter(|| manifest::parse(SKILL_MD.as_bytes(), "hello", "SKILL.md")));
    c.bench_function("grant", |b| b.iter(|| grant(&parsed, &policy)));
    c.bench_function("load a skill", |b| b.iter(|| Skill::load(&bench.skill, &Default::default()).unwrap()));
}

fn invocations(c: &mut Criterion) {
    let bench = Bench::new();
    let policy = Policy::builtin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    let warm = bench.host(Allocation::Pooling(64));
    runtime.block_on(bench.invoke(&warm, &policy));
    c.bench_function("warm invocation: skill read, granted, run, recorded", |b| {
        b.to_async(&runtime).iter(|| bench.invoke(&warm, &policy));
    });
    c.bench_function("first invocation of a host, component cached", |b| {
        b.to_async(&runtime).iter(|| async {
            let host = bench.host(Allocation::OnDemand);
            bench.invoke(&host, &policy).await;
        });
    });
}

criterion_group!(benches, stages, invocations);
criterion_main!(benches);
