//! Dates: addition, differences and weekdays, in the Gregorian calendar and UTC.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::{Span, Timestamp, Unit, tz::TimeZone};

use crate::answer::Answer;

/// Evaluates an expression about dates. `None` if it is not about dates. `now` is in seconds since
/// 1970.
///
/// # Errors
/// Returns the problem with the expression, or that a date is outside the years -9999 to 9999.
pub fn answer(expression: &str, now: i64) -> Option<Result<Answer, String>> {
    let text = expression.trim().to_lowercase();
    let mut parser = Parser { rest: &text, now };
    if let Some(unit) = parser.between() {
        return Some(parser.difference_of_two(unit));
    }
    for (words, ask) in
        [("weekday", Ask::Weekday), ("day of year", Ask::DayOfYear), ("week", Ask::Week)]
    {
        let mut asked = Parser { rest: &text, now };
        if asked.words(words) {
            asked.words("of");
            if let Some(moment) = asked.moment() {
                return Some(
                    moment
                        .and_then(|moment| asked.chain(moment))
                        .and_then(|moment| asked.end(ask.about(moment))),
                );
            }
        }
    }
    let first = parser.moment()?;
    Some(first.and_then(|first| parser.arithmetic(first)))
}

#[derive(Clone, Copy)]
struct Moment {
    at: DateTime,
    has_time: bool,
}

enum Ask {
    Weekday,
    DayOfYear,
    Week,
}

impl Ask {
    fn about(&self, moment: Moment) -> Answer {
        let number =
            |n: i64| Answer { number: Some(n.to_string()), ..Answer::exact(n.to_string()) };
        match self {
            Self::Weekday => Answer::exact(weekday(moment.at.weekday())),
            Self::DayOfYear => number(moment.at.day_of_year().into()),
            Self::Week => number(moment.at.date().iso_week_date().week().into()),
        }
    }
}

struct Parser<'t> {
    rest: &'t str,
    now: i64,
}

impl Parser<'_> {
    /// Parses `days between`, and returns the unit.
    fn between(&mut self) -> Option<Unit> {
        let mut ahead = Parser { rest: self.rest, now: self.now };
        let unit = ahead.unit()?;
        ahead
            .words("between")
            .then(|| self.rest = &self.rest[self.rest.len() - ahead.rest.len()..])?;
        Some(unit)
    }

    fn difference_of_two(&mut self, unit: Unit) -> Result<Answer, String> {
        let from = self.expect_moment()?;
        if !self.words("and") {
            return Err(format!("expected `and` and a second date at {:?}", self.rest));
        }
        let to = self.expect_moment()?;
        self.end(difference(from, to, unit)?)
    }

    /// Parses the rest after a first date: nothing, a sum, or a second date.
    fn arithmetic(&mut self, first: Moment) -> Result<Answer, String> {
        let (from, to) = if self.words("to") || self.words("until") {
            (first, self.expect_moment()?)
        } else {
            let mut ahead = Parser { rest: self.rest, now: self.now };
            match ahead.symbol('-').then(|| ahead.moment()).flatten() {
                Some(second) => {
                    self.rest = &self.rest[self.rest.len() - ahead.rest.len()..];
                    (second?, first)
                }
                None => {
                    let sum = self.chain(first)?;
                    return self.end(sum.answer());
                }
            }
        };
        let default = if from.has_time || to.has_time { Unit::Hour } else { Unit::Day };
        let unit = if self.words("in") || self.words("to") {
            self.unit().ok_or_else(|| self.expected("a unit of time"))?
        } else {
            default
        };
        self.end(difference(from, to, unit)?)
    }

    /// Parses `+ 1 year 2 months - 3 days`.
    fn chain(&mut self, mut moment: Moment) -> Result<Moment, String> {
        loop {
            let add = if self.symbol('+') || self.words("plus") {
                true
            } else if self.symbol('-') || self.words("minus") {
                false
            } else {
                return Ok(moment);
            };
            let (span, has_time) = self.span()?;
            let sum = if add { moment.at.checked_add(span) } else { moment.at.checked_sub(span) };
            moment.at =
                sum.map_err(|_| "the result is outside the years -9999 to 9999".to_owned())?;
            moment.has_time |= has_time;
        }
    }

    fn span(&mut self) -> Result<(Span, bool), String> {
        let mut span = Span::new();
        let mut has_time = false;
        let mut parts = 0;
        loop {
            let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return if parts > 0 {
                    Ok((span, has_time))
                } else {
                    Err(self.expected("a whole number and a unit of time, as in `3 days`"))
                };
            }
            let too_large = |_| "the duration is too long".to_owned();
            let count: i64 =
                self.rest[..digits].parse().map_err(|_| "the duration is too long".to_owned())?;
            self.rest = self.rest[digits..].trim_start();
            let unit = self.unit().ok_or_else(|| self.expected("a unit of time"))?;
            span = match unit {
                Unit::Year => span.try_years(span.get_years() as i64 + count),
                Unit::Month => span.try_months(span.get_months() as i64 + count),
                Unit::Week => span.try_weeks(span.get_weeks() as i64 + count),
                Unit::Day => span.try_days(span.get_days() as i64 + count),
                Unit::Hour => span.try_hours(span.get_hours() as i64 + count),
                Unit::Minute => span.try_minutes(span.get_minutes() + count),
                _ => span.try_seconds(span.get_seconds() + count),
            }
            .map_err(too_large)?;
            has_time |= unit < Unit::Day;
            parts += 1;
            if !self.symbol(',') {
                self.words("and");
            }
        }
    }

    fn unit(&mut self) -> Option<Unit> {
        let length = self.rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &self.rest[..length] {
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "mo" | "month" | "months" => Unit::Month,
            "w" | "wk" | "week" | "weeks" => Unit::Week,
            "d" | "day" | "days" => Unit::Day,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            _ => return None,
        };
        self.rest = self.rest[length..].trim_start();
        Some(unit)
    }

    fn expect_moment(&mut self) -> Result<Moment, String> {
        self.moment().unwrap_or_else(|| Err(self.expected("a date, as in 2024-02-29")))
    }

    /// Parses a date with or without time, or a word for a date. `None` if there is no date. An
    /// error for dates that do not exist, such as 2023-02-29.
    fn moment(&mut self) -> Option<Result<Moment, String>> {
        let now = Timestamp::from_second(self.now)
            .map(|at| at.to_zoned(TimeZone::UTC).datetime())
            .map_err(|e| e.to_string());
        for (word, days) in [("today", 0), ("tomorrow", 1), ("yesterday", -1)] {
            if self.words(word) {
                let day = now.and_then(|at| {
                    at.date().checked_add(Span::new().days(days)).map_err(|e| e.to_string())
                });
                return Some(day.map(|day| Moment {
                    at: day.to_datetime(jiff::civil::Time::midnight()),
                    has_time: false,
                }));
            }
        }
        if self.words("now") {
            return Some(now.map(|at| Moment { at, has_time: true }));
        }
        if is_iso_date(self.rest) {
            return Some(self.iso());
        }
        self.spelled_out().map(|date| {
            Ok(Moment { at: date.to_datetime(jiff::civil::Time::midnight()), has_time: false })
        })
    }

    fn iso(&mut self) -> Result<Moment, String> {
        let is_part = |b: u8| b.is_ascii_digit() || b == b':' || b == b'.';
        let (date, rest) = self.rest.split_at(10);
        let after = rest.strip_prefix('t').or_else(|| rest.strip_prefix(' ')).unwrap_or_default();
        let length = after.bytes().take_while(|b| is_part(*b)).count();
        let time = after[..length].contains(':').then(|| &after[..length]);
        let at = format!("{date}t{}", time.unwrap_or("00:00:00"));
        self.rest = if time.is_some() { after[length..].trim_start() } else { rest.trim_start() };
        if let Some(zoned) = time.and(self.rest.strip_prefix('z')) {
            self.rest = zoned.trim_start();
        }
        let at: DateTime = at.parse().map_err(|_| {
            format!("{date}{} does not exist", time.map(|t| format!(" {t}")).unwrap_or_default())
        })?;
        Ok(Moment { at, has_time: time.is_some() })
    }

    /// Parses `29 February 2024` or `Feb 29, 2024`.
    fn spelled_out(&mut self) -> Option<Date> {
        for format in ["%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"] {
            if let Ok((parsed, used)) = BrokenDownTime::parse_prefix(format, self.rest)
                && let Ok(date) = parsed.to_date()
            {
                self.rest = self.rest[used..].trim_start();
                return Some(date);
            }
        }
        None
    }

    /// Consumes these words if they come next and end there.
    fn words(&mut self, words: &str) -> bool {
        match self.rest.strip_prefix(words) {
            Some(after) if !after.starts_with(|c: char| c.is_alphanumeric() || c == '_') => {
                self.rest = after.trim_start();
                true
            }
            _ => false,
        }
    }

    fn symbol(&mut self, symbol: char) -> bool {
        let after = self.rest.strip_prefix(symbol);
        self.rest = after.map_or(self.rest, str::trim_start);
        after.is_some()
    }

    fn end(&self, answer: Answer) -> Result<Answer, String> {
        if self.rest.is_empty() {
            Ok(answer)
        } else {
            Err(self.expected("the end, `+`, `-` or `to`"))
        }
    }

    fn expected(&self, what: &str) -> String {
        match self.rest {
            "" => format!("expected {what} at the end"),
            rest => format!("expected {what} at {rest:?}"),
        }
    }
}

impl Moment {
    fn answer(self) -> Answer {
        let result = if self.has_time {
            self.at.to_string().replace('T', " ")
        } else {
            self.at.date().to_string()
        };
        Answer { weekday: Some(weekday(self.at.weekday()).to_owned()), ..Answer::exact(result) }
    }
}

fn difference(from: Moment, to: Moment, largest: Unit) -> Result<Answer, String> {
    let span = from.at.until((largest, to.at)).map_err(|e| e.to_string())?;
    let parts = [
        (i64::from(span.get_years()), "year"),
        (i64::from(span.get_months()), "month"),
        (i64::from(span.get_weeks()), "week"),
        (i64::from(span.get_days()), "day"),
        (i64::from(span.get_hours()), "hour"),
        (span.get_minutes(), "minute"),
        (span.get_seconds(), "second"),
    ];
    let plural = |count: i64, unit: &str| {
        if count.abs() == 1 { unit.to_owned() } else { format!("{unit}s") }
    };
    let named: Vec<_> = parts
        .iter()
        .filter(|(count, _)| *count != 0)
        .map(|(count, unit)| (*count, plural(*count, unit)))
        .collect();
    let answer = match named.as_slice() {
        [] => {
            let unit = parts
                .iter()
                .find(|(_, unit)| *unit == name(largest))
                .map_or("days".to_owned(), |(_, unit)| plural(0, unit));
            Answer {
                number: Some("0".to_owned()),
                unit: Some(unit.clone()),
                ..Answer::exact(format!("0 {unit}"))
            }
        }
        [(count, unit)] => Answer {
            number: Some(count.to_string()),
            unit: Some(unit.clone()),
            ..Answer::exact(format!("{count} {unit}"))
        },
        several => Answer::exact(
            several
                .iter()
                .map(|(count, unit)| format!("{count} {unit}"))
                .collect::<Vec<_>>()
                .join(" "),
        ),
    };
    Ok(answer)
}

fn name(unit: Unit) -> &'static str {
    match unit {
        Unit::Year => "year",
        Unit::Month => "month",
        Unit::Week => "week",
        Unit::Day => "day",
        Unit::Hour => "hour",
        Unit::Minute => "minute",
        _ => "second",
    }
}

fn weekday(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}

/// Four, two and two digits. Anything else with minus signs is a subtraction.
fn is_iso_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 10
        && bytes[..10]
            .iter()
            .enumerate()
            .all(|(i, b)| if i == 4 || i == 7 { *b == b'-' } else { b.is_ascii_digit() })
        && !bytes.get(10).is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-03-01 09:30:00, a Sunday.
    const NOW: i64 = 1_772_357_400;

    fn of(expression: &str) -> String {
        match answer(expression, NOW) {
            Some(Ok(answer)) => answer.result,
            Some(Err(error)) => format!("error: {error}"),
            None => "not a date".to_owned(),
        }
    }

    #[test]
    fn addition_follows_the_calendar() {
        assert_eq!(of("2024-02-29 + 1 year"), "2025-02-28");
        assert_eq!(of("2024-01-31 + 1 month"), "2024-02-29");
        assert_eq!(of("2024-01-01 + 1 year 2 months - 3 days"), "2025-02-26");
        assert_eq!(of("2024-03-10 - 2 weeks"), "2024-02-25");
        assert_eq!(of("2024-12-31 23:30 + 45 minutes"), "2025-01-01 00:15:00");
        assert_eq!(of("2024-12-31 + 36 hours"), "2025-01-01 12:00:00");
        assert_eq!(of("29 February 2024 + 1 day"), "2024-03-01");
        assert_eq!(of("Feb 29, 2024 plus 1 week and 1 day"), "2024-03-08");
    }

    #[test]
    fn differences_are_in_days_by_default() {
        assert_eq!(of("2025-03-01 - 2024-02-29"), "366 days");
        assert_eq!(of("days between 2024-01-01 and 2024-12-25"), "359 days");
        assert_eq!(of("2024-12-25 to 2024-01-01"), "-359 days");
        assert_eq!(of("2024-01-15 until 2025-03-20 in years"), "1 year 2 months 5 days");
        assert_eq!(of("weeks between 2024-01-01 and 2024-01-16"), "2 weeks 1 day");
        assert_eq!(of("2024-01-01 10:00 to 2024-01-02 12:30"), "26 hours 30 minutes");
        assert_eq!(of("2024-01-01 - 2024-01-01"), "0 days");
        let one = answer("2024-01-02 - 2024-01-01", NOW).unwrap().unwrap();
        assert_eq!((one.number.as_deref(), one.unit.as_deref()), (Some("1"), Some("day")));
    }

    #[test]
    fn weekdays_and_weeks_are_computed() {
        assert_eq!(of("weekday of 2024-02-29"), "Thursday");
        assert_eq!(of("weekday of 2024-02-29 + 1 day"), "Friday");
        assert_eq!(of("week of 2024-12-30"), "1");
        assert_eq!(of("day of year 2024-12-31"), "366");
        assert_eq!(
            answer("2024-02-29 + 1 day", NOW).unwrap().unwrap().weekday.as_deref(),
            Some("Friday")
        );
    }

    #[test]
    fn clock_is_a_parameter() {
        assert_eq!(of("today"), "2026-03-01");
        assert_eq!(of("now + 1 hour"), "2026-03-01 10:30:00");
        assert_eq!(of("weekday of tomorrow"), "Monday");
        assert_eq!(of("days between yesterday and 2026-12-24"), "299 days");
    }

    #[test]
    fn other_expressions_are_ignored() {
        for expression in [
            "2024 - 02 - 29",
            "5 km to miles",
            "3 days to hours",
            "week",
            "weekday",
            "12345678-12-12",
            "20240-01-011",
            "nowhere",
            "may",
        ] {
            assert_eq!(of(expression), "not a date", "{expression}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        assert_eq!(of("2023-02-29 + 1 day"), "error: 2023-02-29 does not exist");
        assert_eq!(of("2024-01-01 + 3"), "error: expected a unit of time at the end");
        assert_eq!(of("2024-01-01 + 1.5 days"), "error: expected a unit of time at \".5 days\"");
        assert_eq!(of("2024-01-01 * 2"), "error: expected the end, `+`, `-` or `to` at \"* 2\"");
        assert_eq!(
            of("days between 2024-01-01"),
            "error: expected `and` and a second date at \"\""
        );
        assert_eq!(
            of("2024-01-01 + 9000 years"),
            "error: the result is outside the years -9999 to 9999"
        );
        assert_eq!(of("2024-01-01 + 99999999999999999999 days"), "error: the duration is too long");
    }

    proptest! {
        #[test]
        fn difference_added_to_a_date_gives_the_other(a in 0i64..200_000, days in -50_000i64..50_000) {
            let start = jiff::civil::date(1800, 1, 1).checked_add(Span::new().days(a)).unwrap();
            let end = start.checked_add(Span::new().days(days)).unwrap();
            let sign = if days < 0 { '-' } else { '+' };
            prop_assert_eq!(of(&format!("{start} {sign} {} days", days.abs())), end.to_string());
            let unit = if days.abs() == 1 { "day" } else { "days" };
            prop_assert_eq!(of(&format!("days between {start} and {end}")), format!("{days} {unit}"));
        }

        #[test]
        fn no_expression_panics(expression in "(2024-0[0-9]-[0-3][0-9]|today|between|days|and|week|[+ 0-9:.é-]){0,12}") {
            let _ = answer(&expression, NOW);
        }
    }
}
