//! Reads and writes the files of a session, through the file layer of its programs and under the rules
//! of its first skill.

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::request::Parts;
use hyper::body::Incoming;
use rustix::fs::FileType;
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::channel;

use super::super::body::{self, Answer};
use super::super::logs::too_many;
use super::super::problem::{Problem, ProblemCode};
use super::super::tenant::Tenant;
use super::super::uploads::blocking;
use super::super::{Answered, ApiShared};
use super::Session;
use super::types::{EntryKind, FileEntry, FileList, WrittenFile};
use skillhost_policy::WORKSPACE;
use skillhost_policy::capabilities::{PathRules, Scope};
use skillhost_policy::pattern::PathGlob;
use skillhost_sandbox::files::{Handle, Metadata, OpenFile, OpenOptions, Vfs};
use skillhost_skill::runtime::hex;

/// The most entries of a listing, and that one request removes.
pub(super) const ENTRIES: usize = 10_000;
const CHUNK: usize = 64 << 10;

/// Rules that allow everything.
pub(super) static EVERYTHING: LazyLock<PathRules> = LazyLock::new(|| {
    let all = || Scope {
        all_of: vec![vec![PathGlob::everything()]],
        none_of: Vec::new(),
        ..Scope::empty()
    };
    PathRules { read: all(), write: all() }
});

/// A folder of a session, `/workspace` or `/tmp`, as a program would see it.
pub(super) struct View {
    vfs: Arc<Vfs>,
    top: Handle,
}

impl View {
    /// Opens the workspace.
    pub(super) fn of(vfs: Arc<Vfs>) -> Answered<View> {
        View::at(vfs, WORKSPACE)
    }

    fn at(vfs: Arc<Vfs>, guest: &str) -> Answered<View> {
        let tops = vfs.preopens().map_err(|error| Problem::internal(&error))?;
        let top = tops.into_iter().find(|(_, path)| path == guest);
        // The rules of a skill that may read nothing hide the workspace.
        let (top, _) = top.ok_or_else(|| {
            let detail = format!("the first skill of the session may not read {guest}");
            Problem::new(ProblemCode::FileDenied, detail)
        })?;
        Ok(View { vfs, top })
    }

    /// Finds the folder that a path is in, and the path in it.
    pub(super) fn find(session: &Session, path: &str) -> Answered<(View, String)> {
        let vfs = session.files().open(session.rules.clone());
        let within = |guest: &str| {
            let rest = path.strip_prefix(guest)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
        };
        let (guest, rest) = match (within(WORKSPACE), within("/tmp")) {
            (Some(rest), _) => (WORKSPACE, rest),
            (_, Some(rest)) => ("/tmp", rest),
            _ if path.starts_with('/') => return Err(not_there()),
            _ => (WORKSPACE, path),
        };
        let rest = if rest.is_empty() { "." } else { rest };
        Ok((View::at(vfs, guest)?, rest.to_owned()))
    }

    pub(super) fn open_file(&self, path: &str) -> Answered<Arc<OpenFile>> {
        let options = OpenOptions { follow: true, read: true, ..OpenOptions::default() };
        let opened = self.vfs.open_at(&self.top, path, options);
        let file = opened.and_then(|opened| opened.file().cloned());
        file.map_err(|error| self.problem(error))
    }

    /// Returns the first bytes of a file, and how many it has.
    pub(super) fn start(&self, path: &str, most: usize) -> Answered<(Vec<u8>, u64)> {
        let file = self.open_file(path)?;
        let (mut bytes, mut at) = (vec![0; most], 0);
        while at < most {
            let count =
                file.read_at(&mut bytes[at..], at as u64).map_err(|error| self.problem(error))?;
            if count == 0 {
                break;
            }
            at += count;
        }
        bytes.truncate(at);
        let size = self.look(path, true)?.map_or(0, |found| found.size);
        Ok((bytes, size.max(at as u64)))
    }

    /// Returns the digest of a file; `None` if there is none.
    pub(super) fn digest(&self, path: &str) -> Answered<Option<String>> {
        let options = OpenOptions { read: true, ..OpenOptions::default() };
        let file = match self.vfs.open_at(&self.top, path, options) {
            Ok(Handle::File(file)) => file,
            _ => return Ok(None),
        };
        let (mut hash, mut at, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
        loop {
            let count = file.read_at(&mut chunk, at).map_err(|error| self.problem(error))?;
            if count == 0 {
                return Ok(Some(format!("sha256:{}", hex(&hash.finalize()))));
            }
            hash.update(&chunk[..count]);
            at += count as u64;
        }
    }

    /// Writes a file, and returns its bytes.
    pub(super) fn write(&self, path: &str, from: &mut impl Read) -> Answered<u64> {
        let options = OpenOptions {
            follow: true,
            create: true,
            truncate: true,
            write: true,
            ..OpenOptions::default()
        };
        let opened = self.vfs.open_at(&self.top, path, options);
        let file = opened
            .and_then(|opened| opened.file().cloned())
            .map_err(|error| self.problem(error))?;
        let (mut at, mut chunk) = (0_u64, vec![0; CHUNK]);
        loop {
            let count = from.read(&mut chunk).map_err(|error| Problem::internal(&error))?;
            if count == 0 {
                return Ok(at);
            }
            let mut rest = &chunk[..count];
            while !rest.is_empty() {
                let written = file.write_at(rest, Some(at)).map_err(|error| self.problem(error))?;
                rest = &rest[written..];
                at += written as u64;
            }
        }
    }

    /// Writes a file in one step, with the first bytes of another file, and the folders above it.
    pub(super) fn replace(
        &self,
        path: &str,
        from: &File,
        size: u64,
        mode: Option<u32>,
    ) -> Answered<()> {
        self.create_parents(path)?;
        let replaced = self.vfs.replace_file(&self.top, path, from, size, mode);
        replaced.map_err(|error| self.problem(error))
    }

    pub(super) fn create_folder(&self, path: &str) -> Answered<()> {
        match self.vfs.create_dir(&self.top, path) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(self.problem(error)),
        }
    }

    /// Creates the folders above a path.
    pub(super) fn create_parents(&self, path: &str) -> Answered<()> {
        for (at, _) in path.match_indices('/') {
            self.create_folder(&path[..at])?;
        }
        Ok(())
    }

    pub(super) fn read_link(&self, path: &str) -> Answered<String> {
        self.vfs.read_link(&self.top, path).map_err(|error| self.problem(error))
    }

    /// Creates a symlink in place of one that is there.
    pub(super) fn link(&self, path: &str, target: &str) -> Answered<()> {
        match self.vfs.remove_file(&self.top, path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(self.problem(error)),
        }
        self.vfs.create_symlink(&self.top, path, target).map_err(|error| self.problem(error))
    }

    pub(super) fn remove(&self, path: &str, is_folder: bool) -> Answered<()> {
        let removed = match is_folder {
            true => self.vfs.remove_dir(&self.top, path),
            false => self.vfs.remove_file(&self.top, path),
        };
        removed.map_err(|error| self.problem(error))
    }

    /// Removes everything below a folder.
    pub(super) fn remove_below(&self, start: &str) -> Answered<()> {
        for (below, kind) in self.walk_below(start, ENTRIES)?.into_iter().rev() {
            self.remove(&below, kind == FileType::Directory)?;
        }
        Ok(())
    }

    /// Returns what is at a path, or where the symlink there leads; `None` if there is nothing.
    pub(super) fn look(&self, path: &str, follow: bool) -> Answered<Option<Metadata>> {
        match self.vfs.stat_at(&self.top, path, follow) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(self.problem(error)),
        }
    }

    /// Returns the permission bits that were set for an entry.
    pub(super) fn mode(&self, path: &str) -> Option<u32> {
        self.vfs.mode_at(&self.top, path)
    }

    /// Lists everything below the folder, each folder before what is in it.
    pub(super) fn walk(&self, most: usize) -> Answered<Vec<(String, FileType)>> {
        self.walk_below("", most)
    }

    fn walk_below(&self, start: &str, most: usize) -> Answered<Vec<(String, FileType)>> {
        let (mut found, mut folders) = (Vec::new(), vec![start.to_owned()]);
        while let Some(folder) = folders.pop() {
            for (name, kind) in self.entries(&folder)? {
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if kind == FileType::Directory {
                    folders.push(path.clone());
                }
                found.push((path, kind));
                if found.len() > most {
                    let detail = format!("the folder has more than {most} entries");
                    return Err(Problem::new(ProblemCode::FileConflict, detail));
                }
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    pub(super) fn entries(&self, folder: &str) -> Answered<Vec<(String, FileType)>> {
        let folder = if folder.is_empty() { "." } else { folder };
        let options = OpenOptions { directory: true, follow: true, ..OpenOptions::default() };
        let opened = self.vfs.open_at(&self.top, folder, options);
        let listed = opened.and_then(|opened| self.vfs.read_dir(&opened));
        Ok(listed.map_err(|error| self.problem(error))?.collect())
    }

    fn entry(&self, path: &str, shown: String) -> Option<FileEntry> {
        // It may have been removed meanwhile.
        let found = self.vfs.stat_at(&self.top, path, false).ok()?;
        let kind = match found.kind {
            FileType::Directory => EntryKind::Folder,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::File,
        };
        let modified = jiff::Timestamp::from_second(found.modified.0)
            .map_or_else(|_| String::new(), |at| at.to_string());
        Some(FileEntry { path: shown, kind, bytes: found.size, modified })
    }

    /// Says what is wrong with an operation, and which rule denied it.
    pub(super) fn problem(&self, error: Errno) -> Problem {
        let conflict = |detail: &str| Problem::new(ProblemCode::FileConflict, detail);
        match error {
            Errno::NOENT => not_there(),
            Errno::ISDIR => conflict("the path is a folder"),
            Errno::NOTDIR => conflict("the path, or a part of it, is not a folder"),
            Errno::NOTEMPTY => conflict("the folder is not empty; remove it with `recursive=true`"),
            Errno::EXIST => conflict("there is something at the path"),
            Errno::LOOP => conflict("the path leads through too many symlinks, or to one"),
            Errno::BUSY => conflict("the folder itself cannot be removed"),
            Errno::NOSPC => {
                let detail = "the files of the session use all bytes or entries that they may use";
                Problem::new(ProblemCode::SessionDisk, detail)
            }
            Errno::ACCESS | Errno::PERM | Errno::ROFS => {
                let denial = self.vfs.denials().into_iter().next_back();
                let detail = denial.map_or_else(
                    || "the rules of the session's first skill deny it".to_owned(),
                    |denial| format!("{}: {}", denial.what, denial.rule),
                );
                Problem::new(ProblemCode::FileDenied, detail)
            }
            Errno::INVAL | Errno::NAMETOOLONG | Errno::ILSEQ | Errno::NOKEY => {
                Problem::invalid("`path` is not a path of a file")
            }
            error => Problem::internal(&error),
        }
    }
}

impl ApiShared {
    /// Answers with the bytes of a file, which are read as the client takes them.
    pub(super) async fn get_file(
        &self,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        path: String,
    ) -> Answered<Answer> {
        let open = tenant.open_stream().ok_or_else(too_many)?;
        let guard = session.enter().await?;
        let session = session.clone();
        let file = blocking(move || {
            let (view, path) = View::find(&session, &path)?;
            view.open_file(&path)
        })
        .await?;
        let (sender, receiver) = channel(2);
        tokio::task::spawn_blocking(move || {
            // An open file survives what happens to the session.
            drop(guard);
            let mut at = 0;
            loop {
                let mut chunk = vec![0; CHUNK];
                match file.read_at(&mut chunk, at) {
                    Ok(0) => return,
                    Ok(count) => {
                        chunk.truncate(count);
                        at += count as u64;
                        // The client may have gone.
                        if sender.blocking_send(Bytes::from(chunk)).is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::error!(%error, "cannot read a file of a session");
                        return;
                    }
                }
            }
        });
        Ok(body::of_stream("application/octet-stream", receiver, open))
    }

    /// Writes a file, and the folders above it, in one step once all of it has arrived: a request that
    /// is cut short changes nothing.
    pub(super) async fn put_file(
        &self,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        path: String,
        head: &Parts,
        body: Incoming,
    ) -> Answered<WrittenFile> {
        let _open = tenant.open_stream().ok_or_else(too_many)?;
        let (upload, _coming) = self.receive(tenant, head, body).await?;
        let (from, size) =
            (upload.reopen().map_err(|error| Problem::internal(&error))?, upload.bytes);
        let guard = session.enter().await?;
        let session = session.clone();
        blocking(move || {
            let _guard = guard;
            let (view, path) = View::find(&session, &path)?;
            view.replace(&path, &from, size, None)?;
            Ok(WrittenFile { bytes: size })
        })
        .await
    }

    pub(super) async fn list_files(
        &self,
        session: &Arc<Session>,
        path: String,
        is_recursive: bool,
    ) -> Answered<FileList> {
        let guard = session.enter().await?;
        let session = session.clone();
        blocking(move || {
            let _guard = guard;
            let (view, path) = View::find(&session, &path)?;
            let start = if path == "." { "" } else { path.as_str() };
            let found = match is_recursive {
                true => view.walk_below(start, ENTRIES)?,
                false => {
                    let below = |name: String| match start {
                        "" => name,
                        start => format!("{start}/{name}"),
                    };
                    view.entries(start)?
                        .into_iter()
                        .map(|(name, kind)| (below(name), kind))
                        .collect()
                }
            };
            let shown = |path: &str| {
                path.strip_prefix(start).unwrap_or(path).trim_start_matches('/').to_owned()
            };
            let entries =
                found.iter().filter_map(|(path, _)| view.entry(path, shown(path))).collect();
            Ok(FileList { entries })
        })
        .await
    }

    pub(super) async fn remove_file(
        &self,
        session: &Arc<Session>,
        path: String,
        is_recursive: bool,
    ) -> Answered<()> {
        let guard = session.enter().await?;
        let session = session.clone();
        blocking(move || {
            let _guard = guard;
            let (view, path) = View::find(&session, &path)?;
            match view.vfs.remove_file(&view.top, &path) {
                Err(Errno::ISDIR) => {}
                removed => return removed.map_err(|error| view.problem(error)),
            }
            if is_recursive {
                view.remove_below(if path == "." { "" } else { &path })?;
            }
            view.remove(&path, true)
        })
        .await
    }
}

fn not_there() -> Problem {
    Problem::new(ProblemCode::NotFound, "the session has no such file in /workspace or /tmp")
}
