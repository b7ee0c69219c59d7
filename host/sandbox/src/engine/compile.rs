//! Compiles a component to machine code, in a separate process.
//!
//! The compiler reads untrusted input. It runs in a child process that is
//! [confined](super::confine) before it reads the first byte: limits on processor time and address
//! space, no environment, two descriptors (the component to read, the file to write), and no system
//! call that reaches anything else. The host survives whatever the child does.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wasmtime::Engine;

use super::config::{Architecture, Mode, Processor, compiler};
use super::confine::{Bounds, confine};
use super::memory;
use super::status::say;
use super::world::check_kind;
use crate::limits::LimitExceeded;
use skillhost_policy::limits::{Limit, Limits};

/// The first argument that makes the `skillhost` binary the compiler.
const COMPILER_VERB: &str = "__compile";

/// Why a component was not compiled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    /// The engine does not accept the bytes as a component; the message is the validator's.
    #[error("{0}")]
    Invalid(String),
    /// Compiling exceeded a limit.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The child could not be run.
    #[error("the compiler could not be run: {0}")]
    Io(#[from] io::Error),
}

/// Compiles a component by starting `compiler` (the `skillhost` binary), and writes the code to
/// `to`. If guests get memory images, the initial content of the component's memory follows the
/// code.
pub(crate) async fn compile(
    compiler: &Path,
    component: &[u8],
    mode: Mode,
    have_images: bool,
    processor: Processor,
    limits: &Limits,
    to: File,
) -> Result<(), CompileError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "starts this binary as the compiler; no code of a skill runs natively"
    )]
    let mut command = tokio::process::Command::from(std::process::Command::new(compiler));
    let mut child = command
        .args([
            COMPILER_VERB,
            mode_name(mode),
            image_name(have_images),
            processor_name(processor),
            &limits.compile_ms.to_string(),
            &limits.compile_memory.to_string(),
        ])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::from(to))
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take();
    let feed = async move {
        if let Some(stdin) = &mut stdin {
            // A child that has failed closes its end; its exit status says why.
            let _ = stdin.write_all(component).await;
        }
    };
    let stderr = child.stderr.take();
    let message = async move {
        let mut text = Vec::new();
        if let Some(stderr) = stderr {
            // The child's message may quote untrusted input. On a read error, the part read so far
            // is the message.
            let _ = stderr.take(MESSAGE_MAX).read_to_end(&mut text).await;
        }
        text
    };
    // The child limits its own processor time. This limits a child that waits or is not scheduled.
    let timeout = Duration::from_millis(limits.compile_ms.saturating_mul(2).saturating_add(1_000));
    let Ok(((), message, status)) =
        tokio::time::timeout(timeout, async { tokio::join!(feed, message, child.wait()) }).await
    else {
        return Err(LimitExceeded(Limit::Compile).into());
    };
    let (status, said) = (status?, String::from_utf8_lossy(&message));
    match ChildEnd::of(&status) {
        ChildEnd::Compiled => Ok(()),
        ChildEnd::Invalid => Err(CompileError::Invalid(said.trim().to_owned())),
        ChildEnd::OutOfTime => Err(LimitExceeded(Limit::Compile).into()),
        ChildEnd::OutOfMemory => Err(LimitExceeded(Limit::CompileMemory).into()),
        ChildEnd::Failed => {
            Err(CompileError::Io(io::Error::other(format!("{status}: {}", said.trim()))))
        }
    }
}

/// The most that is read of a child's error message, in bytes.
const MESSAGE_MAX: u64 = 16 << 10;

enum ChildEnd {
    Compiled,
    Invalid,
    OutOfTime,
    OutOfMemory,
    /// It failed before it read the component, or for a reason unrelated to it.
    Failed,
}

/// The child's exit code for a component that does not validate.
const EXIT_INVALID: u8 = 65;

impl ChildEnd {
    fn of(status: &std::process::ExitStatus) -> ChildEnd {
        use rustix::process::Signal;
        use std::os::unix::process::ExitStatusExt as _;
        let signal = status.signal().and_then(Signal::from_named_raw);
        match (status.code(), signal) {
            (Some(0), _) => ChildEnd::Compiled,
            (Some(code), _) if code == i32::from(EXIT_INVALID) => ChildEnd::Invalid,
            (_, Some(Signal::XCPU | Signal::KILL)) => ChildEnd::OutOfTime,
            // An allocation that fails aborts the process.
            (_, Some(Signal::ABORT)) => ChildEnd::OutOfMemory,
            _ => ChildEnd::Failed,
        }
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Fast => "fast",
        Mode::Metered => "metered",
        Mode::Deterministic => "deterministic",
    }
}

fn image_name(have_images: bool) -> &'static str {
    if have_images { "image" } else { "whole" }
}

fn processor_name(processor: Processor) -> &'static str {
    match processor {
        Processor::Native => "native",
        Processor::Shipped(Architecture::X86_64) => "x86_64",
        Processor::Shipped(Architecture::Aarch64) => "aarch64",
    }
}

/// Runs the compiler if this process was started as one, and does not return then. The compiler
/// uses no argument parser, no runtime and nothing else of the host.
pub fn compile_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|verb| verb == COMPILER_VERB) {
        let args: Vec<String> =
            std::env::args_os().skip(2).map(|arg| arg.to_string_lossy().into_owned()).collect();
        std::process::exit(i32::from(compiler_main(&args)));
    }
}

/// The child's side: reads a component from stdin and writes its code to stdout. Returns the exit
/// code of the process.
fn compiler_main(args: &[String]) -> u8 {
    let Some((settings, bounds)) = parse(args) else { return 64 };
    if let Err(error) = confine(bounds) {
        let _ = writeln!(io::stderr(), "cannot confine the compiler: {error}");
        return 71;
    }
    if end_with_parent().is_err() {
        // Only memory for the thread's stack can be missing: end as an allocation that fails does.
        std::process::abort();
    }
    match compile_streams(settings, io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => 0,
        Err(error) => {
            // The parent reads this pipe; there is no other place to report to.
            let _ = writeln!(io::stderr(), "{error:#}");
            EXIT_INVALID
        }
    }
}

/// What to generate code for: the mode, whether there are images, and the processors.
type Settings = (Mode, bool, Processor);

/// Parses the arguments after the verb: the settings and the limits.
fn parse(args: &[String]) -> Option<(Settings, Bounds)> {
    let [mode, image, processor, millis, memory] = args else { return None };
    let mode = [Mode::Fast, Mode::Metered, Mode::Deterministic]
        .into_iter()
        .find(|known| mode_name(*known) == mode)?;
    let have_images = [true, false].into_iter().find(|known| image_name(*known) == image)?;
    let shipped = [Architecture::X86_64, Architecture::Aarch64].map(Processor::Shipped);
    let processor = shipped
        .into_iter()
        .chain([Processor::Native])
        .find(|known| processor_name(*known) == processor)?;
    let bounds = Bounds { millis: millis.parse().ok()?, memory: memory.parse().ok()? };
    Some(((mode, have_images, processor), bounds))
}

/// Ends this process when its parent is gone: a killed host cannot end its compiler.
/// `PR_SET_PDEATHSIG` would watch the thread that started this process instead, and a runtime may
/// end that thread.
fn end_with_parent() -> io::Result<()> {
    let parent = rustix::process::getppid();
    let watch = move || {
        while rustix::process::getppid() == parent {
            std::thread::sleep(Duration::from_millis(200));
        }
        std::process::exit(71);
    };
    std::thread::Builder::new().name("parent".into()).stack_size(64 << 10).spawn(watch).map(drop)
}

/// Compiles a component in this process, for a program that embeds the code: see
/// [`EmbeddedCode`](skillhost_skill::embedded::EmbeddedCode). It runs on all processors of an
/// architecture that code is shipped for. Only build scripts may call this: it has no limits.
///
/// # Errors
/// The bytes are not a component, or this crate lacks its feature `all-architectures`.
pub fn compile_to_embed(component: &[u8], architecture: Architecture) -> Result<Vec<u8>, String> {
    check_kind(component).map_err(|status| say(&status))?;
    let compile = || -> wasmtime::Result<Vec<u8>> {
        let processor = Processor::Shipped(architecture);
        Engine::new(&compiler(Mode::Fast, false, processor)?)?.precompile_component(component)
    };
    compile().map_err(|error| format!("{error:#}"))
}

fn compile_streams(
    (mode, have_images, processor): Settings,
    mut component_from: impl io::Read,
    mut to: impl io::Write,
) -> wasmtime::Result<()> {
    let mut component = Vec::new();
    component_from.read_to_end(&mut component)?;
    let split = if have_images { memory::split(&component)? } else { None };
    let engine = Engine::new(&compiler(mode, have_images, processor)?)?;
    // `precompile_component` accepts no text format here: that feature is not built in.
    let code =
        engine.precompile_component(split.as_ref().map_or(&component, |split| &split.component))?;
    to.write_all(&code)?;
    if let Some(split) = split {
        memory::write_image(&mut to, code.len(), &split)?;
    }
    Ok(to.flush()?)
}

#[cfg(test)]
mod emulated;
