//! Canonical JSON: RFC 8785.

use serde::Serialize;
use serde_json::Value;

use skillhost_policy::exact;
use skillhost_skill::runtime;

/// Returns a value as JSON. Integers that a reader may round become strings.
pub fn value(value: &impl Serialize) -> Value {
    // Plain data always serializes.
    let mut value = serde_json::to_value(value).unwrap_or_default();
    exact::to_strings(&mut value);
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
}
