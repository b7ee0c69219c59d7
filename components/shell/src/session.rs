//! One run of the shell, from its command line to its exit code.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bashkit::{Bash, Error, ExecOptions, FileSystem, LiveInput};
use futures_util::future::{Either, select};
use send_wrapper::SendWrapper;

use crate::bindings::wasi::cli::environment;
use crate::command_line::{self, CommandLine, Source};
use crate::commands;
use crate::curl::Curl;
use crate::denials;
use crate::files::Files;
use crate::limits;
use crate::program::{HostPrograms, OwnStreams, Program, Shim};
use crate::stdio::{Input, Output};

/// bash's exit code for an invalid command line.
const USAGE: u8 = 2;

/// Commands of bashkit that do not exist elsewhere under these names, or do nothing in the sandbox.
/// Scripts that look for a program of such a name must not find them.
const NOT_COMMANDS: [&str; 13] = [
    "assert", "csv", "dotenv", "glob", "http", "json", "log", "parallel", "retry", "semver",
    "template", "verify", "wget",
];

/// Standard output and standard error, shared by all writers.
pub(crate) struct Outputs {
    out: Output,
    err: Output,
    /// The number of writes that the host has not completed yet.
    pending: Cell<usize>,
}

impl Outputs {
    fn new() -> Outputs {
        Outputs { out: Output::new(1), err: Output::new(2), pending: Cell::new(0) }
    }

    /// Waits until the host has completed all writes. `drained` returns whether the shell has
    /// passed all its output on.
    pub(crate) async fn flush(&self, drained: impl Fn() -> bool) {
        poll_fn(|context| {
            if self.pending.get() == 0 && drained() {
                return Poll::Ready(());
            }
            // The tasks that move the bytes run before this is polled again.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

/// Returns the callback through which bashkit writes its output.
fn sink(
    outputs: &Rc<Outputs>,
    pick: fn(&Outputs) -> &Output,
) -> impl FnMut(Vec<u8>) -> SendWrapper<BoxedWrite> + Send {
    let outputs = SendWrapper::new(outputs.clone());
    move |bytes| {
        let outputs = outputs.clone();
        outputs.pending.set(outputs.pending.get() + 1);
        SendWrapper::new(Box::pin(async move {
            let written = pick(&outputs).write_all(bytes).await;
            outputs.pending.set(outputs.pending.get() - 1);
            Ok(written?)
        }))
    }
}

type BoxedWrite = Pin<Box<dyn Future<Output = bashkit::Result<()>>>>;

/// Runs the shell and returns its exit code.
pub(crate) async fn run(argv: Vec<String>) -> u8 {
    let outputs = Rc::new(Outputs::new());
    let code = match command_line::parse(argv) {
        Err(message) => {
            print_error(&outputs, &format!("bash: {message}\n")).await;
            USAGE
        }
        Ok(CommandLine { source: Source::Print(text), .. }) => {
            outputs.out.write_all(text.into()).await.ok();
            0
        }
        Ok(line) => execute(&outputs, line).await,
    };
    outputs.out.finish().await;
    outputs.err.finish().await;
    code
}

async fn print_error(outputs: &Outputs, message: &str) {
    // If stderr fails, the exit code is the only report.
    outputs.err.write_all(message.into()).await.ok();
}

async fn execute(outputs: &Rc<Outputs>, line: CommandLine) -> u8 {
    let files: Arc<dyn FileSystem> = Arc::new(Files::new());
    let cwd = environment::get_initial_cwd().unwrap_or_else(|| "/".into());
    let mut input = Input::default();
    let script = match &line.source {
        Source::Text(text) => text.clone(),
        Source::File(path) => match files.read_file(&Path::new(&cwd).join(path)).await {
            Ok(bytes) => text(&bytes),
            Err(error) => {
                let reason = reason(&error);
                print_error(outputs, &format!("bash: {path}: {reason}\n")).await;
                return if reason == "Is a directory" { 126 } else { 127 };
            }
        },
        Source::Stdin => {
            let mut all = Vec::new();
            loop {
                let bytes = input.read().await;
                if bytes.is_empty() {
                    break text(&all);
                }
                all.extend(bytes);
            }
        }
        Source::Print(_) => return 0,
    };
    let input = Rc::new(RefCell::new(input));
    let own_stdin = LiveInput::default();
    let own = OwnStreams { stdin: own_stdin.clone(), outputs: SendWrapper::new(outputs.clone()) };
    let mut bash = interpreter(files, &cwd, &own);
    let mut options = ExecOptions::new()
        .arg0(line.name.clone())
        .positional(line.args.clone())
        .command_string(matches!(line.source, Source::Text(_)))
        .live_stdin(own_stdin.clone());
    if let Source::File(path) = &line.source {
        options = options.script_file(path.clone());
    }
    let script = format!("{}{script}", prelude(&line));
    let shell = bash
        .execute(&script)
        .options(options)
        .stdout_fn(sink(outputs, |o| &o.out))
        .stderr_fn(sink(outputs, |o| &o.err))
        .into_future();
    let feed = Box::pin(feed(own_stdin, input));
    let result = match select(shell, feed).await {
        Either::Left((result, _)) => result,
        Either::Right(((), shell)) => shell.await,
    };
    match result {
        Ok(result) => {
            let truncated = result.stdout_truncated || result.stderr_truncated;
            if truncated {
                print_error(outputs, "bash: output was truncated at a limit of the interpreter\n")
                    .await;
            }
            if truncated && result.exit_code == 0 { 1 } else { (result.exit_code & 0xff) as u8 }
        }
        Err(error) => report_error(outputs, &error).await,
    }
}

/// Passes standard input on, only as far as commands request it.
async fn feed(own: LiveInput, input: Rc<RefCell<Input>>) {
    loop {
        own.wanted().await;
        let mut taken = input.take();
        let bytes = taken.read().await;
        input.replace(taken);
        if bytes.is_empty() {
            own.end();
            return;
        }
        own.fill(&bytes);
    }
}

/// Reports an error of the interpreter itself, and returns the exit code.
async fn report_error(outputs: &Outputs, error: &Error) -> u8 {
    let (message, code) = match error {
        // The reader is gone: the exit code of SIGPIPE.
        Error::Io(io) if io.kind() == std::io::ErrorKind::BrokenPipe => return 141,
        Error::Parse { line, message, .. } if *line > 0 => {
            (format!("line {line}: {message}"), error.syntax_status() as u8)
        }
        Error::Parse { message, .. } => (message.clone(), 2),
        other => (other.to_string(), 1),
    };
    let message = message.trim_end();
    print_error(outputs, &format!("bash: {message}\n")).await;
    code
}

fn interpreter(files: Arc<dyn FileSystem>, cwd: &str, own: &OwnStreams) -> Bash {
    let mut builder = Bash::builder()
        .fs(files)
        .follow_symlinks(false)
        .cwd(cwd)
        .username("user")
        .hostname("sandbox")
        .limits(limits::execution())
        .session_limits(limits::session())
        .memory_limits(limits::memory())
        .tty(0, false)
        .tty(1, false)
        .tty(2, false)
        .builtin_filter(|name| !NOT_COMMANDS.contains(&name));
    for (name, value) in environment::get_environment() {
        builder = match name.as_str() {
            denials::VARIABLE => builder.before_tool(denials::hook(&value)),
            _ => builder.env(name, value),
        };
    }
    for name in RUNTIMES {
        builder = builder.command(name, Program { own: own.clone(), known: true });
    }
    for name in ["pip", "pip3", "uv", "uvx"] {
        builder = builder.command(name, Shim { own: own.clone() });
    }
    commands::add(builder, own)
        .command("curl", Curl)
        .command_resolver(Arc::new(HostPrograms { own: own.clone() }))
        .build()
}

/// The commands of other runtimes. If the host lacks one, the command reports it.
const RUNTIMES: [&str; 14] = [
    "python3", "python", "node", "nodejs", "bun", "deno", "ts-node", "tsx", "npm", "npx", "pnpm",
    "pnpx", "yarn", "bunx",
];

/// Returns commands that apply the options of the command line. They precede the script on its
/// first line, so that line numbers stay correct.
fn prelude(line: &CommandLine) -> String {
    let mut commands = String::new();
    if !line.shopt.is_empty() {
        for option in line.shopt.chunks(2) {
            commands += &format!("shopt {}; ", option.join(" "));
        }
    }
    if !line.set.is_empty() {
        commands += &format!("set {}; ", line.set.join(" "));
    }
    commands
}

/// Decodes a script: removes a byte order mark, and converts line ends if all of them are CRLF.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let (lines, returns) = (text.matches('\n').count(), text.matches("\r\n").count());
    if lines > 0 && lines == returns { text.replace("\r\n", "\n") } else { text.into_owned() }
}

fn reason(error: &Error) -> String {
    match error {
        Error::Io(io) => io.to_string(),
        other => other.to_string(),
    }
}
