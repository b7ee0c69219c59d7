//! The hosts that a script's text names, and whether the grant lets them through.

use super::judge::{Judge, Lack};
use super::need::{Need, NeedEffect, NeedKind, NeedStatus};
use skillhost_policy::pattern::{Destination, HostPattern};

/// Hosts of names, not of servers: XML namespaces and schemas, and what is set aside for examples.
const NAMES: [&str; 12] = [
    "www.w3.org",
    "schemas.openxmlformats.org",
    "schemas.microsoft.com",
    "purl.org",
    "ns.adobe.com",
    "json-schema.org",
    "www.sitemaps.org",
    "xmlns.com",
    "docs.oasis-open.org",
    "example.com",
    "example.org",
    "example.net",
];

/// The addresses in a text, each with its offset.
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

/// The host at the head of a text, where the whole of it is written there.
fn target(rest: &str, https: bool) -> Option<Destination> {
    /// Longer than any host with a port.
    const LONGEST: usize = 300;
    let rest = &rest[..rest.floor_char_boundary(LONGEST.min(rest.len()))];
    let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'));
    let authority = rest.find(ends).map_or(rest, |end| &rest[..end]);
    let after = rest[authority.len()..].chars().next();
    // A user's name or a computed part makes it another host than it seems.
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
    /// Holds the hosts that were named against the grant, if anything here asks servers at all.
    pub(super) fn network(&mut self) {
        let Some((client, offset, reach)) = self.client.take() else { return };
        let hosts = std::mem::take(&mut self.hosts);
        let named = !hosts.is_empty();
        for (offset, to) in hosts {
            let example = NAMES.iter().any(|name| {
                to.host == *name || to.host.strip_suffix(name).is_some_and(|sub| sub.ends_with('.'))
            });
            if !example {
                self.host(offset, &to);
            }
        }
        if !named && self.facts.capabilities.fetch.is_empty() {
            let message = format!(
                "`{client}` asks servers that the text does not name, and the grant holds no `WebFetch`"
            );
            let fix = Some("name the hosts: --allow 'WebFetch(domain:HOST)'".to_owned());
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
                let (why, fix) = lack.explain(&entry);
                (
                    NeedStatus::NotGranted,
                    Some(format!("`{}` may not be asked: {why}", to.host)),
                    fix,
                )
            }
        };
        let effect = if message.is_some() { NeedEffect::Part } else { NeedEffect::None };
        self.add(
            offset,
            Need { effect, message, fix, ..self.blank(NeedKind::Host, &to.host, status) },
        );
    }
}

/// The entry that lets a host through.
fn entry(to: &Destination) -> String {
    let own = if to.https { 443 } else { 80 };
    let port = if to.port == own { String::new() } else { format!(":{}", to.port) };
    let scheme = if to.https { "domain:" } else { "http://" };
    format!("WebFetch({scheme}{}{port})", to.host)
}

impl Lack {
    /// Why something is not granted, and what would grant it.
    pub(super) fn explain(self, entry: &str) -> (String, Option<String>) {
        match self {
            Lack::Denied => ("the policy denies it".into(), None),
            Lack::Recovered => (
                "a broken frontmatter is granted nothing".into(),
                Some("mend the frontmatter of SKILL.md".into()),
            ),
            Lack::Operator => (
                format!("no rule of the policy allows `{entry}`"),
                Some(format!("--allow '{entry}'")),
            ),
            Lack::Skill => (
                format!("allowed-tools does not ask for `{entry}`"),
                Some(format!("add it to allowed-tools: {entry}")),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<String> {
        addresses(text).map(|(at, to)| format!("{at} {}", entry(&to))).collect()
    }

    #[test]
    fn hosts_are_those_that_are_written_out() {
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
