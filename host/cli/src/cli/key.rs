//! `skillhost key`: the key that signs receipts, and those that are trusted.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;
use skillhost_ledger::receipt::key::{PublicKey, SigningKey};
use skillhost_skill::private;

use super::exit::Exit;
use super::places::Places;
use super::{Failure, operator, show};

/// Makes the key that signs receipts, shows it, and says whose signatures are trusted
///
/// The key is in the configuration folder, for this user alone. Where $SKILLHOST_SIGNING_KEY is
/// set, its value is the key, in PEM: for CI.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost key new
  skillhost key show > my-key.pem
  skillhost key trust colleague.pem
  openssl genpkey -algorithm ed25519                  makes one for $SKILLHOST_SIGNING_KEY")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Makes a key, where there is none
    New,
    /// Prints the public key, to be given to those who are to trust it
    Show {
        /// Print one JSON object, with the keys that are trusted
        #[arg(long)]
        json: bool,
    },
    /// Trusts the signatures of a public key
    Trust {
        /// The file with the public key, in PEM
        file: PathBuf,
    },
}

/// The environment variable that holds a key.
const VARIABLE: &str = "SKILLHOST_SIGNING_KEY";

#[derive(Serialize)]
struct Shown {
    key: Option<Key>,
    trusted: Vec<Key>,
}

#[derive(Serialize)]
pub(super) struct Key {
    id: String,
    pem: String,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    match &args.verb {
        Verb::New => new(&places),
        Verb::Show { json: false } => {
            show::bytes(signing(&places)?.public().pem().as_bytes()).map(|()| Exit::Ok)
        }
        Verb::Show { json: true } => {
            let of = |key: &PublicKey| Key { id: key.id(), pem: key.pem() };
            let key = if has_key(&places) { Some(of(&signing(&places)?.public())) } else { None };
            show::json(&Shown { key, trusted: trusted(&places)?.iter().map(of).collect() })
                .map(|()| Exit::Ok)
        }
        Verb::Trust { file } => {
            operator::require(&places)?;
            let key = public(file)?;
            let folder = trusted_folder(&places);
            let path = folder.join(format!("{}.pem", key.id().replace(':', "-")));
            make_folder(&folder)?;
            write(&path, &key.pem(), true)?;
            show::text(&format!("the signatures of {} are trusted from now on", key.id()))
                .map(|()| Exit::Ok)
        }
    }
}

fn new(places: &Places) -> Result<Exit, Failure> {
    let path = key_file(places);
    let key = SigningKey::generate();
    // The policy lies there too, which the operator may have shown to others.
    private::create_missing(&places.config)
        .map_err(|error| failed("the folder", &places.config, &error))?;
    write(&path, &key.pem(), false)?;
    show::text(&format!("made the key {} in {}", key.public().id(), path.display()))
        .map(|()| Exit::Ok)
}

/// The key that signs: the variable's, or the file's.
pub(super) fn signing(places: &Places) -> Result<SigningKey, Failure> {
    if let Some(text) = variable() {
        return SigningKey::from_pem(&text)
            .map_err(|why| Failure::new(Exit::Usage, format!("${VARIABLE}: {why}")));
    }
    let path = key_file(places);
    let text = read_key(&path)?;
    SigningKey::from_pem(&text)
        .map_err(|why| Failure::new(Exit::Io, format!("the key {}: {why}", path.display())))
}

/// Those whose signatures count: the trusted ones, and one's own.
pub(super) fn trusted_and_own(places: &Places) -> Result<Vec<PublicKey>, Failure> {
    let mut keys = trusted(places)?;
    if has_key(places) {
        keys.push(signing(places)?.public());
    }
    Ok(keys)
}

/// A public key from a file.
pub(super) fn public(file: &Path) -> Result<PublicKey, Failure> {
    #[expect(clippy::disallowed_methods, reason = "a file that the user names")]
    let text = std::fs::read_to_string(file).map_err(|error| failed("the key", file, &error))?;
    PublicKey::from_pem(&text)
        .map_err(|why| Failure::new(Exit::Usage, format!("{}: {why}", file.display())))
}

fn trusted(places: &Places) -> Result<Vec<PublicKey>, Failure> {
    let folder = trusted_folder(places);
    #[expect(clippy::disallowed_methods, reason = "the host's own folder")]
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => {
            entries.map_err(|error| failed("the folder of trusted keys", &folder, &error))?
        }
    };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut paths = paths.map_err(|error| failed("the folder of trusted keys", &folder, &error))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pem"));
    paths.sort();
    paths.iter().map(|path| public(path)).collect()
}

fn has_key(places: &Places) -> bool {
    variable().is_some() || key_file(places).exists()
}

fn variable() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    std::env::var(VARIABLE).ok().filter(|value| !value.is_empty())
}

fn key_file(places: &Places) -> PathBuf {
    places.config.join("key.pem")
}

fn trusted_folder(places: &Places) -> PathBuf {
    places.config.join("trusted")
}

/// A key that others can read is nobody's signature.
fn read_key(path: &Path) -> Result<String, Failure> {
    let meta = path.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::new(Exit::Usage, "there is no key to sign with")
            .fix(format!("skillhost key new, or set ${VARIABLE}")),
        _ => failed("the key", path, &error),
    })?;
    let own = meta.uid() == rustix::process::geteuid().as_raw();
    if meta.mode() & 0o077 != 0 || !own {
        let path = path.display();
        return Err(Failure::new(
            Exit::Denied,
            format!("the key {path} is not this user's alone, so anyone may have signed with it"),
        )
        .fix(format!("make a new one; or, if nobody else has read it: chmod 600 {path}")));
    }
    #[expect(clippy::disallowed_methods, reason = "the host's own key")]
    std::fs::read_to_string(path).map_err(|error| failed("the key", path, &error))
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    private::open_or_create(path).map(drop).map_err(|error| failed("the folder", path, &error))
}

fn write(path: &Path, text: &str, again: bool) -> Result<(), Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600).create_new(!again).create(true).truncate(again);
    #[expect(clippy::disallowed_methods, reason = "the host's own folder")]
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::new(Exit::Usage, format!("there is a key in {}", path.display()))
                .fix("what it signed is checked with it: keep it, or move it away")
        }
        _ => failed("the key", path, &error),
    })
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("{what} {}: {error}", path.display()))
}
