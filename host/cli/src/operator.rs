//! What only the operator may do, at a terminal or with a token.
//!
//! The token prevents accidents: an agent or a script that runs a command it should not run. It
//! does not stop a hostile process of the same user, which can read the token, open a terminal of
//! its own, or write the approvals itself. Running agents as another user does.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rand::RngExt as _;
use skillhost_skill::ownership;

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::terminal;

/// The environment variable that holds the token.
const VARIABLE: &str = "SKILLHOST_OPERATOR_TOKEN";

/// Refuses a command that neither comes from a terminal nor has the operator's token.
pub(crate) fn require(places: &Places) -> Result<(), CliError> {
    if terminal::is_interactive() {
        return Ok(());
    }
    let file = places.state.join("operator.token");
    let token = token(&file).map_err(|error| {
        CliError::io(format_args!("use the operator's token {}", file.display()), error)
    })?;
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let shown = std::env::var(VARIABLE).unwrap_or_default();
    if shown == token {
        return Ok(());
    }
    let why = if shown.is_empty() {
        "this is not a terminal".to_owned()
    } else {
        format!("this is not a terminal and ${VARIABLE} is wrong")
    };
    let message = format!("only the operator may do this, and {why}");
    Err(CliError::new(Exit::Denied, message)
        .fix(format!("run it at a terminal, or set ${VARIABLE} (docs/guide/approvals.md)")))
}

/// Who the operator is, as records name them.
pub(crate) fn name() -> String {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let name = std::env::var("USER").ok().filter(|name| !name.is_empty());
    let uid = rustix::process::getuid().as_raw();
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

/// The token of a state folder. Creates it when it is first needed.
fn token(file: &Path) -> std::io::Result<String> {
    let folder = file.parent().unwrap_or(Path::new("."));
    skillhost_skill::private::create_missing(folder)?;
    let mut new = std::fs::OpenOptions::new();
    #[expect(clippy::disallowed_methods, reason = "the host's own folder")]
    match new.write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut created) => {
            created.write_all(format!("{:032x}", rand::rng().random::<u128>()).as_bytes())?
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    #[expect(clippy::disallowed_methods, reason = "the host's own folder")]
    let mut opened = std::fs::File::open(file)?;
    let found = rustix::fs::fstat(&opened)?;
    ownership::check(file, &found).map_err(std::io::Error::other)?;
    if found.st_mode & 0o077 != 0 {
        return Err(std::io::Error::other("other users can read it; remove it to get a new one"));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    let token = text.trim();
    if token.len() < 32 {
        return Err(std::io::Error::other("it is too short; remove it to get a new one"));
    }
    Ok(token.to_owned())
}
