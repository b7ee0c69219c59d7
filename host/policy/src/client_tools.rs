//! The names that other clients give to tools, and what they mean here.
//!
//! A skill that was written for another client requests permissions under that client's names:
//! `run_shell_command` instead of `Bash`. Such an entry requests the same permission, but only a run
//! that the operator approves is granted it ([`ClientNames`](super::ClientNames)): a newer version
//! of this table must not silently widen what an approved skill may do.

use super::entry::{self, EntryList, Permission};

/// What a tool of another client means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Reads files: `Read`.
    Read,
    /// Writes files: `Write`.
    Write,
    /// Runs commands: `Bash`.
    Bash,
    /// Sends requests to hosts that the model chooses: `WebFetch`.
    WebFetch,
    /// Asks a search engine. A search engine has no host that an entry could name.
    WebSearch,
    /// Concerns the client itself, such as its task list. No program in the sandbox can use it.
    OfClient,
    /// Clients use the name for different things.
    Ambiguous,
}

/// The tools of one client.
#[derive(Debug)]
pub struct Client {
    /// The client's name.
    pub name: &'static str,
    /// Where the client documents its tools.
    pub source: &'static str,
    /// What its names mean.
    pub tools: &'static [(Meaning, &'static [&'static str])],
}

/// Names that clients, or other programs that agents know well, use for different things.
pub const AMBIGUOUS: [&str; 16] = [
    "read", "write", "edit", "search", "list", "view", "create", "patch", "replace", "execute",
    "run", "web", "open", "find", "code", "file",
];

/// The clients whose names are known.
pub const CLIENTS: [Client; 7] = [
    Client {
        name: "Claude Code",
        source: "https://code.claude.com/docs/en/settings#tools-available-to-claude",
        tools: &[
            (Meaning::WebSearch, &["WebSearch"]),
            (
                Meaning::OfClient,
                &[
                    "Agent",
                    "AskUserQuestion",
                    "BashOutput",
                    "EnterPlanMode",
                    "ExitPlanMode",
                    "KillBash",
                    "KillShell",
                    "LSP",
                    "Skill",
                    "SlashCommand",
                    "Task",
                    "TaskOutput",
                    "TodoRead",
                    "TodoWrite",
                    "ToolSearch",
                ],
            ),
        ],
    },
    Client {
        name: "Codex",
        source: "https://github.com/openai/codex",
        tools: &[
            (Meaning::Read, &["read_file", "list_dir", "grep_files", "view_image"]),
            (Meaning::Write, &["apply_patch"]),
            (Meaning::Bash, &["shell", "local_shell", "shell_command", "exec_command"]),
            (Meaning::WebSearch, &["web_search"]),
            (Meaning::OfClient, &["update_plan", "write_stdin"]),
        ],
    },
    Client {
        name: "Gemini CLI",
        source: "https://geminicli.com/docs/reference/tools/",
        tools: &[
            (
                Meaning::Read,
                &[
                    "glob",
                    "grep_search",
                    "list_directory",
                    "read_file",
                    "read_many_files",
                    "search_file_content",
                ],
            ),
            (Meaning::Write, &["write_file"]),
            (Meaning::Bash, &["run_shell_command"]),
            (Meaning::WebFetch, &["web_fetch"]),
            (Meaning::WebSearch, &["google_web_search"]),
            (Meaning::OfClient, &["activate_skill", "ask_user", "save_memory", "write_todos"]),
        ],
    },
    Client {
        name: "GitHub Copilot",
        source: "https://docs.github.com/en/copilot/reference/custom-agents-configuration#tools",
        tools: &[
            (
                Meaning::Read,
                &[
                    "fileSearch",
                    "file_search",
                    "grep_search",
                    "listDirectory",
                    "list_dir",
                    "readFile",
                    "read_file",
                    "textSearch",
                ],
            ),
            (Meaning::Write, &["createFile", "create_file", "editFiles", "insert_edit_into_file"]),
            (Meaning::Bash, &["bash", "runCommands", "runInTerminal", "run_in_terminal", "shell"]),
            (Meaning::WebFetch, &["fetch", "fetch_webpage"]),
            (Meaning::OfClient, &["agent", "codebase", "custom-agent", "todo", "todos"]),
        ],
    },
    Client {
        name: "opencode",
        source: "https://opencode.ai/docs/tools",
        tools: &[
            (Meaning::Read, &["glob", "grep"]),
            (Meaning::Write, &["apply_patch"]),
            (Meaning::Bash, &["bash"]),
            (Meaning::WebFetch, &["webfetch"]),
            (Meaning::WebSearch, &["codesearch", "websearch"]),
            (Meaning::OfClient, &["lsp", "question", "skill", "task", "todoread", "todowrite"]),
        ],
    },
    Client {
        name: "Cursor",
        source: "https://cursor.com/docs/cli/reference/permissions",
        tools: &[
            (Meaning::Read, &["file_search", "grep_search", "list_dir", "read_file"]),
            (Meaning::Write, &["delete_file", "edit_file", "search_replace"]),
            (Meaning::Bash, &["Shell", "run_terminal_cmd"]),
            (Meaning::WebSearch, &["web_search"]),
            (Meaning::OfClient, &["codebase_search", "fetch_rules"]),
        ],
    },
    Client {
        name: "other clients",
        source: "",
        tools: &[
            (Meaning::Read, &["list_files", "ls", "read_files", "search_files"]),
            (
                Meaning::Write,
                &[
                    "create_directory",
                    "multi_edit",
                    "replace_in_file",
                    "update_file",
                    "write_to_file",
                ],
            ),
            (
                Meaning::Bash,
                &[
                    "execute_bash",
                    "execute_command",
                    "run_bash",
                    "run_command",
                    "run_shell",
                    "terminal",
                ],
            ),
            (Meaning::WebFetch, &["Fetch", "fetch_url", "url_fetch"]),
        ],
    },
];

/// A name that is not ours, and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientTool {
    /// The first client in [`CLIENTS`] that uses the name; `None` for an ambiguous name.
    pub client: Option<&'static str>,
    /// What the name means.
    pub meaning: Meaning,
}

/// Looks a name up. Case matters, as it does to the clients.
pub fn find(name: &str) -> Option<ClientTool> {
    if AMBIGUOUS.contains(&name) {
        return Some(ClientTool { client: None, meaning: Meaning::Ambiguous });
    }
    CLIENTS.iter().find_map(|client| {
        let (meaning, _) = client.tools.iter().find(|(_, names)| names.contains(&name))?;
        Some(ClientTool { client: Some(client.name), meaning: *meaning })
    })
}

impl Meaning {
    /// Returns our name for the tool, if an entry can grant it.
    pub fn own_name(self) -> Option<&'static str> {
        match self {
            Meaning::Read => Some("Read"),
            Meaning::Write => Some("Write"),
            Meaning::Bash => Some("Bash"),
            Meaning::WebFetch => Some("WebFetch"),
            Meaning::WebSearch | Meaning::OfClient | Meaning::Ambiguous => None,
        }
    }

    /// Returns the permission that the name requests. Names of other clients stand for the whole
    /// tool: their arguments follow rules of their own, which nothing here enforces.
    pub fn permission(self) -> Option<Permission> {
        self.own_name().map(|own| entry::parse(own, EntryList::AllowedTools))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name of every client.
    fn names() -> impl Iterator<Item = &'static str> {
        CLIENTS.iter().flat_map(|client| client.tools).flat_map(|(_, names)| *names).copied()
    }

    #[test]
    fn names_mean_one_thing_in_every_client() {
        for name in names() {
            assert!(!AMBIGUOUS.contains(&name), "{name} is ambiguous and mapped");
            let mut meanings: Vec<String> = CLIENTS
                .iter()
                .flat_map(|client| client.tools)
                .filter(|(_, names)| names.contains(&name))
                .map(|(meaning, _)| format!("{meaning:?}"))
                .collect();
            meanings.dedup();
            assert_eq!(meanings.len(), 1, "{name}: {meanings:?}");
        }
    }

    #[test]
    fn own_names_are_not_in_the_table() {
        for own in ["Read", "Glob", "Grep", "LS", "Write", "Edit", "MultiEdit", "Bash", "WebFetch"]
        {
            assert_eq!(find(own), None, "{own}");
        }
    }
}
