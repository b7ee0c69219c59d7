//! Limits the sessions of a server.

use std::sync::Arc;

use futures::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::{ServerSseMessage, SessionId};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use tokio::sync::Mutex;

tokio::task_local! {
    /// Set if a session was refused for lack of room while a request is answered.
    static REFUSED: std::cell::Cell<bool>;
}

/// Answers a request, and returns whether a session was refused in the process.
pub(super) async fn watched<T>(answer: impl Future<Output = T>) -> (T, bool) {
    REFUSED
        .scope(std::cell::Cell::new(false), async {
            (answer.await, REFUSED.with(std::cell::Cell::get))
        })
        .await
}

/// A session manager with a limit. The limit is checked where a session is created, so it holds
/// whatever headers a request has and however many requests come at once.
pub(super) struct Sessions {
    local: Arc<LocalSessionManager>,
    limit: usize,
    /// Held from counting the sessions until the new one is added.
    making: Mutex<()>,
}

/// Why a session was not created.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("too many open sessions")]
    Full,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

impl Sessions {
    pub(super) fn new(local: LocalSessionManager, limit: usize) -> Sessions {
        Sessions { local: Arc::new(local), limit, making: Mutex::default() }
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        let _making = self.making.lock().await;
        if self.local.sessions.read().await.len() >= self.limit {
            // There is no request if this is called directly.
            REFUSED.try_with(|refused| refused.set(true)).ok();
            return Err(SessionError::Full);
        }
        Ok(self.local.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Ok(self.local.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Ok(self.local.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Ok(self.local.resume(id, last_event_id).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_session_limit_holds_for_concurrent_requests() {
        let sessions = Arc::new(Sessions::new(LocalSessionManager::default(), 4));
        let asks = (0..64).map(|_| {
            let sessions = sessions.clone();
            tokio::spawn(
                async move { watched(async { sessions.create_session().await.is_ok() }).await },
            )
        });
        let answers = futures::future::join_all(asks).await;
        let answers: Vec<(bool, bool)> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers.iter().filter(|(made, _)| *made).count(), 4);
        assert!(answers.iter().all(|(made, refused)| made != refused), "{answers:?}");
        let one = sessions.local.sessions.read().await.keys().next().unwrap().clone();
        sessions.close_session(&one).await.unwrap();
        assert!(
            sessions.create_session().await.is_ok() && sessions.create_session().await.is_err()
        );
    }
}
