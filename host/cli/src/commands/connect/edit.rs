//! Adds an entry to a configuration file, or removes it, and leaves everything else as it was
//! written: comments, order and white space.
//!
//! The result is read again and compared with what it should be. A file that cannot be edited that
//! way is not changed.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, Item, Table};

use super::clients::Syntax;

/// Why a file is not changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EditError {
    /// It is broken.
    Broken(String),
    /// It is valid, but written in a way that cannot be edited without changing the rest.
    Unsupported,
}

/// Where the entry belongs, and what it is. `None` removes it.
pub(super) struct Edit<'a> {
    pub(super) table: &'a str,
    pub(super) name: &'a str,
    pub(super) entry: Option<&'a Value>,
}

/// Returns the edited text.
///
/// # Errors
/// The text is broken, or cannot be edited.
pub(super) fn apply(text: &str, syntax: Syntax, edit: &Edit<'_>) -> Result<String, EditError> {
    let before = parse(text, syntax)?;
    if before.is_null() && edit.entry.is_none() {
        return Ok(text.to_owned());
    }
    let wanted = wanted(before.clone(), edit).ok_or(EditError::Unsupported)?;
    if before == wanted {
        return Ok(text.to_owned());
    }
    let edited = match syntax {
        Syntax::Json => json(text, edit)?,
        Syntax::Toml => toml(text, edit)?,
        Syntax::Yaml => yaml(text, edit).ok_or(EditError::Unsupported)?,
    };
    match parse(&edited, syntax).map_err(|_| EditError::Unsupported)? {
        after if after == wanted => Ok(edited),
        // The entry was all that the file had.
        Value::Null if wanted == Value::Object(Map::new()) => Ok(edited),
        _ => Err(EditError::Unsupported),
    }
}

/// Returns the entry of a table in a configuration file, if the table has it.
///
/// # Errors
/// The text is broken.
pub(super) fn find(
    text: &str,
    syntax: Syntax,
    table: &str,
    name: &str,
) -> Result<Option<Value>, EditError> {
    Ok(parse(text, syntax)?.get_mut(table).and_then(|table| table.get_mut(name)).map(Value::take))
}

/// Returns what the file should contain; `None` if something else is in the way.
fn wanted(mut all: Value, edit: &Edit<'_>) -> Option<Value> {
    if all.is_null() {
        all = Value::Object(Map::new());
    }
    let root = all.as_object_mut()?;
    match edit.entry {
        Some(entry) => {
            let table = root.entry(edit.table).or_insert_with(|| Value::Object(Map::new()));
            if table.is_null() {
                *table = Value::Object(Map::new());
            }
            table.as_object_mut()?.insert(edit.name.to_owned(), entry.clone());
        }
        None => {
            let Some(table) = root.get_mut(edit.table).and_then(Value::as_object_mut) else {
                return Some(all);
            };
            if table.shift_remove(edit.name).is_some() && table.is_empty() {
                root.shift_remove(edit.table);
            }
        }
    }
    Some(all)
}

fn parse(text: &str, syntax: Syntax) -> Result<Value, EditError> {
    let broken = |error: String| EditError::Broken(error);
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    match syntax {
        Syntax::Json => {
            let root = CstRootNode::parse(text, &ParseOptions::default())
                .map_err(|error| broken(error.to_string()))?;
            // A file of comments only has no value.
            Ok(root.to_serde_value().unwrap_or_default())
        }
        Syntax::Toml => {
            let document: DocumentMut =
                text.parse().map_err(|error: toml_edit::TomlError| broken(error.to_string()))?;
            Ok(of_table(document.as_table()))
        }
        Syntax::Yaml => serde_saphyr::from_str(text).map_err(|error| broken(error.to_string())),
    }
}

fn json(text: &str, edit: &Edit<'_>) -> Result<String, EditError> {
    let root = CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|error| EditError::Broken(error.to_string()))?;
    let object = root.object_value_or_create().ok_or(EditError::Unsupported)?;
    match edit.entry {
        Some(entry) => {
            object.ensure_multiline();
            let table = object.object_value_or_create(edit.table).ok_or(EditError::Unsupported)?;
            table.ensure_multiline();
            match table.get(edit.name) {
                Some(old) => old.set_value(of_json(entry)),
                None => drop(table.append(edit.name, of_json(entry))),
            }
        }
        None => {
            let Some(table) = object.object_value(edit.table) else { return Ok(text.to_owned()) };
            if let Some(old) = table.get(edit.name) {
                old.remove();
            }
            if table.properties().is_empty()
                && let Some(empty) = object.get(edit.table)
            {
                empty.remove();
            }
        }
    }
    let mut edited = root.to_string();
    if !edited.ends_with('\n') {
        edited.push('\n');
    }
    Ok(edited)
}

fn of_json(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(of_json).collect()),
        Value::Object(entries) => CstInputValue::Object(
            entries.iter().map(|(key, value)| (key.clone(), of_json(value))).collect(),
        ),
    }
}

fn toml(text: &str, edit: &Edit<'_>) -> Result<String, EditError> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| EditError::Broken(error.to_string()))?;
    match edit.entry {
        Some(entry) => {
            let table = document.entry(edit.table).or_insert_with(|| {
                // Only `[mcp_servers.skillhost]` is written.
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
            let table = table.as_table_like_mut().ok_or(EditError::Unsupported)?;
            let mut server = Table::new();
            for (key, value) in entry.as_object().into_iter().flatten() {
                server.insert(key, Item::Value(of_toml(value).ok_or(EditError::Unsupported)?));
            }
            table.insert(edit.name, Item::Table(server));
        }
        None => {
            let Some(table) = document.get_mut(edit.table).and_then(Item::as_table_like_mut) else {
                return Ok(text.to_owned());
            };
            table.remove(edit.name);
            if table.is_empty() {
                document.remove(edit.table);
            }
        }
    }
    Ok(document.to_string())
}

fn of_toml(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => number.as_i64()?.into(),
        Value::String(text) => text.into(),
        Value::Array(items) => items.iter().map(of_toml).collect::<Option<Array>>()?.into(),
        Value::Null | Value::Object(_) => return None,
    })
}

fn of_table(table: &dyn toml_edit::TableLike) -> Value {
    let entries = table.iter().map(|(key, item)| (key.to_owned(), of_item(item)));
    Value::Object(entries.collect())
}

fn of_item(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return of_table(table);
    }
    if let Some(tables) = item.as_array_of_tables() {
        return Value::Array(tables.iter().map(|table| of_table(table)).collect());
    }
    item.as_value().map_or(Value::Null, of_value)
}

fn of_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::String(text.value().clone()),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(flag) => Value::Bool(*flag.value()),
        toml_edit::Value::Array(items) => Value::Array(items.iter().map(of_value).collect()),
        toml_edit::Value::InlineTable(table) => of_table(table),
        // Compared only with itself.
        other => Value::String(other.to_string().trim().to_owned()),
    }
}

/// Edits a block mapping line by line; `None` if the mapping is written in another way. The caller
/// checks the result.
fn yaml(text: &str, edit: &Edit<'_>) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let head = format!("{}:", edit.table);
    let at = lines.iter().position(|line| {
        line.strip_prefix(&head).is_some_and(|rest| {
            let rest = rest.trim();
            rest.is_empty() || rest.starts_with('#') || rest == "{}" || rest == "null"
        })
    });
    let indent = at.map_or(2, |at| {
        let inner = lines[at + 1..].iter().find(|line| !is_blank(line));
        inner.map(|line| depth(line)).filter(|depth| *depth > 0).unwrap_or(2)
    });
    if let Some(at) = at {
        remove_block(&mut lines, at + 1, indent, edit.name);
    }
    match (edit.entry, at) {
        (Some(entry), at) => {
            let at = at.unwrap_or_else(|| {
                lines.push(head.clone());
                lines.len() - 1
            });
            lines[at] = lines[at].replace(" {}", "").replace(" null", "");
            let block = yaml_block(edit.name, entry, indent)?;
            lines.splice(at + 1..at + 1, block);
        }
        (None, Some(at)) if lines.get(at + 1).is_none_or(|line| depth(line) == 0) => {
            lines.remove(at);
        }
        (None, _) => {}
    }
    Some(lines.iter().map(|line| format!("{line}\n")).collect())
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Removes an entry of the mapping that starts at line `from`, with the lines below it.
fn remove_block(lines: &mut Vec<String>, from: usize, indent: usize, name: &str) {
    let head = format!("{}{name}:", " ".repeat(indent));
    let inside = |line: &String| depth(line) >= indent || is_blank(line);
    let end = lines[from..].iter().position(|line| !inside(line)).map_or(lines.len(), |n| from + n);
    let Some(start) = lines[from..end].iter().position(|line| line.starts_with(&head)) else {
        return;
    };
    let start = from + start;
    let below = lines[start + 1..end].iter().position(|line| depth(line) <= indent);
    lines.drain(start..below.map_or(end, |n| start + 1 + n));
}

fn yaml_block(name: &str, entry: &Value, indent: usize) -> Option<Vec<String>> {
    let outer = " ".repeat(indent);
    let mut block = vec![format!("{outer}{name}:")];
    for (key, value) in entry.as_object()? {
        // JSON is YAML.
        block.push(format!("{outer}  {key}: {value}"));
    }
    Some(block)
}
