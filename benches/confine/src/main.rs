//! Starts a program under Landlock rules for files and the network, and under a seccomp filter.
//!
//! `confine --seccomp FILE [--read PATH]... [--write PATH]... -- PROGRAM ARGUMENT...`
//!
//! It fails closed: if the kernel does not enforce every rule, the program does not start.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a launcher opens the paths of its arguments, starts their program and reports failures"
)]

use std::error::Error;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus,
};
use seccompiler::sock_filter;

/// The version of Landlock that added rules for TCP, in Linux 6.7.
const KNOWN: ABI = ABI::V4;

const USAGE: &str =
    "usage: confine --seccomp FILE [--read PATH]... [--write PATH]... -- PROGRAM ARGUMENT...";

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == "--version") {
        println!("confine {}, rules of Landlock's {KNOWN:?}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let error = match run(std::env::args_os().skip(1)) {
        Ok(error) => error.into(),
        Err(error) => error,
    };
    eprintln!("confine: {error}");
    ExitCode::FAILURE
}

/// Replaces this process by the confined program. Returns only if that fails.
fn run(args: impl Iterator<Item = OsString>) -> Result<std::io::Error, Box<dyn Error>> {
    let args = Args::parse(args)?;
    restrict_files(&args)?;
    let filter = std::fs::read(&args.filter);
    // Read after the rules apply, so the filter must be readable under them.
    let filter = filter.map_err(|error| format!("{}: {error}", args.filter.display()))?;
    seccompiler::apply_filter(&instructions(&filter)?)?;
    Ok(Command::new(&args.program).args(&args.rest).exec())
}

struct Args {
    filter: PathBuf,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    program: OsString,
    rest: Vec<OsString>,
}

impl Args {
    fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Args, Box<dyn Error>> {
        let (mut filter, mut read, mut write) = (None, Vec::new(), Vec::new());
        loop {
            let option = args.next().ok_or(USAGE)?;
            let value = args.next().ok_or(USAGE)?;
            match option.to_str() {
                Some("--seccomp") => filter = Some(value.into()),
                Some("--read") => read.push(value.into()),
                Some("--write") => write.push(value.into()),
                Some("--") => {
                    let (filter, rest) = (filter.ok_or(USAGE)?, args.collect());
                    return Ok(Args { filter, read, write, program: value, rest });
                }
                _ => return Err(USAGE.into()),
            }
        }
    }
}

/// Forbids all access to files and TCP, except below the listed paths. Also sets `no_new_privs`,
/// which both mechanisms require.
fn restrict_files(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .create()?;
    let readable = args.read.iter().map(|path| (path, AccessFs::from_read(KNOWN)));
    let writable = args.write.iter().map(|path| (path, AccessFs::from_all(KNOWN)));
    for (path, access) in readable.chain(writable) {
        let opened = match OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path) {
            // Some systems lack some folders, such as /lib64.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            opened => opened.map_err(|error| format!("{}: {error}", path.display()))?,
        };
        let is_folder = opened.metadata()?.is_dir();
        let access = if is_folder { access } else { access & AccessFs::from_file(KNOWN) };
        rules = rules.add_rule(PathBeneath::new(opened, access))?;
    }
    match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        status => Err(format!("the kernel does not enforce all Landlock rules: {status:?}").into()),
    }
}

/// Parses a classic BPF program (linux/filter.h): each instruction is `code, jt, jf, k`, 8 bytes.
fn instructions(bytes: &[u8]) -> Result<Vec<sock_filter>, Box<dyn Error>> {
    let (parts, rest) = bytes.as_chunks::<8>();
    if parts.is_empty() || !rest.is_empty() {
        return Err("the filter has no whole number of instructions".into());
    }
    let instruction = |&[c0, c1, jt, jf, k0, k1, k2, k3]: &[u8; 8]| sock_filter {
        code: u16::from_ne_bytes([c0, c1]),
        jt,
        jf,
        k: u32::from_ne_bytes([k0, k1, k2, k3]),
    };
    Ok(parts.iter().map(instruction).collect())
}
