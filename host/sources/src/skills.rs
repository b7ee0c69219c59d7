//! The skills in a transfer, and the files of each.

use std::collections::{BTreeMap, BTreeSet};

use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;
use skillhost_policy::manifest::{self, Manifest};

use crate::digest::{Digest, Listing};
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::names;
use crate::staging::{Staged, StagedEntry};

/// The most symlinks on a path. The kernel follows as many.
const MAX_LINKS: usize = 40;

/// The folders that are searched for skills: paths deeper than this contain none.
const SEARCH_DEPTH: usize = 8;

/// A skill in a transfer.
#[derive(Debug, Clone)]
pub struct FoundSkill {
    /// The name: that of its folder, or for a skill at the top the name in its SKILL.md.
    pub name: String,
    /// The path of its folder in the transfer; empty at the top.
    pub path: String,
    /// The parsed frontmatter.
    pub manifest: Manifest,
    /// The files, by path in the skill.
    pub files: BTreeMap<String, SkillFile>,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    /// Its path in the transfer. A symlink in the skill has the path of the file that it leads to.
    pub staged: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its digest.
    pub digest: Digest,
}

impl FoundSkill {
    /// Returns the digests of the files.
    pub fn listing(&self) -> Listing {
        Listing(self.files.iter().map(|(path, file)| (path.clone(), file.digest)).collect())
    }
}

/// Returns the paths of the skills below a folder of a transfer: folders with a SKILL.md that are in
/// no other skill.
pub fn find(staged: &Staged, below: &str) -> Vec<String> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for (path, entry) in &staged.entries {
        let is_skill = matches!(entry, StagedEntry::File { .. })
            && path.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"));
        let folder = names::parent(path);
        if is_skill && is_below(folder, below) && folder.split('/').count() <= SEARCH_DEPTH {
            found.insert(folder);
        }
    }
    let is_inner = |folder: &str| {
        let top = if folder.is_empty() { None } else { Some("") };
        names::ancestors(folder).chain(top).any(|above| found.contains(above))
    };
    found.iter().filter(|folder| !is_inner(folder)).map(|folder| (*folder).to_owned()).collect()
}

/// Checks whether a folder is another folder, or below it.
fn is_below(folder: &str, other: &str) -> bool {
    other.is_empty()
        || folder.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads the skill in a folder of a transfer.
///
/// # Errors
/// The skill is larger than the loader accepts, a symlink leads out of it, or its SKILL.md cannot be
/// read.
pub fn read(
    staged: &Staged,
    path: &str,
    limits: &TransferLimits,
) -> Result<FoundSkill, SourceError> {
    let mut files = Files { staged, root: path, limits, files: BTreeMap::new(), bytes: 0 };
    files.add(path, "", &mut Vec::new())?;
    let files = files.files;
    let skill_md = files
        .keys()
        .find(|path| path.as_str() == "SKILL.md")
        .or_else(|| files.keys().find(|path| path.eq_ignore_ascii_case("SKILL.md")));
    let Some(file) = skill_md.and_then(|path| files.get(path)) else {
        let why = match path {
            "" => "there is no SKILL.md at the top".to_owned(),
            path => format!("there is no SKILL.md in `{}`", printable(path)),
        };
        return Err(SourceError::request(why, "name the folder of the skill: --path FOLDER"));
    };
    if file.size > limits.skill.skill_md {
        let why = format!("SKILL.md is larger than {}", show_size(limits.skill.skill_md));
        return Err(Refusal::at(RefusalRule::SkillSize, file.staged.as_bytes(), why).into());
    }
    let folder = path.rsplit('/').next().unwrap_or_default();
    let parsed = manifest::parse(&staged.read(&file.staged)?, folder, "SKILL.md");
    let manifest = parsed.manifest.unwrap_or_default();
    let name = if folder.is_empty() { manifest.name.clone() } else { folder.to_owned() };
    Ok(FoundSkill { name, path: path.to_owned(), manifest, files })
}

/// Collects the files of a skill, and replaces symlinks by what they lead to.
struct Files<'a> {
    staged: &'a Staged,
    /// The folder of the skill, which no symlink leaves.
    root: &'a str,
    limits: &'a TransferLimits,
    files: BTreeMap<String, SkillFile>,
    bytes: u64,
}

impl Files<'_> {
    /// Adds what is in the folder `from` as the folder `to` of the skill. `above`: the folders that
    /// are being added.
    fn add(&mut self, from: &str, to: &str, above: &mut Vec<String>) -> Result<(), SourceError> {
        if above.iter().any(|folder| folder == from) {
            let why = "a symlink leads to a folder that contains it";
            return Err(Refusal::at(RefusalRule::BrokenLink, from.as_bytes(), why).into());
        }
        above.push(from.to_owned());
        let prefix = if from.is_empty() { String::new() } else { format!("{from}/") };
        let below = self.staged.entries.range(prefix.clone()..);
        let below = below.take_while(|(path, _)| path.starts_with(&prefix));
        for (path, entry) in below {
            let rest = &path[prefix.len()..];
            let to = if to.is_empty() { rest.to_owned() } else { format!("{to}/{rest}") };
            match entry {
                StagedEntry::Folder => {}
                StagedEntry::File { size, digest } => self.file(path, to, *size, *digest)?,
                StagedEntry::Link { .. } => {
                    let target = self.resolve(path)?;
                    match self.staged.entries.get(&target) {
                        Some(StagedEntry::File { size, digest }) => {
                            self.file(&target, to, *size, *digest)?;
                        }
                        _ => self.add(&target, &to, above)?,
                    }
                }
            }
        }
        above.pop();
        Ok(())
    }

    fn file(
        &mut self,
        staged: &str,
        to: String,
        size: u64,
        digest: Digest,
    ) -> Result<(), SourceError> {
        self.bytes += size;
        let limits = &self.limits.skill;
        let why = if self.bytes > limits.total {
            format!("the skill is larger than {}", show_size(limits.total))
        } else if self.files.len() >= limits.files {
            format!("the skill has more than {} files", limits.files)
        } else {
            // A symlink to a folder may give a file a path that is too long.
            names::parse(to.as_bytes())?;
            self.files.insert(to, SkillFile { staged: staged.to_owned(), size, digest });
            return Ok(());
        };
        Err(Refusal::at(RefusalRule::SkillSize, self.root.as_bytes(), why).into())
    }

    /// Returns the path of the file or folder that a symlink leads to. Symlinks exist only in this
    /// table, so nothing can change on the way.
    fn resolve(&self, link: &str) -> Result<String, Refusal> {
        let refuse = |rule, why: &str| Err(Refusal::at(rule, link.as_bytes(), why));
        let mut left: Vec<String> = link.split('/').rev().map(str::to_owned).collect();
        let (mut at, mut links) = (String::new(), 0);
        while let Some(name) = left.pop() {
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    if at.is_empty() {
                        return refuse(RefusalRule::LinkOutside, "the symlink points outside");
                    }
                    at = names::parent(&at).to_owned();
                    continue;
                }
                _ => {}
            }
            let next = if at.is_empty() { name } else { format!("{at}/{name}") };
            match self.staged.entries.get(&next) {
                Some(StagedEntry::Link { target }) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return refuse(RefusalRule::BrokenLink, "the symlink leads to itself");
                    }
                    left.extend(target.split('/').rev().map(str::to_owned));
                }
                Some(StagedEntry::File { .. }) if !left.is_empty() => {
                    return refuse(RefusalRule::BrokenLink, "the symlink leads through a file");
                }
                Some(_) => at = next,
                None => return refuse(RefusalRule::BrokenLink, "the symlink points nowhere"),
            }
        }
        match is_below(&at, self.root) {
            true => Ok(at),
            false => refuse(RefusalRule::LinkOutside, "the symlink points out of the skill"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

    use super::*;
    use crate::staging::Unpacker;

    const SKILL_MD: &[u8] = b"---\nname: one\ndescription: Tests.\n---\n";

    /// Stages files and, where the content starts with `->`, symlinks.
    fn staged(entries: &[(&str, &[u8])]) -> (tempfile::TempDir, Staged) {
        let within = tempfile::tempdir().unwrap();
        let limits = TransferLimits::default();
        let mut unpacker = Unpacker::new(within.path(), &limits, limits.bytes).unwrap();
        for (path, content) in entries {
            match content.strip_prefix(b"->") {
                Some(target) => unpacker.link(path.as_bytes(), target).unwrap(),
                None => drop(unpacker.file(path.as_bytes(), &mut &**content).unwrap()),
            }
        }
        (within, unpacker.finish())
    }

    fn files(entries: &[(&str, &[u8])], path: &str) -> Result<Vec<String>, RefusalRule> {
        match read(&staged(entries).1, path, &TransferLimits::default()) {
            Ok(skill) => Ok(skill.files.into_keys().collect()),
            Err(SourceError::Refused(refusal)) => Err(refusal.rule),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn skills_are_found_at_any_depth_and_not_inside_others() {
        let (_within, staged) = staged(&[
            ("repo/skills/a/SKILL.md", SKILL_MD),
            ("repo/skills/a/examples/b/SKILL.md", SKILL_MD),
            ("repo/skills/a-b/skill.md", SKILL_MD),
            ("repo/README.md", b"text"),
        ]);
        assert_eq!(find(&staged, ""), ["repo/skills/a", "repo/skills/a-b"]);
        assert_eq!(find(&staged, "repo/skills/a"), ["repo/skills/a"]);
        assert!(find(&staged, "repo/other").is_empty());
    }

    #[test]
    fn skill_at_the_top_has_the_name_in_its_manifest() {
        let (_within, staged) = staged(&[("SKILL.md", SKILL_MD), ("a/SKILL.md", SKILL_MD)]);
        assert_eq!(find(&staged, ""), [""]);
        assert_eq!(read(&staged, "", &TransferLimits::default()).unwrap().name, "one");
    }

    #[test]
    fn symlinks_become_files() {
        let entries: [(&str, &[u8]); 6] = [
            ("s/SKILL.md", SKILL_MD),
            ("s/real/x.py", b"x"),
            ("s/file", b"->real/x.py"),
            ("s/folder", b"->real"),
            ("s/chain", b"->folder/x.py"),
            ("s/up", b"->./real/../file"),
        ];
        let expected = ["SKILL.md", "chain", "file", "folder/x.py", "real/x.py", "up"];
        assert_eq!(files(&entries, "s").unwrap(), expected);
    }

    #[test]
    fn symlinks_that_leave_the_skill_or_lead_nowhere_are_refused() {
        use RefusalRule::*;
        let cases: [(&[u8], RefusalRule); 8] = [
            (b"->../outside", LinkOutside),
            (b"->../s2/SKILL.md", LinkOutside),
            (b"->..", LinkOutside),
            (b"->missing", BrokenLink),
            (b"->link", BrokenLink),
            (b"->.", BrokenLink),
            (b"->SKILL.md/x", BrokenLink),
            (b"->../s/../outside", LinkOutside),
        ];
        for (target, rule) in cases {
            let entries: [(&str, &[u8]); 4] = [
                ("s/SKILL.md", SKILL_MD),
                ("s2/SKILL.md", SKILL_MD),
                ("outside", b"x"),
                ("s/link", target),
            ];
            assert_eq!(files(&entries, "s"), Err(rule), "{}", String::from_utf8_lossy(target));
        }
    }

    #[test]
    fn skills_are_limited_as_by_the_loader() {
        let (_within, staged) = staged(&[("s/SKILL.md", SKILL_MD), ("s/a", b"1234")]);
        let with = |total, files, skill_md| {
            let skill = skillhost_skill::SizeLimits { skill_md, total, files };
            read(&staged, "s", &TransferLimits { skill, ..TransferLimits::default() })
        };
        let bytes = SKILL_MD.len() as u64;
        with(bytes + 4, 2, bytes).unwrap();
        for result in
            [with(bytes + 3, 2, bytes), with(bytes + 4, 1, bytes), with(bytes + 4, 2, bytes - 1)]
        {
            let Err(SourceError::Refused(refusal)) = result else { panic!("{result:?}") };
            assert_eq!(refusal.rule, RefusalRule::SkillSize);
        }
    }
}
