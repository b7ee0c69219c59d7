//! The instance's response. Nothing in it is trusted: each text is cut, and each value of an
//! unexpected type is left out.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The maximum number of characters of texts.
const MAX_TITLE: usize = 200;
const MAX_SNIPPET: usize = 600;
const MAX_ANSWER: usize = 1_000;
const MAX_WORDS: usize = 100;
/// The maximum number of bytes of an address. Longer ones are left out, because no part would work.
const MAX_URL: usize = 2_000;
/// The maximum number of answers, suggestions and other short texts.
const MAX_TEXTS: usize = 10;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Answer {
    /// The pages, the best first.
    pub results: Vec<SearchResult>,
    /// The number of results of this page that were left out because of `max_results`.
    pub more: usize,
    /// Direct answers of the engines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// Other queries that may find more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<String>,
    /// The query in another spelling.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<String>,
    /// The engines that did not respond, with their reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_engines: Vec<String>,
    /// The number of results without a valid address, which were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub invalid: usize,
}

/// A page.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchResult {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// A part of its text.
    pub snippet: String,
    /// The date of its publication, if the engine knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
}

/// Checks the status of a response.
///
/// # Errors
/// Returns what the status means for a SearXNG instance, and who can change it.
pub fn check_status(base: &str, status: u16, location: Option<&str>) -> Result<(), String> {
    match status {
        200..=299 => Ok(()),
        300..=399 => {
            let to = location.map_or("another address".into(), |to| clean(to, MAX_SNIPPET));
            Err(format!(
                "{base} redirects to {to}, which is not followed: the operator sets the setting \
                 `url` to the address of the instance itself"
            ))
        }
        403 => Err(format!(
            "{base} refused the search (status 403): its operator has to add `json` to \
             `search.formats` in its settings.yml"
        )),
        429 => Err(format!(
            "{base} limits the number of searches (status 429): try again later, or ask its \
             operator to exempt this host from its limiter"
        )),
        404 => Err(format!(
            "{base} has no `/search` (status 404): the setting `url` may not be the address of a \
             SearXNG instance"
        )),
        _ => Err(format!("{base} responded with status {status}")),
    }
}

/// Reads the body of a successful response, and keeps at most `limit` results.
///
/// # Errors
/// Returns an error if the body is not JSON of the documented shape.
pub fn read(base: &str, body: &[u8], limit: usize) -> Result<Answer, String> {
    if body.trim_ascii_start().first() == Some(&b'<') {
        return Err(format!(
            "{base} responded with a page instead of JSON: the setting `url` may not be the \
             address of a SearXNG instance, or something in between asks for a login"
        ));
    }
    // The parser limits the depth of values.
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| format!("{base}: the response is not valid JSON: {error}"))?;
    let Some(found) = value.get("results").and_then(Value::as_array) else {
        return Err(format!("{base}: the response has no list `results`, as SearXNG's has"));
    };
    let valid: Vec<SearchResult> = found.iter().filter_map(result).collect();
    let invalid = found.len() - valid.len();
    let more = valid.len().saturating_sub(limit);
    Ok(Answer {
        results: valid.into_iter().take(limit).collect(),
        more,
        answers: texts(&value["answers"], MAX_ANSWER),
        suggestions: texts(&value["suggestions"], MAX_WORDS),
        corrections: texts(&value["corrections"], MAX_WORDS),
        failed_engines: texts(&value["unresponsive_engines"], MAX_WORDS),
        invalid,
    })
}

fn result(value: &Value) -> Option<SearchResult> {
    let url = value.get("url")?.as_str()?.trim();
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    if !is_web || url.len() > MAX_URL || url.contains(|c: char| c.is_control() || c.is_whitespace())
    {
        return None;
    }
    let text = |key: &str, limit| {
        value.get(key).and_then(Value::as_str).map(|text| clean(text, limit)).unwrap_or_default()
    };
    let published = Some(text("publishedDate", MAX_WORDS)).filter(|date| !date.is_empty());
    Some(SearchResult {
        title: text("title", MAX_TITLE),
        url: url.to_owned(),
        snippet: text("content", MAX_SNIPPET),
        published,
    })
}

/// Returns the texts of a list. An answer is a text or, in newer versions, an object that has one.
/// An engine that did not respond is a pair of its name and a reason.
fn texts(list: &Value, limit: usize) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(object) => object.get("answer")?.as_str().map(str::to_owned),
        Value::Array(parts) => {
            let parts: Vec<&str> = parts.iter().take(2).filter_map(Value::as_str).collect();
            Some(parts.join(": "))
        }
        _ => None,
    };
    let all = list.as_array().into_iter().flatten();
    all.filter_map(text)
        .map(|text| clean(&text, limit))
        .filter(|text| !text.is_empty())
        .take(MAX_TEXTS)
        .collect()
}

/// Puts a text on one line, without control characters, and cuts it.
fn clean(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut length = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty())
    {
        if length > 0 && length < limit {
            out.push(' ');
            length += 1;
        }
        for c in word.chars() {
            if length >= limit {
                out.push('…');
                return out;
            }
            out.push(c);
            length += 1;
        }
    }
    out
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn of(value: &Value, limit: usize) -> Result<Answer, String> {
        read("https://s", value.to_string().as_bytes(), limit)
    }

    #[test]
    fn results_answers_and_failed_engines_are_read() {
        let found = of(
            &json!({
                "query": "x", "number_of_results": 0,
                "results": [
                    { "url": "https://a.example/", "title": " A\n title ", "content": "text",
                      "engine": "e", "publishedDate": "2026-01-02T00:00:00" },
                    { "url": "http://b.example/", "title": "B", "content": null },
                    { "url": "https://c.example/", "title": "C" }
                ],
                "answers": ["42", { "answer": "43", "url": null, "template": "answer/legacy.html" }],
                "corrections": [], "infoboxes": [], "suggestions": ["y"],
                "unresponsive_engines": [["brave", "too many requests"]]
            }),
            2,
        )
        .unwrap();
        assert_eq!(found.results[0].title, "A title");
        assert_eq!(found.results[0].published.as_deref(), Some("2026-01-02T00:00:00"));
        assert_eq!((found.results.len(), found.more, found.invalid), (2, 1, 0));
        assert_eq!((found.answers.len(), found.suggestions.len()), (2, 1));
        assert_eq!(found.failed_engines, ["brave: too many requests"]);
    }

    #[test]
    fn values_of_other_types_are_left_out() {
        let found = of(
            &json!({
                "results": [1, null, [], {}, { "url": 3 }, { "url": "javascript:alert(1)" },
                    { "url": "https://a\u{7}b/" }, { "url": format!("https://{}", "x".repeat(2_000)) },
                    { "url": "https://ok/", "title": ["no"], "content": { "a": 1 } }],
                "answers": { "a": 1 }, "suggestions": [3, {}, { "answer": 1 }], "corrections": 7,
                "unresponsive_engines": ["one", [1, 2]]
            }),
            10,
        )
        .unwrap();
        assert_eq!((found.results.len(), found.invalid), (1, 8));
        assert_eq!((found.results[0].title.as_str(), found.results[0].snippet.as_str()), ("", ""));
        assert_eq!(found.failed_engines, ["one"]);
        assert!(found.answers.is_empty() && found.suggestions.is_empty());
    }

    #[test]
    fn texts_are_cut() {
        let long = "wörd ".repeat(1_000);
        let found = of(
            &json!({ "results": [{ "url": "https://a/", "title": long, "content": "x".repeat(MAX_SNIPPET) }],
                     "suggestions": vec![long.clone(); 100] }),
            10,
        )
        .unwrap();
        assert_eq!(found.results[0].title.chars().count(), MAX_TITLE + 1);
        assert!(found.results[0].title.ends_with('…'));
        assert_eq!(found.results[0].snippet.len(), MAX_SNIPPET);
        assert_eq!(found.suggestions.len(), MAX_TEXTS);
    }

    #[test]
    fn other_responses_are_errors_that_say_why() {
        for (body, message) in [
            ("<!doctype html>", "a page instead of JSON"),
            ("", "not valid JSON"),
            ("{\"results\":", "not valid JSON"),
            ("[]", "no list `results`"),
            ("{\"results\": {}}", "no list `results`"),
        ] {
            let error = read("https://s", body.as_bytes(), 9).unwrap_err();
            assert!(error.contains(message), "{body}: {error}");
        }
        let deep = format!("{{\"results\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read("https://s", deep.as_bytes(), 9).unwrap_err().contains("recursion limit"));
        for (status, message) in [
            (301, "redirects to https://t/"),
            (403, "`search.formats`"),
            (404, "no `/search`"),
            (429, "try again later"),
            (500, "status 500"),
        ] {
            let error = check_status("https://s", status, Some("https://t/")).unwrap_err();
            assert!(error.starts_with("https://s ") && error.contains(message), "{error}");
        }
        assert_eq!(check_status("https://s", 200, None), Ok(()));
    }

    #[test]
    fn a_cut_between_words_leaves_no_space() {
        assert_eq!(clean("abc def", 3), "abc…");
        assert_eq!(clean("abc def", 4), "abc …");
        assert_eq!(clean("abc def", 7), "abc def");
    }

    proptest! {
        #[test]
        fn cleaned_text_is_one_short_line(text in any::<String>(), limit in 1_usize..40) {
            let cleaned = clean(&text, limit);
            prop_assert!(cleaned.chars().count() <= limit + 1);
            prop_assert!(!cleaned.contains(char::is_control));
        }
    }
}
