//! Takes files and skills. Each belongs to the tenant that uploads it: the same bytes of another tenant
//! are stored again, so that neither an answer nor its time tells what others have.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;

use super::body;
use super::logs::too_many;
use super::problem::{Problem, ProblemCode};
use super::quotas::storage_quota;
use super::state::{Finished, Upload, hex_of, is_inside, now};
use super::tenant::Tenant;
use super::types::{BlobInfo, SkillInfo, SkillUpload};
use super::{Answered, ApiShared};
use skillhost_policy::manifest;
use skillhost_skill::private::{Purpose, TempFolder};
use skillhost_skill::{SizeLimits, Skill, SkillFolder, SourceKind};
use skillhost_sources::archive;
use skillhost_sources::limits::TransferLimits;
use skillhost_sources::skills;

/// The content types of archives. The first bytes decide the format.
const ARCHIVES: [&str; 4] =
    ["application/gzip", "application/zip", "application/zstd", "application/x-tar"];

/// The least bytes of an upload in a second, once it has lasted as long as a body may take to begin.
const RATE: u64 = 1 << 10;

/// The bytes of a skill's files, by path, and whether each is executable.
pub(super) type SkillFiles = BTreeMap<String, (Vec<u8>, bool)>;

/// Bytes that count as stored until this value is dropped, and then as received.
pub(super) struct IncomingBytes<'a> {
    tenant: &'a Arc<Tenant>,
    bytes: u64,
    uncharged: u64,
}

impl ApiShared {
    /// Stores a blob, if its content has this digest.
    pub(super) async fn put_blob(
        &self,
        tenant: &Arc<Tenant>,
        digest: &str,
        head: &Parts,
        body: Incoming,
    ) -> Answered<BlobInfo> {
        if hex_of(digest).is_none() {
            return Err(Problem::invalid("a digest is `sha256:` and 64 lower-case hex digits"));
        }
        let (upload, _coming) = self.receive(tenant, head, body).await?;
        let bytes = upload.bytes;
        if let Some(fleet) = &self.options.fleet {
            if upload.digest() != digest {
                return Err(other_digest());
            }
            let mut file = upload.reopen().map_err(|error| Problem::internal(&error))?;
            self.share(fleet, tenant, digest, &mut file).await?;
            return Ok(BlobInfo { digest: digest.to_owned(), bytes });
        }
        let storage = tenant.settings().quotas.storage.0;
        // The same for a blob that is there already: its time tells nothing.
        let finish = || {
            let finished = upload.finish(digest, storage, now());
            finished.map_err(|error| Problem::internal(&error))
        };
        match of_tenant(tenant, finish).await? {
            Finished::Stored => Ok(BlobInfo { digest: digest.to_owned(), bytes }),
            Finished::Full => Err(storage_quota(storage)),
            Finished::OtherDigest => Err(other_digest()),
        }
    }

    /// Receives a body into a file, within all bounds and quotas. The second value reserves its bytes.
    pub(super) async fn receive<'t>(
        &self,
        tenant: &'t Arc<Tenant>,
        head: &Parts,
        mut body: Incoming,
    ) -> Answered<(Upload<'t>, IncomingBytes<'t>)> {
        let (settings, bounds) = (tenant.settings(), &self.options.bounds);
        let stored = of_tenant(tenant, || {
            tenant.require_quotas_blocking()?;
            tenant.state.store.stored_bytes().map_err(|error| Problem::internal(&error))
        });
        let stored = stored.await?;
        let declared =
            head.headers.get(CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse().ok());
        if declared.is_some_and(|bytes: u64| bytes > bounds.blob) {
            return Err(body::too_large(bounds.blob));
        }
        let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
        let storage = settings.local_storage;
        let mut coming = IncomingBytes { tenant, bytes: 0, uncharged: 0 };
        let mut upload = tenant.state.upload().map_err(|error| internal(&error))?;
        let began = Instant::now();
        loop {
            let left = bounds.upload.saturating_sub(began.elapsed());
            let within = bounds.body_within.min(left);
            let frame = tokio::time::timeout(within, body.frame()).await;
            let Some(frame) = frame.map_err(|_| too_slow(bounds.upload))? else {
                coming.charge().await;
                return Ok((upload, coming));
            };
            let spent = began.elapsed();
            if spent > bounds.body_within && upload.bytes < spent.as_secs() * RATE {
                return Err(too_slow(bounds.upload));
            }
            let frame = frame.map_err(|_| Problem::invalid("the body ended early"))?;
            let Ok(data) = frame.into_data() else { continue };
            if upload.bytes + data.len() as u64 > bounds.blob {
                return Err(body::too_large(bounds.blob));
            }
            if stored.saturating_add(coming.add(data.len() as u64)) > storage {
                return Err(storage_quota(storage));
            }
            upload.write(&data).map_err(|error| internal(&error))?;
        }
    }

    /// Stores a skill: an archive, or a list of blobs.
    pub(super) async fn put_skill(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        head: &Parts,
        body: Incoming,
    ) -> Answered<SkillInfo> {
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let invalid = |detail: String| Problem::new(ProblemCode::SkillInvalid, detail);
        let (name, files) = if kind == "application/json" {
            let (upload, bytes): (SkillUpload, u64) =
                body::json(tenant, body, &self.options.bounds).await?;
            tenant.charge(0, bytes).await;
            self.check_upload(&upload)?;
            if let Some(fleet) = &self.options.fleet {
                for file in upload.files.values() {
                    // One that is missing is reported with all others.
                    self.fetch_blob(fleet, tenant, &file.digest).await?;
                }
            }
            let tenant = tenant.clone();
            blocking(move || from_blobs(&tenant, upload)).await?
        } else if ARCHIVES.contains(&kind) {
            let (upload, _coming) = self.receive(tenant, head, body).await?;
            let (archive, size) =
                (upload.reopen().map_err(|error| Problem::internal(&error))?, upload.bytes);
            let within = tenant.state.folder.clone();
            let files = blocking(move || Ok(unpack(&archive, size, &within))).await?;
            files.map_err(invalid)?
        } else {
            let detail = format!("send application/json, or one of {}", ARCHIVES.join(", "));
            return Err(Problem::new(ProblemCode::UnsupportedMediaType, detail));
        };
        if !manifest::is_name(&name) {
            let detail =
                "the folder of a skill is named with lower-case letters, digits and single hyphens";
            return Err(invalid(detail.into()));
        }
        let Some(fleet) = &self.options.fleet else {
            let (tenant, storage) = (tenant.clone(), tenant.settings().quotas.storage.0);
            return blocking(move || keep(&tenant, &name, &files, storage)).await;
        };
        let (kept, files) = {
            let tenant = tenant.clone();
            blocking(move || Ok((keep(&tenant, &name, &files, u64::MAX)?, files))).await?
        };
        self.share_skill(fleet, tenant, &kept, &files).await?;
        Ok(kept)
    }

    fn check_upload(&self, upload: &SkillUpload) -> Answered<()> {
        let most = self.options.bounds.files;
        if upload.files.len() > most {
            return Err(Problem::invalid(format!("at most {most} `files`")));
        }
        for (path, file) in &upload.files {
            if !is_inside(path) || hex_of(&file.digest).is_none() {
                let detail =
                    "`files` has relative paths without `.` and `..`, and digests of blobs";
                return Err(Problem::invalid(detail));
            }
        }
        Ok(())
    }
}

impl IncomingBytes<'_> {
    /// Adds bytes, and returns what all uploads of the tenant have received.
    fn add(&mut self, bytes: u64) -> u64 {
        self.bytes += bytes;
        self.uncharged += bytes;
        self.tenant.uploading.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Counts what was received, so that it counts for the next request.
    async fn charge(&mut self) {
        self.tenant.charge(0, std::mem::take(&mut self.uncharged)).await;
    }
}

impl Drop for IncomingBytes<'_> {
    fn drop(&mut self) {
        self.tenant.uploading.fetch_sub(self.bytes, Ordering::Relaxed);
        // What was received counts also if it was refused, or if the client has gone.
        let (tenant, bytes) = (self.tenant.clone(), self.uncharged);
        if bytes > 0 {
            tokio::task::spawn_blocking(move || tenant.charge_blocking(0, bytes));
        }
    }
}

/// Does work that waits for the disk, off the event loop.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Answered<T> + Send + 'static,
) -> Answered<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(&error))?
}

/// Does work of a request that waits for the disk, and limits how much a tenant has of it at once, so that one
/// that floods the server does not delay others. It is done in place, while other requests leave this thread: on a
/// busy machine, the wake-ups of another thread and then of this one take longer than the work.
pub(super) async fn of_tenant<T>(
    tenant: &Arc<Tenant>,
    work: impl FnOnce() -> Answered<T>,
) -> Answered<T> {
    let _place = task_of(tenant).await?;
    tokio::task::block_in_place(work)
}

/// Like [`of_tenant`], on a thread of lower weight: for a tenant that gives way to others.
pub(super) async fn of_flooding_tenant<T: Send + 'static>(
    api: &ApiShared,
    tenant: &Arc<Tenant>,
    work: impl FnOnce() -> Answered<T> + Send + 'static,
) -> Answered<T> {
    let place = task_of(tenant).await?;
    let work = move || {
        let _place = place;
        work()
    };
    api.threads.spawn_low(work).await.map_err(|error| Problem::internal(&error))?
}

/// Waits until the tenant may have another such task. It counts as a stream meanwhile: it holds a connection.
async fn task_of(tenant: &Arc<Tenant>) -> Answered<OwnedSemaphorePermit> {
    if let Ok(place) = tenant.requests.clone().try_acquire_owned() {
        return Ok(place);
    }
    let _open = tenant.open_stream().ok_or_else(too_many)?;
    let place = tenant.requests.clone().acquire_owned().await;
    place.map_err(|error| Problem::internal(&error))
}

fn other_digest() -> Problem {
    let detail = "send the bytes that the digest in the path was computed from";
    Problem::new(ProblemCode::DigestMismatch, detail)
}

fn too_slow(within: Duration) -> Problem {
    let seconds = within.as_secs();
    let detail = format!("send {RATE} bytes a second or more, and all of it within {seconds} s");
    Problem::new(ProblemCode::BodyTimeout, detail)
}

/// Reads the files of a skill from blobs.
fn from_blobs(tenant: &Tenant, upload: SkillUpload) -> Answered<(String, SkillFiles)> {
    let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
    let (mut files, mut missing, mut left) =
        (SkillFiles::new(), Vec::new(), SizeLimits::default().total);
    for (path, file) in upload.files {
        let size =
            tenant.state.store.use_blob(&file.digest, now()).map_err(|error| internal(&error))?;
        let Some(size) = size else {
            missing.push(file.digest);
            continue;
        };
        left = left.checked_sub(size).ok_or_else(|| {
            let most = SizeLimits::default().total;
            Problem::new(ProblemCode::SkillInvalid, format!("a skill may have {most} bytes"))
        })?;
        let mut bytes = Vec::new();
        let mut blob = tenant.state.blob(&file.digest).map_err(|error| internal(&error))?;
        io::copy(&mut blob, &mut bytes).map_err(|error| internal(&error))?;
        files.insert(path, (bytes, file.executable));
    }
    if !missing.is_empty() {
        let detail = "upload the files with these digests: PUT /v1/blobs/DIGEST";
        return Err(Problem { missing, ..Problem::new(ProblemCode::BlobsMissing, detail) });
    }
    Ok((upload.name, files))
}

/// Unpacks the one skill in an archive. The error is for the client, and names no path of this host.
fn unpack(
    archive: &std::fs::File,
    size: u64,
    within: &Path,
) -> Result<(String, SkillFiles), String> {
    let own = SizeLimits::default();
    let limits = TransferLimits {
        bytes: own.total.saturating_mul(2).max(size),
        entries: 2 * own.files as u64,
        ..TransferLimits::default()
    };
    let hide = |error: &dyn std::fmt::Display| {
        error.to_string().replace(&within.display().to_string(), "the server")
    };
    let staged = archive::unpack(archive, size, within, &limits).map_err(|error| hide(&error))?;
    let found = skills::find(&staged, "");
    let [path] = found.as_slice() else {
        return Err(format!("the archive has {} skills; send one", found.len()));
    };
    let skill = skills::read(&staged, path, &limits).map_err(|error| hide(&error))?;
    let mut files = SkillFiles::new();
    for (path, file) in &skill.files {
        let bytes = staged.read(&file.staged).map_err(|error| hide(&error))?;
        files.insert(path.clone(), (bytes, false));
    }
    Ok((skill.name, files))
}

/// Checks whether files could not be written because of their names, and not because the host failed.
fn is_about_paths(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound,
        PermissionDenied,
    };
    matches!(
        error.kind(),
        // The last one: a path that leads out of the folder.
        AlreadyExists
            | InvalidFilename
            | InvalidInput
            | IsADirectory
            | NotADirectory
            | NotFound
            | PermissionDenied
    )
}

/// Writes a skill to a private folder, checks that it loads, and keeps it.
pub(super) fn keep(
    tenant: &Tenant,
    name: &str,
    files: &SkillFiles,
    storage: u64,
) -> Answered<SkillInfo> {
    use std::os::fd::AsFd as _;
    let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
    let settings = tenant.settings();
    let bytes: u64 = files.values().map(|(bytes, _)| bytes.len() as u64).sum();
    let stored = tenant.state.store.stored_bytes().map_err(|error| internal(&error))?;
    if stored.saturating_add(bytes) > storage {
        return Err(storage_quota(storage));
    }
    let made = TempFolder::new_in(&tenant.state.folder, Purpose::Fetch)
        .map_err(|error| internal(&error))?;
    let write = || -> io::Result<()> {
        let dir = Dir::from_std_file(made.as_fd().try_clone_to_owned()?.into());
        dir.create_dir(name)?;
        let dir = dir.open_dir(name)?;
        for (path, (bytes, executable)) in files {
            let path = Path::new(path);
            if let Some(parent) = path.parent() {
                dir.create_dir_all(parent)?;
            }
            let mode = if *executable { 0o755 } else { 0o644 };
            let options = &mut OpenOptions::new();
            options.write(true).create_new(true).mode(mode);
            dir.open_with(path, options)?.write_all(bytes)?;
        }
        Ok(())
    };
    write().map_err(|error| match is_about_paths(&error) {
        true => {
            let detail = format!("its files cannot be written: {}", error.kind());
            Problem::new(ProblemCode::SkillInvalid, detail)
        }
        false => internal(&error),
    })?;
    let folder = made.path().join(name);
    let hidden = settings.hidden.and(&folder, name);
    let loaded =
        Skill::load_from(SkillFolder::new(&folder, SourceKind::Path), &SizeLimits::default());
    let skill = loaded.map_err(|error| {
        Problem::new(ProblemCode::SkillInvalid, hidden.text(&error.to_string()))
    })?;
    let digest = skill.digest().map_err(|error| internal(&error))?;
    let put = tenant.state.put_skill(made.path(), (&digest, name), (bytes, storage));
    // Moved, or there was one with the same content.
    if folder.symlink_metadata().is_err() {
        made.keep();
    }
    match put.map_err(|error| internal(&error))? {
        true => Ok(SkillInfo { name: name.to_owned(), digest }),
        false => Err(storage_quota(storage)),
    }
}
