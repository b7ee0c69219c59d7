//! Runs one invocation and prints the time of each phase. Each phase is a span of the host.

use std::time::Instant;

use serde_json::json;
use skillhost::invoke::{RunRequest, Target};
use skillhost_policy::Policy;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::{Allocation, Io};
use tracing::subscriber;
use tracing_subscriber::layer::SubscriberExt as _;

use super::spans::Spans;
use super::{Setup, nanoseconds};

/// Prints `total_ns`, from the first line of `main` to the end of the invocation, and `phases_ns`.
pub(crate) fn main(setup: &Setup, task: &str) {
    let start = Instant::now();
    let spans = Spans::default();
    subscriber::set_global_default(tracing_subscriber::registry().with(spans.clone())).unwrap();
    let task = &setup.tasks[task];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let host = setup.host(Allocation::OnDemand);
    let target = task.script.clone().map_or(Target::Main, Target::Named);
    let request = RunRequest {
        skill: (&task.skill).into(),
        policy: &Policy::builtin(),
        target,
        args: task.args.clone(),
        io: Io::default(),
    };
    let invoked = runtime.block_on(host.invoke(request)).unwrap();
    let total = nanoseconds(start);
    assert_eq!(
        invoked.finished.outcome.status,
        Status::Exited { code: 0 },
        "{}",
        invoked.finished.outcome.stderr.text()
    );
    println!("{}", json!({ "total_ns": total, "phases_ns": spans.all() }));
    // Like `skillhost run`, does not drop the host, because the process ends anyway.
    std::mem::forget(host);
}
