//! The configured search engine, and the address that asks it.
//!
//! The parameters are those of SearXNG's search API: `q`, `format`, `categories`, `language`,
//! `time_range`, `safesearch` and `pageno`.

use form_urlencoded::Serializer;
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum number of characters of a query. Search engines cut longer ones.
const MAX_QUERY: usize = 1_000;
/// The maximum number of categories, and the bytes of one.
const MAX_CATEGORIES: usize = 10;
const MAX_CATEGORY: usize = 50;
/// The last page of results that can be asked for.
const MAX_PAGE: u32 = 100;

/// What to search for.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// What to search for. The syntax of the search engines works, such as `site:example.com`.
    pub query: String,
    /// Categories to search in, such as `news` or `images`; `general` by default.
    #[serde(default)]
    pub categories: Vec<String>,
    /// Code of the language of the results, such as `en`, `de` or `pt-BR`.
    pub language: Option<String>,
    /// Find only pages of the last day, month or year.
    pub time_range: Option<TimeRange>,
    /// The page of the results, from 1.
    pub page: Option<u32>,
    /// Maximum number of results, at most 50; 10 by default.
    pub max_results: Option<usize>,
}

/// How old pages may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are descriptive")]
pub enum TimeRange {
    Day,
    Month,
    Year,
}

impl TimeRange {
    const ALL: [TimeRange; 3] = [TimeRange::Day, TimeRange::Month, TimeRange::Year];

    /// Returns the range of this name.
    pub fn of(name: &str) -> Option<TimeRange> {
        TimeRange::ALL.into_iter().find(|range| range.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            TimeRange::Day => "day",
            TimeRange::Month => "month",
            TimeRange::Year => "year",
        }
    }
}

/// The search engine, as the operator configured it.
#[derive(Debug, PartialEq, Eq)]
pub struct Engine {
    base: String,
    language: Option<String>,
    safe_search: Option<&'static str>,
}

impl Engine {
    /// Reads the settings from the variables in which the host passes them.
    ///
    /// # Errors
    /// Returns what the operator has to set.
    pub fn configured(variable: impl Fn(&str) -> Option<String>) -> Result<Engine, String> {
        let setting = |name: &str| {
            variable(&format!("SKILL_SETTING_{name}"))
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let command = "skillhost settings set web-search url https://search.example.com";
        let Some(url) = setting("URL") else {
            return Err(format!(
                "no search engine is configured; the operator sets the address of a SearXNG \
                 instance with `{command}`, and allows it in the policy with `skills: \
                 {{ web-search: {{ allow: [\"WebFetch(domain:search.example.com)\"] }} }}`"
            ));
        };
        let has_scheme = url.starts_with("https://") || url.starts_with("http://");
        let is_base =
            !url.contains(|c: char| c.is_whitespace() || c.is_control() || "?#@".contains(c));
        if !has_scheme || !is_base {
            return Err(format!(
                "the setting `url` is not the address of a search engine: set it as in `{command}`"
            ));
        }
        let safe_search = match setting("SAFE_SEARCH").as_deref() {
            None => None,
            Some("off") => Some("0"),
            Some("moderate") => Some("1"),
            // The host passes only these words. A policy may set the variable to something else.
            Some(_) => Some("2"),
        };
        let base = url.trim_end_matches('/').to_owned();
        Ok(Engine { base, language: setting("LANGUAGE"), safe_search })
    }

    /// Returns the address of the instance, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the address of the results as JSON. The operator's choice of safe search applies to
    /// every query, the one of a language only to queries without one.
    ///
    /// # Errors
    /// Returns an error if the query is empty, too long or not valid.
    pub fn address(&self, query: &Query) -> Result<String, String> {
        let text = query.query.trim();
        if text.is_empty() {
            return Err("the query is empty".into());
        }
        if text.chars().count() > MAX_QUERY {
            return Err(format!("the query has more than {MAX_QUERY} characters"));
        }
        let mut parameters = Serializer::new(String::new());
        parameters.append_pair("q", text).append_pair("format", "json");
        if query.categories.len() > MAX_CATEGORIES {
            return Err(format!("at most {MAX_CATEGORIES} categories can be searched"));
        }
        let is_category = |name: &String| {
            !name.trim().is_empty() && name.len() <= MAX_CATEGORY && !name.contains(',')
        };
        if let Some(wrong) = query.categories.iter().find(|name| !is_category(name)) {
            let shown: String = wrong.chars().take(MAX_CATEGORY).collect();
            return Err(format!("`{shown}` is not a category: use names such as `news`"));
        }
        if !query.categories.is_empty() {
            parameters.append_pair("categories", &query.categories.join(","));
        }
        if let Some(language) = query.language.as_ref().or(self.language.as_ref()) {
            if !is_language(language) {
                return Err("`language` is not a code such as `en`, `pt-BR` or `all`".into());
            }
            parameters.append_pair("language", language);
        }
        if let Some(range) = query.time_range {
            parameters.append_pair("time_range", range.name());
        }
        if let Some(level) = self.safe_search {
            parameters.append_pair("safesearch", level);
        }
        match query.page {
            None | Some(1) => {}
            Some(page @ 2..=MAX_PAGE) => {
                parameters.append_pair("pageno", &page.to_string());
            }
            Some(_) => return Err(format!("`page` must be between 1 and {MAX_PAGE}")),
        }
        Ok(format!("{}/search?{}", self.base, parameters.finish()))
    }
}

/// Whether a text can be a code of SearXNG, such as `all`, `de`, `pt-BR` or `zh-Hans-CN`.
fn is_language(text: &str) -> bool {
    (2..=16).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn engine(settings: &[(&str, &str)]) -> Result<Engine, String> {
        let settings = settings.to_vec();
        Engine::configured(move |name| {
            let set = settings.iter().find(|(known, _)| format!("SKILL_SETTING_{known}") == name);
            set.map(|(_, value)| (*value).to_owned())
        })
    }

    fn query(text: &str) -> Query {
        Query { query: text.into(), ..Query::default() }
    }

    #[test]
    fn settings_and_query_become_documented_parameters() {
        let plain = engine(&[("URL", "https://search.example.com/")]).unwrap();
        assert_eq!(
            plain.address(&query(" a&b=c ü ")).unwrap(),
            "https://search.example.com/search?q=a%26b%3Dc+%C3%BC&format=json"
        );
        let full = engine(&[
            ("URL", "http://127.0.0.1:8888/searx"),
            ("LANGUAGE", "de"),
            ("SAFE_SEARCH", "strict"),
        ])
        .unwrap();
        let asked = Query {
            categories: vec!["news".into(), "social media".into()],
            time_range: Some(TimeRange::Month),
            page: Some(3),
            ..query("x")
        };
        assert_eq!(
            full.address(&asked).unwrap(),
            "http://127.0.0.1:8888/searx/search?q=x&format=json&categories=news%2Csocial+media\
             &language=de&time_range=month&safesearch=2&pageno=3"
        );
        let english = Query { language: Some("en-GB".into()), ..query("x") };
        assert!(full.address(&english).unwrap().contains("&language=en-GB&"));
    }

    #[test]
    fn missing_and_invalid_settings_name_the_command() {
        for settings in [&[][..], &[("URL", " ")]] {
            let error = engine(settings).unwrap_err();
            assert!(error.contains("`skillhost settings set web-search url https://"), "{error}");
            assert!(error.contains("WebFetch(domain:search.example.com)"), "{error}");
        }
        for url in
            ["search.example.com", "ftp://x", "https://x?q=1", "https://u:p@x", "https://a b"]
        {
            let error = engine(&[("URL", url)]).unwrap_err();
            assert!(error.contains("is not the address of a search engine"), "{url}: {error}");
        }
    }

    #[test]
    fn unknown_level_of_safe_search_is_the_strictest() {
        let engine = engine(&[("URL", "https://x"), ("SAFE_SEARCH", "none")]).unwrap();
        assert!(engine.address(&query("x")).unwrap().ends_with("&safesearch=2"));
    }

    #[test]
    fn invalid_queries_are_refused() {
        let engine = engine(&[("URL", "https://x")]).unwrap();
        let wrong = [
            (query("  "), "is empty"),
            (query(&"x".repeat(MAX_QUERY + 1)), "more than 1000 characters"),
            (Query { categories: vec!["a,b".into()], ..query("x") }, "`a,b` is not a category"),
            (Query { categories: vec![" ".into()], ..query("x") }, "is not a category"),
            (Query { categories: vec!["a".into(); 11], ..query("x") }, "at most 10"),
            (Query { language: Some("de&x=1".into()), ..query("x") }, "is not a code"),
            (Query { page: Some(0), ..query("x") }, "between 1 and 100"),
            (Query { page: Some(101), ..query("x") }, "between 1 and 100"),
        ];
        for (asked, message) in wrong {
            let error = engine.address(&asked).unwrap_err();
            assert!(error.contains(message), "{asked:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn query_never_leaves_its_parameter(text in "\\PC{1,60}") {
            let engine = engine(&[("URL", "https://x")]).unwrap();
            if let Ok(address) = engine.address(&query(&text)) {
                let rest = address.strip_prefix("https://x/search?").unwrap();
                let pairs: Vec<_> = form_urlencoded::parse(rest.as_bytes()).collect();
                prop_assert_eq!(pairs.len(), 2);
                prop_assert_eq!(&*pairs[0].1, text.trim());
                prop_assert!(address.is_ascii());
            }
        }
    }
}
