//! `node:child_process`: starts programs of the sandbox, and moves the data of their streams.

use std::cell::RefCell;
use std::collections::HashMap;

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object, TypedArray, Value};

use crate::bindings::skillhost::skill::process::{
    self, Child, Error, Input, Output, Reader, Status, Writer,
};
use crate::stdio;

/// The most bytes that one call reads or writes.
const PIECE: u32 = 1 << 16;

/// Milliseconds between two looks at what a call does not wait for.
pub(super) const GLANCE: u32 = 10;

/// The programs and streams that a script holds, by the numbers that stand for them.
#[derive(Default)]
struct Handles {
    last: u32,
    children: HashMap<u32, Child>,
    readers: HashMap<u32, Reader>,
    writers: HashMap<u32, Writer>,
}

impl Handles {
    fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn add_child(&mut self, child: Child) -> u32 {
        let handle = self.next();
        self.children.insert(handle, child);
        handle
    }

    fn add_reader(&mut self, reader: Option<Reader>) -> Option<u32> {
        let (reader, handle) = (reader?, self.next());
        self.readers.insert(handle, reader);
        Some(handle)
    }

    fn add_writer(&mut self, writer: Option<Writer>) -> Option<u32> {
        let (writer, handle) = (writer?, self.next());
        self.writers.insert(handle, writer);
        Some(handle)
    }
}

thread_local! {
    static HANDLES: RefCell<Handles> = RefCell::default();
}

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("spawn", Func::from(spawn))?;
    exports.set("runSync", Func::from(run_sync))?;
    exports.set("status", Func::from(status))?;
    exports.set("kill", Func::from(kill))?;
    exports.set("read", Func::from(read))?;
    exports.set("write", Func::from(write))?;
    exports.set("close", Func::from(close))?;
    Ok(exports)
}

/// What is ready of what a loop waits for.
#[derive(Default)]
pub(super) struct Ready {
    pub(super) readers: Vec<u32>,
    pub(super) writers: Vec<u32>,
    pub(super) children: Vec<u32>,
}

impl Ready {
    pub(super) fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.writers.is_empty() && self.children.is_empty()
    }
}

/// Waits until a stream or a program is ready, or for a number of milliseconds.
pub(super) fn wait_for(
    readers: &[u32],
    writers: &[u32],
    children: &[u32],
    timeout: Option<u32>,
) -> Ready {
    let mut left = timeout;
    loop {
        let slice = match left {
            _ if children.is_empty() => left,
            // A program's end is no event of its streams.
            _ if readers.is_empty() && writers.is_empty() && children.len() == 1 => left,
            Some(left) => Some(left.min(GLANCE)),
            None => Some(GLANCE),
        };
        let ready = glance(readers, writers, children, slice);
        if !ready.is_empty() {
            return ready;
        }
        if let Some(some) = left.as_mut() {
            *some -= slice.unwrap_or_default().min(*some);
            if *some == 0 {
                return ready;
            }
        }
    }
}

fn glance(readers: &[u32], writers: &[u32], children: &[u32], slice: Option<u32>) -> Ready {
    HANDLES.with_borrow(|handles| {
        let ended = |handle: &&u32, wait: Option<u32>| {
            handles.children.get(*handle).is_none_or(|child| child.wait(wait).is_some())
        };
        let mut ready = Ready::default();
        let over = readers.is_empty() && writers.is_empty();
        let first_wait = if over { slice } else { Some(0) };
        ready.children.extend(children.iter().enumerate().filter_map(|(index, handle)| {
            let wait = if index == 0 { first_wait } else { Some(0) };
            ended(&handle, wait).then_some(*handle)
        }));
        if over {
            return ready;
        }
        let open_readers: Vec<(u32, &Reader)> =
            readers.iter().filter_map(|h| Some((*h, handles.readers.get(h)?))).collect();
        let open_writers: Vec<(u32, &Writer)> =
            writers.iter().filter_map(|h| Some((*h, handles.writers.get(h)?))).collect();
        let wait = if ready.children.is_empty() { slice } else { Some(0) };
        let (some_readers, some_writers) = process::poll(
            &open_readers.iter().map(|(_, reader)| *reader).collect::<Vec<_>>(),
            &open_writers.iter().map(|(_, writer)| *writer).collect::<Vec<_>>(),
            wait,
        );
        ready.readers.extend(some_readers.iter().map(|at| open_readers[*at as usize].0));
        ready.writers.extend(some_writers.iter().map(|at| open_writers[*at as usize].0));
        ready
    })
}

/// What a program gets as a standard stream, as js/child_process.js writes it.
fn input(kind: &str) -> Input<'static> {
    match kind {
        "pipe" => Input::Pipe,
        "inherit" => Input::Inherit,
        _ => Input::None,
    }
}

fn output(kind: &str) -> Output<'static> {
    match kind {
        "pipe" => Output::Pipe,
        "inherit" => Output::Inherit,
        "stdout" => Output::ToStdout,
        _ => Output::None,
    }
}

/// Arguments of a start.
struct Start {
    argv: Vec<String>,
    env: Option<Vec<(String, String)>>,
    cwd: Option<String>,
    stdio: Vec<String>,
}

impl Start {
    fn read(options: &Object<'_>) -> rquickjs::Result<Start> {
        let env: Option<Vec<Vec<String>>> = options.get("env")?;
        let pair = |pair: Vec<String>| {
            let mut pair = pair.into_iter();
            (pair.next().unwrap_or_default(), pair.next().unwrap_or_default())
        };
        Ok(Start {
            argv: options.get("argv")?,
            env: env.map(|env| env.into_iter().map(pair).collect()),
            cwd: options.get("cwd")?,
            stdio: options.get("stdio")?,
        })
    }

    fn start(&self) -> Result<Child, Error> {
        // The script's output must precede the program's.
        stdio::hand_over();
        let kind = |fd: usize| self.stdio.get(fd).map_or("", String::as_str);
        process::spawn(
            &self.argv,
            self.env.as_deref(),
            self.cwd.as_deref(),
            &input(kind(0)),
            &output(kind(1)),
            &output(kind(2)),
        )
    }
}

/// Sets the properties of Node's error for a program that did not start.
fn set_error(result: &Object<'_>, error: Error) -> rquickjs::Result<()> {
    let (code, errno, message) = match error {
        Error::NotFound(why) => ("ENOENT", -2, why),
        Error::Denied(why) => ("EACCES", -13, why),
        Error::Limit(why) => ("EAGAIN", -11, why),
        Error::Trapped(why) => ("EIO", -5, why),
        Error::Closed => ("EPIPE", -32, String::new()),
        Error::Timeout => ("ETIMEDOUT", -110, String::new()),
    };
    result.set("code", code)?;
    result.set("errno", errno)?;
    result.set("message", message)
}

fn spawn<'js>(ctx: Ctx<'js>, options: Object<'js>) -> rquickjs::Result<Object<'js>> {
    let start = Start::read(&options)?;
    let result = Object::new(ctx)?;
    let child = match start.start() {
        Ok(child) => child,
        Err(error) => {
            set_error(&result, error)?;
            return Ok(result);
        }
    };
    HANDLES.with_borrow_mut(|handles| {
        result.set("pid", child.id())?;
        result.set("stdin", handles.add_writer(child.stdin()))?;
        result.set("stdout", handles.add_reader(child.stdout()))?;
        result.set("stderr", handles.add_reader(child.stderr()))?;
        result.set("child", handles.add_child(child))
    })?;
    Ok(result)
}

/// Sets `exitCode`, or `signal` and the reason.
fn set_status(result: &Object<'_>, status: Status) -> rquickjs::Result<()> {
    match status {
        Status::Exited(code) => result.set("exitCode", code),
        Status::Killed => result.set("signal", "SIGTERM"),
        Status::Trapped(why) => {
            result.set("why", why)?;
            result.set("signal", "SIGABRT")
        }
        Status::Limit(limit) => {
            result.set("why", format!("over the sandbox's limit {limit}"))?;
            result.set("signal", "SIGKILL")
        }
    }
}

/// Returns how a program ended; `undefined` while it runs.
fn status(ctx: Ctx<'_>, handle: u32) -> rquickjs::Result<Value<'_>> {
    let status = HANDLES.with_borrow(|handles| handles.children.get(&handle)?.wait(Some(0)));
    let Some(status) = status else { return Ok(Value::new_undefined(ctx)) };
    let result = Object::new(ctx)?;
    set_status(&result, status)?;
    Ok(result.into_value())
}

fn kill(handle: u32) {
    HANDLES.with_borrow(|handles| {
        if let Some(child) = handles.children.get(&handle) {
            child.kill();
        }
    });
}

/// Reads what a stream has: `null` at its end, `undefined` if nothing is there yet.
fn read(ctx: Ctx<'_>, handle: u32) -> rquickjs::Result<Value<'_>> {
    let read = HANDLES.with_borrow(|handles| {
        handles.readers.get(&handle).map(|reader| reader.read(PIECE, Some(0)))
    });
    match read {
        Some(Ok(bytes)) if !bytes.is_empty() => {
            TypedArray::new(ctx, bytes).map(TypedArray::into_value)
        }
        Some(Err(Error::Timeout)) => Ok(Value::new_undefined(ctx)),
        _ => Ok(Value::new_null(ctx)),
    }
}

/// Writes some bytes, and returns how many; -1 if the reader has closed its end.
fn write(handle: u32, bytes: TypedArray<'_, u8>) -> i64 {
    // SAFETY: The engine does not run during the call. A detached buffer has no bytes.
    let bytes = unsafe { bytes.as_bytes() }.unwrap_or_default();
    HANDLES.with_borrow(|handles| {
        let written = handles
            .writers
            .get(&handle)
            .map(|writer| writer.write(&bytes[..bytes.len().min(PIECE as usize)]));
        match written {
            Some(Ok(count)) => i64::from(count),
            _ => -1,
        }
    })
}

/// Closes a stream, or forgets a program that has ended.
fn close(handle: u32) {
    HANDLES.with_borrow_mut(|handles| {
        handles.readers.remove(&handle);
        handles.writers.remove(&handle);
        handles.children.remove(&handle);
    });
}

/// Runs a program to its end: writes `input`, and reads what it writes.
fn run_sync<'js>(ctx: Ctx<'js>, options: Object<'js>) -> rquickjs::Result<Object<'js>> {
    let start = Start::read(&options)?;
    let given: Option<TypedArray<'_, u8>> = options.get("input")?;
    // SAFETY: The engine does not run while the bytes are used. A detached buffer has none.
    let given = given.as_ref().and_then(|bytes| unsafe { bytes.as_bytes() }).unwrap_or_default();
    let timeout: Option<f64> = options.get("timeout")?;
    let longest: f64 = options.get("maxBuffer")?;
    let result = Object::new(ctx.clone())?;
    let child = match start.start() {
        Ok(child) => child,
        Err(error) => {
            set_error(&result, error)?;
            return Ok(result);
        }
    };
    result.set("pid", child.id())?;
    let mut run = SyncRun {
        input: given,
        stdin: child.stdin(),
        outputs: [child.stdout(), child.stderr()].map(|reader| (reader, Vec::new())),
        longest: longest.min(1e15) as usize,
        end: timeout.map(|timeout| super::performance::elapsed() + timeout),
    };
    let why = run.follow();
    if why != End::Closed {
        child.kill();
    }
    let status = match (why, run.left()) {
        (End::Closed, left) => child.wait(left),
        _ => child.wait(None),
    };
    let why = if status.is_none() { End::Late } else { why };
    let status = status.or_else(|| {
        child.kill();
        child.wait(None)
    });
    if let Some(status) = status {
        set_status(&result, status)?;
    }
    result.set("timedOut", why == End::Late)?;
    result.set("overflow", why == End::Overflow)?;
    for ((reader, bytes), name) in run.outputs.into_iter().zip(["stdout", "stderr"]) {
        drop(reader);
        result.set(name, TypedArray::new(ctx.clone(), bytes)?)?;
    }
    Ok(result)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The program closed its streams.
    Closed,
    /// The time is up.
    Late,
    /// It wrote too much.
    Overflow,
}

struct SyncRun<'a> {
    input: &'a [u8],
    stdin: Option<Writer>,
    outputs: [(Option<Reader>, Vec<u8>); 2],
    longest: usize,
    /// The time at which the run ends.
    end: Option<f64>,
}

impl SyncRun<'_> {
    fn left(&self) -> Option<u32> {
        self.end.map(|end| (end - super::performance::elapsed()).max(0.0).ceil() as u32)
    }

    /// Moves data until the program has closed its outputs.
    fn follow(&mut self) -> End {
        loop {
            if self.input.is_empty() {
                self.stdin = None;
            }
            let left = self.left();
            if left == Some(0) {
                return End::Late;
            }
            let open: Vec<usize> = (0..2).filter(|at| self.outputs[*at].0.is_some()).collect();
            if open.is_empty() {
                return End::Closed;
            }
            let readers: Vec<&Reader> =
                self.outputs.iter().filter_map(|(reader, _)| reader.as_ref()).collect();
            let writers: Vec<&Writer> = self.stdin.iter().collect();
            let (readable, writable) = process::poll(&readers, &writers, left);
            if let Some(stdin) = self.stdin.as_ref().filter(|_| !writable.is_empty()) {
                let piece = &self.input[..self.input.len().min(PIECE as usize)];
                match stdin.write(piece) {
                    Ok(count) => self.input = &self.input[(count as usize).min(self.input.len())..],
                    Err(_) => self.input = &[],
                }
            }
            for at in readable {
                let (reader, bytes) = &mut self.outputs[open[at as usize]];
                match reader.as_ref().map(|reader| reader.read(PIECE, Some(0))) {
                    Some(Ok(piece)) if !piece.is_empty() => {
                        bytes.extend(piece);
                        if bytes.len() > self.longest {
                            return End::Overflow;
                        }
                    }
                    Some(Err(Error::Timeout)) => {}
                    _ => *reader = None,
                }
            }
        }
    }
}
