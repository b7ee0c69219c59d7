//! Which schemas are accepted: those whose keywords have the right types, whose references stay
//! within the document and lead somewhere, and whose patterns compile.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::pattern::Pattern;
use super::{Budget, Stop, quote};

/// Bytes of a schema's text. How deep it nests is bounded where the text is parsed, to 128 levels.
pub(crate) const TEXT_MAX: usize = 64 << 10;
/// Different patterns of a schema.
const PATTERNS_MAX: usize = 32;
/// What `$schema` may name, without `http://` or `https://` before it and `#` after it.
const DIALECTS: [&str; 4] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft-06/schema",
];

/// A schema that was accepted.
pub(crate) struct Schema<'a> {
    pub(super) root: &'a Value,
    references: HashMap<&'a str, &'a Value>,
    patterns: HashMap<&'a str, Pattern>,
}

impl<'a> Schema<'a> {
    /// Looks at every subschema once. Nothing here recurses.
    pub(crate) fn accept(root: &'a Value, budget: &mut Budget<'_>) -> Result<Schema<'a>, Stop> {
        let mut schema = Schema { root, references: HashMap::new(), patterns: HashMap::new() };
        let mut seen = HashSet::new();
        let mut edges = Vec::new();
        let mut waiting = vec![root];
        while let Some(next) = waiting.pop() {
            budget.charge(1)?;
            if !seen.insert(std::ptr::from_ref(next)) {
                continue;
            }
            let keywords = match next {
                Value::Object(keywords) => keywords,
                Value::Bool(_) => continue,
                other => {
                    return Err(refused(format!(
                        "a schema is an object or a boolean, and {} is neither",
                        quote(&other.to_string())
                    )));
                }
            };
            for (keyword, value) in keywords {
                budget.charge(1)?;
                let below = schema.keyword(next, keyword, value, budget)?;
                if below.in_place {
                    edges.extend(
                        below
                            .schemas
                            .iter()
                            .map(|to| (std::ptr::from_ref(next), std::ptr::from_ref::<Value>(to))),
                    );
                }
                waiting.extend(below.schemas);
            }
        }
        match has_cycle(&edges) {
            true => {
                Err(refused("a schema of it applies itself to the same value, without end".into()))
            }
            false => Ok(schema),
        }
    }

    pub(super) fn reference(&self, text: &str) -> Option<&'a Value> {
        self.references.get(text).copied()
    }

    pub(super) fn pattern(&self, text: &str) -> Option<&Pattern> {
        self.patterns.get(text)
    }

    /// Checks a keyword's value, and returns the schemas below it.
    fn keyword(
        &mut self,
        schema: &Value,
        keyword: &'a str,
        value: &'a Value,
        budget: &mut Budget<'_>,
    ) -> Result<Below<'a>, Stop> {
        let wrong = |wanted: &str| {
            Err(refused(format!("`{keyword}` is {wanted}, not {}", quote(&value.to_string()))))
        };
        match keyword {
            "$ref" => {
                let Value::String(text) = value else { return wrong("a string") };
                let target = self.resolve(text)?;
                self.references.insert(text, target);
                Ok(Below::in_place(vec![target]))
            }
            "$dynamicRef" | "$recursiveRef" => {
                Err(refused(format!("`{keyword}` is not supported; use `$ref`")))
            }
            "$id" if !std::ptr::eq(schema, self.root) => {
                Err(refused("`$id` is supported at the top of a schema alone".into()))
            }
            "$schema" => {
                let Value::String(text) = value else { return wrong("a string") };
                let name = text
                    .trim_start_matches("https://")
                    .trim_start_matches("http://")
                    .trim_end_matches('#');
                match DIALECTS.contains(&name) {
                    true => Ok(Below::default()),
                    false => Err(refused(format!(
                        "the dialect {} is not supported; write schemas of 2020-12",
                        quote(text)
                    ))),
                }
            }
            "pattern" => {
                let Value::String(text) = value else { return wrong("a string") };
                self.add_pattern(text, budget)?;
                Ok(Below::default())
            }
            "patternProperties" => {
                let Value::Object(members) = value else { return wrong("an object of schemas") };
                for pattern in members.keys() {
                    self.add_pattern(pattern, budget)?;
                }
                Ok(Below::deeper(members.values().collect()))
            }
            "properties" | "$defs" | "definitions" => match value {
                Value::Object(members) => Ok(Below::deeper(members.values().collect())),
                _ => wrong("an object of schemas"),
            },
            "dependentSchemas" => match value {
                Value::Object(members) => Ok(Below::in_place(members.values().collect())),
                _ => wrong("an object of schemas"),
            },
            "dependencies" => match value {
                Value::Object(members)
                    if members.values().filter(|value| value.is_array()).all(is_names) =>
                {
                    Ok(Below::in_place(
                        members.values().filter(|value| !value.is_array()).collect(),
                    ))
                }
                _ => wrong("an object of schemas and lists of names"),
            },
            "allOf" | "anyOf" | "oneOf" => match value {
                Value::Array(schemas) if !schemas.is_empty() => {
                    Ok(Below::in_place(schemas.iter().collect()))
                }
                _ => wrong("a list of schemas"),
            },
            "not" | "if" | "then" | "else" => Ok(Below::in_place(vec![value])),
            "prefixItems" => match value {
                Value::Array(schemas) => Ok(Below::deeper(schemas.iter().collect())),
                _ => wrong("a list of schemas"),
            },
            "items" => match value {
                Value::Array(schemas) => Ok(Below::deeper(schemas.iter().collect())),
                schema => Ok(Below::deeper(vec![schema])),
            },
            "additionalItems"
            | "contains"
            | "unevaluatedItems"
            | "additionalProperties"
            | "propertyNames"
            | "unevaluatedProperties" => Ok(Below::deeper(vec![value])),
            "type" => match value {
                Value::String(name) if is_type(name) => Ok(Below::default()),
                Value::Array(names)
                    if names.iter().all(|name| name.as_str().is_some_and(is_type)) =>
                {
                    Ok(Below::default())
                }
                _ => wrong("the name of a type, or a list of them"),
            },
            "enum" if !value.is_array() => wrong("a list of values"),
            "required" if !is_names(value) => wrong("a list of names"),
            "dependentRequired" => match value {
                Value::Object(members) if members.values().all(is_names) => Ok(Below::default()),
                _ => wrong("an object of lists of names"),
            },
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"
                if !value.is_number() =>
            {
                wrong("a number")
            }
            "multipleOf" if value.as_f64().is_none_or(|number| number <= 0.0) => {
                wrong("a number above 0")
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minContains" | "maxContains"
            | "minProperties" | "maxProperties"
                if count(value).is_none() =>
            {
                wrong("a count")
            }
            "uniqueItems" if !value.is_boolean() => wrong("a boolean"),
            _ => Ok(Below::default()),
        }
    }

    fn add_pattern(&mut self, text: &'a str, budget: &mut Budget<'_>) -> Result<(), Stop> {
        if self.patterns.contains_key(text) {
            return Ok(());
        }
        if self.patterns.len() == PATTERNS_MAX {
            return Err(refused(format!("it has more than {PATTERNS_MAX} patterns")));
        }
        self.patterns.insert(text, Pattern::compile(text, budget)?);
        Ok(())
    }

    /// What a reference leads to: a JSON pointer within the document, percent-encoded.
    fn resolve(&self, text: &str) -> Result<&'a Value, Stop> {
        let Some(pointer) =
            text.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))
        else {
            return Err(refused(format!(
                "the reference {} does not start with `#/`: a schema refers to itself alone",
                quote(text)
            )));
        };
        let found = decode(pointer).and_then(|pointer| self.root.pointer(&pointer));
        found.ok_or_else(|| refused(format!("the reference {} leads nowhere", quote(text))))
    }
}

/// The schemas below a keyword, and whether they apply to the same value.
#[derive(Default)]
struct Below<'a> {
    schemas: Vec<&'a Value>,
    in_place: bool,
}

impl<'a> Below<'a> {
    fn in_place(schemas: Vec<&'a Value>) -> Below<'a> {
        Below { schemas, in_place: true }
    }

    fn deeper(schemas: Vec<&'a Value>) -> Below<'a> {
        Below { schemas, in_place: false }
    }
}

/// A count, also where it is written as 1.0.
pub(super) fn count(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative, and saturating"
    )]
    let whole = |float: f64| (float >= 0.0 && float.fract() == 0.0).then_some(float as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

fn is_type(name: &str) -> bool {
    ["null", "boolean", "object", "array", "number", "string", "integer"].contains(&name)
}

fn is_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

fn refused(message: String) -> Stop {
    Stop::Refused(message)
}

/// A URI fragment without percent-encoding.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if let (b'%', [high, low, tail @ ..]) = (first, tail) {
            let digit =
                |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            bytes.push(digit(*high)? << 4 | digit(*low)?);
            rest = tail;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Whether a graph has a cycle: whether something is left when what nothing leads to is taken away,
/// again and again.
fn has_cycle(edges: &[(*const Value, *const Value)]) -> bool {
    let mut leading: HashMap<*const Value, usize> = HashMap::new();
    let mut below: HashMap<*const Value, Vec<*const Value>> = HashMap::new();
    for (from, to) in edges {
        leading.entry(*from).or_default();
        *leading.entry(*to).or_default() += 1;
        below.entry(*from).or_default().push(*to);
    }
    let mut free: Vec<_> =
        leading.iter().filter(|(_, count)| **count == 0).map(|(node, _)| *node).collect();
    let mut taken = 0;
    while let Some(node) = free.pop() {
        taken += 1;
        for to in below.get(&node).into_iter().flatten() {
            if let Some(count) = leading.get_mut(to) {
                *count -= 1;
                if *count == 0 {
                    free.push(*to);
                }
            }
        }
    }
    taken < leading.len()
}
