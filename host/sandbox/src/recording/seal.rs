//! Keeps secrets out of a recording: a placeholder replaces each occurrence of a value, in texts
//! and in files. Some values are stored separately, [encrypted](super::vault).

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::SealedSecrets;
use super::vault::Key;

/// The shortest value, in bytes, that is also searched inside other texts: shorter values cause
/// false matches.
const INNER_MIN: usize = 8;

/// Replaces secrets by placeholders, and placeholders by secrets.
#[derive(Debug, Clone, Default)]
pub struct Seal {
    salt: String,
    /// Names and values, the longest value first.
    secrets: Vec<(String, Vec<u8>)>,
    /// The key that encrypts values, and the names of the values that are stored.
    stored: Option<(Key, BTreeSet<String>)>,
}

/// A secret that is missing, or differs from the recorded one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It was not provided.
    #[error("the recording does not contain the secret {0}, which a replay needs")]
    Missing(String),
    /// Its digest differs.
    #[error("the value of {0} differs from the recorded one")]
    Wrong(String),
}

/// Returns the digest that a recording stores of a secret.
pub fn digest(salt: &str, value: &[u8]) -> String {
    let mut hash = Sha256::new_with_prefix(b"skillhost secret 1");
    hash.update(salt.as_bytes());
    hash.update(value);
    format!("sha256:{}", skillhost_skill::runtime::hex(&hash.finalize()))
}

impl Seal {
    /// Creates a seal for a new recording, with a random salt.
    pub fn new(salt: String, secrets: impl IntoIterator<Item = (String, Vec<u8>)>) -> Seal {
        let mut secrets: Vec<_> =
            secrets.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Seal { salt, secrets, stored: None }
    }

    /// Creates a seal for a recording that was read, with the provided values.
    ///
    /// # Errors
    /// One is missing or wrong.
    pub fn open(
        sealed: &SealedSecrets,
        values: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Seal, SecretError> {
        for (name, expected) in &sealed.secrets {
            let value = values.get(name).ok_or_else(|| SecretError::Missing(name.clone()))?;
            if digest(&sealed.salt, value) != *expected {
                return Err(SecretError::Wrong(name.clone()));
            }
        }
        let secrets = sealed
            .secrets
            .keys()
            .filter_map(|name| Some((name.clone(), values.get(name)?.clone())));
        Ok(Seal { salt: sealed.salt.clone(), secrets: secrets.collect(), stored: None })
    }

    /// Stores the values of these secrets in the recording, encrypted.
    #[must_use]
    pub fn with_stored(self, key: Key, names: BTreeSet<String>) -> Seal {
        Seal { stored: Some((key, names)), ..self }
    }

    /// Returns the encrypted values of the secrets that a recording needs and that are to be stored
    /// in it.
    pub(super) fn encrypted_values(
        &self,
        needed: &BTreeMap<String, String>,
        recording: &str,
    ) -> io::Result<Option<String>> {
        let Some((key, names)) = &self.stored else { return Ok(None) };
        let stored = self
            .secrets
            .iter()
            .filter(|(name, _)| names.contains(name) && needed.contains_key(name));
        let values: BTreeMap<String, Vec<u8>> = stored.cloned().collect();
        if values.is_empty() { Ok(None) } else { key.lock(&values, recording).map(Some) }
    }

    /// Returns the salt, which makes placeholders and digests unique to the recording.
    pub fn salt(&self) -> &str {
        &self.salt
    }

    /// Returns the placeholder of a value that is exactly one secret.
    pub fn placeholder_for(&self, value: &[u8]) -> Option<String> {
        self.secrets
            .iter()
            .find(|(_, secret)| secret == value)
            .map(|(name, _)| self.placeholder(name))
    }

    /// Returns the placeholder of a secret.
    pub fn placeholder(&self, name: &str) -> String {
        format!("{{{{secret:{}:{name}}}}}", self.salt)
    }

    /// Replaces secrets in bytes by placeholders.
    pub fn seal_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let long = self.secrets.iter().filter(|(_, value)| value.len() >= INNER_MIN);
        let forms = long.flat_map(|(name, value)| forms(name, value));
        forms.fold(bytes.to_vec(), |bytes, (name, form)| {
            replace_all(&bytes, &form, self.placeholder(&name).as_bytes())
        })
    }

    /// Replaces placeholders in bytes by secrets.
    pub fn unseal_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let forms = self.secrets.iter().flat_map(|(name, value)| forms(name, value));
        forms.fold(bytes.to_vec(), |bytes, (name, form)| {
            replace_all(&bytes, self.placeholder(&name).as_bytes(), &form)
        })
    }

    /// Replaces secrets in JSON by placeholders.
    pub fn seal(&self, value: Value) -> Value {
        self.texts(value, &|seal, text| seal.seal_bytes(text))
    }

    /// Replaces placeholders in JSON by secrets.
    pub fn unseal(&self, value: Value) -> Value {
        self.texts(value, &|seal, text| seal.unseal_bytes(text))
    }

    /// Checks whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Returns the names and digests of the secrets whose placeholders occur in a text.
    pub fn used_in(&self, among: &[&[u8]]) -> BTreeMap<String, String> {
        let stands = |(name, value): &&(String, Vec<u8>)| {
            let placeholders =
                forms(name, value).into_iter().map(|(name, _)| self.placeholder(&name));
            placeholders.into_iter().any(|placeholder| {
                among.iter().any(|bytes| find(bytes, placeholder.as_bytes()).is_some())
            })
        };
        self.secrets
            .iter()
            .filter(stands)
            .map(|(name, value)| (name.clone(), digest(&self.salt, value)))
            .collect()
    }

    fn texts(&self, value: Value, change: &impl Fn(&Seal, &[u8]) -> Vec<u8>) -> Value {
        if self.secrets.is_empty() {
            return value;
        }
        let text = |text: String| {
            let changed = change(self, text.as_bytes());
            // A secret that is not valid UTF-8 can be restored only where it was removed.
            String::from_utf8(changed).unwrap_or(text)
        };
        match value {
            Value::String(string) => Value::String(text(string)),
            Value::Array(values) => {
                Value::Array(values.into_iter().map(|value| self.texts(value, change)).collect())
            }
            Value::Object(entries) => Value::Object(
                entries
                    .into_iter()
                    .map(|(key, value)| (text(key), self.texts(value, change)))
                    .collect(),
            ),
            other => other,
        }
    }
}

/// Returns the forms in which a value can occur in a text, each with the name of its placeholder:
/// unchanged, in JSON, in ASCII-only JSON, in a URL.
fn forms(name: &str, value: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut forms = vec![(name.to_owned(), value.to_vec())];
    if let Ok(text) = std::str::from_utf8(value) {
        let json = serde_json::to_string(text).unwrap_or_default();
        let json =
            json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or_default();
        let mut ascii = String::new();
        for c in json.chars() {
            let mut units = [0; 2];
            match c {
                '\0'..='\x7f' => ascii.push(c),
                c => c
                    .encode_utf16(&mut units)
                    .iter()
                    .for_each(|unit| ascii += &format!("\\u{unit:04x}")),
            }
        }
        forms.push((format!("{name}:json"), json.as_bytes().to_vec()));
        forms.push((format!("{name}:ascii"), ascii.into_bytes()));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let url = value.iter().map(|byte| {
        if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }
    });
    forms.push((format!("{name}:url"), url.collect::<String>().into_bytes()));
    let (first, mut others) = (forms.remove(0), forms);
    others.retain(|(_, form)| *form != first.1);
    others.dedup_by(|a, b| a.1 == b.1);
    others.insert(0, first);
    others
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn replace_all(bytes: &[u8], needle: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = find(rest, needle) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + needle.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn seal(secrets: &[(&str, &str)]) -> Seal {
        Seal::new(
            "0123".into(),
            secrets.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())),
        )
    }

    fn opened(seal: &Seal, values: &[(&str, &str)]) -> Result<Seal, SecretError> {
        let secrets = seal
            .secrets
            .iter()
            .map(|(name, value)| (name.clone(), digest("0123", value)))
            .collect();
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        Seal::open(
            &SealedSecrets { salt: "0123".into(), secrets, ..SealedSecrets::default() },
            &values,
        )
    }

    #[test]
    fn secrets_are_removed_and_restored_in_place() {
        let sealing = seal(&[("A", "hunter2hunter2"), ("B", "hunter2hunter2-and-more")]);
        let value = json!({ "k hunter2hunter2": ["Bearer hunter2hunter2-and-more", 7, null], "other": "hunter2" });
        let sealed = sealing.seal(value.clone());
        assert_eq!(sealed["k {{secret:0123:A}}"][0], "Bearer {{secret:0123:B}}");
        assert!(!sealed.to_string().contains("hunter2hunter2"));
        let values = [("A", "hunter2hunter2"), ("B", "hunter2hunter2-and-more")];
        assert_eq!(opened(&sealing, &values).unwrap().unseal(sealed), value);
    }

    #[test]
    fn secrets_are_found_in_json_and_urls() {
        let sealing = seal(&[("A", "\"open\" \u{fc}!")]);
        let text =
            "\"open\" \u{fc}! \\\"open\\\" \u{fc}! \\\"open\\\" \\u00fc! %22open%22%20%C3%BC%21";
        let sealed = sealing.seal_bytes(text.as_bytes());
        assert_eq!(
            String::from_utf8(sealed.clone()).unwrap(),
            "{{secret:0123:A}} {{secret:0123:A:json}} {{secret:0123:A:ascii}} {{secret:0123:A:url}}"
        );
        assert_eq!(
            opened(&sealing, &[("A", "\"open\" \u{fc}!")]).unwrap().unseal_bytes(&sealed),
            text.as_bytes()
        );
        assert_eq!(sealing.used_in(&[b"x {{secret:0123:A:url}}"]).len(), 1);
    }

    #[test]
    fn short_secrets_are_hidden_only_as_whole_values() {
        let seal = seal(&[("A", "1")]);
        assert_eq!(seal.seal_bytes(b"10 of 11"), b"10 of 11");
        assert_eq!(seal.unseal_bytes(b"{{secret:0123:A}}0"), b"10");
    }

    #[test]
    fn missing_and_invalid_fields_are_named() {
        let sealing = seal(&[("A", "hunter2hunter2")]);
        assert_eq!(opened(&sealing, &[]).unwrap_err(), SecretError::Missing("A".into()));
        assert_eq!(
            opened(&sealing, &[("A", "other")]).unwrap_err(),
            SecretError::Wrong("A".into())
        );
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip(bytes: Vec<u8>, cut in 0usize..50, len in INNER_MIN..20) {
            let value: Vec<u8> = bytes.iter().skip(cut).take(len).copied().collect();
            prop_assume!(value.len() >= INNER_MIN);
            let seal = Seal::new("0123".into(), [("X".to_owned(), value.clone())]);
            let sealed = seal.seal_bytes(&bytes);
            prop_assert!(find(&sealed, &value).is_none());
            prop_assert_eq!(seal.unseal_bytes(&sealed), bytes);
        }
    }
}
