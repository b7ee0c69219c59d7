//! The values of skills' settings, for every workspace or for one.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ApprovalError, Approvals, Workspace};
use skillhost_policy::Policy;

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SettingValue {
    /// The skill.
    pub skill: String,
    /// The name of the setting.
    pub name: String,
    /// The value; of a secret, where the host finds it.
    pub value: String,
    /// Whether the value says where the host finds a secret. It counts only for a setting that is
    /// declared as one, and no other value does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// Who set it.
    pub who: String,
    /// When it was set.
    pub time: String,
    /// The only workspace that it applies to, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
}

impl Approvals {
    /// Sets or removes a value, for every workspace or for one. A value is its text, and whether it
    /// says where the host finds a secret.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_setting(
        &self,
        skill: &str,
        name: &str,
        value: Option<(&str, bool)>,
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

    /// Returns the values for runs of a skill under a policy, by name. A value for a workspace that
    /// the policy mounts comes before one for every workspace.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn settings_of(
        &self,
        skill: &str,
        policy: &Policy,
    ) -> Result<BTreeMap<String, SettingValue>, ApprovalError> {
        // Exactly the folder: a value may be the address of a server, or lead to a secret.
        let workspaces = Workspace::all_of_policy(policy);
        let mut values = BTreeMap::new();
        let all = self.store.settings()?;
        for value in all.into_iter().filter(|value| value.skill == skill) {
            match &value.workspace {
                None => drop(values.entry(value.name.clone()).or_insert(value)),
                Some(own) if workspaces.contains(own) => {
                    drop(values.insert(value.name.clone(), value));
                }
                Some(_) => {}
            }
        }
        Ok(values)
    }
}
