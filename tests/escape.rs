//! The hostile guest tries to escape and to exhaust the host. Everything it does is denied or
//! stopped by a limit, the host still serves the next run, and nothing remains on disk.

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

use crate::hostile_host::{Fixture, Run};

/// The test of each verb, by name. `docs/design/security.md` lists the same names.
macro_rules! table {
    ($($verb:literal => $module:ident::$test:ident,)+) => {
        const TABLE: &[(&str, &str)] = &[$(($verb, stringify!($test))),+];
        const _: &[fn()] = &[$($module::$test),+];
    };
}

table! {
    "traversal" => files::parent_components_do_not_escape,
    "absolute" => files::absolute_paths_are_refused,
    "proc" => files::host_processes_and_devices_are_not_visible,
    "glob" => files::excluded_files_are_unreachable_under_any_name,
    "read-only" => files::read_only_folders_cannot_be_changed,
    "state" => files::host_files_are_unreachable_in_every_folder,
    "symlink" => files::symbolic_links_lead_out_of_no_folder,
    "hardlink" => files::hard_links_to_outside_are_not_written_or_created,
    "race" => files::a_link_that_replaces_a_folder_is_not_followed,
    "environment" => ambient::host_environment_and_paths_are_hidden,
    "programs" => ambient::host_programs_cannot_be_started,
    "sockets" => network::sockets_are_unavailable,
    "dns" => network::host_names_are_not_resolved,
    "http-private" => network::private_addresses_are_not_contacted,
    "http-spellings" => network::no_spelling_of_loopback_gets_through,
    "http-redirect" => network::a_redirect_is_checked_like_a_request,
    "http-rebinding" => network::an_allowed_name_with_a_private_address_is_refused,
    "http-smuggling" => network::one_request_stays_one_request,
    "memory" => resources::memory_stops_growing_at_its_limit,
    "memory-at-once" => resources::memory_stops_growing_at_its_limit,
    "memory-in-pieces" => resources::memory_stops_growing_at_its_limit,
    "spin" => resources::endless_guests_are_stopped,
    "sleep" => resources::endless_guests_are_stopped,
    "stdin" => resources::endless_guests_are_stopped,
    "flood" => resources::a_flood_of_output_is_cut_off,
    "disk" => files::disk_usage_is_limited,
    "files" => files::a_million_files_cannot_be_created,
    "handles" => resources::a_million_handles_cannot_be_held,
    "host-calls" => resources::the_host_survives_a_million_calls,
    "random" => resources::random_bytes_are_limited,
    "random-at-once" => resources::random_bytes_are_limited,
    "recursion" => resources::endless_recursion_is_stopped,
    "recursion-in-memory" => endings::a_trap_is_an_outcome,
    "huge" => resources::huge_arguments_are_not_copied,
    "spawn" => resources::nested_programs_are_limited,
    "spawn-again" => resources::nested_programs_are_limited,
    "fork" => resources::nested_programs_are_limited,
    "hoard" => resources::host_buffers_for_programs_count_as_memory,
    "pipes" => processes::pipes_are_not_hoarded,
    "poll-bomb" => processes::waiting_for_a_hundred_thousand_pipe_ends_hits_a_limit,
    "leave" => processes::programs_left_running_end_with_the_run,
    "kill-tree" => processes::killing_a_program_kills_its_descendants,
    "broken-pipe" => processes::a_pipe_without_a_reader_accepts_nothing,
    "unread" => processes::an_unread_pipe_blocks_its_writer,
    "tasks" => resources::a_million_tasks_cannot_be_held,
    "streams" => resources::a_million_tasks_cannot_be_held,
    "trap" => endings::a_trap_is_an_outcome,
    "panic" => endings::a_trap_is_an_outcome,
    "trap-in-drop" => endings::a_trap_is_an_outcome,
    "out-of-bounds" => endings::a_trap_is_an_outcome,
    "exit" => endings::exit_codes_are_bytes,
    "control" => endings::control_characters_are_kept_as_data,
}

#[test]
fn every_verb_has_a_test_and_a_row_in_the_documentation() {
    let verbs = Fixture::new().run(&["verbs"]).succeeds().stdout.text().into_owned();
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
        include_str!("concurrent_runs.rs"),
        include_str!("process.rs"),
        include_str!("determinism/rules.rs"),
    ]
    .concat();
    for load in loads {
        assert!(tests.contains(&format!("\"{load}\"")), "no test uses the load `{load}`");
    }
}

/// Returns the report that an attack printed.
fn report(outcome: &Outcome) -> Value {
    let text = outcome.stdout.text();
    let line = text.lines().last().unwrap_or_else(|| panic!("no report: {outcome:?}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Asserts that the attack tried something, that everything was denied, that nothing changed, and
/// that the host still serves.
fn denied(fixture: &Fixture, run: Run<'_>) -> Outcome {
    let before = fixture.snapshot();
    let outcome = run.go();
    let report = report(&outcome);
    assert_eq!(report["detail"]["escapes"], Value::Array(vec![]), "{report:#}");
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    assert!(report["detail"]["tried"].as_u64() > Some(0), "nothing was tried: {report:#}");
    assert_eq!(fixture.snapshot(), before);
    fixture.assert_alive();
    outcome
}

/// Asserts that a limit ended the run, that nothing outside the workspace changed, and that the
/// host still serves.
fn stopped(fixture: &Fixture, run: Run<'_>, limit: Limit) -> Outcome {
    let outside = |fixture: &Fixture| -> BTreeMap<_, _> {
        fixture.snapshot().into_iter().filter(|(path, _)| !path.starts_with("workspace")).collect()
    };
    let before = outside(fixture);
    let outcome = run.hits(limit);
    assert_eq!(outside(fixture), before);
    fixture.assert_alive();
    outcome
}
