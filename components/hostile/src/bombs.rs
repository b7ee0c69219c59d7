//! Attempts to exhaust the host. A refusal ends an attempt; otherwise it continues until the host
//! ends it.

use std::hint::black_box;
use std::time::Duration;

use skillhost_guest::process::{Command, Error};

use crate::bindings::{new, old};
use crate::files::{BOTH, Wasi, folder};
use crate::report::Report;

const MIB: usize = 1 << 20;

/// Grows linear memory in steps of 1 MiB until the host refuses.
pub(crate) async fn memory(_: &[String]) -> Report {
    let mut report = Report::default();
    for mib in 0..4096 {
        if core::arch::wasm32::memory_grow::<0>(16) == usize::MAX {
            report.must_fail("grow", Err::<(), _>(format!("refused after {mib} MiB")));
            return report;
        }
    }
    report.escape("4 GiB of memory");
    report
}

/// Requests all memory at once.
pub(crate) async fn memory_at_once(_: &[String]) -> Report {
    let mut report = Report::default();
    let left = 65_536 - core::arch::wasm32::memory_size::<0>();
    let grown = core::arch::wasm32::memory_grow::<0>(left);
    report.must_fail("grow to 4 GiB", if grown == usize::MAX { Err("refused") } else { Ok(()) });
    report
}

/// Allocates and touches many small blocks, and frees none. Rust aborts when an allocation fails.
pub(crate) async fn memory_in_pieces(_: &[String]) -> Report {
    let mut report = Report::default();
    let mut pieces = Vec::new();
    for _ in 0..4 << 20 {
        pieces.push(vec![1_u8; 1000]);
    }
    report.escape(format!("{} allocations", black_box(&pieces).len()));
    report
}

/// Loops without yielding and without calling the host.
pub(crate) async fn spin(_: &[String]) -> Report {
    let mut x = 0_u64;
    loop {
        x = black_box(x.wrapping_add(1));
    }
}

/// Sleeps, through either version of WASI.
pub(crate) async fn sleep(args: &[String]) -> Report {
    if args.first().is_some_and(|version| version == "0.2") {
        old::wasi::clocks::monotonic_clock::subscribe_duration(u64::MAX).block();
    }
    loop {
        skillhost_guest::time::sleep(Duration::from_nanos(u64::MAX)).await;
    }
}

/// Reads standard input that never ends.
pub(crate) async fn stdin(_: &[String]) -> Report {
    let mut report = Report::default();
    while let Ok(Some(bytes)) = skillhost_guest::io::stdin().chunk().await {
        report.answer(format!("{} bytes", bytes.len()));
    }
    report
}

/// Writes to `stdout` or `stderr` without end.
pub(crate) async fn flood(args: &[String]) -> Report {
    let mut report = Report::default();
    let bytes = vec![b'x'; 64 << 10];
    for _ in 0..64 << 10 {
        let written = match args.first().map(String::as_str) {
            Some("stderr") => skillhost_guest::io::stderr().write_all(&bytes).await,
            _ => skillhost_guest::io::stdout().write_all(&bytes).await,
        };
        if let Err(error) = written {
            report.must_fail("write", Err::<(), _>(error.to_string()));
            return report;
        }
    }
    report.escape("4 GiB of output");
    report
}

/// Fills the disk by writing, by setting a size, and with sparse files. Arguments: a folder, the
/// version of WASI.
pub(crate) async fn disk(args: &[String]) -> Report {
    let mut report = Report::default();
    let Some(at) = folder(version(args.get(1)), args.first().map_or("/tmp", String::as_str)) else {
        report.escape("no folder to fill");
        return report;
    };
    let Ok(file) = at.open_for_writing("full", true, false).await else {
        report.escape("no file to fill");
        return report;
    };
    report.must_fail("64 GiB by length", file.set_size(64 << 30).await);
    report.must_fail("one byte at 64 GiB", file.write(vec![1], 64 << 30).await);
    report.must_fail("one byte at the end of numbers", file.write(vec![1], u64::MAX).await);
    for mib in 0..4096 {
        if let Err(error) = file.write(vec![1; MIB], mib << 20).await {
            report.must_fail("4 GiB by writing", Err::<(), _>(error));
            return report;
        }
    }
    report.escape("4 GiB on disk");
    report
}

/// Creates a million files, then folders. Arguments as for `disk`.
pub(crate) async fn files(args: &[String]) -> Report {
    let mut report = Report::default();
    let Some(at) = folder(version(args.get(1)), args.first().map_or("/tmp", String::as_str)) else {
        report.escape("no folder to fill");
        return report;
    };
    let mut refused = None;
    for n in 0..1_000_000 {
        if let Err(error) = at.open_for_writing(&format!("file-{n}"), true, false).await {
            refused = Some(error);
            break;
        }
    }
    report.must_fail("a million files", refused.map_or(Ok(()), Err));
    report.must_fail("one folder more", at.mkdir("folder").await);
    report
}

/// Opens a million handles and closes none. Argument: the version of WASI.
pub(crate) async fn handles(args: &[String]) -> Report {
    let mut report = Report::default();
    let Some(skill) = folder(version(args.first()), "/skill") else {
        report.escape("no folder to open");
        return report;
    };
    let mut open = Vec::new();
    for _ in 0..1_000_000 {
        match skill.open("SKILL.md").await {
            Ok(handle) => open.push(handle),
            Err(error) => {
                report.must_fail("open", Err::<(), _>(error));
                report.answer(format!("{} open", open.len()));
                return report;
            }
        }
    }
    report.escape(format!("{} open files", open.len()));
    report
}

/// Calls the host a million times. Calls are allowed; the time that they take is limited.
pub(crate) async fn host_calls(_: &[String]) -> Report {
    let mut report = Report::default();
    let mut last = 0;
    for _ in 0..1_000_000 {
        last = last.max(new::wasi::clocks::monotonic_clock::now());
    }
    report.answer(if last > 0 { "a million" } else { "the clock stands" });
    report
}

/// Requests 4 GiB of random bytes. Argument: the version of WASI.
pub(crate) async fn random(args: &[String]) -> Report {
    let mut report = Report::default();
    let mut got = 0_u64;
    while got < 4 << 30 {
        got += match version(args.first()) {
            Wasi::New => new::wasi::random::random::get_random_bytes(MIB as u64).len() as u64,
            Wasi::Old => old::wasi::random::random::get_random_bytes(MIB as u64).len() as u64,
        };
    }
    report.escape("4 GiB of random bytes");
    report
}

/// Requests the largest possible number of random bytes in one call.
pub(crate) async fn random_at_once(args: &[String]) -> Report {
    let mut report = Report::default();
    let got = match version(args.first()) {
        Wasi::New => new::wasi::random::random::get_random_bytes(u64::MAX).len(),
        Wasi::Old => old::wasi::random::random::get_random_bytes(u64::MAX).len(),
    };
    // WASI 0.3 may return fewer bytes than requested.
    if got > 64 * MIB {
        report.escape(format!("{got} bytes"))
    } else {
        report.answer("fewer")
    }
    report
}

/// Recurses without end and uses almost no linear memory: the engine's stack overflows, not the
/// guest's own.
pub(crate) async fn recursion(_: &[String]) -> Report {
    fn deeper(n: u64) -> u64 {
        // The call goes through a pointer that is opaque to the compiler, which would otherwise
        // produce a loop.
        black_box(deeper as fn(u64) -> u64)(n + 1) ^ n
    }
    let mut report = Report::default();
    report.escape(format!("{} deep", deeper(0)));
    report
}

/// Recurses without end and fills the guest's own stack in linear memory.
pub(crate) async fn recursion_in_memory(_: &[String]) -> Report {
    fn deeper(n: u64) -> u64 {
        let frame = black_box([n; 128]);
        black_box(deeper as fn(u64) -> u64)(n + 1) ^ black_box(frame)[3]
    }
    let mut report = Report::default();
    report.escape(format!("{} deep", deeper(0)));
    report
}

/// Passes strings and lists of 256 MiB to the host. Argument: the call that receives them.
pub(crate) async fn huge(args: &[String]) -> Report {
    let mut report = Report::default();
    let size = 256 * MIB;
    let text = || "x".repeat(size);
    let which = args.first().map_or("path", String::as_str);
    let workspace = |wasi| folder(wasi, "/workspace");
    match which {
        "path" => {
            if let Some(at) = workspace(Wasi::New) {
                report.must_fail("path", at.stat(&text()).await);
            }
        }
        "path-0.2" => {
            if let Some(at) = workspace(Wasi::Old) {
                report.must_fail("path", at.stat(&text()).await);
            }
        }
        "write-0.2" => {
            if let Some(at) = workspace(Wasi::Old) {
                match at.open_for_writing("huge", true, false).await {
                    Ok(file) => report.must_fail("write", file.write(vec![b'x'; size], 0).await),
                    Err(error) => report.answer(error),
                }
            }
        }
        "arguments" => report.must_fail(
            "argument",
            Command::new("hostile").arg(text()).output().await.map_err(said),
        ),
        "input" => report
            .must_fail("input", Command::new("hostile").stdin(text()).output().await.map_err(said)),
        "variables" => {
            let many = (0..4_000_000)
                .fold(Command::new("hostile").env_clear(), |command, _| command.arg("x"));
            report.must_fail("arguments", many.output().await.map_err(said));
        }
        "header" => {
            let text = text().into_bytes();
            report.must_fail(
                "header",
                new::wasi::http::types::Fields::from_list(&[("x-huge".into(), text)]).map(drop),
            );
        }
        "header-0.2" => {
            let text = text().into_bytes();
            report.must_fail(
                "header",
                old::wasi::http::types::Fields::from_list(&[("x-huge".into(), text)]).map(drop),
            );
        }
        "name" => report
            .must_fail("name", new::wasi::sockets::ip_name_lookup::resolve_addresses(text()).await),
        other => report.escape(format!("no such call: {other}")),
    }
    report
}

fn said(error: Error) -> String {
    error.to_string()
}

/// Starts itself, which starts itself, and so on. The deepest start is refused, and every level
/// reports that.
pub(crate) async fn spawn(args: &[String]) -> Report {
    let depth: u64 = args.first().and_then(|depth| depth.parse().ok()).unwrap_or(0);
    let mut report = Report::default();
    if depth > 1000 {
        report.escape("a thousand deep");
        return report;
    }
    match Command::new("hostile").args(["spawn".to_owned(), (depth + 1).to_string()]).output().await
    {
        Ok(output) if output.code == crate::report::ESCAPED => {
            report.escape(output.text().into_owned())
        }
        Ok(output) => report.answer(format!("below: {}", output.text().trim())),
        Err(error) => report.must_fail("start", Err::<(), _>(format!("{depth} deep: {error}"))),
    }
    report
}

/// Starts itself many times at once; each copy does the same.
pub(crate) async fn fork(args: &[String]) -> Report {
    let width: usize = args.first().and_then(|width| width.parse().ok()).unwrap_or(16);
    let mut report = Report::default();
    let children = (0..width)
        .map(|_| Command::new("hostile").args(["fork".to_owned(), width.to_string()]).output());
    for child in crate::together::all(children).await {
        match child {
            Ok(output) if output.code == crate::report::ESCAPED => {
                report.escape(output.text().into_owned())
            }
            Ok(_) => report.answer("started"),
            Err(error) => report.must_fail("start", Err::<(), _>(error.to_string())),
        }
    }
    report
}

/// Starts itself again and again, without end.
pub(crate) async fn spawn_again(_: &[String]) -> Report {
    let mut report = Report::default();
    for n in 0..100_000 {
        if let Err(error) = Command::new("hostile").arg("verbs").output().await {
            report.must_fail("start", Err::<(), _>(format!("after {n}: {error}")));
            return report;
        }
    }
    report.escape("100,000 programs");
    report
}

/// Makes the host hold data for programs that do not end: their input (`input`) or their output
/// (`output`).
pub(crate) async fn hoard(args: &[String]) -> Report {
    let mut report = Report::default();
    let input = args.first().is_some_and(|which| which == "input");
    let children = (0..200).map(|_| {
        let command = Command::new("hostile");
        if input {
            command.arg("sleep").stdin(vec![b'x'; 8 * MIB])
        } else {
            command.args(["hold", "8000000"])
        }
        .output()
    });
    for child in crate::together::all(children).await {
        report.must_fail("start", child.map(drop).map_err(said));
    }
    report
}

/// Starts a million waits at once.
pub(crate) async fn tasks(_: &[String]) -> Report {
    let mut report = Report::default();
    crate::together::all(
        (0..1_000_000).map(|_| skillhost_guest::time::sleep(Duration::from_secs(3600))),
    )
    .await;
    report.escape("a million tasks");
    report
}

/// Creates a million streams and closes none.
pub(crate) async fn streams(_: &[String]) -> Report {
    let mut report = Report::default();
    let open: Vec<_> = (0..1_000_000).map(|_| new::wit_stream::new::<u8>()).collect();
    report.escape(format!("{} streams", black_box(&open).len()));
    report
}

fn version(argument: Option<&String>) -> Wasi {
    if argument.is_some_and(|version| version == "0.2") { BOTH[1] } else { BOTH[0] }
}
