//! Invariants of the grant for every skill and every policy.

use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use skillhost_policy::capabilities::{Capabilities, MountMode, PathAccess, Scope};
use skillhost_policy::entry::{EntryList, Permission, parse};
use skillhost_policy::pattern::{CommandPattern, HostPattern, PathGlob};
use skillhost_policy::{Overrides, Policy, Verdict, grant, load};

use super::{access, asks, may_fetch, may_fetch_private, may_spawn, skill, target, with_workspace};

const ENTRIES: [&str; 30] = [
    "Read",
    "Read(a/**)",
    "Read(a/b)",
    "Read(*.txt)",
    "Read(**/x.txt)",
    "Read({a,c}/*)",
    "Read(a/[!b]*)",
    "Write",
    "Write(a)",
    "Write(c/*.txt)",
    "Edit(/workspace/**)",
    "Read(/data/**)",
    "Glob(a/*/x.txt)",
    "Bash",
    "Bash(git:*)",
    "Bash(git commit:*)",
    "Bash(jq .)",
    "Bash(rm *)",
    "Bash(/x/git:*)",
    "WebFetch",
    "WebFetch(domain:example.com)",
    "WebFetch(domain:*.example.com)",
    "WebFetch(domain:example.com:8443)",
    "WebFetch(http://localhost:3000)",
    "WebFetch(domain:127.0.0.1)",
    "WebFetch(http://example.com)",
    "WebFetch(domain:*:8443)",
    "WebFetch(domain:*.a.example.com)",
    "Grep(.)",
    "MultiEdit(**/b/**)",
];
/// Skills may request these; a policy that contains them is rejected.
const REFUSED: [&str; 6] = ["WebSearch", "Read(~/x)", "Bash(a | b)", "bash", "Read(", "mcp__a__b"];
const PATHS: [&str; 14] = [
    "/workspace",
    "/workspace/a",
    "/workspace/a/b",
    "/workspace/a/b/x.txt",
    "/workspace/a/b/c/x.txt",
    "/workspace/x.txt",
    "/workspace/c",
    "/workspace/c/x.txt",
    "/workspace/c/d/e",
    "/workspace/ab",
    "/data",
    "/data/x",
    "/data/b/y",
    "/etc/passwd",
];
const COMMANDS: [&str; 9] = [
    "git",
    "git commit",
    "git commit -m x",
    "/x/git push",
    "jq .",
    "jq . x",
    "rm",
    "rm -rf x",
    "sh -c id",
];
const URLS: [&str; 11] = [
    "https://example.com",
    "http://example.com",
    "https://example.com:8443",
    "https://a.example.com",
    "https://b.a.example.com",
    "https://other.example",
    "https://other.example:8443",
    "http://localhost:3000",
    "https://localhost:3000",
    "https://127.0.0.1",
    "http://127.0.0.1:80",
];

/// Everything that a set of capabilities allows, over all probes: reading, writing, starting
/// programs, sending requests, and sending them to private addresses.
fn allowed(c: &Capabilities) -> Vec<(bool, bool)> {
    let paths =
        PATHS.iter().map(|p| access(c, p)).map(|a| (a >= PathAccess::Read, a == PathAccess::Write));
    let commands = COMMANDS.iter().map(|x| (may_spawn(c, x), false));
    let urls = URLS.iter().map(|u| {
        (may_fetch(c, u) && (may_fetch_private(c, u) || !is_private(u)), may_fetch_private(c, u))
    });
    paths.chain(commands).chain(urls).collect()
}

/// A host to which the sender makes no request without consent to private addresses.
fn is_private(url: &str) -> bool {
    matches!(target(url).host.as_str(), "localhost" | "127.0.0.1")
}

fn within(narrow: &Capabilities, wide: &Capabilities) -> bool {
    allowed(narrow).into_iter().zip(allowed(wide)).all(|(n, w)| n.0 <= w.0 && n.1 <= w.1)
}

fn policy_of(allow: &[&str], deny: &[&str]) -> Policy {
    let yaml = serde_json::json!({ "default": {
        "allow": allow, "deny": deny, "mounts": [{ "host": "/host/data", "guest": "/data", "mode": "write" }]
    }});
    let policy = load(std::path::Path::new("p"), &yaml.to_string(), None)
        .unwrap_or_else(|e| panic!("{:?}", e.diagnostics));
    with_workspace(policy, MountMode::Write)
}

/// Entries that can be denied: for commands, only whole programs.
fn denials() -> Vec<&'static str> {
    ENTRIES
        .into_iter()
        .filter(|entry| !matches!(parse(entry, EntryList::Deny), Permission::NotGrantable { .. }))
        .collect()
}

fn some_denials() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(denials(), 0..8).prop_shuffle()
}

fn some_entries() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(ENTRIES.to_vec(), 0..8).prop_shuffle()
}

fn some_asked() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence([ENTRIES.as_slice(), REFUSED.as_slice()].concat(), 0..8).prop_shuffle()
}

/// Paths and globs made of few names, so that they often match.
fn some_path() -> impl Strategy<Value = String> {
    prop::collection::vec(select(vec!["a", "b", "ab", "x.txt", "{", "*"]), 0..6)
        .prop_map(|s| format!("/{}", s.join("/")))
}

fn some_glob() -> impl Strategy<Value = PathGlob> {
    let segment = select(vec![
        "a",
        "b",
        "ab",
        "*",
        "**",
        "?",
        "[ab]",
        "[!a]",
        "[+-9]",
        "{a,b}",
        "{a/b,x.txt}",
        "a*",
        "*.txt",
        "\\{",
        "\\*",
        "{**,a}",
    ]);
    (prop::collection::vec(segment, 0..5), prop::bool::ANY)
        .prop_map(|(s, slash)| format!("/{}{}", s.join("/"), if slash { "/" } else { "" }))
        .prop_filter_map("compiles", |text| PathGlob::new(&text).ok())
}

fn some_command() -> impl Strategy<Value = CommandPattern> {
    (prop::collection::vec(select(vec!["a", "b", "x/a"]), 0..3), prop::bool::ANY).prop_map(
        |(words, open)| CommandPattern {
            open: open || words.is_empty(),
            words: words.into_iter().map(str::to_owned).collect(),
        },
    )
}

fn some_host() -> impl Strategy<Value = HostPattern> {
    let entries: Vec<&str> = ENTRIES.into_iter().filter(|e| e.starts_with("WebFetch")).collect();
    (select(entries), select(vec![EntryList::AllowedTools, EntryList::Allow, EntryList::Deny]))
        .prop_map(|(text, side)| match parse(text, side) {
            Permission::WebFetch(host) => host,
            other => panic!("{other:?}"),
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn grant_is_within_both_sides(asked in some_asked(), allow in some_entries(), deny in some_denials()) {
        let policy = policy_of(&allow, &deny);
        let both = grant(&asks(&asked), &policy).capabilities;
        prop_assert!(within(&both, &grant(&skill(None), &policy).capabilities), "wider than the policy");
        // Isolates the skill's side: the operator allows everything, and names the private
        // addresses.
        let names = ["Read", "Write", "Bash", "WebFetch", "WebFetch(http://localhost:3000)", "WebFetch(domain:127.0.0.1)", "WebFetch(http://example.com)"];
        prop_assert!(within(&both, &grant(&asks(&asked), &policy_of(&names, &[])).capabilities), "wider than the request");
    }

    #[test]
    fn denied_permissions_are_not_granted(asked in prop::option::of(some_asked()), allow in some_entries(), deny in some_denials()) {
        let c = grant(&skill(asked.as_deref()), &policy_of(&allow, &deny)).capabilities;
        for entry in &deny {
            match parse(entry, EntryList::Deny) {
                Permission::Read(glob) => for p in PATHS { prop_assert!(!glob.matches(p) || access(&c, p) < PathAccess::Read, "{entry} {p}"); },
                Permission::Write(glob) => for p in PATHS { prop_assert!(!glob.matches(p) || access(&c, p) < PathAccess::Write, "{entry} {p}"); },
                Permission::Bash(command) => for x in COMMANDS {
                    let argv: Vec<String> = x.split(' ').map(str::to_owned).collect();
                    prop_assert!(!command.denies(&argv) || !may_spawn(&c, x), "{entry} {x}");
                },
                Permission::WebFetch(host) => for u in URLS { prop_assert!(!host.matches(&target(u)) || !may_fetch(&c, u), "{entry} {u}"); },
                Permission::NotGrantable { why, .. } => panic!("{entry}: {why}"),
            }
        }
    }

    #[test]
    fn adding_a_denial_never_widens_a_grant(asked in prop::option::of(some_asked()), allow in some_entries(), deny in some_denials(), more in select(denials())) {
        let manifest = skill(asked.as_deref());
        let before = grant(&manifest, &policy_of(&allow, &deny)).capabilities;
        let after = grant(&manifest, &policy_of(&allow, &[deny, vec![more]].concat())).capabilities;
        prop_assert!(within(&after, &before));
    }

    #[test]
    fn order_of_entries_does_not_matter(asked in some_asked(), allow in some_entries(), deny in some_denials(), by in any::<Index>()) {
        let turn = |list: &[&'static str]| {
            let mut list = list.to_vec();
            if !list.is_empty() { let n = by.index(list.len()); list.rotate_left(n); }
            list
        };
        let one = grant(&asks(&asked), &policy_of(&allow, &deny)).capabilities;
        let other = grant(&asks(&turn(&asked)), &policy_of(&turn(&allow), &turn(&deny))).capabilities;
        prop_assert_eq!(one, other);
    }

    #[test]
    fn recovered_skill_is_granted_nothing(asked in prop::option::of(some_asked()), allow in some_entries()) {
        let mut manifest = skill(asked.as_deref());
        manifest.recovered = true;
        let c = grant(&manifest, &policy_of(&allow, &[])).capabilities;
        prop_assert!(allowed(&c).iter().all(|p| *p == (false, false)) && c.mounts.is_empty());
    }

    #[test]
    fn verdicts_match_the_capabilities(entry in select(ENTRIES.to_vec()), allow in some_entries(), deny in some_denials()) {
        let policy = policy_of(&allow, &deny);
        let result = grant(&asks(&[entry]), &policy);
        let all = policy_of(&["Read", "Write", "Bash", "WebFetch", "WebFetch(http://localhost:3000)", "WebFetch(domain:127.0.0.1)"], &[]);
        let requested = grant(&asks(&[entry]), &all).capabilities;
        match result.decisions[0].verdict {
            Verdict::Granted => prop_assert!(within(&requested, &result.capabilities), "{:?}", result.decisions[0]),
            Verdict::Refused => prop_assert!(allowed(&result.capabilities).iter().all(|p| !p.0 && !p.1), "{:?}", result.decisions[0]),
            Verdict::Narrowed => {}
            Verdict::Approval => prop_assert!(false, "no entry is another client's name"),
        }
    }

    #[test]
    fn every_entry_has_a_decision(asked in some_asked()) {
        let result = grant(&asks(&asked), &Policy::builtin());
        prop_assert_eq!(result.decisions.iter().map(|d| d.entry.as_str()).collect::<Vec<_>>(), asked);
        prop_assert!(result.decisions.iter().all(|d| !d.rule.is_empty() && !d.meaning.is_empty()));
    }

    #[test]
    fn parents_of_matching_paths_may_contain_them(glob in some_glob(), path in some_path()) {
        if glob.matches(&path) {
            let mut folder = path.as_str();
            while let Some((parent, _)) = folder.rsplit_once('/') {
                let parent = if parent.is_empty() { "/" } else { parent };
                prop_assert!(glob.may_contain(parent), "{} {path} {parent}", glob.pattern());
                folder = if parent == "/" { "" } else { parent };
            }
        }
    }

    #[test]
    fn covers_and_overlaps_agree_with_matches(a in some_glob(), b in some_glob(), path in some_path()) {
        prop_assert!(!(a.covers(&b) && b.matches(&path)) || a.matches(&path), "{} covers {} but not {path}", a.pattern(), b.pattern());
        prop_assert!(!(a.matches(&path) && b.matches(&path)) || (a.overlaps(&b) && b.overlaps(&a)), "{} {} {path}", a.pattern(), b.pattern());
    }

    #[test]
    fn command_covers_and_overlaps_agree_with_matches(a in some_command(), b in some_command(), argv in prop::collection::vec(select(vec!["a", "b", "x/a", "y/a"]), 1..4)) {
        let argv: Vec<String> = argv.into_iter().map(str::to_owned).collect();
        prop_assert!(!(a.covers(&b) && b.matches(&argv)) || a.matches(&argv), "{a:?} {b:?} {argv:?}");
        prop_assert!(!(a.matches(&argv) && b.matches(&argv)) || (a.overlaps(&b) && b.overlaps(&a)), "{a:?} {b:?} {argv:?}");
    }

    #[test]
    fn host_covers_and_overlaps_agree_with_matches(a in some_host(), b in some_host(), url in select(URLS.to_vec())) {
        let to = target(url);
        prop_assert!(!(a.covers(&b) && b.matches(&to)) || a.matches(&to), "{a:?} {b:?} {url}");
        let both = a.matches(&to) && b.matches(&to) && (!is_private(url) || (a.private && b.private));
        prop_assert!(!both || (a.overlaps(&b) && b.overlaps(&a)), "{a:?} {b:?} {url}");
    }

    #[test]
    fn parsers_accept_any_text(text in any::<String>(), argument in "[a-z*{}\\[\\]\\\\/.,!:$~ |'\\n]{0,24}") {
        crate::fuzz::targets::policy(&text);
        crate::fuzz::targets::policy(&format!("Read({argument})\nWrite({argument})\nBash({argument})\nWebFetch({argument})\nWebFetch(domain:{argument})"));
        crate::fuzz::targets::policy(&format!("default:\n  allow: [{argument:?}]\n  env: [{argument}]\nskills: {{ {argument:?}: {{ mounts: [{{ host: {argument}, guest: {argument} }}] }} }}\n"));
    }
}

#[test]
fn scope_without_sides_is_empty() {
    assert!(!Scope::<PathGlob>::default().allows(|_| true));
    let flags = Overrides::default();
    assert_eq!(
        grant(
            &skill(None),
            &Policy { layers: vec![], ..Policy::builtin() }.with_command_line(flags).unwrap()
        )
        .capabilities
        .mounts,
        []
    );
}
