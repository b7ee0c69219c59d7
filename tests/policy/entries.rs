//! Parsing of single entries.

use skillhost_policy::entry::{EntryList, Permission, parse};
use skillhost_policy::pattern::{CommandPattern, PathGlob};

use super::target;

fn glob(text: &str) -> PathGlob {
    match parse(text, EntryList::AllowedTools) {
        Permission::Read(glob) | Permission::Write(glob) => glob,
        other => panic!("{text}: {other:?}"),
    }
}

fn command(text: &str) -> CommandPattern {
    match parse(text, EntryList::AllowedTools) {
        Permission::Bash(command) => command,
        other => panic!("{text}: {other:?}"),
    }
}

fn reaches(text: &str, side: EntryList, url: &str) -> bool {
    match parse(text, side) {
        Permission::WebFetch(host) => host.matches(&target(url)),
        other => panic!("{text}: {other:?}"),
    }
}

fn refusal(text: &str) -> (String, Option<String>) {
    match parse(text, EntryList::AllowedTools) {
        Permission::NotGrantable { why, fix } => (why, fix),
        other => panic!("{text} is understood as {other:?}"),
    }
}

#[test]
fn file_tools_map_to_reading_or_writing() {
    for name in ["Read", "Glob", "Grep", "LS", "NotebookRead"] {
        assert_eq!(
            parse(name, EntryList::AllowedTools),
            Permission::Read(PathGlob::everything()),
            "{name}"
        );
    }
    for name in ["Write", "Edit", "MultiEdit", "NotebookEdit"] {
        assert_eq!(
            parse(name, EntryList::AllowedTools),
            Permission::Write(PathGlob::everything()),
            "{name}"
        );
    }
}

#[test]
fn paths_become_absolute_guest_globs() {
    for (entry, pattern) in [
        ("Read(docs/**)", "/workspace/docs/**"),
        ("Read(./docs/**)", "/workspace/docs/**"),
        ("Read( docs//./** )", "/workspace/docs/**"),
        ("Read(/workspace/docs/**)", "/workspace/docs/**"),
        ("Read(/data/*.csv)", "/data/*.csv"),
        ("Read({baseDir}/scripts)", "/skill/scripts"),
        ("Read(${CLAUDE_SKILL_DIR}/scripts/**)", "/skill/scripts/**"),
        ("Write(out/)", "/workspace/out/"),
    ] {
        assert_eq!(glob(entry).pattern(), pattern, "{entry}");
    }
}

#[test]
fn globs_match_expected_paths() {
    for (entry, path, expected) in [
        ("Read(docs/**)", "/workspace/docs/a/b.md", true),
        ("Read(docs/**)", "/workspace/docs", true),
        ("Read(docs/**)", "/workspace/docs2", false),
        ("Read(docs)", "/workspace/docs/a/b.md", true),
        ("Read(docs/)", "/workspace/docs", true),
        ("Read(README.md)", "/workspace/README.md", true),
        ("Read(README.md)", "/workspace/a/README.md", false),
        ("Read(*.csv)", "/workspace/a.csv", true),
        ("Read(*.csv)", "/workspace/sub/a.csv", false),
        ("Read(**/*.csv)", "/workspace/a.csv", true),
        ("Read(**/*.csv)", "/workspace/x/y/a.csv", true),
        ("Read({src,test}/**)", "/workspace/test/a", true),
        ("Read({src/a,test}/x)", "/workspace/src/a/x", true),
        ("Read({src/a,test}/x)", "/workspace/src/x", false),
        ("Read(a[!b]c)", "/workspace/a/c", false),
        ("Read(a[+-9]c)", "/workspace/a/c", false),
        ("Read(a?c)", "/workspace/a/c", false),
        ("Read(a\\*)", "/workspace/a*", true),
        ("Read(a\\*)", "/workspace/ab", false),
        ("Read", "/data/x", true),
    ] {
        assert_eq!(glob(entry).matches(path), expected, "{entry} {path}");
    }
}

#[test]
fn unenforceable_paths_are_refused_with_a_reason() {
    for (entry, reason) in [
        ("Read(~/notes)", "home folder"),
        ("Read($HOME/notes)", "variables"),
        ("Read(${CLAUDE_SKILL_DIR}evil)", "variables"),
        ("Read(../x)", "`..`"),
        ("Read(/workspace/../etc)", "`..`"),
        ("Read({..,a}/x)", "`..`"),
        ("Read(a[b)", "the glob is not valid"),
        ("Read(a{b)", "unmatched `{`"),
        ("Read(a}b)", "unmatched `}`"),
        ("Read(!secret)", "negated"),
        ("Read(a\u{1b}[2Jb)", "invisible"),
        ("Read(a\u{202e}b)", "invisible"),
        ("Read({a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b})", "alternatives"),
        ("Read()", "empty"),
        ("Read(docs", "closing parenthesis"),
    ] {
        let (why, _) = refusal(entry);
        assert!(why.contains(reason), "{entry}: {why}");
    }
}

#[test]
fn commands_match_a_prefix_or_the_whole_command_line() {
    for (entry, argv, expected) in [
        ("Bash", "anything at all", true),
        ("Bash(*)", "anything at all", true),
        ("Bash(git:*)", "git", true),
        ("Bash(git:*)", "git push --force", true),
        ("Bash(git *)", "git push", true),
        ("Bash(git:*)", "/usr/bin/git push", true),
        ("Bash(git:*)", "gitk", false),
        ("Bash(git commit:*)", "git commit -m x", true),
        ("Bash(git commit:*)", "git push", false),
        ("Bash(git commit:*)", "git", false),
        ("Bash(jq .)", "jq .", true),
        ("Bash(jq .)", "jq . x", false),
        ("Bash(jq .)", "jq", false),
        ("Bash(./run.sh:*)", "./run.sh a", true),
        ("Bash(./run.sh:*)", "/tmp/run.sh a", false),
    ] {
        let argv: Vec<String> = argv.split(' ').map(str::to_owned).collect();
        assert_eq!(command(entry).matches(&argv), expected, "{entry} {argv:?}");
    }
    assert!(!command("Bash").matches(&[]), "an empty argv starts nothing");
}

#[test]
fn shell_syntax_in_commands_is_refused() {
    for text in [
        "a | b",
        "a && b",
        "a; b",
        "a > f",
        "echo $HOME",
        "echo `id`",
        "jq '.a'",
        "jq \"a\"",
        "ls *.csv",
        "git * --x",
        "git:* push",
        "a (b",
        "cat ~/x",
        "X=1 run",
        "a\nb",
        "ls [ab]",
        ":*",
        "git:* *",
    ] {
        refusal(&format!("Bash({text})"));
    }
}

#[test]
fn hosts_match_exactly_or_as_subdomains() {
    for (entry, url, expected) in [
        ("WebFetch(domain:example.com)", "https://example.com", true),
        ("WebFetch(domain:Example.COM.)", "https://example.com", true),
        ("WebFetch(domain:example.com)", "http://example.com", false),
        ("WebFetch(domain:example.com)", "https://example.com:8443", false),
        ("WebFetch(domain:example.com)", "https://a.example.com", false),
        ("WebFetch(domain:example.com:8443)", "https://example.com:8443", true),
        ("WebFetch(domain:example.com:8443)", "https://example.com", false),
        ("WebFetch(domain:*.example.com)", "https://a.b.example.com", true),
        ("WebFetch(domain:*.example.com)", "https://example.com", false),
        ("WebFetch(domain:*.example.com)", "https://badexample.com", false),
        ("WebFetch(http://example.com:8080)", "http://example.com:8080", true),
        ("WebFetch(http://example.com:8080)", "https://example.com:8080", true),
        ("WebFetch(https://example.com:8080/)", "http://example.com:8080", false),
        ("WebFetch(domain:[::1]:8443)", "https://[::1]:8443", true),
        ("WebFetch(domain:[0:0::1]:8443)", "https://[::1]:8443", true),
        ("WebFetch(domain:127.0.0.1:8443)", "https://[::ffff:127.0.0.1]:8443", true),
        ("WebFetch(domain:xn--bcher-kva.example)", "https://xn--bcher-kva.example", true),
        ("WebFetch(domain:*)", "https://anything.example", true),
    ] {
        assert_eq!(reaches(entry, EntryList::AllowedTools, url), expected, "{entry} {url}");
    }
}

#[test]
fn bare_web_fetch_in_a_policy_allows_only_public_https() {
    assert!(reaches("WebFetch", EntryList::AllowedTools, "http://example.com:8080"));
    assert!(!reaches("WebFetch", EntryList::Allow, "http://example.com"));
    assert!(reaches("WebFetch", EntryList::Allow, "https://example.com:8443"));
    assert!(reaches("WebFetch", EntryList::Deny, "http://example.com:8080"));
}

#[test]
fn denied_hosts_are_denied_on_every_port_and_scheme() {
    for url in [
        "https://evil.example",
        "http://evil.example",
        "https://evil.example:8443",
        "http://evil.example:1",
    ] {
        assert!(reaches("WebFetch(domain:evil.example)", EntryList::Deny, url), "{url}");
    }
    assert!(!reaches(
        "WebFetch(domain:evil.example:8443)",
        EntryList::Deny,
        "https://evil.example"
    ));
}

#[test]
fn only_explicit_entries_allow_private_addresses() {
    for (entry, private) in [
        ("WebFetch", false),
        ("WebFetch(domain:*)", false),
        ("WebFetch(domain:internal.example)", false),
        ("WebFetch(domain:*.localhost)", false),
        ("WebFetch(http://localhost:3000)", true),
        ("WebFetch(http://127.0.0.1:3000)", true),
        ("WebFetch(domain:[fd00::1])", true),
    ] {
        let Permission::WebFetch(pattern) = parse(entry, EntryList::Allow) else {
            panic!("{entry}")
        };
        assert_eq!(pattern.private, private, "{entry}");
    }
}

#[test]
fn unenforceable_hosts_are_refused() {
    for argument in [
        "example.com",
        "domain:",
        "domain:exa mple",
        "domain:bücher.example",
        "domain:a.*.example",
        "domain:*a.example",
        "domain:a..b",
        "domain:example.com/path",
        "https://example.com/path",
        "domain:user@example.com",
        "domain:127.1",
        "domain:0x7f.1",
        "domain:*.127.0.0.1",
        "domain:::1",
        "domain:[::1",
        "domain:[example.com]",
        "domain:a:0",
        "domain:a:65536",
        "domain:a:+80",
        "domain:a:",
        "ftp://a",
        "domain:-a",
    ] {
        refusal(&format!("WebFetch({argument})"));
    }
    assert_eq!(refusal("WebFetch(example.com)").1.as_deref(), Some("WebFetch(domain:example.com)"));
    assert!(refusal("WebFetch(domain:bücher.example)").0.contains("xn--"));
}

#[test]
fn misspelt_tools_are_refused_with_a_suggestion() {
    assert_eq!(refusal("bash").1.as_deref(), Some("Bash"));
    assert_eq!(refusal("read(docs/**)").1.as_deref(), Some("Read(docs/**)"));
    assert_eq!(refusal("WebFetsh(domain:a.b)").1.as_deref(), Some("WebFetch(domain:a.b)"));
    for other in
        ["Task", "Skill", "mcp__github__search", "TodoWrite", "*", "", "Bash:git", "Read Write"]
    {
        assert_eq!(refusal(other).1, None, "{other}");
    }
    assert_eq!(refusal("WebSearch").1.as_deref(), Some("WebFetch(domain:HOST)"));
}
