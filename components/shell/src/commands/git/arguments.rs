//! The arguments of git's commands: options, revisions and paths.
//!
//! Not with a library: git accepts options between operands up to `--`, values attached to both
//! `-n5` and `--name=value`, `-5`, and tells revisions from paths by looking at the repository.

use super::ignore::glob;
use super::objects::Id;
use super::repository::Repository;

pub(super) struct Arguments {
    rest: std::collections::VecDeque<String>,
    /// Options whose value is the next word.
    with_value: &'static [&'static str],
    /// Words that are not options.
    operands: Vec<String>,
    /// Words after `--`.
    paths: Option<Vec<String>>,
    /// The current option as written.
    pub(super) written: String,
}

#[derive(Default)]
pub(super) struct Revisions {
    pub(super) include: Vec<Id>,
    pub(super) exclude: Vec<Id>,
    /// The revisions as written.
    pub(super) words: Vec<String>,
}

impl Arguments {
    pub(super) fn new(args: &[String], with_value: &'static [&'static str]) -> Arguments {
        Arguments {
            rest: args.to_vec().into(),
            with_value,
            operands: Vec::new(),
            paths: None,
            written: String::new(),
        }
    }

    /// Returns the next option, with its value if it has one.
    pub(super) fn option(&mut self) -> Result<Option<(String, Option<String>)>, String> {
        while let Some(word) = self.rest.pop_front() {
            if word == "--" {
                self.paths = Some(self.rest.drain(..).collect());
            } else if !word.starts_with('-') || word == "-" {
                self.operands.push(word);
            } else {
                self.written = word.clone();
                if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--"))
                {
                    return Ok(Some((name.to_owned(), Some(value.to_owned()))));
                }
                if self.with_value.contains(&word.as_str()) {
                    let value = self.rest.pop_front().ok_or_else(|| {
                        format!("error: option `{}' requires a value", word.trim_start_matches('-'))
                    })?;
                    return Ok(Some((word, Some(value))));
                }
                // A value attached to a letter: `-n5`.
                let letter =
                    self.with_value.iter().find(|name| name.len() == 2 && word.starts_with(**name));
                return Ok(Some(match letter {
                    Some(letter) => ((*letter).to_owned(), Some(word[2..].to_owned())),
                    None => (word, None),
                }));
            }
        }
        Ok(None)
    }

    /// Returns the message for an unknown option.
    pub(super) fn unknown(&self) -> String {
        format!("fatal: this git does not support the option '{}'", self.written)
    }

    pub(super) fn operands(self) -> Vec<String> {
        self.operands.into_iter().chain(self.paths.unwrap_or_default()).collect()
    }

    /// Splits the operands into revisions and paths. Paths become relative to the root of the work
    /// tree.
    pub(super) async fn revisions(
        self,
        repository: &mut Repository,
    ) -> Result<(Revisions, Vec<String>), String> {
        let (mut revisions, mut paths) = (Revisions::default(), Vec::new());
        for word in self.operands {
            if !paths.is_empty() {
                paths.push(word);
                continue;
            }
            match repository.range(&word).await {
                Ok((include, exclude)) => {
                    revisions.include.extend(include);
                    revisions.exclude.extend(exclude);
                    revisions.words.push(word);
                }
                Err(error) if self.paths.is_some() || !repository.has_path(&word).await => {
                    return Err(error);
                }
                Err(_) => paths.push(word),
            }
        }
        paths.extend(self.paths.unwrap_or_default());
        let paths =
            paths.iter().map(|path| repository.below_root(path)).collect::<Result<_, _>>()?;
        Ok((revisions, paths))
    }
}

impl Repository {
    /// Returns the commits that a word includes, and those that it excludes.
    async fn range(&mut self, word: &str) -> Result<(Vec<Id>, Vec<Id>), String> {
        let or_head =
            |text: &str| if text.is_empty() { "HEAD".to_owned() } else { text.to_owned() };
        if let Some((from, to)) = word.split_once("...") {
            let (from, to) =
                (self.revision(&or_head(from)).await?, self.revision(&or_head(to)).await?);
            let base = self.base(from, to).await?;
            return Ok((vec![from, to], base.into_iter().collect()));
        }
        if let Some((from, to)) = word.split_once("..") {
            return Ok((
                vec![self.revision(&or_head(to)).await?],
                vec![self.revision(&or_head(from)).await?],
            ));
        }
        match word.strip_prefix('^') {
            Some(word) => Ok((Vec::new(), vec![self.revision(word).await?])),
            None => Ok((vec![self.revision(word).await?], Vec::new())),
        }
    }

    /// Finds the latest commit that is an ancestor of both.
    pub(super) async fn base(&mut self, one: Id, other: Id) -> Result<Option<Id>, String> {
        let both: Vec<Id> = self
            .ancestors(&[one])
            .await?
            .intersection(&self.ancestors(&[other]).await?)
            .copied()
            .collect();
        let mut best: Option<(i64, Id)> = None;
        for id in both {
            let seconds = self.commit(id).await?.committer.seconds;
            // Among several of the same time, one that is a descendant of the others.
            let later = match best {
                None => true,
                Some((time, _)) if time != seconds => time < seconds,
                Some((_, other)) => self.ancestors(&[id]).await?.contains(&other),
            };
            if later {
                best = Some((seconds, id));
            }
        }
        Ok(best.map(|(_, id)| id))
    }

    async fn has_path(&self, word: &str) -> bool {
        word.contains(['*', '?', '['])
            || self.fs.exists(&self.cwd.join(word)).await.unwrap_or(false)
    }

    /// Makes a path of the command line relative to the root of the work tree.
    pub(super) fn below_root(&self, path: &str) -> Result<String, String> {
        let full =
            super::repository::normalize(&self.cwd.join(path.strip_prefix(":/").unwrap_or(path)));
        if path.starts_with(":(") || path.starts_with(":!") || path.starts_with(":^") {
            return Err(format!("fatal: this git does not support the pathspec '{path}'"));
        }
        match full.strip_prefix(self.work()?) {
            Ok(below) => Ok(below.to_string_lossy().into_owned()),
            Err(_) => Err(format!(
                "fatal: {path}: '{path}' is outside repository at '{}'",
                self.work()?.display()
            )),
        }
    }
}

/// Returns whether one of the paths selects a file: by its name, by a folder above it, or by a
/// pattern. No paths select everything.
pub(super) fn is_under(path: &str, paths: &[String]) -> bool {
    let fits = |wanted: &String| {
        let folder = path.strip_prefix(wanted.as_str());
        // `*` in a path of the command line matches slashes.
        let pattern = || {
            wanted.contains(['*', '?', '['])
                && glob(wanted.replace('*', "**").as_bytes(), path.as_bytes())
        };
        wanted.is_empty()
            || folder.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || wanted.ends_with('/')
            })
            || pattern()
    };
    paths.is_empty() || paths.iter().any(fits)
}
