//! `log`, `show` and `rev-list`: which commits, in which order, and how each is written.

use std::collections::{BinaryHeap, HashMap, HashSet};

use super::arguments::{Arguments, is_under};
use super::commit::{Commit, Form};
use super::difference::Show;
use super::objects::{Id, Kind};
use super::repository::Repository;
use super::trees::{Changed, renamed};

/// What `log`, `show` and `rev-list` were asked.
pub(super) struct Asked {
    pub(super) include: Vec<Id>,
    pub(super) exclude: Vec<Id>,
    pub(super) paths: Vec<String>,
    pub(super) show: Show,
    most: usize,
    skip: usize,
    since: Option<i64>,
    until: Option<i64>,
    author: Option<String>,
    grep: Option<String>,
    /// Bounds of the number of parents.
    parents: std::ops::RangeInclusive<usize>,
    first_parent: bool,
    reverse: bool,
    pub(super) count: bool,
    /// What merges changed is shown too.
    pub(super) merges: bool,
    /// The revisions as they were written.
    pub(super) words: Vec<String>,
    pretty: Pretty,
    date: Form,
    short: bool,
    decorate: bool,
    now: i64,
}

enum Pretty {
    Oneline,
    Short,
    Medium,
    Full,
    Fuller,
    Raw,
    /// A format, and whether a line's end comes after each rather than between.
    Own(String, bool),
}

/// Full names of references by what they lead to.
type Names = HashMap<Id, Vec<String>>;

impl Asked {
    /// Reads the command line, of which `repository` finds the revisions.
    pub(super) async fn parse(args: &[String], repository: &mut Repository, now: i64) -> Result<Asked, String> {
        let mut asked = Asked {
            include: Vec::new(),
            exclude: Vec::new(),
            paths: Vec::new(),
            show: Show::default(),
            most: usize::MAX,
            skip: 0,
            since: None,
            until: None,
            author: None,
            grep: None,
            parents: 0..=usize::MAX,
            first_parent: false,
            reverse: false,
            count: false,
            merges: false,
            words: Vec::new(),
            pretty: Pretty::Medium,
            date: Form::Default,
            short: false,
            decorate: false,
            now,
        };
        let mut arguments = Arguments::new(
            args,
            &[
                "-n",
                "--max-count",
                "--skip",
                "--since",
                "--after",
                "--until",
                "--before",
                "--author",
                "--grep",
                "--format",
                "--pretty",
                "--date",
            ],
        );
        while let Some((option, value)) = arguments.option()? {
            if !asked.option(&option, value.as_deref(), repository).await? && !asked.show.option(&arguments.written) {
                return Err(arguments.unknown());
            }
        }
        let (revisions, paths) = arguments.revisions(repository).await?;
        asked.include.extend(revisions.include);
        asked.words = revisions.words;
        asked.exclude.extend(revisions.exclude);
        asked.paths = paths;
        Ok(asked)
    }

    async fn option(&mut self, option: &str, value: Option<&str>, repository: &Repository) -> Result<bool, String> {
        let number =
            || value.and_then(|value| value.parse().ok()).ok_or_else(|| format!("fatal: '{}': not an integer", value.unwrap_or_default()));
        match (option, value) {
            ("-n" | "--max-count", _) => self.most = number()?,
            ("--skip", _) => self.skip = number()?,
            ("--since" | "--after", Some(text)) => self.since = Some(moment(text, self.now)?),
            ("--until" | "--before", Some(text)) => self.until = Some(moment(text, self.now)?),
            ("--author", Some(text)) => self.author = Some(text.to_owned()),
            ("--grep", Some(text)) => self.grep = Some(text.to_owned()),
            ("--oneline", None) => (self.pretty, self.short) = (Pretty::Oneline, true),
            ("--format" | "--pretty", Some(text)) => self.pretty = Pretty::parse(text)?,
            ("--date", Some(text)) => self.date = Form::parse(text).ok_or_else(|| format!("fatal: unknown date format {text}"))?,
            ("--abbrev-commit", None) => self.short = true,
            ("--no-abbrev-commit", None) => self.short = false,
            ("--decorate", _) => self.decorate = value != Some("no"),
            ("--no-decorate", None) => self.decorate = false,
            ("--no-merges", None) => self.parents = 0..=1,
            ("--merges", None) => self.parents = 2..=usize::MAX,
            ("--first-parent", None) => self.first_parent = true,
            ("--reverse", None) => self.reverse = true,
            ("--count", None) => self.count = true,
            ("--all" | "--branches" | "--tags" | "--remotes", None) => {
                let below =
                    if option == "--all" { "refs/".to_owned() } else { format!("refs/{}/", &option[2..]).replace("branches", "heads") };
                self.include.extend(repository.references(&below).await.into_iter().map(|(_, id)| id));
                if option == "--all" {
                    self.include.extend(repository.reference("HEAD").await);
                }
            }
            (digits, None) if digits.len() > 1 && digits[1..].bytes().all(|byte| byte.is_ascii_digit()) => {
                self.most = digits[1..].parse().unwrap_or(usize::MAX);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn takes(&self, commit: &Commit) -> bool {
        let has = |text: &Option<String>, within: &str| text.as_ref().is_none_or(|text| within.contains(text.as_str()));
        self.parents.contains(&commit.parents.len())
            && self.since.is_none_or(|since| commit.committer.seconds >= since)
            && self.until.is_none_or(|until| commit.committer.seconds <= until)
            && has(&self.author, &format!("{} <{}>", commit.author.name, commit.author.email))
            && has(&self.grep, &commit.message)
    }
}

impl Pretty {
    fn parse(text: &str) -> Result<Pretty, String> {
        Ok(match text {
            "oneline" => Pretty::Oneline,
            "short" => Pretty::Short,
            "medium" => Pretty::Medium,
            "full" => Pretty::Full,
            "fuller" => Pretty::Fuller,
            "raw" => Pretty::Raw,
            _ => match (text.strip_prefix("format:"), text.strip_prefix("tformat:")) {
                (Some(format), _) => Pretty::Own(format.to_owned(), false),
                (_, Some(format)) => Pretty::Own(format.to_owned(), true),
                _ if text.contains('%') || text.is_empty() => Pretty::Own(text.to_owned(), true),
                _ => return Err(format!("fatal: invalid --pretty format: {text}")),
            },
        })
    }
}

/// A commit in the queue: the latest one first, then in the order of coming.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Queued(i64, std::cmp::Reverse<usize>, Id);

impl Repository {
    /// The commits that lead to some and not to others, the latest first.
    pub(super) async fn walk(&mut self, asked: &Asked) -> Result<Vec<Commit>, String> {
        let hidden = self.ancestors(&asked.exclude).await?;
        let (mut queue, mut seen, mut all, mut skipped) = (BinaryHeap::new(), HashSet::new(), Vec::new(), 0);
        for id in &asked.include {
            let id = self.peeled(*id, Some(Kind::Commit)).await?;
            if seen.insert(id) {
                queue.push(Queued(self.commit(id).await?.committer.seconds, std::cmp::Reverse(seen.len()), id));
            }
        }
        while let Some(Queued(_, _, id)) = queue.pop() {
            if hidden.contains(&id) || all.len() >= asked.most {
                continue;
            }
            let commit = self.commit(id).await?;
            let (follow, shown) = self.followed(&commit, asked).await?;
            for parent in follow {
                // A shallow clone ends where a parent is not there.
                if seen.insert(parent)
                    && let Ok(next) = self.commit(parent).await
                {
                    queue.push(Queued(next.committer.seconds, std::cmp::Reverse(seen.len()), parent));
                }
            }
            if shown && asked.takes(&commit) {
                skipped += 1;
                if skipped > asked.skip {
                    all.push(commit);
                }
            }
        }
        if asked.reverse {
            all.reverse();
        }
        Ok(all)
    }

    /// Which parents to go on with, and whether the commit changes what was asked for.
    async fn followed(&mut self, commit: &Commit, asked: &Asked) -> Result<(Vec<Id>, bool), String> {
        let count = if asked.first_parent { 1 } else { usize::MAX };
        let parents: Vec<Id> = commit.parents.iter().copied().take(count).collect();
        if asked.paths.is_empty() {
            return Ok((parents, true));
        }
        for parent in &parents {
            let Ok(before) = self.commit(*parent).await else { continue };
            let changed = self.between(Some(before.tree), Some(commit.tree)).await?;
            if !changed.iter().any(|one| is_under(&one.path, &asked.paths)) {
                return Ok((vec![*parent], false));
            }
        }
        let shown = match parents[..] {
            [] => self.between(None, Some(commit.tree)).await?.iter().any(|one| is_under(&one.path, &asked.paths)),
            _ => true,
        };
        Ok((parents, shown))
    }

    /// Commits and all that lead to them.
    pub(super) async fn ancestors(&mut self, of: &[Id]) -> Result<HashSet<Id>, String> {
        let (mut found, mut next) = (HashSet::new(), Vec::new());
        for id in of {
            next.push(self.peeled(*id, Some(Kind::Commit)).await?);
        }
        while let Some(id) = next.pop() {
            if found.insert(id)
                && let Ok(commit) = self.commit(id).await
            {
                next.extend(commit.parents);
            }
        }
        Ok(found)
    }

    /// What a commit changed, of some paths.
    async fn changes_of(&mut self, commit: &Commit, paths: &[String]) -> Result<Vec<Changed>, String> {
        let before = match commit.parents.first() {
            Some(parent) => self.commit(*parent).await.ok().map(|commit| commit.tree),
            None => None,
        };
        let mut changed = self.between(before, Some(commit.tree)).await?;
        changed.retain(|one| is_under(&one.path, paths));
        Ok(renamed(changed))
    }

    /// Whether each file of a merge is as one of its parents has it. What else it did takes a diff of three sides.
    async fn agrees_with_a_parent(&mut self, commit: &Commit) -> Result<(), String> {
        let mut own: Option<HashSet<String>> = None;
        for parent in &commit.parents {
            let tree = self.commit(*parent).await?.tree;
            let changed: HashSet<String> = self.between(Some(tree), Some(commit.tree)).await?.into_iter().map(|one| one.path).collect();
            own = Some(own.map_or(changed.clone(), |own| own.intersection(&changed).cloned().collect()));
        }
        match own.filter(|own| !own.is_empty()) {
            None => Ok(()),
            Some(_) => Err(format!("fatal: this git does not show what a merge changed by itself; try: git diff {0}^1 {0}", commit.id)),
        }
    }

    /// `log` and `show` of commits.
    pub(super) async fn log(&mut self, commits: &[Commit], asked: &Asked) -> Result<Vec<u8>, String> {
        let names = self.names().await;
        let mut out = Vec::new();
        for (nth, commit) in commits.iter().enumerate() {
            let head = self.written(commit, asked, &names).await?;
            let between = !matches!(asked.pretty, Pretty::Oneline | Pretty::Own(_, true));
            if nth > 0 && between {
                out.push(b'\n');
            }
            out.extend(head.bytes());
            let own = matches!(asked.pretty, Pretty::Own(_, false));
            let changed = match commit.parents.len() {
                _ if !asked.show.is_any() => Vec::new(),
                0 | 1 => self.changes_of(commit, &asked.paths).await?,
                _ if !asked.merges || asked.show.none => Vec::new(),
                _ if asked.show.patch || asked.show.names || asked.show.letters => {
                    self.agrees_with_a_parent(commit).await?;
                    out.push(b'\n');
                    Vec::new()
                }
                _ => self.changes_of(commit, &asked.paths).await?,
            };
            let shown = self.show(&changed, &asked.show).await?;
            if !shown.is_empty() {
                if own {
                    out.push(b'\n');
                }
                match &asked.pretty {
                    Pretty::Oneline => {}
                    Pretty::Own(format, true) if format.is_empty() => {}
                    _ if asked.show.patch && asked.show.stat => out.extend(b"---\n"),
                    Pretty::Own(_, false) => {}
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

    /// `HEAD -> main, tag: v1, origin/main`.
    async fn decoration(&self, id: Id, names: &Names) -> String {
        let head = self.head().await;
        let mut all = Vec::new();
        if self.reference("HEAD").await == Some(id) {
            let branch = head.as_deref().and_then(|head| head.strip_prefix("refs/heads/"));
            all.push(branch.map_or("HEAD".into(), |branch| format!("HEAD -> {branch}")));
        }
        let of = names.get(&id).map(Vec::as_slice).unwrap_or_default();
        // As git has them: the last one first.
        for name in of.iter().rev().filter(|name| Some(name.as_str()) != head.as_deref()) {
            let short = |form: &str| name.strip_prefix(form);
            let label = short("refs/tags/").map(|tag| format!("tag: {tag}"));
            all.extend(label.or_else(|| short("refs/remotes/").or(short("refs/heads/")).map(str::to_owned)));
        }
        all.join(", ")
    }

    async fn written(&mut self, commit: &Commit, asked: &Asked, names: &Names) -> Result<String, String> {
        let id = if asked.short { self.short(commit.id).await } else { commit.id.to_string() };
        let mark = match self.decoration(commit.id, names).await {
            names if asked.decorate && !names.is_empty() => format!(" ({names})"),
            _ => String::new(),
        };
        let person = |label: &str, person: &super::commit::Person| format!("{label}{} <{}>\n", person.name, person.email);
        let mut head = format!("commit {id}{mark}\n");
        if commit.parents.len() > 1 {
            let mut parents = Vec::new();
            for parent in &commit.parents {
                parents.push(self.short(*parent).await);
            }
            head += &format!("Merge: {}\n", parents.join(" "));
        }
        let (author, committer) = (&commit.author, &commit.committer);
        match &asked.pretty {
            Pretty::Oneline => return Ok(format!("{id}{mark} {}\n", commit.subject())),
            Pretty::Own(format, ends) => {
                let text = self.formatted(commit, format, asked, names).await?;
                return Ok(if *ends && !format.is_empty() { format!("{text}\n") } else { text });
            }
            Pretty::Raw => return Err("fatal: --pretty=raw is not there in this git".into()),
            Pretty::Short => head += &person("Author: ", author),
            Pretty::Medium => head += &format!("{}Date:   {}\n", person("Author: ", author), author.date(&asked.date, asked.now)),
            Pretty::Full => head += &(person("Author: ", author) + &person("Commit: ", committer)),
            Pretty::Fuller => {
                head += &format!("{}AuthorDate: {}\n", person("Author:     ", author), author.date(&asked.date, asked.now));
                head += &format!("{}CommitDate: {}\n", person("Commit:     ", committer), committer.date(&asked.date, asked.now));
            }
        }
        head.push('\n');
        let message = if matches!(asked.pretty, Pretty::Short) { commit.subject() } else { commit.message.trim_end().to_owned() };
        for line in message.trim_start_matches('\n').lines() {
            head += &format!("    {}\n", line.trim_end());
        }
        Ok(head)
    }

    async fn formatted(&mut self, commit: &Commit, format: &str, asked: &Asked, names: &Names) -> Result<String, String> {
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
                ("P", _) => (1, commit.parents.iter().map(Id::to_string).collect::<Vec<_>>().join(" ")),
                ("p", _) => {
                    let mut parents = Vec::new();
                    for parent in &commit.parents {
                        parents.push(self.short(*parent).await);
                    }
                    (1, parents.join(" "))
                }
                (_, "an" | "cn" | "aN" | "cN") => (2, person.name.clone()),
                (_, "ae" | "ce" | "aE" | "cE") => (2, person.email.clone()),
                (_, "al" | "cl") => (2, person.email.split('@').next().unwrap_or_default().to_owned()),
                (_, "ad" | "cd") => (2, person.date(&asked.date, asked.now)),
                (_, "ar" | "cr") => (2, person.date(&Form::Relative, asked.now)),
                (_, "at" | "ct") => (2, person.date(&Form::Unix, asked.now)),
                (_, "ai" | "ci") => (2, person.date(&Form::Iso, asked.now)),
                (_, "aI" | "cI") => (2, person.date(&Form::IsoStrict, asked.now)),
                (_, "as" | "cs") => (2, person.date(&Form::Short, asked.now)),
                (_, "aD" | "cD") => (2, person.date(&Form::Rfc, asked.now)),
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
                // Colours, which no file or pipe gets.
                ("C", "C(") => (rest.find(')').map_or(rest.len(), |end| end + 1), String::new()),
                ("C", _) => (
                    ["Creset", "Cred", "Cgreen", "Cblue"].iter().find(|name| rest.starts_with(**name)).map_or(0, |name| name.len()),
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

/// A subject as part of a file's name.
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

/// A time as people write it: a date, a moment, seconds, or so long ago.
fn moment(text: &str, now: i64) -> Result<i64, String> {
    use chrono::{DateTime, NaiveDate, NaiveDateTime};
    let words: Vec<&str> = text.split(['.', ' ']).filter(|word| !word.is_empty()).collect();
    if let [count, unit, "ago"] = words[..]
        && let Ok(count) = count.parse::<i64>()
    {
        let unit = match unit.trim_end_matches('s') {
            "second" => 1,
            "minute" => 60,
            "hour" => 3600,
            "day" => 86_400,
            "week" => 7 * 86_400,
            "month" => 30 * 86_400,
            "year" => 365 * 86_400,
            _ => return Err(format!("fatal: this git does not read the time '{text}'")),
        };
        return Ok(now.saturating_sub(count.saturating_mul(unit)));
    }
    let day = now.rem_euclid(86_400);
    if let Some(back) = ["now", "yesterday"].iter().position(|word| *word == text) {
        return Ok(now - 86_400 * back as i64);
    }
    if text == "today" || text == "midnight" {
        return Ok(now - day);
    }
    if let Ok(seconds) = text.trim_start_matches('@').parse::<i64>()
        && seconds > 100_000_000
    {
        return Ok(seconds);
    }
    if let Ok(when) = DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S %z")) {
        return Ok(when.timestamp());
    }
    for form in ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"] {
        if let Ok(when) = NaiveDateTime::parse_from_str(text, form) {
            return Ok(when.and_utc().timestamp());
        }
    }
    // A day alone is that day at this time of day.
    match NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        Ok(date) => Ok(date.and_hms_opt(0, 0, 0).map_or(0, |midnight| midnight.and_utc().timestamp()) + day),
        Err(_) => Err(format!("fatal: this git does not read the time '{text}'")),
    }
}
