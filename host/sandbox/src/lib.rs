//! Runs a program under capabilities and returns its outcome. The only crate that knows wasmtime.
//!
//! This crate owns every enforcer: the file layer, the HTTP sender, processes, clocks, randomness,
//! streams and limits, once for WASI 0.2 and 0.3 alike. It must not know who granted what, or where
//! a skill came from: it receives a `Program` and `Capabilities`.
//!
//! Start reading at [`run()`], which is one invocation from start to end. The modules, in reading
//! order; each uses only modules below it:
//!
//! | module | owns |
//! |---|---|
//! | [`kernel`] | which features of the kernel work here |
//! | `run` | one run from start to end, its store, its mounts; everything that a guest can import |
//! | `python` | the interfaces of the built-in Python |
//! | `javascript` | the interface of the built-in JavaScript runtime |
//! | `scripts` | the code of scripts that is compiled once |
//! | `shell` | the denied commands, which are passed to the built-in shell |
//! | `process` | programs that start programs |
//! | `tools` | typed tools: listings and calls |
//! | [`http`] | the one HTTP sender |
//! | `determinism` | clock, randomness and turns of a deterministic run |
//! | `streams` | standard streams, pipes, terminals |
//! | [`files`] | the one file layer |
//! | `engine` | modes, compilation and its cache, memory, stacks |
//! | `limits` | the meter of a run, and its fuel |
//! | [`recording`] | what reached a run from outside, kept for a replay |
//! | `schema` | JSON Schema, evaluated in counted steps |
//! | [`startup`] | fast starts of the host |

mod determinism;
mod engine;
pub mod files;
pub mod http;
mod javascript;
pub mod kernel;
mod limits;
mod process;
mod python;
pub mod recording;
mod run;
mod schema;
mod scripts;
mod shell;
pub mod startup;
mod streams;
mod tools;

#[cfg(test)]
mod module_order_test;

pub use engine::compile::{compile_if_asked, compile_to_embed};
pub use engine::{
    Allocation, Architecture, CodeState, Compilation, CompilationStage, ENGINE, EPOCH, Mode,
    check_kind, fingerprint, say, shipped, stack, world,
};
pub use process::{HostCall, HostFunction, HostOutput, HostPrograms, PANIC_EXIT_CODE};
pub use run::{
    Evidence, ExtraMounts, FinishedRun, Io, MEMORY_FOLDER, Options, OutputError, Overlays,
    RecordingIo, RunSpec, Sandbox, memory_folder, run, run_alone,
};
pub use streams::{Sink, Spool, Stdin, terminal};
#[cfg(feature = "fuzz")]
pub use tools::fuzz_listing;
pub use tools::{Tool, ToolListing, listing, with_listing};
