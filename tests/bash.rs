//! Compares the shell with bash: every snippet of tests/bash runs in both, and must give the same
//! output, exit code and files.
//!
//! A file holds many snippets, each under a line `#--- NAME`. Known differences are listed in
//! tests/bash/differences.txt, each with the reason. A listed snippet that agrees fails the test,
//! and so does an unlisted one that does not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use skillhost::invoke::{RunRequest, Runner, Target};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::{Io, Stdin};

use crate::hostile_host::{HANG_TIMEOUT, shell_host};
use crate::support::repository;

/// The percentage of the snippets run that must agree.
const SHARE: f64 = 98.0;

/// Commands that a machine may lack: snippets that use a missing one are skipped.
const OPTIONAL: [&str; 11] = [
    "jq", "zip", "unzip", "bc", "bzip2", "xxd", "column", "hexdump", "strings", "envsubst",
    "sqlite3",
];

pub struct Snippet {
    pub name: String,
    pub text: String,
    /// The address that snippets may fetch from.
    pub fetch: Option<String>,
}

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
struct RunResult {
    stdout: String,
    code: i32,
    files: BTreeMap<String, String>,
}

#[test]
#[expect(clippy::print_stderr, reason = "reports the share that agrees")]
fn the_shell_matches_bash() {
    let (known, snippets) = (differences(), snippets());
    assert!(snippets.len() >= 300, "{} snippets", snippets.len());
    for name in known.keys() {
        assert!(
            snippets.iter().any(|snippet| snippet.name == *name),
            "tests/bash/differences.txt: no snippet is named `{name}`"
        );
    }
    let missing: Vec<_> = OPTIONAL.into_iter().filter(|command| !is_installed(command)).collect();
    let runs: Vec<_> = snippets
        .iter()
        .filter(|snippet| !missing.iter().any(|command| uses(&snippet.text, command)))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let host = shell_host(dir.path());
    let skill = write_skill(dir.path());
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(snippet) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Without colons, so that a snippet can add its folder to PATH.
                    let place = dir
                        .path()
                        .join(format!("case-{}", snippet.name.replace(['/', ' ', ':'], "-")));
                    let bash = in_bash(snippet, &place.join("bash"));
                    let ours = in_shell(&host, &skill, snippet, &place.join("ours"));
                    results.lock().unwrap().insert(snippet.name.clone(), (bash, ours));
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    let agreeing = results.values().filter(|(bash, ours)| bash == ours).count();
    let share = agreeing as f64 * 100.0 / results.len() as f64;
    eprintln!(
        "bash and the shell agree on {agreeing} of {} snippets: {share:.1} %; without {missing:?}",
        results.len()
    );
    let wrong: Vec<String> = results
        .iter()
        .filter(|(name, (bash, ours))| (bash == ours) == known.contains_key(*name))
        .map(|(name, (bash, ours))| {
            if bash == ours {
                format!("{name}: agrees, but is listed as different")
            } else {
                format!("{name}:\n  bash {bash:?}\n  ours {ours:?}")
            }
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(share >= SHARE, "{share:.1} % agree");
}

/// Startup creates no command and no system file that the script does not use: creating all of them
/// would burn two million more units of fuel.
#[test]
fn starting_a_small_script_burns_little_fuel() {
    let dir = tempfile::tempdir().unwrap();
    let host = shell_host(dir.path());
    let skill = write_skill(dir.path());
    let snippet = Snippet { name: "small".into(), text: "echo hi".into(), fetch: None };
    let outcome = outcome(
        &host,
        &skill,
        &snippet,
        &dir.path().join("workspace"),
        vec![(Limit::Fuel, 1_000_000)],
    );
    assert_eq!(
        (&outcome.status, outcome.stdout.text().as_ref()),
        (&Status::Exited { code: 0 }, "hi\n"),
        "{outcome:?}"
    );
}

/// Commands of the shell that are neither bash builtins nor reachable by name from other programs:
/// the host's part (`env`), and commands that differ too much from their namesakes, or that no
/// machine has.
const NOT_PROGRAMS: &str = "
    env nice nohup time timeout pip pip3 uv uvx python python3 node nodejs bun deno ts-node tsx npm npx pnpm pnpx yarn bunx bash sh
    assert busybox csv dotenv glob http json log make man openssl parallel pgrep pkill ps retry semver sudo template tomlq verify watch";

#[test]
fn other_programs_can_start_the_commands_of_the_shell() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    let manifest = std::fs::read(repository("target/components/shell.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let listed: BTreeSet<String> = serde_json::from_value(manifest["programs"].clone()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let host = shell_host(dir.path());
    let skill = write_skill(dir.path());
    let snippet = Snippet { name: "commands".into(), text: "compgen -c".into(), fetch: None };
    let has = words(&in_shell(&host, &skill, &snippet, &dir.path().join("workspace")).stdout);
    let own = Command::new("bash").args(["-c", "compgen -bk"]).output().unwrap();
    let own = words(&String::from_utf8_lossy(&own.stdout));
    let uncovered: BTreeSet<String> = own.union(&words(NOT_PROGRAMS)).cloned().collect();
    let missing: Vec<_> = listed.difference(&has).collect();
    assert!(missing.is_empty(), "components/shell/programs.txt: the shell has no {missing:?}");
    let new: Vec<_> =
        has.iter().filter(|name| !listed.contains(*name) && !uncovered.contains(*name)).collect();
    assert!(
        new.is_empty(),
        "the shell has {new:?}: list them in components/shell/programs.txt or in NOT_PROGRAMS"
    );
}

/// Each command runs in bash with the machine's curl, and in the shell; `URL` is a server's.
const CURL: [&str; 24] = [
    "curl -s URL/get",
    "curl -s -X DELETE URL/item/1",
    "curl -s -d a=1 -d 'b=x y' URL/post",
    "printf 'l1\nl2\n' > f; curl -s -d @f URL/post; curl -s --data-binary @f URL/post",
    "curl -s --data-raw @f URL/post; curl -s --data-urlencode 'q=a&c=é' URL/post",
    "curl -s -H 'X-Test: one' -H 'Content-Type: application/json' -d '{\"a\": 1}' URL/post",
    "curl -s --json '{\"a\": 1}' URL/post",
    "echo body | curl -s -X PUT -d @- URL/put",
    "curl -s -G -d q=1 -d r=2 URL/search; curl -s -G -d q=1 'URL/search?z=0'",
    "curl -s -o out -w '%{http_code} %{size_download} %{content_type}\n' URL/get; cat out",
    "curl -sO URL/file.txt; cat file.txt",
    "curl -s -w '\n%{http_code}' URL/missing; echo; echo $?",
    "curl -sf URL/missing; echo $?; curl -sSf URL/missing 2>&1; curl -s --fail-with-body URL/missing; echo $?",
    "curl -s -w '%{http_code} %{redirect_url}\n' URL/redirect; curl -sL -w ' %{num_redirects} %{url_effective}' URL/redirect",
    "curl -sL -d a=1 URL/redirect; curl -sL -X POST -d a=1 URL/redirect",
    "curl -sL --max-redirs 2 URL/loop; echo $?",
    "curl -s -u user:pass URL/auth; curl -s http://u:p@HOST/auth; curl -s -H 'Authorization: Bearer t' URL/auth",
    "curl -s -A agent/1 -e http://ref URL/get; curl -s -b 'a=1; b=2' URL/cookie",
    "curl -s -I URL/get | tr -d '\r' | grep -i '^content-type'; curl -s -i URL/get | tr -d '\r' | grep -ic '^x-server'",
    "curl -s --max-time 1 URL/slow; echo $?",
    "curl -s http://127.0.0.1:1/; echo $?; curl -s nosuch://x; echo $?; curl -s; echo $?",
    "curl -s URL/json | jq -r .name; code=$(curl -s -o /dev/null -w '%{http_code}' URL/missing); echo $code",
    "for i in 1 2; do curl -s URL/n/$i; done; curl -s URL/big | wc -c; curl -s URL/big | head -c 3",
    "echo content > up; curl -s -T up URL/upload; curl -s -F 'a=b' -F 'f=@up' URL/form",
];

/// Echoes the request, without the parts that differ between clients.
fn answer(request: &[u8], stream: &mut std::net::TcpStream) {
    let mut all = request.to_vec();
    let text = String::from_utf8_lossy(&all).into_owned();
    let field = |name: &str| {
        let line = text
            .lines()
            .take_while(|line| !line.is_empty())
            .find(|line| line.to_ascii_lowercase().starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let start = text.find("\r\n\r\n").map_or(all.len(), |at| at + 4);
    let length = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut buffer = [0; 4096];
    while all.len() < start + length {
        match std::io::Read::read(stream, &mut buffer) {
            Ok(count) if count > 0 => all.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    let mut words = text.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let kind = field("content-type").unwrap_or_default();
    let mut body = String::from_utf8_lossy(&all[start..]).into_owned();
    if let Some(boundary) = kind.split("boundary=").nth(1) {
        body = body.replace(boundary, "BOUNDARY");
    }
    let kind = kind.split(';').next().unwrap_or_default().to_owned();
    let mut echo = format!("{method} {path} [{kind}]");
    for name in ["x-test", "authorization", "referer", "cookie"] {
        if let Some(value) = field(name) {
            echo += &format!(" {name}={value}");
        }
    }
    echo += &format!("\n{body}\n");
    let respond = |stream: &mut std::net::TcpStream, status: &str, headers: &str, body: &str| {
        crate::servers::respond(
            stream,
            status,
            &format!("x-server: test\r\ncontent-type: text/plain\r\n{headers}"),
            body.as_bytes(),
        );
    };
    match path {
        "/missing" => respond(stream, "404 Not Found", "", "not here\n"),
        "/redirect" => respond(stream, "302 Found", "location: /get?from=redirect\r\n", ""),
        "/loop" => respond(stream, "302 Found", "location: /loop\r\n", ""),
        "/slow" => std::thread::sleep(std::time::Duration::from_secs(20)),
        "/json" => respond(stream, "200 OK", "", "{\"name\": \"value\"}"),
        "/big" => respond(stream, "200 OK", "", &"x".repeat(1_000_000)),
        _ if method == "HEAD" => respond(stream, "200 OK", "", ""),
        _ => respond(stream, "200 OK", "", &echo),
    }
}

#[test]
fn the_sandbox_curl_matches_the_native_curl() {
    let server = crate::servers::Server::start(answer);
    let dir = tempfile::tempdir().unwrap();
    let host = shell_host(dir.path());
    let skill = write_skill(dir.path());
    let mut wrong = Vec::new();
    for (index, text) in CURL.iter().enumerate() {
        let text = text
            .replace("URL", &server.url())
            .replace("HOST", &format!("127.0.0.1:{}", server.port));
        let snippet = Snippet { name: format!("curl {index}"), text, fetch: Some(server.url()) };
        let place = dir.path().join(index.to_string());
        let (bash, ours) = (
            in_bash(&snippet, &place.join("bash")),
            in_shell(&host, &skill, &snippet, &place.join("ours")),
        );
        if bash != ours {
            wrong.push(format!("{}:\n  curl {bash:?}\n  ours {ours:?}", snippet.text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn curl_names_the_entry_that_would_allow_a_host() {
    let dir = tempfile::tempdir().unwrap();
    let host = shell_host(dir.path());
    let skill = write_skill(dir.path());
    let text = "curl -sS https://api.example.com/x 2>&1; echo $?".to_owned();
    let left = in_shell(
        &host,
        &skill,
        &Snippet { name: "denied".into(), text, fetch: None },
        &dir.path().join("workspace"),
    );
    assert!(
        left.stdout.contains("denied")
            && left.stdout.contains("WebFetch(domain:api.example.com)")
            && left.stdout.ends_with("7\n"),
        "{left:?}"
    );
}

/// Writes a skill for snippets to a folder of `root`.
pub fn write_skill(root: &Path) -> PathBuf {
    let skill = root.join("skill");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), MANIFEST).unwrap();
    skill
}

const MANIFEST: &str = "\
---
name: skill
description: Holds nothing. Use when testing a shell.
allowed-tools: Bash WebFetch
---
";

fn snippets() -> Vec<Snippet> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository("tests/bash"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "sh"));
    files.sort();
    let of = |file: &PathBuf| {
        let topic = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = format!("\n{}", std::fs::read_to_string(file).unwrap());
        let parts: Vec<String> = text.split("\n#--- ").skip(1).map(str::to_owned).collect();
        parts.into_iter().map(move |part| {
            let (name, text) = part.split_once('\n').unwrap();
            Snippet { name: format!("{topic}: {name}"), text: text.to_owned(), fetch: None }
        })
    };
    files.iter().flat_map(of).collect()
}

/// Returns the names of known differences with their reasons.
fn differences() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(repository("tests/bash/differences.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, reason) =
                line.split_once(" | ").unwrap_or_else(|| panic!("`{line}` is not `NAME | REASON`"));
            (name.trim().to_owned(), reason.trim().to_owned())
        })
        .collect()
}

fn is_installed(command: &str) -> bool {
    let found = Command::new("bash")
        .args(["-c", "command -v \"$1\"", "bash", command])
        .stdout(Stdio::null())
        .status();
    found.unwrap_or_else(|error| panic!("this test needs bash: {error}")).success()
}

fn uses(text: &str, command: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).any(|word| word == command)
}

fn in_bash(snippet: &Snippet, place: &Path) -> RunResult {
    let home = place.with_extension("home");
    for folder in [place, &home] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let path = std::env::var_os("PATH").unwrap();
    // Background tests ignore the keyboard's signals, and bash cannot trap signals that were
    // ignored at its start.
    let mut bash = Command::new("env");
    bash.args(["--default-signal=INT,QUIT", "bash", "-c", &snippet.text])
        .current_dir(place)
        .stdin(Stdio::null())
        .env_clear();
    bash.env("PATH", path)
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .env("LANG", "C.UTF-8")
        .env("LC_ALL", "C.UTF-8");
    let output = bash.output().unwrap();
    RunResult {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        code: output.status.code().unwrap_or(-1),
        files: files(place),
    }
}

fn in_shell(host: &Runner, skill: &Path, snippet: &Snippet, place: &Path) -> RunResult {
    let outcome = outcome(host, skill, snippet, place, vec![(Limit::Timeout, 100_000)]);
    let Status::Exited { code } = outcome.status else { panic!("`{}`: {outcome:?}", snippet.name) };
    RunResult {
        stdout: outcome.stdout.text().into_owned(),
        code: i32::from(code),
        files: files(place),
    }
}

/// Runs in the sandbox, on a thread; a timeout fails the test.
pub fn outcome(
    host: &Runner,
    skill: &Path,
    snippet: &Snippet,
    place: &Path,
    limits: Vec<(Limit, u64)>,
) -> Outcome {
    std::fs::create_dir_all(place).unwrap();
    let overrides = Overrides {
        workspace: Some((place.to_owned(), MountMode::Write)),
        limits,
        allow: snippet.fetch.iter().map(|url| format!("WebFetch({url})")).collect(),
        ..Overrides::default()
    };
    let policy = Policy::builtin()
        .with_command_line(overrides)
        .unwrap_or_else(|findings| panic!("{findings:?}"));
    let (host, skill, text) = (host.clone(), skill.to_owned(), snippet.text.clone());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let io = Io { stdin: Stdin::Empty, ..Io::default() };
        let request = RunRequest {
            skill: (&skill).into(),
            policy: &policy,
            target: Target::Shell(text),
            args: Vec::new(),
            io,
        };
        let outcome =
            runtime.block_on(host.invoke(request)).map(|invoked| invoked.finished.outcome);
        runtime.shutdown_background();
        // The receiver is gone if the test timed out.
        sender.send(outcome.unwrap_or_else(|error| panic!("{error}"))).ok();
    });
    receiver
        .recv_timeout(HANG_TIMEOUT)
        .unwrap_or_else(|error| panic!("`{}`: the host did not answer: {error}", snippet.name))
}

/// Returns names, kinds and contents below a folder.
fn files(root: &Path) -> BTreeMap<String, String> {
    fn walk(root: &Path, at: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let about = std::fs::symlink_metadata(&path).unwrap();
            if about.is_dir() {
                found.insert(name, "folder".into());
                walk(root, &path, found);
            } else if about.is_symlink() {
                found.insert(
                    name,
                    format!("link to {}", std::fs::read_link(&path).unwrap().display()),
                );
            } else {
                found.insert(
                    name,
                    String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
                );
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}
