//! The record of a run in progress. It is written however the run ends.

use std::sync::Arc;
use std::time::Instant;

use tracing::debug_span;

use super::hooks::RunHooks;
use super::not_run;
use skillhost_ledger::audit::{
    AuditError, Log, ProgramId, Record, Redactor, RunId, SessionRecord, SkillId, StartRecord,
};
use skillhost_policy::Retention;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::outcome::{Outcome, ResourceUsage, Status};

/// A record that has not been written yet. If the run is dropped or panics, it is recorded as
/// interrupted.
pub(super) struct PendingRecord {
    log: Arc<Log>,
    hooks: Arc<RunHooks>,
    pub(super) receipt: Option<String>,
    /// The run whose result is the answer.
    pub(super) cached: Option<String>,
    retention: Retention,
    /// The redactor and the arguments, if the policy keeps texts.
    text: Option<(Arc<Redactor>, Vec<String>)>,
    session: Option<Arc<SessionRecord>>,
    began: Instant,
    /// The data of the record; `None` once it is written.
    open: Option<OpenRecord>,
}

/// A run whose end is not recorded yet.
struct OpenRecord {
    time: String,
    skill: SkillId,
    program: Option<ProgramId>,
    capabilities: Arc<Capabilities>,
    /// Present once the start of the run is recorded.
    run: Option<RunId>,
}

impl PendingRecord {
    /// Starts the record of a run that is requested now.
    pub(super) fn new(
        log: Arc<Log>,
        hooks: Arc<RunHooks>,
        retention: Retention,
        skill: SkillId,
        program: Option<ProgramId>,
        capabilities: Arc<Capabilities>,
    ) -> PendingRecord {
        let open = OpenRecord {
            time: jiff::Timestamp::now().to_string(),
            skill,
            program,
            capabilities,
            run: None,
        };
        PendingRecord {
            log,
            hooks,
            receipt: None,
            cached: None,
            retention,
            text: None,
            session: None,
            began: Instant::now(),
            open: Some(open),
        }
    }

    /// Adds the texts that the policy may keep.
    pub(super) fn with_text(
        mut self,
        redactor: Option<&Arc<Redactor>>,
        arguments: Vec<String>,
    ) -> PendingRecord {
        self.text = redactor.map(|redactor| (redactor.clone(), arguments));
        self
    }

    /// Names the session that requested the run.
    pub(super) fn in_session(mut self, session: Option<&Arc<SessionRecord>>) -> PendingRecord {
        self.session = session.cloned();
        self
    }

    /// Records that a guest is about to start. If this fails, the guest must not run.
    pub(super) fn start(&mut self) -> Result<(), AuditError> {
        let Some(OpenRecord { time, skill, program: Some(program), run, .. }) = &mut self.open
        else {
            return Ok(());
        };
        let _span = debug_span!("start").entered();
        let id = RunId::random();
        let owner = self.log.owner()?;
        let start = StartRecord::of(id, time, skill, program, owner, self.log.key()?);
        let start = StartRecord { session: self.session.as_deref(), ..start };
        self.log.append_with_retention(&start, self.retention)?;
        *run = Some(id);
        Ok(())
    }

    /// Writes the record of the end.
    pub(super) fn close(mut self, outcome: &Outcome) -> Result<(), AuditError> {
        self.write(outcome)
    }

    /// Sets the wall time of an outcome that did not come from the sandbox. The run may have waited
    /// for its state.
    pub(super) fn time(&self, outcome: &mut Outcome) {
        if outcome.usage.wall_ms == 0.0 {
            outcome.usage.wall_ms = self.elapsed_ms();
        }
    }

    /// Returns the elapsed time, in milliseconds.
    fn elapsed_ms(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1e3
    }

    fn write(&mut self, outcome: &Outcome) -> Result<(), AuditError> {
        let Some(OpenRecord { time, skill, program, capabilities, run }) = self.open.take() else {
            return Ok(());
        };
        let _span = debug_span!("record").entered();
        let text =
            self.text.take().map(|(redactor, arguments)| redactor.texts(&arguments, outcome));
        let record = Record::of(time, &skill, program.as_ref(), &capabilities, outcome, &self.log)?;
        let (receipt, cached) = (self.receipt.take(), self.cached.take());
        let session = self.session.clone();
        let session = session.as_deref();
        let record = Record { run, text, receipt, cached, session, ..record };
        self.log.append_with_retention(&record, self.retention)?;
        self.hooks.recorded(&record);
        Ok(())
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        let usage = ResourceUsage { wall_ms: self.elapsed_ms(), ..ResourceUsage::default() };
        if let Err(error) = self.write(&Outcome { usage, ..not_run(Status::Interrupted) }) {
            tracing::error!(%error, "cannot record a run that was dropped");
        }
    }
}
