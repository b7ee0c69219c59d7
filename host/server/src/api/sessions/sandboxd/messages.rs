//! The messages of `process.v1`: the numbers are those of the contract.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::{Message, Oneof};

/// What to run.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessConfig {
    #[prost(string, repeated, tag = "1")]
    pub(super) command: Vec<String>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(super) env_vars: BTreeMap<String, String>,
    #[prost(string, optional, tag = "3")]
    pub(super) cwd: Option<String>,
}

/// The size of a terminal.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Pty {
    #[prost(uint32, tag = "1")]
    pub(super) cols: u32,
    #[prost(uint32, tag = "2")]
    pub(super) rows: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StartRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) config: Option<ProcessConfig>,
    #[prost(message, optional, tag = "2")]
    pub(super) pty: Option<Pty>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct InitEvent {
    #[prost(int32, tag = "1")]
    pub(super) process_id: i32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ExitEvent {
    #[prost(int32, tag = "1")]
    pub(super) exit_code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StartResponse {
    #[prost(oneof = "Event", tags = "1, 2, 3, 4")]
    pub(super) event: Option<Event>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Event {
    #[prost(message, tag = "1")]
    Init(InitEvent),
    #[prost(bytes = "bytes", tag = "2")]
    Stdout(Bytes),
    #[prost(bytes = "bytes", tag = "3")]
    Stderr(Bytes),
    #[prost(message, tag = "4")]
    Exit(ExitEvent),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecuteRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) config: Option<ProcessConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecuteResponse {
    #[prost(int32, tag = "1")]
    pub(super) exit_code: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) stdout: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) stderr: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WriteStdinRequest {
    #[prost(int32, tag = "1")]
    pub(super) process_id: i32,
    #[prost(oneof = "Payload", tags = "2, 3")]
    pub(super) payload: Option<Payload>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Payload {
    #[prost(bytes = "bytes", tag = "2")]
    Input(Bytes),
    #[prost(message, tag = "3")]
    Eof(Nothing),
}

/// A message without fields.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Nothing {}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct SendSignalRequest {
    #[prost(int32, tag = "1")]
    pub(super) process_id: i32,
    /// The number of the signal in POSIX.
    #[prost(int32, tag = "2")]
    pub(super) signal: i32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ResizeTtyRequest {
    #[prost(int32, tag = "1")]
    pub(super) process_id: i32,
    #[prost(uint32, tag = "2")]
    pub(super) cols: u32,
    #[prost(uint32, tag = "3")]
    pub(super) rows: u32,
}
