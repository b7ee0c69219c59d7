//! Digests, in the form that `sha256sum` writes and checks.
//!
//! The digest of a skill is the SHA-256 of its listing: one line per file, in byte order of the
//! paths, as `sha256sum` writes it. Names with a backslash or a line break, which `sha256sum` would
//! escape, do not exist in skills that are fetched.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::names;

/// A SHA-256 digest. Its text is 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of some bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl From<Sha256> for Digest {
    fn from(hash: Sha256) -> Digest {
        Digest(hash.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

/// A text is not 64 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 digest: 64 hex digits in lower case")]
pub struct InvalidDigest;

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Digest, InvalidDigest> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(InvalidDigest),
        };
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return Err(InvalidDigest);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = value(digits[0])? << 4 | value(digits[1])?;
        }
        Ok(Digest(bytes))
    }
}

/// The files of a skill and their digests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing(pub BTreeMap<String, Digest>);

impl Listing {
    /// Returns the digest of the skill: that of the listing's text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_string().as_bytes())
    }

    /// Describes the first difference to another listing. `None` if there is none.
    pub fn difference(&self, found: &Listing) -> Option<String> {
        let paths = self.0.keys().chain(found.0.keys());
        let mut paths: Vec<&String> = paths.collect();
        paths.sort_unstable();
        paths.into_iter().find_map(|path| match (self.0.get(path), found.0.get(path)) {
            (Some(expected), Some(found)) if expected == found => None,
            (Some(_), Some(_)) => Some(format!("`{path}` was modified")),
            (Some(_), None) => Some(format!("`{path}` is missing")),
            (None, _) => Some(format!("`{path}` was added")),
        })
    }
}

/// The text that `sha256sum` writes for the files, in byte order of their paths.
impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(path, digest)| writeln!(f, "{digest}  {path}"))
    }
}

impl FromStr for Listing {
    type Err = String;

    /// Parses exactly what [`Display`](fmt::Display) writes: a listing has one text.
    fn from_str(text: &str) -> Result<Listing, String> {
        let mut files = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let (digest, path) = line.split_once("  ").ok_or_else(|| {
                format!("line {number}: expected a digest, two spaces and a path")
            })?;
            let digest = digest.parse().map_err(|error| format!("line {number}: {error}"))?;
            let parsed = names::parse(path.as_bytes())
                .map_err(|refusal| format!("line {number}: {refusal}"))?;
            if parsed != path || path.is_empty() {
                return Err(format!("line {number}: write the path as `{parsed}`"));
            }
            files.insert(path.to_owned(), digest);
        }
        let listing = Listing(files);
        match listing.to_string() == text {
            true => Ok(listing),
            false => Err("the lines are not sorted by path, or one occurs twice".into()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders and run sha256sum")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listing() -> Listing {
        let files = [("SKILL.md", "text"), ("scripts/a.py", "print()"), ("a b", "")];
        Listing(files.map(|(path, text)| (path.to_owned(), Digest::of(text.as_bytes()))).into())
    }

    #[test]
    fn sha256sum_recomputes_the_digests() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("scripts")).unwrap();
        for (path, text) in [("SKILL.md", "text"), ("scripts/a.py", "print()"), ("a b", "")] {
            std::fs::write(folder.path().join(path), text).unwrap();
        }
        let shell = |command: &str| {
            let output = std::process::Command::new("sh")
                .args(["-c", command])
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let list = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum";
        assert_eq!(shell(list), listing().to_string());
        let digest = shell(&format!("{list} | sha256sum"));
        assert_eq!(digest.split(' ').next(), Some(listing().digest().to_string().as_str()));
    }

    #[test]
    fn listing_has_one_text() {
        let text = listing().to_string();
        assert_eq!(text.parse(), Ok(listing()));
        let lines: Vec<&str> = text.lines().collect();
        let with =
            |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let broken = [
            with(&[lines[1], lines[0], lines[2]]),
            with(&[lines[0], lines[0]]),
            text.trim_end().to_owned(),
            text.replace("  SKILL", " *SKILL"),
            text.replace("SKILL.md", "../SKILL.md"),
            text.replace("SKILL.md", "./SKILL.md"),
            text.replace("SKILL.md", "/SKILL.md"),
            text.to_uppercase(),
            text.replace('\n', "\r\n"),
        ];
        for text in broken {
            assert!(text.parse::<Listing>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_change_of_a_listing_changes_the_digest_or_is_refused(
            at in any::<proptest::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut bytes = listing().to_string().into_bytes();
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != byte);
            bytes[at] = byte;
            let changed = String::from_utf8(bytes).ok().and_then(|text| text.parse::<Listing>().ok());
            if let Some(changed) = changed {
                prop_assert_ne!(changed.digest(), listing().digest());
                prop_assert!(listing().difference(&changed).is_some());
            }
        }

        #[test]
        fn digests_have_one_text(bytes in any::<[u8; 32]>()) {
            let digest = Digest(bytes);
            prop_assert_eq!(digest.to_string().parse(), Ok(digest));
            prop_assert!(digest.to_string().to_uppercase().parse::<Digest>().is_err() || !digest.to_string().contains(|c: char| c.is_alphabetic()));
        }
    }
}
