//! `hostile VERB [ARGS]`: attempts to escape from the sandbox, and to exhaust it.
//!
//! An attack prints one line of JSON, `{"verb": ..., "denied": ..., "detail": ...}`. It exits with
//! 0 if every attempt was denied and with 3 if one succeeded, which is an escape. Attacks on a
//! resource continue until the host stops them. A load uses a given amount of a resource; it exits
//! with 0 if it got that amount and with 1 if it was refused. `hostile verbs` lists both.
//!
//! Each attempt is made through WASI 0.3 and through WASI 0.2 if both have the operation: a rule
//! that holds in only one of them is an escape.

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
