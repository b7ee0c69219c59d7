//! Compares the shell's git with the machine's: each line of tests/cases/git gives the same output
//! and exit code, and unsupported commands fail with a reason.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::{User, repository, text};

/// A user with repositories, and a skill that may run commands on them.
struct Place {
    user: User,
}

impl Place {
    /// Returns `None`, and reports it, if the machine has no git.
    #[expect(clippy::print_stderr, reason = "skipped tests must be visible")]
    fn new() -> Option<Place> {
        if Command::new("git").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("NOT TESTED: git, which this test compares with, is not installed");
            return None;
        }
        let place = Place { user: User::new() };
        let skill = place.user.work().join("skill");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::create_dir_all(place.repositories()).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: skill\ndescription: Runs git. Use to test.\nallowed-tools: Bash Read\n---\n")
            .unwrap();
        place.natively(&std::fs::read_to_string(repository("tests/cases/git/setup.sh")).unwrap());
        Some(place)
    }

    fn repositories(&self) -> std::path::PathBuf {
        self.user.work().join("repositories")
    }

    /// Returns what a script prints in bash.
    fn natively(&self, script: &str) -> String {
        let mut bash = Command::new("bash");
        bash.args(["-c", script]).current_dir(self.repositories()).stdin(Stdio::null()).env_clear();
        bash.env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.user.home())
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8");
        // Ignores the machine's settings, and repositories in parent folders.
        bash.env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CEILING_DIRECTORIES", self.user.work())
            .env("GIT_PAGER", "cat");
        let output = bash.output().unwrap();
        text(&output.stdout)
            .replace(&*self.repositories().canonicalize().unwrap().to_string_lossy(), "/workspace")
    }

    /// Returns what a script prints in the sandbox.
    fn here(&self, script: &str) -> String {
        let mut run = self.user.command(env!("CARGO_BIN_EXE_skillhost"));
        run.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR"))).args([
            "run",
            "./skill",
            "--workspace",
            "repositories:ro",
        ]);
        run.args(["--allow", "Bash", "--allow", "Read", "--timeout", "300s", "--command", script]);
        let output = run.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    }
}

/// Returns the output of each part of a script.
fn parts(printed: &str) -> BTreeMap<usize, String> {
    let parts = printed.split("@@@ ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.map(|(number, text)| (number.parse().unwrap(), text.to_owned())).collect()
}

#[test]
#[expect(clippy::print_stderr, reason = "reports how many agree")]
fn the_shells_git_matches_native_git() {
    let Some(place) = Place::new() else { return };
    let text = std::fs::read_to_string(repository("tests/cases/git/commands.txt")).unwrap();
    let (mut commands, mut script, mut folder) = (Vec::new(), String::new(), ".");
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            folder = name;
            continue;
        }
        script += &format!("echo '@@@ {}'; (cd {folder}; {line})\n", commands.len());
        commands.push(format!("[{folder}] {line}"));
    }
    script += "exit 0\n";
    let (native, ours) = (parts(&place.natively(&script)), parts(&place.here(&script)));
    assert_eq!((native.len(), ours.len()), (commands.len(), commands.len()));
    let wrong: Vec<String> = commands
        .iter()
        .enumerate()
        .filter(|(number, _)| native[number] != ours[number])
        .map(|(number, line)| {
            format!("{line}\n--- git\n{}--- ours\n{}", native[&number], ours[&number])
        })
        .collect();
    eprintln!(
        "git and the shell's git agree on {} of {} command lines",
        commands.len() - wrong.len(),
        commands.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsupported_git_commands_fail_with_a_reason() {
    let Some(place) = Place::new() else { return };
    for (line, words) in [
        ("git commit -m x", "'git commit' writes to the repository, but git can only read here"),
        ("git add a", "'git add' writes"),
        ("git branch new", "creates a branch"),
        ("git branch -d feature", "'git branch' writes"),
        ("git tag v2", "creates a tag"),
        ("git config user.name x", "'git config' writes"),
        ("git fetch", "'git fetch' uses the network"),
        ("git clone https://example.org/x", "'git clone' uses the network"),
        ("git remote add x y", "git can only read"),
        ("git blame README.md", "'git blame' is not supported by this git"),
        ("git log --graph", "this git does not support the option '--graph'"),
        ("git diff --word-diff", "this git does not support the option '--word-diff'"),
        ("git log --since=teatime", "this git does not understand the time 'teatime'"),
        ("git log HEAD~é", "unknown revision"),
    ] {
        let printed = place.here(&format!("cd main; {line} 2>&1; echo $?"));
        assert!(printed.contains(words) && printed.ends_with("\n128\n"), "{line}: {printed}");
    }
}

#[test]
fn broken_repositories_cause_only_an_error() {
    let Some(place) = Place::new() else { return };
    let main = place.repositories().join("main");
    let file = |folder: &str, end: &str| {
        let entries =
            std::fs::read_dir(main.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let found = entries.filter(|path| path.to_string_lossy().ends_with(end)).min().unwrap();
        found.strip_prefix(&main).unwrap().to_owned()
    };
    let (pack, idx) = (file(".git/objects/pack", ".pack"), file(".git/objects/pack", ".idx"));
    type Corrupt = fn(&mut Vec<u8>);
    let cases: [(&str, &Path, Corrupt); 8] = [
        ("pack cut", &pack, |bytes| bytes.truncate(bytes.len() / 3)),
        ("pack of ones", &pack, |bytes| bytes[12..].fill(0xff)),
        ("pack of noise", &pack, |bytes| {
            (12..bytes.len()).for_each(|at| bytes[at] = (at * 7919 % 251) as u8)
        }),
        ("index of the pack cut", &idx, |bytes| bytes.truncate(1100)),
        ("offsets of ones", &idx, |bytes| {
            let end = bytes.len() - 40;
            bytes[1100..end].fill(0x7f);
        }),
        ("head of noise", Path::new(".git/HEAD"), |bytes| bytes.fill(0xfe)),
        ("index cut", Path::new(".git/index"), |bytes| bytes.truncate(100)),
        ("index of ones", Path::new(".git/index"), |bytes| bytes[12..].fill(0xff)),
    ];
    for (name, path, corrupt) in cases {
        let original = std::fs::read(main.join(path)).unwrap();
        let mut bytes = original.clone();
        corrupt(&mut bytes);
        let read_only = std::fs::metadata(main.join(path)).unwrap().permissions();
        std::fs::remove_file(main.join(path)).unwrap();
        std::fs::write(main.join(path), bytes).unwrap();
        let printed =
            place.here("cd main; for c in 'log -p' 'status' 'diff HEAD'; do git $c > /dev/null 2> /tmp/e; echo $?; tail -1 /tmp/e; done");
        assert!(printed.contains("128\nfatal: "), "{name}: {printed}");
        std::fs::write(main.join(path), original).unwrap();
        std::fs::set_permissions(main.join(path), read_only).unwrap();
    }
}
