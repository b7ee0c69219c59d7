//! Programs that run concurrently: the data that flows between them, and how they end.

use skillhost_guest::process::{
    Child, Command, Error, ExitStatus, PipeReader, PipeWriter, Stdio, pipe,
};

use crate::bindings::new::skillhost::skill::process;
use crate::bindings::old;
use crate::loads::{done, number, refused};
use crate::report::Report;

/// Builds a command that runs this component.
pub(crate) fn itself(args: &[&str]) -> Command {
    Command::new("hostile").args(args.iter().map(|arg| arg.to_string()))
}

async fn spawn(command: Command) -> Child {
    command.spawn().await.unwrap_or_else(|error| refused(error))
}

/// Starts `cat`, and returns the ends of its pipes.
async fn cat() -> (Child, PipeWriter, PipeReader) {
    let mut child = spawn(itself(&["cat"]).stdin(Stdio::piped()).stdout(Stdio::piped())).await;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    (
        child,
        input.unwrap_or_else(|| refused("no input")),
        output.unwrap_or_else(|| refused("no output")),
    )
}

/// Starts `cat` through the host's own functions, which block.
fn raw_cat() -> (process::Child, process::Writer, process::Reader) {
    use process::{Input, Output};
    let argv = ["hostile".to_owned(), "cat".to_owned()];
    let child = process::spawn(&argv, None, None, &Input::Pipe, &Output::Pipe, &Output::Inherit);
    let child = child.unwrap_or_else(|error| refused(format!("{error:?}")));
    match (child.stdin(), child.stdout(), child.stderr()) {
        (Some(input), Some(output), None) => (child, input, output),
        _ => refused("not the streams that were asked for"),
    }
}

/// Writes a text to a program and waits for the response.
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

/// Talks to N concurrent programs in turn. Each responds while the others keep running.
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

/// Connects a program that writes N bytes to a program that counts them, by a pipe.
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

/// Writes N bytes to standard output in pieces. The value of each byte follows from its position.
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

/// Counts the bytes of standard input and checks the value of each byte.
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

/// Reads N bytes of standard input through WASI 0.2, and leaves the rest to a program that inherits
/// it.
pub(crate) async fn share(args: &[String]) -> Report {
    let bytes = old::wasi::cli::stdin::get_stdin()
        .blocking_read(number(args, 0))
        .unwrap_or_else(|error| refused(format!("{error:?}")));
    skillhost_guest::print!("{}|", String::from_utf8_lossy(&bytes));
    skillhost_guest::io::stdout().flush().await.unwrap_or_else(|error| refused(error));
    let status = spawn(itself(&["cat"])).await.wait().await;
    skillhost_guest::process::exit(status.code().unwrap_or(1))
}

/// Starts a command with this program's own streams, and exits with its code. If it does not start,
/// exits as a shell does.
pub(crate) async fn launch(args: &[String]) -> Report {
    let Some((program, rest)) = args.split_first() else { refused("nothing to start") };
    let code = match Command::new(program.clone()).args(rest.iter().cloned()).spawn().await {
        Ok(child) => match child.wait().await {
            ExitStatus::Exited(code) => code,
            other => refused(format!("{other:?}")),
        },
        Err(error) => {
            skillhost_guest::eprintln!("{error}");
            if matches!(error, Error::NotFound(_)) { 127 } else { 126 }
        }
    };
    skillhost_guest::process::exit(code)
}

/// Prints the working directory and the environment.
pub(crate) async fn surroundings(_: &[String]) -> Report {
    skillhost_guest::println!("{}", old::wasi::cli::environment::initial_cwd().unwrap_or_default());
    for (name, value) in skillhost_guest::env::vars() {
        skillhost_guest::println!("{name}={value}");
    }
    skillhost_guest::io::stdout().flush().await.unwrap_or_else(|error| refused(error));
    skillhost_guest::process::exit(0)
}

/// Starts a program in another directory with its own variables.
pub(crate) async fn elsewhere(_: &[String]) -> Report {
    let command =
        itself(&["surroundings"]).env_clear().env("B", "2").env("A", "1").current_dir("/tmp");
    skillhost_guest::process::exit(spawn(command).await.wait().await.code().unwrap_or(1))
}

/// Writes to standard output and standard error alternately.
pub(crate) async fn both(_: &[String]) -> Report {
    for n in 0..100 {
        skillhost_guest::io::stdout()
            .write_all(format!("out {n}\n"))
            .await
            .unwrap_or_else(|error| refused(error));
        skillhost_guest::io::stderr()
            .write_all(format!("err {n}\n"))
            .await
            .unwrap_or_else(|error| refused(error));
    }
    skillhost_guest::process::exit(0)
}

/// Reads both streams of such a program from one pipe.
pub(crate) async fn joined(_: &[String]) -> Report {
    let mut child =
        spawn(itself(&["both"]).stdout(Stdio::piped()).stderr(Stdio::to_stdout())).await;
    let output = child.stdout.take().unwrap_or_else(|| refused("no output"));
    let bytes = output.read_to_end().await.unwrap_or_else(|error| refused(error));
    skillhost_guest::io::stdout().write_all(bytes).await.unwrap_or_else(|error| refused(error));
    skillhost_guest::process::exit(child.wait().await.code().unwrap_or(1))
}

/// Copies its input one byte at a time.
pub(crate) async fn drip(args: &[String]) -> Report {
    let (child, mut input, output) = cat().await;
    let bytes: Vec<u8> = (0..number(args, 0)).map(|at| at as u8).collect();
    let write = async {
        for byte in bytes.chunks(1) {
            input.write_all(byte).await.unwrap_or_else(|error| refused(error));
        }
        drop(input);
        Vec::new()
    };
    let read = async { output.read_to_end().await.unwrap_or_else(|error| refused(error)) };
    let futures: [std::pin::Pin<Box<dyn Future<Output = Vec<u8>> + '_>>; 2] =
        [Box::pin(write), Box::pin(read)];
    let got = crate::together::all(futures).await;
    if got[1] != bytes || !child.wait().await.success() {
        refused("other bytes");
    }
    done("copied")
}

/// Waits for a program that does not end, then kills it.
pub(crate) async fn patience(_: &[String]) -> Report {
    let (child, _input, output) = raw_cat();
    let (wait, read) = (child.wait(Some(10)), output.read(1, Some(10)));
    if wait.is_some()
        || !matches!(read, Err(process::Error::Timeout))
        || child.wait(Some(0)).is_some()
    {
        refused(format!("{wait:?} {read:?}"));
    }
    child.kill();
    if output.read(1, None).is_ok_and(|bytes| !bytes.is_empty()) {
        refused("no end of its output");
    }
    done(format!("{:?}", child.wait(None)))
}

/// Polls two programs repeatedly, and reads from the one that is ready.
pub(crate) async fn poll(_: &[String]) -> Report {
    let (_first, to_first, from_first) = raw_cat();
    let (second, to_second, from_second) = raw_cat();
    // There is room to write and nothing to read.
    if process::poll(&[&from_first, &from_second], &[&to_first], Some(0)) != (vec![], vec![0]) {
        refused("not what was to be ready at first");
    }
    let readers = |ms| process::poll(&[&from_first, &from_second], &[], ms).0;
    if !readers(Some(10)).is_empty() {
        refused("something to read before anything was written");
    }
    if !matches!(to_first.write_latin1("\u{e9}"), Ok(1)) || readers(None) != [0] {
        refused("not the first");
    }
    if from_first.read(10, None).unwrap_or_default() != [0xe9] {
        refused("not what was written");
    }
    // The end of a stream counts as readable.
    drop(to_second);
    if !matches!(second.wait(None), Some(process::Status::Exited(0))) || readers(None) != [1] {
        refused("not the second");
    }
    if !from_second.read(10, None).is_ok_and(|bytes| bytes.is_empty()) {
        refused("not the end");
    }
    // A pipe without a reader counts as writable.
    let Ok((reader, writer)) = process::pipe() else { refused("no pipe") };
    drop(reader);
    if process::poll(&[], &[&writer], None) != (vec![], vec![0])
        || !matches!(writer.write(b"x"), Err(process::Error::Closed))
    {
        refused("not broken");
    }
    done("polled")
}

/// Starts a program that starts `cat`, and talks to that `cat`. The program in between ends at once
/// (`leaves`) or waits (`keeps`). With `keeps`, kills it; both must then be gone.
pub(crate) async fn grandchild(args: &[String]) -> Report {
    let keeps = args.first().is_some_and(|arg| arg == "keeps");
    let between =
        if keeps { itself(&["launch", "hostile", "cat"]) } else { itself(&["leave", "cat"]) };
    let mut child = spawn(between.stdin(Stdio::piped()).stdout(Stdio::piped())).await;
    let mut input = child.stdin.take().unwrap_or_else(|| refused("no input"));
    let mut output = child.stdout.take().unwrap_or_else(|| refused("no output"));
    if !keeps {
        let status = child.wait().await;
        exchange(&mut input, &mut output, "still there\n").await;
        return done(format!("{status:?}"));
    }
    exchange(&mut input, &mut output, "there\n").await;
    child.kill();
    if !matches!(output.chunk().await, Ok(None)) || input.write_all("gone?").await.is_ok() {
        refused("it goes on");
    }
    done(format!("{:?}", child.wait().await))
}

/// Starts a program N times, and waits for it each time.
pub(crate) async fn turns(args: &[String]) -> Report {
    for _ in 0..number(args, 0) {
        let child = spawn(itself(&["exit", "0"]).stdout(Stdio::piped())).await;
        if !child.wait().await.success() {
            refused("it failed");
        }
    }
    done("started")
}

/// Starts N programs that loop without end, each as the child of another one that does the same.
pub(crate) async fn side_by_side(args: &[String]) -> Report {
    if let Some(which) = args.get(1) {
        spawn(itself(&[which])).await;
        return crate::bombs::spin(&[]).await;
    }
    let mut children = Vec::new();
    for _ in 0..number(args, 0) {
        children.push(spawn(itself(&["side-by-side", "1", "spin"])).await);
    }
    for child in children {
        child.wait().await;
    }
    done("they ended")
}

/// Attack: starts programs that never end, and ends itself. With an argument: starts only that
/// program, which shares this program's streams.
pub(crate) async fn leave(args: &[String]) -> Report {
    if !args.is_empty() {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        spawn(itself(&args)).await;
        skillhost_guest::process::exit(0)
    }
    let mut report = Report::default();
    for args in
        [&["spin"][..], &["sleep"], &["flood"], &["leave", "spin"], &["leave", "leave", "sleep"]]
    {
        match itself(args).stdout(Stdio::null()).spawn().await {
            Ok(_) => report.answer("left"),
            Err(error) => report.must_fail("start", Err::<(), _>(error.to_string())),
        }
    }
    report
}

/// Attack: creates a million pipes and closes none.
pub(crate) async fn pipes(_: &[String]) -> Report {
    let mut report = Report::default();
    let mut held = Vec::new();
    for _ in 0..1_000_000 {
        match process::pipe() {
            Ok(ends) => held.push(ends),
            Err(error) => {
                report.must_fail("pipe", Err::<(), _>(error));
                return report;
            }
        }
    }
    report.escape(format!("{} pipes", held.len()));
    report
}

/// Attack: waits for the same pipe a thousand times at once, repeatedly, then a hundred thousand
/// times at once.
pub(crate) async fn poll_bomb(_: &[String]) -> Report {
    let mut report = Report::default();
    let Ok((reader, _writer)) = process::pipe() else { return report };
    for _ in 0..100 {
        process::poll(&vec![&reader; 1_000], &[], Some(0));
    }
    process::poll(&vec![&reader; 100_000], &[], Some(0));
    report.escape("100,000 at once");
    report
}

/// Attack: writes without end to a pipe that has no reader any more.
pub(crate) async fn broken_pipe(_: &[String]) -> Report {
    let mut report = Report::default();
    let Ok((reader, writer)) = process::pipe() else { return report };
    drop(reader);
    for _ in 0..20_000 {
        report.must_fail("write", writer.write(&[0; 4096]));
    }
    // The same through its standard output: a program that ignores errors gets the error again and
    // again.
    let mut child = spawn(itself(&["deaf"]).stdout(Stdio::piped())).await;
    drop(child.stdout.take());
    report.answer(format!("{:?}", child.wait().await));
    report
}

/// Writes for a while and ignores errors.
pub(crate) async fn deaf(_: &[String]) -> Report {
    for _ in 0..10_000 {
        old::wasi::cli::stdout::get_stdout().blocking_write_and_flush(&[b'x'; 4096]).ok();
    }
    skillhost_guest::process::exit(0)
}

/// Attack: lets a program write 4 GiB to a pipe that stays open and is never read.
pub(crate) async fn unread(_: &[String]) -> Report {
    let mut report = Report::default();
    let Ok(mut child) = itself(&["flood"]).stdout(Stdio::piped()).spawn().await else {
        return report;
    };
    let _open = child.stdout.take();
    report.escape(format!("it wrote 4 GiB: {:?}", child.wait().await));
    report
}

/// Attack: repeatedly starts and kills programs that have children of their own.
pub(crate) async fn kill_tree(_: &[String]) -> Report {
    let mut report = Report::default();
    for _ in 0..100_000 {
        match itself(&["launch", "hostile", "launch", "hostile", "spin"]).spawn().await {
            Ok(child) => {
                child.kill();
                child.kill();
                report.answer(format!("{:?}", child.wait().await));
            }
            Err(error) => {
                report.must_fail("start", Err::<(), _>(error.to_string()));
                return report;
            }
        }
    }
    report.escape("100,000 programs");
    report
}
