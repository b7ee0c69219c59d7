//! Exit codes: all of them, in one place.

use std::process::ExitCode;

use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;

/// How the process ends. The numbers from 64 to 78 are those of sysexits.h; those from 80 are of
/// `verify` and `replay` alone; 124 is timeout(1)'s; 134 is 128 + SIGABRT; 130 is 128 + SIGINT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Ok,
    /// `check`, `audit verify` or `diff` found something; or the guest's own 1.
    Findings,
    /// The guest's own code.
    Guest(u8),
    /// The command line is wrong.
    Usage,
    /// The skill, its component or the policy is wrong.
    Invalid,
    /// A file of the host could not be read or written (the audit log, an overlay's target).
    Io,
    /// A deterministic run came to no result.
    Aborted,
    /// Refused.
    Denied,
    /// `verify`: nobody that is trusted signed it.
    BadSignature,
    /// `verify`, `replay`: it is of another skill.
    OtherSkill,
    /// `verify`, `replay`: the run came to another result.
    OtherResult,
    /// `verify`, `replay`: it cannot be run again here.
    NotRepeatable,
    /// Out of time.
    Timeout,
    /// Another limit.
    Limit,
    /// Interrupted.
    Interrupted,
    /// The guest trapped.
    Trap,
}

/// The end of `--help`.
pub(crate) const TABLE: &str = "\
Examples:
  skillhost check skills/*                            what is wrong with them, what they may do
  skillhost run skills/calculator -- '5 km in miles'  run a skill's command
  skillhost run skills/calculator calculate --input '{\"expression\": \"2^64\"}'
  skillhost run SKILL scripts/x.py -- ARGS            run one of a skill's scripts
  skillhost run SKILL --workspace .:overlay --diff    see what it would change

Exit codes of `run` are the guest's own, and of all verbs:
    1  `check` or `audit verify` found something wrong, `diff` a difference, or a typed tool failed
   64  the command line is wrong
   65  the skill, its component or the policy is wrong
   74  a file of the host cannot be read or written
   75  a deterministic run was aborted, and has no result
   77  denied
   80  `verify`: the signature is missing, wrong, or of a key that is not trusted
   81  `verify`, `replay`: the skill is another
   82  `verify`, `replay`: the result is another
   83  `verify`, `replay`: the run cannot be repeated here
  124  out of time
  125  another limit was hit
  130  interrupted
  134  the guest trapped";

impl Exit {
    /// The code for a status.
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
}

impl Exit {
    /// The code of an error object, where nothing more precise is known.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Exit::Ok => "ok",
            Exit::Findings => "findings",
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
        ExitCode::from(match exit {
            Exit::Ok => 0,
            Exit::Findings => 1,
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
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_code() {
        use Exit::*;
        for exit in [
            Findings,
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
            assert!(TABLE.lines().any(line), "{exit:?} is {number}, which is not in the table");
        }
    }
}
