//! A linker for the host, which places the functions that a start calls next to each other, so that
//! a start touches few pages of the program. It links as rustc asks, runs the result to record the
//! order of its calls, and links again in that order.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use skillhost_toolchain::Error;

use super::calls;
use crate::workspace;

/// The name under which rustc starts this program as its linker.
const NAME: &str = "link-in-order";

/// The argument with which rustc requests a program without symbols.
const STRIP: &str = "-Wl,--strip-all";

/// The starts to record. If several call the same function, the first one determines its place.
/// `mcp`, a server whose input ends at once, is included because an idle server should be small:
/// the kernel may map each part of the program that it touches in a piece of 2 MiB.
const STARTS: [&[&str]; 5] = [
    &["run", "skills/calculator", "--", "2+2"],
    &["run", "benches/hello", "scripts/hello.py"],
    &["run", "benches/hello", "scripts/imports.py"],
    &["run", "benches/hello", "scripts/hello.sh"],
    &["mcp"],
];

/// Returns whether this process was started as a linker.
pub(crate) fn is_linker() -> bool {
    std::env::args_os()
        .next()
        .is_some_and(|name| Path::new(&name).file_name() == Some(OsStr::new(NAME)))
}

/// Creates a symlink to this program whose name makes it a linker, and returns the path.
pub(crate) fn linker(root: &Path) -> Result<PathBuf, Error> {
    let folder = root.join("target/link");
    let link = folder.join(NAME);
    let make = || {
        fs::create_dir_all(&folder)?;
        fs::remove_file(&link).or_else(|error| {
            if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
        })?;
        symlink(std::env::current_exe()?, &link)
    };
    make().map_err(Error::context(link.display()))?;
    Ok(link)
}

/// Links the program. If the order cannot be recorded or the linker rejects it, links without an
/// order.
pub(crate) fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let plain = || exit_code(&cc(&args).status());
    let Some(program) =
        args.iter().position(|arg| arg == "-o").and_then(|at| args.get(at + 1)).map(PathBuf::from)
    else {
        return plain();
    };
    let with_symbols: Vec<OsString> = args.iter().filter(|arg| *arg != STRIP).cloned().collect();
    if !cc(&with_symbols).status().is_ok_and(|status| status.success()) {
        return plain();
    }
    let order = workspace::root().join("target/link/order.txt");
    let ordered = record_order(&program).and_then(|names| {
        fs::write(&order, names.join("\n")).map_err(Error::context(order.display()))?;
        let mut flag = OsString::from("-Wl,--no-warn-symbol-ordering,--symbol-ordering-file=");
        flag.push(&order);
        let done = cc(&args).arg(flag).output().map_err(Error::context("cc"))?;
        if done.status.success() {
            Ok(())
        } else {
            Err(Error::new(String::from_utf8_lossy(&done.stderr).trim()))
        }
    });
    match ordered {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "linking without an order of functions: {error}"));
            plain()
        }
    }
}

/// Returns the functions that the starts call. Skips starts that fail, for example because a guest
/// is not built: the other starts still gain.
fn record_order(program: &Path) -> Result<Vec<String>, Error> {
    let root = workspace::root();
    let home = root.join("target/link/home");
    let (mut order, mut stderr) = (Vec::<String>::new(), String::new());
    for args in STARTS {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&root)
            .env_clear()
            .env("HOME", &home)
            .env("SKILLHOST_PROGRAMS", root.join("target/components"));
        // The first run compiles the guest, so that the traced run does not.
        let done =
            command.stdin(Stdio::null()).output().map_err(Error::context(program.display()))?;
        if done.status.success() {
            order.extend(calls::called(program, &command)?);
        } else {
            stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        }
    }
    let mut seen = BTreeSet::new();
    order.retain(|name| seen.insert(name.clone()));
    if order.is_empty() { Err(Error::new(stderr.trim())) } else { Ok(order) }
}

fn cc(args: &[OsString]) -> Command {
    let mut cc = Command::new("cc");
    cc.args(args);
    cc
}

fn exit_code(status: &std::io::Result<std::process::ExitStatus>) -> ExitCode {
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
