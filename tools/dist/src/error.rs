//! The one error of this program: what failed, and where.

use std::fmt::Display;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error(message.into())
    }

    /// Returns a function that names what an error is about.
    pub(crate) fn at<E: Display>(what: impl Display) -> impl FnOnce(E) -> Error {
        move |error| Error(format!("{what}: {error}"))
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(Error::at(path.display()))
}

pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(Error::at(path.display()))
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).map_err(Error::at(path.display()))
}
