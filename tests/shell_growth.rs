//! The cost of loops in the shell grows with their length, as in bash.
//!
//! The tests compare fuel, which does not depend on the machine: a loop of four times the length may
//! burn four times the fuel, and a little more.

use std::path::Path;

use skillhost::invoke::Runner;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;

use crate::bash::{Snippet, outcome, write_skill};
use crate::hostile_host::shell_host;

/// More fuel than any of these scripts burns; setting it makes the run count fuel.
const FUEL: u64 = 1_000_000_000_000;

/// Four times the length burns at most this many times the fuel.
const GROWTH: f64 = 4.4;

/// Scripts whose cost once grew with the square of their length, `N`.
const LINEAR: [(&str, &str); 12] = [
    ("a loop over the lines of a file", "seq N > f; while read -r l; do :; done < f"),
    (
        "a loop that prints the lines of a file",
        "seq N > f; while IFS= read -r l; do echo \"$l\"; done < f > g",
    ),
    ("a loop over a here-string", "x=$(seq N); while read -r l; do :; done <<< \"$x\""),
    ("a loop over a process", "while read -r l; do :; done < <(seq N)"),
    ("a loop over a descriptor", "seq N > f; while read -r -u 3 l; do :; done 3< f"),
    ("a loop over a pipe", "seq N | while read -r l; do :; done"),
    (
        "a loop over lines that are not UTF-8",
        "seq N | sed 's/$/\\xff/' > f; while read -r l; do :; done < f",
    ),
    ("a loop over characters", "seq N > f; while read -r -n 1 c; do :; done < f"),
    ("appending to an array", "a=(); for ((i = 0; i < N; i++)); do a+=(\"x$i\"); done"),
    ("appending to a string", "s=; for ((i = 0; i < N; i++)); do s+=\"x$i \"; done"),
    (
        "a substitution next to an array",
        "a=($(seq N)); for x in \"${a[@]}\"; do y=$(false; echo 1); done",
    ),
    ("removing elements", "a=($(seq N)); for ((i = 0; i < N; i++)); do unset \"a[i]\"; done"),
];

#[test]
fn fuel_grows_with_the_length_of_a_loop() {
    let dir = tempfile::tempdir().unwrap();
    let host = shell_host(dir.path());
    let skill = write_skill(dir.path());
    let mut wrong = Vec::new();
    for (name, text) in LINEAR {
        // Subtracts what startup burns.
        let start = fuel(&host, &skill, text, 0);
        let [few, many] = [2_000, 8_000].map(|n| fuel(&host, &skill, text, n) - start);
        let growth = many as f64 / few as f64;
        if growth > GROWTH {
            wrong.push(format!("{name}: {growth:.1} times the fuel for 4 times the length"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn fuel(host: &Runner, skill: &Path, text: &str, n: u64) -> u64 {
    let text = text.replace('N', &n.to_string());
    let place = tempfile::tempdir().unwrap();
    let snippet = Snippet { name: text.clone(), text, fetch: None };
    let limits = vec![(Limit::Fuel, FUEL), (Limit::Timeout, 100_000)];
    let outcome = outcome(host, skill, &snippet, place.path(), limits);
    assert!(matches!(outcome.status, Status::Exited { code: 0 | 1 }), "{outcome:?}");
    outcome.usage.fuel.unwrap()
}
