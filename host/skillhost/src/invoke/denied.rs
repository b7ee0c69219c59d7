//! Applies the policy's denials of programs to the first program of a run.

use skillhost_policy::capabilities::Scope;
use skillhost_policy::outcome::Denial;
use skillhost_policy::pattern::CommandPattern;
use skillhost_skill::runtime::{EntryPoint, Program, Programs};

/// Returns the denial that stops a program from being the first of a run.
///
/// `Bash` without a name denies the shell, interpreters and everything that programs start. The
/// skill's own component is what the operator runs; only a denial of its name stops it. A typed
/// tool is not a command.
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
