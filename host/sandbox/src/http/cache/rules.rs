//! How long a response is fresh, from the fields that its server sent (RFC 9111, sections 4.2 and
//! 5.2). Nothing is guessed: a response without a lifetime is stale at once.

use std::time::UNIX_EPOCH;

use http::header::{AGE, DATE, EXPIRES};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The largest number of seconds that is counted (RFC 9111, section 1.2.2).
const MAX_SECONDS: u64 = 1 << 31;

/// The directives of `Cache-Control` that matter here, of a request or a response.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) no_store: bool,
    pub(super) no_cache: bool,
    pub(super) only_if_cached: bool,
    must_revalidate: bool,
    /// Several different values count as zero.
    max_age: Option<u64>,
    min_fresh: Option<u64>,
    /// `None` inside: any age.
    max_stale: Option<Option<u64>>,
}

impl Directives {
    pub(super) fn of<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Directives {
        let mut all = Directives::default();
        for value in values {
            for directive in split(value.as_bytes()) {
                all.add(directive);
            }
        }
        all
    }

    fn add(&mut self, directive: &[u8]) {
        let mut halves = directive.splitn(2, |byte| *byte == b'=');
        let name = halves.next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
        let value = halves.next().map(seconds);
        match name.as_slice() {
            b"no-store" => self.no_store = true,
            // Also with names of fields: asking too often is always allowed.
            b"no-cache" => self.no_cache = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"max-age" => {
                let seconds = value.flatten().unwrap_or(0);
                self.max_age =
                    Some(self.max_age.map_or(
                        seconds,
                        |other| {
                            if other == seconds { seconds } else { 0 }
                        },
                    ));
            }
            // A number that is not one asks for as much as possible.
            b"min-fresh" => self.min_fresh = Some(value.flatten().unwrap_or(MAX_SECONDS)),
            b"max-stale" => {
                self.max_stale = Some(value.map(|seconds| seconds.unwrap_or(0)));
            }
            _ => {}
        }
    }
}

/// When a response was received, and how long it is fresh.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Freshness {
    /// Seconds since 1970.
    pub(super) received: u64,
    /// Its age when it was received, in seconds.
    initial_age: u64,
    lifetime: u64,
    /// Whether its server must confirm each use.
    always_ask: bool,
    must_revalidate: bool,
}

impl Freshness {
    /// `asked` and `now`: when the request was sent and the response received.
    pub(super) fn of(
        directives: &Directives,
        headers: &HeaderMap,
        asked: u64,
        now: u64,
    ) -> Freshness {
        let date = date(headers, &DATE);
        let apparent = date.map_or(0, |date| now.saturating_sub(date));
        let stated = headers.get(AGE).and_then(|age| seconds(age.as_bytes())).unwrap_or(0);
        let corrected = stated.saturating_add(now.saturating_sub(asked));
        let expires = || {
            headers.contains_key(EXPIRES).then(|| {
                // An invalid date is one in the past; so are several that differ.
                let mut all = headers.get_all(EXPIRES).iter();
                let first = all.next();
                let one = all.all(|other| Some(other) == first);
                let at = self::date(headers, &EXPIRES).filter(|_| one).unwrap_or(0);
                at.saturating_sub(date.unwrap_or(now))
            })
        };
        Freshness {
            received: now,
            initial_age: apparent.max(corrected),
            lifetime: directives.max_age.or_else(expires).unwrap_or(0).min(MAX_SECONDS),
            always_ask: directives.no_cache,
            must_revalidate: directives.must_revalidate,
        }
    }

    pub(super) fn lifetime(&self) -> u64 {
        self.lifetime
    }

    pub(super) fn age(&self, now: u64) -> u64 {
        self.initial_age.saturating_add(now.saturating_sub(self.received))
    }

    /// Checks whether a request takes the response without asking the server.
    pub(super) fn satisfies(&self, request: &Directives, now: u64) -> bool {
        // A clock that was set back says nothing about the age.
        if self.always_ask || request.no_cache || now < self.received {
            return false;
        }
        let age = self.age(now);
        if request.max_age.is_some_and(|most| age > most) {
            return false;
        }
        let needed = age.saturating_add(request.min_fresh.unwrap_or(0));
        if needed < self.lifetime {
            return true;
        }
        let stale = age.saturating_sub(self.lifetime);
        let accepts = |most: Option<u64>| most.is_none_or(|most| stale <= most);
        !self.must_revalidate
            && request.min_fresh.is_none()
            && request.max_stale.is_some_and(accepts)
    }
}

/// Splits a list at its commas, except for those in quoted strings.
fn split(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    list.split(move |byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return true,
            _ => {}
        }
        false
    })
}

/// Reads a number of seconds; one that is too large counts as the largest.
fn seconds(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"\"").and_then(|t| t.strip_suffix(b"\"")).unwrap_or(text);
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = str::from_utf8(text).ok()?.parse().unwrap_or(u64::MAX);
    Some(number.min(MAX_SECONDS))
}

/// Reads a date field, in seconds since 1970.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let date = httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directives(text: &str) -> Directives {
        Directives::of([&HeaderValue::from_str(text).unwrap()])
    }

    /// A response that was received at second 1,000,000,000.
    const RECEIVED: u64 = 1_000_000_000;

    fn response(fields: &[(&'static str, &str)]) -> Freshness {
        let headers: HeaderMap = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let directives = Directives::of(headers.get_all("cache-control"));
        Freshness::of(&directives, &headers, RECEIVED, RECEIVED)
    }

    /// Returns for how many seconds a request without directives takes the response.
    fn fresh_for(fields: &[(&'static str, &str)]) -> u64 {
        let freshness = response(fields);
        let is_fresh = |after: &u64| freshness.satisfies(&Directives::default(), RECEIVED + after);
        (0..10_000).take_while(is_fresh).count() as u64
    }

    #[test]
    fn lifetime_comes_from_max_age_and_then_from_expires() {
        const DATE: (&str, &str) = ("date", "Sun, 09 Sep 2001 01:46:40 GMT");
        const IN_A_MINUTE: (&str, &str) = ("expires", "Sun, 09 Sep 2001 01:47:40 GMT");
        assert_eq!(fresh_for(&[("cache-control", "max-age=10")]), 10);
        assert_eq!(fresh_for(&[("cache-control", "Max-Age=\"10\" , private")]), 10);
        assert_eq!(fresh_for(&[DATE, IN_A_MINUTE]), 60);
        assert_eq!(fresh_for(&[IN_A_MINUTE]), 60);
        assert_eq!(fresh_for(&[DATE, IN_A_MINUTE, ("cache-control", "max-age=10")]), 10);
        // A shared cache's lifetime is not a private one's.
        assert_eq!(fresh_for(&[("cache-control", "s-maxage=10")]), 0);
        for invalid in ["0", "-1", "tomorrow", "Sun, 09 Sep 2001 01:47:40 +0000"] {
            assert_eq!(fresh_for(&[DATE, ("expires", invalid)]), 0, "{invalid}");
        }
        for invalid in ["max-age=x", "max-age", "max-age=-1", "max-age=1.5", "max-age=5, max-age=9"]
        {
            assert_eq!(fresh_for(&[("cache-control", invalid)]), 0, "{invalid}");
        }
    }

    #[test]
    fn nothing_is_guessed() {
        assert_eq!(fresh_for(&[("last-modified", "Sun, 09 Sep 1999 01:46:40 GMT")]), 0);
        assert_eq!(fresh_for(&[("cache-control", "public, immutable"), ("etag", "\"1\"")]), 0);
    }

    #[test]
    fn age_counts_the_time_in_other_caches_and_on_the_way() {
        assert_eq!(fresh_for(&[("cache-control", "max-age=10"), ("age", "4")]), 6);
        let late = ("date", "Sun, 09 Sep 2001 01:46:37 GMT");
        assert_eq!(fresh_for(&[("cache-control", "max-age=10"), late]), 7);
        let headers: HeaderMap = [(AGE, HeaderValue::from_static("4"))].into_iter().collect();
        let slow = Freshness::of(&directives("max-age=10"), &headers, RECEIVED - 5, RECEIVED);
        assert_eq!((slow.age(RECEIVED), slow.age(RECEIVED + 3)), (9, 12));
    }

    #[test]
    fn requests_ask_for_more_or_less() {
        let fresh = response(&[("cache-control", "max-age=10")]);
        let takes = |text, after| fresh.satisfies(&directives(text), RECEIVED + after);
        assert!(takes("max-age=5", 5) && !takes("max-age=5", 6));
        assert!(takes("min-fresh=3", 6) && !takes("min-fresh=3", 7));
        assert!(!takes("no-cache", 0));
        assert!(takes("max-stale", 9_999) && takes("max-stale=5", 15) && !takes("max-stale=5", 16));
        assert!(!takes("max-stale, max-age=12", 13));
        let strict = response(&[("cache-control", "max-age=10, must-revalidate")]);
        assert!(!strict.satisfies(&directives("max-stale"), RECEIVED + 10));
        let asking = response(&[("cache-control", "max-age=10, no-cache=\"set-cookie, x\"")]);
        assert!(!asking.satisfies(&directives("max-stale"), RECEIVED));
    }

    #[test]
    fn hostile_numbers_and_clocks_make_nothing_fresher() {
        let huge = "99999999999999999999999999";
        let age = response(&[("cache-control", &format!("max-age={huge}")), ("age", huge)]);
        assert!(!age.satisfies(&Directives::default(), RECEIVED));
        assert!(!age.satisfies(&directives("max-stale=0"), u64::MAX));
        let fresh = response(&[("cache-control", "max-age=10")]);
        assert!(!fresh.satisfies(&Directives::default(), RECEIVED - 1), "the clock was set back");
        let future = response(&[
            ("date", "Sun, 09 Sep 2035 01:46:40 GMT"),
            ("expires", "Sun, 09 Sep 2035 01:46:50 GMT"),
        ]);
        assert_eq!(future.lifetime(), 10);
    }

    #[test]
    fn commas_in_quotes_separate_nothing() {
        let quoted = directives("x=\"a, no-store, \\\", no-cache\", max-age=3");
        assert!(!quoted.no_store && !quoted.no_cache);
        assert_eq!(quoted.max_age, Some(3));
        assert!(directives("NO-STORE").no_store);
    }
}
