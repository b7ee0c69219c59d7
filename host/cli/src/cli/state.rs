//! `skillhost state`: what skills keep from run to run.

use std::path::PathBuf;

use clap::Subcommand;
use comfy_table::{ContentArrangement, Table, presets};
use skillhost_ledger::state::{StateInfo, StateStore};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;

use super::exit::Exit;
use super::places::Places;
use super::{Failure, show};

/// Lists, exports and wipes what skills keep from run to run
///
/// A skill has /state where the policy grants it a size (`limits: { state: 16MiB }`). It is this
/// user's, and of the skill in that very folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost state list
  skillhost state export notes ./notes-backup
  skillhost state wipe notes")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists what is kept, and whose it is
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Copies what a skill keeps into a new folder
    Export {
        /// The skill's name; or, where several have it, its key as `list` shows it
        skill: String,
        /// The folder to make
        folder: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Removes what a skill keeps
    Wipe {
        /// The skill's name; or, where several have it, its key as `list` shows it
        skill: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn main(args: Args) -> Result<Exit, Failure> {
    let states = StateStore::new(Places::find()?.kept());
    let kept = states.list().map_err(|error| {
        Failure::new(Exit::Io, format!("what skills keep cannot be read: {error}"))
    })?;
    match args.verb {
        Verb::List { json: true } => show::json(&kept)?,
        Verb::List { json: false } => show::text(&table(&kept))?,
        Verb::Export { skill, folder, json } => {
            let one = of(&kept, &skill)?;
            done(
                states.export(one, &folder),
                one,
                &format!("{} cannot be exported to {}", one.key, folder.display()),
            )?;
            told(
                one,
                json,
                &format!(
                    "copied {} in {} files and folders to {}",
                    show_size(one.bytes),
                    one.files,
                    folder.display()
                ),
            )?;
        }
        Verb::Wipe { skill, json } => {
            let one = of(&kept, &skill)?;
            done(states.wipe(one), one, &format!("{} cannot be wiped", one.key))?;
            told(
                one,
                json,
                &format!("removed {} in {} files and folders", show_size(one.bytes), one.files),
            )?;
        }
    }
    Ok(Exit::Ok)
}

fn of<'k>(kept: &'k [StateInfo], skill: &str) -> Result<&'k StateInfo, Failure> {
    let found: Vec<&StateInfo> =
        kept.iter().filter(|one| one.key == skill || one.owner.skill == skill).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            Err(Failure::new(Exit::Usage, format!("no skill {} keeps anything", printable(skill)))
                .fix("skillhost state list"))
        }
        several => {
            let keys: Vec<String> = several
                .iter()
                .map(|one| format!("{} ({})", one.key, one.owner.folder.display()))
                .collect();
            Err(Failure::new(Exit::Usage, format!("several skills are named {}", printable(skill)))
                .fix(keys.join("\n")))
        }
    }
}

fn done(result: std::io::Result<bool>, kept: &StateInfo, what: &str) -> Result<(), Failure> {
    match result {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(Exit::Io, format!("a run holds {}", kept.key))
            .fix("try again when it has ended")),
        Err(error) => Err(Failure::new(Exit::Io, format!("{what}: {error}"))),
    }
}

fn told(kept: &StateInfo, json: bool, text: &str) -> Result<(), Failure> {
    if json { show::json(kept) } else { show::text(&printable(text)) }
}

fn table(kept: &[StateInfo]) -> String {
    if kept.is_empty() {
        return "nothing is kept".into();
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(show::width());
    table.set_header(["skill", "size", "files", "folder", "key"]);
    for StateInfo { key, owner, bytes, files } in kept {
        let folder = owner.folder.display().to_string();
        let gone = if owner.folder.exists() { "" } else { " (gone)" };
        table.add_row([
            printable(&owner.skill),
            show_size(*bytes),
            files.to_string(),
            format!("{}{gone}", printable(&folder)),
            key.clone(),
        ]);
    }
    table.to_string()
}
