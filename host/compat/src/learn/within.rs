//! Checks whether one grant is within another, and whether it allows what was used.

use skillhost_policy::capabilities::{Capabilities, Mount, MountMode, PathAccess, Scope};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::uses::GrantUse;
use skillhost_policy::pattern::{CommandPattern, Destination, HostPattern, PathGlob};

/// Checks whether a grant allows nothing beyond another. May err towards no.
pub fn is_within(new: &Capabilities, old: &Capabilities) -> bool {
    let Capabilities {
        mounts,
        packages,
        read,
        write,
        spawn,
        host_programs,
        fetch,
        methods,
        authorities,
        env,
        limits,
        determinism,
    } = new;
    let mounted = mounts.iter().all(|mount| {
        let is_same = |other: &&Mount| {
            (&other.guest, &other.host, &other.rules_at)
                == (&mount.guest, &mount.host, &mount.rules_at)
        };
        let same = old.mounts.iter().find(is_same);
        same.is_some_and(|other| {
            (mount.mode == other.mode || mount.mode == MountMode::Read)
                && (other.symlinks || !mount.symlinks)
        })
    });
    let bounded =
        Limit::ALL.into_iter().all(|limit| match (limits.get(limit), old.limits.get(limit)) {
            // Off is less than any value.
            (new, old) if limit.is_grant() => new <= old,
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(new), Some(old)) => new <= old,
        });
    mounted
        && bounded
        && packages.iter().all(|folder| old.packages.contains(folder))
        && scope(read, &old.read, PathGlob::covers, is_own)
        && scope(write, &old.write, PathGlob::covers, is_own)
        && scope(spawn, &old.spawn, CommandPattern::covers, |_| false)
        && host_programs.is_subset(&old.host_programs)
        && scope(fetch, &old.fetch, HostPattern::covers, |_| false)
        && (fetch.is_empty() || methods.iter().all(|method| old.methods.contains(method)))
        && authorities.iter().all(|one| old.authorities.contains(one))
        && env.iter().all(|(name, value)| old.env.get(name) == Some(value))
        && *determinism == old.determinism
}

/// Returns the uses that a grant does not allow, in words.
pub fn missing_grants(grant: &Capabilities, uses: &GrantUse) -> Vec<String> {
    let mut lacking = Vec::new();
    for (path, what) in &uses.paths {
        if is_below(path, STATE) {
            lacking.extend((grant.limits.state == 0).then(|| format!("keep {path}")));
            continue;
        }
        let mount = grant.mounts.iter().find(|mount| is_below(path, &mount.guest));
        let access = mount.map_or(PathAccess::None, |mount| grant.path_access(mount, path));
        let least = match () {
            () if what.written => PathAccess::Write,
            () if what.folder => PathAccess::Traverse,
            () => PathAccess::Read,
        };
        if access < least {
            lacking.push(format!("{} {path}", if what.written { "write" } else { "read" }));
        }
    }
    lacking.extend(
        uses.commands
            .iter()
            .filter(|argv| !grant.spawn.allows_command(argv))
            .map(|argv| format!("start {}", argv.join(" "))),
    );
    for request in &uses.requests {
        let to =
            Destination { https: request.https, host: request.host.clone(), port: request.port };
        if !grant.fetch.allows(|p| p.matches(&to)) || !grant.methods.contains(&request.method) {
            lacking.push(format!("{} {}", request.method, request.host));
        }
    }
    lacking
}

/// The guest path of the skill's state. A limit grants it, and no entry does.
pub(super) const STATE: &str = "/state";

/// Checks whether a path is a folder or lies below it.
pub(super) fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Checks whether each side of the old scope covers a side of the new one. `own` recognizes patterns
/// for folders that every skill has.
fn scope<P: PartialEq>(
    new: &Scope<P>,
    old: &Scope<P>,
    covers: impl Fn(&P, &P) -> bool,
    own: impl Fn(&P) -> bool,
) -> bool {
    let side_within = |side: &Vec<P>, bound: &Vec<P>| {
        side.iter().filter(|p| !own(p)).all(|p| bound.iter().any(|b| covers(b, p)))
    };
    let nothing = new.all_of.iter().any(|side| side.iter().all(&own));
    nothing
        || new.is_empty()
        || (old.all_of.iter().all(|bound| new.all_of.iter().any(|side| side_within(side, bound)))
            && !old.all_of.is_empty()
            && old.none_of.iter().all(|p| new.none_of.contains(p)))
}

/// Checks whether a glob is in the skill's own folder or the scratch folder, which every skill has.
fn is_own(glob: &PathGlob) -> bool {
    is_below(glob.pattern(), "/skill") || is_below(glob.pattern(), "/tmp")
}
