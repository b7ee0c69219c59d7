//! Fetches web pages as readable text. The host checks every request, including those of redirects.

pub mod args;
pub mod content;
pub mod page;
pub mod report;
pub mod text;

use report::{MAX_BODY, MAX_REDIRECTS, Report};
use schemars::JsonSchema;
use serde::Deserialize;
use skillhost_guest::http::Request;
use skillhost_guest::{print, println};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchInput {
    /// The address of the page. The scheme is `https` by default.
    url: String,
    /// Maximum number of characters of text; 20000 by default.
    max_chars: Option<usize>,
    /// Whether to list the links of the page as well.
    #[serde(default)]
    links: bool,
}

/// Fetches a web page and returns its readable text, its title and, on request, its links. JSON and
/// plain text are returned unchanged. Use it to read documentation, articles and API responses from
/// the hosts that the policy allows.
#[skillhost_guest::tool]
async fn fetch(input: FetchInput) -> Result<Report, String> {
    let mut report = get(&input.url, input.max_chars).await?;
    if !input.links {
        report.links.clear();
    }
    Ok(report)
}

skillhost_guest::tools!(fetch);

#[skillhost_guest::main]
async fn main(args: Vec<String>) -> Result<(), String> {
    let Some(args) = args::parse(args.into_iter().skip(1))? else {
        print!("{}", args::HELP);
        return Ok(());
    };
    let report = get(&args.url, args.max_chars).await?;
    if let Some(title) = &report.title {
        println!("Title: {title}");
    }
    println!("URL: {}\nStatus: {}\n\n{}", report.url, report.status, report.text);
    if report.truncated {
        println!("\n[truncated: see --max-chars]");
    }
    if args.links && !report.links.is_empty() {
        println!("\nLinks:");
        for link in &report.links {
            println!("- {}: {}", link.text, link.url);
        }
    }
    if report.status >= 400 {
        Err(format!("{} responded with status {}", report.url, report.status))
    } else {
        Ok(())
    }
}

async fn get(url: &str, max_chars: Option<usize>) -> Result<Report, String> {
    let mut url = report::address(url)?;
    for _ in 0..=MAX_REDIRECTS {
        let request = Request::get(url.as_str()).header(
            "accept",
            "text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.8",
        );
        let mut response = request
            .header("user-agent", "skillhost-web-fetch")
            .send()
            .await
            .map_err(|e| format!("{e:#}"))?;
        if let Some(next) = report::next(&url, response.status(), response.header("location"))? {
            url = next;
            continue;
        }
        let content_type = response.header("content-type").map(str::to_owned);
        let mut body = Vec::new();
        let mut cut = false;
        while let Some(chunk) = response.chunk().await.map_err(|e| format!("{e:#}"))? {
            body.extend(chunk);
            if body.len() > MAX_BODY {
                body.truncate(MAX_BODY);
                cut = true;
                break;
            }
        }
        return report::report(
            &url,
            response.status(),
            content_type.as_deref(),
            &body,
            cut,
            max_chars,
        );
    }
    Err(format!("more than {MAX_REDIRECTS} redirects, the last one to {url}"))
}
