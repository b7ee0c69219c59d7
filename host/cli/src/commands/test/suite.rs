//! The cases of one skill, as they were selected.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use skillhost_policy::diagnostic::quoted;
use skillhost_skill::cases::{self, CasesError, FILE, FOLDER, SkillCase};
use skillhost_skill::runtime::scripts;
use skillhost_skill::{SizeLimits, Skill};

use super::Args;
use crate::args::skills::SkillRef;
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// The selected cases of one skill.
pub(super) struct Suite {
    pub(super) skill: SkillRef,
    /// The skill as it was typed: a name or a path.
    pub(super) argument: String,
    pub(super) cases: Vec<Arc<SkillCase>>,
}

/// The most names of cases that an error lists.
const MAX_LISTED: usize = 20;

impl Suite {
    /// Reads the cases of every skill. Nothing runs if one of them is invalid.
    pub(super) fn read_all(args: &Args, context: &Context) -> Result<Vec<Suite>, CliError> {
        let suites = args
            .named
            .iter()
            .map(|named| Suite::read(named, args, context))
            .collect::<Result<Vec<_>, _>>()?;
        let is_selected = |case: &Arc<SkillCase>| {
            args.selected.is_empty() || args.selected.iter().any(|text| case.name.contains(text))
        };
        let all = || suites.iter().flat_map(|suite| &suite.cases).map(|case| case.name.as_str());
        let mut names = all().take(MAX_LISTED).collect::<Vec<_>>().join(", ");
        if let Some(more) = all().count().checked_sub(MAX_LISTED + 1) {
            names += &format!(" and {} more", more + 1);
        }
        let suites: Vec<Suite> = suites
            .into_iter()
            .map(|suite| {
                let cases = suite.cases.iter().filter(|case| is_selected(case)).cloned().collect();
                Suite { cases, ..suite }
            })
            .filter(|suite| !suite.cases.is_empty())
            .collect();
        if suites.is_empty() {
            let wanted = args.selected.join("`, `");
            return Err(CliError::usage(format!("no case has `{wanted}` in its name"))
                .fix(format!("the cases: {names}")));
        }
        Ok(suites)
    }

    fn read(named: &Path, args: &Args, context: &Context) -> Result<Suite, CliError> {
        let skill = args.skills.resolve(named, context)?;
        if args.bless && matches!(skill, SkillRef::Entry(_)) {
            let message = "--bless changes the skill's folder, so it needs the folder's path";
            let fix = format!("skillhost test {} --bless", shown(skill.folder()));
            return Err(CliError::usage(message).fix(fix));
        }
        skill.warn_of_sections(&args.skills, context);
        // Report a folder that is not a skill as such, not as a skill without cases.
        let loaded = Skill::load_from(skill.skill_folder(), &SizeLimits::of(&context.policy))?;
        let cases = cases::read(skill.folder()).map_err(invalid)?;
        if cases.is_empty() {
            return Err(no_cases(named, &loaded));
        }
        let argument = named.to_string_lossy().into_owned();
        Ok(Suite { skill, argument, cases: cases.into_iter().map(Arc::new).collect() })
    }
}

/// Reports invalid cases, all of them.
fn invalid(error: CasesError) -> CliError {
    let message = error.to_string();
    match error {
        CasesError::Invalid(cases) => {
            let all: Vec<_> = cases.iter().flat_map(|case| &case.diagnostics).cloned().collect();
            for case in &cases {
                output::findings(&case.diagnostics, &case.source_text);
            }
            let details = Some(Box::new(json!({ "code": "invalid", "diagnostics": all })));
            CliError { details, ..CliError::invalid(message) }
        }
        CasesError::Io { error, .. } if error.kind() != std::io::ErrorKind::FileTooLarge => {
            CliError::new(crate::error::Exit::Io, message)
        }
        CasesError::Io { .. } | CasesError::Limit { .. } => CliError::invalid(message),
    }
}

/// Shows the smallest case for a skill that has none.
fn no_cases(named: &Path, skill: &Skill) -> CliError {
    let scripts = scripts::programs(skill);
    let target = match (&skill.manifest.component, scripts.iter().find(|script| script.run.is_ok()))
    {
        (Some(_), _) => "tool: NAME\n  input: { KEY: VALUE }".to_owned(),
        (None, Some(script)) => format!("script: {}\n  args: []", quoted(&script.path)),
        (None, None) => format!("command: head -1 /skill/{}", skill.skill_file),
    };
    let named = shown(named);
    CliError::invalid(format!("{named} has no test cases")).fix(format!(
        "write one to {FOLDER}/first/{FILE} in the skill:\n  {target}\n\
         then record what it gives: skillhost test {named} --bless"
    ))
}

fn shown(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}
