//! The type and the character encoding of a body.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How a body is handled.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page to convert to readable text.
    Html,
    /// Text to return unchanged.
    Text,
    /// Neither: not supported.
    Binary,
}

/// Determines the type from the content type, or from the body if there is none.
pub fn kind(content_type: Option<&str>, body: &[u8]) -> Kind {
    let Some(content_type) = content_type else {
        let start = body.trim_ascii_start();
        return match start {
            [b'<', b'!' | b'h' | b'H' | b'b' | b'B', ..] => Kind::Html,
            _ if body.contains(&0) || std::str::from_utf8(body).is_err() => Kind::Binary,
            _ => Kind::Text,
        };
    };
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let text = [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/yaml",
        "application/toml",
        "application/x-ndjson",
    ];
    match essence.as_str() {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        other
            if other.starts_with("text/")
                || other.ends_with("+json")
                || other.ends_with("+xml")
                || text.contains(&other) =>
        {
            Kind::Text
        }
        _ => Kind::Binary,
    }
}

/// Decodes a body, like browsers do: by its byte order mark, its content type or its `meta`
/// element, else as UTF-8 if it is valid, else as Windows-1252.
pub fn decode(content_type: Option<&str>, body: &[u8]) -> String {
    let declared = content_type
        .and_then(|t| charset(t.as_bytes()))
        .or_else(|| charset(&body[..body.len().min(1024)]));
    let fallback = if std::str::from_utf8(body).is_ok() { UTF_8 } else { WINDOWS_1252 };
    // `decode` looks for a byte order mark first.
    declared.unwrap_or(fallback).decode(body).0.into_owned()
}

/// Returns the encoding after the first `charset=` in a content type or at the beginning of a page.
fn charset(text: &[u8]) -> Option<&'static Encoding> {
    let name = b"charset=";
    let at = text.windows(name.len()).position(|w| w.eq_ignore_ascii_case(name))?;
    let rest = text[at + name.len()..].trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
    let length =
        rest.iter().take_while(|b| b.is_ascii_alphanumeric() || b"-_:.".contains(b)).count();
    Encoding::for_label(&rest[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_type_determines_the_kind() {
        assert_eq!(kind(Some("text/HTML; charset=x"), b""), Kind::Html);
        assert_eq!(kind(Some("application/ld+json"), b""), Kind::Text);
        assert_eq!(kind(Some("image/png"), b""), Kind::Binary);
        assert_eq!(kind(None, b"\n<!doctype html>"), Kind::Html);
        assert_eq!(kind(None, b"plain"), Kind::Text);
        assert_eq!(kind(None, b"\x89PNG\0"), Kind::Binary);
    }

    #[test]
    fn declared_encoding_is_used() {
        assert_eq!(decode(Some("text/html; charset=ISO-8859-1"), b"caf\xe9"), "café");
        assert_eq!(decode(Some("text/html; charset=\"shift_jis\""), b"\x93\xfa\x96\x7b"), "日本");
        assert_eq!(
            decode(Some("text/html"), b"<meta charset='windows-1251'>\xcf"),
            "<meta charset='windows-1251'>П"
        );
        assert_eq!(decode(None, "é".as_bytes()), "é");
        assert_eq!(decode(None, b"\xe9"), "é");
        assert_eq!(decode(Some("text/plain; charset=latin1"), b"\xef\xbb\xbfx"), "x");
    }
}
