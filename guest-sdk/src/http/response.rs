//! Responses.

use serde::de::DeserializeOwned;

use super::error::{Error, error};
use crate::bindings::http::wasi::http::types;
use crate::bindings::http::wit_future;
use crate::stream::{BoxFuture, Source, poll_with};

/// The response to a request. Status and headers have arrived; the body is read on demand.
///
/// ```no_run
/// # async fn example() -> Result<(), skillhost_guest::http::Error> {
/// let response = skillhost_guest::http::get("https://example.com/").await?;
/// skillhost_guest::println!("{} {:?}", response.status(), response.header("content-type"));
/// # Ok(())
/// # }
/// ```
pub struct Response {
    /// Method and URL of the request, for messages.
    what: String,
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Source,
    /// Sends the rest of the request's body.
    upload: Option<BoxFuture<()>>,
}

impl Response {
    pub(super) fn new(
        response: types::Response,
        what: String,
        upload: Option<BoxFuture<()>>,
    ) -> Self {
        let status = response.get_status_code();
        let headers = response.get_headers().copy_all();
        let (received, result) = wit_future::new(|| Ok(()));
        let (reader, trailers) = types::Response::consume_body(response, result);
        let request = what.clone();
        let done = async move {
            let ended = trailers.await;
            drop(received);
            ended.map(drop).map_err(|code| error(&request, code).into())
        };
        Self { what, status, headers, body: Source::new(reader, Box::pin(done)), upload }
    }

    /// Returns the status code, such as 200 or 404.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
    /// let found = skillhost_guest::http::get("https://example.com/").await?.status() != 404;
    /// # Ok(())
    /// # }
    /// ```
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns all headers in their order, with names in lower case.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
    /// for (name, value) in skillhost_guest::http::get("https://example.com/").await?.headers() {
    ///     skillhost_guest::println!("{name}: {}", String::from_utf8_lossy(value));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn headers(&self) -> &[(String, Vec<u8>)] {
        &self.headers
    }

    /// Returns the first header with this name, ignoring case. `None` if there is no such header or
    /// its value is not UTF-8.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
    /// let response = skillhost_guest::http::get("https://example.com/").await?;
    /// let is_html = response.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// Returns the response unchanged if its status is below 400.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Failed`] if the status is 400 or higher.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
    /// let page = skillhost_guest::http::get("https://example.com/").await?.error_for_status()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn error_for_status(self) -> Result<Self, Error> {
        if self.status < 400 {
            Ok(self)
        } else {
            Err(Error::Failed(format!("{}: status {}", self.what, self.status)))
        }
    }

    /// Reads the next bytes of the body. `None` at the end.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut response = skillhost_guest::http::get("https://example.com/big.zip").await?;
    /// let mut file = skillhost_guest::fs::File::create("/workspace/big.zip").await?;
    /// while let Some(bytes) = response.chunk().await? {
    ///     file.write_all(bytes).await?;
    /// }
    /// file.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let chunk = poll_with(&mut self.upload, self.body.chunk()).await;
        chunk.map_err(|error| unwrap_error(error, &self.what))
    }

    /// Reads the whole body.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
    /// let image = skillhost_guest::http::get("https://example.com/logo.png").await?.bytes().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bytes(mut self) -> Result<Vec<u8>, Error> {
        let bytes = poll_with(&mut self.upload, self.body.read_to_end()).await;
        bytes.map_err(|error| unwrap_error(error, &self.what))
    }

    /// Reads the whole body as text. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
    /// let page = skillhost_guest::http::get("https://example.com/").await?.text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn text(self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.bytes().await?).into_owned())
    }

    /// Reads the whole body and parses it as JSON.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Failed`] if the body is not valid JSON or does not match `T`.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
    /// let names: Vec<String> = skillhost_guest::http::get("https://example.com/names").await?.json().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let what = self.what.clone();
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes).map_err(|error| {
            Error::Failed(format!("{what}: the response is not the expected JSON: {error}"))
        })
    }
}

/// Unwraps the error that [`Response::new`] wrapped.
fn unwrap_error(error: std::io::Error, what: &str) -> Error {
    error.downcast().unwrap_or_else(|error| Error::Failed(format!("{what}: {error}")))
}
