//! The first program of a run, under the policy's denials of programs.

use skillhost_policy::capabilities::Scope;
use skillhost_policy::outcome::Denial;
use skillhost_policy::pattern::CommandPattern;
use skillhost_skill::runtime::{EntryPoint, Program, Programs};

/// The denial that stops a program from being the first of a run.
///
/// `Bash` without a name denies the shell, interpreters and all that programs start. The skill's
/// own component is what the operator runs; only a denial of its name stops that. A typed tool is
/// no command.
pub(super) fn denial(
    program: &Program,
    programs: &Programs,
    spawn: &Scope<CommandPattern>,
) -> Option<Denial> {
    if spawn.none_of.is_empty() || !matches!(program.entry, EntryPoint::Command) {
        return None;
    }
    let is_skills_component = program.component.built_in().is_none() && program.script.is_none();
    let commands = programs.command_lines_of(program);
    let applies = |pattern: &&CommandPattern| !(is_skills_component && pattern.words.is_empty());
    let pattern = spawn
        .none_of
        .iter()
        .filter(applies)
        .find(|pattern| commands.iter().any(|argv| pattern.denies(argv)))?;
    Some(pattern.denial(&[std::slice::from_ref(&program.name), &program.args[..]].concat()))
}
