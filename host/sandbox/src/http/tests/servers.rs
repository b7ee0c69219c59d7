//! Servers on 127.0.0.1 that end with the test.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A listening server.
pub(super) struct Server {
    pub(super) port: u16,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves each connection with `talk`.
    pub(super) async fn tcp<F, Fut>(talk: F) -> Server
    where
        F: Fn(TcpStream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            let mut running = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                running.spawn(talk(stream));
            }
        });
        Server { port, connections, task }
    }

    /// Reads a request without a body, answers with these bytes, and closes the connection.
    pub(super) async fn answering(response: impl Into<Vec<u8>>) -> Server {
        let response = Arc::new(response.into());
        Server::tcp(move |mut stream| {
            let response = response.clone();
            async move {
                read_head(&mut stream).await;
                let _ = stream.write_all(&response).await;
                let _ = stream.shutdown().await;
                // Reads the rest, so that closing does not reset the connection.
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            }
        })
        .await
    }

    /// Serves the site below over HTTP/1.1.
    pub(super) async fn web() -> Server {
        Server::tcp(|stream| site(stream, false)).await
    }

    /// Serves the site below over TLS, with HTTP/2 if it is negotiated.
    pub(super) async fn secure(acceptor: TlsAcceptor) -> Server {
        Server::tcp(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(tls) = acceptor.accept(stream).await else { return };
                let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
                site(tls, http2).await;
            }
        })
        .await
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads up to the blank line.
pub(super) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

async fn site<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, http2: bool) {
    let io = TokioIo::new(stream);
    if http2 {
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(io, service_fn(page))
            .await;
    } else {
        let _ =
            hyper::server::conn::http1::Builder::new().serve_connection(io, service_fn(page)).await;
    }
}

type Page = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// `/echo` the body; `/head` the request's head as text; `/bytes?N` and `/chunks?N` N bytes, with
/// and without a length; `/slow?MS` after a while; `/drip` a byte every 20 ms forever; `/fields?N`
/// a head of N bytes; `/to?URL` a redirect.
async fn page(request: Request<Incoming>) -> Result<Page, Infallible> {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or("").to_owned();
    let number: usize = query.parse().unwrap_or(0);
    let text = |text: String| Response::new(Full::new(Bytes::from(text)).boxed_unsync());
    Ok(match parts.uri.path() {
        "/echo" => match body.collect().await {
            Ok(all) => Response::new(Full::new(all.to_bytes()).boxed_unsync()),
            Err(_) => text("broken".to_owned()),
        },
        "/head" => {
            let mut lines = vec![format!("{} {} {:?}", parts.method, parts.uri, parts.version)];
            lines
                .extend(parts.headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())));
            text(lines.join("\n"))
        }
        "/bytes" => text("x".repeat(number)),
        "/chunks" => {
            let chunks = (0..number)
                .step_by(1000)
                .map(move |at| Bytes::from("x".repeat(1000.min(number - at))));
            Response::new(
                StreamBody::new(stream::iter(chunks.map(|c| Ok(Frame::data(c))))).boxed_unsync(),
            )
        }
        "/slow" => {
            tokio::time::sleep(Duration::from_millis(number as u64)).await;
            text("slow".to_owned())
        }
        "/drip" => {
            let drops = stream::repeat(()).then(|()| async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(Frame::data(Bytes::from_static(b".")))
            });
            Response::new(StreamBody::new(drops).boxed_unsync())
        }
        "/fields" => {
            let mut page = text(String::new());
            page.headers_mut().insert("x-large", "x".repeat(number).parse().unwrap());
            page
        }
        "/to" => {
            let mut page = text(String::new());
            *page.status_mut() = http::StatusCode::FOUND;
            page.headers_mut().insert("location", query.parse().unwrap());
            page
        }
        _ => {
            let mut page = text("nothing here".to_owned());
            *page.status_mut() = http::StatusCode::NOT_FOUND;
            page
        }
    })
}
