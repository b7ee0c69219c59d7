//! Keeps tasks with due dates, priorities and reminders between runs.

pub mod calendar;
pub mod tasks;

use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::{eprintln, print, println, random, state};
use tasks::{Change, Filter, NewTask, Priority, Selection, Sort, Task, TaskView, Tasks};

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
    /// How important the task is; `normal` by default.
    #[serde(default)]
    priority: Priority,
    /// When to remind of it: a day in the format of `due`, or a time before the due date such as
    /// `3d before` or `2w before`.
    reminder: Option<String>,
}

/// Creates a task. Use it when the user has something to do later, or asks to be reminded of
/// something.
#[skillhost_guest::tool]
async fn create(input: CreateInput) -> Result<TaskView, String> {
    let CreateInput { title, due, details, tags, priority, reminder } = input;
    let new = NewTask { title, due, details, tags, priority, reminder };
    change(|tasks| tasks.create(new, today())).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    /// Which tasks to list; open ones by default.
    #[serde(default)]
    status: Filter,
    /// List only tasks that are due on this day or before, in the format of `create`.
    due_before: Option<String>,
    /// List only tasks with this tag.
    tag: Option<String>,
    /// List only tasks of this priority.
    priority: Option<Priority>,
    /// The order; by due date by default.
    #[serde(default)]
    sort: Sort,
}

#[derive(Serialize, JsonSchema)]
struct TaskList {
    /// Today's date, in UTC.
    today: String,
    tasks: Vec<TaskView>,
    /// The numbers of all open tasks whose reminder is due, also of those that are not listed.
    reminders: Vec<u64>,
}

/// Lists tasks, sorted by due date. Each says whether it is overdue, and whether its reminder is
/// due.
#[skillhost_guest::tool]
async fn list(input: ListInput) -> Result<TaskList, String> {
    let ListInput { status, due_before, tag, priority, sort } = input;
    let selection = Selection { status, due_before, tag, priority, sort };
    let (tasks, today) = (load().await?, today());
    Ok(task_list(&tasks, tasks.list(&selection, today)?, today))
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
    let (tasks, today) = (load().await?, today());
    Ok(task_list(&tasks, tasks.search(&input.query, today), today))
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
    change(|tasks| tasks.complete(input.id, today())).await
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
    /// The new priority; unchanged by default.
    priority: Option<Priority>,
    /// The new reminder, in the format of `create`, or `none`; unchanged by default.
    reminder: Option<String>,
    /// `true` reopens a completed task.
    #[serde(default)]
    reopen: bool,
}

/// Changes fields of a task, such as its due date.
#[skillhost_guest::tool]
async fn update(input: UpdateInput) -> Result<TaskView, String> {
    let UpdateInput { id, title, due, details, tags, priority, reminder, reopen } = input;
    let new = Change { title, due, details, tags, priority, reminder, reopen };
    change(|tasks| tasks.update(id, new, today())).await
}

/// Deletes a task permanently, and returns it. Use `complete` for tasks that are done.
#[skillhost_guest::tool]
async fn delete(input: IdInput) -> Result<TaskView, String> {
    change(|tasks| tasks.delete(input.id, today())).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExportInput {
    /// Which tasks to export; open ones by default.
    #[serde(default)]
    status: Filter,
    /// Export only tasks that are due on this day or before, in the format of `create`.
    due_before: Option<String>,
    /// Export only tasks with this tag.
    tag: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Export {
    /// The number of tasks in the calendar.
    tasks: usize,
    /// The calendar, as the content of an `.ics` file. Empty if there are no tasks in it.
    calendar: String,
}

/// Exports tasks with a due date or a reminder as iCalendar, for calendar programs. Other tasks are
/// left out. Without any, `tasks` is 0 and `calendar` is empty, because a calendar without entries
/// is not valid. A second import of the same task replaces the first.
#[skillhost_guest::tool]
async fn export(input: ExportInput) -> Result<Export, String> {
    let ExportInput { status, due_before, tag } = input;
    to_calendar(&Selection { status, due_before, tag, ..Selection::default() }).await
}

skillhost_guest::tools!(create, list, search, complete, update, delete, export);

const HELP: &str = "\
Prints the open tasks.

Usage: tasks COMMAND

  list    print them as text, by due date, those with a due reminder marked by `!`
  export  print those with a due date or a reminder as iCalendar

The typed tools of this skill create and change tasks.
";

#[skillhost_guest::main]
async fn main(args: Vec<String>) -> Result<(), String> {
    match args.iter().skip(1).map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            let today = today();
            for task in load().await?.list(&Selection::default(), today)? {
                println!("{}", row(&task));
            }
        }
        ["export"] => {
            let exported = to_calendar(&Selection::default()).await?;
            if exported.tasks == 0 {
                eprintln!("no open task has a due date or a reminder");
            }
            print!("{}", exported.calendar);
        }
        ["--help" | "-h"] => print!("{HELP}"),
        _ => return Err("the command is `list` or `export`; see --help".into()),
    }
    Ok(())
}

fn row(one: &TaskView) -> String {
    let mark = if one.reminder_due { '!' } else { ' ' };
    let due = one.task.due.as_deref().unwrap_or("-");
    let mut row = format!("{mark} {:>4}  {due:<10}  {}", one.task.id, one.task.title);
    match one.task.priority {
        Priority::High => row.push_str(" (high)"),
        Priority::Normal => {}
        Priority::Low => row.push_str(" (low)"),
    }
    row
}

async fn to_calendar(selection: &Selection) -> Result<Export, String> {
    let new_name = || format!("{:016x}{:016x}", random::u64(), random::u64());
    change(|tasks| {
        let listed = tasks.list(selection, today())?;
        let has_time = |task: &&Task| task.due.is_some() || task.reminder.is_some();
        let dated: Vec<&Task> = listed.iter().map(|one| &one.task).filter(has_time).collect();
        let calendar = calendar::write(&dated, &tasks.calendar(new_name), now());
        Ok(Export { tasks: dated.len(), calendar })
    })
    .await
}

fn task_list(all: &Tasks, tasks: Vec<TaskView>, today: Date) -> TaskList {
    TaskList { today: today.to_string(), tasks, reminders: all.due_reminders(today) }
}

async fn load() -> Result<Tasks, String> {
    state::load(FILE).await.map_err(|error| error.to_string())
}

async fn change<T>(act: impl FnOnce(&mut Tasks) -> Result<T, String>) -> Result<T, String> {
    let mut tasks = load().await?;
    let result = act(&mut tasks)?;
    state::store(FILE, &tasks).await.map_err(|error| error.to_string())?;
    Ok(result)
}

fn today() -> Date {
    now().to_zoned(jiff::tz::TimeZone::UTC).date()
}

fn now() -> Timestamp {
    let now = skillhost_guest::time::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64);
    Timestamp::from_second(now).unwrap_or(Timestamp::UNIX_EPOCH)
}
