//! A cluster under faults: three brokers, two API servers and three workers, killed, stopped and cut off
//! while clients submit runs. Every run that was acknowledged ends once. `cargo xtask chaos` does the same
//! with many more runs.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Fleet, Worker, block_on, free_ports, until};
use crate::mcp::http::Server;

/// The runs of the suite; `SKILLHOST_CHAOS_RUNS` is for `cargo xtask chaos`.
const RUNS: usize = 90;
/// The faults; one for each few runs.
const RUNS_PER_FAULT: usize = 15;
/// How soon after the last fault a run must be accepted.
const RECOVERED: Duration = Duration::from_secs(30);

/// Numbers that a seed repeats.
struct Random(u64);

impl Random {
    /// A number below this one.
    fn below(&mut self, most: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % most
    }
}

/// A proxy between a worker and the brokers.
struct Proxy {
    ports: Vec<u16>,
    /// 0: passes, 1: delays, 2: drops.
    mode: Arc<AtomicU8>,
}

impl Proxy {
    fn new(fleet: &Fleet) -> Proxy {
        let mode = Arc::new(AtomicU8::new(0));
        let ports = (0..3).map(|number| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let (to, mode) = (fleet.port + number, mode.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    if mode.load(Ordering::SeqCst) == 2 {
                        continue;
                    }
                    let Ok(broker) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else {
                        continue;
                    };
                    for (from, to) in [(&stream, &broker), (&broker, &stream)] {
                        let pair = (from.try_clone().unwrap(), to.try_clone().unwrap());
                        let mode = mode.clone();
                        std::thread::spawn(move || pass(pair.0, pair.1, &mode));
                    }
                }
            });
            port
        });
        Proxy { ports: ports.collect(), mode }
    }

    fn urls(&self) -> String {
        let urls: Vec<String> =
            self.ports.iter().map(|port| format!("tls://127.0.0.1:{port}")).collect();
        urls.join(",")
    }
}

/// Passes bytes on, as the mode says.
fn pass(mut from: TcpStream, mut to: TcpStream, mode: &AtomicU8) {
    from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(_) => break,
        };
        match mode.load(Ordering::SeqCst) {
            2 => break,
            1 => std::thread::sleep(Duration::from_millis(200)),
            _ => {}
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

/// A request that may fail.
fn request(port: u16, method: &str, path: &str, key: &str, body: &str) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nAuthorization: Bearer a-token-of-the-chaos\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{key}\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}

/// The processes that faults hit.
struct Cluster {
    fleet: Fleet,
    servers: Vec<Option<Server>>,
    ports: Vec<u16>,
    workers: Vec<Option<Worker>>,
    proxies: Vec<Proxy>,
}

const NAMES: [&str; 3] = ["one", "two", "three"];

impl Cluster {
    fn start() -> Cluster {
        let args = ["--worker", "one", "--worker", "two", "--worker", "three"];
        let fleet = Fleet::cluster(3, &args);
        std::fs::write(fleet.place.user.work().join("token"), "a-token-of-the-chaos").unwrap();
        let proxies = (0..3).map(|_| Proxy::new(&fleet)).collect();
        let ports = (0..2).map(|_| free_ports(1)).collect();
        let mut cluster =
            Cluster { fleet, servers: Vec::new(), ports, workers: Vec::new(), proxies };
        for number in 0..2 {
            let server = cluster.server(number);
            cluster.servers.push(Some(server));
        }
        for number in 0..3 {
            let worker = cluster.worker(number);
            cluster.workers.push(Some(worker));
        }
        cluster
    }

    fn server(&self, number: usize) -> Server {
        let (url, identity) = (self.fleet.url(), self.fleet.identity("api"));
        let listen = format!("127.0.0.1:{}", self.ports[number]);
        let token = self.fleet.place.user.work().join("token");
        let args = [
            ["--listen", &listen],
            ["--token-file", token.to_str().unwrap()],
            ["--nats", &url],
            ["--nats-identity", &identity],
            ["--nats-replicas", "3"],
            ["--nats-redeliver", "2s"],
            // Faults are no fault of a run.
            ["--nats-attempts", "50"],
        ];
        Server::of(&mut self.fleet.place.server("serve", args.as_flattened()))
    }

    fn worker(&self, number: usize) -> Worker {
        let (url, identity) = (self.proxies[number].urls(), self.fleet.identity(NAMES[number]));
        let args = [["--nats", &url], ["--nats-identity", &identity], ["--slots", "2"]];
        let mut command = self.fleet.place.server("worker", args.as_flattened());
        self.fleet.started(NAMES[number], &mut command)
    }

    /// Lets one thing fail, and repairs it.
    fn fault(&mut self, kind: usize, random: &mut Random) {
        let pause = |random: &mut Random| {
            std::thread::sleep(Duration::from_millis(100 + random.below(1_400)));
        };
        let worker = random.below(3) as usize;
        match kind % 6 {
            0 => {
                drop(self.workers[worker].take());
                pause(random);
                self.workers[worker] = Some(self.worker(worker));
            }
            1 => {
                let stopped = self.workers[worker].as_ref().unwrap();
                stopped.signal(Signal::STOP);
                std::thread::sleep(Duration::from_secs(3));
                stopped.signal(Signal::CONT);
            }
            2 => {
                let server = random.below(2) as usize;
                drop(self.servers[server].take());
                pause(random);
                self.servers[server] = Some(self.server(server));
            }
            3 => {
                // One at a time, and then a quorum again.
                let broker = random.below(3) as u16;
                self.fleet.stop_broker(broker);
                pause(random);
                self.fleet.start_broker(broker);
                self.await_quorum();
            }
            mode => {
                let proxy = &self.proxies[worker];
                proxy.mode.store(if mode == 4 { 1 } else { 2 }, Ordering::SeqCst);
                std::thread::sleep(Duration::from_secs(3));
                proxy.mode.store(0, Ordering::SeqCst);
            }
        }
    }

    /// Waits until every broker is a current copy of every stream.
    fn await_quorum(&self) {
        use futures::TryStreamExt as _;
        until("the brokers have a quorum", || {
            block_on(async {
                let context = async_nats::jetstream::new(self.fleet.connect("api").await);
                let streams: Result<Vec<_>, _> = context.streams().try_collect().await;
                let is_current = |info: &async_nats::jetstream::stream::Info| {
                    info.cluster.as_ref().is_some_and(|cluster| {
                        cluster.leader.is_some()
                            && cluster.replicas.len() == 2
                            && cluster.replicas.iter().all(|peer| peer.current && !peer.offline)
                    })
                };
                streams.is_ok_and(|all| all.len() == 5 && all.iter().all(is_current))
            })
        });
    }
}

#[test]
fn no_acknowledged_run_is_lost_or_ends_twice() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let runs: usize = number("SKILLHOST_CHAOS_RUNS").unwrap_or(RUNS);
    let seed = number("SKILLHOST_CHAOS_SEED").unwrap_or(7);
    let mut random = Random(seed as u64 | 1);
    let mut cluster = Cluster::start();
    cluster.await_quorum();
    // Clients submit each run under a key until it is acknowledged, at either server.
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let acknowledged: Arc<Mutex<BTreeMap<usize, String>>> = Arc::default();
    let clients: Vec<_> = (0..2)
        .map(|client| {
            let (next, acknowledged) = (next.clone(), acknowledged.clone());
            let (ports, done) = (cluster.ports.clone(), done.clone());
            std::thread::spawn(move || {
                loop {
                    let run = next.fetch_add(1, Ordering::SeqCst);
                    if run >= runs {
                        return;
                    }
                    let key = format!("Idempotency-Key: run-{run}\r\n");
                    let body = body(run).to_string();
                    for attempt in 0.. {
                        let port = ports[(client + attempt) % 2];
                        if let Some((200 | 202, answer)) =
                            request(port, "POST", "/v1/runs", &key, &body)
                        {
                            let id = answer["id"].as_str().unwrap().to_owned();
                            acknowledged.lock().unwrap().insert(run, id);
                            break;
                        }
                        if done.load(Ordering::SeqCst) {
                            return;
                        }
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
            })
        })
        .collect();
    let mut fault = 0;
    while clients.iter().any(|client| !client.is_finished()) {
        if acknowledged.lock().unwrap().len() >= fault * RUNS_PER_FAULT {
            cluster.fault(fault, &mut random);
            fault += 1;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // The cluster accepts runs again.
    let last = Instant::now();
    let accepted = |run: usize| {
        let key = format!("Idempotency-Key: run-{run}\r\n");
        let body = body(run).to_string();
        request(cluster.ports[0], "POST", "/v1/runs", &key, &body)
            .filter(|(status, _)| *status == 202)
            .map(|(_, answer)| answer["id"].as_str().unwrap().to_owned())
    };
    let mut one_more = None;
    until("a run is accepted after the last fault", || {
        one_more = accepted(runs);
        one_more.is_some()
    });
    assert!(last.elapsed() < RECOVERED, "{:?}", last.elapsed());
    let mut acknowledged = acknowledged.lock().unwrap().clone();
    assert_eq!(acknowledged.len(), runs, "{fault} faults");
    acknowledged.insert(runs, one_more.unwrap());
    check(&cluster, &acknowledged);
}

fn body(run: usize) -> Value {
    let command = format!("echo {run} > /workspace/out.txt; echo {run}");
    json!({ "skill": "writer", "target": { "command": command } })
}

/// Checks that every run has ended once, with its own result and its own writes.
fn check(cluster: &Cluster, acknowledged: &BTreeMap<usize, String>) {
    let record = |id: &str| -> Value {
        cluster.fleet.stored("skillhost-runs-default", &format!("skillhost.run.default.{id}"))[0]
            .clone()
    };
    let end = |signed: &Value| -> Value {
        serde_json::from_str(signed["payload"].as_str().unwrap()).unwrap()
    };
    for id in acknowledged.values() {
        until(id, || record(id)["state"]["ended"].is_object());
    }
    let records = cluster.fleet.stored("skillhost-runs-default", "skillhost.run.default.*");
    let by_id: BTreeMap<&str, &Value> =
        records.iter().map(|record| (record["id"].as_str().unwrap(), record)).collect();
    for (run, id) in acknowledged {
        let ended = end(&by_id[&**id]["state"]["ended"]);
        assert_eq!(ended["status"], "succeeded", "{run}: {ended}");
        assert_eq!(ended["left"]["stdout"]["inline"], format!("{run}\n"), "{ended}");
        let result = ended["left"]["result"]["inline"].as_str().unwrap();
        let result: Value = serde_json::from_str(result).unwrap();
        let written = skillhost_skill::runtime::digest(format!("{run}\n").as_bytes());
        assert_eq!(result["changes"].as_array().unwrap().len(), 1, "{result}");
        assert_eq!(result["changes"][0]["after"]["digest"], written, "{result}");
    }
    // A key has one run: no submission became two.
    assert_eq!(by_id.len(), acknowledged.len(), "runs that no client knows");
    until("all ends are recorded", || {
        cluster.fleet.stored("skillhost-audit-default", ">").len() == acknowledged.len()
    });
    for recorded in cluster.fleet.stored("skillhost-audit-default", ">") {
        let recorded = end(&recorded);
        let id = recorded["run"].as_str().unwrap();
        assert_eq!(recorded, end(&by_id[id]["state"]["ended"]), "one end, and its record");
    }
    let dead = cluster.fleet.command(&["dead", "list"]);
    assert_eq!(dead, "");
    for name in NAMES {
        let log = format!(".local/state/skillhost/workers/{name}/default/audit.jsonl");
        let log = cluster.fleet.place.user.home().join(log);
        let verified = cluster.fleet.place.user.skillhost(&[
            "audit",
            "verify",
            "--audit",
            log.to_str().unwrap(),
        ]);
        assert!(verified.status.success(), "{name}: {verified:?}");
    }
}
