//! The command that runs a script of a skill in the sandbox.

use std::path::{Component, Path};

use skillhost::invoke::{ResolvedTarget, Runner, Target};
use skillhost_compat::{SimpleCommand, quote_word};
use skillhost_ledger::approval::Forecast;
use skillhost_policy::capabilities::MountMode;
use skillhost_skill::runtime::scripts;
use skillhost_skill::{SkillFolder, SourceKind};

use super::Args;
use super::decision::{Decision, ScriptStart, instead};
use super::known_skills::{KnownSkill, KnownSkills, Place};
use crate::args::HostArgs;
use crate::args::permissions::Permissions;
use crate::commands::run::forecast;
use crate::context::{Context, own_program};
use crate::error::CliError;

/// Decides on a command that starts a file of a skill.
pub(super) fn rewrite(
    args: &Args,
    known: &KnownSkills,
    base: &Path,
    simple: &SimpleCommand,
    start: &ScriptStart<'_>,
    place: &Place<'_>,
) -> Result<Decision, CliError> {
    let skill = place.skill;
    let Some(script) = script_path(place) else {
        return Ok(denied(place, "the command does not name one of its files"));
    };
    // A skill does not get its own folder as a workspace.
    let has_workspace = known.locate(base, ".").is_none();
    let workspace = has_workspace.then(|| (base.to_owned(), MountMode::Write));
    let permissions = Permissions::of_hook(&args.policy, workspace);
    let mut context = Context::with_permissions(&permissions)?;
    context.policy = context.policy.with_client_names();
    let source = skill.source.unwrap_or(SourceKind::Flag);
    let host = Runner::new(context.host_options(&HostArgs::default(), &args.skills)?);
    let folder = SkillFolder { path: &skill.folder, source, locked: skill.locked.as_deref() };
    let loaded = match host.load(folder, &context.policy) {
        Ok(loaded) => loaded,
        Err(error) => return Ok(denied(place, &format!("it cannot be loaded: {error}"))),
    };
    let target = Target::Named(script.clone());
    if loaded.resolve(&target) != Some(ResolvedTarget::Script(script.clone())) {
        return Ok(denied(place, &format!("it has no script {}", quote_word(&script))));
    }
    let found = scripts::script_at(&loaded.skill, &script).map(|script| script.run);
    let runs = match found {
        Some(Ok(interpreter)) => interpreter.command,
        Some(Err(language)) => {
            let why = format!(
                "{} needs {language}, which the sandbox does not have",
                quote_word(&script)
            );
            return Ok(denied(place, &why));
        }
        None => return Ok(denied(place, &format!("{} is not a script", quote_word(&script)))),
    };
    if start.interpreter.is_some_and(|named| !is_same(named, &runs)) {
        return Ok(denied(place, &format!("{} is a script for {runs}", quote_word(&script))));
    }
    let starts = match forecast(&context, &loaded, &target, start.args)? {
        Forecast::Starts => true,
        Forecast::Asks => false,
        Forecast::Refused(refusal) => {
            let fix = refusal.operator_fix();
            return Ok(Decision::Deny(format!(
                "skillhost: {}. The operator can change that: {fix}",
                refusal.operator_why()
            )));
        }
    };
    let line = line(args, simple, skill, source, &script, has_workspace, start.args);
    let note = format!(
        "skillhost runs {} of the skill {} in its sandbox",
        quote_word(&script),
        quote_word(&skill.name)
    );
    Ok(Decision::Run { line, starts, note })
}

/// Returns the path of the script in the skill, as `skillhost run` takes it.
fn script_path(place: &Place<'_>) -> Option<String> {
    let mut parts = place.rest.components();
    let is_inside = parts.all(|part| matches!(part, Component::Normal(_)));
    let path = place.rest.to_str().filter(|path| is_inside && !path.is_empty())?;
    // An option would be read in its place.
    let is_argument = !path.starts_with('-') && !place.skill.name.starts_with('-');
    is_argument.then(|| path.to_owned())
}

/// Whether two interpreters are the same program of the sandbox: `sh` is its bash.
fn is_same(one: &str, other: &str) -> bool {
    one == other || [one, other].iter().all(|name| matches!(*name, "sh" | "bash"))
}

fn denied(place: &Place<'_>, why: &str) -> Decision {
    let name = quote_word(&place.skill.name);
    Decision::Deny(format!(
        "skillhost: this command starts a file of the skill {name}: {why}. {}",
        instead(place)
    ))
}

/// Returns the whole command line.
fn line(
    args: &Args,
    simple: &SimpleCommand,
    skill: &KnownSkill,
    source: SourceKind,
    script: &str,
    has_workspace: bool,
    script_args: &[String],
) -> String {
    let mut words = vec![own_program(), "run".to_owned(), skill.name.clone(), script.to_owned()];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    if source == SourceKind::Flag {
        // Its name means another folder, or none.
        let parent = skill.folder.parent().unwrap_or(Path::new("/"));
        option("--skills", parent.display().to_string());
    }
    if let Some(policy) = args.policy.named() {
        option("--policy", policy.display().to_string());
    }
    if has_workspace {
        option("--workspace", ".".to_owned());
    }
    words.push("--".to_owned());
    words.extend_from_slice(script_args);
    let line = words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" ");
    match &simple.folder {
        Some(folder) => format!("cd {} && {line}", quote_word(folder)),
        None => line,
    }
}
