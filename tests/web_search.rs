//! The built-in skill `web-search`, against a server that answers with responses in the form
//! of SearXNG's, and with others that a hostile one could send.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::cli::{User, repository, text};
use crate::servers::{Server, respond};

const RESULTS: &[u8] = include_bytes!("cases/web-search/results.json");
const FORBIDDEN: &[u8] = include_bytes!("cases/web-search/forbidden.html");

/// A user who configured a search engine.
struct Search {
    user: User,
    server: Server,
    /// The first lines of the requests.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Search {
    /// The engine answers each request alike.
    fn new(status: &'static str, headers: &'static str, body: impl Into<Vec<u8>>) -> Search {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, body) = (requests.clone(), body.into());
        let server = Server::start(move |request, stream| {
            let line = text(request).lines().next().unwrap_or_default().to_owned();
            seen.lock().unwrap().push(line);
            respond(stream, status, headers, &body);
        });
        let search = Search { user: User::new(), server, requests };
        search.set("url", &search.server.url());
        search
    }

    fn set(&self, name: &str, value: &str) {
        let set = self.user.skillhost(&["settings", "set", &skill(), name, value]);
        assert!(set.status.success(), "{}", text(&set.stderr));
    }

    /// Runs the skill with access to the engine only.
    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let allow = format!("WebFetch({})", self.server.url());
        crate::cli::run(&self.user, &[&["run", &skill(), "--allow", &allow], args].concat())
    }

    fn finds(&self, input: &Value) -> Value {
        let (code, stdout, stderr) = self.run(&["search", "--input", &input.to_string()]);
        assert_eq!(code, Some(0), "{input}: {stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    fn fails(&self) -> String {
        let (code, stdout, stderr) = self.run(&["search", "--input", r#"{"query": "x"}"#]);
        assert_eq!(code, Some(1), "{stdout}{stderr}");
        stderr
    }
}

fn skill() -> String {
    let folder = repository("skills/web-search");
    assert!(folder.join("web-search.wasm").is_file(), "run `cargo xtask components` first");
    folder.display().to_string()
}

#[test]
fn results_are_returned_without_their_internals() {
    let search = Search::new("200 OK", "content-type: application/json\r\n", RESULTS);
    let found = search.finds(&json!({ "query": "component model", "max_results": 2 }));
    assert_eq!(
        found,
        json!({
            "results": [
                {
                    "title": "Introduction - The Component Model",
                    "url": "https://component-model.example.org/",
                    "snippet": "The component model is an architecture for building interoperable libraries, applications and environments."
                },
                {
                    "title": "Components reach 1.0",
                    "url": "https://news.example.com/2026/11/components?a=1&b=2",
                    "snippet": "The interfaces are stable.",
                    "published": "2026-11-02T08:00:00"
                }
            ],
            "more": 1,
            "answers": ["A component is a module with typed interfaces."],
            "suggestions": ["component model rust"],
            "failed_engines": ["brave: Suspended: too many requests"]
        })
    );
    let (code, stdout, stderr) = search.run(&["--", "component", "model"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with("A component is a module"), "{stdout}");
    assert!(stdout.contains("3. A third page\n   https://third.example.com/\n"), "{stdout}");
    assert!(stdout.ends_with("[did not respond: brave: Suspended: too many requests]\n"));
}

#[test]
fn query_and_settings_are_sent_as_documented_parameters() {
    let search = Search::new("200 OK", "", RESULTS);
    search.set("language", "de");
    search.set("safe-search", "strict");
    search.finds(&json!({ "query": "a&b #c", "categories": ["news", "it"], "time_range": "day" }));
    search.finds(&json!({ "query": "x", "language": "fr", "page": 2 }));
    let requests = search.requests.lock().unwrap().clone();
    assert_eq!(
        requests,
        [
            "GET /search?q=a%26b+%23c&format=json&categories=news%2Cit&language=de&time_range=day&safesearch=2 HTTP/1.1",
            "GET /search?q=x&format=json&language=fr&safesearch=2&pageno=2 HTTP/1.1"
        ]
    );
}

#[test]
fn engine_that_is_not_granted_gets_no_request() {
    let search = Search::new("200 OK", "", RESULTS);
    let args = ["run", &skill(), "search", "--input", r#"{"query": "x"}"#];
    let (code, stdout, stderr) = crate::cli::run(&search.user, &args);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    let entry = format!("WebFetch({})", search.server.url());
    assert!(stderr.contains("network access to 127.0.0.1 is not granted"), "{stderr}");
    assert!(stderr.contains(&entry), "{stderr}");
    assert_eq!(search.server.connections(), 0);
}

#[test]
fn missing_and_invalid_settings_name_the_command_that_sets_them() {
    let user = User::new();
    let args = ["run", &skill(), "search", "--input", r#"{"query": "x"}"#];
    let (code, _, stderr) = crate::cli::run(&user, &args);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("skillhost settings set web-search url https://"), "{stderr}");
    let set = user.skillhost(&["settings", "set", &skill(), "url", "search.example.com"]);
    assert!(set.status.success(), "{}", text(&set.stderr));
    let (code, _, stderr) = crate::cli::run(&user, &args);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("the setting `url` is not the address"), "{stderr}");
}

#[test]
fn refusals_say_what_to_change_on_the_instance() {
    let refused = Search::new("403 Forbidden", "content-type: text/html\r\n", FORBIDDEN);
    assert!(refused.fails().contains("add `json` to `search.formats` in its settings.yml"));
    let limited = Search::new("429 Too Many Requests", "content-type: text/html\r\n", "x");
    assert!(limited.fails().contains("limits the number of searches (status 429)"));
    let moved = Search::new("302 Found", "location: http://169.254.169.254/\r\n", "");
    let stderr = moved.fails();
    assert!(stderr.contains("redirects to http://169.254.169.254/, which is not followed"));
    assert_eq!(moved.server.connections(), 1, "a redirect is not followed");
}

#[test]
fn hostile_responses_are_errors_or_cut() {
    let page = Search::new("200 OK", "content-type: text/html\r\n", FORBIDDEN);
    assert!(page.fails().contains("responded with a page instead of JSON"));
    let huge =
        Search::new("200 OK", "", [b"{\"results\":[".to_vec(), vec![b' '; 3 << 20]].concat());
    assert!(huge.fails().contains("the response is larger than 2 MiB"));
    let deep = Search::new("200 OK", "", "[".repeat(1 << 20));
    assert!(deep.fails().contains("the response is not valid JSON: recursion limit exceeded"));
    let typed = json!({ "results": [
        { "url": "file:///etc/passwd", "title": "no page" },
        { "url": ["https://a.example/"], "title": "no address" },
        { "url": "https://b.example/", "title": { "a": [] }, "content": "\u{1b}[31m".repeat(9_999) }
    ], "answers": "none", "suggestions": [[[]]] });
    let typed = Search::new("200 OK", "", typed.to_string());
    let found = typed.finds(&json!({ "query": "x" }));
    assert_eq!((&found["invalid"], &found["results"][0]["title"]), (&json!(2), &json!("")));
    let snippet = found["results"][0]["snippet"].as_str().unwrap();
    assert!(snippet.len() < 700 && !snippet.contains('\u{1b}'), "{snippet}");
}
