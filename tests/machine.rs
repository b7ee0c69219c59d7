//! Scripts in every language see the machine that the documentation describes.

use skillhost::invoke::Target;
use skillhost_policy::Policy;
use skillhost_sandbox::Io;

use crate::hostile_host::shell_host;

const DOCUMENT: &str = include_str!("../docs/reference/scripts.md");
const IMPORTS: &str = "grp, os, platform, pwd, socket, tempfile, time";

/// Returns the rows of the table: a command of bash, an expression of Python, and the value.
fn rows() -> Vec<[&'static str; 3]> {
    let section = DOCUMENT.split("## One machine").nth(1).unwrap().split("\n## ").next().unwrap();
    let cells = |row: &'static str| {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        [cells[2], cells[3], cells[4]]
    };
    section.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells).collect()
}

/// Returns the lines that a command line of the sandbox prints.
fn lines(command: String) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let skill = place.path().join("machine");
    std::fs::create_dir(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: machine\ndescription: Looks around. Use to test.\n---\n",
    )
    .unwrap();
    let host = shell_host(place.path());
    let loaded = host.load_for_run(&skill, &Policy::builtin()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let target = Target::Shell(command);
    let run = host.invoke_loaded(&loaded, &target, &[], Io::default());
    let outcome = runtime.block_on(run).unwrap().finished.outcome;
    runtime.shutdown_background();
    let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
    assert!(stderr.is_empty(), "{stderr}");
    stdout.lines().map(str::to_owned).collect()
}

/// The files below `/etc` that the documentation names.
fn files() -> Vec<&'static str> {
    let text = DOCUMENT.split("`struct` show. ").nth(1).unwrap().split(" are constant").next();
    let names: Vec<&str> = text.unwrap().split('`').skip(1).step_by(2).collect();
    names.into_iter().filter(|name| !name.starts_with('/')).collect()
}

#[test]
fn bash_and_python_read_the_same_bytes_below_etc() {
    let files = files();
    assert_eq!(files.len(), 7);
    let shell: Vec<String> =
        files.iter().map(|name| format!("echo {name}; cat /etc/{name}")).collect();
    let shell = lines(shell.join("\n"));
    assert!(shell.len() > 2 * files.len(), "{shell:?}");
    let script = format!(
        "import sys\nfor name in \"{}\".split():\n    print(name)\n    sys.stdout.write(open(\"/etc/\" + name).read())",
        files.join(" ")
    );
    assert_eq!(lines(format!("python3 -c '{script}'")), shell);
    // Also the accounts that modules of Python have.
    let accounts = "import grp, pwd\nfor user in pwd.getpwall(): print(*user, sep=\":\")\nfor group in grp.getgrall(): print(*group[:3], \",\".join(group.gr_mem), sep=\":\")";
    assert_eq!(
        lines(format!("python3 -c '{accounts}'")),
        lines("cat /etc/passwd /etc/group".to_owned())
    );
}

#[test]
fn bash_and_python_see_the_documented_machine() {
    let rows = rows();
    assert!(rows.len() > 10);
    let expected: Vec<&str> = rows.iter().map(|[.., value]| *value).collect();
    let shell: Vec<&str> = rows.iter().map(|[command, ..]| *command).collect();
    assert_eq!(lines(shell.join("\n")), expected);
    let python: Vec<String> =
        rows.iter().map(|[_, expression, _]| format!("print({expression})")).collect();
    let script = format!("import {IMPORTS}\n{}", python.join("\n"));
    assert_eq!(lines(format!("python3 -c '{script}'")), expected);
}
