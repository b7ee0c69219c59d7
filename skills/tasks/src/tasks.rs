//! All tasks, in the form in which they are stored.

use std::cmp::Ordering;

use jiff::ToSpan as _;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All tasks.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Tasks {
    /// The last number assigned. Numbers are not reused.
    last: u64,
    tasks: Vec<Task>,
    /// Makes the tasks' identifiers in calendars unique. Created by the first export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calendar: Option<String>,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its number.
    pub id: u64,
    /// The title.
    pub title: String,
    /// The details.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
    /// Tags, in lower case and sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The due date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// How important it is. Files of earlier versions have no priorities.
    #[serde(default)]
    pub priority: Priority,
    /// When to remind of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminder: Option<Reminder>,
    /// The day on which it was created, in UTC.
    pub created: String,
    /// The day on which it was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<String>,
}

/// How important a task is. The order is that of lists.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Priority {
    High,
    #[default]
    Normal,
    Low,
}

/// When to remind of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reminder {
    /// On this day.
    On(String),
    /// This number of days before the due date, whatever that is.
    DaysBefore(i32),
}

impl Task {
    /// Returns the day of the reminder.
    pub fn remind_on(&self) -> Option<String> {
        match self.reminder.as_ref()? {
            Reminder::On(day) => Some(day.clone()),
            Reminder::DaysBefore(days) => {
                let due: Date = self.due.as_ref()?.parse().ok()?;
                // Before the first day that there is, the reminder is due.
                let day = due.checked_sub(days.days()).unwrap_or(Date::MIN);
                Some(day.to_string())
            }
        }
    }
}

/// A task with its status today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskView {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// Whether the task is open and its due date has passed.
    pub overdue: bool,
    /// Whether the task is open and the day of its reminder has come.
    pub reminder_due: bool,
}

/// Which tasks to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Filter {
    #[default]
    Open,
    Done,
    Overdue,
    /// Open tasks whose reminder is due.
    Reminders,
    All,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// By due date, then by priority.
    #[default]
    Due,
    /// By priority, then by due date.
    Priority,
}

/// The fields of a new task.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "as in the task")]
pub struct NewTask {
    pub title: String,
    pub due: Option<String>,
    pub details: Option<String>,
    pub tags: Vec<String>,
    pub priority: Priority,
    pub reminder: Option<String>,
}

/// Which tasks to list, and in which order.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "as in the input of the tool")]
pub struct Selection {
    pub status: Filter,
    pub due_before: Option<String>,
    pub tag: Option<String>,
    pub priority: Option<Priority>,
    pub sort: Sort,
}

/// The changes to a task.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "as in the task")]
pub struct Change {
    pub title: Option<String>,
    pub due: Option<String>,
    pub details: Option<String>,
    pub tags: Option<Vec<String>>,
    pub priority: Option<Priority>,
    pub reminder: Option<String>,
    pub reopen: bool,
}

impl Tasks {
    /// Creates a task.
    ///
    /// # Errors
    /// Returns an error if the title is empty, or the due date or the reminder is not valid.
    pub fn create(&mut self, new: NewTask, today: Date) -> Result<TaskView, String> {
        let title = one_line(&new.title)?;
        let due = new.due.map(|due| day(&due, today)).transpose()?.map(|due| due.to_string());
        let reminder = new.reminder.map(|text| reminder(&text, today)).transpose()?;
        check_reminder(reminder.as_ref(), due.as_ref())?;
        self.last += 1;
        let task = Task {
            id: self.last,
            title,
            details: new.details.unwrap_or_default(),
            tags: tidy(new.tags),
            due,
            priority: new.priority,
            reminder,
            created: today.to_string(),
            completed: None,
        };
        self.tasks.push(task.clone());
        Ok(view(&task, today))
    }

    /// Marks a task as done. A completed task does not change.
    ///
    /// # Errors
    /// Returns an error if there is no such task.
    pub fn complete(&mut self, id: u64, today: Date) -> Result<TaskView, String> {
        let task = self.get(id)?;
        task.completed.get_or_insert_with(|| today.to_string());
        Ok(view(task, today))
    }

    /// Changes the given fields. Without a due date, there is no reminder relative to it.
    ///
    /// # Errors
    /// Returns an error if there is no such task, nothing to change, an empty title, or an invalid
    /// due date or reminder.
    pub fn update(&mut self, id: u64, change: Change, today: Date) -> Result<TaskView, String> {
        let Change { title, due, details, tags, priority, reminder: remind, reopen } = change;
        let changes_text = title.is_some() || details.is_some() || tags.is_some();
        let changes_time = due.is_some() || priority.is_some() || remind.is_some();
        if !changes_text && !changes_time && !reopen {
            return Err("nothing to change: give `title`, `due`, `details`, `tags`, `priority`, \
                        `reminder` or `reopen`"
                .into());
        }
        let title = title.map(|title| one_line(&title)).transpose()?;
        let due = given(due.as_deref(), |due| Ok(day(due, today)?.to_string()))?;
        let remind = given(remind.as_deref(), |text| reminder(text, today))?;
        let task = self.get(id)?;
        let due = due.unwrap_or_else(|| task.due.clone());
        let reminder = match remind {
            Some(reminder) => {
                check_reminder(reminder.as_ref(), due.as_ref())?;
                reminder
            }
            None => {
                task.reminder.clone().filter(|old| due.is_some() || matches!(old, Reminder::On(_)))
            }
        };
        task.title = title.unwrap_or_else(|| task.title.clone());
        task.due = due;
        task.details = details.unwrap_or_else(|| task.details.clone());
        task.tags = tags.map_or_else(|| task.tags.clone(), tidy);
        task.priority = priority.unwrap_or(task.priority);
        task.reminder = reminder;
        task.completed = task.completed.take().filter(|_| !reopen);
        Ok(view(task, today))
    }

    /// Deletes a task and returns it.
    ///
    /// # Errors
    /// Returns an error if there is no such task.
    pub fn delete(&mut self, id: u64, today: Date) -> Result<TaskView, String> {
        let at = self.tasks.iter().position(|task| task.id == id).ok_or_else(|| missing(id))?;
        Ok(view(&self.tasks.remove(at), today))
    }

    /// Lists the selected tasks. Those without a due date come after those that have one.
    ///
    /// # Errors
    /// Returns an error if the date is not valid.
    pub fn list(&self, selection: &Selection, today: Date) -> Result<Vec<TaskView>, String> {
        let before = selection.due_before.as_deref().map(|due| day(due, today)).transpose()?;
        let before = before.map(|due| due.to_string());
        let tag = selection.tag.as_ref().map(|tag| tag.to_lowercase());
        let wanted = |one: &TaskView| {
            let status = match selection.status {
                Filter::Open => one.task.completed.is_none(),
                Filter::Done => one.task.completed.is_some(),
                Filter::Overdue => one.overdue,
                Filter::Reminders => one.reminder_due,
                Filter::All => true,
            };
            let due = before
                .as_ref()
                .is_none_or(|before| one.task.due.as_ref().is_some_and(|due| due <= before));
            let priority = selection.priority.is_none_or(|wanted| one.task.priority == wanted);
            let tag = tag.as_ref().is_none_or(|tag| one.task.tags.contains(tag));
            status && due && priority && tag
        };
        let mut found: Vec<TaskView> =
            self.tasks.iter().map(|task| view(task, today)).filter(wanted).collect();
        found.sort_by(|a, b| in_order(&a.task, &b.task, selection.sort));
        Ok(found)
    }

    /// Finds the tasks that contain every word, open ones first.
    pub fn search(&self, query: &str, today: Date) -> Vec<TaskView> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let holds = |task: &&Task| {
            let all =
                format!("{}\n{}\n{}", task.title, task.details, task.tags.join(" ")).to_lowercase();
            !words.is_empty() && words.iter().all(|word| all.contains(word.as_str()))
        };
        let mut found: Vec<TaskView> =
            self.tasks.iter().filter(holds).map(|task| view(task, today)).collect();
        found.sort_by(|a, b| {
            let is_done = |one: &TaskView| one.task.completed.is_some();
            is_done(a).cmp(&is_done(b)).then_with(|| in_order(&a.task, &b.task, Sort::Due))
        });
        found
    }

    /// Returns the numbers of the open tasks whose reminder is due.
    pub fn due_reminders(&self, today: Date) -> Vec<u64> {
        let views = self.tasks.iter().map(|task| view(task, today));
        views.filter(|one| one.reminder_due).map(|one| one.task.id).collect()
    }

    /// Returns the name that makes the identifiers of tasks unique, which `create` makes for the
    /// first export.
    pub fn calendar(&mut self, create: impl FnOnce() -> String) -> String {
        self.calendar.get_or_insert_with(create).clone()
    }

    fn get(&mut self, id: u64) -> Result<&mut Task, String> {
        self.tasks.iter_mut().find(|task| task.id == id).ok_or_else(|| missing(id))
    }
}

fn in_order(a: &Task, b: &Task, sort: Sort) -> Ordering {
    let by_due = || (a.due.is_none(), &a.due).cmp(&(b.due.is_none(), &b.due));
    let by_priority = || a.priority.cmp(&b.priority);
    let order = match sort {
        Sort::Due => by_due().then_with(by_priority),
        Sort::Priority => by_priority().then_with(by_due),
    };
    order.then(a.id.cmp(&b.id))
}

/// Parses a change of a field that can be removed by `none`.
fn given<T>(
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<Option<T>>, String> {
    match text {
        None => Ok(None),
        Some("none" | "") => Ok(Some(None)),
        Some(text) => Ok(Some(Some(parse(text)?))),
    }
}

/// Parses a day: `2026-03-31`, `today`, `tomorrow`, `+3d` or `+2w`.
fn day(text: &str, today: Date) -> Result<Date, String> {
    let text = text.trim();
    let wrong =
        || format!("`{text}` is not a valid day: use 2026-03-31, today, tomorrow, +3d or +2w");
    let ahead = |days: i32| today.checked_add(days.days()).map_err(|_| wrong());
    match text.to_lowercase().as_str() {
        "today" => Ok(today),
        "tomorrow" => ahead(1),
        lower => match lower.strip_prefix('+') {
            Some(length) => ahead(days(length).ok_or_else(wrong)?),
            None => Some(text)
                .filter(|text| text.len() == 10)
                .and_then(|text| text.parse().ok())
                .ok_or_else(wrong),
        },
    }
}

/// Parses a reminder: a day, or a time before the due date such as `3d before`.
fn reminder(text: &str, today: Date) -> Result<Reminder, String> {
    let lower = text.trim().to_lowercase();
    let parsed = match lower.strip_suffix("before") {
        Some(length) => days(length.trim()).map(Reminder::DaysBefore),
        None => day(&lower, today).ok().map(|day| Reminder::On(day.to_string())),
    };
    parsed.ok_or_else(|| {
        format!(
            "`{}` is not a valid reminder: use a day such as 2026-03-31, tomorrow or +3d, or a \
             time before the due date such as `3d before` or `2w before`",
            text.trim()
        )
    })
}

fn check_reminder(reminder: Option<&Reminder>, due: Option<&String>) -> Result<(), String> {
    match (reminder, due) {
        (Some(Reminder::DaysBefore(_)), None) => {
            Err("a reminder before the due date needs a task with `due`".into())
        }
        _ => Ok(()),
    }
}

/// Parses a number of days or weeks, at most a century: `3d` or `2w`.
fn days(text: &str) -> Option<i32> {
    let (number, factor) = match (text.strip_suffix('d'), text.strip_suffix('w')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 7),
        _ => return None,
    };
    let number: i32 = number.parse().ok()?;
    number.checked_mul(factor).filter(|days| (0..=36_525).contains(days))
}

fn view(task: &Task, today: Date) -> TaskView {
    let today = today.to_string();
    let is_open = task.completed.is_none();
    let overdue = is_open && task.due.as_ref().is_some_and(|due| *due < today);
    let reminder_due = is_open && task.remind_on().is_some_and(|day| day <= today);
    TaskView { task: task.clone(), overdue, reminder_due }
}

fn one_line(title: &str) -> Result<String, String> {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.is_empty() { Err("the title is empty".into()) } else { Ok(title) }
}

fn tidy(tags: Vec<String>) -> Vec<String> {
    let mut tags: Vec<String> = tags
        .iter()
        .map(|tag| tag.trim().trim_start_matches('#').to_lowercase())
        .filter(|tag| !tag.is_empty())
        .collect();
    tags.sort();
    tags.dedup();
    tags
}

fn missing(id: u64) -> String {
    format!("there is no task {id}; `list` and `search` show the numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: Date = jiff::civil::date(2026, 2, 27);

    fn new(title: &str, due: Option<&str>) -> NewTask {
        NewTask { title: title.into(), due: due.map(str::to_owned), ..NewTask::default() }
    }

    fn tasks() -> Tasks {
        let mut tasks = Tasks::default();
        tasks.create(new("no date", None), TODAY).unwrap();
        let late = NewTask { tags: vec!["Work".into()], ..new("late", Some("2026-02-26")) };
        tasks.create(late, TODAY).unwrap();
        let soon =
            NewTask { details: Some("call Anna".into()), ..new("  soon\n enough ", Some("+2d")) };
        tasks.create(soon, TODAY).unwrap();
        tasks
    }

    fn ids(found: &[TaskView]) -> Vec<u64> {
        found.iter().map(|one| one.task.id).collect()
    }

    #[test]
    fn days_are_parsed_in_all_formats() {
        for (text, day_) in [
            ("2026-03-01", (2026, 3, 1)),
            ("today", (2026, 2, 27)),
            ("Tomorrow", (2026, 2, 28)),
            ("+2d", (2026, 3, 1)),
            ("+1w", (2026, 3, 6)),
        ] {
            assert_eq!(day(text, TODAY), Ok(jiff::civil::date(day_.0, day_.1, day_.2)), "{text}");
        }
        for text in [
            "",
            "+",
            "soon",
            "2026-02-30",
            "+d",
            "+-1d",
            "+9999999999999d",
            "2026-2-1",
            "+1m",
            "+1é",
        ] {
            assert!(day(text, TODAY).unwrap_err().contains("is not a valid day"), "{text}");
        }
    }

    #[test]
    fn tasks_are_sorted_by_due_date() {
        let mut tasks = tasks();
        let list = |tasks: &Tasks, status, before: Option<&str>| {
            let due_before = before.map(str::to_owned);
            let selection = Selection { status, due_before, ..Selection::default() };
            ids(&tasks.list(&selection, TODAY).unwrap())
        };
        assert_eq!(list(&tasks, Filter::Open, None), [2, 3, 1]);
        assert_eq!(list(&tasks, Filter::Overdue, None), [2]);
        assert_eq!(list(&tasks, Filter::Open, Some("today")), [2]);
        let work = Selection { tag: Some("WORK".into()), ..Selection::default() };
        assert_eq!(ids(&tasks.list(&work, TODAY).unwrap()), [2]);
        assert!(tasks.complete(2, TODAY).unwrap().task.completed.is_some());
        assert_eq!(
            (list(&tasks, Filter::Open, None), list(&tasks, Filter::Done, None)),
            (vec![3, 1], vec![2])
        );
        assert_eq!(list(&tasks, Filter::Overdue, None), Vec::<u64>::new());
    }

    #[test]
    fn task_is_changed_reopened_and_deleted() {
        let mut tasks = tasks();
        tasks.complete(3, TODAY).unwrap();
        let change = Change { due: Some("none".into()), reopen: true, ..Change::default() };
        let changed = tasks.update(3, change, TODAY).unwrap();
        assert_eq!(
            (changed.task.title.as_str(), changed.task.due, changed.task.completed),
            ("soon enough", None, None)
        );
        assert_eq!(ids(&tasks.search("anna CALL", TODAY)), [3]);
        tasks.delete(3, TODAY).unwrap();
        assert!(tasks.complete(3, TODAY).unwrap_err().contains("no task 3"));
        assert_eq!(tasks.create(new("next", None), TODAY).unwrap().task.id, 4, "no number twice");
        assert!(
            tasks.update(1, Change::default(), TODAY).unwrap_err().contains("nothing to change")
        );
        let wrong = Change { due: Some("never".into()), ..Change::default() };
        assert!(tasks.update(1, wrong, TODAY).is_err());
    }

    #[test]
    fn priorities_filter_and_sort() {
        let mut tasks = tasks();
        let priority = |priority| Change { priority: Some(priority), ..Change::default() };
        tasks.update(1, priority(Priority::High), TODAY).unwrap();
        tasks.update(2, priority(Priority::Low), TODAY).unwrap();
        let list = |selection: Selection| ids(&tasks.list(&selection, TODAY).unwrap());
        assert_eq!(list(Selection { sort: Sort::Priority, ..Selection::default() }), [1, 3, 2]);
        assert_eq!(list(Selection::default()), [2, 3, 1]);
        let high = Selection { priority: Some(Priority::High), ..Selection::default() };
        assert_eq!(list(high), [1]);
        // Of tasks for the same day, the more important one comes first.
        let mut tasks = Tasks::default();
        tasks.create(new("a", Some("today")), TODAY).unwrap();
        let b = NewTask { priority: Priority::High, ..new("b", Some("today")) };
        tasks.create(b, TODAY).unwrap();
        assert_eq!(ids(&tasks.list(&Selection::default(), TODAY).unwrap()), [2, 1]);
    }

    #[test]
    fn reminders_are_due_from_their_day_until_the_task_is_done() {
        let mut tasks = tasks();
        let remind = |text: &str| Change { reminder: Some(text.into()), ..Change::default() };
        tasks.update(3, remind("1d before"), TODAY).unwrap();
        tasks.update(1, remind("Tomorrow"), TODAY).unwrap();
        let tomorrow = TODAY.tomorrow().unwrap();
        assert_eq!(tasks.due_reminders(TODAY), Vec::<u64>::new());
        assert_eq!(tasks.due_reminders(tomorrow), [1, 3]);
        let reminders = Selection { status: Filter::Reminders, ..Selection::default() };
        assert_eq!(ids(&tasks.list(&reminders, tomorrow).unwrap()), [3, 1]);
        // A later due date moves the reminder, and its removal removes it.
        let later = |due: &str| Change { due: Some(due.into()), ..Change::default() };
        tasks.update(3, later("+1w"), TODAY).unwrap();
        assert_eq!(tasks.due_reminders(tomorrow), [1]);
        assert_eq!(tasks.update(3, later("none"), TODAY).unwrap().task.reminder, None);
        tasks.complete(1, TODAY).unwrap();
        assert_eq!(tasks.due_reminders(tomorrow), Vec::<u64>::new());
        let reopened = Change { reopen: true, ..remind("none") };
        assert_eq!(tasks.update(1, reopened, TODAY).unwrap().task.reminder, None);
    }

    #[test]
    fn invalid_reminders_are_refused() {
        let mut tasks = tasks();
        let remind = |text: &str| NewTask { reminder: Some(text.into()), ..new("x", None) };
        for text in ["soon", "before", "-1d before", "1m before", "99999w before", "2026-02-30"] {
            let error = tasks.create(remind(text), TODAY).unwrap_err();
            assert!(error.contains("is not a valid reminder"), "{text}: {error}");
        }
        let error = tasks.create(remind("2d before"), TODAY).unwrap_err();
        assert_eq!(error, "a reminder before the due date needs a task with `due`");
        let change = Change { reminder: Some("2d before".into()), ..Change::default() };
        assert!(tasks.update(1, change, TODAY).unwrap_err().contains("needs a task with `due`"));
    }

    #[test]
    fn state_of_earlier_versions_is_read() {
        let old = r#"{"last":2,"tasks":[
            {"id":1,"title":"a","created":"2026-01-01"},
            {"id":2,"title":"b","details":"d","tags":["t"],"due":"2026-02-01","created":"2026-01-01","completed":"2026-01-02"}]}"#;
        let mut tasks: Tasks = serde_json::from_str(old).unwrap();
        let all = Selection { status: Filter::All, ..Selection::default() };
        let listed = tasks.list(&all, TODAY).unwrap();
        assert_eq!(ids(&listed), [2, 1]);
        assert_eq!((listed[0].task.priority, &listed[0].task.reminder), (Priority::Normal, &None));
        assert_eq!(tasks.create(new("c", None), TODAY).unwrap().task.id, 3);
    }
}
