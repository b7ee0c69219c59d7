//! Writes tasks as iCalendar (RFC 5545), which calendar programs import.

use jiff::Timestamp;
use jiff::civil::Date;

use crate::tasks::{Priority, Reminder, Task};

/// The maximum bytes of a line, without its end (section 3.1).
const LINE_MAX: usize = 75;

/// Writes the tasks as a calendar of to-dos. `name` makes their identifiers unique. Without tasks,
/// the text is empty, because a calendar has at least one component (section 3.6).
pub fn write(tasks: &[&Task], name: &str, now: Timestamp) -> String {
    let mut out = String::new();
    if tasks.is_empty() {
        return out;
    }
    line(&mut out, "BEGIN:VCALENDAR");
    line(&mut out, "VERSION:2.0");
    line(&mut out, "PRODID:-//skillhost//tasks//EN");
    for task in tasks {
        to_do(&mut out, task, name, now);
    }
    line(&mut out, "END:VCALENDAR");
    out
}

/// A to-do (section 3.6.2).
fn to_do(out: &mut String, task: &Task, name: &str, now: Timestamp) {
    line(out, "BEGIN:VTODO");
    // Importing the calendar again replaces a to-do by its identifier (section 3.8.4.7).
    line(out, &format!("UID:task-{}-{name}", task.id));
    line(out, &format!("DTSTAMP:{}", now.strftime("%Y%m%dT%H%M%SZ")));
    line(out, &format!("SUMMARY:{}", escape(&task.title)));
    if !task.details.is_empty() {
        line(out, &format!("DESCRIPTION:{}", escape(&task.details)));
    }
    if !task.tags.is_empty() {
        let tags: Vec<String> = task.tags.iter().map(|tag| escape(tag)).collect();
        line(out, &format!("CATEGORIES:{}", tags.join(",")));
    }
    let due: Option<Date> = task.due.as_ref().and_then(|due| due.parse().ok());
    if let Some(due) = due {
        line(out, &format!("DUE;VALUE=DATE:{}", due.strftime("%Y%m%d")));
    }
    // Section 3.8.1.9: 1 is the highest, 5 the middle, 9 the lowest.
    let priority = match task.priority {
        Priority::High => 1,
        Priority::Normal => 5,
        Priority::Low => 9,
    };
    line(out, &format!("PRIORITY:{priority}"));
    match task.completed.as_ref().and_then(|day| day.parse::<Date>().ok()) {
        Some(day) => {
            line(out, "STATUS:COMPLETED");
            line(out, &format!("COMPLETED:{}", midnight(day)));
        }
        None => {
            line(out, "STATUS:NEEDS-ACTION");
            alarm(out, task, due);
        }
    }
    line(out, "END:VTODO");
}

/// The alarm of the reminder (section 3.6.6).
fn alarm(out: &mut String, task: &Task, due: Option<Date>) {
    let Some(trigger) = trigger(task, due) else { return };
    line(out, "BEGIN:VALARM");
    line(out, "ACTION:DISPLAY");
    line(out, &format!("DESCRIPTION:{}", escape(&task.title)));
    line(out, &trigger);
    line(out, "END:VALARM");
}

/// The trigger (section 3.8.6.3): relative to the due date if there is one, so that it follows when
/// the user moves the to-do; else a time in UTC.
fn trigger(task: &Task, due: Option<Date>) -> Option<String> {
    let days = match (task.reminder.as_ref()?, due) {
        (Reminder::DaysBefore(days), Some(_)) => -days,
        (Reminder::DaysBefore(_), None) => return None,
        (Reminder::On(day), Some(due)) => {
            let span = day.parse::<Date>().ok()?.since(due).ok()?;
            span.get_days()
        }
        (Reminder::On(day), None) => {
            return Some(format!("TRIGGER;VALUE=DATE-TIME:{}", midnight(day.parse().ok()?)));
        }
    };
    let duration = match days {
        0 => "PT0S".to_owned(),
        days if days < 0 => format!("-P{}D", days.unsigned_abs()),
        days => format!("P{days}D"),
    };
    Some(format!("TRIGGER;RELATED=END:{duration}"))
}

fn midnight(day: Date) -> String {
    format!("{}T000000Z", day.strftime("%Y%m%d"))
}

/// Escapes a text (section 3.3.11), and leaves out control characters, which texts cannot contain.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\\' | ';' | ',' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push('\t'),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Appends a line, folded between characters (section 3.1): a continuation begins with a space.
fn line(out: &mut String, text: &str) {
    let mut rest = text;
    let mut room = LINE_MAX;
    while rest.len() > room {
        let (head, tail) = rest.split_at(rest.floor_char_boundary(room));
        out.push_str(head);
        out.push_str("\r\n ");
        rest = tail;
        room = LINE_MAX - 1;
    }
    out.push_str(rest);
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::{NewTask, Selection, Tasks};
    use proptest::prelude::*;

    const TODAY: Date = jiff::civil::date(2026, 2, 27);

    fn export(new: NewTask) -> String {
        let mut tasks = Tasks::default();
        tasks.create(new, TODAY).unwrap();
        let listed = tasks.list(&Selection::default(), TODAY).unwrap();
        let now = "2026-02-27T10:11:12Z".parse().unwrap();
        write(&[&listed[0].task], "c0ffee", now)
    }

    #[test]
    fn task_becomes_a_to_do_with_an_alarm() {
        let task = NewTask {
            title: "Send the report; to A, B".into(),
            due: Some("2026-03-31".into()),
            details: Some("one\r\ntwo \\ three".into()),
            tags: vec!["work".into(), "a,b".into()],
            priority: Priority::High,
            reminder: Some("3d before".into()),
        };
        let expected = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//skillhost//tasks//EN\r\n\
            BEGIN:VTODO\r\nUID:task-1-c0ffee\r\nDTSTAMP:20260227T101112Z\r\n\
            SUMMARY:Send the report\\; to A\\, B\r\nDESCRIPTION:one\\ntwo \\\\ three\r\n\
            CATEGORIES:a\\,b,work\r\nDUE;VALUE=DATE:20260331\r\nPRIORITY:1\r\n\
            STATUS:NEEDS-ACTION\r\nBEGIN:VALARM\r\nACTION:DISPLAY\r\n\
            DESCRIPTION:Send the report\\; to A\\, B\r\nTRIGGER;RELATED=END:-P3D\r\n\
            END:VALARM\r\nEND:VTODO\r\nEND:VCALENDAR\r\n";
        assert_eq!(export(task), expected);
    }

    #[test]
    fn no_task_is_no_calendar() {
        assert_eq!(write(&[], "n", Timestamp::UNIX_EPOCH), "");
    }

    #[test]
    fn trigger_is_relative_to_the_due_date_if_there_is_one() {
        let of = |due: Option<&str>, reminder: &str| {
            let due = due.map(str::to_owned);
            let text = export(NewTask {
                title: "x".into(),
                due,
                reminder: Some(reminder.into()),
                ..NewTask::default()
            });
            text.lines().find(|line| line.starts_with("TRIGGER")).unwrap().to_owned()
        };
        assert_eq!(of(Some("2026-03-31"), "2026-02-28"), "TRIGGER;RELATED=END:-P31D");
        assert_eq!(of(Some("2026-03-31"), "2026-03-31"), "TRIGGER;RELATED=END:PT0S");
        assert_eq!(of(Some("2026-03-31"), "2026-04-02"), "TRIGGER;RELATED=END:P2D");
        assert_eq!(of(None, "tomorrow"), "TRIGGER;VALUE=DATE-TIME:20260228T000000Z");
    }

    #[test]
    fn completed_task_has_no_alarm() {
        let mut tasks = Tasks::default();
        let new =
            NewTask { title: "x".into(), reminder: Some("today".into()), ..NewTask::default() };
        tasks.create(new, TODAY).unwrap();
        let done = tasks.complete(1, TODAY).unwrap();
        let text = write(&[&done.task], "n", Timestamp::UNIX_EPOCH);
        assert!(text.contains("STATUS:COMPLETED\r\nCOMPLETED:20260227T000000Z\r\nEND:VTODO"));
        assert!(!text.contains("VALARM"));
    }

    proptest! {
        #[test]
        fn lines_are_folded_and_unfold_to_the_text(details in "[ -~\\n\\r\\tü€😀]{0,300}") {
            prop_assume!(!details.is_empty());
            let text = export(NewTask {
                title: "x".into(),
                details: Some(details.clone()),
                ..NewTask::default()
            });
            prop_assert!(text.split("\r\n").all(|line| line.len() <= LINE_MAX));
            prop_assert!(!text.replace("\r\n", "").contains(['\r', '\n']));
            let unfolded = text.replace("\r\n ", "");
            let shown = unfolded.split("\r\n").find_map(|line| line.strip_prefix("DESCRIPTION:"));
            prop_assert_eq!(shown.unwrap(), escape(&details));
        }
    }
}
