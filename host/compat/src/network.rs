//! The hosts that a script names, and whether the capabilities allow them.

use super::judge::{Judge, Lack};
use super::need::{Need, NeedEffect, NeedKind, NeedStatus};
use skillhost_policy::pattern::{Destination, HostPattern};
use skillhost_policy::refusal::Refusal;

/// Hosts that are identifiers rather than servers: XML namespaces and schemas.
const NAMES: [&str; 9] = [
    "www.w3.org",
    "schemas.openxmlformats.org",
    "schemas.microsoft.com",
    "purl.org",
    "ns.adobe.com",
    "json-schema.org",
    "www.sitemaps.org",
    "xmlns.com",
    "docs.oasis-open.org",
];

/// Returns the hosts of the URLs in a text, with their offsets.
pub(super) fn addresses(text: &str) -> impl Iterator<Item = (usize, Destination)> + '_ {
    text.match_indices("://").filter_map(|(at, _)| {
        let (start, https) = match &text[..at] {
            before if before.ends_with("https") => (at - 5, true),
            before if before.ends_with("http") => (at - 4, false),
            _ => return None,
        };
        Some((start, target(&text[at + 3..], https)?))
    })
}

/// Returns the host at the start of a text, if no part of it is computed.
fn target(rest: &str, https: bool) -> Option<Destination> {
    /// Longer than any host with a port.
    const LONGEST: usize = 300;
    let rest = &rest[..rest.floor_char_boundary(LONGEST.min(rest.len()))];
    let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'));
    let authority = rest.find(ends).map_or(rest, |end| &rest[..end]);
    let after = rest[authority.len()..].chars().next();
    // With a user name or a computed part, the host is not what it seems.
    let computed = matches!(after, Some('@' | '%'))
        || (matches!(after, Some('{' | '$' | '<')) && authority.ends_with(['.', '-', ':']));
    let (host, port) = authority
        .trim_end_matches(['.', ':'])
        .split_once(':')
        .unwrap_or((authority.trim_end_matches(['.', ':']), ""));
    let port = if port.is_empty() { if https { 443 } else { 80 } } else { port.parse().ok()? };
    let host = host.to_ascii_lowercase();
    let known = host == "localhost"
        || (host.contains('.') && host.split('.').all(|label| !label.is_empty()));
    (known && !computed).then_some(Destination { https, host, port })
}

impl Judge<'_> {
    /// Compares the named hosts with the capabilities, if the text sends requests at all.
    pub(super) fn network(&mut self) {
        let Some((client, offset, reach)) = self.client.take() else { return };
        let hosts = std::mem::take(&mut self.hosts);
        let named = !hosts.is_empty();
        for (offset, to) in hosts {
            let is_identifier = NAMES.iter().any(|name| {
                to.host == *name || to.host.strip_suffix(name).is_some_and(|sub| sub.ends_with('.'))
            });
            if !is_identifier {
                self.host(offset, &to);
            }
        }
        if !named && self.facts.capabilities.fetch.is_empty() {
            let message = format!(
                "`{client}` sends requests to hosts that the text does not name, and no network access is granted"
            );
            let fix = Some("--allow 'WebFetch(domain:HOST)' for each host".to_owned());
            let effect = self.effect(reach).min(NeedEffect::Part);
            self.add(
                offset,
                Need {
                    effect,
                    message: Some(message),
                    fix,
                    ..self.blank(NeedKind::Host, "network", NeedStatus::NotGranted)
                },
            );
        }
    }

    fn host(&mut self, offset: usize, to: &Destination) {
        let entry = entry(to);
        let matches = |pattern: &HostPattern| pattern.matches(to);
        let lack = self.facts.lack(&self.facts.capabilities.fetch, matches, matches);
        let (status, message, fix) = match lack {
            None => (NeedStatus::Granted, None, None),
            Some(lack) => {
                let Refusal { why, fix } = lack.explain(&entry);
                let message = format!("network access to {} is not granted: {why}", to.host);
                (NeedStatus::NotGranted, Some(message), fix)
            }
        };
        let effect = if message.is_some() { NeedEffect::Part } else { NeedEffect::None };
        self.add(
            offset,
            Need { effect, message, fix, ..self.blank(NeedKind::Host, &to.host, status) },
        );
    }
}

/// Returns the entry that allows a host.
fn entry(to: &Destination) -> String {
    let own = if to.https { 443 } else { 80 };
    let port = if to.port == own { String::new() } else { format!(":{}", to.port) };
    let scheme = if to.https { "domain:" } else { "http://" };
    format!("WebFetch({scheme}{}{port})", to.host)
}

impl Lack {
    /// Explains why an entry is not granted, and how to grant it.
    pub(super) fn explain(self, entry: &str) -> Refusal {
        let (why, fix) = match self {
            Lack::Denied => ("the policy denies it".to_owned(), None),
            Lack::Recovered => (
                "a skill with broken frontmatter is granted nothing".to_owned(),
                Some("fix the frontmatter of SKILL.md".to_owned()),
            ),
            Lack::Operator => {
                (format!("the policy does not allow `{entry}`"), Some(format!("--allow '{entry}'")))
            }
            Lack::Skill => (
                format!("allowed-tools does not request `{entry}`"),
                Some(format!("add it to allowed-tools: {entry}")),
            ),
        };
        Refusal { why, fix }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<String> {
        addresses(text).map(|(at, to)| format!("{at} {}", entry(&to))).collect()
    }

    #[test]
    fn only_complete_hosts_are_found() {
        assert_eq!(
            hosts("https://api.Example.io/v1?x=http://b.c:8080"),
            ["0 WebFetch(domain:api.example.io)", "28 WebFetch(http://b.c:8080)"]
        );
        assert_eq!(
            hosts("see https://a.b. And (http://localhost:3000)."),
            ["4 WebFetch(domain:a.b)", "22 WebFetch(http://localhost:3000)"]
        );
        assert_eq!(
            hosts("https://a.b{path} https://a.b:8443/${x}"),
            ["0 WebFetch(domain:a.b)", "18 WebFetch(domain:a.b:8443)"]
        );
        for none in [
            "https://{host}/x",
            "https://api.{region}.b.c",
            "https://user@a.b",
            "https://",
            "ftp://a.b",
            "https://host",
            "https://a..b",
            "https://a.b:99999",
        ] {
            assert_eq!(hosts(none), Vec::<String>::new(), "{none}");
        }
    }
}
