//! Registers host programs, under names that nothing else has.

use skillhost_compat::{Availability, availability};
use skillhost_policy::program_name::{canonical_name, is_shell_keyword};
use skillhost_sandbox::{HostFunction, HostPrograms};
use skillhost_skill::runtime::built_in::{BuiltIns, ProgramError};

/// Why a host program cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostProgramError {
    /// The name is not one word of a command line, or too long.
    #[error(
        "invalid name `{}` of a host program: use a-z, 0-9, `.`, `_` and `-`, with a letter or digit first, and at most {NAME_MAX} bytes",
        .0.escape_debug()
    )]
    Invalid(String),
    /// A command of the shell, a built-in program or a runtime has the name, or it is another name
    /// of one.
    #[error("the name `{0}` of a host program belongs to a command of the sandbox: choose another")]
    Reserved(String),
    /// Two host programs have the name.
    #[error("two host programs are named `{0}`")]
    Duplicate(String),
    /// The built-in programs, whose names are reserved, cannot be listed.
    #[error("cannot list the built-in programs: {0}")]
    BuiltIns(String),
}

/// The longest name of a host program, in bytes.
const NAME_MAX: usize = 64;

/// Registers functions under their names.
///
/// # Errors
/// A name is invalid or taken.
pub(super) fn register(
    programs: Vec<(String, HostFunction)>,
    built_ins: &BuiltIns,
) -> Result<HostPrograms, HostProgramError> {
    if programs.is_empty() {
        return Ok(HostPrograms::default());
    }
    let taken =
        built_in_names(built_ins).map_err(|error| HostProgramError::BuiltIns(error.message))?;
    for (index, (name, _)) in programs.iter().enumerate() {
        if !is_valid(name) {
            return Err(HostProgramError::Invalid(name.clone()));
        }
        if is_reserved(name) || taken.contains(name) {
            return Err(HostProgramError::Reserved(name.clone()));
        }
        if programs[..index].iter().any(|(other, _)| other == name) {
            return Err(HostProgramError::Duplicate(name.clone()));
        }
    }
    Ok(HostPrograms::new(programs))
}

fn is_valid(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= NAME_MAX
        && name.bytes().next().is_some_and(is_plain)
        && name.bytes().all(|byte| is_plain(byte) || b"._-".contains(&byte))
}

/// Checks whether every sandbox has a command of this name, or treats it as another name of one.
/// `x.wasm` is another name of a skill's component `x`.
fn is_reserved(name: &str) -> bool {
    let is_command = matches!(availability(name), Availability::BuiltIn | Availability::Program);
    is_command || is_shell_keyword(name) || canonical_name(name) != name
}

/// Returns the names and the commands of the built-in programs and the custom runtimes.
fn built_in_names(built_ins: &BuiltIns) -> Result<Vec<String>, ProgramError> {
    let listed = built_ins.list()?.into_iter().flat_map(|one| {
        let mut names = one.description.programs;
        names.push(one.description.name);
        names
    });
    Ok(listed.chain(built_ins.custom.commands().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use skillhost_sandbox::HostOutput;

    use super::*;

    fn registered(names: &[&str]) -> Result<(), HostProgramError> {
        let function = HostFunction::new(|_| async { HostOutput::default() });
        let programs = names.iter().map(|name| ((*name).to_owned(), function.clone())).collect();
        register(programs, &BuiltIns::default()).map(drop)
    }

    #[test]
    fn names_are_plain_words() {
        for name in ["ffmpeg", "lookup-customer", "a", "7z", "x.y_z", &"a".repeat(NAME_MAX)] {
            assert_eq!(registered(&[name]), Ok(()), "{name}");
        }
        for name in [
            "",
            "Lookup",
            "-x",
            ".x",
            "a/b",
            "..",
            "a b",
            "a\n",
            "ü",
            "a\0",
            &"a".repeat(NAME_MAX + 1),
        ] {
            assert_eq!(
                registered(&[name]),
                Err(HostProgramError::Invalid(name.into())),
                "{name:?}"
            );
        }
    }

    #[test]
    fn commands_of_the_sandbox_are_reserved() {
        let of_the_shell = ["cd", "exec", "cat", "jq", "curl", "git", "if", "done"];
        let runtimes = [
            "bash",
            "sh",
            "dash",
            "python3",
            "python",
            "python3.9",
            "pypy3",
            "pip",
            "uv",
            "node",
            "nodejs",
            "bun",
            "deno",
            "tsx",
            "ts-node",
            "npm",
            "npx",
            "yarn",
        ];
        let others = ["env", "timeout", "nohup", "gawk", "lookup.wasm"];
        for name in of_the_shell.into_iter().chain(runtimes).chain(others) {
            assert_eq!(registered(&[name]), Err(HostProgramError::Reserved(name.into())), "{name}");
        }
    }

    #[test]
    fn names_are_registered_once() {
        assert_eq!(registered(&["a", "b", "a"]), Err(HostProgramError::Duplicate("a".into())));
    }
}
