//! Compares the same scripts in a warm host and in the machine's python3: files, programs, HTTP,
//! computing, imports.

use std::process::{Command, Stdio};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use skillhost::invoke::{Runner, Target};
use skillhost_bench::serve;
use skillhost_policy::limits::Limit;
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::Allocation;
use tokio::runtime::Runtime;

use crate::bench::Bench;

/// The modules that scripts of public skills import most.
const IMPORTS: &str = "argparse asyncio base64 collections csv dataclasses datetime hashlib html.parser \
    http.client json logging os pathlib random re shutil sqlite3 subprocess tempfile typing urllib.request \
    xml.etree.ElementTree zipfile";

pub(crate) fn scripts(c: &mut Criterion) {
    let port = serve().unwrap();
    let comparison = Comparison::new(vec![format!("WebFetch(http://127.0.0.1:{port})")]);
    let url = format!("http://127.0.0.1:{port}/");
    for (name, script, args) in [
        ("50 MB in blocks of 4 KiB, written and read", "blocks.py", vec![]),
        ("2,000 small files, written, listed and read", "small_files.py", vec![]),
        ("20 children in Python, one after the other", "children.py", vec!["python", "20"]),
        ("20 children in bash, one after the other", "children.py", vec!["bash", "20"]),
        ("50 HTTP requests with urllib", "requests_to.py", vec![url.as_str(), "50"]),
        ("computing: fib", "compute.py", vec!["fib"]),
        ("computing: nbody", "compute.py", vec!["nbody"]),
        ("computing: json, re, sort", "compute.py", vec!["text"]),
    ] {
        let mut group = c.benchmark_group(name);
        group.sample_size(10);
        comparison.both(&mut group, Target::Named(format!("scripts/{script}")), &args, |native| {
            native.arg(comparison.bench.skill.join("scripts").join(script)).args(&args);
        });
        group.finish();
    }
}

pub(crate) fn imports(c: &mut Criterion) {
    let comparison = Comparison::new(Vec::new());
    for module in ["nothing"].into_iter().chain(IMPORTS.split_whitespace()) {
        let program =
            if module == "nothing" { "pass".to_owned() } else { format!("import {module}") };
        let mut group = c.benchmark_group(format!("Python imports {module}"));
        group.sample_size(20);
        comparison.both(
            &mut group,
            Target::Shell(format!("exec python3 -c '{program}'")),
            &[],
            |native| {
                native.args(["-c", &program]);
            },
        );
        group.finish();
    }
}

/// A warm host, to compare with the machine's interpreter.
struct Comparison {
    bench: Bench,
    host: Runner,
    policy: Policy,
    runtime: Runtime,
}

impl Comparison {
    fn new(allow: Vec<String>) -> Comparison {
        let bench = Bench::of_scripts("work");
        let limits = vec![(Limit::Timeout, 600_000)];
        let policy = Policy::builtin()
            .with_command_line(Overrides { allow, limits, ..Default::default() })
            .unwrap();
        let host = bench.host(Allocation::Pooling(64));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        Comparison { bench, host, policy, runtime }
    }

    fn both(
        &self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        target: Target,
        args: &[&str],
        native: impl Fn(&mut Command),
    ) {
        let run = || self.bench.invoke(&self.host, &self.policy, target.clone(), args);
        self.runtime.block_on(run());
        group.bench_function("in the sandbox", |b| b.to_async(&self.runtime).iter(run));
        group.bench_function("natively", |b| {
            b.iter(|| {
                let mut command = Command::new("/usr/bin/python3");
                native(&mut command);
                let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
                assert!(ended.success());
            });
        });
    }
}
