//! Each limit is tested in a pair: a run below it succeeds, and a run above it is stopped.

use std::time::{Duration, Instant};

use skillhost_policy::capabilities::MountMode;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_sandbox::Stdin;

use crate::hostile_host::{Fixture, HANG_TIMEOUT, Run};
use crate::servers::Server;

/// The pair of each limit. Table and instance limits need handwritten components, so their pairs
/// are in `components.rs`, with those of the compiler.
const PAIRS: [(Limit, fn()); 34] = [
    (Limit::Timeout, timeout),
    (Limit::CpuShare, cpu_share),
    (Limit::Fuel, fuel),
    (Limit::Memory, memory),
    (Limit::TableElements, crate::components::table_elements),
    (Limit::Instances, crate::components::instances),
    (Limit::Stack, stack),
    (Limit::Stdout, stdout),
    (Limit::Stderr, stderr),
    (Limit::Disk, disk),
    (Limit::Files, files),
    (Limit::Tmp, tmp),
    (Limit::State, state),
    (Limit::Handles, handles),
    (Limit::HostCall, host_call),
    (Limit::Random, random),
    (Limit::HttpRequests, http_requests),
    (Limit::HttpConcurrent, http_concurrent),
    (Limit::HttpRequestBody, http_request_body),
    (Limit::HttpResponseBody, http_response_body),
    (Limit::HttpConnect, http_connect),
    (Limit::HttpTls, http_tls),
    (Limit::HttpFirstByte, http_first_byte),
    (Limit::HttpTotal, http_total),
    (Limit::HttpRate, http_rate),
    (Limit::HttpHostRate, http_host_rate),
    (Limit::HttpBurst, http_burst),
    (Limit::HttpCache, http_cache),
    (Limit::HttpCacheKeep, http_cache_keep),
    (Limit::ProcessDepth, process_depth),
    (Limit::Processes, processes),
    (Limit::ProcessesAlive, processes_alive),
    (Limit::Compile, crate::components::compile),
    (Limit::CompileMemory, crate::components::compile_memory),
];

#[test]
fn every_limit_has_a_pair() {
    assert_eq!(PAIRS.iter().map(|(limit, _)| *limit).collect::<Vec<_>>(), Limit::ALL);
}

/// The WASI versions to test if both have the interface.
const VERSIONS: [&str; 2] = ["0.3", "0.2"];

#[test]
fn timeout() {
    let fixture = Fixture::new();
    fixture.run(&["nap", "50"]).limit(Limit::Timeout, 20_000).succeeds();
    let started = Instant::now();
    let outcome = fixture.run(&["nap", "600000"]).limit(Limit::Timeout, 200).hits(Limit::Timeout);
    assert!(started.elapsed() < HANG_TIMEOUT, "{:?}", started.elapsed());
    assert!(outcome.usage.wall_ms >= 200.0, "{}", outcome.usage.wall_ms);
    // Output printed before the timeout is kept.
    let outcome =
        fixture.run(&["lines", "100", "20"]).limit(Limit::Timeout, 500).hits(Limit::Timeout);
    assert!(outcome.stdout.text().starts_with("line 0\nline 1\n"), "{}", outcome.stdout.text());
}

#[test]
fn the_timeout_includes_time_spent_reading_input() {
    let fixture = Fixture::new();
    let (stdin, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"some of it").unwrap();
    let outcome = fixture
        .run(&["cat"])
        .stdin(Stdin::Descriptor(stdin.into()))
        .limit(Limit::Timeout, 300)
        .hits(Limit::Timeout);
    assert_eq!(outcome.stdout.text(), "some of it");
    drop(writer);
    let (stdin, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"all of it").unwrap();
    drop(writer);
    let outcome = fixture
        .run(&["cat"])
        .stdin(Stdin::Descriptor(stdin.into()))
        .limit(Limit::Timeout, 20_000)
        .succeeds();
    assert_eq!(outcome.stdout.text(), "all of it");
}

#[test]
fn fuel() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["burn", "10000"]).limit(Limit::Fuel, 50_000_000).succeeds();
    let burnt = outcome.usage.fuel.unwrap();
    assert!((10_000..50_000_000).contains(&burnt), "{burnt}");
    assert_eq!(outcome.usage.epochs, None);
    fixture.run(&["burn", "10000000"]).limit(Limit::Fuel, 10_000_000).hits(Limit::Fuel);
    // The exact amount suffices; slightly less does not.
    let again = fixture.run(&["burn", "10000"]).limit(Limit::Fuel, burnt + 1000).succeeds();
    assert_eq!(again.usage.fuel, Some(burnt));
    fixture.run(&["burn", "10000"]).limit(Limit::Fuel, burnt - 1000).hits(Limit::Fuel);
    // Programs may start programs that start programs.
    fixture
        .run(&["nest", "3"])
        .limit(Limit::Fuel, 500_000_000)
        .limit(Limit::Timeout, 10_000)
        .succeeds();
    // Fuel of a started program is charged to its caller.
    let nested =
        fixture.run(&["start", "1", "burn", "10000"]).limit(Limit::Fuel, 50_000_000).succeeds();
    assert!(nested.usage.fuel.unwrap() > burnt, "{:?} against {burnt}", nested.usage.fuel);
    fixture
        .run(&["start", "1", "burn", "10000000"])
        .limit(Limit::Fuel, 10_000_000)
        .hits(Limit::Fuel);
}

#[test]
fn cpu_share() {
    let fixture = Fixture::new();
    // At least 250 ms of processor time on any machine.
    let burn = |percent| {
        let outcome = fixture
            .run(&["burn", "1000000000"])
            .limit(Limit::CpuShare, percent)
            .limit(Limit::Timeout, 600_000)
            .succeeds();
        outcome.usage.wall_ms
    };
    assert!(burn(20) > 1_000.0, "the run waits until its share suffices");
    // It does not wait for more processors than it uses.
    burn(10_000);
    // The timeout also ends a run that waits.
    fixture
        .run(&["burn", "1000000000"])
        .limit(Limit::CpuShare, 1)
        .limit(Limit::Timeout, 300)
        .hits(Limit::Timeout);
    // The programs of a run share it.
    let outcome = fixture
        .run(&["start", "1", "burn", "1000000000"])
        .limit(Limit::CpuShare, 20)
        .limit(Limit::Timeout, 600_000)
        .succeeds();
    assert!(outcome.usage.wall_ms > 1_000.0, "{}", outcome.usage.wall_ms);
}

#[test]
fn memory() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["alloc", "40"]).limit(Limit::Memory, 64 << 20).succeeds();
    assert!(
        (40 << 20..64 << 20).contains(&outcome.usage.memory_peak),
        "{}",
        outcome.usage.memory_peak
    );
    fixture.run(&["alloc", "70"]).limit(Limit::Memory, 64 << 20).hits(Limit::Memory);
    // The memory of started programs counts while they run.
    fixture.run(&["start", "3", "alloc", "40"]).limit(Limit::Memory, 64 << 20).succeeds();
    fixture.run(&["start", "1", "alloc", "70"]).limit(Limit::Memory, 64 << 20).hits(Limit::Memory);
    // Their unread output counts too.
    fixture
        .run(&["start", "1", "hold", "30000000"])
        .limit(Limit::Memory, 16 << 20)
        .hits(Limit::Memory);
    // Not even the first page fits.
    fixture.run(&["burn", "1"]).limit(Limit::Memory, 4096).hits(Limit::Memory);
}

#[test]
fn stack() {
    let fixture = Fixture::new();
    fixture.run(&["recurse", "1000"]).limit(Limit::Stack, 256 << 10).succeeds();
    fixture.run(&["recurse", "50000"]).limit(Limit::Stack, 256 << 10).hits(Limit::Stack);
    fixture.run(&["recurse", "10000"]).limit(Limit::Stack, 4 << 20).succeeds();
}

#[test]
fn stdout() {
    output("stdout", Limit::Stdout, |outcome| outcome.stdout.0.len());
}

#[test]
fn stderr() {
    output("stderr", Limit::Stderr, |outcome| outcome.stderr.0.len());
}

fn output(stream: &str, limit: Limit, captured: fn(&Outcome) -> usize) {
    let fixture = Fixture::new();
    let exact = fixture.run(&["print", "70000", stream]).limit(limit, 70_000).succeeds();
    assert_eq!(captured(&exact), 70_000);
    let excess = fixture.run(&["print", "70001", stream]).limit(limit, 70_000).hits(limit);
    assert_eq!(captured(&excess), 70_000);
    // A started program's output goes to its caller, under the same limit.
    fixture.run(&["start", "1", "print", "70000", stream]).limit(limit, 70_000).succeeds();
    fixture.run(&["start", "1", "print", "70001", stream]).limit(limit, 70_000).hits(limit);
}

#[test]
fn disk() {
    for version in VERSIONS {
        for (at, mode) in [
            ("/tmp", MountMode::Write),
            ("/workspace", MountMode::Write),
            ("/workspace", MountMode::Overlay),
        ] {
            let fixture = Fixture::new();
            let run = |bytes: &str| {
                fixture
                    .run(&["write", bytes, at, version])
                    .workspace(mode)
                    .limit(Limit::Disk, 100_000)
            };
            let outcome = run("100000").succeeds();
            assert_eq!(outcome.usage.bytes_written, 100_000, "{version} {at}");
            let fixture = Fixture::new();
            let run = |bytes: &str| {
                fixture
                    .run(&["write", bytes, at, version])
                    .workspace(mode)
                    .limit(Limit::Disk, 100_000)
            };
            run("100001").hits(Limit::Disk);
        }
    }
}

#[test]
fn files() {
    for version in VERSIONS {
        for (at, mode) in [
            ("/tmp", MountMode::Write),
            ("/workspace", MountMode::Write),
            ("/workspace", MountMode::Overlay),
        ] {
            let fixture = Fixture::new();
            let outcome = fixture
                .run(&["create", "20", at, version])
                .workspace(mode)
                .limit(Limit::Files, 20)
                .succeeds();
            assert_eq!(outcome.usage.files_created, 20, "{version} {at}");
            let fixture = Fixture::new();
            fixture
                .run(&["create", "21", at, version])
                .workspace(mode)
                .limit(Limit::Files, 20)
                .hits(Limit::Files);
        }
    }
}

#[test]
fn tmp() {
    for version in VERSIONS {
        let fixture = Fixture::new();
        let run = |bytes: &str| {
            fixture
                .run(&["write", bytes, "/tmp", version])
                .limit(Limit::Tmp, 100_000)
                .limit(Limit::Disk, 10)
        };
        let outcome = run("100000").succeeds();
        assert_eq!(outcome.usage.bytes_written, 100_000, "{version}");
        run("100001").hits(Limit::Tmp);
    }
}

#[test]
fn state() {
    for version in VERSIONS {
        let fixture = Fixture::new();
        let run = |bytes: &str| {
            fixture
                .run(&["write", bytes, "/state", version])
                .limit(Limit::State, 100_000)
                .limit(Limit::Disk, 10)
        };
        let outcome = run("100000").succeeds();
        assert_eq!(outcome.usage.bytes_written, 100_000, "{version}");
        let fixture = Fixture::new();
        fixture
            .run(&["write", "100001", "/state", version])
            .limit(Limit::State, 100_000)
            .hits(Limit::State);
    }
}

#[test]
fn handles() {
    let fixture = Fixture::new();
    for version in VERSIONS {
        // The guest also holds a few handles that it does not count: its folders and its output.
        fixture.run(&["open", "40", "/skill", version]).limit(Limit::Handles, 60).succeeds();
        fixture
            .run(&["open", "61", "/skill", version])
            .limit(Limit::Handles, 60)
            .hits(Limit::Handles);
    }
}

#[test]
fn host_call() {
    let fixture = Fixture::new();
    fixture.run(&["hand-over", "90000"]).limit(Limit::HostCall, 100_000).succeeds();
    fixture.run(&["hand-over", "110000"]).limit(Limit::HostCall, 100_000).hits(Limit::HostCall);
}

#[test]
fn random() {
    let fixture = Fixture::new();
    for version in ["0.3", "0.2", "insecure"] {
        // The SDK's maps draw a few bytes for their seeds.
        fixture.run(&["draw", "99000", version]).limit(Limit::Random, 100_000).succeeds();
        fixture.run(&["draw", "100001", version]).limit(Limit::Random, 100_000).hits(Limit::Random);
    }
    fixture.run(&["start", "2", "draw", "60000"]).limit(Limit::Random, 100_000).hits(Limit::Random);
}

/// Builds a run that may send requests to this server.
fn asking<'a>(fixture: &'a Fixture, server: &Server, args: &[&str]) -> Run<'a> {
    fixture.run(args).allow(&format!("WebFetch({})", server.url()))
}

#[test]
fn http_requests() {
    let fixture = Fixture::new();
    for version in VERSIONS {
        let server = Server::of_size(10);
        let url = server.url();
        let outcome = asking(&fixture, &server, &["fetch", &url, "3", version])
            .limit(Limit::HttpRequests, 3)
            .succeeds();
        assert_eq!((outcome.requests.len(), server.connections()), (3, 3));
        asking(&fixture, &server, &["fetch", &url, "4", version])
            .limit(Limit::HttpRequests, 3)
            .hits(Limit::HttpRequests);
        assert_eq!(server.connections(), 6);
    }
    // Started programs share the limit.
    let server = Server::of_size(10);
    let url = server.url();
    asking(&fixture, &server, &["start", "2", "fetch", &url, "2"])
        .limit(Limit::HttpRequests, 3)
        .hits(Limit::HttpRequests);
}

#[test]
fn http_concurrent() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    let fixture = Fixture::new();
    for allowed in [2, 6] {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = (now.clone(), most.clone());
        let server = Server::start(move |_, stream| {
            counted.1.fetch_max(counted.0.fetch_add(1, SeqCst) + 1, SeqCst);
            std::thread::sleep(Duration::from_millis(150));
            counted.0.fetch_sub(1, SeqCst);
            crate::servers::respond(stream, "200 OK", "", b"x");
        });
        let url = server.url();
        // Requests above the limit wait, without an error.
        let run = asking(&fixture, &server, &["fetch", &url, "6", "together"])
            .limit(Limit::HttpConcurrent, allowed);
        run.succeeds();
        assert_eq!((most.load(SeqCst) as u64, server.connections()), (allowed, 6));
    }
}

/// Requests per minute at which a request waits for 100 ms, and for a minute.
const RATES: [u64; 2] = [600, 1];

#[test]
fn http_rate() {
    let fixture = Fixture::new();
    for version in VERSIONS {
        let server = Server::of_size(10);
        let url = server.url();
        let three = |rate| {
            let run = asking(&fixture, &server, &["fetch", &url, "3", version]);
            run.limit(Limit::HttpRate, rate).limit(Limit::HttpTotal, 20_000)
        };
        // Requests wait within the deadline, without an error.
        assert!(three(RATES[0]).succeeds().usage.wall_ms >= 200.0);
        assert_eq!(server.connections(), 3);
        // Those whose turn is after it fail at once.
        assert!(three(RATES[1]).hits(Limit::HttpRate).usage.wall_ms < 20_000.0);
        assert_eq!(server.connections(), 4);
    }
    // Started programs share the rate.
    let server = Server::of_size(10);
    let url = server.url();
    asking(&fixture, &server, &["start", "2", "fetch", &url, "1"])
        .limit(Limit::HttpRate, RATES[1])
        .limit(Limit::HttpTotal, 20_000)
        .hits(Limit::HttpRate);
}

#[test]
fn http_host_rate() {
    let fixture = Fixture::new();
    for version in VERSIONS {
        let server = Server::of_size(10);
        let url = server.url();
        let two = |rate| {
            let run = asking(&fixture, &server, &["fetch", &url, "2", version]);
            run.limit(Limit::HttpHostRate, rate).limit(Limit::HttpTotal, 20_000)
        };
        assert!(two(RATES[0]).succeeds().usage.wall_ms >= 100.0);
        two(RATES[1]).hits(Limit::HttpHostRate);
        assert_eq!(server.connections(), 3);
    }
}

#[test]
fn http_burst() {
    let fixture = Fixture::new();
    let server = Server::of_size(10);
    let url = server.url();
    let three = |burst| {
        asking(&fixture, &server, &["fetch", &url, "3"])
            .limit(Limit::HttpRate, RATES[1])
            .limit(Limit::HttpTotal, 20_000)
            .limit(Limit::HttpBurst, burst)
    };
    three(3).succeeds();
    three(2).hits(Limit::HttpRate);
    assert_eq!(server.connections(), 5);
    three(0).hits(Limit::HttpBurst);
    assert_eq!(server.connections(), 5);
}

/// A server whose responses of 1,000 bytes are fresh for ten minutes.
fn cacheable() -> Server {
    Server::start(|_, stream| {
        crate::servers::respond(stream, "200 OK", "cache-control: max-age=600\r\n", &[b'x'; 1_000]);
    })
}

#[test]
fn http_cache() {
    let fixture = Fixture::new();
    for version in VERSIONS {
        let server = cacheable();
        let url = server.url();
        let three = |bytes| {
            let run = asking(&fixture, &server, &["fetch", &url, "3", version]);
            run.limit(Limit::HttpCache, bytes).succeeds()
        };
        let outcome = three(10_000);
        assert_eq!((outcome.requests.len(), server.connections()), (3, 1), "{version}");
        // What has no room is requested again; no cache outlives its run.
        three(1_000);
        assert_eq!(server.connections(), 4, "{version}");
    }
}

#[test]
fn http_cache_keep() {
    let server = cacheable();
    let url = server.url();
    for (keep, connections) in [(60_000, 1), (1, 3)] {
        let fixture = Fixture::new();
        for _ in 0..2 {
            asking(&fixture, &server, &["fetch", &url, "1"])
                .limit(Limit::State, 100_000)
                .limit(Limit::HttpCache, 10_000)
                .limit(Limit::HttpCacheKeep, keep)
                .succeeds();
        }
        assert_eq!(server.connections(), connections);
    }
}

#[test]
fn http_request_body() {
    let fixture = Fixture::new();
    let server = Server::echo();
    let url = server.url();
    for version in VERSIONS {
        asking(&fixture, &server, &["upload", &url, "10000", version])
            .limit(Limit::HttpRequestBody, 10_000)
            .succeeds();
        asking(&fixture, &server, &["upload", &url, "10001", version])
            .limit(Limit::HttpRequestBody, 10_000)
            .hits(Limit::HttpRequestBody);
    }
}

#[test]
fn http_response_body() {
    let fixture = Fixture::new();
    for version in VERSIONS {
        for (size, fits) in [(10_000, true), (10_001, false)] {
            let server = Server::of_size(size);
            let url = server.url();
            let run = asking(&fixture, &server, &["fetch", &url, "1", version])
                .limit(Limit::HttpResponseBody, 10_000);
            if fits {
                run.succeeds()
            } else {
                run.hits(Limit::HttpResponseBody)
            };
        }
        // A response without a length that never ends.
        let endless = Server::start(|_, stream| {
            use std::io::Write as _;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok();
            while stream.write_all(&[b'x'; 1000]).is_ok() {}
        });
        let url = endless.url();
        asking(&fixture, &endless, &["fetch", &url, "1", version])
            .limit(Limit::HttpResponseBody, 10_000)
            .hits(Limit::HttpResponseBody);
    }
}

#[test]
fn http_connect() {
    let fixture = Fixture::new();
    let server = Server::of_size(1);
    let url = server.url();
    asking(&fixture, &server, &["fetch", &url, "1"]).limit(Limit::HttpConnect, 5_000).succeeds();
    // A listener with a full queue neither accepts nor refuses connections: the kernel keeps
    // retrying.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let full = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket.listen(1).unwrap()
    });
    let address = full.local_addr().unwrap();
    let fill = |_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let open: Vec<_> = (0..4).filter_map(fill).collect();
    assert!(open.len() < 4, "the queue is not full, so nothing is tested");
    let url = format!("http://{address}");
    let outcome = fixture
        .run(&["fetch", &url, "1"])
        .allow(&format!("WebFetch({url})"))
        .limit(Limit::HttpConnect, 200)
        .hits(Limit::HttpConnect);
    assert_eq!(outcome.requests.len(), 1);
}

#[test]
fn http_tls() {
    let fixture = Fixture::new();
    // A server that accepts the connection and sends nothing: the handshake never ends.
    let server = Server::silent();
    let url = format!("https://127.0.0.1:{}", server.port);
    let run = || fixture.run(&["fetch", &url, "1"]).allow(&format!("WebFetch({url})"));
    run().limit(Limit::HttpTls, 200).hits(Limit::HttpTls);
    // A server that answers at once stays below the limit. It does not speak TLS, so the guest gets
    // an error instead.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::io::Write::write_all(&mut stream.unwrap(), b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .ok();
        }
    });
    let outcome = fixture
        .run(&["fetch", &url, "1"])
        .allow(&format!("WebFetch({url})"))
        .limit(Limit::HttpTls, 5_000)
        .go();
    assert_eq!((outcome.status, outcome.limits_hit), (Status::Exited { code: 1 }, vec![]));
}

#[test]
fn http_first_byte() {
    let fixture = Fixture::new();
    for version in VERSIONS {
        let slow = |millis| {
            Server::start(move |_, stream| {
                std::thread::sleep(Duration::from_millis(millis));
                crate::servers::respond(stream, "200 OK", "", b"x");
            })
        };
        let server = slow(50);
        let url = server.url();
        asking(&fixture, &server, &["fetch", &url, "1", version])
            .limit(Limit::HttpFirstByte, 5_000)
            .succeeds();
        let server = slow(5_000);
        let url = server.url();
        asking(&fixture, &server, &["fetch", &url, "1", version])
            .limit(Limit::HttpFirstByte, 200)
            .hits(Limit::HttpFirstByte);
    }
}

#[test]
fn http_total() {
    let fixture = Fixture::new();
    for version in VERSIONS {
        let server = Server::of_size(1000);
        let url = server.url();
        asking(&fixture, &server, &["fetch", &url, "1", version])
            .limit(Limit::HttpTotal, 5_000)
            .succeeds();
        let server = Server::dripping();
        let url = server.url();
        asking(&fixture, &server, &["fetch", &url, "1", version])
            .limit(Limit::HttpTotal, 300)
            .hits(Limit::HttpTotal);
    }
}

#[test]
fn process_depth() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["nest", "3"]).limit(Limit::ProcessDepth, 3).succeeds();
    assert_eq!(outcome.usage.processes, 3);
    fixture.run(&["nest", "4"]).limit(Limit::ProcessDepth, 3).hits(Limit::ProcessDepth);
    fixture.run(&["nest", "1"]).limit(Limit::ProcessDepth, 0).hits(Limit::ProcessDepth);
}

#[test]
fn processes() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["start", "5"]).limit(Limit::Processes, 5).succeeds();
    assert_eq!(outcome.usage.processes, 5);
    fixture.run(&["start", "6"]).limit(Limit::Processes, 5).hits(Limit::Processes);
}

#[test]
fn processes_alive() {
    let fixture = Fixture::new();
    fixture.run(&["nest", "3"]).limit(Limit::ProcessesAlive, 3).succeeds();
    fixture.run(&["nest", "4"]).limit(Limit::ProcessesAlive, 3).hits(Limit::ProcessesAlive);
    // Programs that have ended do not count.
    fixture.run(&["start", "5"]).limit(Limit::ProcessesAlive, 1).succeeds();
}

#[test]
fn a_handled_limit_is_named_in_a_successful_outcome() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["memory"]).limit(Limit::Memory, 32 << 20).go();
    assert_eq!(outcome.status, Status::Exited { code: 0 });
    assert_eq!(
        outcome.limits_hit.iter().map(|hit| (hit.limit, hit.value)).collect::<Vec<_>>(),
        [(Limit::Memory, 32 << 20)]
    );
}
