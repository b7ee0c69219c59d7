//! skillhost runs untrusted Agent Skills as WebAssembly, with exactly the permissions that a skill asked for and its operator granted.
//!
//! One invocation is a straight line, and this is the order to read the code in:
//!
//! ```text
//! argv -> Request -> Skill -> Capabilities -> Program -> Outcome -> Record
//! ```
//!
//! | step | module | owns |
//! |---|---|---|
//! | main, cli | `main.rs`, `cli/` | argv as typed values; the only place that prints; exit codes in one match |
//! | spine | [`invoke`] | find the skill, parse, grant, prepare, run, record |
//! | skill | [`skill`] | a folder becomes a `Skill`; the only code that knows SKILL.md |
//! | policy | [`policy`] | `grant(&Manifest, &Policy)`: pure, no I/O |
//! | runtime | [`runtime`] | which component runs, with which argv; carries no authority |
//! | compat | [`compat`] | what the scripts need and whether it is here, told from their texts: what `check` reports |
//! | recording | [`recording`] | what came to a run from outside, in a folder; repeats it |
//! | learn | [`learn`] | from what runs used, the smallest grant that they needed; pure |
//! | schema | `schema` | whether a value is what a guest's JSON Schema says, in steps that are counted |
//! | sandbox | [`sandbox`] | a program under capabilities becomes an `Outcome`; the only code that knows wasmtime |
//! | service | [`service`] | many invocations at once: who goes next, who waits, who is told that it is busy |
//! | approval | [`approval`] | what runs by itself, what waits for a person's word, and who gave it for what |
//! | embed | [`embed`] | the whole of it inside another program: `Host::builder()` |
//! | catalog | [`catalog`] | which skills there are: found, cached, ranked; the block that agents are given |
//! | usage | [`usage`] | what agents found, activated and ran, as figures of this machine's own |
//! | mcp | [`mcp`] | skills for agents: discovery, activation, runs, over the Model Context Protocol |
//! | outcome | [`outcome`] | what happened, as plain data |
//! | private | [`private`] | folders that no other user can enter, and the sweep of those whose owner died |
//! | state | [`state`] | what skills keep from run to run |
//! | audit | [`audit`] | one `Record` per invocation, whatever the outcome |
//! | receipt | [`receipt`] | what a run was and came to, signed, for anyone to check |
//!
//! What holds everywhere, each by a test:
//! - `Program` says what runs and carries no authority; `Capabilities` says what it may touch; only `sandbox` reads both.
//! - The same `Capabilities` value is what `check` prints, what the sandbox enforces and what the audit log keeps.
//! - A module uses only those above it: limits, outcome, diagnostic, ownership, terminal, capabilities, heap, private, schema < skill, policy < runtime < compat, learn < recording < sandbox < world, state, audit, database < receipt < invoke < service < approval < catalog < usage < embed, mcp < cli.
//! - Ambient authority is banned by clippy's `disallowed-methods` and asked for by name where it is needed.
//! - A broken policy, manifest or audit log stops the run. Nothing falls back to something wider.

pub mod approval;
pub mod audit;
pub mod catalog;
pub mod compat;
mod database;
pub mod diagnostic;
pub mod embed;
pub mod heap;
pub mod invoke;
pub mod learn;
pub mod limits;
pub mod mcp;
pub mod outcome;
pub mod ownership;
pub mod policy;
pub mod private;
pub mod receipt;
pub mod recording;
pub mod runtime;
pub mod sandbox;
mod schema;
pub mod service;
pub mod skill;
pub mod state;
pub mod terminal;
pub mod usage;
pub mod world;

pub use embed::{Builder, Host, Request, compile_if_asked};
pub use runtime::custom::Runtime;

/// The examples of the README, as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
