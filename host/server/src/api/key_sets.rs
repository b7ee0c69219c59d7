//! The public keys of issuers, as JWK Sets (RFC 7517): read from files, or fetched over HTTPS.

use std::fs::File;
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Empty};
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};
use rustix::fs::{FileType, Mode, OFlags};
use skillhost_policy::capabilities::{NetworkRules, Scope};
use skillhost_policy::limits::Limits;
use skillhost_policy::pattern::{HostName, HostPattern};
use skillhost_sandbox::http::{Body, Resolver, Roots, Sender, Timeouts, Tls, target};

use super::Stamp;
use super::identities::KeysAt;

/// The most bytes and keys of a set.
const BYTES_MAX: u64 = 256 << 10;
const KEYS_MAX: usize = 100;

/// How long fetched keys are used before they are fetched again.
const FRESH: Duration = Duration::from_secs(600);

/// The shortest time between two fetches. An unknown key asks for one, and anyone can name one.
const PAUSE: Duration = Duration::from_secs(10);

/// How long keys are used after a fetch that failed.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a fetch may take, in milliseconds.
const FETCH: u64 = 10_000;

/// The keys of an issuer.
pub(super) struct KeySet {
    at: KeysAt,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: Vec<Arc<Jwk>>,
    /// When they were read.
    read: Option<Instant>,
    /// When they were last tried to be read.
    tried: Option<Instant>,
    stamp: Option<Stamp>,
    /// Whether a token named a key that is not there.
    wanted: bool,
    failure: Option<String>,
}

impl KeySet {
    pub(super) fn new(at: KeysAt) -> KeySet {
        KeySet { at, state: Mutex::default() }
    }

    pub(super) fn at(&self) -> &KeysAt {
        &self.at
    }

    /// Finds a key by its id. Without an id, the issuer must have only one key.
    pub(super) fn find(&self, id: Option<&str>) -> Option<Arc<Jwk>> {
        let mut state = self.state();
        if state.read.is_none_or(|read| read.elapsed() > STALE) {
            state.wanted = true;
            return None;
        }
        let found = match (id, state.keys.as_slice()) {
            (Some(id), keys) => {
                let mut named = keys.iter().filter(|key| key.common.key_id.as_deref() == Some(id));
                named.next().filter(|_| named.next().is_none())
            }
            (None, [key]) => Some(key),
            (None, _) => None,
        };
        let found = found.cloned();
        state.wanted |= found.is_none();
        found
    }

    /// Reads the keys again if they may have changed. Keys that cannot be read stay as they are, and
    /// the log says why, once.
    pub(super) async fn refresh(&self) {
        let stamp = match &self.at {
            KeysAt::File(path) => Some(Stamp::of(path)),
            KeysAt::Url(_) => None,
        };
        if !self.is_due(stamp) {
            return;
        }
        let read = match &self.at {
            KeysAt::File(path) => read(path),
            KeysAt::Url(url) => fetch(url).await,
        };
        let read = read.and_then(|bytes| parse(&bytes));
        let mut state = self.state();
        match read {
            Ok(keys) => {
                state.keys = keys;
                state.read = Some(Instant::now());
                state.failure = None;
            }
            Err(error) => {
                if state.failure.as_ref() != Some(&error) {
                    tracing::error!(error, keys = %self.at, "the keys of an issuer cannot be read");
                }
                state.failure = Some(error);
            }
        }
    }

    fn is_due(&self, stamp: Option<Option<Stamp>>) -> bool {
        let mut state = self.state();
        let waited = state.tried.is_none_or(|tried| tried.elapsed() >= PAUSE);
        let due = match stamp {
            Some(stamp) => {
                let again = (state.read.is_none() || state.failure.is_some()) && waited;
                let due = state.stamp != stamp || again;
                state.stamp = stamp;
                // The keys of a file become stale only if it cannot be read.
                if !due && state.failure.is_none() && state.read.is_some() {
                    state.read = Some(Instant::now());
                }
                due
            }
            None => {
                let old = state.read.is_none_or(|read| read.elapsed() >= FRESH);
                waited && (old || state.wanted)
            }
        };
        if due {
            state.tried = Some(Instant::now());
            state.wanted = false;
        }
        due
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Display for KeysAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeysAt::File(path) => write!(f, "{}", path.display()),
            // A query may carry a secret.
            KeysAt::Url(url) => f.write_str(url.split('?').next().unwrap_or_default()),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Arc<Jwk>>, String> {
    /// Keys of kinds that this server does not know are ignored.
    #[derive(serde::Deserialize)]
    struct Lenient {
        keys: Vec<serde_json::Value>,
    }
    let lenient: Lenient =
        serde_json::from_slice(bytes).map_err(|error| format!("not a JWK Set: {error}"))?;
    if lenient.keys.len() > KEYS_MAX {
        return Err(format!("more than {KEYS_MAX} keys"));
    }
    let known = lenient.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    let known = known.filter(|key| !matches!(key.algorithm, AlgorithmParameters::Other(_)));
    Ok(known.map(Arc::new).collect())
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, String> {
    // A pipe must not keep the caller waiting.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| error.to_string())?;
    let stat = rustix::fs::fstat(&opened).map_err(|error| error.to_string())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("not a file".into());
    }
    let mut bytes = Vec::new();
    let read = File::from(opened).take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(format!("more than {BYTES_MAX} bytes")),
        false => Ok(bytes),
    }
}

/// Fetches keys. The server at the URL, which the operator wrote, is the only one that is reached:
/// redirects are not followed.
async fn fetch(url: &str) -> Result<Vec<u8>, String> {
    let uri: http::Uri = url.parse().map_err(|_| "the URL is not valid".to_owned())?;
    let to = target::parse(&uri).map_err(|error| error.to_string())?;
    let named = HostPattern {
        host: HostName::Exact(to.host.clone()),
        port: Some(to.port),
        plain: !to.https,
        private: true,
    };
    let rules = NetworkRules {
        fetch: Scope { all_of: vec![vec![named]], ..Scope::empty() },
        methods: ["GET"].map(str::to_owned).into(),
        authorities: Vec::new(),
    };
    let limits = Limits {
        http_response_body: BYTES_MAX,
        http_total_ms: FETCH,
        http_first_byte_ms: FETCH,
        ..Limits::default()
    };
    let tls = Tls::new(Roots::default()).map_err(|error| error.to_string())?;
    let sender = Sender::through(rules, limits, Arc::new(tls), Resolver::System, None);
    let body: Body = Empty::new().map_err(|e| match e {}).boxed_unsync();
    let request = http::Request::builder().method("GET").uri(uri).body(body);
    let request = request.map_err(|error| error.to_string())?;
    let answer = sender.send(request, Timeouts::default()).await.map_err(|e| e.to_string())?;
    if answer.status() != http::StatusCode::OK {
        return Err(format!("the server answered {}", answer.status()));
    }
    let bytes = answer.into_body().collect().await.map_err(|error| error.to_string())?;
    Ok(bytes.to_bytes().into())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files of their own")]
mod tests {
    use super::*;

    #[test]
    fn keys_of_unknown_kinds_are_ignored() {
        let set = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","kid":"a"},{"kty":"new"},7]}"#;
        let keys = parse(set).unwrap();
        assert_eq!(keys.len(), 1);
        assert!(parse(b"[]").is_err() && parse(b"{}").is_err());
        let many = format!("{{\"keys\":[{}7]}}", "7,".repeat(KEYS_MAX));
        assert!(parse(many.as_bytes()).is_err());
    }

    #[tokio::test]
    async fn a_key_is_found_by_its_id() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let set = KeySet::new(KeysAt::File(path.clone()));
        let key = |id: &str| format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"AA","kid":"{id}"}}"#);
        let write = |ids: &[&str]| {
            let keys: Vec<_> = ids.iter().map(|id| key(id)).collect();
            std::fs::write(&path, format!("{{\"keys\":[{}]}}", keys.join(","))).unwrap();
        };
        write(&["a"]);
        assert!(set.find(Some("a")).is_none(), "nothing is read yet");
        set.refresh().await;
        assert!(set.find(Some("a")).is_some() && set.find(None).is_some());
        assert!(set.find(Some("b")).is_none());
        write(&["a", "b", "c", "c"]);
        set.refresh().await;
        assert!(set.find(Some("b")).is_some());
        assert!(set.find(None).is_none(), "which one is not clear");
        assert!(set.find(Some("c")).is_none(), "which one is not clear");
        std::fs::write(&path, "broken").unwrap();
        set.refresh().await;
        assert!(set.find(Some("b")).is_some(), "a broken file changes nothing");
        set.state().read = Instant::now().checked_sub(STALE + PAUSE);
        set.refresh().await;
        assert!(set.find(Some("b")).is_none(), "for a day");
        write(&["b"]);
        set.refresh().await;
        assert!(set.find(Some("b")).is_some());
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(read(&pipe), Err("not a file".to_owned()));
    }
}
