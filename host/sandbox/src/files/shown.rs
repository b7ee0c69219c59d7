//! The name that a guest was shown just now. A libc asks for a file's metadata and then for its
//! number (`metadata-hash-at`), and asks for the number of each entry that it lists; looking the
//! same name up from the mount anew would cost three system calls more.

use super::handle::Handle;
use super::{Vfs, lock};

/// What was shown, as the guest said it, and the guest path of what is there.
#[derive(Debug)]
pub(super) struct Shown {
    mount: usize,
    rel: String,
    name: String,
    follow: bool,
    path: String,
}

impl Vfs {
    /// Remembers what was found at `name` below an open folder, in place of what was before it.
    pub(super) fn note_shown(
        &self,
        mount: usize,
        rel: &str,
        name: &str,
        follow: bool,
        path: String,
    ) {
        *lock(&self.shown) =
            Some(Shown { mount, rel: rel.to_owned(), name: name.to_owned(), follow, path });
    }

    /// The guest path of `name`, where the last that was asked about a name was what is there.
    /// Once.
    pub(super) fn take_shown(&self, base: &Handle, name: &str, follow: bool) -> Option<String> {
        let (mount, rel) = base.place();
        let shown = lock(&self.shown).take()?;
        let same = shown.mount == mount
            && shown.rel == rel
            && shown.name == name
            && shown.follow == follow;
        same.then_some(shown.path)
    }

    /// Something else is asked about a name, or done to it.
    pub(super) fn forget_shown(&self) {
        *lock(&self.shown) = None;
    }
}
