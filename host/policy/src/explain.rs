//! Prints a grant for people: the decision on each entry, then the capabilities.

use comfy_table::{ContentArrangement, Table, presets};

use super::capabilities::{MountMode, Scope};
use super::determinism::show_start_time;
use super::grant::Grant;
use super::pattern::{CommandPattern, PathGlob};
use super::verdict::{Pattern, show_host};
use crate::limits::Limit;

/// Formats a grant as two tables, at most `width` columns wide. Omits the values of variables.
pub fn explain(grant: &Grant, width: u16) -> String {
    let mut decisions = table(width, &["requested", "verdict", "meaning", "decided by"]);
    for d in &grant.decisions {
        let entry = d.place.map_or_else(
            || d.entry.clone(),
            |at| format!("{}\nSKILL.md:{}:{}", d.entry, at.line, at.column),
        );
        let meaning = d
            .fix
            .as_ref()
            .map_or_else(|| d.meaning.clone(), |fix| format!("{}\nfix: {fix}", d.meaning));
        decisions.add_row([entry, d.verdict.description().into(), meaning, d.rule.clone()]);
    }
    let mut out = String::new();
    if !grant.decisions.is_empty() {
        out.push_str(&format!("{decisions}\n\n"));
    }
    out.push_str(&format!("{}\n", capabilities(grant, width)));
    out
}

fn capabilities(grant: &Grant, width: u16) -> Table {
    let c = &grant.capabilities;
    let allowed = if grant.needs_approval { "allowed, if the run is approved" } else { "allowed" };
    let mut rows = table(width, &["capability", allowed]);
    let mounts = c.mounts.iter().map(|m| {
        let mode = match m.mode {
            MountMode::Read => "read-only",
            MountMode::Write => "read-write",
            MountMode::Overlay => "overlay",
        };
        let symlinks = if m.symlinks { ", with symlinks" } else { "" };
        format!("{} = {} ({mode}{symlinks})", m.guest, m.host.display())
    });
    let packages = c
        .packages
        .iter()
        .map(|m| format!("{} = {} (packages, read-only)", m.guest, m.host.display()));
    let own = ["/skill (read-only)".to_owned(), "/tmp (scratch)".to_owned()];
    let state = c
        .limits
        .get(Limit::State)
        .map(|bytes| format!("/state (kept between runs, at most {})", Limit::State.show(bytes)));
    rows.add_row([
        "folders".to_owned(),
        lines(own.into_iter().chain(state).chain(mounts).chain(packages)),
    ]);
    rows.add_row(["read".to_owned(), files(&c.read, !c.mounts.is_empty())]);
    rows.add_row([
        "write".to_owned(),
        files(&c.write, c.mounts.iter().any(|m| m.mode != MountMode::Read)),
    ]);
    rows.add_row(["programs".to_owned(), show(&c.spawn, show_command)]);
    if !c.host_programs.is_empty() {
        let names = c.host_programs.iter().map(|name| format!("{name} (outside the sandbox)"));
        rows.add_row(["host programs".to_owned(), lines(names)]);
    }
    rows.add_row(["network".to_owned(), show(&c.fetch, show_host)]);
    if !c.fetch.is_empty() {
        rows.add_row(["methods".to_owned(), c.methods.join(" ")]);
    }
    if !c.authorities.is_empty() {
        let trusted = c.authorities.iter().map(|a| format!("{} ({})", a.file.display(), a.digest));
        rows.add_row(["trusted authorities".to_owned(), lines(trusted)]);
    }
    rows.add_row(["variables".to_owned(), lines(c.env.keys().cloned())]);
    if let Some(d) = c.determinism {
        rows.add_row([
            "deterministic".to_owned(),
            format!("seed {}, start time {}", d.seed, show_start_time(d.start_time)),
        ]);
    }
    let limits = Limit::ALL
        .into_iter()
        .map(|l| format!("{l} {}", c.limits.get(l).map_or("off".into(), |v| l.show(v))));
    rows.add_row(["limits".to_owned(), limits.collect::<Vec<_>>().join(", ")]);
    rows
}

/// Formats the files that a scope allows, if any folder is mounted that way.
fn files(scope: &Scope<PathGlob>, any: bool) -> String {
    let text = |glob: &PathGlob| {
        if *glob == PathGlob::everything() {
            "every file in these folders".to_owned()
        } else {
            glob.pattern().to_owned()
        }
    };
    if any { show(scope, text) } else { "nothing else".into() }
}

/// Formats a scope: what both sides allow, without redundant patterns, then what is denied.
fn show<P: Pattern>(scope: &Scope<P>, text: impl Fn(&P) -> String) -> String {
    if scope.is_empty() {
        return "nothing".into();
    }
    let mut sides: Vec<Vec<&P>> = scope.all_of.iter().map(|side| widest(side)).collect();
    for i in (0..sides.len()).rev() {
        let (side, rest) = (&sides[i], sides.iter().enumerate().filter(|(j, _)| *j != i));
        // A side that covers another side does not narrow it.
        if rest.clone().any(|(_, other)| other.iter().all(|p| side.iter().any(|s| s.covers(p)))) {
            sides.remove(i);
        }
    }
    let list = |side: &[&P]| side.iter().map(|p| text(p)).collect::<Vec<_>>().join(", ");
    let mut out = sides.iter().map(|side| list(side)).collect::<Vec<_>>().join("\nlimited to: ");
    if !scope.none_of.is_empty() {
        out.push_str(&format!("\nexcept: {}", list(&widest(&scope.none_of))));
    }
    out
}

/// Returns the patterns of a side that no other pattern of it covers.
fn widest<P: Pattern>(side: &[P]) -> Vec<&P> {
    let mut out: Vec<&P> = Vec::new();
    for pattern in side {
        if !out.iter().any(|o| o.covers(pattern)) {
            out.retain(|o| !pattern.covers(o));
            out.push(pattern);
        }
    }
    out
}

fn show_command(command: &CommandPattern) -> String {
    match (command.words.is_empty(), command.open) {
        (true, _) => "any".into(),
        (false, true) => format!("{} ...", command.words.join(" ")),
        (false, false) => command.words.join(" "),
    }
}

fn lines(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "none".into() } else { items.join("\n") }
}

fn table(width: u16, header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(header.to_vec());
    table
}
