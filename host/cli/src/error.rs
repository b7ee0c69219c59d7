//! Why a command fails. Every error of the libraries becomes a [`CliError`] here: a message, a fix
//! and an exit code.

use std::fmt::Display;
use std::process::ExitCode;

use rustix::io::Errno;
use serde::Serialize;
use skillhost::invoke::RunError;
use skillhost_catalog::CatalogError;
use skillhost_ledger::approval::ApprovalError;
use skillhost_ledger::audit::AuditError;
use skillhost_ledger::usage::UsageError;
use skillhost_policy::diagnostic::Diagnostic;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;
use skillhost_policy::refusal::Refusal;
use skillhost_sandbox::files::ApplyError;
use skillhost_sandbox::recording::folder::RecordingError;
use skillhost_skill::SkillError;
use skillhost_skill::mount::MountError;
use skillhost_skill::runtime::built_in::ProgramError;
use skillhost_sources::error::SourceError;

/// Why a command ends early.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) fix: Option<String>,
    /// What is wrong with a file, and the text of that file. Printed before the message.
    pub(crate) findings: Option<Box<(Vec<Diagnostic>, String)>>,
    /// The error's own fields for `--json`, if it has any.
    pub(crate) details: Option<Box<serde_json::Value>>,
}

impl CliError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> CliError {
        CliError { exit, message: message.into(), fix: None, findings: None, details: None }
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Usage, message)
    }

    /// The skill, its component or the policy is wrong.
    pub(crate) fn invalid(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Invalid, message)
    }

    /// The host could not do something: `action` completes "cannot ...".
    pub(crate) fn io(action: impl Display, error: impl Display) -> CliError {
        CliError::new(Exit::Io, format!("cannot {action}: {error}"))
    }

    /// A result could not be applied; a full disk is named in the fix.
    pub(crate) fn apply(error: &ApplyError) -> CliError {
        let is_full = matches!(error, ApplyError::Host { error: Errno::NOSPC | Errno::DQUOT, .. });
        let fix = match error {
            _ if is_full => Some("free space on that file system, and run it again"),
            ApplyError::Symlink { refusal, .. } => refusal.fix(),
            _ => Some("run it again"),
        };
        let fix = fix.unwrap_or("run it again without the symlink");
        CliError::new(Exit::Io, error.to_string()).fix(fix)
    }

    pub(crate) fn fix(self, fix: impl Into<String>) -> CliError {
        CliError { fix: Some(fix.into()), ..self }
    }

    pub(crate) fn findings(self, findings: Vec<Diagnostic>, text: impl Into<String>) -> CliError {
        CliError { findings: Some(Box::new((findings, text.into()))), ..self }
    }

    /// Sets the `code` of `--json`, for a failure that programs tell apart.
    pub(crate) fn code(self, code: &'static str) -> CliError {
        self.details(&serde_json::json!({ "code": code }))
    }

    fn details(self, error: &impl Serialize) -> CliError {
        CliError { details: serde_json::to_value(error).ok().map(Box::new), ..self }
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> CliError {
        let details = serde_json::to_value(&error).ok().map(Box::new);
        let error = match error {
            RunError::Skill(error) => CliError::from(*error),
            RunError::Target(choice) => CliError::usage(choice.message),
            RunError::Stdin | RunError::Recording(_) => CliError::new(Exit::Io, error.to_string()),
            RunError::Audit(error) => {
                CliError::new(Exit::Io, format!("{error}; a run that cannot be recorded fails"))
                    .fix("name another file: `--audit FILE`")
            }
        };
        CliError { details, ..error }
    }
}

impl From<SkillError> for CliError {
    fn from(error: SkillError) -> CliError {
        CliError::invalid(format!("cannot load skill {}", error.root.display()))
            .details(&error)
            .findings(error.diagnostics, error.text)
    }
}

impl From<MountError> for CliError {
    fn from(error: MountError) -> CliError {
        let (message, fix) = (error.to_string(), error.fix().map(str::to_owned));
        let exit = match &error {
            MountError::NotFound { .. } => Exit::Usage,
            MountError::CannotMount { is_io: true, .. } => Exit::Io,
            MountError::CannotMount { .. } | MountError::Invalid(_) => Exit::Invalid,
        };
        let details = serde_json::to_value(&error).ok().map(Box::new);
        let error = match error {
            MountError::Invalid(error) => CliError::from(*error),
            _ => CliError { fix, ..CliError::new(exit, message) },
        };
        CliError { details, ..error }
    }
}

impl From<ApprovalError> for CliError {
    fn from(error: ApprovalError) -> CliError {
        let exit = match error {
            ApprovalError::NotPending(_) | ApprovalError::PermanentLevel => Exit::Usage,
            _ => Exit::Io,
        };
        CliError::new(exit, error.to_string())
    }
}

impl From<RecordingError> for CliError {
    fn from(error: RecordingError) -> CliError {
        let message = error.to_string();
        match error {
            RecordingError::Io { .. } => CliError::new(Exit::Io, message),
            RecordingError::NotEmpty { .. } => {
                CliError::usage(message).fix("name a new folder, or an empty one")
            }
            RecordingError::Invalid { .. } => CliError::invalid(message)
                .fix("record the run again: `skillhost run SKILL --record DIR`"),
        }
    }
}

impl From<AuditError> for CliError {
    fn from(error: AuditError) -> CliError {
        CliError::new(Exit::Io, error.to_string())
            .fix("name the log: `--audit FILE`")
            .details(&error)
    }
}

impl From<UsageError> for CliError {
    fn from(error: UsageError) -> CliError {
        CliError::new(Exit::Io, error.to_string())
    }
}

impl From<CatalogError> for CliError {
    fn from(error: CatalogError) -> CliError {
        let exit = match error {
            CatalogError::Folder { .. } => Exit::Usage,
            CatalogError::Index(_) => Exit::Io,
        };
        CliError::new(exit, error.to_string())
    }
}

impl From<ProgramError> for CliError {
    fn from(error: ProgramError) -> CliError {
        CliError { fix: error.fix, ..CliError::invalid(error.message) }
    }
}

impl From<SourceError> for CliError {
    fn from(error: SourceError) -> CliError {
        let (message, fix) = (error.to_string(), error.fix().map(str::to_owned));
        let exit = match &error {
            SourceError::Syntax { .. } | SourceError::Request { .. } => Exit::Usage,
            SourceError::Network { fix: Some(_), .. } => Exit::Denied,
            SourceError::Network { .. } | SourceError::Input(_) | SourceError::Io { .. } => {
                Exit::Io
            }
            SourceError::Refused(_)
            | SourceError::File { .. }
            | SourceError::Moved(_)
            | SourceError::Skill(_) => Exit::Invalid,
        };
        let cli = CliError { fix, ..CliError::new(exit, message) };
        match error {
            SourceError::Refused(refusal) => {
                let rule = serde_json::to_value(refusal.rule).unwrap_or_default();
                cli.details(&serde_json::json!({ "code": rule, "entry": refusal.entry }))
            }
            SourceError::Moved(_) => cli.code("moved"),
            SourceError::File { diagnostics, text, .. } => cli.findings(diagnostics, text),
            SourceError::Skill(error) => CliError::from(*error),
            _ => cli,
        }
    }
}

impl From<skillhost_toolchain::Error> for CliError {
    fn from(error: skillhost_toolchain::Error) -> CliError {
        let indented = |tried: &String| {
            format!("\n  tried: {}", tried.trim_end().replace('\n', "\n         "))
        };
        let tried: String = error.tried.iter().map(indented).collect();
        let exit = if error.is_io { Exit::Io } else { Exit::Invalid };
        CliError { fix: error.help, ..CliError::new(exit, format!("{}{tried}", error.what)) }
    }
}

impl From<Refusal> for CliError {
    fn from(Refusal { why, fix, .. }: Refusal) -> CliError {
        CliError { fix, ..CliError::new(Exit::Denied, why) }
    }
}

/// How the process ends. Numbers from 64 to 78 follow sysexits.h; only `verify` and `replay` use
/// those from 80; 124 is that of timeout(1), 130 is 128 + SIGINT, 134 is 128 + SIGABRT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Ok,
    /// `check`, `test`, `doctor`, `audit verify` or `diff` found something, or a guest exited with 1.
    Findings,
    /// `hook`: the client must not run the command.
    Blocked,
    /// The guest's own exit code.
    Guest(u8),
    /// The command line is wrong.
    Usage,
    /// The skill, its component or the policy is wrong.
    Invalid,
    /// The host could not read or write a file.
    Io,
    /// A deterministic run was aborted and has no result.
    Aborted,
    /// The policy or the operator refused.
    Denied,
    /// `verify`: no trusted key signed the receipt.
    BadSignature,
    /// `verify`, `replay`: the skill differs.
    OtherSkill,
    /// `verify`, `replay`: the result differs.
    OtherResult,
    /// `verify`, `replay`: the run cannot be repeated here.
    NotRepeatable,
    /// The time limit was hit.
    Timeout,
    /// Another limit was hit.
    Limit,
    /// A signal interrupted the run.
    Interrupted,
    /// The guest trapped.
    Trap,
}

/// The exit codes, as the main help lists them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes (`run` exits with the guest's own code if the guest ran to its end):
    1  `check`, `test`, `doctor`, `audit verify` or `diff` found something, or a typed tool failed
    2  `hook`: the client must not run the command
   64  the command line is wrong
   65  the skill, its component or the policy is invalid
   74  a file of the host cannot be read or written
   75  a deterministic run was aborted and has no result
   77  denied
   80  `verify`: the signature is missing, wrong, or made by a key that is not trusted
   81  `verify`, `replay`: the skill differs
   82  `verify`, `replay`: the result differs
   83  `verify`, `replay`: the run cannot be repeated here
  124  the time limit was hit
  125  another limit was hit
  130  interrupted
  134  the guest trapped";

impl Exit {
    /// The exit code by which clients know that a hook blocks a command.
    pub(crate) const BLOCKED: u8 = 2;

    /// The exit code for a status.
    pub(crate) fn of(status: &Status) -> Exit {
        match status {
            Status::Exited { code: 0 } => Exit::Ok,
            Status::Exited { code } => Exit::Guest(*code),
            Status::Denied(_) => Exit::Denied,
            Status::Invalid { .. } => Exit::Invalid,
            Status::Failed { .. } => Exit::Io,
            Status::LimitHit(hit) if hit.limit == Limit::Timeout => Exit::Timeout,
            Status::LimitHit(_) => Exit::Limit,
            Status::Trapped { .. } => Exit::Trap,
            Status::Aborted { .. } => Exit::Aborted,
            Status::Interrupted => Exit::Interrupted,
        }
    }

    /// The number that the process ends with.
    pub(crate) fn number(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Findings => 1,
            Exit::Blocked => Exit::BLOCKED,
            Exit::Guest(code) => code,
            Exit::Usage => 64,
            Exit::Invalid => 65,
            Exit::Io => 74,
            Exit::Aborted => 75,
            Exit::Denied => 77,
            Exit::BadSignature => 80,
            Exit::OtherSkill => 81,
            Exit::OtherResult => 82,
            Exit::NotRepeatable => 83,
            Exit::Timeout => 124,
            Exit::Limit => 125,
            Exit::Interrupted => 130,
            Exit::Trap => 134,
        }
    }

    /// The `code` of an error object, unless the error has a more precise one.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Exit::Ok => "ok",
            Exit::Findings => "findings",
            Exit::Blocked => "blocked",
            Exit::Guest(_) => "guest",
            Exit::Usage => "usage",
            Exit::Invalid => "invalid",
            Exit::Io => "io",
            Exit::Aborted => "aborted",
            Exit::Denied => "denied",
            Exit::BadSignature => "bad-signature",
            Exit::OtherSkill => "other-skill",
            Exit::OtherResult => "other-result",
            Exit::NotRepeatable => "not-repeatable",
            Exit::Timeout => "timeout",
            Exit::Limit => "limit",
            Exit::Interrupted => "interrupted",
            Exit::Trap => "trap",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_exit_code() {
        use Exit::*;
        for exit in [
            Findings,
            Blocked,
            Usage,
            Invalid,
            Io,
            Aborted,
            Denied,
            BadSignature,
            OtherSkill,
            OtherResult,
            NotRepeatable,
            Timeout,
            Limit,
            Interrupted,
            Trap,
        ] {
            let code = format!("{:?}", ExitCode::from(exit));
            let number = code.trim_matches(|c: char| !c.is_ascii_digit());
            let line = |line: &str| {
                line.trim_start().split_once("  ").is_some_and(|(first, _)| first == number)
            };
            assert!(EXIT_CODES.lines().any(line), "{exit:?} is {number}, which the help omits");
        }
    }
}
