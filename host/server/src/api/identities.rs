//! Tenants by identity: JSON Web Tokens (RFC 7519) of an issuer that the tenants file names, such as an
//! OpenID Connect provider or a cluster that signs the tokens of its service accounts.
//!
//! What a token says about itself decides nothing before its signature is verified with a key of the
//! issuer. What its bearer may do is written in the tenants file, not in the token.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonwebtoken::dangerous::insecure_decode;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::jwt::{self, ALGORITHMS};
use super::key_sets::KeySet;
use super::tenants::{Bearer, Scope, TenantsFile};

/// The longest token, in bytes.
const TOKEN_MAX: usize = 16 << 10;

/// How far the clocks of issuer and server may differ, in seconds.
const LEEWAY: u64 = 30;

/// An issuer of tokens.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IssuerEntry {
    /// The claim `iss` of its tokens.
    pub issuer: String,
    /// The claim `aud` of tokens for this server.
    pub audience: String,
    /// Its public keys as a JWK Set (RFC 7517): a file, relative to this file, or an https URL. Both
    /// are read again when the keys change.
    pub keys: String,
}

/// Who of an issuer is a tenant.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IdentityEntry {
    /// The name of an issuer in `issuers`.
    pub issuer: String,
    /// The claims that a token must have, such as `sub`. A claim that is a list must contain the
    /// value.
    pub claims: BTreeMap<String, String>,
    /// What its bearer may do.
    pub scopes: BTreeSet<Scope>,
}

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeysAt {
    File(PathBuf),
    Url(String),
}

/// Checks the issuers and identities of a file.
///
/// # Errors
/// What is wrong, and where.
pub(super) fn check(file: &TenantsFile) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (name, issuer) in &file.issuers {
        if issuer.issuer.is_empty() || issuer.audience.is_empty() {
            return Err(format!("{name}: `issuer` and `audience` must not be empty"));
        }
        if !names.insert(&issuer.issuer) {
            return Err(format!("{name}: another issuer has the same `issuer`"));
        }
        keys_at(&issuer.keys, Path::new("")).map_err(|why| format!("{name}: {why}"))?;
    }
    for (name, tenant) in &file.tenants {
        for identity in &tenant.identities {
            if !file.issuers.contains_key(&identity.issuer) {
                let issuer = &identity.issuer;
                return Err(format!("{name}: `{issuer}` is not one of the `issuers` of this file"));
            }
            if identity.claims.is_empty() {
                return Err(format!(
                    "{name}: `claims` is empty: name at least one, such as `claims: {{ sub: ci }}`"
                ));
            }
        }
    }
    Ok(())
}

/// Reads where keys are. `folder`: what paths are relative to.
pub(super) fn keys_at(text: &str, folder: &Path) -> Result<KeysAt, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok(KeysAt::File(folder.join(text)));
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.strip_prefix('[').map_or_else(
        || host.rsplit_once(':').map_or(host, |(host, _)| host),
        |host| host.split(']').next().unwrap_or_default(),
    );
    let is_local = matches!(host, "127.0.0.1" | "::1" | "localhost");
    match scheme {
        "https" => Ok(KeysAt::Url(text.to_owned())),
        "http" if is_local => Ok(KeysAt::Url(text.to_owned())),
        _ => Err("`keys` must be a file or an https URL".into()),
    }
}

/// The identities of all tenants.
#[derive(Clone, Default)]
pub(super) struct Identities {
    issuers: BTreeMap<String, Issuer>,
    known: Vec<Identity>,
}

#[derive(Clone)]
struct Issuer {
    entry: IssuerEntry,
    keys: Arc<KeySet>,
}

#[derive(Clone)]
struct Identity {
    issuer: String,
    claims: BTreeMap<String, String>,
    bearer: Bearer,
}

impl Identities {
    /// The identities of a file. `keys` returns the key set of an issuer, by where it is.
    pub(super) fn of(
        file: &TenantsFile,
        path: &Path,
        keys: impl Fn(KeysAt) -> Arc<KeySet>,
    ) -> Result<Identities, String> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let issuer = |(name, entry): (&String, &IssuerEntry)| {
            let keys = keys(keys_at(&entry.keys, folder)?);
            Ok((name.clone(), Issuer { entry: entry.clone(), keys }))
        };
        let issuers = file.issuers.iter().map(issuer).collect::<Result<_, String>>()?;
        let known = file.tenants.iter().flat_map(|(tenant, entry)| {
            entry.identities.iter().map(move |identity| Identity {
                issuer: identity.issuer.clone(),
                claims: identity.claims.clone(),
                bearer: Bearer { tenant: tenant.clone(), scopes: identity.scopes.clone() },
            })
        });
        Ok(Identities { issuers, known: known.collect() })
    }

    /// Returns the key sets.
    pub(super) fn key_sets(&self) -> impl Iterator<Item = &Arc<KeySet>> {
        self.issuers.values().map(|issuer| &issuer.keys)
    }

    /// Returns who presents a token: the tenant whose identities it matches, with all their scopes.
    /// `None` if it is not valid, matches no identity, or those of two tenants.
    pub(super) fn bearer(&self, token: &str) -> Option<Bearer> {
        if self.issuers.is_empty() || token.len() > TOKEN_MAX || !token.contains('.') {
            return None;
        }
        let (name, issuer) = self.issuer_of(token)?;
        let claims = match issuer.verified(token) {
            Ok(claims) => claims,
            Err(why) => {
                // The token is a secret, and its claims are not verified: neither is logged.
                tracing::debug!(issuer = name, why, "a token was refused");
                return None;
            }
        };
        let matching = self.known.iter().filter(|one| one.issuer == *name && one.matches(&claims));
        let mut found: Option<Bearer> = None;
        for identity in matching {
            match &mut found {
                None => found = Some(identity.bearer.clone()),
                Some(bearer) if bearer.tenant == identity.bearer.tenant => {
                    bearer.scopes.extend(&identity.bearer.scopes);
                }
                Some(bearer) => {
                    tracing::warn!(
                        first = bearer.tenant,
                        second = identity.bearer.tenant,
                        "a token matches the identities of two tenants, and is refused"
                    );
                    return None;
                }
            }
        }
        found
    }

    /// Returns the issuer that a token names, which is not verified yet.
    fn issuer_of(&self, token: &str) -> Option<(&String, &Issuer)> {
        let claims: Value = insecure_decode(token).ok()?.claims;
        let named = claims["iss"].as_str()?;
        self.issuers.iter().find(|(_, issuer)| issuer.entry.issuer == named)
    }
}

impl Issuer {
    /// Verifies a token, and returns its claims.
    fn verified(&self, token: &str) -> Result<Value, String> {
        jwt::install();
        let header = jsonwebtoken::decode_header(token).map_err(|error| error.to_string())?;
        let algorithm = header.alg;
        if !ALGORITHMS.contains(&algorithm) {
            return Err("its algorithm is not one for public keys".into());
        }
        // RFC 7515, section 4.1.11: what it lists must be understood, and nothing is.
        if header.crit.is_some() {
            return Err("it has critical extensions".into());
        }
        let key = self.keys.find(header.kid.as_deref()).ok_or("the issuer has no such key")?;
        if !may_verify(&key, algorithm) {
            return Err("the key is for something else".into());
        }
        let key = DecodingKey::from_jwk(&key).map_err(|error| error.to_string())?;
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.entry.issuer]);
        validation.set_audience(&[&self.entry.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let data = jsonwebtoken::decode::<Value>(token, &key, &validation);
        data.map(|data| data.claims).map_err(|error| error.to_string())
    }
}

/// Checks whether a key may verify signatures of an algorithm: its kind and curve belong to the
/// algorithm, and the issuer does not say otherwise.
fn may_verify(key: &Jwk, algorithm: Algorithm) -> bool {
    let fits = match &key.algorithm {
        AlgorithmParameters::RSA(_) => {
            matches!(
                algorithm,
                Algorithm::RS256
                    | Algorithm::RS384
                    | Algorithm::RS512
                    | Algorithm::PS256
                    | Algorithm::PS384
                    | Algorithm::PS512
            )
        }
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => algorithm == Algorithm::ES256,
            EllipticCurve::P384 => algorithm == Algorithm::ES384,
            _ => false,
        },
        AlgorithmParameters::OctetKeyPair(pair) => {
            pair.curve == EllipticCurve::Ed25519 && algorithm == Algorithm::EdDSA
        }
        _ => false,
    };
    let common = &key.common;
    let says =
        common.key_algorithm.is_none_or(|known| known.to_string() == format!("{algorithm:?}"));
    let signs = common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    fits && says && signs
}

impl Identity {
    fn matches(&self, claims: &Value) -> bool {
        self.claims.iter().all(|(name, wanted)| match claims.get(name) {
            Some(Value::String(found)) => found == wanted,
            Some(Value::Array(found)) => found.iter().any(|one| one.as_str() == Some(wanted)),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<TenantsFile, String> {
        TenantsFile::parse(Path::new("/etc/skillhost/tenants.yaml"), text)
    }

    #[test]
    fn keys_come_from_files_and_over_https() {
        let folder = Path::new("/etc");
        assert_eq!(keys_at("keys.json", folder), Ok(KeysAt::File("/etc/keys.json".into())));
        for url in ["https://a.example/keys", "http://127.0.0.1:80/k", "http://[::1]/k"] {
            assert_eq!(keys_at(url, folder), Ok(KeysAt::Url(url.into())));
        }
        for url in ["http://a.example/keys", "file:///keys", "http://127.0.0.1.example/k"] {
            assert!(keys_at(url, folder).is_err(), "{url}");
        }
    }

    #[test]
    fn mistakes_are_refused() {
        let issuer = "issuers: { company: { issuer: https://a, audience: b, keys: k.json } }";
        for (text, why) in [
            ("tenants: { a: { identities: [{ issuer: x, claims: { sub: a }, scopes: [run] }] } }".to_owned(), "is not one of the `issuers`"),
            (format!("{issuer}\ntenants: {{ a: {{ identities: [{{ issuer: company, claims: {{}}, scopes: [run] }}] }} }}"), "`claims` is empty"),
            ("issuers: { c: { issuer: '', audience: b, keys: k } }\ntenants: {}".to_owned(), "must not be empty"),
            ("issuers: { c: { issuer: a, audience: b, keys: http://x/k } }\ntenants: {}".to_owned(), "https URL"),
            ("issuers: { c: { issuer: a, audience: b, keys: k }, d: { issuer: a, audience: b, keys: k } }\ntenants: {}".to_owned(), "the same `issuer`"),
        ] {
            let error = file(&text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn every_claim_must_match() {
        let identity = Identity {
            issuer: "company".into(),
            claims: [("sub", "ci"), ("groups", "a")].map(|(k, v)| (k.into(), v.into())).into(),
            bearer: Bearer { tenant: "a".into(), scopes: BTreeSet::new() },
        };
        for (claims, matches) in [
            (serde_json::json!({ "sub": "ci", "groups": ["b", "a"] }), true),
            (serde_json::json!({ "sub": "ci", "groups": "a", "more": 1 }), true),
            (serde_json::json!({ "sub": "ci", "groups": ["ab"] }), false),
            (serde_json::json!({ "sub": "ci" }), false),
            (serde_json::json!({ "sub": ["x", "ci"], "groups": "a" }), true),
            (serde_json::json!({ "sub": { "ci": 1 }, "groups": "a" }), false),
        ] {
            assert_eq!(identity.matches(&claims), matches, "{claims}");
        }
    }
}
