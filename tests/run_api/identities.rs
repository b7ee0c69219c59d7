//! Tenants by identity: JSON Web Tokens of an issuer, with keys in a file or of a server on loopback.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PublicKeyData as _, SigningKey as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{ApiServer, replace};
use crate::hostile_host::HANG_TIMEOUT;
use crate::mcp::Place;

const ISSUER: &str = "https://login.example";

/// A key of an issuer.
struct Key {
    id: &'static str,
    pair: KeyPair,
}

impl Key {
    fn ed25519(id: &'static str) -> Key {
        Key { id, pair: KeyPair::generate_for(&PKCS_ED25519).unwrap() }
    }

    fn p256(id: &'static str) -> Key {
        Key { id, pair: KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap() }
    }

    fn is_curve(&self) -> bool {
        self.pair.algorithm() == &PKCS_ECDSA_P256_SHA256
    }

    fn algorithm(&self) -> &'static str {
        if self.is_curve() { "ES256" } else { "EdDSA" }
    }

    fn public(&self) -> Value {
        let key = self.pair.der_bytes();
        match self.is_curve() {
            true => json!({
                "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig",
                "x": base64(&key[1..33]), "y": base64(&key[33..]),
            }),
            false => json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": base64(key) }),
        }
    }

    fn sign(&self, text: &str) -> Vec<u8> {
        let signature = self.pair.sign(text.as_bytes()).unwrap();
        if self.is_curve() { fixed(&signature) } else { signature }
    }

    /// A token with these claims.
    fn token(&self, claims: &Value) -> String {
        let header = json!({ "alg": self.algorithm(), "typ": "JWT", "kid": self.id });
        let text = unsigned(&header, claims);
        let signature = base64(&self.sign(&text));
        format!("{text}.{signature}")
    }
}

fn base64(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()))
}

/// Turns an ECDSA signature from DER into the form of tokens: two numbers of 32 bytes.
fn fixed(der: &[u8]) -> Vec<u8> {
    let mut rest = &der[2..];
    let mut out = Vec::new();
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let number = &rest[2..2 + length];
        let number = &number[number.len().saturating_sub(32)..];
        out.extend(std::iter::repeat_n(0, 32 - number.len()));
        out.extend(number);
        rest = &rest[2 + length..];
    }
    out
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut padded = [0; 64];
    match key.len() {
        0..=64 => padded[..key.len()].copy_from_slice(key),
        _ => padded[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let inner = Sha256::new().chain_update(padded.map(|b| b ^ 0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded.map(|b| b ^ 0x5c)).chain_update(inner).finalize().to_vec()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Claims of a token for this server that is valid for an hour.
fn claims(subject: &str, more: &Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": ["other", "skillhost"], "sub": subject,
        "iat": now(), "exp": now() + 3600,
    });
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    claims
}

fn key_set(keys: &[&Key]) -> String {
    json!({ "keys": keys.iter().map(|key| key.public()).collect::<Vec<_>>() }).to_string()
}

/// A server with the tenants `ci` and `team`, and keys at a place.
fn server(place: &Place, keys: &str) -> ApiServer {
    let file = place.user.work().join("tenants.yaml");
    let text = format!(
        "issuers:\n  company: {{ issuer: {ISSUER}, audience: skillhost, keys: {keys:?} }}\ntenants:\n  ci:\n    identities:\n      - {{ issuer: company, claims: {{ sub: ci }}, scopes: [run, read] }}\n      - {{ issuer: company, claims: {{ sub: both }}, scopes: [read] }}\n  team:\n    identities:\n      - {{ issuer: company, claims: {{ groups: team, kind: person }}, scopes: [read] }}\n      - {{ issuer: company, claims: {{ sub: both }}, scopes: [read] }}\n"
    );
    replace(&file, &text);
    ApiServer::new(place, &["--tenants", file.to_str().unwrap()])
}

fn list(server: &ApiServer, token: &str) -> u16 {
    server.call_as(token, "GET", "/v1/runs", &[], &[]).status
}

/// Waits until a token has an effect: keys are read in the background.
fn wait_for(server: &ApiServer, token: &str, status: u16) {
    let started = Instant::now();
    while list(server, token) != status {
        assert!(started.elapsed() < HANG_TIMEOUT, "not {status}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_token_of_an_issuer_is_the_tenant_whose_identity_it_matches() {
    let place = Place::new();
    let (ed, curve) = (Key::ed25519("a"), Key::p256("b"));
    replace(&place.user.work().join("keys.json"), &key_set(&[&ed, &curve]));
    let server = server(&place, "keys.json");
    let ci = ed.token(&claims("ci", &json!({})));
    wait_for(&server, &ci, 200);
    let note = json!({ "skill": "scribe", "target": { "script": "note.sh" }, "args": ["x"] });
    let submit =
        |token: &str| server.call_as(token, "POST", "/v1/runs", &[], note.to_string().as_bytes());
    assert_eq!(submit(&ci).status, 202);
    // The other tenant matches by two claims, has another scope, and sees none of the first's runs.
    let more = json!({ "groups": ["all", "team"], "kind": "person" });
    let team = curve.token(&claims("someone", &more));
    assert_eq!(submit(&team).code(), "scope-missing");
    let runs = server.call_as(&team, "GET", "/v1/runs", &[], &[]).json();
    assert_eq!(runs["runs"], json!([]));
    for nobody in [
        claims("someone", &json!({})),
        claims("someone", &json!({ "groups": ["team"] })),
        claims("someone", &json!({ "groups": ["teams"], "kind": "person" })),
        claims("both", &json!({})),
    ] {
        assert_eq!(list(&server, &ed.token(&nobody)), 401, "{nobody}");
    }
}

#[test]
fn forged_foreign_and_expired_tokens_are_refused() {
    let place = Place::new();
    let (ed, curve, stranger) = (Key::ed25519("a"), Key::p256("b"), Key::ed25519("a"));
    replace(&place.user.work().join("keys.json"), &key_set(&[&ed, &curve]));
    let server = server(&place, "keys.json");
    let good = ed.token(&claims("ci", &json!({})));
    wait_for(&server, &good, 200);
    let ci = claims("ci", &json!({}));
    let signed_part = good.rsplit_once('.').unwrap().0.to_owned();
    // The attack that made HMAC infamous: the public key as the secret.
    let confused = {
        let text = unsigned(&json!({ "alg": "HS256", "kid": "a" }), &ci);
        let signature = hmac_sha256(ed.pair.der_bytes(), text.as_bytes());
        format!("{text}.{}", base64(&signature))
    };
    let named = |algorithm: &str, id: &str| {
        let text = unsigned(&json!({ "alg": algorithm, "kid": id }), &ci);
        let signature = base64(&ed.sign(&text));
        format!("{text}.{signature}")
    };
    let own_key = {
        let header = json!({ "alg": "EdDSA", "kid": "x", "jwk": stranger.public(), "jku": "http://127.0.0.1:1/" });
        let text = unsigned(&header, &ci);
        let signature = base64(&stranger.sign(&text));
        format!("{text}.{signature}")
    };
    let critical = {
        let header = json!({ "alg": "EdDSA", "kid": "a", "crit": ["later"], "later": true });
        let text = unsigned(&header, &ci);
        let signature = base64(&ed.sign(&text));
        format!("{text}.{signature}")
    };
    let without = |claim: &str| {
        let mut claims = ci.clone();
        claims.as_object_mut().unwrap().remove(claim);
        ed.token(&claims)
    };
    let with = |more: Value| ed.token(&claims("ci", &more));
    for (what, token) in [
        ("another key with the same id", stranger.token(&ci)),
        ("no signature", format!("{signed_part}.")),
        ("two parts", signed_part.clone()),
        ("alg none", format!("{}.", unsigned(&json!({ "alg": "none", "kid": "a" }), &ci))),
        ("the public key as a secret", confused),
        ("a key for another algorithm", named("ES256", "a")),
        ("another key's signature", named("EdDSA", "b")),
        ("no such key", named("EdDSA", "c")),
        ("a key in the token", own_key),
        ("an extension that must be understood", critical),
        ("changed claims", {
            let other = base64(claims("ci", &json!({ "x": 1 })).to_string().as_bytes());
            let parts: Vec<&str> = good.split('.').collect();
            format!("{}.{other}.{}", parts[0], parts[2])
        }),
        ("expired", with(json!({ "exp": now() - 60 }))),
        ("not valid yet", with(json!({ "nbf": now() + 600 }))),
        ("another audience", with(json!({ "aud": "other" }))),
        ("another issuer", with(json!({ "iss": "https://login.example.evil" }))),
        ("no expiry", without("exp")),
        ("no audience", without("aud")),
        ("too long", with(json!({ "x": "x".repeat(20_000) }))),
    ] {
        assert_eq!(list(&server, &token), 401, "{what}");
    }
    assert_eq!(list(&server, &good), 200);
}

#[test]
fn keys_are_fetched_and_rotated_and_a_broken_set_changes_nothing() {
    let place = Place::new();
    let (first, second) = (Key::ed25519("1"), Key::p256("2"));
    let served = Arc::new(Mutex::new(key_set(&[&first])));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let body = served.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            drop(stream.read(&mut [0; 4096]));
            let body = body.lock().unwrap().clone();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            drop(stream.write_all(format!("{head}{body}").as_bytes()));
        }
    });
    let server = server(&place, &format!("http://127.0.0.1:{port}/keys"));
    let (old, new) =
        (first.token(&claims("ci", &json!({}))), second.token(&claims("ci", &json!({}))));
    wait_for(&server, &old, 200);
    // A token with an unknown key asks for the keys again, at most every ten seconds.
    *served.lock().unwrap() = "not keys".to_owned();
    assert_eq!(list(&server, &new), 401);
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(list(&server, &old), 200, "a broken set changes nothing");
    *served.lock().unwrap() = key_set(&[&second]);
    wait_for(&server, &new, 200);
    assert_eq!(list(&server, &old), 401, "a key that was removed is not used");
}
