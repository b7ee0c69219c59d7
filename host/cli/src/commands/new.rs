//! `skillhost new`: create a skill that builds, checks and runs at once.

use std::path::PathBuf;

use clap::ValueEnum;
use skillhost_toolchain::{new, sdk};

use skillhost_policy::diagnostic::quoted;
use skillhost_policy::manifest::{abbreviate, suggested_name};

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// Create a skill that is ready to build, check and run
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost new word-count
  skillhost build word-count
  skillhost run ./word-count count --input '{\"text\": \"to be or not to be\"}'")]
pub(crate) struct Args {
    /// The skill's name: 1 to 64 characters from a-z, 0-9 and single hyphens between them
    name: String,
    /// The language
    #[arg(long, value_enum, default_value = "rust")]
    lang: Lang,
    /// Create the skill in this folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lang {
    Rust,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let Lang::Rust = args.lang;
    let valid = suggested_name(&args.name);
    if valid != args.name {
        let invalid = abbreviate(&args.name);
        return Err(CliError::usage(format!("invalid skill name `{invalid}`; try `{valid}`")));
    }
    let sdk = sdk::unpack(&Places::find()?.cache)?;
    let folder = new::rust(&args.name, &args.path, &sdk)?;
    let folder = quoted(&folder.to_string_lossy());
    output::text(&format!(
        "created {folder}\n\n  skillhost build {folder}\n  skillhost check {folder}\n  \
         skillhost run {folder} count --input '{{\"text\": \"to be\"}}'"
    ))?;
    Ok(Exit::Ok)
}
