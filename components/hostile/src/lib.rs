//! `hostile VERB [ARGS]`: attempts to get out of the sandbox, and to use it up.
//!
//! An attack prints one line of JSON, `{"verb": ..., "denied": ..., "detail": ...}`, and ends with
//! 0 where everything that it tried was denied, with 3 where something worked: an escape. Attacks
//! on a resource go on until the host stops them. A load uses as much of a resource as it is told
//! to, ends with 0 where it got it and with 1 where it was refused. `hostile verbs` lists both.
//!
//! Each attempt is made by WASI 0.3 and by WASI 0.2, where both know it: a rule that holds in one
//! and not in the other is an escape.

#![cfg(target_family = "wasm")]

mod ambient;
mod bindings;
mod bombs;
mod endings;
mod exchange;
mod family;
mod files;
mod links;
mod loads;
mod network;
mod paths;
mod report;
mod sources;
mod together;
mod verbs;
mod web;
