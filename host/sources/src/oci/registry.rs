//! Sends requests to a registry, and authenticates when it asks for that.

use std::cell::RefCell;
use std::path::Path;

use serde_json::Value;
use skillhost_policy::diagnostic::printable;

use super::manifest::{Descriptor, MANIFESTS};
use crate::credentials::{Credential, Login};
use crate::digest::Digest;
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::network::{self, Method, Network, Request, Response};
use crate::source;
use crate::transfer::Transfer;

/// The most bytes of a manifest: registries accept as many.
const MAX_MANIFEST: u64 = 4 << 20;
/// The most bytes of a token's response.
const MAX_TOKEN: u64 = 64 << 10;

/// What is done with a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Pull,
    Push,
}

/// A repository of a registry.
pub(super) struct Registry<'a> {
    network: &'a dyn Network,
    /// `https://HOST/v2/REPOSITORY`
    base: String,
    host: String,
    repository: String,
    access: Access,
    /// The value of `Authorization` for this repository, once it is known.
    authorization: RefCell<Option<String>>,
}

impl<'a> Registry<'a> {
    /// Names a repository by its place, such as `oci://HOST/REPOSITORY`. Plain HTTP is used on
    /// loopback only.
    pub(super) fn open(
        place: &str,
        access: Access,
        network: &'a dyn Network,
    ) -> Result<Registry<'a>, SourceError> {
        let named = place.strip_prefix("oci://").and_then(|rest| rest.split_once('/'));
        let Some((host, repository)) = named else {
            return Err(network::problem(place, "it names no repository"));
        };
        // Docker's own registry has another name than its images.
        let host = if host == "docker.io" { "registry-1.docker.io" } else { host };
        let scheme = if source::is_loopback(host) { "http" } else { "https" };
        Ok(Registry {
            network,
            base: format!("{scheme}://{host}/v2/{repository}"),
            host: host.to_owned(),
            repository: repository.to_owned(),
            access,
            authorization: RefCell::default(),
        })
    }

    /// Fetches a manifest by its tag or digest. Returns its digest and its text.
    pub(super) fn manifest(&self, reference: &str) -> Result<(Digest, Vec<u8>), SourceError> {
        let url = format!("{}/manifests/{reference}", self.base);
        let request = Request::new(Method::Get, &url).header("accept", MANIFESTS.join(", "));
        let mut response = self.expect(request, &[200])?;
        let announced = response.header("docker-content-digest").map(str::to_owned);
        let text = response.bytes(&url, MAX_MANIFEST)?;
        let digest = Digest::of(&text);
        let is_named = |name: &str| !name.contains(':') || name == format!("sha256:{digest}");
        match is_named(reference) && announced.as_deref().is_none_or(is_named) {
            true => Ok((digest, text)),
            false => {
                let why = format!("the manifest `{reference}` does not have its digest");
                Err(Refusal::new(RefusalRule::Corrupt, why).into())
            }
        }
    }

    /// Returns the digest that a tag leads to.
    pub(super) fn digest(&self, reference: &str) -> Result<String, SourceError> {
        match reference.contains(':') {
            true => Ok(reference.to_owned()),
            // Some registries do not announce the digest, and what they announce is not verified.
            false => Ok(format!("sha256:{}", self.manifest(reference)?.0)),
        }
    }

    /// Returns the digest that a tag leads to, if it exists.
    pub(super) fn find(&self, tag: &str) -> Result<Option<String>, SourceError> {
        let url = format!("{}/manifests/{tag}", self.base);
        let request = Request::new(Method::Get, &url).header("accept", MANIFESTS.join(", "));
        let mut response = self.expect(request, &[200, 404])?;
        match response.status {
            404 => Ok(None),
            _ => Ok(Some(format!("sha256:{}", Digest::of(&response.bytes(&url, MAX_MANIFEST)?)))),
        }
    }

    /// Fetches a blob into a private file, and compares it with its descriptor.
    pub(super) fn blob(
        &self,
        blob: &Descriptor,
        within: &Path,
        limits: &TransferLimits,
    ) -> Result<Transfer, SourceError> {
        let url = format!("{}/blobs/sha256:{}", self.base, blob.digest);
        let mut response = self.expect(Request::new(Method::Get, &url), &[200])?;
        let limits = TransferLimits { bytes: blob.size.min(limits.bytes), ..limits.clone() };
        let transfer = Transfer::receive(within, &limits, &mut response.body)?;
        if transfer.size < blob.size {
            return Err(Refusal::new(RefusalRule::Truncated, "a layer is truncated").into());
        }
        match transfer.digest == blob.digest {
            true => Ok(transfer),
            false => {
                let why = format!("the layer sha256:{} does not have its digest", blob.digest);
                Err(Refusal::new(RefusalRule::Corrupt, why).into())
            }
        }
    }

    /// Uploads a blob unless the repository has it.
    pub(super) fn upload(&self, content: &[u8]) -> Result<(), SourceError> {
        let digest = Digest::of(content);
        let known = format!("{}/blobs/sha256:{digest}", self.base);
        if self.expect(Request::new(Method::Head, known), &[200, 404])?.status == 200 {
            return Ok(());
        }
        let start = format!("{}/blobs/uploads/", self.base);
        let response = self.expect(Request::new(Method::Post, &start).body(Vec::new()), &[202])?;
        let location = response.header("location").unwrap_or_default();
        let location = network::redirected(&start, location)?;
        // The credentials are for the registry alone.
        if network::origin(&location) != network::origin(&self.base) {
            return Err(network::problem(&start, "the upload leads to another server"));
        }
        let separator = if location.contains('?') { '&' } else { '?' };
        let request =
            Request::new(Method::Put, format!("{location}{separator}digest=sha256:{digest}"))
                .header("content-type", "application/octet-stream")
                .body(content.to_owned());
        self.expect(request, &[201]).map(drop)
    }

    /// Stores a manifest under a tag.
    pub(super) fn put_manifest(&self, tag: &str, manifest: &[u8]) -> Result<(), SourceError> {
        let request = Request::new(Method::Put, format!("{}/manifests/{tag}", self.base))
            .header("content-type", MANIFESTS[0])
            .body(manifest.to_owned());
        self.expect(request, &[201]).map(drop)
    }

    /// Sends a request, with credentials if the registry requires them, and follows redirects.
    fn expect(&self, request: Request, statuses: &[u16]) -> Result<Response, SourceError> {
        let url = request.url.clone();
        let (end, mut response) = self.send(request.clone())?;
        // A server that a redirect leads to gets no credentials, and cannot name a server that does.
        let is_registry = network::origin(&end) == network::origin(&self.base);
        if response.status == 401 && is_registry && self.authorization.borrow().is_none() {
            let challenge = response.header("www-authenticate").unwrap_or_default().to_owned();
            let authorization = self.authenticate(&challenge)?;
            *self.authorization.borrow_mut() = authorization;
            if self.authorization.borrow().is_some() {
                response = self.send(request)?.1;
            }
        }
        match response.status {
            status if statuses.contains(&status) => Ok(response),
            status @ (401 | 403) => Err(SourceError::Network {
                url,
                why: format!("the registry requires credentials (status {status})"),
                fix: Some(format!("docker login {}", self.host)),
            }),
            status => Err(network::failed(&url, status)),
        }
    }

    /// Sends a request. Returns the final URL and the response.
    fn send(&self, mut request: Request) -> Result<(String, Response), SourceError> {
        if let Some(authorization) = &*self.authorization.borrow() {
            request = request.header("authorization", authorization);
        }
        match request.method {
            Method::Get | Method::Head => network::follow(self.network, request),
            // What is stored goes to this server only.
            Method::Post | Method::Put => {
                let response = self.network.send(&request)?;
                Ok((request.url, response))
            }
        }
    }

    /// Returns the value of `Authorization` that a challenge asks for.
    fn authenticate(&self, challenge: &str) -> Result<Option<String>, SourceError> {
        let credential = self.network.credential(&Login::Registry(&self.host))?;
        let Some(Challenge { realm, service }) = Challenge::parse(challenge) else {
            return Ok(credential.map(|credential| credential.basic()));
        };
        let schemes = if self.base.starts_with("http://") { 2 } else { 1 };
        if !["https://", "http://"][..schemes].iter().any(|scheme| realm.starts_with(scheme)) {
            let why = format!("tokens are not requested from `{}`", printable(&realm));
            return Err(network::problem(&self.base, why));
        }
        let actions = if self.access == Access::Push { "pull,push" } else { "pull" };
        let scope = format!("repository:{}:{actions}", self.repository);
        let query = format!("service={}&scope={}", encode(&service), encode(&scope));
        let request = match &credential {
            Some(Credential { user, secret }) if user == "<token>" => {
                let token = encode(secret);
                let body = format!(
                    "grant_type=refresh_token&client_id=skillhost&refresh_token={token}&{query}"
                );
                Request::new(Method::Post, &realm)
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body(body.into_bytes())
            }
            credential => {
                let separator = if realm.contains('?') { '&' } else { '?' };
                let request = Request::new(Method::Get, format!("{realm}{separator}{query}"));
                match credential {
                    Some(credential) => request.header("authorization", credential.basic()),
                    None => request,
                }
            }
        };
        let mut response = self.network.send(&request)?;
        match response.status {
            200 => {}
            401 | 403 => return Ok(None),
            status => return Err(network::failed(&realm, status)),
        }
        let text = response.bytes(&realm, MAX_TOKEN)?;
        let answer: Value = serde_json::from_slice(&text)
            .map_err(|_| network::problem(&realm, "the token is not valid JSON"))?;
        let token = answer["token"].as_str().or_else(|| answer["access_token"].as_str());
        Ok(token.map(|token| format!("Bearer {token}")))
    }
}

/// What a registry says about its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Challenge {
    /// The URL of tokens.
    realm: String,
    service: String,
}

impl Challenge {
    /// Parses `Bearer realm="...",service="..."`. `None` for another scheme.
    fn parse(text: &str) -> Option<Challenge> {
        let (scheme, mut rest) = text.split_once(' ')?;
        let (mut realm, mut service) = (None, String::new());
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        while let Some((name, more)) = rest.split_once("=\"") {
            let (value, more) = more.split_once('"')?;
            match name.trim_start_matches([',', ' ']) {
                "realm" => realm = Some(value.to_owned()),
                "service" => value.clone_into(&mut service),
                _ => {}
            }
            rest = more;
        }
        Some(Challenge { realm: realm?, service })
    }
}

/// Encodes a value for a query.
fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed() {
        let parse = |text: &str| Challenge::parse(text).map(|found| (found.realm, found.service));
        let expected = Some(("https://a/token".to_owned(), "b c".to_owned()));
        assert_eq!(parse("Bearer realm=\"https://a/token\",service=\"b c\",scope=\"x\""), expected);
        assert_eq!(parse("bearer service=\"b c\", realm=\"https://a/token\""), expected);
        for text in ["Basic realm=\"x\"", "Bearer service=\"x\"", "Bearer realm=\"x", "Bearer", ""]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(encode("repository:a/b:pull,push"), "repository%3Aa%2Fb%3Apull%2Cpush");
    }
}
