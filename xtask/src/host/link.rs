//! A linker for the host, which places the functions that a start calls next to each other: they
//! then lie in a few pages of the program rather than in one of each of its corners. It links as
//! rustc asks, runs that, and links again in the order that it saw.

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

/// What this program is called by where rustc runs it as its linker.
const NAME: &str = "link-in-order";

/// How rustc says that the program is to have no symbols.
const STRIP: &str = "-Wl,--strip-all";

/// What is run. Of functions that several call, the first one has the say. A server, whose input
/// ends at once, since it is to be small while it waits: each part of the program that it touches
/// may be mapped in a piece of 2 MiB.
const STARTS: [&[&str]; 5] = [
    &["run", "skills/calculator", "--", "2+2"],
    &["run", "benches/hello", "scripts/hello.py"],
    &["run", "benches/hello", "scripts/imports.py"],
    &["run", "benches/hello", "scripts/hello.sh"],
    &["mcp"],
];

/// Whether this process was started as a linker.
pub(crate) fn is_asked() -> bool {
    std::env::args_os()
        .next()
        .is_some_and(|name| Path::new(&name).file_name() == Some(OsStr::new(NAME)))
}

/// A name of this program that makes it a linker.
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

/// Links. Where the order cannot be found out, or the linker takes none, the program is linked as
/// ever.
pub(crate) fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let plain = || exit(&cc(&args).status());
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
    let ordered = order_of(&program).and_then(|names| {
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
            drop(writeln!(std::io::stderr(), "the functions of a start are in no order: {error}"));
            plain()
        }
    }
}

/// The functions that starts call. What is not built here is not run: a start of the rest is
/// shorter all the same.
fn order_of(program: &Path) -> Result<Vec<String>, Error> {
    let root = workspace::root();
    let home = root.join("target/link/home");
    let (mut order, mut said) = (Vec::<String>::new(), String::new());
    for args in STARTS {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&root)
            .env_clear()
            .env("HOME", &home)
            .env("SKILLHOST_PROGRAMS", root.join("target/components"));
        // Once before, so that what it runs is compiled.
        let done =
            command.stdin(Stdio::null()).output().map_err(Error::context(program.display()))?;
        if done.status.success() {
            order.extend(calls::called(program, &command)?);
        } else {
            said = String::from_utf8_lossy(&done.stderr).into_owned();
        }
    }
    let mut placed = BTreeSet::new();
    order.retain(|name| placed.insert(name.clone()));
    if order.is_empty() { Err(Error::new(said.trim())) } else { Ok(order) }
}

fn cc(args: &[OsString]) -> Command {
    let mut cc = Command::new("cc");
    cc.args(args);
    cc
}

fn exit(status: &std::io::Result<std::process::ExitStatus>) -> ExitCode {
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
