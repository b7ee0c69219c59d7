//! Header fields: the sender sets those that frame a message or name its receiver; guests cannot.

use http::header::{CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::MAX_HEAD;
use super::error::SendError;

/// Checks whether guests must not set a field, because it belongs to one connection (RFC 9110,
/// section 7.6.1) or names the receiver.
pub fn is_forbidden(name: &HeaderName) -> bool {
    const ALSO: [&str; 8] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-authentication-info",
        "http2-settings",
        "expect",
    ];
    [HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name) || ALSO.contains(&name.as_str())
}

/// Collects fields into a map, or returns `None` if one is not valid or there are too many.
pub(crate) fn map<'a>(fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Option<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.try_append(HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value).ok()?)
            .ok()?;
    }
    Some(map)
}

/// Removes the forbidden fields, and those that a `Connection` field names.
pub(super) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(http::header::CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != CONTENT_LENGTH)
        .collect();
    let forbidden: Vec<HeaderName> =
        headers.keys().filter(|n| is_forbidden(n) || named.contains(n)).cloned().collect();
    for name in forbidden {
        headers.remove(name);
    }
}

/// Checks whether fields fit, counted as HTTP/1.1 writes them, with `other` bytes of the same head.
pub(super) fn fit(headers: &HeaderMap, other: usize) -> bool {
    headers.iter().map(|(n, v)| n.as_str().len() + v.len() + 4).sum::<usize>().saturating_add(other)
        <= MAX_HEAD
}

/// Returns the declared length of a body, which must equal the actual length if that is known.
///
/// # Errors
/// The length is declared more than once, is not a number, or is wrong.
pub(super) fn declared_length(
    headers: &HeaderMap,
    exact: Option<u64>,
) -> Result<Option<u64>, SendError> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else { return Ok(exact) };
    if values.next().is_some() {
        return Err(SendError::Malformed("more than one content-length".to_owned()));
    }
    let length = value
        .to_str()
        .ok()
        .filter(|v| !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|v| v.parse().ok());
    match (length, exact) {
        (None, _) => Err(SendError::Malformed("content-length is not a number".to_owned())),
        (Some(declared), Some(actual)) if declared != actual => Err(SendError::Malformed(format!(
            "content-length is {declared}, but the body has {actual} bytes"
        ))),
        (length, _) => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect()
    }

    #[test]
    fn framing_headers_are_removed_and_others_kept() {
        let mut h = HeaderMap::new();
        for name in [
            "host",
            "connection",
            "keep-alive",
            "proxy-authorization",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "expect",
        ] {
            h.append(
                HeaderName::from_static(name),
                HeaderValue::from_static("x-private, content-length"),
            );
        }
        h.append("x-private", HeaderValue::from_static("1"));
        h.append("content-length", HeaderValue::from_static("3"));
        h.append("authorization", HeaderValue::from_static("Bearer y"));
        strip(&mut h);
        assert_eq!(h, headers(&[("content-length", "3"), ("authorization", "Bearer y")]));
    }

    #[test]
    fn content_length_must_be_single_and_match() {
        let one = |v| headers(&[("content-length", v)]);
        assert_eq!(declared_length(&HeaderMap::new(), None), Ok(None));
        assert_eq!(declared_length(&HeaderMap::new(), Some(4)), Ok(Some(4)));
        assert_eq!(declared_length(&one("4"), None), Ok(Some(4)));
        assert_eq!(declared_length(&one("4"), Some(4)), Ok(Some(4)));
        for bad in ["5", "+4", "-4", "", "4, 4", "0x4", " 4", "99999999999999999999"] {
            assert!(declared_length(&one(bad), Some(4)).is_err(), "{bad}");
        }
        let mut two = one("4");
        two.append("content-length", HeaderValue::from_static("4"));
        assert!(declared_length(&two, Some(4)).is_err());
    }

    #[test]
    fn response_heads_fit_up_to_the_last_byte() {
        let mut h = HeaderMap::new();
        h.append("a", HeaderValue::from_bytes(&vec![b'x'; MAX_HEAD - 5]).unwrap());
        assert!(fit(&h, 0) && !fit(&h, 1));
    }
}
