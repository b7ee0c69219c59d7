//! The integration tests, in one binary: one module per subject.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "tests make their own folders, and a helper that fails fails its test"
)]

mod approval;
mod arena;
mod audit;
mod authorities;
mod bash;
mod cache;
mod catalog;
mod cli;
mod compat;
mod components;
mod copies;
mod curl;
mod denials;
mod determinism;
mod docs;
mod embed;
mod escape;
mod fuzz;
mod git;
mod kept_skills;
mod known;
mod learn;
mod limits;
mod mcp;
mod policy;
mod private;
mod process;
mod programs;
mod python;
mod python_https;
mod readme;
mod receipt;
mod record;
mod scripts;
mod servers;
mod service;
mod signals;
mod skill;
mod skill_properties;
mod state;
mod tidy;
mod together;
mod toolbox;
mod usage;
mod verify;
mod world;
