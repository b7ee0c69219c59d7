//! Full-text search: BM25 over stemmed words. Words with the same beginning count less.

use std::collections::HashMap;

/// The usual constants of BM25: saturation of frequent words, and normalisation by length.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// The weight of a word that only begins like a word of the query.
const PREFIX: f64 = 0.4;
/// The minimum length of such a beginning.
const PREFIX_MIN: usize = 3;

/// Characters of a part of a file, and of an excerpt.
const PART: usize = 2_000;
const EXCERPT: usize = 400;

/// Stop words.
const STOP: [&str; 40] = [
    "a", "about", "an", "and", "are", "as", "at", "be", "by", "did", "do", "does", "for", "from",
    "had", "has", "have", "how", "i", "in", "is", "it", "its", "of", "on", "or", "that", "the",
    "their", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "with",
];

/// An index of texts by their words.
#[derive(Debug)]
pub struct Index {
    /// For each word, the texts that contain it and the number of occurrences.
    words: HashMap<String, Vec<(usize, u32)>>,
    lengths: Vec<usize>,
}

impl Index {
    /// Builds the index of some texts.
    pub fn of<'t>(texts: impl Iterator<Item = &'t str>) -> Index {
        let mut index = Index { words: HashMap::new(), lengths: Vec::new() };
        for (at, text) in texts.enumerate() {
            let words = words(text);
            index.lengths.push(words.len());
            let mut counts: HashMap<String, u32> = HashMap::new();
            for word in words {
                *counts.entry(word).or_default() += 1;
            }
            for (word, count) in counts {
                index.words.entry(word).or_default().push((at, count));
            }
        }
        index
    }

    /// Returns the best matches and their scores. Of equal scores, later texts come first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<(usize, f64)> {
        let mut wanted = words(query);
        wanted.sort();
        wanted.dedup();
        let about: Vec<&String> =
            wanted.iter().filter(|word| !STOP.contains(&word.as_str())).collect();
        // A query of stop words only searches for them.
        let about = if about.is_empty() { wanted.iter().collect() } else { about };
        let mut scores: HashMap<usize, f64> = HashMap::new();
        for word in about {
            let mut best: HashMap<usize, f64> = HashMap::new();
            for (known, found) in &self.words {
                let weight = match () {
                    () if known == word => 1.0,
                    () if word.chars().count() >= PREFIX_MIN
                        && known.starts_with(word.as_str()) =>
                    {
                        PREFIX
                    }
                    () => continue,
                };
                for (at, count) in found {
                    let score = weight * self.score(*at, *count, found.len());
                    let entry = best.entry(*at).or_default();
                    *entry = entry.max(score);
                }
            }
            for (at, score) in best {
                *scores.entry(at).or_default() += score;
            }
        }
        let mut found: Vec<(usize, f64)> = scores.into_iter().collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        found.truncate(limit);
        found
    }

    #[allow(clippy::cast_precision_loss, reason = "counts of words")]
    fn score(&self, at: usize, count: u32, found_in: usize) -> f64 {
        let texts = self.lengths.len() as f64;
        let average = self.lengths.iter().sum::<usize>() as f64 / texts;
        let rarity = (1.0 + (texts - found_in as f64 + 0.5) / (found_in as f64 + 0.5)).ln();
        let length = 1.0 - B + B * self.lengths[at] as f64 / average.max(1.0);
        let count = f64::from(count);
        rarity * count * (K1 + 1.0) / (count + K1 * length)
    }
}

/// Returns the stemmed words of a text, in lower case.
pub fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    split.filter(|word| !word.is_empty()).map(|word| stem(&word.to_lowercase())).collect()
}

/// Removes plural and verb endings. The result is the same for all forms of a word, but need not be
/// a word itself.
fn stem(word: &str) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word.to_owned();
    }
    if let Some(rest) = word.strip_suffix("ies").filter(|rest| rest.len() >= 2) {
        return format!("{rest}y");
    }
    let hissing = ["ches", "shes", "sses", "xes", "zes"].iter().any(|end| word.ends_with(end));
    let no_plural = ["ss", "us", "is"].iter().any(|end| word.ends_with(end));
    let one = match word.strip_suffix('s') {
        Some(_) if hissing => &word[..word.len() - 2],
        Some(rest) if !no_plural => rest,
        _ => word,
    };
    let verb = one
        .strip_suffix("ing")
        .or_else(|| one.strip_suffix("ed"))
        .filter(|rest| rest.len() >= 3)
        .unwrap_or(one);
    let root = match verb.as_bytes() {
        // "planned" and "planning" have the stem "plan".
        [.., a, b] if verb != one && a == b && !b"aeiouls".contains(b) => &verb[..verb.len() - 1],
        _ => verb,
    };
    root.strip_suffix('e').filter(|rest| rest.len() >= 3).unwrap_or(root).to_owned()
}

/// Splits a long text at paragraphs.
pub fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > PART {
        let window = &rest[..rest.floor_char_boundary(PART)];
        let cut = ["\n\n", "\n", " "]
            .iter()
            .find_map(|end| window.rfind(end).filter(|at| *at > 0))
            .unwrap_or(window.len());
        parts.push(rest[..cut].trim());
        rest = &rest[cut..];
    }
    parts.push(rest.trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the part of a text that contains most words of a query.
pub fn excerpt(text: &str, query: &str) -> String {
    if text.len() <= EXCERPT {
        return text.to_owned();
    }
    let wanted = words(query);
    let lines: Vec<&str> = text.split_inclusive(['\n', '.']).collect();
    let hits = |line: &str| words(line).iter().filter(|word| wanted.contains(word)).count();
    let best = (0..lines.len()).rev().max_by_key(|at| hits(lines[*at])).unwrap_or(0);
    let mut out = String::new();
    for line in &lines[best..] {
        if !out.is_empty() && out.len() + line.len() > EXCERPT {
            break;
        }
        out.push_str(line);
    }
    out.truncate(out.floor_char_boundary(2 * EXCERPT));
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXTS: [&str; 6] = [
        "Anna prefers tea in the morning, and plans meetings after ten.",
        "The staging database runs PostgreSQL 16 on port 5433.",
        "Deployments are planned for Fridays; the release manager is Bob.",
        "Bob is allergic to nuts.",
        "The office is closed on public holidays.",
        "Zürich office: third floor, the key is with Anna.",
    ];

    fn best(query: &str) -> Option<usize> {
        Index::of(TEXTS.into_iter()).search(query, 5).first().map(|(at, _)| *at)
    }

    #[test]
    fn best_match_comes_first() {
        for (query, at) in [
            ("which port does the staging database have", 1),
            ("planning a deployment", 2),
            ("deploy", 2),
            ("nut allergies", 3),
            ("what does Anna drink: tea?", 0),
            ("zürich", 5),
            ("postgres", 1),
            ("holiday", 4),
        ] {
            assert_eq!(best(query), Some(at), "{query}");
        }
        assert_eq!((best("quantum"), best(""), best("?!")), (None, None, None));
    }

    #[test]
    fn word_forms_have_one_stem() {
        for (a, b) in [
            ("planned", "planning"),
            ("plans", "plan"),
            ("cities", "city"),
            ("boxes", "box"),
            ("meetings", "meeting"),
            ("stored", "storing"),
        ] {
            assert_eq!(words(a), words(b), "{a} {b}");
        }
        for word in ["bus", "class", "this", "is", "ss", "s"] {
            assert_eq!(words(word), [word], "{word}");
        }
    }

    #[test]
    fn texts_split_at_paragraphs_and_excerpts_at_sentences() {
        let text = format!(
            "{}\n\n{}",
            "first words. ".repeat(150),
            "The key is under the mat. ".repeat(20)
        );
        assert_eq!(parts(&text).len(), 2);
        assert!(excerpt(&text, "key").starts_with("The key is under the mat."));
        assert_eq!(excerpt("short", "x"), "short");
    }

    proptest! {
        #[test]
        fn search_accepts_any_text_and_query(texts in prop::collection::vec("\\PC{0,80}", 0..6), query in "\\PC{0,40}") {
            let index = Index::of(texts.iter().map(String::as_str));
            let found = index.search(&query, 3);
            prop_assert!(found.len() <= 3 && found.iter().all(|(at, score)| *at < texts.len() && *score > 0.0));
            prop_assert!(found.windows(2).all(|pair| pair[0].1 >= pair[1].1));
            for text in &texts {
                excerpt(text, &query);
                let joined: String = parts(text).concat();
                prop_assert!(joined.len() <= text.len());
                // Any word of a text finds that text.
                if let Some(word) = words(text).iter().find(|word| !STOP.contains(&word.as_str())) {
                    prop_assert!(!index.search(word, 3).is_empty() || stem(word) != *word);
                }
            }
        }
    }
}
