//! The streams and subjects. Every tenant has its own, so that a permission of the broker separates
//! tenants. Names of tenants have neither dots nor wildcards.

use sha2::{Digest as _, Sha256};

use skillhost_server::api::fleet::RunClass;
use skillhost_skill::runtime::hex;

/// The stream of a tenant's queue.
pub(crate) fn queue_stream(tenant: &str) -> String {
    format!("skillhost-queue-{tenant}")
}

/// The subject of the queue of a class.
pub(crate) fn queue(tenant: &str, class: &str) -> String {
    format!("skillhost.queue.{tenant}.{class}")
}

/// The stream of runs that no worker could end.
pub(crate) fn dead_stream(tenant: &str) -> String {
    format!("skillhost-dead-{tenant}")
}

pub(crate) fn dead(tenant: &str, run: &str) -> String {
    format!("skillhost.dead.{tenant}.{run}")
}

/// The stream of the records of runs, of known results, of uploaded skills, of sessions, and of the
/// usage.
pub(crate) fn runs_stream(tenant: &str) -> String {
    format!("skillhost-runs-{tenant}")
}

pub(crate) fn run(tenant: &str, run: &str) -> String {
    format!("skillhost.run.{tenant}.{run}")
}

/// The stream of idempotency keys.
pub(crate) fn keys_stream(tenant: &str) -> String {
    format!("skillhost-keys-{tenant}")
}

/// An idempotency key may have any visible character, and a subject may not.
pub(crate) fn key(tenant: &str, key: &str) -> String {
    format!("skillhost.key.{tenant}.{}", hex(&Sha256::digest(key.as_bytes())))
}

/// Names the run that has the result of a key.
pub(crate) fn result(tenant: &str, key: &str) -> String {
    format!("skillhost.result.{tenant}.{}", hex(&Sha256::digest(key.as_bytes())))
}

/// What a tenant has used in the last hour.
pub(crate) fn usage(tenant: &str) -> String {
    format!("skillhost.usage.{tenant}")
}

/// `named`: the name of a skill, or its digest.
pub(crate) fn skill(tenant: &str, named: &str) -> Option<String> {
    let token = named.strip_prefix("sha256:").unwrap_or(named);
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (!token.is_empty() && token.len() <= 64 && token.bytes().all(valid))
        .then(|| format!("skillhost.skill.{tenant}.{token}"))
}

/// The stream of blobs.
pub(crate) fn blobs_stream(tenant: &str) -> String {
    format!("skillhost-blobs-{tenant}")
}

/// `part`: a number, or `size`.
pub(crate) fn blob(tenant: &str, digest: &str, part: &str) -> Option<String> {
    let hex = digest.strip_prefix("sha256:")?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (hex.len() == 64 && hex.bytes().all(is_hex))
        .then(|| format!("skillhost.blob.{tenant}.{hex}.{part}"))
}

/// The stream of the signed ends of all runs.
pub(crate) fn audit_stream(tenant: &str) -> String {
    format!("skillhost-audit-{tenant}")
}

pub(crate) fn audit(tenant: &str, run: &str) -> String {
    format!("skillhost.audit.{tenant}.{run}")
}

/// The record of a session.
pub(crate) fn session(tenant: &str, session: &str) -> String {
    format!("skillhost.session.{tenant}.{session}")
}

/// The sessions of a tenant that count towards its quota.
pub(crate) fn sessions(tenant: &str) -> String {
    format!("skillhost.sessions.{tenant}")
}

/// Asks the workers of a tenant for a place for a session. Not stored.
pub(crate) fn place(tenant: &str) -> String {
    format!("skillhost.place.{tenant}")
}

/// Announces that a queue has a message. Not stored.
pub(crate) fn hint(tenant: &str, class: RunClass) -> String {
    format!("skillhost.hint.{tenant}.{}", class.name())
}

/// Announces that a run has changed. Not stored.
pub(crate) fn event(tenant: &str, run: &str) -> String {
    format!("skillhost.event.{tenant}.{run}")
}

/// Reaches the worker that executes a run.
pub(crate) fn control(tenant: &str, run: &str) -> String {
    format!("skillhost.control.{tenant}.{run}")
}

/// The reports of one process of a worker's identity.
pub(crate) fn report(worker: &str, process: &str) -> String {
    format!("skillhost.worker.{worker}.{process}")
}

/// Returns the labels of the process that reports on a subject. `None` if it has no name of a worker.
pub(crate) fn reporting(subject: &str) -> Option<String> {
    let (worker, process) = subject.strip_prefix("skillhost.worker.")?.split_once('.')?;
    labels(worker, process)
}

/// Returns the labels of a process of a worker. `None` if one of them is not a name.
pub(crate) fn labels(worker: &str, process: &str) -> Option<String> {
    let is_word = |word: &str| {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=64).contains(&word.len()) && word.bytes().all(valid)
    };
    (is_word(worker) && is_word(process))
        .then(|| format!("worker=\"{worker}\",process=\"{process}\""))
}

/// Where answers to requests of an identity arrive.
pub(crate) fn inbox(identity: &str) -> String {
    format!("_INBOX_{identity}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_reaches_another_subject() {
        let digest = format!("sha256:{}", "a".repeat(64));
        assert!(blob("a", &digest, "size").is_some() && skill("a", &digest).is_some());
        for wrong in ["", "sha256:", "sha256:>", "a.b", "*", "a b", "../a", "A"] {
            assert_eq!(blob("a", wrong, "0"), None, "{wrong}");
            assert_eq!(skill("a", wrong), None, "{wrong}");
        }
        assert!(!key("a", "k > * .b").contains(' '));
    }
}
