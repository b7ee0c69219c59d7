//! The parts of a skill that levels and approvals apply to.

use serde::Serialize;

/// A part of a skill.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", content = "name", rename_all = "kebab-case")]
pub enum SkillPart {
    /// The skill: its main component, and every part that has no level itself.
    Skill,
    /// A script or component. A request has its path in the skill; a level keeps the name that the
    /// operator typed.
    Program(String),
    /// A typed tool.
    Tool(String),
    /// Any command line for the shell. The programs that it may start are among the permissions.
    Command,
}

impl SkillPart {
    /// Returns the two columns that store it.
    pub(super) fn columns(&self) -> (&'static str, &str) {
        match self {
            SkillPart::Skill => ("skill", ""),
            SkillPart::Program(name) => ("program", name),
            SkillPart::Tool(name) => ("tool", name),
            SkillPart::Command => ("command", ""),
        }
    }

    /// Reads the two columns; `None` if this version does not know the kind.
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
