//! Attempts to see what belongs to the host: variables, paths, programs, standard input.

use skillhost_guest::process::{Command, Error};

use crate::bindings::{new, old};
use crate::files::{BOTH, preopens};
use crate::report::Report;

/// Looks for the host's environment. Arguments: texts that must not appear anywhere, each written
/// backwards so that the arguments do not contain it.
pub(crate) async fn environment(args: &[String]) -> Report {
    let mut report = Report::default();
    let secrets: Vec<String> = args.iter().map(|word| word.chars().rev().collect()).collect();
    let (new_vars, old_vars) = (
        new::wasi::cli::environment::get_environment(),
        old::wasi::cli::environment::get_environment(),
    );
    if new_vars != old_vars {
        report.escape(format!("WASI 0.3 shows {new_vars:?}, 0.2 {old_vars:?}"));
    }
    let mut seen: Vec<(String, String)> = new_vars;
    seen.extend(
        new::wasi::cli::environment::get_arguments().into_iter().map(|a| ("argument".into(), a)),
    );
    seen.extend(
        new::wasi::cli::environment::get_initial_cwd().map(|cwd| ("working directory".into(), cwd)),
    );
    seen.extend(
        old::wasi::cli::environment::initial_cwd().map(|cwd| ("working directory".into(), cwd)),
    );
    for wasi in BOTH {
        seen.extend(preopens(wasi).into_iter().map(|(_, name)| ("folder".into(), name)));
    }
    for (name, value) in &seen {
        for secret in &secrets {
            if name.contains(secret) || value.contains(secret) {
                report.escape(format!("{name}={value}"));
            }
        }
        report.answer(format!("{name}={value}"));
    }
    for name in
        ["USER", "SHELL", "CARGO_HOME", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD"]
    {
        if let Some((_, value)) = seen.iter().find(|(known, _)| known == name) {
            report.escape(format!("{name}={value}"));
        }
    }
    report
}

/// Starts the host's programs, by name and by path, with and without a grant for programs.
pub(crate) async fn programs(_: &[String]) -> Report {
    let mut report = Report::default();
    for program in [
        "sh",
        "/bin/sh",
        "bash",
        "/usr/bin/env",
        "../../../bin/sh",
        "cat",
        "./hostile.wasm; sh",
        "",
        "/proc/self/exe",
        "hostile\0",
    ] {
        let started = Command::new(program).args(["-c", "echo out of the sandbox"]).output().await;
        report.must_fail(format!("start {program:?}"), started.map_err(kind));
    }
    report
}

/// Returns the kind of an error. The message is left out, because it names programs.
fn kind(error: Error) -> &'static str {
    match error {
        Error::NotFound(_) => "not found",
        Error::Denied(_) => "denied",
        Error::Limit(_) => "limit",
        Error::Trapped(_) => "trapped",
        Error::Closed => "closed",
    }
}
