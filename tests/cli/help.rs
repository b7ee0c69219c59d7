//! The `--help` output of every command, pinned as docs/reference/cli.md. `BLESS=1` rewrites it.

use std::fmt::Write as _;

use super::{User, pinned, repository, text};

/// The start of the page.
pub(super) const PREFACE: &str = r#"# The command line

What `skillhost --help` and the help of each command print.

## JSON output

A command with `--json` prints exactly one JSON document to stdout, and nothing else. `audit list`
and `audit tail` print JSON Lines instead: one record per line. Messages for people go to stderr.

If the command fails before it has printed its result, the document is one line:

```json
{"error":{"code":"no-skill","message":"no skill `sale-summary`","fix":"did you mean `sales-summary`?"}}
```

`message` and `fix` are for people and may change; `fix` may be null. `code` is stable:

| code | means |
|---|---|
| `usage` | the command line is wrong |
| `no-skill` | no skill has the given name |
| `choice` | the skill has no such script or tool, or several; `suggestion` and `scripts` list them |
| `skill` | the skill cannot be loaded; `diagnostics` lists why |
| `mount` | the skill cannot be mounted, or its place is taken; `path` names it |
| `policy` | the policy cannot be read; `diagnostics` lists why |
| `tenants` | the tenants file is not valid |
| `queue-full`, `not-ended` and the other [codes](../guide/run-api.md#errors) of the run API | the server refused the request |
| `invalid` | another input is invalid, such as a component |
| `io`, `stdin` | a file of the host, or stdin, cannot be read or written |
| `recording` | the recording cannot be read or written |
| `audit-read`, `audit-write` | the audit log cannot be read or written; `path` names it |
| `path-traversal` and the other [rules](../guide/sources.md#what-is-refused) of what is fetched | it was refused; `entry` names the part, if there is one |
| `moved` | a tag or an archive is no longer what `skills.lock` names |
| `denied` | the policy or the operator refused |
| `aborted`, `interrupted`, `timeout`, `limit`, `trap` | the run ended early |

Other codes name the exit code, as in [exit codes](exit-codes.md). A run that starts is not an
error: its document is the outcome, and `status` says how the run ended.
"#;

/// Returns the help of a command and of its subcommands, in the order of the lists.
pub(super) fn helps(user: &User, path: &[String], found: &mut Vec<(String, String)>) {
    let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let run = user.skillhost(&args);
    assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
    let help = text(&run.stdout);
    found.push((path.join(" "), help.clone()));
    for name in listed(&help) {
        helps(user, &[path, &[name]].concat(), found);
    }
}

/// Returns the subcommands that a help lists. Arguments in the same position start with `<` or `[`.
pub(super) fn listed(help: &str) -> Vec<String> {
    let lists = help.split("\nOptions:").next().unwrap();
    lists
        .lines()
        .skip_while(|line| !line.starts_with("Usage: "))
        .filter_map(|line| {
            line.strip_prefix("  ")?.split_whitespace().next().map(|name| (line, name))
        })
        .filter(|(line, name)| {
            let is_name = name.starts_with(|c: char| c.is_ascii_lowercase());
            is_name && !line.starts_with("   ") && *name != "help"
        })
        .map(|(_, name)| name.to_owned())
        .collect()
}

#[test]
fn documented_help_matches_the_help() {
    let mut found = Vec::new();
    helps(&User::new(), &[], &mut found);
    assert!(found.len() > 30, "{found:?}");
    let mut page = String::from(PREFACE);
    for (path, help) in found {
        let title = format!("skillhost {path}");
        write!(page, "\n## {}\n\n```text\n{}\n```\n", title.trim_end(), help.trim_end()).unwrap();
    }
    pinned(&repository("docs").join("reference/cli.md"), &page)
        .unwrap_or_else(|difference| panic!("{difference}"));
}

#[test]
fn commands_have_examples_and_one_line_summaries() {
    let user = User::new();
    let main = text(&user.skillhost(&["--help"]).stdout);
    for name in listed(&main) {
        let help = text(&user.skillhost(&[&name, "--help"]).stdout);
        assert!(help.contains("\nExamples:\n  "), "{name} has no examples");
        let line = main.lines().find(|line| line.starts_with(&format!("  {name} "))).unwrap();
        assert!(line.chars().count() <= 100, "the summary of {name} is too long: {line}");
    }
}
