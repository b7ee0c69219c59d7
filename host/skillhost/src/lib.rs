//! Runs untrusted Agent Skills as WebAssembly, in your own program, with exactly the permissions
//! that a skill requests and the operator's policy grants.
//!
//! `skillhost run`, the MCP server and this library run skills with the same code. A [`Host`] has a
//! folder, a policy, a catalogue of skills and a queue. Nothing is global, so one process may have
//! several hosts.
//!
//! # Example
//!
//! This program runs two skills, one of which starts a host program, and shows that its `approve`
//! hook refuses a third one. It is `docs/examples/embed.rs`; the tests run it.
#![doc = concat!("```no_run\n", include_str!("../examples/embed.rs"), "```\n")]
//!
//! It prints:
//!
//! ```text
//! recorded: csv-report Exited { code: 0 }
//! people.csv: 2 rows, 3 columns
//! ...
//! recorded: customer-note Exited { code: 0 }
//! Dear Ada Lovelace,
//! started: {"lookup-customer": 1}
//! recorded: calculator Denied(DenialRecord { about: Run, ... })
//! ```
//!
//! # Set up a host
//!
//! [`Host::builder`] returns a [`HostBuilder`], which needs two settings: the host's own
//! [folder](HostBuilder::home), and the [program](HostBuilder::compiler) that compiles components.
//! Your own program can be that compiler if its `main` starts with [`compile_if_asked`]. By default
//! the host has no skills and no built-in programs, and grants what [`Policy::builtin`] does.
//!
//! - [`HostBuilder::policy`] sets what skills may do; [`load_policy`] reads a policy file.
//! - [`HostBuilder::approve`] is called before each run. A refusal is recorded as denied. The hook
//!   cannot widen the policy.
//! - [`HostBuilder::on_record`] is called with each record, once it is in the audit log.
//! - [`HostBuilder::runtime`] adds a [`Runtime`] for scripts in another language. With one for Lua,
//!   `x.lua`, or a script that starts with `#!/usr/bin/env lua`, runs as `lua /skill/x.lua ARGS`,
//!   also if another program in the sandbox starts it, under `Bash(lua:*)`.
//! - [`HostBuilder::embedded_skill`] adds a skill that [`include_skill!`] has made a part of your program.
//! - [`HostBuilder::trust`] names whose signatures of skills count, for what the policy's `require`
//!   demands.
//! - [`HostBuilder::host_program`] adds a host program: a function that skills may start as a
//!   command, if they ask for it and the policy names it. It runs outside the sandbox.
//!
//! # Run skills
//!
//! [`Host::invoke`] runs a [`Request`] and returns a [`Run`] once the run has ended and is in the
//! audit log. Dropping the future ends the run, which is recorded as interrupted. Anything that a
//! skill does results in an [`Outcome`](outcome::Outcome), never in an error. An [`InvokeError`]
//! means that the skill does not exist, the queue is full, or the audit log cannot be written.
//!
//! Requests are futures that make progress when they are polled. A compute-bound guest yields to
//! other runs on its thread every 10 ms; a deterministic run has its own thread. At most
//! [`Capacity::running`] runs are active at once, and skills take turns. A run reserves its limit
//! `memory` before it starts, and waits until that much of [`Capacity::memory`] is free. A request
//! that finds the queue full is refused immediately, and leaves no record.
//!
//! The phases of runs are `tracing` spans at level debug, with targets that start with `skillhost`.
//!
//! # Stability
//!
//! The items on this page, which `docs/guide/embedding.md` lists, follow semantic versioning. The other crates of skillhost, and the hidden
//! modules of this one, exist for the command line and the server, and may change at any time.

// Where to start reading: `invoke` is one run, from request to record, in a straight line:
//
//     argv -> Request -> Skill -> Capabilities -> Program -> Outcome -> Record
//
// `service` queues many of them, and `embed` is the public face of both. CONTRIBUTING.md lists the
// crates; each crate sees only those above it in that table.
//
// - `Program` says what runs and carries no authority; `Capabilities` says what it may touch. Only
//   the sandbox reads both.
// - `check` prints, the sandbox enforces, and the audit log stores the same `Capabilities` value.
// - A broken policy, manifest or audit log stops the run. Nothing falls back to wider permissions.

mod embed;
#[doc(hidden)]
pub mod included;
#[doc(hidden)]
pub mod invoke;
#[doc(hidden)]
pub mod service;

pub use embed::{
    BuildError, Host, HostBuilder, HostProgramError, InvokeError, Request, Run, compile_if_asked,
};
#[doc(inline)]
pub use invoke::hooks::PlannedRun;
#[doc(inline)]
pub use invoke::{RunError, UnresolvedTarget};
#[doc(inline)]
pub use service::{Capacity, ServiceError, ServiceLoad};
#[doc(inline)]
pub use skillhost_catalog::{Catalog, CatalogEntry, CatalogError};
#[doc(inline)]
pub use skillhost_ledger::audit::{ProgramId, Record, SkillId, StatusRecord};
#[doc(inline)]
pub use skillhost_macros::include_skill;
#[doc(inline)]
pub use skillhost_policy::capabilities::{Capabilities, MountMode};
#[doc(inline)]
pub use skillhost_policy::outcome;
#[doc(inline)]
pub use skillhost_policy::{Policy, PolicyError, load as load_policy};
#[doc(inline)]
pub use skillhost_sandbox::files::ApplyError;
#[doc(inline)]
pub use skillhost_sandbox::{Allocation, HostCall, HostOutput, PANIC_EXIT_CODE};
#[doc(inline)]
pub use skillhost_skill::embedded::EmbeddedSkill;
#[doc(inline)]
pub use skillhost_skill::runtime::custom::Runtime;

/// The examples of the README, as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
