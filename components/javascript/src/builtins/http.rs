//! HTTP requests over `wasi:http`: the only way out of the sandbox. The host checks each request.

use std::cell::RefCell;
use std::collections::HashMap;

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object, TypedArray, Value};

use crate::bindings::wasi::http::outgoing_handler::handle;
use crate::bindings::wasi::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, HeaderError, IncomingBody, Method, OutgoingBody,
    OutgoingRequest, RequestOptions, Scheme, http_error_code,
};
use crate::bindings::wasi::io::poll::Pollable;
use crate::bindings::wasi::io::streams::{InputStream, OutputStream, StreamError};
use crate::stdio;

/// The most bytes that one call reads.
const PIECE: u64 = 1 << 16;

/// A request and its response. The order of the fields is the one in which they may be dropped.
struct Exchange {
    https: bool,
    authority: String,
    output: Option<OutputStream>,
    body: Option<OutgoingBody>,
    future: FutureIncomingResponse,
    input: Option<InputStream>,
    incoming: Option<IncomingBody>,
}

#[derive(Default)]
struct Exchanges {
    last: u32,
    open: HashMap<u32, Exchange>,
}

thread_local! {
    static EXCHANGES: RefCell<Exchanges> = RefCell::default();
}

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("open", Func::from(open))?;
    exports.set("write", Func::from(write))?;
    exports.set("end", Func::from(end))?;
    exports.set("answer", Func::from(answer))?;
    exports.set("read", Func::from(read))?;
    exports.set("close", Func::from(close))?;
    Ok(exports)
}

/// What a loop waits for: room for the body (0), the response (1), or data of it (2).
pub(super) fn pollable(handle: u32, kind: u32) -> Option<Pollable> {
    EXCHANGES.with_borrow(|exchanges| {
        let exchange = exchanges.open.get(&handle)?;
        match kind {
            0 => exchange.output.as_ref().map(OutputStream::subscribe),
            1 => Some(exchange.future.subscribe()),
            _ => exchange.input.as_ref().map(InputStream::subscribe),
        }
    })
}

/// Begins a request. Returns its handle, or an object with `code` and `message`.
fn open<'js>(ctx: Ctx<'js>, options: Object<'js>) -> rquickjs::Result<Value<'js>> {
    stdio::hand_over();
    let https: bool = options.get("https")?;
    let authority: String = options.get("authority")?;
    let method: String = options.get("method")?;
    let path: String = options.get("path")?;
    let headers: Vec<Vec<String>> = options.get("headers")?;
    let headers: Vec<(String, Vec<u8>)> = headers
        .into_iter()
        .map(|pair| {
            let mut pair = pair.into_iter();
            let name = pair.next().unwrap_or_default();
            // Values are characters up to U+00FF.
            (name, pair.next().unwrap_or_default().chars().map(|c| c as u8).collect())
        })
        .collect();
    match begin(https, &authority, &method, &path, &headers) {
        Ok(exchange) => EXCHANGES.with_borrow_mut(|exchanges| {
            exchanges.last += 1;
            exchanges.open.insert(exchanges.last, exchange);
            Ok(Value::new_number(ctx, f64::from(exchanges.last)))
        }),
        Err(failure) => failure.object(&ctx),
    }
}

fn begin(
    https: bool,
    authority: &str,
    method: &str,
    path: &str,
    headers: &[(String, Vec<u8>)],
) -> Result<Exchange, Failure> {
    let invalid = |what: &str| Failure {
        code: "ERR_INVALID_ARG_VALUE",
        message: format!("not a valid HTTP request: {what}"),
    };
    let fields = Fields::from_list(headers).map_err(|error| match error {
        HeaderError::Forbidden => invalid("a header that the host sets itself"),
        _ => invalid("a header"),
    })?;
    let request = OutgoingRequest::new(fields);
    let scheme = if https { Scheme::Https } else { Scheme::Http };
    request.set_method(&method_of(method)).map_err(|()| invalid("its method"))?;
    request.set_scheme(Some(&scheme)).map_err(|()| invalid("its scheme"))?;
    request.set_authority(Some(authority)).map_err(|()| invalid("its host"))?;
    request.set_path_with_query(Some(path)).map_err(|()| invalid("its path"))?;
    let body = request.body().map_err(|()| invalid("its body"))?;
    let output = body.write().map_err(|()| invalid("its body"))?;
    let future = match handle(request, Some(RequestOptions::new())) {
        Ok(future) => future,
        Err(error) => return Err(Failure::of(error, https, authority)),
    };
    Ok(Exchange {
        https,
        authority: authority.to_owned(),
        output: Some(output),
        body: Some(body),
        future,
        input: None,
        incoming: None,
    })
}

fn method_of(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

/// Writes some bytes of the body, and returns how many: 0 if there is no room, and -1 if no more are
/// accepted, for which the response has the reason.
fn write(handle: u32, bytes: TypedArray<'_, u8>) -> i64 {
    // SAFETY: The engine does not run during the call. A detached buffer has no bytes.
    let bytes = unsafe { bytes.as_bytes() }.unwrap_or_default();
    EXCHANGES.with_borrow(|exchanges| {
        let output = exchanges.open.get(&handle).and_then(|exchange| exchange.output.as_ref());
        let Some(output) = output else { return -1 };
        let Ok(room) = output.check_write() else { return -1 };
        let count = bytes.len().min(room as usize);
        if count > 0 && output.write(&bytes[..count]).is_err() {
            return -1;
        }
        count as i64
    })
}

/// Completes the body.
fn end(handle: u32) {
    EXCHANGES.with_borrow_mut(|exchanges| {
        if let Some(exchange) = exchanges.open.get_mut(&handle) {
            exchange.output = None;
            if let Some(body) = exchange.body.take() {
                // If the server takes no more of the body, the response has the reason.
                drop(OutgoingBody::finish(body, None));
            }
        }
    });
}

/// Returns the head of the response, or the error; `undefined` if neither has arrived.
fn answer<'js>(ctx: Ctx<'js>, handle: u32) -> rquickjs::Result<Value<'js>> {
    let answer = EXCHANGES.with_borrow_mut(|exchanges| {
        let exchange = exchanges.open.get_mut(&handle)?;
        let answer = exchange.future.get()?;
        Some(match answer {
            Ok(Ok(response)) => {
                let head = (response.status(), response.headers().entries());
                // A response gives its body once, and a body its stream: both are taken here only.
                if let Ok(body) = response.consume() {
                    exchange.input = body.stream().ok();
                    exchange.incoming = Some(body);
                }
                Ok(head)
            }
            Ok(Err(error)) => Err(Failure::of(error, exchange.https, &exchange.authority)),
            Err(()) => Err(Failure { code: "EIO", message: "the response was taken".to_owned() }),
        })
    });
    let (status, headers) = match answer {
        None => return Ok(Value::new_undefined(ctx)),
        Some(Err(failure)) => return failure.object(&ctx),
        Some(Ok(head)) => head,
    };
    let result = Object::new(ctx)?;
    result.set("status", status)?;
    let pairs: Vec<Vec<String>> = headers
        .into_iter()
        .map(|(name, value)| vec![name, value.iter().map(|byte| char::from(*byte)).collect()])
        .collect();
    result.set("headers", pairs)?;
    Ok(result.into_value())
}

/// Reads what has arrived of the response: `null` at its end, `undefined` if nothing has.
fn read<'js>(ctx: Ctx<'js>, handle: u32) -> rquickjs::Result<Value<'js>> {
    let read = EXCHANGES.with_borrow(|exchanges| {
        let exchange = exchanges.open.get(&handle)?;
        Some(match exchange.input.as_ref()?.read(PIECE) {
            Ok(bytes) => Ok(bytes),
            Err(StreamError::Closed) => return None,
            Err(StreamError::LastOperationFailed(error)) => Err(match http_error_code(&error) {
                Some(code) => Failure::of(code, exchange.https, &exchange.authority),
                None => Failure { code: "ECONNRESET", message: "aborted".to_owned() },
            }),
        })
    });
    match read {
        None => Ok(Value::new_null(ctx)),
        Some(Ok(bytes)) if bytes.is_empty() => Ok(Value::new_undefined(ctx)),
        Some(Ok(bytes)) => TypedArray::new(ctx, bytes).map(TypedArray::into_value),
        Some(Err(failure)) => failure.object(&ctx),
    }
}

fn close(handle: u32) {
    EXCHANGES.with_borrow_mut(|exchanges| exchanges.open.remove(&handle));
}

/// An error as Node names it.
struct Failure {
    code: &'static str,
    message: String,
}

impl Failure {
    fn of(error: ErrorCode, https: bool, authority: &str) -> Failure {
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let with_port = if authority == host {
            format!("{host}:{}", if https { 443 } else { 80 })
        } else {
            authority.to_owned()
        };
        let (code, message) = match error {
            ErrorCode::InternalError(Some(why)) if why.starts_with("denied: ") => {
                let why = why.trim_start_matches("denied: ");
                ("EACCES", format!("the sandbox may not reach {authority}: {why}"))
            }
            ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => {
                ("EACCES", format!("the sandbox may not reach {authority}"))
            }
            ErrorCode::DnsError(_) | ErrorCode::DnsTimeout | ErrorCode::DestinationNotFound => {
                ("ENOTFOUND", format!("getaddrinfo ENOTFOUND {host}"))
            }
            ErrorCode::ConnectionRefused | ErrorCode::DestinationUnavailable => {
                ("ECONNREFUSED", format!("connect ECONNREFUSED {with_port}"))
            }
            ErrorCode::ConnectionTimeout => ("ETIMEDOUT", format!("connect ETIMEDOUT {with_port}")),
            ErrorCode::HttpResponseTimeout | ErrorCode::ConnectionReadTimeout => {
                ("ETIMEDOUT", "the response did not arrive in time".to_owned())
            }
            ErrorCode::TlsCertificateError => {
                ("UNABLE_TO_VERIFY_LEAF_SIGNATURE", "unable to verify the certificate".to_owned())
            }
            ErrorCode::TlsProtocolError | ErrorCode::TlsAlertReceived(_) => {
                ("EPROTO", "the TLS handshake failed".to_owned())
            }
            ErrorCode::ConnectionTerminated | ErrorCode::HttpProtocolError => {
                ("ECONNRESET", "socket hang up".to_owned())
            }
            ErrorCode::HttpResponseIncomplete => ("ECONNRESET", "aborted".to_owned()),
            other => ("EPROTO", format!("{other:?}")),
        };
        Failure { code, message }
    }

    fn object<'js>(self, ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
        let object = Object::new(ctx.clone())?;
        object.set("code", self.code)?;
        object.set("message", self.message)?;
        Ok(object.into_value())
    }
}
