//! `skillhost stats`: show how skills are used, as counted on this machine.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use skillhost_ledger::audit;
use skillhost_ledger::usage::{
    self, Figures, SkillStats, Stats, Suggestions, TierCounts, WipeCounts,
};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::{Policy, Preload};

use crate::args::permissions::PolicyFile;
use crate::commands::audit::moment;
use crate::context::{Context, Places};
use crate::error::{CliError, Exit};
use crate::output;

/// Show how skills are used, and how many tokens that saved
///
/// Counts by skill and session: discovered, activated, run, denied, and the time from the first
/// search to the first use. `mcp` and `serve` count what agents discover and activate, on this
/// machine only; runs come from the audit log and include those of the command line. Names, counts
/// and times are kept for 90 days. `usage: false` in the policy file turns the counting off.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost stats
  skillhost stats pdf-text --since 7d                 session by session
  skillhost stats --json | jq '.skills[] | select(.success_rate < 0.9) | .skill'
  skillhost stats --suggest-default                   which skills to preload (preload: suggested)
  skillhost stats --wipe")]
pub(crate) struct Args {
    /// Only this skill, session by session
    skill: Option<String>,
    /// Only since this time: 2026-01-31T12:00:00Z, 2026-01-31, or how long ago, such as 2h or 7d
    /// [default: 90d]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// List the skills that at least 30 % of the last sessions used, and whether the policy
    /// preloads them
    #[arg(long, conflicts_with_all = ["skill", "since", "wipe"])]
    suggest_default: bool,
    /// Delete all counts; the audit log stays as it is
    #[arg(long, conflicts_with_all = ["skill", "since"])]
    wipe: bool,
    /// Use this audit log instead of the one in the state folder
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    #[command(flatten)]
    policy: PolicyFile,
}

/// Output of `--suggest-default --json`.
#[derive(Serialize)]
struct SuggestionReport<'a> {
    #[serde(flatten)]
    suggestions: &'a Suggestions,
    /// `nothing`, `suggested`, or names of skills.
    preload: &'a Preload,
}

/// The most skills and sessions in a table; `--json` has all.
const ROWS: usize = 25;
/// The most bars in the chart.
const BARS: usize = 10;

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    if args.wipe {
        let wiped = Places::find()?.usage().wipe()?;
        match args.json {
            true => output::json(&wiped)?,
            false => output::text(&wiped_text(&wiped))?,
        }
        return Ok(Exit::Ok);
    }
    let Context { places, policy } = Context::with_file(&args.policy)?;
    if args.suggest_default {
        let suggestions = places.usage().suggestions()?;
        match args.json {
            true => output::json(&SuggestionReport {
                suggestions: &suggestions,
                preload: &policy.preload,
            })?,
            false => print_suggestions(&suggestions, &policy)?,
        }
        return Ok(Exit::Ok);
    }
    let path = args.audit.clone().unwrap_or_else(|| places.audit());
    let log = audit::LogStore::exists(&path).then(|| audit::LogStore::open(&path)).transpose();
    let log = log.map_err(usage::UsageError::from)?;
    let all_days = || {
        Timestamp::now()
            .checked_sub(Duration::from_secs(usage::RETENTION_DAYS * 24 * 60 * 60))
            .unwrap_or(Timestamp::MIN)
    };
    let since = args.since.unwrap_or_else(all_days);
    let answers = places.approvals().approvals()?;
    let stats =
        usage::report(&places.usage(), log.as_ref(), &answers, since, args.skill.as_deref())?;
    if args.json {
        output::json(&stats)?;
        return Ok(Exit::Ok);
    }
    if !policy.usage {
        let message = "the policy says `usage: false`, so searches by agents are not being counted";
        output::warning(message, None);
    }
    output::text(&match &args.skill {
        Some(skill) if stats.skills.is_empty() => {
            format!("{} was not used since {}", printable(skill), day(&stats.since))
        }
        None if stats.skills.is_empty() => format!("no skill was used since {}", day(&stats.since)),
        Some(_) => [sessions(&stats), details(&stats)].concat(),
        None => [skills(&stats), totals(&stats), chart(&stats.skills)].join("\n"),
    })?;
    Ok(Exit::Ok)
}

fn wiped_text(WipeCounts { sessions, skills }: &WipeCounts) -> String {
    match sessions {
        0 => "nothing to delete".into(),
        sessions => format!(
            "deleted the counts of {} and {}; the audit log still has the runs",
            output::count(*sessions, "session"),
            output::count(*skills, "skill")
        ),
    }
}

fn print_suggestions(suggestions: &Suggestions, policy: &Policy) -> Result<(), CliError> {
    let Suggestions { sessions, sessions_needed, skills } = suggestions;
    if sessions < sessions_needed {
        return output::text(&format!(
            "no suggestions: they need {sessions_needed} sessions, and there are {sessions}"
        ));
    }
    if skills.is_empty() {
        return output::text(&format!(
            "no suggestions: no skill was used in 30 % of the last {sessions} sessions"
        ));
    }
    let rows = skills
        .iter()
        .map(|one| [printable(&one.skill), one.sessions.to_string(), percent(one.share)]);
    output::text(&output::table(["skill", "sessions", "share"], rows, 1..3))?;
    match &policy.preload {
        Preload::Suggested => output::note("the policy preloads them: `preload: suggested`"),
        Preload::Named(names) => {
            let names = names.join(", ");
            output::note(&format!("the policy preloads other skills: `preload: [{names}]`"))
        }
        Preload::Nothing => output::help(Some(
            "add `preload: suggested` to the policy file to activate them in every session",
        )),
    }
    Ok(())
}

/// A row for each skill.
fn skills(stats: &Stats) -> String {
    let rows =
        stats.skills.iter().take(ROWS).map(|SkillStats { skill, sessions, figures, .. }| {
            let [discovered, activated, runs, ok, denied, first_use, saved] = cells(figures);
            let (skill, sessions) = (printable(skill), sessions.to_string());
            [skill, sessions, discovered, activated, runs, ok, denied, first_use, saved]
        });
    let head = [
        "skill",
        "sessions",
        "found",
        "activated",
        "runs",
        "ok",
        "denied",
        "first use",
        "tokens saved",
    ];
    output::table(head, rows, 1..9) + &omitted(stats.skills.len())
}

/// A row for each session of one skill.
fn sessions(stats: &Stats) -> String {
    let sessions = stats.by_session.iter().take(ROWS).flat_map(|session| {
        let started = minute(&session.started);
        let name = if session.alone { format!("{started} (alone)") } else { started };
        session.skills.iter().map(move |skill| (name.clone(), &skill.figures))
    });
    let totals = stats
        .skills
        .iter()
        .map(|skill| ("all, including the command line".to_owned(), &skill.figures));
    let rows = sessions.chain(totals).map(|(name, figures)| {
        let [discovered, activated, runs, ok, denied, first_use, saved] = cells(figures);
        [name, discovered, activated, runs, ok, denied, first_use, saved]
    });
    let head =
        ["session", "found", "activated", "runs", "ok", "denied", "first use", "tokens saved"];
    output::table(head, rows, 1..8) + &omitted(stats.by_session.len())
}

/// What a table of sessions does not show.
fn details(stats: &Stats) -> String {
    let lines = stats.skills.iter().flat_map(|skill| {
        let used = skill.last_used.as_deref().map_or("never".into(), minute);
        let answers = match (skill.approved, skill.approved + skill.rejected) {
            (_, 0) => "none".to_owned(),
            (approved, all) => format!("{approved} of {}", output::count(all, "request")),
        };
        let rules = skill.denials_by_rule.iter();
        let denied = rules.map(|(rule, count)| format!("denied {count}: {}", printable(rule)));
        [format!("last used {used}"), format!("approved {answers}")].into_iter().chain(denied)
    });
    lines.map(|line| format!("\n{line}")).collect()
}

fn cells(figures: &Figures) -> [String; 7] {
    let Figures {
        discovered,
        activated,
        runs,
        success_rate,
        denials,
        first_use_ms,
        tokens_saved,
        ..
    } = figures;
    [
        discovered.to_string(),
        activated.to_string(),
        runs.to_string(),
        success_rate.map_or("-".into(), percent),
        denials.to_string(),
        first_use_ms.map_or("-".into(), time),
        tokens_saved.to_string(),
    ]
}

fn totals(stats: &Stats) -> String {
    let Stats { sessions, tokens_saved, since, activations, .. } = stats;
    let each = sessions.checked_sub(1).map_or(0, |_| tokens_saved / sessions.cast_signed());
    let TierCounts { always, deferred } = activations;
    let tiers = match always + deferred {
        0 => String::new(),
        all => format!(
            "\n{}: {always} of skills that are always disclosed, {deferred} of deferred ones",
            output::count(all, "activation")
        ),
    };
    format!(
        "\n{} since {}: {tokens_saved} tokens saved, {each} per session{tiers}",
        output::count(*sessions, "session"),
        day(since)
    )
}

/// Runs as bars; the longest takes the room that there is.
fn chart(skills: &[SkillStats]) -> String {
    let mut runs: Vec<(String, u64)> = skills
        .iter()
        .map(|one| (printable(&one.skill), one.figures.runs))
        .filter(|one| one.1 > 0)
        .collect();
    runs.sort_by_key(|one| std::cmp::Reverse(one.1));
    runs.truncate(BARS);
    let Some(most) = runs.first().map(|one| one.1) else { return String::new() };
    let name = runs.iter().map(|(skill, _)| skill.chars().count()).max().unwrap_or(0);
    let room =
        usize::from(output::width()).saturating_sub(name + most.to_string().len() + 3).clamp(8, 60);
    let bar =
        |runs: u64| "█".repeat((runs as f64 / most as f64 * room as f64).round().max(1.0) as usize);
    let bars: Vec<String> =
        runs.iter().map(|(skill, runs)| format!("{skill:name$}  {} {runs}", bar(*runs))).collect();
    format!("\nruns\n{}", bars.join("\n"))
}

/// Says how many rows a table leaves out.
fn omitted(all: usize) -> String {
    match all.checked_sub(ROWS) {
        None | Some(0) => String::new(),
        Some(more) => format!("\n... and {more} more (--json lists all)"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn time(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        _ => format!("{} min", ms / 60_000),
    }
}

/// The day of a time in RFC 3339.
fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}

fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}
