//! The result of a fetch, and the address of a redirect.

use schemars::JsonSchema;
use serde::Serialize;
use url::Url;

use crate::content::{self, Kind};
use crate::page::{self, Link};

/// The maximum number of redirects.
pub const MAX_REDIRECTS: usize = 5;
/// The maximum number of bytes to read of a body.
pub const MAX_BODY: usize = 5 * 1024 * 1024;
/// The default number of characters of text.
const DEFAULT_CHARS: usize = 20_000;

/// A fetched page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    /// The address, after redirects.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// The content type sent by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The page's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The readable text. Other content (JSON, plain text) is unchanged.
    pub text: String,
    /// Whether the text was truncated.
    pub truncated: bool,
    /// The links of the page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
}

/// Parses an address. The scheme is `https` by default.
///
/// # Errors
/// Returns the problem with the address.
pub fn address(text: &str) -> Result<Url, String> {
    let text = text.trim();
    let full = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url =
        Url::parse(&full).map_err(|error| format!("{text:?} is not a valid address: {error}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!("only http and https addresses are supported, not {other}")),
    }
}

/// Returns the address that a response redirects to, if it does.
///
/// # Errors
/// Returns an error if the redirect has no address, or not one of the web.
pub fn next(from: &Url, status: u16, location: Option<&str>) -> Result<Option<Url>, String> {
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = location.ok_or_else(|| {
        format!("{from} responded with status {status}, but without an address to redirect to")
    })?;
    let to = from.join(location).map_err(|error| {
        format!("{from} redirects to {location:?}, which is not a valid address: {error}")
    })?;
    match to.scheme() {
        "http" | "https" => Ok(Some(to)),
        other => Err(format!(
            "{from} redirects to an address with the scheme {other}, which is not supported"
        )),
    }
}

/// Converts a response to readable text. `cut` means that the body was truncated.
///
/// # Errors
/// Returns an error if the body is not text.
pub fn report(
    url: &Url,
    status: u16,
    content_type: Option<&str>,
    body: &[u8],
    cut: bool,
    max_chars: Option<usize>,
) -> Result<Report, String> {
    let decoded = |body| content::decode(content_type, body);
    let (title, text, links) = match content::kind(content_type, body) {
        Kind::Html => {
            let page = page::read(&decoded(body), url);
            (page.title, page.text, page.links)
        }
        Kind::Text => (None, decoded(body), Vec::new()),
        Kind::Binary => {
            let what = content_type.unwrap_or("binary data");
            return Err(format!(
                "{url} is {what}, not text: only pages, JSON and plain text are supported"
            ));
        }
    };
    let end = text.char_indices().nth(max_chars.unwrap_or(DEFAULT_CHARS)).map(|(i, _)| i);
    let truncated = cut || end.is_some();
    let text = end.map_or(text.as_str(), |end| &text[..end]).to_owned();
    Ok(Report {
        url: url.to_string(),
        status,
        content_type: content_type.map(str::to_owned),
        title,
        text,
        truncated,
        links,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        address(text).unwrap()
    }

    #[test]
    fn only_web_addresses_are_accepted() {
        assert_eq!(url("example.com/a b").as_str(), "https://example.com/a%20b");
        assert_eq!(
            address("ftp://x/").unwrap_err(),
            "only http and https addresses are supported, not ftp"
        );
        assert!(address("http://").is_err());
    }

    #[test]
    fn redirects_are_followed() {
        let from = url("https://a.example/x/y");
        assert_eq!(next(&from, 200, Some("/z")), Ok(None));
        assert_eq!(
            next(&from, 302, Some("../z")).unwrap().unwrap().as_str(),
            "https://a.example/z"
        );
        assert_eq!(
            next(&from, 301, Some("//b.example/")).unwrap().unwrap().as_str(),
            "https://b.example/"
        );
        assert!(next(&from, 308, None).unwrap_err().contains("without an address"));
        assert!(next(&from, 301, Some("file:///etc/passwd")).unwrap_err().contains("scheme file"));
    }

    #[test]
    fn sample_page_is_converted() {
        let body = include_bytes!("../tests/page.html");
        let found = report(
            &url("https://docs.example.org/guide/"),
            200,
            Some("text/html; charset=utf-8"),
            body,
            false,
            None,
        )
        .unwrap();
        assert_eq!(found.title.as_deref(), Some("Install – Example"));
        assert_eq!(found.text, include_str!("../tests/page.md").trim_end());
        assert_eq!(found.links.len(), 2);
        assert_eq!(found.links[0].url, "https://docs.example.org/guide/releases?all=1");
    }

    #[test]
    fn text_is_unchanged_and_cut_between_characters() {
        let found = report(
            &url("x.example"),
            200,
            Some("application/json"),
            "{\"é\": 1}".as_bytes(),
            false,
            Some(3),
        )
        .unwrap();
        assert_eq!((found.text.as_str(), found.truncated), ("{\"é", true));
        let error =
            report(&url("x.example"), 200, Some("image/png"), b"\x89PNG", false, None).unwrap_err();
        assert_eq!(
            error,
            "https://x.example/ is image/png, not text: only pages, JSON and plain text are supported"
        );
    }
}
