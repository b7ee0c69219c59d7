//! Uses of a resource with a given size. Tests use them to stay just below a limit or to exceed it.

use std::hint::black_box;
use std::time::Duration;

use skillhost_guest::process::Command;

use crate::bindings::{new, old};
use crate::exchange::Ask;
use crate::files::{Wasi, folder};
use crate::report::Report;

/// Reports a load that got its amount.
pub(crate) fn done(what: impl Into<String>) -> Report {
    let mut report = Report::default();
    report.answer(what);
    report
}

/// Reports a load that was refused: panics with the reason, which makes the exit code 1.
pub(crate) fn refused(why: impl std::fmt::Display) -> ! {
    skillhost_guest::eprintln!("refused: {why}");
    skillhost_guest::process::exit(1)
}

pub(crate) fn number(args: &[String], at: usize) -> u64 {
    args.get(at)
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| refused(format!("argument {at} is no number")))
}

fn place(args: &[String], at: usize) -> crate::files::Folder {
    let wasi = if args.iter().any(|arg| arg == "0.2") { Wasi::Old } else { Wasi::New };
    let name = args.get(at).map_or("/tmp", String::as_str);
    folder(wasi, name).unwrap_or_else(|| refused(format!("no folder {name}")))
}

/// Allocates and touches N MiB of memory.
pub(crate) async fn alloc(args: &[String]) -> Report {
    let bytes = (number(args, 0) as usize) << 20;
    let mut held: Vec<u8> = Vec::new();
    if held.try_reserve_exact(bytes).is_err() {
        refused("no memory");
    }
    held.resize(bytes, 1);
    done(format!("{} bytes", black_box(held).len()))
}

/// Allocates N MiB of new memory and looks for data of another guest in it.
pub(crate) async fn zeroed(args: &[String]) -> Report {
    let before = core::arch::wasm32::memory_grow::<0>(number(args, 0) as usize * 16);
    if before == usize::MAX {
        refused("no memory");
    }
    let mut report = Report::default();
    for at in (before << 16..core::arch::wasm32::memory_size::<0>() << 16).step_by(8) {
        // SAFETY: the memory was just grown, and nothing else uses it.
        if unsafe { std::ptr::read_volatile(at as *const u64) } != 0 {
            report.escape(format!("something is left at {at}"));
            return report;
        }
    }
    report.answer("clean");
    report
}

/// Writes N bytes to a file in a folder.
pub(crate) async fn write(args: &[String]) -> Report {
    let bytes = number(args, 0);
    let file = place(args, 1)
        .open_for_writing("written", true, true)
        .await
        .unwrap_or_else(|error| refused(error));
    let mut at = 0;
    while at < bytes {
        let chunk = (bytes - at).min(64 << 10);
        file.write(vec![b'x'; chunk as usize], at).await.unwrap_or_else(|error| refused(error));
        at += chunk;
    }
    done(format!("{bytes} bytes"))
}

/// Creates N files in a folder.
pub(crate) async fn create(args: &[String]) -> Report {
    let folder = place(args, 1);
    for n in 0..number(args, 0) {
        folder
            .open_for_writing(&format!("created-{n}"), true, false)
            .await
            .unwrap_or_else(|error| refused(error));
    }
    done("created")
}

/// Opens N handles and keeps them open.
pub(crate) async fn open(args: &[String]) -> Report {
    let folder = place(args, 1);
    let mut held = Vec::new();
    for n in 0..number(args, 0) {
        let opened =
            folder.open(".").await.unwrap_or_else(|error| refused(format!("after {n}: {error}")));
        held.push(opened);
    }
    done(format!("{} open", held.len()))
}

/// Prints N bytes to `stdout` or `stderr`, and nothing else.
pub(crate) async fn print(args: &[String]) -> Report {
    let bytes = vec![b'x'; number(args, 0) as usize];
    let written = match args.get(1).map(String::as_str) {
        Some("stderr") => skillhost_guest::io::stderr().write_all(&bytes).await,
        _ => skillhost_guest::io::stdout().write_all(&bytes).await,
    };
    match written {
        Ok(()) => skillhost_guest::process::exit(0),
        Err(error) => refused(error),
    }
}

/// Prints N bytes, and never ends.
pub(crate) async fn hold(args: &[String]) -> Report {
    let bytes = vec![b'x'; number(args, 0) as usize];
    skillhost_guest::io::stdout().write_all(&bytes).await.unwrap_or_else(|error| refused(error));
    drop(bytes);
    crate::bombs::sleep(&[]).await
}

/// Prints N lines, with a pause of M milliseconds after each.
pub(crate) async fn lines(args: &[String]) -> Report {
    for n in 0..number(args, 0) {
        skillhost_guest::println!("line {n}");
        skillhost_guest::io::stdout().flush().await.unwrap_or_else(|error| refused(error));
        skillhost_guest::time::sleep(Duration::from_millis(number(args, 1))).await;
    }
    done("printed")
}

/// Fetches a URL N times, one after another. With `together`: at once.
pub(crate) async fn fetch(args: &[String]) -> Report {
    let url = args.first().map_or("", String::as_str);
    let wasi = if args.iter().any(|arg| arg == "0.2") { Wasi::Old } else { Wasi::New };
    let times = number(args, 1);
    let mut report = Report::default();
    let answers = if args.iter().any(|arg| arg == "together") {
        crate::together::all((0..times).map(|_| async { Ask::get(url).send(wasi).await })).await
    } else {
        let mut answers = Vec::new();
        for _ in 0..times {
            answers.push(Ask::get(url).send(wasi).await);
        }
        answers
    };
    for answer in answers {
        let answer = answer.unwrap_or_else(|error| refused(error));
        report.answer(format!("{} {} bytes", answer.status, answer.body.len()));
    }
    report
}

/// Posts a body of N bytes.
pub(crate) async fn upload(args: &[String]) -> Report {
    let url = args.first().map_or("", String::as_str);
    let wasi = if args.iter().any(|arg| arg == "0.2") { Wasi::Old } else { Wasi::New };
    let body = vec![b'x'; number(args, 1) as usize];
    let answer = Ask { method: "POST", body: Some(body), ..Ask::get(url) }.send(wasi).await;
    done(format!("{}", answer.unwrap_or_else(|error| refused(error)).status))
}

/// Recurses to depth N.
pub(crate) async fn recurse(args: &[String]) -> Report {
    fn deeper(n: u64) -> u64 {
        if n == 0 { 0 } else { black_box(deeper as fn(u64) -> u64)(n - 1) ^ n }
    }
    done(format!("{}", deeper(number(args, 0))))
}

/// Sleeps N milliseconds.
pub(crate) async fn nap(args: &[String]) -> Report {
    skillhost_guest::time::sleep(Duration::from_millis(number(args, 0))).await;
    done("slept")
}

/// Starts itself to depth N.
pub(crate) async fn nest(args: &[String]) -> Report {
    let deep = number(args, 0);
    if deep > 0 {
        let output = Command::new("hostile")
            .args(["nest".to_owned(), (deep - 1).to_string()])
            .output()
            .await;
        let output = output.unwrap_or_else(|error| refused(error));
        if output.code != 0 {
            refused(String::from_utf8_lossy(&output.stderr));
        }
    }
    done("nested")
}

/// Starts a program N times, one after another. The remaining arguments are its command line,
/// `verbs` by default.
pub(crate) async fn start(args: &[String]) -> Report {
    let command: Vec<String> =
        if args.len() > 1 { args[1..].to_vec() } else { vec!["verbs".to_owned()] };
    for _ in 0..number(args, 0) {
        let output = Command::new("hostile")
            .args(command.clone())
            .output()
            .await
            .unwrap_or_else(|error| refused(error));
        if output.code != 0 {
            refused(format!("{}: {}", output.code, String::from_utf8_lossy(&output.stderr)));
        }
    }
    done("started")
}

/// Requests N random bytes.
pub(crate) async fn draw(args: &[String]) -> Report {
    let mut left = number(args, 0);
    while left > 0 {
        let some = left.min(64 << 10);
        left -= match args.get(1).map(String::as_str) {
            Some("0.2") => old::wasi::random::random::get_random_bytes(some).len() as u64,
            Some("insecure") => {
                new::wasi::random::insecure::get_insecure_random_bytes(some).len() as u64
            }
            _ => new::wasi::random::random::get_random_bytes(some).len() as u64,
        };
    }
    done("drawn")
}

/// Runs N iterations of a loop.
pub(crate) async fn burn(args: &[String]) -> Report {
    let mut x = 0_u64;
    for n in 0..number(args, 0) {
        x = black_box(x.wrapping_mul(31).wrapping_add(n));
    }
    done(format!("{x}"))
}

/// Passes a list of N bytes to the host in one call.
pub(crate) async fn hand_over(args: &[String]) -> Report {
    let output = Command::new("hostile")
        .arg("verbs")
        .stdin(vec![b'x'; number(args, 0) as usize])
        .output()
        .await;
    done(format!("{}", output.unwrap_or_else(|error| refused(error)).code))
}

/// Copies standard input to standard output.
pub(crate) async fn cat(_: &[String]) -> Report {
    let (input, output) = (skillhost_guest::io::stdin(), skillhost_guest::io::stdout());
    while let Ok(Some(bytes)) = input.chunk().await {
        output.write_all(bytes).await.unwrap_or_else(|error| refused(error));
    }
    skillhost_guest::process::exit(0)
}
