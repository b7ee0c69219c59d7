//! Tests the README and the pages of the book: each of their blocks is run, loaded or compiled.
//! `BLESS=1` rewrites the outputs of commands.

pub mod blocks;
pub mod shell;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use skillhost_policy as policy;
use skillhost_policy::diagnostic::Severity;
use skillhost_policy::manifest;

use crate::cli::repository;
use blocks::{Block, Document, matches, pages};
use shell::Place;

/// The blocks that no test runs: their first command, and the reason that the page gives.
const NOT_RUN: [(&str, &str); 32] = [
    ("skillhost settings show api-client", "needs a skill with settings"),
    ("skillhost settings set web-search url https://search.example.com", "needs a search engine"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 skillhost serve", "needs a collector"),
    (
        "SKILLHOST_OPERATOR_TOKEN=$(cat ~/.local/state/skillhost/operator.token) skillhost approve 7",
        "the tests have the token",
    ),
    ("cargo test -p skillhost-tests --test library -- escape", "runs the tests of this repository"),
    ("cargo test -p skillhost-tests --test library -- limits", "runs the tests of this repository"),
    ("cargo xtask bench isolation", "takes minutes"),
    ("claude plugin marketplace add ~/.local/share/skillhost/plugins", "needs Claude Code"),
    (
        "skillhost agent --skills ./skills --tag review --workspace .:ro --env ANTHROPIC_API_KEY -- claude -p 'Review change.diff with the skill code-review'",
        "tests/agent.rs runs it with a stand-in for the client",
    ),
    ("skillhost shell skills/log-triage --workspace .", "needs a terminal"),
    ("cargo xtask bench isolation --install", "installs packages of the system"),
    ("cargo xtask demo", "builds everything, and installs into the home folder"),
    ("cargo xtask demo", "builds the host and every component, which takes minutes"),
    ("cargo xtask dist --key release-key.pem --verify", "takes minutes"),
    ("cargo xtask install", "installs into the home folder"),
    (
        "curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8765/metrics",
        "needs a running server",
    ),
    (
        "skillhost bench ./tally tally.py --workspace . -- people.csv age",
        "its figures differ from run to run",
    ),
    (
        "npm install --global ./skillhost-linux-x64-0.1.0.tgz ./skillhost-0.1.0.tgz",
        "needs a release, which `cargo xtask dist --verify` installs",
    ),
    (
        "pip install ./skillhost_cli-0.1.0-*.whl",
        "needs a release, which `cargo xtask dist --verify` installs",
    ),
    ("sh install.sh", "needs a release, which `cargo xtask dist --verify` installs"),
    (
        "skillhost key verify provenance.intoto.json skillhost-0.1.0-linux-x86_64.tar.zst --key skillhost.pem",
        "needs a release, which `cargo xtask dist --verify` installs",
    ),
    ("skillhost man --into ~/.local/share/man/man1", "installs into the home folder"),
    ("skillhost tenants token team-a", "prints a new token each time"),
    ("skillhost serve --workspace .:overlay", "serves until it is stopped"),
    (
        "skopeo copy oci-archive:skillhost-0.1.0-linux-x86_64.oci.tar docker://registry.example.com/skillhost:0.1.0",
        "needs a release, and a registry",
    ),
    ("source <(skillhost completions bash)", "changes the shell that reads it"),
    ("sudo apt install nats-server", "installs packages of the system"),
    (
        "skillhost fleet audit --nats tls://127.0.0.1:4222 --nats-identity fleet/api > records.jsonl",
        "needs a fleet; its tests verify records like this",
    ),
    (
        "skillhost worker --nats tls://a:4222 --nats-identity fleet/one --sessions 10.0.0.7:8766",
        "needs a fleet; the tests of the fleet start workers like this one",
    ),
    (
        "sudo dpkg -i skillhost_0.1.0_amd64.deb",
        "needs a release, which `cargo xtask dist --verify` installs",
    ),
    (
        "sudo rpm --install skillhost-0.1.0-1.x86_64.rpm",
        "needs a release, which `cargo xtask dist --verify` installs",
    ),
    ("useradd --system --create-home skillhost", "adds a user to the system"),
];

#[test]
fn readme_commands_print_what_it_shows() {
    run_commands(|page| page == "README.md");
}

#[test]
fn tutorial_commands_print_what_is_shown() {
    run_commands(|page| page.starts_with("docs/start/"));
}

#[test]
fn guide_commands_print_what_is_shown() {
    run_commands(|page| page.starts_with("docs/guide/"));
}

#[test]
fn other_commands_print_what_is_shown() {
    run_commands(|page| {
        page != "README.md" && !page.starts_with("docs/start/") && !page.starts_with("docs/guide/")
    });
}

/// Runs the commands of each page in order, in one folder per page, as a reader would.
fn run_commands(selected: impl Fn(&str) -> bool) {
    let wrong: String =
        documents().filter(|page| selected(page)).map(|page| run_page(&page)).collect();
    assert!(wrong.is_empty(), "{wrong}\nBLESS=1 writes the current output");
}

/// Runs one page. Returns its differences, unless they are blessed.
fn run_page(page: &str) -> String {
    let mut document = Document::read(page);
    let blocks = document.blocks();
    let mut wrong = String::new();
    if !blocks.iter().any(Block::is_run) {
        return wrong;
    }
    let place = Place::new(&document.lines.join("\n"));
    let mut blessed = Vec::new();
    for block in blocks {
        if let Some(name) = file_name(&block) {
            place.write(&name, &block.text);
        }
        if !block.is_run() {
            continue;
        }
        for step in document.steps(&block) {
            let (output, success) = place.run(&step.command);
            let shown: Vec<&str> =
                document.lines[step.shown.clone()].iter().map(String::as_str).collect();
            let got: Vec<&str> = output.lines().collect();
            let at = step.shown.start;
            // Failures that blessing cannot fix.
            assert!(success, "{page}:{at}: `{}` fails\n{output}", step.command);
            if !matches(&shown, &got) {
                writeln!(
                    wrong,
                    "{page}:{at}: `{}`\n--- shown\n{}\n--- printed\n{output}",
                    step.command,
                    shown.join("\n")
                )
                .unwrap();
                blessed.push((step.shown, output.lines().map(stable).collect::<Vec<_>>()));
            }
        }
    }
    if std::env::var_os("BLESS").is_some() {
        for (range, lines) in blessed.into_iter().rev() {
            document.lines.splice(range, lines);
        }
        document.write();
        wrong.clear();
    }
    wrong
}

#[test]
fn every_command_without_a_test_is_listed() {
    let found: BTreeSet<(String, String)> = documents()
        .flat_map(|page| Document::read(&page).blocks())
        .filter_map(|block| Some((first_command(&block), block.not_run?)))
        .collect();
    let known = NOT_RUN.map(|(command, why)| (command.to_owned(), why.to_owned()));
    assert_eq!(found, known.into());
}

fn first_command(block: &Block) -> String {
    block.text.trim_start_matches("$ ").lines().next().unwrap_or_default().to_owned()
}

#[test]
fn every_block_is_of_a_kind_that_is_tested() {
    let template =
        std::fs::read_to_string(repository("toolchain/templates/rust/src/lib.rs")).unwrap();
    // `cargo` compiles it, and a test runs it.
    let example = std::fs::read_to_string(repository("docs/examples/embed.rs")).unwrap();
    for page in documents() {
        for block in Document::read(&page).blocks() {
            let at = format!("{page}:{}", block.inner.start);
            match block.lang.as_str() {
                "console" => assert!(block.text.starts_with("$ "), "{at}"),
                "yaml" if block.text.starts_with("---\n") => check_frontmatter(&at, &block.text),
                "yaml" if file_name(&block).is_some_and(|name| name.ends_with("/case.yaml")) => {
                    let case = skillhost_policy::case::parse(&block.text, "case.yaml");
                    assert!(case.is_ok(), "{at}: {case:#?}");
                }
                "yaml" if file_name(&block).is_some_and(|name| name == "skills.yaml") => {
                    let file = skillhost_sources::wanted::SourcesFile::parse(&at, &block.text);
                    assert!(file.is_ok(), "{at}: {file:#?}");
                }
                "yaml"
                    if file_name(&block).is_some_and(|name| {
                        ["tenants.yaml", "identities.yaml"].contains(&&*name)
                    }) =>
                {
                    let path = Path::new(&at);
                    let file =
                        skillhost_server::api::tenants::TenantsFile::parse(path, &block.text);
                    assert!(file.is_ok(), "{at}: {file:?}");
                }
                "yaml" => check_policy(&at, &block.text),
                "json" => check_json(&at, &block.text),
                "rust" => assert!(example.contains(&block.text), "{at}: not in the example"),
                // Files that commands of the page run.
                "python" | "bash" | "markdown" => {
                    assert!(file_name(&block).is_some(), "{at}: names no file")
                }
                // The output of `skillhost new`, which is compiled.
                "rust,ignore" => assert!(
                    template.contains(&block.text),
                    "{at}: not in the template of `skillhost new`"
                ),
                "text" => assert!(!block.text.contains("$ "), "{at}: commands are `console`"),
                other => panic!("{at}: no test knows blocks of `{other}`"),
            }
        }
    }
}

#[test]
fn chores_that_documents_name_exist() {
    let verbs = std::fs::read_to_string(repository("xtask/src/main.rs")).unwrap();
    for page in documents().chain(["CONTRIBUTING.md".to_owned()]) {
        let text = Document::read(&page).lines.join("\n");
        for rest in text.split("cargo xtask ").skip(1) {
            let verb = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            let variant = verb[..1].to_uppercase() + &verb[1..];
            assert!(
                verbs.contains(&format!("Verb::{variant}")),
                "{page}: `cargo xtask {verb}` does not exist"
            );
        }
    }
}

/// The README and the pages of the book.
fn documents() -> impl Iterator<Item = String> {
    std::iter::once("README.md".to_owned()).chain(pages())
}

/// Checks that clients start an existing command of skillhost.
fn check_json(at: &str, text: &str) {
    let value: serde_json::Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{at}: {error}"));
    let Some(server) = value["mcpServers"].get("skillhost") else { return };
    assert_eq!(server["command"], "skillhost", "{at}");
    let args: Vec<&str> = server["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .chain(["--help"])
        .collect();
    assert!(crate::cli::User::new().skillhost(&args).status.success(), "{at}");
}

fn check_frontmatter(at: &str, text: &str) {
    let folder = text.lines().find_map(|l| l.strip_prefix("name: ")).unwrap();
    let parsed = manifest::parse(text.as_bytes(), folder, "SKILL.md");
    assert_eq!(parsed.diagnostics, [], "{at}");
    assert!(parsed.manifest.is_some_and(|m| !m.recovered), "{at}");
}

fn check_policy(at: &str, text: &str) {
    let loaded = policy::load(Path::new("policy.yaml"), text, Some(Path::new("/home/operator")));
    let errors = loaded.err().map_or_else(Vec::new, |e| e.diagnostics);
    assert!(errors.iter().all(|d| d.severity != Severity::Error), "{at}: {errors:#?}");
}

/// Returns the file that a block contains, named by the comment above it or by its first line, `#
/// PATH`.
fn file_name(block: &Block) -> Option<String> {
    if let Some(file) = &block.file {
        return Some(file.clone());
    }
    let name = block.text.lines().next()?.strip_prefix("# ").filter(|name| !name.contains(' '))?;
    [".yaml", ".py", ".sh"].iter().any(|end| name.ends_with(end)).then(|| name.to_owned())
}

/// Replaces the parts of a line that differ between runs with `...`: digests, times and
/// measurements.
fn stable(line: &str) -> String {
    if let Some((head, _)) = line.split_once("/workspace = ").filter(|_| line.starts_with('│')) {
        return format!("{head}/workspace = ... │");
    }
    let has_time = line.split(' ').any(|word| is_time(core(word)));
    let mut previous = "";
    let mut stable = String::new();
    for word in line.split_inclusive(' ') {
        let core = core(word);
        let is_last = line.ends_with(word);
        let is_digest =
            |text: &str| text.len() >= 40 && text.chars().all(|c| c.is_ascii_hexdigit());
        let is_measured = core.parse::<f64>().is_ok()
            && (["device", "inode", "session", "uid", "in", "wall_ms\":"].contains(&previous)
                || previous.ends_with(".wasm")
                || line.contains("cost.fuel: ")
                || has_time && is_last);
        let volatile = match core.rsplit(':').next() {
            Some(digest) if is_digest(digest) => digest,
            _ if is_time(core) || is_measured => core,
            _ => "",
        };
        let shown =
            if volatile.is_empty() { word.to_owned() } else { word.replace(volatile, "...") };
        stable.push_str(&shown);
        previous = if core.is_empty() { previous } else { core };
    }
    stable
}

/// Trims the punctuation around a word.
fn core(word: &str) -> &str {
    word.trim().trim_matches(|c| "(),\"".contains(c))
}

fn is_time(word: &str) -> bool {
    word.len() >= 20 && word.as_bytes()[10] == b'T' && word.ends_with('Z')
}

#[test]
fn blessing_masks_values_that_differ_between_runs() {
    let digest = "5".repeat(64);
    let lines = [
        (format!("a.wasm  10 bytes  sha256:{digest}"), "a.wasm  ... bytes  sha256:..."),
        (format!("d: \"sha256:{digest}\", here"), "d: \"sha256:...\", here"),
        ("==> build: done in 1.5 s".into(), "==> build: done in ... s"),
        ("2  2026-11-25T00:28:39Z  x  exited 0  3.2".into(), "2  ...  x  exited 0  ..."),
        ("(device 65024, inode 7)".into(), "(device ..., inode ...)"),
        ("3.1068559612 miles".into(), "3.1068559612 miles"),
    ];
    for (line, expected) in lines {
        assert_eq!(stable(&line), expected);
    }
}
