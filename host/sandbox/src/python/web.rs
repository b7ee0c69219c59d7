//! HTTP in one call: `skillhost:python/web`, with which the built-in Python sends a complete
//! request. It uses the sender of `wasi:http`, with all its checks, limits and records. The rest of
//! a response is read from a stream as usual.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::uri::Scheme;
use http::{Method, Uri};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::p2::DynInputStream;
use wasmtime_wasi_http::p2::body::HostIncomingBody;

use crate::http::hooks::{code, to_wasi_error};
use crate::http::{Body, Sender, Timeouts, frames, map};

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        reason = "generated from WIT, where the documentation is"
    )]
    wasmtime::component::bindgen!({
        interfaces: "import skillhost:python/web@0.1.0;",
        path: "python-wit",
        imports: { default: async | trappable },
        with: {
            "wasi:http": wasmtime_wasi_http::p2::bindings::http,
            "wasi:io": wasmtime_wasi::p2::bindings::io,
            "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
        },
    });
}

use bindings::skillhost::python::web::{self, Failure, Request, Response};

/// The most bytes of a request's body, and of the part of a response's body that is returned with
/// its head.
const PIECE: usize = 64 << 10;

/// What the interface needs of a store's data.
pub(crate) struct WebView<'a> {
    pub(crate) sender: &'a Sender,
    pub(crate) table: &'a mut ResourceTable,
}

/// Marks [`WebView`] as what the bindings get.
struct WebInterface;

impl HasData for WebInterface {
    type Data<'a> = WebView<'a>;
}

/// Links the interface.
pub(crate) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> WebView<'_>,
) -> wasmtime::Result<()> {
    web::add_to_linker::<T, WebInterface>(linker, get)
}

impl web::Host for WebView<'_> {
    async fn send(&mut self, asked: Request) -> wasmtime::Result<Result<Response, Failure>> {
        let time = |nanoseconds: Option<u64>| nanoseconds.map(Duration::from_nanos);
        let waits = Timeouts {
            connect: time(asked.connect_timeout),
            first_byte: time(asked.first_byte_timeout),
            between_bytes: None,
        };
        let request = match request(asked) {
            Ok(request) => request,
            Err(what) => return Ok(Err(Failure::Malformed(what.to_owned()))),
        };
        let (parts, mut body) = match self.sender.send(request, waits).await {
            Ok(response) => response.into_parts(),
            Err(error) => return Ok(Err(Failure::Failed(code(error)))),
        };
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
            .collect();
        let (begun, over) = read_available(&mut body);
        let rest = if over { None } else { Some(self.table.push(input(body))?) };
        Ok(Ok(Response { status: parts.status.as_u16(), headers, body: begun, rest }))
    }
}

/// Converts a request for the sender. The error names the invalid part.
fn request(asked: Request) -> Result<http::Request<Body>, &'static str> {
    let method = Method::from_bytes(asked.method.as_bytes()).map_err(|_| "its method")?;
    let scheme = if asked.https { Scheme::HTTPS } else { Scheme::HTTP };
    let place = Uri::builder()
        .scheme(scheme)
        .authority(asked.authority)
        .path_and_query(asked.path_with_query);
    let uri = place.build().map_err(|_| "its target")?;
    let headers = map(asked.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())))
        .ok_or("a header")?;
    if asked.body.len() > PIECE {
        return Err("a body of over 64 KiB in one piece");
    }
    let mut request = http::Request::new(
        Full::new(Bytes::from(asked.body)).map_err(|never| match never {}).boxed_unsync(),
    );
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
    Ok(request)
}

/// Reads what is available of a body without waiting, up to `PIECE`. Returns it, and whether it is
/// the whole body.
fn read_available(body: &mut Body) -> (Vec<u8>, bool) {
    let mut there = Vec::new();
    while there.len() < PIECE {
        match body.frame().now_or_never() {
            Some(Some(Ok(frame))) => {
                there.extend_from_slice(frame.data_ref().map_or(&[], |data| data))
            }
            Some(Some(Err(error))) => {
                // The next read reports the error.
                *body = frames([Err(error)]);
                return (there, false);
            }
            Some(None) => return (there, true),
            None => return (there, body.is_end_stream()),
        }
    }
    (there, false)
}

fn input(body: Body) -> DynInputStream {
    let mut incoming = HostIncomingBody::new(body.map_err(to_wasi_error).boxed_unsync());
    Box::new(incoming.take_stream().expect("taken once"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::SendError;
    use futures::{StreamExt as _, stream};
    use http::HeaderValue;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use proptest::prelude::*;

    fn asked(change: impl FnOnce(&mut Request)) -> Request {
        let mut asked = Request {
            https: true,
            authority: "[::1]:8443".into(),
            method: "PROPFIND".into(),
            path_with_query: "/a?b=%20".into(),
            headers: vec![("X-A".into(), b"1".to_vec()), ("x-a".into(), b"\xff".to_vec())],
            body: vec![b'x'; PIECE],
            connect_timeout: None,
            first_byte_timeout: None,
        };
        change(&mut asked);
        asked
    }

    #[test]
    fn requests_are_converted_completely() {
        let made = request(asked(|_| ())).unwrap();
        assert_eq!(
            (made.method().as_str(), made.uri().to_string().as_str()),
            ("PROPFIND", "https://[::1]:8443/a?b=%20")
        );
        assert_eq!(
            made.headers().get_all("x-a").iter().map(HeaderValue::as_bytes).collect::<Vec<_>>(),
            [&b"1"[..], b"\xff"]
        );
        assert_eq!(made.body().size_hint().exact(), Some(PIECE as u64));
    }

    #[test]
    fn error_names_the_invalid_part_of_a_request() {
        let what = |change: fn(&mut Request)| request(asked(change)).unwrap_err();
        assert_eq!(what(|asked| asked.method = "GET /x HTTP/1.1\r\n".into()), "its method");
        assert_eq!(what(|asked| asked.authority = "a b".into()), "its target");
        assert_eq!(what(|asked| asked.authority.clear()), "its target");
        assert_eq!(what(|asked| asked.path_with_query = "/a\r\nX: y".into()), "its target");
        assert_eq!(what(|asked| asked.headers[0].0 = "a:b".into()), "a header");
        assert_eq!(what(|asked| asked.headers[0].1 = b"a\nb".to_vec()), "a header");
        assert_eq!(
            what(|asked| asked.headers =
                (0..40_000).map(|n| (format!("x{n}"), Vec::new())).collect()),
            "a header"
        );
        assert_eq!(what(|asked| asked.body.push(b'x')), "a body of over 64 KiB in one piece");
    }

    proptest! {
        #[test]
        fn guests_cannot_inject_header_lines(
            method in "[A-Z]{1,9}(|||[\r\n ])",
            authority in "[a-z.]{1,20}(|||[\r\n :@])",
            target in "/[a-z?%]{0,20}(|||[\r\n #])",
            name in "[a-z-]{1,9}(|||[\r\n:])",
            value in "\\PC{0,9}(|||[\r\n\0])",
        ) {
            let headers = vec![(name, value.into_bytes())];
            let made = request(asked(|asked| {
                (asked.method, asked.authority, asked.path_with_query, asked.headers) = (method, authority, target, headers);
            }));
            if let Ok(made) = made {
                let head = format!("{} {}", made.method(), made.uri());
                prop_assert!(!head.contains(['\r', '\n']) && head.matches(' ').count() == 1, "{head:?}");
                prop_assert_eq!(made.headers().len(), 1);
                prop_assert!(made.headers().iter().all(|(name, value)| ![name.as_str().as_bytes(), value.as_bytes()].concat().contains(&b'\n')));
            }
        }
    }

    #[test]
    fn read_available_returns_the_start_of_a_body() {
        let frame = |data: &'static [u8]| Ok(Frame::data(Bytes::from_static(data)));
        let read = |mut body: Body| {
            let (there, over) = read_available(&mut body);
            (
                there,
                over,
                body.frame()
                    .now_or_never()
                    .map(|next| next.map(|frame| frame.map_err(|error| error.to_string()).is_ok())),
            )
        };
        let whole = frames([frame(b"ab"), frame(b"c")]);
        assert_eq!(read(whole), (b"abc".to_vec(), true, Some(None)));
        let slow =
            StreamBody::new(stream::iter([frame(b"ab")]).chain(stream::pending())).boxed_unsync();
        assert_eq!(read(slow), (b"ab".to_vec(), false, None));
        let broken = frames([frame(b"ab"), Err(SendError::Unanswered)]);
        assert_eq!(read(broken), (b"ab".to_vec(), false, Some(Some(false))));
        let long = frames([frame(&[b'x'; PIECE]), frame(b"c")]);
        assert_eq!(read(long), (vec![b'x'; PIECE], false, Some(Some(true))));
    }
}
