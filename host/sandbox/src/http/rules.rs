//! Checks a request against the network rules and the limits, before anything is sent.

use http::{Method, request};
use http_body::Body as _;

use super::request_log::truncated;
use super::{Body, Network, SendError, Sender, headers, redacted, target};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_policy::pattern::{Destination, Mismatch};

impl Sender {
    /// Checks a request and turns it into the one that is sent. Returns its target and the length
    /// of its body, if known.
    pub(super) fn admit(
        &self,
        parts: &mut request::Parts,
        body: &Body,
    ) -> Result<(Destination, Option<u64>), SendError> {
        let denied = |what: String, rule: String, fix, kind| {
            Err(SendError::Denied(Denial { what, rule, fix, kind }))
        };
        let to = match target::parse(&parts.uri) {
            Ok(to) => to,
            Err(rule) => {
                return denied(redacted(&parts.uri), truncated(&rule), None, DenialKind::Url);
            }
        };
        let host = || DenialKind::Host(to.host.clone());
        if let Network::Off = self.network {
            let rule = "deterministic runs have no network access".to_owned();
            return denied(
                target::origin(&to),
                rule,
                Some("record the run with `--record DIR`, or omit `--deterministic`".into()),
                host(),
            );
        }
        if !self.rules.fetch.allows(|p| p.matches(&to)) {
            if let Some(pattern) = self.rules.fetch.none_of.iter().find(|p| p.matches(&to)) {
                let rule =
                    format!("network access to {} is blocked by an entry of `deny`", to.host);
                let kind = DenialKind::DeniedHost(to.host.clone(), Box::new(pattern.clone()));
                return denied(target::origin(&to), rule, None, kind);
            }
            let rule = self.missing_grant(&to);
            let missing = self.rules.fetch.missing_entry(|p| p.matches(&to));
            let fix = missing.map(|missing| missing.fix(&entry_for(&to)));
            return denied(target::origin(&to), rule, fix, host());
        }
        // CONNECT would open a tunnel; TRACE echoes headers that the host added.
        let never = [Method::CONNECT, Method::TRACE].contains(&parts.method);
        if never || !self.rules.methods.iter().any(|m| m == parts.method.as_str()) {
            let method = truncated(parts.method.as_str());
            let rule = if never {
                format!("the method {method} is not supported")
            } else {
                format!("`methods` does not include {method}")
            };
            let fix = (!never).then(|| format!("`methods: [{method}]` in the policy"));
            return denied(
                format!("{method} {}", target::origin(&to)),
                rule,
                fix,
                DenialKind::Method(to.host),
            );
        }
        headers::strip(&mut parts.headers);
        let declared = headers::declared_length(&parts.headers, body.size_hint().exact())?;
        let line = parts.uri.path_and_query().map_or(1, |p| p.as_str().len())
            + parts.method.as_str().len();
        if !headers::fit(&parts.headers, line + to.host.len() + 64) {
            return Err(SendError::RequestHead);
        }
        if declared.is_some_and(|n| n > self.limits.http_request_body) {
            return Err(self.limit_error(Limit::HttpRequestBody));
        }
        parts.uri = target::absolute_uri(&to, &parts.uri)
            .map_err(|e| SendError::Malformed(e.to_string()))?;
        parts.extensions.clear();
        if self.limits.http_concurrent == 0 {
            return Err(self.limit_error(Limit::HttpConcurrent));
        }
        let has_rate = self.limits.http_rate.or(self.limits.http_host_rate).is_some();
        if has_rate && self.limits.http_burst == 0 {
            return Err(self.limit_error(Limit::HttpBurst));
        }
        if !self.log.admit(self.limits.http_requests) {
            return Err(self.limit_error(Limit::HttpRequests));
        }
        Ok((to, declared))
    }

    /// Says why no entry allows a request, from the closest entry of the first side that has no
    /// match.
    fn missing_grant(&self, to: &Destination) -> String {
        let side = self.rules.fetch.all_of.iter().find(|side| !side.iter().any(|p| p.matches(to)));
        let nearest = side
            .into_iter()
            .flatten()
            .filter_map(|p| p.mismatch(to))
            .max()
            .unwrap_or(Mismatch::Host);
        let (host, port) = (&to.host, to.port);
        match nearest {
            Mismatch::Host => format!("network access to {host} is not granted"),
            Mismatch::Scheme => format!("network access to {host} is granted for https only"),
            Mismatch::Port => format!("network access to {host} is not granted for port {port}"),
        }
    }
}

/// Returns the entry that grants a target.
pub(super) fn entry_for(to: &Destination) -> String {
    let scheme = if to.https { "domain:" } else { "http://" };
    format!("WebFetch({scheme}{})", target::authority(to))
}
