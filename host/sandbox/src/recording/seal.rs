//! Secrets stay out of a recording: wherever a value would stand, in a text or in a file, a
//! placeholder does. The values of some are stored apart, [encrypted](super::vault).

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Sealed;
use super::vault::Key;

/// Bytes from which on a value is also looked for inside other texts: a shorter one stands in too
/// much that is none.
const LONG: usize = 8;

/// Puts placeholders in the place of secrets, or secrets in the place of placeholders.
#[derive(Debug, Clone, Default)]
pub struct Seal {
    salt: String,
    /// Name and value, longest value first.
    secrets: Vec<(String, Vec<u8>)>,
    /// What encrypts values, and the names of those that are stored so.
    stored: Option<(Key, BTreeSet<String>)>,
}

/// A value that is not the one that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It was not given.
    #[error("the recording needs the secret {0}, which is not in it")]
    Missing(String),
    /// Its digest is another.
    #[error("the value of {0} is not the one that was recorded")]
    Wrong(String),
}

/// The digest that is kept of a secret.
pub fn digest(salt: &str, value: &[u8]) -> String {
    let mut hash = Sha256::new_with_prefix(b"skillhost secret 1");
    hash.update(salt.as_bytes());
    hash.update(value);
    format!("sha256:{}", skillhost_skill::runtime::hex(&hash.finalize()))
}

impl Seal {
    /// For a recording, with a salt by chance.
    pub fn new(salt: String, secrets: impl IntoIterator<Item = (String, Vec<u8>)>) -> Seal {
        let mut secrets: Vec<_> =
            secrets.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Seal { salt, secrets, stored: None }
    }

    /// Of a recording that was read, with the values that were given.
    ///
    /// # Errors
    /// One is missing, or wrong.
    pub fn opened(sealed: &Sealed, given: &BTreeMap<String, Vec<u8>>) -> Result<Seal, SecretError> {
        for (name, expected) in &sealed.secrets {
            let value = given.get(name).ok_or_else(|| SecretError::Missing(name.clone()))?;
            if digest(&sealed.salt, value) != *expected {
                return Err(SecretError::Wrong(name.clone()));
            }
        }
        let secrets =
            sealed.secrets.keys().filter_map(|name| Some((name.clone(), given.get(name)?.clone())));
        Ok(Seal { salt: sealed.salt.clone(), secrets: secrets.collect(), stored: None })
    }

    /// Stores the values of these names in the recording, encrypted.
    #[must_use]
    pub fn storing(self, key: Key, names: BTreeSet<String>) -> Seal {
        Seal { stored: Some((key, names)), ..self }
    }

    /// The encrypted values of those secrets that a recording needs and that are to be stored in
    /// it.
    pub(super) fn locked(
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

    /// What makes its placeholders and digests its own.
    pub fn salt(&self) -> &str {
        &self.salt
    }

    /// What stands for a value that is one secret as a whole.
    pub fn whole(&self, value: &[u8]) -> Option<String> {
        self.secrets
            .iter()
            .find(|(_, secret)| secret == value)
            .map(|(name, _)| self.placeholder(name))
    }

    /// What stands for a secret.
    pub fn placeholder(&self, name: &str) -> String {
        format!("{{{{secret:{}:{name}}}}}", self.salt)
    }

    /// Bytes without secrets.
    pub fn sealed(&self, bytes: &[u8]) -> Vec<u8> {
        let long = self.secrets.iter().filter(|(_, value)| value.len() >= LONG);
        let forms = long.flat_map(|(name, value)| forms(name, value));
        forms.fold(bytes.to_vec(), |bytes, (name, form)| {
            replaced(&bytes, &form, self.placeholder(&name).as_bytes())
        })
    }

    /// Bytes with their secrets again.
    pub fn unsealed(&self, bytes: &[u8]) -> Vec<u8> {
        let forms = self.secrets.iter().flat_map(|(name, value)| forms(name, value));
        forms.fold(bytes.to_vec(), |bytes, (name, form)| {
            replaced(&bytes, self.placeholder(&name).as_bytes(), &form)
        })
    }

    /// A value of JSON without secrets.
    pub fn seal(&self, value: Value) -> Value {
        self.texts(value, &|seal, text| seal.sealed(text))
    }

    /// A value of JSON with its secrets again.
    pub fn unseal(&self, value: Value) -> Value {
        self.texts(value, &|seal, text| seal.unsealed(text))
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The names and digests of the secrets whose placeholders stand in some text.
    pub fn used(&self, among: &[&[u8]]) -> BTreeMap<String, String> {
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
            // A secret that is no text may be put into one only where it was taken out of it.
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

/// How a value may stand in a text, each with the name that its placeholder has: as it is, in JSON,
/// in JSON of ASCII alone, in a URL.
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

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(what) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn replaced(bytes: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = find(rest, what) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + what.len()..];
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

    fn opened(seal: &Seal, given: &[(&str, &str)]) -> Result<Seal, SecretError> {
        let secrets = seal
            .secrets
            .iter()
            .map(|(name, value)| (name.clone(), digest("0123", value)))
            .collect();
        let given = given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        Seal::opened(&Sealed { salt: "0123".into(), secrets, ..Sealed::default() }, &given)
    }

    #[test]
    fn a_secret_stands_nowhere_and_comes_back_where_it_stood() {
        let sealing = seal(&[("A", "hunter2hunter2"), ("B", "hunter2hunter2-and-more")]);
        let value = json!({ "k hunter2hunter2": ["Bearer hunter2hunter2-and-more", 7, null], "other": "hunter2" });
        let sealed = sealing.seal(value.clone());
        assert_eq!(sealed["k {{secret:0123:A}}"][0], "Bearer {{secret:0123:B}}");
        assert!(!sealed.to_string().contains("hunter2hunter2"));
        let given = [("A", "hunter2hunter2"), ("B", "hunter2hunter2-and-more")];
        assert_eq!(opened(&sealing, &given).unwrap().unseal(sealed), value);
    }

    #[test]
    fn it_is_found_in_json_and_in_urls_too() {
        let sealing = seal(&[("A", "\"open\" \u{fc}!")]);
        let text =
            "\"open\" \u{fc}! \\\"open\\\" \u{fc}! \\\"open\\\" \\u00fc! %22open%22%20%C3%BC%21";
        let sealed = sealing.sealed(text.as_bytes());
        assert_eq!(
            String::from_utf8(sealed.clone()).unwrap(),
            "{{secret:0123:A}} {{secret:0123:A:json}} {{secret:0123:A:ascii}} {{secret:0123:A:url}}"
        );
        assert_eq!(
            opened(&sealing, &[("A", "\"open\" \u{fc}!")]).unwrap().unsealed(&sealed),
            text.as_bytes()
        );
        assert_eq!(sealing.used(&[b"x {{secret:0123:A:url}}"]).len(), 1);
    }

    #[test]
    fn a_short_one_is_hidden_as_a_whole_alone() {
        let seal = seal(&[("A", "1")]);
        assert_eq!(seal.sealed(b"10 of 11"), b"10 of 11");
        assert_eq!(seal.unsealed(b"{{secret:0123:A}}0"), b"10");
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_by_name() {
        let sealing = seal(&[("A", "hunter2hunter2")]);
        assert_eq!(opened(&sealing, &[]).unwrap_err(), SecretError::Missing("A".into()));
        assert_eq!(
            opened(&sealing, &[("A", "other")]).unwrap_err(),
            SecretError::Wrong("A".into())
        );
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes: Vec<u8>, cut in 0usize..50, len in LONG..20) {
            let value: Vec<u8> = bytes.iter().skip(cut).take(len).copied().collect();
            prop_assume!(value.len() >= LONG);
            let seal = Seal::new("0123".into(), [("X".to_owned(), value.clone())]);
            let sealed = seal.sealed(&bytes);
            prop_assert!(find(&sealed, &value).is_none());
            prop_assert_eq!(seal.unsealed(&sealed), bytes);
        }
    }
}
