//! Scripts in every language see the machine that the documentation describes.

use skillhost::invoke::Target;
use skillhost_policy::Policy;
use skillhost_sandbox::Io;

use crate::hostile_host::shell_host;

const DOCUMENT: &str = include_str!("../docs/reference/scripts.md");
const IMPORTS: &str = "grp, os, platform, pwd, shutil, socket, tempfile, time";

/// Returns the rows of the table: a command of bash, an expression of Python and one of JavaScript,
/// and the value.
fn rows() -> Vec<[&'static str; 4]> {
    let section = DOCUMENT.split("## One machine").nth(1).unwrap().split("\n## ").next().unwrap();
    let cells = |row: &'static str| {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        [cells[2], cells[3], cells[4], cells[5]]
    };
    section.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells).collect()
}

/// Returns the lines that a command line of the sandbox prints.
fn lines(command: String) -> Vec<String> {
    lines_with("", command)
}

/// Returns what a command line prints in a skill with this line in its frontmatter.
fn lines_with(permissions: &str, command: String) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let skill = place.path().join("machine");
    std::fs::create_dir(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        format!("---\nname: machine\ndescription: Looks around. Use to test.\n{permissions}---\n"),
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
fn every_language_sees_the_documented_machine() {
    let rows = rows();
    assert!(rows.len() > 10);
    let expected: Vec<&str> = rows.iter().map(|[.., value]| *value).collect();
    let shell: Vec<&str> = rows.iter().map(|[command, ..]| *command).collect();
    assert_eq!(lines(shell.join("\n")), expected);
    let python: Vec<String> =
        rows.iter().map(|[_, expression, ..]| format!("print({expression})")).collect();
    let script = format!("import {IMPORTS}\n{}", python.join("\n"));
    assert_eq!(lines(format!("python3 -c '{script}'")), expected);
    let javascript: Vec<String> =
        rows.iter().map(|[.., expression, _]| format!("console.log({expression})")).collect();
    assert_eq!(lines(format!("node -e '{}'", javascript.join(";\n"))), expected);
}

#[test]
fn every_language_keeps_the_owner_of_files_and_refuses_any_other() {
    let file = "touch /tmp/mine";
    let python = "import os\nfor owner in ((1000, -1), (-1, 1000), (0, -1), (1000, 0)):\n    try:\n        os.chown(\"/tmp/mine\", *owner)\n        print(\"kept\")\n    except PermissionError:\n        print(\"refused\")";
    let javascript = "const fs = require(\"fs\"); const open = fs.openSync(\"/tmp/mine\");
        for (const owner of [[1000, -1], [-1, 1000], [0, -1], [1000, 0]]) {
            const all = [() => fs.chownSync(\"/tmp/mine\", ...owner), () => fs.lchownSync(\"/tmp/mine\", ...owner), () => fs.fchownSync(open, ...owner)];
            const codes = all.map((call) => { try { call(); return \"kept\"; } catch (error) { return error.code; } });
            console.log(new Set(codes).size === 1 && codes[0].replace(\"EPERM\", \"refused\"));
        }";
    let expected = ["kept", "kept", "refused", "refused"];
    assert_eq!(lines(format!("{file}; python3 -c '{python}'")), expected);
    assert_eq!(lines(format!("{file}; node -e '{javascript}'")), expected);
}

#[test]
fn commands_that_start_python_exist_only_if_it_may_start() {
    let look = "command -v pip pip3 uv uvx; which pip uv; ls /usr/bin | grep -E '^(pip3?|uvx?)$'";
    let found = ["/usr/bin/pip", "/usr/bin/pip3", "/usr/bin/uv", "/usr/bin/pip", "/usr/bin/uv"];
    assert_eq!(lines(look.to_owned())[..5], found);
    assert_eq!(lines(look.to_owned())[5..], ["pip", "pip3", "uv"]);
    let python = "import shutil; print(*map(shutil.which, [\"pip\", \"uv\", \"uvx\"]))";
    assert_eq!(lines(format!("python3 -c '{python}'")), ["/usr/bin/pip /usr/bin/uv None"]);
    let without = lines_with("allowed-tools: Read\n", look.to_owned());
    assert_eq!(without, Vec::<String>::new());
}

#[test]
fn no_command_exists_that_other_systems_lack() {
    let look = "command -v assert csv http json log parallel retry template verify wget; type json 2>/dev/null; echo done";
    assert_eq!(lines(look.to_owned()), ["done"]);
}

#[test]
fn df_prints_tables_like_those_of_gnu() {
    let commands = [
        "df",
        "df -h /tmp",
        "df -P -BM .",
        "df -T -m",
        "df -i",
        "df --output=avail,source",
        "df -h --output=size",
        "df -BG",
        "df -H",
    ];
    let expected = "\
Filesystem     1K-blocks  Used Available Use% Mounted on
skillhost         262144     0    262144   0% /
Filesystem      Size  Used Avail Use% Mounted on
skillhost       256M     0  256M   0% /
Filesystem     1048576-blocks  Used Available Capacity Mounted on
skillhost                256M    0M      256M       0% /
Filesystem     Type      1M-blocks  Used Available Use% Mounted on
skillhost      skillhost       256     0       256   0% /
Filesystem     Inodes IUsed IFree IUse% Mounted on
skillhost       10000     0 10000    0% /
 Avail Filesystem
262144 skillhost
 Size
 256M
Filesystem     1G-blocks  Used Available Use% Mounted on
skillhost             1G    0G        1G   0% /
Filesystem      Size  Used Avail Use% Mounted on
skillhost       269M     0  269M   0% /
";
    assert_eq!(lines(commands.join("\n")), expected.lines().collect::<Vec<_>>());
    let wrong = "df /none 2>&1; echo $?; df -Z 2>&1; df -B x 2>&1; echo $?";
    let errors = [
        "df: /none: No such file or directory",
        "1",
        "df: invalid option -- 'Z'",
        "Try 'df --help' for more information.",
        "df: invalid -B argument 'x'",
        "Try 'df --help' for more information.",
        "1",
    ];
    assert_eq!(lines(wrong.to_owned()), errors);
}

#[test]
fn dd_without_a_count_fails_instead_of_trapping() {
    let run = "dd if=/dev/zero of=/tmp/a bs=1M 2>&1; echo $?";
    assert_eq!(lines(run.to_owned()), ["dd: memory exhausted", "1"]);
}
