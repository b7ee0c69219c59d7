//! Splits a URL into the parts that a request carries. The host decides which of them are valid.

/// The parts of an absolute URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url<'a> {
    pub(super) https: bool,
    /// Host and port, if there is one.
    pub(super) authority: &'a str,
    /// Path and query, at least `/`. The fragment is not sent.
    pub(super) path_with_query: String,
}

pub(super) fn parse(url: &str) -> Result<Url<'_>, &'static str> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or("the URL is not absolute: it must begin with `https://` or `http://`")?;
    let https = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        _ => return Err("the URL's scheme is neither `https` nor `http`"),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.is_empty() {
        return Err("the URL has no host");
    }
    if authority.contains('@') {
        return Err("the URL contains a user name: send an `authorization` header instead");
    }
    if rest.bytes().any(|byte| byte <= b' ' || byte == 0x7f || byte == b'\\') {
        return Err(
            "the URL contains a space, a control character or a backslash: percent-encode it",
        );
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(Url { https, authority, path_with_query: format!("{slash}{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (bool, &str, String) {
        let url = parse(url).unwrap();
        (url.https, url.authority, url.path_with_query)
    }

    #[test]
    fn url_is_split_into_its_parts() {
        assert_eq!(
            parts("https://example.com:8443/a/b?c=d#e"),
            (true, "example.com:8443", "/a/b?c=d".into())
        );
        assert_eq!(parts("HTTP://127.0.0.1/"), (false, "127.0.0.1", "/".into()));
    }

    #[test]
    fn empty_path_becomes_a_slash() {
        assert_eq!(parts("https://example.com"), (true, "example.com", "/".into()));
        assert_eq!(parts("https://example.com?q=1"), (true, "example.com", "/?q=1".into()));
        assert_eq!(parts("https://example.com#top"), (true, "example.com", "/".into()));
    }

    #[test]
    fn invalid_urls_are_refused() {
        for url in [
            "example.com",
            "/a",
            "ftp://example.com/",
            "https://",
            "https:///a",
            "https://u:p@example.com/",
            "https://a/b c",
            "https://a\\b/",
        ] {
            assert!(parse(url).is_err(), "{url}");
        }
    }
}
