//! `skillhost why`: say where a fetched skill comes from.

use serde::Serialize;
use skillhost_policy::diagnostic::printable;
use skillhost_sources::lock::LockedSkill;

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;
use crate::sources::SourcesFileArg;

/// Show why a fetched skill is there: its source, its revision, its files
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost why pdf
  skillhost why pdf --json | jq -r .locked.files | sha256sum")]
pub(crate) struct Args {
    /// The skill
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: SourcesFileArg,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    /// The sources file that names it.
    file: String,
    /// Its source there.
    source: String,
    enabled: bool,
    /// Its entry in the lock file.
    locked: Option<&'a LockedSkill>,
    /// How the entry differs from what was fetched.
    mismatches: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let project = args.file.open(&Places::find()?)?;
    let (wanted, lock) = (project.wanted()?, project.locked()?);
    let Some(skill) = wanted.skills.get(&args.name) else {
        let file = project.file().display();
        let message = format!("{file} names no skill `{}`", printable(&args.name));
        return Err(CliError::usage(message).fix("skillhost list"));
    };
    let locked = lock.skills.get(&args.name);
    let mismatches = locked.map(|locked| project.check(Some(skill), locked)).unwrap_or_default();
    let report = Report {
        name: &args.name,
        file: project.file().display().to_string(),
        source: skill.source.to_string(),
        enabled: skill.enabled,
        locked,
        mismatches,
    };
    if args.json {
        output::json(&report)?;
        return Ok(Exit::Ok);
    }
    let mut lines = vec![format!("{}: named in {}", report.name, report.file)];
    lines.push(format!("  source: {}", report.source));
    if !report.enabled {
        lines.push("  disabled".to_owned());
    }
    // Others may have written the lock file.
    lines.extend(report.mismatches.iter().map(|why| format!("  not as skills.lock says: {why}")));
    match report.locked {
        None => lines.push("  not locked: skillhost sync".to_owned()),
        Some(locked) => {
            lines.push(format!("  revision: {}", locked.revision));
            if !locked.path.is_empty() {
                lines.push(format!("  folder: {}", locked.path));
            }
            lines.push(format!("  digest: {}", locked.digest));
            lines.push(format!("  requests: {}", locked.permissions.join(", ")));
            lines.push(format!(
                "  signed by: {}",
                match locked.signatures.as_slice() {
                    [] => "no trusted key".to_owned(),
                    keys => keys.join(", "),
                }
            ));
            lines.extend(locked.files.to_string().lines().map(|line| format!("  {line}")));
        }
    }
    output::text(&lines.iter().map(|line| printable(line)).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Ok)
}
