//! Which skills a question is about.

use super::{Catalog, CatalogError, Entry, Runtime};

/// What is looked for. The default finds every skill.
#[derive(Debug, Clone)]
pub struct Query {
    /// Words; any text is a query. Empty: every skill, in the catalogue's order.
    pub text: String,
    /// A tag or category, in any case.
    pub tag: Option<String>,
    /// What its programs run in.
    pub runtime: Option<Runtime>,
    /// Whether it asks for network.
    pub network: Option<bool>,
    /// Whether it is enabled.
    pub enabled: Option<bool>,
    /// Hits at most.
    pub limit: usize,
}

impl Default for Query {
    fn default() -> Query {
        Query { text: String::new(), tag: None, runtime: None, network: None, enabled: None, limit: 10 }
    }
}

/// A skill that was found.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The skill.
    pub entry: Entry,
    /// How well it fits, from 0; comparable within one search.
    pub score: f64,
}

impl Catalog {
    /// The skills that a query is about, the best first.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn search(&self, query: &Query) -> Result<Vec<Hit>, CatalogError> {
        let words: Vec<String> = query.text.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let mut hits: Vec<Hit> = Vec::new();
        for entry in self.entries().iter().filter(|entry| self.fits(query, entry)) {
            let text = format!("{} {}", entry.name, entry.description).to_lowercase();
            let score = words.iter().filter(|word| text.contains(*word)).count() as f64;
            if words.is_empty() || score > 0.0 {
                hits.push(Hit { entry: entry.clone(), score });
            }
        }
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits.truncate(query.limit);
        Ok(hits)
    }

    /// Whether an entry is what the filters of a query ask for.
    fn fits(&self, query: &Query, entry: &Entry) -> bool {
        query.tag.as_ref().is_none_or(|tag| entry.tags.iter().any(|one| **one == *tag.to_lowercase()))
            && query.runtime.is_none_or(|runtime| entry.runtimes.contains(runtime))
            && query.network.is_none_or(|network| entry.network == network)
            && query.enabled.is_none_or(|enabled| self.is_enabled(entry) == enabled)
    }
}
