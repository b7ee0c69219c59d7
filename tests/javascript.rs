//! JavaScript and TypeScript: which commands start `node`, what allows and denies them, and what
//! scripts do in the real runtime.

mod compiled;
mod http;
mod runs;

use skillhost_policy::outcome::{Outcome, Status};

use crate::cli::{User, guest, text};
use crate::hostile_host::Fixture;
use crate::programs::program;

/// The ways to start a file with JavaScript tools, and the command line of `node` that each means.
const TOOLS: [(&str, &str); 17] = [
    ("node x.ts a", "node x.ts a"),
    ("nodejs x.ts a", "nodejs x.ts a"),
    ("/usr/bin/node x.ts a", "/usr/bin/node x.ts a"),
    ("bun x.ts a", "node x.ts a"),
    ("bun run x.ts a", "node x.ts a"),
    ("deno run --allow-net -R x.ts a", "node x.ts a"),
    ("tsx x.ts a", "node x.ts a"),
    ("node_modules/.bin/tsx x.ts a", "node x.ts a"),
    ("ts-node --esm x.ts a", "node x.ts a"),
    ("npx tsx x.ts a", "node x.ts a"),
    ("npx -y ts-node@10 x.ts a", "node x.ts a"),
    ("bunx tsx x.ts a", "node x.ts a"),
    ("pnpm dlx tsx x.ts a", "node x.ts a"),
    ("env npx tsx x.ts a", "node x.ts a"),
    ("timeout 60 nice npx tsx x.ts a", "node x.ts a"),
    ("npm ci", "node /usr/lib/node_modules/npm/bin/npm-cli.js ci"),
    ("npx some-package a", "node /usr/lib/node_modules/npm/bin/npx-cli.js some-package a"),
];

/// A skill whose component starts commands, in a host whose `node` prints its arguments.
struct Place {
    fixture: Fixture,
}

impl Place {
    fn new() -> Place {
        let fixture = Fixture::new();
        let programs = fixture.path("own/programs");
        program(&programs, "javascript", &["node", "nodejs"], guest("argv"));
        Place { fixture }
    }

    /// Starts a command line under these denials.
    fn start(&self, line: &str, denials: &[&str]) -> Outcome {
        // `␣` stands for a space in a word.
        let words: Vec<String> = line.split(' ').map(|word| word.replace('␣', " ")).collect();
        let words = words.iter().map(String::as_str);
        let args: Vec<&str> = std::iter::once("launch").chain(words).collect();
        let run = self.fixture.run(&args).by(self.fixture.owning([]));
        denials.iter().fold(run, |run, denial| run.deny(denial)).go()
    }

    /// Sets the skill's `allowed-tools`.
    fn request(&self, tools: &str) {
        let manifest = format!(
            "---\nname: hostile\ndescription: Starts commands. Use to test.\nallowed-tools: {tools}\nmetadata:\n  component: hostile.wasm\n---\n"
        );
        std::fs::write(self.fixture.path("skills/hostile/SKILL.md"), manifest).unwrap();
    }
}

fn is_denied(outcome: &Outcome) -> bool {
    outcome.status == Status::Exited { code: 126 } && outcome.usage.processes == 0
}

#[test]
fn commands_of_javascript_tools_start_node() {
    let place = Place::new();
    for (line, expected) in TOOLS {
        let outcome = place.start(line, &[]);
        let expected: String = expected.split(' ').map(|word| format!("{word}\n")).collect();
        assert_eq!(outcome.stdout.text(), expected, "{line}: {outcome:?}");
    }
    for line in ["tsx watch x.ts", "bun test", "deno task x", "npx"] {
        let outcome = place.start(line, &[]);
        assert_eq!(outcome.status, Status::Exited { code: 127 }, "{line}: {outcome:?}");
        assert_eq!(outcome.denials.len(), 1, "{line}: the reason is recorded");
    }
}

#[test]
fn denial_of_node_denies_every_javascript_tool() {
    let place = Place::new();
    for denial in ["Bash(node:*)", "Bash(nodejs:*)", "Bash(bun)", "Bash(deno:*)", "Bash(tsx:*)"] {
        for (line, _) in TOOLS {
            let outcome = place.start(line, &[denial]);
            assert!(is_denied(&outcome), "{denial} {line}: {outcome:?}");
        }
    }
    // What only starts others is denied by its own name, and they are not.
    for (line, _) in TOOLS {
        let outcome = place.start(line, &["Bash(npx:*)"]);
        assert_eq!(is_denied(&outcome), line.contains("npx"), "{line}: {outcome:?}");
    }
}

#[test]
fn entry_for_either_spelling_allows_a_javascript_tool() {
    let place = Place::new();
    let own = place.fixture.path("skills/hostile/scripts");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("npm"), "#!/usr/bin/env node\n").unwrap();
    for (tools, allowed, others) in [
        ("Bash(node:*)", &["node x.js", "npx tsx x.ts", "bun run x.ts", "npm ci"][..], &[][..]),
        (
            "Bash(npx tsx:*)",
            &["npx tsx x.ts", "env npx tsx x.ts"],
            &["node x.ts", "tsx x.ts", "npx ts-node x.ts", "npx prettier x.ts"],
        ),
        (
            "Bash(npx:*)",
            &["npx tsx x.ts", "npx prettier x.ts"],
            &["node x.ts", "npm ci", "python3"],
        ),
        ("Bash(bun run:*)", &["bun run x.ts"], &["bun x.ts", "node x.ts", "deno run x.ts"]),
        ("Bash(node x.js)", &["node x.js", "tsx x.js"], &["node x.js a", "node y.js", "tsx y.js"]),
        ("Bash(jq:*)", &[], &["node x.js", "npx tsx x.ts"]),
        // What the environment loads is part of the command.
        (
            "Bash(node x.js)",
            &["env NODE_OPTIONS=--no-warnings node x.js"],
            &["env NODE_OPTIONS=--import=./y.mjs node x.js", "env NODE_OPTIONS=--eval=1 node x.js"],
        ),
        (
            "Bash(npx tsx x.ts)",
            &["env NODE_OPTIONS=--no-warnings npx tsx x.ts"],
            &["env NODE_OPTIONS=--require=./y.js npx tsx x.ts", "npx tsx -e 1 x.ts"],
        ),
        (
            "Bash(node -r ./setup.js:*)",
            &["node -r ./setup.js x.js"],
            &["node ./setup.js", "env NODE_OPTIONS=-r␣./evil.js node ./setup.js"],
        ),
        (
            "Bash(node --import=./good.mjs x.js)",
            &["node --import=./good.mjs x.js"],
            &[
                r#"env NODE_OPTIONS="--import=./good.mjs␣evil.mjs" node x.js"#,
                r"env NODE_OPTIONS=--import=./go\od.mjs node x.js",
            ],
        ),
        ("Bash(node:*)", &["env NODE_OPTIONS=--import=./y.mjs tsx x.ts", "scripts/npm x"], &[]),
        // A file of that name is another program.
        ("Bash(npm:*)", &["npm ci"], &["scripts/npm ci"]),
    ] {
        place.request(tools);
        for line in allowed {
            let outcome = place.start(line, &[]);
            assert_eq!(outcome.status, Status::Exited { code: 0 }, "{tools} {line}: {outcome:?}");
        }
        for line in others {
            let outcome = place.start(line, &[]);
            assert_eq!(outcome.usage.processes, 0, "{tools} {line}: {outcome:?}");
        }
    }
}

#[test]
fn script_without_a_runtime_says_how_to_build_it() {
    let user = User::new();
    crate::cli::script_skill(&user.work().join("scripted"), &[("x.ts", "console.log(1)\n")]);
    let programs = user.work().join("empty");
    std::fs::create_dir(&programs).unwrap();
    let run = user.skillhost(&["run", "./scripted", "x.ts", "--programs", "empty"]);
    let stderr = text(&run.stderr);
    assert!(
        stderr.contains("the program `node` is not installed")
            && stderr.contains("cargo xtask components"),
        "{stderr}"
    );
    let doctor = user.skillhost(&["doctor", "--programs", "empty"]);
    assert!(text(&doctor.stdout).contains("so nothing runs node"), "{doctor:?}");
}
