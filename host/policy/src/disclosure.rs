//! Disclosure: how much agents see of a skill and of its typed tools. It shows or hides, and grants
//! nothing.

use serde::Serialize;

use super::{Layer, Policy};

/// How much agents see of a skill, or of one of its typed tools. A higher value is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Disclosure {
    /// An agent's session has it from the start.
    Always,
    /// An agent finds the skill, and then activates it.
    Deferred,
    /// To agents it does not exist. The operator's command line still runs it.
    Hidden,
}

impl Disclosure {
    /// All values, the strictest last.
    pub const ALL: [Disclosure; 3] = [Disclosure::Always, Disclosure::Deferred, Disclosure::Hidden];

    /// Returns the name in a policy.
    pub fn name(self) -> &'static str {
        match self {
            Disclosure::Always => "always",
            Disclosure::Deferred => "deferred",
            Disclosure::Hidden => "hidden",
        }
    }

    /// Returns the value with this name.
    pub fn from_name(name: &str) -> Option<Disclosure> {
        Disclosure::ALL.into_iter().find(|value| value.name() == name)
    }
}

impl Policy {
    /// Returns the strictest value that the sections for a skill set, or `Deferred` if none sets
    /// one. `preloaded` says whether `preload` covers the skill, which counts as `Always`.
    pub fn disclosure(&self, skill: &str, preloaded: bool) -> Disclosure {
        strictest(self.layers_for(skill).filter_map(|layer| layer.disclosure), preloaded)
    }

    /// Returns the strictest value that the sections for a skill set, for the skill or for this
    /// typed tool.
    pub fn tool_disclosure(&self, skill: &str, tool: &str, preloaded: bool) -> Disclosure {
        let set = self
            .layers_for(skill)
            .flat_map(|layer| [layer.disclosure, layer.tools.get(tool).copied()]);
        strictest(set.flatten(), preloaded)
    }

    /// Checks whether a skill does not exist for agents.
    pub fn hides(&self, skill: &str) -> bool {
        // Called for every skill of a search: comparing the name with a glob comes last.
        let hiding = |layer: &&Layer| layer.disclosure == Some(Disclosure::Hidden);
        self.layers.iter().filter(hiding).any(|layer| layer.covers(skill))
    }

    /// Checks whether a session has the skill, or some of its typed tools, from the start.
    pub fn discloses_from_start(&self, skill: &str, preloaded: bool) -> bool {
        let is_always =
            |tool: &String| self.tool_disclosure(skill, tool, preloaded) == Disclosure::Always;
        self.disclosure(skill, preloaded) == Disclosure::Always
            || self.layers_for(skill).flat_map(|layer| layer.tools.keys()).any(is_always)
    }

    /// Checks whether any section says `always`.
    pub fn discloses_anything_from_start(&self) -> bool {
        self.layers.iter().any(|layer| {
            layer
                .disclosure
                .iter()
                .chain(layer.tools.values())
                .any(|set| *set == Disclosure::Always)
        })
    }
}

/// Checks whether a text is a valid name of a typed tool, by the rule of wit/skill.wit: 1 to 64 of
/// a-z, A-Z, 0-9, `_` and `-`.
pub fn is_tool_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn strictest(set: impl Iterator<Item = Disclosure>, preloaded: bool) -> Disclosure {
    set.chain(preloaded.then_some(Disclosure::Always)).max().unwrap_or(Disclosure::Deferred)
}
