//! Hostile JavaScript: attacks on the runtime's own layer, and scripts that use up time or memory.
//!
//! An attack is a file of `tests/cases/hostile`. It prints a line `got ...` for each thing that it
//! should not have got, and the host's own records must agree that it got nothing.
//! `docs/design/security.md` has a row for each.

mod bombs;

use std::os::unix::fs::symlink;
use std::path::Path;

use skillhost::invoke::Runner;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};

use crate::hostile_host::{Fixture, Run, SECRET, shell_host};
use crate::servers::Server;
use crate::support::repository;

/// A skill of JavaScript files, in a host with the real programs.
struct Place {
    fixture: Fixture,
    host: Runner,
}

/// What an attack may use, as `allowed-tools` and as entries of the operator.
const GRANTED: [&str; 2] = ["Read", "Bash(jq:*)"];

impl Place {
    /// Creates a skill whose scripts are files of `tests/cases/hostile` and this main script.
    fn new(main: &str, tools: &[&str]) -> Place {
        let fixture = Fixture::new();
        let skill = fixture.path("skills/hostile");
        std::fs::remove_file(skill.join("hostile.wasm")).unwrap();
        let manifest = format!(
            "---\nname: hostile\ndescription: Attacks. Use to test.\nallowed-tools: {}\n---\n",
            tools.join(" ")
        );
        std::fs::write(skill.join("SKILL.md"), manifest).unwrap();
        std::fs::create_dir(skill.join("scripts")).unwrap();
        for file in ["attempts.js", "child.js"] {
            let text = std::fs::read(cases().join(file)).unwrap();
            std::fs::write(skill.join("scripts").join(file), text).unwrap();
        }
        std::fs::write(skill.join("scripts/main.js"), main).unwrap();
        let host = shell_host(fixture.dir.path());
        Place { fixture, host }
    }

    /// Creates a skill whose main script is an attack, and what the attack looks for.
    fn attacked(attack: &str, tools: &[&str]) -> Place {
        let text = std::fs::read_to_string(cases().join(format!("{attack}.js"))).unwrap();
        let place = Place::new(&text, tools);
        place.lay_bait();
        place
    }

    /// Places a module outside every mount, and names in the workspace that lead to it.
    fn lay_bait(&self) {
        let evil = "console.log('got a module: evil ran'); try { require('/skill/scripts/attempts.js')('a module'); } catch {}\n";
        let place = |path: &str, text: &str| {
            let path = self.fixture.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        place("outside/evil.js", evil);
        place("node_modules/evil/index.js", evil);
        place("node_modules/@evil/package/index.js", evil);
        place("workspace/private/key.txt", SECRET);
        place("workspace/addon.node", "\u{7f}ELF");
        place(
            "workspace/package.json",
            r##"{ "imports": { "#inside": "./../outside/evil.js" } }"##,
        );
        for (name, text) in [
            ("main-outside", r#"{ "main": "../../../outside/evil.js" }"#),
            (
                "exports-outside",
                r#"{ "exports": { ".": "./../../../outside/evil.js", "./deep": "./%2e%2e/%2e%2e/outside/evil.js" } }"#,
            ),
        ] {
            place(&format!("workspace/node_modules/{name}/package.json"), text);
        }
        // What the options of node-options.js load: it runs, with the grants of the run.
        place(
            "workspace/evil.js",
            "console.log('preloaded'); try { require('/skill/scripts/attempts.js')('preloaded'); } catch {}\n",
        );
        for (target, link) in [
            ("../outside/evil.js", "workspace/link.js"),
            ("../../outside", "workspace/node_modules/link-outside"),
        ] {
            symlink(target, self.fixture.path(link)).unwrap();
        }
    }

    fn run(&self, args: &[&str]) -> Run<'_> {
        self.fixture.run(args).by(self.host.clone()).script("scripts/main.js")
    }
}

fn cases() -> std::path::PathBuf {
    repository("tests/cases/hostile")
}

/// Runs an attack, and asserts that it tried, that it got nothing, and that nothing changed. The host
/// may stop an attack that exhausts its own memory or time.
fn gets_nothing(attack: &str, tools: &[&str], group: &str) -> Outcome {
    let place = Place::attacked(attack, tools);
    let server = Server::echo();
    let root = place.fixture.dir.path().to_str().unwrap().to_owned();
    let before = place.fixture.snapshot();
    let run = tools.iter().fold(place.run(&[&root, &server.url(), group]), |run, t| run.allow(t));
    let outcome = run.deny("Read(private/**)").limit(Limit::Timeout, 60_000).go();
    let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
    let ended = matches!(outcome.status, Status::Exited { .. } | Status::LimitHit(_));
    assert!(ended, "{:?}: {stdout}{stderr}", outcome.status);
    let got: Vec<&str> = stdout.lines().filter(|line| line.contains("got ")).collect();
    assert!(got.is_empty(), "{got:#?}");
    assert!(!stdout.contains(SECRET) && !stderr.contains(SECRET), "{stdout}{stderr}");
    assert_eq!(server.connections(), 0, "{:?}", outcome.requests);
    let answered = outcome.requests.iter().find(|request| request.status.is_some());
    assert_eq!(answered, None);
    let written = outcome.files.iter().find(|(_, file)| file.written > 0 || file.created);
    assert_eq!(written, None);
    assert_eq!(place.fixture.snapshot(), before);
    if stdout != "no such group\n0 attempts\n" {
        assert!(outcome.denials.len() >= 5, "{:?} {stdout}{stderr}", outcome.denials);
    }
    assert_alive(&place);
    outcome
}

/// Asserts that the host still serves.
fn assert_alive(place: &Place) {
    let main = place.fixture.path("skills/hostile/scripts/main.js");
    std::fs::write(main, "console.log('alive')").unwrap();
    assert_eq!(place.run(&[]).limit(Limit::Timeout, 110_000).succeeds().stdout.text(), "alive\n");
}

#[test]
fn every_attack_has_a_row_in_the_documentation() {
    let document =
        std::fs::read_to_string(Path::new(crate::ROOT).join("docs/design/security.md")).unwrap();
    let section =
        document.split("\n## Hostile scripts\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let is_in_a_row = |name: &str| {
        section.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{name}`")))
    };
    let attacks = crate::support::files(&cases());
    let attacks = attacks.iter().map(|path| crate::support::stem(path));
    for name in
        attacks.filter(|name| !["attempts", "child"].contains(&name.as_str())).chain(bombs::names())
    {
        assert!(is_in_a_row(&name), "docs/design/security.md has no row for `{name}`");
    }
}

#[test]
fn polluted_prototypes_change_nothing_that_the_host_checks() {
    let mut groups = 0;
    loop {
        let outcome = gets_nothing("prototype-pollution", &GRANTED, &groups.to_string());
        assert_eq!(outcome.usage.processes, 0, "{:?}", outcome.processes);
        if outcome.stdout.text().starts_with("no such group") {
            break;
        }
        groups += 1;
    }
    assert!(groups > 20, "{groups}");
}

#[test]
fn options_of_a_polluted_prototype_start_only_what_is_granted() {
    // With `shell` from the prototype, an allowed command would run in a shell.
    let script = "Object.prototype.shell = '/bin/sh'; Object.prototype.cwd = '/'; Object.prototype.env = { X: '1' };
        const done = require('node:child_process').spawnSync('jq', ['-n', '1; echo', '$(echo started)']);
        console.log(String(done.stdout ?? done.error));";
    let place = Place::new(script, &GRANTED);
    let outcome = GRANTED.iter().fold(place.run(&[]), |run, tool| run.allow(tool)).succeeds();
    assert!(!outcome.stdout.text().contains("started"), "{outcome:?}");
    assert!(
        outcome.processes.iter().all(|process| process.argv0 == "jq"),
        "{:?}",
        outcome.processes
    );
}

#[test]
fn the_native_half_of_the_modules_grants_nothing() {
    let outcome = gets_nothing("internals", &GRANTED, "");
    assert_eq!(outcome.usage.processes, 0, "{:?}", outcome.processes);
}

#[test]
fn the_world_outside_a_context_grants_nothing() {
    let outcome = gets_nothing("vm-escape", &GRANTED, "");
    assert_eq!(outcome.usage.processes, 0, "{:?}", outcome.processes);
}

#[test]
fn no_name_of_a_module_leads_out_of_the_mounts() {
    let outcome = gets_nothing("module-paths", &GRANTED, "");
    assert_eq!(outcome.usage.processes, 0, "{:?}", outcome.processes);
}

#[test]
fn options_of_node_change_nothing_that_the_host_checks() {
    let outcome = gets_nothing("node-options", &["Read", "Bash(node:*)"], "");
    assert!(outcome.stdout.text().contains("preloaded"), "{outcome:?}");
    let foreign = outcome.processes.iter().find(|process| process.argv0 != "node");
    assert_eq!(foreign, None);
    // Under an entry for one file, it is started, but never with another file before it.
    let one = ["Read", "Bash(node /skill/scripts/child.js:*)"];
    let outcome = gets_nothing("node-options", &one, "");
    assert!(outcome.usage.processes > 0, "{outcome:?}");
    assert!(!outcome.stdout.text().contains("preloaded"), "{}", outcome.stdout.text());
}
