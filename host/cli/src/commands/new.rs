//! `skillhost new`: create a skill that builds, checks, passes its tests and runs at once.

use std::path::PathBuf;

use clap::ValueEnum;
use skillhost_toolchain::{new, sdk};

use skillhost_policy::diagnostic::quoted;
use skillhost_policy::manifest::{abbreviate, suggested_name};

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// Create a skill that is ready to check, test and run
///
/// The skill counts words, in a script in Python, JavaScript, TypeScript or bash or in a typed tool, and
/// has test cases for `skillhost test`. A skill in Rust is built first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost new word-count-py --lang python
  skillhost test ./word-count-py
  skillhost new word-count-js --lang javascript
  skillhost new word-count
  skillhost build word-count
  skillhost run ./word-count count --input '{\"text\": \"to be or not to be\"}'")]
pub(crate) struct Args {
    /// The skill's name: 1 to 64 characters from a-z, 0-9 and single hyphens between them
    name: String,
    /// The language: scripts in Python, JavaScript, TypeScript or bash, or typed tools in Rust
    #[arg(long, value_enum, default_value = "rust")]
    lang: Lang,
    /// Create the skill in this folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lang {
    Python,
    #[value(name = "javascript")]
    JavaScript,
    #[value(name = "typescript")]
    TypeScript,
    Bash,
    Rust,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let valid = suggested_name(&args.name);
    if valid != args.name {
        let invalid = abbreviate(&args.name);
        return Err(CliError::usage(format!("invalid skill name `{invalid}`; try `{valid}`")));
    }
    let folder = match args.lang {
        Lang::Python => new::python(&args.name, &args.path)?,
        Lang::JavaScript => new::javascript(&args.name, &args.path)?,
        Lang::TypeScript => new::typescript(&args.name, &args.path)?,
        Lang::Bash => new::bash(&args.name, &args.path)?,
        Lang::Rust => {
            let sdk = sdk::unpack(&Places::find()?.cache)?;
            new::rust(&args.name, &args.path, &sdk)?
        }
    };
    let folder = quoted(&folder.to_string_lossy());
    let (build, run) = match args.lang {
        Lang::Python | Lang::JavaScript | Lang::TypeScript | Lang::Bash => {
            (String::new(), format!("echo 'to be or not to be' | skillhost run {folder}"))
        }
        Lang::Rust => (
            format!("  skillhost build {folder}\n"),
            format!("skillhost run {folder} count --input '{{\"text\": \"to be\"}}'"),
        ),
    };
    output::text(&format!(
        "created {folder}\n\n{build}  skillhost check {folder}\n  skillhost test {folder}\n  {run}"
    ))?;
    Ok(Exit::Ok)
}
