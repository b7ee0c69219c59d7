//! How this crate reaches servers: through whoever calls it, which checks each request against the
//! operator's rules.

use std::fmt;
use std::io::Read;

use skillhost_policy::diagnostic::printable;

use crate::error::SourceError;

/// The most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// Sends requests. Does not follow redirects: each target is checked like any other.
pub trait Network {
    /// Sends one request.
    ///
    /// # Errors
    /// The operator's rules refuse it, or the server cannot be reached.
    fn send(&self, request: &Request) -> Result<Response, SourceError>;
}

/// No server may be reached.
#[derive(Debug, Clone, Copy)]
pub struct Offline;

impl Network for Offline {
    fn send(&self, request: &Request) -> Result<Response, SourceError> {
        Err(SourceError::Network {
            url: request.url.clone(),
            why: "the network is not used here".to_owned(),
            fix: None,
        })
    }
}

/// A request. It has a body if it is a `POST`, and is a `GET` otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The URL.
    pub url: String,
    /// The header fields.
    pub headers: Vec<(&'static str, String)>,
    /// The body of a `POST`.
    pub body: Option<Vec<u8>>,
}

/// The head of a response, and its body.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The value of `content-type`.
    pub content_type: Option<String>,
    /// The value of `location`.
    pub location: Option<String>,
    /// The body.
    pub body: Box<dyn Read>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Fetches a URL and follows redirects. Returns the final URL, and the body of a response of 200.
///
/// # Errors
/// The server responds with another status, or a redirect leads to an unencrypted URL or nowhere.
pub fn get(
    network: &dyn Network,
    url: &str,
    headers: &[(&'static str, String)],
) -> Result<(String, Response), SourceError> {
    let mut url = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let request = Request { url: url.clone(), headers: headers.to_vec(), body: None };
        let response = network.send(&request)?;
        match (response.status, &response.location) {
            (200, _) => return Ok((url, response)),
            (301 | 302 | 303 | 307 | 308, Some(location)) => url = redirected(&url, location)?,
            (status, _) => return Err(failed(&url, status)),
        }
    }
    Err(problem(&url, format!("more than {MAX_REDIRECTS} redirects")))
}

/// Returns the target of a redirect.
fn redirected(url: &str, location: &str) -> Result<String, SourceError> {
    let origin_end = url
        .find("://")
        .map(|at| at + 3)
        .map(|start| url[start..].find('/').map_or(url.len(), |at| start + at));
    let target = match origin_end {
        _ if location.starts_with("https://") => location.to_owned(),
        _ if location.starts_with("http://") && !url.starts_with("https://") => location.to_owned(),
        Some(end) if location.starts_with('/') && !location.starts_with("//") => {
            format!("{}{location}", &url[..end])
        }
        _ => {
            let why = format!("the redirect to `{}` is not followed", printable(location));
            return Err(problem(url, why));
        }
    };
    Ok(target)
}

pub(crate) fn failed(url: &str, status: u16) -> SourceError {
    let why = match status {
        401 | 403 => format!("the server requires credentials (status {status})"),
        404 => "the server has nothing there (status 404)".to_owned(),
        _ => format!("the server responded with status {status}"),
    };
    problem(url, why)
}

pub(crate) fn problem(url: &str, why: impl Into<String>) -> SourceError {
    SourceError::Network { url: url.to_owned(), why: why.into(), fix: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_encrypted() {
        let cases = [
            ("https://a/x", "https://b/y", Some("https://b/y")),
            ("https://a/x", "/y", Some("https://a/y")),
            ("https://a", "/y", Some("https://a/y")),
            ("http://127.0.0.1/x", "http://127.0.0.1:1/y", Some("http://127.0.0.1:1/y")),
            ("http://127.0.0.1/x", "https://b/y", Some("https://b/y")),
            ("https://a/x", "http://b/y", None),
            ("https://a/x", "//b/y", None),
            ("https://a/x", "file:///etc/passwd", None),
            ("https://a/x", "y", None),
        ];
        for (url, location, expected) in cases {
            assert_eq!(redirected(url, location).ok().as_deref(), expected, "{url} {location}");
        }
    }
}
