//! What a skill keeps from run to run: JSON files in `/state`, which is there where the operator's
//! policy grants it.
//!
//! ```no_run
//! use skillhost_guest::state;
//!
//! # async fn example() -> std::io::Result<()> {
//! let mut seen: Vec<String> = state::load("seen.json").await?;
//! seen.push("this run".to_owned());
//! state::store("seen.json", &seen).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The host lets runs of one skill take turns, so that what was loaded is still so when it is
//! stored.

use std::io::{Error, ErrorKind, Result};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fs;

/// Where it is.
pub const FOLDER: &str = "/state";

/// What was stored under a name; the default where nothing was.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`] where the policy grants no `/state`; [`ErrorKind::InvalidData`] where
/// the file is not what is expected; else the file's own.
pub async fn load<T: DeserializeOwned + Default>(name: &str) -> Result<T> {
    granted().await?;
    match fs::read(path(name)).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(ErrorKind::InvalidData, format!("{}: {error}", path(name)))
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

/// Stores a value under a name: whole or not at all, whatever ends the run.
///
/// # Errors
///
/// As [`load`]; [`ErrorKind::StorageFull`] where the quota has no room for it beside the one
/// before.
pub async fn store<T: Serialize>(name: &str, value: &T) -> Result<()> {
    granted().await?;
    let new = format!("{}.new", path(name));
    let written = fs::write(&new, serde_json::to_vec(value)?).await;
    if let Err(error) = written {
        // Half of it would take up the quota.
        fs::remove_file(&new).await.ok();
        return Err(error);
    }
    fs::rename(&new, path(name)).await
}

async fn granted() -> Result<()> {
    if fs::exists(FOLDER).await? {
        return Ok(());
    }
    let message = "this skill keeps nothing here until the policy grants it a size, such as `limits: { state: 16MiB }` in its section";
    Err(Error::new(ErrorKind::Unsupported, message))
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}
