//! Attempts to escape over HTTP.

use crate::exchange::Ask;
use crate::files::BOTH;
use crate::report::Report;

/// Requests addresses that only the host may use. Arguments: URLs that the tests listen on.
pub(crate) async fn private(args: &[String]) -> Report {
    let mut report = Report::default();
    let well_known = [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://100.100.100.200/latest/meta-data/",
        "http://168.63.129.16/",
        "http://0.0.0.0/",
        "http://[::]/",
    ];
    for url in args.iter().map(String::as_str).chain(well_known) {
        try_each(&mut report, url).await;
    }
    report
}

/// Requests 127.0.0.1 in many spellings. Argument: a port that the tests listen on.
pub(crate) async fn spellings(args: &[String]) -> Report {
    let port = args.first().map_or("80", String::as_str);
    let mut report = Report::default();
    let hosts = [
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "127.000.000.001",
        "127.0.0.1.",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[0:0:0:0:0:0:0:1]",
        "[::1%25lo]",
        "[::1%lo]",
        "localhost.",
        "LOCALHOST",
        "lo\u{ad}calhost",
        "127.0.0.1%00.allowed.test",
        "allowed.test@127.0.0.1",
        "allowed.test%40127.0.0.1",
        "127.0.0.1#@allowed.test",
        "127.0.0.1?@allowed.test",
        "127.0.0.1\\@allowed.test",
        "127.0.0.1/@allowed.test",
        "allowed.test\t@127.0.0.1",
        "allowed.test\r\nHost: 127.0.0.1",
        " 127.0.0.1",
        "127.0.0.1 ",
    ];
    for host in hosts {
        try_each(&mut report, &format!("http://{host}:{port}/")).await;
        try_each(&mut report, &format!("https://{host}:{port}/")).await;
    }
    for authority in [
        "",
        ":",
        "@",
        ":80",
        "127.0.0.1:",
        "127.0.0.1:99999",
        "127.0.0.1:-1",
        "127.0.0.1:0x50",
        "[",
        "[]",
        "[::1",
    ] {
        try_each(&mut report, &format!("http://{authority}/")).await;
    }
    report
}

async fn try_each(report: &mut Report, url: &str) {
    for wasi in BOTH {
        report.must_fail(
            format!("{wasi:?} {url:?}"),
            Ask::get(url).send(wasi).await.map(|answer| answer.status),
        );
    }
}

/// Requests an allowed URL that redirects to a denied one, which the tests set up. Follows the
/// redirect itself, as a library would.
pub(crate) async fn redirect(args: &[String]) -> Report {
    let mut report = Report::default();
    for start in args {
        for wasi in BOTH {
            let mut url = start.clone();
            for hop in 0..5 {
                match Ask::get(&url).send(wasi).await {
                    Ok(answer) if (300..400).contains(&answer.status) => {
                        let location = answer
                            .headers
                            .iter()
                            .find(|(name, _)| name.eq_ignore_ascii_case("location"));
                        let Some((_, location)) = location else { break };
                        url = String::from_utf8_lossy(location).into_owned();
                        report.answer(format!(
                            "hop {hop}: to {}",
                            url.split_once(':').map_or("", |(scheme, _)| scheme)
                        ));
                    }
                    Ok(answer) => {
                        report.escape(format!("{wasi:?} {start} led to {url}: {}", answer.status));
                        break;
                    }
                    Err(error) => {
                        report.must_fail(format!("{wasi:?} {url}"), Err::<(), _>(error));
                        break;
                    }
                }
            }
        }
    }
    report
}

/// Requests, again and again, an allowed name that resolves to a private address, which the tests
/// set up.
pub(crate) async fn rebinding(args: &[String]) -> Report {
    let mut report = Report::default();
    for url in args {
        for _ in 0..10 {
            try_each(&mut report, url).await;
        }
    }
    report
}

/// Sends headers that make one request look like two, or like another one. Argument: an allowed
/// URL, whose server responds with the bytes that it received.
pub(crate) async fn smuggling(args: &[String]) -> Report {
    let url = args.first().map_or("http://127.0.0.1/", String::as_str);
    let mut report = Report::default();
    const MARK: &str = "smuggled";
    let injected = || b"x\r\nx-smuggled: 1".to_vec();
    let crooked: Vec<(&str, Vec<u8>)> = vec![
        ("x-one", injected()),
        ("x-one", b"x\nx-smuggled: 1".to_vec()),
        ("x-one", b"x\rx-smuggled: 1".to_vec()),
        ("x-one", b"x\0x-smuggled: 1".to_vec()),
        ("x-one: 1\r\nx-smuggled", b"1".to_vec()),
        ("x-smuggled\r\n", b"1".to_vec()),
        ("x-smuggled :", b"1".to_vec()),
        ("", b"smuggled".to_vec()),
        ("host", b"smuggled.test".to_vec()),
        ("Host", b"smuggled.test".to_vec()),
        (":authority", b"smuggled.test".to_vec()),
        ("connection", b"smuggled".to_vec()),
        ("keep-alive", b"smuggled".to_vec()),
        ("proxy-authorization", b"smuggled".to_vec()),
        ("proxy-connection", b"smuggled".to_vec()),
        ("te", b"smuggled".to_vec()),
        ("trailer", b"smuggled".to_vec()),
        ("upgrade", b"smuggled".to_vec()),
        ("transfer-encoding", b"smuggled".to_vec()),
        ("transfer-encoding", b"chunked, smuggled".to_vec()),
        ("expect", b"smuggled".to_vec()),
    ];
    for (name, value) in crooked {
        for wasi in BOTH {
            let ask = Ask { headers: vec![(name, value.clone())], ..Ask::get(url) };
            seen(
                &mut report,
                &format!("{wasi:?} header {name:?}: {:?}", String::from_utf8_lossy(&value)),
                ask.send(wasi).await,
                MARK,
            );
        }
    }
    let hidden = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    for wasi in BOTH {
        for lengths in [
            vec![("content-length", b"3".to_vec())],
            vec![("content-length", b"0".to_vec())],
            vec![("content-length", b"1, 2".to_vec())],
        ] {
            let ask = Ask {
                method: "POST",
                headers: lengths,
                body: Some(hidden.to_vec()),
                ..Ask::get(url)
            };
            seen(
                &mut report,
                &format!("{wasi:?} a body longer than it says"),
                ask.send(wasi).await,
                "GET /smuggled",
            );
        }
        let ask = Ask { method: "GET / HTTP/1.1\r\nx-smuggled: 1\r\n\r\nGET", ..Ask::get(url) };
        seen(&mut report, &format!("{wasi:?} method"), ask.send(wasi).await, MARK);
        for path in [
            "/ HTTP/1.1\r\nx-smuggled: 1\r\n\r\nGET /",
            "/\nsmuggled",
            "/\0smuggled",
            "/ smuggled",
            "http://smuggled.test/",
            "//smuggled.test/",
        ] {
            // Inside a path the mark is harmless. A second line, host or target would be an escape.
            let answer = Ask { path, ..Ask::get(url) }.send(wasi).await;
            let target = |answer: &[u8]| {
                let head = String::from_utf8_lossy(answer).into_owned();
                let first = head.lines().next().unwrap_or_default().to_owned();
                head.lines().skip(1).any(|line| line.contains(MARK))
                    || first.split(' ').nth(1).is_some_and(|t| t.starts_with("http:"))
            };
            match answer {
                Ok(answer) if target(&answer.body) => {
                    report.escape(format!("{wasi:?} path {path:?}"))
                }
                Ok(answer) => report.answer(format!("path: {}", answer.status)),
                Err(error) => report.must_fail("path", Err::<(), _>(error)),
            }
        }
    }
    for method in ["CONNECT", "TRACE", "GET\r\n"] {
        for wasi in BOTH {
            let answer = Ask { method, ..Ask::get(url) }.send(wasi).await;
            report.must_fail(
                format!("{wasi:?} method {method:?}"),
                answer.map(|answer| answer.status),
            );
        }
    }
    report
}

fn seen(
    report: &mut Report,
    what: &str,
    answer: Result<crate::exchange::Answer, String>,
    mark: &str,
) {
    report.must_not_yield(what, answer.map(|answer| answer.body), mark);
}
