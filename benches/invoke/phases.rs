//! Measures the phases of a start with the host's own spans: engine, load of compiled code,
//! instantiation, call, end.

use std::time::Duration;

use criterion::Criterion;
use skillhost::invoke::{Runner, Target};
use skillhost_policy::Policy;
use skillhost_sandbox::Allocation;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::bench::Bench;
use crate::spans::Spans;

const PHASES: [(&str, &str); 12] = [
    ("skill", "skill read"),
    ("grant", "permissions granted"),
    ("programs", "skill digested, programs found"),
    ("mounts", "folders opened"),
    ("engine", "engine created"),
    ("load", "compiled code loaded"),
    ("link", "imports linked"),
    ("instantiate", "guest instantiated"),
    ("guest", "guest called"),
    ("drop", "guest dropped"),
    ("log", "audit log checked"),
    ("record", "run recorded"),
];

pub(crate) fn phases(c: &mut Criterion) {
    let policy = Policy::builtin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (bench, target, of) in [
        (Bench::new("hello"), Target::Main, "component"),
        (Bench::of_scripts("hello"), Target::Named("scripts/hello.py".into()), "Python hello"),
    ] {
        let warm = bench.host(Allocation::Pooling(64));
        let invoke = async |host: &Runner| bench.invoke(host, &policy, target.clone(), &[]).await;
        let first = || runtime.block_on(invoke(&bench.host(Allocation::OnDemand)));
        let next = || runtime.block_on(invoke(&warm));
        for (when, once) in
            [("first invocation of a host", &first as &dyn Fn()), ("next invocation", &next)]
        {
            once();
            let mut group = c.benchmark_group(format!("{when}, {of}"));
            for (span, name) in PHASES {
                group.bench_function(name, |b| b.iter_custom(|count| time(span, count, once)));
            }
            group.finish();
        }
    }
}

/// Returns how long a span was open in `count` invocations.
fn time(span: &str, count: u64, once: &dyn Fn()) -> Duration {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    tracing::subscriber::with_default(subscriber, || (0..count).for_each(|_| once()));
    Duration::from_nanos(spans.all().get(span).copied().unwrap_or(0))
}
