//! Describes problems of an instance, in texts of bounded length.

use serde_json::{Map, Value};

use super::super::quote;

/// The longest location of a problem, in characters.
const LOCATION_MAX: usize = 200;

/// The location of a value in an instance.
pub(super) enum Location<'a> {
    Root,
    Member(&'a Location<'a>, &'a str),
    Item(&'a Location<'a>, usize),
}

impl Location<'_> {
    /// Formats the location as a JSON pointer; a long one is cut at the front.
    pub(super) fn pointer(&self) -> String {
        let mut parts = Vec::new();
        let mut length = 0;
        let mut location = self;
        loop {
            let part = match location {
                Location::Root => break,
                Location::Member(above, name) => {
                    location = above;
                    let name: String =
                        name.chars().take(LOCATION_MAX).flat_map(char::escape_debug).collect();
                    name.replace('~', "~0").replace('/', "~1")
                }
                Location::Item(above, at) => {
                    location = above;
                    at.to_string()
                }
            };
            length += part.len() + 1;
            if length > LOCATION_MAX {
                parts.push("...".to_owned());
                break;
            }
            parts.push(part);
        }
        parts.iter().rev().map(|part| format!("/{part}")).collect()
    }
}

/// Describes a field that is not allowed, and suggests a similar one.
pub(super) fn unknown_field(name: &str, siblings: &Map<String, Value>) -> String {
    /// The most names that are compared, and the longest name in bytes.
    const COMPARED: usize = 100;
    let known = siblings.get("properties").and_then(Value::as_object);
    let known = known
        .into_iter()
        .flat_map(Map::keys)
        .take(COMPARED)
        .filter(|known| known.len() <= COMPARED && name.len() <= COMPARED);
    let nearest = known
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest.filter(|(likeness, _)| *likeness > 0.8) {
        Some((_, known)) => {
            format!("unknown field {} (did you mean {}?)", quote(name), quote(known))
        }
        None => format!("unknown field {}", quote(name)),
    }
}

/// Describes a value: short ones in full, others by kind.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text {}", quote(text)),
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(members) => format!("an object of {} fields", members.len()),
        other => format!("`{other}`"),
    }
}

/// Lists the first of some values.
pub(super) fn list_values(values: &Value) -> String {
    const LISTED: usize = 10;
    let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
    let more = if values.len() > LISTED { ", ..." } else { "" };
    values.iter().take(LISTED).map(describe).collect::<Vec<_>>().join(", ") + more
}
