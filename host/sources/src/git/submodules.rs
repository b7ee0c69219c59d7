//! Adds the submodules of a commit, for those who ask for them: the commits that it names, from the
//! repositories that its `.gitmodules` names.
//!
//! What a repository names is not what the operator named: it is fetched over HTTPS from public
//! servers, or from where the repository itself is.

use std::path::Path;

use skillhost_policy::diagnostic::printable;

use super::object::ObjectId;
use super::{Commit, local, remote, tree};
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::network::{self, Network};
use crate::source::{Place, Source, SshPlace};
use crate::staging::Unpacker;

/// The most submodules, and submodules of submodules.
const MAX: usize = 50;

/// A submodule that is still to be added.
struct Submodule {
    /// Its path in the transfer.
    path: String,
    id: ObjectId,
    url: String,
}

/// Adds the files of all submodules to those of a commit.
pub(super) fn add(
    commit: Commit,
    url: &str,
    network: &dyn Network,
    limits: &TransferLimits,
) -> Result<Commit, SourceError> {
    let Commit { id, is_tag, staged, submodules, objects } = commit;
    let text = staged.read(".gitmodules").unwrap_or_default();
    let mut left = named(&text, &submodules, "", url)?;
    let mut to = staged.reopen(limits)?;
    let mut count = 0;
    while let Some(Submodule { path, id, url }) = left.pop() {
        count += 1;
        if count > MAX {
            return Err(too_many());
        }
        to.enter(&path)?;
        let inner = unpack(&url, id, network, limits, &mut to)?;
        let text = to.read(&format!("{path}/.gitmodules")).unwrap_or_default();
        left.extend(named(&text, &inner, &path, &url)?);
    }
    Ok(Commit { id, is_tag, staged: to.finish(), submodules: Vec::new(), objects })
}

fn too_many() -> SourceError {
    Refusal::fixed(RefusalRule::EntryCount, format!("more than {MAX} submodules")).into()
}

/// Adds the files of one commit. Returns its own submodules.
fn unpack(
    url: &str,
    id: ObjectId,
    network: &dyn Network,
    limits: &TransferLimits,
    to: &mut Unpacker,
) -> Result<Vec<(String, ObjectId)>, SourceError> {
    match url.strip_prefix("file://") {
        Some(path) => {
            let repository = local::Repository::open(Path::new(path), limits)?;
            Ok(tree::unpack(&repository, id, to)?.1)
        }
        None => {
            let remote = remote::Remote::open(network, url, limits)?;
            Ok(tree::unpack(&remote.fetch(id, None)?, id, to)?.1)
        }
    }
}

/// Finds the URLs of submodules. `folder`: where the repository with this URL is in the transfer.
fn named(
    text: &[u8],
    submodules: &[(String, ObjectId)],
    folder: &str,
    url: &str,
) -> Result<Vec<Submodule>, SourceError> {
    // Below, each is compared with every section of the file.
    if submodules.len() > MAX {
        return Err(too_many());
    }
    let text = String::from_utf8_lossy(text);
    let mut sections: Vec<(Option<&str>, Option<&str>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            sections.push((None, None));
        }
        let (Some(section), Some((key, value))) = (sections.last_mut(), line.split_once('='))
        else {
            continue;
        };
        match key.trim() {
            "path" => section.0 = Some(value.trim().trim_matches('"')),
            "url" => section.1 = Some(value.trim().trim_matches('"')),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for (path, id) in submodules {
        let section = sections.iter().find(|(known, _)| *known == Some(path));
        let Some((_, Some(target))) = section else {
            let why = "`.gitmodules` does not name the repository of this submodule";
            return Err(Refusal::at(RefusalRule::Corrupt, path.as_bytes(), why).into());
        };
        let path = if folder.is_empty() { path.clone() } else { format!("{folder}/{path}") };
        found.push(Submodule { path, id: *id, url: resolve(url, target)? });
    }
    Ok(found)
}

/// Resolves the URL of a submodule against that of its repository.
fn resolve(url: &str, target: &str) -> Result<String, SourceError> {
    let refuse = |why: &str| {
        Err(network::problem(url, format!("the submodule `{}`: {why}", printable(target))))
    };
    let mut base = url.trim_end_matches('/');
    let mut rest = target;
    let is_relative = target.starts_with("./") || target.starts_with("../");
    loop {
        if !is_relative {
            break;
        }
        if let Some(more) = rest.strip_prefix("./") {
            rest = more;
        } else if let Some(more) = rest.strip_prefix("../") {
            rest = more;
            let start = base.find("://").map_or(0, |at| at + 3);
            match base.rfind(['/', ':']).filter(|at| *at >= start) {
                Some(at) => base = &base[..at],
                None => return refuse("it leads out of the server"),
            }
        } else {
            break;
        }
    }
    let joined = format!("{base}/{rest}");
    let text = if is_relative { joined.as_str() } else { target };
    let place = match text.parse::<Source>() {
        Ok(Source { place: Place::Git(place), reference: None }) => place,
        Ok(_) => return refuse("it is not a repository"),
        Err(error) => return refuse(&error.to_string()),
    };
    let ssh =
        |place: &str| SshPlace::parse(place).map(|place| (place.user, place.host, place.port));
    let is_same = match (place.starts_with("file://"), ssh(&place)) {
        (true, _) => url.starts_with("file://"),
        // The rules for addresses do not reach `ssh`.
        (_, Some(server)) => ssh(url) == Some(server),
        _ => true,
    };
    match is_same {
        true => Ok(place),
        false => refuse("it is on this machine or on another SSH server; add it by itself"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submodules_are_counted_before_their_urls_are_found() {
        let id: ObjectId = "0123456789".repeat(4).parse().unwrap();
        let rule = |count| match named(b"", &vec![("a".to_owned(), id); count], "", "https://a/b") {
            Err(SourceError::Refused(refusal)) => refusal.rule,
            _ => panic!("{count} submodules without a URL"),
        };
        assert_eq!((rule(MAX), rule(MAX + 1)), (RefusalRule::Corrupt, RefusalRule::EntryCount));
        assert_eq!(too_many().fix(), None, "no setting raises this limit");
    }

    #[test]
    fn urls_are_relative_to_the_repository_and_stay_there() {
        let resolve = |url: &str, target: &str| resolve(url, target).ok();
        let some = |url: &str| Some(url.to_owned());
        assert_eq!(resolve("https://a/b/c", "../d.git"), some("https://a/b/d"));
        assert_eq!(resolve("https://a/b/c", "./d"), some("https://a/b/c/d"));
        assert_eq!(resolve("https://a/b/c", "https://e/f"), some("https://e/f"));
        assert_eq!(resolve("file:///a/b", "../c"), some("file:///a/c"));
        assert_eq!(resolve("git@a:b/c", "../d"), some("git@a:b/d"));
        assert_eq!(resolve("ssh://git@a/b/c", "../d"), some("ssh://git@a/b/d"));
        for (url, target) in [
            ("https://a/b", "../../c"),
            ("https://a/b", "file:///etc"),
            ("https://a/b", "/etc"),
            ("https://a/b", "ssh://git@a/c"),
            ("https://a/b", "-oProxyCommand=x"),
            ("https://a/b", "http://10.0.0.1/x"),
            ("git@a:b", "git@other:c"),
            ("https://a/b", "ext::sh -c x"),
        ] {
            assert_eq!(resolve(url, target), None, "{url} {target}");
        }
    }
}
