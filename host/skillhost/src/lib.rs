//! skillhost runs untrusted Agent Skills as WebAssembly, with exactly the permissions that a skill
//! asked for and its operator granted.
//!
//! [`Host::builder()`] is the way to embed it in another program. One invocation is a straight
//! line, in [`invoke`]:
//!
//! ```text
//! argv -> Request -> Skill -> Capabilities -> Program -> Outcome -> Record
//! ```
//!
//! Each crate below is a wall: it sees the crates above it in this table and no others.
//!
//! | crate | owns |
//! |---|---|
//! | `skillhost-policy` | manifest, policy, permissions, limits, diagnostics, outcomes; `grant(&Manifest, &Policy)` |
//! | `skillhost-skill` | a folder becomes a `Skill`; which component runs, with which argv |
//! | `skillhost-compat` | what scripts need and whether it is here; the smallest grant for what runs used |
//! | `skillhost-sandbox` | a program under capabilities becomes an `Outcome`; the only crate that knows wasmtime; recordings |
//! | `skillhost-ledger` | audit log, receipts, approvals, usage, state |
//! | `skillhost-catalog` | which skills are installed, and the search over them |
//! | `skillhost` | this library: find the skill, grant, prepare, run, record; [`service`] queues many invocations |
//! | `skillhost-server` | skills for agents, over the Model Context Protocol |
//! | `skillhost-cli` | the command `skillhost`; the only crate that prints |
//!
//! Invariants:
//! - `Program` says what runs and carries no authority; `Capabilities` says what it may touch; only
//!   the sandbox reads both.
//! - The same `Capabilities` value is what `check` prints, what the sandbox enforces and what the
//!   audit log keeps.
//! - Ambient authority is banned by clippy's `disallowed-methods`, and allowed by name, with a
//!   reason, where it is needed.
//! - A broken policy, manifest or audit log stops the run. Nothing falls back to something wider.

pub mod embed;
pub mod invoke;
pub mod service;

pub use embed::{Host, HostBuilder, Request, compile_if_asked};
pub use skillhost_catalog::Catalog;
pub use skillhost_ledger::audit::Record;
pub use skillhost_policy::{self as policy, outcome};
pub use skillhost_sandbox::{Allocation, Stdin};
pub use skillhost_skill::runtime::custom::Runtime;
