//! The tests that run the command `skillhost`, in one program: one module per subject.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "tests use temporary folders, and a failing helper fails its test"
)]

mod agent;
mod approval;
mod audit;
mod authorities;
mod cache;
mod catalog;
mod check;
mod cli;
mod component_imports;
mod concurrent_runs;
mod connect;
mod denials;
mod deploy;
mod determinism;
mod docs;
mod doctor;
mod editor;
mod embed;
mod fleet;
mod git;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod handwritten_components;
mod hook;
mod hooks;
mod host_programs;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod hostile_host;
mod hostile_tools;
mod http_cache;
mod javascript;
mod learn;
mod mcp;
mod mount;
mod plugin;
mod private_folders;
mod programs;
mod python;
mod readme;
mod receipt;
mod record;
mod requires;
mod run_api;
mod scripts;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod servers;
mod settings;
mod shell;
mod shipped;
mod signals;
mod signatures;
mod skill_cases;
mod skill_scripts;
mod sources;
mod state;
mod stateful_skills;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod support;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod tls;
mod usage;
mod verify;
mod web_search;

/// The program that the sandbox starts to compile components.
const COMPILER: &str = env!("CARGO_BIN_EXE_skillhost");
/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
