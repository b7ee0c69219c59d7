//! One HTTP exchange without a library, so that nothing corrects malformed input. One
//! implementation for WASI 0.3 and one for 0.2.

use crate::bindings::new::wasi::http as new;
use crate::bindings::new::{wit_future, wit_stream};
use crate::bindings::old::wasi::http as old;
use crate::files::Wasi;

/// The request to send.
#[derive(Clone, Default)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) scheme: &'a str,
    pub(crate) authority: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: Vec<(&'a str, Vec<u8>)>,
    pub(crate) body: Option<Vec<u8>>,
}

/// The response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl<'a> Ask<'a> {
    /// Builds a `GET` request. The URL is split but not validated.
    pub(crate) fn get(url: &'a str) -> Ask<'a> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        Ask {
            method: "GET",
            scheme,
            authority,
            path: if path.is_empty() { "/" } else { path },
            ..Ask::default()
        }
    }

    /// Sends the request and reads the whole response. An error names the step that failed.
    pub(crate) async fn send(&self, wasi: Wasi) -> Result<Answer, String> {
        match wasi {
            Wasi::New => self.send_new().await,
            Wasi::Old => self.send_old(),
        }
    }

    async fn send_new(&self) -> Result<Answer, String> {
        use new::types::{Fields, Method, Request, Response, Scheme};
        let fields =
            Fields::from_list(&self.fields()).map_err(|error| format!("header: {error:?}"))?;
        let (contents, upload) = match self.body.clone() {
            None => (None, None),
            Some(body) => {
                let (mut writer, reader) = wit_stream::new();
                (Some(reader), Some(async move { writer.write_all(body).await.len() }))
            }
        };
        let (trailers, no_trailers) = wit_future::new(|| Ok(None));
        drop(trailers);
        let (request, _sent) = Request::new(fields, contents, no_trailers, None);
        let method = match self.method {
            "GET" => Method::Get,
            "POST" => Method::Post,
            "CONNECT" => Method::Connect,
            "TRACE" => Method::Trace,
            other => Method::Other(other.to_owned()),
        };
        let scheme = match self.scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => Scheme::Other(other.to_owned()),
        };
        request.set_method(&method).map_err(|()| "method: refused")?;
        request.set_scheme(Some(&scheme)).map_err(|()| "scheme: refused")?;
        request.set_authority(Some(self.authority)).map_err(|()| "authority: refused")?;
        request.set_path_with_query(Some(self.path)).map_err(|()| "path: refused")?;
        let send = new::client::send(request);
        let response = match upload {
            None => send.await,
            Some(upload) => both(upload, send).await,
        };
        let response = response.map_err(|error| format!("{error:?}"))?;
        let status = response.get_status_code();
        let headers = response.get_headers().copy_all();
        let (received, result) = wit_future::new(|| Ok(()));
        drop(received);
        let (body, ended) = Response::consume_body(response, result);
        let body = body.collect().await;
        ended.await.map_err(|error| format!("body: {error:?}"))?;
        Ok(Answer { status, headers, body })
    }

    fn send_old(&self) -> Result<Answer, String> {
        use crate::bindings::old::wasi::io::streams::StreamError;
        use old::types::{Fields, IncomingBody, Method, OutgoingBody, OutgoingRequest, Scheme};
        let fields =
            Fields::from_list(&self.fields()).map_err(|error| format!("header: {error:?}"))?;
        let request = OutgoingRequest::new(fields);
        let method = match self.method {
            "GET" => Method::Get,
            "POST" => Method::Post,
            "CONNECT" => Method::Connect,
            "TRACE" => Method::Trace,
            other => Method::Other(other.to_owned()),
        };
        let scheme = match self.scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => Scheme::Other(other.to_owned()),
        };
        request.set_method(&method).map_err(|()| "method: refused")?;
        request.set_scheme(Some(&scheme)).map_err(|()| "scheme: refused")?;
        request.set_authority(Some(self.authority)).map_err(|()| "authority: refused")?;
        request.set_path_with_query(Some(self.path)).map_err(|()| "path: refused")?;
        let outgoing = request.body().map_err(|()| "body: refused")?;
        let coming =
            old::outgoing_handler::handle(request, None).map_err(|error| format!("{error:?}"))?;
        if let Some(body) = &self.body {
            let stream = outgoing.write().map_err(|()| "body: no stream")?;
            for chunk in body.chunks(4096) {
                // The host closes the body of a refused request; the response has the reason.
                if stream.blocking_write_and_flush(chunk).is_err() {
                    break;
                }
            }
            drop(stream);
        }
        OutgoingBody::finish(outgoing, None).ok();
        coming.subscribe().block();
        let response = match coming.get() {
            Some(Ok(response)) => response.map_err(|error| format!("{error:?}"))?,
            other => return Err(format!("no answer: {other:?}")),
        };
        let status = response.status();
        let headers = response.headers().entries();
        let incoming = response.consume().map_err(|()| "body: taken")?;
        let stream = incoming.stream().map_err(|()| "body: no stream")?;
        let mut body = Vec::new();
        loop {
            match stream.blocking_read(64 << 10) {
                Ok(bytes) => body.extend(bytes),
                Err(StreamError::Closed) => break,
                Err(StreamError::LastOperationFailed(error)) => {
                    return Err(format!(
                        "body: {:?} {}",
                        old::types::http_error_code(&error),
                        error.to_debug_string()
                    ));
                }
            }
        }
        drop(stream);
        let trailers = IncomingBody::finish(incoming);
        drop(trailers);
        Ok(Answer { status, headers, body })
    }

    fn fields(&self) -> Vec<(String, Vec<u8>)> {
        self.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }
}

/// Polls both futures until the second is done.
async fn both<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> B {
    use std::task::Poll;
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    let mut going = true;
    std::future::poll_fn(move |context| {
        going = going && first.as_mut().poll(context).is_pending();
        match second.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(value),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
