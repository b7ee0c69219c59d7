//! The host's own files, which no grant reaches. A guest that could write the cache could write
//! native code; one that could write the policy could grant itself anything; and a log that its
//! subject can edit proves nothing. The operator may still mount a folder that contains them, such
//! as the home folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, StatxTimestamp, makedev, statx};
use rustix::io::Errno;

use super::Runner;
use skillhost_policy::capabilities::{Capabilities, HostFolder, Mount};
use skillhost_policy::pattern::PathGlob;
use skillhost_policy::protected;
use skillhost_policy::{Origin, Policy};
use skillhost_sandbox::files::GuardedPaths;
use skillhost_skill::Skill;
use skillhost_skill::private;
use skillhost_skill::runtime::Programs;

/// Resolves granted folders to their real paths, devices and inodes. A missing folder keeps its
/// name, and the run that needs it reports it.
pub(super) fn resolve(capabilities: &mut Capabilities) {
    for mount in capabilities.mounts.iter_mut().chain(&mut capabilities.packages) {
        let Ok(real) = mount.host.canonicalize() else { continue };
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let Ok(found) = statx(CWD, &real, AtFlags::empty(), wanted) else { continue };
        let born = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let StatxTimestamp { tv_sec, tv_nsec, .. } = found.stx_btime;
        mount.resolved = Some(HostFolder {
            spelling: std::mem::replace(&mut mount.host, real),
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born: born.then(|| i128::from(tv_sec) * 1_000_000_000 + i128::from(tv_nsec)),
        });
    }
}

/// Denies access to every path in `own`, and everything below it, in the mounts. Also denies the
/// files whose names start with the name of the audit log, which stores its other files next to it.
pub(super) fn deny<'a>(
    capabilities: &mut Capabilities,
    own: impl IntoIterator<Item = &'a Path>,
    log: &Path,
) {
    // Without granted folders there is nothing to deny. This also saves the file system calls.
    if capabilities.mounts.is_empty() && capabilities.packages.is_empty() {
        return;
    }
    let mut there = RealPaths::default();
    let mut own: Vec<(PathBuf, &str)> = own.into_iter().map(|own| (there.of(own), "/**")).collect();
    own.push((there.of(log), ".*"));
    let reached = |mount: &Mount| {
        let root = there.of(&mount.host);
        let guest = mount.rule_path(&mount.guest).into_owned();
        let path = move |(own, also): &(PathBuf, &'static str)| {
            Some(([guest.as_str(), &within(&root, own)?].concat(), *also))
        };
        own.iter().filter_map(path).collect::<Vec<_>>()
    };
    for (path, also) in capabilities.mounts.iter().chain(&capabilities.packages).flat_map(reached) {
        let path = globset::escape(&path);
        // A glob that fails to compile would deny nothing.
        let globs = [path.clone(), format!("{path}{also}")]
            .map(|glob| PathGlob::new(&glob).unwrap_or_else(|_| PathGlob::everything()));
        capabilities.read.none_of.extend(globs.clone());
        capabilities.write.none_of.extend(globs);
    }
}

/// Denies access to paths that cannot be recognised by device and inode because they do not exist
/// yet: writes to folders that the catalogue would read skills from, and all access to the private
/// folders that other runs will create in the scratch folder.
pub(super) fn deny_missing(capabilities: &mut Capabilities, sources: &[PathBuf], scratch: &Path) {
    if capabilities.mounts.is_empty() && capabilities.packages.is_empty() {
        return;
    }
    let mut there = RealPaths::default();
    let missing: Vec<PathBuf> =
        sources.iter().filter(|source| !source.exists()).map(|source| there.of(source)).collect();
    let scratch = there.of(scratch);
    let glob = |text: String| PathGlob::new(&text).unwrap_or_else(|_| PathGlob::everything());
    for mount in capabilities.mounts.iter().chain(&capabilities.packages) {
        let root = there.of(&mount.host);
        let guest = |rel: &str| globset::escape(&[&*mount.rule_path(&mount.guest), rel].concat());
        // Agents' folders are already protected files.
        let sources = missing
            .iter()
            .filter_map(|source| within(&root, source))
            .filter(|rel| protected::kind_of(rel).is_none());
        for source in sources.map(|rel| guest(&rel)) {
            capabilities.write.none_of.extend([source.clone(), source + "/**"].map(glob));
        }
        // A mount below the scratch folder, such as a session's workspace, is not another run's
        // folder.
        if let Some(scratch) = within(&root, &scratch).filter(|_| scratch.starts_with(&root)) {
            let names = private::prefixes().map(|prefix| format!("{}/{prefix}*", guest(&scratch)));
            let globs: Vec<PathGlob> =
                names.flat_map(|name| [name.clone(), name + "/**"]).map(glob).collect();
            capabilities.read.none_of.extend(globs.clone());
            capabilities.write.none_of.extend(globs);
        }
    }
}

impl Runner {
    /// Lists the files and folders that stay the host's own, whatever folder is granted.
    pub(super) fn own_files<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = &'a Path> {
        let options = &self.options;
        // Anyone who writes a built-in program decides what the next skill's `python3` does.
        let places = options
            .guarded
            .own
            .iter()
            .chain([&options.sandbox.cache, &options.state])
            .chain(&options.programs);
        let policies = policy.layers.iter().filter_map(|layer| match &layer.origin {
            Origin::File(path) => Some(path),
            Origin::BuiltIn | Origin::CommandLine => None,
        });
        // The next run trusts anyone who writes an authority's file.
        let authorities = policy.authorities.iter().map(|authority| &authority.file);
        places.chain(policies).chain(authorities).map(PathBuf::as_path)
    }

    /// Returns the paths that are hidden from guests, and those that are read-only, for one skill
    /// on this host.
    pub(super) fn guarded(&self, skill: &Skill, programs: &Programs) -> GuardedPaths {
        let options = &self.options;
        let own = options
            .guarded
            .own
            .iter()
            .chain([&options.sandbox.cache, &options.state, &options.audit])
            .chain(&options.programs);
        let mut guarded = options.guarded.clone();
        guarded.hidden.extend(own.cloned());
        // A workspace may contain the skill's own folder.
        guarded.hidden.extend(programs.denied_paths().map(|path| skill.root.join(path)));
        guarded.read_only.push(skill.root.clone());
        guarded
    }
}

/// Returns the path of one of the host's files below a mount's root; empty if the file contains the
/// root.
fn within(root: &Path, own: &Path) -> Option<String> {
    if root.starts_with(own) {
        return Some(String::new());
    }
    // A name that is not UTF-8 has no guest path.
    own.strip_prefix(root).ok()?.to_str().map(|rel| format!("/{rel}"))
}

/// Resolves paths, and caches their parents: the host's own folders share a few of them.
/// Short-lived, because the file system may change.
#[derive(Default)]
struct RealPaths(BTreeMap<PathBuf, Option<PathBuf>>);

impl RealPaths {
    /// Resolves symlinks in a path, as far as the path exists.
    fn of(&mut self, path: &Path) -> PathBuf {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let there =
            absolute.ancestors().find_map(|ancestor| Some((ancestor, self.whole(ancestor)?)));
        match there {
            Some((ancestor, real)) => {
                absolute.strip_prefix(ancestor).map_or(absolute.clone(), |rest| real.join(rest))
            }
            None => absolute,
        }
    }

    /// Resolves a path that exists; `None` if it does not.
    fn whole(&mut self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let found = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => {
                self.whole(parent).and_then(|parent| one(parent.join(name)))
            }
            // `/`, or a path that ends in `..`.
            _ => path.canonicalize().ok(),
        };
        self.0.insert(path.to_owned(), found.clone());
        found
    }
}

/// Resolves a path whose parent is resolved already.
fn one(path: PathBuf) -> Option<PathBuf> {
    match rustix::fs::readlink(&path, Vec::new()) {
        Ok(_) => path.canonicalize().ok(),
        // It exists and is not a symlink.
        Err(Errno::INVAL) => Some(path),
        Err(_) => None,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own folders")]
mod tests {
    use super::*;
    use skillhost_policy::capabilities::{MountMode, PathAccess, Scope};

    fn mounting(host: &Path) -> Capabilities {
        let everything = Scope {
            all_of: vec![vec![PathGlob::everything()]],
            none_of: Vec::new(),
            ..Scope::empty()
        };
        let mount = Mount::new("/workspace", host, MountMode::Write);
        Capabilities {
            mounts: vec![mount],
            read: everything.clone(),
            write: everything,
            ..Capabilities::default()
        }
    }

    fn access(capabilities: &Capabilities, path: &str) -> PathAccess {
        capabilities.path_access(&capabilities.mounts[0], path)
    }

    #[test]
    fn host_files_in_a_mount_are_denied_and_no_others() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("[cache]/*")).unwrap();
        let mut capabilities = mounting(home.path());
        // One exists, one does not.
        deny(
            &mut capabilities,
            [home.path().join("[cache]/*").as_path(), &home.path().join("state/skillhost")],
            &home.path().join("log"),
        );
        for path in [
            "/workspace/[cache]/*",
            "/workspace/[cache]/*/x.cwasm",
            "/workspace/state/skillhost",
            "/workspace/state/skillhost/a/b",
            "/workspace/log",
            "/workspace/log.db-wal",
        ] {
            assert_eq!(access(&capabilities, path), PathAccess::None, "{path}");
        }
        for path in [
            "/workspace",
            "/workspace/[cache]",
            "/workspace/[cache]/x",
            "/workspace/c/x",
            "/workspace/logs",
            "/workspace/state",
            "/workspace/state/skillhosts",
        ] {
            assert_eq!(access(&capabilities, path), PathAccess::Write, "{path}");
        }
    }

    #[test]
    fn missing_files_are_denied_by_path() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("tmp")).unwrap();
        let sources = ["team", ".agents/skills", "tmp"].map(|source| home.path().join(source));
        let mut capabilities = mounting(home.path());
        deny_missing(&mut capabilities, &sources, &home.path().join("tmp"));
        for (path, expected) in [
            ("/workspace/team", PathAccess::Read),
            ("/workspace/team/x/SKILL.md", PathAccess::Read),
            ("/workspace/teams/x", PathAccess::Write),
            ("/workspace/tmp/skillhost-run-0123456789abcdef/tmp/x", PathAccess::None),
            ("/workspace/tmp/skillhost-session-0123456789abcdef", PathAccess::None),
            ("/workspace/tmp/skillhost-notes/x", PathAccess::Write),
            ("/workspace/tmp/x", PathAccess::Write),
        ] {
            assert_eq!(access(&capabilities, path), expected, "{path}");
        }
        // A session's own workspace.
        let session = home.path().join("tmp/skillhost-session-0123456789abcdef");
        let mut capabilities = mounting(&session);
        deny_missing(&mut capabilities, &[], &home.path().join("tmp"));
        assert_eq!(access(&capabilities, "/workspace/skillhost-run-x"), PathAccess::Write);
    }

    #[test]
    fn mounts_inside_host_files_are_denied_others_kept() {
        let state = tempfile::tempdir().unwrap();
        std::fs::create_dir(state.path().join("inner")).unwrap();
        let mut capabilities = mounting(&state.path().join("inner"));
        deny(&mut capabilities, [state.path()], Path::new("/nowhere"));
        assert_eq!(access(&capabilities, "/workspace"), PathAccess::None);
        assert_eq!(access(&capabilities, "/workspace/x"), PathAccess::None);
        let mut elsewhere = mounting(&state.path().join("inner"));
        let before = elsewhere.clone();
        deny(
            &mut elsewhere,
            [Path::new("/nowhere"), &state.path().join("other")],
            Path::new("/nowhere"),
        );
        assert_eq!(elsewhere, before);
    }

    #[test]
    fn cached_real_paths_match_canonicalize() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/file"), "").unwrap();
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("a/broken")).unwrap();
        let mut there = RealPaths::default();
        for path in ["a/b", "link", "link/b", "link/file", "link/b/..", "link/../a/b", "link/b"] {
            assert_eq!(there.of(&at(path)), at(path).canonicalize().unwrap(), "{path}");
        }
        let real = dir.path().canonicalize().unwrap();
        for (path, expected) in [
            ("link/c/d", "a/c/d"),
            ("link/c", "a/c"),
            ("a/file/x", "a/file/x"),
            ("link/broken/x", "a/broken/x"),
        ] {
            assert_eq!(there.of(&at(path)), real.join(expected), "{path}");
        }
        assert_eq!(there.of(Path::new("/")), Path::new("/"));
    }

    #[test]
    fn a_symlink_on_the_way_does_not_hide_host_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("home/cache")).unwrap();
        std::os::unix::fs::symlink("home", dir.path().join("link")).unwrap();
        let mut capabilities = mounting(&dir.path().join("home"));
        deny(
            &mut capabilities,
            [dir.path().join("link/cache/components").as_path()],
            Path::new("/nowhere"),
        );
        assert_eq!(access(&capabilities, "/workspace/cache/components/x"), PathAccess::None);
    }
}
