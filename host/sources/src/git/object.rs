//! Objects and their ids.

use std::fmt;
use std::str::FromStr;

use super::corrupt;
use crate::error::SourceError;

/// The id of an object: its SHA-1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub(super) [u8; 20]);

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// A text is not 40 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an object id: 40 hex digits in lower case")]
pub struct InvalidId;

impl FromStr for ObjectId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<ObjectId, InvalidId> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(InvalidId),
        };
        let mut bytes = [0; 20];
        if text.len() != 40 {
            return Err(InvalidId);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = value(digits[0])? << 4 | value(digits[1])?;
        }
        Ok(ObjectId(bytes))
    }
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl ObjectKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            ObjectKind::Commit => "commit",
            ObjectKind::Tree => "tree",
            ObjectKind::Blob => "blob",
            ObjectKind::Tag => "tag",
        }
    }

    pub(super) fn from_name(name: &[u8]) -> Option<ObjectKind> {
        let all = [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag];
        all.into_iter().find(|kind| kind.name().as_bytes() == name)
    }
}

/// A decoded object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) kind: ObjectKind,
    pub(super) content: Vec<u8>,
}

impl Object {
    /// Computes the id.
    ///
    /// # Errors
    /// The object is part of a collision attack.
    pub(super) fn id(&self) -> Result<ObjectId, SourceError> {
        let mut hash = sha1dc::Hasher::new();
        hash.update(format!("{} {}\0", self.kind.name(), self.content.len()).as_bytes());
        hash.update(&self.content);
        match hash.finalize() {
            Ok(digest) => Ok(ObjectId(digest.into())),
            Err(_) => Err(corrupt("an object was made for a collision attack on SHA-1")),
        }
    }
}

/// Where objects are read from.
pub(super) trait Objects {
    /// Returns an object that has this id.
    ///
    /// # Errors
    /// The object is missing, broken or too large.
    fn read(&self, id: ObjectId) -> Result<Object, SourceError>;
}
