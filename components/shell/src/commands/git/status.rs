//! `status` and `ls-files`: staged, changed and untracked files.

use std::collections::BTreeMap;

use super::arguments::{Arguments, is_under};
use super::index::{self, IndexEntry};
use super::objects::Id;
use super::repository::{Repository, text_of};
use super::trees::{FileChange, compare, detect_renames, quote_path};
use super::{CommandResult, relative};

/// The output format of `status`.
enum StatusFormat {
    Long,
    /// Short format: relative paths, a branch line, NUL separators.
    Short {
        here: bool,
        branch: bool,
        zeros: bool,
    },
}

impl Repository {
    pub(super) async fn status(&mut self, args: &[String]) -> Result<CommandResult, String> {
        let (mut style, mut untracked, mut branch, mut zeros) =
            (StatusFormat::Long, "normal".to_owned(), false, false);
        let mut arguments = Arguments::new(args, &[]);
        while let Some((option, value)) = arguments.option()? {
            match (option.as_str(), value.as_deref()) {
                ("-s" | "--short", None) => {
                    style = StatusFormat::Short { here: true, branch: false, zeros: false }
                }
                ("--porcelain", None | Some("v1" | "1")) => {
                    style = StatusFormat::Short { here: false, branch: false, zeros: false }
                }
                ("-sb" | "-bs", None) => {
                    (style, branch) =
                        (StatusFormat::Short { here: true, branch: false, zeros: false }, true)
                }
                ("-b" | "--branch", None) => branch = true,
                ("-z", None) => zeros = true,
                ("-u" | "-uall", None) | ("--untracked-files", None | Some("all")) => {
                    untracked = "all".into()
                }
                ("-uno", None) | ("--untracked-files", Some("no")) => untracked = "no".into(),
                ("-unormal", None) | ("--untracked-files", Some("normal")) => {}
                (
                    "--long" | "--ahead-behind" | "--no-ahead-behind" | "--no-renames"
                    | "--renames",
                    None,
                ) => {}
                _ => return Err(arguments.unknown()),
            }
        }
        let (_, paths) = arguments.revisions(self).await?;
        let index = self.index().await?;
        let head = self.reference("HEAD").await;
        let tree = match head {
            Some(id) => Some(self.tree(id).await?),
            None => None,
        };
        let wanted = |one: &FileChange| is_under(&one.path, &paths);
        let conflicts: BTreeMap<&str, u16> =
            index.iter().filter(|one| one.stage > 0).fold(BTreeMap::new(), |mut all, one| {
                *all.entry(one.path.as_str()).or_insert(0) |= 1 << (one.stage - 1);
                all
            });
        let staged: Vec<FileChange> = compare(&self.files(tree).await?, &index::files(&index));
        let staged: Vec<FileChange> = detect_renames(
            staged
                .into_iter()
                .filter(|one| wanted(one) && !conflicts.contains_key(one.path.as_str()))
                .collect(),
        );
        let changed: Vec<FileChange> =
            self.unstaged(&index).await?.into_iter().filter(wanted).collect();
        let mut new = if untracked == "no" {
            Vec::new()
        } else {
            self.untracked(&index, untracked == "all", true).await?
        };
        new.retain(|path| is_under(path.trim_end_matches('/'), &paths));
        let all = Status {
            staged,
            changed,
            new,
            conflicts: conflicts
                .into_iter()
                .map(|(path, sides)| (path.to_owned(), sides))
                .collect(),
        };
        match style {
            StatusFormat::Short { here, .. } => {
                self.short_status(
                    &all,
                    &StatusFormat::Short { here: here && !zeros, branch, zeros },
                    head.is_some(),
                )
                .await
            }
            StatusFormat::Long => self.long_status(&all, head.is_some(), untracked == "no").await,
        }
    }

    async fn short_status(
        &mut self,
        all: &Status,
        style: &StatusFormat,
        born: bool,
    ) -> Result<CommandResult, String> {
        let StatusFormat::Short { here, branch, zeros } = *style else {
            return Ok(String::new().into());
        };
        let mut out = String::new();
        let end = if zeros { '\0' } else { '\n' };
        let head = self.head().await;
        if branch {
            let name = head.as_deref().map_or("HEAD (no branch)".into(), |head| {
                head.trim_start_matches("refs/heads/").to_owned()
            });
            let name = if born { name } else { format!("No commits yet on {name}") };
            out += &match self.tracking(head.clone()).await? {
                None => format!("## {name}{end}"),
                Some((upstream, None)) => format!("## {name}...{upstream} [gone]{end}"),
                Some((upstream, Some(counts))) => {
                    format!("## {name}...{upstream}{}{end}", ahead(counts))
                }
            };
        }
        let mut letters: BTreeMap<&str, (char, char, Option<&str>)> = BTreeMap::new();
        for one in &all.staged {
            letters.insert(&one.path, (one.letter(), ' ', one.from.as_deref()));
        }
        for one in &all.changed {
            let letter = if one.old.is_none() { 'A' } else { one.letter() };
            letters.entry(&one.path).or_insert((' ', ' ', None)).1 = letter;
        }
        for (path, sides) in &all.conflicts {
            let (ours, theirs) = conflict(*sides);
            letters.insert(path, (ours, theirs, None));
        }
        let path = |path: &str| match (zeros, here) {
            (true, _) => path.to_owned(),
            (_, false) => quote_with_spaces(path),
            (_, true) => {
                self.seen_from_here(path).map(|path| quote_with_spaces(&path)).unwrap_or_default()
            }
        };
        for (name, (staged, changed, from)) in &letters {
            out += &match (from, zeros) {
                (Some(from), true) => format!("{staged}{changed} {}\0{from}\0", path(name)),
                (Some(from), false) => {
                    format!("{staged}{changed} {} -> {}\n", path(from), path(name))
                }
                (None, _) => format!("{staged}{changed} {}{end}", path(name)),
            };
        }
        for name in &all.new {
            out += &format!("?? {}{end}", path(name));
        }
        Ok(out.into())
    }

    async fn long_status(
        &mut self,
        all: &Status,
        born: bool,
        no_untracked: bool,
    ) -> Result<CommandResult, String> {
        let mut out = match self.head().await {
            Some(branch) => format!("On branch {}\n", branch.trim_start_matches("refs/heads/")),
            None => match self.detached().await? {
                Some((at, name)) => format!("HEAD detached {at} {name}\n"),
                None => "Not currently on any branch.\n".into(),
            },
        };
        let commits = |count: usize| format!("{count} commit{}", if count == 1 { "" } else { "s" });
        let head = self.head().await;
        out += &match self.tracking(head).await? {
            None => String::new(),
            Some((upstream, None)) => format!(
                "Your branch is based on '{upstream}', but the upstream is gone.\n  (use \"git branch --unset-upstream\" to fixup)\n\n"
            ),
            Some((upstream, Some((0, 0)))) => {
                format!("Your branch is up to date with '{upstream}'.\n\n")
            }
            Some((upstream, Some((ahead, 0)))) => {
                format!(
                    "Your branch is ahead of '{upstream}' by {}.\n  (use \"git push\" to publish your local commits)\n\n",
                    commits(ahead)
                )
            }
            Some((upstream, Some((0, behind)))) => format!(
                "Your branch is behind '{upstream}' by {}, and can be fast-forwarded.\n  (use \"git pull\" to update your local branch)\n\n",
                commits(behind)
            ),
            Some((upstream, Some((ahead, behind)))) => format!(
                "Your branch and '{upstream}' have diverged,\nand have {ahead} and {behind} different commits each, respectively.\n  \
                 (use \"git pull\" if you want to integrate the remote branch with yours)\n\n"
            ),
        };
        if !born {
            out += "\nNo commits yet\n\n";
        }
        if self.fs.exists(&self.folder.join("MERGE_HEAD")).await.unwrap_or(false) {
            out += match all.conflicts.is_empty() {
                true => {
                    "All conflicts fixed but you are still merging.\n  (use \"git commit\" to conclude merge)\n\n"
                }
                false => {
                    "You have unmerged paths.\n  (fix conflicts and run \"git commit\")\n  (use \"git merge --abort\" to abort the merge)\n\n"
                }
            };
        }
        let here = |path: &str| self.seen_from_here(path).map(|path| quote_path(&path));
        let word = |letter: char| match letter {
            'A' => "new file:   ",
            'D' => "deleted:    ",
            'R' => "renamed:    ",
            'T' => "typechange: ",
            _ => "modified:   ",
        };
        let line = |one: &FileChange| -> Result<String, String> {
            let from = one
                .from
                .as_ref()
                .map(|from| Ok::<_, String>(format!("{} -> ", here(from)?)))
                .transpose()?
                .unwrap_or_default();
            Ok(format!("\t{}{from}{}\n", word(one.letter()), here(&one.path)?))
        };
        if !all.staged.is_empty() {
            let undo =
                if born { "git restore --staged <file>..." } else { "git rm --cached <file>..." };
            out += &format!("Changes to be committed:\n  (use \"{undo}\" to unstage)\n");
            for one in &all.staged {
                out += &line(one)?;
            }
            out.push('\n');
        }
        if !all.conflicts.is_empty() {
            out += "Unmerged paths:\n  (use \"git add <file>...\" to mark resolution)\n";
            for (path, sides) in &all.conflicts {
                let label = match sides {
                    0b111 => "both modified:   ",
                    0b110 => "both added:      ",
                    0b011 => "deleted by them: ",
                    0b101 => "deleted by us:   ",
                    0b010 => "added by us:     ",
                    0b100 => "added by them:   ",
                    _ => "both deleted:    ",
                };
                out += &format!("\t{label}{}\n", here(path)?);
            }
            out.push('\n');
        }
        if !all.changed.is_empty() {
            let add =
                if all.changed.iter().any(|one| one.new.is_none()) { "add/rm" } else { "add" };
            out += &format!(
                "Changes not staged for commit:\n  (use \"git {add} <file>...\" to update what will be committed)\n  \
                 (use \"git restore <file>...\" to discard changes in working directory)\n"
            );
            for one in &all.changed {
                out += &line(one)?;
            }
            out.push('\n');
        }
        if !all.new.is_empty() {
            out += "Untracked files:\n  (use \"git add <file>...\" to include in what will be committed)\n";
            for path in &all.new {
                out += &format!("\t{}\n", here(path)?);
            }
            out.push('\n');
        }
        let nothing_staged = all.staged.is_empty();
        out += match () {
            () if no_untracked && nothing_staged && all.changed.is_empty() => {
                "nothing to commit (use -u to show untracked files)\n"
            }
            () if !nothing_staged => "",
            () if !all.changed.is_empty() || !all.conflicts.is_empty() => {
                "no changes added to commit (use \"git add\" and/or \"git commit -a\")\n"
            }
            () if !all.new.is_empty() => {
                "nothing added to commit but untracked files present (use \"git add\" to track)\n"
            }
            () if !born => "nothing to commit (create/copy files and use \"git add\" to track)\n",
            () => "nothing to commit, working tree clean\n",
        };
        Ok(out.into())
    }

    /// Returns `at` or `from` and the name that was checked out when HEAD was detached, or `None`
    /// if the reflog does not have it.
    pub(super) async fn detached(&mut self) -> Result<Option<(&'static str, String)>, String> {
        let log = text_of(&*self.fs, &self.folder.join("logs/HEAD")).await.unwrap_or_default();
        let last = log.lines().rev().find_map(|line| {
            let (ids, what) = line.split_once('\t')?;
            let (_, to) = what.strip_prefix("checkout: moving from ")?.split_once(" to ")?;
            Some((Id::parse(ids.split(' ').nth(1)?)?, to.to_owned()))
        });
        let Some((id, name)) = last else { return Ok(None) };
        let at = if self.reference("HEAD").await == Some(id) { "at" } else { "from" };
        let name = if self.full_name(&name).await.is_some() { name } else { self.short(id).await };
        Ok(Some((at, name)))
    }

    /// Returns the upstream of a branch, and the number of commits that each has and the other
    /// lacks. `None` for the numbers if the upstream is gone.
    pub(super) async fn tracking(
        &mut self,
        branch: Option<String>,
    ) -> Result<Option<(String, Option<(usize, usize)>)>, String> {
        let Some((branch, upstream)) =
            branch.and_then(|branch| Some((branch.clone(), self.upstream(&branch)?)))
        else {
            return Ok(None);
        };
        let name = upstream
            .trim_start_matches("refs/remotes/")
            .trim_start_matches("refs/heads/")
            .to_owned();
        let (Some(theirs), Some(ours)) =
            (self.reference(&upstream).await, self.reference(&branch).await)
        else {
            return Ok(Some((name, None)));
        };
        let (theirs, ours) = (self.ancestors(&[theirs]).await?, self.ancestors(&[ours]).await?);
        Ok(Some((name, Some((ours.difference(&theirs).count(), theirs.difference(&ours).count())))))
    }

    /// Makes a path of the repository relative to the working directory.
    fn seen_from_here(&self, path: &str) -> Result<String, String> {
        let here = relative(&self.work()?.join(path), &self.cwd);
        Ok(if path.ends_with('/') && !here.ends_with('/') { format!("{here}/") } else { here })
    }

    pub(super) async fn ls_files(&mut self, args: &[String]) -> Result<CommandResult, String> {
        let (
            mut cached,
            mut others,
            mut modified,
            mut deleted,
            mut standard,
            mut stage,
            mut end,
            mut full,
        ) = (false, false, false, false, false, false, '\n', false);
        let mut arguments = Arguments::new(args, &[]);
        while let Some((option, _)) = arguments.option()? {
            match option.as_str() {
                "-c" | "--cached" => cached = true,
                "-o" | "--others" => others = true,
                "-m" | "--modified" => modified = true,
                "-d" | "--deleted" => deleted = true,
                "-s" | "--stage" => stage = true,
                "-z" => end = '\0',
                "--exclude-standard" => standard = true,
                "--full-name" => full = true,
                "--error-unmatch" => {}
                _ => return Err(arguments.unknown()),
            }
        }
        let unmatched = args.iter().any(|arg| arg == "--error-unmatch");
        let operands = arguments.operands();
        let paths =
            operands.iter().map(|path| self.below_root(path)).collect::<Result<Vec<_>, _>>()?;
        let below = self.below_root(".")?;
        let index = self.index().await?;
        let name = |path: &str| {
            let path = if full { path.to_owned() } else { self.seen_from_here(path)? };
            Ok::<_, String>(if end == '\0' { path } else { quote_path(&path) })
        };
        let here = |path: &str| {
            is_under(path, &paths)
                && (below.is_empty() || !paths.is_empty() || path.starts_with(&format!("{below}/")))
        };
        if let Some(at) = paths.iter().position(|path| {
            unmatched && !index.iter().any(|one| is_under(&one.path, std::slice::from_ref(path)))
        }) {
            return Err(format!(
                "error: pathspec '{}' did not match any file(s) known to git\nDid you forget to 'git add'?",
                operands[at]
            ));
        }
        let mut out = String::new();
        if others {
            for path in
                self.untracked(&index, true, standard).await?.iter().filter(|path| here(path))
            {
                out += &format!("{}{end}", name(path)?);
            }
        }
        if cached || stage || !(others || modified || deleted) {
            for one in index.iter().filter(|one| here(&one.path)) {
                let IndexEntry { item, stage: side, .. } = one;
                let before = if stage {
                    format!("{:06o} {} {side}\t", item.mode, item.id)
                } else {
                    String::new()
                };
                out += &format!("{before}{}{end}", name(&one.path)?);
            }
        }
        if modified || deleted {
            let changed = self.unstaged(&index).await?;
            for one in changed.iter().filter(|one| here(&one.path)) {
                // A deleted file counts as changed, too.
                let times = usize::from(deleted && one.new.is_none()) + usize::from(modified);
                for _ in 0..times {
                    out += &format!("{}{end}", name(&one.path)?);
                }
            }
        }
        Ok(out.into())
    }
}

/// The information that `status` prints.
struct Status {
    staged: Vec<FileChange>,
    changed: Vec<FileChange>,
    new: Vec<String>,
    /// The sides of each conflict: bits for base, ours and theirs.
    conflicts: Vec<(String, u16)>,
}

fn conflict(sides: u16) -> (char, char) {
    match sides {
        0b001 => ('D', 'D'),
        0b010 => ('A', 'U'),
        0b011 => ('U', 'D'),
        0b100 => ('U', 'A'),
        0b101 => ('D', 'U'),
        0b110 => ('A', 'A'),
        _ => ('U', 'U'),
    }
}

/// Formats ` [ahead 1, behind 2]`. Empty if both are at the same commit.
pub(super) fn ahead((ahead, behind): (usize, usize)) -> String {
    let parts = [("ahead", ahead), ("behind", behind)].into_iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = parts.map(|(word, count)| format!("{word} {count}")).collect();
    if parts.is_empty() { String::new() } else { format!(" [{}]", parts.join(", ")) }
}

/// The short format also quotes paths with spaces.
fn quote_with_spaces(path: &str) -> String {
    let path = quote_path(path);
    if path.contains(' ') && !path.starts_with('"') { format!("\"{path}\"") } else { path }
}
