//! What has to happen before something runs: nothing, a person's word, or it does not run at all.

use serde::{Deserialize, Serialize};

use super::Policy;

/// How far a skill, or a program or tool of it, may be run. The lower one is the stricter one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// It does not run.
    Blocked,
    /// It does not run until it is enabled.
    Disabled,
    /// It runs when a person says so, each time or as that person said.
    Enabled,
    /// It runs.
    AutoApproved,
}

impl Level {
    /// Each, the strictest first.
    pub const ALL: [Level; 4] =
        [Level::Blocked, Level::Disabled, Level::Enabled, Level::AutoApproved];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Level::Blocked => "blocked",
            Level::Disabled => "disabled",
            Level::Enabled => "enabled",
            Level::AutoApproved => "auto-approved",
        }
    }

    /// The level of a name.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl Policy {
    /// The level that the policy sets for a skill, which nothing raises: the strictest of the
    /// sections that apply. `None`: it sets none.
    pub fn approval(&self, skill: &str) -> Option<Level> {
        self.layers_for(skill).filter_map(|layer| layer.approval).min()
    }

    /// Whether what the skill writes is kept aside until someone has seen it: any section that
    /// applies may say so.
    pub fn stages(&self, skill: &str) -> bool {
        self.layers_for(skill).any(|layer| layer.stage)
    }
}
