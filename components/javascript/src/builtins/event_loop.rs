//! What js/event_loop.js waits with.

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object};

use super::{child_process, http, performance};
use crate::bindings::wasi::clocks::monotonic_clock;
use crate::bindings::wasi::io::poll;
use crate::stdio;

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("now", Func::from(performance::elapsed))?;
    exports.set("runMicrotasks", Func::from(run_microtasks))?;
    exports.set("sleep", Func::from(sleep))?;
    exports.set("poll", Func::from(poll_sources))?;
    Ok(exports)
}

/// Runs the callbacks of promises until none is left. An error that one throws is reported there.
fn run_microtasks(ctx: Ctx<'_>) {
    while ctx.execute_pending_job() {}
}

/// Waits for a number of milliseconds.
fn sleep(milliseconds: f64) {
    stdio::hand_over();
    monotonic_clock::subscribe_duration(nanos(milliseconds)).block();
}

/// `Atomics.wait` with a timeout: the engine calls it.
#[unsafe(no_mangle)]
extern "C" fn skillhost_sleep(milliseconds: f64) {
    sleep(milliseconds);
}

fn nanos(milliseconds: f64) -> u64 {
    // A timer must not be found a fraction too early.
    (milliseconds * 1e6).ceil() as u64
}

/// What a loop waits for.
struct Wanted {
    readers: Vec<u32>,
    writers: Vec<u32>,
    children: Vec<u32>,
    stdin: bool,
    /// Handles of HTTP requests, with what of them.
    http: Vec<(u32, u32)>,
}

/// Waits until a source is ready, or for `timeout` milliseconds if that is not negative. Returns the
/// handles of those that are ready.
fn poll_sources<'js>(
    ctx: Ctx<'js>,
    wanted: Object<'js>,
    timeout: f64,
) -> rquickjs::Result<Object<'js>> {
    stdio::hand_over();
    let http: Vec<Vec<u32>> = wanted.get("http")?;
    let wanted = Wanted {
        readers: wanted.get("readers")?,
        writers: wanted.get("writers")?,
        children: wanted.get("children")?,
        stdin: wanted.get("stdin")?,
        http: http.iter().map(|pair| (pair[0], pair[1])).collect(),
    };
    let (ready, at) = wait(&wanted, (timeout >= 0.0).then_some(timeout));
    let result = Object::new(ctx)?;
    result.set("readers", ready.readers)?;
    result.set("writers", ready.writers)?;
    result.set("children", ready.children)?;
    result.set("stdin", wanted.stdin && at.contains(&0))?;
    let first = usize::from(wanted.stdin);
    let http = wanted.http.iter().enumerate().filter(|(index, _)| at.contains(&(first + index)));
    result.set("http", http.map(|(_, (handle, kind))| vec![*handle, *kind]).collect::<Vec<_>>())?;
    Ok(result)
}

/// Returns what is ready of programs, and the indices of the others: stdin first, then HTTP.
fn wait(wanted: &Wanted, timeout: Option<f64>) -> (child_process::Ready, Vec<usize>) {
    let Wanted { readers, writers, children, .. } = wanted;
    let whole = |timeout: f64| timeout.ceil().min(f64::from(u32::MAX)) as u32;
    let programs = !(readers.is_empty() && writers.is_empty() && children.is_empty());
    let others = wanted.stdin || !wanted.http.is_empty();
    if !others {
        let ready = if programs {
            child_process::wait_for(readers, writers, children, timeout.map(whole))
        } else {
            sleep(timeout.unwrap_or_default());
            child_process::Ready::default()
        };
        return (ready, Vec::new());
    }
    if !programs {
        return (child_process::Ready::default(), wait_others(wanted, timeout));
    }
    // No call waits for both.
    let glance = f64::from(child_process::GLANCE);
    let mut left = timeout;
    loop {
        let at = wait_others(wanted, Some(0.0));
        let slice = if at.is_empty() { left.unwrap_or(glance).min(glance) } else { 0.0 };
        let ready = child_process::wait_for(readers, writers, children, Some(whole(slice)));
        left = left.map(|left| (left - slice).max(0.0));
        if !at.is_empty() || !ready.is_empty() || left == Some(0.0) {
            return (ready, at);
        }
    }
}

fn wait_others(wanted: &Wanted, timeout: Option<f64>) -> Vec<usize> {
    let stdin = wanted.stdin.then(|| Some(stdio::stdin_pollable()));
    let http = wanted.http.iter().map(|(handle, kind)| http::pollable(*handle, *kind));
    let pollables: Vec<_> = stdin.into_iter().chain(http).collect();
    // What is closed is ready: the script finds out why.
    let gone: Vec<usize> =
        pollables.iter().enumerate().filter(|(_, p)| p.is_none()).map(|(at, _)| at).collect();
    if !gone.is_empty() {
        return gone;
    }
    let timer = timeout.map(|timeout| monotonic_clock::subscribe_duration(nanos(timeout)));
    let all: Vec<_> = pollables.iter().flatten().chain(&timer).collect();
    let ready = poll::poll(&all);
    ready.into_iter().map(|at| at as usize).filter(|at| *at < pollables.len()).collect()
}
