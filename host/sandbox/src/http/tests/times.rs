//! Time limits and concurrency, each obeyed and exceeded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, future, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::servers::{Server, read_head};
use super::*;

const GENEROUS: Duration = Duration::from_secs(20);

fn limited(port: u16, limit: Limit, ms: u64) -> Arc<Sender> {
    let mut capabilities = loopback(port);
    capabilities.limits.set(limit, ms);
    sender(&capabilities)
}

/// Accepts connections and sends nothing. Reports the end of each.
async fn silent() -> (Server, mpsc::UnboundedReceiver<()>) {
    let (ended, ends) = mpsc::unbounded_channel();
    let server = Server::tcp(move |mut stream| {
        let ended = ended.clone();
        async move {
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            let _ = ended.send(());
        }
    })
    .await;
    (server, ends)
}

#[tokio::test]
async fn servers_within_all_time_limits_succeed() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    for limit in [Limit::HttpConnect, Limit::HttpTls, Limit::HttpFirstByte, Limit::HttpTotal] {
        capabilities.limits.set(limit, 5_000);
    }
    let sender = sender(&capabilities);
    let timeouts = Timeouts {
        connect: Some(GENEROUS),
        first_byte: Some(GENEROUS),
        between_bytes: Some(GENEROUS),
    };
    let response =
        sender.send(request("GET", &server.url("/slow?100"), full("")), timeouts).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "slow");
    assert_eq!(sender.hit(), None);
}

#[tokio::test]
async fn connecting_times_out() {
    // A listener with a full queue leaves the next connection unanswered.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        queue.push(stream.unwrap());
    }
    let url = format!("http://{address}/");
    let sender = limited(address.port(), Limit::HttpConnect, 200);
    assert_eq!(hit(timeout(GENEROUS, get(&sender, &url)).await.unwrap()), Limit::HttpConnect);
    let sender = super::sender(&loopback(address.port()));
    let own = Timeouts { connect: Some(Duration::from_millis(100)), ..Timeouts::default() };
    let result = timeout(GENEROUS, sender.send(request("GET", &url, full("")), own)).await.unwrap();
    assert_eq!(
        (result.unwrap_err(), sender.hit()),
        (SendError::GuestTimeout(Limit::HttpConnect), None)
    );
}

#[tokio::test]
async fn tls_handshakes_time_out() {
    let (server, mut ends) = silent().await;
    let sender = limited(server.port, Limit::HttpTls, 200);
    assert_eq!(
        hit(timeout(GENEROUS, get(&sender, &format!("https://127.0.0.1:{}/", server.port)))
            .await
            .unwrap()),
        Limit::HttpTls
    );
    timeout(GENEROUS, ends.recv()).await.unwrap();
}

#[tokio::test]
async fn first_byte_timeout_starts_when_the_request_is_sent() {
    let (server, mut ends) = silent().await;
    let sender = limited(server.port, Limit::HttpFirstByte, 200);
    assert_eq!(
        hit(timeout(GENEROUS, get(&sender, &server.url("/"))).await.unwrap()),
        Limit::HttpFirstByte
    );
    timeout(GENEROUS, ends.recv()).await.unwrap();
    let own = Timeouts { first_byte: Some(Duration::from_millis(100)), ..Timeouts::default() };
    let sender = super::sender(&loopback(server.port));
    let result = timeout(GENEROUS, sender.send(request("GET", &server.url("/"), full("")), own))
        .await
        .unwrap();
    assert_eq!(
        (result.unwrap_err(), sender.hit()),
        (SendError::GuestTimeout(Limit::HttpFirstByte), None)
    );

    let web = Server::web().await;
    let slow = stream::iter(0..10).then(|_| async {
        sleep(Duration::from_millis(60)).await;
        Ok(Frame::data(Bytes::from_static(b"x")))
    });
    let sender = limited(web.port, Limit::HttpFirstByte, 400);
    let upload = request("POST", &web.url("/echo"), StreamBody::new(slow).boxed_unsync());
    assert_eq!(exchange(&sender, upload).await, Ok((200, "x".repeat(10))));
}

#[tokio::test(flavor = "multi_thread")]
async fn total_timeout_stops_a_slow_server() {
    let server = Server::web().await;
    let sender = limited(server.port, Limit::HttpTotal, 300);
    assert_eq!(
        hit(timeout(GENEROUS, get(&sender, &server.url("/drip"))).await.unwrap()),
        Limit::HttpTotal
    );
    assert_eq!(sender.hit(), Some(Limit::HttpTotal));
    assert!(sender.usage().1 > 0);
}

#[tokio::test]
async fn total_timeout_stops_an_endless_upload() {
    let server = Server::web().await;
    let sender = limited(server.port, Limit::HttpTotal, 300);
    let upload =
        request("POST", &server.url("/echo"), StreamBody::new(stream::pending()).boxed_unsync());
    assert_eq!(hit(timeout(GENEROUS, exchange(&sender, upload)).await.unwrap()), Limit::HttpTotal);
}

#[tokio::test]
async fn unread_responses_end_at_the_time_limit() {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let server = Server::tcp(move |mut stream| {
        let ended = ended.clone();
        async move {
            read_head(&mut stream).await;
            tokio::io::AsyncWriteExt::write_all(
                &mut stream,
                b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\na",
            )
            .await
            .unwrap();
            let _ = stream.read(&mut [0]).await;
            let _ = ended.send(());
        }
    })
    .await;
    let sender = limited(server.port, Limit::HttpTotal, 300);
    let response =
        sender.send(request("GET", &server.url("/"), full("")), Timeouts::default()).await.unwrap();
    timeout(GENEROUS, ends.recv()).await.unwrap();
    assert_eq!(sender.hit(), Some(Limit::HttpTotal));
    assert_eq!(hit(response.into_body().collect().await), Limit::HttpTotal);
}

#[tokio::test]
async fn guest_between_bytes_timeout_is_enforced() {
    let server = Server::tcp(|mut stream| async move {
        read_head(&mut stream).await;
        tokio::io::AsyncWriteExt::write_all(
            &mut stream,
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\na",
        )
        .await
        .unwrap();
        future::pending().await
    })
    .await;
    let sender = super::sender(&loopback(server.port));
    let own = Timeouts { between_bytes: Some(Duration::from_millis(150)), ..Timeouts::default() };
    let response = sender.send(request("GET", &server.url("/"), full("")), own).await.unwrap();
    assert_eq!(
        timeout(GENEROUS, response.into_body().collect()).await.unwrap().unwrap_err(),
        SendError::Idle
    );
    assert_eq!(sender.hit(), None);
    let web = Server::web().await;
    let sender = limited(web.port, Limit::HttpTotal, 500);
    let response = sender.send(request("GET", &web.url("/drip"), full("")), own).await.unwrap();
    assert_eq!(hit(response.into_body().collect().await), Limit::HttpTotal);
}

#[tokio::test]
async fn dropping_the_waiter_closes_the_connection() {
    let (server, mut ends) = silent().await;
    let sender = super::sender(&loopback(server.port));
    assert!(timeout(Duration::from_millis(200), get(&sender, &server.url("/"))).await.is_err());
    timeout(GENEROUS, ends.recv()).await.unwrap();
    assert_eq!(sender.requests()[0].error.as_deref(), Some("cancelled"));
}

#[tokio::test]
async fn concurrent_requests_wait_for_a_slot() {
    let now = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let count = now.clone();
    let server = Server::tcp(move |mut stream| {
        let now = count.clone();
        async move {
            read_head(&mut stream).await;
            now.1.fetch_max(now.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(50)).await;
            now.0.fetch_sub(1, Ordering::SeqCst);
            tokio::io::AsyncWriteExt::write_all(
                &mut stream,
                b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
            )
            .await
            .unwrap();
        }
    })
    .await;
    let sender = limited(server.port, Limit::HttpConcurrent, 2);
    // Heads first, bodies later: a small response that is still unread holds no slot.
    let heads = future::join_all(
        (0..8)
            .map(|_| sender.send(request("GET", &server.url("/"), full("")), Timeouts::default())),
    )
    .await;
    for head in heads {
        assert_eq!(head.unwrap().into_body().collect().await.unwrap().to_bytes(), "x");
    }
    assert_eq!((now.1.load(Ordering::SeqCst), sender.hit()), (2, None));
}

#[tokio::test]
async fn requests_that_wait_too_long_for_a_slot_are_refused() {
    let (server, _ends) = silent().await;
    let mut capabilities = loopback(server.port);
    capabilities.limits.http_concurrent = 1;
    capabilities.limits.http_total_ms = 300;
    let sender = super::sender(&capabilities);
    let url = server.url("/");
    let (first, second) = tokio::join!(get(&sender, &url), async {
        sleep(Duration::from_millis(50)).await;
        let mut shorter = capabilities.clone();
        shorter.limits.http_total_ms = 100;
        let other =
            Sender { limits: shorter.limits, slots: sender.slots.clone(), ..clone_of(&sender) };
        get(&other, &url).await
    });
    assert_eq!((hit(first), hit(second)), (Limit::HttpTotal, Limit::HttpConcurrent));
    capabilities.limits.http_concurrent = 0;
    assert_eq!(hit(get(&super::sender(&capabilities), &url).await), Limit::HttpConcurrent);
    assert_eq!(server.connections(), 1);
}

fn clone_of(sender: &Sender) -> Sender {
    Sender {
        rules: sender.rules.clone(),
        limits: sender.limits.clone(),
        network: Network::Live,
        digests: false,
        tls: sender.tls.clone(),
        resolver: sender.resolver.clone(),
        proxy: None,
        lookups: super::super::lookup::Lookups::new(),
        slots: sender.slots.clone(),
        rates: super::super::rate::Rates::new(&sender.limits),
        cache: None,
        log: Arc::default(),
    }
}
