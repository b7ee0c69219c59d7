//! A cluster under faults: three workers and two API servers are killed, stopped, delayed and cut off,
//! three brokers are killed, and small disks fill, while clients submit runs; the clock of one worker is
//! wrong. Every run that was acknowledged ends once, and runs are accepted soon after each fault.
//! `cargo xtask chaos` does the same with many more runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skillhost_skill::runtime::hex;

use super::disks::Disks;
use super::{Fleet, Worker, block_on, free_ports, until};
use crate::cli::skipped;
use crate::hostile_host::HANG_TIMEOUT;
use crate::mcp::http::Server;
use crate::sources::servers::unpacked;

/// The runs for each fault; `SKILLHOST_CHAOS_RUNS_PER_FAULT` is for `cargo xtask chaos`.
const RUNS_PER_FAULT: usize = 9;
/// The runs of the suite, which has one fault of each kind; `SKILLHOST_CHAOS_RUNS` is for
/// `cargo xtask chaos`.
const RUNS: usize = RUNS_PER_FAULT * FAULTS.len();
/// The clients that submit runs.
const CLIENTS: usize = 4;
/// The disk of each worker, in MiB, and of each broker: its store may use three quarters, which must
/// be more than the `storage` of the tenant.
const DISKS: [u32; 2] = [64, 2048];
/// The runs for which the disk of each worker has a MiB more: a worker keeps the files that its runs
/// wrote for half an hour, and their records.
const RUNS_PER_MEBIBYTE: usize = 100;
/// How long no run ends before the brokers are asked what they have.
const IDLE: Duration = Duration::from_secs(15);
/// How far the wall clock of one worker is ahead.
const AHEAD: &str = "+90m";
/// How soon after a fault each API server must accept a run.
const RECOVERED: Duration = Duration::from_secs(30);
/// How long a worker is stopped, delayed or cut off: longer than the brokers wait for a silent worker, so
/// that another one gets its runs.
const WORKER_OUTAGE: Duration = Duration::from_secs(3);
/// The same for an API server: longer than the first attempt of a client, so that it submits the run to
/// the other server while the first one still has the request.
const SERVER_OUTAGE: Duration = Duration::from_secs(2);

/// A kind of fault.
#[derive(Clone, Copy)]
enum Fault {
    KillWorker,
    StopWorker,
    DelayWorker,
    CutOffWorker,
    KillServer,
    StopServer,
    DelayServer,
    CutOffServer,
    KillBroker,
    FillWorkerDisk,
    FillBrokerDisk,
}

/// The kinds of faults, which take turns. The seed chooses what each of them hits.
const FAULTS: [(Fault, &str); 11] = [
    (Fault::KillWorker, "worker killed"),
    (Fault::StopServer, "API server stopped"),
    (Fault::StopWorker, "worker stopped"),
    (Fault::KillServer, "API server killed"),
    (Fault::KillBroker, "broker killed"),
    (Fault::DelayWorker, "worker delayed"),
    (Fault::CutOffServer, "API server cut off"),
    (Fault::CutOffWorker, "worker cut off"),
    (Fault::DelayServer, "API server delayed"),
    (Fault::FillWorkerDisk, "disk of a worker filled"),
    (Fault::FillBrokerDisk, "disk of a broker filled"),
];

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

/// What a proxy does with connections.
const PASS: u8 = 0;
const DELAY: u8 = 1;
const DROP: u8 = 2;

/// A proxy between the brokers and a worker or an API server.
struct Proxy {
    ports: Vec<u16>,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    fn new(fleet: &Fleet) -> Proxy {
        let mode = Arc::new(AtomicU8::new(PASS));
        let ports = (0..3).map(|number| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let (to, mode) = (fleet.port + number, mode.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    if mode.load(Ordering::SeqCst) == DROP {
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

    /// Delays or drops for a while. Returns when it stopped.
    fn disturb(&self, mode: u8, outage: Duration) -> Instant {
        self.mode.store(mode, Ordering::SeqCst);
        sleep(outage);
        self.mode.store(PASS, Ordering::SeqCst);
        Instant::now()
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
            DROP => break,
            DELAY => sleep(Duration::from_millis(200)),
            _ => {}
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

/// Stops a process for a while. Returns when it continued.
fn stop(process: &Child, outage: Duration) -> Instant {
    let pid = Pid::from_child(process);
    kill_process(pid, Signal::STOP).unwrap();
    sleep(outage);
    kill_process(pid, Signal::CONT).unwrap();
    Instant::now()
}

/// Submits a run under its key. Returns the status and the run's id if the server acknowledges it. The
/// first attempts wait only briefly for an answer: a server that is stopped gives none.
fn submit(port: u16, run: usize, attempt: usize) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1 << attempt.min(4)))).ok()?;
    let body = body(run).to_string();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nAuthorization: Bearer a-token-of-the-chaos\r\nContent-Type: application/json\r\nContent-Length: {}\r\nIdempotency-Key: run-{run}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
    let answer: Value = serde_json::from_str(body).ok()?;
    let id = answer["id"].as_str()?.to_owned();
    matches!(status, 200 | 202).then_some((status, id))
}

/// The runs of the clients.
struct Submissions {
    runs: usize,
    /// The first run that no client has taken.
    next: AtomicUsize,
    /// Clients submit the runs before this one: each fault has its runs.
    allowed: AtomicUsize,
    /// The ids of acknowledged runs.
    acknowledged: Mutex<BTreeMap<usize, String>>,
}

impl Submissions {
    /// Submits each run under a key until it is acknowledged, at either server, and then another run.
    fn submit(&self, client: usize, ports: &[u16]) {
        loop {
            let run = self.next.fetch_add(1, Ordering::SeqCst);
            if run >= self.runs {
                return;
            }
            while run >= self.allowed.load(Ordering::SeqCst) {
                sleep(Duration::from_millis(5));
            }
            for attempt in 0.. {
                let port = ports[(client + attempt) % ports.len()];
                if let Some((_, id)) = submit(port, run, attempt) {
                    self.acknowledged.lock().unwrap().insert(run, id);
                    break;
                }
                sleep(Duration::from_millis(50));
            }
        }
    }

    /// Waits until this many runs are acknowledged.
    fn await_acknowledged(&self, count: usize) {
        until("runs are acknowledged", || self.acknowledged.lock().unwrap().len() >= count);
    }
}

/// The processes that faults hit.
struct Cluster {
    fleet: Fleet,
    servers: Vec<Option<Server>>,
    ports: Vec<u16>,
    server_proxies: Vec<Proxy>,
    workers: Vec<Option<Worker>>,
    worker_proxies: Vec<Proxy>,
    /// How often each kind of fault happened.
    faults: BTreeMap<&'static str, usize>,
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
        // `cargo xtask chaos --nats-server`
        fleet.nats_server = std::env::var_os("SKILLHOST_CHAOS_NATS_SERVER").map(PathBuf::from);
        for number in 0..3 {
            if fleet.nats_server.is_some() {
                let file = fleet.broker_configuration(number);
                let text = std::fs::read_to_string(&file).unwrap();
                let synchronous = text.replace("# sync_interval: always", "sync_interval: always");
                assert_ne!(synchronous, text);
                std::fs::write(&file, synchronous).unwrap();
            }
            fleet.start_broker(number);
        }
        std::fs::write(fleet.place.user.work().join("token"), "a-token-of-the-chaos").unwrap();
        let mut cluster = Cluster {
            servers: Vec::new(),
            ports: (0..2).map(|_| free_ports(1)).collect(),
            server_proxies: (0..2).map(|_| Proxy::new(&fleet)).collect(),
            workers: Vec::new(),
            worker_proxies: (0..3).map(|_| Proxy::new(&fleet)).collect(),
            faults: BTreeMap::new(),
            fleet,
        };
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
        let (url, identity) = (self.server_proxies[number].urls(), self.fleet.identity("api"));
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
        let url = self.worker_proxies[number].urls();
        let identity = self.fleet.identity(NAMES[number]);
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

    /// Lets one thing fail, and repairs it. Returns when the fault ended. A process that was killed starts
    /// again after that, so the recovery includes the start.
    fn fault(&mut self, (fault, name): (Fault, &'static str), random: &mut Random) -> Instant {
        // Each fault takes four numbers, so that what the following faults hit depends on the seed alone.
        let (worker, server) = (random.below(3) as usize, random.below(2) as usize);
        let broker = worker as u16;
        let pause = Duration::from_millis(100 + random.below(1_400));
        // By then, the runs of this fault are in different states.
        sleep(Duration::from_millis(random.below(50)));
        let ended = match fault {
            Fault::KillWorker => {
                drop(self.workers[worker].take());
                sleep(pause);
                let ended = Instant::now();
                self.workers[worker] = Some(self.worker(worker));
                ended
            }
            Fault::StopWorker => stop(&self.workers[worker].as_ref().unwrap().child, WORKER_OUTAGE),
            Fault::DelayWorker => self.worker_proxies[worker].disturb(DELAY, WORKER_OUTAGE),
            Fault::CutOffWorker => self.worker_proxies[worker].disturb(DROP, WORKER_OUTAGE),
            Fault::KillServer => {
                drop(self.servers[server].take());
                sleep(pause);
                let ended = Instant::now();
                self.servers[server] = Some(self.server(server));
                ended
            }
            Fault::StopServer => stop(&self.servers[server].as_ref().unwrap().child, SERVER_OUTAGE),
            Fault::DelayServer => self.server_proxies[server].disturb(DELAY, SERVER_OUTAGE),
            Fault::CutOffServer => self.server_proxies[server].disturb(DROP, SERVER_OUTAGE),
            Fault::KillBroker => {
                self.fleet.stop_broker(broker);
                sleep(pause);
                let ended = Instant::now();
                self.fleet.start_broker(broker);
                ended
            }
            Fault::FillWorkerDisk => {
                let Some(disks) = &self.fleet.disks else { return Instant::now() };
                disks.fill(worker);
                sleep(Duration::from_secs(2));
                disks.free(worker);
                Instant::now()
            }
            Fault::FillBrokerDisk => {
                let Some(disks) = &self.fleet.disks else { return Instant::now() };
                disks.fill(3 + worker);
                sleep(Duration::from_secs(1));
                disks.free(3 + worker);
                let ended = Instant::now();
                // A broker without space stops storing until it is started again.
                self.fleet.stop_broker(broker);
                self.fleet.start_broker(broker);
                ended
            }
        };
        *self.faults.entry(name).or_default() += 1;
        ended
    }

    /// Submits a new run at each server until it is accepted, and adds these runs to `probes`, which are
    /// numbered from `first` on. Returns how long after the end of a fault the last one was accepted.
    fn accepts(
        &self,
        ended: Instant,
        first: usize,
        probes: &mut BTreeMap<usize, String>,
    ) -> Duration {
        for &port in &self.ports {
            let run = first + probes.len();
            for attempt in 0.. {
                if let Some((_, id)) = submit(port, run, attempt) {
                    probes.insert(run, id);
                    break;
                }
                assert!(ended.elapsed() < RECOVERED, "no run is accepted after {:?}", self.faults);
                sleep(Duration::from_millis(20));
            }
        }
        ended.elapsed()
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
                streams.is_ok_and(|all| all.len() == 6 && all.iter().all(is_current))
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
    // Xorshift needs a number other than 0, which differs for each seed.
    let mut random = Random(seed as u64 * 2 + 1);
    let mut cluster = Cluster::start(runs);
    cluster.await_quorum();
    let submissions = Arc::new(Submissions {
        runs,
        next: AtomicUsize::new(0),
        allowed: AtomicUsize::new(0),
        acknowledged: Mutex::default(),
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (submissions, ports) = (submissions.clone(), cluster.ports.clone());
            std::thread::spawn(move || submissions.submit(client, &ports))
        })
        .collect();
    let mut probes = BTreeMap::new();
    let (mut last, mut slowest) = (Duration::ZERO, Duration::ZERO);
    for number in 0..runs.div_ceil(runs_per_fault) {
        let (fault, name) = FAULTS[number % FAULTS.len()];
        submissions.await_acknowledged(number * runs_per_fault);
        submissions.allowed.store((number + 1) * runs_per_fault, Ordering::SeqCst);
        let ended = cluster.fault((fault, name), &mut random);
        // Before the brokers have a quorum again, which is part of the recovery.
        last = cluster.accepts(ended, runs, &mut probes);
        assert!(last < RECOVERED, "{name}: runs are accepted after {last:?}");
        slowest = slowest.max(last);
        progress(&format!("fault {}: {name}; runs are accepted after {last:.1?}", number + 1));
        // One broker at a time: the next fault may kill another one.
        cluster.await_quorum();
    }
    submissions.await_acknowledged(runs);
    clients.into_iter().for_each(|client| client.join().unwrap());
    let mut ids = submissions.acknowledged.lock().unwrap().clone();
    assert_eq!(ids.len(), runs);
    ids.append(&mut probes);
    let mut acknowledged = Acknowledged { ids, replaced: BTreeSet::new() };
    let repeated = check(&cluster, &mut acknowledged);
    progress(&format!(
        "{} runs, each ended once, {repeated} of them after several attempts; runs were accepted \
         {last:.1?} after the last fault and at most {slowest:.1?} after each; {:?}",
        acknowledged.ids.len(),
        cluster.faults
    ));
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

/// A run whose file and output have the same text, which differs for each attempt.
fn body(run: usize) -> Value {
    let command =
        format!("text=\"{run} $SRANDOM$SRANDOM\"; echo $text > /workspace/out.txt; echo $text");
    json!({ "skill": "writer", "target": { "command": command } })
}

/// The runs that were acknowledged to clients, and what became of their ids.
struct Acknowledged {
    ids: BTreeMap<usize, String>,
    /// The ids of runs whose keys the brokers have lost too: their keys name other runs now.
    replaced: BTreeSet<String>,
}

impl Acknowledged {
    /// The runs whose end is not in the record of all runs.
    fn unrecorded(&self, cluster: &Cluster) -> Vec<usize> {
        let recorded = cluster.fleet.subjects("skillhost-audit-default", ">");
        let is_recorded = |id: &str| recorded.contains(&format!("skillhost.audit.default.{id}"));
        self.ids.iter().filter(|(_, id)| !is_recorded(id)).map(|(run, _)| *run).collect()
    }

    /// The record of a run, unless the brokers have lost it.
    fn record(&self, cluster: &Cluster, run: usize) -> Option<Value> {
        let subject = format!("skillhost.run.default.{}", self.ids[&run]);
        cluster.fleet.stored("skillhost-runs-default", &subject).into_iter().next()
    }

    /// Submits a run again, under its key. It is the same run, unless the brokers have lost the key.
    fn submit_again(&mut self, cluster: &Cluster, run: usize) {
        let key = hex(&Sha256::digest(format!("run-{run}")));
        let key = format!("skillhost.key.default.{key}");
        let is_lost = cluster.fleet.stored("skillhost-keys-default", &key).is_empty();
        let (started, mut last) = (Instant::now(), None);
        let id = (1..).find_map(|attempt| {
            assert!(started.elapsed() < HANG_TIMEOUT, "{run} is not accepted again: {last:?}");
            last = submit(cluster.ports[0], run, attempt);
            last.clone().filter(|(status, _)| *status == 200)
        });
        let (_, id) = id.unwrap();
        let before = &self.ids[&run];
        if id != *before {
            assert!(is_lost, "the key of run {run} names {id} and not {before}");
            progress(&format!("the brokers have lost the key of run {run}: it is another run now"));
            self.replaced.insert(before.clone());
            self.ids.insert(run, id);
        }
    }
}

/// Submits the runs again, under their keys, whose records or messages the brokers have lost: old versions
/// lose some when the leader of a stream is killed. If no record is lost, the queue has nothing more to
/// deliver, so skillhost alone could not have kept the runs waiting.
fn repair(cluster: &Cluster, acknowledged: &mut Acknowledged) {
    let lost = acknowledged.unrecorded(cluster);
    let waiting = block_on(async {
        let context = async_nats::jetstream::new(cluster.fleet.connect("api").await);
        let stream = context.get_stream("skillhost-queue-default").await.unwrap();
        let small = stream.consumer_info("small").await.unwrap();
        (small.num_pending, small.num_ack_pending)
    });
    let (with_record, without): (Vec<usize>, Vec<usize>) =
        lost.iter().partition(|run| acknowledged.record(cluster, **run).is_some());
    let (what, lost) = match without.is_empty() {
        true => {
            let records: Vec<_> =
                with_record.iter().map(|run| acknowledged.record(cluster, *run)).collect();
            assert_eq!(waiting, (0, 0), "runs wait in the queue: {records:?}");
            ("messages", with_record)
        }
        // Workers offer the messages to one another until they count as those of deleted runs.
        false => ("records", without),
    };
    progress(&format!(
        "the brokers have lost the {what} of {} acknowledged runs (to deliver and to acknowledge: \
         {waiting:?}): submitting them again under their keys",
        lost.len()
    ));
    show_streams(cluster);
    lost.into_iter().for_each(|run| acknowledged.submit_again(cluster, run));
}

/// Shows the state of the streams that may have lost something, and the version of the brokers.
fn show_streams(cluster: &Cluster) {
    block_on(async {
        let client = cluster.fleet.connect("api").await;
        let version = client.server_info().version;
        let context = async_nats::jetstream::new(client);
        let streams = ["queue", "runs", "keys", "audit"];
        for stream in streams.map(|kind| format!("skillhost-{kind}-default")) {
            let info = context.get_stream(&stream).await.unwrap().get_info().await.unwrap();
            progress(&format!("nats-server {version}: {stream}: {:?}", info.state));
        }
    });
}

/// Returns the records of all runs by id, once each has an end. An end is stored before it is in the
/// record of all runs: if that has it and the run does not, a broker has lost it, or is a new leader
/// that does not know yet what it has stored.
fn ended(cluster: &Cluster, acknowledged: &mut Acknowledged) -> BTreeMap<String, Value> {
    let records = cluster.fleet.stored("skillhost-runs-default", "skillhost.run.default.*");
    let id_of = |record: &Value| record["id"].as_str().unwrap().to_owned();
    let mut by_id: BTreeMap<_, _> =
        records.into_iter().map(|record| (id_of(&record), record)).collect();
    let has_ended = |record: &Value| record["state"]["ended"].is_object();
    let is_lost = |id: &String| !by_id.get(id).is_some_and(has_ended);
    let lost: Vec<(usize, String)> =
        acknowledged.ids.clone().into_iter().filter(|(_, id)| is_lost(id)).collect();
    if !lost.is_empty() {
        show_streams(cluster);
    }
    for (run, id) in lost {
        let before = by_id.get(&id).unwrap_or(&Value::Null);
        progress(&format!("run {run} is in the record of all runs, and not ended: {before}"));
        by_id.remove(&id);
        acknowledged.submit_again(cluster, run);
        until("a run ends that was submitted again", || {
            // The brokers may have lost the record itself.
            let found = acknowledged.record(cluster, run).filter(has_ended);
            found.is_some_and(|record| by_id.insert(id_of(&record), record).is_none())
        });
    }
    by_id
}

/// Waits until the end of every run is in the record of all runs.
fn await_ends(cluster: &Cluster, acknowledged: &mut Acknowledged) {
    // As long as runs end.
    let (mut count, mut since, mut repaired) = (0, Instant::now(), Instant::now());
    // The records of other runs must not count for one that is missing.
    while count < acknowledged.ids.len() || !acknowledged.unrecorded(cluster).is_empty() {
        sleep(Duration::from_millis(200));
        let now = cluster.fleet.count("skillhost-audit-default");
        if now > count {
            (count, since) = (now, Instant::now());
        }
        assert!(since.elapsed() < HANG_TIMEOUT, "{count} of {} runs end", acknowledged.ids.len());
        if since.elapsed() > IDLE && repaired.elapsed() > IDLE {
            repair(cluster, acknowledged);
            repaired = Instant::now();
        }
    }
}

/// What a worker has signed.
fn payload(signed: &Value) -> Value {
    serde_json::from_str(signed["payload"].as_str().unwrap()).unwrap()
}

/// Checks that every run has ended once, with its own result and its own writes. Returns how many needed
/// several attempts.
fn check(cluster: &Cluster, acknowledged: &mut Acknowledged) -> usize {
    await_ends(cluster, acknowledged);
    let by_id = ended(cluster, acknowledged);
    // Of those that became other runs.
    await_ends(cluster, acknowledged);
    let (mut nonces, mut repeated, mut restored) = (BTreeSet::new(), 0, 0);
    for (run, id) in &acknowledged.ids {
        let signed = &by_id[id]["state"]["ended"];
        let ended = payload(signed);
        assert_eq!(ended["status"], "succeeded", "{run}: {ended}");
        repeated += usize::from(ended["attempt"] != 1);
        let inline =
            |part: &str| signed["inline"][ended["left"][part]["digest"].as_str()?].as_str();
        let (Some(stdout), Some(result)) = (inline("stdout"), inline("result")) else {
            // The brokers had lost the end, and it was restored from the record of all runs.
            restored += 1;
            continue;
        };
        let nonce = stdout.strip_prefix(&format!("{run} ")).unwrap_or_else(|| panic!("{ended}"));
        assert!(nonces.insert(nonce.to_owned()), "{run}: attempts look alike: {ended}");
        let result: Value = serde_json::from_str(result).unwrap();
        // The attempt that wrote the file is the one that wrote the output.
        let written = skillhost_skill::runtime::digest(stdout.as_bytes());
        assert_eq!(result["changes"].as_array().unwrap().len(), 1, "{result}");
        assert_eq!(result["changes"][0]["after"]["digest"], written, "{run}: {ended}");
    }
    if restored > 0 {
        progress(&format!(
            "the brokers have lost the ends of {restored} runs, which have no output any more"
        ));
    }
    // A key has one run: no submission became two.
    assert_eq!(by_id.len(), acknowledged.ids.len(), "runs that no client knows");
    check_audit(cluster, acknowledged, &by_id);
    let dead = cluster.fleet.command(&["dead", "list"]);
    assert_eq!(dead, "");
    let replaced = &acknowledged.replaced;
    assert!(replaced.is_empty(), "second runs under the keys of {} runs", replaced.len());
    repeated
}

/// Checks that the record of all runs verifies and has the end of each run once, and that the logs of the
/// workers verify.
fn check_audit(cluster: &Cluster, acknowledged: &Acknowledged, by_id: &BTreeMap<String, Value>) {
    // Fails if a record is missing or a signature is wrong.
    let audit = cluster.fleet.command(&["audit"]);
    let mut recorded = BTreeSet::new();
    for line in audit.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let id = record["run"].as_str().unwrap().to_owned();
        if acknowledged.replaced.contains(&id) {
            continue;
        }
        assert_eq!(record, payload(&by_id[&id]["state"]["ended"]), "the end, and its record");
        assert!(recorded.insert(id), "a second record: {line}");
    }
    let ids: BTreeSet<String> = acknowledged.ids.values().cloned().collect();
    assert_eq!(recorded, ids, "one record of each run");
    for name in NAMES {
        let log = format!(".local/state/skillhost/workers/{name}/default/audit.jsonl");
        let log = cluster.fleet.place.user.home().join(log);
        let mut verify = cluster.fleet.place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        verify.args(["audit", "verify", "--audit", log.to_str().unwrap()]);
        let verified = cluster.fleet.seeing_disks(verify).output().unwrap();
        assert!(verified.status.success(), "{name}: {verified:?}");
    }
}
