//! The error of a transformation.

use wasm_encoder::reencode;

/// The reason why an image cannot be transformed: it is not valid WebAssembly, or a pass does not
/// recognise its layout.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// The result of a pass.
pub(crate) type Result<T> = std::result::Result<T, Error>;
/// The result of a method of [`reencode::Reencode`].
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
