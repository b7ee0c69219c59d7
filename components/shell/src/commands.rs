//! Commands that bashkit lacks or implements in a way that scripts cannot use.

mod bc;
mod df;
mod diff;
mod git;
mod gzip;
mod ls;
pub(crate) mod options;
mod realpath;
mod sqlite;
mod unzip;
mod zip;

use std::path::PathBuf;

use bashkit::{BashBuilder, CommandContext, CommandStatus, Error, Result};

use crate::program::OwnStreams;

/// Adds the commands to the interpreter.
pub(crate) fn add(builder: BashBuilder, own: &OwnStreams) -> BashBuilder {
    builder
        .command("bc", bc::Bc)
        .command("df", df::Df)
        .command("diff", diff::Diff)
        .command("git", git::Git)
        .command("ls", ls::Ls)
        .command("realpath", realpath::Realpath)
        .command("zcat", gzip::Zcat)
        .command("zip", zip::Zip)
        .command("unzip", unzip::Unzip)
        .command("sqlite3", sqlite::Sqlite { own: own.clone() })
}

/// Makes a path of the command line absolute.
fn absolute(context: &CommandContext<'_>, path: &str) -> PathBuf {
    context.cwd.join(path)
}

/// Returns libc's text for an error of the file system.
fn reason(error: &Error) -> String {
    match error {
        Error::Io(io) => io.to_string(),
        other => other.to_string(),
    }
}

/// Writes a message to stderr and returns the exit code.
async fn fail(context: &CommandContext<'_>, message: &str, code: i32) -> Result<CommandStatus> {
    context.stderr.write_all(message.as_bytes()).await?;
    Ok(CommandStatus::with_code(code))
}

/// Reads all of standard input.
async fn standard_input(context: &CommandContext<'_>) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(bytes) = context.stdin.read_chunk().await? {
        all.extend(bytes);
    }
    Ok(all)
}
