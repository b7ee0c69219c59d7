//! What `/workspace` contains at the start of a run or a session: files by path, or a tree, which is a
//! blob that names the blobs of its files.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use tokio_util::sync::CancellationToken;

use super::fleet::Fleet;
use super::problem::{Problem, ProblemCode};
use super::state::{count_folders, hex_of, is_inside, now};
use super::tenant::Tenant;
use super::types::{FileSource, FileState, Tree};
use super::uploads::blocking;
use super::{Answered, ApiShared};

/// The longest target of a symlink.
const TARGET: usize = 4_095;

/// What `/workspace` contains at the start, except the folders above its paths.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents<'a> {
    pub(super) files: Cow<'a, BTreeMap<String, FileSource>>,
    folders: BTreeSet<String>,
    /// The targets of symlinks, by their path.
    links: BTreeMap<String, String>,
}

impl<'a> From<&'a BTreeMap<String, FileSource>> for Contents<'a> {
    fn from(files: &'a BTreeMap<String, FileSource>) -> Contents<'a> {
        Contents { files: Cow::Borrowed(files), ..Contents::default() }
    }
}

impl From<&Tree> for Contents<'static> {
    fn from(tree: &Tree) -> Contents<'static> {
        let mut contents = Contents::default();
        let mut files = BTreeMap::new();
        for (path, entry) in &tree.entries {
            match entry {
                FileState::Folder => {
                    contents.folders.insert(path.clone());
                }
                FileState::Link { target } => {
                    contents.links.insert(path.clone(), target.clone());
                }
                FileState::File { digest, mode } => {
                    let executable = mode.is_some_and(|mode| mode & 0o100 != 0);
                    let file =
                        FileSource { digest: Some(digest.clone()), content: None, executable };
                    files.insert(path.clone(), file);
                }
            }
        }
        contents.files = Cow::Owned(files);
        contents
    }
}

impl Contents<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.folders.is_empty() && self.links.is_empty()
    }

    /// Returns an upper bound of how many files, folders and symlinks are created.
    pub(super) fn entries(&self) -> usize {
        let paths = self.files.keys().chain(&self.folders).chain(self.links.keys());
        let folders = count_folders(paths, usize::MAX);
        self.files.len() + self.folders.len() + self.links.len() + folders
    }

    /// Returns what identifies the content of each path, and whether it is an executable file.
    pub(super) fn keys(&self) -> BTreeMap<String, (String, bool)> {
        let files =
            self.files.iter().map(|(path, file)| (path.clone(), (file_key(file), file.executable)));
        let folders = self.folders.iter().map(|path| (path.clone(), ("folder".to_owned(), false)));
        let links = self
            .links
            .iter()
            .map(|(path, target)| (path.clone(), (format!("link:{target}"), false)));
        files.chain(folders).chain(links).collect()
    }

    /// Writes everything to a folder that contains nothing, at most `most` bytes of files. The contents were
    /// checked when they were submitted. Stops between two entries when it is cancelled.
    ///
    /// # Errors
    /// `Interrupted`: it was cancelled. Others: the disk cannot be written, or a blob has expired.
    pub(super) fn write(
        &self,
        tenant: &Tenant,
        folder: &impl AsFd,
        most: u64,
        cancelled: &CancellationToken,
    ) -> io::Result<()> {
        let dir = Dir::from_std_file(folder.as_fd().try_clone_to_owned()?.into());
        let begin = |path: &str| {
            if cancelled.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if !is_inside(path) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            match Path::new(path).parent() {
                Some(parent) => dir.create_dir_all(parent),
                None => Ok(()),
            }
        };
        let mut left = most;
        for (path, source) in self.files.iter() {
            begin(path)?;
            write_file(tenant, &dir, path, source, &mut left)?;
        }
        for path in &self.folders {
            begin(path)?;
            dir.create_dir_all(path)?;
        }
        // Last, so that none is on the way to another entry.
        for (path, target) in &self.links {
            begin(path)?;
            dir.symlink_contents(target, path)?;
        }
        Ok(())
    }
}

fn write_file(
    tenant: &Tenant,
    dir: &Dir,
    path: &str,
    source: &FileSource,
    left: &mut u64,
) -> io::Result<()> {
    let mode = if source.executable { 0o755 } else { 0o644 };
    let mut file =
        dir.open_with(path, OpenOptions::new().write(true).create_new(true).mode(mode))?;
    let mut take = |bytes: u64| {
        *left = left.checked_sub(bytes).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok::<(), io::ErrorKind>(())
    };
    match (&source.content, &source.digest) {
        (Some(content), _) => {
            take(content.0.len() as u64)?;
            file.write_all(&content.0)?;
        }
        (None, Some(digest)) => {
            let blob = tenant.state.blob(digest)?;
            let size = blob.metadata()?.len();
            take(size)?;
            io::copy(&mut blob.take(size), &mut file)?;
        }
        (None, None) => {}
    }
    Ok(())
}

/// Identifies the content of a file, in approvals and cached results.
fn file_key(file: &FileSource) -> String {
    match (&file.digest, &file.content) {
        (Some(digest), _) => digest.clone(),
        (None, Some(content)) => skillhost_skill::runtime::digest(&content.0),
        (None, None) => String::new(),
    }
}

impl ApiShared {
    /// Returns what `/workspace` is to contain, checks it, and keeps its blobs from expiring. Waits for the
    /// disk.
    pub(super) fn contents<'a>(
        &self,
        tenant: &Tenant,
        files: &'a BTreeMap<String, FileSource>,
        tree: Option<&str>,
    ) -> Answered<Contents<'a>> {
        self.check_contents(files, tree)?;
        match tree {
            Some(digest) => Ok(Contents::from(&self.read_tree(tenant, digest)?)),
            None => {
                require_blobs(tenant, files, self.options.bounds.workspace)?;
                Ok(Contents::from(files))
            }
        }
    }

    /// Checks what a request says about the contents of a workspace, but not whether the blobs are stored.
    pub(super) fn check_contents(
        &self,
        files: &BTreeMap<String, FileSource>,
        tree: Option<&str>,
    ) -> Answered<()> {
        match tree {
            Some(_) if !files.is_empty() => Err(Problem::invalid("send either `files` or `tree`")),
            Some(digest) => require_digest(digest),
            None => self.check_files(files),
        }
    }

    /// Reads a tree, checks it, and keeps it and its blobs from expiring. Waits for the disk.
    pub(super) fn read_tree(&self, tenant: &Tenant, digest: &str) -> Answered<Tree> {
        let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
        require_digest(digest)?;
        let known = tenant.state.store.use_blob(digest, now()).map_err(|error| internal(&error))?;
        known.ok_or_else(|| no_tree(digest))?;
        let tree = self.tree(tenant, digest)?;
        let contents = Contents::from(&tree);
        self.check_files(&contents.files)?;
        require_blobs(tenant, &contents.files, self.options.bounds.workspace)?;
        Ok(tree)
    }

    /// Reads a tree that is on this disk. Waits for the disk.
    pub(super) fn tree(&self, tenant: &Tenant, digest: &str) -> Answered<Tree> {
        let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
        let most = self.options.bounds.body as u64;
        let blob = tenant.state.blob(digest).map_err(|error| internal(&error))?.into_std();
        if blob.metadata().map_err(|error| internal(&error))?.len() > most {
            return Err(tree_too_large(most));
        }
        let mut text = Vec::new();
        blob.take(most).read_to_end(&mut text).map_err(|error| internal(&error))?;
        parse_tree(&text, self.options.bounds.files)
    }

    /// Checks the files of a run or a session, but not whether their blobs are stored.
    pub(super) fn check_files(&self, files: &BTreeMap<String, FileSource>) -> Answered<()> {
        let most = self.options.bounds.files;
        if files.len() > most {
            return Err(Problem::invalid(format!("a workspace may have {most} files")));
        }
        check_folders(files.keys(), most)?;
        for (path, file) in files {
            if !is_inside(path) {
                let detail =
                    "a path in `files` must be relative, without `.`, `..` and control characters";
                return Err(Problem::invalid(detail));
            }
            if has_below(files, path) {
                return Err(both_kinds(path));
            }
            let is_digest = file.digest.as_deref().is_none_or(|digest| hex_of(digest).is_some());
            if file.digest.is_some() == file.content.is_some() || !is_digest {
                let detail =
                    "a file needs either `digest`, as `sha256:` and 64 hex digits, or `content`";
                return Err(Problem::invalid(detail));
            }
        }
        Ok(())
    }

    /// Checks that the contents of a workspace can be fetched by workers of the fleet.
    pub(super) async fn require_in_fleet(
        self: &Arc<Self>,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        files: &BTreeMap<String, FileSource>,
        tree: Option<&str>,
    ) -> Answered<()> {
        let Some(tree) = tree else { return self.require_fleet_blobs(fleet, tenant, files).await };
        // A few bytes of a request make this server read a tree and look for each of its files.
        let place = tenant.requests.acquire().await;
        let _place = place.map_err(|error| Problem::internal(&error))?;
        if fleet.blob_size(&tenant.name, tree).await?.is_none() {
            return Err(no_tree(tree));
        }
        let contents = self.fetch_tree(fleet, tenant, tree).await?;
        self.require_fleet_blobs(fleet, tenant, &contents.files).await
    }

    /// Refuses files that have to be uploaded to the fleet first, or have too many bytes in total.
    pub(super) async fn require_fleet_blobs(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        files: &BTreeMap<String, FileSource>,
    ) -> Answered<()> {
        let (mut missing, mut sizes) = (Vec::new(), BTreeMap::new());
        for digest in digests(files) {
            match fleet.blob_size(&tenant.name, digest).await? {
                Some(size) => {
                    sizes.insert(digest, size);
                }
                None => missing.push(digest.to_owned()),
            }
        }
        blobs_fit(files, &sizes, missing, self.options.bounds.workspace)
    }

    /// Copies a tree from the fleet to this disk, unless it is there, and returns what it contains. Does not
    /// check whether its blobs are stored. Finds a tree that an accepted run names even if it is too old for new ones.
    pub(super) async fn fetch_tree(
        self: &Arc<Self>,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        digest: &str,
    ) -> Answered<Contents<'static>> {
        require_digest(digest)?;
        let most = self.options.bounds.body as u64;
        if fleet.blob_size(&tenant.name, digest).await?.is_some_and(|size| size > most) {
            return Err(tree_too_large(most));
        }
        if !self.fetch_blob(fleet, tenant, digest).await? {
            return Err(no_tree(digest));
        }
        let (api, of, digest) = (self.clone(), tenant.clone(), digest.to_owned());
        blocking(move || {
            let contents = Contents::from(&api.tree(&of, &digest)?);
            api.check_files(&contents.files)?;
            Ok(contents)
        })
        .await
    }
}

/// Parses a tree that comes from a client. `files`: the most files of a run.
fn parse_tree(text: &[u8], files: usize) -> Answered<Tree> {
    let tree: Tree = serde_json::from_slice(text)
        .map_err(|error| Problem::invalid(format!("the tree: {error}")))?;
    let most = 2 * files;
    if tree.entries.len() > most {
        return Err(Problem::invalid(format!("a tree may have {most} entries")));
    }
    for (path, entry) in &tree.entries {
        let is_valid = match entry {
            FileState::Folder => true,
            FileState::File { digest, .. } => hex_of(digest).is_some(),
            FileState::Link { target } => {
                !target.is_empty() && target.len() <= TARGET && !target.contains('\0')
            }
        };
        if !is_valid || !is_inside(path) {
            let detail = "a tree has relative paths without `.` and `..`, digests of blobs, and targets of symlinks";
            return Err(Problem::invalid(detail));
        }
        if !matches!(entry, FileState::Folder) && has_below(&tree.entries, path) {
            return Err(both_kinds(path));
        }
    }
    check_folders(tree.entries.keys(), files)?;
    Ok(tree)
}

/// Checks whether there are paths below a path.
pub(super) fn has_below<T>(entries: &BTreeMap<String, T>, path: &str) -> bool {
    let below = format!("{path}/");
    entries.range(below.clone()..).next().is_some_and(|(path, _)| path.starts_with(&below))
}

/// Refuses files whose blobs have to be uploaded first, or have more than `most` bytes in total, and
/// keeps the others from expiring.
fn require_blobs(tenant: &Tenant, files: &BTreeMap<String, FileSource>, most: u64) -> Answered<()> {
    let (mut missing, mut sizes) = (Vec::new(), BTreeMap::new());
    for digest in digests(files) {
        let found = tenant.state.store.use_blob(digest, now());
        match found.map_err(|error| Problem::internal(&error))? {
            Some(size) => {
                sizes.insert(digest, size);
            }
            None => missing.push(digest.to_owned()),
        }
    }
    blobs_fit(files, &sizes, missing, most)
}

/// Returns the digests of the blobs that files name, each once.
pub(super) fn digests(files: &BTreeMap<String, FileSource>) -> BTreeSet<&str> {
    files.values().filter_map(|file| file.digest.as_deref()).collect()
}

/// Refuses files whose blobs are missing, or that have more than `most` bytes in total.
fn blobs_fit(
    files: &BTreeMap<String, FileSource>,
    sizes: &BTreeMap<&str, u64>,
    missing: Vec<String>,
    most: u64,
) -> Answered<()> {
    if !missing.is_empty() {
        let detail = "upload the files with these digests: PUT /v1/blobs/DIGEST";
        return Err(Problem { missing, ..Problem::new(ProblemCode::BlobsMissing, detail) });
    }
    // A blob is written as often as it is named.
    let sizes_of = files.values().map(|file| match (&file.content, &file.digest) {
        (Some(content), _) => content.0.len() as u64,
        (None, Some(digest)) => sizes.get(digest.as_str()).copied().unwrap_or(0),
        (None, None) => 0,
    });
    if sizes_of.fold(0, u64::saturating_add) > most {
        let detail = format!("the files of a workspace may have {most} bytes in total");
        return Err(Problem::invalid(detail));
    }
    Ok(())
}

/// Checks that files need few folders, each of which costs the disk as much as a small file.
fn check_folders<'a>(paths: impl Iterator<Item = &'a String>, files: usize) -> Answered<()> {
    let most = 2 * files;
    match count_folders(paths, most) > most {
        true => Err(Problem::invalid(format!("the files may be in at most {most} folders"))),
        false => Ok(()),
    }
}

fn require_digest(digest: &str) -> Answered<()> {
    match hex_of(digest) {
        Some(_) => Ok(()),
        None => Err(Problem::invalid("a digest is `sha256:` and 64 lower-case hex digits")),
    }
}

fn no_tree(digest: &str) -> Problem {
    let missing = vec![digest.to_owned()];
    let detail = "upload the tree first: PUT /v1/blobs/DIGEST";
    Problem { missing, ..Problem::new(ProblemCode::BlobsMissing, detail) }
}

fn tree_too_large(most: u64) -> Problem {
    Problem::invalid(format!("a tree may have {most} bytes"))
}

fn both_kinds(path: &str) -> Problem {
    Problem::invalid(format!("`{path}` is a file or symlink, so no other path can be below it"))
}
