//! What the programs of one run share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use futures::future::BoxFuture;

use super::run_alone;
use super::sandbox::{Prepared, Sandbox};
use super::scratch::Scratch;
use super::spec::Io;
use crate::determinism::DeterministicRun;
use crate::engine::{Mode, say};
use crate::files::Vfs;
use crate::http::Sender;
use crate::limits::Meter;
use crate::process::{Launcher, Processes, Ready};
use crate::scripts::{Compiler, Scripts};
use crate::streams::Stdin;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::uses::GrantUse;
use skillhost_policy::outcome::{Denial, Outcome, ResourceUsage, Status};
use skillhost_skill::runtime::{Component, Program};

/// What the programs of one run share: the enforcers of its capabilities.
pub(super) struct Invocation {
    pub(super) sandbox: Sandbox,
    pub(super) mode: Mode,
    pub(super) meter: Arc<Meter>,
    pub(super) files: Arc<Vfs>,
    pub(super) sender: Arc<Sender>,
    pub(super) processes: Arc<Processes>,
    pub(super) scripts: Scripts,
    /// `None` if the run is not deterministic.
    pub(super) deterministic: Option<Arc<DeterministicRun>>,
    pub(super) scratch: Arc<Scratch>,
}

impl Invocation {
    /// Notes what is used of the grants, from now on.
    pub(super) fn record_uses(&self) {
        self.files.record_uses();
        self.processes.record_uses();
    }

    /// Returns what was used of the grants; `None` if it was not noted. Every variable counts as
    /// used.
    pub(super) fn uses(&self, env: &BTreeMap<String, String>) -> Option<GrantUse> {
        let (paths, omitted) = self.files.uses()?;
        let (commands, omitted_commands) = self.processes.uses()?;
        Some(GrantUse {
            paths,
            commands,
            requests: self.sender.uses(),
            variables: env.keys().cloned().collect(),
            omitted: omitted + omitted_commands,
        })
    }

    /// Returns what was used so far.
    pub(super) fn usage(&self, started: Instant) -> ResourceUsage {
        let meter = &self.meter;
        let files = self.files.usage();
        let (http_sent, http_received) = self.sender.usage();
        ResourceUsage {
            wall_ms: started.elapsed().as_secs_f64() * 1e3,
            fuel: meter.limits.fuel.map(|_| meter.burnt()),
            epochs: (self.mode == Mode::Fast).then(|| meter.epochs.load(Relaxed)),
            memory_peak: meter.memory_peak(),
            bytes_read: files.bytes_read,
            bytes_written: files.bytes_written,
            files_created: files.files_created,
            http_sent,
            http_received,
            processes: meter.processes.load(Relaxed),
            ..ResourceUsage::default()
        }
    }

    /// Returns what its programs tried and were refused.
    pub(super) fn denials(&self) -> Vec<Denial> {
        let mut all = self.files.denials();
        all.extend(self.sender.denials());
        all.extend(self.processes.denials());
        all
    }

    /// Notes the limits that the guest hit in files and requests.
    pub(super) fn note_hits(&self) {
        for limit in self.files.hit().into_iter().chain(self.sender.hit()) {
            self.meter.hit(limit);
        }
    }

    /// Makes a component ready. A deterministic run waits meanwhile: how long that takes depends on
    /// the machine.
    async fn prepare(&self, component: &Component) -> Result<Prepared, Status> {
        let limits = &self.meter.limits;
        let Some(deterministic) = &self.deterministic else {
            return self.sandbox.prepare(component, self.mode, limits).await;
        };
        let (sandbox, mode) = (self.sandbox.clone(), self.mode);
        let (component, limits) = (component.clone(), limits.clone());
        let prepared = deterministic
            .hold(async move { sandbox.prepare(&component, mode, &limits).await })
            .unwrap_or(Err(Status::Interrupted));
        if let Err(status @ (Status::LimitHit(_) | Status::Failed { .. })) = &prepared {
            self.meter.abort(say(status));
        }
        prepared
    }
}

impl Launcher for Invocation {
    fn prepare(self: Arc<Self>, program: Program) -> BoxFuture<'static, Result<Ready, Status>> {
        Box::pin(async move {
            let prepared = Invocation::prepare(&self, &program.component).await?;
            if let Some(status) = prepared.lacks(&program.entry) {
                return Err(status);
            }
            let ready: Ready = Box::new(move |io| {
                Box::pin(async move { self.execute(&program, &prepared, io).await })
            });
            Ok(ready)
        })
    }
}

impl Compiler for Invocation {
    fn compile(&self, program: Program, limits: Limits, stdin: Vec<u8>) -> BoxFuture<'_, Outcome> {
        let capabilities = Arc::new(Capabilities { limits, ..Capabilities::default() });
        let io = Io { stdin: Stdin::Bytes(stdin), ..Io::default() };
        Box::pin(async move {
            let scratch = self.scratch.within();
            run_alone(&self.sandbox, &program, scratch, capabilities, io).await.outcome
        })
    }
}
