//! What a skill's scripts need, and whether the sandbox has it; the smallest grant for what runs
//! used.
//!
//! This crate reads texts and reports findings. It runs nothing, and no finding stops a skill from
//! running: a name that is computed at run time is not seen. It must not know the engine.
//!
//! `units` finds the scripts and the shell blocks of SKILL.md. `python`, `imports` and `calls` read
//! a Python text, `words` reads a shell's. `judge` compares what they found with the runtimes
//! (`stdlib`, `packages`, `known`, `commands`), the skill's own files and its capabilities
//! (`network` for hosts). `summary` counts over a folder of skills. [`learn`] turns what recorded
//! runs used into policy lines.

mod blocks;
mod calls;
mod commands;
mod declared;
mod imports;
mod judge;
mod known;
pub mod learn;
mod modules;
mod need;
mod network;
mod packages;
mod python;
mod references;
mod shell;
mod stdlib;
mod summary;
mod units;
mod words;

#[doc(hidden)]
pub use commands::subcommands;
pub use commands::{Availability, availability, built_in_commands};
pub use need::{Need, NeedEffect, NeedKind, NeedStatus, Place};
#[doc(hidden)]
pub use stdlib::standard_modules;
pub use summary::{Reason, Summary, summarize};
pub use units::check;

use serde::Serialize;

use judge::Caller;

/// What is known of one skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Compatibility {
    /// Of its scripts together.
    pub verdict: SupportLevel,
    /// Its component, scripts and modules by path, then the shell blocks of SKILL.md.
    pub scripts: Vec<ScriptReport>,
    /// What is about no script alone: dependencies that the skill declares and no script imports,
    /// files that SKILL.md names and the skill does not hold.
    pub needs: Vec<Need>,
}

/// Something that can be run, or that a script imports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ScriptReport {
    /// Its path in the skill.
    pub file: String,
    /// The line that a block of SKILL.md starts on, 1-based.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What it is to the skill.
    pub role: Role,
    /// The program that runs it, `python3`, `bash`, `sh` or `wasm`; else the language, such as
    /// `JavaScript`.
    pub program: String,
    /// Whether it runs.
    pub verdict: SupportLevel,
    /// What it needs and what became of it, in the order of the text; at most 100 that are met and
    /// 100 that are not.
    pub needs: Vec<Need>,
}

/// What a file or block is to its skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The component that the manifest names.
    Component,
    /// Run by itself.
    Script,
    /// Imported by scripts of the skill; counts by way of them.
    Module,
    /// A fenced shell block of SKILL.md.
    Block,
}

/// Whether something runs here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SupportLevel {
    /// All that can be seen of its needs is met.
    #[serde(rename = "runs-here")]
    Full,
    /// It starts, and something that it may come to is not met.
    #[serde(rename = "runs-partly")]
    Partial,
    /// Something that it comes to in any case is not met.
    #[serde(rename = "does-not-run-here")]
    Unsupported,
    /// There is nothing to run.
    InstructionsOnly,
}

impl SupportLevel {
    /// In words.
    pub fn description(self) -> &'static str {
        match self {
            SupportLevel::Full => "runs here",
            SupportLevel::Partial => "runs partly",
            SupportLevel::Unsupported => "does not run here",
            SupportLevel::InstructionsOnly => "instructions only",
        }
    }
}

/// Whether a script comes to something in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Whenever it runs.
    Always,
    /// In a function, or on a condition.
    Sometimes,
}
