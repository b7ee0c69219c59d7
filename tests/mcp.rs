//! `skillhost mcp` and `skillhost serve` as clients see them: the real binary, over its pipes and
//! sockets.

mod approval;
mod clients;
mod disclosure;
mod extension;
pub mod http;
mod limits;
mod listing;
mod prompts;
mod secrets;
mod security;
mod session;
mod sessions;
mod traces;
mod usage;
mod users;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost_sandbox::{Tool, with_listing};

use crate::cli::{User, repository};
use crate::hostile_host::HANG_TIMEOUT;

/// Protocol revisions: with a handshake, and without.
pub const OLD: &str = "2025-11-25";
pub const NEW: &str = "2026-07-28";

/// The component of `calculator` as `skillhost build` writes it, with the list of its tools.
pub static CALCULATOR: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let skill = repository("skills/calculator");
    let inspect = Command::new(env!("CARGO_BIN_EXE_skillhost"))
        .args(["inspect", "--json"])
        .arg(&skill)
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&inspect.stdout)
        .unwrap_or_else(|error| panic!("{error}: {inspect:?}"));
    let tools: Vec<Tool> = serde_json::from_value(found["tools"].clone()).unwrap();
    with_listing(&std::fs::read(skill.join("calculator.wasm")).unwrap(), &tools).unwrap()
});

/// The line of a policy that trusts the skills of a [`Place`].
pub const TRUSTED: &str = "skill-folders: [~/.claude/skills]\n";

/// A user's skills, and the settings of a server of them.
pub struct Place {
    pub user: User,
}

impl Place {
    /// Creates the skills `calculator` (typed tools), `scribe` (shell scripts, may not write),
    /// `writer` (may write) and `loud`.
    pub fn new() -> Place {
        // A skill that others can write is not trusted, and the umask may allow its group to.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let place = Place { user: User::new() };
        place.write(
            "calculator/SKILL.md",
            std::fs::read(repository("skills/calculator/SKILL.md")).unwrap(),
        );
        place.write("calculator/calculator.wasm", &*CALCULATOR);
        place.skill(
            "scribe",
            "allowed-tools: Read Bash\nmetadata:\n  category: office",
            "Read `references/guide.md`, then run `scripts/note.sh`.",
        );
        place.write(
            "scribe/scripts/note.sh",
            // A run that ends at once may end before it reports any progress.
            "#!/bin/bash\necho \"note: $*\"; cat\necho told >&2\nsleep 0.1\n",
        );
        place.write("scribe/scripts/write.sh", "#!/bin/bash\necho secret > /workspace/out.txt\n");
        place.write("scribe/scripts/wait.sh", "#!/bin/bash\necho started\nsleep 3000\n");
        place.write("scribe/references/guide.md", "one\ntwo\nthree\nfour\n");
        place.write("scribe/logo.png", b"\x89PNG\xff\xfe");
        place.skill("writer", "allowed-tools: Read Write Bash", "Run `scripts/write.sh`.");
        place.write(
            "writer/scripts/write.sh",
            "#!/bin/bash\nmkdir -p /workspace/sub\ncat > /workspace/sub/out.txt\ncat /workspace/in.txt 2>/dev/null || true\n",
        );
        place.skill("loud", "allowed-tools: Bash", "Run `scripts/shout.sh LINES`.");
        // The operator trusts the folder. Untrusted skills have tests of their own.
        let config = place.user.home().join(".config/skillhost");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(
            config.join("policy.yaml"),
            format!("default: {{ allow: [Read, Write, Bash] }}\n{TRUSTED}"),
        )
        .unwrap();
        place.write(
            "loud/scripts/shout.sh",
            "#!/bin/bash\nfor ((i = 0; i < $1; i++)); do echo \"line $i of many\"; done\n",
        );
        place
    }

    pub fn skills(&self) -> PathBuf {
        self.user.home().join(".claude/skills")
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.skills().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn skill(&self, name: &str, more: &str, body: &str) {
        let text = format!(
            "---\nname: {name}\ndescription: The {name} of the tests. Use to test {name}.\n{more}\n---\n\n# {name}\n\n{body}\n"
        );
        self.write(&format!("{name}/SKILL.md"), text);
    }

    /// The command of a server, with the skills and the real programs.
    pub fn server(&self, verb: &str, args: &[&str]) -> Command {
        let mut command = self.user.command(env!("CARGO_BIN_EXE_skillhost"));
        // Compiled once for all runs of the tests.
        command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")));
        command.arg(verb).arg("--programs").arg(repository("target").join("components")).args(args);
        command
    }

    /// The built-in policy, except that clients' users may approve runs.
    pub fn asking_clients(&self) -> String {
        let policy = self.user.work().join("asking.yaml");
        let text = "default:\n  allow: [Read, Write, Bash]\nclients: { stdio: { ask: client }, http: { ask: client } }\n";
        std::fs::write(&policy, format!("{TRUSTED}{text}")).unwrap();
        policy.to_str().unwrap().to_owned()
    }

    /// A connected client.
    pub fn agent(&self, revision: &'static str, args: &[&str]) -> Agent {
        Agent::new(&mut self.server("mcp", args), revision, &json!({}))
    }
}

/// A client that sends exactly what a test says.
pub struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    pub revision: &'static str,
    /// The result of the handshake, if there was one.
    pub welcome: Value,
    last: u64,
    /// Messages that were not answers.
    pub notifications: Vec<Value>,
    pub requests: Vec<Value>,
}

impl Agent {
    pub fn new(command: &mut Command, revision: &'static str, capabilities: &Value) -> Agent {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            drop(stderr.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let stdin = child.stdin.take();
        let mut agent = Agent {
            child,
            stdin,
            lines,
            stderr: Some(stderr),
            revision,
            welcome: Value::Null,
            last: 0,
            notifications: Vec::new(),
            requests: Vec::new(),
        };
        if revision < NEW {
            let client = json!({ "name": "test", "version": "1" });
            agent.welcome = agent.ok("initialize", json!({ "protocolVersion": revision, "capabilities": capabilities, "clientInfo": client }));
            agent.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        agent
    }

    pub fn say(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request, and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.say(&request(self.revision, self.last, method, params));
        self.last
    }

    /// Returns the next message.
    pub fn next_message(&mut self) -> Value {
        let line = self.lines.recv_timeout(HANG_TIMEOUT).expect("the server answers");
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("not a message on stdout: {line}: {error}"))
    }

    /// Returns the answer to a request, and keeps the messages before it.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next_message();
            match (&message["id"], message.get("method")) {
                (Value::Number(number), None) if number.as_u64() == Some(id) => return message,
                (Value::Null, _) => self.notifications.push(message),
                (_, Some(_)) => self.requests.push(message),
                other => panic!("an answer without a request: {other:?}"),
            }
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Returns the result of a successful request.
    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Returns the result of a tool call with complete parameters.
    pub fn ok_as_written(&mut self, params: Value) -> Value {
        self.last += 1;
        self.say(
            &json!({ "jsonrpc": "2.0", "id": self.last, "method": "tools/call", "params": params }),
        );
        let answer = self.answer(self.last);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Returns the error code of a failing request.
    pub fn fails(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.request(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method} succeeds: {answer}"))
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ok("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Returns the names of the current tools.
    pub fn tools(&mut self) -> Vec<String> {
        let tools = self.ok("tools/list", json!({}));
        tools["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits for a notification of this method.
    pub fn notification(&mut self, method: &str) -> Value {
        let started = Instant::now();
        loop {
            if let Some(at) =
                self.notifications.iter().position(|message| message["method"] == method)
            {
                return self.notifications.remove(at);
            }
            assert!(started.elapsed() < HANG_TIMEOUT, "{method} does not arrive");
            let message = self.next_message();
            self.notifications.push(message);
        }
    }

    /// Disconnects, and returns what the server wrote to stderr. The server must exit with 0.
    pub fn close(mut self) -> String {
        drop(self.stdin.take());
        let log = self.stderr.take().unwrap().join().unwrap();
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The test may have closed it already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Formats a request as a client of this revision does.
pub fn request(revision: &str, id: u64, method: &str, mut params: Value) -> Value {
    if revision >= NEW {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(revision);
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({ "name": "test", "version": "1" });
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Returns all text of an answer.
pub fn answer_text(result: &Value) -> String {
    let content = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
    content.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Waits until the condition holds.
pub fn becomes(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < HANG_TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
