//! A repository: its location, references and configuration.
//!
//! Not with gix: gix-ref and gix-config read through std::fs, which this target does not have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bashkit::FileSystem;

use super::commit::Commit;
use super::objects::{Id, Kind, Object, Objects};

pub(super) struct Repository {
    pub(super) fs: Arc<dyn FileSystem>,
    /// The absolute path of `.git`.
    pub(super) folder: PathBuf,
    /// The folder of objects and branches. For a linked work tree, that of the main one.
    pub(super) common: PathBuf,
    /// The root of the work tree, or `None` for a bare repository.
    pub(super) work: Option<PathBuf>,
    /// The working directory of the command.
    pub(super) cwd: PathBuf,
    pub(super) config: Config,
    objects: Objects,
}

/// Keys (`section.sub.key`, in lower case except for the middle part) and values, in the order of
/// the files.
#[derive(Default)]
pub(super) struct Config(pub(super) Vec<(String, String)>);

const NONE: &str = "fatal: not a git repository (or any of the parent directories): .git";

/// The longest chain of symbolic references.
const CHAIN: usize = 10;

impl Repository {
    /// Finds the repository that contains a folder.
    pub(super) async fn find(
        fs: Arc<dyn FileSystem>,
        cwd: &Path,
        home: Option<&str>,
    ) -> Result<Repository, String> {
        for work in cwd.ancestors() {
            let dot = work.join(".git");
            let folder = match fs.stat(&dot).await {
                Ok(stat) if stat.file_type.is_dir() => dot,
                Ok(_) => {
                    let text = text_of(&*fs, &dot).await.unwrap_or_default();
                    let to = text.trim().strip_prefix("gitdir: ").ok_or_else(|| {
                        format!("fatal: invalid gitfile format: {}", dot.display())
                    })?;
                    normalize(&work.join(to))
                }
                Err(_) if is_bare(&*fs, work).await => {
                    return Repository::open(fs, work.to_owned(), None, cwd, home).await;
                }
                Err(_) => continue,
            };
            return Repository::open(fs, folder, Some(work.to_owned()), cwd, home).await;
        }
        Err(NONE.into())
    }

    async fn open(
        fs: Arc<dyn FileSystem>,
        folder: PathBuf,
        work: Option<PathBuf>,
        cwd: &Path,
        home: Option<&str>,
    ) -> Result<Repository, String> {
        let common = match text_of(&*fs, &folder.join("commondir")).await {
            Some(to) => normalize(&folder.join(to.trim())),
            None => folder.clone(),
        };
        if fs.stat(&folder.join("HEAD")).await.is_err() {
            return Err(NONE.into());
        }
        let mut config = Config::default();
        for file in home
            .map(|home| Path::new(home).join(".gitconfig"))
            .into_iter()
            .chain([common.join("config")])
        {
            config.read(&text_of(&*fs, &file).await.unwrap_or_default());
        }
        if config.get("extensions.objectformat").is_some_and(|format| format != "sha1") {
            return Err(
                "fatal: this repository uses SHA-256 object names, which this git does not support"
                    .into(),
            );
        }
        if config.get("extensions.refstorage").is_some_and(|format| format != "files") {
            return Err("fatal: this repository stores references in a reftable, which this git does not support".into());
        }
        let objects = Objects::open(fs.clone(), common.join("objects")).await?;
        Ok(Repository { fs, folder, common, work, cwd: cwd.to_owned(), config, objects })
    }

    pub(super) fn work(&self) -> Result<&Path, String> {
        self.work
            .as_deref()
            .ok_or_else(|| "fatal: this operation must be run in a work tree".into())
    }

    pub(super) async fn object(&mut self, id: Id) -> Result<Arc<Object>, String> {
        self.objects.get(id).await
    }

    pub(super) async fn commit(&mut self, id: Id) -> Result<Commit, String> {
        let object = self.object(id).await?;
        if object.kind != Kind::Commit {
            return Err(format!("fatal: {id} is a {}, not a commit", object.kind.name()));
        }
        Ok(Commit::parse(id, &object.data))
    }

    /// Returns the shortest unambiguous prefix of an object's name, with git's minimum length.
    pub(super) async fn short(&mut self, id: Id) -> String {
        // Of `count` packed objects: half of the number of bits in `count`, rounded up.
        let bits = usize::BITS - self.objects.packed().leading_zeros();
        self.short_from(id, (bits.div_ceil(2) as usize).max(7)).await
    }

    pub(super) async fn short_from(&mut self, id: Id, least: usize) -> String {
        let name = id.to_string();
        let mut length = least.clamp(4, 40);
        while length < 40 && self.objects.beginning(&name[..length]).await.len() > 1 {
            length += 1;
        }
        name[..length].to_owned()
    }

    /// Returns the branch that HEAD names (`refs/heads/main`), or `None` if HEAD names a commit.
    pub(super) async fn head(&self) -> Option<String> {
        let text = text_of(&*self.fs, &self.folder.join("HEAD")).await?;
        text.trim().strip_prefix("ref: ").map(|name| name.trim().to_owned())
    }

    /// Returns the object that a full reference name points to.
    pub(super) async fn reference(&self, name: &str) -> Option<Id> {
        let mut name = name.to_owned();
        if name.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return None;
        }
        for _ in 0..CHAIN {
            let folders = [&self.folder, &self.common];
            let mut text = None;
            for folder in folders {
                if text.is_none() {
                    text = text_of(&*self.fs, &folder.join(&name)).await;
                }
            }
            match text.as_deref().map(str::trim) {
                Some(text) => match text.strip_prefix("ref: ") {
                    Some(next) => name = next.trim().to_owned(),
                    None => return Id::parse(text),
                },
                None => return self.packed().await.get(&name).copied(),
            }
        }
        None
    }

    /// Returns the references below a prefix such as `refs/heads/`, by full name.
    pub(super) async fn references(&self, below: &str) -> Vec<(String, Id)> {
        let packed = self.packed().await;
        let mut names: Vec<String> =
            packed.keys().filter(|name| name.starts_with(below)).cloned().collect();
        let mut folders = vec![below.trim_end_matches('/').to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in self.fs.read_dir(&self.common.join(&folder)).await.unwrap_or_default() {
                let name = format!("{folder}/{}", entry.name);
                if entry.metadata.file_type.is_dir() {
                    folders.push(name)
                } else {
                    names.push(name)
                }
            }
        }
        names.sort();
        names.dedup();
        let mut found = Vec::new();
        for name in names {
            if let Some(id) = self.reference(&name).await {
                found.push((name, id));
            }
        }
        found
    }

    async fn packed(&self) -> BTreeMap<String, Id> {
        let text = text_of(&*self.fs, &self.common.join("packed-refs")).await.unwrap_or_default();
        let lines = text
            .lines()
            .filter(|line| !line.starts_with(['#', '^']))
            .filter_map(|line| line.split_once(' '));
        lines.filter_map(|(id, name)| Some((name.to_owned(), Id::parse(id)?))).collect()
    }

    /// Expands a short name: `main`, `v1`, `origin/main`.
    pub(super) async fn full_name(&self, name: &str) -> Option<String> {
        for form in ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"] {
            let full = format!("{form}{name}");
            if self.reference(&full).await.is_some() {
                return Some(full);
            }
        }
        let remote = format!("refs/remotes/{name}/HEAD");
        self.reference(&remote).await.map(|_| remote)
    }

    /// Returns the upstream of a branch: `refs/remotes/origin/main`.
    pub(super) fn upstream(&self, branch: &str) -> Option<String> {
        let short = branch.strip_prefix("refs/heads/")?;
        let remote = self.config.get(&format!("branch.{short}.remote"))?;
        let merge = self.config.get(&format!("branch.{short}.merge"))?;
        let name = merge.strip_prefix("refs/heads/")?;
        Some(if remote == "." { merge.to_owned() } else { format!("refs/remotes/{remote}/{name}") })
    }

    /// Resolves a revision to an object.
    pub(super) async fn revision(&mut self, text: &str) -> Result<Id, String> {
        let unknown = || {
            format!(
                "fatal: ambiguous argument '{text}': unknown revision or path not in the working tree.\nUse '--' to separate paths from revisions, like this:\n'git <command> [<revision>...] -- [<file>...]'"
            )
        };
        if let Some((revision, path)) =
            text.split_once(':').filter(|(revision, _)| !revision.is_empty())
        {
            let id = Box::pin(self.revision(revision)).await?;
            return self
                .in_tree(id, path)
                .await
                .map_err(|_| format!("fatal: path '{path}' does not exist in '{revision}'"));
        }
        let end = text.find(['~', '^']).or_else(|| text.find("@{")).unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        let mut id = self
            .named(if name.is_empty() { "HEAD" } else { name }, &mut rest)
            .await
            .ok_or_else(unknown)?;
        while let Some(mark) = rest.chars().next() {
            rest = &rest[mark.len_utf8()..];
            if let Some(inside) = rest.strip_prefix('{').filter(|_| mark == '^') {
                let (kind, after) = inside.split_once('}').ok_or_else(unknown)?;
                id = match kind {
                    "" => self.peeled(id, None).await?,
                    "commit" => self.peeled(id, Some(Kind::Commit)).await?,
                    "tree" => self.tree(id).await?,
                    _ => return Err(unknown()),
                };
                rest = after;
                continue;
            }
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let count: usize =
                if digits == 0 { 1 } else { rest[..digits].parse().map_err(|_| unknown())? };
            rest = &rest[digits..];
            id = self.peeled(id, Some(Kind::Commit)).await?;
            match mark {
                '~' => {
                    for _ in 0..count {
                        id = *self.commit(id).await?.parents.first().ok_or_else(unknown)?;
                    }
                }
                '^' if count > 0 => {
                    id = *self.commit(id).await?.parents.get(count - 1).ok_or_else(unknown)?
                }
                '^' => {}
                _ => return Err(unknown()),
            }
        }
        Ok(id)
    }

    async fn named(&mut self, name: &str, rest: &mut &str) -> Option<Id> {
        for form in ["@{u}", "@{upstream}"] {
            if let Some(after) = rest.strip_prefix(form) {
                *rest = after;
                let branch =
                    if name == "HEAD" { self.head().await? } else { format!("refs/heads/{name}") };
                return self.reference(&self.upstream(&branch)?).await;
            }
        }
        let name = if name == "@" { "HEAD" } else { name };
        if let Some(full) = self.full_name(name).await {
            return self.reference(&full).await;
        }
        // The format of `git describe`.
        let hex = name.rsplit_once("-g").map_or(name, |(_, hex)| hex);
        if hex.len() < 4 || hex.len() > 40 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        match self.objects.beginning(&hex.to_ascii_lowercase()).await[..] {
            [id] => Some(id),
            _ => None,
        }
    }

    /// Follows tags to the object that they point to. With a kind, requires an object of that kind.
    pub(super) async fn peeled(&mut self, mut id: Id, kind: Option<Kind>) -> Result<Id, String> {
        for _ in 0..CHAIN {
            let object = self.object(id).await?;
            if object.kind != Kind::Tag {
                let fits = kind.is_none_or(|kind| kind == object.kind);
                return if fits {
                    Ok(id)
                } else {
                    Err(format!("fatal: {id} is a {}", object.kind.name()))
                };
            }
            let line = object.data.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let target = std::str::from_utf8(line)
                .ok()
                .and_then(|line| line.strip_prefix("object "))
                .and_then(Id::parse);
            id = target.ok_or_else(|| format!("fatal: bad tag {id}"))?;
        }
        Err(format!("fatal: bad tag {id}"))
    }

    /// Returns the tree of a commit, tag or tree.
    pub(super) async fn tree(&mut self, id: Id) -> Result<Id, String> {
        let id = self.peeled(id, None).await?;
        match self.object(id).await?.kind {
            Kind::Commit => Ok(self.commit(id).await?.tree),
            _ => Ok(id),
        }
    }

    async fn in_tree(&mut self, id: Id, path: &str) -> Result<Id, String> {
        let mut at = self.tree(id).await?;
        for part in path.trim_start_matches("./").split('/').filter(|part| !part.is_empty()) {
            let object = self.object(at).await?;
            let entry = super::trees::entries(&object.data)
                .into_iter()
                .find(|entry| entry.name == part.as_bytes());
            at = entry.ok_or("")?.id;
        }
        Ok(at)
    }
}

impl Config {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let key = Config::key(key);
        self.0.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| value.as_str())
    }

    /// Converts section and last part to lower case.
    pub(super) fn key(key: &str) -> String {
        match (key.find('.'), key.rfind('.')) {
            (Some(first), Some(last)) => {
                format!(
                    "{}{}{}",
                    key[..first].to_ascii_lowercase(),
                    &key[first..last],
                    key[last..].to_ascii_lowercase()
                )
            }
            _ => key.to_ascii_lowercase(),
        }
    }

    fn read(&mut self, text: &str) {
        let (mut section, text) = (String::new(), text.replace("\\\n", ""));
        for line in text.lines().map(str::trim) {
            if let Some(head) = line.strip_prefix('[') {
                let head = head.split(']').next().unwrap_or_default();
                section = match head.split_once('"') {
                    Some((name, sub)) => {
                        format!(
                            "{}.{}",
                            name.trim().to_ascii_lowercase(),
                            sub.trim_end_matches('"').replace("\\\"", "\"")
                        )
                    }
                    None => head.trim().to_ascii_lowercase(),
                };
            } else if !line.is_empty() && !line.starts_with(['#', ';']) {
                let (key, value) = line.split_once('=').unwrap_or((line, "true"));
                self.0.push((
                    format!("{section}.{}", key.trim().to_ascii_lowercase()),
                    plain(value.trim()),
                ));
            }
        }
    }
}

/// Removes quotes, escapes and comments from a value.
fn plain(value: &str) -> String {
    let (mut out, mut quoted, mut kept) = (String::new(), false, 0);
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => {}
            },
            '#' | ';' if !quoted => break,
            c => out.push(c),
        }
        if quoted || !c.is_whitespace() {
            kept = out.len();
        }
    }
    out.truncate(kept);
    out
}

async fn is_bare(fs: &dyn FileSystem, folder: &Path) -> bool {
    for name in ["HEAD", "objects", "refs"] {
        if fs.stat(&folder.join(name)).await.is_err() {
            return false;
        }
    }
    true
}

pub(super) async fn text_of(fs: &dyn FileSystem, path: &Path) -> Option<String> {
    fs.read_file(path).await.ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Resolves `.` and `..`.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(out.pop()),
            std::path::Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}
