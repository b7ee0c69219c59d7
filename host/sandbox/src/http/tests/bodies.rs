//! Size limits, each obeyed to the last byte and exceeded by one.

use futures::stream;
use http::HeaderValue;
use http_body::Frame;
use http_body_util::StreamBody;

use super::servers::Server;
use super::*;

/// Creates a chunked body without a length.
fn chunks(total: usize) -> Body {
    let pieces = (0..total)
        .step_by(100)
        .map(move |at| Ok(Frame::data(Bytes::from("x".repeat(100.min(total - at))))));
    StreamBody::new(stream::iter(pieces)).boxed_unsync()
}

#[tokio::test]
async fn request_bodies_up_to_the_limit_are_sent() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    capabilities.limits.http_request_body = 1000;
    let sender = sender(&capabilities);
    for body in [full("x".repeat(1000)), chunks(1000)] {
        assert_eq!(
            exchange(&sender, request("POST", &server.url("/echo"), body)).await,
            Ok((200, "x".repeat(1000)))
        );
    }
    assert_eq!((sender.usage(), sender.hit()), ((2000, 2000), None));
}

#[tokio::test]
async fn request_bodies_over_the_limit_are_refused_or_cut_off() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    capabilities.limits.http_request_body = 1000;
    let sender = sender(&capabilities);
    assert_eq!(
        hit(exchange(&sender, request("POST", &server.url("/echo"), full("x".repeat(1001)))).await),
        Limit::HttpRequestBody
    );
    assert_eq!(server.connections(), 0);
    assert_eq!(
        hit(exchange(&sender, request("POST", &server.url("/echo"), chunks(1001))).await),
        Limit::HttpRequestBody
    );
    assert_eq!((sender.usage().0, sender.hit()), (1000, Some(Limit::HttpRequestBody)));
}

#[tokio::test]
async fn response_bodies_up_to_the_limit_arrive() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    capabilities.limits.http_response_body = 2500;
    let sender = sender(&capabilities);
    for path in ["/bytes?2500", "/chunks?2500"] {
        assert_eq!(get(&sender, &server.url(path)).await, Ok((200, "x".repeat(2500))));
    }
    // The length in a response to HEAD describes a body that is not sent.
    assert_eq!(
        exchange(&sender, request("HEAD", &server.url("/bytes?99999"), full(""))).await,
        Ok((200, String::new()))
    );
    assert_eq!((sender.usage(), sender.hit()), ((0, 5000), None));
}

#[tokio::test]
async fn response_bodies_over_the_limit_are_cut_off() {
    let server = Server::web().await;
    let mut capabilities = loopback(server.port);
    capabilities.limits.http_response_body = 2500;
    for path in ["/bytes?2501", "/chunks?2501"] {
        let sender = sender(&capabilities);
        assert_eq!(hit(get(&sender, &server.url(path)).await), Limit::HttpResponseBody, "{path}");
        let made = sender.requests().remove(0);
        assert_eq!((made.status, sender.hit()), (Some(200), Some(Limit::HttpResponseBody)));
        assert_eq!(
            made.received == 0,
            path == "/bytes?2501",
            "a declared length over the limit fails at once"
        );
        assert!(made.error.unwrap().contains("http-response-body"));
    }
}

#[tokio::test]
async fn content_length_must_match_the_body() {
    let server = Server::web().await;
    let sender = sender(&loopback(server.port));
    for (declared, is, right) in [("300", 300, true), ("299", 300, false), ("301", 300, false)] {
        let mut request = request("POST", &server.url("/echo"), chunks(is));
        request.headers_mut().insert("content-length", HeaderValue::from_static(declared));
        match exchange(&sender, request).await {
            Ok(answer) => assert!(right && answer == (200, "x".repeat(is)), "{declared}"),
            Err(error) => {
                assert!(!right && matches!(error, SendError::Malformed(_)), "{declared}: {error}")
            }
        }
    }
    // With a length of 0, nothing is sent, whatever the body contains.
    let mut nothing = request("POST", &server.url("/echo"), chunks(1));
    nothing.headers_mut().insert("content-length", HeaderValue::from_static("0"));
    assert_eq!(exchange(&sender, nothing).await, Ok((200, String::new())));
    let mut lie = request("POST", &server.url("/echo"), full("hello"));
    lie.headers_mut().insert("content-length", HeaderValue::from_static("4"));
    assert!(matches!(exchange(&sender, lie).await, Err(SendError::Malformed(_))));
}

#[tokio::test]
async fn failing_request_bodies_fail_the_request() {
    let server = Server::web().await;
    let sender = sender(&loopback(server.port));
    let broken = StreamBody::new(stream::iter([
        Ok(Frame::data(Bytes::from("x"))),
        Err(SendError::Body("gone".into())),
    ]))
    .boxed_unsync();
    assert_eq!(
        exchange(&sender, request("POST", &server.url("/echo"), broken)).await,
        Err(SendError::Body("gone".into()))
    );
}

#[tokio::test]
async fn heads_are_limited_in_both_directions() {
    let server = Server::web().await;
    let sender = sender(&loopback(server.port));
    let with = |size: usize| {
        let mut request = request("GET", &server.url("/bytes?1"), full(""));
        request.headers_mut().insert("x-large", HeaderValue::try_from("x".repeat(size)).unwrap());
        request
    };
    assert!(exchange(&sender, with(60_000)).await.is_ok());
    assert_eq!(exchange(&sender, with(MAX_HEAD)).await, Err(SendError::RequestHead));
    assert!(get(&sender, &server.url("/fields?60000")).await.is_ok());
    assert_eq!(get(&sender, &server.url("/fields?66000")).await, Err(SendError::ResponseHead));
    let endless = Server::answering(
        [b"HTTP/1.1 200 OK\r\n".as_slice(), &b"a: b\r\n".repeat(50_000)].concat(),
    )
    .await;
    let sender = super::sender(&loopback(endless.port));
    assert_eq!(get(&sender, &endless.url("/")).await, Err(SendError::ResponseHead));
}

#[tokio::test]
async fn non_http_responses_are_errors() {
    let closing = Server::answering("").await;
    assert_eq!(
        get(&sender(&loopback(closing.port)), &closing.url("/")).await,
        Err(SendError::Unanswered)
    );
    for answer in [
        "SSH-2.0-x\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",
        "HTTP/1.1 101 Go\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ] {
        let server = Server::answering(answer).await;
        let result = get(&sender(&loopback(server.port)), &server.url("/")).await;
        assert!(matches!(result, Err(SendError::Protocol(_))), "{answer}: {result:?}");
    }
}

#[tokio::test]
async fn responses_with_two_lengths_are_invalid() {
    for fields in
        ["content-length: 3\r\ncontent-length: 5", "content-length: 3, 5", "content-length: -1"]
    {
        let server = Server::answering(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nabcde")).await;
        assert!(
            matches!(
                get(&sender(&loopback(server.port)), &server.url("/")).await,
                Err(SendError::Protocol(_))
            ),
            "{fields}"
        );
    }
}

#[tokio::test]
async fn responses_before_the_end_of_the_upload_are_delivered() {
    let server = Server::answering("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await;
    let sender = sender(&loopback(server.port));
    let endless = StreamBody::new(stream::pending()).boxed_unsync();
    assert_eq!(
        exchange(&sender, request("POST", &server.url("/"), endless)).await,
        Ok((413, "no".into()))
    );
    assert_eq!((sender.requests()[0].status, sender.hit()), (Some(413), None));
}

#[tokio::test]
async fn trailers_are_passed_without_framing_headers() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nhost: evil\r\ncontent-length: 9\r\nx-sum: 1\r\n\r\n";
    let server = Server::answering(answer).await;
    let response = sender(&loopback(server.port))
        .send(request("GET", &server.url("/"), full("")), Timeouts::default())
        .await
        .unwrap();
    let all = response.into_body().collect().await.unwrap();
    assert_eq!(all.trailers().unwrap().keys().map(|n| n.as_str()).collect::<Vec<_>>(), ["x-sum"]);
}
