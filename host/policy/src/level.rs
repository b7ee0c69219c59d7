//! Permission levels: whether something runs freely, needs an approval, or does not run at all.

use serde::{Deserialize, Serialize};

use super::Policy;
use super::layer::{NameGlob, blocked_by};
use crate::source::{LockedOrigin, SourceKind};

/// The permission level of a skill, or of one of its programs or tools. A lower value is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionLevel {
    /// It never runs.
    Blocked,
    /// It does not run until the operator enables it.
    Disabled,
    /// It runs with an approval, which may cover one run or many.
    Enabled,
    /// It runs without an approval.
    AutoApproved,
}

impl PermissionLevel {
    /// All levels, the strictest first.
    pub const ALL: [PermissionLevel; 4] = [
        PermissionLevel::Blocked,
        PermissionLevel::Disabled,
        PermissionLevel::Enabled,
        PermissionLevel::AutoApproved,
    ];

    /// Returns the level's name in a policy.
    pub fn name(self) -> &'static str {
        match self {
            PermissionLevel::Blocked => "blocked",
            PermissionLevel::Disabled => "disabled",
            PermissionLevel::Enabled => "enabled",
            PermissionLevel::AutoApproved => "auto-approved",
        }
    }

    /// Returns the level with this name.
    pub fn from_name(name: &str) -> Option<PermissionLevel> {
        PermissionLevel::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl Policy {
    /// Returns the strictest level that the sections for a skill set, or `None` if they set none.
    /// Nothing can raise it.
    pub fn approval(&self, skill: &str) -> Option<PermissionLevel> {
        self.layers_for(skill).filter_map(|layer| layer.approval).min()
    }

    /// Returns the strictest level that those sections set which grant something to a skill from
    /// this source, or `None` if they set none. Only these let a run start without a question.
    pub fn granted_approval(
        &self,
        skill: &str,
        origin: SourceKind,
        locked: Option<&LockedOrigin>,
    ) -> Option<PermissionLevel> {
        let granting = self.layers_for(skill).filter(|layer| layer.grants_to(origin, locked));
        granting.filter_map(|layer| layer.approval).min()
    }

    /// Says which section sets the level that [`Policy::approval`] returns: `blocked by `tdd-*` in
    /// policy.yaml:7:3`. `None` if the level blocks nothing.
    pub fn approval_block(&self, skill: &str) -> Option<String> {
        let level = self.approval(skill).filter(|level| *level <= PermissionLevel::Disabled)?;
        let layer = self.layers_for(skill).find(|layer| layer.approval == Some(level))?;
        let name = layer.applies_to.as_ref().map_or("default", NameGlob::pattern);
        Some(blocked_by(name, layer.place.as_deref().unwrap_or("the policy")))
    }

    /// Checks whether the skill's writes are staged for approval. One section that applies is
    /// enough.
    pub fn stages_writes(&self, skill: &str) -> bool {
        self.layers_for(skill).any(|layer| layer.stage)
    }
}
