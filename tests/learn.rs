//! Learning the smallest grant from a recorded run: under the proposal the same run ends the same
//! way, the proposal is never wider than what it replaces, and it reports what it generalised.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use proptest::prelude::*;
use skillhost::invoke::{Invocation, RunRequest, Runner, Target};
use skillhost_compat::learn::{
    Proposal, RunEvidence, find_unused, is_within, missing_grants, propose,
};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::determinism::DeterminismRule;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::uses::GrantUse;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_policy::{self as policy, Overrides, Policy, grant};
use skillhost_sandbox::{Io, Stdin};
use skillhost_skill::{Skill, SkillFolder, SourceKind};

use crate::cli::{User, repository, text};
use crate::hostile_host::{HANG_TIMEOUT, shell_host};
use crate::servers::Server;

/// A skill, a workspace and a policy, run twice: under the original grant, and under the proposed
/// one.
struct Case {
    dir: tempfile::TempDir,
    host: Runner,
    overrides: Overrides,
    policy: Option<String>,
}

impl Case {
    fn new(allowed_tools: Option<&str>, script: (&str, &str)) -> Case {
        let dir = tempfile::tempdir().unwrap();
        let host = shell_host(dir.path());
        let skill = dir.path().join("learner");
        std::fs::create_dir_all(skill.join("scripts")).unwrap();
        let tools =
            allowed_tools.map(|tools| format!("allowed-tools: {tools}\n")).unwrap_or_default();
        let manifest = format!(
            "---\nname: learner\ndescription: Runs one script. Use to test.\n{tools}license: MIT\n---\nText.\n"
        );
        std::fs::write(skill.join("SKILL.md"), manifest).unwrap();
        std::fs::write(skill.join("scripts").join(script.0), script.1).unwrap();
        let overrides =
            Overrides { limits: vec![(Limit::Timeout, 110_000)], ..Overrides::default() };
        Case { dir, host, overrides, policy: None }
    }

    fn allow(mut self, entry: &str) -> Case {
        self.overrides.allow.push(entry.to_owned());
        self
    }

    fn under(mut self, policy: &str) -> Case {
        self.policy = Some(policy.to_owned());
        self
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("policy.yaml")
    }

    /// Loads a policy from a text, or the built-in one, with these overrides.
    fn read(&self, text: Option<&str>, overrides: Overrides) -> Option<Policy> {
        let base = match text {
            Some(text) => policy::load(&self.file(), text, None).ok()?,
            None => Policy::builtin(),
        };
        base.with_command_line(overrides).ok()
    }

    /// Runs the skill in a new workspace.
    fn run(&self, policy: &Policy, place: &Path, target: Target, args: &[&str]) -> Invocation {
        fill(place);
        let (host, skill, policy) =
            (self.host.clone(), self.dir.path().join("learner"), policy.clone());
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let io = Io { stdin: Stdin::Empty, uses: true, ..Io::default() };
            let request = RunRequest {
                skill: SkillFolder::new(&skill, SourceKind::Policy),
                policy: &policy,
                target,
                args,
                io,
            };
            let invoked =
                runtime.block_on(host.invoke(request)).unwrap_or_else(|error| panic!("{error}"));
            runtime.shutdown_background();
            // The receiver is gone if the test timed out.
            sender.send(invoked).ok();
        });
        receiver.recv_timeout(HANG_TIMEOUT).unwrap()
    }

    /// Runs the skill, applies the proposal, and runs it again; asserts what holds for every
    /// proposal.
    fn run_and_learn(mut self, target: &Target, args: &[&str]) -> LearnedRuns {
        let place = self.dir.path().join("first/place");
        self.overrides.workspace = Some((place.clone(), MountMode::Write));
        let old = self.read(self.policy.as_deref(), self.overrides.clone()).unwrap();
        let first = self.run(&old, &place, target.clone(), args);
        let first_files = files(&place);
        let learned = self.propose(&old, &first);
        let asked = first.skill.policy_manifest();
        let before = grant(&asked, &old).capabilities;

        let file = self.dir.path().join("learner/SKILL.md");
        if let Some(edit) = &learned.skill_edit {
            std::fs::write(&file, &edit.text).unwrap();
        }
        let text =
            learned.policy_edit.as_ref().map(|edit| edit.text.clone()).or(self.policy.clone());
        let again = Overrides { allow: Vec::new(), ..self.overrides.clone() };
        let new = self.read(text.as_deref(), again.clone()).unwrap();
        let skill = Skill::load(&self.dir.path().join("learner"), &Default::default()).unwrap();
        assert_eq!(skill.diagnostics, [], "{}", skill.source);
        let after = grant(&skill.policy_manifest(), &new).capabilities;
        assert!(is_within(&after, &before), "wider: {learned:#?}\n{after:?}\n{before:?}");
        assert_eq!(
            missing_grants(&after, first.finished.outcome.uses.as_ref().unwrap()),
            Vec::<String>::new(),
            "{learned:#?}"
        );

        let place = self.dir.path().join("second/place");
        let new = self
            .read(
                text.as_deref(),
                Overrides { workspace: Some((place.clone(), MountMode::Write)), ..again },
            )
            .unwrap();
        let second = self.run(&new, &place, target.clone(), args);
        let second = (second.finished.outcome, files(&place));
        LearnedRuns {
            learned,
            first: (first.finished.outcome, first_files),
            second,
            skill: skill.source,
        }
    }

    fn propose(&self, policy: &Policy, invoked: &Invocation) -> Proposal {
        let reload = |text: &str| {
            self.read(Some(text), Overrides { allow: Vec::new(), ..self.overrides.clone() })
        };
        let file = self.policy.clone().map(|text| (self.file().display().to_string(), text));
        propose(&RunEvidence {
            skill: &invoked.skill,
            policy,
            outcome: &invoked.finished.outcome,
            file,
            reload: &reload,
        })
    }
}

struct LearnedRuns {
    learned: Proposal,
    first: (Outcome, BTreeMap<String, String>),
    second: (Outcome, BTreeMap<String, String>),
    skill: String,
}

impl LearnedRuns {
    /// Asserts that both runs ended the same way, and returns the entries proposed for SKILL.md.
    fn same(&self) -> Vec<&str> {
        let summary = |(outcome, files): &(Outcome, BTreeMap<String, String>)| {
            let requests: Vec<_> = outcome
                .requests
                .iter()
                .map(|request| (request.method.clone(), request.status))
                .collect();
            let texts = (outcome.stdout.text().into_owned(), outcome.stderr.text().into_owned());
            (outcome.status.clone(), texts, requests, files.clone())
        };
        assert_eq!(summary(&self.first), summary(&self.second), "{:#?}", self.learned);
        self.entries()
    }

    fn entries(&self) -> Vec<&str> {
        self.learned.allowed_tools.iter().flatten().map(|entry| entry.entry.as_str()).collect()
    }
}

fn fill(place: &Path) {
    for folder in ["data", "mixed", "tree/a/b", "empty", "space dir"] {
        std::fs::create_dir_all(place.join(folder)).unwrap();
    }
    for (n, name) in ["one", "two", "three", "four", "five"].iter().enumerate() {
        std::fs::write(place.join(format!("data/{name}.csv")), format!("{n}\n")).unwrap();
    }
    for (file, text) in [
        ("mixed/a.txt", "a"),
        ("mixed/b.json", "{}"),
        ("tree/a/b/c.txt", "c"),
        ("own.txt", "own"),
        ("space dir/x (1).txt", "odd"),
        ("secret.txt", "s"),
    ] {
        std::fs::write(place.join(file), text).unwrap();
    }
    std::os::unix::fs::symlink("own.txt", place.join("link.txt")).unwrap();
}

fn files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(found.insert(
                    name,
                    String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
                )),
            }
        }
    }
    found
}

fn python(text: &str) -> (&'static str, String) {
    ("main.py", format!("import glob, os, subprocess, urllib.request\n{text}\n"))
}

fn javascript(text: &str) -> (&'static str, String) {
    let imports = "import fs from 'node:fs';\nimport childProcess from 'node:child_process';\n";
    ("main.mjs", format!("{imports}{text}\n"))
}

const ALL: &str = "Read Write Bash WebFetch(http://127.0.0.1)";

fn learn(text: &str) -> LearnedRuns {
    let (name, script) = python(text);
    Case::new(Some(ALL), (name, &script)).run_and_learn(&Target::Main, &[])
}

#[test]
fn many_files_in_one_folder_become_one_explained_entry() {
    let run_and_learn = learn(
        "for f in ['one', 'two', 'three', 'four', 'five']: print(open(f'data/{f}.csv').read())",
    );
    assert_eq!(run_and_learn.same(), ["Read(data/*.csv)"]);
    let entry = &run_and_learn.learned.allowed_tools.as_ref().unwrap()[0];
    assert_eq!(entry.generalised.as_deref(), Some("5 files in one folder end in .csv"));
    assert_eq!(entry.used_for.len(), 5);
    assert!(
        run_and_learn.skill.contains("\nallowed-tools: Read(data/*.csv)\nlicense"),
        "{}",
        run_and_learn.skill
    );
}

#[test]
fn javascript_gets_the_entries_that_python_gets() {
    let server = Server::of_size(3);
    let url = format!("http://127.0.0.1:{}", server.port);
    let script = format!(
        "for (const f of ['one', 'two', 'three', 'four', 'five']) console.log(fs.readFileSync(`data/${{f}}.csv`, 'utf8'));
        await import('data:text/javascript,');
        fs.mkdirSync('out'); fs.writeFileSync('out/a.txt', 'a');
        console.log(childProcess.execFileSync('jq', ['-n', '1+1']).toString(), await (await fetch('{url}/x')).text());"
    );
    let (name, script) = javascript(&script);
    let entry = format!("WebFetch({url})");
    let case = Case::new(Some(&format!("Read Write Bash {entry}")), (name, &script)).allow(&entry);
    let run_and_learn = case.run_and_learn(&Target::Main, &[]);
    let mut entries = run_and_learn.same();
    entries.sort_unstable();
    let mut expected = vec!["Bash(jq -n 1+1)", "Read(data/*.csv)", entry.as_str(), "Write(out/**)"];
    expected.sort_unstable();
    assert_eq!(entries, expected);
}

#[test]
fn two_files_remain_two_entries() {
    let run_and_learn = learn("print(open('data/one.csv').read(), open('data/two.csv').read())");
    assert_eq!(run_and_learn.same(), ["Read(data/one.csv)", "Read(data/two.csv)"]);
    assert!(
        run_and_learn.learned.allowed_tools.unwrap().iter().all(|one| one.generalised.is_none())
    );
}

#[test]
fn listed_folders_remain_listable() {
    assert_eq!(learn("print(os.listdir('mixed'))").same(), ["Read(mixed/*)"]);
    assert_eq!(learn("print(sorted(glob.glob('data/*.csv')))").same(), ["Read(data/*.csv)"]);
    assert_eq!(
        learn("print([(d, n, f) for d, n, f in os.walk('tree')])").same(),
        ["Read(tree/**)"]
    );
    assert_eq!(
        learn("print(os.path.isdir('empty'), os.path.exists('nowhere'))").same(),
        ["Read(empty/*)"]
    );
}

#[test]
fn written_and_read_files_get_separate_entries() {
    let run_and_learn = learn(
        "open('own.txt', 'a').write('x'); os.mkdir('out'); open('out/a.txt', 'w').write('a'); os.remove('data/one.csv')",
    );
    assert_eq!(run_and_learn.same(), ["Write(out/**)", "Write(own.txt)", "Write(data/one.csv)"]);
    assert!(run_and_learn.learned.notes.iter().any(|note| note.contains("limits are the peaks")));
    // The whole mount, because the file layer requests it when a folder moves.
    assert_eq!(learn("os.rename('tree', 'forest')").same(), ["Write(**)"]);
}

#[test]
fn special_characters_in_names_are_masked() {
    let run_and_learn = learn("print(open('space dir/x (1).txt').read())");
    assert_eq!(run_and_learn.same(), ["Read(space?dir/x??1?.txt)"]);
    assert_eq!(learn("print(open('link.txt').read())").same(), ["Read(link.txt)", "Read(own.txt)"]);
}

#[test]
fn run_without_needs_proposes_no_entries() {
    let run_and_learn = learn("print(1)");
    assert_eq!(run_and_learn.same(), Vec::<&str>::new());
    assert!(run_and_learn.skill.contains("allowed-tools: \"\"\n"), "{}", run_and_learn.skill);
    assert!(
        run_and_learn
            .learned
            .notes
            .iter()
            .any(|note| note.contains("nothing in /workspace was used")),
        "{:?}",
        run_and_learn.learned.notes
    );
}

#[test]
fn proposed_commands_are_exact_if_possible() {
    let run_and_learn =
        learn("print(subprocess.run(['jq', '-n', '1+1'], capture_output=True).stdout)");
    assert_eq!(run_and_learn.same(), ["Bash(jq -n 1+1)", "Read(/skill/**)"]);
    let text = "import tempfile\nname = tempfile.mktemp()\nprint(subprocess.run(['jq', '-n', '--arg', 'x', name, '1'], capture_output=True).stdout)";
    let run_and_learn = learn(text);
    assert_eq!(run_and_learn.same(), ["Bash(jq -n --arg x:*)", "Read(/skill/**)"]);
    let text = "for n in range(4): print(subprocess.run(['jq', '-n', str(n)], capture_output=True).stdout)";
    assert_eq!(learn(text).same(), ["Bash(jq -n:*)", "Read(/skill/**)"]);
}

#[test]
fn proposed_hosts_and_methods_are_exact() {
    let server = Server::of_size(3);
    let script =
        format!("print(urllib.request.urlopen('http://127.0.0.1:{}/x').read())", server.port);
    let (name, script) = python(&script);
    let entry = format!("WebFetch(http://127.0.0.1:{})", server.port);
    let case = Case::new(None, (name, &script)).allow(&entry).allow("WebFetch(domain:*)");
    let run_and_learn = case.run_and_learn(&Target::Main, &[]);
    assert_eq!(run_and_learn.same(), [entry.as_str()]);
    let policy = &run_and_learn.learned.policy_edit.as_ref().unwrap().text;
    assert!(
        policy.contains("methods: [GET]")
            && policy.contains(&entry)
            && policy.contains("http-requests: 4"),
        "{policy}"
    );
    assert!(!policy.contains("domain:*"), "{policy}");
}

#[test]
fn denied_attempts_are_listed_but_not_proposed() {
    let script = "try: open('secret.txt').read()\nexcept OSError as e: print(type(e).__name__)\nprint(open('own.txt').read())";
    let (name, script) = python(script);
    let run_and_learn = Case::new(Some("Read(own.txt) Read(data/**)"), (name, &script))
        .run_and_learn(&Target::Main, &[]);
    assert_eq!(run_and_learn.same(), ["Read(own.txt)"]);
    let also = &run_and_learn.learned.would_also_need;
    assert_eq!(also.len(), 1);
    assert_eq!(
        (also[0].what.as_str(), also[0].fix.as_deref()),
        ("read /workspace/secret.txt", Some("add `Read(secret.txt)` to allowed-tools in SKILL.md"))
    );
}

#[test]
fn pattern_is_kept_if_no_narrower_one_is_verified() {
    let (name, script) = python("print(open('own.txt').read(), sorted(os.listdir('data')))");
    let run_and_learn =
        Case::new(Some("Read(*.txt) Read(data/*.csv) Write(out/**)"), (name, &script))
            .run_and_learn(&Target::Main, &[]);
    assert_eq!(run_and_learn.same(), ["Read(data/*.csv)", "Read(*.txt)"]);
    let kept = &run_and_learn.learned.allowed_tools.as_ref().unwrap()[1];
    assert!(kept.generalised.as_ref().unwrap().contains("unchanged: a narrower entry"), "{kept:?}");
}

const POLICY: &str = "\
# Ours.
default:
  allow:
    - Read   # everyone
skills:
  other:
    allow: [Bash]
  learner:
    # What it may.
    allow:
    - Write(out/**)
    - Write(data/**)
    - Bash
    env: [LEVEL=3]
    limits:
      timeout: 90s
  zzz: {}
";

#[test]
fn edit_keeps_unrelated_parts_of_the_policy() {
    let (name, script) = python(
        "os.mkdir('out'); open('out/a.txt', 'w').write(open('own.txt').read() + os.environ['LEVEL'])",
    );
    let run_and_learn =
        Case::new(None, (name, &script)).under(POLICY).run_and_learn(&Target::Main, &[]);
    assert_eq!(run_and_learn.same(), ["Write(out/**)", "Read(own.txt)"]);
    let text = &run_and_learn.learned.policy_edit.as_ref().unwrap().text;
    for kept in [
        "# Ours.\n",
        "    - Read   # everyone\n",
        "    allow: [Bash]\n",
        "    # What it may.\n",
        "    env: [LEVEL=3]\n",
        "  zzz: {}\n",
    ] {
        assert!(text.contains(kept), "{kept:?} is gone:\n{text}");
    }
    // The `default` rule lets every skill read.
    assert!(
        text.contains("    allow:\n      - Write(out/**)\n    limits:\n      timeout: ")
            && !text.contains("Write(data"),
        "{text}"
    );
    assert!(run_and_learn.learned.policy_edit.unwrap().diff.contains("-    - Write(data/**)\n"));
}

#[test]
fn missing_section_is_added_and_flow_style_is_not_edited() {
    let script = python("print(open('own.txt').read())");
    let run_and_learn = Case::new(None, (script.0, &script.1))
        .under("default: { allow: [Read] }\n")
        .run_and_learn(&Target::Main, &[]);
    assert_eq!(run_and_learn.same(), ["Read(own.txt)"]);
    let text = &run_and_learn.learned.policy_edit.as_ref().unwrap().text;
    assert!(
        text.starts_with("default: { allow: [Read] }\n\nskills:\n  learner:\n    allow: []\n"),
        "{text}"
    );
    let inline = "skills: { learner: { allow: [Read] } }\n";
    let run_and_learn =
        Case::new(None, (script.0, &script.1)).under(inline).run_and_learn(&Target::Main, &[]);
    assert_eq!(run_and_learn.same(), ["Read(own.txt)"]);
    assert_eq!(run_and_learn.learned.policy_edit, None);
    assert!(
        run_and_learn
            .learned
            .notes
            .iter()
            .any(|note| note.contains("cannot edit the policy") && note.contains("- Read(own.txt)"))
    );
}

#[test]
fn deterministic_run_gives_the_same_proposal() {
    let (name, script) = python(
        "import random\nprint(random.random(), open('own.txt').read()); open('new.txt', 'w').write('x')",
    );
    let mut case = Case::new(Some("Read Write"), (name, &script));
    case.overrides.determinism =
        DeterminismRule { on: Some(true), seed: Some(7), start_time: None };
    let run_and_learn = case.run_and_learn(&Target::Main, &[]);
    assert_eq!(run_and_learn.same(), ["Write(new.txt)", "Read(own.txt)"]);
    assert!(run_and_learn.learned.policy_edit.as_ref().unwrap().text.contains("      fuel: "));
    assert_eq!(run_and_learn.first.0.usage.fuel, run_and_learn.second.0.usage.fuel);
}

#[test]
fn component_runs_give_proposals() {
    let case = Case::new(Some("Read Write Bash"), ("unused.txt", ""));
    let folder = case.dir.path().join("learner");
    std::fs::copy(
        repository("skills/data-convert/data-convert.wasm"),
        folder.join("data-convert.wasm"),
    )
    .unwrap();
    let manifest = std::fs::read_to_string(folder.join("SKILL.md")).unwrap();
    std::fs::write(
        folder.join("SKILL.md"),
        manifest.replace("license: MIT", "metadata:\n  component: data-convert.wasm"),
    )
    .unwrap();
    let run_and_learn = case.run_and_learn(&Target::Main, &["--to", "yaml", "mixed/b.json"]);
    assert_eq!(
        run_and_learn.first.0.status,
        Status::Exited { code: 0 },
        "{:?}",
        run_and_learn.first.0
    );
    assert_eq!(run_and_learn.same(), ["Read(mixed/b.json)"]);
}

#[test]
fn unused_grants_are_found() {
    let (name, script) = python("print(open('own.txt').read())");
    let case = Case::new(
        Some("Read(own.txt) Write(data/**) Bash(jq:*) WebFetch(domain:example.com)"),
        (name, &script),
    );
    let skill = Skill::load(&case.dir.path().join("learner"), &Default::default()).unwrap();
    let mut uses = GrantUse::default();
    uses.paths.insert("/workspace/own.txt".into(), Default::default());
    uses.paths.insert("/workspace/data/one.csv".into(), Default::default());
    let found = find_unused(&skill, &uses);
    let reported: Vec<_> = found
        .iter()
        .map(|finding| {
            (
                finding.rule,
                finding.span.unwrap().line,
                finding.span.unwrap().column,
                finding.fix.as_deref().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        reported,
        [
            (
                "grant-unwritten",
                4,
                30,
                "allowed-tools: Read(own.txt) Read(data/**) Bash(jq:*) WebFetch(domain:example.com)"
            ),
            (
                "grant-unused",
                4,
                45,
                "allowed-tools: Read(own.txt) Write(data/**) WebFetch(domain:example.com)"
            ),
            ("grant-unused", 4, 56, "allowed-tools: Read(own.txt) Write(data/**) Bash(jq:*)"),
        ]
    );
    uses.commands.insert(vec!["/usr/bin/jq".into(), ".".into()]);
    assert_eq!(find_unused(&skill, &uses).len(), 2);
}

#[test]
fn grant_use_is_recorded_only_on_request() {
    let user = User::new();
    let folder = user.work().join("hello");
    crate::cli::skill_of("hello", &folder);
    let run = |more: &[&str]| {
        let output = user
            .command(env!("CARGO_BIN_EXE_skillhost"))
            .args(["run", "./hello", "--json"])
            .args(more)
            .output()
            .unwrap();
        serde_json::from_str::<serde_json::Value>(&text(&output.stdout)).unwrap()
    };
    assert!(run(&[]).get("uses").is_none());
    let learned = run(&["--learn"]);
    assert!(learned["uses"].is_object() && learned["learned"]["skill"] == "hello", "{learned}");
    let schema = text(&user.skillhost(&["schema", "learned"]).stdout);
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    assert!(validator.is_valid(&learned["learned"]), "{learned}");
    let back: GrantUse = serde_json::from_value(learned["uses"].clone()).unwrap();
    assert_eq!(serde_json::to_value(&back).unwrap(), learned["uses"]);
}

/// Scripts in Python, bash and JavaScript.
const STEPS: [[&str; 3]; 14] = [
    [
        "print(open('own.txt').read())",
        "cat own.txt",
        "console.log(fs.readFileSync('own.txt', 'utf8'))",
    ],
    [
        "print(open('data/one.csv').read())",
        "cat data/one.csv",
        "console.log(await fs.promises.readFile('data/one.csv', 'utf8'))",
    ],
    [
        "[print(open(p).read()) for p in sorted(glob.glob('data/*'))]",
        "for f in data/*; do cat \"$f\"; done",
        "for (const f of fs.readdirSync('data')) console.log(fs.readFileSync(`data/${f}`, 'utf8'))",
    ],
    ["print(sorted(os.listdir('mixed')))", "ls mixed", "console.log(fs.readdirSync('mixed'))"],
    ["print(sorted(os.listdir('.')))", "ls", "console.log(await fs.promises.readdir('.'))"],
    [
        "print([sorted(f) for _, _, f in os.walk('tree')])",
        "find tree -type f",
        "console.log(fs.readdirSync('tree', { recursive: true }))",
    ],
    [
        "os.makedirs('out/deep', exist_ok=True); open('out/deep/a.txt', 'w').write('a')",
        "mkdir -p out/deep; echo a > out/deep/a.txt",
        "fs.mkdirSync('out/deep', { recursive: true }); fs.writeFileSync('out/deep/a.txt', 'a')",
    ],
    [
        "open('own.txt', 'a').write('more')",
        "echo more >> own.txt",
        "fs.appendFileSync('own.txt', 'more')",
    ],
    [
        "open('new.txt', 'w').write('new')",
        "echo new > new.txt",
        "await new Promise((done) => fs.createWriteStream('new.txt').end('new', done))",
    ],
    [
        "os.replace('mixed/a.txt', 'mixed/c.txt') if os.path.exists('mixed/a.txt') else 0",
        "[ -e mixed/a.txt ] && mv mixed/a.txt mixed/c.txt",
        "fs.existsSync('mixed/a.txt') && fs.renameSync('mixed/a.txt', 'mixed/c.txt')",
    ],
    [
        "os.path.exists('data/two.csv') and os.remove('data/two.csv')",
        "rm -f data/two.csv",
        "fs.rmSync('data/two.csv', { force: true })",
    ],
    [
        "print(os.path.isdir('empty'), os.path.exists('nowhere'))",
        "[ -d empty ] && echo yes; [ -e nowhere ] || echo no",
        "console.log(fs.statSync('empty').isDirectory(), fs.existsSync('nowhere'))",
    ],
    [
        "print(open('link.txt').read())",
        "cat link.txt",
        "console.log(fs.readFileSync('link.txt', 'utf8'))",
    ],
    [
        "print(subprocess.run(['jq', '-n', '1+1'], capture_output=True, text=True).stdout)",
        "python3 -c 'print(2)'",
        "console.log(childProcess.spawnSync('jq', ['-n', '1+1']).stdout?.toString())",
    ],
];

/// Values of `allowed-tools`: none, everything, everything by implication, and patterns of which
/// some exclude files.
const ASKED: [Option<&str>; 5] = [
    None,
    Some("Read Write Bash"),
    Some("Bash"),
    Some(
        "Read(**) Write(out/**) Write(*.txt) Write(mixed/*) Write(data/**) Bash(jq:*) Bash(python3:*)",
    ),
    Some("Read(data/*.csv) Read(*.txt) Write(out) Read(mixed) Read(tree/**) Bash(jq -n:*)"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn run_under_the_proposal_has_the_same_result(
        steps in prop::collection::vec(0..STEPS.len(), 1..6),
        language in 0..3usize,
        asked in 0..ASKED.len(),
        deterministic in prop::bool::weighted(0.2),
    ) {
        let lines: Vec<&str> = steps.iter().map(|at| STEPS[*at][language]).collect();
        let script = match language {
            0 => python(&lines.join("\n")),
            1 => ("main.sh", lines.join("\n")),
            _ => javascript(&lines.join(";\n")),
        };
        let mut case = Case::new(ASKED[asked], (script.0, &script.1));
        case.overrides.determinism.on = deterministic.then_some(true);
        let run_and_learn = case.run_and_learn(&Target::Main, &[]);
        // Refused attempts stay refused, possibly with a different message.
        if run_and_learn.first.0.denials.is_empty() {
            run_and_learn.same();
            prop_assert_eq!(&run_and_learn.second.0.denials, &Vec::new());
        } else {
            prop_assert_eq!(run_and_learn.first.1, run_and_learn.second.1);
        }
    }
}

#[test]
fn proposals_are_printed_and_not_applied() {
    let user = User::new();
    crate::cli::skill_of("hello", &user.work().join("hello"));
    let file = user.work().join("hello/SKILL.md");
    let before = std::fs::read_to_string(&file).unwrap();
    let output = user
        .command(env!("CARGO_BIN_EXE_skillhost"))
        .args(["run", "./hello", "--learn"])
        .output()
        .unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(
        stdout.starts_with("hello")
            && stdout.contains("\n+allowed-tools: \"\"\n")
            && stdout.contains("+++ policy.yaml\n"),
        "{stdout}"
    );
    assert!(stderr.contains("the limits are the peaks of this run"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    assert!(!user.work().join("policy.yaml").exists());

    std::fs::write(&file, before.replace("metadata:", "allowed-tools: Read(data/**)\nmetadata:"))
        .unwrap();
    let output = user
        .command(env!("CARGO_BIN_EXE_skillhost"))
        .args(["run", "./hello", "--learn", "--json"])
        .output()
        .unwrap();
    std::fs::write(user.work().join("used.json"), &output.stdout).unwrap();
    let check = |more: &[&str]| {
        let output = user
            .command(env!("CARGO_BIN_EXE_skillhost"))
            .args(["check", "./hello", "--json"])
            .args(more)
            .output()
            .unwrap();
        (output.status.code(), text(&output.stdout))
    };
    let (code, found) = check(&["--used", "used.json"]);
    assert!(
        code == Some(0)
            && found.contains("\"grant-unused\"")
            && found.contains("\"fix\": \"allowed-tools: \\\"\\\"\""),
        "{found}"
    );
    assert!(!check(&[]).1.contains("grant-unused"));
    // `--used` accepts a recording, which is a folder; one of another skill yields no findings.
    for (skill, found) in [("hello", true), ("other", false)] {
        std::fs::create_dir_all(user.work().join(skill).join("rec")).unwrap();
        let uses = serde_json::json!({ "version": 1, "skill": skill, "uses": GrantUse::default() });
        std::fs::write(user.work().join(skill).join("rec/recording.json"), uses.to_string())
            .unwrap();
        assert_eq!(
            check(&["--used", &format!("{skill}/rec")]).1.contains("grant-unused"),
            found,
            "{skill}"
        );
    }
    assert_eq!(check(&["--used", "hello/SKILL.md"]).0, Some(64));
    assert_eq!(check(&["--used", "nowhere.json"]).0, Some(74));
}
