//! Accepts a schema if its keywords have the right types, its references resolve within the
//! document, and its patterns compile.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::pattern::Pattern;
use super::{Budget, EvaluationError, quote};

/// The largest schema text, in bytes. The JSON parser bounds the nesting, to 128 levels.
pub(crate) const TEXT_MAX: usize = 64 << 10;
/// The most distinct patterns in a schema.
const PATTERNS_MAX: usize = 32;
/// The supported values of `$schema`, without the leading `http://` or `https://` and the trailing
/// `#`.
const DIALECTS: [&str; 4] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft-06/schema",
];

/// An accepted schema.
pub(crate) struct Schema<'a> {
    pub(super) root: &'a Value,
    references: HashMap<&'a str, &'a Value>,
    patterns: HashMap<&'a str, Pattern>,
}

impl<'a> Schema<'a> {
    /// Checks every subschema once, without recursion.
    pub(crate) fn accept(
        root: &'a Value,
        budget: &mut Budget<'_>,
    ) -> Result<Schema<'a>, EvaluationError> {
        let mut schema = Schema { root, references: HashMap::new(), patterns: HashMap::new() };
        let mut seen = HashSet::new();
        let mut edges = Vec::new();
        let mut queue = vec![root];
        while let Some(next) = queue.pop() {
            budget.charge(1)?;
            if !seen.insert(std::ptr::from_ref(next)) {
                continue;
            }
            let keywords = match next {
                Value::Object(keywords) => keywords,
                Value::Bool(_) => continue,
                other => {
                    return Err(refused(format!(
                        "a schema must be an object or a boolean, not {}",
                        quote(&other.to_string())
                    )));
                }
            };
            for (keyword, value) in keywords {
                budget.charge(1)?;
                let subschemas = schema.keyword(next, keyword, value, budget)?;
                if subschemas.in_place {
                    edges.extend(
                        subschemas
                            .schemas
                            .iter()
                            .map(|to| (std::ptr::from_ref(next), std::ptr::from_ref::<Value>(to))),
                    );
                }
                queue.extend(subschemas.schemas);
            }
        }
        match has_cycle(&edges) {
            true => Err(refused("a subschema applies itself to the same value endlessly".into())),
            false => Ok(schema),
        }
    }

    pub(super) fn reference(&self, text: &str) -> Option<&'a Value> {
        self.references.get(text).copied()
    }

    pub(super) fn pattern(&self, text: &str) -> Option<&Pattern> {
        self.patterns.get(text)
    }

    /// Checks the value of a keyword, and returns its subschemas.
    #[expect(clippy::too_many_lines, reason = "one arm for each keyword")]
    fn keyword(
        &mut self,
        schema: &Value,
        keyword: &'a str,
        value: &'a Value,
        budget: &mut Budget<'_>,
    ) -> Result<Subschemas<'a>, EvaluationError> {
        let wrong_type = |expected: &str| {
            Err(refused(format!(
                "`{keyword}` must be {expected}, not {}",
                quote(&value.to_string())
            )))
        };
        match keyword {
            "$ref" => {
                let Value::String(text) = value else { return wrong_type("a string") };
                let target = self.resolve(text)?;
                self.references.insert(text, target);
                Ok(Subschemas::in_place(vec![target]))
            }
            "$dynamicRef" | "$recursiveRef" => {
                Err(refused(format!("`{keyword}` is not supported; use `$ref`")))
            }
            "$id" if !std::ptr::eq(schema, self.root) => {
                Err(refused("`$id` is supported only at the root of a schema".into()))
            }
            "$schema" => {
                let Value::String(text) = value else { return wrong_type("a string") };
                let name = text
                    .trim_start_matches("https://")
                    .trim_start_matches("http://")
                    .trim_end_matches('#');
                match DIALECTS.contains(&name) {
                    true => Ok(Subschemas::default()),
                    false => Err(refused(format!(
                        "the dialect {} is not supported; use 2020-12",
                        quote(text)
                    ))),
                }
            }
            "pattern" => {
                let Value::String(text) = value else { return wrong_type("a string") };
                self.add_pattern(text, budget)?;
                Ok(Subschemas::default())
            }
            "patternProperties" => {
                let Value::Object(members) = value else {
                    return wrong_type("an object of schemas");
                };
                for pattern in members.keys() {
                    self.add_pattern(pattern, budget)?;
                }
                Ok(Subschemas::deeper(members.values().collect()))
            }
            "properties" | "$defs" | "definitions" => match value {
                Value::Object(members) => Ok(Subschemas::deeper(members.values().collect())),
                _ => wrong_type("an object of schemas"),
            },
            "dependentSchemas" => match value {
                Value::Object(members) => Ok(Subschemas::in_place(members.values().collect())),
                _ => wrong_type("an object of schemas"),
            },
            "dependencies" => match value {
                Value::Object(members)
                    if members.values().filter(|value| value.is_array()).all(is_names) =>
                {
                    Ok(Subschemas::in_place(
                        members.values().filter(|value| !value.is_array()).collect(),
                    ))
                }
                _ => wrong_type("an object of schemas and lists of names"),
            },
            "allOf" | "anyOf" | "oneOf" => match value {
                Value::Array(schemas) if !schemas.is_empty() => {
                    Ok(Subschemas::in_place(schemas.iter().collect()))
                }
                _ => wrong_type("a list of schemas"),
            },
            "not" | "if" | "then" | "else" => Ok(Subschemas::in_place(vec![value])),
            "prefixItems" => match value {
                Value::Array(schemas) => Ok(Subschemas::deeper(schemas.iter().collect())),
                _ => wrong_type("a list of schemas"),
            },
            "items" => match value {
                Value::Array(schemas) => Ok(Subschemas::deeper(schemas.iter().collect())),
                schema => Ok(Subschemas::deeper(vec![schema])),
            },
            "additionalItems"
            | "contains"
            | "unevaluatedItems"
            | "additionalProperties"
            | "propertyNames"
            | "unevaluatedProperties" => Ok(Subschemas::deeper(vec![value])),
            "type" => match value {
                Value::String(name) if is_type(name) => Ok(Subschemas::default()),
                Value::Array(names)
                    if names.iter().all(|name| name.as_str().is_some_and(is_type)) =>
                {
                    Ok(Subschemas::default())
                }
                _ => wrong_type("the name of a type, or a list of them"),
            },
            "enum" if !value.is_array() => wrong_type("a list of values"),
            "required" if !is_names(value) => wrong_type("a list of names"),
            "dependentRequired" => match value {
                Value::Object(members) if members.values().all(is_names) => {
                    Ok(Subschemas::default())
                }
                _ => wrong_type("an object of lists of names"),
            },
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"
                if !value.is_number() =>
            {
                wrong_type("a number")
            }
            "multipleOf" if value.as_f64().is_none_or(|number| number <= 0.0) => {
                wrong_type("a number above 0")
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minContains" | "maxContains"
            | "minProperties" | "maxProperties"
                if count(value).is_none() =>
            {
                wrong_type("a count")
            }
            "uniqueItems" if !value.is_boolean() => wrong_type("a boolean"),
            _ => Ok(Subschemas::default()),
        }
    }

    fn add_pattern(
        &mut self,
        text: &'a str,
        budget: &mut Budget<'_>,
    ) -> Result<(), EvaluationError> {
        if self.patterns.contains_key(text) {
            return Ok(());
        }
        if self.patterns.len() == PATTERNS_MAX {
            return Err(refused(format!("the schema has more than {PATTERNS_MAX} patterns")));
        }
        self.patterns.insert(text, Pattern::compile(text, budget)?);
        Ok(())
    }

    /// Resolves a reference: a JSON pointer within the document, percent-encoded.
    fn resolve(&self, text: &str) -> Result<&'a Value, EvaluationError> {
        let Some(pointer) =
            text.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))
        else {
            return Err(refused(format!(
                "the reference {} does not start with `#/`: a schema can refer only to itself",
                quote(text)
            )));
        };
        let found = decode(pointer).and_then(|pointer| self.root.pointer(&pointer));
        found.ok_or_else(|| refused(format!("the reference {} does not resolve", quote(text))))
    }
}

/// The subschemas of a keyword, and whether they apply to the same value.
#[derive(Default)]
struct Subschemas<'a> {
    schemas: Vec<&'a Value>,
    in_place: bool,
}

impl<'a> Subschemas<'a> {
    fn in_place(schemas: Vec<&'a Value>) -> Subschemas<'a> {
        Subschemas { schemas, in_place: true }
    }

    fn deeper(schemas: Vec<&'a Value>) -> Subschemas<'a> {
        Subschemas { schemas, in_place: false }
    }
}

/// Parses a count, which may be written as 1.0.
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

fn refused(message: String) -> EvaluationError {
    EvaluationError::Refused(message)
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

/// Checks whether a graph has a cycle: removes nodes without incoming edges, repeatedly, and checks
/// whether any are left.
fn has_cycle(edges: &[(*const Value, *const Value)]) -> bool {
    let mut incoming: HashMap<*const Value, usize> = HashMap::new();
    let mut below: HashMap<*const Value, Vec<*const Value>> = HashMap::new();
    for (from, to) in edges {
        incoming.entry(*from).or_default();
        *incoming.entry(*to).or_default() += 1;
        below.entry(*from).or_default().push(*to);
    }
    let mut ready: Vec<_> =
        incoming.iter().filter(|(_, count)| **count == 0).map(|(node, _)| *node).collect();
    let mut removed = 0;
    while let Some(node) = ready.pop() {
        removed += 1;
        for to in below.get(&node).into_iter().flatten() {
            if let Some(count) = incoming.get_mut(to) {
                *count -= 1;
                if *count == 0 {
                    ready.push(*to);
                }
            }
        }
    }
    removed < incoming.len()
}
