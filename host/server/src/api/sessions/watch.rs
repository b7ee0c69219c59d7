//! Announces changes in the workspace of a session as server-sent events.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::{Sender, channel};

use super::super::body::{self, Answer};
use super::super::logs::too_many;
use super::super::tenant::Tenant;
use super::super::{Answered, ApiShared};
use super::Session;
use super::types::WatchEvent;
use skillhost_sandbox::files::{ChangeLog, LoggedChange};

/// How long changes are collected, so that a program that writes much sends few events.
const COLLECT: Duration = Duration::from_millis(50);
/// How often a stream without changes says that it is alive.
const ALIVE: Duration = Duration::from_secs(15);

impl ApiShared {
    /// Starts to announce changes after the one of this number; by default, those from now on.
    pub(super) fn watch_files(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        after: Option<u64>,
    ) -> Answered<Answer> {
        let open = tenant.open_stream().ok_or_else(too_many)?;
        let log = session.files().log().clone();
        let at = after.unwrap_or_else(|| log.since(0).last);
        let (to, parts) = channel(8);
        let announcing = announce(self.clone(), tenant.clone(), session.clone(), (log, at), to);
        // A client that does not read must not keep the stream either.
        tokio::spawn(tokio::time::timeout(self.options.bounds.stream, announcing));
        let mut answer = body::of_stream("text/event-stream", parts, open);
        let no_store = http::HeaderValue::from_static("no-store");
        answer.headers_mut().insert(http::header::CACHE_CONTROL, no_store);
        Ok(answer)
    }
}

/// Announces changes until the client has gone or the session has ended.
async fn announce(
    api: Arc<ApiShared>,
    tenant: Arc<Tenant>,
    session: Arc<Session>,
    (log, mut at): (Arc<ChangeLog>, u64),
    to: Sender<Bytes>,
) -> Option<Infallible> {
    let start = format!("retry: 1000\n\nid: {at}\nevent: start\ndata: {{}}\n\n");
    to.send(start.into()).await.ok()?;
    loop {
        let changed = tokio::select! {
            () = log.wait(at) => true,
            () = tokio::time::sleep(ALIVE) => false,
            () = session.ended.cancelled() => return None,
            () = tenant.removed.cancelled() => return None,
            () = to.closed() => return None,
            () = api.closing.cancelled() => return None,
        };
        if !changed {
            to.send(": alive\n\n".into()).await.ok()?;
            continue;
        }
        tokio::time::sleep(COLLECT).await;
        let found = log.since(at);
        if found.is_incomplete {
            let text = format!("id: {}\nevent: missed\ndata: {{}}\n\n", found.last);
            to.send(text.into()).await.ok()?;
        }
        for change in found.changes {
            to.send(event(change).into()).await.ok()?;
        }
        at = found.last;
    }
}

fn event(LoggedChange { number, path, kind }: LoggedChange) -> String {
    let data = serde_json::to_string(&WatchEvent { path, change: kind }).unwrap_or_default();
    let mut text = String::with_capacity(data.len() + 64);
    // Writing to a string does not fail. JSON on one line has no line ends.
    write!(text, "id: {number}\nevent: change\ndata: {data}\n\n").ok();
    text
}
