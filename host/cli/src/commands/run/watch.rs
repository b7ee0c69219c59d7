//! `run --watch`: runs again when a file of the skill or of the workspace changes.
//!
//! Each run is a process of its own, started with the same arguments, so that it cannot differ from
//! one without `--watch`. Files are polled: inotify would need a watch for each folder, and a
//! workspace may have more than a user may watch.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::Args;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output;

/// How often the files are looked at. A change counts once two looks in a row agree.
const INTERVAL: Duration = Duration::from_millis(300);

/// The most files that are looked at: a look takes well below a second.
const FILES_MAX: usize = 20_000;

/// The files of the folders, with their sizes and times, in order.
type Look = Vec<(PathBuf, u64, Option<SystemTime>)>;

pub(super) fn watch(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_permissions(&args.permissions)?;
    let skill = args.skills.resolve(&args.skill, &context)?.folder().to_owned();
    let folders: Vec<&Path> = [Some(skill.as_path()), args.permissions.workspace_folder()]
        .into_iter()
        .flatten()
        .collect();
    loop {
        run_once()?;
        // Taken after the run, which may have written to the workspace.
        let seen = look(&folders)?;
        output::note("waiting for a change; Ctrl-C ends");
        let mut last = seen.clone();
        loop {
            std::thread::sleep(INTERVAL);
            let now = look(&folders)?;
            if now == last && now != seen {
                break;
            }
            last = now;
        }
    }
}

/// Runs this command without `--watch`. How the run ends is for the operator to see.
fn run_once() -> Result<(), CliError> {
    let executable =
        std::env::current_exe().map_err(|error| CliError::io("find this executable", error))?;
    let mut for_skill = false;
    let words = std::env::args_os().skip(1).filter(|word| {
        for_skill |= word == "--";
        for_skill || word != "--watch"
    });
    #[expect(clippy::disallowed_methods, reason = "this executable")]
    let mut command = Command::new(executable);
    let ended = command.args(words).status();
    ended.map(drop).map_err(|error| CliError::io("start the run", error))
}

fn look(folders: &[&Path]) -> Result<Look, CliError> {
    let mut found = Look::new();
    let mut todo: Vec<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    while let Some(folder) = todo.pop() {
        #[expect(clippy::disallowed_methods, reason = "folders that the operator named")]
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            // Symlinks are not followed.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                todo.push(entry.path());
            }
            found.push((entry.path(), metadata.len(), metadata.modified().ok()));
        }
        if found.len() > FILES_MAX {
            let message = format!("--watch looks at {FILES_MAX} files at most");
            return Err(CliError::usage(message).fix("mount a smaller folder: --workspace DIR"));
        }
    }
    found.sort();
    Ok(found)
}
