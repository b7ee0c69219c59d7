//! Measures an invocation, in phases and as a whole:
//! `cargo bench -p skillhost-bench --bench invoke`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark panics if it cannot run"
)]

#[path = "invoke/bench.rs"]
mod bench;
#[path = "shared/host.rs"]
mod host;
#[path = "invoke/parts.rs"]
mod parts;
#[path = "invoke/phases.rs"]
mod phases;
#[path = "invoke/scripts.rs"]
mod scripts;
#[path = "shared/spans.rs"]
mod spans;

use criterion::{Criterion, criterion_group, criterion_main};
use skillhost::invoke::Target;
use skillhost_policy::Policy;
use skillhost_sandbox::Allocation;

use bench::Bench;

fn invocations(c: &mut Criterion) {
    let bench = Bench::new("hello");
    let policy = Policy::builtin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    let warm = bench.host(Allocation::Pooling(64));
    runtime.block_on(bench.invoke(&warm, &policy, Target::Main, &["x"]));
    c.bench_function("warm invocation: skill read, granted, run, recorded", |b| {
        b.to_async(&runtime).iter(|| bench.invoke(&warm, &policy, Target::Main, &["x"]));
    });
    c.bench_function("first invocation of a host, component cached", |b| {
        b.to_async(&runtime).iter(|| async {
            let host = bench.host(Allocation::OnDemand);
            bench.invoke(&host, &policy, Target::Main, &["x"]).await;
        });
    });
}

fn programs(c: &mut Criterion) {
    let bench = Bench::new("hostile");
    let policy = Policy::builtin();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let warm = bench.host(Allocation::Pooling(64));
    // The difference between the first two is the cost of a hundred programs: their starts, their
    // ends and the work of their caller.
    for (name, args) in [
        ("a program that starts no others", &["start", "0"][..]),
        ("a program that starts 100 in turn and waits for each", &["turns", "100"]),
        (
            "a program that passes 100 MB through a pipe between two others",
            &["pipeline", "100000000"],
        ),
    ] {
        runtime.block_on(bench.invoke(&warm, &policy, Target::Main, args));
        c.bench_function(name, |b| {
            b.to_async(&runtime).iter(|| bench.invoke(&warm, &policy, Target::Main, args))
        });
    }
}

criterion_group!(
    benches,
    parts::reading,
    parts::recording,
    phases::phases,
    invocations,
    parts::calls,
    programs,
    parts::requests,
    scripts::scripts,
    scripts::imports
);
criterion_main!(benches);
