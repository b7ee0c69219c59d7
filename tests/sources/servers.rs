//! Skills from real servers on loopback: a registry with authentication, an SSH server, Git over HTTP
//! with credentials, an S3 store, HTTPS with its own authority, a proxy, and an MCP server. Most come
//! from Debian and PyPI: `cargo xtask servers` fetches them.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Output};
use std::sync::Mutex;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::*;
use crate::cli::{repository as checkout, skipped};
use crate::tls;

/// Returns a file or folder that `cargo xtask servers` fetches.
fn fetched(path: &str) -> PathBuf {
    let path = checkout("target").join(path);
    assert!(path.exists(), "{} is missing: run `cargo xtask servers` first", path.display());
    path
}

/// Prepares a program of a package of Debian that is not installed.
pub fn unpacked(package: &str, program: &str) -> Command {
    let root = fetched(&format!("tools/{package}"));
    let mut libraries: Vec<String> = vec![root.join("usr/lib").display().to_string()];
    for folder in ["lib", "usr/lib"] {
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            libraries.push(entry.path().display().to_string());
        }
    }
    let mut command = Command::new(root.join(program));
    command.env("LD_LIBRARY_PATH", libraries.join(":"));
    command
}

/// A server that ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts a server, and waits until it accepts connections. Its output is in `log`.
    fn start(command: &mut Command, port: u16, log: &Path) -> Server {
        let file = std::fs::File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut server = Server(command.spawn().unwrap());
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = server.0.try_wait().unwrap();
            let is_late = start.elapsed() > Duration::from_secs(60);
            if ended.is_some() || is_late {
                panic!("{ended:?}: {}", std::fs::read_to_string(log).unwrap());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Runs a command that must succeed. Returns its output.
fn ran(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (text(&stdout), String::from_utf8_lossy(&stderr).into_owned());
    assert!(status.success(), "{command:?}: {stdout}{stderr}");
    stdout
}

/// Runs a command of a user with more variables.
fn with(user: &User, variables: &[(&str, &str)], args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
    let output = command.envs(variables.iter().copied()).args(args).output().unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A registry of Debian that requires a user and a password.
struct Registry {
    port: u16,
    _server: Server,
}

/// `user:secret`, as `htpasswd -B` writes it.
const HTPASSWD: &str = "user:$2b$04$HEt4OQlfw7XUXYAPxGBXA.w5lCBKCDe8q5zeW.VtV2KfofJcsoZ7a\n";

impl Registry {
    fn start(user: &User) -> Registry {
        let (folder, port) = (user.root().join("registry"), free_port());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("htpasswd"), HTPASSWD).unwrap();
        let shown = folder.display();
        let config = format!(
            "version: 0.1\nlog: {{ level: error }}\nstorage: {{ filesystem: {{ rootdirectory: {shown}/data }} }}\nhttp: {{ addr: 127.0.0.1:{port} }}\nauth: {{ htpasswd: {{ realm: test, path: {shown}/htpasswd }} }}\n"
        );
        std::fs::write(folder.join("config.yml"), config).unwrap();
        let mut command = unpacked("docker-registry", "usr/bin/docker-registry");
        command.arg("serve").arg(folder.join("config.yml"));
        let server = Server::start(&mut command, port, &folder.join("log"));
        Registry { port, _server: server }
    }

    fn place(&self, rest: &str) -> String {
        format!("oci://127.0.0.1:{}/{rest}", self.port)
    }

    /// Lets a user log in, as `docker login` does.
    fn login(&self, user: &User) {
        let auth = BASE64_STANDARD.encode("user:secret");
        let config =
            format!("{{\"auths\": {{\"127.0.0.1:{}\": {{\"auth\": \"{auth}\"}}}}}}", self.port);
        std::fs::create_dir_all(user.home().join(".docker")).unwrap();
        std::fs::write(user.home().join(".docker/config.json"), config).unwrap();
    }

    /// Prepares the client of oras, in the user's folder.
    fn oras(&self, user: &User, verb: &str, target: &str) -> Command {
        let host = format!("127.0.0.1:{}", self.port);
        let mut command = Command::new(fetched("clients/stores/bin/python"));
        command
            .arg(checkout("tests/clients/stores/oras_client.py"))
            .args([verb, &host, "user", "secret", &format!("{host}/{target}")])
            .current_dir(user.work())
            .env("HOME", user.root().join("tmp"));
        command
    }
}

#[test]
fn skill_is_published_to_a_registry_and_added_from_it() {
    let user = user();
    let registry = Registry::start(&user);
    let target = registry.place("team/reporter:1.0.0");
    let (code, _, stderr) = run(&user, &["publish", "./reporter", &target, "--no-sign"]);
    assert!(code == Some(77) && stderr.contains("docker login"), "{code:?} {stderr}");
    registry.login(&user);
    let dry = succeeds(&user, &["publish", "./reporter", &target, "--no-sign", "--dry-run"]);
    assert!(dry.contains(&format!("would publish {target} (2 files")), "{dry}");
    assert_ne!(run(&user, &["add", &target]).0, Some(0), "nothing was uploaded");
    let published = succeeds(&user, &["publish", "./reporter", &target, "--no-sign"]);
    let digest = published.lines().last().unwrap().trim().to_owned();
    assert!(dry.contains(&digest), "{dry}{published}");
    // The same again is the same.
    succeeds(&user, &["publish", "./reporter", &target, "--no-sign"]);
    succeeds(&user, &["add", &target]);
    let why = succeeds(&user, &["why", "reporter"]);
    assert!(why.contains(&format!("revision: {digest}")), "{why}");
    succeeds(&user, &["ci"]);
    let by_digest = registry.place(&format!("team/reporter@{digest}"));
    succeeds(&user, &["add", &by_digest, "--as", "pinned"]);
    // Another content under the same tag.
    std::fs::write(user.work().join("reporter/more.txt"), "more").unwrap();
    let (code, _, stderr) = run(&user, &["publish", "./reporter", &target, "--no-sign"]);
    assert!(code == Some(64) && stderr.contains("exists already"), "{stderr}");
}

#[test]
fn published_skill_is_pulled_by_skopeo_and_oras() {
    let user = user();
    let registry = Registry::start(&user);
    registry.login(&user);
    let target = registry.place("team/reporter:v1");
    succeeds(&user, &["publish", "./reporter", &target, "--no-sign"]);
    let out = user.work().join("pulled");
    let image = format!("docker://127.0.0.1:{}/team/reporter:v1", registry.port);
    ran(unpacked("skopeo", "usr/bin/skopeo")
        .args(["copy", "--insecure-policy", "--src-tls-verify=false", "--src-creds", "user:secret"])
        .args([&image, &format!("dir:{}", out.display())])
        .env("HOME", user.root().join("tmp"))
        .env("TMPDIR", user.root().join("tmp")));
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap();
    let layer = manifest["layers"][0]["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let listed = ran(Command::new("tar").arg("-tzf").arg(out.join(layer)));
    assert!(listed.contains("reporter/scripts/report.sh"), "{listed}");
    let folder = user.work().join("by-oras");
    let pulled = ran(registry.oras(&user, "pull", "team/reporter:v1").arg(&folder));
    assert!(pulled.contains("reporter.tar.gz"), "{pulled}");
    let archive = folder.join("reporter.tar.gz");
    let listed = ran(Command::new("tar").arg("-tzf").arg(archive));
    assert!(listed.contains("reporter/SKILL.md"), "{listed}");
}

#[test]
fn skill_that_oras_pushed_is_added() {
    let user = user();
    let registry = Registry::start(&user);
    registry.login(&user);
    let mut push = registry.oras(&user, "push", "team/by-oras:v1");
    push.current_dir(user.work().join("reporter"));
    ran(push.args(["SKILL.md:text/markdown", "scripts"]));
    succeeds(&user, &["add", &registry.place("team/by-oras:v1")]);
    assert_eq!(listed(&user), ["reporter"]);
    let why = succeeds(&user, &["why", "reporter"]);
    assert!(why.contains("scripts/report.sh") && why.contains("SKILL.md"), "{why}");
    // The archive shape, by a client that knows nothing of skills.
    ran(user.command("tar").args(["-czf", "reporter.tar.gz", "reporter"]));
    let mut push = registry.oras(&user, "push", "team/archive:v1");
    ran(push.arg("reporter.tar.gz:application/vnd.agent.skill.content.v1.tar+gzip"));
    succeeds(&user, &["add", &registry.place("team/archive:v1"), "--as", "from-archive"]);
    succeeds(&user, &["ci"]);
}

#[test]
fn component_in_a_registry_becomes_a_skill() {
    let user = user();
    let registry = Registry::start(&user);
    registry.login(&user);
    std::fs::write(user.work().join("greeter.wasm"), crate::cli::guest("hello")).unwrap();
    let mut push = registry.oras(&user, "push", "team/greeter:v1");
    ran(push.arg("greeter.wasm:application/wasm"));
    let added = succeeds(&user, &["add", &registry.place("team/greeter:v1")]);
    assert!(added.contains("added greeter") && added.contains("requests: nothing"), "{added}");
}

/// The SSH server of Debian, for the current user, with a key of its own.
struct SshServer {
    port: u16,
    _server: Server,
}

impl SshServer {
    /// Starts the server, with the user's key authorised and its host key known. `None` if there is
    /// no `ssh` on this machine.
    fn start(user: &User) -> Option<SshServer> {
        if !Path::new("/usr/bin/ssh").exists() {
            skipped("there is no /usr/bin/ssh: `apt install openssh-client`");
            return None;
        }
        let is_root = rustix::process::getuid().is_root();
        let unshare = Command::new("unshare").args(["--mount", "true"]).output();
        if is_root && !unshare.is_ok_and(|output| output.status.success()) {
            skipped("as root, the SSH server needs a mount namespace; run the tests as a user");
            return None;
        }
        let (folder, port) = (user.root().join("sshd"), free_port());
        let home = user.home().join(".ssh");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(&home).unwrap();
        for key in [folder.join("host_key"), home.join("id")] {
            ran(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key));
        }
        std::fs::copy(home.join("id.pub"), folder.join("authorized_keys")).unwrap();
        let (shown, ssh) = (folder.display(), home.display());
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host_key\nPidFile none\nAuthorizedKeysFile {shown}/authorized_keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nAcceptEnv GIT_PROTOCOL\n"
        );
        std::fs::write(folder.join("config"), config).unwrap();
        let host_key = std::fs::read_to_string(folder.join("host_key.pub")).unwrap();
        std::fs::write(home.join("known_hosts"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let client = format!(
            "IdentityFile {ssh}/id\nIdentitiesOnly yes\nUserKnownHostsFile {ssh}/known_hosts\n"
        );
        std::fs::write(home.join("config"), client).unwrap();
        let sshd = unpacked("openssh-server", "usr/sbin/sshd");
        let mut command = match is_root {
            false => sshd,
            // As root, it wants a user and a folder of its own, which only it can see.
            true => {
                let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
                let line = "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n";
                std::fs::write(folder.join("passwd"), passwd + line).unwrap();
                let script = format!(
                    "mount -t tmpfs none /run && mkdir /run/sshd && mount --bind {shown}/passwd /etc/passwd && exec \"$@\""
                );
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", &script, "sh"]).arg(sshd.get_program());
                command.envs(sshd.get_envs().filter_map(|(name, value)| Some((name, value?))));
                command
            }
        };
        command.args(["-D", "-e", "-f"]).arg(folder.join("config"));
        let server = Server::start(&mut command, port, &folder.join("log"));
        Some(SshServer { port, _server: server })
    }
}

#[test]
fn repository_is_fetched_over_ssh() {
    let user = user();
    repository(&user);
    git(&user, "repo", &["tag", "v1"]);
    git(&user, "repo", &["config", "uploadpack.allowFilter", "true"]);
    let Some(server) = SshServer::start(&user) else { return };
    let url = format!("ssh://127.0.0.1:{}{}", server.port, user.work().join("repo").display());
    succeeds(&user, &["add", &format!("{url}@v1"), "--path", "one"]);
    succeeds(&user, &["add", &format!("{url}@main"), "--path", "skills/two"]);
    assert_eq!(listed(&user), ["one", "two"]);
    assert!(succeeds(&user, &["why", "one"]).contains("revision: git-tag:"));
    // The branch moves on, and a machine without the files fetches the locked commit.
    std::fs::write(user.work().join("repo/skills/two/scripts/a.sh"), "echo second\n").unwrap();
    git(&user, "repo", &["commit", "-q", "-a", "-m", "second"]);
    ran(user.command("chmod").args(["-R", "u+w"]).arg(user.home().join(".local/state")));
    std::fs::remove_dir_all(user.home().join(".local/state/skillhost/sources")).unwrap();
    let synced = succeeds(&user, &["sync"]);
    assert!(synced.contains("fetched two again"), "{synced}");
    succeeds(&user, &["ci"]);
    let updated = succeeds(&user, &["update", "two"]);
    assert!(updated.contains("~ scripts/a.sh"), "{updated}");
    // What `ssh` says is reported.
    let (_, error) = fails(&user, &["add", &format!("ssh://127.0.0.1:{}/nowhere", server.port)]);
    assert!(error.contains("does not appear to be a git repository"), "{error}");
    std::fs::write(user.home().join(".ssh/known_hosts"), "").unwrap();
    let (_, error) = fails(&user, &["add", &format!("{url}@v1"), "--path", "one", "--as", "x"]);
    assert!(error.contains("Host key verification failed"), "{error}");
    policy(&user, "default: { deny: ['WebFetch(domain:127.0.0.1)'] }\n");
    assert_eq!(fails(&user, &["add", &url, "--all"]).0, "denied");
}

#[test]
fn skill_is_published_as_a_tag_over_ssh() {
    let user = user();
    repository(&user);
    let Some(server) = SshServer::start(&user) else { return };
    let url = format!("ssh://127.0.0.1:{}{}", server.port, user.work().join("repo").display());
    published_as_a_tag(&user, &url);
}

#[test]
fn skill_is_published_as_a_tag_of_a_local_repository() {
    let user = user();
    repository(&user);
    published_as_a_tag(&user, &format!("file://{}", user.work().join("repo").display()));
}

#[test]
fn skill_with_errors_or_failing_cases_is_not_published() {
    let user = user();
    repository(&user);
    let target = format!("file://{}@v1", user.work().join("repo").display());
    let case = user.work().join("reporter/tests/report");
    std::fs::create_dir_all(&case).unwrap();
    let write = |stdout: &str| {
        let text = format!("script: scripts/report.sh\nexpect: {{ stdout: \"{stdout}\" }}\n");
        std::fs::write(case.join("case.yaml"), text).unwrap();
    };
    let publish = |more: &[&str]| {
        run(&user, &[&["publish", "./reporter", &target, "--no-sign"], more].concat())
    };
    write("other\\n");
    let (code, _, stderr) = publish(&[]);
    assert!(code == Some(1) && stderr.contains("not published: a test case failed"), "{stderr}");
    write("report\\n");
    let skill_md = user.work().join("reporter/SKILL.md");
    let text = std::fs::read_to_string(&skill_md).unwrap();
    std::fs::write(&skill_md, text.replace("name: reporter", "name: other")).unwrap();
    let (code, _, stderr) = publish(&["--no-test"]);
    assert!(code == Some(1) && stderr.contains("not published: the check found"), "{stderr}");
    let tags = || ran(user.command("git").args(["-C", "repo", "tag"]));
    assert_eq!(tags(), "");
    std::fs::write(&skill_md, &text).unwrap();
    // What is published is locked in the file that is named.
    let (code, stdout, stderr) = publish(&["--file", "skills.yaml"]);
    assert!(code == Some(0) && stdout.contains("added reporter (git-tag:"), "{stdout}{stderr}");
    assert_eq!(tags(), "v1\n");
    succeeds(&user, &["ci", "--file", "skills.yaml"]);
    // A skill of that name from another source is not replaced, and what is required must be locked.
    let publish = |repository: &str| {
        let target = format!("file://{}@v2", user.work().join(repository).display());
        let args = ["publish", "./reporter", &target, "--no-sign", "--file", "skills.yaml"];
        let (code, _, stderr) = run(&user, &args);
        assert_eq!(code, Some(64), "{stderr}");
        stderr
    };
    let error = publish("other");
    assert!(error.contains("names `reporter` from another source"), "{error}");
    let requires = "name: reporter\nmetadata:\n  requires: charts";
    std::fs::write(&skill_md, text.replace("name: reporter", requires)).unwrap();
    let error = publish("repo");
    assert!(error.contains("requires `charts`, which"), "{error}");
    assert_eq!(tags(), "v1\n");
}

/// Publishes a skill as a tag of the repository `repo`, and adds it from there.
fn published_as_a_tag(user: &User, url: &str) {
    std::fs::create_dir_all(user.work().join("reporter/a/b")).unwrap();
    std::fs::write(user.work().join("reporter/a-b"), "sorts between").unwrap();
    std::fs::write(user.work().join("reporter/a/b/c"), "").unwrap();
    succeeds(user, &["key", "new"]);
    let target = format!("{url}@reporter-1");
    let published = succeeds(user, &["publish", "./reporter", &target]);
    assert!(user.work().join("reporter/skill.dsse.json").exists());
    let fsck = user.command("git").args(["-C", "repo", "fsck", "--strict"]).output().unwrap();
    assert!(fsck.status.success(), "{fsck:?}");
    let id = ran(user.command("git").args(["-C", "repo", "rev-parse", "reporter-1^{commit}"]));
    assert!(published.contains(&format!("git-tag:{}", id.trim())), "{published}");
    let names =
        ran(user.command("git").args(["-C", "repo", "ls-tree", "-r", "--name-only", id.trim()]));
    assert!(names.contains("reporter/a-b\nreporter/a/b/c\n"), "{names}");
    succeeds(user, &["publish", "./reporter", &target]);
    succeeds(user, &["add", &target]);
    let why = succeeds(user, &["why", "reporter"]);
    assert!(why.contains("signed by: sha256:"), "{why}");
    std::fs::write(user.work().join("reporter/more.txt"), "more").unwrap();
    let (code, _, stderr) = run(user, &["publish", "./reporter", &target]);
    assert!(code == Some(64) && stderr.contains("exists already"), "{stderr}");
}

/// Serves the repositories of a folder with git's own program for HTTP servers, to `user:secret`.
fn git_over_http(root: PathBuf) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1)
            {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let field = |name: &str| {
                let found = head.lines().filter_map(|line| line.split_once(": "));
                let mut found = found.filter(|(key, _)| key.eq_ignore_ascii_case(name));
                found.next().map(|(_, value)| value.to_owned()).unwrap_or_default()
            };
            let mut body = vec![0; field("content-length").parse().unwrap_or(0)];
            let _ = stream.read_exact(&mut body);
            if field("authorization") != format!("Basic {}", BASE64_STANDARD.encode("user:secret"))
            {
                let _ = stream.write_all(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                continue;
            }
            let mut line = head.split(' ');
            let (method, target) = (line.next().unwrap(), line.next().unwrap());
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let mut child = Command::new("git")
                .args(["-c", "safe.directory=*", "-c", "http.receivepack=true", "http-backend"])
                .env("GIT_PROJECT_ROOT", &root)
                .env("GIT_HTTP_EXPORT_ALL", "1")
                .env("GIT_PROTOCOL", field("git-protocol"))
                .env("REQUEST_METHOD", method)
                .env("REMOTE_USER", "user")
                .env("PATH_INFO", path)
                .env("QUERY_STRING", query)
                .env("CONTENT_TYPE", field("content-type"))
                .env("CONTENT_LENGTH", body.len().to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(&body).unwrap();
            let output = child.wait_with_output().unwrap().stdout;
            let end = output.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
            let (fields, body) = (text(&output[..end]), &output[end + 4..]);
            let head = format!(
                "HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&[head.as_bytes(), body].concat());
        }
    });
    port
}

#[test]
fn credentials_for_git_over_http_come_from_the_helper_of_the_user() {
    let user = user();
    repository(&user);
    let port = git_over_http(user.work());
    let url = format!("http://127.0.0.1:{port}/repo");
    let (code, error) = fails(&user, &["add", &url, "--all"]);
    assert!(code == "denied" && error.contains("credential.helper"), "{error}");
    // The repository's own configuration names no helper that counts.
    git(
        &user,
        "repo",
        &["config", "credential.helper", "!echo username=user; echo password=secret"],
    );
    assert_eq!(fails(&user, &["add", &url, "--all"]).0, "denied");
    let credentials = user.home().join("credentials");
    std::fs::write(&credentials, format!("http://user:secret@127.0.0.1%3a{port}\n")).unwrap();
    std::fs::set_permissions(&credentials, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!("[credential]\n\thelper = store --file {}\n", credentials.display());
    std::fs::write(user.home().join(".gitconfig"), config).unwrap();
    succeeds(&user, &["add", &url, "--all"]);
    assert_eq!(listed(&user), ["one", "two"]);
    published_as_a_tag(&user, &url);
}

#[test]
fn archive_is_fetched_from_an_s3_store() {
    let user = user();
    let port = free_port();
    let mut command = Command::new(fetched("clients/stores/bin/moto_server"));
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).env("HOME", user.root().join("tmp"));
    let _server = Server::start(&mut command, port, &user.root().join("moto.log"));
    let endpoint = format!("http://127.0.0.1:{port}");
    ran(user.command("tar").args(["-czf", "reporter.tar.gz", "reporter"]));
    ran(Command::new(fetched("clients/stores/bin/python"))
        .arg(checkout("tests/clients/stores/put.py"))
        .args([&endpoint, "my-skills", "team/a+b/reporter.tar.gz", "reporter.tar.gz"])
        .current_dir(user.work())
        .env("HOME", user.root().join("tmp")));
    let keys = [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
    ];
    let source = "s3://my-skills/team/a+b/reporter.tar.gz";
    let (code, _, stderr) = with(&user, &[], &["add", source]);
    assert!(code == Some(77) && stderr.contains("AWS_ACCESS_KEY_ID"), "{stderr}");
    let (code, _, stderr) = with(&user, &keys, &["add", source]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(listed(&user), ["reporter"]);
    let missing = "s3://my-skills/missing.tar.gz";
    let (code, _, stderr) = with(&user, &keys, &["add", missing, "--as", "x"]);
    assert!(code == Some(74) && stderr.contains("404") && !stderr.contains("X-Amz"), "{stderr}");
}

/// An HTTPS server for a name. Returns its port, and the file of its authority.
fn https(user: &User, name: &str, respond: impl Fn(&str) -> Vec<u8> + Send + 'static) -> u16 {
    let (root, config) = tls::named(name);
    let pem = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        BASE64_STANDARD.encode(&root)
    );
    std::fs::create_dir_all(config_folder(user)).unwrap();
    std::fs::write(config_folder(user).join("ca.pem"), pem).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1)
            {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let _ = stream.write_all(&respond(head.split(' ').nth(1).unwrap_or_default()));
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    port
}

fn config_folder(user: &User) -> PathBuf {
    config(user, "")
}

/// Packs the files of the skill `reporter`, without its folder.
fn packed(user: &User) -> Vec<u8> {
    ran(user.command("tar").args(["-czf", "reporter.tar.gz", "-C", "reporter", "."]));
    std::fs::read(user.work().join("reporter.tar.gz")).unwrap()
}

#[test]
fn https_needs_an_authority_that_the_operator_names() {
    let user = user();
    let archive = packed(&user);
    let port = https(&user, "localhost", move |_| found(&archive));
    let url = format!("https://localhost:{port}/a.tar.gz");
    let (code, error) = fails(&user, &["add", &url]);
    assert!(code == "io" && error.contains("certificate"), "{error}");
    policy(&user, "authorities: [ca.pem]\n");
    succeeds(&user, &["add", &url]);
    assert_eq!(listed(&user), ["reporter"]);
}

/// A proxy that leads to one server, whatever is asked for. Returns its port, and the first lines of
/// the requests.
fn proxy(to: u16) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut client = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|read| read == 1)
            {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let login = head.contains(&format!("Basic {}", BASE64_STANDARD.encode("u:p")));
            seen.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
            if !login {
                let _ = client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
                continue;
            }
            let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).unwrap();
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut up, &mut server));
            std::thread::spawn(move || std::io::copy(&mut down, &mut client));
        }
    });
    (port, requests)
}

#[test]
fn proxy_of_the_environment_is_used_within_the_rules() {
    let user = user();
    let archive = packed(&user);
    let port = https(&user, "skills.example", move |path| match path {
        "/private.tar.gz" => redirect("https://10.0.0.1/x.tar.gz"),
        "/self.tar.gz" => redirect("https://localhost/x.tar.gz"),
        _ => found(&archive),
    });
    policy(&user, "authorities: [ca.pem]\n");
    let (proxy, requests) = proxy(port);
    let with_login = format!("http://u:p@127.0.0.1:{proxy}");
    let without = format!("http://127.0.0.1:{proxy}");
    let add = |name: &str, variables: &[(&str, &str)]| {
        let url = format!("https://skills.example/{name}.tar.gz");
        with(&user, variables, &["add", &url, "--as", name])
    };
    let (code, _, stderr) = add("a", &[("https_proxy", &with_login)]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(*requests.lock().unwrap(), ["CONNECT skills.example:443 HTTP/1.1"]);
    let (code, _, stderr) = add("b", &[("https_proxy", &without)]);
    assert!(code == Some(74) && stderr.contains("407"), "{stderr}");
    for name in ["private", "self"] {
        let (code, _, stderr) = add(name, &[("https_proxy", &with_login)]);
        assert!(code == Some(77) && stderr.contains("private address"), "{name}: {stderr}");
    }
    let before = requests.lock().unwrap().len();
    let direct = [("https_proxy", with_login.as_str()), ("no_proxy", "example")];
    assert_ne!(add("c", &direct).0, Some(0), "the name exists for the proxy only");
    assert_eq!(requests.lock().unwrap().len(), before);
    let (code, _, stderr) = add("d", &[("https_proxy", "socks5://127.0.0.1:1")]);
    assert!(code == Some(64) && stderr.contains("https_proxy"), "{stderr}");
    assert_eq!(listed(&user), ["a"]);
}

#[test]
fn skills_of_a_server_are_browsed_and_added() {
    let user = user();
    let archive = packed(&user);
    let skill_md = std::fs::read(user.work().join("reporter/SKILL.md")).unwrap();
    let sum = |file: &str| {
        let sum = user.command("sha256sum").arg(file).output().unwrap();
        format!("sha256:{}", &text(&sum.stdout)[..64])
    };
    let index = serde_json::json!({
        "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
        "skills": [
            { "name": "full", "type": "archive", "description": "Reports sales.", "url": "full.tar.gz", "digest": sum("reporter.tar.gz") },
            { "name": "brief", "type": "skill-md", "description": "Reports costs.", "url": "/brief.md", "digest": sum("reporter/SKILL.md") },
        ],
    });
    let index = index.to_string().into_bytes();
    let port = serve(move |path| match path {
        "/.well-known/agent-skills/index.json" => found(&index),
        "/.well-known/agent-skills/full.tar.gz" => found(&archive),
        "/brief.md" => found(&skill_md),
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
    });
    let source = format!("http://127.0.0.1:{port}/.well-known/agent-skills/");
    let found = succeeds(&user, &["search", "--remote", &source]);
    assert_eq!(found, "full: Reports sales.\nbrief: Reports costs.\n");
    assert_eq!(
        succeeds(&user, &["search", "SALES", "--remote", &source]),
        "full: Reports sales.\n"
    );
    assert_eq!(run(&user, &["search", "taxes", "--remote", &source]).0, Some(1));
    assert!(listed(&user).is_empty());
    let (_, error) = fails(&user, &["add", &source]);
    assert!(error.contains("--path full, --path brief; or --all"), "{error}");
    succeeds(&user, &["add", &source, "--path", "full"]);
    succeeds(&user, &["add", &source, "--all"]);
    assert_eq!(listed(&user), ["brief", "full"]);
    succeeds(&user, &["ci"]);
    assert!(succeeds(&user, &["update", "--dry-run"]).contains("unchanged full (index)"));
}

#[test]
fn skills_of_a_repository_are_browsed() {
    let user = user();
    repository(&user);
    let url = format!("file://{}", user.work().join("repo").display());
    let found = succeeds(&user, &["search", "two", "--remote", &url, "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    let expected = serde_json::json!([
        { "path": "skills/two", "description": "Runs a script. Use to test." }
    ]);
    assert_eq!(found, expected);
}

#[test]
fn skills_of_an_mcp_server_are_added_and_granted_nothing_without_approval() {
    let user = user();
    script_skill(&user.work().join("served/mailer"), ("send.sh", "echo sent\n"));
    script_skill(&user.work().join("served/sorter"), ("sort.sh", "echo sorted\n"));
    std::fs::write(user.work().join("served/sorter/data.bin"), [0, 255, 1]).unwrap();
    let path = checkout("target").join("clients/mcp-skills/bin/python");
    if !path.exists() {
        skipped("the MCP server needs Python 3.12 or later: see `cargo xtask servers`");
        return;
    }
    let port = free_port();
    let mut command = Command::new(path);
    command.arg(checkout("tests/clients/mcp-skills/serve.py"));
    command.arg(user.work().join("served")).arg(port.to_string());
    let _server = Server::start(&mut command, port, &user.root().join("mcp.log"));
    let source = format!("mcp+http://127.0.0.1:{port}/mcp");
    let found = succeeds(&user, &["search", "--remote", &source]);
    assert_eq!(found.lines().count(), 2, "{found}");
    succeeds(&user, &["add", &source, "--path", "sorter"]);
    assert_eq!(listed(&user), ["sorter"]);
    assert!(succeeds(&user, &["why", "sorter"]).contains("data.bin"));
    succeeds(&user, &["add", &source, "--path", "mailer"]);
    succeeds(&user, &["ci"]);
    // Its `allowed-tools` count for nothing, whatever the policy allows every skill.
    policy(&user, "default: { allow: [Read, Bash] }\n");
    let (code, _, stderr) = run(&user, &["run", "sorter", "sort.sh"]);
    assert_eq!(code, Some(77), "{stderr}");
    succeeds(&user, &["trust", "sorter"]);
    assert_eq!(succeeds(&user, &["run", "sorter", "sort.sh"]), "sorted\n");
}

#[test]
fn skills_of_our_own_mcp_server_are_added() {
    let user = user();
    script_skill(&user.work().join("served/sorter"), ("sort.sh", "echo sorted\n"));
    let port = free_port();
    let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
    let address = format!("127.0.0.1:{port}");
    command.args(["serve", "--listen", &address, "--no-token", "--skills", "served"]);
    let _server = Server::start(&mut command, port, &user.root().join("serve.log"));
    let other = super::user();
    succeeds(&other, &["add", &format!("mcp+http://{address}/mcp"), "--path", "sorter"]);
    assert_eq!(listed(&other), ["sorter"]);
}

#[test]
fn repository_for_the_npm_client_has_the_same_skills() {
    let user = user();
    repository(&user);
    script_skill(&user.work().join("repo/.claude/skills/hidden"), ("a.sh", "echo\n"));
    git(&user, "repo", &["add", "-A"]);
    git(&user, "repo", &["commit", "-q", "-m", "more"]);
    let client = fetched("clients/npm-skills/node_modules/skills/bin/cli.mjs");
    let output = user
        .command("node")
        .arg(client)
        .args(["add", "./repo", "--list"])
        .env("CI", "1")
        .env("DISABLE_TELEMETRY", "1")
        .env("DO_NOT_TRACK", "1")
        .env("PATH", std::env::var("PATH").unwrap())
        .output()
        .unwrap();
    let listed = format!("{}{}", text(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let url = format!("file://{}", user.work().join("repo").display());
    let found = succeeds(&user, &["search", "--remote", &url]);
    for name in ["one", "two", "hidden"] {
        assert!(listed.contains(name), "{name}: {listed}");
        assert!(found.contains(&format!("/{name}: ")), "{found}");
    }
    succeeds(&user, &["add", &url, "--all"]);
}
