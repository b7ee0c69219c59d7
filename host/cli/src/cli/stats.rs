//! `skillhost stats`: how skills are used, as counted on this machine.

use std::path::PathBuf;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use jiff::Timestamp;
use serde::Serialize;
use skillhost_ledger::audit;
use skillhost_ledger::usage::{
    self, Figures, SkillStats, Stats, Suggestions, UsageError, WipeCounts,
};
use skillhost_policy::diagnostic::printable;
use skillhost_policy::{Policy, Preload};

use super::audit::moment;
use super::exit::Exit;
use super::permissions::PolicyFile;
use super::places::Places;
use super::{Failure, show};

/// Shows how skills are used, and how many tokens that saved
///
/// By skill and session: found, activated, run, refused, and the time from the first search to the
/// first use. What agents find and activate is counted by `mcp` and `serve`, on this machine alone;
/// runs are those of the audit log, with those of the command line. Kept are names, counts and
/// times of 90 days. `usage: false` in the policy file turns it off.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost stats
  skillhost stats pdf-text --since 7d                 session by session
  skillhost stats --json | jq '.skills[] | select(.success_rate < 0.9) | .skill'
  skillhost stats --suggest-default                   what to have active from the start: preload: suggested
  skillhost stats --wipe")]
pub(crate) struct Args {
    /// Of this skill alone, session by session
    skill: Option<String>,
    /// Since then: a time such as 2026-01-31T12:00:00Z, a date, or how long ago, such as 2h or 7d
    /// [default: 90d]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Name the skills that 30 % or more of the last sessions used, and say whether the policy
    /// preloads them
    #[arg(long, conflicts_with_all = ["skill", "since", "wipe"])]
    suggest_default: bool,
    /// Remove all that was counted; the audit log stays as it is
    #[arg(long, conflicts_with_all = ["skill", "since"])]
    wipe: bool,
    /// The audit log that has the runs, instead of the one in the state folder
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    #[command(flatten)]
    policy: PolicyFile,
}

/// What `--suggest-default --json` prints.
#[derive(Serialize)]
struct Suggested<'a> {
    #[serde(flatten)]
    suggestions: &'a Suggestions,
    /// `nothing`, `suggested`, or what is named.
    preload: &'a Preload,
}

/// Skills and sessions that people are shown; `--json` has all.
const SHOWN: usize = 25;
/// Bars of the chart.
const BARS: usize = 10;

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    let store = places.usage();
    if args.wipe {
        let wiped = store.wipe().map_err(failure)?;
        match args.json {
            true => show::json(&wiped)?,
            false => show::text(&told(wiped))?,
        }
        return Ok(Exit::Ok);
    }
    let policy = args.policy.read(&places)?;
    if args.suggest_default {
        let suggestions = store.suggestions().map_err(failure)?;
        match args.json {
            true => show::json(&Suggested { suggestions: &suggestions, preload: &policy.preload })?,
            false => suggest(&suggestions, &policy)?,
        }
        return Ok(Exit::Ok);
    }
    let path = args.audit.clone().unwrap_or_else(|| places.audit());
    let log = audit::LogStore::exists(&path).then(|| audit::LogStore::open(&path)).transpose();
    let log = log.map_err(|error| failure(error.into()))?;
    let kept = || {
        Timestamp::now()
            .checked_sub(Duration::from_secs(usage::RETENTION_DAYS * 24 * 60 * 60))
            .unwrap_or(Timestamp::MIN)
    };
    let since = args.since.unwrap_or_else(kept);
    let stats =
        usage::report(&store, log.as_ref(), since, args.skill.as_deref()).map_err(failure)?;
    if args.json {
        show::json(&stats)?;
        return Ok(Exit::Ok);
    }
    if !policy.usage {
        show::warning(
            "the policy says `usage: false`: what agents find and activate is not counted now",
            None,
        );
    }
    if stats.skills.is_empty() {
        show::text(&format!("no skill was used since {}", day(&stats.since)))?;
        return Ok(Exit::Ok);
    }
    show::text(&match args.skill {
        Some(_) => sessions(&stats),
        None => [skills(&stats), totals(&stats), chart(&stats.skills)].join("\n"),
    })?;
    Ok(Exit::Ok)
}

fn failure(error: UsageError) -> Failure {
    Failure::new(Exit::Io, error.to_string())
}

fn told(WipeCounts { sessions, skills }: WipeCounts) -> String {
    match sessions {
        0 => "nothing was counted".into(),
        _ => format!(
            "removed {}, in which {} came up; runs are still in the audit log",
            some(sessions, "session"),
            some(skills, "skill")
        ),
    }
}

fn suggest(suggestions: &Suggestions, policy: &Policy) -> Result<(), Failure> {
    let Suggestions { sessions, sessions_needed, skills } = suggestions;
    if sessions < sessions_needed {
        return show::text(&format!(
            "nothing is suggested: that takes {sessions_needed} sessions, and there are {sessions}"
        ));
    }
    if skills.is_empty() {
        return show::text(&format!(
            "nothing is suggested: no skill was used in 30 % of the last {sessions} sessions"
        ));
    }
    let mut table = plain();
    table.set_header(["skill", "sessions", "of"]);
    for one in skills {
        table.add_row([printable(&one.skill), one.sessions.to_string(), percent(one.share)]);
    }
    right(&mut table, 1..3);
    show::text(&table.to_string())?;
    match &policy.preload {
        Preload::Suggested => show::note("the policy preloads them: `preload: suggested`"),
        Preload::Named(names) => {
            show::note(&format!("the policy preloads others: `preload: [{}]`", names.join(", ")))
        }
        Preload::Nothing => show::help(Some(
            "preload: suggested\nat the top level of the policy file has them active from the start of a session",
        )),
    }
    Ok(())
}

/// A line for each skill.
fn skills(stats: &Stats) -> String {
    let mut table = plain();
    table.set_header([
        "skill",
        "sessions",
        "found",
        "activated",
        "runs",
        "ok",
        "denied",
        "first use",
        "tokens saved",
    ]);
    for SkillStats { skill, sessions, figures } in stats.skills.iter().take(SHOWN) {
        table.add_row([vec![printable(skill), sessions.to_string()], cells(figures)].concat());
    }
    right(&mut table, 1..9);
    cut(&table, stats.skills.len())
}

/// A line for each session of one skill.
fn sessions(stats: &Stats) -> String {
    let mut table = plain();
    table.set_header([
        "session",
        "found",
        "activated",
        "runs",
        "ok",
        "denied",
        "first use",
        "tokens saved",
    ]);
    for one in stats.by_session.iter().take(SHOWN) {
        let name = if one.alone {
            format!("{} (alone)", minute(&one.started))
        } else {
            minute(&one.started)
        };
        for of in &one.skills {
            table.add_row([vec![name.clone()], cells(&of.figures)].concat());
        }
    }
    for SkillStats { figures, .. } in &stats.skills {
        table.add_row([vec!["all, and the command line".to_owned()], cells(figures)].concat());
    }
    right(&mut table, 1..8);
    cut(&table, stats.by_session.len())
}

fn cells(figures: &Figures) -> Vec<String> {
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
    vec![
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
    let Stats { sessions, tokens_saved, since, .. } = stats;
    let each = sessions.checked_sub(1).map_or(0, |_| tokens_saved / sessions.cast_signed());
    format!(
        "\n{} since {}: {tokens_saved} tokens saved, {each} a session",
        some(*sessions, "session"),
        day(since)
    )
}

/// Runs as bars, the longest as wide as there is room for.
fn chart(skills: &[SkillStats]) -> String {
    let mut ran: Vec<(String, u64)> = skills
        .iter()
        .map(|one| (printable(&one.skill), one.figures.runs))
        .filter(|one| one.1 > 0)
        .collect();
    ran.sort_by_key(|one| std::cmp::Reverse(one.1));
    ran.truncate(BARS);
    let Some(most) = ran.first().map(|one| one.1) else { return String::new() };
    let name = ran.iter().map(|(skill, _)| skill.chars().count()).max().unwrap_or(0);
    let room =
        usize::from(show::width()).saturating_sub(name + most.to_string().len() + 3).clamp(8, 60);
    let bar =
        |runs: u64| "█".repeat((runs as f64 / most as f64 * room as f64).round().max(1.0) as usize);
    let bars: Vec<String> =
        ran.iter().map(|(skill, runs)| format!("{skill:name$}  {} {runs}", bar(*runs))).collect();
    format!("\nruns\n{}", bars.join("\n"))
}

fn plain() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(show::width());
    table
}

fn right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns.filter_map(|at| table.column(at).map(|_| at)).collect::<Vec<_>>() {
        table
            .column_mut(column)
            .into_iter()
            .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
}

/// The table, and what it left out.
fn cut(table: &Table, all: usize) -> String {
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let more = if all > SHOWN {
        format!("\n... and {} more: --json has all", all - SHOWN)
    } else {
        String::new()
    };
    lines.join("\n") + &more
}

fn some(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
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
