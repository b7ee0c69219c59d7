//! The hostile guest tries to get out, and to take the host down. Whatever it does is denied or
//! stopped by its limit, the host stays alive and serves the next run, and nothing is left on disk.

mod ambient;
mod endings;
mod files;
mod network;
mod processes;
mod resources;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};

use crate::hostile_host::{Arena, Run};

/// The test of each verb, by name. `docs/design/security.md` names the same.
macro_rules! table {
    ($($verb:literal => $module:ident::$test:ident,)+) => {
        const TABLE: &[(&str, &str)] = &[$(($verb, stringify!($test))),+];
        const _: &[fn()] = &[$($module::$test),+];
    };
}

table! {
    "traversal" => files::dots_lead_nowhere,
    "absolute" => files::absolute_paths_are_refused,
    "proc" => files::processes_and_devices_of_the_host_are_not_there,
    "glob" => files::what_the_rules_leave_out_has_no_other_name,
    "read-only" => files::what_is_read_only_stays_as_it_is,
    "state" => files::the_host_s_own_files_are_in_no_folder,
    "symlink" => files::symbolic_links_lead_nowhere_and_are_not_made,
    "hardlink" => files::hard_links_to_outside_are_not_written_or_created,
    "race" => files::a_link_that_takes_a_folder_s_place_is_not_followed,
    "environment" => ambient::the_host_s_environment_and_paths_are_not_seen,
    "programs" => ambient::the_host_s_programs_are_not_started,
    "sockets" => network::there_are_no_sockets,
    "dns" => network::names_are_not_looked_up,
    "http-private" => network::private_addresses_are_not_asked,
    "http-spellings" => network::no_spelling_of_loopback_gets_through,
    "http-redirect" => network::a_redirect_is_checked_like_a_request,
    "http-rebinding" => network::an_allowed_name_that_means_a_private_address_is_refused,
    "http-smuggling" => network::one_request_stays_one_request,
    "memory" => resources::memory_stops_growing_at_its_limit,
    "memory-at-once" => resources::memory_stops_growing_at_its_limit,
    "memory-in-pieces" => resources::memory_stops_growing_at_its_limit,
    "spin" => resources::what_never_ends_is_ended,
    "sleep" => resources::what_never_ends_is_ended,
    "stdin" => resources::what_never_ends_is_ended,
    "flood" => resources::a_flood_of_output_is_cut_off,
    "disk" => files::the_disk_is_not_filled,
    "files" => files::a_million_files_are_not_made,
    "handles" => resources::a_million_handles_are_not_held,
    "host-calls" => resources::a_million_host_calls_are_survived,
    "random" => resources::random_bytes_run_out,
    "random-at-once" => resources::random_bytes_run_out,
    "recursion" => resources::endless_recursion_ends,
    "recursion-in-memory" => endings::a_trap_is_an_outcome,
    "huge" => resources::huge_arguments_are_not_copied,
    "spawn" => resources::programs_that_start_programs_come_to_an_end,
    "spawn-again" => resources::programs_that_start_programs_come_to_an_end,
    "fork" => resources::programs_that_start_programs_come_to_an_end,
    "hoard" => resources::what_the_host_keeps_for_programs_counts_as_memory,
    "pipes" => processes::pipes_are_not_hoarded,
    "poll-bomb" => processes::a_hundred_thousand_ends_are_not_waited_for,
    "leave" => processes::what_is_left_running_ends_with_the_run,
    "kill-tree" => processes::programs_are_killed_with_those_that_they_started,
    "broken-pipe" => processes::a_pipe_that_nobody_reads_takes_nothing,
    "unread" => processes::a_pipe_that_is_not_read_holds_its_writer_back,
    "tasks" => resources::a_million_tasks_are_not_held,
    "streams" => resources::a_million_tasks_are_not_held,
    "trap" => endings::a_trap_is_an_outcome,
    "panic" => endings::a_trap_is_an_outcome,
    "trap-in-drop" => endings::a_trap_is_an_outcome,
    "out-of-bounds" => endings::a_trap_is_an_outcome,
    "exit" => endings::exit_codes_are_bytes,
    "control" => endings::control_characters_are_kept_as_data,
}

#[test]
fn every_verb_has_a_test_and_a_row_in_the_documentation() {
    let verbs = Arena::new().run(&["verbs"]).obeys().stdout.text().into_owned();
    let of_kind = |kind: &str| -> Vec<String> {
        verbs.lines().filter_map(|line| line.strip_prefix(kind)).map(str::to_owned).collect()
    };
    let (attacks, loads) = (of_kind("attack "), of_kind("load "));
    assert!(attacks.len() > 20 && loads.len() > 10, "{verbs}");
    let tested: Vec<&str> = TABLE.iter().map(|(verb, _)| *verb).collect();
    assert_eq!(attacks, tested, "the component's attacks and this file's table");

    let docs =
        std::fs::read_to_string(Path::new(crate::ROOT).join("docs/design/security.md")).unwrap();
    for (verb, test) in TABLE {
        let row =
            docs.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{verb}`")));
        let row = row.unwrap_or_else(|| panic!("docs/design/security.md has no row for `{verb}`"));
        assert!(
            row.contains(&format!("`{test}`")),
            "docs/design/security.md: the row of `{verb}` does not name its test `{test}`: {row}"
        );
    }
    let tests = [
        include_str!("limits.rs"),
        include_str!("together.rs"),
        include_str!("process.rs"),
        include_str!("determinism/rules.rs"),
    ]
    .concat();
    for load in loads {
        assert!(tests.contains(&format!("\"{load}\"")), "no test uses the load `{load}`");
    }
}

/// The report that an attack printed.
fn report(outcome: &Outcome) -> Value {
    let text = outcome.stdout.text();
    let line = text.lines().last().unwrap_or_else(|| panic!("no report: {outcome:?}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Everything was tried, everything was denied, nothing has changed, and the host goes on.
fn denied(arena: &Arena, run: Run<'_>) -> Outcome {
    let before = arena.snapshot();
    let outcome = run.go();
    let report = report(&outcome);
    assert_eq!(report["detail"]["escapes"], Value::Array(vec![]), "{report:#}");
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    assert!(report["detail"]["tried"].as_u64() > Some(0), "nothing was tried: {report:#}");
    assert_eq!(arena.snapshot(), before);
    arena.assert_alive();
    outcome
}

/// A limit ended it, scratch space is empty, nothing but the workspace has changed, and the host
/// goes on.
fn stopped(arena: &Arena, run: Run<'_>, limit: Limit) -> Outcome {
    let outside = |arena: &Arena| -> BTreeMap<_, _> {
        arena.snapshot().into_iter().filter(|(path, _)| !path.starts_with("workspace")).collect()
    };
    let before = outside(arena);
    let outcome = run.hits(limit);
    assert_eq!(outside(arena), before);
    arena.assert_alive();
    outcome
}
