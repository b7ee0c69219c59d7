//! `skillhost sign`: sign the files of a skill.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use skillhost::invoke::evidence;
use skillhost_ledger::receipt::envelope;
use skillhost_skill::Skill;
use skillhost_sources::signature::{self, oms};

use crate::args::skills::require_path;
use crate::commands::key;
use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// Sign the files of a skill with your keys
///
/// Writes into the skill's folder: skill.dsse.json, an in-toto statement about the digest of every
/// file in a DSSE envelope, by the key of `skillhost key new`; and skill.oms.sig, a signature of
/// OpenSSF Model Signing, by the key of `skillhost key new --p256` or by --key. Users who trust a key
/// (`skillhost key trust`) see in `skillhost why` that it signed the skill, and their policy can
/// require it. A file that is changed, added or removed afterwards makes the signatures invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost sign SKILL
  skillhost sign SKILL && skillhost pack SKILL
  skillhost sign SKILL --key key.pem --certificate chain.pem")]
pub(crate) struct Args {
    /// The skill's folder, as a path with a `/`
    skill: PathBuf,
    /// Write only skill.oms.sig, with this P-256 key in PKCS#8 PEM
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Name the certificate of the key, and those between it and its authority, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
}

impl Args {
    /// Signs one skill.
    pub(crate) fn of(skill: &Path) -> Args {
        Args { skill: skill.to_owned(), key: None, certificate: None }
    }
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    require_path(&args.skill)?;
    let places = Places::find()?;
    let (own, oms) = match &args.key {
        Some(file) => (None, Some(key::skill_key_at(file, args.certificate.as_deref())?)),
        None => {
            let oms = key::has_skill_key(&places).then(|| key::skill_key(&places)).transpose()?;
            // Without any key, the error says how to create one.
            let needs_own = oms.is_none() || key::has_key(&places);
            (needs_own.then(|| key::signing(&places)).transpose()?, oms)
        }
    };
    let skill = Skill::load(&args.skill, &Default::default())?;
    let files = evidence::listing(&skill).map_err(|why| CliError::new(Exit::Io, why))?;
    let count = output::count(files.0.len() as u64, "file");
    if let Some(key) = own {
        let statement = signature::statement(&skill.name, &files).to_string();
        let envelope = envelope::sign_statement(statement.as_bytes(), &key)
            .map_err(|why| CliError::invalid(format!("cannot sign: {why}")))?;
        let path = args.skill.join(signature::FILE);
        write(&path, &[envelope.as_slice(), b"\n"].concat())?;
        output::text(&format!("signed {count} with {}: {}", key.public().id(), path.display()))?;
    }
    match oms {
        Some(key) => {
            let bundle = key
                .sign(&skill.name, &files, &skill.left_out)
                .map_err(|why| CliError::new(Exit::Io, why))?;
            let path = args.skill.join(oms::FILE);
            write(&path, bundle.as_bytes())?;
            output::text(&format!("signed {count} with {}: {}", key.id(), path.display()))?;
        }
        None => output::note(&format!("{} was not written: skillhost key new --p256", oms::FILE)),
    }
    Ok(Exit::Ok)
}

/// Writes the signature, and never where a symlink in the skill leads.
fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    use rustix::fs::{Mode, OFlags};
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    rustix::fs::open(path, flags, mode)
        .map_err(std::io::Error::from)
        .and_then(|file| std::fs::File::from(file).write_all(bytes))
        .map_err(|error| CliError::io(format_args!("write {}", path.display()), error))
}
