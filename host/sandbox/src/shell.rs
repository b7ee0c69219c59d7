//! Denials of the shell's built-in commands. They start no program that the host could see, so the
//! shell is told their names.

use skillhost_policy::capabilities::Scope;
use skillhost_policy::pattern::CommandPattern;
use skillhost_policy::program_name::{all_names, canonical_name};
use skillhost_skill::runtime::Program;

/// The variable that holds the names, separated by spaces. The host sets it for each start of the
/// shell, which hides it from scripts.
pub(crate) const VARIABLE: &str = "SKILLHOST_DENIED_COMMANDS";

/// The names that are denied, where a program is the shell.
pub(crate) fn of(program: &Program, spawn: &Scope<CommandPattern>) -> Option<String> {
    let built_in = program.component.built_in()?;
    if !built_in.description.programs.iter().any(|name| name == "bash") {
        return None;
    }
    let programs = spawn.none_of.iter().filter(|pattern| pattern.open).filter_map(|pattern| {
        match &pattern.words[..] {
            [program] => Some(canonical_name(program)),
            _ => None,
        }
    });
    Some(programs.flat_map(all_names).collect::<Vec<_>>().join(" "))
}
