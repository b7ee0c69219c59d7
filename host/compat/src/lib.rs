//! The compatibility report: what a skill's scripts need, and whether the sandbox provides it. Also
//! learns the smallest grant from what runs used.
//!
//! This crate owns the analysis of scripts and the tables of what the sandbox provides. It runs
//! nothing, and no finding prevents a skill from running, because the analysis cannot see names that
//! are computed at run time. It must not know the engine.
//!
//! Start reading at [`check`]. `units` finds the scripts, and the shell blocks of SKILL.md. `python_tokens`,
//! `python_imports` and `python_commands` read Python, `javascript_tokens` and `javascript_scan` read
//! JavaScript (`tokens` and `tries` are common to both), `shell_words` reads shell scripts, and `sourced` finds the functions that they share. `judge` compares their
//! findings with the runtimes (`stdlib`, `packages`, `known_packages`, `node_modules`, `known_commands`), the files of the skill,
//! and its capabilities (`network` for hosts). `summary` counts over many skills. [`learn`] converts
//! what runs used to lines of a policy. `tricks` finds what malicious skills do. `simple_command` reads the commands that a hook may replace.

mod dependencies;
mod javascript_scan;
mod javascript_script;
mod javascript_tokens;
mod judge;
mod known_commands;
mod known_packages;
pub mod learn;
mod need;
mod network;
mod node_modules;
mod packages;
mod python_commands;
mod python_imports;
mod python_script;
mod python_tokens;
mod references;
mod shell_blocks;
mod shell_script;
mod shell_words;
mod simple_command;
mod sourced;
mod stdlib;
mod summary;
mod tokens;
mod tricks;
mod tries;
mod units;

#[doc(hidden)]
pub use known_commands::subcommands;
pub use known_commands::{Availability, availability, built_in_commands};
pub use need::{Need, NeedEffect, NeedKind, NeedStatus, Place};
#[doc(hidden)]
pub use node_modules::built_in_modules;
pub use simple_command::{SimpleCommand, parse_simple_command, quote_word};
#[doc(hidden)]
pub use stdlib::standard_modules;
pub use summary::{Reason, Summary, summarize};
pub use tricks::{SuspiciousFile, find_tricks};
pub use units::{check, check_parsed};

use serde::Serialize;

use judge::Caller;

/// The compatibility report of one skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Compatibility {
    /// How well the sandbox supports all its scripts together.
    pub verdict: SupportLevel,
    /// Its component, scripts and modules, sorted by path, then the shell blocks of SKILL.md.
    pub scripts: Vec<ScriptReport>,
    /// Needs that belong to no script: declared dependencies that no script imports, and missing
    /// files to which SKILL.md refers.
    pub needs: Vec<Need>,
}

/// The report on one script, module, component or shell block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ScriptReport {
    /// The path in the skill.
    pub file: String,
    /// The 1-based line at which a block of SKILL.md starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Its role in the skill.
    pub role: Role,
    /// The program that runs it: `python3`, `node`, `bash`, `sh` or `wasm`; or an unsupported
    /// language, such as `Ruby`.
    pub program: String,
    /// How well the sandbox supports it.
    pub verdict: SupportLevel,
    /// What it needs, in the order of the text; at most 100 needs that are met and 100 that are not.
    pub needs: Vec<Need>,
}

/// The role of a file or block in its skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The component that the manifest names.
    Component,
    /// A script that is run directly.
    Script,
    /// A module that scripts of the skill import. It counts only through them.
    Module,
    /// A fenced shell block of SKILL.md.
    Block,
}

/// How well the sandbox supports a skill or script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SupportLevel {
    /// All visible needs are met.
    #[serde(rename = "runs-here")]
    Full,
    /// It starts, but something that it may need later is missing.
    #[serde(rename = "runs-partly")]
    Partial,
    /// Something that it always needs is missing.
    #[serde(rename = "does-not-run-here")]
    Unsupported,
    /// The skill has nothing to run.
    InstructionsOnly,
}

impl SupportLevel {
    /// Returns the level in words.
    pub fn description(self) -> &'static str {
        match self {
            SupportLevel::Full => "fully supported",
            SupportLevel::Partial => "partially supported",
            SupportLevel::Unsupported => "not supported",
            SupportLevel::InstructionsOnly => "instructions only",
        }
    }
}

/// Whether a script always reaches a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// In every run.
    Always,
    /// Only if a function is called or a condition holds.
    Sometimes,
}
