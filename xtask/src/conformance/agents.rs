//! `cargo xtask conformance agents`: connects skillhost to the command lines of real agents, and lets
//! them list their MCP servers.
//!
//! The agents are npm packages, pinned in `tests/clients/agents`. They run without network and with an
//! empty home folder, so they need no account.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use skillhost_toolchain::{Error, Progress};

use crate::{clients, print_line, workspace};

/// The command line of an agent.
struct Agent {
    /// The name that `skillhost connect` takes.
    name: &'static str,
    /// The program, in the folder of the packages.
    program: &'static str,
    runs_in_node: bool,
    /// What its listing says about a server that is connected.
    connected: &'static str,
}

const AGENTS: [Agent; 4] = [
    Agent { name: "claude-code", program: CLAUDE, runs_in_node: false, connected: "Connected" },
    Agent {
        name: "codex",
        program: "codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        runs_in_node: false,
        // It lists servers without starting them.
        connected: "enabled",
    },
    Agent {
        name: "gemini-cli",
        program: ".bin/gemini",
        runs_in_node: true,
        connected: "Connected",
    },
    Agent {
        name: "opencode",
        program: "opencode-linux-x64-baseline/bin/opencode",
        runs_in_node: false,
        connected: "connected",
    },
];

const CLAUDE: &str = "@anthropic-ai/claude-code-linux-x64/claude";

/// The time that a command of an agent may take, in seconds.
const TIMEOUT: &str = "120";

/// Lists the MCP servers of each agent before `skillhost connect`, after it, and after
/// `skillhost connect --remove`. Then installs the plugin into Claude Code.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    super::build_host(progress)?;
    clients::node("agents", progress)?;
    let trial = Trial {
        packages: clients::folder("agents").join("node_modules"),
        node: super::node(progress)?,
        home: clients::folder("agents").join("home"),
    };
    let mut failed = Vec::new();
    for agent in &AGENTS {
        match trial.connect(agent) {
            Ok(line) => print_line(format!("{}: {line}", agent.name)),
            Err(error) => failed.push(format!("{}: {error}", agent.name)),
        }
    }
    match trial.install_plugin() {
        Ok(line) => print_line(format!("the plugin in claude-code: {line}")),
        Err(error) => failed.push(format!("the plugin: {error}")),
    }
    if failed.is_empty() { Ok(()) } else { Err(Error::new(failed.join("\n"))) }
}

/// The agents' packages, and the home folder in which they run.
struct Trial {
    packages: PathBuf,
    node: PathBuf,
    home: PathBuf,
}

impl Trial {
    /// Returns the line in which the agent lists skillhost.
    fn connect(&self, agent: &Agent) -> Result<String, Error> {
        self.empty_home()?;
        let refuse =
            |when: &str, list: String| Err(Error::new(format!("{when}, it lists:\n{list}")));
        let before = self.list(agent)?;
        if listed(&before).is_some() {
            return refuse("before `connect`", before);
        }
        self.skillhost(&["connect", agent.name])?;
        let list = self.list(agent)?;
        let Some(line) = listed(&list).filter(|line| line.contains(agent.connected)) else {
            return refuse("after `connect`", list);
        };
        self.skillhost(&["connect", agent.name, "--remove"])?;
        let after = self.list(agent)?;
        if listed(&after).is_some() {
            return refuse("after `connect --remove`", after);
        }
        Ok(line)
    }

    /// Installs the plugin as a user does, and returns the line in which Claude Code lists its server.
    fn install_plugin(&self) -> Result<String, Error> {
        self.empty_home()?;
        let plugins = workspace::root().join("plugins");
        let claude = |args: &[&str]| self.run(Command::new(self.packages.join(CLAUDE)).args(args));
        let folder = plugins.to_string_lossy();
        claude(&["plugin", "validate", &folder])?;
        claude(&["plugin", "validate", &plugins.join("skillhost").to_string_lossy()])?;
        claude(&["plugin", "marketplace", "add", &folder])?;
        claude(&["plugin", "install", "skillhost@skillhost"])?;
        let list = claude(&["mcp", "list"])?;
        listed(&list)
            .filter(|line| line.contains("Connected"))
            .ok_or_else(|| Error::new(format!("it lists:\n{list}")))
    }

    fn empty_home(&self) -> Result<(), Error> {
        workspace::remove(&self.home)?;
        fs::create_dir_all(self.home.join("project")).map_err(Error::context(self.home.display()))
    }

    fn list(&self, agent: &Agent) -> Result<String, Error> {
        let program = self.packages.join(agent.program);
        let mut command = if agent.runs_in_node {
            let mut node = Command::new(&self.node);
            node.arg(program);
            node
        } else {
            Command::new(program)
        };
        self.run(command.args(["mcp", "list"]))
    }

    fn skillhost(&self, args: &[&str]) -> Result<String, Error> {
        self.run(Command::new(super::host()).args(args))
    }

    /// Runs a command in the project without network, and returns what it prints.
    fn run(&self, what: &Command) -> Result<String, Error> {
        let mut command = Command::new("timeout");
        command.args([TIMEOUT, "unshare", "--map-root-user", "--net", "--"]);
        command.arg(what.get_program());
        command.args(what.get_args()).current_dir(self.home.join("project"));
        let host = super::host();
        let folder = host.parent().unwrap_or(Path::new("")).display();
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", format!("{folder}:/usr/local/bin:/usr/bin:/bin"))
            .env("TERM", "dumb")
            .env("NO_COLOR", "1")
            // Gemini CLI starts no servers in a folder that its user has not confirmed.
            .env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        let output = command.stdin(Stdio::null()).output().map_err(|error| {
            Error::new(format!("timeout: {error}")).help("`apt install coreutils util-linux`")
        })?;
        let [stdout, stderr] = [output.stdout, output.stderr]
            .map(|bytes| anstream::adapter::strip_bytes(&bytes).into_vec())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if output.status.success() {
            return Ok(stdout + &stderr);
        }
        let program = what.get_program().display();
        Err(Error::new(format!("{program}: {}\n{stdout}{stderr}", output.status)))
    }
}

/// Returns the line of a listing that names skillhost as a server.
fn listed(list: &str) -> Option<String> {
    let names = |line: &&str| {
        let mut words = line.split_whitespace().map(|word| word.trim_end_matches(':'));
        // A mark may stand before the name.
        words.by_ref().take(3).any(|word| word == "skillhost" || word.ends_with(":skillhost"))
    };
    list.lines().find(names).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
}
