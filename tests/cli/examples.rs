//! The examples of every help: each is run in a folder in which it makes sense.
//!
//! The placeholders SKILL and ARGS stand for a skill and its arguments. The examples of one help run
//! in order, in one folder.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::User;
use super::help::helps;
use crate::readme::shell::Place;

/// What prepares the examples of a command; the name of `skillhost` itself is empty.
const PREPARATIONS: [(&str, &str); 31] = [
    ("", "cp README.md Cargo.toml skills; mv skill/scripts/report.py skill/scripts/x.py"),
    (
        "add",
        "tar -czf skill.tar.gz skill; echo '{\"version\": 1, \"skills\": {}}' > skills-lock.json",
    ),
    (
        "agent",
        "mkdir ci; printf -- '---\nname: ci\ndescription: Checks. Use to check.\nmetadata:\n  tags: ci\n---\n' > ci/SKILL.md; mv ci skills
         printf '#!/bin/sh\ntest -f ~/.claude/skills/ci/SKILL.md\n' > review.sh; chmod +x review.sh",
    ),
    (
        "approve",
        "for n in 1 2 3 4 5 6 7 8 9; do skillhost run --skills skills calculator -- $n; done; true",
    ),
    (
        "audit",
        "for n in 1 2 3 4 5 6 7 8 9; do skillhost run skills/calculator -- $n || exit 1; done
         mkdir -p ~/.config/skillhost && echo 'audit: { keep: 90d }' > ~/.config/skillhost/policy.yaml",
    ),
    (
        "check",
        "cp README.md Cargo.toml skills; skillhost run ./skill --learn --json > used.json
         mkdir -p ~/.claude && cp -r skills ~/.claude/skills",
    ),
    ("ci", FETCHED),
    ("completions", "mkdir -p ~/.zfunc ~/.config/fish/completions"),
    (
        "diff",
        "skillhost run ./skill --deterministic --seed 1 --receipt before.json; cp before.json after.json
         for n in monday tuesday; do skillhost run ./skill --record recording-of-$n -- $n; done
         cp -r recording-of-monday one; cp -r recording-of-monday two",
    ),
    (
        "hook",
        "mkdir -p ~/.claude; echo '{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"command\": \"skillhost hook claude-code\", \"onFailure\": \"block\"}]}]}}' > ~/.claude/settings.json
         echo \"{\\\"hook_event_name\\\": \\\"PreToolUse\\\", \\\"cwd\\\": \\\"$PWD\\\", \\\"tool_name\\\": \\\"Bash\\\", \\\"tool_input\\\": {\\\"command\\\": \\\"ls\\\"}}\" > event.json",
    ),
    ("inspect", "mkdir target; cp skills/calculator/calculator.wasm target/component.wasm"),
    ("mount", "echo 'Take notes.' > notes.md"),
    (
        "key",
        "openssl genpkey -algorithm ed25519 | openssl pkey -pubout > colleague.pem
         mkdir ~/.ssh; ssh='ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDakWokcrQQG+LypfQ/4Cl/DWTtVHcC8ullXbBfei7bb'
         echo $ssh > ~/.ssh/colleague.pub
         openssl genpkey -algorithm ed25519 > release.key; openssl pkey -pubout < release.key > release.pem
         echo archive > skillhost.tar.zst; digest=$(sha256sum skillhost.tar.zst | cut -d ' ' -f 1)
         echo '{\"_type\": \"https://in-toto.io/Statement/v1\", \"predicateType\": \"x\", \"predicate\": {}, \"subject\": [{\"name\": \"skillhost.tar.zst\", \"digest\": {\"sha256\": \"'$digest'\"}}]}' > s.json
         SKILLHOST_SIGNING_KEY=$(cat release.key) skillhost key sign s.json > provenance.intoto.json",
    ),
    ("permissions", "cp -r skills/csv-report skills/web-fetch ~/.agents/skills"),
    ("publish", "skillhost key new"),
    ("remove", FETCHED),
    ("run", "skillhost key new; echo 'items: [1, 2]' > in.yaml"),
    (
        "search",
        "cp -r skills/pdf-text skills/csv-report skills/data-convert ~/.agents/skills
         mkdir ~/.agents/skills/tax; printf -- '---\nname: tax\ndescription: Computes taxes.\nmetadata:\n  tags: finance\n---\n' > ~/.agents/skills/tax/SKILL.md",
    ),
    ("serve", "echo 0123456789012345678901234567890123456789 > ~/.skillhost-token; chmod 600 ~/.skillhost-token; echo 'tenants: { team-a: {} }' > tenants.yaml"),
    (
        "settings",
        "mkdir ~/.agents/skills/api-client; printf -- '---\nname: api-client\ndescription: Calls an API.\nmetadata:\n  settings: |\n    retries: integer = 3\n    token: secret\n---\n' > ~/.agents/skills/api-client/SKILL.md",
    ),
    ("show", "cp -r skills/csv-report ~/.agents/skills"),
    (
        "state",
        "mkdir -p ~/.config/skillhost ~/.agents; cp -r skills/notes ~/.agents/skills
         echo 'skills: { notes: { limits: { state: 16MiB } } }' > ~/.config/skillhost/policy.yaml
         skillhost trust ~/.agents/skills; skillhost run notes save --input '{\"text\": \"a note\"}'",
    ),
    (
        "sign",
        "skillhost key new
         openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out chain.pem -subj /CN=a
         chmod 600 key.pem",
    ),
    ("stats", "skillhost run skills/calculator -- 1"),
    ("sync", FETCHED),
    (
        "tenants",
        "echo 'tenants: { team-a: { policy: policy.yaml } }' > tenants.yaml
         mkdir -p ~/.local/state/skillhost/tenants/team-a",
    ),
    (
        "test",
        "mkdir -p skill/tests/report; cd skill/tests/report
         printf 'script: scripts/report.py\nargs: [a]\nexpect: { stdout: a }\n' > case.yaml",
    ),
    ("trust", "cp -r skills/csv-report ~/.agents/skills; skillhost add ./skill --as pdf"),
    ("update", FETCHED),
    (
        "verify",
        "skillhost key new; skillhost key show > their-key.pem; mkdir before; echo a > before/data.csv; touch in.txt
         skillhost run skills/calculator --deterministic --receipt receipt.json --sign -- 1
         skillhost run ./skill --deterministic --workspace ./before --receipt inputs.json --sign < in.txt
         TOKEN=x skillhost run skills/calculator --deterministic --env TOKEN --fuel 1000000 --receipt env.json -- 1 || true",
    ),
    ("why", FETCHED),
];

/// A skill that was fetched, for the user and for a project.
const FETCHED: &str =
    "skillhost add ./skill --as pdf; skillhost add ./skill --as pdf --file ./skills.yaml";

/// Examples that need a file, a port or a number which another example uses too, and what runs
/// instead.
const REPLACEMENTS: [(&str, &str); 13] = [
    ("skillhost approve 7 --always", "skillhost approve 8 --always"),
    ("skillhost approve 7 --no", "skillhost approve 9 --no"),
    ("skillhost approve 7 --for 2h", "skillhost approve 6 --for 2h"),
    (
        "skillhost audit verify --head 1042:sha256:5891b5b522d5df08...",
        "skillhost audit verify --head $(skillhost audit head)",
    ),
    // A client sets this variable.
    (
        "skillhost hook claude-code < event.json",
        "CLAUDE_PID=$$ skillhost hook claude-code < event.json",
    ),
    (
        "skillhost hook claude-code --policy policy.yaml < event.json",
        "CLAUDE_PID=$$ skillhost hook claude-code --policy policy.yaml < event.json",
    ),
    ("TOKEN=x skillhost replay recording --secret-env TOKEN", "skillhost replay recording"),
    ("skillhost serve", "skillhost serve --listen 127.0.0.1:0"),
    (
        "skillhost serve --listen 127.0.0.1:9000 --token-file ~/.skillhost-token --workspace .:overlay",
        "skillhost serve --listen 127.0.0.1:0 --token-file ~/.skillhost-token --workspace .:overlay",
    ),
    (
        "skillhost serve --tenants tenants.yaml",
        "skillhost serve --tenants tenants.yaml --listen 127.0.0.1:0",
    ),
    ("skillhost serve --sandboxd 8080", "skillhost serve --sandboxd 0 --listen 127.0.0.1:0"),
    (
        "skillhost verify receipt.json --skill SKILL --inputs ./before --key their-key.pem < in.txt",
        "skillhost verify inputs.json --skill ./skill --inputs ./before --key their-key.pem < in.txt",
    ),
    (
        "skillhost verify receipt.json --skill SKILL --env TOKEN=x --fuel 1000000 --json | jq .differences",
        "skillhost verify env.json --skill skills/calculator --env TOKEN=x --fuel 1000000 --json | jq .differences",
    ),
];

/// Examples that run until they are stopped.
const UNTIL_STOPPED: [&str; 6] = [
    "skillhost audit tail -f",
    "skillhost run SKILL --workspace . --watch scripts/report.py",
    "skillhost serve",
    "skillhost serve --listen 127.0.0.1:9000 --token-file ~/.skillhost-token --workspace .:overlay",
    "skillhost serve --tenants tenants.yaml",
    "skillhost serve --sandboxd 8080",
];

/// Examples that end with another code than 0.
const CODES: [(&str, i32); 4] = [
    ("skillhost audit tail -f", 130),
    // The runs had other arguments.
    ("skillhost diff recording-of-monday recording-of-tuesday", 1),
    ("skillhost run SKILL --workspace . --watch scripts/report.py", 130),
    // It stops in the middle, at this fuel.
    ("skillhost replay recording --fuel 1000000", 125),
];

/// Examples that no test runs, and why.
const NOT_RUN: [(&str, &str); 54] = [
    (
        "curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8765/metrics",
        "needs a running server",
    ),
    (
        "skillhost agent --env ANTHROPIC_API_KEY -- claude -p 'Review the last commit'",
        "needs a client and its login",
    ),
    (
        "skillhost agent --pass-file ~/.claude/.credentials.json -- claude",
        "needs a client and its login",
    ),
    (
        "skillhost agent --policy policy.yaml --env OPENAI_API_KEY -- codex exec 'Fix the tests'",
        "needs a client and its login",
    ),
    ("skillhost add anthropics/skills@main --path pdf", "needs the network"),
    ("skillhost add git@git.example:team/skills.git@v2 --path report", "needs the network"),
    ("skillhost add oci://ghcr.io/team/report:1.2.0", "needs the network"),
    ("skillhost publish SKILL oci://ghcr.io/team/report:1.2.0", "needs a registry"),
    (
        "skillhost publish SKILL git@git.example:team/skills.git@report-1.2.0",
        "needs a server; tests/sources/servers.rs has one",
    ),
    (
        "skillhost publish SKILL oci://localhost:5000/report:1.2.0 --no-sign --file ./skills.yaml",
        "needs a registry; tests/sources/servers.rs has one",
    ),
    ("skillhost search pdf --remote anthropics/skills", "needs the network"),
    ("skillhost shell SKILL --workspace .", "needs a terminal; tests/shell.rs has one"),
    (
        "skillhost shell SKILL --workspace .:overlay --allow 'WebFetch(domain:api.example.com)'",
        "needs a terminal; tests/shell.rs has one",
    ),
    ("skillhost shell skills/log-triage", "needs a terminal; tests/shell.rs has one"),
    ("skillhost submit calculator --wait -- '5 km in miles'", A_SERVER),
    (r#"skillhost submit calculator calculate --input '{"expression": "2^64"}' --wait"#, A_SERVER),
    (
        "skillhost submit ./my-skill scripts/report.py --workspace . --wait --apply -- data.csv",
        A_SERVER,
    ),
    ("skillhost submit report --command 'python3 scripts/a.py | head -3' --timeout 30s", A_SERVER),
    ("skillhost submit report --key nightly-2026-11-26 --deterministic --receipt", A_SERVER),
    ("skillhost status 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b", A_SERVER),
    ("skillhost status --wait 30 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b", A_SERVER),
    ("skillhost status --limit 20", A_SERVER),
    ("skillhost status --only failed --json", A_SERVER),
    ("skillhost result 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b", A_SERVER),
    ("skillhost result 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b --json | jq .outcome.usage", A_SERVER),
    ("skillhost result 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b --diff", A_SERVER),
    ("skillhost result 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b --apply ./project", A_SERVER),
    ("skillhost logs 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b", A_SERVER),
    ("skillhost logs -f 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b", A_SERVER),
    ("skillhost cancel 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b", A_SERVER),
    ("skillhost session create log-triage --workspace . > id", A_SERVER),
    ("skillhost session exec $(cat id) -- python3 check.py --all", A_SERVER),
    ("skillhost session exec $(cat id) --stdin - -- bash < commands.sh", A_SERVER),
    ("skillhost session put $(cat id) data.csv input/data.csv", A_SERVER),
    ("skillhost session watch $(cat id)", A_SERVER),
    ("skillhost session diff $(cat id)", A_SERVER),
    ("skillhost session apply $(cat id) --to .", A_SERVER),
    ("skillhost session fork $(cat id)", A_SERVER),
    ("skillhost session end $(cat id)", A_SERVER),
    ("nats-server -c fleet/broker/nats-server-1.conf", A_BROKER),
    ("skillhost fleet dead list --nats tls://127.0.0.1:4222 --nats-identity fleet/api", A_BROKER),
    (
        "skillhost fleet dead requeue RUN --nats tls://127.0.0.1:4222 --nats-identity fleet/api",
        A_BROKER,
    ),
    (
        "skillhost fleet audit --nats tls://127.0.0.1:4222 --nats-identity fleet/api > audit.jsonl",
        A_BROKER,
    ),
    (
        "skillhost fleet delete team-a --nats tls://127.0.0.1:4222 --nats-identity fleet/api",
        A_BROKER,
    ),
    ("skillhost serve --nats tls://127.0.0.1:4222 --nats-identity fleet/api", A_BROKER),
    ("skillhost worker --nats tls://127.0.0.1:4222 --nats-identity fleet/worker-1", A_BROKER),
    (
        "skillhost worker --nats tls://127.0.0.1:4222 --nats-identity fleet/one --sessions 127.0.0.1:8766",
        A_BROKER,
    ),
    (
        "skillhost worker --nats tls://a:4222,tls://b:4222 --nats-identity fleet/one --tenants t.yaml",
        A_BROKER,
    ),
    (
        "skillhost worker --nats tls://127.0.0.1:4222 --nats-identity fleet/large --class large-memory",
        A_BROKER,
    ),
    (
        "skillhost serve --tls-cert server.pem --tls-key server.key --tls-client-ca clients.pem",
        "needs certificates; tests/run_api/tls.rs has some",
    ),
    ("man skillhost-run", "reads the manual pages of the machine"),
    ("skillhost build skills/data-convert --verbose", "compiles for minutes"),
    ("skillhost build word-count", "the tutorial for authors runs it"),
    (
        r#"skillhost run ./word-count count --input '{"text": "to be or not to be"}'"#,
        "the tutorial for authors runs it",
    ),
];

/// Why examples of clients of the run API are not run.
const A_SERVER: &str = "needs a server; tests/run_api/commands.rs has one";

/// Why examples of a fleet are not run.
const A_BROKER: &str = "needs a broker; tests/fleet.rs has one";

const SKILL_MD: &str = "---\nname: skill\ndescription: Reports. Use to report.\n\
    allowed-tools: Read Write Bash(python3:*) WebFetch(domain:api.example.com)\n---\n";

const SCRIPT: &str = "import sys\nprint(*sys.argv[1:])\n";

#[test]
fn examples_of_every_help_run() {
    let mut found = Vec::new();
    helps(&User::new(), &[], &mut found);
    let all: Vec<(String, Vec<String>)> =
        found.into_iter().map(|(command, help)| (command, examples(&help))).collect();
    let shown: BTreeSet<&str> = all.iter().flat_map(|(_, all)| all).map(String::as_str).collect();
    assert!(shown.len() > 80, "{shown:?}");
    let special = REPLACEMENTS.map(|(example, _)| example).into_iter();
    let special = special.chain(UNTIL_STOPPED).chain(CODES.map(|(example, _)| example));
    for example in special.chain(NOT_RUN.map(|(example, _)| example)) {
        assert!(shown.contains(example), "no help has the example `{example}`");
    }
    let only = std::env::var("CASE").ok();
    let selected = all.iter().filter(|(command, examples)| {
        !examples.is_empty() && only.as_ref().is_none_or(|only| only == command)
    });
    let wrong: String = selected.map(|(command, examples)| failures(command, examples)).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

/// Returns the examples of a help.
fn examples(help: &str) -> Vec<String> {
    let Some((_, examples)) = help.split_once("\nExamples:\n") else { return Vec::new() };
    let lines = examples.lines().take_while(|line| line.starts_with("  "));
    // A description follows after several spaces.
    lines.map(|line| line.trim().split("  ").next().unwrap().to_owned()).collect()
}

/// Runs the examples of one command, and describes those that fail.
fn failures(command: &str, examples: &[String]) -> String {
    // All skills.
    let place = Place::new("--skills skills");
    for (name, text) in [
        ("skill/SKILL.md", SKILL_MD),
        ("skill/scripts/report.py", SCRIPT),
        ("data.csv", "name,count\ntea,3\n"),
        ("policy.yaml", "limits: { timeout: 30s }\n"),
        ("README.md", "# Skills\n"),
        ("Cargo.toml", "[workspace]\n"),
    ] {
        place.write(name, text);
    }
    let mut wrong = String::new();
    let mut run = |shown: &str, script: &str, code: i32| {
        place.write("example.sh", script);
        let (output, is_expected) = place.run(&format!("bash example.sh; test $? = {code}"));
        if !is_expected {
            writeln!(wrong, "{command}: `{shown}` does not end with {code}:\n{output}").unwrap();
        }
    };
    run("mkdir", "mkdir -p ~/.agents/skills", 0);
    if let Some((_, script)) = PREPARATIONS.iter().find(|(name, _)| *name == command) {
        run("the preparation", script, 0);
    }
    for example in examples {
        if NOT_RUN.iter().any(|(not_run, _)| not_run == example) {
            continue;
        }
        let replaced = REPLACEMENTS.iter().find(|(replaced, _)| replaced == example);
        let script = match replaced {
            Some((_, instead)) => (*instead).to_owned(),
            None => example.replace(" SKILL", " ./skill").replace(" ARGS", " data.csv"),
        };
        let script = if UNTIL_STOPPED.contains(&example.as_str()) {
            format!("timeout --preserve-status --signal=INT 5 {script}")
        } else {
            script
        };
        let code = CODES.iter().find(|(known, _)| known == example).map_or(0, |(_, code)| *code);
        run(example, &script, code);
    }
    wrong
}
