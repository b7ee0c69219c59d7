//! Writes YAML in block style. Strings that YAML 1.1 or 1.2 readers could misread are quoted.

use jaq_json::{Num, Val};

use crate::json_out::{key_text, string};
use crate::number;

/// Appends a value as the node at the current column. Further lines are indented by `level`.
///
/// # Errors
/// Returns an error for byte strings and for keys that are not strings, as for JSON.
pub fn write(out: &mut Vec<u8>, value: &Val, level: usize) -> Result<(), String> {
    match value {
        Val::Arr(items) if !items.is_empty() => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    line(out, level);
                }
                out.extend(b"- ");
                write(out, item, level + 1)?;
            }
        }
        Val::Obj(map) if !map.is_empty() => {
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    line(out, level);
                }
                text(out, key_text(key)?);
                out.push(b':');
                match item {
                    Val::Arr(items) if !items.is_empty() => line(out, level),
                    Val::Obj(map) if !map.is_empty() => line(out, level + 1),
                    _ => out.push(b' '),
                }
                // A sequence needs no indentation under its key.
                write(out, item, if matches!(item, Val::Arr(_)) { level } else { level + 1 })?;
            }
        }
        Val::TStr(s) => match block_lines(s) {
            Some(lines) => {
                out.extend(if s.ends_with(b"\n") { b"|".as_slice() } else { b"|-" });
                for one in lines {
                    out.push(b'\n');
                    if !one.is_empty() {
                        out.extend(std::iter::repeat_n(b' ', 2 * level.max(1)));
                        out.extend(one.as_bytes());
                    }
                }
            }
            None => text(out, s),
        },
        Val::Num(Num::Float(f)) if !f.is_finite() => {
            out.extend(
                if f.is_nan() {
                    ".nan"
                } else if *f > 0.0 {
                    ".inf"
                } else {
                    "-.inf"
                }
                .bytes(),
            );
        }
        Val::Num(n) => out.extend(number::to_text(n).as_bytes()),
        simple => crate::json_out::write(out, simple, None)?,
    }
    Ok(())
}

fn line(out: &mut Vec<u8>, level: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', 2 * level));
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(s) if is_plain(s) => out.extend(bytes),
        _ => string(out, bytes),
    }
}

/// Returns the lines of a text that fits into a literal block: several lines, none of which begins
/// or ends with white space.
fn block_lines(bytes: &[u8]) -> Option<Vec<&str>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let body = text.strip_suffix('\n').unwrap_or(text);
    let lines: Vec<_> = body.split('\n').collect();
    let printable = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
    };
    let holds = text.contains('\n')
        && !body.is_empty()
        && !body.ends_with('\n')
        && !lines[0].is_empty()
        && !lines[0].starts_with(' ')
        && lines.iter().all(|l| l.trim_end() == *l && l.chars().all(printable));
    holds.then_some(lines)
}

/// Whether a text may be written without quotes. Deliberately stricter than the grammar: it begins
/// with a letter, `_` or `/`, does not end with a space or colon, and is not a word with a special
/// meaning in YAML 1.1 or 1.2.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan"];
    text.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '/'))
        && text.chars().all(|c| c.is_alphanumeric() || " _-./:+@()=;,'%~$^".contains(c))
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !WORDS.iter().any(|w| w.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn from_json(json: &str) -> Val {
        let mut found = Val::Null;
        crate::json::read(&Bytes::copy_from_slice(json.as_bytes()), 0, |v| {
            found = v;
            Ok(())
        })
        .unwrap();
        found
    }

    fn yaml(json: &str) -> String {
        let mut out = Vec::new();
        write(&mut out, &from_json(json), 0).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn mappings_and_sequences_use_block_style() {
        let json = r#"{"name": "x", "list": [1, [2, 3], {"a": 1, "b": []}], "map": {"k": {"l": null}}, "e": {}}"#;
        assert_eq!(
            yaml(json),
            "name: x\nlist:\n- 1\n- - 2\n  - 3\n- a: 1\n  b: []\nmap:\n  k:\n    l: null\ne: {}"
        );
    }

    #[test]
    fn ambiguous_strings_are_quoted() {
        let json = r#"["true", "no", "1.0", "", " a", "a: b", "a #b", "- a", "2024-01-01", "http://x/y", "it's", "~", "NULL", "0x1"]"#;
        assert_eq!(
            yaml(json).replace('\n', " "),
            r#"- "true" - "no" - "1.0" - "" - " a" - "a: b" - "a #b" - "- a" - "2024-01-01" - http://x/y - it's - "~" - "NULL" - "0x1""#
        );
    }

    #[test]
    fn multiline_text_becomes_a_literal_block() {
        assert_eq!(
            yaml(r#"{"a": "x\n  y\n\nz\n", "b": "x\ny"}"#),
            "a: |\n  x\n    y\n\n  z\nb: |-\n  x\n  y"
        );
        assert_eq!(yaml(r#""x\n\n""#), r#""x\n\n""#);
    }

    fn any_value() -> impl Strategy<Value = serde_json::Value> {
        let text = prop_oneof![
            "[ -~\n\té]{0,12}",
            "\\PC{0,6}",
            "[a-z: #-]{0,6}",
            "(true|no|null|~|1e3|0x1|\\.5|=|<<)"
        ];
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            (-1e6..1e6f64).prop_map(Into::into),
            text.clone().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::vec((text.clone(), inner), 0..5)
                    .prop_map(|m| m.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_survives_a_round_trip_through_yaml(value in any_value()) {
            let before = from_json(&value.to_string());
            let mut text = Vec::new();
            write(&mut text, &before, 0).unwrap();
            let text = String::from_utf8(text).unwrap();
            let mut after = None;
            crate::yaml::read(&text, |v| { after = Some(v); Ok(()) }).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            prop_assert_eq!(after.map(|v| v.to_string()), Some(before.to_string()), "{}", text);
        }

        #[test]
        fn another_yaml_reader_agrees(value in any_value()) {
            let mut text = Vec::new();
            write(&mut text, &from_json(&value.to_string()), 0).unwrap();
            let text = String::from_utf8(text).unwrap();
            // The other reader gives the key `<<` its special meaning although it is quoted.
            prop_assume!(!text.contains("<<"));
            let read: serde_json::Value = serde_saphyr::from_str(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
