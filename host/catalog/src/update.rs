//! Keeps the cache up to date: returns what it knows about a source, and reads changed skills
//! again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use super::cache::CacheError;
use super::tier1::{self, Facts, Text};
use super::{CatalogError, Source, SourceKind};
use skillhost_skill::files::FileIdentity;
use skillhost_skill::scan::{self, FollowLinks, FoundSkill, Scan, ScanBounds};

/// Limits of a source. The search ends early in a tree that is not a collection of skills, and no
/// collection reaches the limits.
const BOUNDS: ScanBounds = ScanBounds {
    depth: 6,
    folders: 2_000,
    skills: 20_000,
    entries: 1_000_000,
    single_files: true,
    links: FollowLinks::All,
};
/// How many skills may be read before they are written.
const AHEAD: usize = 64;

/// What the cache knows about one source.
#[derive(Default)]
pub(super) struct CachedSource {
    /// The id and version of its row. If both are equal, so is the content.
    pub(super) generation: Option<(i64, i64)>,
    pub(super) skills: Vec<Row>,
    pub(super) left_out: Vec<String>,
}

/// A skill in the cache.
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) path: PathBuf,
    pub(super) facts: Result<Facts, String>,
}

/// Returns the current skills of a source. Reads those that have changed since the cache was
/// written.
pub(super) fn source(db: &mut Connection, source: &Source) -> Result<CachedSource, CacheError> {
    if let Some(known) = known(db, source, true)? {
        return Ok(known);
    }
    let bounds = ScanBounds { links: links(source.kind), ..BOUNDS };
    match scan::scan(&source.folder, &bounds) {
        Ok(found) => {
            write(db, source, &found)?;
            Ok(known(db, source, false)?.unwrap_or_default())
        }
        Err(error) if source.kind == SourceKind::Flag => {
            Err(CatalogError::Folder { folder: source.folder.clone(), error }.into())
        }
        // A standard folder that does not exist, or no longer does.
        Err(_) => {
            forget(db, |folder, _| folder == source.folder)?;
            Ok(CachedSource::default())
        }
    }
}

/// Checks whether a source is still at this version. Reads only the stamps of files.
pub(super) fn is_current(
    db: &Connection,
    source: &Source,
    generation: Option<(i64, i64)>,
) -> Result<bool, CacheError> {
    let (row, root) = (row(db, source)?, folder(&source.folder));
    let (Some((id, now, _)), Some(root)) = (&row, &root) else {
        return Ok(row.is_none() && root.is_none() && generation.is_none());
    };
    Ok(generation == Some((*id, *now)) && are_searched(db, *id, root)? && {
        let mut skills =
            db.prepare_cached("SELECT path, file, stamp, flags FROM skill WHERE source = ?1")?;
        let mut rows = skills.query([id])?;
        let mut same = true;
        while let Some(row) = rows.next()?.filter(|_| same) {
            let (path, file, stamp) = (
                path_of(row.get_ref(0)?.as_blob()?),
                row.get_ref(1)?.as_str()?,
                row.get_ref(2)?.as_blob()?,
            );
            same = stamp_of(root, path, file, tier1::has_scripts(row.get(3)?)).as_slice() == stamp;
        }
        same
    })
}

/// Links in a project may not lead out of it, since the project's author must not choose what else
/// is read.
fn links(kind: SourceKind) -> FollowLinks {
    if kind == SourceKind::Project { FollowLinks::Inside } else { FollowLinks::All }
}

fn row(db: &Connection, source: &Source) -> Result<Option<(i64, i64, String)>, CacheError> {
    let mut row = db.prepare_cached(
        "SELECT id, generation, left_out FROM source WHERE folder = ?1 AND links = ?2",
    )?;
    let all = links(source.kind) == FollowLinks::All;
    Ok(row
        .query_row(params![bytes(&source.folder), all], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?)
}

/// Returns what the cache knows about a source; `None` if it knows nothing or, with `check`, if
/// something has changed.
fn known(
    db: &Connection,
    source: &Source,
    check: bool,
) -> Result<Option<CachedSource>, CacheError> {
    let (Some((id, generation, left_out)), Some(root)) = (row(db, source)?, folder(&source.folder))
    else {
        return Ok(None);
    };
    if check && !are_searched(db, id, &root)? {
        return Ok(None);
    }
    let columns = "SELECT path, file, stamp, flags, id, digest, tags, description, hint, broken FROM skill WHERE source = ?1";
    let (mut select, mut skills) = (db.prepare_cached(columns)?, Vec::new());
    let mut rows = select.query([id])?;
    while let Some(row) = rows.next()? {
        let (path, file, flags) =
            (path_of(row.get_ref(0)?.as_blob()?), row.get_ref(1)?.as_str()?, row.get(3)?);
        if check
            && stamp_of(&root, path, file, tier1::has_scripts(flags)).as_slice()
                != row.get_ref(2)?.as_blob()?
        {
            return Ok(None);
        }
        let facts = match row.get_ref(9)?.as_str_or_null()? {
            Some(why) => Err(why.to_owned()),
            None => Ok(Facts {
                skill_file: file.into(),
                flags,
                digest: row.get_ref(5)?.as_str()?.into(),
                tags: row.get_ref(6)?.as_str()?.lines().map(Box::from).collect(),
                description: row.get_ref(7)?.as_str()?.into(),
                argument_hint: row.get_ref(8)?.as_str()?.into(),
            }),
        };
        skills.push(Row { id: row.get(4)?, path: path.to_owned(), facts });
    }
    skills.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Some(CachedSource {
        generation: Some((id, generation)),
        skills,
        left_out: left_out.lines().map(str::to_owned).collect(),
    }))
}

/// Checks whether the folders between the source and its skills are unchanged.
fn are_searched(db: &Connection, source: i64, root: &OwnedFd) -> Result<bool, CacheError> {
    let mut searched = db.prepare_cached("SELECT path, stamp FROM searched WHERE source = ?1")?;
    let mut rows = searched.query([source])?;
    while let Some(row) = rows.next()? {
        let (path, stamp) = (path_of(row.get_ref(0)?.as_blob()?), row.get_ref(1)?.as_blob()?);
        if stat(root, path).is_none_or(|now| FileIdentity::of_stat(&now).bytes() != stamp) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the result of a scan to the cache. Entries with the same stamp stay.
fn write(db: &mut Connection, source: &Source, scan: &Scan) -> Result<(), CacheError> {
    let Some(root) = folder(&source.folder) else { return Ok(()) };
    let work = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let id: i64 = work.query_row(
        "INSERT INTO source (folder, links, generation, left_out) VALUES (?1, ?2, 1, ?3)
         ON CONFLICT DO UPDATE SET generation = generation + 1, left_out = ?3 RETURNING id",
        params![
            bytes(&source.folder),
            links(source.kind) == FollowLinks::All,
            scan.skipped.join("\n")
        ],
        |row| row.get(0),
    )?;
    work.execute("DELETE FROM searched WHERE source = ?1", [id])?;
    for (path, identity) in &scan.searched {
        work.prepare_cached("INSERT INTO searched VALUES (?1, ?2, ?3)")?.execute(params![
            id,
            bytes(path),
            identity.bytes()
        ])?;
    }
    let mut before: HashMap<PathBuf, (i64, Vec<u8>)> = HashMap::new();
    {
        let mut select = work.prepare("SELECT path, id, stamp FROM skill WHERE source = ?1")?;
        let mut rows = select.query([id])?;
        while let Some(row) = rows.next()? {
            before
                .insert(path_of(row.get_ref(0)?.as_blob()?).to_owned(), (row.get(1)?, row.get(2)?));
        }
    }
    let mut changed = Vec::new();
    for found in &scan.skills {
        let stamp = before_reading(&root, found);
        match before.remove(&found.path) {
            Some((_, known)) if known == stamp => {}
            known => changed.push((found, stamp, known.map(|(row, _)| row))),
        }
    }
    for (row, _) in before.into_values() {
        remove(&work, row)?;
    }
    read_all(&changed, &source.folder, |at, read| {
        let (found, stamp, row) = &changed[at];
        if let Some(row) = row {
            remove(&work, *row)?;
        }
        insert(&work, id, found, stamp, read)
    })?;
    work.commit()?;
    forget(db, |folder, _| !folder.exists())
}

/// Reads skills on all processors, and passes them on one by one.
fn read_all(
    skills: &[(&FoundSkill, Vec<u8>, Option<i64>)],
    source: &Path,
    mut take: impl FnMut(usize, Result<(Facts, Text), String>) -> Result<(), CacheError>,
) -> Result<(), CacheError> {
    let next = AtomicUsize::new(0);
    let threads =
        std::thread::available_parallelism().map_or(1, usize::from).min(4).min(skills.len());
    let (send, receive) = mpsc::sync_channel(AHEAD);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some((at, (found, ..))) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|at| Some((at, skills.get(at)?)))
                {
                    // The receiver has given up.
                    if send.send((at, tier1::read(found, source))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        receive.into_iter().try_for_each(|(at, read)| take(at, read))
    })
}

fn insert(
    work: &Transaction<'_>,
    source: i64,
    found: &FoundSkill,
    stamp: &[u8],
    read: Result<(Facts, Text), String>,
) -> Result<(), CacheError> {
    let mut skill = work.prepare_cached(
        "INSERT INTO skill (source, path, file, stamp, flags, digest, tags, description, hint, broken) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let (facts, text) = match read {
        Ok(read) => read,
        Err(why) => {
            let flags = tier1::flags_of_broken(found);
            skill.execute(params![
                source,
                bytes(&found.path),
                found.skill_file,
                stamp,
                flags,
                "",
                "",
                "",
                "",
                why
            ])?;
            return Ok(());
        }
    };
    let tags = facts.tags.join("\n");
    let nothing = None::<&str>;
    skill.execute(params![
        source,
        bytes(&found.path),
        found.skill_file,
        stamp,
        facts.flags,
        facts.digest.as_ref(),
        tags,
        facts.description.as_ref(),
        facts.argument_hint.as_ref(),
        nothing
    ])?;
    let id = work.last_insert_rowid();
    let mut words = work.prepare_cached(
        "INSERT INTO words (rowid, name, description, keywords, body) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    words.execute(params![id, text.name, facts.description.as_ref(), text.keywords, text.body])?;
    let mut word = work.prepare_cached("INSERT OR IGNORE INTO word VALUES (?1)")?;
    for part in [&*text.name, &*facts.description, &*text.keywords] {
        for one in super::search::words(part).filter(|word| word.len() > 2) {
            word.execute([one])?;
        }
    }
    Ok(())
}

fn remove(work: &Transaction<'_>, row: i64) -> Result<(), CacheError> {
    work.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([row])?;
    work.prepare_cached("DELETE FROM skill WHERE id = ?1")?.execute([row])?;
    Ok(())
}

/// Removes sources and everything in them.
fn forget(db: &mut Connection, gone: impl Fn(&Path, i64) -> bool) -> Result<(), CacheError> {
    let find = |db: &Connection| -> Result<Vec<i64>, CacheError> {
        let mut select = db.prepare_cached("SELECT id, folder FROM source")?;
        let rows =
            select.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
        let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
        Ok(rows
            .into_iter()
            .filter(|(id, folder)| gone(path_of(folder), *id))
            .map(|(id, _)| id)
            .collect())
    };
    if find(db)?.is_empty() {
        return Ok(());
    }
    let work = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for source in find(&work)? {
        work.execute(
            "DELETE FROM words WHERE rowid IN (SELECT id FROM skill WHERE source = ?1)",
            [source],
        )?;
        work.execute("DELETE FROM skill WHERE source = ?1", [source])?;
        work.execute("DELETE FROM searched WHERE source = ?1", [source])?;
        work.execute("DELETE FROM source WHERE id = ?1", [source])?;
    }
    Ok(work.commit()?)
}

fn folder(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn stat(root: &impl AsFd, path: &Path) -> Option<Stat> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    rustix::fs::statat(root, path, AtFlags::empty()).ok()
}

/// Returns a stamp that changes when a skill's SKILL.md, folder or scripts change.
fn stamp_of(root: &OwnedFd, path: &Path, file: &str, scripts: bool) -> Vec<u8> {
    let identity = stat(root, path).map(|found| FileIdentity::of_stat(&found)).unwrap_or_default();
    stamp(root, path, file, scripts, identity)
}

/// Returns the stamp of a skill to be read, with the folder as the scan found it: it may have
/// changed since.
fn before_reading(root: &OwnedFd, found: &FoundSkill) -> Vec<u8> {
    stamp(root, &found.path, &found.skill_file, tier1::holds_scripts(found), found.identity)
}

fn stamp(root: &OwnedFd, path: &Path, file: &str, scripts: bool, folder: FileIdentity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(144);
    bytes.extend(folder.bytes());
    for name in [Some(file), scripts.then_some("scripts")].into_iter().flatten() {
        bytes.extend(
            stat(root, &path.join(name))
                .map(|found| FileIdentity::of_stat(&found))
                .unwrap_or_default()
                .bytes(),
        );
    }
    bytes
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
