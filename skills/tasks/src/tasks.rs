//! All tasks, in the form in which they are stored.

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
    /// The day on which it was created, in UTC.
    pub created: String,
    /// The day on which it was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<String>,
}

/// A task with its status today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskView {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// Whether the task is open and its due date has passed.
    pub overdue: bool,
}

/// Which tasks to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Filter {
    Open,
    Done,
    Overdue,
    All,
}

/// The changes to a task.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "as in the task")]
pub struct Change {
    pub title: Option<String>,
    pub due: Option<String>,
    pub details: Option<String>,
    pub tags: Option<Vec<String>>,
    pub reopen: bool,
}

impl Tasks {
    /// Creates a task.
    ///
    /// # Errors
    /// Returns an error if the title is empty or the due date is not valid.
    pub fn create(
        &mut self,
        title: String,
        due: Option<&str>,
        details: Option<String>,
        tags: Vec<String>,
        today: Date,
    ) -> Result<TaskView, String> {
        let title = one_line(&title)?;
        let due = due.map(|due| day(due, today)).transpose()?.map(|due| due.to_string());
        self.last += 1;
        let details = details.unwrap_or_default();
        let task = Task {
            id: self.last,
            title,
            details,
            tags: tidy(tags),
            due,
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

    /// Changes the given fields.
    ///
    /// # Errors
    /// Returns an error if there is no such task, nothing to change, an empty title or an invalid
    /// due date.
    pub fn update(&mut self, id: u64, change: Change, today: Date) -> Result<TaskView, String> {
        let Change { title, due, details, tags, reopen } = change;
        if title.is_none() && due.is_none() && details.is_none() && tags.is_none() && !reopen {
            return Err(
                "nothing to change: give `title`, `due`, `details`, `tags` or `reopen`".into()
            );
        }
        let title = title.map(|title| one_line(&title)).transpose()?;
        let due = match due.as_deref() {
            None => None,
            Some("none" | "") => Some(None),
            Some(due) => Some(Some(day(due, today)?.to_string())),
        };
        let task = self.get(id)?;
        task.title = title.unwrap_or_else(|| task.title.clone());
        task.due = due.unwrap_or_else(|| task.due.clone());
        task.details = details.unwrap_or_else(|| task.details.clone());
        task.tags = tags.map_or_else(|| task.tags.clone(), tidy);
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

    /// Lists the selected tasks, sorted by due date. Those without a date come last.
    ///
    /// # Errors
    /// Returns an error if the date is not valid.
    pub fn list(
        &self,
        filter: Filter,
        due_before: Option<&str>,
        tag: Option<&str>,
        today: Date,
    ) -> Result<Vec<TaskView>, String> {
        let before = due_before.map(|due| day(due, today)).transpose()?.map(|due| due.to_string());
        let tag = tag.map(str::to_lowercase);
        let wanted = |one: &TaskView| {
            let status = match filter {
                Filter::Open => one.task.completed.is_none(),
                Filter::Done => one.task.completed.is_some(),
                Filter::Overdue => one.overdue,
                Filter::All => true,
            };
            let due = before
                .as_ref()
                .is_none_or(|before| one.task.due.as_ref().is_some_and(|due| due <= before));
            status && due && tag.as_ref().is_none_or(|tag| one.task.tags.contains(tag))
        };
        let mut found: Vec<TaskView> =
            self.tasks.iter().map(|task| view(task, today)).filter(wanted).collect();
        found.sort_by_key(|one| (one.task.due.is_none(), one.task.due.clone(), one.task.id));
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
        found.sort_by_key(|one| {
            (
                one.task.completed.is_some(),
                one.task.due.is_none(),
                one.task.due.clone(),
                one.task.id,
            )
        });
        found
    }

    fn get(&mut self, id: u64) -> Result<&mut Task, String> {
        self.tasks.iter_mut().find(|task| task.id == id).ok_or_else(|| missing(id))
    }
}

/// Parses a day: `2026-03-31`, `today`, `tomorrow`, `+3d` or `+2w`.
fn day(text: &str, today: Date) -> Result<Date, String> {
    let text = text.trim();
    let wrong =
        || format!("`{text}` is not a valid day: use 2026-03-31, today, tomorrow, +3d or +2w");
    let ahead = |days: i64| {
        (0..=36_525)
            .contains(&days)
            .then(|| today.checked_add(days.days()).ok())
            .flatten()
            .ok_or_else(wrong)
    };
    match text.to_lowercase().as_str() {
        "today" => Ok(today),
        "tomorrow" => ahead(1),
        lower => match lower.strip_prefix('+') {
            Some(rest) => {
                let (number, unit) =
                    rest.split_at(rest.len() - rest.chars().next_back().map_or(0, char::len_utf8));
                let number: i64 = number.parse().map_err(|_| wrong())?;
                match unit {
                    "d" => ahead(number),
                    "w" => ahead(number.saturating_mul(7)),
                    _ => Err(wrong()),
                }
            }
            None => Some(text)
                .filter(|text| text.len() == 10)
                .and_then(|text| text.parse().ok())
                .ok_or_else(wrong),
        },
    }
}

fn view(task: &Task, today: Date) -> TaskView {
    // Both are formatted so that they sort chronologically as text.
    let overdue =
        task.completed.is_none() && task.due.as_ref().is_some_and(|due| *due < today.to_string());
    TaskView { task: task.clone(), overdue }
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

    fn tasks() -> Tasks {
        let mut tasks = Tasks::default();
        tasks.create("no date".into(), None, None, vec![], TODAY).unwrap();
        tasks.create("late".into(), Some("2026-02-26"), None, vec!["Work".into()], TODAY).unwrap();
        tasks
            .create("  soon\n enough ".into(), Some("+2d"), Some("call Anna".into()), vec![], TODAY)
            .unwrap();
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
        let list =
            |tasks: &Tasks, filter, before| ids(&tasks.list(filter, before, None, TODAY).unwrap());
        assert_eq!(list(&tasks, Filter::Open, None), [2, 3, 1]);
        assert_eq!(list(&tasks, Filter::Overdue, None), [2]);
        assert_eq!(list(&tasks, Filter::Open, Some("today")), [2]);
        assert_eq!(ids(&tasks.list(Filter::All, None, Some("WORK"), TODAY).unwrap()), [2]);
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
        assert_eq!(
            tasks.create("next".into(), None, None, vec![], TODAY).unwrap().task.id,
            4,
            "no number twice"
        );
        assert!(
            tasks.update(1, Change::default(), TODAY).unwrap_err().contains("nothing to change")
        );
        let wrong = Change { due: Some("never".into()), ..Change::default() };
        assert!(tasks.update(1, wrong, TODAY).is_err());
    }
}
