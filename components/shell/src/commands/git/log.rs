//! Prints commits for `log` and `show`.

use std::collections::{HashMap, HashSet};

use super::arguments::is_under;
use super::commit::{Commit, DateFormat};
use super::log_options::{LogOptions, Pretty};
use super::objects::Id;
use super::repository::Repository;
use super::trees::{FileChange, detect_renames};

/// Full names of references, by the object that they point to.
type Names = HashMap<Id, Vec<String>>;

impl Repository {
    /// Returns the changes of a commit, limited to some paths.
    async fn changes_of(
        &mut self,
        commit: &Commit,
        paths: &[String],
    ) -> Result<Vec<FileChange>, String> {
        let before = match commit.parents.first() {
            Some(parent) => self.commit(*parent).await.ok().map(|commit| commit.tree),
            None => None,
        };
        let mut changed = self.between(before, Some(commit.tree)).await?;
        changed.retain(|one| is_under(&one.path, paths));
        Ok(detect_renames(changed))
    }

    /// Returns whether every file of a merge equals that of one of its parents. Other merges would
    /// need a combined diff.
    async fn agrees_with_a_parent(&mut self, commit: &Commit) -> Result<(), String> {
        let mut own: Option<HashSet<String>> = None;
        for parent in &commit.parents {
            let tree = self.commit(*parent).await?.tree;
            let changed: HashSet<String> = self
                .between(Some(tree), Some(commit.tree))
                .await?
                .into_iter()
                .map(|one| one.path)
                .collect();
            own = Some(
                own.map_or(changed.clone(), |own| own.intersection(&changed).cloned().collect()),
            );
        }
        match own.filter(|own| !own.is_empty()) {
            None => Ok(()),
            Some(_) => Err(format!(
                "fatal: this git does not support combined diffs of merges; try: git diff {0}^1 {0}",
                commit.id
            )),
        }
    }

    /// Implements `log` and `show` for commits.
    pub(super) async fn log(
        &mut self,
        commits: &[Commit],
        options: &LogOptions,
    ) -> Result<Vec<u8>, String> {
        let names = self.names().await;
        let mut out = Vec::new();
        for (nth, commit) in commits.iter().enumerate() {
            let head = self.written(commit, options, &names).await?;
            let between = !matches!(options.pretty, Pretty::Oneline | Pretty::Custom(_, true));
            if nth > 0 && between {
                out.push(b'\n');
            }
            out.extend(head.bytes());
            let own = matches!(options.pretty, Pretty::Custom(_, false));
            let changed = match commit.parents.len() {
                _ if !options.show.is_any() => Vec::new(),
                0 | 1 => self.changes_of(commit, &options.paths).await?,
                _ if !options.merges || options.show.none => Vec::new(),
                _ if options.show.patch || options.show.names || options.show.letters => {
                    self.agrees_with_a_parent(commit).await?;
                    out.push(b'\n');
                    Vec::new()
                }
                _ => self.changes_of(commit, &options.paths).await?,
            };
            let shown = self.show(&changed, &options.show).await?;
            if !shown.is_empty() {
                if own {
                    out.push(b'\n');
                }
                match &options.pretty {
                    Pretty::Oneline => {}
                    Pretty::Custom(format, true) if format.is_empty() => {}
                    _ if options.show.patch && options.show.stat => out.extend(b"---\n"),
                    Pretty::Custom(_, false) => {}
                    _ => out.push(b'\n'),
                }
                out.extend(shown);
            }
        }
        Ok(out)
    }

    async fn names(&mut self) -> Names {
        let mut names = Names::new();
        for (name, id) in self.references("refs/").await {
            if let Ok(id) = self.peeled(id, None).await {
                names.entry(id).or_default().push(name);
            }
        }
        names
    }

    /// Formats references: `HEAD -> main, tag: v1, origin/main`.
    async fn decoration(&self, id: Id, names: &Names) -> String {
        let head = self.head().await;
        let mut all = Vec::new();
        if self.reference("HEAD").await == Some(id) {
            let branch = head.as_deref().and_then(|head| head.strip_prefix("refs/heads/"));
            all.push(branch.map_or("HEAD".into(), |branch| format!("HEAD -> {branch}")));
        }
        let of = names.get(&id).map(Vec::as_slice).unwrap_or_default();
        // git prints the last one first.
        for name in of.iter().rev().filter(|name| Some(name.as_str()) != head.as_deref()) {
            let short = |form: &str| name.strip_prefix(form);
            let label = short("refs/tags/").map(|tag| format!("tag: {tag}"));
            all.extend(
                label
                    .or_else(|| short("refs/remotes/").or(short("refs/heads/")).map(str::to_owned)),
            );
        }
        all.join(", ")
    }

    async fn written(
        &mut self,
        commit: &Commit,
        options: &LogOptions,
        names: &Names,
    ) -> Result<String, String> {
        let id = if options.short { self.short(commit.id).await } else { commit.id.to_string() };
        let mark = match self.decoration(commit.id, names).await {
            names if options.decorate && !names.is_empty() => format!(" ({names})"),
            _ => String::new(),
        };
        let person = |label: &str, person: &super::commit::Person| {
            format!("{label}{} <{}>\n", person.name, person.email)
        };
        let mut head = format!("commit {id}{mark}\n");
        if commit.parents.len() > 1 {
            let mut parents = Vec::new();
            for parent in &commit.parents {
                parents.push(self.short(*parent).await);
            }
            head += &format!("Merge: {}\n", parents.join(" "));
        }
        let (author, committer) = (&commit.author, &commit.committer);
        match &options.pretty {
            Pretty::Oneline => return Ok(format!("{id}{mark} {}\n", commit.subject())),
            Pretty::Custom(format, ends) => {
                let text = self.formatted(commit, format, options, names).await?;
                return Ok(if *ends && !format.is_empty() { format!("{text}\n") } else { text });
            }
            Pretty::Raw => return Err("fatal: this git does not support --pretty=raw".into()),
            Pretty::Short => head += &person("Author: ", author),
            Pretty::Medium => {
                head += &format!(
                    "{}Date:   {}\n",
                    person("Author: ", author),
                    author.date(&options.date, options.now)
                )
            }
            Pretty::Full => head += &(person("Author: ", author) + &person("Commit: ", committer)),
            Pretty::Fuller => {
                head += &format!(
                    "{}AuthorDate: {}\n",
                    person("Author:     ", author),
                    author.date(&options.date, options.now)
                );
                head += &format!(
                    "{}CommitDate: {}\n",
                    person("Commit:     ", committer),
                    committer.date(&options.date, options.now)
                );
            }
        }
        head.push('\n');
        let message = if matches!(options.pretty, Pretty::Short) {
            commit.subject()
        } else {
            commit.message.trim_end().to_owned()
        };
        for line in message.trim_start_matches('\n').lines() {
            head += &format!("    {}\n", line.trim_end());
        }
        Ok(head)
    }

    async fn formatted(
        &mut self,
        commit: &Commit,
        format: &str,
        options: &LogOptions,
        names: &Names,
    ) -> Result<String, String> {
        let (mut out, mut rest) = (String::new(), format);
        while let Some(at) = rest.find('%') {
            out += &rest[..at];
            rest = &rest[at + 1..];
            let take = |count: usize| rest.get(..count).unwrap_or_default();
            let person = if rest.starts_with('a') { &commit.author } else { &commit.committer };
            let (length, text) = match (take(1), take(2)) {
                ("H", _) => (1, commit.id.to_string()),
                ("h", _) => (1, self.short(commit.id).await),
                ("T", _) => (1, commit.tree.to_string()),
                ("t", _) => (1, self.short(commit.tree).await),
                ("P", _) => {
                    (1, commit.parents.iter().map(Id::to_string).collect::<Vec<_>>().join(" "))
                }
                ("p", _) => {
                    let mut parents = Vec::new();
                    for parent in &commit.parents {
                        parents.push(self.short(*parent).await);
                    }
                    (1, parents.join(" "))
                }
                (_, "an" | "cn" | "aN" | "cN") => (2, person.name.clone()),
                (_, "ae" | "ce" | "aE" | "cE") => (2, person.email.clone()),
                (_, "al" | "cl") => {
                    (2, person.email.split('@').next().unwrap_or_default().to_owned())
                }
                (_, "ad" | "cd") => (2, person.date(&options.date, options.now)),
                (_, "ar" | "cr") => (2, person.date(&DateFormat::Relative, options.now)),
                (_, "at" | "ct") => (2, person.date(&DateFormat::Unix, options.now)),
                (_, "ai" | "ci") => (2, person.date(&DateFormat::Iso, options.now)),
                (_, "aI" | "cI") => (2, person.date(&DateFormat::IsoStrict, options.now)),
                (_, "as" | "cs") => (2, person.date(&DateFormat::Short, options.now)),
                (_, "aD" | "cD") => (2, person.date(&DateFormat::Rfc, options.now)),
                ("s", _) => (1, commit.subject()),
                ("f", _) => (1, slug(&commit.subject())),
                ("b", _) => (1, commit.body()),
                ("B", _) => (1, format!("{}\n", commit.message.trim_end())),
                ("d", _) => match self.decoration(commit.id, names).await {
                    names if names.is_empty() => (1, names),
                    names => (1, format!(" ({names})")),
                },
                ("D", _) => (1, self.decoration(commit.id, names).await),
                ("n", _) => (1, "\n".into()),
                ("%", _) => (1, "%".into()),
                ("x", _) => match u8::from_str_radix(rest.get(1..3).unwrap_or_default(), 16) {
                    Ok(byte) => (3, char::from(byte).to_string()),
                    Err(_) => (0, "%".into()),
                },
                // Colours, which are not printed to files and pipes.
                ("C", "C(") => (rest.find(')').map_or(rest.len(), |end| end + 1), String::new()),
                ("C", _) => (
                    ["Creset", "Cred", "Cgreen", "Cblue"]
                        .iter()
                        .find(|name| rest.starts_with(**name))
                        .map_or(0, |name| name.len()),
                    String::new(),
                ),
                _ => (0, "%".into()),
            };
            out += &text;
            rest = &rest[length..];
        }
        Ok(out + rest)
    }
}

/// Converts a subject to a part of a file name.
fn slug(subject: &str) -> String {
    let mut out = String::new();
    for c in subject.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') {
            out.push(c);
        } else if !out.ends_with('-') && !out.is_empty() {
            out.push('-');
        }
    }
    out.trim_end_matches(['-', '.']).to_owned()
}
