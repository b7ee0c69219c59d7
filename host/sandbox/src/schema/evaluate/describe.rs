//! What is wrong with an instance, in words of bounded length.

use serde_json::{Map, Value};

use super::super::quote;

/// Characters of a problem's place.
const PLACE_MAX: usize = 200;

/// Where in an instance a value is.
pub(super) enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// As a JSON pointer; of a long one the end.
    pub(super) fn pointer(&self) -> String {
        let mut parts = Vec::new();
        let mut length = 0;
        let mut place = self;
        loop {
            let part = match place {
                Place::Root => break,
                Place::Member(above, name) => {
                    place = above;
                    let name: String =
                        name.chars().take(PLACE_MAX).flat_map(char::escape_debug).collect();
                    name.replace('~', "~0").replace('/', "~1")
                }
                Place::Item(above, at) => {
                    place = above;
                    at.to_string()
                }
            };
            length += part.len() + 1;
            if length > PLACE_MAX {
                parts.push("...".to_owned());
                break;
            }
            parts.push(part);
        }
        parts.iter().rev().map(|part| format!("/{part}")).collect()
    }
}

/// That a field is not allowed, and which one was probably meant.
pub(super) fn unknown(name: &str, siblings: &Map<String, Value>) -> String {
    /// Names that are compared, and bytes of the name that is.
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

/// A value, as it is told: whole where it is short, else its kind.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text {}", quote(text)),
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(members) => format!("an object of {} fields", members.len()),
        other => format!("`{other}`"),
    }
}

/// The first of some values.
pub(super) fn listed(values: &Value) -> String {
    const LISTED: usize = 10;
    let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
    let more = if values.len() > LISTED { ", ..." } else { "" };
    values.iter().take(LISTED).map(show).collect::<Vec<_>>().join(", ") + more
}
