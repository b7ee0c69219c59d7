//! Errors with the attempts that preceded them and a command that may help.

use std::fmt;

/// A failure that requires an action of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The operation that failed.
    pub what: String,
    /// The attempts, in order, each with its result.
    pub tried: Vec<String>,
    /// The suggested fix, preferably a command.
    pub help: Option<String>,
    /// Whether the file system failed, and not what the user asked for.
    pub is_io: bool,
}

impl Error {
    /// Creates an error without attempts or fix.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), tried: Vec::new(), help: None, is_io: false }
    }

    /// Adds a suggested fix.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Returns a function for `map_err` that produces the message `what: cause`.
    pub fn context<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |cause| Self::new(format!("{what}: {cause}"))
    }

    /// As [`Error::context`], for an error of the file system.
    pub fn io(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| {
            let cause = cause.to_string();
            // tempfile appends the temporary name, which means nothing to the user.
            let cause = cause.split(" at path \"").next().unwrap_or(&cause);
            Self { is_io: true, ..Self::new(format!("cannot write {what}: {cause}")) }
        }
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
    fn errors_of_files_do_not_name_temporary_files() {
        let missing = tempfile::tempdir().unwrap().path().join("missing");
        let error = tempfile::tempfile_in(&missing).unwrap_err();
        assert_eq!(
            Error::io("skill/SKILL.md")(error).what,
            "cannot write skill/SKILL.md: No such file or directory (os error 2)"
        );
        let error = tempfile::NamedTempFile::new_in(&missing).unwrap_err();
        assert_eq!(
            Error::io("skill/SKILL.md")(error).what,
            "cannot write skill/SKILL.md: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn message_lists_attempts_and_help() {
        let mut error = Error::new("no toolchain").help("`rustup target add x`");
        error.tried = vec!["this: failed".into(), "that: failed\nbadly\n".into()];
        assert_eq!(
            error.to_string(),
            "no toolchain\n  tried: this: failed\n  tried: that: failed\n         badly\n  help: `rustup target add x`"
        );
    }
}
