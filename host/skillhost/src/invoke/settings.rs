//! Passes a skill's settings to its programs, as variables.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use skillhost_ledger::approval::Approvals;
use skillhost_policy::diagnostic::quoted;
use skillhost_policy::manifest::settings::{MAX_VALUE, Setting, SettingKind};
use skillhost_policy::{EntryDecision, Grant, Policy, Verdict};
use skillhost_skill::Skill;

/// Adds the variables of the skill's settings, with the values for the run's workspace. A variable
/// of the policy comes first. A setting without a valid value is not passed, and the grant says so.
pub(super) fn add(grant: &mut Grant, skill: &Skill, policy: &Policy, store: Option<&Path>) {
    let declared = &skill.manifest.settings;
    if declared.is_empty() {
        return;
    }
    let key = skill.settings_key();
    let read = |store: &Path| Approvals::open(store).settings_of(&key, policy);
    let values = match store.map_or_else(|| Ok(BTreeMap::new()), read) {
        Ok(values) => values,
        Err(error) => {
            let why = error.to_string();
            grant.decisions.extend(declared.iter().map(|setting| missing(setting, &key, &why)));
            return;
        }
    };
    for setting in declared {
        let is_secret = setting.kind == SettingKind::Secret;
        let set = values.get(&setting.name).filter(|set| set.secret == is_secret);
        let value = set.map(|set| &set.value).or(setting.default.as_ref());
        match value.map(|value| resolve(setting, value)) {
            Some(Ok(value)) => {
                grant.capabilities.env.entry(setting.variable()).or_insert(value);
            }
            Some(Err(why)) => grant.decisions.push(missing(setting, &key, &why)),
            None => grant.decisions.push(missing(setting, &key, "it is not set")),
        }
    }
}

fn missing(setting: &Setting, skill: &str, why: &str) -> EntryDecision {
    EntryDecision {
        entry: entry(setting),
        place: None,
        verdict: Verdict::Refused,
        meaning: format!("omitted: {why}"),
        rule: "a setting is passed only with a valid value".into(),
        fix: Some(set_command(setting, skill)),
    }
}

/// Returns the command that sets a setting of a skill, which is named by its key.
fn set_command(setting: &Setting, skill: &str) -> String {
    let value = if setting.kind == SettingKind::Secret { "env:NAME" } else { "VALUE" };
    format!("skillhost settings set {} {} {value}", quoted(skill), setting.name)
}

/// Returns the secrets without a valid value that a loaded skill declares: what is wrong, and the
/// command that sets each.
pub(super) fn missing_secrets(grant: &Grant, skill: &Skill) -> Vec<(String, String)> {
    let key = skill.settings_key();
    let secrets = skill.manifest.settings.iter().filter(|one| one.kind == SettingKind::Secret);
    secrets
        .filter(|setting| !grant.capabilities.env.contains_key(&setting.variable()))
        .filter_map(|setting| {
            let entry = entry(setting);
            let decision = grant.decisions.iter().find(|decision| decision.entry == entry)?;
            let what = format!("the secret `{}` is {}", setting.name, decision.meaning);
            Some((what, set_command(setting, &key)))
        })
        .collect()
}

fn entry(setting: &Setting) -> String {
    format!("setting {}", setting.name)
}

/// Returns the value to pass: what was set, or what a secret's reference leads to.
fn resolve(setting: &Setting, value: &str) -> Result<String, String> {
    let value = match setting.kind {
        SettingKind::Secret => secret(value)?,
        _ => value.to_owned(),
    };
    setting.check(&value).map_err(|takes| format!("its value is not {takes}"))?;
    Ok(value)
}

/// The shortest secret, in bytes: the audit log finds and removes no shorter ones from texts.
const SHORTEST: usize = 8;

#[expect(clippy::disallowed_methods, reason = "the operator named this variable or file")]
fn secret(reference: &str) -> Result<String, String> {
    let secret = if let Some(name) = reference.strip_prefix("env:") {
        std::env::var(name).map_err(|_| format!("the host has no variable `{name}`"))?
    } else {
        let path = reference.strip_prefix("file:").filter(|path| path.starts_with('/'));
        let path = path.ok_or("a secret is set as env:NAME or file:/PATH")?;
        read(path).map_err(|error| format!("{path}: {error}"))?
    };
    if secret.len() < SHORTEST {
        return Err(format!("a secret has at least {SHORTEST} bytes"));
    }
    Ok(secret)
}

/// Reads a regular file. Opening anything else could wait for ever.
fn read(path: &str) -> std::io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    // One line end more than a value may have.
    let most = MAX_VALUE + 2;
    let mut text = String::new();
    file.take(most as u64 + 1).read_to_string(&mut text)?;
    if text.len() > most {
        return Err(std::io::Error::other("it is too long"));
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
