//! `skillhost new`: a skill that builds, checks and runs at once.

use std::path::PathBuf;

use clap::ValueEnum;
use skillhost_toolchain::{Error, new, sdk};

use super::exit::Exit;
use super::places::Places;
use super::{Failure, show};

/// Makes a new skill that builds, checks and runs as it is
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost new word-count
  skillhost build word-count
  skillhost run ./word-count count --input '{\"text\": \"to be or not to be\"}'")]
pub(crate) struct Args {
    /// The skill's name: 1 to 64 characters of a-z, 0-9 and single hyphens between them
    name: String,
    /// The language
    #[arg(long, value_enum, default_value = "rust")]
    lang: Lang,
    /// The folder to make it in
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lang {
    Rust,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let Lang::Rust = args.lang;
    let sdk = sdk::unpack(&Places::find()?.cache).map_err(failure)?;
    let made = new::rust(&args.name, &args.path, &sdk).map_err(failure)?;
    let made = made.display();
    show::text(&format!(
        "made {made}\n\n  skillhost build {made}\n  skillhost check {made}\n  skillhost run {made} count --input '{{\"text\": \"to be\"}}'"
    ))?;
    Ok(Exit::Ok)
}

/// An error of the toolchain, as a message.
pub(super) fn failure(error: Error) -> Failure {
    let tried = error
        .tried
        .iter()
        .map(|tried| format!("\n  tried: {}", tried.trim_end().replace('\n', "\n         ")))
        .collect::<String>();
    let failure = Failure::new(Exit::Invalid, format!("{}{tried}", error.what));
    match error.help {
        Some(help) => failure.fix(help),
        None => failure,
    }
}
