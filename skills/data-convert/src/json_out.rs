//! Writes valid JSON, or returns an error for a value that JSON cannot represent.

use jaq_json::Val;

use crate::number;

/// Appends a value. With a `level`, indents it from that level on; without, writes it on one line.
///
/// # Errors
/// Returns an error for byte strings and for objects whose keys are not strings. Filters can
/// produce both.
pub fn write(out: &mut Vec<u8>, value: &Val, level: Option<usize>) -> Result<(), String> {
    match value {
        Val::Null => out.extend(b"null"),
        Val::Bool(bool) => out.extend(if *bool { b"true".as_slice() } else { b"false" }),
        Val::Num(n) => out.extend(number::to_text(n).as_bytes()),
        Val::TStr(text) => string(out, text),
        Val::BStr(_) => {
            return Err("JSON cannot represent a byte string; decode it to text first".to_owned());
        }
        Val::Arr(items) if items.is_empty() => out.extend(b"[]"),
        Val::Obj(map) if map.is_empty() => out.extend(b"{}"),
        Val::Arr(items) => {
            let inner = level.map(|l| l + 1);
            for (i, item) in items.iter().enumerate() {
                out.extend(if i == 0 { b"[" } else { b"," });
                line(out, inner);
                write(out, item, inner)?;
            }
            line(out, level);
            out.push(b']');
        }
        Val::Obj(map) => {
            let inner = level.map(|l| l + 1);
            for (i, (key, item)) in map.iter().enumerate() {
                out.extend(if i == 0 { b"{" } else { b"," });
                line(out, inner);
                string(out, key_text(key)?);
                out.extend(if level.is_some() { b": ".as_slice() } else { b":" });
                write(out, item, inner)?;
            }
            line(out, level);
            out.push(b'}');
        }
    }
    Ok(())
}

/// Returns the text of a key.
///
/// # Errors
/// Returns an error if the key is not a string, which jaq allows and JSON does not.
pub fn key_text(key: &Val) -> Result<&[u8], String> {
    match key {
        Val::TStr(text) => Ok(text),
        other => {
            Err(format!("the key {other} is not a string, which JSON requires; try `tostring`"))
        }
    }
}

/// Appends a JSON string. Bytes that are not UTF-8, which slicing can produce, become U+FFFD.
pub fn string(out: &mut Vec<u8>, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    out.push(b'"');
    let mut plain = 0;
    for (i, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' && byte != 0x7f {
            continue;
        }
        out.extend(&text.as_bytes()[plain..i]);
        plain = i + 1;
        match byte {
            b'"' => out.extend(b"\\\""),
            b'\\' => out.extend(b"\\\\"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            other => out.extend(format!("\\u{other:04x}").as_bytes()),
        }
    }
    out.extend(&text.as_bytes()[plain..]);
    out.push(b'"');
}

fn line(out: &mut Vec<u8>, level: Option<usize>) {
    if let Some(level) = level {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', 2 * level));
    }
}
