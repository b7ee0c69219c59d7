//! Compares the tables of `check` with the runtimes: tries every name in the tables in the real
//! shell and the real Python, and looks up every name that these know in the tables.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc;

use skillhost::invoke::{RunRequest, Target};
use skillhost_compat::{self as compat, Availability};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::Io;

use crate::hostile_host::{HANG_TIMEOUT, shell_host};
use crate::support::repository;

/// Names that exist and do not do what scripts expect: `uvx` says what to use instead, and `watch`
/// runs its command only once.
const OF_NO_USE: [&str; 2] = ["uvx", "watch"];

/// Shell keywords.
const SYNTAX: [&str; 21] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "until", "while", "{", "}",
];

/// Returns what a shell script prints in a skill that may start every program.
fn shell(text: &str) -> (String, Status) {
    let dir = tempfile::tempdir().unwrap();
    let skill = dir.path().join("skill");
    std::fs::create_dir(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: skill\ndescription: Holds nothing. Use to test.\nallowed-tools: Bash\n---\n",
    )
    .unwrap();
    let host = shell_host(dir.path());
    let overrides = Overrides { limits: vec![(Limit::Timeout, 100_000)], ..Overrides::default() };
    let policy = Policy::builtin().with_command_line(overrides).unwrap();
    let (sender, receiver) = mpsc::channel();
    let target = Target::Shell(text.to_owned());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = RunRequest {
            skill: (&skill).into(),
            policy: &policy,
            target,
            args: Vec::new(),
            io: Io::default(),
        };
        let outcome =
            runtime.block_on(host.invoke(request)).map(|invoked| invoked.finished.outcome);
        runtime.shutdown_background();
        // The receiver is gone if the test timed out.
        sender.send(outcome.unwrap_or_else(|error| panic!("{error}"))).ok();
    });
    let outcome = receiver.recv_timeout(HANG_TIMEOUT).unwrap();
    (outcome.stdout.text().into_owned(), outcome.status)
}

#[test]
fn the_shell_has_every_command_that_check_lists() {
    let names: Vec<&str> = compat::built_in_commands().collect();
    assert!(names.len() > 150 && names.contains(&"cd") && names.contains(&"jq"), "{names:?}");
    let ask: String = names
        .iter()
        .map(|name| format!("type -t -- '{name}' > /dev/null || echo '{name}'\n"))
        .collect();
    let (missing, status) = shell(&format!("{ask}true"));
    assert_eq!(
        (missing.as_str(), status),
        ("", Status::Exited { code: 0 }),
        "the shell lacks those"
    );
    let (found, _) = shell("type -t -- a-command-that-does-not-exist > /dev/null || echo none");
    assert_eq!(found, "none\n", "`type -t` tells them apart");
}

#[test]
fn check_lists_every_command_of_the_shell() {
    let (listed, status) = shell("compgen -c");
    assert_eq!(status, Status::Exited { code: 0 });
    let listed: BTreeSet<&str> = listed.lines().collect();
    assert!(listed.len() > 150 && listed.contains("grep"), "{listed:?}");
    let but: Vec<&str> = OF_NO_USE.into_iter().chain(SYNTAX).collect();
    assert_eq!(
        but.iter().filter(|name| !listed.contains(*name)).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "the shell has those no more"
    );
    let here = |name: &str| {
        matches!(compat::availability(name), Availability::BuiltIn | Availability::Program)
    };
    let wrong: Vec<&str> =
        listed.into_iter().filter(|name| here(name) == but.contains(name)).collect();
    assert_eq!(
        wrong,
        Vec::<&str>::new(),
        "here, and not known to be; or known to be, and of no use"
    );
}

#[test]
fn subcommands_listed_as_working_exist() {
    let (git, _) = compat::subcommands("git").unwrap();
    // Outside a repository, commands that read one say so.
    let ask: String =
        git.iter().map(|sub| format!("git {sub} > /tmp/out 2>&1 || grep -q 'not a git repository' /tmp/out || cat /tmp/out\n")).collect();
    let (wrong, status) = shell(&format!("cd /tmp\n{ask}true"));
    assert_eq!((wrong.as_str(), status), ("", Status::Exited { code: 0 }));
    for sub in ["commit", "fetch", "blame"] {
        assert!(!git.contains(&sub));
        assert_ne!(shell(&format!("git {sub} a")).1, Status::Exited { code: 0 }, "{sub}");
    }
    let (openssl, _) = compat::subcommands("openssl").unwrap();
    assert_eq!(openssl, ["rand"]);
    assert_eq!(
        shell("openssl rand -hex 4 > /dev/null && ! openssl dgst -sha256 /skill/SKILL.md").1,
        Status::Exited { code: 0 }
    );
}

#[test]
fn programs_known_to_check_are_installed_or_stand_ins() {
    for manifest in ["shell.json", "python.json", "javascript.json"] {
        let text =
            std::fs::read(Path::new(&repository("target/components")).join(manifest)).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap();
        for name in manifest["programs"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            let known =
                matches!(compat::availability(name), Availability::BuiltIn | Availability::Program);
            assert!(known || OF_NO_USE.contains(&name), "{name}");
        }
    }
}

#[test]
fn node_has_every_module_that_check_lists() {
    let modules: Vec<(&str, bool)> = compat::built_in_modules().collect();
    assert!(modules.contains(&("fs", true)) && modules.contains(&("sqlite", false)), "{modules:?}");
    let names: Vec<&str> = modules.iter().map(|(name, _)| *name).collect();
    let script = format!(
        "const is_there = (name) => {{ try {{ require('node:' + name); return 1; }} catch {{ return 0; }} }};\n\
         for (const name of '{}'.split(' ')) console.log(name, is_there(name));\n\
         for (const name of require('node:module').builtinModules) console.log('listed', name);\n",
        names.join(" ")
    );
    let (printed, status) = shell(&format!("node - <<'END'\n{script}END\n"));
    assert_eq!(status, Status::Exited { code: 0 }, "{printed}");
    let lines: BTreeSet<&str> = printed.lines().collect();
    for (name, here) in &modules {
        assert!(
            lines.contains(format!("{name} {}", u8::from(*here)).as_str()),
            "`{name}` is {}there",
            if *here { "not " } else { "" }
        );
    }
    // Names with an underscore are internal, and not for scripts.
    let listed = lines.iter().filter_map(|line| line.strip_prefix("listed "));
    let listed: BTreeSet<&str> = listed
        .map(|name| name.strip_prefix("node:").unwrap_or(name))
        .filter(|name| !name.starts_with('_'))
        .collect();
    let tables: BTreeSet<&str> = names.into_iter().collect();
    let unknown: Vec<&&str> = listed.difference(&tables).collect();
    assert_eq!(unknown, Vec::<&&str>::new(), "the runtime has those too");
}

#[test]
fn python_has_every_standard_module_that_check_lists() {
    let modules: Vec<(&str, bool)> = compat::standard_modules().collect();
    assert!(
        modules.len() > 290
            && modules.contains(&("json", true))
            && modules.contains(&("ctypes", false)),
        "{modules:?}"
    );
    // Importing these two has side effects.
    let has_no_effect = |name: &str| !matches!(name, "this" | "antigravity");
    let names: Vec<&str> =
        modules.iter().map(|(name, _)| *name).filter(|name| has_no_effect(name)).collect();
    let script = format!(
        "import contextlib, importlib, io, sys, warnings\nwarnings.simplefilter('ignore')\n\
         def there(name):\n    try:\n        importlib.import_module(name)\n        return 1\n    except ImportError:\n        return 0\n\
         with contextlib.redirect_stderr(io.StringIO()):\n    found = [(name, there(name)) for name in '{}'.split()]\n\
         for name, is_there in found:\n    print(name, is_there)\n\
         for name in sorted(sys.stdlib_module_names):\n    print('listed', name)\n",
        names.join(" ")
    );
    let (printed, status) = shell(&format!("python3 - <<'END'\n{script}END\n"));
    assert_eq!(status, Status::Exited { code: 0 }, "{printed}");
    let lines: BTreeSet<&str> = printed.lines().collect();
    for (name, here) in modules.iter().filter(|(name, _)| has_no_effect(name)) {
        assert!(
            lines.contains(format!("{name} {}", u8::from(*here)).as_str()),
            "`{name}` is {}there",
            if *here { "not " } else { "" }
        );
    }
    let listed: BTreeSet<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("listed ")).collect();
    let tables: BTreeSet<&str> =
        modules.iter().map(|(name, _)| *name).filter(|name| !name.contains('.')).collect();
    assert_eq!(
        listed.symmetric_difference(&tables).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "in one of both"
    );
}
