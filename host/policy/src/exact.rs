//! Whole numbers in JSON that other readers may round. [RFC 8785](https://www.rfc-editor.org/rfc/rfc8785)
//! recommends strings for those above 2^53 - 1 (appendix D).

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The largest integer that every reader of JSON keeps exactly: 2^53 - 1.
pub const LARGEST: u64 = (1 << 53) - 1;

/// Turns all numbers of a value that a reader may round into strings.
///
/// ```
/// let mut value = serde_json::json!({ "seed": u64::MAX, "count": 1 });
/// skillhost_policy::exact::to_strings(&mut value);
/// assert_eq!(value, serde_json::json!({ "seed": "18446744073709551615", "count": 1 }));
/// ```
pub fn to_strings(value: &mut Value) {
    match value {
        Value::Number(number)
            if number.as_u64().is_some_and(|n| n > LARGEST)
                || number.as_i64().is_some_and(|n| n.unsigned_abs() > LARGEST) =>
        {
            *value = Value::String(number.to_string());
        }
        Value::Array(values) => values.iter_mut().for_each(to_strings),
        Value::Object(entries) => entries.values_mut().for_each(to_strings),
        _ => {}
    }
}

/// Serializes a value with [`to_strings`].
pub(crate) fn serialize<S: Serializer>(value: &impl Serialize, s: S) -> Result<S::Ok, S::Error> {
    let mut value = serde_json::to_value(value).map_err(serde::ser::Error::custom)?;
    to_strings(&mut value);
    value.serialize(s)
}

/// Reads an object, of which fields that hold numbers may be strings.
pub(crate) fn deserialize<'de, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let mut value = Value::deserialize(d)?;
    for field in value.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        if let Some(number) = field.as_str().and_then(|text| text.parse::<u64>().ok()) {
            *field = number.into();
        }
    }
    serde_json::from_value(value).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_integers_become_strings() {
        let mut value = json!([LARGEST, LARGEST + 1, u64::MAX, -(LARGEST as i64), i64::MIN]);
        to_strings(&mut value);
        let expected = r#"[9007199254740991,"9007199254740992","18446744073709551615",-9007199254740991,"-9223372036854775808"]"#;
        assert_eq!(value.to_string(), expected);
    }
}
