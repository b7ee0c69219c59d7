//! The compatibility report as text.

use skillhost_compat::{
    Compatibility, Need, NeedEffect, NeedKind, NeedStatus, Reason, Role, ScriptReport, Summary,
    SupportLevel,
};
use skillhost_policy::diagnostic::printable;

use crate::output::{self, CYAN, YELLOW};

/// All scripts of a skill, one on each line, and below them what they lack.
pub(crate) fn in_full(report: &Compatibility) -> String {
    let mut out = format!("Compatibility: {}\n", report.verdict.description());
    let quiet = |script: &ScriptReport| !script.needs.iter().any(Need::is_unmet);
    let (blocks, scripts): (Vec<&ScriptReport>, Vec<&ScriptReport>) =
        report.scripts.iter().partition(|script| script.role == Role::Block);
    let shown = |script: &&ScriptReport| script.role != Role::Module || !quiet(script);
    let rows: Vec<&ScriptReport> = scripts
        .into_iter()
        .filter(shown)
        .chain(blocks.iter().copied().filter(|b| !quiet(b)))
        .collect();
    let width = rows.iter().map(|script| name(script).chars().count()).max().unwrap_or(0).min(40);
    for script in rows {
        let met = met(script);
        let met = if met.is_empty() { String::new() } else { format!("  {met}") };
        out.push_str(&format!(
            "  {:width$}  {:10}  {}{met}\n",
            name(script),
            printable(&script.program),
            script.verdict.description()
        ));
        out.push_str(&unmet(&script.needs));
    }
    let supported = blocks.iter().filter(|block| quiet(block)).count() as u64;
    if supported > 0 {
        out.push_str(&format!(
            "  {} in SKILL.md: {}\n",
            output::count(supported, "shell block"),
            SupportLevel::Full.description()
        ));
    }
    let of_the_skill = unmet(&report.needs);
    if !of_the_skill.is_empty() {
        out.push_str(&format!("  SKILL.md\n{of_the_skill}"));
    }
    out
}

/// The verdict and the main reasons for it, on one line.
pub(crate) fn in_short(report: &Compatibility) -> String {
    /// The most names that are listed.
    const MOST: usize = 6;
    let mut names: Vec<String> = Vec::new();
    // A file that is not supported has its own reasons.
    let mut against: Vec<&Need> = report
        .scripts
        .iter()
        .flat_map(|script| &script.needs)
        .filter(|n| n.effect != NeedEffect::None)
        .filter(|n| n.kind != NeedKind::File || n.status == NeedStatus::Invalid)
        .collect();
    against.sort_by_key(|need| std::cmp::Reverse(need.effect));
    for need in against {
        let name = format!("{} ({})", printable(&need.name), need.status.description());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    let colon = if names.is_empty() { "" } else { ": " };
    format!("{}{colon}{}", report.verdict.description(), names.join(", "))
}

/// A folder of skills in two lines.
pub(crate) fn summary(summary: &Summary) -> String {
    let Summary {
        skills: _,
        run_here,
        run_partly,
        do_not_run_here,
        instructions_only,
        do_not_load,
        reasons,
    } = summary;
    let mut out = format!(
        "Compatibility: {run_here} fully supported, {run_partly} partially, {do_not_run_here} not \
         supported, {instructions_only} instructions only, {do_not_load} failed to load"
    );
    if !reasons.is_empty() {
        let reason = |Reason { name, status: why, skills, .. }: &Reason| {
            let skills = output::count(*skills as u64, "skill");
            format!("{} ({skills}, {})", printable(name), why.description())
        };
        let reasons: Vec<String> = reasons.iter().map(reason).collect();
        out.push_str(&format!("\nMost often missing: {}", reasons.join(", ")));
    }
    out
}

fn name(script: &ScriptReport) -> String {
    let file = printable(&script.file);
    script.line.map_or(file.clone(), |line| format!("{file}:{line}"))
}

/// The needs of a script that are met and worth listing: packages, programs and hosts.
fn met(script: &ScriptReport) -> String {
    let worth = |need: &&Need| {
        !need.is_unmet() && (need.version.is_some() || need.status == NeedStatus::Granted)
    };
    let mut names = Vec::new();
    for need in script.needs.iter().filter(worth) {
        let version =
            need.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        names.push(format!("{}{version}", printable(&need.name)));
    }
    names.join(", ")
}

fn unmet(needs: &[Need]) -> String {
    let mut out = String::new();
    for need in needs {
        let Some(message) = &need.message else { continue };
        let place =
            format!("{}:{}:{}", printable(&need.place.file), need.place.line, need.place.column);
        let message = output::lines(message, 6);
        // A script that works without it needs no warning.
        out.push_str(&match need.effect {
            NeedEffect::None => format!("    {CYAN}note{CYAN:#}: {place}: {message}\n"),
            _ => format!("    {YELLOW}warning{YELLOW:#}: {place}: {message}\n"),
        });
        if let Some(fix) = &need.fix {
            out.push_str(&format!("      {CYAN}help{CYAN:#}: {}\n", output::lines(fix, 12)));
        }
    }
    out
}
