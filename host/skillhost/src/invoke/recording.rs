//! Records runs, and replays recordings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cap_std::fs::Dir;
use serde_json::Value;

use super::receipt::{ReceiptContext, built_in_digests};
use super::state::SkillState;
use super::{Invocation, LoadedRequest, LoadedSkill, RunError, Runner, Target, undigested};
use skillhost_ledger::receipt::{HOST, ReceiptGrant, canonical};
use skillhost_policy::capabilities::{Capabilities, CapturedCapabilities};
use skillhost_policy::outcome::Output;
use skillhost_policy::{Grant, Retention, Secrets};
use skillhost_sandbox::recording::folder::{Draft, RecordingError, StoredRecording};
use skillhost_sandbox::recording::network::RecordedNetwork;
use skillhost_sandbox::recording::scene::Scene;
use skillhost_sandbox::recording::seal::{self, Seal};
use skillhost_sandbox::recording::vault::Key;
use skillhost_sandbox::recording::{
    self, BlobDigest, EntryKind, Header, RecordedExchange, RecordedRuntime, RecordedTarget,
    Recording, SealedSecrets,
};
use skillhost_sandbox::{ENGINE, Io, Mode, RecordingIo, Stdin, fingerprint};
use skillhost_skill::runtime::digests::Digests;
use skillhost_skill::{SizeLimits, Skill};

/// Whether a recording was written.
#[derive(Debug)]
pub enum RecordingStatus {
    /// The recording is complete.
    Written,
    /// Nothing ran that could be replayed.
    Nothing,
    /// The run has ended, and the recording could not be written.
    Failed(RecordingError),
}

/// The recording, the folders and the streams of a replay.
pub struct ReplayRequest<'a> {
    /// The recording, with its secrets.
    pub kept: &'a StoredRecording,
    /// The restored folders.
    pub scene: &'a Scene,
    /// The layer between the run and the outside world.
    pub outside: RecordingIo,
    /// Replaces the recorded limit on fuel.
    pub fuel: Option<u64>,
    /// The streams; stdin is the recorded one.
    pub io: Io,
}

impl Runner {
    /// Runs a loaded skill under a deterministic policy, and records everything that comes from
    /// outside. The network is live.
    ///
    /// # Errors
    /// As [`Runner::invoke_with_receipt`]. A recording that cannot be written is not an error of
    /// the run.
    pub async fn record(
        &self,
        call: LoadedRequest<'_>,
        draft: Draft,
    ) -> Result<(Invocation, RecordingStatus), RunError> {
        let LoadedRequest { loaded, policy: given, target, args, io } = call;
        let stdin = if let Stdin::Bytes(bytes) = &io.stdin { bytes.clone() } else { Vec::new() };
        let network = Arc::new(RecordedNetwork::new_recording());
        let contents = Arc::new(draft.contents());
        let outside =
            RecordingIo { network: Some(network.clone()), contents: Some(contents.clone()) };
        let ask = ReceiptContext::of(given, &io.stdin)?.with(outside);
        let policy = ask.policy.clone();
        let granted_folders =
            loaded.capabilities.mounts.iter().chain(&loaded.capabilities.packages);
        if granted_folders
            .filter_map(|mount| mount.host.canonicalize().ok())
            .any(|folder| draft.folder().starts_with(folder))
        {
            let why = "the scratch folder is inside a folder that the run can write, so the run could change its own recording; set TMPDIR to another folder";
            return Err(RunError::Recording(why.into()));
        }
        let asked_uses = io.uses;
        let io = Io { uses: true, ..io };
        let mut invoked = self.invoke_asked(loaded, target, &args, io, Some(ask)).await?;
        let uses = invoked.finished.outcome.uses.take();
        invoked.finished.outcome.uses = uses.clone().filter(|_| asked_uses);
        let (Some(evidence), Some(blobs)) = (invoked.finished.evidence.take(), contents.blobs())
        else {
            return Ok((invoked, RecordingStatus::Nothing));
        };
        let secrets = &given.secrets;
        let taken = network.take_exchanges();
        let hidden = values(secrets, &loaded.capabilities, &taken);
        let stored: BTreeSet<String> =
            hidden.iter().filter(|one| one.is_stored).map(|one| one.name.clone()).collect();
        let hidden = hidden.into_iter().map(|one| (one.name, one.value));
        let mut seal = Seal::new(format!("{:032x}", rand::random::<u128>()), hidden);
        if !stored.is_empty() {
            match Key::find_or_create(&self.options.state) {
                Ok(key) => seal = seal.with_stored(key, stored),
                Err(source) => return Ok((invoked, RecordingStatus::Failed(draft.failed(source)))),
            }
        }
        let mut recording = Recording {
            version: recording::VERSION,
            skill: loaded.skill.name.clone(),
            target: recorded_target(target),
            arguments: args,
            runtime: RecordedRuntime {
                host: HOST.into(),
                engine: ENGINE.into(),
                fingerprint: fingerprint(Mode::Deterministic),
                programs: match &invoked.receipt {
                    Some(receipt) => receipt.runtime.programs.clone(),
                    None => loaded
                        .programs
                        .as_ref()
                        .ok()
                        .map(|programs| built_in_digests(programs))
                        .unwrap_or_default(),
                },
            },
            capabilities: canonical::value(
                &ReceiptGrant::of(&loaded.capabilities, &policy).capabilities,
            ),
            policy,
            environment: loaded.capabilities.env.clone(),
            stdin: BlobDigest::of(&stdin),
            folders: evidence.folders,
            exchanges: Vec::new(),
            status: invoked.finished.outcome.status.clone(),
            receipt: invoked.receipt.as_ref().map(canonical::value),
            // A command line may contain a secret too.
            uses: uses
                .and_then(|uses| serde_json::from_value(seal.seal(canonical::value(&uses))).ok()),
            sealed: SealedSecrets {
                salt: seal.salt().to_owned(),
                headers: secrets.hidden_headers(),
                ..SealedSecrets::default()
            },
            blobs: BTreeMap::new(),
            digest: None,
        };
        hide(&mut recording, secrets, &seal);
        let kept = blobs.store_bytes(&stdin).and_then(|_| {
            for (mut exchange, body) in taken {
                blobs.store_bytes(&body)?;
                mask(&mut exchange, &recording.sealed, &seal);
                recording.exchanges.push(exchange);
            }
            Ok(())
        });
        for entry in recording.folders.iter_mut().flat_map(|folder| &mut folder.entries) {
            if let EntryKind::File { digest, kept, .. } = &mut entry.kind {
                *kept |= blobs.contains(digest);
            }
        }
        let written = match kept {
            Ok(()) => draft.finish(recording, blobs, &seal),
            Err(source) => Err(draft.failed(source)),
        };
        Ok((invoked, written.map_or_else(RecordingStatus::Failed, |()| RecordingStatus::Written)))
    }

    /// Replays a recording: the same skill, input and capabilities. The run reaches nothing of this
    /// host.
    ///
    /// # Errors
    /// As [`Runner::invoke_with_receipt`]; or the recording cannot be interpreted.
    pub async fn replay(&self, replay: ReplayRequest<'_>) -> Result<Invocation, RunError> {
        let ReplayRequest { kept: StoredRecording { recording, .. }, scene, outside, fuel, io } =
            replay;
        let mut capabilities =
            recorded_capabilities(recording, scene).map_err(RunError::Recording)?;
        capabilities.limits.fuel = fuel.or(capabilities.limits.fuel);
        let state = state(recording, scene).map_err(RunError::Recording)?;
        let ask = ReceiptContext {
            state: Some(state),
            ..ReceiptContext::under(recording.policy.clone(), &io.stdin)?.with(outside)
        };
        let loaded = self.load_recorded(scene, capabilities)?;
        let target = target(recording);
        self.invoke_asked(&loaded, &target, &recording.arguments, io, Some(ask)).await
    }

    /// Loads the skill of a recording, with its recorded capabilities.
    fn load_recorded(
        &self,
        scene: &Scene,
        capabilities: Capabilities,
    ) -> Result<LoadedSkill, RunError> {
        let skill = Skill::load(&scene.skill, &SizeLimits::highest())
            .map_err(|error| RunError::Skill(Box::new(error)))?;
        let skill = Arc::new(skill);
        if skill.manifest.required_skills().next().is_some() {
            let why = "the skill requires others, which recordings do not contain";
            return Err(RunError::Recording(why.to_owned()));
        }
        // The folder belongs to this replay, and nothing else changes it.
        let digests = Digests::of(&skill).map_err(|error| undigested(&error));
        let digest = digests.as_ref().ok().map(|digests| digests.skill.clone());
        let programs = digests.map(|digests| Arc::new(self.programs(&skill, digests)));
        let id = skillhost_ledger::audit::SkillId::of(&skill, digest);
        let grant = Grant {
            capabilities: capabilities.clone(),
            decisions: Vec::new(),
            needs_approval: false,
        };
        Ok(LoadedSkill {
            capabilities: Arc::new(capabilities),
            grant: Arc::new(grant),
            skill,
            required: Arc::default(),
            id,
            programs,
            retention: Retention::default(),
            redactor: None,
            session: self.session.clone(),
        })
    }
}

/// Opens the state of a recording, in its restored folder.
fn state(recording: &Recording, scene: &Scene) -> Result<SkillState, String> {
    let (folder, place) = match (
        recording.folders.iter().find(|folder| folder.guest == STATE),
        scene.folders.get(STATE),
    ) {
        (Some(folder), Some(place)) => (folder, place),
        _ => return Ok(SkillState::None),
    };
    #[expect(clippy::disallowed_methods, reason = "a folder that was just made for this replay")]
    let dir = Dir::open_ambient_dir(place, cap_std::ambient_authority())
        .map_err(|error| format!("{STATE}: {error}"))?;
    let bytes = folder
        .entries
        .iter()
        .map(|entry| if let EntryKind::File { bytes, .. } = entry.kind { bytes } else { 0 });
    Ok(SkillState::Recorded(
        Arc::new(dir),
        bytes.fold(0, u64::saturating_add),
        folder.entries.len() as u64,
    ))
}

/// The guest path of a skill's state.
const STATE: &str = "/state";

/// Returns the capabilities of a recorded run, with the restored folders as hosts of its mounts.
///
/// # Errors
/// The capabilities cannot be interpreted.
pub fn recorded_capabilities(recording: &Recording, scene: &Scene) -> Result<Capabilities, String> {
    let captured: CapturedCapabilities = serde_json::from_value(recording.capabilities.clone())
        .map_err(|error| format!("invalid capabilities in the recording: {error}"))?;
    if captured.determinism.is_none() {
        return Err("the recorded run was not deterministic".into());
    }
    captured
        .restore(&scene.folders, &recording.environment)
        .map_err(|error| format!("invalid recording: {error}"))
}

/// Masks the digests of secret variables in a receipt, since the values could be guessed from them.
pub fn mask_receipt(receipt: &mut Value, secrets: &BTreeSet<String>) {
    for (name, digest) in receipt["input"]["environment"].as_object_mut().into_iter().flatten() {
        if secrets.contains(name) {
            *digest = "secret".into();
        }
    }
}

/// A value that never appears in a recording in clear.
struct HiddenValue {
    /// The name under which a replay asks for it.
    name: String,
    value: Vec<u8>,
    /// Whether the encrypted value is stored in the recording.
    is_stored: bool,
}

/// The shortest value, in bytes, that is searched for inside other values. Shorter values cause
/// false matches.
const LONG: usize = 8;

/// Collects the values that never appear in a recording in clear. Values that the policy forbids to
/// store come first, and a value that contains one of them is not stored either.
fn values(
    secrets: &Secrets,
    capabilities: &Capabilities,
    taken: &[(RecordedExchange, Vec<u8>)],
) -> Vec<HiddenValue> {
    let headers = secrets.hidden_headers();
    let answers = taken.iter().filter_map(|(exchange, _)| exchange.response.head.as_ref());
    let fields = answers.flat_map(|head| head.headers.iter().chain(&head.trailers)).chain(
        taken.iter().flat_map(|(exchange, _)| {
            exchange.request.headers.iter().chain(&exchange.request.trailers)
        }),
    );
    let fields: Vec<&Header> = fields.filter(|field| headers.contains(&field.name)).collect();
    let mut values = Vec::new();
    for is_stored in [false, true] {
        let variables = capabilities.env.iter().filter(|(name, _)| {
            secrets.hides_variable(name) && secrets.env.contains(name) != is_stored
        });
        for (name, value) in variables {
            let is_stored = is_stored
                && !values.iter().any(|known: &HiddenValue| {
                    !known.is_stored && is_part(&known.value, value.as_bytes())
                });
            values.push(HiddenValue {
                name: name.clone(),
                value: value.as_bytes().to_vec(),
                is_stored,
            });
        }
        for Header { name, value, .. } in
            fields.iter().filter(|field| secrets.headers.contains(&field.name) != is_stored)
        {
            let Some(Output(value)) = value else { continue };
            for (base, value) in header_values(name, value) {
                if values.iter().any(|known| known.value == value) {
                    continue;
                }
                let is_stored = is_stored
                    && !values.iter().any(|known: &HiddenValue| {
                        !known.is_stored && is_part(&known.value, value)
                    });
                let is_taken = |name: &str| {
                    values.iter().any(|known| known.name == name)
                        || capabilities.env.contains_key(name)
                };
                let mut names = std::iter::once(base.clone())
                    .chain((2..).map(|count| format!("{base}_{count}")));
                let Some(name) = names.find(|name| !is_taken(name)) else { continue };
                values.push(HiddenValue { name, value: value.to_vec(), is_stored });
            }
        }
    }
    values
}

/// Returns the secret values of a header field: the whole value, the credentials without their
/// scheme, and the values of cookies, which others may repeat alone.
fn header_values<'a>(name: &str, value: &'a [u8]) -> Vec<(String, &'a [u8])> {
    let base = format!("HEADER_{}", name.to_ascii_uppercase().replace('-', "_"));
    let mut values = vec![(base.clone(), value)];
    let pairs = value.split(|byte| *byte == b';');
    let pairs = match name {
        "authorization" | "proxy-authorization" => {
            let credentials = value.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
            values.push((base, &value[credentials..]));
            return values;
        }
        // Attributes follow.
        "set-cookie" => pairs.take(1),
        "cookie" => pairs.take(usize::MAX),
        _ => return values,
    };
    let cookies = pairs
        .filter_map(|pair| pair.splitn(2, |byte| *byte == b'=').nth(1))
        .map(<[u8]>::trim_ascii);
    values.extend(
        cookies.filter(|value| value.len() >= LONG).map(|value| ("COOKIE".to_owned(), value)),
    );
    values
}

/// Checks whether a long value occurs inside another.
fn is_part(part: &[u8], whole: &[u8]) -> bool {
    part.len() >= LONG && holds(whole, part)
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Hides the values of secret variables, even short ones.
fn hide(recording: &mut Recording, secrets: &Secrets, seal: &Seal) {
    let mut hidden = BTreeSet::new();
    for (name, value) in recording
        .environment
        .iter_mut()
        .filter(|(name, value)| secrets.hides_variable(name) && !value.is_empty())
    {
        recording.sealed.secrets.insert(name.clone(), seal::digest(seal.salt(), value.as_bytes()));
        *value = seal.placeholder(name);
        hidden.insert(name.clone());
    }
    if let Some(receipt) = &mut recording.receipt {
        mask_receipt(receipt, &hidden);
    }
}

/// Replaces a request's secret fields with digests, and a response's with placeholders, even short
/// ones.
fn mask(exchange: &mut RecordedExchange, sealed: &SealedSecrets, seal: &Seal) {
    let RecordedExchange { request, response, .. } = exchange;
    for field in request
        .headers
        .iter_mut()
        .chain(&mut request.trailers)
        .filter(|field| sealed.headers.contains(&field.name))
    {
        if let Some(Output(value)) = field.value.take() {
            field.secret = Some(seal::digest(&sealed.salt, &value));
        }
    }
    let fields =
        response.head.iter_mut().flat_map(|head| head.headers.iter_mut().chain(&mut head.trailers));
    for field in fields.filter(|field| sealed.headers.contains(&field.name)) {
        if let Some(placeholder) =
            field.value.as_ref().and_then(|Output(value)| seal.placeholder_for(value))
        {
            field.value = Some(Output(placeholder.into_bytes()));
        }
    }
}

fn recorded_target(target: &Target) -> RecordedTarget {
    match target.clone() {
        Target::Main => RecordedTarget::Main,
        Target::Named(name) => RecordedTarget::Named { name },
        Target::Tool { name, input } => RecordedTarget::Tool { name, input },
        Target::Shell(text) => RecordedTarget::Shell { text },
    }
}

fn target(recording: &Recording) -> Target {
    match recording.target.clone() {
        RecordedTarget::Main => Target::Main,
        RecordedTarget::Named { name } => Target::Named(name),
        RecordedTarget::Tool { name, input } => Target::Tool { name, input },
        RecordedTarget::Shell { text } => Target::Shell(text),
    }
}
