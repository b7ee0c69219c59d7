//! Rates of requests: within the deadline a request waits for its turn, and beyond it is refused.

use std::time::Duration;

use futures::future;
use tokio::time::Instant;

use super::servers::Server;
use super::*;

fn rated(port: u16, limits: &[(Limit, u64)]) -> Arc<Sender> {
    let mut capabilities = loopback(port);
    for (limit, value) in limits {
        capabilities.limits.set(*limit, *value);
    }
    sender(&capabilities)
}

/// 20 requests per second.
const FAST: u64 = 1_200;

#[tokio::test]
async fn requests_wait_for_their_turn_and_bursts_do_not() {
    let server = Server::web().await;
    for limit in [Limit::HttpRate, Limit::HttpHostRate] {
        let sender = rated(server.port, &[(limit, FAST), (Limit::HttpBurst, 3)]);
        let begin = Instant::now();
        let url = server.url("/bytes?1");
        let all = future::join_all((0..7).map(async |_| {
            assert_eq!(get(&sender, &url).await, Ok((200, "x".into())));
            begin.elapsed()
        }));
        let mut ends = all.await;
        ends.sort_unstable();
        for (number, end) in ends.iter().enumerate().skip(3) {
            let turn = Duration::from_millis(50 * (number as u64 - 2));
            assert!(*end >= turn, "{limit}: request {number} after {end:?}");
        }
        assert_eq!(sender.hit(), None);
    }
}

#[tokio::test]
async fn requests_whose_turn_is_after_their_deadline_are_refused_at_once() {
    let server = Server::web().await;
    for limit in [Limit::HttpRate, Limit::HttpHostRate] {
        let sender = rated(server.port, &[(limit, 1), (Limit::HttpTotal, 20_000)]);
        let url = server.url("/bytes?1");
        assert!(get(&sender, &url).await.is_ok());
        let begin = Instant::now();
        assert_eq!(hit(get(&sender, &url).await), limit);
        assert!(begin.elapsed() < Duration::from_secs(10), "it does not wait for the deadline");
        assert_eq!(sender.hit(), Some(limit));
        let log = sender.requests().remove(1);
        assert!(log.error.unwrap().contains(limit.key()));
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn hosts_do_not_wait_for_each_other() {
    let server = Server::web().await;
    let names: [(&str, &[&str]); 2] = [("a.test", &["127.0.0.1"]), ("b.test", &["127.0.0.1"])];
    let entries = ["a.test", "b.test"].map(|host| entry(host, Some(server.port), true));
    let mut capabilities = granted(entries.to_vec());
    capabilities.limits.set(Limit::HttpHostRate, 1);
    capabilities.limits.set(Limit::HttpTotal, 20_000);
    let sender = sender_with_names(&capabilities, &names);
    let url = |host: &str| format!("http://{host}:{}/bytes?1", server.port);
    assert!(get(&sender, &url("a.test")).await.is_ok());
    assert_eq!(hit(get(&sender, &url("a.test")).await), Limit::HttpHostRate);
    assert!(get(&sender, &url("b.test")).await.is_ok());
    // Another spelling is the same host.
    assert_eq!(hit(get(&sender, &url("B.Test.")).await), Limit::HttpHostRate);
}

#[tokio::test]
async fn requests_that_wait_for_another_one_name_the_limit_that_delays_them() {
    // It never answers.
    let server = Server::tcp(|stream| async {
        let _open = stream;
        future::pending().await
    })
    .await;
    let limits = [(Limit::HttpRate, 60_000), (Limit::HttpConcurrent, 1), (Limit::HttpTotal, 1_000)];
    let sender = rated(server.port, &limits);
    let url = server.url("/");
    let all = future::join_all((0..3).map(async |_| hit(get(&sender, &url).await))).await;
    assert_eq!(all[0], Limit::HttpTotal);
    // The second one may get the slot in its last moment.
    assert!([Limit::HttpTotal, Limit::HttpConcurrent].contains(&all[1]), "{all:?}");
    assert_eq!(all[2], Limit::HttpConcurrent);
}

#[tokio::test]
async fn a_rate_without_a_burst_allows_nothing() {
    let server = Server::web().await;
    let sender = rated(server.port, &[(Limit::HttpRate, FAST), (Limit::HttpBurst, 0)]);
    assert_eq!(hit(get(&sender, &server.url("/")).await), Limit::HttpBurst);
    assert_eq!(server.connections(), 0);
}
