//! Searches the web through a SearXNG instance that the operator configures.

pub mod answer;
pub mod args;
pub mod engine;

use std::time::Duration;

use answer::Answer;
use engine::{Engine, Query};
use skillhost_guest::http::Request;
use skillhost_guest::{env, print, println};

/// The maximum number of bytes to read of a response.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// The longest time to wait for the instance, which itself waits for its engines.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The default and the maximum number of results.
const DEFAULT_RESULTS: usize = 10;
const MAX_RESULTS: usize = 50;

/// Searches the web, and returns the titles, addresses and snippets of pages. Use it to find pages
/// when you know no address, and for information that may be newer than your knowledge.
#[skillhost_guest::tool]
async fn search(query: Query) -> Result<Answer, String> {
    ask(&query).await
}

skillhost_guest::tools!(search);

#[skillhost_guest::main]
async fn main(args: Vec<String>) -> Result<(), String> {
    let Some(query) = args::parse(args.into_iter().skip(1))? else {
        print!("{}", args::HELP);
        return Ok(());
    };
    let answer = ask(&query).await?;
    for text in &answer.answers {
        println!("{text}\n");
    }
    for (number, result) in answer.results.iter().enumerate() {
        println!("{}. {}\n   {}", number + 1, result.title, result.url);
        if !result.snippet.is_empty() {
            println!("   {}", result.snippet);
        }
    }
    if answer.results.is_empty() {
        println!("nothing found");
    }
    for engine in &answer.failed_engines {
        println!("[did not respond: {engine}]");
    }
    Ok(())
}

async fn ask(query: &Query) -> Result<Answer, String> {
    let limit = query.max_results.unwrap_or(DEFAULT_RESULTS).min(MAX_RESULTS);
    let engine = Engine::configured(|name| env::var(name).ok())?;
    let request = Request::get(engine.address(query)?)
        .header("accept", "application/json")
        .header("user-agent", "skillhost-web-search")
        .timeout(TIMEOUT);
    let mut response = request.send().await.map_err(|error| error.to_string())?;
    let status = response.status();
    answer::check_status(engine.base(), status, response.header("location"))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error.to_string())? {
        body.extend(chunk);
        if body.len() > MAX_BODY {
            let limit = MAX_BODY >> 20;
            return Err(format!("{}: the response is larger than {limit} MiB", engine.base()));
        }
    }
    answer::read(engine.base(), &body, limit)
}
