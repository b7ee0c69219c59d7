//! The clients, and where and how each configures an MCP server.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

/// The name of the server in every client.
pub(super) const SERVER: &str = "skillhost";

/// A client whose configuration `connect` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    ClaudeCode,
    Codex,
    GeminiCli,
    Cursor,
    #[value(name = "vscode")]
    VsCode,
    #[value(name = "opencode")]
    OpenCode,
    Zed,
    Goose,
}

/// Whose configuration is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Scope {
    /// The user's, for all projects.
    #[default]
    User,
    /// The current folder's, which is shared with everyone who works on it.
    Project,
}

/// The syntax of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// JSON, with comments and trailing commas where the client allows them.
    Json,
    Toml,
    Yaml,
}

/// The folders that configuration files lie in.
pub(super) struct Folders<'a> {
    pub(super) home: &'a Path,
    /// `$XDG_CONFIG_HOME`, by default `~/.config`.
    pub(super) config: &'a Path,
    /// `$CODEX_HOME`, by default `~/.codex`.
    pub(super) codex: PathBuf,
    pub(super) project: &'a Path,
}

impl Client {
    /// Returns the client's name for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Client::ClaudeCode => "Claude Code",
            Client::Codex => "Codex",
            Client::GeminiCli => "Gemini CLI",
            Client::Cursor => "Cursor",
            Client::VsCode => "VS Code",
            Client::OpenCode => "opencode",
            Client::Zed => "Zed",
            Client::Goose => "Goose",
        }
    }

    pub(super) fn syntax(self) -> Syntax {
        match self {
            Client::Codex => Syntax::Toml,
            Client::Goose => Syntax::Yaml,
            _ => Syntax::Json,
        }
    }

    /// Returns the file to change; `None` if the client has none for that scope. Of several
    /// spellings, the first that exists, else the first.
    pub(super) fn file(self, scope: Scope, folders: &Folders<'_>) -> Option<PathBuf> {
        let Folders { home, config, codex, project } = folders;
        let spellings: Vec<PathBuf> = match (self, scope) {
            (Client::ClaudeCode, Scope::User) => vec![home.join(".claude.json")],
            (Client::ClaudeCode, Scope::Project) => vec![project.join(".mcp.json")],
            (Client::Codex, Scope::User) => vec![codex.join("config.toml")],
            (Client::Codex, Scope::Project) => vec![project.join(".codex/config.toml")],
            (Client::GeminiCli, Scope::User) => vec![home.join(".gemini/settings.json")],
            (Client::GeminiCli, Scope::Project) => vec![project.join(".gemini/settings.json")],
            (Client::Cursor, Scope::User) => vec![home.join(".cursor/mcp.json")],
            (Client::Cursor, Scope::Project) => vec![project.join(".cursor/mcp.json")],
            (Client::VsCode, Scope::User) => vec![config.join("Code/User/mcp.json")],
            (Client::VsCode, Scope::Project) => vec![project.join(".vscode/mcp.json")],
            (Client::OpenCode, Scope::User) => {
                ["opencode.json", "opencode.jsonc"].map(|f| config.join("opencode").join(f)).into()
            }
            (Client::OpenCode, Scope::Project) => {
                ["opencode.json", "opencode.jsonc"].map(|file| project.join(file)).into()
            }
            (Client::Zed, Scope::User) => vec![config.join("zed/settings.json")],
            (Client::Zed, Scope::Project) => vec![project.join(".zed/settings.json")],
            (Client::Goose, Scope::User) => vec![config.join("goose/config.yaml")],
            (Client::Goose, Scope::Project) => return None,
        };
        spellings.iter().find(|file| file.exists()).or(spellings.first()).cloned()
    }

    /// Returns the key of the table of servers.
    pub(super) fn table(self) -> &'static str {
        match self {
            Client::ClaudeCode | Client::GeminiCli | Client::Cursor => "mcpServers",
            Client::Codex => "mcp_servers",
            Client::VsCode => "servers",
            Client::OpenCode => "mcp",
            Client::Zed => "context_servers",
            Client::Goose => "extensions",
        }
    }

    /// Returns the entry of a server that this command line starts.
    pub(super) fn entry(self, program: &str, args: &[String]) -> Value {
        match self {
            Client::ClaudeCode | Client::VsCode => {
                json!({ "type": "stdio", "command": program, "args": args })
            }
            Client::Codex | Client::GeminiCli | Client::Cursor | Client::Zed => {
                json!({ "command": program, "args": args })
            }
            Client::OpenCode => {
                let line: Vec<&str> =
                    [program].into_iter().chain(args.iter().map(String::as_str)).collect();
                json!({ "type": "local", "command": line, "enabled": true })
            }
            Client::Goose => json!({
                "name": SERVER,
                "type": "stdio",
                "cmd": program,
                "args": args,
                "enabled": true,
                "timeout": 300,
            }),
        }
    }
}
