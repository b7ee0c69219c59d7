//! Creates a host for benchmarks that writes to one folder only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skillhost::invoke::{Runner, RunnerOptions};
use skillhost_sandbox::files::GuardedPaths;
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{Allocation, Options};

/// The folder of the scratch folders, in the folder of the host.
pub(crate) const SCRATCH: &str = "scratch";

/// The audit log, in the folder of the host.
pub(crate) const AUDIT: &str = "audit.jsonl";

pub(crate) fn host(
    folder: &Path,
    compiler: PathBuf,
    programs: Vec<PathBuf>,
    allocation: Allocation,
) -> Runner {
    std::fs::create_dir_all(folder.join(SCRATCH)).unwrap();
    Runner::new(RunnerOptions {
        sandbox: Options {
            compiler,
            cache: folder.join("cache"),
            allocation,
            tls: Arc::new(Tls::new(Roots::default()).unwrap()),
            resolver: Resolver::System,
        },
        programs,
        scratch: folder.join(SCRATCH),
        guarded: GuardedPaths::default(),
        state: folder.join("state"),
        settings: None,
        audit: folder.join(AUDIT),
        verifier: None,
    })
}
