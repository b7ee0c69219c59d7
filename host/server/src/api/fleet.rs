//! Runs of a fleet: what the run API needs of a queue that workers take runs from. Servers keep
//! nothing of such a run, so any of them answers for it.
//!
//! [`Fleet`] is the queue. Everything that a server or a worker has on its own disk is a cache: files
//! are named by their digest, which is verified when they arrive. [`sessions`] is what sessions need
//! besides.

pub mod sessions;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use super::body::too_large;
use super::cached::RESULT;
use super::executor::{DIFF, StoredResult, valid_start};
use super::problem::{Problem, ProblemCode};
use super::quotas::storage_quota;
use super::state::{Finished, StreamName, new_id, now, start_of};
use super::submit::{Accepted, CANCELLED, canonical, check_key, closing, time};
use super::tenant::Tenant;
use super::types::{RunInfo, RunList, RunResult, RunSubmission, SkillInfo};
use super::uploads::{self, SkillFiles, blocking};
use super::{Answered, ApiShared};
use sessions::FleetSessions;
use skillhost_ledger::runs::{HourlyUsage, RunFilter, RunStatus, Submitted};
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::Output;
use skillhost_skill::SkillFolder;

/// The pause between two looks at a run of which no change was announced.
const LOOK: Duration = Duration::from_secs(1);
/// The most runs that one page of a list reads. A filter that matches few of them continues on the
/// next page.
const SCANNED: usize = 1_000;
/// The most bytes of an answer that do not need a blob of their own.
pub const INLINE: usize = 16 << 10;

/// What is announced of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEvent {
    /// A worker has taken it, or has given it back.
    Changed,
    /// It may have ended.
    Ended,
}

/// The queue of a fleet, and what it stores. Every method names the tenant, and reaches nothing of
/// another one.
#[async_trait::async_trait]
pub trait Fleet: FleetSessions {
    /// Creates what these tenants need, and changes what their settings have changed.
    async fn open(&self, tenants: &[FleetTenant]) -> Result<(), FleetError>;

    /// Returns what [`Fleet::submit`] would answer because of the idempotency key.
    async fn known_key(
        &self,
        tenant: &str,
        key: (&str, &str),
    ) -> Result<Option<Submitted>, FleetError>;

    /// Stores a run and puts it into the queue. When this returns, the run is not lost.
    async fn submit(&self, tenant: &str, run: &NewFleetRun) -> Result<Submitted, FleetError>;

    /// Returns a run. The end of a run is returned only if a worker of this tenant has signed it.
    async fn get(&self, tenant: &str, id: &str) -> Result<Option<FleetRun>, FleetError>;

    /// Returns the ids of the runs before this one, or of all, the latest first, at most this many.
    async fn ids(
        &self,
        tenant: &str,
        before: Option<&str>,
        most: usize,
    ) -> Result<Vec<String>, FleetError>;

    /// Asks for the end of a run.
    async fn cancel(&self, tenant: &str, id: &str) -> Result<(), FleetError>;

    /// Announces changes of a run from now on. Announcements may be lost.
    async fn watch(
        &self,
        tenant: &str,
        id: &str,
    ) -> Result<BoxStream<'static, RunEvent>, FleetError>;

    /// Asks the worker for the output of a run in progress after these positions. `None`: no worker
    /// answers.
    async fn live_output(&self, tenant: &str, id: &str, at: [u64; 2]) -> Option<[Vec<u8>; 2]>;

    /// Returns the size of a blob that stays as long as a run that is submitted now.
    async fn blob_size(&self, tenant: &str, digest: &str) -> Result<Option<u64>, FleetError>;

    /// Stores a blob, whose digest was verified.
    async fn put_blob(
        &self,
        tenant: &str,
        digest: &str,
        from: &mut (dyn Read + Send),
    ) -> Result<(), FleetError>;

    /// Copies a blob. Returns whether there is one. The caller verifies the digest.
    async fn read_blob(
        &self,
        tenant: &str,
        digest: &str,
        to: &mut (dyn Write + Send),
    ) -> Result<bool, FleetError>;

    /// Stores the list of an uploaded skill's files, which are blobs.
    async fn put_skill(&self, tenant: &str, skill: &FleetSkill) -> Result<(), FleetError>;

    /// Returns an uploaded skill, by its digest or its name.
    async fn skill(&self, tenant: &str, named: &str) -> Result<Option<FleetSkill>, FleetError>;

    /// Returns the run that has the result of this key, and what it left. A worker of this tenant
    /// has signed both together.
    async fn known_result(
        &self,
        tenant: &str,
        key: &str,
    ) -> Result<Option<(String, FleetEnd)>, FleetError>;

    /// Counts what the tenant used: milliseconds of processor time, and bytes. `now`: the time, in
    /// milliseconds since 1970.
    async fn charge(
        &self,
        tenant: &str,
        cpu_ms: u64,
        bytes: u64,
        now: i64,
    ) -> Result<(), FleetError>;

    /// Returns what the tenant used in the last hour, on all servers and workers.
    async fn usage(&self, tenant: &str, now: i64) -> Result<HourlyUsage, FleetError>;

    /// Returns metrics in the text format of Prometheus, for these tenants.
    async fn metrics(&self, tenants: &[String]) -> String;
}

/// Why a fleet did not do something.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The brokers do not answer, or refuse.
    #[error("the fleet is not available: {0}")]
    Unavailable(String),
    /// The tenant's queue or storage is full.
    #[error("full")]
    Full,
    /// What was read is not signed by a worker of the tenant, or has another digest.
    #[error("refused what the queue holds: {0}")]
    Untrusted(String),
    /// Something is larger than the brokers accept.
    #[error("too large: {0}")]
    TooLarge(String),
}

/// What a fleet needs to know of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetTenant {
    /// Its name.
    pub name: String,
    /// Its runs at once in one class.
    pub running: u64,
    /// Its runs in the queue.
    pub queued: u64,
    /// Bytes that it may store.
    pub storage: u64,
    /// How long its runs are kept.
    pub results: Duration,
    /// How long its uploads are kept.
    pub uploads: Duration,
    /// How long its sessions may live.
    pub session_ttl: Duration,
}

/// What a run needs of a worker.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum RunClass {
    /// At most 1 GiB and 5 minutes.
    #[default]
    Small,
    /// More memory.
    LargeMemory,
    /// More time.
    Long,
}

/// A run to submit to a fleet.
#[derive(Debug, Clone)]
pub struct NewFleetRun {
    /// Its id, whose first 12 digits are the time in milliseconds.
    pub id: String,
    /// The skill, as the client named it.
    pub skill: String,
    /// The skill with its digest, which the worker must have.
    pub pinned: String,
    /// What it needs of a worker.
    pub class: RunClass,
    /// What was submitted, as JSON.
    pub request: String,
    /// The idempotency key, and the digest of what was submitted with it.
    pub key: Option<(String, String)>,
    /// Whether what it uses counts towards a quota of an hour.
    pub is_metered: bool,
    /// The time, in milliseconds since 1970.
    pub now: i64,
}

/// A run of a fleet.
#[derive(Debug, Clone)]
pub struct FleetRun {
    /// Its id.
    pub id: String,
    /// Where it is in its life.
    pub status: RunStatus,
    /// The skill, as the client named it.
    pub skill: String,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted: i64,
    /// When it started.
    pub started: Option<i64>,
    /// When it ended.
    pub ended: Option<i64>,
    /// How it ended.
    pub kind: Option<String>,
    /// The exit code of the program.
    pub exit_code: Option<u8>,
    /// What it left.
    pub end: Option<FleetEnd>,
}

/// What a run left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetEnd {
    /// Its result, as JSON of the server.
    pub result: Content,
    /// Its standard output.
    pub stdout: Content,
    /// Its standard error.
    pub stderr: Content,
}

/// Some bytes: here, or in a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// The bytes.
    Inline(Output),
    /// The blob with this digest.
    Blob(String),
    /// The digest of bytes that are stored beside the signed end of a run. In an end that was read, the
    /// brokers have lost them.
    Digest(String),
}

/// An uploaded skill: its files are blobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSkill {
    /// Its name.
    pub name: String,
    /// Its digest.
    pub digest: String,
    /// The digest of each file, and whether it is executable.
    pub files: BTreeMap<String, (String, bool)>,
}

/// Bytes that were fetched, or that a run has left.
#[derive(Debug)]
pub enum Fetched {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The bytes of a file.
    File(std::fs::File),
}

/// What a run needs, as the server that accepts it finds out.
pub(super) struct Needs {
    pub(super) pinned: String,
    pub(super) class: RunClass,
}

impl RunClass {
    /// All classes.
    pub const ALL: [RunClass; 3] = [RunClass::Small, RunClass::LargeMemory, RunClass::Long];

    /// Returns the class as one word.
    pub fn name(self) -> &'static str {
        match self {
            RunClass::Small => "small",
            RunClass::LargeMemory => "large-memory",
            RunClass::Long => "long",
        }
    }

    /// Returns the class of this name.
    pub fn of_name(name: &str) -> Option<RunClass> {
        RunClass::ALL.into_iter().find(|class| class.name() == name)
    }

    fn of(limits: &Limits) -> RunClass {
        const MEMORY: u64 = 1 << 30;
        const TIME: Duration = Duration::from_secs(300);
        if limits.host_memory() > MEMORY {
            RunClass::LargeMemory
        } else if limits.timeout() > TIME {
            RunClass::Long
        } else {
            RunClass::Small
        }
    }
}

impl Content {
    /// Returns some bytes as they are stored with what names them; `None` if they need a blob. What
    /// counts is their size as JSON, in which a byte may take six.
    pub fn inline(bytes: Vec<u8>) -> Option<Content> {
        if bytes.len() > INLINE {
            return None;
        }
        let content = Content::Inline(Output(bytes));
        let size = serde_json::to_vec(&content).map_or(usize::MAX, |text| text.len());
        (size <= 2 * INLINE).then_some(content)
    }
}

impl Default for Content {
    fn default() -> Content {
        Content::Inline(Output::default())
    }
}

impl Fetched {
    /// Returns the bytes from a position, at most this many.
    pub(super) fn at(&self, at: u64, most: usize) -> std::io::Result<Vec<u8>> {
        match self {
            Fetched::Bytes(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                Ok(bytes[from..bytes.len().min(from.saturating_add(most))].to_vec())
            }
            Fetched::File(file) => {
                let mut bytes = vec![0; most];
                let count = file.read_at(&mut bytes, at)?;
                bytes.truncate(count);
                Ok(bytes)
            }
        }
    }

    /// Returns the number of bytes.
    pub(super) fn size(&self) -> std::io::Result<u64> {
        match self {
            Fetched::Bytes(bytes) => Ok(bytes.len() as u64),
            Fetched::File(file) => Ok(file.metadata()?.len()),
        }
    }
}

impl From<FleetError> for Problem {
    fn from(error: FleetError) -> Problem {
        match error {
            FleetError::Unavailable(_) => {
                tracing::error!(%error, "a request of the run API failed");
                let detail = "the queue does not answer; the request had no effect that counts";
                Problem::new(ProblemCode::FleetUnavailable, detail).retry_after(1)
            }
            FleetError::Untrusted(_) => {
                tracing::error!(%error, "refused a result");
                let detail =
                    "it is not signed by a worker of this tenant; the log of the server says more";
                Problem::new(ProblemCode::ResultUntrusted, detail)
            }
            FleetError::Full => {
                let detail = "the storage of the tenant is full";
                Problem::new(ProblemCode::StorageQuota, detail)
            }
            FleetError::TooLarge(detail) => Problem::invalid(detail),
        }
    }
}

impl ApiShared {
    /// Accepts a run that was checked, or answers for the one that was submitted under the same key.
    pub(super) async fn submit_to(
        self: &Arc<Self>,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        mut submission: RunSubmission,
        key: Option<String>,
    ) -> Answered<Accepted> {
        check_key(key.as_deref())?;
        let (request, digest) = canonical(&mut submission)?;
        // As it is stored, which a worker has to read: escapes make it longer than it was sent.
        if request.len() > self.options.bounds.body {
            return Err(too_large(self.options.bounds.body as u64));
        }
        let key = key.map(|key| (key, digest));
        if let Some((key, digest)) = &key
            && let Some(before) = fleet.known_key(&tenant.name, (key, digest)).await?
        {
            return self.submitted_to(fleet, tenant, before).await;
        }
        if self.closing.is_cancelled() {
            return Err(closing());
        }
        tenant.require_quotas().await?;
        let needs = self.needs(tenant, &submission).await?.ok_or_else(|| {
            let detail =
                "`skill` names no skill of this server, and none that this tenant uploaded";
            Problem::new(ProblemCode::NoSkill, detail)
        })?;
        let RunSubmission { files, tree, .. } = &submission;
        self.require_in_fleet(fleet, tenant, files, tree.as_deref()).await?;
        let now = now();
        let new = NewFleetRun {
            id: new_id(),
            skill: submission.skill.clone(),
            pinned: needs.pinned,
            class: needs.class,
            request,
            key,
            is_metered: tenant.settings().quotas.has_hourly(),
            now,
        };
        match fleet.submit(&tenant.name, &new).await? {
            Submitted::New => {
                tenant.charge(0, new.request.len() as u64).await;
                let run = self.fleet_run(fleet, tenant, &new.id).await?;
                Ok(Accepted { run, is_repeated: false })
            }
            other => self.submitted_to(fleet, tenant, other).await,
        }
    }

    async fn submitted_to(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        submitted: Submitted,
    ) -> Answered<Accepted> {
        match submitted {
            Submitted::Repeated(id) => {
                Ok(Accepted { run: self.fleet_run(fleet, tenant, &id).await?, is_repeated: true })
            }
            other => self.submitted(tenant, other),
        }
    }

    /// Returns where a run is in its life.
    pub(super) async fn fleet_run(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        id: &str,
    ) -> Answered<RunInfo> {
        let found = fleet.get(&tenant.name, id).await?;
        Ok(info(&found.ok_or_else(Problem::not_found)?))
    }

    /// Waits until a run has ended, at most this long.
    pub(super) async fn wait_in(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        id: &str,
        within: Duration,
    ) -> Answered<RunInfo> {
        let until = tokio::time::Instant::now() + within;
        // Before the first look: a change in between is announced.
        let changes = fleet.watch(&tenant.name, id).await?;
        let is_end = |event: &RunEvent| std::future::ready(*event == RunEvent::Ended);
        let mut ends = changes.filter(is_end);
        loop {
            let run = self.fleet_run(fleet, tenant, id).await?;
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if run.status.has_ended() || left.is_zero() {
                return Ok(run);
            }
            tokio::select! {
                _ = ends.next() => {}
                () = tokio::time::sleep(left.min(LOOK)) => {}
                () = self.closing.cancelled() => return Ok(run),
            }
        }
    }

    /// Cancels a run. A run that has ended stays as it is.
    pub(super) async fn cancel_in(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        id: &str,
    ) -> Answered<RunInfo> {
        self.fleet_run(fleet, tenant, id).await?;
        fleet.cancel(&tenant.name, id).await?;
        self.wait_in(fleet, tenant, id, CANCELLED).await
    }

    /// Returns the result of a run that has ended.
    pub(super) async fn fleet_result(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        id: &str,
    ) -> Answered<RunResult> {
        let found = fleet.get(&tenant.name, id).await?.ok_or_else(Problem::not_found)?;
        let run = info(&found);
        if !run.status.has_ended() {
            return Err(super::submit::not_ended(&run));
        }
        let Some(end) = &found.end else { return Ok(RunResult::without_outcome(run)) };
        let result = self.fetch(fleet, tenant, &end.result).await?;
        let result = result.at(0, RESULT).map_err(|error| Problem::internal(&error))?;
        if result.is_empty() {
            return Ok(RunResult::without_outcome(run));
        }
        let result: StoredResult =
            serde_json::from_slice(&result).map_err(|error| Problem::internal(&error))?;
        let mut starts = Vec::new();
        for content in [&end.stdout, &end.stderr] {
            let fetched = self.fetch(fleet, tenant, content).await?;
            let mut start = fetched.at(0, DIFF + 1).map_err(|error| Problem::internal(&error))?;
            // A stream that is lost is not shown as one that was empty.
            let is_cut = start.len() > DIFF || matches!(content, Content::Digest(_));
            start.truncate(DIFF);
            starts.push((start, is_cut));
        }
        let mut starts = starts.into_iter();
        let start = |_: StreamName| Ok(starts.next().unwrap_or_default());
        result.with_streams(run, start).map_err(|error| Problem::internal(&error))
    }

    /// Lists runs, the latest first. `cursor`: the id before which to continue.
    pub(super) async fn fleet_list(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        filter: &RunFilter,
        cursor: Option<&str>,
    ) -> Answered<RunList> {
        let ids = {
            // Tenants share the places for lists: one that asks for many must not keep others waiting.
            let place = tenant.requests.acquire().await;
            let _place = place.map_err(|error| Problem::internal(&error))?;
            // One more than this page reads says that the list continues.
            fleet.ids(&tenant.name, cursor, SCANNED + 1).await?
        };
        let (mut runs, mut next) = (Vec::new(), None);
        for (at, id) in ids.iter().enumerate() {
            if runs.len() >= filter.limit as usize || at >= SCANNED {
                next = at.checked_sub(1).map(|last| ids[last].clone());
                break;
            }
            let run = match fleet.get(&tenant.name, id).await {
                Ok(Some(run)) => run,
                Ok(None) => continue,
                // One record that is forged, or of another version, hides no other.
                Err(error @ FleetError::Untrusted(_)) => {
                    tracing::warn!(tenant = tenant.name, run = id, %error, "left out of a list");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if filter.status.is_none_or(|status| run.status == status)
                && filter.skill.as_ref().is_none_or(|skill| run.skill == *skill)
            {
                runs.push(info(&run));
            }
        }
        Ok(RunList { runs, next })
    }

    /// Returns a stream of a run as a file; `None` if it is empty.
    pub(super) async fn fleet_stream(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        id: &str,
        stream: StreamName,
    ) -> Answered<Fetched> {
        let found = fleet.get(&tenant.name, id).await?.ok_or_else(Problem::not_found)?;
        let Some(end) = found.end else {
            let live = fleet.live_output(&tenant.name, id, [0, 0]).await.unwrap_or_default();
            let [stdout, stderr] = live;
            return Ok(Fetched::Bytes(if stream == StreamName::Stdout { stdout } else { stderr }));
        };
        let content = if stream == StreamName::Stdout { &end.stdout } else { &end.stderr };
        self.fetch(fleet, tenant, content).await
    }

    /// Returns the bytes of a stream of a run that has ended, from a position.
    pub(super) async fn fleet_output(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        content: &Content,
        at: u64,
        most: usize,
    ) -> Answered<Vec<u8>> {
        let fetched = self.fetch(fleet, tenant, content).await?;
        fetched.at(at, most).map_err(|error| Problem::internal(&error))
    }

    pub(super) async fn fetch(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        content: &Content,
    ) -> Answered<Fetched> {
        match content {
            Content::Inline(bytes) => Ok(Fetched::Bytes(bytes.0.clone())),
            // Only the record of the end is left, which has no output: the run has its status, the kind
            // of its outcome and its exit code, and everything else is empty.
            Content::Digest(_) => Ok(Fetched::Bytes(Vec::new())),
            Content::Blob(digest) => {
                if !self.fetch_blob(fleet, tenant, digest).await? {
                    return Err(Problem::internal(&format!("the blob {digest} is missing")));
                }
                let file = tenant.state.blob(digest).map_err(|error| Problem::internal(&error))?;
                Ok(Fetched::File(file.into_std()))
            }
        }
    }

    /// Copies a blob of the fleet to the cache on this disk, and verifies its digest. Returns whether
    /// there is one.
    pub(super) async fn fetch_blob(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        digest: &str,
    ) -> Answered<bool> {
        let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
        let known = tenant.state.store.use_blob(digest, now()).map_err(|error| internal(&error))?;
        if known.is_some() && tenant.state.blob(digest).is_ok() {
            return Ok(true);
        }
        let mut upload = tenant.state.upload().map_err(|error| internal(&error))?;
        if !fleet.read_blob(&tenant.name, digest, &mut upload).await? {
            return Ok(false);
        }
        // A cache is not charged to the tenant: what is stored for it is in the fleet.
        match upload.finish(digest, u64::MAX, now()).map_err(|error| internal(&error))? {
            Finished::Stored => Ok(true),
            Finished::OtherDigest | Finished::Full => {
                let why = format!("the blob {digest} has another digest");
                Err(FleetError::Untrusted(why).into())
            }
        }
    }

    /// Finds out which skill a run needs, with its digest, and what it needs of a worker. `None`:
    /// there is no such skill.
    pub(super) async fn needs(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        submission: &RunSubmission,
    ) -> Answered<Option<Needs>> {
        let settings = tenant.settings();
        let name = submission.skill.split('@').next().unwrap_or_default();
        let is_in_catalogue = self.mcp.catalog.get(name).is_some() && !settings.policy.hides(name);
        let mut named = submission.skill.clone();
        if !is_in_catalogue && let Some(fleet) = &self.options.fleet {
            match self.fetch_skill(fleet, tenant, &submission.skill).await? {
                Some(digest) => named = digest,
                None => return Ok(None),
            }
        }
        let (api, tenant, submission) = (self.clone(), tenant.clone(), submission.clone());
        blocking(move || {
            let found = api.find_skill(&tenant, &settings, &named);
            let Some(skill) = found.map_err(|error| Problem::internal(&error))? else {
                return Ok(None);
            };
            let folder = SkillFolder {
                path: &skill.folder,
                source: skill.source,
                locked: skill.locked.as_ref(),
            };
            // What does not load ends on a worker as it would here.
            let runner = skill.runner(tenant.service.runner(), &tenant);
            let Ok(loaded) = runner.load(folder, &settings.policy) else {
                return Ok(Some(Needs { pinned: named, class: RunClass::Small }));
            };
            let pinned = match (&loaded.id().digest, skill.is_upload) {
                (Some(digest), true) => digest.clone(),
                (Some(digest), false) => {
                    format!("{}@{digest}", named.split('@').next().unwrap_or_default())
                }
                (None, _) => named,
            };
            let lower = submission.limits.iter().map(|(limit, value)| (*limit, *value));
            let loaded = loaded.with_lower_limits(lower);
            let class = RunClass::of(&loaded.grant.capabilities.limits);
            Ok(Some(Needs { pinned, class }))
        })
        .await
    }

    /// Copies an uploaded skill to this disk, and verifies its digest. Returns its digest; `None` if
    /// there is no such skill.
    pub(super) async fn fetch_skill(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        named: &str,
    ) -> Answered<Option<String>> {
        let (name, digest) = match named.split_once('@') {
            Some((name, digest)) => (Some(name), digest),
            None => (None, named),
        };
        let known = tenant.state.store.use_skill(digest, now());
        let known = known.map_err(|error| Problem::internal(&error))?;
        if let Some((known, known_name)) = known
            && known == digest
            && name.is_none_or(|name| *name == *known_name)
        {
            return Ok(Some(known));
        }
        let Some(skill) = fleet.skill(&tenant.name, digest).await? else { return Ok(None) };
        if name.is_some_and(|name| *name != *skill.name) {
            return Ok(None);
        }
        let mut files = SkillFiles::new();
        for (path, (blob, executable)) in &skill.files {
            if !super::state::is_inside(path) || !self.fetch_blob(fleet, tenant, blob).await? {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            tenant
                .state
                .blob(blob)
                .and_then(|blob| blob.into_std().read_to_end(&mut bytes))
                .map_err(|error| Problem::internal(&error))?;
            files.insert(path.clone(), (bytes, *executable));
        }
        let (tenant, expected) = (tenant.clone(), skill.digest.clone());
        let stored: SkillInfo =
            blocking(move || uploads::keep(&tenant, &skill.name, &files, u64::MAX)).await?;
        match stored.digest == expected {
            true => Ok(Some(expected)),
            false => {
                let why = format!("the skill {expected} has the digest {}", stored.digest);
                Err(FleetError::Untrusted(why).into())
            }
        }
    }

    /// Stores an uploaded skill for all servers and workers.
    pub(super) async fn share_skill(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        skill: &SkillInfo,
        files: &SkillFiles,
    ) -> Answered<()> {
        let mut shared = FleetSkill {
            name: skill.name.clone(),
            digest: skill.digest.clone(),
            files: BTreeMap::new(),
        };
        for (path, (bytes, executable)) in files {
            let digest = skillhost_skill::runtime::digest(bytes);
            self.share(fleet, tenant, &digest, &mut &**bytes).await?;
            shared.files.insert(path.clone(), (digest, *executable));
        }
        Ok(fleet.put_skill(&tenant.name, &shared).await?)
    }

    /// Stores a blob for all servers and workers.
    pub(super) async fn share(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        digest: &str,
        from: &mut (dyn Read + Send),
    ) -> Answered<()> {
        fleet.put_blob(&tenant.name, digest, from).await.map_err(|error| match error {
            FleetError::Full => storage_quota(tenant.settings().quotas.storage.0),
            error => error.into(),
        })
    }
}

/// Returns the start of what was fetched, without a character that was cut in half.
pub(super) fn whole_characters(bytes: Vec<u8>, is_last: bool) -> Vec<u8> {
    if is_last { bytes } else { valid_start(bytes) }
}

fn info(run: &FleetRun) -> RunInfo {
    RunInfo {
        id: run.id.clone(),
        status: run.status,
        skill: run.skill.clone(),
        submitted: time(run.submitted),
        started: run.started.map(time),
        ended: run.ended.map(time),
        exit_code: run.exit_code,
        outcome: run.kind.clone(),
    }
}

/// As [`start_of`], for a stream of a run of this server.
pub(super) fn local_start(
    tenant: &Tenant,
    id: &str,
    stream: StreamName,
) -> std::io::Result<(Vec<u8>, bool)> {
    match tenant.state.output(id, stream) {
        Ok(output) => start_of(&output, DIFF),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((Vec::new(), false)),
        Err(error) => Err(error),
    }
}
