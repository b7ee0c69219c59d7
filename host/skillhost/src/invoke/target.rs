//! Resolves targets to programs: a component's command or tool, a script and its interpreter, or a
//! shell command.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::{LoadedSkill, invalid};
use skillhost_ledger::approval::{RunInput, SkillPart};
use skillhost_policy::diagnostic::quoted;
use skillhost_policy::disclosure::is_tool_name;
use skillhost_policy::outcome::{Denial, DenialKind, Status};
use skillhost_skill::runtime::built_in::ProgramError;
use skillhost_skill::runtime::dispatch::{FileKind, HEAD_BYTES, Interpreter};
use skillhost_skill::runtime::scripts::{self, ScriptMatch, SkillScript};
use skillhost_skill::runtime::spawn::SKILL_MOUNT;
use skillhost_skill::runtime::{self, Component, EntryPoint, Program, Programs, ScriptId};
use skillhost_skill::{Skill, single_file};

/// The longest file name on Linux, in bytes: `NAME_MAX` of limits.h.
const NAME_MAX: usize = 255;

/// The most scripts that an error lists.
const MAX_TOLD: usize = 20;

/// Which part of a skill to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The command of the skill's component; without a component, the only script.
    Main,
    /// A script, by its path or by a name that people and instructions use; if there is none, the
    /// typed tool of that name, without input.
    Named(String),
    /// A typed tool of the component.
    Tool {
        /// The tool's name.
        name: String,
        /// The tool's input, as JSON.
        input: String,
    },
    /// A command line for the shell, as an agent would run it.
    Shell(String),
}

impl Target {
    /// Returns the input of a run of this target, with an empty stdin.
    pub fn input<'a>(&'a self, args: &'a [String]) -> RunInput<'a> {
        let text = match self {
            Target::Shell(text) => Some(text.as_str()),
            Target::Tool { input, .. } => Some(input.as_str()),
            Target::Main | Target::Named(_) => None,
        };
        RunInput { text, args, ..RunInput::default() }
    }
}

/// A target that matches nothing, or several things.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnresolvedTarget {
    /// The error message.
    pub message: String,
    /// The most similar name.
    pub suggestion: Option<String>,
    /// The skill's scripts, by path. Those whose `run` is an error cannot run here.
    pub scripts: Vec<SkillScript>,
}

/// Why a target has no program.
#[derive(Debug, Clone)]
pub enum TargetError {
    /// The target matches nothing, or several things.
    Unresolved(UnresolvedTarget),
    /// The program cannot run.
    Status(Status),
}

/// The part of a skill that a target resolves to, however it is spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedTarget {
    /// The component's command.
    Main,
    /// The script at this path.
    Script(String),
    /// The typed tool of this name.
    Tool(String),
    /// A command line for the shell.
    Shell,
}

impl LoadedSkill {
    /// Resolves a target; `None` if it matches nothing, or several things.
    pub fn resolve(&self, target: &Target) -> Option<ResolvedTarget> {
        resolve(&self.skill, self.programs.as_ref().ok()?, target).ok()
    }

    /// Checks whether a target can start anything: `false` if it matches nothing, or several things.
    pub fn has_target(&self, target: &Target) -> bool {
        match &self.programs {
            Ok(programs) => resolve(&self.skill, programs, target).is_ok(),
            // Another error, which does not depend on the target.
            Err(_) => true,
        }
    }

    /// Returns the part of the skill that a target resolves to, however it is spelled. Levels and
    /// approvals apply to parts.
    pub fn part_of(&self, target: &Target) -> SkillPart {
        match (self.resolve(target), target) {
            (Some(ResolvedTarget::Main), _) => SkillPart::Skill,
            (Some(ResolvedTarget::Script(path)), _) => SkillPart::Program(path),
            (Some(ResolvedTarget::Tool(name)), _) => SkillPart::Tool(name),
            (Some(ResolvedTarget::Shell), _) | (None, Target::Shell(_)) => SkillPart::Command,
            // It will not run, but a level for that name still applies.
            (None, Target::Main) => SkillPart::Skill,
            (None, Target::Named(name)) => SkillPart::Program(name.clone()),
            (None, Target::Tool { name, .. }) => SkillPart::Tool(name.clone()),
        }
    }

    /// Returns the skill without these files: neither the host nor a program in the run starts
    /// them.
    #[must_use]
    pub fn without_files(self, files: BTreeSet<String>) -> LoadedSkill {
        match self.programs {
            Ok(programs) if !files.is_empty() => {
                let programs = programs.denying(&files);
                let failed = |error| Status::Failed {
                    message: format!("cannot digest the skill's files: {error}"),
                    fix: None,
                };
                LoadedSkill { programs: programs.map(Arc::new).map_err(failed), ..self }
            }
            _ => self,
        }
    }
}

/// Resolves a target.
pub(super) fn resolve(
    skill: &Skill,
    programs: &Programs,
    target: &Target,
) -> Result<ResolvedTarget, TargetError> {
    let has_component = skill.manifest.component.is_some();
    Ok(match target {
        Target::Main if has_component || skill.manifest.recovered => ResolvedTarget::Main,
        Target::Main => ResolvedTarget::Script(only(skill, programs)?),
        // Any other name that a client makes up would end up in the audit log.
        Target::Tool { name, .. } if !is_tool_name(name) => return Err(unknown(skill, name)),
        Target::Tool { name, .. } => ResolvedTarget::Tool(name.clone()),
        Target::Named(name) => match scripts::find(skill, name) {
            ScriptMatch::File(path) => ResolvedTarget::Script(path),
            ScriptMatch::Ambiguous(paths) => return Err(several(skill, name, &paths)),
            ScriptMatch::None if has_component && is_tool_name(name) => {
                ResolvedTarget::Tool(name.clone())
            }
            ScriptMatch::None => return Err(unknown(skill, name)),
        },
        Target::Shell(_) => ResolvedTarget::Shell,
    })
}

/// Returns the program of a request.
pub(super) fn program(
    skill: &Skill,
    programs: &Programs,
    target: &Target,
    args: &[String],
) -> Result<Program, TargetError> {
    let program = found(skill, programs, target, args)?;
    let script = program.script.as_ref().map(|script| script.digest.as_str());
    // Compared by digest, because a link in the skill leads to the same file.
    match programs.denied_files().iter().find(|file| {
        file.digest == program.component.digest || Some(file.digest.as_str()) == script
    }) {
        Some(file) => Err(TargetError::Status(Status::Denied(denial(&file.path)))),
        None => Ok(program),
    }
}

/// Returns the denial of a file that a level denies.
fn denial(path: &str) -> Denial {
    Denial {
        what: format!("run {path}"),
        rule: format!("a permission level blocks {path}"),
        fix: Some("skillhost permissions".into()),
        kind: DenialKind::Run,
    }
}

fn found(
    skill: &Skill,
    programs: &Programs,
    target: &Target,
    args: &[String],
) -> Result<Program, TargetError> {
    let own = |entry: EntryPoint| {
        let component =
            declared(skill, |path| programs.component_at(path)).map_err(TargetError::Status)?.1;
        Ok(Program {
            name: skill.manifest.name.clone(),
            component,
            entry,
            args: args.to_vec(),
            script: None,
        })
    };
    // It is unknown what such a skill requests, so nothing of it runs: not even without permissions.
    if skill.manifest.recovered {
        return Err(TargetError::Status(no_program(skill)));
    }
    match (resolve(skill, programs, target)?, target) {
        (ResolvedTarget::Main, _) => own(EntryPoint::Command),
        (ResolvedTarget::Script(path), _) => script(skill, programs, &path, args),
        (_, Target::Tool { name, input }) => {
            own(EntryPoint::Tool { name: name.clone(), input: input.clone(), scripts: Vec::new() })
        }
        (ResolvedTarget::Tool(name), _) => {
            let scripts = scripts::programs(skill)
                .into_iter()
                .take(MAX_TOLD)
                .map(|script| script.path)
                .collect();
            own(EntryPoint::Tool { name, input: "{}".into(), scripts })
        }
        (ResolvedTarget::Shell, target) => {
            let text = if let Target::Shell(text) = target { text.as_str() } else { "" };
            let component = installed(programs, "bash")?;
            // Replaced here, because an environment variable could be set by the policy.
            let text = text.replace("{baseDir}", SKILL_MOUNT);
            let args = [&["-c".to_owned(), text, "bash".to_owned()], args].concat();
            Ok(Program {
                name: "bash".into(),
                component,
                entry: EntryPoint::Command,
                args,
                script: None,
            })
        }
    }
}

/// Returns the program that runs the script at a path.
fn script(
    skill: &Skill,
    programs: &Programs,
    path: &str,
    args: &[String],
) -> Result<Program, TargetError> {
    let unreadable =
        |error| TargetError::Status(invalid(format!("cannot read `{path}`: {error}"), None));
    let content = skill.read(path).map_err(unreadable)?;
    let Interpreter { command, args: before } = match programs
        .classify(path, &content[..content.len().min(HEAD_BYTES)])
    {
        FileKind::Script(interpreter) => interpreter,
        FileKind::UnsupportedScript { language } => {
            let message = format!("`{path}` needs {language}, which is not available");
            let fix =
                "use Python 3, JavaScript, a shell script or a WebAssembly component".to_owned();
            return Err(TargetError::Status(invalid(message, Some(fix))));
        }
        FileKind::Other => {
            let message =
                format!("`{path}` is not a script: it has no `#!` line and no known extension");
            let fix = format!(
                "add `#!/usr/bin/env python3`, `#!/usr/bin/env node` or `#!/bin/bash` as its first line, or name the interpreter: `--command 'python3 {SKILL_MOUNT}/{path}'`"
            );
            return Err(TargetError::Status(invalid(message, Some(fix))));
        }
    };
    let component = installed(programs, &command)?;
    let args = [&before[..], &[format!("{SKILL_MOUNT}/{path}")], args].concat();
    let script = Some(ScriptId { path: path.to_owned(), digest: runtime::digest(&content) });
    Ok(Program { name: command, component, entry: EntryPoint::Command, args, script })
}

fn installed(programs: &Programs, command: &str) -> Result<Component, TargetError> {
    let status =
        |ProgramError { message, fix }| TargetError::Status(Status::Failed { message, fix });
    match programs.find(command).map_err(status)? {
        Some(component) => Ok(component),
        None => Err(TargetError::Status(invalid(format!("`{command}` is not available"), None))),
    }
}

/// Returns the only script of a skill that has one.
fn only(skill: &Skill, programs: &Programs) -> Result<String, TargetError> {
    let all = scripts::programs_by(skill, |path, head| programs.classify(path, head));
    let here: Vec<&SkillScript> = all.iter().filter(|script| script.run.is_ok()).collect();
    match (here.as_slice(), all.as_slice()) {
        ([one], _) => Ok(one.path.clone()),
        ([], []) => Err(TargetError::Status(no_program(skill))),
        ([], [one]) => Ok(one.path.clone()),
        _ => {
            let message = format!(
                "the skill `{}` has {} scripts: name the one to run",
                skill.name,
                all.len()
            );
            Err(TargetError::Unresolved(UnresolvedTarget {
                message,
                suggestion: None,
                scripts: all,
            }))
        }
    }
}

fn several(skill: &Skill, name: &str, paths: &[String]) -> TargetError {
    let scripts = paths.iter().filter_map(|path| scripts::script_at(skill, path)).collect();
    TargetError::Unresolved(UnresolvedTarget {
        message: format!("the skill `{}` has several files named `{name}`", skill.name),
        suggestion: None,
        scripts,
    })
}

fn unknown(skill: &Skill, name: &str) -> TargetError {
    let all = scripts::programs(skill);
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    // A client chooses the name, and the time of the comparison is the product of both lengths. No
    // file has a longer name.
    let asked = Some(base(name)).filter(|asked| asked.len() <= NAME_MAX).unwrap_or_default();
    let likeness = |script: &&SkillScript| strsim::jaro_winkler(&asked, &base(&script.path));
    let nearest = all
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|script| likeness(script) > 0.8);
    let suggestion = nearest.map(|script| script.path.clone());
    let what = if skill.manifest.component.is_some() { "script or tool" } else { "script" };
    let shown: String = name.chars().take(NAME_MAX).collect();
    TargetError::Unresolved(UnresolvedTarget {
        message: format!("the skill `{}` has no {what} `{shown}`", skill.name),
        suggestion,
        scripts: all,
    })
}

/// Returns the component that a skill declares, and its path in the skill.
///
/// # Errors
/// `Status::Invalid`: the skill declares no component, or it cannot be read.
pub fn declared_component(skill: &Skill) -> Result<(&str, Component), Status> {
    declared(skill, |path| skill.read(path).map(Component::new))
}

/// Like [`declared_component`], with the caller's way to read the file.
pub(super) fn declared(
    skill: &Skill,
    read: impl Fn(&str) -> io::Result<Component>,
) -> Result<(&str, Component), Status> {
    let Some(path) = &skill.manifest.component else { return Err(no_program(skill)) };
    match read(path) {
        Ok(component) => Ok((path, component)),
        Err(error) => {
            let fix =
                format!("build it: `skillhost build {}`", quoted(&skill.root.to_string_lossy()));
            Err(invalid(format!("cannot read the component `{path}`: {error}"), Some(fix)))
        }
    }
}

impl Target {
    /// Returns the arguments or the input of a run, as texts.
    pub(super) fn texts(&self, args: &[String]) -> Vec<String> {
        match self {
            Target::Tool { input, .. } => vec![input.clone()],
            Target::Shell(text) => [std::slice::from_ref(text), args].concat(),
            Target::Main | Target::Named(_) => args.to_vec(),
        }
    }
}

/// Explains that a skill declares no component, and suggests a fix.
fn no_program(skill: &Skill) -> Status {
    let here =
        skill.files.iter().map(|file| file.path.as_str()).find(|path| path.ends_with(".wasm"));
    let (what, fix) = match (scripts::programs(skill).first(), here) {
        _ if skill.manifest.recovered && single_file::name_of(&skill.skill_file).is_some() => (
            "is a single file: it contains only instructions",
            "to give it programs, make it a folder with SKILL.md: `skillhost new`".into(),
        ),
        _ if skill.manifest.recovered => (
            "has no valid frontmatter, so it is instructions only and none of its programs runs",
            format!(
                "fix the frontmatter of {}: `skillhost check {}` shows what is wrong",
                skill.skill_file,
                quoted(&skill.root.to_string_lossy())
            ),
        ),
        (Some(script), _) => (
            "declares no component, only scripts",
            format!(
                "name a script; its arguments go after `--`: `skillhost run {} {} -- ARGS`",
                quoted(&skill.root.to_string_lossy()),
                quoted(&script.path)
            ),
        ),
        (None, Some(here)) => (
            "declares no component",
            format!("name it in {}: `metadata: {{ component: {here} }}`", skill.skill_file),
        ),
        (None, None) => (
            "contains only instructions: no component and no script",
            "add a script to scripts/, or build a component: `skillhost build`".into(),
        ),
    };
    invalid(format!("the skill `{}` {what}", skill.name), Some(fix))
}
