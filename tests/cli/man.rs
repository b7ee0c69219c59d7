//! Manual pages: each command has one, with its examples.

use super::help::listed;
use super::{User, text};

#[test]
fn commands_have_manual_pages_with_examples() {
    let user = User::new();
    let run = user.skillhost(&["man", "--into", "share/man1"]);
    assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
    let page = |name: &str| {
        let path = user.work().join(format!("share/man1/{name}.1"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(page("skillhost").contains("Exit codes"));
    for name in listed(&text(&user.skillhost(&["--help"]).stdout)) {
        let help = text(&user.skillhost(&[&name, "--help"]).stdout);
        let (_, examples) = help.split_once("\nExamples:\n").unwrap();
        // As roff writes an apostrophe, a hyphen, and a control character at the start of a line.
        let page = page(&format!("skillhost-{name}"));
        let page = page.replace("\\*(Aq", "'").replace("\\&", "").replace('\\', "");
        // The help breaks long lines.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let examples = words(&examples.replace('\\', ""));
        assert!(words(&page).contains(&examples), "{name}: {examples}");
    }
    assert!(page("skillhost-audit-list").contains("since"));
}
