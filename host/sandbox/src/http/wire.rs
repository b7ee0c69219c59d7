//! Sends one request over a connection and receives the head of its response, with HTTP/1.1 or
//! HTTP/2.

use std::sync::Arc;

use http::{HeaderValue, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor as _;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::MAX_HEAD;
use super::body::Upload;
use super::error::SendError;
use super::exchange::Exchange;
use super::target;
use super::tasks::Spawner;
use skillhost_policy::limits::Limit;
use skillhost_policy::pattern::Destination;

/// Bytes that one HTTP/2 stream may have in flight, unread by the guest.
const WINDOW: u32 = 1 << 20;

/// Sends the request; its body may continue while the response arrives.
pub(super) async fn send_request<S>(
    io: S,
    over_http2: bool,
    to: &Destination,
    request: Request<Upload>,
    exchange: &Arc<Exchange>,
    spawner: Spawner,
) -> Result<Response<Incoming>, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(io);
    let response = if over_http2 {
        let mut builder = http2::Builder::new(spawner.clone());
        builder
            .max_header_list_size(MAX_HEAD as u32)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let (mut sender, connection) =
            builder.handshake(io).await.map_err(|e| SendError::from_hyper(&e))?;
        spawner.execute(connection);
        let (mut parts, body) = request.into_parts();
        parts.version = Version::HTTP_2;
        head(exchange, sender.send_request(Request::from_parts(parts, body))).await?
    } else {
        let mut builder = http1::Builder::new();
        builder.max_header_size(MAX_HEAD).max_buf_size(2 * MAX_HEAD);
        let (mut sender, connection) =
            builder.handshake(io).await.map_err(|e| SendError::from_hyper(&e))?;
        spawner.execute(connection);
        head(exchange, sender.send_request(http1_form(to, request)?)).await?
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(SendError::Protocol(
            "the server switched protocols without a request".to_owned(),
        ));
    }
    Ok(response)
}

/// Waits for the head of the response. Its time limit starts when the request has been sent; the
/// total time bounds the upload.
async fn head(
    exchange: &Exchange,
    answer: impl Future<Output = hyper::Result<Response<Incoming>>>,
) -> Result<Response<Incoming>, SendError> {
    let late = async {
        exchange.uploaded().await;
        exchange.within(Limit::HttpFirstByte, std::future::pending()).await
    };
    tokio::select! {
        answer = answer => answer.map_err(|e| if e.is_incomplete_message() { SendError::Unanswered } else { SendError::from_hyper(&e) }),
        error = late => error,
    }
}

/// Converts a request to the origin form: only the path, with the checked host in a header.
fn http1_form(to: &Destination, request: Request<Upload>) -> Result<Request<Upload>, SendError> {
    let malformed = |e: http::Error| SendError::Malformed(e.to_string());
    let (mut parts, body) = request.into_parts();
    let host = HeaderValue::try_from(target::authority(to)).map_err(|e| malformed(e.into()))?;
    parts.headers.insert(header::HOST, host);
    parts.version = Version::HTTP_11;
    let path = parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
    parts.uri = Uri::builder().path_and_query(path).build().map_err(malformed)?;
    Ok(Request::from_parts(parts, body))
}
