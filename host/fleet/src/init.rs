//! Creates the identities of a fleet, and the configuration of its brokers: TLS, an account for each
//! tenant, one key of each identity in it, and for each key the subjects that it may use.
//!
//! Permissions alone do not separate tenants: a broker sends the answer to a request to any subject
//! that the request names, also to one that its sender may not use. No subject of one account reaches
//! another account.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::identity::{
    AUTHORITY, IDENTITY, Profile, Role, SIGNERS, SIGNING_KEY, Signer, TLS_CERTIFICATE, TLS_KEY,
    seed_file,
};
use crate::streams::Permissions;
use crate::tls;
use skillhost_ledger::receipt::key::SigningKey;
use skillhost_skill::private;

const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";
/// The part of the configuration that all brokers share, wherever they run.
const AUTHORIZATION: &str = "authorization.conf";
/// The most bytes of a file that an earlier call wrote.
const MOST: u64 = 1 << 20;
/// The distance of the port for other brokers from the port for clients.
const CLUSTER: u16 = 2_000;

/// What to create.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The folder of the fleet.
    pub folder: PathBuf,
    /// The tenants.
    pub tenants: BTreeSet<String>,
    /// The workers, and the tenants that each serves: all tenants if the set is empty.
    pub workers: BTreeMap<String, BTreeSet<String>>,
    /// The names and addresses under which the brokers are reached.
    pub hosts: Vec<String>,
    /// The port of the first broker.
    pub port: u16,
    /// The number of brokers on this machine.
    pub brokers: u16,
}

/// A file of the fleet cannot be written, or what is there is not what an earlier call wrote.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {why}", path.display())]
pub struct InitError {
    /// The file or folder.
    pub path: PathBuf,
    /// The cause.
    pub why: String,
}

/// A private folder.
struct Folder {
    path: PathBuf,
    dir: Dir,
}

impl Plan {
    /// The name of the identity of API servers.
    pub const API: &str = "api";
    /// The name of the folder of the brokers.
    pub const BROKER: &str = "broker";

    /// Creates what is missing, and writes the permissions anew. Keys and certificates that exist stay
    /// as they are. Returns the files of the brokers' configuration.
    ///
    /// # Errors
    /// The file system fails, or a file is not what an earlier call wrote.
    pub fn write(&self) -> Result<Vec<PathBuf>, InitError> {
        let mut profiles = vec![Profile {
            name: Self::API.into(),
            role: Role::Api,
            tenants: self.tenants.iter().cloned().collect(),
        }];
        for (name, tenants) in &self.workers {
            let tenants = if tenants.is_empty() { &self.tenants } else { tenants };
            let tenants = tenants.iter().cloned().collect();
            profiles.push(Profile { name: name.clone(), role: Role::Worker, tenants });
        }
        let broker = Folder::open(self.folder.join(Self::BROKER))?;
        self.certificates(&broker)?;
        let authority = broker.read(AUTHORITY)?.unwrap_or_default();
        let mut signers = Vec::new();
        let mut accounts: BTreeMap<&str, String> = BTreeMap::new();
        for profile in &profiles {
            let folder = Folder::open(self.folder.join(&profile.name))?;
            for tenant in &profile.tenants {
                let user = of_user(&folder.broker_key(tenant)?, profile, tenant);
                accounts.entry(tenant).or_default().push_str(&user);
            }
            let signing = match folder.read(SIGNING_KEY)? {
                Some(pem) => {
                    SigningKey::from_pem(&pem).map_err(|error| folder.error(SIGNING_KEY, error))?
                }
                None => {
                    let key = SigningKey::generate();
                    folder.write(SIGNING_KEY, &key.pem())?;
                    key
                }
            };
            let certificate = Some(folder.tls_certificate(&profile.name)?);
            let key = signing.public().pem();
            signers.push(Signer { profile: profile.clone(), key, certificate });
        }
        for profile in &profiles {
            let folder = Folder::open(self.folder.join(&profile.name))?;
            folder.write(AUTHORITY, &authority)?;
            folder.write(IDENTITY, &json(profile))?;
            folder.write(SIGNERS, &json(&signers))?;
        }
        let mut authorization = String::from("authorization { timeout: 5 }\naccounts {\n");
        for (tenant, users) in accounts {
            let tenant = quoted(tenant);
            // Writing to a text does not fail.
            writeln!(
                authorization,
                "  {tenant}: {{\n    jetstream: enabled\n    users: [\n{users}    ]\n  }}"
            )
            .ok();
        }
        authorization.push_str("}\n");
        broker.write(AUTHORIZATION, &authorization)?;
        let mut written = Vec::new();
        for number in 1..=self.brokers {
            let name = format!("nats-server-{number}.conf");
            broker.write(&name, &self.configuration(&broker.path, number))?;
            written.push(broker.path.join(name));
        }
        Ok(written)
    }

    /// Creates the brokers' certificate and its authority, unless they exist. The authority's key is
    /// not kept: it signs nothing else.
    fn certificates(&self, broker: &Folder) -> Result<(), InitError> {
        if broker.read(CERTIFICATE)?.is_some() {
            return Ok(());
        }
        let make = || -> Result<[(&str, String); 3], rcgen::Error> {
            let mut params = CertificateParams::new(Vec::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.distinguished_name.push(DnType::CommonName, "brokers of a skillhost fleet");
            let key = KeyPair::generate()?;
            let authority = params.self_signed(&key)?.pem();
            let own = KeyPair::generate()?;
            // Brokers of one machine reach each other by its loopback address.
            let own_names = ["localhost", "127.0.0.1"].map(str::to_owned);
            let names: BTreeSet<String> = self.hosts.iter().cloned().chain(own_names).collect();
            let mut of = CertificateParams::new(names.into_iter().collect::<Vec<_>>())?;
            of.distinguished_name.push(DnType::CommonName, "a broker of a skillhost fleet");
            let certificate = of.signed_by(&own, &Issuer::new(params, key))?.pem();
            Ok([(AUTHORITY, authority), (KEY, own.serialize_pem()), (CERTIFICATE, certificate)])
        };
        let files = make().map_err(|error| broker.error(CERTIFICATE, error.to_string()))?;
        files.iter().try_for_each(|(name, text)| broker.write(name, text))
    }

    fn configuration(&self, folder: &Path, number: u16) -> String {
        let port = |number: u16| self.port + number - 1;
        let file = |name: &str| quoted(&folder.join(name).display().to_string());
        let listen =
            if self.hosts.iter().all(|host| is_loopback(host)) { "127.0.0.1" } else { "0.0.0.0" };
        let tls = format!(
            "{{\n  cert_file: {}\n  key_file: {}\n  ca_file: {}\n  timeout: 5\n}}",
            file(CERTIFICATE),
            file(KEY),
            file(AUTHORITY)
        );
        let mut text = format!(
            "# Written by `skillhost fleet init`: change its arguments and call it again.
server_name: \"skillhost-{number}\"
listen: \"{listen}:{}\"
max_payload: 1MB
jetstream {{
  store_dir: {}
  # The size of the disk is the limit. Without this line, the quotas of all tenants together are limited to
  # three quarters of what is free when the broker starts, and a broker that starts on a fuller disk does
  # not restore the files of some tenants.
  max_file_store: 1PB
  # With NATS 2.10 and later, let every write reach the disk before it is acknowledged:
  # sync_interval: always
}}
tls {tls}
include \"{AUTHORIZATION}\"
",
            port(number),
            file(&format!("store-{number}")),
        );
        if self.brokers > 1 {
            let routes: Vec<String> = (1..=self.brokers)
                .filter(|other| *other != number)
                .map(|other| format!("\"tls://127.0.0.1:{}\"", port(other) + CLUSTER))
                .collect();
            let tls = tls.replace("timeout: 5", "verify: true\n  timeout: 5");
            // Writing to a text does not fail.
            writeln!(
                text,
                "cluster {{\n  name: \"skillhost\"\n  listen: \"127.0.0.1:{}\"\n  routes: [{}]\n  tls {tls}\n}}",
                port(number) + CLUSTER,
                routes.join(", ")
            )
            .ok();
        }
        text
    }
}

/// The entry of an identity in the account of a tenant.
fn of_user(key: &str, profile: &Profile, tenant: &str) -> String {
    let Permissions { publish, subscribe, may_answer } = match profile.role {
        Role::Api => Permissions::of_api(&profile.name),
        Role::Worker => Permissions::of_worker(&profile.name, tenant),
    };
    let list = |subjects: &[String]| {
        let quoted: Vec<String> = subjects.iter().map(|subject| quoted(subject)).collect();
        format!("[\n        {}\n      ]", quoted.join(",\n        "))
    };
    let answers =
        if may_answer { "\n      allow_responses: { max: 1, expires: \"10s\" }" } else { "" };
    format!(
        "    # {}\n    {{ nkey: {}, permissions: {{\n      publish: {{ allow: {} }}\n      subscribe: {{ allow: {} }}{answers}\n    }} }}\n",
        profile.name,
        quoted(key),
        list(&publish),
        list(&subscribe),
    )
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

impl Folder {
    fn open(path: PathBuf) -> Result<Folder, InitError> {
        match private::open_or_create(&path) {
            Ok(opened) => Ok(Folder { dir: Dir::from_std_file(opened.into()), path }),
            Err(error) => Err(InitError { why: error.to_string(), path }),
        }
    }

    fn error(&self, name: &str, why: String) -> InitError {
        InitError { path: self.path.join(name), why }
    }

    fn read(&self, name: &str) -> Result<Option<String>, InitError> {
        let mut text = String::new();
        let read = self.dir.open(name).and_then(|file| file.take(MOST).read_to_string(&mut text));
        match read {
            Ok(_) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(name, error.to_string())),
        }
    }

    /// Returns the public key of an identity in the account of a tenant, and creates a key that is
    /// missing.
    fn broker_key(&self, tenant: &str) -> Result<String, InitError> {
        let name = seed_file(tenant);
        let failed = |error: nkeys::error::Error| self.error(&name, error.to_string());
        let seed = match self.read(&name)? {
            Some(seed) => seed,
            None => {
                let seed = nkeys::KeyPair::new_user().seed().map_err(failed)?;
                self.write(&name, &seed)?;
                seed
            }
        };
        Ok(nkeys::KeyPair::from_seed(seed.trim()).map_err(failed)?.public_key())
    }

    /// Returns the certificate of an identity for connections between servers and workers, and creates
    /// it with its key if one of them is missing.
    fn tls_certificate(&self, name: &str) -> Result<String, InitError> {
        if let (Some(certificate), Some(_)) = (self.read(TLS_CERTIFICATE)?, self.read(TLS_KEY)?) {
            return Ok(certificate);
        }
        let made = tls::certificate(name);
        let (certificate, key) =
            made.map_err(|error| self.error(TLS_CERTIFICATE, error.to_string()))?;
        self.write(TLS_KEY, &key)?;
        self.write(TLS_CERTIFICATE, &certificate)?;
        Ok(certificate)
    }

    /// Writes a file that only its owner may read, whole or not at all.
    fn write(&self, name: &str, text: &str) -> Result<(), InitError> {
        let new = format!(".{name}.new");
        let written = (|| {
            match self.dir.remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let options = &mut OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            let mut file = self.dir.open_with(&new, options)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            self.dir.rename(&new, &self.dir, name)
        })();
        written.map_err(|error| self.error(name, error.to_string()))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own folders")]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::types::{Bounded as _, RunEnd, SignedEnd, VERSION};
    use skillhost_ledger::runs::RunStatus;
    use skillhost_policy::outcome::Output;
    use skillhost_server::api::fleet::{Content, FleetEnd, FleetError};

    fn plan(folder: &Path) -> Plan {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Plan {
            folder: folder.to_owned(),
            tenants: of(&["a", "b"]),
            workers: BTreeMap::from([("one".into(), of(&["a"])), ("two".into(), of(&["b"]))]),
            hosts: vec!["localhost".into()],
            port: 4222,
            brokers: 1,
        }
    }

    fn end() -> RunEnd {
        RunEnd {
            version: VERSION,
            tenant: "a".into(),
            run: "r".into(),
            skill: "hello".into(),
            request: "sha256:0".into(),
            worker: "one".into(),
            host: "h".into(),
            engine: "e".into(),
            attempt: 1,
            status: RunStatus::Succeeded,
            kind: None,
            exit_code: Some(0),
            started: None,
            ended: 1,
            cpu_ms: 0,
            bytes: 0,
            key: None,
            session: None,
            left: FleetEnd::default(),
        }
    }

    #[test]
    fn a_second_call_keeps_the_keys_and_adds_a_worker() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(folder.path());
        plan.write().unwrap();
        let users = folder.path().join("broker").join(AUTHORIZATION);
        let first = std::fs::read_to_string(&users).unwrap();
        plan.workers.insert("three".into(), BTreeSet::new());
        plan.write().unwrap();
        let second = std::fs::read_to_string(&users).unwrap();
        let keys = |text: &str| -> BTreeSet<String> {
            let keys = text.split('"').filter(|part| part.starts_with('U') && part.len() == 56);
            keys.map(str::to_owned).collect()
        };
        // The server and one worker in each account; then another worker in both.
        assert!(keys(&first).len() == 4 && keys(&second).is_superset(&keys(&first)));
        assert_eq!(keys(&second).len(), 6);
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            for file in std::fs::read_dir(entry.unwrap().path()).unwrap() {
                let file = file.unwrap();
                let mode = file.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600, "{}", file.path().display());
            }
        }
        assert!(Identity::read(&folder.path().join("one")).is_ok());
        let seed = folder.path().join("one").join(SIGNING_KEY);
        std::fs::set_permissions(&seed, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Identity::read(&folder.path().join("one")).err().unwrap().contains("chmod 600"));
    }

    #[test]
    fn certificates_stay_and_count_for_the_tenants_of_their_identity() {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(folder.path());
        plan.write().unwrap();
        let own = |name: &str| {
            let identity = Identity::read(&folder.path().join(name)).unwrap();
            (identity.tls().unwrap().0, identity.trust().unwrap())
        };
        let ((api, trust), (one, _), (two, _)) = (own("api"), own("one"), own("two"));
        assert_eq!((trust.worker("one", "a"), trust.worker("two", "b")), (Some(&one), Some(&two)));
        // Not for another tenant, nor in another role.
        assert_eq!((trust.worker("one", "b"), trust.worker("api", "a")), (None, None));
        let servers = |tenant| trust.servers(tenant).cloned().collect::<Vec<_>>();
        assert_eq!((servers(None), servers(Some("a"))), (vec![api.clone()], vec![api]));
        assert!(servers(Some("c")).is_empty());
        plan.workers.insert("three".into(), BTreeSet::new());
        plan.write().unwrap();
        assert_eq!(own("one").0, one, "a second call keeps them");
        // A fleet of an earlier version has none until it is written again.
        let signers = folder.path().join("api").join(SIGNERS);
        let mut old: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&signers).unwrap()).unwrap();
        for signer in old.as_array_mut().unwrap() {
            signer.as_object_mut().unwrap().remove("certificate");
        }
        std::fs::write(&signers, old.to_string()).unwrap();
        std::fs::remove_file(folder.path().join("api").join(TLS_KEY)).unwrap();
        let old = Identity::read(&folder.path().join("api")).unwrap();
        assert_eq!(old.trust().unwrap().worker("one", "a"), None);
        assert!(old.tls().unwrap_err().contains("fleet init"));
    }

    #[test]
    fn an_unreadable_identity_accepts_no_signatures() {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(folder.path());
        plan.workers.remove("two");
        plan.write().unwrap();
        let identity = |name: &str| Identity::read(&folder.path().join(name)).unwrap();
        let (api, one) = (identity("api"), identity("one"));
        // A worker that is added later is believed at once, and one that is removed no more.
        plan.workers.insert("two".into(), BTreeSet::from(["a".into()]));
        plan.write().unwrap();
        let by_two = identity("two").sign(&RunEnd { worker: "two".into(), ..end() }).unwrap();
        assert!(api.verify(&by_two, "a", "r").is_ok());
        plan.workers.insert("two".into(), BTreeSet::from(["b".into()]));
        plan.write().unwrap();
        api.refresh();
        assert!(api.verify(&by_two, "a", "r").unwrap_err().to_string().contains("may not end"));
        let by_one = one.sign(&end()).unwrap();
        assert!(api.verify(&by_one, "a", "r").is_ok());
        let signers = folder.path().join("api").join(SIGNERS);
        let text = std::fs::read_to_string(&signers).unwrap();
        std::fs::write(&signers, "[").unwrap();
        api.refresh();
        let refused = api.verify(&by_one, "a", "r").unwrap_err();
        assert!(matches!(refused, FleetError::Unavailable(_)));
        std::fs::write(&signers, text).unwrap();
        api.refresh();
        assert!(api.verify(&by_one, "a", "r").is_ok());
        // Another identity does not take its place.
        let [own, other] =
            ["api", "one"].map(|name| folder.path().join(name).join(crate::identity::IDENTITY));
        std::fs::copy(other, own).unwrap();
        api.refresh();
        assert!(api.trust().is_err());
    }

    #[test]
    fn only_a_worker_of_the_tenant_may_end_a_run() {
        let folder = tempfile::tempdir().unwrap();
        plan(folder.path()).write().unwrap();
        let identity = |name: &str| Identity::read(&folder.path().join(name)).unwrap();
        let (api, one, two) = (identity("api"), identity("one"), identity("two"));
        let good = one.sign(&end()).unwrap();
        assert_eq!(api.verify(&good, "a", "r").unwrap(), end());
        let refused = |end: &SignedEnd, tenant: &str, run: &str| {
            api.verify(end, tenant, run).unwrap_err().to_string()
        };
        // Of another tenant, by another worker's name, and for another run.
        assert!(refused(&two.sign(&end()).unwrap(), "a", "r").contains("of another run"));
        let own_name = RunEnd { worker: "two".into(), ..end() };
        assert!(refused(&two.sign(&own_name).unwrap(), "a", "r").contains("may not end"));
        assert!(refused(&good, "b", "r").contains("of another run"));
        assert!(refused(&good, "a", "s").contains("of another run"));
        let changed = RunEnd { exit_code: Some(1), ..end() };
        let changed = String::from_utf8(changed.write().unwrap()).unwrap();
        let forged = SignedEnd { payload: changed, ..good.clone() };
        assert!(refused(&forged, "a", "r").contains("signature"));
        let unknown = SignedEnd { key: "sha256:0".into(), ..good };
        assert!(refused(&unknown, "a", "r").contains("unknown key"));
        // A server cancels what never started, and ends nothing else.
        let by_api = |end: RunEnd| api.sign(&RunEnd { worker: "api".into(), ..end }).unwrap();
        assert!(refused(&by_api(end()), "a", "r").contains("may not end"));
        let cancelled = RunEnd { status: RunStatus::Cancelled, attempt: 0, ..end() };
        assert!(api.verify(&by_api(cancelled), "a", "r").is_ok());
    }

    #[test]
    fn an_end_whose_bytes_were_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        plan(folder.path()).write().unwrap();
        let identity = |name: &str| Identity::read(&folder.path().join(name)).unwrap();
        let (api, one) = (identity("api"), identity("one"));
        let stdout = Content::Inline(Output(b"printed".to_vec()));
        let whole = RunEnd { left: FleetEnd { stdout, ..FleetEnd::default() }, ..end() };
        let good = one.sign(&whole).unwrap();
        assert!(!good.payload.contains("printed"));
        assert_eq!(api.verify(&good, "a", "r").unwrap(), whole);
        let mut changed = good.clone();
        changed.inline.values_mut().for_each(|bytes| bytes.0 = b"changed".to_vec());
        let refused = api.verify(&changed, "a", "r").unwrap_err();
        assert!(matches!(&refused, FleetError::Untrusted(why) if why.contains("another digest")));
        // The record of all runs is verified without them.
        let record = api.verify(&good.without_inline(), "a", "r").unwrap();
        let digest = skillhost_skill::runtime::digest(b"printed");
        assert_eq!(record.left.stdout, Content::Digest(digest));
    }
}
