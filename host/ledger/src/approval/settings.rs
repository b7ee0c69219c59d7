//! The values of skills' settings, for every workspace or for one.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ApprovalError, Approvals, Workspace};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::level::PermissionLevel;

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SettingValue {
    /// The skill.
    pub skill: String,
    /// The name of the setting.
    pub name: String,
    /// The value; of a secret, where the host finds it.
    pub value: String,
    /// Who set it.
    pub who: String,
    /// When it was set.
    pub time: String,
    /// The only workspace that it applies to, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
}

impl Approvals {
    /// Sets or removes a value, for every workspace or for one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_setting(
        &self,
        skill: &str,
        name: &str,
        value: Option<&str>,
        workspace: Option<&Workspace>,
        who: &str,
    ) -> Result<(), ApprovalError> {
        self.store.set_setting(skill, name, value, workspace, who)
    }

    /// Returns every value, by skill.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn settings(&self) -> Result<Vec<SettingValue>, ApprovalError> {
        self.store.settings()
    }

    /// Returns the values for a run of a skill with these capabilities, by name. A value for the
    /// run's workspace comes before one for every workspace.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn settings_of(
        &self,
        skill: &str,
        capabilities: &Capabilities,
    ) -> Result<BTreeMap<String, String>, ApprovalError> {
        let workspace = Workspace::of_run(capabilities);
        // A value may be a secret's address or a server's, so it is bound to the folder as an
        // allowing level is.
        let is_here =
            |own: &Workspace| own.covers(workspace.as_ref(), PermissionLevel::AutoApproved);
        let mut values = BTreeMap::new();
        let all = self.store.settings()?;
        for value in all.into_iter().filter(|value| value.skill == skill) {
            match &value.workspace {
                None => drop(values.entry(value.name).or_insert(value.value)),
                Some(own) if is_here(own) => drop(values.insert(value.name, value.value)),
                Some(_) => {}
            }
        }
        Ok(values)
    }
}
