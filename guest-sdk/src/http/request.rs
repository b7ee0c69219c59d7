//! Building and sending requests.

use std::time::Duration;

use serde::Serialize;

use super::error::{Error, error};
use super::response::Response;
use super::url;
use crate::bindings::http::wasi::http::{client, types};
use crate::bindings::http::{wit_future, wit_stream};
use crate::stream::{BoxFuture, poll_with};

/// A request, built by chained calls and sent by [`Request::send`].
///
/// ```no_run
/// use skillhost_guest::http::Request;
///
/// # async fn example() -> Result<(), skillhost_guest::http::Error> {
/// let response = Request::put("https://api.example.com/note").header("content-type", "text/plain").body("hi").send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    timeout: Option<Duration>,
    /// An error found while building, reported by `send`.
    invalid: Option<String>,
}

/// Defines the constructor of one method, with its example.
macro_rules! method {
    ($name:ident, $method:literal) => {
        #[doc = concat!("Creates a `", $method, "` request.")]
        ///
        /// ```no_run
        /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
        #[doc = concat!("let request = skillhost_guest::http::Request::", stringify!($name), "(\"https://example.com/\");")]
        /// let response = request.send().await?;
        /// # Ok(())
        /// # }
        /// ```
        pub fn $name(url: impl Into<String>) -> Self {
            Self::new($method, url)
        }
    };
}

impl Request {
    /// Creates a request with any method.
    ///
    /// ```no_run
    /// let request = skillhost_guest::http::Request::new("PROPFIND", "https://dav.example.com/");
    /// ```
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        let (method, url) = (method.into(), url.into());
        Self { method, url, headers: Vec::new(), body: Vec::new(), timeout: None, invalid: None }
    }

    method!(get, "GET");
    method!(head, "HEAD");
    method!(post, "POST");
    method!(put, "PUT");
    method!(patch, "PATCH");
    method!(delete, "DELETE");

    /// Adds a header.
    ///
    /// ```no_run
    /// let request = skillhost_guest::http::Request::get("https://example.com/").header("accept", "text/html");
    /// ```
    pub fn header(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    /// Sets the body.
    ///
    /// ```no_run
    /// let request = skillhost_guest::http::Request::post("https://example.com/").body("a=1&b=2");
    /// ```
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    /// Sets the body to `value` as JSON, and adds the header `content-type: application/json`.
    ///
    /// ```no_run
    /// let request = skillhost_guest::http::Request::post("https://example.com/").json(&[1, 2, 3]);
    /// ```
    pub fn json(mut self, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => self.body = body,
            Err(error) => {
                self.invalid = Some(format!("the body cannot be written as JSON: {error}"))
            }
        }
        self.header("content-type", "application/json")
    }

    /// Sets the longest time to wait for the connection, for the first byte of the response and
    /// between two bytes. The host's own limits apply as well. [`crate::time::timeout`] limits the
    /// whole exchange.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// let request = skillhost_guest::http::Request::get("https://example.com/").timeout(Duration::from_secs(5));
    /// ```
    pub fn timeout(mut self, duration: Duration) -> Self {
        self.timeout = Some(duration);
        self
    }

    /// Sends the request, and returns when the headers of the response have arrived.
    ///
    /// A status such as 404 is not an error: see [`Response::error_for_status`].
    ///
    /// # Errors
    ///
    /// Returns an error if the request is not valid, is denied, or no response arrives.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
    /// let status = skillhost_guest::http::Request::head("https://example.com/").send().await?.status();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(mut self) -> Result<Response, Error> {
        let what = format!("{} {}", self.method, self.url);
        let body = std::mem::take(&mut self.body);
        let (contents, mut upload) = stream_of(body);
        let request =
            self.build(contents).map_err(|reason| Error::Invalid(format!("{what}: {reason}")))?;
        let response = poll_with(&mut upload, client::send(request))
            .await
            .map_err(|code| error(&what, code))?;
        Ok(Response::new(response, what, upload))
    }

    fn build(
        self,
        contents: Option<wit_bindgen::StreamReader<u8>>,
    ) -> Result<types::Request, String> {
        if let Some(reason) = self.invalid {
            return Err(reason);
        }
        let url = url::parse(&self.url)?;
        let headers = types::Headers::new();
        for (name, value) in &self.headers {
            headers
                .append(name, value)
                .map_err(|error| format!("header `{name}`: {}", describe(error)))?;
        }
        let options = self.timeout.map(options).transpose()?;
        let (trailers, no_trailers) = wit_future::new(|| Ok(None));
        // Dropping the unwritten end sends the default: no trailers. The end of the response
        // reports errors of the exchange.
        drop(trailers);
        let (request, _sent) = types::Request::new(headers, contents, no_trailers, options);
        let scheme = if url.https { types::Scheme::Https } else { types::Scheme::Http };
        request.set_method(&method(self.method)).map_err(|()| "the method is not valid")?;
        request.set_scheme(Some(&scheme)).map_err(|()| "the scheme is not valid")?;
        request.set_authority(Some(url.authority)).map_err(|()| "the URL's host is not valid")?;
        request
            .set_path_with_query(Some(&url.path_with_query))
            .map_err(|()| "the URL's path is not valid")?;
        Ok(request)
    }
}

/// Returns a stream of the body's bytes, and the future that sends them.
fn stream_of(body: Vec<u8>) -> (Option<wit_bindgen::StreamReader<u8>>, Option<BoxFuture<()>>) {
    if body.is_empty() {
        return (None, None);
    }
    let (mut writer, reader) = wit_stream::new();
    let upload = async move {
        // A server may respond without reading the whole body.
        writer.write_all(body).await;
    };
    (Some(reader), Some(Box::pin(upload)))
}

fn options(timeout: Duration) -> Result<types::RequestOptions, &'static str> {
    let nanoseconds = Some(timeout.as_nanos().try_into().unwrap_or(u64::MAX));
    let options = types::RequestOptions::new();
    options
        .set_connect_timeout(nanoseconds)
        .and_then(|()| options.set_first_byte_timeout(nanoseconds))
        .and_then(|()| options.set_between_bytes_timeout(nanoseconds))
        .map_err(|_| "this host does not support timeouts")?;
    Ok(options)
}

fn method(name: String) -> types::Method {
    match name.as_str() {
        "GET" => types::Method::Get,
        "HEAD" => types::Method::Head,
        "POST" => types::Method::Post,
        "PUT" => types::Method::Put,
        "DELETE" => types::Method::Delete,
        "CONNECT" => types::Method::Connect,
        "OPTIONS" => types::Method::Options,
        "TRACE" => types::Method::Trace,
        "PATCH" => types::Method::Patch,
        _ => types::Method::Other(name),
    }
}

fn describe(error: types::HeaderError) -> String {
    match error {
        types::HeaderError::InvalidSyntax => "not valid as a header".into(),
        types::HeaderError::Forbidden => "the host sets this header itself".into(),
        types::HeaderError::Immutable => "cannot be changed".into(),
        types::HeaderError::SizeExceeded => "too large".into(),
        types::HeaderError::Other(reason) => reason.unwrap_or_else(|| "not accepted".into()),
    }
}
