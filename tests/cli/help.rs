//! `--help` of every verb, pinned as docs/reference/cli.md. `BLESS=1` writes it.

use std::fmt::Write as _;

use super::{User, pinned, repository, text};

const VERBS: [&str; 25] = [
    "run",
    "check",
    "list",
    "search",
    "show",
    "prompt",
    "approve",
    "pending",
    "permissions",
    "inspect",
    "programs",
    "bench",
    "new",
    "build",
    "verify",
    "replay",
    "diff",
    "mcp",
    "serve",
    "audit",
    "key",
    "state",
    "stats",
    "schema",
    "completions",
];

/// What is below a verb.
const BELOW: [&str; 14] = [
    "permissions set",
    "permissions revoke",
    "key new",
    "key show",
    "key trust",
    "audit list",
    "audit show",
    "audit verify",
    "audit head",
    "audit export",
    "audit prune",
    "state list",
    "state export",
    "state wipe",
];

#[test]
fn the_documented_help_is_the_help() {
    let user = User::new();
    let mut page = String::from(
        "# The command line\n\nWhat `skillhost --help` and the help of each verb print.\n",
    );
    let below = |verb: &'static str| {
        BELOW
            .into_iter()
            .filter(move |path| path.split_once(' ').is_some_and(|(above, _)| above == verb))
    };
    for verb in [""]
        .into_iter()
        .chain(VERBS.into_iter().flat_map(|verb| [verb].into_iter().chain(below(verb))))
    {
        let args: Vec<&str> =
            verb.split(' ').chain(["--help"]).filter(|arg| !arg.is_empty()).collect();
        let run = user.skillhost(&args);
        assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
        let title =
            if verb.is_empty() { "skillhost".to_owned() } else { format!("skillhost {verb}") };
        write!(page, "\n## {title}\n\n```text\n{}\n```\n", text(&run.stdout).trim_end()).unwrap();
    }
    pinned(&repository("docs").join("cli.md"), &page)
        .unwrap_or_else(|difference| panic!("{difference}"));
}

#[test]
fn every_verb_has_examples_and_a_summary_of_one_line() {
    let user = User::new();
    let list = text(&user.skillhost(&["--help"]).stdout);
    for verb in VERBS {
        let help = text(&user.skillhost(&[verb, "--help"]).stdout);
        assert!(help.contains("\nExamples:\n  "), "{verb} has no examples");
        let mut lines =
            list.lines().skip_while(|line| !line.starts_with(&format!("  {verb} "))).skip(1);
        assert!(
            lines.next().is_some_and(|next| !next.starts_with("      ")),
            "the summary of {verb} wraps"
        );
    }
}
