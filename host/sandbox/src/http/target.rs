//! Parses the target of a request strictly, so that the checked host is the one connected to.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::Uri;

use skillhost_policy::pattern::Destination;

/// Parses scheme, host and port of an absolute URI.
///
/// Refuses everything that two parsers could read as two hosts: user information, percent-encoding,
/// numbers that some resolvers accept as an address (`127.1`, `0x7f.1`, `2130706433`,
/// `0177.0.0.1`), zones, ports out of range.
///
/// # Errors
/// The problem, without a full stop.
pub fn parse(uri: &Uri) -> Result<Destination, String> {
    let https = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        Some(other) => return Err(format!("the scheme `{other}` is neither https nor http")),
        None => return Err("the URL has no scheme".to_owned()),
    };
    let authority = uri.authority().map_or("", |a| a.as_str());
    if authority.contains('@') {
        return Err("the URL contains user information (`user@host`)".to_owned());
    }
    let host_end = if authority.starts_with('[') {
        authority.find(']').map_or(authority.len(), |i| i + 1)
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, port) = authority.split_at(host_end);
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => default_port(https),
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits
            .parse()
            .ok()
            .filter(|p| *p != 0)
            .ok_or_else(|| format!("`{digits}` is not a port"))?,
        _ => return Err(format!("`{port}` is not a port")),
    };
    if uri
        .path_and_query()
        .is_some_and(|p| !p.as_str().starts_with('/') && !p.as_str().starts_with('?'))
    {
        return Err("the path does not start with a slash".to_owned());
    }
    Ok(Destination { https, host: host_name(host)?, port })
}

/// Returns the URI that is sent: the checked scheme, host and port, with the path and query of the
/// request.
pub fn absolute_uri(to: &Destination, uri: &Uri) -> Result<Uri, http::Error> {
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
    Uri::builder()
        .scheme(if to.https { "https" } else { "http" })
        .authority(authority(to))
        .path_and_query(path)
        .build()
}

/// Returns `host`, or `host:port` if the port is not the default of the scheme.
pub fn authority(to: &Destination) -> String {
    let host = if to.host.contains(':') { format!("[{}]", to.host) } else { to.host.clone() };
    if to.port == default_port(to.https) { host } else { format!("{host}:{}", to.port) }
}

/// Returns the origin, such as `https://host:port`.
pub fn origin(to: &Destination) -> String {
    format!("{}://{}", if to.https { "https" } else { "http" }, authority(to))
}

fn default_port(https: bool) -> u16 {
    if https { 443 } else { 80 }
}

fn host_name(text: &str) -> Result<String, String> {
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or(inner);
        // To sockets, and so to the patterns, an IPv4-mapped address is the IPv4 address.
        return inner
            .parse::<Ipv6Addr>()
            .map(|a| a.to_canonical().to_string())
            .map_err(|_| format!("`{text}` is not an IPv6 address"));
    }
    let name = text.to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    let label_ok = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(label_ok) {
        return Err(format!("`{text}` is not a host name"));
    }
    // The last label decides whether a resolver reads a number (the URL standard's "ends in a
    // number").
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex =
        last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    if hex || last.bytes().all(|b| b.is_ascii_digit()) {
        let strict = name.parse::<Ipv4Addr>().map_err(|_| {
            format!("`{text}` is an unusual form of an IP address; write it like `127.0.0.1`")
        })?;
        return Ok(strict.to_string());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(url: &str) -> Result<String, String> {
        let uri: Uri = url.parse().map_err(|e: http::uri::InvalidUri| e.to_string())?;
        parse(&uri).map(|t| format!("{} {} {}", t.https, t.host, t.port))
    }

    #[test]
    fn hosts_are_normalised() {
        for (url, expected) in [
            ("https://example.com", "true example.com 443"),
            ("https://EXAMPLE.Com./x", "true example.com 443"),
            ("http://example.com:8080/", "false example.com 8080"),
            ("HTTPS://example.com:443/", "true example.com 443"),
            ("http://[::1]:80/", "false ::1 80"),
            ("http://[0:0::0001]/", "false ::1 80"),
            ("http://[::FFFF:7f00:1]/", "false 127.0.0.1 80"),
            ("http://127.0.0.1./", "false 127.0.0.1 80"),
            ("http://xn--bcher-kva.example/", "false xn--bcher-kva.example 80"),
            ("http://_dmarc.a-b.example?q", "false _dmarc.a-b.example 80"),
        ] {
            assert_eq!(read(url).as_deref(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn ambiguous_urls_are_refused() {
        for url in [
            "http://user@example.com/",
            "http://user:pw@example.com/",
            "http://example.com@127.0.0.1/",
            "http://@example.com/",
            "http://127.1/",
            "http://0x7f.1/",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://127.0.0.01/",
            "http://127.0.0.1.0x/",
            "http://1.2.3.4.5/",
            "http://256.1.1.1/",
            "http://example.1/",
            "http://0x/",
            "http://%31%32%37.0.0.1/",
            "http://exa%6dple.com/",
            "http://example.com../",
            "http://.example.com/",
            "http://a..b/",
            "http://./",
            "http://-a.com/",
            "http://[::1%25eth0]/",
            "http://[fe80::1%eth0]/",
            "http://[127.0.0.1]/",
            "http://[::1]x/",
            "http://[::1/",
            "http://example.com:0/",
            "http://example.com:99999/",
            "http://example.com:/",
            "http://example.com:+80/",
            "http://example.com:80:80/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "/only/a/path",
            "http:///x",
            "http://exa mple.com/",
            "http://b\u{fc}cher.example/",
            "http://\u{ff11}27.0.0.1/",
            "http://example.com\\@evil.com/",
            "http://evil.com#@example.com\\",
        ] {
            let read = read(url);
            // A fragment is not part of the authority: the rest must be the host before it.
            assert!(
                read.is_err() || (url.contains('#') && read == Ok("false evil.com 80".into())),
                "{url}: {read:?}"
            );
        }
    }

    #[test]
    fn sent_requests_match_the_checked_ones() {
        let uri: Uri = "http://EXAMPLE.com.:8080?a=b".parse().unwrap();
        let to = parse(&uri).unwrap();
        assert_eq!(absolute_uri(&to, &uri).unwrap().to_string(), "http://example.com:8080/?a=b");
        let uri: Uri = "https://a.test//evil.test/x".parse().unwrap();
        assert_eq!(
            absolute_uri(&parse(&uri).unwrap(), &uri).unwrap().to_string(),
            "https://a.test//evil.test/x"
        );
        let uri: Uri = "https://[0::1]:443/x/../y?z".parse().unwrap();
        let to = parse(&uri).unwrap();
        assert_eq!(
            (absolute_uri(&to, &uri).unwrap().to_string(), origin(&to)),
            ("https://[::1]/x/../y?z".to_owned(), "https://[::1]".to_owned())
        );
    }

    proptest! {
        #[test]
        fn authorities_are_refused_or_round_trip(text in "[a-zA-Z0-9.:@%x\\[\\]_-]{1,24}") {
            let Ok(uri) = format!("http://{text}/").parse::<Uri>() else { return Ok(()) };
            let Ok(to) = parse(&uri) else { return Ok(()) };
            let again = absolute_uri(&to, &uri).unwrap();
            prop_assert_eq!(parse(&again).unwrap(), to.clone());
            // No unusual form is left that a resolver could read as an address.
            prop_assert!(to.host.parse::<std::net::IpAddr>().is_ok() || !to.host.rsplit('.').next().unwrap().bytes().all(|b| b.is_ascii_digit()));
        }
    }
}
