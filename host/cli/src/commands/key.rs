//! `skillhost key`: the key that signs receipts, and the keys that are trusted.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;
use skillhost::invoke::evidence::{self, InvalidKey};
use skillhost_ledger::receipt::envelope::{self, SignatureError, SignedStatement};
use skillhost_ledger::receipt::key::{PublicKey, SigningKey};
use skillhost_skill::private;
use skillhost_skill::runtime::stamp::file_digest;
use skillhost_sources::signature::{Material, SkillKey, Trust};

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::{operator, output};

/// Create and show the keys that sign, trust the keys of others, and verify releases
///
/// One key signs receipts and skills. A second one, `--p256`, signs skills for verifiers of OpenSSF
/// Model Signing, which do not accept keys of the first kind. Both are in the configuration folder,
/// where only you can read them. In CI, set $SKILLHOST_SIGNING_KEY to a key in PEM instead of the
/// first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost key new
  skillhost key show > my-key.pem
  skillhost key new --p256                            for `skillhost sign`
  skillhost key show --p256 > my-skill-key.pem
  skillhost key trust colleague.pem
  skillhost key trust ~/.ssh/colleague.pub            signatures of Git tags and commits
  skillhost key verify provenance.intoto.json skillhost.tar.zst --key release.pem
  openssl genpkey -algorithm ed25519                  prints a key for $SKILLHOST_SIGNING_KEY")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a signing key
    New {
        /// Create the key for OpenSSF Model Signing, of the kind P-256
        #[arg(long)]
        p256: bool,
    },
    /// Print the public key, so that others can trust it
    Show {
        /// Print the key for OpenSSF Model Signing
        #[arg(long, conflicts_with = "json")]
        p256: bool,
        /// Print one JSON object, with the trusted keys
        #[arg(long)]
        json: bool,
    },
    /// Sign an in-toto statement, and print it in a DSSE envelope
    Sign {
        /// The file of the statement
        file: PathBuf,
        /// Sign the bytes of any file, and print the 64 bytes of the signature
        #[arg(long)]
        detached: bool,
    },
    /// Verify a signed statement, and that files are what it is about
    ///
    /// The key must be trusted, or named with --key. Exits with 1 if it is not, or if a file has
    /// another digest than the statement says.
    Verify {
        /// The file of the statement, in a DSSE envelope
        statement: PathBuf,
        /// Files that the statement must be about, by their names
        files: Vec<PathBuf>,
        /// Accept the signature of this public key
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Trust the signatures of a public key, or of certificates of an authority
    ///
    /// FILE is a public key or the certificate of an authority in PEM, an SSH key (`.pub`), or the
    /// trusted root of your own instance of sigstore, which replaces the built-in one. Signatures of
    /// skills by any of them are shown; a policy says which of them it requires.
    Trust {
        /// The file
        file: PathBuf,
    },
}

/// The environment variable that may contain the signing key.
const VARIABLE: &str = "SKILLHOST_SIGNING_KEY";

/// Output of `show --json`.
#[derive(Serialize)]
struct Report {
    key: Option<Key>,
    trusted: Vec<Key>,
}

#[derive(Serialize)]
struct Key {
    id: String,
    pem: String,
}

impl Key {
    fn of(key: &PublicKey) -> Key {
        Key { id: key.id(), pem: key.pem() }
    }
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let places = Places::find()?;
    match &args.action {
        Action::New { p256: false } => new(&places)?,
        Action::New { p256: true } => new_p256(&places)?,
        Action::Show { p256: true, .. } => {
            output::bytes(skill_key(&places)?.public_pem().as_bytes())?
        }
        Action::Show { json: false, .. } => {
            output::bytes(signing(&places)?.public().pem().as_bytes())?
        }
        Action::Show { json: true, .. } => {
            let key =
                if has_key(&places) { Some(Key::of(&signing(&places)?.public())) } else { None };
            output::json(&Report {
                key,
                trusted: trusted(&places)?.iter().map(Key::of).collect(),
            })?;
        }
        Action::Sign { file, detached } => sign(&places, file, *detached)?,
        Action::Verify { statement, files, key } => {
            return verify(&places, statement, files, key.as_deref());
        }
        Action::Trust { file } => {
            operator::require(&places)?;
            trust(file, &places)?;
        }
    }
    Ok(Exit::Ok)
}

fn new(places: &Places) -> Result<(), CliError> {
    let path = key_file(places);
    let key = SigningKey::generate();
    // The operator may share this folder, which also has the policy; the key itself is private.
    private::create_missing(&places.config)
        .map_err(|error| cannot("create the folder", &places.config, &error))?;
    write(&path, &key.pem(), false)?;
    output::text(&format!("created the key {} in {}", key.public().id(), path.display()))
}

fn new_p256(places: &Places) -> Result<(), CliError> {
    let path = skill_key_file(places);
    let key = SkillKey::generate().map_err(|why| CliError::new(Exit::Io, why))?;
    private::create_missing(&places.config)
        .map_err(|error| cannot("create the folder", &places.config, &error))?;
    write(&path, key.private_pem(), false)?;
    output::text(&format!("created the key {} in {}", key.id(), path.display()))
}

fn sign(places: &Places, file: &Path, detached: bool) -> Result<(), CliError> {
    let (bytes, key) = (read(file)?, signing(places)?);
    if detached {
        return output::bytes(&key.sign(&bytes));
    }
    let signed = envelope::sign_statement(&bytes, &key)
        .map_err(|why| CliError::usage(format!("{}: {why}", file.display())))?;
    output::bytes(&[signed.as_slice(), b"\n"].concat())
}

fn verify(
    places: &Places,
    statement: &Path,
    files: &[PathBuf],
    key: Option<&Path>,
) -> Result<Exit, CliError> {
    let mut trusted = trusted_and_own(places)?;
    trusted.extend(key.map(public).transpose()?);
    let failed = |message: String| Err(CliError::new(Exit::Findings, message));
    let signed = match SignedStatement::read(&read(statement)?) {
        Ok(signed) => signed,
        Err(why) => return failed(format!("{}: {why}", statement.display())),
    };
    let signer = match signed.signer(&trusted) {
        Ok(signer) => signer,
        Err(why) => {
            let why = match why {
                SignatureError::Unsigned => "it is not signed".to_owned(),
                SignatureError::Mismatch(key) => {
                    format!("the signature by {key} does not match the statement")
                }
                SignatureError::Untrusted(key) => {
                    format!("it is signed by {key}, which is not a trusted key")
                }
            };
            let error = format!("{}: {why}", statement.display());
            return Err(CliError::new(Exit::Findings, error)
                .fix("name the key of the signer: `--key FILE`, or `skillhost key trust FILE`"));
        }
    };
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let digest = format!("sha256:{}", digest_of(file)?);
        match signed.subjects.get(name.as_ref()) {
            None => return failed(format!("the statement does not name {name}")),
            Some(hex) if digest.strip_prefix("sha256:") == Some(hex) => {}
            Some(hex) => {
                let path = file.display();
                return failed(format!(
                    "{path} was altered: its digest is {digest}, and the statement says sha256:{hex}"
                ));
            }
        }
    }
    let (kind, subjects) = (&signed.predicate_type, signed.subjects.len() as u64);
    output::text(&format!(
        "OK: {kind} for {}, {} checked, signed by {signer}",
        output::count(subjects, "file"),
        files.len()
    ))?;
    Ok(Exit::Ok)
}

/// The most that is read of a statement, in bytes. A bill of materials takes some 300 KiB.
const STATEMENT_MAX: u64 = 16 << 20;

/// Reads a file, which must not be larger than a statement may be.
fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let file = open(path)?;
    let read = file.take(STATEMENT_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| cannot("read", path, &error))?;
    match bytes.len() as u64 <= STATEMENT_MAX {
        true => Ok(bytes),
        false => Err(CliError::usage(format!("{} is larger than 16 MiB", path.display()))),
    }
}

/// Computes the SHA-256 of a file of any size, in hex digits.
fn digest_of(path: &Path) -> Result<String, CliError> {
    file_digest(&open(path)?).map_err(|error| cannot("read", path, &error))
}

fn open(path: &Path) -> Result<File, CliError> {
    #[expect(clippy::disallowed_methods, reason = "a file that the operator names")]
    File::open(path).map_err(|error| cannot("read", path, &error))
}

fn trust(file: &Path, places: &Places) -> Result<(), CliError> {
    let text = String::from_utf8(read(file)?).unwrap_or_default();
    match PublicKey::from_pem(&text) {
        Ok(key) => trust_key(&key, places),
        Err(_) => trust_for_skills(file, &text, places),
    }
}

/// Trusts what signs only skills.
fn trust_for_skills(file: &Path, text: &str, places: &Places) -> Result<(), CliError> {
    let material = Trust::default()
        .add(text)
        .map_err(|why| CliError::usage(format!("{}: {why}", file.display())))?;
    let (name, message) = match &material {
        Material::Key(id) => (format!("{id}.pem"), format!("signatures of {id} are now trusted")),
        Material::Authority(id) => {
            (format!("{id}.pem"), format!("certificates of the authority {id} are now trusted"))
        }
        Material::Ssh(id) => (format!("{id}.pub"), format!("signatures of {id} are now trusted")),
        Material::Root => (
            "trusted_root.json".to_owned(),
            "keyless signatures are now verified with this trusted root".to_owned(),
        ),
    };
    let folder = trusted_folder(places).join(SKILLS);
    private::open_or_create(&folder)
        .map_err(|error| cannot("create the folder", &folder, &error))?;
    write(&folder.join(name.replace([':', '/'], "-")), text, true)?;
    output::text(&message)
}

fn trust_key(key: &PublicKey, places: &Places) -> Result<(), CliError> {
    let folder = trusted_folder(places);
    private::open_or_create(&folder)
        .map_err(|error| cannot("create the folder", &folder, &error))?;
    write(&folder.join(format!("{}.pem", key.id().replace(':', "-"))), &key.pem(), true)?;
    output::text(&format!("signatures of {} are now trusted", key.id()))
}

/// The signing key: that of the variable, else that of the file.
pub(crate) fn signing(places: &Places) -> Result<SigningKey, CliError> {
    if let Some(text) = variable() {
        return SigningKey::from_pem(&text)
            .map_err(|why| CliError::usage(format!("${VARIABLE}: {why}")));
    }
    let path = key_file(places);
    SigningKey::from_pem(&read_key(&path)?)
        .map_err(|why| CliError::new(Exit::Io, format!("the key {}: {why}", path.display())))
}

/// The keys whose signatures are trusted, the operator's own included.
pub(crate) fn trusted_and_own(places: &Places) -> Result<Vec<PublicKey>, CliError> {
    let mut keys = trusted(places)?;
    if has_key(places) {
        keys.push(signing(places)?.public());
    }
    Ok(keys)
}

/// Whose signatures of skills count: the trusted keys, the operator's own included.
pub(crate) fn skill_trust(places: &Places) -> Result<Trust, CliError> {
    let keys = trusted_and_own(places)?.into_iter();
    let mut texts: Vec<(PathBuf, String)> =
        keys.map(|key| (trusted_folder(places), key.pem())).collect();
    if skill_key_file(places).exists() {
        texts.push((skill_key_file(places), skill_key(places)?.public_pem()));
    }
    for path in files_in(&trusted_folder(places).join(SKILLS))? {
        let text = String::from_utf8(read(&path)?).unwrap_or_default();
        texts.push((path, text));
    }
    evidence::trust(texts.iter().map(|(_, text)| text.as_str())).map_err(
        |InvalidKey { at, why }| {
            let path =
                texts.get(at).map(|(path, _)| path.display().to_string()).unwrap_or_default();
            CliError::new(Exit::Io, format!("{path}: {why}"))
        },
    )
}

/// The key for OpenSSF Model Signing.
pub(crate) fn skill_key(places: &Places) -> Result<SkillKey, CliError> {
    let path = skill_key_file(places);
    SkillKey::from_pem(&read_key(&path)?)
        .map_err(|why| CliError::new(Exit::Io, format!("the key {}: {why}", path.display())))
}

/// Reads a private key that the operator names, for OpenSSF Model Signing.
pub(crate) fn skill_key_at(path: &Path, chain: Option<&Path>) -> Result<SkillKey, CliError> {
    let invalid = |path: &Path, why: String| CliError::usage(format!("{}: {why}", path.display()));
    if !path.exists() {
        return Err(invalid(path, "there is no such file".to_owned()));
    }
    let key = SkillKey::from_pem(&read_key(path)?).map_err(|why| invalid(path, why))?;
    match chain {
        None => Ok(key),
        Some(file) => {
            let text = String::from_utf8(read(file)?).unwrap_or_default();
            key.with_chain(&text).map_err(|why| invalid(file, why))
        }
    }
}

/// Reads a public key from a file.
pub(crate) fn public(file: &Path) -> Result<PublicKey, CliError> {
    #[expect(clippy::disallowed_methods, reason = "a file that the operator names")]
    let text =
        std::fs::read_to_string(file).map_err(|error| cannot("read the key", file, &error))?;
    PublicKey::from_pem(&text).map_err(|why| CliError::usage(format!("{}: {why}", file.display())))
}

fn trusted(places: &Places) -> Result<Vec<PublicKey>, CliError> {
    let mut paths = files_in(&trusted_folder(places))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pem"));
    paths.iter().map(|path| public(path)).collect()
}

/// The files of a folder, which may be missing.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    #[expect(clippy::disallowed_methods, reason = "the host's own folder")]
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| cannot("read the trusted keys in", folder, &error))?,
    };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut paths = paths.map_err(|error| cannot("read the trusted keys in", folder, &error))?;
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

pub(crate) fn has_key(places: &Places) -> bool {
    variable().is_some() || key_file(places).exists()
}

fn variable() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    std::env::var(VARIABLE).ok().filter(|value| !value.is_empty())
}

fn key_file(places: &Places) -> PathBuf {
    places.config.join("key.pem")
}

pub(crate) fn has_skill_key(places: &Places) -> bool {
    skill_key_file(places).exists()
}

fn skill_key_file(places: &Places) -> PathBuf {
    places.config.join("key-p256.pem")
}

/// The folder of the trusted keys that sign only skills.
const SKILLS: &str = "skills";

fn trusted_folder(places: &Places) -> PathBuf {
    places.config.join("trusted")
}

/// Reads the signing key. Refuses one that other users can read: any of them could have signed.
fn read_key(path: &Path) -> Result<String, CliError> {
    let meta = path.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => CliError::usage("there is no signing key")
            .fix(format!("create one with `skillhost key new`, or set ${VARIABLE}")),
        _ => cannot("read the key", path, &error),
    })?;
    let is_own = meta.uid() == rustix::process::geteuid().as_raw();
    if meta.mode() & 0o077 != 0 || !is_own {
        let path = path.display();
        let message =
            format!("other users can read the key {path}, so they may have signed with it");
        return Err(CliError::new(Exit::Denied, message).fix(format!(
            "create a new one; or, if you are sure that nobody has read it: chmod 600 {path}"
        )));
    }
    #[expect(clippy::disallowed_methods, reason = "the host's own key")]
    std::fs::read_to_string(path).map_err(|error| cannot("read the key", path, &error))
}

fn write(path: &Path, text: &str, replace: bool) -> Result<(), CliError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600).create_new(!replace).create(true).truncate(replace);
    #[expect(clippy::disallowed_methods, reason = "the host's own folder")]
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            CliError::usage(format!("a signing key already exists at {}", path.display()))
                .fix("move it away first, and keep it: it is needed to verify its signatures")
        }
        _ => cannot("write the key", path, &error),
    })
}

fn cannot(action: &str, path: &Path, error: &std::io::Error) -> CliError {
    CliError::io(format_args!("{action} {}", path.display()), error)
}
