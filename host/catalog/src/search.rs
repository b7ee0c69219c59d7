//! Searches skills: BM25 over name, description, keywords and body, with tolerance for typos and
//! unfinished words.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::cache::CacheError;
use super::{Catalog, CatalogEntry, CatalogError, SkillRuntime};

/// A search. The default matches every skill.
#[derive(Debug, Clone)]
pub struct Query {
    /// Words; any text is valid. An empty text matches every skill, in the catalogue's order.
    pub text: String,
    /// A tag or category, ignoring case.
    pub tag: Option<String>,
    /// A runtime of its programs.
    pub runtime: Option<SkillRuntime>,
    /// Whether it asks for network access.
    pub network: Option<bool>,
    /// Whether it is enabled.
    pub enabled: Option<bool>,
    /// Only skills that agents may find.
    pub for_agents: bool,
    /// Only skills of these names.
    pub names: Option<BTreeSet<String>>,
    /// The most hits.
    pub limit: usize,
}

impl Default for Query {
    fn default() -> Query {
        Query {
            text: String::new(),
            tag: None,
            runtime: None,
            network: None,
            enabled: None,
            for_agents: false,
            names: None,
            limit: 10,
        }
    }
}

/// A skill that matches.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The skill.
    pub entry: CatalogEntry,
    /// The score, at least 0; comparable within one search.
    pub score: f64,
}

/// The most words of a query that are used. A longer query is a text, whose start shows its topic.
const MAX_WORDS: usize = 24;
/// The most characters of a word that are used.
const MAX_WORD: usize = 40;
/// The most words that an unknown or unfinished word may stand for.
const MAX_ALTERNATIVES: u8 = 6;
/// The most skills to rank for a query.
const MANY: u32 = 1_000;
/// The weights of the name, the description, the keywords and the body.
const WEIGHTS: [f64; 4] = [10.0, 4.0, 6.0, 1.0];

/// Words that do not help to find a skill.
const STOP_WORDS: [&str; 66] = [
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "do",
    "does", "for", "from", "get", "give", "has", "have", "help", "how", "i", "in", "into", "is",
    "it", "its", "let", "like", "make", "me", "my", "need", "of", "on", "one", "or", "our",
    "please", "should", "skill", "skills", "so", "some", "that", "the", "their", "them", "there",
    "these", "this", "to", "use", "used", "using", "want", "we", "what", "when", "which", "who",
    "with", "you", "your",
];

impl Catalog {
    /// Returns the skills that match a query, best first.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn search(&self, query: &Query) -> Result<Vec<Hit>, CatalogError> {
        let question = question(&query.text);
        if question.is_empty() {
            // A text without any words matches nothing.
            let all = self.entries();
            let all =
                all.iter().filter(|entry| query.text.trim().is_empty() && self.fits(query, entry));
            return Ok(all
                .take(query.limit)
                .map(|entry| Hit { entry: entry.clone(), score: 0.0 })
                .collect());
        }
        self.with_cache(|cache| self.ranked(&cache.db, &question, query))
    }

    fn ranked(
        &self,
        db: &Connection,
        question: &[String],
        query: &Query,
    ) -> Result<Vec<Hit>, CacheError> {
        let snapshot = self.snapshot();
        let expression = expression(db, question)?;
        if expression.is_empty() {
            return Ok(Vec::new());
        }
        let mut select = db.prepare_cached(
            "SELECT rowid, bm25(words, ?2, ?3, ?4, ?5) FROM words WHERE words MATCH ?1",
        )?;
        let [name, description, keywords, body] = WEIGHTS;
        let mut rows =
            select.query(rusqlite::params![expression, name, description, keywords, body])?;
        let mut ranked: Vec<(f64, u32)> = Vec::new();
        while let Some(row) = rows.next()? {
            if let Some(at) = snapshot.of_row(row.get(0)?) {
                // SQLite returns lower values for better matches.
                ranked.push((-row.get::<_, f64>(1)?, at));
            }
        }
        // Among equal scores, keep the catalogue's order.
        ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let entries = ranked.into_iter().map(|(score, at)| (score, &snapshot.entries[at as usize]));
        let fit = entries.filter(|(_, entry)| self.fits(query, entry));
        Ok(fit
            .take(query.limit)
            .map(|(score, entry)| Hit { entry: entry.clone(), score })
            .collect())
    }

    /// Checks whether an entry passes the filters of a query.
    fn fits(&self, query: &Query, entry: &CatalogEntry) -> bool {
        query
            .tag
            .as_ref()
            .is_none_or(|tag| entry.tags.iter().any(|one| **one == *tag.to_lowercase()))
            && query.runtime.is_none_or(|runtime| entry.runtimes.contains(runtime))
            && query.network.is_none_or(|network| entry.network == network)
            && query.names.as_ref().is_none_or(|names| names.contains(&*entry.name))
            && query.enabled.is_none_or(|enabled| self.is_enabled(entry) == enabled)
            && (!query.for_agents || self.is_for_agents(entry))
    }
}

/// Splits a text into words, in lower case.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// Returns the words of a query to search for: without stop words, unless there are no others.
fn question(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words(text).map(|word| word.chars().take(MAX_WORD).collect::<String>()) {
        if all.len() < MAX_WORDS && !all.contains(&word) {
            all.push(word);
        }
    }
    let telling: Vec<String> =
        all.iter().filter(|word| !STOP_WORDS.contains(&word.as_str())).cloned().collect();
    if telling.is_empty() { all } else { telling }
}

/// Builds the FTS5 expression. Each word consists of letters and digits, in quotes, so none of it
/// is syntax.
///
/// Ranking a skill takes half a microsecond, and a word that occurs in every tenth skill says
/// little. So the rarest words choose which skills are ranked.
fn expression(db: &Connection, question: &[String]) -> Result<String, CacheError> {
    let mut terms: Vec<(u32, String)> = Vec::new();
    let last = question.len() - 1;
    for (at, word) in question.iter().enumerate() {
        let mut term = format!("\"{word}\"");
        let mut others = if at == last && word.chars().count() > 2 {
            continuations(db, word)?
        } else {
            Vec::new()
        };
        let mut found = count(db, &term)?;
        if others.is_empty() && found == 0 {
            others = similar(db, word)?;
        }
        if !others.is_empty() {
            others.into_iter().for_each(|other| term += &format!(" OR \"{other}\""));
            found = count(db, &term)?;
        }
        if found > 0 {
            terms.push((found, term));
        }
    }
    terms.sort_by_key(|(found, _)| *found);
    let mut left = MANY;
    let rare = terms
        .iter()
        .take_while(|(found, _)| left.checked_sub(*found).map(|rest| left = rest).is_some())
        .count();
    let either = |terms: &[(u32, String)]| {
        terms.iter().map(|(_, term)| term.as_str()).collect::<Vec<_>>().join(" OR ")
    };
    if rare > 0 || terms.is_empty() {
        return Ok(either(&terms[..rare]));
    }
    // All words are common: search for the rarest few, in the more important columns first.
    terms.truncate(3);
    let halves =
        std::iter::successors(Some(terms.len()), |words| (*words > 1).then_some(words / 2));
    for some in halves.map(|words| either(&terms[..words])) {
        for columns in ["name description keywords", "name keywords", "name"] {
            let narrow = format!("{{{columns}}} : ({some})");
            if (1..=MANY).contains(&count(db, &narrow)?) {
                return Ok(narrow);
            }
        }
    }
    Ok(terms.swap_remove(0).1)
}

/// Counts the skills that match an expression, up to just over [`MANY`].
fn count(db: &Connection, expression: &str) -> Result<u32, CacheError> {
    let mut select = db.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)",
    )?;
    Ok(select.query_row(rusqlite::params![expression, MANY + 1], |row| row.get(0))?)
}

/// Returns the words that start with this one, shortest first.
fn continuations(db: &Connection, word: &str) -> Result<Vec<String>, CacheError> {
    let mut select =
        db.prepare_cached("SELECT word FROM word WHERE word > ?1 AND word < ?1 || char(0x10ffff) ORDER BY length(word) LIMIT ?2")?;
    let found = select.query_map(rusqlite::params![word, MAX_ALTERNATIVES], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns words that this one may be a typo of, nearest first: one letter added, missing,
/// different or swapped, or two in a long word.
fn similar(db: &Connection, word: &str) -> Result<Vec<String>, CacheError> {
    let length = word.chars().count();
    let slips = match length {
        0..4 => return Ok(Vec::new()),
        4..6 => 1,
        _ => 2,
    };
    // The first letter is rarely wrong, but may be swapped with the second. Searching one range of
    // the index for each keeps this fast.
    let mut firsts: Vec<char> = word.chars().take(2).collect();
    firsts.dedup();
    let mut near = Vec::new();
    let mut select =
        db.prepare_cached("SELECT word FROM word WHERE word >= ?1 AND word < ?1 || char(0x10ffff) AND length(word) BETWEEN ?2 AND ?3")?;
    for first in firsts {
        let mut rows = select.query(rusqlite::params![
            first.to_string(),
            (length - slips) as i64,
            (length + slips) as i64
        ])?;
        while let Some(row) = rows.next()? {
            let other = row.get_ref(0)?.as_str()?;
            let distance = strsim::osa_distance(word, other);
            if distance <= slips {
                near.push((distance, other.to_owned()));
            }
        }
    }
    near.sort();
    near.truncate(MAX_ALTERNATIVES.into());
    Ok(near.into_iter().map(|(_, word)| word).collect())
}
