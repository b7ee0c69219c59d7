//! The tests of the libraries, in one program: one module per subject. They do not need the command
//! `skillhost`, and are not rebuilt when it changes.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "tests use temporary folders, and a failing helper fails its test"
)]
// `cargo check` computes the layout of the server's nested futures at once.
#![recursion_limit = "256"]

mod bash;
mod compat;
mod compat_tables;
mod components;
mod curl;
mod escape;
mod fuzz;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod handwritten_components;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod hostile_host;
mod hostile_scripts;
mod limits;
mod machine;
mod policy;
mod process;
mod script_https;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod servers;
mod service;
mod shell_growth;
mod skill;
mod skill_copies;
mod skill_properties;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod support;
mod syntax;
mod tidy;
#[allow(dead_code, reason = "shared by two test programs; each uses its part")]
mod tls;
mod tricks;

/// The program that the sandbox starts to compile components.
const COMPILER: &str = env!("CARGO_BIN_EXE_skillhost-compiler");
/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
