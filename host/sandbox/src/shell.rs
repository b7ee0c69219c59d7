//! What only the built-in shell uses: the names of its denied commands. The shell's own
//! commands start no program that the host could check, so the shell refuses them. May use no other
//! module.

use skillhost_policy::capabilities::Scope;
use skillhost_policy::pattern::CommandPattern;
use skillhost_policy::program_name::{all_names, canonical_name};
use skillhost_skill::runtime::Program;

/// The variable with the names, separated by spaces. The host sets it at each start of the shell,
/// which hides it from scripts.
pub(crate) const DENIED_COMMANDS: &str = "SKILLHOST_DENIED_COMMANDS";

/// Returns the names of the denied commands if the program is the shell.
pub(crate) fn denied_commands(program: &Program, spawn: &Scope<CommandPattern>) -> Option<String> {
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
