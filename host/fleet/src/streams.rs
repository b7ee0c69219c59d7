//! The streams and consumers of the tenants. API servers create them; workers may not.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::context::{DeleteStreamError, DeleteStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};

use crate::broker::{Broker, unavailable};
use crate::names;
use crate::types::{JOB_BYTES, PART_BYTES, RECORD_BYTES};
use skillhost_server::api::fleet::{FleetError, FleetTenant, RunClass};

/// How long an idempotency key is remembered, which is the least that runs are kept.
const KEY_LIFE: Duration = Duration::from_millis(skillhost_ledger::runs::KEY_LIFE.unsigned_abs());
/// The window in which a second message for a run is dropped.
const DUPLICATES: Duration = Duration::from_secs(120);
/// Room in a queue for the runs in progress, whose messages stay until they have ended.
const SLACK: u64 = 3;

/// How a fleet works.
#[derive(Debug, Clone, Copy)]
pub struct FleetSettings {
    /// The copies of each stream: 1, or 3 on three brokers.
    pub replicas: usize,
    /// How long a worker may be silent before another one takes its run.
    pub redeliver_after: Duration,
    /// How often a run is tried.
    pub attempts: u32,
}

impl Default for FleetSettings {
    /// One copy; 30 s; three attempts.
    fn default() -> FleetSettings {
        FleetSettings { replicas: 1, redeliver_after: Duration::from_secs(30), attempts: 3 }
    }
}

/// Creates or changes what a tenant needs.
pub(crate) async fn open(
    broker: &Broker,
    tenant: &FleetTenant,
    settings: &FleetSettings,
) -> Result<(), FleetError> {
    for config in configs(tenant, settings.replicas) {
        let name = config.name.clone();
        broker
            .context
            .create_or_update_stream(config)
            .await
            .map_err(|error| unavailable(&format!("{name}: {error}")))?;
    }
    let queue = names::queue_stream(&tenant.name);
    for class in RunClass::ALL {
        let consumer = pull::Config {
            durable_name: Some(class.name().into()),
            filter_subject: names::queue(&tenant.name, class.name()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: settings.redeliver_after,
            // The record counts the attempts: a message that no worker could use is not one.
            max_deliver: -1,
            // The broker keeps the tenant to its quota on all workers together.
            max_ack_pending: i64::try_from(tenant.running).unwrap_or(i64::MAX).max(1),
            ..pull::Config::default()
        };
        broker
            .context
            .create_consumer_on_stream(consumer, queue.clone())
            .await
            .map_err(|error| unavailable(&format!("{queue}: {error}")))?;
    }
    Ok(())
}

/// Deletes everything of a tenant. Returns whether there was anything.
pub(crate) async fn delete(broker: &Broker, tenant: &str) -> Result<bool, FleetError> {
    let mut found = false;
    for name in [
        names::queue_stream(tenant),
        names::dead_stream(tenant),
        names::runs_stream(tenant),
        names::keys_stream(tenant),
        names::blobs_stream(tenant),
        names::audit_stream(tenant),
    ] {
        match broker.context.delete_stream(&name).await {
            Ok(_) => found = true,
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(unavailable(&format!("{name}: {error}"))),
        }
    }
    Ok(found)
}

fn is_missing(error: &DeleteStreamError) -> bool {
    matches!(error.kind(), DeleteStreamErrorKind::JetStream(error)
        if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn configs(tenant: &FleetTenant, replicas: usize) -> [Config; 6] {
    let name = &tenant.name;
    // The record of a session stays as long as the session, and is there a while after its end.
    let runs = tenant.results.max(KEY_LIFE).max(tenant.session_ttl.saturating_mul(2));
    let common = Config {
        storage: StorageType::File,
        num_replicas: replicas,
        max_messages: -1,
        max_messages_per_subject: 1,
        max_bytes: -1,
        discard: DiscardPolicy::Old,
        ..Config::default()
    };
    let written_once = Config {
        // A second write to a subject is refused.
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        deny_delete: true,
        deny_purge: true,
        ..common.clone()
    };
    let clamped = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let bytes = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    // A key or a size of a message counts too.
    const OVERHEAD: usize = 4 << 10;
    [
        Config {
            name: names::queue_stream(name),
            subjects: vec![names::queue(name, "*")],
            retention: RetentionPolicy::WorkQueue,
            max_messages_per_subject: -1,
            max_messages: clamped(tenant.queued.saturating_add(tenant.running * SLACK)),
            discard: DiscardPolicy::New,
            max_message_size: bytes(JOB_BYTES + OVERHEAD),
            duplicate_window: DUPLICATES,
            ..common.clone()
        },
        Config {
            name: names::dead_stream(name),
            subjects: vec![names::dead(name, "*")],
            // A letter is kept as long as the run that it describes.
            max_age: runs,
            max_message_size: bytes(JOB_BYTES + OVERHEAD),
            ..common.clone()
        },
        Config {
            name: names::runs_stream(name),
            subjects: ["run", "result", "skill", "session"]
                .map(|kind| format!("skillhost.{kind}.{name}.*"))
                .into_iter()
                .chain([names::usage(name), names::sessions(name)])
                .collect(),
            max_age: runs.max(tenant.uploads),
            max_message_size: bytes(RECORD_BYTES + OVERHEAD),
            ..common.clone()
        },
        Config {
            // Nothing is replaced here, as in the record of all runs. If a broker before 2.10.19 is killed, it
            // can lose messages of a stream that has gaps, and a lost key lets a run start twice.
            name: names::keys_stream(name),
            subjects: vec![format!("skillhost.key.{name}.*")],
            max_age: KEY_LIFE,
            max_message_size: bytes(JOB_BYTES + OVERHEAD),
            ..written_once.clone()
        },
        Config {
            name: names::blobs_stream(name),
            subjects: vec![format!("skillhost.blob.{name}.*.*")],
            max_bytes: clamped(tenant.storage),
            discard: DiscardPolicy::New,
            // What a run names when it is submitted stays as long as the run.
            max_age: tenant.uploads.saturating_add(runs),
            max_message_size: bytes(PART_BYTES + OVERHEAD),
            allow_direct: true,
            ..common.clone()
        },
        Config {
            name: names::audit_stream(name),
            subjects: vec![names::audit(name, "*")],
            max_message_size: bytes(RECORD_BYTES + OVERHEAD),
            ..written_once
        },
    ]
}

/// The permissions of a role in the account of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Permissions {
    pub(crate) publish: Vec<String>,
    pub(crate) subscribe: Vec<String>,
    pub(crate) may_answer: bool,
}

impl Permissions {
    /// An API server reaches everything in the account of a tenant.
    pub(crate) fn of_api(name: &str) -> Permissions {
        Permissions {
            publish: ["skillhost.>", "$JS.API.>"].map(str::to_owned).to_vec(),
            subscribe: vec![
                format!("{}.>", names::inbox(name)),
                "skillhost.event.>".into(),
                names::report("*", "*"),
            ],
            may_answer: false,
        }
    }

    /// A worker takes from the queues of a tenant, and writes runs, blobs and records of it. It may not
    /// create consumers, which deliver to any subject that their creator names, past all permissions.
    pub(crate) fn of_worker(name: &str, tenant: &str) -> Permissions {
        let (queue, runs, blobs) =
            (names::queue_stream(tenant), names::runs_stream(tenant), names::blobs_stream(tenant));
        let mut publish = vec![names::report(name, "*")];
        for class in RunClass::ALL.map(RunClass::name) {
            publish.push(format!("$JS.API.CONSUMER.MSG.NEXT.{queue}.{class}"));
            publish.push(format!("$JS.API.CONSUMER.INFO.{queue}.{class}"));
            publish.push(format!("$JS.ACK.{queue}.{class}.>"));
        }
        publish.extend([
            format!("$JS.API.STREAM.MSG.GET.{runs}"),
            format!("$JS.API.STREAM.MSG.GET.{blobs}"),
            format!("$JS.API.DIRECT.GET.{blobs}"),
            format!("$JS.API.DIRECT.GET.{blobs}.>"),
            names::run(tenant, "*"),
            format!("skillhost.result.{tenant}.*"),
            names::usage(tenant),
            names::session(tenant, "*"),
            names::sessions(tenant),
            format!("skillhost.blob.{tenant}.*.*"),
            names::dead(tenant, "*"),
            names::audit(tenant, "*"),
            names::event(tenant, "*"),
        ]);
        let subscribe = vec![
            format!("{}.>", names::inbox(name)),
            format!("skillhost.hint.{tenant}.*"),
            names::control(tenant, "*"),
            names::place(tenant),
        ];
        Permissions { publish, subscribe, may_answer: true }
    }
}

/// The depth of the queues of a tenant.
#[derive(Debug, Default)]
pub(crate) struct Depth {
    /// Runs that wait, and runs in progress, by class.
    pub(crate) classes: BTreeMap<&'static str, (u64, u64)>,
    /// The age of the oldest run that has not ended.
    pub(crate) oldest: Option<Duration>,
    /// Dead letters.
    pub(crate) dead: u64,
}

/// Returns the bytes that are stored for a tenant: its runs, keys, skills and blobs.
pub(crate) async fn stored(broker: &Broker, tenant: &str) -> Result<u64, FleetError> {
    let mut bytes = 0;
    for name in
        [names::runs_stream(tenant), names::keys_stream(tenant), names::blobs_stream(tenant)]
    {
        let info = broker.stream(&name).await?.get_info().await;
        bytes += info.map_err(|error| unavailable(&error))?.state.bytes;
    }
    Ok(bytes)
}

/// Looks at the queues of a tenant.
pub(crate) async fn depth(broker: &Broker, tenant: &str) -> Result<Depth, FleetError> {
    let mut depth = Depth::default();
    let queue = broker.stream(&names::queue_stream(tenant)).await?;
    for class in RunClass::ALL {
        let info = broker.queue_info(tenant, class).await?;
        depth.classes.insert(class.name(), (info.num_pending, info.num_ack_pending as u64));
    }
    let info = queue.get_info().await.map_err(|error| unavailable(&error))?;
    if info.state.messages > 0 {
        let first: std::time::SystemTime = info.state.first_timestamp.into();
        depth.oldest = first.elapsed().ok();
    }
    let dead = broker.stream(&names::dead_stream(tenant)).await?;
    depth.dead = dead.get_info().await.map_err(|error| unavailable(&error))?.state.messages;
    Ok(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permissions_of_a_worker_name_its_tenant_only() {
        let of = Permissions::of_worker("one", "a");
        let names_a = |subject: &String| {
            subject.split('.').any(|token| token == "a" || token.ends_with("-a"))
        };
        for subject in &of.publish {
            assert!(names_a(subject) || subject == "skillhost.worker.one.*", "{subject}");
            assert!(!subject.contains("CONSUMER.CREATE"), "{subject}");
            assert!(
                !subject.starts_with("skillhost.key") && !subject.starts_with("skillhost.skill")
            );
        }
        for subject in &of.subscribe {
            assert!(names_a(subject) || subject == "_INBOX_one.>", "{subject}");
        }
    }

    #[test]
    fn queues_and_storage_are_bounded_by_the_quotas() {
        let tenant = FleetTenant {
            name: "a".into(),
            running: 2,
            queued: 10,
            storage: 1 << 20,
            results: Duration::from_secs(60),
            uploads: Duration::from_secs(60),
            session_ttl: Duration::from_secs(60),
        };
        let [queue, dead, runs, keys, blobs, audit] = configs(&tenant, 3);
        assert_eq!((queue.max_messages, blobs.max_bytes), (16, 1 << 20));
        assert_eq!(
            (runs.max_age, keys.max_age),
            (KEY_LIFE, KEY_LIFE),
            "a key has its run for a day"
        );
        assert!(blobs.max_age > tenant.uploads && audit.max_age.is_zero());
        for config in [queue, dead, runs, keys, blobs, audit] {
            assert!(config.max_message_size > 0 && config.num_replicas == 3, "{}", config.name);
        }
    }
}
