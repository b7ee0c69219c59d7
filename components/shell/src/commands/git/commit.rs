//! Commits, and the formats of dates.

use chrono::{DateTime, FixedOffset};

use super::objects::Id;

pub(super) struct Commit {
    pub(super) id: Id,
    pub(super) tree: Id,
    pub(super) parents: Vec<Id>,
    pub(super) author: Person,
    pub(super) committer: Person,
    pub(super) message: String,
}

#[derive(Default)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) email: String,
    pub(super) seconds: i64,
    /// Offset from UTC, as in `+0100`.
    zone: i32,
}

/// A format of dates.
#[derive(Clone)]
pub(super) enum DateFormat {
    Default,
    Relative,
    Iso,
    IsoStrict,
    Short,
    Unix,
    Rfc,
    Custom(String),
}

impl Commit {
    pub(super) fn parse(id: Id, data: &[u8]) -> Commit {
        let text = String::from_utf8_lossy(data);
        let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
        let mut commit = Commit {
            id,
            tree: Id::default(),
            parents: Vec::new(),
            author: Person::default(),
            committer: Person::default(),
            message: message.to_owned(),
        };
        for (key, value) in head.lines().filter_map(|line| line.split_once(' ')) {
            match key {
                "tree" => commit.tree = Id::parse(value).unwrap_or_default(),
                "parent" => commit.parents.extend(Id::parse(value)),
                "author" => commit.author = Person::parse(value),
                "committer" => commit.committer = Person::parse(value),
                _ => {}
            }
        }
        commit
    }

    /// Returns the first paragraph as one line.
    pub(super) fn subject(&self) -> String {
        let lines = self
            .message
            .trim_start_matches('\n')
            .lines()
            .take_while(|line| !line.trim().is_empty());
        lines.map(str::trim_end).collect::<Vec<_>>().join(" ")
    }

    /// Returns the text after the first paragraph.
    pub(super) fn body(&self) -> String {
        let mut lines = self
            .message
            .trim_start_matches('\n')
            .lines()
            .skip_while(|line| !line.trim().is_empty())
            .peekable();
        while lines.next_if(|line| line.trim().is_empty()).is_some() {}
        let body = lines.collect::<Vec<_>>().join("\n");
        if body.trim().is_empty() { String::new() } else { format!("{}\n", body.trim_end()) }
    }
}

impl Person {
    /// Parses `NAME <EMAIL> SECONDS ZONE`.
    pub(super) fn parse(text: &str) -> Person {
        let (name, rest) = text.split_once('<').unwrap_or((text, ""));
        let (email, when) = rest.rsplit_once('>').unwrap_or((rest, ""));
        let mut when = when.split_whitespace();
        Person {
            name: name.trim().to_owned(),
            email: email.to_owned(),
            seconds: when.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0),
            zone: when.next().and_then(|zone| zone.parse().ok()).unwrap_or(0),
        }
    }

    pub(super) fn date(&self, form: &DateFormat, now: i64) -> String {
        let Some(offset) = FixedOffset::east_opt((self.zone / 100 * 60 + self.zone % 100) * 60)
        else {
            return String::new();
        };
        let Some(when) =
            DateTime::from_timestamp(self.seconds, 0).map(|when| when.with_timezone(&offset))
        else {
            return String::new();
        };
        match form {
            DateFormat::Default => when.format("%a %b %-d %H:%M:%S %Y %z").to_string(),
            DateFormat::Iso => when.format("%Y-%m-%d %H:%M:%S %z").to_string(),
            DateFormat::IsoStrict if self.zone == 0 => {
                when.format("%Y-%m-%dT%H:%M:%SZ").to_string()
            }
            DateFormat::IsoStrict => when.format("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            DateFormat::Short => when.format("%Y-%m-%d").to_string(),
            DateFormat::Unix => self.seconds.to_string(),
            DateFormat::Rfc => when.format("%a, %-d %b %Y %H:%M:%S %z").to_string(),
            DateFormat::Relative => relative(now - self.seconds),
            DateFormat::Custom(format) => {
                let mut out = String::new();
                // A format that chrono does not know must not fail the script.
                if std::fmt::write(&mut out, format_args!("{}", when.format(format))).is_err() {
                    format.clone()
                } else {
                    out
                }
            }
        }
    }
}

impl DateFormat {
    pub(super) fn parse(text: &str) -> Option<DateFormat> {
        Some(match text {
            "default" => DateFormat::Default,
            "relative" => DateFormat::Relative,
            "iso" | "iso8601" => DateFormat::Iso,
            "iso-strict" | "iso8601-strict" => DateFormat::IsoStrict,
            "short" => DateFormat::Short,
            "unix" => DateFormat::Unix,
            "rfc" | "rfc2822" => DateFormat::Rfc,
            _ => DateFormat::Custom(text.strip_prefix("format:")?.to_owned()),
        })
    }
}

/// Formats a time as `3 days ago`, rounded as git does.
fn relative(seconds: i64) -> String {
    if seconds < 0 {
        return "in the future".into();
    }
    let say =
        |count: i64, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    let (minutes, hours, days) = (
        (seconds + 30) / 60,
        ((seconds + 30) / 60 + 30) / 60,
        (((seconds + 30) / 60 + 30) / 60 + 12) / 24,
    );
    let text = match () {
        () if seconds < 90 => say(seconds, "second"),
        () if minutes < 90 => say(minutes, "minute"),
        () if hours < 36 => say(hours, "hour"),
        () if days < 14 => say(days, "day"),
        () if days < 70 => say((days + 3) / 7, "week"),
        () if days < 365 => say((days + 15) / 30, "month"),
        () if days < 1825 => {
            let months = (days * 12 * 2 + 365) / (365 * 2);
            match months % 12 {
                0 => say(months / 12, "year"),
                rest => format!("{}, {}", say(months / 12, "year"), say(rest, "month")),
            }
        }
        () => say((days + 183) / 365, "year"),
    };
    format!("{text} ago")
}
