//! Reads exported conversations, each message with its title, date and role:
//!
//! - ChatGPT's `conversations.json`: a list of conversations, whose `mapping` is a tree of messages;
//! - Claude's `conversations.json`: a list of conversations with `chat_messages`;
//! - JSON Lines, or a JSON list, of objects with `role` and `content`, or with `messages` of these.
//!
//! An export may come from anywhere. It is read in bounded memory, the tree is not trusted to be
//! one, and a value of an unexpected type is left out.

use std::collections::HashSet;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The maximum number of characters of a title.
const MAX_TITLE: usize = 80;
/// The maximum number of characters of a role.
const MAX_ROLE: usize = 20;

/// A message of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// The title of the conversation, if it has one.
    pub title: Option<String>,
    /// The day of the message, or of the conversation.
    pub date: Option<String>,
    /// Who wrote it: `user`, `assistant` or another role.
    pub role: String,
    /// The text.
    pub text: String,
}

impl Message {
    /// Names the message within its file: title, date and role.
    pub fn source(&self) -> String {
        let title = self.title.as_ref().map(|title| format!("\"{title}\""));
        let parts = [title, self.date.clone(), Some(self.role.clone())];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// The messages of a file.
#[derive(Debug, Default)]
pub struct Export {
    /// The messages, in the order of the file.
    pub messages: Vec<Message>,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// The maximum number of messages.
    limit: usize,
    /// The number of conversations and single messages.
    found: usize,
    /// The number of values that are neither.
    others: usize,
}

/// Reads at most `limit` messages of a JSON or JSON Lines file. `None` if it holds no conversation.
pub fn read(text: &str, is_lines: bool, limit: usize) -> Option<Export> {
    let mut export = Export { limit, ..Export::default() };
    let mut result = Ok(());
    if is_lines {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(value) => export.add(&value),
                Err(error) => {
                    result = Err(format!("line {} is not valid JSON: {error}", index + 1));
                    // Lines after the first that is no conversation would cost time for nothing.
                    if export.found == 0 {
                        break;
                    }
                }
            }
        }
    } else if text.trim_start().starts_with('[') {
        result = for_each_element(text, &mut |value| export.add(&value))
            .map_err(|error| format!("the rest is not valid JSON: {error}"));
    } else {
        export.add(&serde_json::from_str(text).ok()?);
    }
    if export.found == 0 {
        return None;
    }
    if let Err(note) = result {
        export.notes.push(note);
    }
    if export.others > 0 {
        export.notes.push(format!("values that are not conversations: {}", export.others));
    }
    if export.messages.len() == limit {
        export.notes.push("there are too many messages, so the rest was left out".into());
    }
    Some(export)
}

/// Calls a function with each element of a list. A large export needs the memory of its text and of
/// one conversation. The parser limits the depth of values.
fn for_each_element(text: &str, each: &mut dyn FnMut(Value)) -> serde_json::Result<()> {
    struct Elements<'a>(&'a mut dyn FnMut(Value));

    impl<'de> Visitor<'de> for Elements<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
            while let Some(value) = list.next_element()? {
                (self.0)(value);
            }
            Ok(())
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_seq(Elements(each))?;
    deserializer.end()
}

impl Export {
    fn add(&mut self, value: &Value) {
        let Some(object) = value.as_object() else {
            self.others += 1;
            return;
        };
        let about = About::of(object);
        if let Some(nodes) = object.get("mapping").and_then(Value::as_object) {
            self.add_tree(nodes, object.get("current_node").and_then(Value::as_str), &about);
        } else if let Some(messages) =
            ["chat_messages", "messages"].iter().find_map(|key| object.get(*key)?.as_array())
        {
            self.found += 1;
            for message in messages.iter().filter_map(Value::as_object) {
                self.push(message, &about);
            }
        } else if is_message(object) {
            self.found += 1;
            self.push(object, &about);
        } else if let Some(message) = object.get("message").and_then(Value::as_object)
            && is_message(message)
        {
            self.found += 1;
            self.push(message, &about);
        } else {
            self.others += 1;
        }
    }

    /// Reads the branch of a tree that the user saw last: from its last message up to the root. If
    /// the file does not name that message, all messages are read.
    fn add_tree(&mut self, nodes: &Map<String, Value>, last: Option<&str>, about: &About) {
        self.found += 1;
        let Some(last) = last.filter(|last| nodes.contains_key(*last)) else {
            for message in nodes.values().filter_map(message_of) {
                self.push(message, about);
            }
            return;
        };
        let mut branch = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(last);
        while let Some((id, node)) = next.and_then(|id| nodes.get_key_value(id)) {
            if !seen.insert(id.as_str()) {
                let title = about.title.as_deref().unwrap_or("untitled");
                self.notes.push(format!("the messages of \"{title}\" form a loop"));
                break;
            }
            branch.push(node);
            next = node.get("parent").and_then(Value::as_str);
        }
        for message in branch.into_iter().rev().filter_map(message_of) {
            self.push(message, about);
        }
    }

    fn push(&mut self, message: &Map<String, Value>, about: &About) {
        let text = text_of(message).trim().to_owned();
        let author = message.get("author").and_then(|author| author.get("role"));
        let role = author.or_else(|| message.get("role")).or_else(|| message.get("sender"));
        let role = match role.and_then(Value::as_str).unwrap_or("unknown") {
            "human" => "user".to_owned(),
            role => one_line(role, MAX_ROLE),
        };
        // Instructions of the application are not part of the conversation.
        if text.is_empty() || role == "system" || self.messages.len() >= self.limit {
            return;
        }
        let own = About::of(message);
        let date = own.date.or_else(|| about.date.clone());
        self.messages.push(Message { title: about.title.clone(), date, role, text });
    }
}

/// What a conversation or a message says about itself.
struct About {
    title: Option<String>,
    date: Option<String>,
}

impl About {
    fn of(object: &Map<String, Value>) -> About {
        let title = ["title", "name"].iter().find_map(|key| object.get(*key)?.as_str());
        let date = ["create_time", "created_at", "timestamp", "date"]
            .iter()
            .find_map(|key| day(object.get(*key)?));
        let title = title.map(|title| one_line(title, MAX_TITLE)).filter(|title| !title.is_empty());
        About { title, date }
    }
}

fn is_message(object: &Map<String, Value>) -> bool {
    object.get("role").is_some_and(Value::is_string) && object.contains_key("content")
}

/// Returns the message of a node of ChatGPT's tree. The root has none.
fn message_of(node: &Value) -> Option<&Map<String, Value>> {
    node.get("message")?.as_object()
}

/// Returns the text of a message. The content is a text, a list of texts and other parts, or an
/// object with one of these.
fn text_of(message: &Map<String, Value>) -> String {
    let joined = |parts: &Vec<Value>| {
        let text = |part: &Value| match part {
            Value::String(text) => Some(text.clone()),
            part => part.get("text")?.as_str().map(str::to_owned),
        };
        let texts: Vec<String> = parts.iter().filter_map(text).collect();
        texts.join("\n")
    };
    let content = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => joined(parts),
        Some(Value::Object(content)) => match (content.get("parts"), content.get("text")) {
            (Some(Value::Array(parts)), _) => joined(parts),
            (_, Some(Value::String(text))) => text.clone(),
            _ => String::new(),
        },
        _ => String::new(),
    };
    if !content.trim().is_empty() {
        return content;
    }
    message.get("text").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the day of a time: seconds since 1970, or a text that begins with a date.
fn day(value: &Value) -> Option<String> {
    let date: jiff::civil::Date = match value {
        Value::String(text) => text.get(..10)?.parse().ok()?,
        // Files may have any number; those that are no time have no day.
        #[allow(clippy::cast_possible_truncation, reason = "a cast saturates")]
        Value::Number(number) => jiff::Timestamp::from_second(number.as_f64()? as i64)
            .ok()?
            .to_zoned(jiff::tz::TimeZone::UTC)
            .date(),
        _ => return None,
    };
    Some(date.to_string())
}

/// Puts a text on one line, without control characters, and cuts it.
fn one_line(text: &str, limit: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).take(limit).collect();
    words.join(" ").chars().take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn of(value: &Value) -> Export {
        read(&value.to_string(), false, 100).unwrap()
    }

    fn sources(export: &Export) -> Vec<(String, &str)> {
        export.messages.iter().map(|one| (one.source(), one.text.as_str())).collect()
    }

    fn node(role: &str, text: &str, parent: Option<&str>) -> Value {
        json!({ "message": { "author": { "role": role }, "create_time": 1_714_557_600.5,
                "content": { "content_type": "text", "parts": [text] } },
                "parent": parent, "children": [] })
    }

    #[test]
    fn tree_of_messages_is_read_along_its_last_branch() {
        let export = of(&json!([{
            "title": "Trip\n plan", "create_time": 1_714_500_000.0, "current_node": "d",
            "mapping": {
                "root": { "message": null, "parent": null },
                "a": node("system", "You are helpful.", Some("root")),
                "b": node("user", "Which train?", Some("a")),
                "c": node("assistant", "An abandoned answer.", Some("b")),
                "d": node("assistant", "The one at noon.", Some("b")),
            }
        }]));
        assert_eq!(
            sources(&export),
            [
                ("\"Trip plan\", 2024-05-01, user".to_owned(), "Which train?"),
                ("\"Trip plan\", 2024-05-01, assistant".to_owned(), "The one at noon.")
            ]
        );
        assert!(export.notes.is_empty());
    }

    #[test]
    fn loops_end_with_a_note() {
        let loops = json!([{ "title": "L", "current_node": "a", "mapping": {
            "a": node("user", "one", Some("b")), "b": node("user", "two", Some("a")) } }]);
        let export = of(&loops);
        assert_eq!(export.messages.len(), 2);
        assert_eq!(export.notes, ["the messages of \"L\" form a loop"]);
        let own_parent =
            json!([{ "current_node": "a", "mapping": { "a": node("user", "one", Some("a")) } }]);
        assert_eq!(of(&own_parent).messages.len(), 1);
        let unknown =
            json!([{ "current_node": "z", "mapping": { "a": node("user", "one", Some("z")) } }]);
        assert_eq!(of(&unknown).messages.len(), 1);
    }

    #[test]
    fn list_of_chat_messages_is_read() {
        let export = of(
            &json!([{ "uuid": "u", "name": "Tea", "created_at": "2025-02-03T04:05:06Z",
            "chat_messages": [
                { "sender": "human", "text": "How long?", "created_at": "2025-02-04T00:00:00Z",
                  "content": [] },
                { "sender": "assistant", "text": "", "content": [
                    { "type": "text", "text": "Two minutes." }, { "type": "tool_use", "input": {} }] }
            ] }]),
        );
        assert_eq!(
            sources(&export),
            [
                ("\"Tea\", 2025-02-04, user".to_owned(), "How long?"),
                ("\"Tea\", 2025-02-03, assistant".to_owned(), "Two minutes.")
            ]
        );
    }

    #[test]
    fn lines_of_roles_and_contents_are_read() {
        let lines = "{\"role\":\"user\",\"content\":\"hello\"}\n\n\
            {\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]},\"timestamp\":\"2026-01-02T00:00:00Z\"}\n\
            {\"messages\":[{\"role\":\"user\",\"content\":\"again\"}],\"title\":\"T\"}\n\
            broken\n{\"type\":\"summary\"}\n";
        let export = read(lines, true, 100).unwrap();
        assert_eq!(
            sources(&export),
            [
                ("user".to_owned(), "hello"),
                ("2026-01-02, assistant".to_owned(), "hi"),
                ("\"T\", user".to_owned(), "again")
            ]
        );
        assert_eq!(export.notes.len(), 2, "{:?}", export.notes);
        assert!(export.notes[0].starts_with("line 5 is not valid JSON"), "{:?}", export.notes);
        assert_eq!(export.notes[1], "values that are not conversations: 1");
    }

    #[test]
    fn other_json_is_no_export() {
        for text in ["[]", "{}", "[1, {\"a\": 1}]", "{\"role\": \"user\"}", "3", "[", "{"] {
            assert!(read(text, false, 9).is_none(), "{text}");
            assert!(read(text, true, 9).is_none(), "{text}");
        }
    }

    #[test]
    fn hostile_values_are_left_out() {
        let export = of(&json!([
            { "mapping": { "a": 1, "b": { "message": [] }, "c": { "message": { "author": 7, "content": { "parts": "x" } } } } },
            { "title": ["t"], "create_time": 1e300, "chat_messages": [3, null, { "sender": {}, "text": "kept" }] },
            null,
            { "role": "user\u{1b}[31m", "content": "x", "date": "today" }
        ]));
        assert_eq!(
            sources(&export),
            [("unknown".to_owned(), "kept"), ("user [31m".to_owned(), "x")]
        );
        assert_eq!(export.notes, ["values that are not conversations: 1"]);
        // What comes before a value that nests too deeply is kept.
        let deep = format!("[{{\"role\":\"user\",\"content\":\"kept\"}},{}", "[".repeat(10_000));
        let export = read(&deep, false, 9).unwrap();
        assert_eq!(export.messages.len(), 1);
        assert!(export.notes[0].contains("recursion limit"), "{:?}", export.notes);
        let many = vec![json!({ "role": "user", "content": "x" }); 20];
        let export = read(&json!(many).to_string(), false, 5).unwrap();
        assert_eq!((export.messages.len(), export.notes.len()), (5, 1));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "\\PC{0,80}", is_lines in any::<bool>()) {
            read(&text, is_lines, 3);
        }

        #[test]
        fn any_tree_ends(parents in prop::collection::vec(0_usize..6, 6), last in 0_usize..6) {
            let nodes: Map<String, Value> = parents
                .iter()
                .enumerate()
                .map(|(at, parent)| (at.to_string(), node("user", "x", Some(&parent.to_string()))))
                .collect();
            let export = of(&json!([{ "current_node": last.to_string(), "mapping": nodes }]));
            prop_assert!((1..=6).contains(&export.messages.len()));
        }
    }
}
