//! How this crate reaches servers: through whoever calls it, which checks each request against the
//! operator's rules.

use std::fmt;
use std::io::{Read, Write};

use skillhost_policy::diagnostic::printable;

use crate::credentials::{Credential, Login};
use crate::error::SourceError;
use crate::source::SshPlace;

/// The most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// Reaches servers within the operator's rules.
pub trait Network {
    /// Sends one request. Does not follow redirects: each target is checked like any other.
    ///
    /// # Errors
    /// The operator's rules refuse it, or the server cannot be reached.
    fn send(&self, request: &Request) -> Result<Response, SourceError>;

    /// Returns what the operator's configuration has for a server that requires credentials.
    ///
    /// # Errors
    /// The configuration or a helper program is broken.
    fn credential(&self, _: &Login<'_>) -> Result<Option<Credential>, SourceError> {
        Ok(None)
    }

    /// Runs a command on a server, over SSH.
    ///
    /// # Errors
    /// The operator's rules refuse it, or the server cannot be reached.
    fn ssh(&self, place: &SshPlace, _: &str) -> Result<Box<dyn Connection>, SourceError> {
        Err(problem(&place.to_string(), "SSH is not used here"))
    }

    /// Returns the URL at which an object of an S3 store can be fetched, with its signature.
    ///
    /// # Errors
    /// The store or its credentials are not configured.
    fn object(&self, bucket: &str, key: &str) -> Result<String, SourceError> {
        Err(problem(&format!("s3://{bucket}/{key}"), "no S3 store is configured"))
    }
}

/// The two streams of a command that runs on a server. It ends with this value.
pub trait Connection: Read + Write {
    /// Says why the command failed, after its output has ended early.
    fn failure(&mut self) -> Option<String>;
}

/// No server may be reached.
#[derive(Debug, Clone, Copy)]
pub struct Offline;

impl Network for Offline {
    fn send(&self, request: &Request) -> Result<Response, SourceError> {
        Err(problem(&request.url, "the network is not used here"))
    }
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Fetches.
    Get,
    /// Asks whether something exists.
    Head,
    /// Sends a command.
    Post,
    /// Stores.
    Put,
}

impl Method {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
        }
    }
}

/// A request.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: String,
    /// The header fields, with names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Option<Vec<u8>>,
}

/// Neither the fields nor the query, which may carry secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.split('?').next().unwrap_or_default();
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &url)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// Creates a request without a body.
    pub fn new(method: Method, url: impl Into<String>) -> Request {
        Request { method, url: url.into(), headers: Vec::new(), body: None }
    }

    /// Adds a header field.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Request {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(self, body: Vec<u8>) -> Request {
        Request { body: Some(body), ..self }
    }
}

/// The head of a response, and its body.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The header fields that are text, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Box<dyn Read>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Response {
    /// Returns the first header field of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Reads a short body.
    ///
    /// # Errors
    /// The body fails, or is longer than `max` bytes.
    pub fn bytes(&mut self, url: &str, max: u64) -> Result<Vec<u8>, SourceError> {
        let mut bytes = Vec::new();
        (&mut self.body).take(max + 1).read_to_end(&mut bytes).map_err(SourceError::Input)?;
        match bytes.len() as u64 <= max {
            true => Ok(bytes),
            false => Err(problem(url, format!("the response is larger than {max} bytes"))),
        }
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
    let request = Request { headers: headers.to_vec(), ..Request::new(Method::Get, url) };
    let (url, response) = follow(network, request)?;
    match response.status {
        200 => Ok((url, response)),
        status => Err(failed(&url, status)),
    }
}

/// Sends a request and follows redirects. Returns the final URL, and a response of any other status.
/// Credentials are not sent to another origin.
///
/// # Errors
/// A redirect leads to an unencrypted URL or nowhere.
pub fn follow(
    network: &dyn Network,
    mut request: Request,
) -> Result<(String, Response), SourceError> {
    for _ in 0..=MAX_REDIRECTS {
        let response = network.send(&request)?;
        match (response.status, response.header("location")) {
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                let url = redirected(&request.url, location)?;
                if origin(&url) != origin(&request.url) {
                    request.headers.retain(|(name, _)| *name != "authorization");
                }
                request.url = url;
            }
            _ => return Ok((request.url, response)),
        }
    }
    Err(problem(&request.url, format!("more than {MAX_REDIRECTS} redirects")))
}

/// Returns scheme, host and port of a URL as they are written.
pub fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    &url[..end]
}

/// Returns the target of a redirect, or of another reference of a server.
pub(crate) fn redirected(url: &str, location: &str) -> Result<String, SourceError> {
    let target = match url.contains("://") {
        _ if location.starts_with("https://") => location.to_owned(),
        _ if location.starts_with("http://") && !url.starts_with("https://") => location.to_owned(),
        true if location.starts_with('/') && !location.starts_with("//") => {
            format!("{}{location}", origin(url))
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

/// Creates an error without the query of the URL, which may carry a signature.
pub(crate) fn problem(url: &str, why: impl Into<String>) -> SourceError {
    let url = url.split('?').next().unwrap_or_default().to_owned();
    SourceError::Network { url, why: why.into(), fix: None }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

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

    /// Redirects each URL of a list to the next, and records the requests.
    struct Chain(Vec<&'static str>, RefCell<Vec<Request>>);

    impl Network for Chain {
        fn send(&self, request: &Request) -> Result<Response, SourceError> {
            let at = self.1.borrow().len();
            self.1.borrow_mut().push(request.clone());
            let location = self.0.get(at).map(|to| ("location".to_owned(), (*to).to_owned()));
            let status = if location.is_some() { 307 } else { 200 };
            Ok(Response {
                status,
                headers: location.into_iter().collect(),
                body: Box::new(&b""[..]),
            })
        }
    }

    #[test]
    fn credentials_stay_at_their_origin() {
        let network = Chain(vec!["/y", "https://a:8443/z", "https://a/back"], RefCell::default());
        let request = Request::new(Method::Get, "https://a/x").header("authorization", "secret");
        let (url, _) = follow(&network, request).unwrap();
        assert_eq!(url, "https://a/back");
        let sent: Vec<bool> =
            network.1.borrow().iter().map(|request| !request.headers.is_empty()).collect();
        assert_eq!(sent, [true, true, false, false], "once away, they do not come back");
    }

    #[test]
    fn messages_and_debug_output_show_no_secrets() {
        let request = Request::new(Method::Get, "https://a/x?signature=secret")
            .header("authorization", "secret");
        assert!(!format!("{request:?}").contains("secret"));
        assert!(!failed(&request.url, 403).to_string().contains("secret"));
    }
}
