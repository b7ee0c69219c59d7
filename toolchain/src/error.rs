//! What went wrong, what was tried before, and the command that would help.

use std::fmt;

/// A failure that a person has to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What could not be done.
    pub what: String,
    /// What was tried, in order, each with how it ended.
    pub tried: Vec<String>,
    /// What would help; a command where there is one.
    pub help: Option<String>,
}

impl Error {
    /// An error without history.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), tried: Vec::new(), help: None }
    }

    /// The same with what would help.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// For `map_err`: `what: cause`.
    pub fn context<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |cause| Self::new(format!("{what}: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for tried in &self.tried {
            write!(f, "\n  tried: {}", tried.trim_end().replace('\n', "\n         "))?;
        }
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl From<crate::CommandError> for Error {
    fn from(error: crate::CommandError) -> Self {
        Self::new(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_lists_what_was_tried_and_what_would_help() {
        let mut error = Error::new("no toolchain").help("`rustup target add x`");
        error.tried = vec!["this: failed".into(), "that: failed\nbadly\n".into()];
        assert_eq!(
            error.to_string(),
            "no toolchain\n  tried: this: failed\n  tried: that: failed\n         badly\n  help: `rustup target add x`"
        );
    }
}
