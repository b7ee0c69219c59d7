//! Keeps tasks with due dates from run to run.

pub mod tasks;

use std::time::UNIX_EPOCH;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::state;
use tasks::{Filter, Shown, Tasks};

const FILE: &str = "tasks.json";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateInput {
    /// What is to be done, in one line.
    title: String,
    /// The last day to do it on, such as `2026-03-31`; `today`, `tomorrow` or `+3d`, `+2w`.
    due: Option<String>,
    /// More about it.
    details: Option<String>,
    /// Words to find it by.
    #[serde(default)]
    tags: Vec<String>,
}

/// Creates a task. Use it when the user has something to do later, or asks to be reminded of it.
#[skillhost_guest::tool]
async fn create(input: CreateInput) -> Result<Shown, String> {
    let today = today();
    change(|tasks| {
        tasks.create(input.title, input.due.as_deref(), input.details, input.tags, today)
    })
    .await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    /// Which: `open` ones without.
    status: Option<Filter>,
    /// Due on this day or before it, written as for `create`.
    due_before: Option<String>,
    /// With this tag alone.
    tag: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Listed {
    /// Today, in UTC.
    today: String,
    tasks: Vec<Shown>,
}

/// Lists tasks, what is due first on top. Each says whether it is overdue.
#[skillhost_guest::tool]
async fn list(input: ListInput) -> Result<Listed, String> {
    let today = today();
    let tasks = load().await?.list(
        input.status.unwrap_or(Filter::Open),
        input.due_before.as_deref(),
        input.tag.as_deref(),
        today,
    )?;
    Ok(Listed { today: today.to_string(), tasks })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchInput {
    /// Words that all must be in the title, the details or the tags, in any order and case.
    query: String,
}

/// Finds tasks, done ones too, that hold all of some words.
#[skillhost_guest::tool]
async fn search(input: SearchInput) -> Result<Listed, String> {
    let today = today();
    Ok(Listed { today: today.to_string(), tasks: load().await?.search(&input.query, today) })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IdInput {
    /// The task's number, as `list` and `search` tell it.
    id: u64,
}

/// Marks a task as done.
#[skillhost_guest::tool]
async fn complete(input: IdInput) -> Result<Shown, String> {
    let today = today();
    change(|tasks| tasks.complete(input.id, today)).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateInput {
    /// The task's number.
    id: u64,
    /// The new title; as it was without.
    title: Option<String>,
    /// The new due date, written as for `create`, or `none`; as it was without.
    due: Option<String>,
    /// The new details; as they were without.
    details: Option<String>,
    /// The new tags in place of the old ones; as they were without.
    tags: Option<Vec<String>>,
    /// `true` opens a task again that was done.
    #[serde(default)]
    reopen: bool,
}

/// Changes parts of a task, such as its due date.
#[skillhost_guest::tool]
async fn update(input: UpdateInput) -> Result<Shown, String> {
    let UpdateInput { id, title, due, details, tags, reopen } = input;
    let today = today();
    change(|tasks| tasks.update(id, tasks::Change { title, due, details, tags, reopen }, today))
        .await
}

/// Removes a task for good, and returns it. A task that is done is better completed than removed.
#[skillhost_guest::tool]
async fn delete(input: IdInput) -> Result<Shown, String> {
    let today = today();
    change(|tasks| tasks.delete(input.id, today)).await
}

skillhost_guest::tools!(create, list, search, complete, update, delete);

async fn load() -> Result<Tasks, String> {
    state::load(FILE).await.map_err(|error| error.to_string())
}

async fn change<T>(act: impl FnOnce(&mut Tasks) -> Result<T, String>) -> Result<T, String> {
    let mut tasks = load().await?;
    let result = act(&mut tasks)?;
    state::store(FILE, &tasks).await.map_err(|error| error.to_string())?;
    Ok(result)
}

fn today() -> jiff::civil::Date {
    let now = skillhost_guest::time::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64);
    jiff::Timestamp::from_second(now)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date()
}
