//! Summarizes the compatibility of many skills.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::need::{Need, NeedEffect, NeedKind, NeedStatus};
use super::{Compatibility, SupportLevel};

/// The most reasons that are reported.
const MAX_REASONS: usize = 10;

/// The number of skills by how well the sandbox supports them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Summary {
    /// All skills.
    pub skills: usize,
    /// The fully supported skills.
    pub run_here: usize,
    /// The partially supported skills.
    pub run_partly: usize,
    /// The skills that are not supported.
    pub do_not_run_here: usize,
    /// The skills with nothing to run.
    pub instructions_only: usize,
    /// The skills that failed to load.
    pub do_not_load: usize,
    /// The most frequent unmet needs, at most 10.
    pub reasons: Vec<Reason>,
}

/// An unmet need of several skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Reason {
    /// The kind.
    pub kind: NeedKind,
    /// The name.
    pub name: String,
    /// Why the need is not met.
    pub status: NeedStatus,
    /// The number of affected skills.
    pub skills: usize,
}

/// Summarizes skills; `None` stands for one that failed to load.
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
        // A file with problems has its own needs.
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
