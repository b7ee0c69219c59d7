//! What a server answered.

use serde::de::DeserializeOwned;

use super::error::{Error, error};
use crate::bindings::http::wasi::http::types;
use crate::bindings::http::wit_future;
use crate::stream::{BoxFuture, Source, alongside};

/// The answer to a request: status and headers are here, the body is read when asked for.
///
/// ```no_run
/// # async fn example() -> Result<(), skillhost_guest::http::Error> {
/// let response = skillhost_guest::http::get("https://example.com/").await?;
/// skillhost_guest::println!("{} {:?}", response.status(), response.header("content-type"));
/// # Ok(())
/// # }
/// ```
pub struct Response {
    /// The request, for messages.
    what: String,
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Source,
    /// What is left to send of the request's body.
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

    /// Its status: 200, 404, ...
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

    /// All headers, in order; names are in lower case.
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

    /// The first header of that name, in any case; `None` too where its value is not UTF-8.
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

    /// The response itself, or an error where its status is 400 or higher.
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

    /// The next bytes of the body; `None` at its end.
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
        let chunk = alongside(&mut self.upload, self.body.chunk()).await;
        chunk.map_err(|error| unwrapped(error, &self.what))
    }

    /// The whole body.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::http::Error> {
    /// let image = skillhost_guest::http::get("https://example.com/logo.png").await?.bytes().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bytes(mut self) -> Result<Vec<u8>, Error> {
        let bytes = alongside(&mut self.upload, self.body.read_to_end()).await;
        bytes.map_err(|error| unwrapped(error, &self.what))
    }

    /// The whole body as text; bytes that are not UTF-8 become U+FFFD.
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

    /// The whole body, parsed as JSON.
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
            Error::Failed(format!("{what}: the response is not the JSON expected: {error}"))
        })
    }
}

/// The error that [`Response::new`] put in.
fn unwrapped(error: std::io::Error, what: &str) -> Error {
    error.downcast().unwrap_or_else(|error| Error::Failed(format!("{what}: {error}")))
}
