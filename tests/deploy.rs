//! The files in `deploy/`: servers and workers start with their arguments and policies and execute a run, and
//! the broker's certificate has the names that they connect to.

use std::path::PathBuf;

use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::mcp::Place;
use crate::mcp::http::Server;
use crate::run_api::ApiServer;
use crate::support::repository;

/// A file of `deploy/`.
struct Deployment {
    text: String,
    documents: Vec<Value>,
}

impl Deployment {
    fn read(file: &str) -> Deployment {
        let text = std::fs::read_to_string(repository("deploy").join(file)).unwrap();
        let documents = serde_saphyr::from_multiple(&text).unwrap();
        Deployment { text, documents }
    }

    /// Returns the arguments of a container, each with its value apart.
    fn arguments(&self, name: &str) -> Vec<String> {
        let found = self.documents.iter().find_map(|document| {
            let of_pod = document["metadata"]["name"] == name;
            let of_pod = of_pod.then(|| &document["spec"]["template"]["spec"]["containers"][0]);
            let of_compose = document["services"].get(name);
            of_pod
                .map(|pod| &pod["args"])
                .filter(|args| args.is_array())
                .or(of_compose.map(|service| &service["command"]))
        });
        let arguments = found.unwrap().as_array().unwrap().iter();
        arguments.flat_map(|one| one.as_str().unwrap().splitn(2, '=')).map(Into::into).collect()
    }

    /// Writes the policy of the file, with the skills of a place.
    fn policy(&self, place: &Place, text: Option<&str>) -> PathBuf {
        let mut policies =
            self.documents.iter().filter_map(|document| document["data"]["policy.yaml"].as_str());
        let policy = text.or_else(|| policies.next()).unwrap();
        assert!(policy.contains("/skills"), "{policy}");
        let file = place.user.work().join("policy.yaml");
        let policy = policy.replace("/skills", place.skills().to_str().unwrap());
        std::fs::write(&file, policy).unwrap();
        file
    }
}

/// Puts the paths and addresses of a test in the place of those of a container.
fn here(arguments: &[String], replaced: &[(&str, String)]) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    for (name, value) in replaced {
        let at = arguments.iter().position(|argument| argument == name);
        let at = at.unwrap_or_else(|| panic!("{arguments:?} have no {name}"));
        arguments[at + 1].clone_from(value);
    }
    // This machine has no other name.
    if let Some(at) = arguments.iter().position(|argument| argument == "--sessions-at") {
        arguments.drain(at..at + 2);
    }
    arguments
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn server(place: &Place, arguments: &[String]) -> ApiServer {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = Server::of(&mut place.server(arguments[0], &arguments[1..]));
    ApiServer { token: TOKEN.into(), server }
}

fn token(place: &Place) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let file = place.user.work().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}

fn calculates(server: &ApiServer) {
    let tool = json!({ "tool": { "name": "calculate", "input": { "expression": "6 * 7" } } });
    let result = server.result(&server.submit(&json!({ "skill": "calculator", "target": tool })));
    assert_eq!(result["outcome"]["result"]["result"], "42", "{result}");
}

#[test]
fn the_server_for_kubernetes_starts_and_executes_a_run() {
    let place = Place::new();
    let deployment = Deployment::read("kubernetes/skillhost.yaml");
    let policy = deployment.policy(&place, None).to_str().unwrap().to_owned();
    let arguments = here(
        &deployment.arguments("skillhost"),
        &[
            ("--listen", "127.0.0.1:0".into()),
            ("--token-file", token(&place)),
            ("--policy", policy),
        ],
    );
    let server = server(&place, &arguments);
    let probe = [("Host", "skillhost:8765"), ("Authorization", "")];
    assert_eq!(server.server.get("/healthz", &probe).status, 200);
    calculates(&server);
}

#[test]
fn the_fleet_for_kubernetes_executes_a_run() {
    let deployment = Deployment::read("kubernetes/fleet.yaml");
    let fleet = Fleet::cluster(3, &["--worker", "worker"]);
    executes(&fleet, &deployment, None, ["skillhost-api", "skillhost-worker"]);
}

#[test]
fn the_fleet_for_one_machine_executes_a_run() {
    let deployment = Deployment::read("compose.yaml");
    let fleet = Fleet::new(&["--worker", "worker"]);
    let policy = deployment.text.split('`').find(|text| text.starts_with("skill-folders")).unwrap();
    executes(&fleet, &deployment, Some(policy), ["api", "worker"]);
}

fn executes(
    fleet: &Fleet,
    deployment: &Deployment,
    policy: Option<&str>,
    [api, worker]: [&str; 2],
) {
    let place = &fleet.place;
    let policy = deployment.policy(place, policy).to_str().unwrap().to_owned();
    let of = |name: &str, identity: &str, own: &[(&str, String)]| {
        let shared = [
            ("--policy", policy.clone()),
            ("--nats", fleet.url()),
            ("--nats-identity", fleet.identity(identity)),
        ];
        here(&deployment.arguments(name), &[&shared, own].concat())
    };
    let listen = [("--listen", "127.0.0.1:0".to_owned()), ("--token-file", token(place))];
    let server = server(place, &of(api, "api", &listen));
    let worker = of(worker, "worker", &[("--sessions", "127.0.0.1:0".into())]);
    let worker: Vec<&str> = worker.iter().map(String::as_str).collect();
    let _worker = fleet.started("worker", &mut place.server(worker[0], &worker[1..]));
    calculates(&server);
}

#[test]
fn certificates_have_the_names_that_servers_and_workers_connect_to() {
    for (file, services) in [
        ("kubernetes/fleet.yaml", ["skillhost-api", "skillhost-worker"]),
        ("compose.yaml", ["api", "worker"]),
    ] {
        let deployment = Deployment::read(file);
        let init =
            deployment.text.lines().find_map(|line| line.split_once("skillhost fleet init "));
        let place = Place::new();
        let mut command = place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.current_dir(place.user.work()).args(["fleet", "init"]);
        let output = command.args(init.unwrap().1.split(' ')).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let pem = place.user.work().join("fleet/broker/server.pem");
        let certificate = CertificateDer::from_pem_file(pem).unwrap();
        let certificate = ParsedCertificate::try_from(&certificate).unwrap();
        for service in services {
            let arguments = deployment.arguments(service);
            let at = arguments.iter().position(|argument| argument == "--nats").unwrap();
            for url in arguments[at + 1].split(',') {
                let name = url.strip_prefix("tls://").unwrap().split(':').next().unwrap();
                let name = ServerName::try_from(name).unwrap();
                verify_server_name(&certificate, &name)
                    .unwrap_or_else(|error| panic!("{url}: {error}"));
            }
        }
    }
}
