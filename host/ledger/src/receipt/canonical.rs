//! Canonical JSON: RFC 8785.

use serde::Serialize;
use serde_json::Value;

use skillhost_skill::runtime;

/// The largest integer that every reader of JSON keeps exactly: 2^53 - 1.
const EXACT: u64 = (1 << 53) - 1;

/// Returns a value as JSON. Integers that a reader may round become strings.
pub fn value(value: &impl Serialize) -> Value {
    // Plain data always serializes.
    let mut value = serde_json::to_value(value).unwrap_or_default();
    exact(&mut value);
    value
}

/// Returns the canonical text.
pub fn text(value: &impl Serialize) -> Vec<u8> {
    // A `Value` has only string keys and finite numbers.
    serde_json_canonicalizer::to_vec(&self::value(value)).unwrap_or_default()
}

/// Returns the digest of the canonical text.
pub fn digest(value: &impl Serialize) -> String {
    runtime::digest(&text(value))
}

fn exact(value: &mut Value) {
    match value {
        Value::Number(number)
            if number.as_u64().is_some_and(|n| n > EXACT)
                || number.as_i64().is_some_and(|n| n.unsigned_abs() > EXACT) =>
        {
            *value = Value::String(number.to_string());
        }
        Value::Array(values) => values.iter_mut().for_each(exact),
        Value::Object(entries) => entries.values_mut().for_each(exact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Section 3.2.2 of RFC 8785, and the order of section 3.2.3.
    #[test]
    fn canonical_text_matches_the_rfc() {
        let value = json!({
            "string": "\u{20ac}$\u{000F}\u{000a}A'\u{0042}\u{0022}\u{005c}\\\"/", "literals": [null, true, false],
            "numbers": [1e27, 4.5, 2e-3, 0.000_000_000_000_000_000_000_000_001],
        });
        let expected = "{\"literals\":[null,true,false],\"numbers\":[1e+27,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(String::from_utf8(text(&value)).unwrap(), expected);
        let keys = json!({ "\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7 });
        let order: Vec<String> = serde_json::from_slice::<serde_json::Map<_, _>>(&text(&keys))
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(order, ["\r", "1", "\u{80}", "\u{f6}", "\u{20ac}", "\u{1f600}", "\u{fb33}"]);
    }

    #[test]
    fn large_integers_become_strings() {
        let value = json!([EXACT, EXACT + 1, u64::MAX, -(EXACT as i64), i64::MIN]);
        let expected = r#"[9007199254740991,"9007199254740992","18446744073709551615",-9007199254740991,"-9223372036854775808"]"#;
        assert_eq!(String::from_utf8(text(&value)).unwrap(), expected);
    }
}
