//! Serves the sessions of a worker to the API servers of its fleet, over TLS with certificates of both
//! ends. What a connection may ask for is checked with each request, since an identity may change.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::connections::{Connection, Connections};
use super::stall::Stall;
use super::{HEAD, HttpOptions, accept, held};
use crate::api::worker::WorkerHost;

/// The most connections. Each request in progress has one.
const CONNECTIONS: usize = 1_024;

/// Serves until the future is dropped.
pub async fn serve_sessions(host: WorkerHost, listener: TcpListener) {
    let connections = Connections::new(CONNECTIONS);
    host.share_connections(CONNECTIONS);
    loop {
        let stream = match accept(&listener).await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // The process may be out of descriptors; some will be released.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let place = connections.admit().await;
        let host = host.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = attend(host, stream, &place) => {}
                () = place.evicted() => tracing::debug!("closed an idle connection to make room"),
            }
        });
    }
}

async fn attend(host: WorkerHost, stream: TcpStream, place: &Arc<Connection>) {
    let HttpOptions { head_within, read_within, .. } = HttpOptions::default();
    let config = match host.acceptor() {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(%error, "cannot accept the connections of API servers");
            return;
        }
    };
    let accepting = TlsAcceptor::from(config).accept(Stall::new(stream, read_within));
    let stream = match tokio::time::timeout(head_within, accepting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::warn!(%error, "refused a connection to the sessions of this worker");
            return;
        }
        Err(_) => return,
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let Some(certificate) = shown.map(|certificate| certificate.clone().into_owned()) else {
        return;
    };
    let place = place.clone();
    let service = service_fn(move |request| {
        let (host, certificate, in_flight) = (host.clone(), certificate.clone(), place.request());
        async move {
            let answer = host.answer(&certificate, request).await;
            Ok::<_, Infallible>(held(answer, in_flight))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head_within).max_buf_size(HEAD);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection failed");
    }
}
