//! Tags: listing, showing, and describing commits by them.

use std::cmp::Ordering;

use super::CommandResult;
use super::arguments::Arguments;
use super::commit::{DateFormat, Person};
use super::ignore::glob;
use super::objects::{Id, Kind};
use super::repository::Repository;

impl Repository {
    pub(super) async fn tag(&mut self, args: &[String]) -> Result<CommandResult, String> {
        let (mut list, mut sort) = (args.is_empty(), "refname".to_owned());
        let mut arguments = Arguments::new(args, &["--sort"]);
        while let Some((option, value)) = arguments.option()? {
            match (option.as_str(), value) {
                ("-l" | "--list", None) => list = true,
                ("--sort", Some(key)) => (list, sort) = (true, key),
                ("--no-column" | "--no-color", None) => {}
                (
                    "-a" | "-s" | "-d" | "-f" | "-m" | "-F" | "--delete" | "--force" | "--annotate",
                    _,
                ) => {
                    return Err(
                        "fatal: 'git tag' writes to the repository, but git can only read here"
                            .into(),
                    );
                }
                _ => return Err(arguments.unknown()),
            }
        }
        let patterns = arguments.operands();
        if !patterns.is_empty() && !list {
            return Err("fatal: 'git tag' creates a tag, but git can only read here".into());
        }
        let mut tags = Vec::new();
        for (name, id) in self.references("refs/tags/").await {
            let name = name["refs/tags/".len()..].to_owned();
            if patterns.is_empty()
                || patterns
                    .iter()
                    .any(|pattern| glob(pattern.replace('*', "**").as_bytes(), name.as_bytes()))
            {
                let object = self.object(id).await?;
                let seconds = match object.kind {
                    Kind::Tag => tagger(&object.data).seconds,
                    _ => self.commit(id).await.map_or(0, |commit| commit.committer.seconds),
                };
                tags.push((name, seconds));
            }
        }
        let (down, key) = sort.strip_prefix('-').map_or((false, sort.as_str()), |key| (true, key));
        match key {
            "refname" => {}
            "creatordate" | "taggerdate" | "committerdate" => {
                tags.sort_by_key(|(_, seconds)| *seconds)
            }
            "v:refname" | "version:refname" => tags.sort_by(|(a, _), (b, _)| version_order(a, b)),
            _ => return Err(format!("fatal: this git does not support sorting by '{key}'")),
        }
        if down {
            tags.reverse();
            // Tags of the same date are sorted by name.
            if key.ends_with("date") {
                tags.sort_by(|(a, one), (b, other)| other.cmp(one).then(a.cmp(b)));
            }
        }
        Ok(tags.iter().map(|(name, _)| format!("{name}\n")).collect::<String>().into())
    }

    pub(super) async fn describe(&mut self, args: &[String]) -> Result<CommandResult, String> {
        let (mut any, mut always, mut least, mut long, mut exact) =
            (false, false, None, false, false);
        let mut arguments = Arguments::new(args, &["--abbrev"]);
        while let Some((option, value)) = arguments.option()? {
            match (option.as_str(), value) {
                ("--tags", None) => any = true,
                ("--always", None) => always = true,
                ("--long", None) => long = true,
                ("--exact-match", None) => exact = true,
                ("--abbrev", Some(digits)) => least = digits.parse().ok(),
                _ => return Err(arguments.unknown()),
            }
        }
        let word = arguments.operands().into_iter().next().unwrap_or_else(|| "HEAD".into());
        let id = self.revision(&word).await?;
        let id = self.peeled(id, Some(Kind::Commit)).await?;
        let mut tags: Vec<(Id, String)> = Vec::new();
        for (name, id) in self.references("refs/tags/").await {
            let annotated = self.object(id).await?.kind == Kind::Tag;
            if (annotated || any)
                && let Ok(commit) = self.peeled(id, Some(Kind::Commit)).await
            {
                tags.push((commit, name["refs/tags/".len()..].to_owned()));
            }
        }
        let all = self.ancestors(&[id]).await?;
        // Picks the tag with the fewest commits after it.
        let mut best: Option<(usize, String)> = None;
        for (commit, name) in tags.iter().filter(|(commit, _)| all.contains(commit)) {
            let behind = all.len() - self.ancestors(&[*commit]).await?.len();
            if best.as_ref().is_none_or(|(other, _)| behind < *other) {
                best = Some((behind, name.clone()));
            }
        }
        let short = match least {
            Some(0) => String::new(),
            Some(least) => self.short_from(id, least).await,
            None => self.short(id).await,
        };
        match best {
            Some((0, name)) if !long => Ok(format!("{name}\n").into()),
            Some((_, name)) if least == Some(0) && !exact => Ok(format!("{name}\n").into()),
            Some((behind, name)) if !exact => Ok(format!("{name}-{behind}-g{short}\n").into()),
            _ if exact => Err(format!("fatal: no tag exactly matches '{id}'")),
            _ if always => Ok(format!("{short}\n").into()),
            _ if tags.is_empty() => Err("fatal: No names found, cannot describe anything.".into()),
            _ => Err(format!(
                "fatal: No tags can describe '{id}'.\nTry --always, or create some tags."
            )),
        }
    }
}

/// Returns the head that `show` prints for a tag.
pub(super) fn tag_head(data: &[u8], now: i64) -> String {
    let text = String::from_utf8_lossy(data);
    let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
    let name = head.lines().find_map(|line| line.strip_prefix("tag ")).unwrap_or_default();
    let tagger = tagger(data);
    format!(
        "tag {name}\nTagger: {} <{}>\nDate:   {}\n\n{}\n\n",
        tagger.name,
        tagger.email,
        tagger.date(&DateFormat::Default, now),
        message.trim_end()
    )
}

fn tagger(data: &[u8]) -> Person {
    let text = String::from_utf8_lossy(data);
    text.lines()
        .take_while(|line| !line.is_empty())
        .find_map(|line| line.strip_prefix("tagger "))
        .map(Person::parse)
        .unwrap_or_default()
}

/// Orders `v1.9` before `v1.10`.
fn version_order(a: &str, b: &str) -> Ordering {
    let key = |text: &str| -> Vec<(String, u64)> {
        let mut all = vec![(String::new(), 0u64)];
        for c in text.chars() {
            let after_digit = all.last().is_some_and(|(text, _)| text.ends_with('\u{1}'));
            match (c.to_digit(10), after_digit) {
                (Some(digit), _) => {
                    if let Some((text, number)) = all.last_mut() {
                        if !after_digit {
                            text.push('\u{1}');
                        }
                        *number = number.saturating_mul(10).saturating_add(u64::from(digit));
                    }
                }
                (None, true) => all.push((c.to_string(), 0)),
                (None, false) => {
                    if let Some((text, _)) = all.last_mut() {
                        text.push(c);
                    }
                }
            }
        }
        all
    };
    key(a).cmp(&key(b))
}
