//! Intersections of patterns, and patterns as text.

use skillhost_policy::pattern::{CommandPattern, EVERY_PORT, HostName, HostPattern, PathGlob};

/// A pattern that can be intersected and shown.
pub(super) trait Pattern: Clone + PartialEq {
    /// Checks whether this pattern matches everything that `other` matches.
    fn covers(&self, other: &Self) -> bool;
    /// Checks whether something may match both patterns.
    fn overlaps(&self, other: &Self) -> bool;
    /// Returns the pattern as people read it.
    fn words(&self) -> String;
    /// Returns both patterns, each limited to what the other one allows besides names.
    fn levelled(&self, other: &Self) -> (Self, Self) {
        (self.clone(), other.clone())
    }
}

/// Intersects a pattern with others; `None` if nothing matches all of them. A pattern that covers
/// another one adds nothing.
pub(super) fn with<P: Pattern>(so_far: &[P], pattern: &P) -> Option<Vec<P>> {
    let mut all: Vec<P> = Vec::new();
    let mut pattern = pattern.clone();
    for one in so_far {
        let (one, levelled) = one.levelled(&pattern);
        pattern = levelled;
        if !one.overlaps(&pattern) {
            return None;
        }
        all.push(one);
    }
    if all.iter().any(|one| pattern.covers(one)) {
        return Some(all);
    }
    all.retain(|one| !one.covers(&pattern));
    all.push(pattern);
    Some(all)
}

/// Returns the intersections that no other one covers; of equal ones, the first.
pub(super) fn minimal<P: Pattern>(all: &[Vec<P>]) -> impl Iterator<Item = &Vec<P>> {
    // Whatever matches every pattern of `inner` matches every pattern of `outer`.
    let within = |inner: &[P], outer: &[P]| {
        outer.iter().all(|wide| inner.iter().any(|narrow| wide.covers(narrow)))
    };
    let is_minimal = move |at: usize, one: &[P]| {
        let mut others = all.iter().enumerate().filter(|(other, _)| *other != at);
        !others.any(|(other, wide)| within(one, wide) && (other < at || !within(wide, one)))
    };
    all.iter().enumerate().filter(move |(at, one)| is_minimal(*at, one)).map(|(_, one)| one)
}

impl Pattern for PathGlob {
    fn covers(&self, other: &PathGlob) -> bool {
        self.covers(other)
    }

    fn overlaps(&self, other: &PathGlob) -> bool {
        self.overlaps(other)
    }

    fn words(&self) -> String {
        match self.pattern() {
            "/**" => "any file in its folders".to_owned(),
            odd if odd.contains(", ") => format!("{odd:?}"),
            pattern => pattern.to_owned(),
        }
    }
}

impl Pattern for CommandPattern {
    fn covers(&self, other: &CommandPattern) -> bool {
        self.covers(other)
    }

    fn overlaps(&self, other: &CommandPattern) -> bool {
        self.overlaps(other)
    }

    fn words(&self) -> String {
        let CommandPattern { words, open } = self;
        if words.is_empty() {
            return "any command".to_owned();
        }
        let is_plain = |word: &str| {
            !word.is_empty()
                && !["...", "any"].contains(&word)
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:=@%+".contains(&b))
        };
        let word = |word: &String| if is_plain(word) { word.clone() } else { format!("{word:?}") };
        words.iter().map(word).chain(open.then(|| "...".to_owned())).collect::<Vec<_>>().join(" ")
    }
}

impl Pattern for HostPattern {
    fn covers(&self, other: &HostPattern) -> bool {
        self.covers(other)
    }

    fn overlaps(&self, other: &HostPattern) -> bool {
        self.overlaps(other)
    }

    fn words(&self) -> String {
        let HostPattern { host, port, plain, private } = self;
        let host = match host {
            HostName::Any => "any host".to_owned(),
            HostName::Exact(name) if name.contains(':') => format!("[{name}]"),
            HostName::Exact(name) => name.clone(),
            HostName::Below(name) => format!("*.{name}"),
        };
        let port = match port {
            None => String::new(),
            Some(EVERY_PORT) => ":*".to_owned(),
            Some(port) => format!(":{port}"),
        };
        let notes = [(*plain, "also without TLS"), (*private, "also at private addresses")];
        let notes: Vec<&str> =
            notes.iter().filter(|(holds, _)| *holds).map(|(_, words)| *words).collect();
        format!(
            "{host}{port}{}",
            if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) }
        )
    }

    /// Private addresses need the consent of both sides.
    fn levelled(&self, other: &HostPattern) -> (HostPattern, HostPattern) {
        let private = self.private && other.private;
        (HostPattern { private, ..self.clone() }, HostPattern { private, ..other.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn host(host: HostName, private: bool) -> HostPattern {
        HostPattern { host, port: None, plain: false, private }
    }

    #[test]
    fn the_intersection_is_the_narrower_pattern() {
        let glob = |pattern: &str| PathGlob::new(pattern).unwrap();
        let (all, data, csv) =
            (PathGlob::everything(), glob("/workspace/data/**"), glob("/workspace/**/*.csv"));
        assert_eq!(with(from_ref(&all), &data), Some(vec![data.clone()]));
        assert_eq!(with(from_ref(&data), &all), Some(vec![data.clone()]));
        assert_eq!(with(from_ref(&data), &csv), Some(vec![data.clone(), csv.clone()]));
        assert_eq!(with(&[data.clone(), csv.clone()], &all), Some(vec![data.clone(), csv]));
        assert_eq!(with(from_ref(&data), &glob("/workspace/other/**")), None);
    }

    #[test]
    fn covered_patterns_are_dropped() {
        let globs = |patterns: &[&str]| {
            patterns.iter().map(|pattern| PathGlob::new(pattern).unwrap()).collect::<Vec<_>>()
        };
        let (csv, data, both) =
            (globs(&["/**/*.csv"]), globs(&["/data/**"]), globs(&["/**/*.csv", "/data/**"]));
        let all = [both.clone(), csv.clone(), both, data.clone(), csv.clone(), globs(&["/data/x"])];
        assert_eq!(minimal(&all).collect::<Vec<_>>(), [&csv, &data]);
    }

    #[test]
    fn private_addresses_need_consent_of_both_sides() {
        let asked = host(HostName::Exact("example.com".into()), true);
        let granted = host(HostName::Any, false);
        let both = with(from_ref(&asked), &granted).unwrap();
        assert_eq!(both, vec![HostPattern { private: false, ..asked.clone() }]);
        assert_eq!(both[0].words(), "example.com");
        let named = host(HostName::Exact("example.com".into()), true);
        assert_eq!(
            with(from_ref(&asked), &named).unwrap()[0].words(),
            "example.com (also at private addresses)"
        );
    }

    #[test]
    fn different_commands_have_different_texts() {
        let pattern = |words: &[&str], open| CommandPattern {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            open,
        };
        assert_eq!(CommandPattern::any().words(), "any command");
        assert_eq!(pattern(&["jq"], true).words(), "jq ...");
        assert_eq!(pattern(&["jq", "..."], false).words(), "jq \"...\"");
        assert_eq!(pattern(&["git", "a b"], false).words(), "git \"a b\"");
        assert_eq!(pattern(&["any", "command"], false).words(), "\"any\" command");
    }
}
