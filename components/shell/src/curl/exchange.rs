//! One request and its response.

use std::pin::Pin;
use std::task::Poll;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use url::Url;
use wit_bindgen::{StreamReader, StreamResult};

use super::VERSION;
use super::body::Body;
use super::failure::Failure;
use super::options::Options;
use crate::bindings::wasi::http::types::{
    Fields, Method, Request, RequestOptions, Response, Scheme,
};
use crate::bindings::wasi::http::{client, types};
use crate::bindings::{wit_future, wit_stream};

/// Bytes per read.
const CHUNK: usize = 64 * 1024;

/// A request, which can be sent again and redirected.
pub(super) struct Exchange<'a> {
    pub(super) url: Url,
    pub(super) method: String,
    headers: Vec<(String, String)>,
    body: Option<&'a [u8]>,
}

impl<'a> Exchange<'a> {
    /// Creates the request.
    ///
    /// # Errors
    /// Returns an error if the URL or a header is not valid.
    pub(super) fn new(
        options: &Options,
        body: &'a Body,
        text: &str,
    ) -> Result<Exchange<'a>, Failure> {
        let mut url = parse(text)?;
        if let Some(query) = &body.query {
            let all = url.query().map_or_else(|| query.clone(), |old| format!("{old}&{query}"));
            url.set_query(Some(&all));
        }
        let default = match () {
            () if options.head => "HEAD",
            () if body.upload => "PUT",
            () if body.bytes.is_some() => "POST",
            () => "GET",
        };
        let method = options.method.clone().unwrap_or_else(|| default.into());
        let headers = headers(options, body, &mut url)?;
        Ok(Exchange { url, method, headers, body: body.bytes.as_deref() })
    }

    /// Redirects the request to another URL, by curl's rules.
    pub(super) fn redirect(&mut self, status: u16, to: Url, options: &Options) {
        let same = self.url.host_str() == to.host_str()
            && self.url.port_or_known_default() == to.port_or_known_default();
        if !same && !options.trust_location {
            self.headers.retain(|(name, _)| {
                !name.eq_ignore_ascii_case("authorization") && !name.eq_ignore_ascii_case("cookie")
            });
        }
        let drops_body = status == 303 || (matches!(status, 301 | 302) && self.method == "POST");
        if drops_body && !options.keep_method && self.method != "HEAD" {
            // A method set by option stays, but the body is dropped.
            self.method = options.method.clone().unwrap_or_else(|| "GET".into());
            self.body = None;
            self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        }
        self.url = to;
    }

    /// Returns the head of the request as `-v` shows it.
    pub(super) fn head(&self) -> String {
        let mut text = format!(
            "> {} {} HTTP/1.1\n> Host: {}\n",
            self.method,
            path(&self.url),
            authority(&self.url)
        );
        for (name, value) in &self.headers {
            text += &format!("> {name}: {value}\n");
        }
        text + "> \n"
    }

    /// Sends the request.
    ///
    /// # Errors
    /// Returns an error if there is no response.
    pub(super) async fn send(&self, options: &Options) -> Result<HttpResponse, Failure> {
        let host = self.url.host_str().unwrap_or_default().to_owned();
        let port = self.url.port_or_known_default().unwrap_or(0);
        let request = self.request(options);
        let (request, mut upload) =
            request.map_err(|what| Failure::new(3, format!("URL rejected: {what}")))?;
        let response = poll_with(&mut upload, client::send(request))
            .await
            .map_err(|code| Failure::from_http(code, &host, port))?;
        let status = response.get_status_code();
        let headers = response.get_headers().copy_all();
        let mut head = format!("HTTP/1.1 {status} {}\r\n", phrase(status));
        for (name, value) in &headers {
            head += &format!("{name}: {}\r\n", String::from_utf8_lossy(value));
        }
        head += "\r\n";
        let (received, result) = wit_future::new(|| Ok(()));
        let (reader, trailers) = Response::consume_body(response, result);
        let end = async move {
            let ended = trailers.await;
            drop(received);
            ended.map(drop).map_err(|code| match Failure::from_http(code, &host, port) {
                Failure { code: 52, .. } => {
                    Failure::new(18, "transfer closed with outstanding read data remaining")
                }
                other => other,
            })
        };
        Ok(HttpResponse { status, head, headers, reader, end: Some(Box::pin(end)), upload })
    }

    fn request(&self, options: &Options) -> Result<(Request, Upload), &'static str> {
        let fields = Fields::new();
        for (name, value) in &self.headers {
            // The host does not let guests set Host, Content-Length or Connection.
            match fields.append(name, value.as_bytes()) {
                Ok(()) | Err(types::HeaderError::Forbidden) => {}
                Err(_) => return Err("a header is not valid"),
            }
        }
        let (contents, upload): (_, Upload) = match self.body {
            None => {
                // Without this header the host would send an empty body in chunks.
                if !matches!(self.method.as_str(), "GET" | "HEAD") {
                    fields.append("content-length", b"0").ok();
                }
                (None, None)
            }
            Some(bytes) => {
                if !fields.has("content-length") {
                    // The length is sent if it is known, because some servers do not accept chunks.
                    fields.append("content-length", bytes.len().to_string().as_bytes()).ok();
                }
                let (mut writer, reader) = wit_stream::new();
                let bytes = bytes.to_vec();
                let upload = async move {
                    // A server may respond without reading the whole body.
                    writer.write_all(bytes).await;
                };
                (Some(reader), Some(Box::pin(upload)))
            }
        };
        let waits = RequestOptions::new();
        if let Some(limit) = options.connect_timeout {
            waits.set_connect_timeout(Some(limit.as_nanos().try_into().unwrap_or(u64::MAX))).ok();
        }
        let (trailers, no_trailers) = wit_future::new(|| Ok(None));
        // Dropping the unwritten end sends the default: no trailers.
        drop(trailers);
        let (request, _sent) = Request::new(fields, contents, no_trailers, Some(waits));
        let scheme = if self.url.scheme() == "https" { Scheme::Https } else { Scheme::Http };
        request.set_method(&method(&self.method)).map_err(|()| "the method is not valid")?;
        request.set_scheme(Some(&scheme)).map_err(|()| "the scheme is not valid")?;
        request.set_authority(Some(&authority(&self.url))).map_err(|()| "the host is not valid")?;
        request
            .set_path_with_query(Some(&path(&self.url)))
            .map_err(|()| "the path is not valid")?;
        Ok((request, upload))
    }
}

type Upload = Option<Pin<Box<dyn Future<Output = ()>>>>;
type End = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// A response whose body has not been read yet.
pub(super) struct HttpResponse {
    pub(super) status: u16,
    /// The head as curl shows it, including the empty line.
    pub(super) head: String,
    headers: Vec<(String, Vec<u8>)>,
    reader: StreamReader<u8>,
    end: Option<End>,
    upload: Upload,
}

impl HttpResponse {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Returns the target of a redirect.
    pub(super) fn location(&self, from: &Url) -> Option<Url> {
        matches!(self.status, 301 | 302 | 303 | 307 | 308)
            .then(|| from.join(&self.header("location")?).ok())
            .flatten()
    }

    /// Reads the next bytes of the body. `None` at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        while self.end.is_some() {
            let (status, bytes) =
                poll_with(&mut self.upload, self.reader.read(Vec::with_capacity(CHUNK))).await;
            if status == StreamResult::Dropped
                && let Some(end) = self.end.take()
            {
                end.await?;
            }
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Reads and discards the body of a redirect, so that the connection ends cleanly.
    pub(super) async fn discard(&mut self) {
        while let Ok(Some(_)) = self.chunk().await {}
    }
}

/// Awaits `main` and polls the upload meanwhile.
async fn poll_with<T>(upload: &mut Upload, main: impl Future<Output = T>) -> T {
    let mut main = std::pin::pin!(main);
    std::future::poll_fn(|context| {
        if let Some(future) = upload
            && future.as_mut().poll(context).is_ready()
        {
            *upload = None;
        }
        match main.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(value),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn parse(text: &str) -> Result<Url, Failure> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    if !matches!(scheme, "http" | "https" | "HTTP" | "HTTPS") {
        return Err(Failure::new(
            1,
            format!("Protocol \"{scheme}\" not supported or disabled in libcurl"),
        ));
    }
    if rest.contains(' ') {
        return Err(Failure::new(3, "URL rejected: Malformed input to a URL function"));
    }
    let url = Url::parse(&format!("{scheme}://{rest}"));
    url.ok()
        .filter(Url::has_host)
        .ok_or_else(|| Failure::new(3, "URL rejected: No host part in the URL"))
}

/// Returns the default headers, which the command line replaces, empties or removes, followed by
/// its own.
fn headers(
    options: &Options,
    body: &Body,
    url: &mut Url,
) -> Result<Vec<(String, String)>, Failure> {
    let agent = options.agent.clone().unwrap_or_else(|| format!("curl/{VERSION}"));
    let mut all = vec![
        ("User-Agent".to_owned(), agent),
        ("Accept".to_owned(), body.accept.unwrap_or("*/*").to_owned()),
    ];
    all.retain(|(_, value)| !value.is_empty());
    if let Some(kind) = &body.content_type {
        all.push(("Content-Type".into(), kind.clone()));
    }
    let from_url = (!url.username().is_empty()).then(|| {
        let decode = |text: &str| {
            url::form_urlencoded::parse(format!("x={}", text.replace('+', "%2B")).as_bytes())
                .next()
                .map(|(_, v)| v.into_owned())
        };
        format!(
            "{}:{}",
            decode(url.username()).unwrap_or_default(),
            decode(url.password().unwrap_or_default()).unwrap_or_default()
        )
    });
    if let Some(user) = options.user.clone().or(from_url) {
        all.push(("Authorization".into(), format!("Basic {}", BASE64_STANDARD.encode(user))));
    }
    // The credentials are in a header now and must not be sent in the URL.
    url.set_username("").and_then(|()| url.set_password(None)).ok();
    url.set_fragment(None);
    if !options.cookies.is_empty() {
        if let Some(file) = options.cookies.iter().find(|cookie| !cookie.contains('=')) {
            return Err(Failure::new(
                4,
                format!("option --cookie: {file}: cookie files are not supported here"),
            ));
        }
        all.push(("Cookie".into(), options.cookies.join("; ")));
    }
    for line in &options.headers {
        let (name, value) = match (line.split_once(':'), line.strip_suffix(';')) {
            (Some((name, value)), _) => (name.trim(), value.trim()),
            (None, Some(name)) => (name.trim(), ";"),
            (None, None) => continue,
        };
        all.retain(|(known, _)| {
            !(known.eq_ignore_ascii_case(name)
                && ["user-agent", "accept", "content-type", "authorization"]
                    .contains(&known.to_ascii_lowercase().as_str()))
        });
        match value {
            "" => {}
            ";" => all.push((name.into(), String::new())),
            value => all.push((name.into(), value.into())),
        }
    }
    Ok(all)
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn path(url: &Url) -> String {
    url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "CONNECT" => Method::Connect,
        "OPTIONS" => Method::Options,
        "TRACE" => Method::Trace,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

/// Returns the reason phrase of a status, which the host does not pass on.
fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}
