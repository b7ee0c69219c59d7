//! Why an image cannot be transformed.

use wasm_encoder::reencode;

/// Why an image cannot be transformed: it is not valid WebAssembly, or not laid out as a pass
/// expects.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// What a pass returns.
pub(crate) type Result<T> = std::result::Result<T, Error>;
/// What a method of [`reencode::Reencode`] returns.
pub(crate) type Reencoded<T> = std::result::Result<T, reencode::Error<Error>>;

impl Error {
    pub(crate) fn new(message: impl std::fmt::Display) -> Self {
        Self(message.to_string())
    }
}

impl From<wasmparser::Error> for Error {
    fn from(error: wasmparser::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<reencode::Error<Error>> for Error {
    fn from(error: reencode::Error<Error>) -> Self {
        match error {
            reencode::Error::UserError(error) => error,
            other => Self(other.to_string()),
        }
    }
}

impl From<Error> for reencode::Error<Error> {
    fn from(error: Error) -> Self {
        Self::UserError(error)
    }
}
