//! The host's environment: its variables and its programs.

use skillhost_policy::outcome::Status;

use super::{denied, report};
use crate::hostile_host::Fixture;

#[test]
pub fn host_environment_and_paths_are_hidden() {
    let fixture = Fixture::new();
    // The environment of this process, which is the host: its folders, and the variables that cargo
    // and the shell set.
    let mut secrets = vec![fixture.dir.path().to_string_lossy().into_owned()];
    let vars = std::env::vars().filter(|(name, _)| name == "PATH" || name.starts_with("CARGO"));
    // The guest has its own PATH, which may equal the host's.
    let own = "/usr/local/bin:/usr/bin:/bin";
    secrets.extend(
        vars.map(|(_, value)| value)
            .filter(|value| value.len() > 6 && !own.contains(value.as_str())),
    );
    assert!(secrets.len() > 1);
    let reversed: Vec<String> =
        secrets.iter().map(|secret| secret.chars().rev().collect()).collect();
    let mut args = vec!["environment"];
    args.extend(reversed.iter().map(String::as_str));
    let outcome = fixture.run(&args).go();
    let report = report(&outcome);
    assert_eq!(report["denied"], true, "{report:#}");
    assert_eq!(outcome.status, Status::Exited { code: 0 });
}

#[test]
pub fn host_programs_cannot_be_started() {
    let fixture = Fixture::new();
    denied(&fixture, fixture.run(&["programs"]));
    let outcome = denied(&fixture, fixture.run(&["programs"]).deny("Bash"));
    assert!(
        outcome.denials.iter().any(|denial| denial.what.contains("/bin/sh")),
        "{:?}",
        outcome.denials
    );
}

#[test]
pub fn a_command_is_compared_with_its_arguments() {
    let fixture = Fixture::new();
    let manifest = "---\nname: hostile\ndescription: Starts itself.\nallowed-tools: Bash(hostile verbs)\nmetadata:\n  component: hostile.wasm\n---\n";
    std::fs::write(fixture.path("skills/hostile/SKILL.md"), manifest).unwrap();
    fixture.run(&["start", "1", "verbs"]).succeeds();
    for refused in
        [&["verbs", "more"][..], &["burn", "1"], &["verbs "], &["verbs\n"], &["verbs; burn"], &[""]]
    {
        let mut args = vec!["start", "1"];
        args.extend(refused);
        let outcome = fixture.run(&args).go();
        assert_eq!(outcome.status, Status::Exited { code: 1 }, "{refused:?}");
        assert!(outcome.stderr.text().contains("denied"), "{refused:?}: {}", outcome.stderr.text());
        assert_eq!(outcome.usage.processes, 0, "{refused:?}");
    }
}
