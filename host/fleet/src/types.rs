//! What goes through the queue: plain data, as JSON with a version. What is larger than a bound, or
//! of another version, is refused.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use skillhost_ledger::runs::RunStatus;
use skillhost_policy::outcome::Output;
use skillhost_server::api::fleet::sessions::{FleetSession, SessionPlace};
use skillhost_server::api::fleet::{Content, FleetEnd, RunClass};
use skillhost_skill::runtime::digest;

/// The version of these types. A worker leaves a run of another version to others.
pub const VERSION: u32 = 1;
/// The most bytes of a message in a queue.
pub const JOB_BYTES: usize = 1 << 10;
/// The most bytes of a record.
pub const RECORD_BYTES: usize = 256 << 10;
/// The most bytes of a record of usage, which has 60 minutes.
pub const USAGE_BYTES: usize = 16 << 10;
/// The most bytes of a part of a blob. A broker accepts messages of 1 MiB.
pub const PART_BYTES: usize = 512 << 10;
/// The most bytes of a request to a worker, and of its answer.
pub const CONTROL_BYTES: usize = 256 << 10;

/// A message in a queue: this run waits for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The version of this format.
    pub version: u32,
    /// The id of the run.
    pub run: String,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// The version of this format.
    pub version: u32,
    /// Its id.
    pub id: String,
    /// The skill, as the client named it.
    pub skill: String,
    /// The skill with its digest, which a worker must have.
    pub pinned: String,
    /// The queue that it is in.
    pub class: RunClass,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted: i64,
    /// What was submitted, as JSON.
    pub request: Content,
    /// How often workers have taken it.
    pub attempts: u32,
    /// How often they may.
    pub most_attempts: u32,
    /// How often a worker has left it to others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u32,
    /// Whether what it uses counts towards a quota of an hour.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_metered: bool,
    /// Where it is in its life.
    pub state: RunState,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Where a run is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It waits for a worker.
    Queued,
    /// A worker has it.
    Running(Claim),
    /// It has ended.
    Ended(SignedEnd),
}

/// What a worker holds while it executes a run. Only the holder stores its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The worker.
    pub worker: String,
    /// A random number: a worker that takes a run twice holds two claims.
    pub token: String,
    /// The message that the worker got. Another message for the same run is a copy.
    pub message: u64,
    /// How often that message was delivered before the worker got it, and then. An earlier delivery
    /// that arrives later takes nothing from the worker.
    #[serde(default)]
    pub delivery: u64,
    /// When the run started, in milliseconds since 1970.
    pub started: i64,
    /// Whether the run has begun and must not begin again: its effect is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    /// Whether a client has cancelled it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cancelled: bool,
}

/// The end of a run, signed by the worker that executed it, or by the server that cancelled it before
/// it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedEnd {
    /// [`RunEnd`] as JSON: exactly what was signed.
    pub payload: String,
    /// The id of the key.
    pub key: String,
    /// The signature, as base64.
    pub signature: String,
    /// The bytes that the payload names by digest, by their digest. They are not part of it because the
    /// record of all runs is kept after they have expired.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inline: BTreeMap<String, Output>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    /// The version of this format.
    pub version: u32,
    /// The tenant.
    pub tenant: String,
    /// The id of the run.
    pub run: String,
    /// The skill with its digest.
    pub skill: String,
    /// The digest of what was submitted.
    pub request: String,
    /// Who executed it.
    pub worker: String,
    /// The worker's program and version.
    pub host: String,
    /// The worker's engine and version.
    pub engine: String,
    /// Which attempt this was, from 1; 0 if it was cancelled while no worker had it. An earlier attempt may have
    /// failed on its host.
    pub attempt: u32,
    /// How it ended.
    pub status: RunStatus,
    /// The kind of its outcome.
    pub kind: Option<String>,
    /// The exit code of the program.
    pub exit_code: Option<u8>,
    /// When it started, in milliseconds since 1970.
    pub started: Option<i64>,
    /// When it ended.
    pub ended: i64,
    /// Processor time of the guest, in milliseconds.
    pub cpu_ms: u64,
    /// Bytes that went in and out.
    pub bytes: u64,
    /// What identifies its result, if later runs may be answered with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The session that it was a program of. What such a program left stays with the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it left, by digest: [`SignedEnd::inline`] or a blob has the bytes.
    pub left: FleetEnd,
}

/// An idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// The version of this format.
    pub version: u32,
    /// The digest of what was submitted under the key.
    pub digest: String,
    /// The run.
    pub run: String,
    /// When it was first used, in milliseconds since 1970.
    pub created: i64,
}

/// Which run has the result of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownResult {
    /// The version of this format.
    pub version: u32,
    /// The run.
    pub run: String,
}

/// What a tenant has used, by minute since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageRecord {
    /// The version of this format.
    pub version: u32,
    /// The minutes of the last hour.
    pub minutes: BTreeMap<i64, MinuteUsage>,
}

/// What a tenant has used in a minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MinuteUsage {
    /// Processor time of guests, in milliseconds.
    pub cpu_ms: u64,
    /// Bytes that came in and went out.
    pub bytes: u64,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRecord {
    /// The version of this format.
    pub version: u32,
    /// The session.
    pub session: FleetSession,
}

/// The sessions of a tenant that count towards its quota.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldSessions {
    /// The version of this format.
    pub version: u32,
    /// The sessions, by their id.
    pub held: BTreeMap<String, HeldSession>,
}

/// A session that counts towards the quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldSession {
    /// Where it is.
    pub place: SessionPlace,
    /// Since when it counts, in milliseconds since 1970.
    pub since: i64,
}

/// A worker's offer of a place for a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The version of this format.
    pub version: u32,
    /// The place.
    pub place: SessionPlace,
    /// The sessions that the worker has.
    pub sessions: u64,
}

/// A run that no worker could end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// The version of this format.
    pub version: u32,
    /// The id of the run.
    pub run: String,
    /// The skill, as the client named it.
    pub skill: String,
    /// How often workers took it.
    pub attempts: u32,
    /// The worker that had it last.
    pub worker: String,
    /// When it was given up, in milliseconds since 1970.
    pub at: i64,
}

/// A request to the worker that executes a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// End the run.
    Cancel,
    /// Return its output after these positions of its standard output and error.
    Read([u64; 2]),
}

/// The answer of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveOutput {
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
}

/// What a worker says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The version of this format.
    pub version: u32,
    /// Its program and version.
    pub host: String,
    /// The most runs at once.
    pub slots: u64,
    /// Runs in progress.
    pub running: u64,
    /// Runs that it has ended.
    pub ended: u64,
}

/// Types with a version and a bound.
pub trait Bounded: Serialize + DeserializeOwned {
    /// The most bytes.
    const MOST: usize;

    /// The version of a value.
    fn version(&self) -> u32;

    /// Reads a value.
    ///
    /// # Errors
    /// It is too large, not of this type, or of another version.
    fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > Self::MOST {
            return Err(format!("{} bytes are more than {}", bytes.len(), Self::MOST));
        }
        let wrong = |other: u32| format!("its version is {other}, not {VERSION}");
        match serde_json::from_slice::<Self>(bytes) {
            Ok(read) => match read.version() {
                VERSION => Ok(read),
                other => Err(wrong(other)),
            },
            // Another version may have other fields.
            Err(error) => Err(other_version(bytes).map_or_else(|| error.to_string(), wrong)),
        }
    }

    /// Returns a value as JSON.
    ///
    /// # Errors
    /// It is too large.
    fn write(&self) -> Result<Vec<u8>, String> {
        let bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        match bytes.len() > Self::MOST {
            true => Err(format!("{} bytes are more than {}", bytes.len(), Self::MOST)),
            false => Ok(bytes),
        }
    }
}

macro_rules! bounded {
    ($($name:ident: $most:expr),*) => {
        $(impl Bounded for $name {
            const MOST: usize = $most;

            fn version(&self) -> u32 {
                self.version
            }
        })*
    };
}

bounded!(Job: JOB_BYTES, RunRecord: RECORD_BYTES, RunEnd: RECORD_BYTES, KeyRecord: JOB_BYTES,
    KnownResult: JOB_BYTES, DeadLetter: JOB_BYTES,
    UsageRecord: USAGE_BYTES, Report: JOB_BYTES, SessionRecord: RECORD_BYTES,
    HeldSessions: RECORD_BYTES, Offer: JOB_BYTES);

/// Returns the version that a value has, if it is another one than [`VERSION`].
pub(crate) fn other_version(bytes: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } = serde_json::from_slice(bytes).ok()?;
    (version != VERSION).then_some(version)
}

/// Replaces the bytes of what a run left by their digests, and returns them by digest.
pub(crate) fn take_inline(left: &mut FleetEnd) -> BTreeMap<String, Output> {
    let mut inline = BTreeMap::new();
    for content in contents(left) {
        let Content::Inline(bytes) = content else { continue };
        // What is empty is known without its bytes.
        if bytes.0.is_empty() {
            continue;
        }
        let digest = digest(&bytes.0);
        inline.insert(digest.clone(), std::mem::take(bytes));
        *content = Content::Digest(digest);
    }
    inline
}

fn contents(left: &mut FleetEnd) -> [&mut Content; 3] {
    [&mut left.result, &mut left.stdout, &mut left.stderr]
}

impl SignedEnd {
    /// Puts the bytes in place of their digests. What has no bytes here stays a digest.
    pub(crate) fn put_inline(&self, left: &mut FleetEnd) -> Result<(), String> {
        for content in contents(left) {
            let Content::Digest(named) = &*content else { continue };
            let Some(bytes) = self.inline.get(named) else { continue };
            if digest(&bytes.0) != *named {
                return Err(format!("the bytes of {named} have another digest"));
            }
            *content = Content::Inline(bytes.clone());
        }
        Ok(())
    }

    /// Returns what was signed, without the bytes that it names.
    pub(crate) fn without_inline(&self) -> SignedEnd {
        SignedEnd {
            payload: self.payload.clone(),
            key: self.key.clone(),
            signature: self.signature.clone(),
            inline: BTreeMap::new(),
        }
    }

    /// Returns whether both are the same end. One of them may have lost its bytes.
    pub(crate) fn is_same(&self, other: &SignedEnd) -> bool {
        (&self.payload, &self.key, &self.signature)
            == (&other.payload, &other.key, &other.signature)
    }
}

impl RunRecord {
    /// Returns whether a claim still holds the run.
    pub fn is_held_by(&self, claim: &Claim) -> bool {
        matches!(&self.state, RunState::Running(held) if held.token == claim.token)
    }

    /// Returns whether a claim holds the run, which must not begin again.
    pub fn is_final_for(&self, claim: &Claim) -> bool {
        matches!(&self.state, RunState::Running(held) if held.token == claim.token && held.is_final)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: RunState) -> RunRecord {
        RunRecord {
            version: VERSION,
            id: "0".repeat(32),
            skill: "hello".into(),
            pinned: "hello@sha256:0".into(),
            class: RunClass::Small,
            submitted: 1,
            request: Content::Inline(Output(b"{}".to_vec())),
            attempts: 0,
            most_attempts: 3,
            refused: 1,
            is_metered: true,
            state,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let claim = Claim {
            worker: "one".into(),
            token: "t".into(),
            message: 1,
            delivery: 1,
            started: 2,
            is_final: true,
            is_cancelled: false,
        };
        for state in [RunState::Queued, RunState::Running(claim.clone())] {
            let written = record(state);
            assert_eq!(RunRecord::read(&written.write().unwrap()).unwrap(), written);
        }
        let other = Claim { token: "u".into(), ..claim.clone() };
        let held = record(RunState::Running(claim.clone()));
        assert!(held.is_held_by(&claim) && !held.is_held_by(&other));
    }

    #[test]
    fn other_versions_and_large_values_are_refused() {
        let next = Job { version: VERSION + 1, run: "r".into() };
        assert!(Job::read(&serde_json::to_vec(&next).unwrap()).unwrap_err().contains("version"));
        let large = Job { version: VERSION, run: "r".repeat(JOB_BYTES) };
        assert!(large.write().is_err());
        assert!(Job::read(&serde_json::to_vec(&large).unwrap()).unwrap_err().contains("bytes"));
        let more = br#"{"version":1,"run":"r","more":1}"#;
        assert!(Job::read(more).is_err() && other_version(more).is_none());
        // Also one with other fields says which version it has.
        let next = br#"{"version":2,"runs":["r"]}"#;
        assert_eq!(other_version(next), Some(2));
        assert!(Job::read(next).unwrap_err().contains("version"));
        for none in [&b"x"[..], b"{}", br#"{"version":"2"}"#] {
            assert_eq!(other_version(none), None);
        }
    }

    #[test]
    fn bytes_are_beside_the_end_and_not_in_its_record() {
        let inline = |text: &str| Content::Inline(Output(text.into()));
        let left = FleetEnd {
            result: inline("the result"),
            stdout: Content::Blob("sha256:0".into()),
            stderr: inline(""),
        };
        let mut named = left.clone();
        let end = SignedEnd {
            payload: "{}".into(),
            key: "k".into(),
            signature: "s".into(),
            inline: take_inline(&mut named),
        };
        assert_eq!(named.result, Content::Digest(digest(b"the result")));
        assert_eq!((&named.stdout, &named.stderr), (&left.stdout, &left.stderr));
        let mut read = named.clone();
        end.put_inline(&mut read).unwrap();
        assert_eq!(read, left);
        let record = end.without_inline();
        assert!(record.is_same(&end) && record != end);
        assert!(!serde_json::to_string(&record).unwrap().contains("inline"));
        let mut read = named.clone();
        record.put_inline(&mut read).unwrap();
        assert_eq!(read, named, "lost bytes stay a digest");
        let text = serde_json::to_string(&end).unwrap();
        assert_eq!(serde_json::from_str::<SignedEnd>(&text).unwrap(), end);
    }
}
