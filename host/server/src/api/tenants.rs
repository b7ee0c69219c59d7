//! The tenants file: who may use the run API, under which policy and within which quotas.
//!
//! Tokens are stored as SHA-256 digests. They are random with 256 bits, so a slow hash would protect
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};

use super::identities::{self, Identities, IdentityEntry, IssuerEntry};
use skillhost_policy::limits::Limit;
use skillhost_skill::runtime::hex;

/// The tenant of a server without a tenants file.
pub(super) const DEFAULT: &str = "default";
/// The tenant of the agents of a server, which no tenants file can name.
pub(super) const AGENTS: &str = "agents over MCP";

/// The most bytes of a tenants file: enough for 10,000 tokens.
pub const MAX_BYTES: u64 = 4 << 20;

/// The content of a tenants file.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantsFile {
    /// The tenants, by name: lower-case letters, digits and hyphens.
    pub tenants: BTreeMap<String, TenantEntry>,
    /// Issuers of JSON Web Tokens, by a name for `identities`.
    #[serde(default)]
    pub issuers: BTreeMap<String, IssuerEntry>,
}

/// A tenant.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct TenantEntry {
    /// Its tokens.
    pub tokens: Vec<TokenEntry>,
    /// Who of an issuer is this tenant.
    pub identities: Vec<IdentityEntry>,
    /// Its policy file, relative to this file; by default, the server's policy.
    pub policy: Option<PathBuf>,
    /// What it may use.
    pub quotas: Quotas,
    /// How long its data is kept.
    pub retention: Retention,
    /// Whether the skills that it uploads run without the operator's approval. They are granted what
    /// the policy grants to any skill, and nothing by their name.
    pub trust_uploads: bool,
    /// Whether a deterministic run is answered with the result of an earlier one of this tenant
    /// with the same skill, input, permissions and host, if it has no other effect.
    pub cache_results: bool,
    /// Its folder, an absolute path; by default, one in the state folder of the server.
    pub state: Option<PathBuf>,
}

/// A token.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TokenEntry {
    /// The SHA-256 digest of the token, 64 hex digits.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
    /// What the token is for, for people.
    #[serde(default)]
    pub name: Option<String>,
    /// What its bearer may do.
    pub scopes: BTreeSet<Scope>,
    /// When it expires, RFC 3339; by default, never.
    #[serde(default)]
    pub expires: Option<Time>,
}

/// What the bearer of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Submit and cancel runs.
    Run,
    /// Read runs, their results and their output.
    Read,
    /// Upload files and skills.
    Upload,
    /// All of these.
    Admin,
}

/// What a tenant may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Quotas {
    /// Runs at once. Tenants get turns in proportion to it. Default 8.
    pub running: usize,
    /// Runs in the queue. Default 100.
    pub queued: u64,
    /// Memory of all runs at once, by their limits, such as `4GiB`. Default 4 GiB.
    pub memory: Size,
    /// Seconds of processor time in an hour. Default: no bound.
    pub cpu_seconds_per_hour: Option<u64>,
    /// Bytes in an hour: requests, uploads, output, files and network. Default: no bound.
    pub bytes_per_hour: Option<Size>,
    /// Bytes that are stored: files, skills, requests, results and output. Default 1 GiB.
    pub storage: Size,
    /// Requests at once that stream, wait, upload or download. Default 64.
    pub streams: usize,
    /// Sessions at once. Default 16.
    pub sessions: usize,
    /// Bytes that all sessions at once may use: the limit `disk` of each, and the files that they
    /// began with. Default 8 GiB.
    pub session_disk: Size,
    /// How long a session may last. Default `1h`.
    pub session_ttl: Period,
    /// How long a session lasts without a request or a program. Default `15m`.
    pub session_idle: Period,
}

/// How long the data of a tenant is kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Retention {
    /// Runs with their input, output and results, after their end; at least as long as an idempotency
    /// key is remembered, if they had one. Default `7d`.
    pub results: Period,
    /// Uploaded files and skills, after their last use. Default `7d`.
    pub uploads: Period,
}

/// A number of bytes, such as `4GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct Size(pub u64);

/// A time span, such as `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct Period(pub Duration);

/// A point in time, RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct Time(pub SystemTime);

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas {
            running: 8,
            queued: 100,
            memory: Size(4 << 30),
            cpu_seconds_per_hour: None,
            bytes_per_hour: None,
            storage: Size(1 << 30),
            streams: 64,
            sessions: 16,
            session_disk: Size(8 << 30),
            session_ttl: Period(Duration::from_secs(60 * 60)),
            session_idle: Period(Duration::from_secs(15 * 60)),
        }
    }
}

impl Default for Retention {
    fn default() -> Retention {
        let week = Period(Duration::from_secs(7 * 24 * 60 * 60));
        Retention { results: week, uploads: week }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        let text = String::deserialize(from)?;
        Limit::Disk.parse(&text).map(Size).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Period, D::Error> {
        let text = String::deserialize(from)?;
        humantime::parse_duration(&text).map(Period).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        let text = String::deserialize(from)?;
        humantime::parse_rfc3339_weak(&text).map(Time).map_err(serde::de::Error::custom)
    }
}

impl TenantsFile {
    /// Parses the text of a file. `file`: the path, for messages and for relative paths.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(file: &Path, text: &str) -> Result<TenantsFile, String> {
        let wrong = |message: String| format!("{}: {message}", file.display());
        let mut found: TenantsFile =
            serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let (mut digests, mut folders) = (BTreeSet::new(), BTreeSet::new());
        for (name, tenant) in &mut found.tenants {
            let valid =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if name.is_empty() || name.len() > 63 || !name.bytes().all(valid) {
                return Err(wrong(format!(
                    "`{name}` is not a name of a tenant: use at most 63 lower-case letters, digits and hyphens"
                )));
            }
            if tenant.quotas.running == 0 || tenant.quotas.queued == 0 {
                return Err(wrong(format!("{name}: `running` and `queued` must be at least 1")));
            }
            for token in &tenant.tokens {
                let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                if token.sha256.len() != 64 || !token.sha256.bytes().all(is_hex) {
                    return Err(wrong(format!(
                        "{name}: `sha256` is not 64 lower-case hex digits; create a token with `skillhost tenants token {name}`"
                    )));
                }
                if !digests.insert(token.sha256.clone()) {
                    return Err(wrong(format!("{name}: this token is listed twice")));
                }
            }
            if let Some(state) = &tenant.state
                && (!state.is_absolute() || !folders.insert(state.clone()))
            {
                return Err(wrong(format!(
                    "{name}: `state` must be an absolute path that no other tenant has"
                )));
            }
            if let Some(policy) = &mut tenant.policy
                && policy.is_relative()
            {
                *policy = file.parent().unwrap_or(Path::new(".")).join(&policy);
            }
        }
        identities::check(&found).map_err(wrong)?;
        Ok(found)
    }
}

/// Who a request is from.
#[derive(Debug, Clone)]
pub(super) struct Bearer {
    pub(super) tenant: String,
    pub(super) scopes: BTreeSet<Scope>,
}

impl Bearer {
    pub(super) fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

/// The digest of a token, and what it is for.
#[derive(Debug, Clone)]
struct KnownToken {
    digest: [u8; 32],
    bearer: Bearer,
    expires: Option<SystemTime>,
}

/// All tokens.
#[derive(Clone, Default)]
pub(super) struct Tokens {
    known: Vec<KnownToken>,
    /// Who has a token of an issuer.
    identities: Identities,
    /// The bearer of requests without a token, if the operator has turned tokens off.
    anyone: Option<Bearer>,
}

impl Tokens {
    /// The tokens of a file.
    pub(super) fn of(file: &TenantsFile, identities: Identities) -> Tokens {
        let known = file.tenants.iter().flat_map(|(tenant, entry)| {
            entry.tokens.iter().filter_map(move |token| {
                Some(KnownToken {
                    digest: from_hex(&token.sha256)?,
                    bearer: Bearer { tenant: tenant.clone(), scopes: token.scopes.clone() },
                    expires: token.expires.map(|time| time.0),
                })
            })
        });
        Tokens { known: known.collect(), identities, anyone: None }
    }

    /// Returns what knows who has a token of an issuer.
    pub(super) fn identities(&self) -> &Identities {
        &self.identities
    }

    /// The only token of a server without a tenants file; without one, anyone is the tenant.
    pub(super) fn of_server(token: Option<&str>) -> Tokens {
        let bearer = Bearer { tenant: DEFAULT.into(), scopes: BTreeSet::from([Scope::Admin]) };
        match token {
            Some(token) => {
                let digest = Sha256::digest(token.as_bytes()).into();
                let known = vec![KnownToken { digest, bearer, expires: None }];
                Tokens { known, ..Tokens::default() }
            }
            None => Tokens { anyone: Some(bearer), ..Tokens::default() },
        }
    }

    /// Returns who presents a token. Compares all bytes of all digests, so that the time taken reveals
    /// neither a token nor a tenant.
    pub(super) fn bearer(&self, shown: Option<&str>, now: SystemTime) -> Option<Bearer> {
        if self.anyone.is_some() {
            return self.anyone.clone();
        }
        let digest: [u8; 32] = Sha256::digest(shown.unwrap_or_default().as_bytes()).into();
        let mut found = None;
        for token in &self.known {
            let differs = digest.iter().zip(&token.digest).fold(0, |all, (a, b)| all | (a ^ b));
            if differs == 0 {
                found = Some(token);
            }
        }
        match found {
            Some(token) => token.expires.is_none_or(|at| now < at).then(|| token.bearer.clone()),
            None => self.identities.bearer(shown?),
        }
    }
}

/// A new random token, and the digest that the tenants file has.
pub fn new_token() -> (String, String) {
    let token = format!("sht_{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
    let digest = hex(&Sha256::digest(token.as_bytes()));
    (token, digest)
}

/// The JSON schema of the file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(TenantsFile).to_value()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<TenantsFile, String> {
        TenantsFile::parse(Path::new("/etc/skillhost/tenants.yaml"), text)
    }

    #[test]
    fn a_token_belongs_to_its_tenant_until_it_expires() {
        let (token, digest) = new_token();
        let (other, other_digest) = new_token();
        assert_ne!(token, other);
        let text = format!(
            "tenants:\n  a:\n    tokens:\n      - {{ sha256: {digest}, scopes: [run], expires: 2030-01-01T00:00:00Z }}\n  b:\n    tokens:\n      - {{ sha256: {other_digest}, scopes: [admin] }}\n"
        );
        let tokens = Tokens::of(&file(&text).unwrap(), Identities::default());
        let at =
            |year: u64| SystemTime::UNIX_EPOCH + Duration::from_secs((year - 1970) * 31_557_600);
        let bearer = tokens.bearer(Some(&token), at(2027)).unwrap();
        assert!(bearer.tenant == "a" && bearer.has(Scope::Run) && !bearer.has(Scope::Read));
        assert!(tokens.bearer(Some(&token), at(2031)).is_none(), "it has expired");
        assert!(tokens.bearer(Some(&other), at(2031)).unwrap().has(Scope::Upload));
        for wrong in [None, Some(""), Some(&*digest), Some(&token[1..])] {
            assert!(tokens.bearer(wrong, at(2027)).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn without_tokens_anyone_is_the_only_tenant() {
        let now = SystemTime::now();
        assert_eq!(Tokens::of_server(None).bearer(None, now).unwrap().tenant, DEFAULT);
        let tokens = Tokens::of_server(Some("secret"));
        assert!(tokens.bearer(None, now).is_none() && tokens.bearer(Some("secret"), now).is_some());
    }

    #[test]
    fn quotas_and_paths_are_read() {
        let text = "tenants:\n  team-a:\n    policy: a.yaml\n    quotas: { running: 2, memory: 1GiB, bytes-per-hour: 10MiB, cpu-seconds-per-hour: 60 }\n    retention: { results: 1d }\n";
        let found = file(text).unwrap();
        let tenant = &found.tenants["team-a"];
        assert_eq!(tenant.policy.as_deref(), Some(Path::new("/etc/skillhost/a.yaml")));
        assert_eq!((tenant.quotas.running, tenant.quotas.memory), (2, Size(1 << 30)));
        assert_eq!(tenant.retention.results.0, Duration::from_secs(86_400));
        assert!(!tenant.trust_uploads && tenant.quotas.queued == 100);
    }

    #[test]
    fn mistakes_are_refused() {
        let digest = "0".repeat(64);
        for (text, why) in [
            ("tenants: { A: {} }", "not a name"),
            ("tenants: { ../a: {} }", "not a name"),
            ("tenants: { a: { quota: {} } }", "quota"),
            ("tenants: { a: { quotas: { running: 0 } } }", "at least 1"),
            ("tenants: { a: { quotas: { memory: lots } } }", "not a size"),
            ("tenants: { a: { tokens: [{ sha256: abc, scopes: [run] }] } }", "64 lower-case"),
            ("tenants: { a: { state: relative } }", "absolute"),
            ("tenants: { a: {}, a: {} }", "a"),
        ] {
            let error = file(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let twice = format!(
            "tenants: {{ a: {{ tokens: [{{ sha256: {digest}, scopes: [run] }}] }}, b: {{ tokens: [{{ sha256: {digest}, scopes: [run] }}] }} }}"
        );
        assert!(file(&twice).unwrap_err().contains("listed twice"));
    }
}
