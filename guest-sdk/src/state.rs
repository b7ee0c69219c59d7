//! State that a skill keeps between runs: JSON files in `/state`, if the operator's policy grants
//! it.
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
//! Runs of one skill that use its state take turns: no other run changes a file between `load` and
//! `store`.

use std::io::{Error, ErrorKind, Result};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fs;

/// The folder of the state.
pub const FOLDER: &str = "/state";

/// Loads the value stored under `name`, or the default if there is none.
///
/// # Errors
///
/// Returns [`ErrorKind::Unsupported`] if the policy does not grant `/state`,
/// [`ErrorKind::InvalidData`] if the file does not hold a `T`, and any error of reading the file.
pub async fn load<T: DeserializeOwned + Default>(name: &str) -> Result<T> {
    check_granted().await?;
    match fs::read(path(name)).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(ErrorKind::InvalidData, format!("{}: {error}", path(name)))
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

/// Stores `value` under `name`. If the run ends in between, the previous value stays.
///
/// # Errors
///
/// Returns [`ErrorKind::Unsupported`] if the policy does not grant `/state`,
/// [`ErrorKind::StorageFull`] if the quota has no room for both the previous and the new value, and
/// any error of writing the file.
pub async fn store<T: Serialize>(name: &str, value: &T) -> Result<()> {
    check_granted().await?;
    let new = format!("{}.new", path(name));
    let written = fs::write(&new, serde_json::to_vec(value)?).await;
    if let Err(error) = written {
        // An incomplete file would count against the quota.
        fs::remove_file(&new).await.ok();
        return Err(error);
    }
    fs::rename(&new, path(name)).await
}

async fn check_granted() -> Result<()> {
    if fs::exists(FOLDER).await? {
        return Ok(());
    }
    let message = "this skill has no storage for its state; the policy grants it with `limits: { state: 16MiB }` in the skill's section";
    Err(Error::new(ErrorKind::Unsupported, message))
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}
