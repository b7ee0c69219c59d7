//! Programs side by side: what flows between them, and how they end.

use skillhost_guest::process::{Child, Command, PipeReader, PipeWriter, Stdio, pipe};

use crate::bindings::old;
use crate::loads::{done, number, refused};
use crate::report::Report;

/// A command of this component.
pub(crate) fn itself(args: &[&str]) -> Command {
    Command::new("hostile").args(args.iter().map(|arg| arg.to_string()))
}

async fn spawn(command: Command) -> Child {
    command.spawn().await.unwrap_or_else(|error| refused(error))
}

/// A started `cat`, and the ends to talk to it.
async fn cat() -> (Child, PipeWriter, PipeReader) {
    let mut child = spawn(itself(&["cat"]).stdin(Stdio::piped()).stdout(Stdio::piped())).await;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    (child, input.unwrap_or_else(|| refused("no input")), output.unwrap_or_else(|| refused("no output")))
}

/// Says something to a program and waits for its answer.
async fn exchange(input: &mut PipeWriter, output: &mut PipeReader, text: &str) {
    input.write_all(text).await.unwrap_or_else(|error| refused(error));
    let mut answer = Vec::new();
    while answer.len() < text.len() {
        match output.chunk().await {
            Ok(Some(bytes)) => answer.extend(bytes),
            other => refused(format!("no answer: {other:?}")),
        }
    }
    if answer != text.as_bytes() {
        refused(format!("another answer: {answer:?}"));
    }
}

/// Talks to N programs that run all at once, turn by turn: each answers while it and the others go on.
pub(crate) async fn talk(args: &[String]) -> Report {
    let mut all = Vec::new();
    for _ in 0..number(args, 0) {
        all.push(cat().await);
    }
    for turn in 0..5 {
        for (_, input, output) in &mut all {
            exchange(input, output, &format!("turn {turn}\n")).await;
        }
    }
    for (child, input, mut output) in all {
        drop(input);
        if !matches!(output.chunk().await, Ok(None)) {
            refused("no end");
        }
        if !child.wait().await.success() {
            refused("it failed");
        }
    }
    done("talked")
}

/// Joins a program that writes N bytes to one that counts them, by a pipe.
pub(crate) async fn pipeline(args: &[String]) -> Report {
    let bytes = number(args, 0).to_string();
    let (reader, writer) = pipe().unwrap_or_else(|error| refused(error));
    let first = spawn(itself(&["pour", &bytes]).stdout(writer)).await;
    let mut second = spawn(itself(&["count"]).stdin(reader).stdout(Stdio::piped())).await;
    let output = second.stdout.take().unwrap_or_else(|| refused("no output"));
    let counted = output.read_to_end().await.unwrap_or_else(|error| refused(error));
    if !(first.wait().await.success() && second.wait().await.success()) {
        refused("one of them failed");
    }
    done(String::from_utf8_lossy(&counted).trim().to_owned())
}

/// Writes N bytes to standard output in pieces, each byte that of its place.
pub(crate) async fn pour(args: &[String]) -> Report {
    let bytes = number(args, 0);
    let mut at = 0;
    while at < bytes {
        let end = bytes.min(at + 50_000);
        let piece: Vec<u8> = (at..end).map(|at| at as u8).collect();
        skillhost_guest::io::stdout().write_all(piece).await.unwrap_or_else(|error| refused(error));
        at = end;
    }
    skillhost_guest::process::exit(0)
}

/// Counts the bytes of standard input, each of which is to be that of its place.
pub(crate) async fn count(_: &[String]) -> Report {
    let mut at = 0_u64;
    while let Ok(Some(bytes)) = skillhost_guest::io::stdin().chunk().await {
        for byte in bytes {
            if byte != at as u8 {
                refused(format!("byte {at} is another"));
            }
            at += 1;
        }
    }
    skillhost_guest::println!("{at}");
    skillhost_guest::io::stdout().flush().await.unwrap_or_else(|error| refused(error));
    skillhost_guest::process::exit(0)
}

/// Reads N bytes of standard input by WASI 0.2, and leaves the rest to a program that inherits it.
pub(crate) async fn share(args: &[String]) -> Report {
    let bytes = old::wasi::cli::stdin::get_stdin().blocking_read(number(args, 0)).unwrap_or_else(|error| refused(format!("{error:?}")));
    skillhost_guest::print!("{}|", String::from_utf8_lossy(&bytes));
    skillhost_guest::io::stdout().flush().await.unwrap_or_else(|error| refused(error));
    let status = spawn(itself(&["cat"])).await.wait().await;
    skillhost_guest::process::exit(status.code().unwrap_or(1))
}
