//! Tools with which an agent works in sessions: places that last for a task, in which it runs programs
//! and reads and writes files. They exist if the operator switches them on.

use std::collections::BTreeMap;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool as Definition, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::problem::{Problem, ProblemCode};
use super::api::sessions::AgentSessions;
use super::api::sessions::types::{
    EntryKind, FileList, ProgramRequest, SessionChanges, SessionInfo, SessionPolicy, SessionRequest,
};
use super::api::types::{FileSource, RunResult, RunTarget};
use super::definitions::{ACTIVATE, object};
use super::result::{SHOWN, cut, failed, message, said};
use super::session::Session;
use super::{Shared, result};
use skillhost_policy::outcome::{Output, Status};

const CREATE: &str = "create_session";
const RUN: &str = "run_in_session";
const READ: &str = "read_session_file";
const WRITE: &str = "write_session_file";
const LIST: &str = "list_session_files";
const DIFF: &str = "diff_session";
const FORK: &str = "fork_session";
const SNAPSHOT: &str = "snapshot_session";
const RESTORE: &str = "restore_session";
const END: &str = "end_session";

/// The most bytes of a file in an answer.
const FILE: usize = 64 << 10;
/// The most entries of a folder in an answer.
const ENTRIES: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    skills: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    deny: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    session: String,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    stdin: Option<String>,
    skill: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    session: String,
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    session: String,
    path: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    session: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Diff {
    session: String,
    #[serde(default)]
    accept: bool,
    #[serde(default)]
    drop: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    session: String,
    snapshot: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    session: String,
}

/// Checks whether a tool is one of these.
pub(super) fn is(name: &str) -> bool {
    [CREATE, RUN, READ, WRITE, LIST, DIFF, FORK, SNAPSHOT, RESTORE, END].contains(&name)
}

/// The tools of an agent. The first one is enough for an agent without sessions.
pub(super) fn definitions(has_sessions: bool) -> Vec<Definition> {
    let text = || json!({ "type": "string" });
    let texts = || json!({ "type": "array", "items": text() });
    let create = tool(
        CREATE,
        "Create a session with the permissions of activated skills: a /workspace and a /tmp that last for a task.",
        json!({
            "skills": texts(),
            "files": { "type": "object", "additionalProperties": text(), "description": "text files of /workspace, by path" },
            "deny": { "type": "array", "items": text(), "description": "permissions of the skills that the session does not get, such as `Write`" },
        }),
        &["skills"],
    );
    if !has_sessions {
        return vec![create];
    }
    let path = || json!({ "type": "string", "description": "in /workspace or /tmp" });
    vec![
        create,
        tool(
            RUN,
            "Run a program in a session, by `args` or as a shell `command`. Files stay for the next one.",
            json!({ "session": text(), "command": text(), "args": texts(), "stdin": text(), "skill": text() }),
            &["session"],
        ),
        looks(
            READ,
            "Read a text file of a session.",
            json!({ "session": text(), "path": path() }),
            &["session", "path"],
        ),
        tool(
            WRITE,
            "Write a text file of a session.",
            json!({ "session": text(), "path": path(), "content": text() }),
            &["session", "path", "content"],
        ),
        looks(
            LIST,
            "List a folder of a session.",
            json!({ "session": text(), "path": path(), "recursive": { "type": "boolean" } }),
            &["session"],
        ),
        tool(
            DIFF,
            "Show what a session changed in /workspace. With `accept`, the next diff starts from here; with `drop`, the changes are removed.",
            json!({ "session": text(), "accept": { "type": "boolean" }, "drop": { "type": "boolean" } }),
            &["session"],
        ),
        tool(
            FORK,
            "Create another session with the same files, to try something.",
            json!({ "session": text() }),
            &["session"],
        ),
        tool(
            SNAPSHOT,
            "Store the files of /workspace under a name, for `restore_session`.",
            json!({ "session": text() }),
            &["session"],
        ),
        tool(
            RESTORE,
            "Give /workspace the files of a snapshot, which may be of another session.",
            json!({ "session": text(), "snapshot": text() }),
            &["session", "snapshot"],
        ),
        tool(
            END,
            "End a session. Its files are removed.",
            json!({ "session": text() }),
            &["session"],
        ),
    ]
}

fn tool(
    name: &'static str,
    text: &'static str,
    properties: Value,
    required: &[&str],
) -> Definition {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    Definition::new(name, text, object(schema)).with_annotations(
        ToolAnnotations::new().read_only(false).destructive(true).open_world(name == RUN),
    )
}

fn looks(
    name: &'static str,
    text: &'static str,
    properties: Value,
    required: &[&str],
) -> Definition {
    tool(name, text, properties, required).with_annotations(ToolAnnotations::new().read_only(true))
}

impl Shared {
    /// Calls one of these tools. Returns its answer, and whether the agent has other tools now.
    pub(super) async fn call_in_session(
        &self,
        name: &str,
        arguments: Option<JsonObject>,
        agent: &Session,
        sessions: &AgentSessions,
    ) -> (CallToolResult, bool) {
        let before = sessions.is_empty();
        let answered = self.act(name, arguments.unwrap_or_default(), agent, sessions).await;
        (answered.unwrap_or_else(failed), before != sessions.is_empty())
    }

    async fn act(
        &self,
        name: &str,
        arguments: JsonObject,
        agent: &Session,
        sessions: &AgentSessions,
    ) -> Result<CallToolResult, String> {
        match name {
            CREATE => {
                let Create { skills, files, deny } = input(arguments)?;
                for skill in &skills {
                    let entry = self.entry_in(agent, skill).ok_or_else(|| self.no_skill(skill))?;
                    if agent.tools(&entry.name).is_none() {
                        return Err(format!(
                            "the skill `{}` is not activated: call {ACTIVATE} first",
                            entry.name
                        ));
                    }
                }
                let of_text = |text: String| FileSource {
                    digest: None,
                    content: Some(Output(text.into_bytes())),
                    executable: false,
                };
                let files = files.into_iter().map(|(path, text)| (path, of_text(text))).collect();
                let policy = SessionPolicy { deny, ..SessionPolicy::default() };
                let policy = Some(policy).filter(|policy| !policy.deny.is_empty());
                let request = SessionRequest { skills, files, policy, ..SessionRequest::default() };
                sessions.create(request).await.map(of_session).map_err(said_problem)
            }
            RUN => {
                let Run { session, command, args, stdin, skill } = input(arguments)?;
                let request = ProgramRequest {
                    skill,
                    target: command.map(RunTarget::Command),
                    args,
                    stdin: stdin.map(|text| Output(text.into_bytes())),
                    ..ProgramRequest::default()
                };
                sessions.run(&session, request).await.map(of_run).map_err(said_problem)
            }
            READ => {
                let File { session, path } = input(arguments)?;
                let (bytes, size) =
                    sessions.read(&session, path, FILE).await.map_err(said_problem)?;
                let text = String::from_utf8_lossy(&bytes);
                let is_text =
                    std::str::from_utf8(&bytes).map_or_else(|e| e.error_len().is_none(), |_| true);
                if !is_text {
                    return Err(format!("not text: a file of {size} bytes"));
                }
                let mut answer = said(text.trim_end_matches('\u{fffd}').to_owned());
                if size > bytes.len() as u64 {
                    let note = format!("[the file has {size} bytes; this is its start]");
                    answer.content.push(ContentBlock::text(note));
                }
                Ok(answer)
            }
            WRITE => {
                let Write { session, path, content } = input(arguments)?;
                let size = content.len();
                sessions.write(&session, path, content).await.map_err(said_problem)?;
                Ok(said(format!("wrote {size} bytes")))
            }
            LIST => {
                let List { session, path, recursive } = input(arguments)?;
                let found = sessions.list(&session, path, recursive).await;
                found.map(|found| said(listing(&found))).map_err(said_problem)
            }
            DIFF => {
                let Diff { session, accept, drop } = input(arguments)?;
                if accept && drop {
                    return Err("`accept` keeps the changes, and `drop` removes them".into());
                }
                let changes = sessions.diff(&session, accept).await.map_err(said_problem)?;
                if drop {
                    sessions.drop_changes(&session).await.map_err(said_problem)?;
                }
                Ok(of_diff(&changes))
            }
            FORK => {
                let Named { session } = input(arguments)?;
                sessions.fork(&session).await.map(of_session).map_err(said_problem)
            }
            SNAPSHOT => {
                let Named { session } = input(arguments)?;
                let info = sessions.snapshot(&session).await.map_err(said_problem)?;
                let text = format!("snapshot {}", info.tree);
                Ok(structured(text, json!({ "snapshot": info.tree, "files": info.files })))
            }
            RESTORE => {
                let Restore { session, snapshot } = input(arguments)?;
                sessions.restore(&session, snapshot).await.map_err(said_problem)?;
                Ok(said("restored".into()))
            }
            END => {
                let Named { session } = input(arguments)?;
                sessions.end(&session).await.map_err(said_problem)?;
                Ok(said("ended".into()))
            }
            _ => Err(format!("no tool `{name}`")),
        }
    }
}

fn input<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| format!("invalid arguments: {error}"))
}

/// What is wrong, in words that fit a tool.
fn said_problem(problem: Problem) -> String {
    match problem.code {
        ProblemCode::NotFound => "there is no such session or file".into(),
        ProblemCode::InvalidRequest => problem.detail,
        _ => format!("{}: {}", problem.title, problem.detail),
    }
}

fn structured(text: String, value: Value) -> CallToolResult {
    let mut result = said(text);
    result.structured_content = Some(value);
    result
}

fn of_session(info: SessionInfo) -> CallToolResult {
    // A session that has just been created has one.
    let expires = info.expires.unwrap_or_default();
    let text = format!("session {}, until {expires}", info.id);
    structured(text, json!({ "session": info.id, "expires": expires }))
}

fn of_run(ran: RunResult) -> CallToolResult {
    let outcome = ran.outcome.unwrap_or_default();
    let status: Option<Status> = serde_json::from_value(outcome["status"].clone()).ok();
    let status = status.unwrap_or_default();
    let mut value = json!({
        "status": result::kind(&status),
        "exit_code": ran.run.exit_code,
        "denials": outcome["denials"],
    });
    let mut content = Vec::new();
    for (name, was_cut) in [("stdout", ran.stdout_truncated), ("stderr", ran.stderr_truncated)] {
        let stream: Output = serde_json::from_value(outcome[name].clone()).unwrap_or_default();
        let (shown, is_cut) = cut(&stream.0, SHOWN);
        if !shown.is_empty() {
            let label = if name == "stderr" { "[stderr]\n" } else { "" };
            content.push(ContentBlock::text(format!("{label}{shown}")));
        }
        if is_cut || was_cut {
            let note = format!("[{name} is longer; write it to a file to read all of it]");
            content.push(ContentBlock::text(note));
        }
        value[name] = json!(shown);
    }
    if let Some(message) = message(&status) {
        content.push(ContentBlock::text(format!("[{message}]")));
        value["message"] = json!(message);
    }
    for denial in outcome["denials"].as_array().into_iter().flatten() {
        let part = |name: &str| denial[name].as_str().unwrap_or_default().to_owned();
        let fix = denial["fix"].as_str();
        let fix = fix.map(|fix| format!(" (the operator can allow it: {fix})"));
        let (what, rule) = (part("what"), part("rule"));
        let text = format!("[denied: {what}: {rule}{}]", fix.unwrap_or_default());
        content.push(ContentBlock::text(text));
    }
    let mut answer = CallToolResult::success(content);
    answer.is_error = Some(status != Status::Exited { code: 0 });
    answer.structured_content = Some(value);
    answer
}

fn of_diff(changes: &SessionChanges) -> CallToolResult {
    let (shown, is_cut) = cut(changes.diff.as_bytes(), FILE);
    let paths: Vec<&str> = changes.changes.iter().map(|change| &*change.path).collect();
    let text = match paths.is_empty() {
        true => "no changes".to_owned(),
        false => shown,
    };
    let mut answer = structured(text, json!({ "changes": paths }));
    if is_cut {
        answer.content.push(ContentBlock::text("[the diff is longer]"));
    }
    answer
}

fn listing(found: &FileList) -> String {
    let mut lines: Vec<String> = found
        .entries
        .iter()
        .take(ENTRIES)
        .map(|entry| match entry.kind {
            EntryKind::Folder => format!("{}/", entry.path),
            EntryKind::Link => format!("{}@", entry.path),
            EntryKind::File => format!("{}  {} bytes", entry.path, entry.bytes),
        })
        .collect();
    if found.entries.len() > ENTRIES {
        lines.push(format!("[{} more]", found.entries.len() - ENTRIES));
    }
    match lines.is_empty() {
        true => "empty".to_owned(),
        false => lines.join("\n"),
    }
}
