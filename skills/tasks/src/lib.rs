//! Keeps tasks with due dates between runs.

pub mod tasks;

use std::time::UNIX_EPOCH;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::state;
use tasks::{Filter, TaskView, Tasks};

const FILE: &str = "tasks.json";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateInput {
    /// The task, in one line.
    title: String,
    /// The due date, such as `2026-03-31`, `today`, `tomorrow`, `+3d` or `+2w`.
    due: Option<String>,
    /// More details.
    details: Option<String>,
    /// Words for finding the task.
    #[serde(default)]
    tags: Vec<String>,
}

/// Creates a task. Use it when the user has something to do later, or asks to be reminded of
/// something.
#[skillhost_guest::tool]
async fn create(input: CreateInput) -> Result<TaskView, String> {
    let today = today();
    change(|tasks| {
        tasks.create(input.title, input.due.as_deref(), input.details, input.tags, today)
    })
    .await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    /// Which tasks to list; open ones by default.
    status: Option<Filter>,
    /// List only tasks that are due on this day or before, in the format of `create`.
    due_before: Option<String>,
    /// List only tasks with this tag.
    tag: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct TaskList {
    /// Today's date, in UTC.
    today: String,
    tasks: Vec<TaskView>,
}

/// Lists tasks, sorted by due date. Each says whether it is overdue.
#[skillhost_guest::tool]
async fn list(input: ListInput) -> Result<TaskList, String> {
    let today = today();
    let tasks = load().await?.list(
        input.status.unwrap_or(Filter::Open),
        input.due_before.as_deref(),
        input.tag.as_deref(),
        today,
    )?;
    Ok(TaskList { today: today.to_string(), tasks })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchInput {
    /// Words that must all occur in the title, the details or the tags, in any order and case.
    query: String,
}

/// Finds tasks that contain all the words, including completed ones.
#[skillhost_guest::tool]
async fn search(input: SearchInput) -> Result<TaskList, String> {
    let today = today();
    Ok(TaskList { today: today.to_string(), tasks: load().await?.search(&input.query, today) })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IdInput {
    /// The number of the task, as shown by `list` and `search`.
    id: u64,
}

/// Marks a task as done.
#[skillhost_guest::tool]
async fn complete(input: IdInput) -> Result<TaskView, String> {
    let today = today();
    change(|tasks| tasks.complete(input.id, today)).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateInput {
    /// The number of the task.
    id: u64,
    /// The new title; unchanged by default.
    title: Option<String>,
    /// The new due date, in the format of `create`, or `none`; unchanged by default.
    due: Option<String>,
    /// The new details; unchanged by default.
    details: Option<String>,
    /// The new tags, which replace the old ones; unchanged by default.
    tags: Option<Vec<String>>,
    /// `true` reopens a completed task.
    #[serde(default)]
    reopen: bool,
}

/// Changes fields of a task, such as its due date.
#[skillhost_guest::tool]
async fn update(input: UpdateInput) -> Result<TaskView, String> {
    let UpdateInput { id, title, due, details, tags, reopen } = input;
    let today = today();
    change(|tasks| tasks.update(id, tasks::Change { title, due, details, tags, reopen }, today))
        .await
}

/// Deletes a task permanently, and returns it. Use `complete` for tasks that are done.
#[skillhost_guest::tool]
async fn delete(input: IdInput) -> Result<TaskView, String> {
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
