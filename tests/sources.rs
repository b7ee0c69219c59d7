//! Skills that are fetched: the commands, their two files, and the store.

pub mod servers;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::cli::{User, copy, run, succeeds, text};

/// Writes a skill with one script, which requests to read files and to start programs.
fn script_skill(folder: &Path, (script, content): (&str, &str)) {
    std::fs::create_dir_all(folder.join("scripts")).unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    let skill_md = format!(
        "---\nname: {name}\ndescription: Runs a script. Use to test.\nallowed-tools: Read Bash\n---\nRun it.\n"
    );
    std::fs::write(folder.join("SKILL.md"), skill_md).unwrap();
    std::fs::write(folder.join("scripts").join(script), content).unwrap();
}

/// A user with the skill `./reporter`.
fn user() -> User {
    let user = User::new();
    script_skill(&user.work().join("reporter"), ("report.sh", "echo report\n"));
    user
}

/// Runs a command that must fail. Returns the `code` of its error, and its messages.
fn fails(user: &User, args: &[&str]) -> (String, String) {
    let (code, stdout, stderr) = run(user, &[args, &["--json"]].concat());
    assert_ne!(code, Some(0), "{args:?}: {stdout}");
    let error: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    (error["error"]["code"].as_str().unwrap().to_owned(), format!("{}{stderr}", error["error"]))
}

fn listed(user: &User) -> Vec<String> {
    let list: Value = serde_json::from_str(&succeeds(user, &["list", "--json"])).unwrap();
    let skills = list["skills"].as_array().unwrap().iter();
    skills.map(|skill| skill["name"].as_str().unwrap().to_owned()).collect()
}

fn config(user: &User, name: &str) -> PathBuf {
    user.home().join(".config/skillhost").join(name)
}

fn git(user: &User, folder: &str, args: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .current_dir(user.work().join(folder))
        .status();
    assert!(status.unwrap().success(), "{args:?}");
}

/// Creates a repository with the skills `one` and `two`.
fn repository(user: &User) {
    for name in ["one", "two"] {
        script_skill(&user.work().join("repo/skills").join(name), ("a.sh", "echo first\n"));
    }
    git(user, "repo", &["init", "-q", "-b", "main"]);
    git(user, "repo", &["add", "-A"]);
    git(user, "repo", &["commit", "-q", "-m", "first"]);
}

/// Sets what the user's policy says.
fn policy(user: &User, text: &str) {
    std::fs::create_dir_all(config(user, "")).unwrap();
    std::fs::write(config(user, "policy.yaml"), text).unwrap();
}

#[test]
fn fetched_skill_runs_by_its_name_after_approval() {
    let user = user();
    let added = succeeds(&user, &["add", "./reporter", "--as", "monthly"]);
    assert!(added.starts_with("added monthly (folder, 2 files)"), "{added}");
    assert!(added.contains("requests: Read, Bash"), "{added}");
    assert_eq!(listed(&user), ["monthly"]);
    std::fs::remove_dir_all(user.work().join("reporter")).unwrap();
    policy(&user, "default: { allow: [Read, Bash] }\n");
    let (code, _, stderr) = run(&user, &["run", "monthly", "report.sh"]);
    assert_eq!(code, Some(77), "{stderr}");
    succeeds(&user, &["trust", "monthly"]);
    assert_eq!(succeeds(&user, &["run", "monthly", "report.sh"]), "report\n");
    assert_eq!(succeeds(&user, &["run", "monthly", "report.sh", "--frozen"]), "report\n");
    assert!(succeeds(&user, &["remove", "monthly"]).starts_with("removed monthly"));
    assert!(listed(&user).is_empty());
}

#[test]
fn changed_files_of_the_store_do_not_run() {
    let user = user();
    succeeds(&user, &["add", "./reporter"]);
    policy(&user, "default: { allow: [Read, Bash] }\n");
    succeeds(&user, &["trust", "reporter"]);
    succeeds(&user, &["run", "reporter", "report.sh"]);
    let store = user.home().join(".local/state/skillhost/sources/store");
    let entry = std::fs::read_dir(store).unwrap().next().unwrap().unwrap().path();
    let script = entry.join("scripts/report.sh");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&script, "echo other!\n").unwrap();
    let (code, stdout, stderr) = run(&user, &["run", "reporter", "report.sh"]);
    assert_eq!((code, stdout.as_str()), (Some(65), ""), "{stderr}");
    assert!(stderr.contains("locked-digest"), "{stderr}");
    let mount = ["mount", "reporter", "--into", "agent/skills"];
    let source = user.work().join("reporter").canonicalize().unwrap();
    for require in [String::new(), format!("require: {{ source: [{}] }}", source.display())] {
        let section = format!("skills: {{ reporter: {{ {require} }} }}\n");
        policy(&user, &format!("default: {{ allow: [Read, Bash] }}\n{section}"));
        let (code, _, stderr) = run(&user, &mount);
        assert_eq!(code, Some(65), "{stderr}");
        assert!(stderr.contains("locked-digest"), "{stderr}");
    }
    succeeds(&user, &["sync"]);
    succeeds(&user, &["ci"]);
    assert_eq!(succeeds(&user, &["run", "reporter", "report.sh"]), "report\n");
    succeeds(&user, &mount);
}

#[test]
fn section_of_the_policy_applies_only_to_the_source_it_names() {
    let user = user();
    repository(&user);
    let script = user.work().join("repo/skills/one/scripts/a.sh");
    std::fs::write(script, "echo \"[$GREETING]\"\n").unwrap();
    git(&user, "repo", &["commit", "-q", "-a", "-m", "second"]);
    let url = format!("file://{}", user.work().join("repo").display());
    succeeds(&user, &["add", &url, "--path", "one"]);
    for (source, expected) in [
        (format!("source: \"{url}\","), "[hello]\n"),
        (String::new(), "[]\n"),
        ("source: other/repo,".to_owned(), "[]\n"),
        (format!("source: \"{url}x\","), "[]\n"),
    ] {
        let section = format!("{{ one: {{ {source} env: [GREETING=hello] }} }}");
        policy(&user, &format!("default: {{ allow: [Read, Bash] }}\nskills: {section}\n"));
        succeeds(&user, &["trust", "one"]);
        assert_eq!(succeeds(&user, &["run", "one", "a.sh"]), expected, "{source}");
    }
    // A skill of the same name that was not fetched gets nothing from such a section, either.
    script_skill(&user.home().join(".agents/skills/one"), ("a.sh", "echo \"[$GREETING]\"\n"));
    policy(
        &user,
        &format!(
            "default: {{ allow: [Read, Bash] }}\nskills: {{ one: {{ source: \"{url}\", env: [GREETING=hello] }} }}\n"
        ),
    );
    let folder = user.home().join(".agents/skills");
    succeeds(&user, &["trust", folder.to_str().unwrap()]);
    assert_eq!(succeeds(&user, &["run", "one", "a.sh"]), "[]\n");
}

#[test]
fn only_a_section_that_names_the_source_lets_a_skill_run_without_a_question() {
    let user = user();
    let skill = user.work().join("fetcher");
    script_skill(&skill, ("a.sh", "echo ran\n"));
    let skill_md = std::fs::read_to_string(skill.join("SKILL.md")).unwrap();
    let tools = "allowed-tools: WebFetch(domain:example.com) ";
    std::fs::write(skill.join("SKILL.md"), skill_md.replace("allowed-tools: ", tools)).unwrap();
    succeeds(&user, &["add", "./fetcher"]);
    let why: serde_json::Value =
        serde_json::from_str(&succeeds(&user, &["why", "fetcher", "--json"])).unwrap();
    let source = why["locked"]["source"].as_str().unwrap();
    for (named, runs) in [
        (format!("source: \"{source}\","), true),
        ("source: other/repo,".to_owned(), false),
        (String::new(), false),
    ] {
        let default = "default: { allow: [Read, Bash, 'WebFetch(domain:example.com)'] }";
        let section = format!("fetcher: {{ {named} approval: auto-approved }}");
        policy(&user, &format!("{default}\nskills: {{ {section} }}\n"));
        succeeds(&user, &["trust", "fetcher"]);
        let (code, stdout, stderr) = run(&user, &["run", "fetcher", "a.sh"]);
        assert_eq!(code == Some(0) && stdout == "ran\n", runs, "{named}: {stderr}");
    }
}

#[test]
fn taken_name_needs_confirmation() {
    let user = user();
    script_skill(&user.home().join(".agents/skills/mine"), ("a.sh", ""));
    let (code, error) = fails(&user, &["add", "./reporter", "--as", "mine"]);
    assert!(code == "denied" && error.contains(".agents/skills/mine"), "{error}");
    policy(&user, "skills: { reporter: { allow: [Read, 'Bash(git:*)'] } }\n");
    let (code, error) = fails(&user, &["add", "./reporter"]);
    assert!(code == "denied" && error.contains("Bash(git:*)"), "{error}");
    assert!(!config(&user, "skills.lock").exists());
    let (code, _) = fails(&user, &["add", "./reporter", "--force"]);
    assert_eq!(code, "denied", "only the operator may confirm");
    let output = user
        .command(env!("CARGO_BIN_EXE_skillhost"))
        .env("SKILLHOST_OPERATOR_TOKEN", user.operator_token())
        .args(["add", "./reporter", "--force"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    // Another source for the same name is refused, too; the same source is not.
    copy(&user.work().join("reporter"), &user.work().join("elsewhere/reporter"));
    policy(&user, "{}\n");
    assert_eq!(fails(&user, &["add", "./elsewhere/reporter"]).0, "denied");
    succeeds(&user, &["add", "./reporter"]);
}

#[test]
fn project_file_fetches_nothing_before_it_is_confirmed() {
    let user = user();
    succeeds(&user, &["add", "./reporter", "--file", "./skills.yaml"]);
    assert_eq!(listed(&user), ["reporter"], "whoever adds to a file confirms it");
    let file = user.work().join("skills.yaml");
    let changed = std::fs::read_to_string(&file).unwrap() + "# by someone else\n";
    std::fs::write(&file, changed).unwrap();
    assert!(listed(&user).is_empty());
    for command in ["sync", "update", "ci"] {
        let (code, error) = fails(&user, &[command, "--file", "skills.yaml"]);
        assert!(code == "denied" && error.contains("--confirm"), "{error}");
    }
    assert_eq!(fails(&user, &["sync", "--file", "skills.yaml", "--confirm", "0"]).0, "denied");
    let sum = user.command("sha256sum").arg("skills.yaml").output().unwrap();
    let digest = text(&sum.stdout)[..64].to_owned();
    succeeds(&user, &["ci", "--file", "skills.yaml", "--confirm", &digest]);
    assert_eq!(listed(&user), ["reporter"]);
}

#[test]
fn change_of_a_project_file_does_not_confirm_what_others_wrote() {
    let user = user();
    script_skill(&user.work().join("other"), ("a.sh", ""));
    std::fs::write(user.work().join("skills.yaml"), "skills:\n  other: ./other\n").unwrap();
    for args in [["add", "./reporter"], ["remove", "other"]] {
        let (code, error) = fails(&user, &[&args[..], &["--file", "skills.yaml"]].concat());
        assert!(code == "denied" && error.contains("--confirm"), "{error}");
    }
    assert!(!user.work().join("skills.lock").exists());
}

#[test]
fn confirmation_is_for_one_file() {
    let user = user();
    // However the file is named, it is the same.
    succeeds(&user, &["add", "./reporter", "--file", "reporter/../skills.yaml"]);
    succeeds(&user, &["sync", "--file", "skills.yaml"]);
    assert_eq!(listed(&user), ["reporter"]);
    // In another folder, the same text names other skills.
    let other = user.work().join("other");
    script_skill(&other.join("reporter"), ("report.sh", "echo other\n"));
    for name in ["skills.yaml", "skills.lock"] {
        std::fs::copy(user.work().join(name), other.join(name)).unwrap();
    }
    let (code, error) = fails(&user, &["sync", "--file", "other/skills.yaml"]);
    assert!(code == "denied" && error.contains("--confirm"), "{error}");
}

#[test]
fn project_file_that_cannot_be_read_stops_nothing() {
    let user = user();
    std::fs::write(user.work().join("skills.yaml"), b"\xff").unwrap();
    std::fs::write(user.work().join("skills.lock"), "").unwrap();
    assert!(listed(&user).is_empty());
    assert_eq!(run(&user, &["run", "reporter", "--frozen"]).0, Some(77));
}

#[test]
fn signature_is_not_written_where_a_symlink_leads() {
    let user = user();
    succeeds(&user, &["key", "new"]);
    let skill_md = user.work().join("reporter/SKILL.md");
    let before = std::fs::read(&skill_md).unwrap();
    std::os::unix::fs::symlink("SKILL.md", user.work().join("reporter/skill.dsse.json")).unwrap();
    assert_ne!(run(&user, &["sign", "./reporter"]).0, Some(0));
    assert_eq!(std::fs::read(&skill_md).unwrap(), before);
}

#[test]
fn frozen_refuses_what_is_not_locked() {
    let user = user();
    let (code, _, stderr) = run(&user, &["run", "reporter", "--frozen"]);
    assert_eq!(code, Some(64), "{stderr}");
    succeeds(&user, &["add", "./reporter"]);
    let (code, _, stderr) = run(&user, &["run", "./reporter", "report.sh", "--frozen"]);
    assert!(code == Some(64) && stderr.contains("--frozen"), "{stderr}");
    script_skill(&user.home().join(".agents/skills/mine"), ("a.sh", "echo mine\n"));
    let (code, _, stderr) = run(&user, &["run", "mine", "a.sh", "--frozen"]);
    assert!(code == Some(64) && stderr.contains("no skill `mine`"), "{stderr}");
    let yaml = std::fs::read_to_string(config(&user, "skills.yaml")).unwrap();
    std::fs::write(config(&user, "skills.yaml"), yaml + "  more: ./more\n").unwrap();
    let (code, _, stderr) = run(&user, &["run", "reporter", "report.sh", "--frozen"]);
    assert!(code == Some(64) && stderr.contains("does not lock `more`"), "{stderr}");
}

#[test]
fn broken_lock_file_stops_everything_with_its_position() {
    let user = user();
    succeeds(&user, &["add", "./reporter"]);
    let path = config(&user, "skills.lock");
    let lock = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, lock.replace("revision: folder", "revision: older")).unwrap();
    for command in [&["run", "reporter", "report.sh"][..], &["list"], &["sync"], &["ci"]] {
        let (code, _, stderr) = run(&user, command);
        assert_eq!(code, Some(65), "{command:?}: {stderr}");
        assert!(stderr.contains("skills.lock:7:15"), "{stderr}");
    }
}

#[test]
fn updates_are_shown_as_a_diff() {
    let user = user();
    repository(&user);
    let url = format!("file://{}@main", user.work().join("repo").display());
    succeeds(&user, &["add", &url, "--all"]);
    assert_eq!(listed(&user), ["one", "two"]);
    let script = user.work().join("repo/skills/one/scripts/a.sh");
    std::fs::write(script, "echo second\n").unwrap();
    let skill_md = user.work().join("repo/skills/one/SKILL.md");
    let changed = std::fs::read_to_string(&skill_md).unwrap();
    std::fs::write(&skill_md, changed.replace("Read Bash", "Read Bash Edit(docs/**)")).unwrap();
    git(&user, "repo", &["commit", "-q", "-a", "-m", "second"]);
    let lock = std::fs::read(config(&user, "skills.lock")).unwrap();
    let dry = succeeds(&user, &["update", "--dry-run"]);
    assert_eq!(std::fs::read(config(&user, "skills.lock")).unwrap(), lock);
    assert_eq!(succeeds(&user, &["update"]), dry);
    for line in [
        "updated one: git:",
        "  ~ scripts/a.sh ",
        "  + allowed-tools: Edit(docs/**)",
        "needs approval again: it requests more: Edit(docs/**)",
    ] {
        assert!(dry.contains(line), "{line}\n{dry}");
    }
    assert_ne!(std::fs::read(config(&user, "skills.lock")).unwrap(), lock);
    let why = succeeds(&user, &["why", "one"]);
    assert!(why.contains("folder: skills/one") && why.contains("SKILL.md"), "{why}");
}

#[test]
fn signatures_of_trusted_keys_are_locked_and_their_loss_is_reported() {
    let (author, user) = (user(), user());
    succeeds(&author, &["key", "new"]);
    let key = succeeds(&author, &["key", "show"]);
    std::fs::write(user.work().join("author.pem"), key).unwrap();
    succeeds(&author, &["sign", "./reporter"]);
    let packed = succeeds(&author, &["pack", "./reporter"]);
    assert_eq!(succeeds(&author, &["pack", "./reporter"]), packed);
    let sum = author.command("sha256sum").arg("reporter.tar.gz").output().unwrap();
    assert_eq!(text(&sum.stdout), packed);
    let archive = user.work().join("reporter.tar.gz");
    std::fs::copy(author.work().join("reporter.tar.gz"), &archive).unwrap();
    succeeds(&user, &["add", "./reporter.tar.gz"]);
    let signed = |user: &User| {
        let why: Value =
            serde_json::from_str(&succeeds(user, &["why", "reporter", "--json"])).unwrap();
        why["locked"]["signatures"].as_array().unwrap().len()
    };
    assert_eq!(signed(&user), 0, "the key is not trusted");
    succeeds(&user, &["key", "trust", "author.pem"]);
    succeeds(&user, &["ci"]);
    succeeds(&user, &["update"]);
    assert_eq!(signed(&user), 1);
    // A file that the signature does not cover.
    std::fs::write(author.work().join("reporter/more.txt"), "more").unwrap();
    succeeds(&author, &["pack", "./reporter"]);
    std::fs::copy(author.work().join("reporter.tar.gz"), &archive).unwrap();
    let update = succeeds(&user, &["update"]);
    assert!(update.contains("needs approval again: it is no longer signed by sha256:"), "{update}");
    assert_eq!(signed(&user), 0);
}

#[test]
fn refusals_have_stable_codes_and_leave_everything_as_it_was() {
    let user = user();
    succeeds(&user, &["add", "./reporter"]);
    let snapshot = || {
        let find = user
            .command("sh")
            .args(["-c", "cd ~ && find .config .local -type f -not -name '*.db*' -not -name audit* -exec sha256sum {} + | sort"])
            .output()
            .unwrap();
        text(&find.stdout)
    };
    let python = "import tarfile, io
def make(name, entry, **fields):
    with tarfile.open(name, 'w:gz') as out:
        info = tarfile.TarInfo(entry)
        for key, value in fields.items(): setattr(info, key, value)
        out.addfile(info, io.BytesIO(b'x' * info.size))
make('traversal.tar.gz', '../../x', size=1)
make('absolute.tar.gz', '/tmp/x', size=1)
make('hard.tar.gz', 'x', type=tarfile.LNKTYPE, linkname='/etc/passwd')
make('device.tar.gz', 'x', type=tarfile.CHRTYPE)
make('link.tar.gz', 'x', type=tarfile.SYMTYPE, linkname='/etc/passwd')
make('bomb.tar.gz', 'x', size=300 << 20)";
    assert!(user.command("python3").args(["-c", python]).status().unwrap().success());
    std::fs::write(user.work().join("empty.zip"), "PK\x05\x06").unwrap();
    let before = snapshot();
    for (file, code) in [
        ("traversal", "path-traversal"),
        ("absolute", "absolute-path"),
        ("hard", "hard-link"),
        ("device", "special-file"),
        ("link", "link-outside"),
        ("bomb", "expansion"),
    ] {
        let (found, error) = fails(&user, &["add", &format!("./{file}.tar.gz")]);
        assert_eq!(found, code, "{error}");
    }
    assert_eq!(fails(&user, &["add", "./empty.zip"]).0, "truncated");
    assert_eq!(snapshot(), before);
    assert!(!user.root().join("tmp/x").exists());
}

#[test]
fn skills_are_found_where_gh_skill_finds_them() {
    let user = user();
    // The conventions of its documentation: in `skills`, below a scope, in plugins, at the root, and in
    // the hidden folder of an agent. What it installs has its own fields in the frontmatter.
    let folders = [
        ".github/skills/hidden",
        "at-the-root",
        "plugins/office/skills/plugged",
        "skills/plain",
        "skills/team/scoped",
    ];
    for folder in folders {
        script_skill(&user.work().join("repo").join(folder), ("a.sh", "echo\n"));
    }
    let path = user.work().join("repo/skills/plain/SKILL.md");
    let fields = "metadata:\n  github-repo: https://github.com/a/b\n  github-ref: refs/tags/v1\n  github-tree-sha: 0123456789012345678901234567890123456789\n  github-path: skills/plain\n";
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("allowed-tools", &format!("{fields}allowed-tools"), 1))
        .unwrap();
    git(&user, "repo", &["init", "-q", "-b", "main"]);
    git(&user, "repo", &["add", "-A"]);
    git(&user, "repo", &["commit", "-q", "-m", "first"]);
    git(&user, "repo", &["tag", "v1"]);
    let url = format!("file://{}@v1", user.work().join("repo").display());
    let found = succeeds(&user, &["search", "--remote", &url]);
    let paths: Vec<&str> = found.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(paths, folders);
    succeeds(&user, &["add", &url, "--all"]);
    assert_eq!(listed(&user), ["at-the-root", "hidden", "plain", "plugged", "scoped"]);
    succeeds(&user, &["ci"]);
}

#[test]
fn files_that_no_lock_file_names_are_removed() {
    let user = user();
    succeeds(&user, &["add", "./reporter"]);
    succeeds(&user, &["add", "./reporter", "--as", "project", "--file", "skills.yaml"]);
    let stored = || {
        let store = user.home().join(".local/state/skillhost/sources/store");
        std::fs::read_dir(store).unwrap().count()
    };
    assert_eq!(stored(), 1);
    succeeds(&user, &["remove", "reporter"]);
    assert_eq!(stored(), 1, "the project's lock file names it, too");
    succeeds(&user, &["ci", "--file", "skills.yaml"]);
    // The project goes away, and a clear finds what it leaves.
    for name in ["skills.yaml", "skills.lock"] {
        std::fs::remove_file(user.work().join(name)).unwrap();
    }
    let cleared = succeeds(&user, &["cache", "clear", "--kind", "fetched"]);
    assert!(cleared.starts_with("removed 2 files"), "{cleared}");
    assert_eq!(stored(), 0);
}

#[test]
fn running_server_keeps_the_skills_that_it_serves() {
    let user = user();
    succeeds(&user, &["add", "./reporter"]);
    let store = user.home().join(".local/state/skillhost/sources/store");
    let mut server = user.command(env!("CARGO_BIN_EXE_skillhost"));
    server.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut server = server.stderr(Stdio::null()).spawn().unwrap();
    let mut first = [0; 7];
    server.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"http://");
    succeeds(&user, &["remove", "reporter"]);
    assert_eq!(std::fs::read_dir(&store).unwrap().count(), 1);
    let (_, _, stderr) = run(&user, &["cache", "clear", "--kind", "fetched"]);
    assert!(stderr.contains("a server uses them"), "{stderr}");
    server.kill().unwrap();
    server.wait().unwrap();
    succeeds(&user, &["cache", "clear", "--kind", "fetched"]);
    assert_eq!(std::fs::read_dir(&store).unwrap().count(), 0);
}

/// A server on loopback that answers every request with what `respond` returns for its path.
fn serve(respond: impl Fn(&str) -> Vec<u8> + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1)
            {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let _ = stream.write_all(&respond(path));
        }
    });
    port
}

fn found(body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn redirect(to: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .into_bytes()
}

#[test]
fn archives_are_fetched_over_http_within_the_rules() {
    let user = user();
    assert!(
        user.command("tar")
            .args(["-czf", "reporter.tar.gz", "reporter"])
            .status()
            .unwrap()
            .success()
    );
    let archive = std::fs::read(user.work().join("reporter.tar.gz")).unwrap();
    let other = serve(|_| panic!("nothing may be fetched here"));
    let port = serve(move |path| match path {
        "/a.tar.gz" | "/moved" => found(&archive),
        "/redirect.tar.gz" => redirect("/moved"),
        "/private.tar.gz" => redirect(&format!("http://127.0.0.1:{other}/x")),
        "/metadata.tar.gz" => redirect("http://169.254.169.254/latest"),
        "/short.tar.gz" => found(&archive[..100]),
        "/file.tar.gz" => redirect("file:///etc/passwd"),
        "/loop.tar.gz" => redirect("/loop.tar.gz"),
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
    });
    let url = |name: &str| format!("http://127.0.0.1:{port}/{name}.tar.gz");
    succeeds(&user, &["add", &url("a")]);
    succeeds(&user, &["add", &url("redirect"), "--as", "redirected"]);
    for (name, code) in [
        ("private", "denied"),
        ("metadata", "denied"),
        ("short", "truncated"),
        ("file", "io"),
        ("loop", "io"),
        ("missing", "io"),
    ] {
        let (found, error) = fails(&user, &["add", &url(name), "--as", "other"]);
        assert_eq!(found, code, "{name}: {error}");
    }
    policy(&user, "default: { deny: ['WebFetch(domain:127.0.0.1)'] }\n");
    assert_eq!(fails(&user, &["add", &url("a"), "--as", "other"]).0, "denied");
    assert_eq!(listed(&user), ["redirected", "reporter"]);
    // Everything works from the store.
    succeeds(&user, &["ci"]);
}

#[test]
fn other_commands_do_not_wait_for_a_transfer() {
    let user = user();
    assert!(user.command("tar").args(["-czf", "a.tar.gz", "reporter"]).status().unwrap().success());
    let archive = std::fs::read(user.work().join("a.tar.gz")).unwrap();
    let [started, finish] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let flags = [started.clone(), finish.clone()];
    let port = serve(move |_| {
        flags[0].store(true, Ordering::SeqCst);
        while !flags[1].load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        found(&archive)
    });
    std::fs::create_dir_all(config(&user, "")).unwrap();
    let yaml = format!("skills:\n  slow: http://127.0.0.1:{port}/a.tar.gz\n");
    std::fs::write(config(&user, "skills.yaml"), &yaml).unwrap();
    let sync = || {
        started.store(false, Ordering::SeqCst);
        finish.store(false, Ordering::SeqCst);
        let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.arg("sync").stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        while !started.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    };
    // Another file is changed meanwhile, and nothing of the store is removed.
    let child = sync();
    succeeds(&user, &["add", "./reporter", "--file", "skills.yaml"]);
    let (_, _, stderr) = run(&user, &["cache", "clear", "--kind", "fetched"]);
    assert!(stderr.contains("a server uses them, or a command fetches some"), "{stderr}");
    finish.store(true, Ordering::SeqCst);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The same file is changed meanwhile.
    std::fs::remove_file(config(&user, "skills.lock")).unwrap();
    let child = sync();
    std::fs::write(config(&user, "skills.yaml"), yaml + "# a comment\n").unwrap();
    finish.store(true, Ordering::SeqCst);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("was changed while"), "{stderr}");
    assert!(!config(&user, "skills.lock").exists());
}

#[test]
fn kill_at_any_time_leaves_the_old_or_the_new_state() {
    let user = user();
    repository(&user);
    let url = format!("file://{}", user.work().join("repo").display());
    succeeds(&user, &["add", "./reporter"]);
    let state = |user: &User| {
        ["skills.yaml", "skills.lock"]
            .map(|name| std::fs::read_to_string(config(user, name)).unwrap())
    };
    let old = state(&user);
    let (mut killed, mut changed) = (0, 0);
    for step in 0..40 {
        let mut child = user
            .command(env!("CARGO_BIN_EXE_skillhost"))
            .args(["add", &url, "--all"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(step * 4));
        let _ = child.kill();
        killed += usize::from(child.wait().unwrap().signal() == Some(9));
        // Whatever reads the files first finishes a change that had begun.
        succeeds(&user, &["ci"]);
        let names = listed(&user);
        let found = state(&user);
        match names.len() {
            1 => assert_eq!(found, old, "step {step}"),
            3 => {
                changed += 1;
                assert!(found[0].contains("two:") && found[1].contains("two:"), "step {step}");
                succeeds(&user, &["remove", "one"]);
                succeeds(&user, &["remove", "two"]);
                assert_eq!(state(&user), old);
            }
            _ => panic!("step {step}: {names:?}"),
        }
    }
    assert!(killed > 3, "{killed} of 40 were killed");
    assert!(changed > 0, "none of 40 came to its end");
    // The next change removes what killed processes have left.
    succeeds(&user, &["remove", "reporter"]);
    let sources = user.home().join(".local/state/skillhost/sources");
    for folder in [sources.join("tmp"), sources.join("journal")] {
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{}", folder.display());
    }
    let names = std::fs::read_dir(config(&user, "")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["skills.lock", "skills.yaml"]);
}

#[test]
fn skills_of_other_installers_are_imported() {
    let user = user();
    repository(&user);
    git(&user, "repo", &["tag", "v1"]);
    let url = format!("file://{}", user.work().join("repo").canonicalize().unwrap().display());
    // As `npx skills` writes it.
    let lock = |hash: &str| {
        format!(
            "{{\n  \"version\": 1,\n  \"skills\": {{\n    \"one\": {{\n      \"source\": \"repo\",\n      \"sourceType\": \"git\",\n      \"sourceUrl\": \"{url}\",\n      \"ref\": \"v1\",\n      \"skillPath\": \"skills/one/SKILL.md\",\n      \"computedHash\": \"{hash}\"\n    }}\n  }}\n}}\n"
        )
    };
    let one = user.work().join("repo/skills/one");
    let hashed = user
        .command("sh")
        .args(["-c", "cd repo/skills/one && { printf scripts/a.sh; cat scripts/a.sh; printf SKILL.md; cat SKILL.md; } | sha256sum | cut -c-64"])
        .output()
        .unwrap();
    std::fs::write(user.work().join("skills-lock.json"), lock(text(&hashed.stdout).trim()))
        .unwrap();
    let (code, stdout, stderr) = run(&user, &["add", "./skills-lock.json", "--import"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let why: Value = serde_json::from_str(&succeeds(&user, &["why", "one", "--json"])).unwrap();
    assert_eq!(why["source"], format!("{url}@v1"));
    assert_eq!(why["locked"]["path"], "skills/one");
    // Other content than what was installed is added, and said.
    std::fs::write(user.work().join("skills-lock.json"), lock(&"0".repeat(64))).unwrap();
    let (code, _, stderr) = run(&user, &["add", "./skills-lock.json", "--import"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("`one` has changed since the lock file was written"), "{stderr}");
    // As `gh skill install --pin` writes it.
    let installed = user.work().join("installed/two");
    std::fs::create_dir_all(&installed).unwrap();
    let pinned = format!(
        "---\ndescription: Runs a script. Use to test.\nmetadata:\n    github-path: skills/two\n    github-pinned: v1\n    github-ref: refs/tags/v1\n    github-repo: {url}\n    github-tree-sha: 852508c90bde5e11124f12fd97ec579a1bd5a65d\nname: two\n---\nRun it.\n"
    );
    std::fs::write(installed.join("SKILL.md"), pinned).unwrap();
    succeeds(&user, &["add", "./installed", "--import"]);
    assert_eq!(listed(&user), ["one", "two"]);
    // The folder of the skill itself, however it is named.
    succeeds(&user, &["remove", "two"]);
    let mut add = user.command(env!("CARGO_BIN_EXE_skillhost"));
    let added = add.args(["add", ".", "--import"]).current_dir(&installed).output().unwrap();
    assert!(added.status.success(), "{}", text(&added.stderr));
    assert_eq!(listed(&user), ["one", "two"]);
    let (_, error) = fails(&user, &["add", one.parent().unwrap().to_str().unwrap(), "--import"]);
    assert!(error.contains("has no skill that `gh skill` installed"), "{error}");
}

#[test]
fn overrides_disable_skills_and_only_the_own_file_replaces_places() {
    let user = user();
    repository(&user);
    git(&user, "repo", &["tag", "v1"]);
    let repo = user.work().join("repo").canonicalize().unwrap();
    let url = format!("file://{}", repo.display());
    succeeds(&user, &["add", &format!("{url}@v1"), "--path", "one"]);
    let yaml = std::fs::read_to_string(config(&user, "skills.yaml")).unwrap();
    let with = |more: &str| {
        std::fs::write(config(&user, "skills.yaml"), format!("{yaml}{more}")).unwrap();
    };
    with("overrides: [{ env: HOME, skills: [one], enabled: false }]\n");
    assert!(listed(&user).is_empty());
    with("overrides: [{ env: NO_SUCH_VARIABLE, enabled: false }, { tag: x, enabled: false }]\n");
    assert_eq!(listed(&user), ["one"]);
    // A mirror has the same files, and another identity.
    assert!(user.command("cp").args(["-r", "repo", "mirror"]).status().unwrap().success());
    std::fs::rename(user.work().join("repo"), user.work().join("gone")).unwrap();
    with(&format!(
        "replace: {{ '{url}': 'file://{}' }}\n",
        user.work().join("mirror").canonicalize().unwrap().display()
    ));
    succeeds(&user, &["sync"]);
    assert_eq!(listed(&user), ["one"]);
    // A project's file may not.
    std::fs::write(
        user.work().join("skills.yaml"),
        format!("replace: {{ '{url}': 'file:///x' }}\n"),
    )
    .unwrap();
    let (_, error) = fails(&user, &["sync", "--file", "skills.yaml"]);
    assert!(error.contains("replaces places, which only your own file may"), "{error}");
}

#[test]
fn own_file_chooses_sections_of_the_policy() {
    let user = user();
    repository(&user);
    let script = user.work().join("repo/skills/one/scripts/a.sh");
    std::fs::write(script, "echo \"[$GREETING]\"\n").unwrap();
    git(&user, "repo", &["commit", "-q", "-a", "-m", "second"]);
    let url = format!("file://{}", user.work().join("repo").display());
    succeeds(&user, &["add", &url, "--path", "one"]);
    let yaml = std::fs::read_to_string(config(&user, "skills.yaml")).unwrap();
    let choose = |section: &str| {
        let yaml = format!("{yaml}    policy: {section}\n");
        std::fs::write(config(&user, "skills.yaml"), yaml).unwrap();
    };
    for (source, expected) in
        [(format!("source: \"{url}\","), "[hello]\n"), (String::new(), "[]\n")]
    {
        let sections = format!("{{ greeters: {{ {source} env: [GREETING=hello] }} }}");
        policy(&user, &format!("default: {{ allow: [Read, Bash] }}\nskills: {sections}\n"));
        choose("greeters");
        succeeds(&user, &["trust", "one"]);
        assert_eq!(succeeds(&user, &["run", "one", "a.sh"]), expected, "{source}");
    }
    // Without the section, which may have restricted it, the skill is refused. Others are not.
    choose("others");
    let (_, _, stderr) = run(&user, &["list"]);
    assert!(stderr.contains("`one` is refused: "), "{stderr}");
    assert!(stderr.contains("chooses the section `others` for it"), "{stderr}");
    let (code, stdout, stderr) = run(&user, &["run", "one", "a.sh"]);
    assert_eq!((code, stdout.as_str()), (Some(65), ""), "{stderr}");
    assert!(stderr.contains("`policy: others`, a section that does not exist"), "{stderr}");
    assert_eq!(succeeds(&user, &["run", "./reporter", "report.sh"]), "report\n");
    // A project's file may not.
    let project = format!("skills:\n  one:\n    source: {url}\n    policy: greeters\n");
    std::fs::write(user.work().join("skills.yaml"), project).unwrap();
    choose("greeters");
    let (_, error) = fails(&user, &["sync", "--file", "skills.yaml"]);
    assert!(error.contains("chooses sections of the policy, which only your own"), "{error}");
}

#[test]
fn own_file_that_cannot_be_read_or_trusted_is_not_a_missing_one() {
    use std::os::unix::fs::PermissionsExt as _;

    let user = user();
    succeeds(&user, &["list"]);
    std::fs::create_dir_all(config(&user, "")).unwrap();
    let file = config(&user, "skills.yaml");
    let refused = |expected: &str| {
        let (_, error) = fails(&user, &["list"]);
        assert!(error.contains(expected), "{error}");
    };
    std::fs::write(&file, "skills: {}\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    refused("is writable by others (mode 666)");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    succeeds(&user, &["list"]);
    std::fs::write(&file, b"# \xff\n").unwrap();
    refused("it is not valid UTF-8");
    std::fs::write(&file, vec![b'#'; (1 << 20) + 1]).unwrap();
    refused("is not a file of at most 1 MiB");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    refused("is not a file of at most 1 MiB");
}

#[test]
fn only_the_own_file_changes_the_limits_of_transfers() {
    let user = user();
    std::fs::write(user.work().join("reporter/zeros"), [0; 400_000]).unwrap();
    let packed = user.command("tar").args(["-czf", "reporter.tar.gz", "reporter"]).status();
    assert!(packed.unwrap().success());
    let (_, error) = fails(&user, &["add", "./reporter.tar.gz"]);
    assert!(error.contains("raise `expansion` in `limits` of your skills.yaml"), "{error}");
    let limits = |expansion: u32| format!("limits: {{ expansion: {expansion} }}\n");
    std::fs::create_dir_all(config(&user, "")).unwrap();
    std::fs::write(config(&user, "skills.yaml"), limits(2000)).unwrap();
    succeeds(&user, &["add", "./reporter.tar.gz"]);
    std::fs::write(user.work().join("skills.yaml"), limits(2000)).unwrap();
    let (_, error) = fails(&user, &["sync", "--file", "skills.yaml"]);
    assert!(error.contains("sets limits, which only your own file may"), "{error}");
    // The limits also hold for what a project's file names.
    std::fs::write(user.work().join("skills.yaml"), "").unwrap();
    succeeds(&user, &["add", "./reporter.tar.gz", "--as", "other", "--file", "skills.yaml"]);
}
