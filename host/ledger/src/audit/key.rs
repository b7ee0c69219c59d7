//! The key of a log, and keyed digests. The plain digest of a short text can be guessed; a digest
//! with a key that only this user can read cannot.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::journal::beside;
use skillhost_skill::runtime::{digest, hex};

/// The size of a key, in bytes.
const KEY: usize = 32;

/// The block size of SHA-256, in bytes.
const BLOCK: usize = 64;

/// A key, stored as the two hash states that HMAC (RFC 2104) starts from.
#[derive(Clone)]
pub struct LogKey {
    inner: Sha256,
    outer: Sha256,
}

/// A keyed digest: `hmac-sha256:` and 64 hex digits. It is the HMAC of the text `sha256:` followed
/// by the SHA-256 of the content, in hex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct KeyedDigest(String);

impl LogKey {
    /// Reads the key of the log at `path`, and creates it if it is missing.
    pub(super) fn of_log(path: &Path) -> io::Result<LogKey> {
        let file = beside(path, "key");
        loop {
            match read(&file)? {
                Some(key) => return Ok(key),
                None => make(&file)?,
            }
        }
    }

    /// Creates a key for this process only, for a log that is not a regular file.
    pub(super) fn of_process() -> LogKey {
        LogKey::new(&rand::random::<[u8; KEY]>())
    }

    fn new(key: &[u8; KEY]) -> LogKey {
        let state = |pad: u8| {
            let mut block = [pad; BLOCK];
            block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
            Sha256::new_with_prefix(block)
        };
        LogKey { inner: state(0x36), outer: state(0x5c) }
    }

    /// Returns the keyed digest of some bytes.
    pub(super) fn digest(&self, bytes: &[u8]) -> KeyedDigest {
        self.keyed(&digest(bytes))
    }

    /// Returns the keyed digest of content whose plain digest is known, as `sha256:` and 64 hex
    /// digits.
    pub(super) fn keyed(&self, plain: &str) -> KeyedDigest {
        KeyedDigest(format!("hmac-sha256:{}", hex(&self.mac(plain.as_bytes()))))
    }

    fn mac(&self, message: &[u8]) -> [u8; 32] {
        let inner = self.inner.clone().chain_update(message).finalize();
        self.outer.clone().chain_update(inner).finalize().into()
    }
}

impl std::fmt::Debug for LogKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Reads the key in a file; `None` if there is no file.
fn read(path: &Path) -> io::Result<Option<LogKey>> {
    #[expect(clippy::disallowed_methods, reason = "a file of the audit log's own")]
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    // With this capacity, one read returns the text and a second one finds its end.
    let mut text = String::with_capacity(KEY * 4);
    file.take(KEY as u64 * 4).read_to_string(&mut text)?;
    let bytes: Option<Vec<u8>> = text.trim_end().as_bytes().chunks(2).map(byte).collect();
    match bytes.as_deref().map(<&[u8; KEY]>::try_from) {
        Some(Ok(key)) => Ok(Some(LogKey::new(key))),
        _ => Err(io::Error::other(format!(
            "{} is not the key of an audit log: remove it, and the next run creates a new one",
            path.display()
        ))),
    }
}

/// Parses two hex digits.
fn byte(digits: &[u8]) -> Option<u8> {
    if digits.len() != 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Creates a key, unless another host does so at the same time. The file appears with the complete
/// key.
fn make(path: &Path) -> io::Result<()> {
    let new = beside(path, &format!("{:016x}", rand::random::<u64>()));
    #[expect(clippy::disallowed_methods, reason = "a file of the audit log's own")]
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(format!("{}\n", hex(&rand::random::<[u8; KEY]>())).as_bytes());
    let linked = written.and_then(|()| std::fs::hard_link(&new, path));
    std::fs::remove_file(&new)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own files")]
mod tests {
    use super::*;

    #[test]
    fn a_keyed_digest_is_the_hmac_of_the_plain_digest() {
        // As computed by `openssl dgst -sha256 -mac HMAC -macopt hexkey:0b...`: RFC 4231, case 1,
        // has a key of 20 bytes, which HMAC pads with zeros.
        let mut key = [0; KEY];
        key[..20].fill(0x0b);
        let mac = LogKey::new(&key).mac(b"Hi There");
        assert_eq!(hex(&mac), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        let key = LogKey::new(&key);
        assert_eq!(key.digest(b"x"), key.keyed(&digest(b"x")));
        assert_ne!(key.digest(b"x"), key.digest(b"y"));
        assert_ne!(key.digest(b"x"), LogKey::of_process().digest(b"x"));
    }

    #[test]
    fn hosts_share_the_private_key_of_their_log() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("audit.jsonl");
        let keys: Vec<KeyedDigest> = std::thread::scope(|scope| {
            let hosts: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| LogKey::of_log(&log).unwrap().digest(b"x")))
                .collect();
            hosts.into_iter().map(|host| host.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        let files: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(beside(&log, "key"), "short\n").unwrap();
        assert!(LogKey::of_log(&log).unwrap_err().to_string().contains("is not the key"));
    }
}
