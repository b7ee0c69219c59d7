//! The parts of a skill that levels and approvals are for.

use serde::Serialize;

/// A part of a skill: what a level or an approval is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", content = "name", rename_all = "kebab-case")]
pub enum SkillPart {
    /// The skill: its main component, and whatever has no level of its own.
    Skill,
    /// A script or component. A request has its path in the skill; a level keeps the name that the
    /// operator typed.
    Program(String),
    /// A typed tool.
    Tool(String),
    /// Any text for the shell: which programs it may start is among the permissions.
    Command,
}

impl SkillPart {
    /// The two columns that it is stored as.
    pub(super) fn columns(&self) -> (&'static str, &str) {
        match self {
            SkillPart::Skill => ("skill", ""),
            SkillPart::Program(name) => ("program", name),
            SkillPart::Tool(name) => ("tool", name),
            SkillPart::Command => ("command", ""),
        }
    }

    /// Reads the two columns; `None` for a kind that this version does not know.
    pub(super) fn from_columns(kind: &str, name: String) -> Option<SkillPart> {
        Some(match kind {
            "skill" => SkillPart::Skill,
            "program" => SkillPart::Program(name),
            "tool" => SkillPart::Tool(name),
            "command" => SkillPart::Command,
            _ => return None,
        })
    }
}
