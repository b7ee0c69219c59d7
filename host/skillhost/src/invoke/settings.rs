//! Passes a skill's settings to its programs, as variables.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use skillhost_ledger::approval::Approvals;
use skillhost_policy::manifest::settings::{MAX_VALUE, Setting, SettingKind};
use skillhost_policy::{EntryDecision, Grant, Verdict};
use skillhost_skill::Skill;

/// Adds the variables of the skill's settings, with the values for the run's workspace. A variable
/// of the policy comes first. A setting without a valid value is not passed, and the grant says so.
pub(super) fn add(grant: &mut Grant, skill: &Skill, store: Option<&Path>) {
    let declared = &skill.manifest.settings;
    if declared.is_empty() {
        return;
    }
    let key = skill.approval_key();
    let read = |store: &Path| Approvals::open(store).settings_of(&key, &grant.capabilities);
    let values = match store.map_or_else(|| Ok(BTreeMap::new()), read) {
        Ok(values) => values,
        Err(error) => {
            let why = error.to_string();
            grant.decisions.extend(declared.iter().map(|setting| missing(setting, &key, &why)));
            return;
        }
    };
    for setting in declared {
        let set = values.get(&setting.name).or(setting.default.as_ref());
        match set.map(|value| resolve(setting, value)) {
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
        entry: format!("setting {}", setting.name),
        place: None,
        verdict: Verdict::Refused,
        meaning: format!("omitted: {why}"),
        rule: "a setting is passed only with a valid value".into(),
        fix: Some(format!("skillhost settings set {skill} {} VALUE", setting.name)),
    }
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

#[expect(clippy::disallowed_methods, reason = "the operator named this variable or file")]
fn secret(reference: &str) -> Result<String, String> {
    if let Some(name) = reference.strip_prefix("env:") {
        return std::env::var(name).map_err(|_| format!("the host has no variable `{name}`"));
    }
    let path = reference.strip_prefix("file:").ok_or("a secret is set as env:NAME or file:PATH")?;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_VALUE as u64 + 1).read_to_string(&mut text))
        .map_err(|error| format!("{path}: {error}"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
