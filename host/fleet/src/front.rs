//! The queue for API servers: [`Fleet`] over the brokers. A server that is killed between two steps of a
//! submission leaves what the next request with the same key completes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::sync::Semaphore;

use crate::broker::{Brokers, Written, unavailable};
use crate::identity::Role;
use crate::names;
use crate::runs::{Change, Read, Runs, end_without_outcome, event, now};
use crate::sessions::Tls;
use crate::streams::{self, FleetSettings};
use crate::types::{
    Bounded, CONTROL_BYTES, Claim, Control, KeyRecord, KnownResult, LiveOutput, Report, RunRecord,
    RunState, VERSION,
};
use crate::usage;
use skillhost_ledger::runs::{HourlyUsage, RunStatus, Submitted};
use skillhost_server::api::fleet::{
    Content, Fleet, FleetEnd, FleetError, FleetRun, FleetSkill, FleetTenant, INLINE, NewFleetRun,
    RunEvent,
};

/// How long a worker may take to answer.
const ANSWER: Duration = Duration::from_millis(500);
/// How often a cancellation is sent to a worker that does not answer yet, and the pause in between.
const CANCELS: (usize, Duration) = (10, Duration::from_millis(50));
/// The least time between two copies of a message, for a client that repeats a submission.
const COPY: Duration = Duration::from_secs(10);
/// How long it is known how much is stored.
const STORED: Duration = Duration::from_secs(1);
/// How often the identity is read again.
const REFRESH: Duration = Duration::from_secs(1);
/// A worker that has not reported for so long does not count in the metrics.
const REPORTED: Duration = Duration::from_secs(15);
/// The least time without a report after which a process is silent: it may miss two.
const SILENT: Duration = Duration::from_secs(5);
/// The most processes of workers in the metrics.
const PROCESSES: usize = 1_000;
/// The most lists of runs at once, and how long another one waits. Brokers cannot return a range of
/// subjects, so each page of a list reads the subjects of all runs of the tenant, up to 100,000 at once,
/// which takes tens of MB.
const LISTINGS: (usize, Duration) = (2, Duration::from_secs(10));

/// The queue of a fleet.
pub struct Front {
    pub(crate) brokers: Brokers,
    settings: FleetSettings,
    /// How long uploads are kept, and how many bytes may be stored, by tenant.
    kept: Mutex<HashMap<String, (Duration, u64)>>,
    /// How many bytes were stored, and when, by tenant.
    stored: Mutex<HashMap<String, (Instant, u64)>>,
    reports: Arc<Mutex<BTreeMap<String, (Instant, Report)>>>,
    /// The tenants whose workers are listened to, and since when.
    reporting: Mutex<HashMap<String, Instant>>,
    /// Bounds the memory of lists.
    listings: Semaphore,
    pub(crate) tls: Tls,
}

impl Front {
    /// Uses these connections.
    pub fn new(brokers: Brokers, settings: FleetSettings) -> Front {
        let (reports, reporting) = (Arc::default(), Mutex::default());
        let (kept, stored) = (Mutex::default(), Mutex::default());
        let (listings, tls) = (Semaphore::new(LISTINGS.0), Tls::default());
        Front { brokers, settings, kept, stored, reports, reporting, listings, tls }
    }

    /// Checks whether a process of a worker has not reported for so long that its runs are another
    /// worker's, although this server has listened.
    pub(crate) fn has_been_silent(&self, tenant: &str, labels: &str) -> bool {
        let within = self.settings.redeliver_after.max(SILENT);
        let since = {
            let reporting = self.reporting.lock().unwrap_or_else(PoisonError::into_inner);
            reporting.get(tenant).copied()
        };
        let Some(since) = since else { return false };
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = reports.get(labels).map_or(since, |(at, _)| *at);
        heard.elapsed() > within
    }

    /// Starts to read again whose signatures count. Must be called within an event loop.
    pub fn watch_identity(&self) {
        let identity = Arc::downgrade(&self.brokers.identity);
        tokio::spawn(async move {
            while let Some(identity) = identity.upgrade() {
                tokio::task::spawn_blocking(move || identity.refresh()).await.ok();
                tokio::time::sleep(REFRESH).await;
            }
        });
    }

    /// Starts to listen to the reports of the workers of a tenant, unless it does.
    async fn listen(&self, tenant: &str) -> Result<(), FleetError> {
        let is_new = || {
            let mut reporting = self.reporting.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = !reporting.contains_key(tenant);
            reporting.entry(tenant.to_owned()).or_insert_with(Instant::now);
            is_new
        };
        let broker = self.brokers.of(tenant).await?;
        let heard = broker.client.subscribe(names::report("*", "*")).await;
        let mut heard = heard.map_err(|error| unavailable(&error))?;
        if !is_new() {
            return Ok(());
        }
        let reports = self.reports.clone();
        let kept = REPORTED.max(self.settings.redeliver_after * 2);
        tokio::spawn(async move {
            while let Some(message) = heard.next().await {
                let Some(labels) = names::reporting(&message.subject) else { continue };
                if let Ok(report) = Report::read(&message.payload) {
                    let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
                    reports.retain(|_, (at, _)| at.elapsed() < kept);
                    if reports.len() < PROCESSES || reports.contains_key(&labels) {
                        reports.insert(labels, (Instant::now(), report));
                    }
                }
            }
        });
        Ok(())
    }

    async fn runs(&self, tenant: &str) -> Result<Runs, FleetError> {
        Ok(Runs::new(self.brokers.of(tenant).await?, tenant))
    }

    /// Returns the bytes that are stored for a tenant, as they were within the last second.
    async fn stored(&self, runs: &Runs) -> Result<u64, FleetError> {
        let known = {
            let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
            stored.get(&*runs.tenant).copied()
        };
        if let Some((at, bytes)) = known
            && at.elapsed() < STORED
        {
            return Ok(bytes);
        }
        let bytes = streams::stored(&runs.broker, &runs.tenant).await?;
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.insert(runs.tenant.to_string(), (Instant::now(), bytes));
        Ok(bytes)
    }

    /// Counts bytes until it is known again how much is stored.
    fn count_stored(&self, tenant: &str, more: usize) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = stored.get_mut(tenant) {
            *bytes = bytes.saturating_add(more as u64);
        }
    }

    /// Returns how long uploads of a tenant are kept, and how many bytes may be stored for it.
    fn kept(&self, tenant: &str) -> (Duration, u64) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(tenant).copied().unwrap_or_default()
    }

    /// Claims an idempotency key for a new run. Returns the run that has the key and when it was submitted, or
    /// `OtherBody`.
    async fn claim_key(
        &self,
        tenant: &str,
        (key, digest): (&str, &str),
        new: &NewFleetRun,
    ) -> Result<Result<(String, i64), Submitted>, FleetError> {
        let record = KeyRecord {
            version: VERSION,
            digest: digest.to_owned(),
            run: new.id.clone(),
            created: new.now,
        };
        let bytes = record.write().map_err(FleetError::TooLarge)?;
        let broker = self.brokers.of(tenant).await?;
        // Nothing is read first: a broker that repeats a refused write after a kill refuses it again, since keys
        // are never replaced.
        let written = broker.put(names::key(tenant, key), bytes, Some(0)).await?;
        if let Written::At(_) = written {
            return Ok(Ok((new.id.clone(), new.now)));
        }
        match self.key(tenant, key).await? {
            Some(known) if known.digest == digest => Ok(Ok((known.run, known.created))),
            Some(_) => Ok(Err(Submitted::OtherBody)),
            None if written == Written::Full => Err(FleetError::Full),
            None => Err(unavailable(&"the idempotency key is just expiring")),
        }
    }

    /// Returns a key that the brokers remember.
    async fn key(&self, tenant: &str, key: &str) -> Result<Option<KeyRecord>, FleetError> {
        let (stream, subject) = (names::keys_stream(tenant), names::key(tenant, key));
        let Some(found) = self.brokers.of(tenant).await?.get(&stream, &subject).await? else {
            return Ok(None);
        };
        KeyRecord::read(&found.bytes).map(Some).map_err(FleetError::Untrusted)
    }

    /// Returns some bytes here, if they are few, or else as a blob.
    async fn content(&self, tenant: &str, bytes: &[u8]) -> Result<Content, FleetError> {
        let few = bytes.get(..INLINE + 1).is_none().then(|| bytes.to_vec());
        if let Some(content) = few.and_then(Content::inline) {
            return Ok(content);
        }
        let digest = skillhost_skill::runtime::digest(bytes);
        self.brokers.of(tenant).await?.put_blob(tenant, &digest, &mut &*bytes).await?;
        Ok(Content::Blob(digest))
    }

    async fn control(
        &self,
        tenant: &str,
        run: &str,
        control: &Control,
    ) -> Result<Vec<u8>, RequestErrorKind> {
        let bytes = serde_json::to_vec(control).unwrap_or_default();
        let request = async_nats::Request::new().payload(bytes.into()).timeout(Some(ANSWER));
        let broker = self.brokers.of(tenant).await.map_err(|_| RequestErrorKind::Other)?;
        let answer = broker.client.send_request(names::control(tenant, run), request).await;
        answer.map(|answer| answer.payload.to_vec()).map_err(|error| error.kind())
    }

    /// Ends a run that waits, or marks one in progress. Returns whether a worker has it.
    async fn mark_cancelled(&self, runs: &Runs, id: &str) -> Result<bool, FleetError> {
        let Some(Read { record, .. }) = runs.read(id).await? else { return Ok(false) };
        let end = end_without_outcome(
            &self.brokers.identity,
            &runs.tenant,
            &RunRecord { attempts: 0, ..record },
            RunStatus::Cancelled,
            now(),
        )?;
        let changed = runs
            .change(id, |record| {
                let state = match &record.state {
                    // Also one that a worker has given back.
                    RunState::Queued => RunState::Ended(end.clone()),
                    RunState::Running(claim) if !claim.is_cancelled => {
                        RunState::Running(Claim { is_cancelled: true, ..claim.clone() })
                    }
                    _ => return None,
                };
                Some(RunRecord { state, ..record })
            })
            .await?;
        if changed == Change::Made {
            runs.announce(id, RunEvent::Ended).await;
        }
        let now = runs.read(id).await?;
        if let Some(Read { record: RunRecord { state: RunState::Ended(stored), .. }, .. }) = &now
            && *stored == end
        {
            runs.record(id, &end).await?;
        }
        Ok(now.is_some_and(|read| matches!(read.record.state, RunState::Running(_))))
    }
}

#[async_trait::async_trait]
impl Fleet for Front {
    async fn open(&self, tenants: &[FleetTenant]) -> Result<(), FleetError> {
        for tenant in tenants {
            // A worker may create none, and waits until a server has.
            if self.brokers.identity.role == Role::Api {
                let broker = self.brokers.of(&tenant.name).await?;
                streams::open(&broker, tenant, &self.settings).await?;
                self.listen(&tenant.name).await?;
            }
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.insert(tenant.name.clone(), (tenant.uploads, tenant.storage));
        }
        Ok(())
    }

    async fn known_key(
        &self,
        tenant: &str,
        (key, digest): (&str, &str),
    ) -> Result<Option<Submitted>, FleetError> {
        let Some(known) = self.key(tenant, key).await? else { return Ok(None) };
        if known.digest != digest {
            return Ok(Some(Submitted::OtherBody));
        }
        let runs = self.runs(tenant).await?;
        // A server was killed after it had taken the key: this request submits the run.
        let Some(Read { record, .. }) = runs.read(&known.run).await? else { return Ok(None) };
        if !matches!(record.state, RunState::Ended(_))
            && let Some(end) = runs.recorded(&known.run).await?
        {
            // The end is stored before its record: a broker has lost it.
            self.brokers.identity.verify(&end, tenant, &known.run)?;
            runs.restore(&known.run, &end).await?;
            return Ok(Some(Submitted::Repeated(known.run)));
        }
        match &record.state {
            RunState::Queued => {
                // Or before it had put the run into the queue; or a broker has lost the message.
                if enqueue_copy(&runs, &record).await? == Written::Full {
                    return Ok(Some(Submitted::Full));
                }
            }
            RunState::Running(_) => {
                // Its worker may have been killed, and a broker may have lost the message since. A full
                // queue changes nothing: the run was accepted.
                if self.live_output(tenant, &known.run, [0, 0]).await.is_none() {
                    enqueue_copy(&runs, &record).await?;
                }
            }
            // A worker was killed before it had written the record.
            RunState::Ended(end) => runs.record_end(&known.run, end).await?,
        }
        Ok(Some(Submitted::Repeated(known.run)))
    }

    async fn submit(&self, tenant: &str, new: &NewFleetRun) -> Result<Submitted, FleetError> {
        let runs = self.runs(tenant).await?;
        // The broker bounds blobs alone: a stream that refused records would not let runs end.
        let (_, storage) = self.kept(tenant);
        if self.stored(&runs).await? >= storage {
            return Err(FleetError::Full);
        }
        self.count_stored(tenant, new.request.len());
        let key = new.key.as_ref().map(|(key, digest)| (&**key, &**digest));
        let (id, submitted) = match key {
            Some(key) => match self.claim_key(tenant, key, new).await? {
                Ok(claimed) => claimed,
                Err(other) => return Ok(other),
            },
            None => (new.id.clone(), new.now),
        };
        let record = RunRecord {
            version: VERSION,
            id: id.clone(),
            skill: new.skill.clone(),
            pinned: new.pinned.clone(),
            class: new.class,
            submitted,
            request: self.content(tenant, new.request.as_bytes()).await?,
            attempts: 0,
            most_attempts: self.settings.attempts,
            refused: 0,
            is_metered: new.is_metered,
            state: RunState::Queued,
        };
        let revision = if key.is_some() {
            // Even the server that claimed the key checks: it may have been paused while another one went on.
            match futures::try_join!(runs.read(&id), runs.recorded(&id))? {
                (Some(_), _) => None,
                (None, Some(end)) => {
                    // The run has ended, and a broker has lost its record.
                    let attempts = self.brokers.identity.verify(&end, tenant, &id)?.attempt;
                    let state = RunState::Ended(end);
                    let created = runs.create(&RunRecord { attempts, state, ..record }).await?;
                    if created.is_some() {
                        tracing::warn!(
                            tenant,
                            run = id,
                            "the brokers had lost the record of the run"
                        );
                        runs.announce(&id, RunEvent::Ended).await;
                    }
                    return Ok(Submitted::Repeated(id));
                }
                (None, None) => runs.create(&record).await?,
            }
        } else {
            runs.create(&record).await?
        };
        match runs.enqueue(&record, &id).await? {
            // Another request with the key may have been told that the run is accepted: the next one
            // puts it into the queue.
            Written::Full if key.is_some() => Ok(Submitted::Full),
            Written::Full => {
                if let Some(revision) = revision {
                    runs.broker.delete(&names::runs_stream(tenant), revision).await?;
                }
                Ok(Submitted::Full)
            }
            _ if id == new.id => Ok(Submitted::New),
            _ => Ok(Submitted::Repeated(id)),
        }
    }

    async fn get(&self, tenant: &str, id: &str) -> Result<Option<FleetRun>, FleetError> {
        let Some(Read { record, .. }) = self.runs(tenant).await?.read(id).await? else {
            return Ok(None);
        };
        let run = FleetRun {
            id: record.id,
            status: RunStatus::Queued,
            skill: record.skill,
            submitted: record.submitted,
            started: None,
            ended: None,
            kind: None,
            exit_code: None,
            end: None,
        };
        Ok(Some(match record.state {
            RunState::Queued => run,
            RunState::Running(claim) => {
                FleetRun { status: RunStatus::Running, started: Some(claim.started), ..run }
            }
            RunState::Ended(end) => {
                let end = self.brokers.identity.verify(&end, tenant, id)?;
                FleetRun {
                    status: end.status,
                    started: end.started,
                    ended: Some(end.ended),
                    kind: end.kind,
                    exit_code: end.exit_code,
                    end: Some(end.left),
                    ..run
                }
            }
        }))
    }

    async fn ids(
        &self,
        tenant: &str,
        before: Option<&str>,
        most: usize,
    ) -> Result<Vec<String>, FleetError> {
        let listing = tokio::time::timeout(LISTINGS.1, self.listings.acquire()).await;
        let _listing = listing
            .map_err(|_| unavailable(&"too many lists of runs at once"))?
            .map_err(|error| unavailable(&error))?;
        let stream = self.brokers.of(tenant).await?.stream(&names::runs_stream(tenant)).await?;
        let mut subjects = stream
            .info_with_subjects(names::run(tenant, "*"))
            .await
            .map_err(|error| unavailable(&error))?;
        // They have no order, so all are looked at, and those that the page needs are kept.
        let mut ids = BTreeSet::new();
        while let Some(found) = subjects.next().await {
            let (subject, _) = found.map_err(|error| unavailable(&error))?;
            let Some((_, id)) = subject.rsplit_once('.') else { continue };
            if before.is_some_and(|before| id >= before) {
                continue;
            }
            ids.insert(id.to_owned());
            if ids.len() > most {
                ids.pop_first();
            }
        }
        Ok(ids.into_iter().rev().collect())
    }

    async fn cancel(&self, tenant: &str, id: &str) -> Result<(), FleetError> {
        let runs = self.runs(tenant).await?;
        if !self.mark_cancelled(&runs, id).await? {
            return Ok(());
        }
        // The mark is for a worker that takes the run later. The one that has it hears now; the first
        // messages may come before its subscription has reached this broker.
        for _ in 0..CANCELS.0 {
            match self.control(tenant, id, &Control::Cancel).await {
                Ok(_) => return Ok(()),
                Err(RequestErrorKind::NoResponders) => tokio::time::sleep(CANCELS.1).await,
                Err(_) => {}
            }
        }
        Ok(())
    }

    async fn watch(
        &self,
        tenant: &str,
        id: &str,
    ) -> Result<BoxStream<'static, RunEvent>, FleetError> {
        let heard = self.brokers.of(tenant).await?.client.subscribe(names::event(tenant, id)).await;
        let heard = heard.map_err(|error| unavailable(&error))?;
        Ok(heard.map(|message| event(&message.payload)).boxed())
    }

    async fn live_output(&self, tenant: &str, id: &str, at: [u64; 2]) -> Option<[Vec<u8>; 2]> {
        let answer = self.control(tenant, id, &Control::Read(at)).await.ok()?;
        if answer.len() > CONTROL_BYTES {
            return None;
        }
        let LiveOutput { stdout, stderr } = serde_json::from_slice(&answer).ok()?;
        Some([stdout.0, stderr.0])
    }

    async fn blob_size(&self, tenant: &str, digest: &str) -> Result<Option<u64>, FleetError> {
        let Some((bytes, written)) = self.brokers.of(tenant).await?.blob(tenant, digest).await?
        else {
            return Ok(None);
        };
        let (kept, _) = self.kept(tenant);
        // An older one would expire before the run that names it.
        let is_kept = written.elapsed().unwrap_or_default() < kept;
        Ok(is_kept.then_some(bytes))
    }

    async fn put_blob(
        &self,
        tenant: &str,
        digest: &str,
        from: &mut (dyn std::io::Read + Send),
    ) -> Result<(), FleetError> {
        self.brokers.of(tenant).await?.put_blob(tenant, digest, from).await
    }

    async fn read_blob(
        &self,
        tenant: &str,
        digest: &str,
        to: &mut (dyn Write + Send),
    ) -> Result<bool, FleetError> {
        self.brokers.of(tenant).await?.read_blob(tenant, digest, to).await
    }

    async fn put_skill(&self, tenant: &str, skill: &FleetSkill) -> Result<(), FleetError> {
        let list = serde_json::to_vec(skill).map_err(|error| unavailable(&error))?;
        let content = self.content(tenant, &list).await?;
        let bytes = serde_json::to_vec(&content).map_err(|error| unavailable(&error))?;
        for named in [&skill.digest, &skill.name] {
            let subject = names::skill(tenant, named)
                .ok_or_else(|| FleetError::TooLarge(format!("{named} is not a name")))?;
            if self.brokers.of(tenant).await?.put(subject, bytes.clone(), None).await?
                == Written::Full
            {
                return Err(FleetError::Full);
            }
        }
        Ok(())
    }

    async fn skill(&self, tenant: &str, named: &str) -> Result<Option<FleetSkill>, FleetError> {
        let Some(subject) = names::skill(tenant, named) else { return Ok(None) };
        let Some(found) =
            self.brokers.of(tenant).await?.get(&names::runs_stream(tenant), &subject).await?
        else {
            return Ok(None);
        };
        let wrong = |error: &dyn std::fmt::Display| {
            FleetError::Untrusted(format!("the list of the skill {named}: {error}"))
        };
        let content: Content =
            serde_json::from_slice(&found.bytes).map_err(|error| wrong(&error))?;
        let list = match content {
            Content::Inline(bytes) => bytes.0,
            Content::Digest(_) => return Err(wrong(&"it has no bytes")),
            Content::Blob(digest) => {
                let mut list = Vec::new();
                if !self.brokers.of(tenant).await?.read_blob(tenant, &digest, &mut list).await? {
                    return Ok(None);
                }
                if skillhost_skill::runtime::digest(&list) != digest {
                    return Err(wrong(&"it has another digest"));
                }
                list
            }
        };
        Ok(Some(serde_json::from_slice(&list).map_err(|error| wrong(&error))?))
    }

    async fn known_result(
        &self,
        tenant: &str,
        key: &str,
    ) -> Result<Option<(String, FleetEnd)>, FleetError> {
        let subject = names::result(tenant, key);
        let Some(found) =
            self.brokers.of(tenant).await?.get(&names::runs_stream(tenant), &subject).await?
        else {
            return Ok(None);
        };
        let KnownResult { run, .. } =
            KnownResult::read(&found.bytes).map_err(FleetError::Untrusted)?;
        let Some(Read { record, .. }) = self.runs(tenant).await?.read(&run).await? else {
            return Ok(None);
        };
        let RunState::Ended(end) = record.state else { return Ok(None) };
        let end = self.brokers.identity.verify(&end, tenant, &run)?;
        // What names the run is not signed, and the end is.
        if end.key.as_deref() != Some(key) {
            return Err(FleetError::Untrusted(format!("the run {run} has another key")));
        }
        // Of a restored end the output is lost, which is no answer for another run.
        let FleetEnd { result, stdout, stderr } = &end.left;
        let is_lost =
            [result, stdout, stderr].iter().any(|content| matches!(content, Content::Digest(_)));
        Ok((!is_lost).then_some((run, end.left)))
    }

    async fn charge(
        &self,
        tenant: &str,
        cpu_ms: u64,
        bytes: u64,
        now: i64,
    ) -> Result<(), FleetError> {
        usage::charge(&self.brokers.of(tenant).await?, tenant, (cpu_ms, bytes), now).await
    }

    async fn usage(&self, tenant: &str, now: i64) -> Result<HourlyUsage, FleetError> {
        usage::usage(&self.brokers.of(tenant).await?, tenant, now).await
    }

    async fn metrics(&self, tenants: &[String]) -> String {
        let mut text = String::new();
        if self.brokers.identity.role == Role::Worker {
            return text;
        }
        let mut depths = Vec::new();
        for tenant in tenants {
            let depth = async { streams::depth(&self.brokers.of(tenant).await?, tenant).await };
            match depth.await {
                Ok(depth) => depths.push((tenant, depth)),
                Err(error) => tracing::warn!(tenant, %error, "cannot look at a queue"),
            }
        }
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reports: Vec<(&String, &Report)> = reports
            .iter()
            .filter(|(_, (at, _))| at.elapsed() < REPORTED)
            .map(|(labels, (_, report))| (labels, report))
            .collect();
        let mut family = |name: &str, help: &str, lines: &[(String, f64)]| {
            // Writing to a text does not fail.
            writeln!(text, "# HELP {name} {help}.\n# TYPE {name} gauge").ok();
            for (labels, value) in lines {
                writeln!(text, "{name}{{{labels}}} {value}").ok();
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let number = |number: u64| number as f64;
        let by_class = |of: fn(&(u64, u64)) -> u64| -> Vec<(String, f64)> {
            let lines = depths.iter().flat_map(|(tenant, depth)| {
                depth.classes.iter().map(move |(class, counts)| {
                    (format!("tenant=\"{tenant}\",class=\"{class}\""), number(of(counts)))
                })
            });
            lines.collect()
        };
        family("skillhost_fleet_queued", "Runs that wait for a worker", &by_class(|at| at.0));
        family("skillhost_fleet_running", "Runs that workers hold", &by_class(|at| at.1));
        let by_tenant = |of: &dyn Fn(&streams::Depth) -> f64| -> Vec<(String, f64)> {
            let line = |(tenant, depth): &(&String, streams::Depth)| {
                (format!("tenant=\"{tenant}\""), of(depth))
            };
            depths.iter().map(line).collect()
        };
        family(
            "skillhost_fleet_oldest_run_seconds",
            "Age of the oldest run that has not ended",
            &by_tenant(&|depth| depth.oldest.unwrap_or_default().as_secs_f64()),
        );
        family(
            "skillhost_fleet_dead_letters",
            "Runs that no worker could end",
            &by_tenant(&|depth| number(depth.dead)),
        );
        let by_worker = |of: fn(&Report) -> u64| -> Vec<(String, f64)> {
            let line =
                |(labels, report): &(&String, &Report)| ((*labels).clone(), number(of(report)));
            reports.iter().map(line).collect()
        };
        family(
            "skillhost_fleet_worker_slots",
            "Runs at once on a worker",
            &by_worker(|at| at.slots),
        );
        family(
            "skillhost_fleet_worker_running",
            "Runs in progress on a worker",
            &by_worker(|at| at.running),
        );
        text
    }
}

/// Puts a run into its queue again. A worker ignores a copy of a message that was not lost.
async fn enqueue_copy(runs: &Runs, record: &RunRecord) -> Result<Written, FleetError> {
    // With an id of its own, since the broker may remember that of the message that it has lost.
    let copy = format!("{}-{}", record.id, now() / COPY.as_millis() as i64);
    runs.enqueue(record, &copy).await
}
