//! Reads JSON directly into jaq's values. Strings without escapes share the bytes of the input, so
//! that large files fit into a guest's memory.

use bytes::Bytes;
use hifijson::token::{Expect, Lex as _};
use hifijson::{Read as _, SliceLexer, num, num::LexWrite as _, str, str::LexAlloc as _};
use jaq_json::{Map, Val};
use std::borrow::Cow;

use crate::position::line_column;

/// The maximum nesting of arrays and objects, in every format. A guest's stack has 1 MiB.
pub const MAX_DEPTH: usize = 512;

/// Calls `each` with every value of a text that contains any number of values. If the text
/// continues another one, `lines_before` is added to the lines in errors.
///
/// # Errors
/// Returns the problem with the text, with line and column, or an error of `each`.
pub fn read(
    text: &Bytes,
    lines_before: usize,
    mut each: impl FnMut(Val) -> Result<(), String>,
) -> Result<(), String> {
    let body = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut lexer = SliceLexer::new(body);
    while let Some(next) = lexer.ws_peek() {
        let value = value(next, &mut lexer, text, 0).map_err(|fault| {
            let (line, column) = line_column(text, text.len() - lexer.as_slice().len());
            format!("{}:{column}: {fault}", lines_before + line)
        })?;
        each(value)?;
    }
    Ok(())
}

enum Fault {
    Syntax(hifijson::Error),
    Depth,
}

impl<E: Into<hifijson::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Syntax(error.into())
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Syntax(error) => write!(f, "invalid JSON: {error}"),
            Self::Depth => write!(f, "invalid JSON: nested deeper than {MAX_DEPTH} levels"),
        }
    }
}

fn value(next: u8, lexer: &mut SliceLexer<'_>, text: &Bytes, depth: usize) -> Result<Val, Fault> {
    if depth > MAX_DEPTH {
        return Err(Fault::Depth);
    }
    match next {
        b'n' | b't' | b'f' => match lexer.null_or_bool() {
            Some(None) => Ok(Val::Null),
            Some(Some(bool)) => Ok(Val::Bool(bool)),
            None => Err(Expect::Value.into()),
        },
        b'"' => string(lexer, text),
        b'-' | b'0'..=b'9' => number(lexer),
        b'[' => {
            let mut items = Vec::new();
            lexer.discarded().seq(b']', SliceLexer::ws_peek, |next, lexer| {
                items.push(value(next, lexer, text, depth + 1)?);
                Ok::<_, Fault>(())
            })?;
            items.shrink_to_fit();
            Ok(Val::Arr(items.into()))
        }
        b'{' => {
            let mut map = Map::default();
            lexer.discarded().seq(b'}', SliceLexer::ws_peek, |next, lexer| {
                if next != b'"' {
                    return Err(Expect::String.into());
                }
                let key = string(lexer, text)?;
                lexer.expect(SliceLexer::ws_peek, b':').ok_or(Expect::Colon)?;
                let next = lexer.ws_peek().ok_or(Expect::Value)?;
                map.insert(key, value(next, lexer, text, depth + 1)?);
                Ok::<_, Fault>(())
            })?;
            map.shrink_to_fit();
            Ok(Val::obj(map))
        }
        _ => Err(Expect::Value.into()),
    }
}

fn string(lexer: &mut SliceLexer<'_>, text: &Bytes) -> Result<Val, Fault> {
    Ok(match lexer.discarded().str_string().map_err(|e: str::Error| e)? {
        Cow::Borrowed(plain) => Val::utf8_str(text.slice_ref(plain.as_bytes())),
        Cow::Owned(unescaped) => Val::utf8_str(unescaped.into_bytes()),
    })
}

fn number(lexer: &mut SliceLexer<'_>) -> Result<Val, Fault> {
    let (digits, _) = lexer.num_string().validated().map_err(|e: num::Error| e)?;
    // Otherwise `01` would be read as two values.
    if lexer.peek_next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'.') {
        return Err(Expect::CommaOrEnd.into());
    }
    Ok(crate::number::from_text(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        read(&Bytes::copy_from_slice(text.as_bytes()), 0, |v| {
            found.push(v.to_string());
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn text_may_have_several_values() {
        assert_eq!(
            all("1 {\"a\": [true, null]}\n\"x\\u00e9\"").unwrap(),
            ["1", r#"{"a":[true,null]}"#, r#""xé""#]
        );
        assert_eq!(all("").unwrap(), [""; 0]);
    }

    #[test]
    fn keys_keep_their_order_and_the_last_duplicate_wins() {
        assert_eq!(all(r#"{"z": 1, "a": 2, "z": 3}"#).unwrap(), [r#"{"z":3,"a":2}"#]);
    }

    #[test]
    fn errors_have_line_and_column() {
        assert_eq!(
            all("{\n  \"é\": 1\n  \"b\": 2\n}").unwrap_err(),
            "3:3: invalid JSON: comma or end of sequence expected"
        );
        assert_eq!(all("[1,]").unwrap_err(), "1:4: invalid JSON: value expected");
        assert_eq!(all("{1: 2}").unwrap_err(), "1:2: invalid JSON: string expected");
        for wrong in
            ["nul", "[1", "\"a", "\"\\q\"", "01", "1.", "# comment\n1", "NaN", "'a'", "{\"a\":1,}"]
        {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(all(&nested(MAX_DEPTH)).is_ok());
        assert!(all(&nested(MAX_DEPTH + 2)).unwrap_err().contains("nested deeper than 512 levels"));
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        let error = read(&Bytes::from_static(b"\"\xff\""), 0, |_| Ok(())).unwrap_err();
        assert!(error.starts_with("1:"), "{error}");
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(all("\u{feff}[1]").unwrap(), ["[1]"]);
    }
}
