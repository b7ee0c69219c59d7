//! The hook for pre-commit, and the action for GitHub Actions: run as those run them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::cli::{User, repository, script_skill, text};

/// A user whose working folder has one valid skill and one with an error.
fn user() -> User {
    let user = User::new();
    script_skill(&user.work().join("skills/good"), &[("x.sh", "true\n")]);
    script_skill(&user.work().join("skills/bad"), &[("x.sh", "true\n")]);
    let skill_md = user.work().join("skills/bad/SKILL.md");
    let text = fs::read_to_string(&skill_md).unwrap();
    fs::write(skill_md, text.replace("name: bad", "name: other")).unwrap();
    user
}

fn yaml(file: &str) -> Value {
    let text = fs::read_to_string(repository(file)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

#[test]
fn changed_files_select_their_skills() {
    let user = user();
    let check = |files: &[&str]| {
        let output = user.skillhost(&[&["check", "--json", "--changed"], files].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let paths = report["skills"].as_array().unwrap().iter();
        let paths: Vec<String> =
            paths.map(|skill| skill["path"].as_str().unwrap().to_owned()).collect();
        (output.status.code(), paths)
    };
    let found = |code: i32, paths: &[&str]| {
        (Some(code), paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
    };
    let both = ["skills/good/SKILL.md", "skills/good/scripts/x.sh", "README.md"];
    assert_eq!(check(&both), found(0, &["skills/good"]));
    assert_eq!(check(&["skills/bad/scripts/deleted.sh"]), found(1, &["skills/bad"]));
    assert_eq!(check(&["./skills/good/SKILL.md"]), found(0, &["./skills/good"]));
    assert_eq!(check(&["README.md", "skills/README.md"]), found(0, &[]));
    // A folder inside a skill belongs to that skill.
    fs::create_dir(user.work().join("skills/good/example")).unwrap();
    fs::write(user.work().join("skills/good/example/SKILL.md"), "not a skill of its own").unwrap();
    assert_eq!(check(&["skills/good/example/SKILL.md"]), found(0, &["skills/good"]));
    // The working folder itself may be a skill.
    fs::write(user.work().join("SKILL.md"), "---\nname: work\ndescription: Tests.\n---\n").unwrap();
    assert_eq!(check(&["SKILL.md"]).1, ["."]);
    let shown = user.skillhost(&["check", "--changed", "../elsewhere"]);
    assert_eq!(text(&shown.stdout), "no skill contains these files\n");
}

/// The folder of tools that `cargo xtask clients` fetches.
fn tool(name: &str) -> PathBuf {
    let path = repository("target").join("clients/pre-commit/bin").join(name);
    assert!(path.exists(), "{} is missing: run `cargo xtask clients` first", path.display());
    path
}

fn git(user: &User, folder: &Path, args: &[&str]) {
    let mut git = user.command("git");
    git.env("PATH", std::env::var_os("PATH").unwrap()).current_dir(folder);
    for (key, value) in [("user.name", "Ada"), ("user.email", "ada@example.com")] {
        git.args(["-c", &format!("{key}={value}")]);
    }
    let ran = git.args(args).output().unwrap();
    assert!(ran.status.success(), "{args:?}: {ran:?}");
}

/// Runs a tool in the user's environment, with git and skillhost on the path.
fn run(user: &User, program: &Path, args: &[&str]) -> Output {
    let mut command = user.command(program.to_str().unwrap());
    let own = Path::new(env!("CARGO_BIN_EXE_skillhost")).parent().unwrap();
    let machine = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{machine}", own.display()));
    command.env("PRE_COMMIT_HOME", user.root().join("pre-commit")).args(args).output().unwrap()
}

#[test]
fn hook_checks_the_changed_skills_of_a_repository() {
    let user = user();
    // A repository of hooks as pre-commit clones it.
    let hooks = user.root().join("hooks");
    fs::create_dir(&hooks).unwrap();
    let manifest = repository(".pre-commit-hooks.yaml");
    fs::copy(&manifest, hooks.join(".pre-commit-hooks.yaml")).unwrap();
    git(&user, &hooks, &["init", "--quiet"]);
    git(&user, &hooks, &["add", "."]);
    git(&user, &hooks, &["commit", "--quiet", "-m", "hooks"]);
    git(&user, &user.work(), &["init", "--quiet"]);
    git(&user, &user.work(), &["add", "skills"]);
    let pre_commit = tool("pre-commit");
    let valid = run(&user, &pre_commit, &["validate-manifest", manifest.to_str().unwrap()]);
    assert!(valid.status.success(), "{valid:?}");
    let hook = |files: &[&str]| {
        let repo = hooks.to_str().unwrap();
        let args = [&["try-repo", repo, "skillhost-check", "--verbose", "--files"], files].concat();
        run(&user, &pre_commit, &args)
    };
    let good = hook(&["skills/good/scripts/x.sh"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stdout));
    assert!(text(&good.stdout).contains("Passed"), "{}", text(&good.stdout));
    let bad = hook(&["skills/bad/SKILL.md", "skills/good/SKILL.md"]);
    let shown = text(&bad.stdout);
    assert_eq!(bad.status.code(), Some(1), "{shown}");
    assert!(shown.contains("Failed") && shown.contains("name-folder"), "{shown}");
    let other = hook(&["data/one.txt"]);
    assert_eq!(other.status.code(), Some(0), "{}", text(&other.stdout));
}

/// The action, with a folder for what GitHub passes to steps.
struct Action<'a> {
    user: &'a User,
    inputs: BTreeMap<String, String>,
    /// The search path of the steps; `None` for that of the user.
    path: Option<PathBuf>,
}

impl Action<'_> {
    /// Runs the steps in order, each in bash as GitHub runs it. Returns the outputs of the last, the
    /// exit code and stdout.
    fn run(&self) -> (BTreeMap<String, String>, Option<i32>, String) {
        let action = yaml("action.yml");
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for (name, input) in action["inputs"].as_object().unwrap() {
            let value = self.inputs.get(name).map(String::as_str).or(input["default"].as_str());
            values.insert(format!("inputs.{name}"), value.unwrap().to_owned());
        }
        let source = repository("").canonicalize().unwrap();
        values.insert("github.action_path".into(), source.display().to_string());
        let mut last = (BTreeMap::new(), None, String::new());
        for step in action["runs"]["steps"].as_array().unwrap() {
            assert_eq!(step["shell"], "bash");
            let (script, output) =
                (self.user.root().join("step.sh"), self.user.root().join("output"));
            fs::write(&script, step["run"].as_str().unwrap()).unwrap();
            fs::write(&output, "").unwrap();
            let mut bash = self.user.command("/bin/bash");
            bash.envs(self.path.iter().map(|path| ("PATH", path)));
            bash.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&script);
            bash.env("GITHUB_OUTPUT", &output).env("RUNNER_TEMP", self.user.root().join("tmp"));
            for (name, value) in step["env"].as_object().unwrap() {
                let key = value.as_str().unwrap().strip_prefix("${{ ").unwrap();
                bash.env(name, &values[key.strip_suffix(" }}").unwrap()]);
            }
            let ran = bash.output().unwrap();
            let outputs = fs::read_to_string(&output).unwrap();
            let outputs: BTreeMap<String, String> = outputs
                .lines()
                .map(|line| line.split_once('=').unwrap())
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            for (name, value) in &outputs {
                let step = step["id"].as_str().unwrap();
                values.insert(format!("steps.{step}.outputs.{name}"), value.clone());
            }
            last = (outputs, ran.status.code(), text(&ran.stdout) + &text(&ran.stderr));
            if !ran.status.success() {
                break;
            }
        }
        last
    }
}

fn action<'a>(user: &'a User, inputs: &[(&str, &str)]) -> Action<'a> {
    let inputs = inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Action { user, inputs: inputs.collect(), path: None }
}

#[test]
fn action_prints_annotations() {
    let user = user();
    let (_, code, shown) = action(&user, &[]).run();
    assert_eq!(code, Some(1), "{shown}");
    let line = "::error file=skills/bad/SKILL.md,line=2,col=7,title=name-folder::";
    assert!(shown.contains(line), "{shown}");
    let (_, code, shown) = action(&user, &[("skills", "\n./skills/good\r\nhello\n")]).run();
    assert_eq!(code, Some(0), "{shown}");
    fs::write(user.work().join("policy.yaml"), "colour: red\n").unwrap();
    let (_, code, shown) =
        action(&user, &[("skills", "skills/good"), ("policy", "policy.yaml")]).run();
    assert!(code == Some(65) && shown.contains("unknown key `colour`"), "{shown}");
}

#[test]
fn action_writes_sarif() {
    let user = user();
    let (outputs, code, shown) =
        action(&user, &[("format", "sarif"), ("sarif-file", "a b.sarif")]).run();
    assert_eq!(code, Some(1), "{shown}");
    assert_eq!(outputs["sarif-file"], "a b.sarif");
    let sarif = fs::read_to_string(user.work().join("a b.sarif")).unwrap();
    let sarif: Value = serde_json::from_str(&sarif).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "name-folder");
    let output = &yaml("action.yml")["outputs"]["sarif-file"]["value"];
    assert_eq!(output, "${{ steps.check.outputs.sarif-file }}");
}

/// The author of a pull request chooses the names of its files, and may choose inputs.
#[test]
fn inputs_are_never_code() {
    let action_yml = yaml("action.yml");
    for step in action_yml["runs"]["steps"].as_array().unwrap() {
        let run = step["run"].as_str().unwrap();
        assert!(!run.contains("${{"), "an expression in a script is code: {run}");
    }
    let user = user();
    for hostile in ["$(touch hacked)", "`touch hacked`", "; touch hacked", "--help", "-x", "a\" b"]
    {
        for name in ["skills", "format", "policy", "sarif-file", "skillhost"] {
            let (_, code, _) = action(&user, &[(name, hostile), ("skills", hostile)]).run();
            assert_ne!(code, Some(0), "{name}: {hostile}");
            assert!(!user.work().join("hacked").exists(), "{name}: {hostile}");
        }
    }
}

#[test]
fn program_that_is_not_found_is_built() {
    let user = user();
    // The search path has no cargo, so the step fails where it would build.
    let empty = user.root().join("tmp");
    let (_, code, shown) =
        Action { path: Some(empty), ..action(&user, &[("skillhost", "nowhere")]) }.run();
    assert!(code == Some(127) && shown.contains("cargo: command not found"), "{shown}");
    // What it would build exists.
    let action = fs::read_to_string(repository("action.yml")).unwrap();
    assert!(action.contains("--package skillhost-cli"));
    let cli = fs::read_to_string(repository("host/cli/Cargo.toml")).unwrap();
    assert!(cli.contains("name = \"skillhost-cli\"") && cli.contains("name = \"skillhost\""));
}

#[test]
fn action_follows_the_schema_of_github() {
    let validate = Command::new(tool("check-jsonschema"))
        .args(["--builtin-schema", "vendor.github-actions"])
        .arg(repository("action.yml"))
        .output()
        .unwrap();
    assert!(validate.status.success(), "{}", text(&validate.stdout));
}
