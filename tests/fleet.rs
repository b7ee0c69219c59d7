//! A fleet, with the broker of Debian (`cargo xtask servers` fetches it): API servers and workers are
//! processes of the real binary, and are killed as machines fail.

mod cached;
mod chaos;
mod disks;
mod failures;
mod runs;
mod security;
mod sessions;
mod tenants;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::hostile_host::HANG_TIMEOUT;
use crate::mcp::Place;
use crate::mcp::http::Server;
use crate::run_api::ApiServer;
use crate::sources::servers::unpacked;
use disks::Disks;

/// A broker, and the identities of a fleet. Servers and workers are started by the tests.
pub struct Fleet {
    pub place: Place,
    /// The port of the first broker; the others have the next ones.
    pub port: u16,
    brokers: Vec<Option<Child>>,
    /// Small disks, which its processes see.
    pub disks: Option<Disks>,
    /// The program of the brokers, if it is not the one of Debian.
    pub nats_server: Option<PathBuf>,
}

/// A worker.
pub struct Worker {
    pub child: Child,
    log: PathBuf,
}

impl Fleet {
    /// Creates the tenants and workers of these arguments, and starts a broker.
    pub fn new(args: &[&str]) -> Fleet {
        Fleet::cluster(1, args)
    }

    /// The same with several brokers.
    pub fn cluster(brokers: u16, args: &[&str]) -> Fleet {
        let mut fleet = Fleet::prepared(brokers, args);
        (0..brokers).for_each(|number| fleet.start_broker(number));
        fleet
    }

    /// The same before the brokers start.
    pub fn prepared(count: u16, args: &[&str]) -> Fleet {
        let (place, port) = (Place::new(), free_ports(count));
        let brokers = (0..count).map(|_| None).collect();
        let fleet = Fleet { place, port, brokers, disks: None, nats_server: None };
        fleet.init(&[args, &["--brokers", &count.to_string()]].concat());
        fleet
    }

    /// Prepares a command that sees the small disks, if there are any.
    pub fn seeing_disks(&self, command: Command) -> Command {
        match &self.disks {
            None => command,
            Some(disks) => disks.seeing(&command),
        }
    }

    /// Workers `one` and `two` for the tenant `default`.
    pub fn of_two() -> Fleet {
        Fleet::new(&["--worker", "one", "--worker", "two"])
    }

    pub fn init(&self, args: &[&str]) {
        let (folder, port) = (self.folder(), self.port.to_string());
        let mut command = self.place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.args(["fleet", "init", folder.to_str().unwrap(), "--port", &port]).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Returns the configuration of a broker.
    pub fn broker_configuration(&self, number: u16) -> PathBuf {
        self.folder().join(format!("broker/nats-server-{}.conf", number + 1))
    }

    pub fn start_broker(&mut self, number: u16) {
        let mut command = match &self.nats_server {
            Some(program) => Command::new(program),
            None => unpacked("nats-server", "usr/sbin/nats-server"),
        };
        command.arg("-c").arg(self.broker_configuration(number));
        let mut command = self.seeing_disks(command);
        let log = self.place.user.work().join(format!("broker-{number}.log"));
        let file = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut child = command.spawn().unwrap();
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port + number)).is_err() {
            let ended = child.try_wait().unwrap();
            let text = || std::fs::read_to_string(&log).unwrap();
            assert!(ended.is_none() && started.elapsed() < HANG_TIMEOUT, "{}", text());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.brokers[usize::from(number)] = Some(child);
    }

    /// Lets a broker read its configuration again.
    pub fn reload_broker(&self, number: u16) {
        let broker = self.brokers[usize::from(number)].as_ref().unwrap();
        kill_process(Pid::from_child(broker), Signal::HUP).unwrap();
    }

    /// Kills a broker.
    pub fn stop_broker(&mut self, number: u16) {
        if let Some(mut broker) = self.brokers[usize::from(number)].take() {
            drop(broker.kill());
            drop(broker.wait());
        }
    }

    pub fn folder(&self) -> PathBuf {
        self.place.user.work().join("fleet")
    }

    pub fn url(&self) -> String {
        let of = |number: usize| format!("tls://127.0.0.1:{}", usize::from(self.port) + number);
        (0..self.brokers.len()).map(of).collect::<Vec<_>>().join(",")
    }

    pub fn identity(&self, name: &str) -> String {
        self.folder().join(name).display().to_string()
    }

    /// Starts an API server. Another worker gets the run of one that is silent for a second.
    pub fn api(&self, args: &[&str]) -> ApiServer {
        let (url, identity) = (self.url(), self.identity("api"));
        let fleet = ["--listen", "127.0.0.1:0", "--nats", &url, "--nats-identity", &identity];
        let args = [&fleet[..], &["--nats-redeliver", "1s"], args].concat();
        let server = Server::of(&mut self.place.server("serve", &args));
        ApiServer { token: server.token.clone(), server }
    }

    /// Starts an API server for one tenant with these settings. Returns it with the arguments that its
    /// workers need as well.
    pub fn api_for(&self, tenant: &str, settings: &str) -> (ApiServer, [String; 2]) {
        let (token, sha256) = skillhost_server::api::tenants::new_token();
        let file = crate::run_api::tenants_file(&self.place, &[(tenant, &sha256, settings)]);
        let arguments = ["--tenants".to_owned(), file.display().to_string()];
        let mut server = self.api(&arguments.each_ref().map(String::as_str));
        server.token = token;
        (server, arguments)
    }

    /// Starts a worker, and waits until it works.
    pub fn worker(&self, name: &str, args: &[&str]) -> Worker {
        let (url, identity) = (self.url(), self.identity(name));
        let fleet = ["--nats", &url, "--nats-identity", &identity, "--slots", "4"];
        let fleet = [&fleet[..], &["--log", "warn,skillhost_fleet=info"]].concat();
        let mut command = self.place.server("worker", &[&fleet, args].concat());
        let worker = self.started(name, &mut command);
        if args.contains(&"--sessions") {
            let lines = |text: &str| worker.log().matches(text).count();
            until("the worker offers places", || {
                let offers = lines("offering places for sessions");
                offers > 0 && offers == lines("serving a tenant")
            });
        }
        worker
    }

    pub fn started(&self, name: &str, command: &mut Command) -> Worker {
        let log = self.place.user.work().join(format!("{name}.log"));
        let file = std::fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let worker = Worker { child: command.spawn().unwrap(), log };
        let started = Instant::now();
        while !worker.log().contains("at once") {
            assert!(started.elapsed() < HANG_TIMEOUT, "{}", worker.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        worker
    }

    /// Runs a command of the fleet that must succeed.
    pub fn command(&self, args: &[&str]) -> String {
        let (url, identity) = (self.url(), self.identity("api"));
        let mut command = self.place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.arg("fleet").args(args).args(["--nats", &url, "--nats-identity", &identity]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Connects to the broker as an identity, in the account of a tenant, and speaks its protocol.
    pub async fn connect_to(&self, tenant: &str, name: &str) -> async_nats::Client {
        let urls = self.url();
        let addresses: Vec<async_nats::ServerAddr> =
            urls.split(',').map(|url| url.parse().unwrap()).collect();
        self.options(tenant, name).connect(addresses).await.unwrap()
    }

    /// The same for the tenant `default`.
    pub async fn connect(&self, name: &str) -> async_nats::Client {
        self.connect_to("default", name).await
    }

    pub fn options(&self, tenant: &str, name: &str) -> async_nats::ConnectOptions {
        let folder = self.folder().join(name);
        let seed = std::fs::read_to_string(folder.join(format!("nats-{tenant}.seed"))).unwrap();
        async_nats::ConnectOptions::new()
            .nkey(seed.trim().to_owned())
            .custom_inbox_prefix(format!("_INBOX_{name}"))
            .require_tls(true)
            .add_root_certificates(folder.join("authority.pem"))
            .request_timeout(Some(Duration::from_secs(5)))
    }

    /// Returns all subjects of a stream that match.
    pub fn subjects(&self, stream: &str, filter: &str) -> BTreeSet<String> {
        block_on(async {
            let context = async_nats::jetstream::new(self.connect_to(tenant(stream), "api").await);
            subjects(&context, stream, filter).await
        })
    }

    /// Writes the value of a subject of the tenant `default`, as an API server could.
    pub fn write(&self, subject: &str, value: &Value) {
        block_on(async {
            let context = async_nats::jetstream::new(self.connect("api").await);
            let subject = subject.to_owned();
            context.publish(subject, value.to_string().into()).await.unwrap().await.unwrap();
        });
    }

    /// Deletes a subject of the tenant `default`, as a broker that loses it.
    pub fn forget(&self, stream: &str, subject: &str) {
        block_on(async {
            let context = async_nats::jetstream::new(self.connect("api").await);
            let stream = context.get_stream(stream).await.unwrap();
            stream.purge().filter(subject).await.unwrap();
        });
    }

    /// Returns the number of messages in a stream; 0 if no broker answers.
    pub fn count(&self, stream: &str) -> usize {
        block_on(async {
            let context = async_nats::jetstream::new(self.connect_to(tenant(stream), "api").await);
            match context.get_stream(stream).await {
                Ok(mut stream) => {
                    stream.info().await.map_or(0, |info| info.state.messages as usize)
                }
                Err(_) => 0,
            }
        })
    }

    /// Returns the values of all subjects of a stream that match, as the broker stores them.
    pub fn stored(&self, stream: &str, filter: &str) -> Vec<Value> {
        block_on(async {
            let context = async_nats::jetstream::new(self.connect_to(tenant(stream), "api").await);
            let subjects = subjects(&context, stream, filter).await;
            let stream = context.get_stream_no_info(stream).await.unwrap();
            let mut values = Vec::new();
            for subject in subjects {
                let found = stream.get_last_raw_message_by_subject(&subject).await.unwrap();
                values.push(serde_json::from_slice(&found.payload).unwrap());
            }
            values
        })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        (0..self.brokers.len()).for_each(|number| self.stop_broker(number as u16));
    }
}

impl Worker {
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns where servers reach its sessions.
    pub fn sessions_at(&self) -> String {
        let log = self.log();
        let at = log.lines().find_map(|line| line.strip_prefix("sessions: "));
        at.unwrap_or_else(|| panic!("{log}")).to_owned()
    }

    /// Kills the worker as the kernel does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the first of several ports that are free, with those that the brokers use among each other.
/// The kernel gives none of them to a server that asks for any port, and no other test gets them: a lock
/// lasts as long as this process.
pub fn free_ports(count: u16) -> u16 {
    const BLOCK: u16 = 16;
    assert!(count <= BLOCK);
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    loop {
        // Up to 12,000, since 2,000 is between the two ports of a broker.
        let first = 10_000 + rand::random_range(0..125) * BLOCK;
        let user = rustix::process::getuid().as_raw();
        let name = std::env::temp_dir().join(format!("skillhost-test-{user}-ports-{first}"));
        let lock = std::fs::File::create(name).unwrap();
        let all = first..first + count;
        if lock.try_lock().is_ok()
            && all.clone().all(is_free)
            && all.map(|port| port + 2_000).all(is_free)
        {
            std::mem::forget(lock);
            return first;
        }
    }
}

async fn subjects(
    context: &async_nats::jetstream::Context,
    stream: &str,
    filter: &str,
) -> BTreeSet<String> {
    use futures::TryStreamExt as _;
    let stream = context.get_stream_no_info(stream).await.unwrap();
    let subjects = stream.info_with_subjects(filter).await.unwrap();
    let subjects: Vec<(String, usize)> = subjects.try_collect().await.unwrap();
    subjects.into_iter().map(|(subject, _)| subject).collect()
}

/// The tenant of a stream.
fn tenant(stream: &str) -> &str {
    stream.splitn(3, '-').nth(2).unwrap()
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

/// A run of the skill `scribe` by a command of the shell.
pub fn shell(command: &str) -> Value {
    json!({ "skill": "scribe", "target": { "command": command } })
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < HANG_TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
