//! Connections to the brokers, one for the account of each tenant, and what the other modules do over
//! them: read a subject, write it by compare-and-set, and move blobs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    DirectGetErrorKind, LastRawMessageErrorKind, RawMessageErrorKind,
};
use async_nats::jetstream::{self, consumer};
use async_nats::{Client, ConnectOptions, ServerAddr};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use crate::identity::Identity;
use crate::names;
use crate::types::PART_BYTES;
use skillhost_server::api::fleet::{FleetError, RunClass};

/// How long a request to a broker may take.
const REQUEST: Duration = Duration::from_secs(5);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest pause between two attempts to connect again.
const RECONNECT: Duration = Duration::from_secs(2);

/// The codes of a full stream, and of a message that is larger than the stream accepts.
const STORE_FAILED: u64 = 10_077;
const MESSAGE_TOO_LARGE: u64 = 10_054;
/// The codes with which three brokers, since 2.11, refuse a message while another one with the same id, or another
/// write to the same subject, is in progress.
const IN_PROGRESS: [u64; 2] = [10_158, 10_164];
/// The pause before such a message is sent again.
const PAUSE: Duration = Duration::from_millis(20);

/// The connections of an identity to the brokers. Cheap to clone.
#[derive(Clone)]
pub struct Brokers {
    pub(crate) identity: Arc<Identity>,
    addresses: Arc<Vec<ServerAddr>>,
    open: Arc<Mutex<BTreeMap<String, Arc<OnceCell<Broker>>>>>,
}

/// A connection to the brokers, in the account of one tenant. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    pub(crate) client: Client,
    pub(crate) context: jetstream::Context,
    pub(crate) identity: Arc<Identity>,
}

/// The value of a subject.
pub(crate) struct Value {
    pub(crate) bytes: Bytes,
    /// Its position in the stream, which a compare-and-set names.
    pub(crate) revision: u64,
    /// When it was written.
    pub(crate) written: SystemTime,
}

/// What came of a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The new revision.
    At(u64),
    /// The subject has another revision than expected.
    Conflict,
    /// The stream is full.
    Full,
}

/// The size of a blob, which is written after its parts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlobSize {
    bytes: u64,
    parts: u64,
}

impl Brokers {
    /// Connects for each tenant of an identity. `urls`: one or several addresses with commas between
    /// them.
    ///
    /// # Errors
    /// An address is invalid, no broker answers, or the brokers do not know the identity.
    pub async fn connect(urls: &str, identity: Identity) -> Result<Brokers, FleetError> {
        let mut addresses = Vec::new();
        for url in urls.split(',').map(str::trim) {
            if !url.starts_with("tls://") {
                let why = format!("{url}: write tls://HOST:PORT; a fleet has no other connections");
                return Err(FleetError::Unavailable(why));
            }
            addresses.push(url.parse::<ServerAddr>().map_err(|error| unavailable(&error))?);
        }
        let identity = Arc::new(identity);
        let tenants = identity.trust()?.tenants.clone();
        let brokers = Brokers { identity, addresses: Arc::new(addresses), open: Arc::default() };
        let connecting = tenants.iter().map(|tenant| brokers.of(tenant));
        futures::future::try_join_all(connecting).await?;
        Ok(brokers)
    }

    /// Returns the name of the identity.
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// Returns the connection for a tenant, which is opened when it is first used.
    ///
    /// # Errors
    /// The identity does not serve the tenant, or the brokers do not let it in.
    pub async fn of(&self, tenant: &str) -> Result<Broker, FleetError> {
        let cell = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            match open.get(tenant) {
                Some(cell) => cell.clone(),
                None => {
                    // Only names of tenants that the operator wrote are remembered.
                    self.identity.seed(tenant)?;
                    open.entry(tenant.to_owned()).or_default().clone()
                }
            }
        };
        cell.get_or_try_init(|| Broker::connect(self, tenant)).await.cloned()
    }

    /// Returns the connections that are open.
    pub(crate) fn open(&self) -> Vec<Broker> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().filter_map(|cell| cell.get().cloned()).collect()
    }
}

impl Broker {
    async fn connect(brokers: &Brokers, tenant: &str) -> Result<Broker, FleetError> {
        let identity = &brokers.identity;
        let name = &identity.name;
        let client = ConnectOptions::new()
            .name(format!("skillhost {name}"))
            .nkey(identity.seed(tenant)?)
            .custom_inbox_prefix(names::inbox(name))
            .require_tls(true)
            .add_root_certificates(identity.authority.clone())
            .connection_timeout(CONNECT)
            .request_timeout(Some(REQUEST))
            // Both sides know all brokers: what a broker says about others is not followed.
            .ignore_discovered_servers()
            .reconnect_delay_callback(|attempts| {
                let attempts = u32::try_from(attempts).unwrap_or(u32::MAX).min(8);
                (Duration::from_millis(20) * (1 << attempts)).min(RECONNECT)
            })
            .event_callback(|event| async move {
                match event {
                    async_nats::Event::Connected => tracing::info!("connected to a broker"),
                    event => tracing::warn!(%event, "the connection to the brokers"),
                }
            })
            .connect(brokers.addresses.to_vec())
            .await
            .map_err(|error| unavailable(&error))?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(REQUEST);
        Ok(Broker { client, context, identity: identity.clone() })
    }

    /// Returns the value of a subject, as the leader of the stream knows it: no follower that lags
    /// behind answers.
    pub(crate) async fn get(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<Value>, FleetError> {
        let stream = self.stream(stream).await?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(found) => Ok(Some(Value {
                bytes: found.payload,
                revision: found.sequence,
                written: found.time.into(),
            })),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Writes a subject, if its revision is the expected one: 0 if it must not exist.
    pub(crate) async fn put(
        &self,
        subject: String,
        bytes: Vec<u8>,
        expected: Option<u64>,
    ) -> Result<Written, FleetError> {
        let mut message = PublishMessage::build().payload(bytes.into());
        if let Some(expected) = expected {
            message = message.expected_last_subject_sequence(expected);
        }
        self.send(subject, message).await
    }

    /// Deletes a revision of a subject. Does nothing if it was already replaced or deleted.
    ///
    /// Does not purge the subject: NATS before 2.9.18 can empty the whole stream if a broker is killed after
    /// a purge. A broker that numbers messages differently after a kill deletes another one, which is the
    /// lesser harm.
    pub(crate) async fn delete(&self, stream: &str, revision: u64) -> Result<(), FleetError> {
        let stream = self.stream(stream).await?;
        let Err(error) = stream.delete_message(revision).await else { return Ok(()) };
        match stream.get_raw_message(revision).await {
            Err(gone) if gone.kind() == RawMessageErrorKind::NoMessageFound => Ok(()),
            _ => Err(unavailable(&error)),
        }
    }

    /// Adds a message to a queue. A second one with the same id within two minutes is dropped.
    pub(crate) async fn add(
        &self,
        subject: String,
        bytes: Vec<u8>,
        id: &str,
    ) -> Result<Written, FleetError> {
        self.send(subject, PublishMessage::build().payload(bytes.into()).message_id(id)).await
    }

    async fn send(&self, subject: String, message: PublishMessage) -> Result<Written, FleetError> {
        let sent =
            async || self.context.send_publish(subject.clone(), message.clone()).await?.await;
        let started = Instant::now();
        let error = loop {
            match sent().await {
                Ok(stored) => return Ok(Written::At(stored.sequence)),
                Err(error)
                    if code(&error).is_some_and(|code| IN_PROGRESS.contains(&code))
                        && started.elapsed() < REQUEST =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => break error,
            }
        };
        match error.kind() {
            PublishErrorKind::WrongLastSequence => Ok(Written::Conflict),
            PublishErrorKind::MaxPayloadExceeded => {
                Err(FleetError::TooLarge("it is larger than the brokers accept".into()))
            }
            _ => match code(&error) {
                Some(STORE_FAILED) => Ok(Written::Full),
                Some(MESSAGE_TOO_LARGE) => {
                    Err(FleetError::TooLarge("it is larger than the queue accepts".into()))
                }
                _ => Err(unavailable(&error)),
            },
        }
    }

    /// Sends a message that is not stored. Losing it does no harm.
    pub(crate) async fn tell(&self, subject: String, bytes: Vec<u8>) {
        if let Err(error) = self.client.publish(subject, bytes.into()).await {
            tracing::debug!(%error, "cannot announce something");
        }
    }

    /// Returns the size of a blob, and when it was stored.
    pub(crate) async fn blob(
        &self,
        tenant: &str,
        digest: &str,
    ) -> Result<Option<(u64, SystemTime)>, FleetError> {
        let found = self.blob_size(tenant, digest).await?;
        Ok(found.map(|(size, written)| (size.bytes, written)))
    }

    async fn blob_size(
        &self,
        tenant: &str,
        digest: &str,
    ) -> Result<Option<(BlobSize, SystemTime)>, FleetError> {
        let Some(subject) = names::blob(tenant, digest, "size") else { return Ok(None) };
        let Some(found) = self.get(&names::blobs_stream(tenant), &subject).await? else {
            return Ok(None);
        };
        let size = serde_json::from_slice(&found.bytes)
            .map_err(|error| FleetError::Untrusted(format!("the size of {digest}: {error}")))?;
        Ok(Some((size, found.written)))
    }

    /// Stores a blob. Its parts come first, so that one with a size is complete.
    pub(crate) async fn put_blob(
        &self,
        tenant: &str,
        digest: &str,
        from: &mut (dyn Read + Send),
    ) -> Result<(), FleetError> {
        let mut size = BlobSize { bytes: 0, parts: 0 };
        loop {
            let mut part = Vec::new();
            Read::take(&mut *from, PART_BYTES as u64)
                .read_to_end(&mut part)
                .map_err(|error| unavailable(&error))?;
            if part.is_empty() {
                break;
            }
            size.bytes += part.len() as u64;
            self.put_part(tenant, digest, &size.parts.to_string(), part).await?;
            size.parts += 1;
        }
        let size = serde_json::to_vec(&size).map_err(|error| unavailable(&error))?;
        self.put_part(tenant, digest, "size", size).await
    }

    async fn put_part(
        &self,
        tenant: &str,
        digest: &str,
        part: &str,
        bytes: Vec<u8>,
    ) -> Result<(), FleetError> {
        let subject = names::blob(tenant, digest, part)
            .ok_or_else(|| FleetError::TooLarge(format!("{digest} is not a digest")))?;
        match self.put(subject, bytes, None).await? {
            Written::Full => Err(FleetError::Full),
            _ => Ok(()),
        }
    }

    /// Copies a blob. Returns whether there is one. Its digest is the caller's to verify.
    pub(crate) async fn read_blob(
        &self,
        tenant: &str,
        digest: &str,
        to: &mut (dyn Write + Send),
    ) -> Result<bool, FleetError> {
        let Some((size, _)) = self.blob_size(tenant, digest).await? else { return Ok(false) };
        let stream = self.stream(&names::blobs_stream(tenant)).await?;
        let mut left = size.bytes;
        for part in 0..size.parts {
            let subject = names::blob(tenant, digest, &part.to_string()).unwrap_or_default();
            // Any copy will do: a part never changes.
            let found = match stream.direct_get_last_for_subject(subject.clone()).await {
                Ok(found) => found.payload,
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => {
                    match self.get(&names::blobs_stream(tenant), &subject).await? {
                        Some(found) => found.bytes,
                        None => return Ok(false),
                    }
                }
                Err(error) => return Err(unavailable(&error)),
            };
            left = left.checked_sub(found.len() as u64).ok_or_else(|| {
                FleetError::Untrusted(format!("{digest} is longer than its size"))
            })?;
            to.write_all(&found).map_err(|error| unavailable(&error))?;
        }
        Ok(left == 0)
    }

    /// Returns how many runs of a class wait in the queue of a tenant, and how far it is.
    pub(crate) async fn queue_info(
        &self,
        tenant: &str,
        class: RunClass,
    ) -> Result<consumer::Info, FleetError> {
        let queue = self.stream(&names::queue_stream(tenant)).await?;
        queue.consumer_info(class.name()).await.map_err(|error| unavailable(&error))
    }

    pub(crate) async fn stream(
        &self,
        name: &str,
    ) -> Result<jetstream::stream::Stream<()>, FleetError> {
        self.context.get_stream_no_info(name).await.map_err(|error| unavailable(&error))
    }
}

/// Returns the code of an answer of the broker.
fn code(error: &async_nats::jetstream::context::PublishError) -> Option<u64> {
    let source = std::error::Error::source(error)?;
    let known = source.downcast_ref::<jetstream::Error>()?;
    Some(known.error_code().0)
}

pub(crate) fn unavailable(error: &dyn std::fmt::Display) -> FleetError {
    FleetError::Unavailable(error.to_string())
}
