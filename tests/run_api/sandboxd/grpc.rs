//! A client of gRPC over HTTP/2, which can also send what no library would.

use std::collections::HashMap;
use std::net::TcpStream;

use bytes::{Buf as _, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::runtime::Runtime;

use crate::hostile_host::HANG_TIMEOUT;

/// The codes of gRPC.
pub mod code {
    pub const INVALID_ARGUMENT: i32 = 3;
    pub const NOT_FOUND: i32 = 5;
    pub const PERMISSION_DENIED: i32 = 7;
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    pub const FAILED_PRECONDITION: i32 = 9;
    pub const OUT_OF_RANGE: i32 = 11;
    pub const UNIMPLEMENTED: i32 = 12;
    pub const INTERNAL: i32 = 13;
    pub const UNAUTHENTICATED: i32 = 16;
}

/// A status that is an error: its code and its text.
pub type Refused = (i32, String);

/// The number of a program, its output and errors, and its exit code.
pub type Finished = (Option<i32>, Vec<u8>, Vec<u8>, i32);

#[derive(Clone, PartialEq, Message)]
pub struct Config {
    #[prost(string, repeated, tag = "1")]
    pub command: Vec<String>,
    #[prost(map = "string, string", tag = "2")]
    pub env_vars: HashMap<String, String>,
    #[prost(string, optional, tag = "3")]
    pub cwd: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Pty {
    #[prost(uint32, tag = "1")]
    pub cols: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Start {
    #[prost(message, optional, tag = "1")]
    pub config: Option<Config>,
    #[prost(message, optional, tag = "2")]
    pub pty: Option<Pty>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Init {
    #[prost(int32, tag = "1")]
    pub process_id: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Exit {
    #[prost(int32, tag = "1")]
    pub exit_code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct StartResponse {
    #[prost(oneof = "Started", tags = "1, 2, 3, 4")]
    pub event: Option<Started>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Started {
    #[prost(message, tag = "1")]
    Init(Init),
    #[prost(bytes = "vec", tag = "2")]
    Stdout(Vec<u8>),
    #[prost(bytes = "vec", tag = "3")]
    Stderr(Vec<u8>),
    #[prost(message, tag = "4")]
    Exit(Exit),
}

#[derive(Clone, PartialEq, Message)]
pub struct Execute {
    #[prost(message, optional, tag = "1")]
    pub config: Option<Config>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Executed {
    #[prost(int32, tag = "1")]
    pub exit_code: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub stdout: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub stderr: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Stdin {
    #[prost(int32, tag = "1")]
    pub process_id: i32,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub input: Option<Vec<u8>>,
    #[prost(message, optional, tag = "3")]
    pub eof: Option<Nothing>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Number {
    #[prost(int32, tag = "1")]
    pub process_id: i32,
    #[prost(int32, tag = "2")]
    pub value: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

impl Config {
    pub fn of(command: &[&str]) -> Config {
        let command = command.iter().map(|part| (*part).to_owned()).collect();
        Config { command, ..Config::default() }
    }
}

impl Stdin {
    pub fn of(process_id: i32, input: &[u8]) -> Stdin {
        Stdin { process_id, input: Some(input.to_owned()), eof: None }
    }
}

/// A client with a token, which opens a connection for each call.
pub struct Caller {
    address: String,
    token: String,
}

impl Caller {
    pub fn new(address: &str, token: &str) -> Caller {
        Caller { address: address.to_owned(), token: token.to_owned() }
    }

    pub fn execute(&self, command: &[&str]) -> Result<Executed, Refused> {
        self.unary("Execute", &Execute { config: Some(Config::of(command)) })
    }

    pub fn start(&self, command: &[&str]) -> Events {
        self.stream(&Start { config: Some(Config::of(command)), pty: None })
    }

    /// Sends input, or its end.
    pub fn stdin(&self, process_id: i32, input: Option<&[u8]>) -> Result<Nothing, Refused> {
        let eof = input.is_none().then_some(Nothing {});
        let input = input.map(<[u8]>::to_owned);
        self.unary("WriteStdin", &Stdin { process_id, input, eof })
    }

    pub fn signal(&self, process_id: i32, value: i32) -> Result<Nothing, Refused> {
        self.unary("SendSignal", &Number { process_id, value })
    }

    pub fn resize(&self, process_id: i32) -> Result<Nothing, Refused> {
        self.unary("ResizeTTY", &Number { process_id, value: 80 })
    }

    pub fn unary<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        message: &Q,
    ) -> Result<A, Refused> {
        let bytes = self.raw(method, framed(message))?;
        Ok(A::decode(bytes).unwrap())
    }

    /// Sends the bytes of a frame as they are, and returns the message of the answer.
    pub fn raw(&self, method: &str, frame: Vec<u8>) -> Result<Bytes, Refused> {
        let mut events = self.call(method, frame);
        let message = events.message()?;
        assert!(events.message()?.is_none(), "more than one message");
        Ok(message.expect("a message"))
    }

    pub fn stream(&self, message: &Start) -> Events {
        self.call("Start", framed(message))
    }

    fn call(&self, method: &str, frame: Vec<u8>) -> Events {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nonblocking(true).unwrap();
        let request =
            Request::post(format!("http://{}/process.v1.ProcessService/{method}", self.address))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .header("authorization", format!("Bearer {}", self.token))
                .body(Full::<Bytes>::from(frame))
                .unwrap();
        let answered = runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let io = TokioIo::new(stream);
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            tokio::time::timeout(HANG_TIMEOUT, sender.send_request(request)).await
        });
        let (head, body) = answered.expect("an answer in time").unwrap().into_parts();
        let status = status_of(&head.headers);
        Events { runtime: Some(runtime), body, status, buffer: BytesMut::new() }
    }
}

fn framed(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
    frame.extend(bytes);
    frame
}

fn status_of(headers: &http::HeaderMap) -> Option<Refused> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let text = headers.get("grpc-message").and_then(|text| text.to_str().ok());
    // Percent-encoded; what the tests look for has spaces at most.
    Some((code, text.unwrap_or_default().replace("%20", " ")))
}

/// The messages of an answer.
pub struct Events {
    runtime: Option<Runtime>,
    body: Incoming,
    status: Option<Refused>,
    buffer: BytesMut,
}

impl Events {
    /// Returns the next event; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Started>, Refused> {
        let message = self.message()?;
        Ok(message.map(|bytes| StartResponse::decode(bytes).unwrap().event.unwrap()))
    }

    /// Returns the number in the first event.
    pub fn init(&mut self) -> i32 {
        match self.next() {
            Ok(Some(Started::Init(init))) => init.process_id,
            other => panic!("{other:?} instead of the first event"),
        }
    }

    /// Returns the number, if it comes, the output so far, and the exit code.
    pub fn finish(&mut self) -> Result<Finished, Refused> {
        let (mut number, mut stdout, mut stderr, mut exit) = (None, Vec::new(), Vec::new(), None);
        while let Some(event) = self.next()? {
            match event {
                Started::Init(init) => number = Some(init.process_id),
                Started::Stdout(bytes) => stdout.extend(bytes),
                Started::Stderr(bytes) => stderr.extend(bytes),
                Started::Exit(event) => exit = Some(event.exit_code),
            }
        }
        Ok((number, stdout, stderr, exit.expect("an exit event")))
    }

    fn message(&mut self) -> Result<Option<Bytes>, Refused> {
        loop {
            if self.buffer.len() >= 5 {
                let length = u32::from_be_bytes(self.buffer[1..5].try_into().unwrap()) as usize;
                if self.buffer.len() >= 5 + length {
                    self.buffer.advance(5);
                    return Ok(Some(self.buffer.split_to(length).freeze()));
                }
            }
            let runtime = self.runtime.as_ref().unwrap();
            let frame = runtime
                .block_on(async { tokio::time::timeout(HANG_TIMEOUT, self.body.frame()).await })
                .expect("a frame in time");
            let Some(frame) = frame else {
                return match self.status.clone() {
                    Some((0, _)) => Ok(None),
                    Some(status) => Err(status),
                    None => panic!("an answer without a status"),
                };
            };
            match frame.unwrap().into_data() {
                Ok(data) => self.buffer.extend_from_slice(&data),
                Err(frame) => self.status = status_of(&frame.into_trailers().unwrap()),
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Closes the connection, without waiting for what uses it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
