//! `skillhost state`: list, export and delete the state that skills keep between runs.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use skillhost_ledger::state::{StateInfo, StateStore};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// List, export and delete the state that skills keep between runs
///
/// A skill has /state if the policy grants it a size (`limits: { state: 16MiB }`). The state
/// belongs to you and to the skill in that folder only.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost state list
  skillhost state export notes ./notes-backup
  skillhost state wipe notes")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the state of all skills
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Copy the state of a skill to a new folder
    Export {
        #[command(flatten)]
        owner: Owner,
        /// The folder to create
        folder: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Delete the state of a skill
    Wipe {
        #[command(flatten)]
        owner: Owner,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Owner {
    /// The skill's name, or its key from `state list` if several skills have the name
    skill: String,
}

pub(crate) fn main(args: Args) -> Result<Exit, CliError> {
    let states = StateStore::new(Places::find()?.skill_state());
    let all = states.list().map_err(|error| CliError::io("read the state of skills", error))?;
    match args.action {
        Action::List { json: true } => output::json(&all)?,
        Action::List { json: false } => output::text(&table(&all))?,
        Action::Export { owner, folder, json } => {
            let state = owner.find(&all)?;
            export(&states, state, &folder)?;
            if json {
                output::json(state)?;
            } else {
                let folder = printable(&folder.display().to_string());
                output::text(&format!("copied {} to {folder}", extent(state)))?;
            }
        }
        Action::Wipe { owner, json } => {
            let state = owner.find(&all)?;
            let wiped = states.wipe(state);
            is_done(
                wiped.map_err(|error| CliError::io(format_args!("delete {}", state.key), error)),
                state,
            )?;
            if json {
                output::json(state)?;
            } else {
                output::text(&format!("deleted {}", extent(state)))?;
            }
        }
    }
    Ok(Exit::Ok)
}

impl Owner {
    fn find<'s>(&self, states: &'s [StateInfo]) -> Result<&'s StateInfo, CliError> {
        let Owner { skill } = self;
        let found: Vec<&StateInfo> = states
            .iter()
            .filter(|state| state.key == *skill || state.owner.skill == *skill)
            .collect();
        match found.as_slice() {
            [state] => Ok(state),
            [] => Err(CliError::usage(format!("no state of a skill `{}`", printable(skill)))
                .fix("skillhost state list")),
            several => {
                let keys: Vec<String> = several
                    .iter()
                    .map(|state| format!("{} ({})", state.key, state.owner.folder.display()))
                    .collect();
                let message = format!("several skills are named `{}`", printable(skill));
                Err(CliError::usage(message).fix(format!("use a key:\n{}", keys.join("\n"))))
            }
        }
    }
}

fn export(states: &StateStore, state: &StateInfo, folder: &Path) -> Result<(), CliError> {
    let exported = states.export(state, folder).map_err(|error| {
        let folder = folder.display();
        CliError::io(format_args!("export {} to {folder}", state.key), error)
    });
    is_done(exported, state)
}

/// Refuses if a run was using the state.
fn is_done(result: Result<bool, CliError>, state: &StateInfo) -> Result<(), CliError> {
    if result? {
        return Ok(());
    }
    Err(CliError::new(Exit::Io, format!("{} is in use by a run", state.key))
        .fix("try again when the run has ended"))
}

fn extent(state: &StateInfo) -> String {
    let entries = if state.files == 1 { "entry" } else { "entries" };
    format!("{} in {} {entries}", show_size(state.bytes), state.files)
}

fn table(states: &[StateInfo]) -> String {
    if states.is_empty() {
        return "no skill has state".into();
    }
    let rows = states.iter().map(|StateInfo { key, owner, bytes, files }| {
        let missing = if owner.folder.exists() { "" } else { " (missing)" };
        let folder = printable(&owner.folder.display().to_string());
        [
            printable(&owner.skill),
            show_size(*bytes),
            files.to_string(),
            format!("{folder}{missing}"),
            key.clone(),
        ]
    });
    output::table(["skill", "size", "entries", "folder", "key"], rows, 0..0)
}
