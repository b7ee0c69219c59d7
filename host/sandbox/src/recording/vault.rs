//! The key of this host, which encrypts the operator's values in recordings: replays on this host
//! need nothing else, and elsewhere the values stay secret.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::{Mode, OFlags, fstat, openat};

use skillhost_skill::private;

/// The name of the key file. It starts with a dot because the other entries of the folder are
/// states of skills.
const NAME: &str = ".recording.key";
const KEY_LEN: usize = 32;

/// The key of this host.
#[derive(Clone)]
pub struct Key([u8; KEY_LEN]);

impl Key {
    /// Reads the key in a folder; returns `None` if there is none yet.
    ///
    /// # Errors
    /// The file cannot be read, is not a key, or other users can access it.
    pub fn find(folder: &Path) -> io::Result<Option<Key>> {
        match read(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            key => key.map(Some),
        }
    }

    /// Reads the key in a folder. Creates both if they are missing.
    ///
    /// # Errors
    /// As for [`Key::find`]; or the key cannot be created.
    pub fn find_or_create(folder: &Path) -> io::Result<Key> {
        private::open_or_create(folder)?;
        if let Some(key) = Key::find(folder)? {
            return Ok(key);
        }
        let key = Key(random()?);
        // Created atomically and never over another key; the file has mode 0600 from the start.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&key.0)?;
        match file.persist_noclobber(folder.join(NAME)) {
            Ok(_) => Ok(key),
            // Another process was faster: its key is the host's.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => read(folder),
            Err(error) => Err(error.error),
        }
    }

    /// Encrypts values, by name, so that only the recording with this digest can decrypt them.
    pub(super) fn lock(
        &self,
        values: &BTreeMap<String, Vec<u8>>,
        recording: &str,
    ) -> io::Result<String> {
        let values: BTreeMap<&str, String> =
            values.iter().map(|(name, value)| (&**name, BASE64.encode(value))).collect();
        let mut bytes = serde_json::to_vec(&values)?;
        let nonce: [u8; NONCE_LEN] = random()?;
        self.cipher()?
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(recording),
                &mut bytes,
            )
            .map_err(failed)?;
        Ok(BASE64.encode([&nonce[..], &bytes].concat()))
    }

    /// Decrypts values; returns `None` if they were encrypted under another key or for another
    /// recording, or are not valid.
    pub(super) fn unlock(&self, text: &str, recording: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let mut bytes = BASE64.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let values = self.cipher().ok()?.open_in_place(nonce, Aad::from(recording), sealed).ok()?;
        let values: BTreeMap<String, String> = serde_json::from_slice(values).ok()?;
        values.into_iter().map(|(name, value)| Some((name, BASE64.decode(value).ok()?))).collect()
    }

    fn cipher(&self) -> io::Result<LessSafeKey> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.0).map(LessSafeKey::new).map_err(failed)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

fn read(folder: &Path) -> io::Result<Key> {
    let folder = rustix::fs::open(
        folder,
        OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder.as_fd(), NAME, flags, Mode::empty())?;
    let found = fstat(&file)?;
    if found.st_uid != rustix::process::geteuid().as_raw()
        || Mode::from_raw_mode(found.st_mode).intersects(Mode::RWXG | Mode::RWXO)
    {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("other users can access the key {NAME}; run `chmod 600` on it"),
        ));
    }
    let mut bytes = Vec::new();
    std::fs::File::from(file).take(KEY_LEN as u64 + 1).read_to_end(&mut bytes)?;
    let key = <[u8; KEY_LEN]>::try_from(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{NAME} is not a key")))?;
    Ok(Key(key))
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn failed(_: ring::error::Unspecified) -> io::Error {
    io::Error::other("encryption failed")
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn values() -> BTreeMap<String, Vec<u8>> {
        [("TOKEN".to_owned(), b"hunter2\xff".to_vec()), ("EMPTY".to_owned(), Vec::new())].into()
    }

    #[test]
    fn key_is_created_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("state");
        assert!(Key::find(&within).unwrap().is_none());
        let key = Key::find_or_create(&within).unwrap();
        assert_eq!(Key::find_or_create(&within).unwrap().0, key.0);
        let path = within.join(NAME);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(Key::find(&within).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(Key::find(&within).is_err(), "a symlink is not followed");
    }

    #[test]
    fn values_open_only_with_their_key_and_recording() {
        let (one, other) = (Key([1; KEY_LEN]), Key([2; KEY_LEN]));
        let text = one.lock(&values(), "sha256:a").unwrap();
        assert_eq!(one.unlock(&text, "sha256:a"), Some(values()));
        assert_eq!((one.unlock(&text, "sha256:b"), other.unlock(&text, "sha256:a")), (None, None));
        let mut changed = BASE64.decode(&text).unwrap();
        *changed.last_mut().unwrap() ^= 1;
        for broken in [BASE64.encode(changed), String::new(), "AAAA".into(), "no base64!".into()] {
            assert_eq!(one.unlock(&broken, "sha256:a"), None, "{broken}");
        }
        assert_ne!(text, one.lock(&values(), "sha256:a").unwrap(), "a nonce is used once");
        assert!(!format!("{one:?}").contains('1'));
    }
}
