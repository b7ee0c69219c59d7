//! `skillhost cache`: show what the cache holds, remove it, and compile runtimes ahead.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, OpenOptions};
use clap::{Subcommand, ValueEnum};
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use skillhost_catalog as catalog;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;
use skillhost_skill::extent::Extent;
use skillhost_skill::runtime::cache_content::{self, CacheEntry, EntryKind};
use skillhost_skill::runtime::stamp;
use skillhost_sources::project::Project;
use skillhost_sources::store::Collected;

use crate::args::RuntimesArg;
use crate::commands::runtimes;
use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::{output, temp_files};

/// Show what the cache holds, remove it, and compile runtimes ahead of their first use
///
/// Everything in the cache can be made again: a removed entry costs only the time of the next run
/// that needs it. Runs that use an entry keep it until they end.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost cache list
  skillhost cache list --json | jq -r '.kinds[] | \"\\(.kind) \\(.bytes)\"'
  skillhost cache clear --kind copies --kind scripts
  skillhost cache clear
  skillhost cache warm")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List what the cache holds, by kind, with sizes and the time of the last use
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove everything, or only some kinds, and keep what other processes use at the moment
    Clear {
        /// Remove only this kind (repeatable)
        #[arg(long = "kind", value_enum, value_name = "KIND")]
        kinds: Vec<Kind>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Compile every runtime that the cache lacks, as `skillhost runtimes compile` does
    Warm {
        #[command(flatten)]
        runtimes: RuntimesArg,
    },
}

/// What entries of the cache are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Compiled code of the runtimes
    Runtimes,
    /// Compiled code of skills' components
    Components,
    /// Compiled code of scripts, and what is known about scripts and packages
    Scripts,
    /// Copies of skills that run
    Copies,
    /// The index of the catalogue
    Catalogue,
    /// What `skillhost build` keeps: the SDK, and cargo's target folder
    Builds,
    /// Files of fetched skills that are no longer in any lock file
    Fetched,
    /// What killed hosts have left, and what this version does not know
    Other,
}

impl Kind {
    fn of(kind: EntryKind) -> Kind {
        match kind {
            EntryKind::Runtime => Kind::Runtimes,
            EntryKind::Component => Kind::Components,
            EntryKind::Script => Kind::Scripts,
            EntryKind::Copy => Kind::Copies,
            EntryKind::Temporary | EntryKind::Unknown => Kind::Other,
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    folder: PathBuf,
    /// Bytes that the cache holds, or that were removed.
    bytes: u64,
    kinds: Vec<Row>,
    /// Symlinks in the cache folder, which are not followed.
    links: Vec<String>,
    /// What was not removed, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<Vec<Kept>>,
}

#[derive(Debug, Serialize)]
struct Row {
    kind: Kind,
    files: u64,
    bytes: u64,
    last_used: Option<String>,
}

#[derive(Debug, Serialize)]
struct Kept {
    name: String,
    why: String,
}

pub(crate) fn main(args: Args) -> Result<Exit, CliError> {
    let (kinds, json) = match args.action {
        Action::Warm { runtimes } => return runtimes::compile(runtimes),
        Action::List { json } => (None, json),
        Action::Clear { kinds, json } if kinds.is_empty() => {
            (Some(Kind::value_variants().to_vec()), json)
        }
        Action::Clear { kinds, json } => (Some(kinds), json),
    };
    let places = Places::find()?;
    let cache = Cache::open(places.cache)?;
    let report = match &kinds {
        None => cache.list()?,
        Some(kinds) => {
            let mut report = cache.clear(kinds)?;
            if kinds.contains(&Kind::Fetched) {
                collect(&places.state, &mut report)?;
            }
            report
        }
    };
    if json {
        output::json(&report)?;
    } else {
        show(&report)?;
    }
    Ok(Exit::Ok)
}

/// Removes the stored files that no lock file names. They are in the state folder.
fn collect(state: &Path, report: &mut Report) -> Result<(), CliError> {
    if !state.join("sources").exists() {
        return Ok(());
    }
    let Some(Collected { files, bytes, .. }) = Project::collect(state)? else {
        let (name, why) = (
            "fetched skills".to_owned(),
            "a server uses them, or a command fetches some".to_owned(),
        );
        report.kept.get_or_insert_default().push(Kept { name, why });
        return Ok(());
    };
    report.bytes += bytes;
    if let Some(row) = report.kinds.iter_mut().find(|row| row.kind == Kind::Fetched) {
        row.files += files;
        row.bytes += bytes;
    }
    Ok(())
}

fn show(report: &Report) -> Result<(), CliError> {
    let folder = printable(&report.folder.display().to_string());
    let rows = report.kinds.iter().filter(|row| row.files > 0).map(|row| {
        let used = row.last_used.as_deref().map(output::seconds).unwrap_or_default();
        [row.kind.to_string(), row.files.to_string(), show_size(row.bytes), used]
    });
    let rows: Vec<_> = rows.collect();
    match (&report.kept, rows.is_empty()) {
        (None, true) => output::text(&format!("the cache {folder} is empty"))?,
        (None, false) => {
            let table = output::table(["kind", "files", "size", "last use"], rows, 1..3);
            output::text(&format!("{table}\n\n{} in {folder}", show_size(report.bytes)))?;
        }
        (Some(_), _) => {
            let files: u64 = report.kinds.iter().map(|row| row.files).sum();
            let count = output::count(files, "file");
            output::text(&format!("removed {count}, {}", show_size(report.bytes)))?;
        }
    }
    for Kept { name, why } in report.kept.iter().flatten() {
        output::warning(&format!("{} was not removed: {why}", printable(name)), None);
    }
    for link in &report.links {
        let message = format!("{} is a symlink, which is not followed", printable(link));
        output::warning(&message, Some("name the folder that it leads to in $XDG_CACHE_HOME"));
    }
    Ok(())
}

/// The cache folder.
struct Cache {
    path: PathBuf,
    /// `None` if it does not exist.
    dir: Option<Dir>,
}

/// The folder of compiled components and copies.
const COMPONENTS: &str = "components";
/// What `skillhost build` keeps, and the file that it holds locked meanwhile.
const BUILDS: [&str; 2] = ["sdk", "target"];
const BUILD_LOCK: &str = "target.lock";

impl Cache {
    fn open(path: PathBuf) -> Result<Cache, CliError> {
        let dir = stamp::open_existing_cache_folder(&path)
            .map_err(|error| CliError::io(format_args!("open {}", path.display()), error))?;
        Ok(Cache { path, dir })
    }

    fn failed(&self, error: impl Display) -> CliError {
        CliError::io(format_args!("read the cache {}", self.path.display()), error)
    }

    fn list(&self) -> Result<Report, CliError> {
        let items = self.items()?;
        Ok(self.report(items.iter().map(|item| (item.kind, item.extent)), None))
    }

    fn clear(&self, kinds: &[Kind]) -> Result<Report, CliError> {
        let (mut removed, mut kept) = (Vec::new(), Vec::new());
        let items: Vec<Item> =
            self.items()?.into_iter().filter(|item| kinds.contains(&item.kind)).collect();
        // Held until everything is removed. It waits for no build.
        let has_builds = items.iter().any(|item| item.kind == Kind::Builds);
        let builds = has_builds.then(|| self.lock_builds()).flatten();
        for item in items {
            let Some(dir) = &self.dir else { break };
            let result = match (&item.entry, item.kind) {
                (Some((components, entry)), _) => cache_content::remove(components, entry),
                (None, Kind::Builds) if builds.is_none() => {
                    Err(io::Error::new(io::ErrorKind::ResourceBusy, "a build uses it"))
                }
                (None, Kind::Catalogue) => catalog::clear_cache(&self.path),
                (None, _) => remove(dir, &item.name),
            };
            match result {
                Ok(()) => removed.push((item.kind, item.extent)),
                Err(error) => kept.push(Kept { name: item.name, why: error.to_string() }),
            }
        }
        Ok(self.report(removed.into_iter(), Some(kept)))
    }

    /// Takes the lock of builds if no build holds it.
    fn lock_builds(&self) -> Option<std::fs::File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = self.dir.as_ref()?.open_with(BUILD_LOCK, &options).ok()?.into_std();
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(file)
    }

    fn items(&self) -> Result<Vec<Item>, CliError> {
        let mut items = Vec::new();
        let Some(dir) = &self.dir else { return Ok(items) };
        for name in self.names()? {
            let is_link = dir.symlink_metadata(&name).is_ok_and(|found| found.is_symlink());
            let kind = match name.as_str() {
                _ if is_link => continue,
                // They are empty, and hosts need them.
                BUILD_LOCK | temp_files::STAMP => continue,
                COMPONENTS => {
                    let components = dir.open_dir(&name).map_err(|error| self.failed(error))?;
                    items.extend(Item::in_components(components).map_err(|e| self.failed(e))?);
                    continue;
                }
                name if catalog::CACHE_FILES.contains(&name) => Kind::Catalogue,
                name if BUILDS.contains(&name) => Kind::Builds,
                _ => Kind::Other,
            };
            // Another process may have removed it.
            let Ok(extent) = Extent::of(dir, &name) else { continue };
            items.push(Item { kind, name, extent, entry: None });
        }
        Ok(items)
    }

    /// The names in the folder, sorted.
    fn names(&self) -> Result<Vec<String>, CliError> {
        let Some(dir) = &self.dir else { return Ok(Vec::new()) };
        let entries = dir.entries().map_err(|error| self.failed(error))?.flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    fn report(
        &self,
        items: impl Iterator<Item = (Kind, Extent)>,
        kept: Option<Vec<Kept>>,
    ) -> Report {
        let items: Vec<_> = items.collect();
        let kinds = Kind::value_variants().iter().map(|kind| {
            let mut all = Extent::default();
            items.iter().filter(|(of, _)| of == kind).for_each(|(_, extent)| all.add(*extent));
            let last_used = all.last_used.and_then(|time| Timestamp::try_from(time).ok());
            let last_used = last_used.map(|time| time.to_string());
            Row { kind: *kind, files: all.files, bytes: all.bytes, last_used }
        });
        let kinds: Vec<Row> = kinds.collect();
        let is_link = |name: &String| {
            let found = self.dir.as_ref().and_then(|dir| dir.symlink_metadata(name).ok());
            found.is_some_and(|found| found.is_symlink())
        };
        Report {
            folder: self.path.clone(),
            bytes: kinds.iter().map(|row| row.bytes).sum(),
            kinds,
            links: self.names().unwrap_or_default().into_iter().filter(is_link).collect(),
            kept,
        }
    }
}

/// Something that can be removed from the cache.
struct Item {
    kind: Kind,
    /// The path in the cache folder.
    name: String,
    extent: Extent,
    /// The entry of the folder of components that it is.
    entry: Option<(Arc<Dir>, CacheEntry)>,
}

impl Item {
    fn in_components(components: Dir) -> io::Result<Vec<Item>> {
        let components = Arc::new(components);
        let entries = cache_content::list(&components)?.into_iter().map(|entry| Item {
            kind: Kind::of(entry.kind),
            name: format!("{COMPONENTS}/{}", entry.name),
            extent: entry.extent,
            entry: Some((components.clone(), entry)),
        });
        Ok(entries.collect())
    }
}

/// Removes a file or folder, without following symlinks.
fn remove(dir: &Dir, name: &str) -> io::Result<()> {
    let found = match dir.symlink_metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.is_dir() { dir.remove_dir_all(name) } else { dir.remove_file(name) }
}
