//! Turns an outcome into the answer of a tool: the output, cut if it is long, the files that were
//! written, the denials and the usage.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Value, json};

use super::folders::Folder;
use super::hidden::HostPaths;
use super::run_results::{self, RunResults, STREAM, WrittenFile};
use super::writes::Diff;
use skillhost::invoke::Invocation;
use skillhost_policy::capabilities::{MountMode, PathAccess};
use skillhost_policy::outcome::{Outcome, Output, Status};
use skillhost_sandbox::files::{open_root, read_file};

/// The most bytes of a stream in an answer: as much as an agent can read at once.
pub(super) const SHOWN: usize = 16 << 10;
/// The most bytes of a typed tool's result in an answer. A longer one would not help an agent, and
/// every client would have to hold it.
const RESULT: usize = 256 << 10;
/// The most files, changes and denials that an answer lists.
const NAMED: usize = 100;

/// Returns an answer that is a text.
pub(super) fn said(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// Returns an answer that is an error. The agent can read it, and try something else.
pub(super) fn failed(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Returns the start of a text, and whether it was cut. Replaces invalid UTF-8.
pub(super) fn cut(bytes: &[u8], most: usize) -> (String, bool) {
    let is_cut = bytes.len() > most;
    let mut end = bytes.len().min(most);
    // Do not cut inside a character.
    while is_cut && end > 0 && bytes[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), is_cut)
}

/// An answer, and the results to keep, with their id.
pub(super) struct Answer {
    pub(super) result: CallToolResult,
    pub(super) kept: Option<(String, RunResults)>,
}

/// Creates the answer of `run_skill`.
pub(super) fn of_run(
    invoked: &Invocation,
    diff: Option<&Diff>,
    folder: Option<Arc<Folder>>,
    hidden: &HostPaths,
) -> Answer {
    let outcome = &invoked.finished.outcome;
    let id = run_results::id();
    let files = written(invoked);
    let links: Vec<Value> = files.iter().take(NAMED).map(|file| file_json(&id, file)).collect();
    let message = message(&outcome.status).map(|text| hidden.text(&text));
    let mut value = json!({
        "status": kind(&outcome.status),
        "exit_code": exit_code(&outcome.status),
        "files": links,
        "denials": outcome.denials.iter().take(NAMED).collect::<Vec<_>>(),
        "usage": outcome.usage,
    });
    if let Some(message) = &message {
        value["message"] = json!(message);
    }
    let mut content = Vec::new();
    if let Some(Diff { shown, whole }) = diff {
        value["changes"] = json!(outcome.changes.iter().take(NAMED).collect::<Vec<_>>());
        value["diff"] = json!(shown);
        if let Some((uri, bytes)) = whole {
            value["diff_uri"] = json!(uri);
            content.push(ContentBlock::text(format!(
                "[the diff has {bytes} bytes; read all of it at {uri}]"
            )));
        }
    }
    hidden.value(&mut value);
    let mut keeps = !files.is_empty();
    for (name, stream, bytes) in [
        ("stdout", &outcome.stdout, outcome.usage.stdout_bytes),
        ("stderr", &outcome.stderr, outcome.usage.stderr_bytes),
    ] {
        let (shown, is_cut) = cut(&stream.0, SHOWN);
        value[name] = json!(shown);
        if !shown.is_empty() {
            content.push(ContentBlock::text(if name == "stderr" {
                format!("[stderr]\n{shown}")
            } else {
                shown
            }));
        }
        if is_cut || std::str::from_utf8(&stream.0).is_err() {
            keeps = true;
            let uri = format!("run://{id}/{name}");
            value[format!("{name}_bytes")] = json!(bytes);
            value[format!("{name}_uri")] = json!(uri);
            content.push(ContentBlock::text(format!(
                "[{name} has {bytes} bytes; read all of it at {uri}]"
            )));
            content.push(ContentBlock::resource_link(
                Resource::new(uri, name).with_size(stream.0.len() as u64),
            ));
        }
    }
    content.extend(ending(outcome, message.as_deref(), hidden));
    for file in files.iter().take(NAMED) {
        let link = Resource::new(file_uri(&id, file), file.guest.clone()).with_size(file.size);
        content.push(ContentBlock::resource_link(link));
    }
    let mut result = CallToolResult::success(content);
    result.is_error = Some(outcome.status != Status::Exited { code: 0 });
    result.structured_content = Some(value);
    let stream = |output: &Output| output.0[..output.0.len().min(STREAM)].to_vec();
    let folder = folder.filter(|_| keeps && !files.is_empty());
    folder.iter().for_each(|folder| folder.unload());
    let kept = keeps.then(|| {
        (
            id,
            RunResults {
                stdout: stream(&outcome.stdout),
                stderr: stream(&outcome.stderr),
                files,
                _folder: folder,
                ..RunResults::default()
            },
        )
    });
    Answer { result, kept }
}

/// Creates the answer of a typed tool: its output, as JSON. Output that is too long is an error,
/// since an answer without it would not match the tool's schema; the complete output is a resource.
pub(super) fn of_tool(invoked: &Invocation, is_structured: bool, hidden: &HostPaths) -> Answer {
    let outcome = &invoked.finished.outcome;
    let result = match (&outcome.result, &outcome.error) {
        (Some(output), _) if outcome.status == (Status::Exited { code: 0 }) => {
            let text = output.to_string();
            if text.len() > RESULT {
                return too_long(text, outcome, hidden);
            }
            let mut result = said(text);
            result.content.extend(ending(outcome, None, hidden));
            result.structured_content =
                Some(output.clone()).filter(|output| is_structured && output.is_object());
            result
        }
        (_, Some(error)) => {
            with_ending(failed(cut(error.as_bytes(), SHOWN).0), outcome, None, hidden)
        }
        _ => {
            let message = message(&outcome.status).map(|text| hidden.text(&text));
            with_ending(
                failed(message.clone().unwrap_or_else(|| "the tool returned no output".into())),
                outcome,
                None,
                hidden,
            )
        }
    };
    Answer { result, kept: None }
}

fn too_long(text: String, outcome: &Outcome, hidden: &HostPaths) -> Answer {
    let id = run_results::id();
    let (bytes, uri) = (text.len(), format!("run://{id}/stdout"));
    let mut result = failed(cut(text.as_bytes(), SHOWN).0);
    result.content.push(ContentBlock::text(format!(
        "[the result has {bytes} bytes, more than the limit of {RESULT}; read all of it at {uri}]"
    )));
    result
        .content
        .push(ContentBlock::resource_link(Resource::new(uri, "result").with_size(bytes as u64)));
    let mut stdout = text.into_bytes();
    stdout.truncate(STREAM);
    Answer {
        result: with_ending(result, outcome, None, hidden),
        kept: Some((id, RunResults { stdout, ..RunResults::default() })),
    }
}

fn with_ending(
    mut result: CallToolResult,
    outcome: &Outcome,
    message: Option<&str>,
    hidden: &HostPaths,
) -> CallToolResult {
    result.content.extend(ending(outcome, message, hidden));
    result
}

/// Describes what an agent needs to know besides the output: why the run ended, and what was
/// refused.
fn ending(outcome: &Outcome, message: Option<&str>, hidden: &HostPaths) -> Option<ContentBlock> {
    let mut lines: Vec<String> =
        message.map(|message| format!("[{message}]")).into_iter().collect();
    for denial in outcome.denials.iter().take(NAMED) {
        let fix = denial.fix.as_ref().map_or(String::new(), |fix| {
            format!(" (the operator can allow it: {})", hidden.text(fix))
        });
        lines.push(format!(
            "[denied: {}: {}{fix}]",
            hidden.text(&denial.what),
            hidden.text(&denial.rule)
        ));
    }
    if let Some(hit) = outcome.limit_of_failed_program() {
        lines.push(format!("[a started program failed: {}]", hit.explain()));
    }
    (!lines.is_empty()).then(|| ContentBlock::text(lines.join("\n")))
}

/// Describes what went wrong, if anything.
pub(super) fn message(status: &Status) -> Option<String> {
    let with = |message: &str, fix: &Option<String>| match fix {
        Some(fix) => format!("{message}; {fix}"),
        None => message.to_owned(),
    };
    match status {
        Status::Exited { code: 0 } => None,
        Status::Exited { code } => Some(format!("it exited with code {code}")),
        Status::Denied(denial) => {
            Some(format!("denied: {}: {}", denial.what, with(&denial.rule, &denial.fix)))
        }
        Status::Invalid { message, fix } | Status::Failed { message, fix } => {
            Some(with(message, fix))
        }
        Status::LimitHit(hit) => Some(hit.explain()),
        Status::Trapped { message } => Some(format!("it trapped: {message}")),
        Status::Aborted { reason } => Some(format!("it was aborted: {reason}")),
        Status::Interrupted => Some("it was interrupted".into()),
    }
}

/// Returns a status as one word, as records name it.
pub(super) fn kind(status: &Status) -> &'static str {
    match status {
        Status::Exited { .. } => "exited",
        Status::Denied(_) => "denied",
        Status::Invalid { .. } => "invalid",
        Status::Failed { .. } => "failed",
        Status::LimitHit(_) => "limit-hit",
        Status::Trapped { .. } => "trapped",
        Status::Aborted { .. } => "aborted",
        Status::Interrupted => "interrupted",
    }
}

fn exit_code(status: &Status) -> Option<u8> {
    match status {
        Status::Exited { code } => Some(*code),
        _ => None,
    }
}

/// Returns the files that a run wrote and that can still be read. Files of an overlay are gone.
fn written(invoked: &Invocation) -> Vec<WrittenFile> {
    let mut found = Vec::new();
    for mount in
        invoked.grant.capabilities.mounts.iter().filter(|mount| mount.mode == MountMode::Write)
    {
        let below = format!("{}/", mount.guest);
        let touched = invoked
            .finished
            .outcome
            .files
            .iter()
            .filter(|(_, touched)| touched.written > 0 || touched.created || touched.resized);
        let mut touched =
            touched.filter_map(|(path, _)| Some((path, path.strip_prefix(&below)?))).peekable();
        if touched.peek().is_none() {
            continue;
        }
        let Ok(dir) = open_root(&mount.host) else { continue };
        let dir = Arc::new(dir);
        for (guest, path) in touched {
            // Skips folders, and files that the run removed again.
            let readable = invoked.grant.capabilities.path_access(mount, guest) >= PathAccess::Read;
            if let Ok(file) = read_file(dir.as_fd(), path)
                .map_err(std::io::Error::from)
                .and_then(|file| file.metadata())
                && file.is_file()
                && readable
            {
                found.push(WrittenFile {
                    guest: guest.clone(),
                    dir: dir.clone(),
                    path: path.to_owned(),
                    size: file.len(),
                });
            }
        }
    }
    found
}

fn file_uri(id: &str, file: &WrittenFile) -> String {
    format!("run://{id}/files{}", file.guest)
}

fn file_json(id: &str, file: &WrittenFile) -> Value {
    json!({ "path": file.guest, "size": file.size, "uri": file_uri(id, file) })
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aäb".as_bytes(), 2), ("a".into(), true));
        assert_eq!(cut("aäb".as_bytes(), 3), ("aä".into(), true));
        assert_eq!(cut("aäb".as_bytes(), 4), ("aäb".into(), false));
        assert_eq!(cut(b"\xff", 4), ("\u{fffd}".into(), false));
    }
}
