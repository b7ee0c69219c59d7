//! Sessions for API servers and workers: [`FleetSessions`] over the brokers.
//!
//! A worker counts a session in one record of the tenant, creates it, and stores its record. The first
//! process that learns of its end changes the record, once. All of it is compare-and-set.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::StatusCode;
use futures::{StreamExt as _, TryStreamExt as _};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

use crate::audit::BEGUN;
use crate::broker::{Broker, Written, unavailable};
use crate::front::Front;
use crate::identity::{Role, Trust};
use crate::names;
use crate::tls;
use crate::types::{
    Bounded as _, HeldSession, HeldSessions, Offer, RunEnd, SessionRecord, VERSION,
};
use skillhost_ledger::runs::RunStatus;
use skillhost_server::api::fleet::sessions::{
    FleetSession, FleetSessions, ProgramRecord, SessionPlace,
};
use skillhost_server::api::fleet::{FleetEnd, FleetError};
use skillhost_server::api::sessions::types::SessionStatus;
use skillhost_server::api::worker::WorkerHost;

/// How long a server waits for the first offer of a place, and then for others, of which it takes the
/// one with the fewest sessions.
const OFFERS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(5));
/// How long a server keeps asking when no worker offers a place, and the pause before it asks again. A
/// worker that has just started, or has just changed brokers, cannot answer until its subscription
/// arrives.
const NO_OFFER: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(200));
/// The most offers to compare.
const COMPARED: usize = 64;
/// How often a change is tried again that others came before, and the longest pause in between.
const TRIES: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);
/// A session that counts and has no record after so long was not created: its worker was killed.
const CREATING: i64 = 60_000;

/// The settings of connections, as long as they are those of the identity.
#[derive(Default)]
pub(crate) struct Tls {
    connectors: Mutex<HashMap<String, Connector>>,
    acceptor: Mutex<Option<(Arc<Trust>, Arc<ServerConfig>)>>,
}

struct Connector {
    trust: Arc<Trust>,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// What came of a change of the sessions that count.
enum Held {
    Changed(HeldSessions),
    /// They stay as they are.
    Same,
}

#[async_trait::async_trait]
impl FleetSessions for Front {
    async fn places(&self, tenant: &str) -> Result<Vec<SessionPlace>, FleetError> {
        let client = self.brokers.of(tenant).await?.client;
        let asked = Instant::now();
        loop {
            let left = NO_OFFER.0.saturating_sub(asked.elapsed()).max(OFFERS.1);
            let asking = tokio::time::timeout(left, offers(&client, tenant)).await;
            let mut offers = asking.unwrap_or(Ok(Vec::new()))?;
            if !offers.is_empty() || asked.elapsed() >= NO_OFFER.0 {
                offers.sort_by_key(|offer| offer.sessions);
                return Ok(offers.into_iter().map(|offer| offer.place).collect());
            }
            tokio::time::sleep(NO_OFFER.1).await;
        }
    }

    async fn hold_session(
        &self,
        tenant: &str,
        id: &str,
        place: &SessionPlace,
        most: usize,
        now: i64,
    ) -> Result<bool, FleetError> {
        let broker = self.brokers.of(tenant).await?;
        let new = HeldSession { place: place.clone(), since: now };
        let (mut is_held, mut gone) = (false, Vec::new());
        for is_last in [false, true] {
            change_held(&broker, tenant, |mut held| {
                held.held.retain(|known, _| !gone.contains(known));
                is_held = held.held.len() < most;
                if !is_held {
                    return Held::Same;
                }
                held.held.insert(id.to_owned(), new.clone());
                Held::Changed(held)
            })
            .await?;
            if is_held || is_last {
                break;
            }
            // The end of some may not have reached this record.
            gone = gone_sessions(&broker, tenant, now).await?;
        }
        Ok(is_held)
    }

    async fn put_session(&self, tenant: &str, session: &FleetSession) -> Result<(), FleetError> {
        let broker = self.brokers.of(tenant).await?;
        let record = SessionRecord { version: VERSION, session: session.clone() };
        let bytes = record.write().map_err(FleetError::TooLarge)?;
        match broker.put(names::session(tenant, &session.id), bytes, Some(0)).await? {
            Written::At(_) => Ok(()),
            Written::Conflict => Err(unavailable(&"another session has this id")),
            Written::Full => Err(FleetError::Full),
        }
    }

    async fn session(&self, tenant: &str, id: &str) -> Result<Option<FleetSession>, FleetError> {
        Ok(read(&self.brokers.of(tenant).await?, tenant, id).await?.map(|(session, _)| session))
    }

    async fn sessions(&self, tenant: &str, most: usize) -> Result<Vec<FleetSession>, FleetError> {
        let broker = self.brokers.of(tenant).await?;
        let stream = broker.stream(&names::runs_stream(tenant)).await?;
        let subjects = stream
            .info_with_subjects(names::session(tenant, "*"))
            .await
            .map_err(|error| unavailable(&error))?;
        let subjects: Vec<(String, usize)> =
            subjects.try_collect().await.map_err(|error| unavailable(&error))?;
        let mut ids: Vec<&str> =
            subjects.iter().filter_map(|(subject, _)| subject.rsplit('.').next()).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let mut found = Vec::new();
        for id in ids.into_iter().take(most) {
            match read(&broker, tenant, id).await {
                Ok(Some((session, _))) => found.push(session),
                Ok(None) => {}
                // One record that is of another version hides no other.
                Err(error @ FleetError::Untrusted(_)) => {
                    tracing::warn!(tenant, session = id, %error, "left out of a list");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    async fn end_session(
        &self,
        tenant: &str,
        id: &str,
        status: SessionStatus,
        now: i64,
    ) -> Result<(), FleetError> {
        let broker = self.brokers.of(tenant).await?;
        for _ in 0..TRIES {
            let Some((session, revision)) = read(&broker, tenant, id).await? else { break };
            if session.status != SessionStatus::Active {
                break;
            }
            let session = FleetSession { status, ended: Some(now), ..session };
            let bytes = SessionRecord { version: VERSION, session }.write();
            let bytes = bytes.map_err(FleetError::TooLarge)?;
            match broker.put(names::session(tenant, id), bytes, Some(revision)).await? {
                Written::At(_) => break,
                Written::Conflict => {}
                Written::Full => return Err(FleetError::Full),
            }
        }
        change_held(&broker, tenant, |mut held| match held.held.remove(id) {
            Some(_) => Held::Changed(held),
            None => Held::Same,
        })
        .await
    }

    async fn silent_sessions(&self, tenant: &str) -> Result<Vec<String>, FleetError> {
        // A worker does not listen to others.
        if self.brokers.identity.role == Role::Worker {
            return Ok(Vec::new());
        }
        let (held, _) = read_held(&self.brokers.of(tenant).await?, tenant).await?;
        let silent = held.held.into_iter().filter(|(_, held)| self.is_silent(tenant, &held.place));
        Ok(silent.map(|(id, _)| id).collect())
    }

    fn is_silent(&self, tenant: &str, place: &SessionPlace) -> bool {
        // No process with invalid names reports.
        let labels = names::labels(&place.worker, &place.process).unwrap_or_default();
        self.has_been_silent(tenant, &labels)
    }

    fn connector(
        &self,
        tenant: &str,
        worker: &str,
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>), FleetError> {
        let identity = &self.brokers.identity;
        let trust = identity.trust()?;
        let certificate = trust.worker(worker, tenant).ok_or_else(|| {
            let why = format!("`{worker}` is no worker of the tenant `{tenant}` with a certificate: call `skillhost fleet init` with both");
            FleetError::Untrusted(why)
        })?;
        let mut connectors = self.tls.connectors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = connectors.get(worker)
            && Arc::ptr_eq(&known.trust, &trust)
        {
            return Ok((known.config.clone(), known.name.clone()));
        }
        let (config, name) = tls::connector(identity, worker, certificate)?;
        connectors.retain(|_, known| Arc::ptr_eq(&known.trust, &trust));
        let known = Connector { trust: trust.clone(), config: config.clone(), name: name.clone() };
        connectors.insert(worker.to_owned(), known);
        Ok((config, name))
    }

    fn acceptor(&self) -> Result<Arc<ServerConfig>, FleetError> {
        let identity = &self.brokers.identity;
        let trust = identity.trust()?;
        let mut acceptor = self.tls.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, config)) = &*acceptor
            && Arc::ptr_eq(known, &trust)
        {
            return Ok(config.clone());
        }
        let config = tls::acceptor(identity, &trust)?;
        *acceptor = Some((trust, config.clone()));
        Ok(config)
    }

    fn is_server(&self, tenant: &str, certificate: &[u8]) -> bool {
        let Ok(trust) = self.brokers.identity.trust() else { return false };
        trust.tenants.iter().any(|served| served == tenant)
            && trust.servers(Some(tenant)).any(|known| known.as_ref() == certificate)
    }

    async fn record_program(
        &self,
        tenant: &str,
        program: &ProgramRecord,
    ) -> Result<(), FleetError> {
        let identity = &self.brokers.identity;
        let end = RunEnd {
            version: VERSION,
            tenant: tenant.to_owned(),
            run: program.id.clone(),
            skill: program.skill.clone(),
            request: program.request.clone(),
            worker: identity.name.clone(),
            host: WorkerHost::HOST.into(),
            engine: WorkerHost::ENGINE.into(),
            attempt: 1,
            status: program.status,
            kind: program.kind.clone(),
            exit_code: program.exit_code,
            started: Some(program.started),
            ended: program.at,
            cpu_ms: program.cpu_ms,
            bytes: program.bytes,
            key: None,
            session: Some(program.session.clone()),
            left: FleetEnd::default(),
        };
        let signed = identity.sign(&end).map_err(FleetError::TooLarge)?;
        let bytes = serde_json::to_vec(&signed).map_err(|error| unavailable(&error))?;
        let suffix = if program.status == RunStatus::Running { BEGUN } else { "" };
        let subject = names::audit(tenant, &format!("{}{suffix}", program.id));
        match self.brokers.of(tenant).await?.put(subject, bytes, Some(0)).await? {
            // The answer to an earlier attempt was lost, and not the record.
            Written::At(_) | Written::Conflict => Ok(()),
            Written::Full => Err(FleetError::Full),
        }
    }
}

/// Asks the workers for places, once.
async fn offers(client: &async_nats::Client, tenant: &str) -> Result<Vec<Offer>, FleetError> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.map_err(|error| unavailable(&error))?;
    let asked = client.publish_with_reply(names::place(tenant), inbox, Default::default());
    asked.await.map_err(|error| unavailable(&error))?;
    let mut offers: Vec<Offer> = Vec::new();
    while offers.len() < COMPARED {
        let within = if offers.is_empty() { OFFERS.0 } else { OFFERS.1 };
        let Ok(Some(answer)) = tokio::time::timeout(within, answers.next()).await else { break };
        if answer.status == Some(StatusCode::NO_RESPONDERS) {
            break;
        }
        match Offer::read(&answer.payload) {
            Ok(offer) => offers.push(offer),
            Err(error) => tracing::warn!(tenant, error, "ignored an offer of a place"),
        }
    }
    Ok(offers)
}

/// Returns the record of a session, and its revision.
async fn read(
    broker: &Broker,
    tenant: &str,
    id: &str,
) -> Result<Option<(FleetSession, u64)>, FleetError> {
    let subject = names::session(tenant, id);
    let Some(found) = broker.get(&names::runs_stream(tenant), &subject).await? else {
        return Ok(None);
    };
    let wrong = |why: &str| FleetError::Untrusted(format!("the record of the session {id}: {why}"));
    let record = SessionRecord::read(&found.bytes).map_err(|why| wrong(&why))?;
    match record.session.id == id {
        true => Ok(Some((record.session, found.revision))),
        false => Err(wrong("it is of another session")),
    }
}

/// Returns the sessions that count, and the revision of their record.
async fn read_held(broker: &Broker, tenant: &str) -> Result<(HeldSessions, u64), FleetError> {
    let found = broker.get(&names::runs_stream(tenant), &names::sessions(tenant)).await?;
    let Some(found) = found else {
        return Ok((HeldSessions { version: VERSION, ..HeldSessions::default() }, 0));
    };
    let held = HeldSessions::read(&found.bytes)
        .map_err(|why| FleetError::Untrusted(format!("the sessions of {tenant}: {why}")))?;
    Ok((held, found.revision))
}

/// Changes the sessions that count, and tries again after each concurrent change.
async fn change_held(
    broker: &Broker,
    tenant: &str,
    mut change: impl FnMut(HeldSessions) -> Held,
) -> Result<(), FleetError> {
    for _ in 0..TRIES {
        let (held, revision) = read_held(broker, tenant).await?;
        let Held::Changed(changed) = change(held) else { return Ok(()) };
        let bytes = changed.write().map_err(FleetError::TooLarge)?;
        match broker.put(names::sessions(tenant), bytes, Some(revision)).await? {
            Written::At(_) => return Ok(()),
            Written::Full => return Err(FleetError::Full),
            // Not all at once again.
            Written::Conflict => {
                tokio::time::sleep(PAUSE.mul_f64(rand::random_range(0.0..1.0))).await;
            }
        }
    }
    Err(unavailable(&"others change the sessions of the tenant all the time"))
}

/// Returns the sessions that count and have ended, or were never created.
async fn gone_sessions(broker: &Broker, tenant: &str, now: i64) -> Result<Vec<String>, FleetError> {
    let (held, _) = read_held(broker, tenant).await?;
    let mut gone = Vec::new();
    for (id, held) in held.held {
        let is_gone = match read(broker, tenant, &id).await? {
            Some((session, _)) => session.status != SessionStatus::Active,
            None => held.since + CREATING < now,
        };
        if is_gone {
            gone.push(id);
        }
    }
    Ok(gone)
}
