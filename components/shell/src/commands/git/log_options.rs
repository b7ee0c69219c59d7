//! The options of `log`, `show` and `rev-list`: which commits to print, and in which format.

use super::arguments::Arguments;
use super::commit::{Commit, DateFormat};
use super::difference::Show;
use super::objects::Id;
use super::repository::Repository;

/// The parsed options of `log`, `show` and `rev-list`.
pub(super) struct LogOptions {
    pub(super) include: Vec<Id>,
    pub(super) exclude: Vec<Id>,
    pub(super) paths: Vec<String>,
    pub(super) show: Show,
    pub(super) most: usize,
    pub(super) skip: usize,
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
    pub(super) author: Option<String>,
    pub(super) grep: Option<String>,
    /// The allowed numbers of parents.
    pub(super) parents: std::ops::RangeInclusive<usize>,
    pub(super) first_parent: bool,
    pub(super) reverse: bool,
    pub(super) count: bool,
    /// Whether to show the changes of merges.
    pub(super) merges: bool,
    /// The revisions as written.
    pub(super) words: Vec<String>,
    pub(super) pretty: Pretty,
    pub(super) date: DateFormat,
    pub(super) short: bool,
    pub(super) decorate: bool,
    pub(super) now: i64,
}

pub(super) enum Pretty {
    Oneline,
    Short,
    Medium,
    Full,
    Fuller,
    Raw,
    /// A custom format, and whether each commit ends with a newline (instead of newlines between
    /// commits).
    Custom(String, bool),
}

impl LogOptions {
    /// Parses the arguments. `repository` resolves the revisions.
    pub(super) async fn parse(
        args: &[String],
        repository: &mut Repository,
        now: i64,
    ) -> Result<LogOptions, String> {
        let mut options = LogOptions {
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
            date: DateFormat::Default,
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
            if !options.option(&option, value.as_deref(), repository).await?
                && !options.show.option(&arguments.written)
            {
                return Err(arguments.unknown());
            }
        }
        let (revisions, paths) = arguments.revisions(repository).await?;
        options.include.extend(revisions.include);
        options.words = revisions.words;
        options.exclude.extend(revisions.exclude);
        options.paths = paths;
        Ok(options)
    }

    async fn option(
        &mut self,
        option: &str,
        value: Option<&str>,
        repository: &Repository,
    ) -> Result<bool, String> {
        let number = || {
            value
                .and_then(|value| value.parse().ok())
                .ok_or_else(|| format!("fatal: '{}': not an integer", value.unwrap_or_default()))
        };
        match (option, value) {
            ("-n" | "--max-count", _) => self.most = number()?,
            ("--skip", _) => self.skip = number()?,
            ("--since" | "--after", Some(text)) => self.since = Some(moment(text, self.now)?),
            ("--until" | "--before", Some(text)) => self.until = Some(moment(text, self.now)?),
            ("--author", Some(text)) => self.author = Some(text.to_owned()),
            ("--grep", Some(text)) => self.grep = Some(text.to_owned()),
            ("--oneline", None) => (self.pretty, self.short) = (Pretty::Oneline, true),
            ("--format" | "--pretty", Some(text)) => self.pretty = Pretty::parse(text)?,
            ("--date", Some(text)) => {
                self.date = DateFormat::parse(text)
                    .ok_or_else(|| format!("fatal: unknown date format {text}"))?
            }
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
                let below = if option == "--all" {
                    "refs/".to_owned()
                } else {
                    format!("refs/{}/", &option[2..]).replace("branches", "heads")
                };
                self.include
                    .extend(repository.references(&below).await.into_iter().map(|(_, id)| id));
                if option == "--all" {
                    self.include.extend(repository.reference("HEAD").await);
                }
            }
            (digits, None)
                if digits.len() > 1 && digits[1..].bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                self.most = digits[1..].parse().unwrap_or(usize::MAX);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn takes(&self, commit: &Commit) -> bool {
        let has = |text: &Option<String>, within: &str| {
            text.as_ref().is_none_or(|text| within.contains(text.as_str()))
        };
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
                (Some(format), _) => Pretty::Custom(format.to_owned(), false),
                (_, Some(format)) => Pretty::Custom(format.to_owned(), true),
                _ if text.contains('%') || text.is_empty() => Pretty::Custom(text.to_owned(), true),
                _ => return Err(format!("fatal: invalid --pretty format: {text}")),
            },
        })
    }
}

/// Parses a time: a date, a date with time, seconds, or a duration ago.
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
            _ => return Err(format!("fatal: this git does not understand the time '{text}'")),
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
    if let Ok(when) = DateTime::parse_from_rfc3339(text)
        .or_else(|_| DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S %z"))
    {
        return Ok(when.timestamp());
    }
    for form in ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"] {
        if let Ok(when) = NaiveDateTime::parse_from_str(text, form) {
            return Ok(when.and_utc().timestamp());
        }
    }
    // A date alone means that day at the current time of day.
    match NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        Ok(date) => {
            Ok(date.and_hms_opt(0, 0, 0).map_or(0, |midnight| midnight.and_utc().timestamp()) + day)
        }
        Err(_) => Err(format!("fatal: this git does not understand the time '{text}'")),
    }
}
