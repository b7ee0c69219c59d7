//! What only the operator says: by a terminal, or by a token.
//!
//! The token stops accidents: an agent or a script that runs a command it should not. It does not
//! stop a hostile process of the same user, which can read the token, open a terminal of its own,
//! or write the approvals themselves. The boundary against those is another user.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rand::RngExt as _;
use skillhost_skill::ownership;

use super::Failure;
use super::exit::Exit;
use super::places::Places;

/// The environment variable that holds the token.
const VARIABLE: &str = "SKILLHOST_OPERATOR_TOKEN";

/// Refuses what neither a person at a terminal nor the holder of the operator's token says.
pub(super) fn require(places: &Places) -> Result<(), Failure> {
    if is_terminal() {
        return Ok(());
    }
    let file = places.state.join("operator.token");
    let token = token(&file).map_err(|error| {
        Failure::new(Exit::Io, format!("the operator's token {}: {error}", file.display()))
    })?;
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let shown = std::env::var(VARIABLE).unwrap_or_default();
    if shown == token {
        return Ok(());
    }
    let why = if shown.is_empty() {
        "this is not a terminal"
    } else {
        "this is not a terminal, and the token is not the operator's"
    };
    Err(Failure::new(Exit::Denied, format!("only the operator may say this, and {why}"))
        .fix(format!("run it at a terminal; a script of the operator's own sets ${VARIABLE} (docs/guide/approvals.md)")))
}

pub(super) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The token of this state folder, which is made when it is first needed.
fn token(file: &Path) -> std::io::Result<String> {
    let folder = file.parent().unwrap_or(Path::new("."));
    skillhost_skill::private::create_missing(folder)?;
    let mut new = std::fs::OpenOptions::new();
    #[expect(clippy::disallowed_methods, reason = "the host's own folder")]
    match new.write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut made) => {
            made.write_all(format!("{:032x}", rand::rng().random::<u128>()).as_bytes())?
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    #[expect(clippy::disallowed_methods, reason = "the host's own folder")]
    let mut opened = std::fs::File::open(file)?;
    let found = rustix::fs::fstat(&opened)?;
    ownership::check(file, &found).map_err(std::io::Error::other)?;
    if found.st_mode & 0o077 != 0 {
        return Err(std::io::Error::other("others may read it: remove it, and a new one is made"));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    let token = text.trim();
    if token.len() < 32 {
        return Err(std::io::Error::other("it is too short: remove it, and a new one is made"));
    }
    Ok(token.to_owned())
}
