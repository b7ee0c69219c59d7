//! Which fields and items a schema has something to say about, for `additionalProperties` and
//! `unevaluated*`.

use serde_json::{Map, Value};

use super::super::Stop;
use super::Evaluation;

impl<'e> Evaluation<'e, '_> {
    /// Which fields `properties` and `patternProperties` name.
    pub(super) fn named(
        &mut self,
        keywords: &'e Map<String, Value>,
        members: &Map<String, Value>,
    ) -> Result<Vec<bool>, Stop> {
        let properties = keywords.get("properties").and_then(Value::as_object);
        let patterns = keywords.get("patternProperties").and_then(Value::as_object);
        let mut seen = Vec::with_capacity(members.len());
        for name in members.keys() {
            self.budget.charge(1)?;
            let mut is_named = properties.is_some_and(|properties| properties.contains_key(name));
            for pattern in patterns.into_iter().flat_map(Map::keys) {
                is_named = is_named || self.matches(pattern, name)?;
            }
            seen.push(is_named);
        }
        Ok(seen)
    }

    /// Which fields or items of an instance the keywords beside `own` evaluate.
    pub(super) fn evaluated(
        &mut self,
        keywords: &'e Map<String, Value>,
        instance: &Value,
        parts: usize,
        own: &str,
    ) -> Result<Vec<bool>, Stop> {
        let mut seen = vec![false; parts];
        self.mark(keywords, instance, &mut seen, Some(own))?;
        Ok(seen)
    }

    fn mark(
        &mut self,
        keywords: &'e Map<String, Value>,
        instance: &Value,
        seen: &mut [bool],
        own: Option<&str>,
    ) -> Result<(), Stop> {
        self.budget.descend()?;
        self.budget.charge(seen.len() as u64 / 16)?;
        for (keyword, value) in keywords.iter().filter(|(keyword, _)| Some(keyword.as_str()) != own)
        {
            self.budget.charge(1)?;
            match (keyword.as_str(), value) {
                ("$ref", Value::String(text)) => {
                    if let Some(target) = self.schema.reference(text) {
                        self.mark_schema(target, instance, seen)?;
                    }
                }
                ("allOf", Value::Array(schemas)) => {
                    for schema in schemas {
                        self.mark_schema(schema, instance, seen)?;
                    }
                }
                ("anyOf" | "oneOf", Value::Array(schemas)) => {
                    for schema in schemas {
                        if self.is_valid(schema, instance)? {
                            self.mark_schema(schema, instance, seen)?;
                        }
                    }
                }
                ("if", schema) => {
                    let branch = match self.is_valid(schema, instance)? {
                        true => {
                            self.mark_schema(schema, instance, seen)?;
                            "then"
                        }
                        false => "else",
                    };
                    if let Some(schema) = keywords.get(branch) {
                        self.mark_schema(schema, instance, seen)?;
                    }
                }
                ("dependentSchemas" | "dependencies", Value::Object(rules)) => {
                    for (_, schema) in rules
                        .iter()
                        .filter(|(name, rule)| !rule.is_array() && instance.get(name).is_some())
                    {
                        self.mark_schema(schema, instance, seen)?;
                    }
                }
                _ => self.mark_parts(keywords, keyword, instance, seen)?,
            }
        }
        self.budget.ascend();
        Ok(())
    }

    fn mark_schema(
        &mut self,
        schema: &'e Value,
        instance: &Value,
        seen: &mut [bool],
    ) -> Result<(), Stop> {
        schema.as_object().map_or(Ok(()), |keywords| self.mark(keywords, instance, seen, None))
    }

    /// Marks what a keyword applies to that goes into the instance.
    fn mark_parts(
        &mut self,
        keywords: &'e Map<String, Value>,
        keyword: &str,
        instance: &Value,
        seen: &mut [bool],
    ) -> Result<(), Stop> {
        match (keyword, instance) {
            ("properties" | "patternProperties", Value::Object(members)) => {
                let named = self.named(keywords, members)?;
                seen.iter_mut().zip(named).for_each(|(seen, named)| *seen |= named);
            }
            ("additionalProperties" | "unevaluatedProperties", Value::Object(_)) => seen.fill(true),
            ("prefixItems", Value::Array(_)) => {
                let first = keywords.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
                seen.iter_mut().take(first).for_each(|seen| *seen = true);
            }
            ("items", Value::Array(_)) => match &keywords[keyword] {
                Value::Array(first) => {
                    seen.iter_mut().take(first.len()).for_each(|seen| *seen = true)
                }
                _ => seen.fill(true),
            },
            ("additionalItems", Value::Array(_))
                if keywords.get("items").is_some_and(Value::is_array) =>
            {
                seen.fill(true)
            }
            ("unevaluatedItems", Value::Array(_)) => seen.fill(true),
            ("contains", Value::Array(items)) => {
                for (item, seen) in items.iter().zip(seen.iter_mut()) {
                    self.budget.charge(1)?;
                    *seen = *seen || self.is_valid(&keywords[keyword], item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
