//! An HTTP client. The host sends the requests, and only to the hosts that the capabilities allow.
//! Redirects are not followed: each hop is a separate request, which has to be allowed as well.
//!
//! ```no_run
//! use skillhost_guest::http::{self, Request};
//!
//! # async fn example() -> Result<(), http::Error> {
//! let page = http::get("https://example.com/").await?.error_for_status()?.text().await?;
//! let created = Request::post("https://api.example.com/items").header("x-trace", "1").json(&["a", "b"]).send().await?;
//! assert_eq!(created.status(), 201);
//! # Ok(())
//! # }
//! ```

mod error;
mod request;
mod response;
mod url;

pub use error::Error;
pub use request::Request;
pub use response::Response;

/// Sends a `GET` request to `url`.
///
/// ```no_run
/// # async fn example() -> Result<(), skillhost_guest::http::Error> {
/// let text = skillhost_guest::http::get("https://example.com/").await?.text().await?;
/// # Ok(())
/// # }
/// ```
pub async fn get(url: &str) -> Result<Response, Error> {
    Request::get(url).send().await
}
