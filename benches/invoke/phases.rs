//! A cold start, phase by phase, as the host's own spans tell of it: engine, load of compiled code, instantiation, call, end.

use std::time::Duration;

use criterion::Criterion;
use skillhost::invoke::Target;
use skillhost::policy::Policy;
use skillhost::sandbox::Allocation;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::bench::Bench;
use crate::spans::Spans;

const PHASES: [(&str, &str); 10] = [
    ("skill", "skill read"),
    ("grant", "permissions granted"),
    ("programs", "skill digested, programs named"),
    ("mounts", "folders opened"),
    ("engine", "engine made"),
    ("load", "compiled code loaded"),
    ("link", "imports linked"),
    ("instantiate", "guest made"),
    ("guest", "guest called"),
    ("drop", "guest dropped"),
];

pub(crate) fn phases(c: &mut Criterion) {
    let policy = Policy::builtin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (bench, target, of) in [
        (Bench::new("hello"), Target::Main, "component"),
        (Bench::of_scripts("hello"), Target::Named("scripts/hello.py".into()), "Python hello"),
    ] {
        let once = || async {
            let host = bench.host(Allocation::OnDemand);
            bench.invoke(&host, &policy, target.clone(), &[]).await;
        };
        runtime.block_on(once());
        let mut group = c.benchmark_group(format!("first invocation of a host, {of}"));
        for (span, name) in PHASES {
            group.bench_function(name, |b| {
                b.iter_custom(|count| {
                    let spans = Spans::default();
                    let subscriber = tracing_subscriber::registry().with(spans.clone());
                    tracing::subscriber::with_default(subscriber, || (0..count).for_each(|_| runtime.block_on(once())));
                    Duration::from_nanos(spans.of(span))
                });
            });
        }
        group.finish();
    }
}
