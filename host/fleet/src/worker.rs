//! A worker: takes runs from the queues of its tenants, and drives each to its end.
//!
//! Whose runs it takes may change while it works: it reads its identity and the tenants file again,
//! and takes none while one of them cannot be read.
//!
//! Of one run, in order: the worker claims it, says that it still has it while it runs, stores what
//! it left as blobs, stores the signed end if it still holds the claim, writes the record of the
//! end, and acknowledges the message. It can be killed anywhere: the broker then delivers the
//! message to another worker, which continues by what the record says.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{FutureExt as _, StreamExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::broker::{Brokers, Written, unavailable};
use crate::names;
use crate::pull::{Delivery, Queue};
use crate::runs::{Change, Read as Found, Runs, digest_of, end_without_outcome, now};
use crate::types::{
    Bounded as _, Claim, Control, DeadLetter, Job, KnownResult, LiveOutput, Offer, Report, RunEnd,
    RunRecord, RunState, SignedEnd, VERSION, other_version,
};
use crate::usage;
use skillhost_ledger::runs::RunStatus;
use skillhost_policy::outcome::Output;
use skillhost_server::api::fleet::sessions::SessionPlace;
use skillhost_server::api::fleet::{
    Content, Fetched, FleetEnd, FleetError, INLINE, RunClass, RunEvent,
};
use skillhost_server::api::worker::{EndedRun, WorkerEnd, WorkerHost, WorkerRun, WorkerTurn};
use skillhost_server::http::serve_sessions;

/// How often a worker without runs looks at its queues. A new run is announced; one that another worker
/// held is not.
const LOOK: Duration = Duration::from_secs(2);
/// The kind of the outcome of a run that this host could not execute.
const HOST_FAILED: &str = "failed";
/// The pause after a failure of the brokers.
const FAILED: Duration = Duration::from_millis(500);
/// The pause before a run that this worker cannot execute is offered to others.
const NOT_HERE: Duration = Duration::from_secs(1);
/// The pause before a run that this worker cannot read, such as one of another version, is offered to
/// others. This worker will not be able to read it later either, and each attempt takes a place for a run.
const UNREADABLE: Duration = Duration::from_secs(30);
/// How long a worker whose host has failed takes no more runs of the tenant: time for others to take
/// them. Other tenants do not wait, since a tenant may know how to make a host fail.
const REST: Duration = Duration::from_secs(5);
/// How often the message of a run without a record is delivered again, before the run counts as deleted.
const UNKNOWN: u64 = 30;
/// How often a run is left to others that no worker can execute: about a minute, as a worker that has
/// nothing else looks again after two seconds.
const REFUSALS: u32 = 30;
/// How long the end of a run is kept while the brokers do not answer.
const STORE: Duration = Duration::from_secs(600);
/// How often the identity and the tenants are looked at.
const REFRESH: Duration = Duration::from_secs(1);
/// How often a worker reports.
const REPORT: Duration = Duration::from_secs(2);
/// The most bytes of each stream in an answer about the output of a run in progress.
const LIVE: usize = 32 << 10;

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The classes of runs that it takes.
    pub classes: Vec<RunClass>,
    /// The most runs at once.
    pub slots: usize,
    /// How long runs may take to end when the worker stops.
    pub drain: Duration,
}

/// Where API servers reach the sessions of a worker.
pub struct SessionListener {
    /// The listener.
    pub listener: TcpListener,
    /// The host and port that they connect to.
    pub address: String,
}

/// The queues of one worker.
struct Worker {
    host: WorkerHost,
    brokers: Brokers,
    options: WorkerOptions,
    live: Mutex<HashMap<String, Arc<Live>>>,
    tasks: TaskTracker,
    ended: AtomicU64,
    /// The tenants of which no more runs are taken before a time.
    rests: Mutex<HashMap<String, Instant>>,
    /// The name of this process, which is another one after each start.
    process: String,
    /// Where sessions of this worker are, if it takes any.
    place: Option<SessionPlace>,
    /// Cancelled when no more runs are taken.
    stopping: CancellationToken,
}

/// A run in progress.
#[derive(Default)]
struct Live {
    tenant: String,
    /// The message with which the run was claimed; 0 before.
    message: AtomicU64,
    cancelled: CancellationToken,
    /// Whether the run ends because the worker does.
    is_drained: AtomicBool,
    /// Whether the run has begun and must not begin again.
    is_final: AtomicBool,
    /// Whether the run did not begin, because that could not be written down.
    is_unmarked: AtomicBool,
}

/// What came of an attempt to claim a run.
enum ClaimEnd {
    /// The run is this worker's.
    Claimed(Box<Found>, Claim),
    /// There is nothing to execute.
    Not(Verdict),
}

/// What to do with a message.
enum Verdict {
    /// It is done.
    Done,
    /// Another worker, or this one later.
    Again(Duration),
    /// Another delivery of it is being attended to.
    Ignore,
}

/// Works until `stop` resolves, and then until its runs have ended; if `stop_now` resolves, or they take
/// too long, gives them back.
///
/// # Errors
/// The identity is no worker's.
pub async fn work(
    host: WorkerHost,
    brokers: Brokers,
    options: WorkerOptions,
    sessions: Option<SessionListener>,
    stop: impl Future<Output = ()>,
    stop_now: impl Future<Output = ()>,
) -> Result<(), FleetError> {
    let process = format!("{:016x}", rand::random::<u64>());
    let place = sessions.as_ref().map(|sessions| SessionPlace {
        worker: brokers.identity.name.clone(),
        process: process.clone(),
        address: sessions.address.clone(),
    });
    let worker = Arc::new(Worker {
        host,
        brokers,
        options,
        live: Mutex::default(),
        tasks: TaskTracker::new(),
        ended: AtomicU64::new(0),
        rests: Mutex::default(),
        process,
        place: place.clone(),
        stopping: CancellationToken::new(),
    });
    let serving = sessions.zip(place).map(|(SessionListener { listener, .. }, place)| {
        worker.host.take_sessions(place);
        let host = worker.host.clone();
        tokio::spawn(async move { host.lose_previous().await });
        AbortOnDropHandle::new(tokio::spawn(serve_sessions(worker.host.clone(), listener)))
    });
    worker.tasks.spawn(worker.clone().serve());
    let reporting = AbortOnDropHandle::new(tokio::spawn(worker.clone().report()));
    stop.await;
    tracing::info!("stopping: waiting for runs to end");
    worker.stopping.cancel();
    worker.tasks.close();
    tokio::select! {
        ((), ()) = async { tokio::join!(worker.tasks.wait(), worker.host.programs_end()) } => {}
        () = tokio::time::sleep(worker.options.drain) => {}
        () = stop_now => {}
    }
    worker.host.end_sessions(None).await;
    let left: Vec<Arc<Live>> = worker.live().values().cloned().collect();
    if !left.is_empty() {
        tracing::warn!(runs = left.len(), "giving the remaining runs back");
    }
    for live in left {
        live.is_drained.store(true, Ordering::SeqCst);
        live.cancelled.cancel();
    }
    // Each is interrupted within a second.
    tokio::time::timeout(Duration::from_secs(5), worker.tasks.wait()).await.ok();
    worker.host.close();
    drop((reporting, serving));
    for broker in worker.brokers.open() {
        if let Err(error) = broker.client.flush().await {
            tracing::warn!(%error, "cannot send the last messages");
        }
    }
    Ok(())
}

impl Worker {
    fn live(&self) -> MutexGuard<'_, HashMap<String, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self) -> &str {
        &self.brokers.identity.name
    }

    /// Takes runs of the tenants that both the identity and the tenants file name, until the worker
    /// stops. Both may change meanwhile.
    async fn serve(self: Arc<Self>) {
        let mut pulling: HashMap<String, CancellationToken> = HashMap::new();
        loop {
            let worker = self.clone();
            let served = tokio::task::spawn_blocking(move || worker.served()).await;
            match served.unwrap_or_else(|error| Err(unavailable(&error))) {
                Ok(served) => {
                    let removed = pulling.extract_if(|tenant, _| !served.contains(tenant));
                    for (tenant, stop) in removed {
                        tracing::warn!(tenant, "serving the tenant no more");
                        stop.cancel();
                        self.give_back(&tenant);
                        let host = self.host.clone();
                        tokio::spawn(async move { host.end_sessions(Some(&tenant)).await });
                    }
                    for tenant in served {
                        if pulling.contains_key(&tenant) {
                            continue;
                        }
                        tracing::info!(tenant, "serving a tenant");
                        let stop = self.stopping.child_token();
                        for class in &self.options.classes {
                            let pull = self.clone().pull(tenant.clone(), *class, stop.clone());
                            self.tasks.spawn(pull);
                        }
                        if let Some(place) = self.place.clone() {
                            let offer = self.clone().offer(tenant.clone(), place, stop.clone());
                            self.tasks.spawn(offer);
                        }
                        pulling.insert(tenant, stop);
                    }
                }
                Err(error) => {
                    // It is not known who may still be served. Runs in progress go on.
                    if !pulling.is_empty() {
                        tracing::error!(%error, "taking no more runs until it is known whose");
                    }
                    pulling.drain().for_each(|(_, stop)| stop.cancel());
                }
            }
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = tokio::time::sleep(REFRESH) => {}
            }
        }
    }

    /// Returns the tenants whose runs this worker takes.
    fn served(&self) -> Result<BTreeSet<String>, FleetError> {
        self.brokers.identity.refresh();
        let trust = self.brokers.identity.trust()?;
        let known = self.host.tenants().map_err(FleetError::Unavailable)?;
        Ok(known.into_iter().filter(|tenant| trust.tenants.contains(tenant)).collect())
    }

    /// Gives the runs of a tenant to other workers.
    fn give_back(&self, tenant: &str) {
        for live in self.live().values().filter(|live| live.tenant == tenant) {
            live.is_drained.store(true, Ordering::SeqCst);
            live.cancelled.cancel();
        }
    }

    /// Returns how much longer this worker takes no runs of a tenant, if its host has just failed.
    fn rest(&self, tenant: &str) -> Option<Duration> {
        let rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        rests.get(tenant)?.checked_duration_since(Instant::now())
    }

    fn begin_rest(&self, tenant: &str) {
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        rests.insert(tenant.to_owned(), Instant::now() + REST);
    }

    /// Takes runs from one queue, until `stop` is cancelled.
    async fn pull(self: Arc<Self>, tenant: String, class: RunClass, stop: CancellationToken) {
        let Some(mut queue) = self.open(&tenant, class, &stop).await else { return };
        loop {
            if let Some(rest) = self.rest(&tenant) {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(rest) => continue,
                }
            }
            // First a place and then a run: what this worker cannot run now is left for others.
            let turn = tokio::select! {
                () = stop.cancelled() => return,
                turn = self.host.turn(&tenant) => turn,
            };
            let Some(turn) = turn else {
                // The tenants file has just changed, which stops this queue.
                tokio::time::sleep(LOOK).await;
                continue;
            };
            while let Some(Some(_)) = queue.hints.next().now_or_never() {}
            match queue.next().await {
                Ok(Some(delivery)) if stop.is_cancelled() => {
                    // It came after the end, for a request from before.
                    delivery.broker.tell(delivery.reply.to_string(), "-NAK".into()).await;
                    return;
                }
                // The host has failed meanwhile.
                Ok(Some(delivery)) if self.rest(&tenant).is_some() => {
                    delivery.broker.tell(delivery.reply.to_string(), "-NAK".into()).await;
                }
                Ok(Some(delivery)) => {
                    let (worker, tenant, period) = (self.clone(), tenant.clone(), queue.period);
                    self.tasks.spawn(async move {
                        worker.attend(&tenant, class, delivery, period, turn).await;
                    });
                }
                Ok(None) => {
                    drop(turn);
                    loop {
                        tokio::select! {
                            () = stop.cancelled() => return,
                            _ = queue.hints.next() => break,
                            () = tokio::time::sleep(LOOK) => {}
                        }
                        if !queue.is_empty(&tenant, class).await {
                            break;
                        }
                    }
                }
                Err(error) => {
                    drop(turn);
                    tracing::warn!(tenant, %error, "cannot take a run");
                    tokio::time::sleep(FAILED).await;
                }
            }
        }
    }

    /// Offers places for sessions of a tenant, until `stop` is cancelled.
    async fn offer(self: Arc<Self>, tenant: String, place: SessionPlace, stop: CancellationToken) {
        let (broker, mut asked) = loop {
            let subscribed = async {
                let broker = self.brokers.of(&tenant).await?;
                let asked = broker.client.subscribe(names::place(&tenant)).await;
                let asked = asked.map_err(|error| unavailable(&error))?;
                broker.client.flush().await.map_err(|error| unavailable(&error))?;
                Ok::<_, FleetError>((broker, asked))
            };
            let subscribed = tokio::select! {
                () = stop.cancelled() => return,
                subscribed = subscribed => subscribed,
            };
            match subscribed {
                Ok(subscribed) => break subscribed,
                Err(error) => tracing::warn!(tenant, %error, "cannot offer places for sessions"),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(FAILED) => {}
            }
        };
        tracing::info!(tenant, "offering places for sessions");
        loop {
            let message = tokio::select! {
                () = stop.cancelled() => return,
                message = asked.next() => message,
            };
            let Some(message) = message else { return };
            // Without an answer, another worker gets the session.
            let (Some(reply), Some(sessions)) = (message.reply, self.host.room(&tenant)) else {
                continue;
            };
            let offer = Offer { version: VERSION, place: place.clone(), sessions: sessions as u64 };
            match offer.write() {
                Ok(bytes) => broker.tell(reply.to_string(), bytes).await,
                Err(error) => tracing::error!(error, "cannot offer a place for a session"),
            }
        }
    }

    /// Waits until a queue exists. `None` when the worker stops.
    async fn open(&self, tenant: &str, class: RunClass, stop: &CancellationToken) -> Option<Queue> {
        loop {
            let opened = async {
                let broker = self.brokers.of(tenant).await?;
                Queue::open(broker, tenant, class).await
            };
            match opened.await {
                Ok(opened) => return Some(opened),
                Err(error) => {
                    let class = class.name();
                    tracing::warn!(tenant, class, %error, "the queue is not there yet");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(FAILED * 2) => {}
            }
        }
    }

    /// Attends to a message until it is acknowledged.
    async fn attend(
        self: Arc<Self>,
        tenant: &str,
        class: RunClass,
        delivery: Delivery,
        period: Duration,
        turn: WorkerTurn,
    ) {
        let alive = self.keep(&delivery, period);
        let verdict = match Job::read(&delivery.payload) {
            Ok(job) => {
                let runs = Runs::new(delivery.broker.clone(), tenant);
                let copy = (delivery.message, delivery.delivery);
                match self.drive(&runs, &job.run, copy, turn).await {
                    Ok(verdict) => verdict,
                    Err(error) => {
                        tracing::error!(tenant, run = job.run, %error, "cannot drive a run");
                        let is_unreadable = matches!(error, FleetError::Untrusted(_));
                        Verdict::Again(if is_unreadable { UNREADABLE } else { NOT_HERE })
                    }
                }
            }
            Err(error) => {
                let class = class.name();
                match other_version(&delivery.payload) {
                    Some(version) => {
                        tracing::warn!(tenant, class, version, "left a job to other workers");
                        Verdict::Again(UNREADABLE)
                    }
                    None => {
                        tracing::error!(tenant, class, error, "a message of a queue is no job");
                        Verdict::Done
                    }
                }
            }
        };
        // Before the answer: a message that was given back must not be kept.
        drop(alive);
        let sent = match verdict {
            // If it is lost, the message is delivered again, and found to be done.
            Verdict::Done => {
                let client = &delivery.broker.client;
                let sent = client.publish(delivery.reply, "+ACK".into()).await;
                sent.map_err(|error| unavailable(&error))
            }
            Verdict::Again(pause) => {
                let answer = match pause.as_nanos() {
                    0 => "-NAK".to_owned(),
                    pause => format!("-NAK {{\"delay\":{pause}}}"),
                };
                let client = &delivery.broker.client;
                let sent = client.publish(delivery.reply, answer.into()).await;
                sent.map_err(|error| unavailable(&error))
            }
            Verdict::Ignore => Ok(()),
        };
        if let Err(error) = sent {
            tracing::warn!(tenant, %error, "cannot acknowledge a message");
        }
    }

    /// Says that this worker still has a message, until the result is dropped.
    fn keep(&self, delivery: &Delivery, period: Duration) -> AbortOnDropHandle<()> {
        let (client, reply) = (delivery.broker.client.clone(), delivery.reply.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                tokio::time::sleep(period).await;
                if let Err(error) = client.publish(reply.clone(), "+WPI".into()).await {
                    tracing::warn!(%error, "cannot say that a run is in progress");
                }
            }
        }))
    }

    /// Drives a run as far as this worker can.
    async fn drive(
        self: &Arc<Self>,
        runs: &Runs,
        run: &str,
        copy: (u64, u64),
        turn: WorkerTurn,
    ) -> Result<Verdict, FleetError> {
        let live = Arc::new(Live { tenant: runs.tenant.to_string(), ..Live::default() });
        {
            let mut all = self.live();
            if let Some(live) = all.get(run) {
                // A message that is not needed must not take the place of another run. But as long as
                // nothing is claimed, this may be the one that leads to the run.
                let claimed = live.message.load(Ordering::SeqCst);
                return Ok(match claimed == 0 || claimed == copy.0 {
                    true => Verdict::Ignore,
                    false => Verdict::Done,
                });
            }
            all.insert(run.to_owned(), live.clone());
        }
        let _gone = EndLive { worker: self.clone(), run: run.to_owned() };
        // Before the claim: a client that finds the run in progress reaches this worker.
        let _control = self.listen(runs, run, live.clone()).await?;
        let (claimed, claim) = match self.claim(runs, run, copy).await? {
            ClaimEnd::Claimed(claimed, claim) => (*claimed, claim),
            ClaimEnd::Not(verdict) => return Ok(verdict),
        };
        live.message.store(claim.message, Ordering::SeqCst);
        let record = claimed.record.clone();
        runs.announce(run, RunEvent::Changed).await;
        let ended = self.execute(runs, &record, &claim, &live, turn).await?;
        // What failed on this host may succeed on another one, unless it may have had an effect.
        let may_move =
            !live.is_final.load(Ordering::SeqCst) && record.attempts < record.most_attempts;
        let (status, end) = match ended {
            WorkerEnd::Ended(ended) if ended.kind == HOST_FAILED && may_move => {
                tracing::error!(tenant = &*runs.tenant, run, "this host cannot execute a run");
                // The fault may be the run's.
                if record.is_metered || ended.is_metered {
                    self.charge(runs, run, &ended).await?;
                }
                return self.break_off(runs, &record, &claim, &live).await;
            }
            WorkerEnd::Ended(mut ended) => {
                let patience = Patience::new();
                let end = loop {
                    match self.stored(runs, &record, &claim, &mut ended).await {
                        Ok(end) => break end,
                        Err(error) => patience.pause(error).await?,
                    }
                };
                if record.is_metered || ended.is_metered {
                    self.charge(runs, run, &ended).await?;
                }
                (ended.status, end)
            }
            WorkerEnd::NotHere(why) => {
                tracing::info!(tenant = &*runs.tenant, run, why, "left a run to others");
                return self.leave(runs, &record, &claim).await;
            }
            WorkerEnd::Faulty(why) => {
                tracing::warn!(tenant = &*runs.tenant, run, why, "cannot prepare a run here now");
                return self.put_off(runs, &record, &claim).await;
            }
            WorkerEnd::Broken(why) => {
                tracing::error!(tenant = &*runs.tenant, run, why, "a run failed on the host");
                return self.break_off(runs, &record, &claim, &live).await;
            }
        };
        if live.is_unmarked.load(Ordering::SeqCst) {
            // A worker that has lost its claim must not give back the message of the one that has the run.
            return Ok(match runs.read(run).await? {
                Some(found) if found.record.is_held_by(&claim) => Verdict::Again(NOT_HERE),
                _ => Verdict::Ignore,
            });
        }
        // What this worker gives back, another one executes, unless it may have had an effect.
        let is_drained = live.is_drained.load(Ordering::SeqCst) && status == RunStatus::Cancelled;
        let end = match end.filter(|_| !is_drained) {
            Some(end) => end,
            None if live.is_final.load(Ordering::SeqCst) => {
                self.without_outcome(runs, &record, RunStatus::Unknown)?
            }
            None => return self.release(runs, &record, &claim, Duration::ZERO).await,
        };
        self.finish(runs, run, &claim, &end, Some(claimed)).await
    }

    /// Counts what a run has used, before its end is stored: an end that is known is counted.
    /// Another attempt counts again, since it uses the same again.
    async fn charge(&self, runs: &Runs, run: &str, ended: &EndedRun) -> Result<(), FleetError> {
        let patience = Patience::new();
        let used = (ended.cpu_ms, ended.bytes);
        loop {
            match usage::charge(&runs.broker, &runs.tenant, used, now()).await {
                Ok(()) => return Ok(()),
                Err(error @ FleetError::Unavailable(_)) => patience.pause(error).await?,
                // Servers accept no runs of the tenant as long as they cannot read what it uses.
                Err(error) => {
                    tracing::error!(tenant = &*runs.tenant, run, %error, "cannot count what a run used");
                    return Ok(());
                }
            }
        }
    }

    /// Stores the end of a run, tells those who wait, and forgets the run.
    async fn finish(
        &self,
        runs: &Runs,
        run: &str,
        claim: &Claim,
        end: &SignedEnd,
        mut known: Option<Found>,
    ) -> Result<Verdict, FleetError> {
        let patience = Patience::new();
        let made = loop {
            match runs.commit(run, claim, end, known.take()).await {
                Ok(made) => break made,
                Err(error) => patience.pause(error).await?,
            }
        };
        self.host.forget(&runs.tenant, run);
        if made == Change::Refused {
            tracing::warn!(run, "another worker has taken the run: its end is not stored twice");
            return Ok(Verdict::Ignore);
        }
        runs.announce(run, RunEvent::Ended).await;
        self.ended.fetch_add(1, Ordering::Relaxed);
        // Not left to the next delivery: a broker that fails may forget the message.
        let patience = Patience::new();
        while let Err(error) = runs.record(run, end).await {
            patience.pause(error).await?;
        }
        self.remember(runs, run, end).await;
        Ok(Verdict::Done)
    }

    /// Names the run whose result later runs may be answered with. Without it, they are executed.
    async fn remember(&self, runs: &Runs, run: &str, end: &SignedEnd) {
        let Ok(RunEnd { key: Some(key), .. }) = RunEnd::read(end.payload.as_bytes()) else {
            return;
        };
        let known = KnownResult { version: VERSION, run: run.to_owned() };
        let named = async {
            let bytes = known.write().map_err(FleetError::TooLarge)?;
            runs.broker.put(names::result(&runs.tenant, &key), bytes, None).await
        };
        if let Err(error) = named.await {
            tracing::warn!(tenant = &*runs.tenant, run, %error, "cannot remember a result");
        }
    }

    /// Claims a run. `delivery`: how often its message was delivered.
    async fn claim(
        &self,
        runs: &Runs,
        run: &str,
        (message, delivery): (u64, u64),
    ) -> Result<ClaimEnd, FleetError> {
        let done = || Ok(ClaimEnd::Not(Verdict::Done));
        loop {
            let Some(found) = runs.read(run).await? else {
                // A broker that has just become the leader may not know yet what it has stored.
                if delivery <= UNKNOWN {
                    tracing::warn!(
                        tenant = &*runs.tenant,
                        run,
                        "the brokers do not know the run yet"
                    );
                    return Ok(ClaimEnd::Not(Verdict::Again(NOT_HERE)));
                }
                tracing::warn!(tenant = &*runs.tenant, run, "there is no such run");
                return done();
            };
            let record = &found.record;
            match &record.state {
                RunState::Queued => {}
                RunState::Ended(end) => {
                    // A worker was killed between the end and its record.
                    self.settle(runs, record, end, "a worker").await?;
                    return done();
                }
                // A late copy: the worker that holds the run received this delivery or a newer one.
                RunState::Running(held) if held.message == message && delivery <= held.delivery => {
                    return Ok(ClaimEnd::Not(Verdict::Ignore));
                }
                RunState::Running(held) => {
                    // As long as the queue has the claimed message, that one leads to the run.
                    if held.message != message
                        && !runs.is_forgotten(record.class, held.message).await?
                    {
                        return done();
                    }
                    let status = if held.is_final {
                        Some(RunStatus::Unknown)
                    } else if held.is_cancelled {
                        Some(RunStatus::Cancelled)
                    } else if record.attempts >= record.most_attempts {
                        Some(RunStatus::Lost)
                    } else {
                        None
                    };
                    if let Some(status) = status {
                        return match self.give_up(runs, record, held, status).await? {
                            Change::Made => done(),
                            Change::Refused => continue,
                        };
                    }
                }
            }
            let claim = Claim {
                worker: self.name().to_owned(),
                token: format!("{:032x}", rand::random::<u128>()),
                message,
                delivery,
                started: now(),
                is_final: false,
                is_cancelled: false,
            };
            let (before, claimed) = (record.state.clone(), claim.clone());
            let changed = runs
                .change_from(found, move |record| {
                    let attempts = record.attempts + 1;
                    let state = RunState::Running(claimed.clone());
                    (record.state == before).then_some(RunRecord { attempts, state, ..record })
                })
                .await;
            match changed {
                Ok(Some(found)) => return Ok(ClaimEnd::Claimed(Box::new(found), claim)),
                Ok(None) => {}
                // The answer may have been lost and not the write: the record says.
                Err(error) => match runs.read(run).await? {
                    Some(found) if found.record.is_held_by(&claim) => {
                        return Ok(ClaimEnd::Claimed(Box::new(found), claim));
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// Ends a run whose worker is gone and that must not be executed again.
    async fn give_up(
        &self,
        runs: &Runs,
        record: &RunRecord,
        held: &Claim,
        status: RunStatus,
    ) -> Result<Change, FleetError> {
        let end = self.without_outcome(runs, record, status)?;
        let made = runs.commit(&record.id, held, &end, None).await?;
        if made == Change::Made {
            tracing::warn!(run = record.id, status = status.name(), "gave up a run");
            runs.announce(&record.id, RunEvent::Ended).await;
            self.settle(runs, record, &end, &held.worker).await?;
        }
        Ok(made)
    }

    /// Writes what follows from the end of a run, once: its record and, if it was given up, the dead
    /// letter. `last`: the worker that had it last.
    async fn settle(
        &self,
        runs: &Runs,
        record: &RunRecord,
        end: &SignedEnd,
        last: &str,
    ) -> Result<(), FleetError> {
        let Ok(read) = RunEnd::read(end.payload.as_bytes()) else { return Ok(()) };
        if read.status != RunStatus::Lost {
            // Also of a run that a server cancelled before it started: the server may have been killed
            // before it wrote the record.
            return runs.record(&record.id, end).await;
        }
        let letter = DeadLetter {
            version: VERSION,
            run: record.id.clone(),
            skill: record.skill.chars().take(200).collect(),
            attempts: record.attempts,
            worker: last.to_owned(),
            at: now(),
        };
        let bytes = letter.write().map_err(FleetError::TooLarge)?;
        let letter = names::dead(&runs.tenant, &record.id);
        if runs.broker.put(letter, bytes, None).await? == Written::Full {
            return Err(FleetError::Full);
        }
        // If it is queued again, it has another end.
        runs.record(&format!("{}-lost", record.id), end).await
    }

    fn without_outcome(
        &self,
        runs: &Runs,
        record: &RunRecord,
        status: RunStatus,
    ) -> Result<SignedEnd, FleetError> {
        end_without_outcome(&self.brokers.identity, &runs.tenant, record, status, now())
    }

    /// Puts a run back that has had no effect, unless a client has cancelled it. It was no attempt.
    async fn release(
        &self,
        runs: &Runs,
        record: &RunRecord,
        claim: &Claim,
        pause: Duration,
    ) -> Result<Verdict, FleetError> {
        let refused = record.refused;
        let changed = runs
            .change(&record.id, |record| {
                let state = match &record.state {
                    RunState::Running(held) if held.token == claim.token && !held.is_cancelled => {
                        RunState::Queued
                    }
                    _ => return None,
                };
                let attempts = record.attempts.saturating_sub(1);
                Some(RunRecord { attempts, refused, state, ..record })
            })
            .await?;
        if changed == Change::Refused {
            let end = self.without_outcome(runs, record, RunStatus::Cancelled)?;
            return self.finish(runs, &record.id, claim, &end, None).await;
        }
        runs.announce(&record.id, RunEvent::Changed).await;
        self.host.forget(&runs.tenant, &record.id);
        Ok(Verdict::Again(pause))
    }

    /// Leaves a run to other workers, unless too many have left it: while it waits, it counts towards
    /// the runs that its tenant may have at once, and runs behind it wait for it.
    async fn leave(
        &self,
        runs: &Runs,
        record: &RunRecord,
        claim: &Claim,
    ) -> Result<Verdict, FleetError> {
        if record.refused < REFUSALS {
            let record = RunRecord { refused: record.refused + 1, ..record.clone() };
            return self.release(runs, &record, claim, NOT_HERE).await;
        }
        match self.give_up(runs, record, claim, RunStatus::Lost).await? {
            Change::Made => Ok(Verdict::Done),
            Change::Refused => Ok(Verdict::Ignore),
        }
    }

    /// Puts off a run that has not begun because this host or the brokers failed. However long that lasts,
    /// it says nothing about the run, which is not given up.
    async fn put_off(
        &self,
        runs: &Runs,
        record: &RunRecord,
        claim: &Claim,
    ) -> Result<Verdict, FleetError> {
        self.begin_rest(&runs.tenant);
        let patience = Patience::new();
        loop {
            match self.release(runs, record, claim, NOT_HERE).await {
                Ok(verdict) => return Ok(verdict),
                // Otherwise the claim stays, and the next delivery counts as another attempt.
                Err(error) => patience.pause(error).await?,
            }
        }
    }

    /// Ends an attempt of which this host knows nothing: a run that must not begin again is unknown,
    /// and another one has had this attempt.
    async fn break_off(
        &self,
        runs: &Runs,
        record: &RunRecord,
        claim: &Claim,
        live: &Live,
    ) -> Result<Verdict, FleetError> {
        // A host that fails at once would otherwise use up all attempts of all runs.
        self.begin_rest(&runs.tenant);
        let status = if live.is_final.load(Ordering::SeqCst) {
            RunStatus::Unknown
        } else if record.attempts >= record.most_attempts {
            RunStatus::Lost
        } else {
            let waits = |record: RunRecord| match &record.state {
                RunState::Running(held) if held.token == claim.token && !held.is_cancelled => {
                    Some(RunRecord { state: RunState::Queued, ..record })
                }
                _ => None,
            };
            if runs.change(&record.id, waits).await? == Change::Made {
                runs.announce(&record.id, RunEvent::Changed).await;
                self.host.forget(&runs.tenant, &record.id);
                return Ok(Verdict::Again(NOT_HERE));
            }
            RunStatus::Cancelled
        };
        self.host.forget(&runs.tenant, &record.id);
        match self.give_up(runs, record, claim, status).await? {
            Change::Made => Ok(Verdict::Done),
            Change::Refused => Ok(Verdict::Ignore),
        }
    }

    async fn execute(
        self: &Arc<Self>,
        runs: &Runs,
        record: &RunRecord,
        claim: &Claim,
        live: &Arc<Live>,
        turn: WorkerTurn,
    ) -> Result<WorkerEnd, FleetError> {
        if claim.is_cancelled {
            live.cancelled.cancel();
        }
        let request = match self.host.request(&runs.tenant, &record.request).await {
            Ok(request) => String::from_utf8_lossy(&request).into_owned(),
            Err(end) => return Ok(end),
        };
        let starting = {
            let (runs, run) = (runs.clone(), record.id.clone());
            let (claim, live) = (claim.clone(), live.clone());
            move |may_repeat: bool| {
                async move {
                    // Whether it still holds the claim shows when the end is stored.
                    if may_repeat {
                        return true;
                    }
                    let marked = runs.change(&run, |record| match &record.state {
                        RunState::Running(held) if held.token == claim.token => {
                            let held = Claim { is_final: true, ..held.clone() };
                            Some(RunRecord { state: RunState::Running(held), ..record })
                        }
                        _ => None,
                    });
                    let is_marked = match marked.await {
                        Ok(change) => change == Change::Made,
                        // The answer may have been lost and not the write: the record says.
                        Err(_) => match runs.read(&run).await {
                            Ok(Some(found)) => found.record.is_final_for(&claim),
                            _ => false,
                        },
                    };
                    live.is_final.store(is_marked, Ordering::SeqCst);
                    live.is_unmarked.store(!is_marked, Ordering::SeqCst);
                    is_marked
                }
                .boxed()
            }
        };
        let run = WorkerRun {
            tenant: runs.tenant.to_string(),
            id: record.id.clone(),
            request,
            skill: record.pinned.clone(),
            cancelled: live.cancelled.clone(),
            starting: Box::new(starting),
        };
        Ok(self.host.execute(run, turn).await)
    }

    /// Stores what a run left, and returns its signed end. `None`: the tenant has left the tenants file
    /// of this worker, and with it the files that the run has written.
    async fn stored(
        &self,
        runs: &Runs,
        record: &RunRecord,
        claim: &Claim,
        ended: &mut EndedRun,
    ) -> Result<Option<SignedEnd>, FleetError> {
        let EndedRun {
            status, kind, exit_code, result, streams, written, cpu_ms, bytes, key, ..
        } = ended;
        let left = async {
            for digest in written.iter() {
                // One at a time: a run may have written more files than a process may open.
                let Some(mut file) = self.written(&runs.tenant, digest)? else { return Ok(None) };
                runs.broker.put_blob(&runs.tenant, digest, &mut file).await?;
            }
            let [stdout, stderr] = streams;
            Ok::<_, FleetError>(Some(FleetEnd {
                result: self.content(runs, &mut std::io::Cursor::new(result)).await?,
                stdout: self.stream(runs, stdout).await?,
                stderr: self.stream(runs, stderr).await?,
            }))
        };
        let (status, kind, exit_code, key, left) = match left.await {
            Ok(Some(left)) => (*status, Some(kind.clone()), *exit_code, key.clone(), left),
            Ok(None) => return Ok(None),
            Err(error @ (FleetError::Full | FleetError::TooLarge(_))) => {
                let tenant = &*runs.tenant;
                tracing::warn!(tenant, run = record.id, %error, "cannot store what a run left");
                (RunStatus::Failed, Some("failed".into()), None, None, FleetEnd::default())
            }
            Err(error) => return Err(error),
        };
        let end = RunEnd {
            version: VERSION,
            tenant: runs.tenant.to_string(),
            run: record.id.clone(),
            skill: record.pinned.clone(),
            request: digest_of(&record.request),
            worker: self.name().to_owned(),
            host: WorkerHost::HOST.into(),
            engine: WorkerHost::ENGINE.into(),
            attempt: record.attempts,
            status,
            kind,
            exit_code,
            started: Some(claim.started),
            ended: now(),
            cpu_ms: *cpu_ms,
            bytes: *bytes,
            key,
            session: None,
            left,
        };
        // What is too large now is too large after another attempt.
        let signed = self.brokers.identity.sign(&end).or_else(|_| {
            self.brokers.identity.sign(&RunEnd {
                status: RunStatus::Failed,
                kind: Some("failed".into()),
                exit_code: None,
                key: None,
                left: FleetEnd::default(),
                ..end
            })
        });
        signed.map(Some).map_err(FleetError::TooLarge)
    }

    /// Opens a file that a run has written. `None`: this worker does not serve the tenant any more.
    fn written(&self, tenant: &str, digest: &str) -> Result<Option<std::fs::File>, FleetError> {
        let error = match self.host.written(tenant, digest) {
            Ok(file) => return Ok(Some(file)),
            Err(error) => error,
        };
        // As long as it is not known whom it serves, the run waits.
        let served = self.host.tenants().map_err(FleetError::Unavailable)?;
        if served.iter().any(|served| served == tenant) {
            // Another attempt to store it would find no more.
            return Err(FleetError::TooLarge(error.to_string()));
        }
        tracing::warn!(tenant, "the tenant of a run that has ended is no longer served");
        Ok(None)
    }

    /// As [`Worker::content`], for a stream of a run.
    async fn stream(&self, runs: &Runs, from: &mut Fetched) -> Result<Content, FleetError> {
        match from {
            Fetched::Bytes(bytes) => self.content(runs, &mut std::io::Cursor::new(bytes)).await,
            Fetched::File(file) => self.content(runs, file).await,
        }
    }

    /// Returns what is to be stored: some bytes here, if they are few, or else as a blob.
    async fn content<F: Read + std::io::Seek + Send>(
        &self,
        runs: &Runs,
        from: &mut F,
    ) -> Result<Content, FleetError> {
        let failed = |error: std::io::Error| unavailable(&error);
        let mut start = Vec::new();
        from.rewind().map_err(failed)?;
        Read::take(&mut *from, INLINE as u64 + 1).read_to_end(&mut start).map_err(failed)?;
        if let Some(content) = Content::inline(start) {
            return Ok(content);
        }
        from.rewind().map_err(failed)?;
        let digest = digest_of_file(from).map_err(failed)?;
        from.rewind().map_err(failed)?;
        runs.broker.put_blob(&runs.tenant, &digest, from).await?;
        Ok(Content::Blob(digest))
    }

    /// Answers requests about a run, until the result is dropped.
    async fn listen(
        self: &Arc<Self>,
        runs: &Runs,
        run: &str,
        live: Arc<Live>,
    ) -> Result<AbortOnDropHandle<()>, FleetError> {
        let heard = runs.broker.client.subscribe(names::control(&runs.tenant, run)).await;
        let mut heard = heard.map_err(|error| unavailable(&error))?;
        let (worker, tenant, run) = (self.clone(), runs.tenant.clone(), run.to_owned());
        let broker = runs.broker.clone();
        Ok(AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(message) = heard.next().await {
                let answer = match serde_json::from_slice(&message.payload) {
                    Ok(Control::Cancel) => {
                        live.cancelled.cancel();
                        Vec::new()
                    }
                    Ok(Control::Read(at)) => {
                        let [stdout, stderr] = worker.host.output(&tenant, &run, at, LIVE);
                        let live = LiveOutput { stdout: Output(stdout), stderr: Output(stderr) };
                        serde_json::to_vec(&live).unwrap_or_default()
                    }
                    Err(_) => continue,
                };
                if let Some(reply) = message.reply {
                    broker.tell(reply.to_string(), answer).await;
                }
            }
        })))
    }

    async fn report(self: Arc<Self>) {
        let subject = names::report(self.name(), &self.process);
        loop {
            let report = Report {
                version: VERSION,
                host: WorkerHost::HOST.into(),
                slots: self.options.slots as u64,
                running: self.live().len() as u64,
                ended: self.ended.load(Ordering::Relaxed),
            };
            let bytes = report.write().unwrap_or_default();
            for broker in self.brokers.open() {
                broker.tell(subject.clone(), bytes.clone()).await;
            }
            tokio::time::sleep(REPORT).await;
        }
    }
}

/// How long the end of a run is kept while the brokers do not answer.
struct Patience {
    until: tokio::time::Instant,
}

impl Patience {
    fn new() -> Patience {
        Patience { until: tokio::time::Instant::now() + STORE }
    }

    /// Pauses before another attempt, unless another one is useless.
    async fn pause(&self, error: FleetError) -> Result<(), FleetError> {
        match error {
            FleetError::Unavailable(_) if tokio::time::Instant::now() < self.until => {
                tracing::warn!(%error, "cannot store the end of a run yet");
                tokio::time::sleep(FAILED).await;
                Ok(())
            }
            error => Err(error),
        }
    }
}

/// Removes a run from those in progress when it is dropped.
struct EndLive {
    worker: Arc<Worker>,
    run: String,
}

impl Drop for EndLive {
    fn drop(&mut self) {
        self.worker.live().remove(&self.run);
    }
}

fn digest_of_file(from: &mut impl Read) -> std::io::Result<String> {
    use sha2::{Digest as _, Sha256};
    let (mut hash, mut part) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match from.read(&mut part)? {
            0 => return Ok(format!("sha256:{}", skillhost_skill::runtime::hex(&hash.finalize()))),
            count => hash.update(&part[..count]),
        }
    }
}
