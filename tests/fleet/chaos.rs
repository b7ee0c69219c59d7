//! A cluster under faults: three brokers, two API servers and three workers are killed, stopped and cut
//! off, and small disks fill, while clients submit runs; the clock of one worker is wrong. Every run that
//! was acknowledged ends once. `cargo xtask chaos` does the same with many more runs.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::disks::Disks;
use super::{Fleet, Worker, block_on, free_ports, until};
use crate::cli::skipped;
use crate::hostile_host::HANG_TIMEOUT;
use crate::mcp::http::Server;
use crate::sources::servers::unpacked;

/// The runs of the suite; `SKILLHOST_CHAOS_RUNS` is for `cargo xtask chaos`.
const RUNS: usize = 96;
/// The runs for each fault; `SKILLHOST_CHAOS_RUNS_PER_FAULT` is for `cargo xtask chaos`.
const RUNS_PER_FAULT: usize = 12;
/// The kinds of faults.
const FAULTS: usize = 8;
/// The clients that submit runs.
const CLIENTS: usize = 4;
/// The disk of each worker, in MiB, and of each broker: its store may use three quarters, which must
/// be more than the `storage` of the tenant.
const DISKS: [u32; 2] = [64, 2048];
/// The runs for which the disk of each worker has a MiB more: a worker keeps the files that its runs
/// wrote for an hour, and their records.
const RUNS_PER_MEBIBYTE: usize = 100;
/// How long no run ends before the brokers are asked what they have.
const IDLE: Duration = Duration::from_secs(15);
/// How far the wall clock of one worker is ahead.
const AHEAD: &str = "+90m";
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
    /// How often each kind of fault happened.
    faults: [usize; FAULTS],
}

const NAMES: [&str; 3] = ["one", "two", "three"];

impl Cluster {
    fn start(runs: usize) -> Cluster {
        let args = ["--worker", "one", "--worker", "two", "--worker", "three"];
        let mut fleet = Fleet::prepared(3, &args);
        let state = fleet.place.user.home().join(".local/state/skillhost/workers");
        let of_worker = DISKS[0] + u32::try_from(runs / RUNS_PER_MEBIBYTE).unwrap();
        let of_workers = NAMES.map(|name| (state.join(name), of_worker));
        let broker = fleet.folder().join("broker");
        let of_brokers = [1, 2, 3].map(|number| (broker.join(format!("store-{number}")), DISKS[1]));
        fleet.disks = Disks::new(&[of_workers, of_brokers].concat());
        if fleet.disks.is_none() {
            skipped("the kernel refuses mounts: no disk fills");
        }
        (0..3).for_each(|number| fleet.start_broker(number));
        std::fs::write(fleet.place.user.work().join("token"), "a-token-of-the-chaos").unwrap();
        let proxies = (0..3).map(|_| Proxy::new(&fleet)).collect();
        let ports = (0..2).map(|_| free_ports(1)).collect();
        let (servers, workers, faults) = (Vec::new(), Vec::new(), [0; FAULTS]);
        let mut cluster = Cluster { fleet, servers, ports, workers, proxies, faults };
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
        let mut server = Server::of(&mut self.fleet.place.server("serve", args.as_flattened()));
        // Else the server would wait until someone reads its log.
        let mut log = server.child.stderr.take().unwrap();
        let path = self.fleet.place.user.work().join(format!("server-{number}.log"));
        let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
        std::thread::spawn(move || drop(std::io::copy(&mut log, &mut file)));
        server
    }

    fn worker(&self, number: usize) -> Worker {
        let (url, identity) = (self.proxies[number].urls(), self.fleet.identity(NAMES[number]));
        let args = [["--nats", &url], ["--nats-identity", &identity], ["--slots", "2"]];
        let mut command = self.fleet.place.server("worker", args.as_flattened());
        if number == 0 {
            let fake = unpacked("libfaketime", "usr/lib");
            let library = find(fake.get_program().as_ref(), "libfaketime.so.1").unwrap();
            command.env("LD_PRELOAD", library).env("FAKETIME", AHEAD);
            // Files keep their times, and waiting is not affected.
            command.env("NO_FAKE_STAT", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let mut command = self.fleet.seeing_disks(command);
        self.fleet.started(NAMES[number], &mut command)
    }

    /// How often each kind of fault happened.
    fn summary(&self) -> String {
        let kinds = [
            "workers killed",
            "workers stopped",
            "API servers killed",
            "brokers killed",
            "workers delayed",
            "workers cut off",
            "disks of workers filled",
            "disks of brokers filled",
        ];
        let counted = kinds.iter().zip(self.faults).map(|(kind, count)| format!("{kind}: {count}"));
        counted.collect::<Vec<_>>().join(", ")
    }

    /// Lets one thing fail, and repairs it.
    fn fault(&mut self, kind: usize, random: &mut Random) {
        let pause = |random: &mut Random| {
            std::thread::sleep(Duration::from_millis(100 + random.below(1_400)));
        };
        let worker = random.below(3) as usize;
        let kind = kind % FAULTS;
        self.faults[kind] += 1;
        match kind {
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
            4 | 5 => {
                let proxy = &self.proxies[worker];
                proxy.mode.store(kind as u8 - 3, Ordering::SeqCst);
                std::thread::sleep(Duration::from_secs(3));
                proxy.mode.store(0, Ordering::SeqCst);
            }
            6 => {
                let Some(disks) = &self.fleet.disks else { return };
                disks.fill(worker);
                std::thread::sleep(Duration::from_secs(2));
                disks.free(worker);
            }
            _ => {
                let Some(disks) = &self.fleet.disks else { return };
                disks.fill(3 + worker);
                std::thread::sleep(Duration::from_secs(1));
                disks.free(3 + worker);
                // A broker without space stops storing until it is started again.
                self.fleet.stop_broker(worker as u16);
                self.fleet.start_broker(worker as u16);
                self.await_quorum();
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
    let runs_per_fault = number("SKILLHOST_CHAOS_RUNS_PER_FAULT").unwrap_or(RUNS_PER_FAULT);
    let seed = number("SKILLHOST_CHAOS_SEED").unwrap_or(7);
    let mut random = Random(seed as u64 | 1);
    let mut cluster = Cluster::start(runs);
    cluster.await_quorum();
    // Clients submit each run under a key until it is acknowledged, at either server.
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let acknowledged: Arc<Mutex<BTreeMap<usize, String>>> = Arc::default();
    // Each fault has its runs.
    let allowed = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (next, acknowledged) = (next.clone(), acknowledged.clone());
            let (ports, done) = (cluster.ports.clone(), done.clone());
            let allowed = allowed.clone();
            std::thread::spawn(move || {
                loop {
                    let run = next.fetch_add(1, Ordering::SeqCst);
                    if run >= runs {
                        return;
                    }
                    while run >= allowed.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(5));
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
        let count = acknowledged.lock().unwrap().len();
        if count >= fault * runs_per_fault {
            progress(&format!("{count} runs, {fault} faults"));
            allowed.store((fault + 1) * runs_per_fault, Ordering::SeqCst);
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
    progress(&format!("{} runs, each ended once; {}", acknowledged.len(), cluster.summary()));
}

/// Shows how far a test is that takes long.
#[expect(clippy::print_stderr, reason = "`cargo xtask chaos` shows it")]
fn progress(line: &str) {
    eprintln!("{line}");
}

/// Returns the file of this name below a folder.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.find_map(|path| match path.is_dir() {
        true => find(&path, name),
        false => path.ends_with(name).then_some(path),
    })
}

fn body(run: usize) -> Value {
    let command = format!("echo {run} > /workspace/out.txt; echo {run}");
    json!({ "skill": "writer", "target": { "command": command } })
}

/// The acknowledged runs whose end is not in the record of all runs.
fn unrecorded(cluster: &Cluster, acknowledged: &BTreeMap<usize, String>) -> Vec<usize> {
    let recorded = cluster.fleet.subjects("skillhost-audit-default", ">");
    let is_recorded = |id: &str| recorded.contains(&format!("skillhost.audit.default.{id}"));
    acknowledged.iter().filter(|(_, id)| !is_recorded(id)).map(|(run, _)| *run).collect()
}

/// Submits the runs again, under their keys, whose messages the brokers have lost: old versions lose
/// some when the leader of a queue is killed. The queue has nothing more to deliver, so skillhost alone
/// could not have kept them waiting.
fn repair(cluster: &Cluster, acknowledged: &BTreeMap<usize, String>) {
    let lost = unrecorded(cluster, acknowledged);
    let (version, state) = block_on(async {
        let client = cluster.fleet.connect("api").await;
        let version = client.server_info().version;
        let context = async_nats::jetstream::new(client);
        let stream = context.get_stream("skillhost-queue-default").await.unwrap();
        let small = stream.consumer_info("small").await.unwrap();
        assert_eq!((small.num_pending, small.num_ack_pending), (0, 0), "runs wait in the queue");
        let state = stream.get_info().await.unwrap().state;
        (version, format!("{} messages, the last is {}", state.messages, state.last_sequence))
    });
    progress(&format!(
        "nats-server {version} has lost the messages of {} acknowledged runs (queue: {state}; \
         delivered and acknowledged: all): submitting them again under their keys",
        lost.len()
    ));
    lost.into_iter().for_each(|run| submit_again(cluster, run, &acknowledged[&run]));
}

fn submit_again(cluster: &Cluster, run: usize, id: &str) {
    let key = format!("Idempotency-Key: run-{run}\r\n");
    let body = body(run).to_string();
    until("a run is accepted again", || {
        let again = request(cluster.ports[0], "POST", "/v1/runs", &key, &body);
        again.is_some_and(|(status, answer)| status == 200 && answer["id"] == json!(id))
    });
}

/// Returns the records of all runs by id, once each has an end. An end is stored before it is in the
/// record of all runs: if that has it and the run does not, a broker has lost it, or is a new leader
/// that does not know yet what it has stored.
fn ended(cluster: &Cluster, acknowledged: &BTreeMap<usize, String>) -> BTreeMap<String, Value> {
    let stored = |filter: &str| cluster.fleet.stored("skillhost-runs-default", filter);
    let records = stored("skillhost.run.default.*");
    let id_of = |record: &Value| record["id"].as_str().unwrap().to_owned();
    let mut by_id: BTreeMap<_, _> =
        records.into_iter().map(|record| (id_of(&record), record)).collect();
    for (run, id) in acknowledged {
        let has_ended = |record: &Value| record["state"]["ended"].is_object();
        let record = by_id.get_mut(id).unwrap_or_else(|| panic!("run {run} has no record"));
        if has_ended(record) {
            continue;
        }
        progress(&format!("run {run} is in the record of all runs, and not ended: {record}"));
        submit_again(cluster, *run, id);
        until("a run ends that was submitted again", || {
            *record = stored(&format!("skillhost.run.default.{id}"))[0].clone();
            has_ended(record)
        });
    }
    by_id
}

/// Checks that every run has ended once, with its own result and its own writes.
fn check(cluster: &Cluster, acknowledged: &BTreeMap<usize, String>) {
    let end = |signed: &Value| -> Value {
        serde_json::from_str(signed["payload"].as_str().unwrap()).unwrap()
    };
    // As long as runs end.
    let (mut count, mut since, mut repaired) = (0, Instant::now(), Instant::now());
    // The records of other runs must not count for one that is missing.
    while count < acknowledged.len() || !unrecorded(cluster, acknowledged).is_empty() {
        std::thread::sleep(Duration::from_millis(200));
        let now = cluster.fleet.count("skillhost-audit-default");
        if now > count {
            (count, since) = (now, Instant::now());
        }
        assert!(since.elapsed() < HANG_TIMEOUT, "{count} of {} runs end", acknowledged.len());
        if since.elapsed() > IDLE && repaired.elapsed() > IDLE {
            repair(cluster, acknowledged);
            repaired = Instant::now();
        }
    }
    let by_id = ended(cluster, acknowledged);
    for (run, id) in acknowledged {
        let ended = end(&by_id[id]["state"]["ended"]);
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
    let recorded = cluster.fleet.stored("skillhost-audit-default", ">");
    assert_eq!(recorded.len(), acknowledged.len(), "one record of each run");
    for recorded in recorded {
        let recorded = end(&recorded);
        let id = recorded["run"].as_str().unwrap();
        assert_eq!(recorded, end(&by_id[id]["state"]["ended"]), "one end, and its record");
    }
    let dead = cluster.fleet.command(&["dead", "list"]);
    assert_eq!(dead, "");
    for name in NAMES {
        let log = format!(".local/state/skillhost/workers/{name}/default/audit.jsonl");
        let log = cluster.fleet.place.user.home().join(log);
        let mut verify = cluster.fleet.place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        verify.args(["audit", "verify", "--audit", log.to_str().unwrap()]);
        let verified = cluster.fleet.seeing_disks(verify).output().unwrap();
        assert!(verified.status.success(), "{name}: {verified:?}");
    }
}
