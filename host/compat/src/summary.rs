//! Counts over a folder of skills.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::need::{Need, NeedEffect, NeedKind, NeedStatus};
use super::{Compatibility, SupportLevel};

/// Reasons that are told.
const MAX_REASONS: usize = 10;

/// How many skills of a folder run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Summary {
    /// Skills that were found.
    pub skills: usize,
    /// Those that run.
    pub run_here: usize,
    /// Those of which a part runs.
    pub run_partly: usize,
    /// Those that do not.
    pub do_not_run_here: usize,
    /// Those with nothing to run.
    pub instructions_only: usize,
    /// Those that do not load.
    pub do_not_load: usize,
    /// What most often keeps something from running, at most 10.
    pub reasons: Vec<Reason>,
}

/// Something that is not met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Reason {
    /// What kind of thing.
    pub kind: NeedKind,
    /// Its name.
    pub name: String,
    /// Why it is not met.
    pub status: NeedStatus,
    /// Skills that lose something by it.
    pub skills: usize,
}

/// Counts over skills; `None` is one that does not load.
pub fn summarize<'a>(skills: impl Iterator<Item = Option<&'a Compatibility>>) -> Summary {
    let (run_here, run_partly, do_not_run_here, instructions_only, do_not_load) = (0, 0, 0, 0, 0);
    let mut summary = Summary {
        skills: 0,
        run_here,
        run_partly,
        do_not_run_here,
        instructions_only,
        do_not_load,
        reasons: Vec::new(),
    };
    let mut counts: HashMap<(NeedKind, &str), (NeedStatus, usize)> = HashMap::new();
    for skill in skills {
        summary.skills += 1;
        let Some(skill) = skill else {
            summary.do_not_load += 1;
            continue;
        };
        match skill.verdict {
            SupportLevel::Full => summary.run_here += 1,
            SupportLevel::Partial => summary.run_partly += 1,
            SupportLevel::Unsupported => summary.do_not_run_here += 1,
            SupportLevel::InstructionsOnly => summary.instructions_only += 1,
        }
        let mut seen = HashSet::new();
        let needs = skill.scripts.iter().flat_map(|script| &script.needs);
        // A file that does not run has reasons of its own.
        for Need { kind, name, status, .. } in
            needs.filter(|need| need.effect != NeedEffect::None && need.kind != NeedKind::File)
        {
            if seen.insert((*kind, name.as_str())) {
                counts.entry((*kind, name)).or_insert((*status, 0)).1 += 1;
            }
        }
    }
    let reasons = counts.into_iter().map(|((kind, name), (status, skills))| Reason {
        kind,
        name: name.to_owned(),
        status,
        skills,
    });
    summary.reasons = reasons.collect();
    summary.reasons.sort_by(|a, b| {
        b.skills.cmp(&a.skills).then_with(|| a.name.cmp(&b.name)).then(a.kind.cmp(&b.kind))
    });
    summary.reasons.truncate(MAX_REASONS);
    summary
}
