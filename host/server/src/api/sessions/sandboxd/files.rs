//! Files of the workspace, over REST: `filesystem.v1`.

use std::io::Read as _;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;
use rustix::fs::FileType;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tonic::body::Body;

use super::super::super::Answered;
use super::super::super::logs::too_many;
use super::super::super::problem::{Problem, ProblemCode};
use super::super::super::routes::Query;
use super::super::super::tenant::Tenant;
use super::super::super::uploads::blocking;
use super::super::Session;
use super::super::files::{ENTRIES, View};
use super::{Sandbox, SandboxAnswer, of_json};
use crate::skills::decoded;
use skillhost_policy::WORKSPACE;
use skillhost_sandbox::files::stays_inside;

/// The bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Forms that are taken apart at once: one whose parts have no end is in memory as a whole.
static FORMS: Semaphore = Semaphore::const_new(2);
/// The permission bits of files and folders for which none were set.
const BITS: (u32, u32) = (0o644, 0o755);

/// The entries of a folder.
#[derive(Serialize)]
struct Listing {
    path: String,
    entries: Vec<Entry>,
}

/// An entry of a folder.
#[derive(Serialize)]
struct Entry {
    name: String,
    size: u64,
    #[serde(rename = "type")]
    kind: &'static str,
    modified_at: String,
    mode: String,
}

/// Answers a request.
pub(super) async fn answer(
    sandbox: Sandbox,
    head: &Parts,
    body: Incoming,
) -> Answered<SandboxAnswer> {
    let path = head.uri.path();
    if path == "/v1/metadata" {
        only(head, &[Method::GET])?;
        let env = json!({ "SANDBOX_ID": sandbox.session.id, "SANDBOX_WORKSPACE": WORKSPACE });
        return Ok(of_json(StatusCode::OK, &json!({ "env": env })));
    }
    let rest = path
        .strip_prefix("/v1/files")
        .and_then(|rest| if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') });
    let Some(rest) = rest else {
        return Err(Problem::new(
            ProblemCode::NotFound,
            "the paths are /v1/files/PATH, /v1/health and /v1/metadata",
        ));
    };
    only(head, &[Method::GET, Method::HEAD, Method::PUT, Method::DELETE])?;
    let path =
        decoded(rest).ok_or_else(|| Problem::invalid("the path is not percent-encoded UTF-8"))?;
    let path = inside(&path)?;
    match head.method {
        Method::PUT => put(&sandbox, path, head, body).await,
        Method::DELETE => delete(&sandbox, path, head).await,
        _ => get(&sandbox, path, head.method == Method::HEAD).await,
    }
}

/// Returns the path below the workspace that a path of a client names. An absolute path is one of the
/// workspace too. What leads out of it by its text is denied; the file layer sees to the rest.
pub(super) fn inside(path: &str) -> Answered<String> {
    let below = match path.strip_prefix(WORKSPACE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => path,
    };
    let mut parts = Vec::new();
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                let outside =
                    || Problem::new(ProblemCode::FileDenied, "the path leads out of the workspace");
                parts.pop().ok_or_else(outside)?;
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

fn only(head: &Parts, methods: &[Method]) -> Answered<()> {
    match methods.contains(&head.method) {
        true => Ok(()),
        false => {
            let detail = "the path does not have this method";
            Err(Problem::new(ProblemCode::MethodNotAllowed, detail))
        }
    }
}

/// Does something with the workspace, off the event loop.
async fn within<T: Send + 'static>(
    sandbox: &Sandbox,
    path: String,
    act: impl FnOnce(&View, &str) -> Answered<T> + Send + 'static,
) -> Answered<T> {
    let guard = sandbox.session.enter().await?;
    let session = sandbox.session.clone();
    blocking(move || {
        let _guard = guard;
        let (view, path) = open(&session, &path)?;
        act(&view, &path).map_err(|problem| refusal(problem, &view, &path))
    })
    .await
}

/// What does not exist because a symlink leads out of the sandbox is denied.
fn refusal(problem: Problem, view: &View, path: &str) -> Problem {
    let leads_out = |path: &str| {
        let found = view.look(path, false).ok().flatten();
        let is_link = found.is_some_and(|found| found.kind == FileType::Symlink);
        let target = if is_link { view.read_link(path).unwrap_or_default() } else { String::new() };
        match target.strip_prefix('/') {
            Some(rest) => {
                let top = rest.split('/').next().unwrap_or_default();
                top != "tmp" && format!("/{top}") != WORKSPACE
            }
            None => !target.is_empty() && !stays_inside(path, &target),
        }
    };
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    match problem.code == ProblemCode::NotFound && ends.map(|end| &path[..end]).any(leads_out) {
        true => Problem::new(ProblemCode::FileDenied, "a symlink leads out of the workspace"),
        false => problem,
    }
}

fn open(session: &Arc<Session>, path: &str) -> Answered<(View, String)> {
    View::find(session, &format!("{WORKSPACE}/{path}"))
}

async fn get(sandbox: &Sandbox, path: String, is_head: bool) -> Answered<SandboxAnswer> {
    let shown = format!("/{path}");
    let found = within(sandbox, path.clone(), move |view, path| {
        let found = view.look(path, true)?.ok_or_else(missing)?;
        Ok(match found.kind {
            FileType::Directory if is_head => Err(None),
            FileType::Directory => Err(Some(listing(view, path, shown)?)),
            _ => Ok(found.size),
        })
    })
    .await?;
    match found {
        Err(Some(listing)) => Ok(of_json(StatusCode::OK, &listing)),
        Err(None) => Ok(of_head("application/json", None)),
        Ok(size) if is_head => Ok(of_head("application/octet-stream", Some(size))),
        Ok(_) => {
            let path = format!("{WORKSPACE}/{path}");
            let file = sandbox.api.get_file(&sandbox.tenant, &sandbox.session, path).await?;
            Ok(file.map(Body::new))
        }
    }
}

fn of_head(kind: &'static str, size: Option<u64>) -> SandboxAnswer {
    let mut answer = Response::new(Body::empty());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(size) = size {
        answer.headers_mut().insert(CONTENT_LENGTH, size.into());
    }
    answer
}

/// Lists a folder. Symlinks are what they lead to, and absent if they lead nowhere.
fn listing(view: &View, folder: &str, shown: String) -> Answered<Listing> {
    let mut entries = Vec::new();
    let found = view.entries(folder)?;
    if found.len() > ENTRIES {
        let detail = format!("the folder has more than {ENTRIES} entries");
        return Err(Problem::new(ProblemCode::FileConflict, detail));
    }
    for (name, _) in found {
        let path = if folder == "." { name.clone() } else { format!("{folder}/{name}") };
        // It may have been removed meanwhile.
        let Ok(Some(found)) = view.look(&path, true) else { continue };
        let is_folder = found.kind == FileType::Directory;
        let bits = view.mode(&path).unwrap_or(if is_folder { BITS.1 } else { BITS.0 });
        entries.push(Entry {
            name,
            size: found.size,
            kind: if is_folder { "directory" } else { "file" },
            modified_at: jiff::Timestamp::from_second(found.modified.0)
                .map_or_else(|_| String::new(), |at| at.to_string()),
            mode: format!("{:04o}", bits & 0o777),
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Listing { path: shown, entries })
}

async fn put(
    sandbox: &Sandbox,
    path: String,
    head: &Parts,
    body: Incoming,
) -> Answered<SandboxAnswer> {
    let mode = match Query::of(head, &["mode"])?.get("mode") {
        None => None,
        Some(text) => Some(bits(text).ok_or_else(|| {
            Problem::invalid("`mode` has four octal digits, of which the first is 0")
        })?),
    };
    let _open = sandbox.tenant.open_stream().ok_or_else(too_many)?;
    if within(sandbox, path.clone(), is_folder).await? {
        return Err(Problem::invalid("the path is a folder"));
    }
    let (upload, _coming) = sandbox.api.receive(&sandbox.tenant, head, body).await?;
    let (mut from, mut size) =
        (upload.reopen().map_err(|error| Problem::internal(&error))?, upload.bytes);
    if let Some(boundary) = boundary(head) {
        (from, size) = file_of_form(sandbox, from, boundary?).await?;
    }
    within(sandbox, path, move |view, path| view.replace(path, &from, size, mode)).await?;
    Ok(no_content())
}

fn is_folder(view: &View, path: &str) -> Answered<bool> {
    Ok(view.look(path, true)?.is_some_and(|found| found.kind == FileType::Directory))
}

/// Parses permission bits.
fn bits(text: &str) -> Option<u32> {
    let is_valid = text.len() == 4
        && text.starts_with('0')
        && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    is_valid.then(|| u32::from_str_radix(text, 8).ok()).flatten()
}

/// Returns the boundary of the parts of a form, if the body is one.
fn boundary(head: &Parts) -> Option<Answered<String>> {
    let kind = head.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let is_form = kind.trim_start().to_ascii_lowercase().starts_with("multipart/form-data");
    is_form.then(|| {
        multer::parse_boundary(kind)
            .map_err(|_| Problem::invalid("the Content-Type has no valid boundary"))
    })
}

/// Returns the part `file` of a form that has arrived, as a file of its own.
async fn file_of_form(
    sandbox: &Sandbox,
    form: std::fs::File,
    boundary: String,
) -> Answered<(std::fs::File, u64)> {
    let _place = FORMS.acquire().await.map_err(|error| Problem::internal(&error))?;
    let (tenant, event_loop) = (sandbox.tenant.clone(), tokio::runtime::Handle::current());
    blocking(move || event_loop.block_on(part(&tenant, form, boundary))).await
}

async fn part(
    tenant: &Tenant,
    form: std::fs::File,
    boundary: String,
) -> Answered<(std::fs::File, u64)> {
    let chunks = stream::unfold(form, |mut form| async move {
        // Otherwise everything that is ready would be in memory at once.
        tokio::task::yield_now().await;
        let mut chunk = vec![0; CHUNK];
        match form.read(&mut chunk) {
            Ok(0) => None,
            Ok(count) => {
                chunk.truncate(count);
                Some((Ok(Bytes::from(chunk)), form))
            }
            Err(error) => Some((Err(error), form)),
        }
    });
    let wrong = |_| Problem::invalid("the body is not a valid form");
    let mut parts = multer::Multipart::new(Box::pin(chunks), boundary);
    while let Some(mut field) = parts.next_field().await.map_err(wrong)? {
        if field.name() != Some("file") {
            continue;
        }
        let mut upload = tenant.state.upload().map_err(|error| Problem::internal(&error))?;
        while let Some(chunk) = field.chunk().await.map_err(wrong)? {
            upload.write(&chunk).map_err(|error| Problem::internal(&error))?;
        }
        let file = upload.reopen().map_err(|error| Problem::internal(&error))?;
        // The open file outlives its name, which is removed here.
        return Ok((file, upload.bytes));
    }
    Err(Problem::invalid("the form has no part `file`"))
}

async fn delete(sandbox: &Sandbox, path: String, head: &Parts) -> Answered<SandboxAnswer> {
    let is_recursive = match Query::of(head, &["recursive"])?.get("recursive") {
        None | Some("" | "0" | "f" | "F" | "false" | "FALSE" | "False") => false,
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
        Some(_) => return Err(Problem::invalid("`recursive` is a boolean")),
    };
    if path.is_empty() {
        // The folder itself stays.
        if !is_recursive {
            let detail = "the workspace cannot be removed; `recursive=true` empties it";
            return Err(Problem::new(ProblemCode::FileConflict, detail));
        }
        within(sandbox, path, |view, _| view.remove_below("")).await?;
        return Ok(no_content());
    }
    let guest = format!("{WORKSPACE}/{path}");
    match sandbox.api.remove_file(&sandbox.session, guest, is_recursive).await {
        Ok(()) => Ok(no_content()),
        Err(problem) => within(sandbox, path, |_, _| Err(problem)).await,
    }
}

fn no_content() -> SandboxAnswer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

fn missing() -> Problem {
    Problem::new(ProblemCode::NotFound, "the path does not exist within the sandbox")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_leave_the_workspace_by_its_text() {
        for (path, expected) in [
            ("", ""),
            ("/", ""),
            ("a/b.txt", "a/b.txt"),
            ("/workspace/a", "a"),
            ("/workspace", ""),
            ("/workspaces/a", "workspaces/a"),
            ("/etc/passwd", "etc/passwd"),
            ("a//./b/", "a/b"),
            ("a/../b", "b"),
        ] {
            assert_eq!(inside(path).unwrap(), expected, "{path}");
        }
        for path in ["..", "../x", "a/../../b", "/workspace/../etc", "/.."] {
            assert_eq!(inside(path).unwrap_err().code, ProblemCode::FileDenied, "{path}");
        }
    }

    #[test]
    fn permission_bits_have_four_octal_digits() {
        assert_eq!((bits("0755"), bits("0000")), (Some(0o755), Some(0)));
        for wrong in ["", "755", "0999", "1755", "01777", "abcd", "+644"] {
            assert_eq!(bits(wrong), None, "{wrong}");
        }
    }
}
