//! Finds the fields and items that a schema evaluates, for `additionalProperties` and
//! `unevaluated*`.

use serde_json::{Map, Value};

use super::super::EvaluationError;
use super::Evaluation;

impl<'e> Evaluation<'e, '_> {
    /// Returns which fields `properties` and `patternProperties` match.
    pub(super) fn named(
        &mut self,
        keywords: &'e Map<String, Value>,
        members: &Map<String, Value>,
    ) -> Result<Vec<bool>, EvaluationError> {
        let properties = keywords.get("properties").and_then(Value::as_object);
        let patterns = keywords.get("patternProperties").and_then(Value::as_object);
        let mut evaluated = Vec::with_capacity(members.len());
        for name in members.keys() {
            self.budget.charge(1)?;
            let mut is_named = properties.is_some_and(|properties| properties.contains_key(name));
            for pattern in patterns.into_iter().flat_map(Map::keys) {
                is_named = is_named || self.matches(pattern, name)?;
            }
            evaluated.push(is_named);
        }
        Ok(evaluated)
    }

    /// Returns which fields or items of an instance the siblings of `own` evaluate.
    pub(super) fn evaluated(
        &mut self,
        keywords: &'e Map<String, Value>,
        instance: &Value,
        parts: usize,
        own: &str,
    ) -> Result<Vec<bool>, EvaluationError> {
        let mut evaluated = vec![false; parts];
        self.mark(keywords, instance, &mut evaluated, Some(own))?;
        Ok(evaluated)
    }

    fn mark(
        &mut self,
        keywords: &'e Map<String, Value>,
        instance: &Value,
        evaluated: &mut [bool],
        own: Option<&str>,
    ) -> Result<(), EvaluationError> {
        self.budget.descend()?;
        self.budget.charge(evaluated.len() as u64 / 16)?;
        for (keyword, value) in keywords.iter().filter(|(keyword, _)| Some(keyword.as_str()) != own)
        {
            self.budget.charge(1)?;
            match (keyword.as_str(), value) {
                ("$ref", Value::String(text)) => {
                    if let Some(target) = self.schema.reference(text) {
                        self.mark_schema(target, instance, evaluated)?;
                    }
                }
                ("allOf", Value::Array(schemas)) => {
                    for schema in schemas {
                        self.mark_schema(schema, instance, evaluated)?;
                    }
                }
                ("anyOf" | "oneOf", Value::Array(schemas)) => {
                    for schema in schemas {
                        if self.is_valid(schema, instance)? {
                            self.mark_schema(schema, instance, evaluated)?;
                        }
                    }
                }
                ("if", schema) => {
                    let branch = match self.is_valid(schema, instance)? {
                        true => {
                            self.mark_schema(schema, instance, evaluated)?;
                            "then"
                        }
                        false => "else",
                    };
                    if let Some(schema) = keywords.get(branch) {
                        self.mark_schema(schema, instance, evaluated)?;
                    }
                }
                ("dependentSchemas" | "dependencies", Value::Object(rules)) => {
                    for (_, schema) in rules
                        .iter()
                        .filter(|(name, rule)| !rule.is_array() && instance.get(name).is_some())
                    {
                        self.mark_schema(schema, instance, evaluated)?;
                    }
                }
                _ => self.mark_parts(keywords, keyword, instance, evaluated)?,
            }
        }
        self.budget.ascend();
        Ok(())
    }

    fn mark_schema(
        &mut self,
        schema: &'e Value,
        instance: &Value,
        evaluated: &mut [bool],
    ) -> Result<(), EvaluationError> {
        schema.as_object().map_or(Ok(()), |keywords| self.mark(keywords, instance, evaluated, None))
    }

    /// Marks the fields or items that a keyword evaluates.
    fn mark_parts(
        &mut self,
        keywords: &'e Map<String, Value>,
        keyword: &str,
        instance: &Value,
        evaluated: &mut [bool],
    ) -> Result<(), EvaluationError> {
        match (keyword, instance) {
            ("properties" | "patternProperties", Value::Object(members)) => {
                let named = self.named(keywords, members)?;
                evaluated.iter_mut().zip(named).for_each(|(evaluated, named)| *evaluated |= named);
            }
            ("additionalProperties" | "unevaluatedProperties", Value::Object(_)) => {
                evaluated.fill(true)
            }
            ("prefixItems", Value::Array(_)) => {
                let first = keywords.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
                evaluated.iter_mut().take(first).for_each(|evaluated| *evaluated = true);
            }
            ("items", Value::Array(_)) => match &keywords[keyword] {
                Value::Array(first) => {
                    evaluated.iter_mut().take(first.len()).for_each(|evaluated| *evaluated = true)
                }
                _ => evaluated.fill(true),
            },
            ("additionalItems", Value::Array(_))
                if keywords.get("items").is_some_and(Value::is_array) =>
            {
                evaluated.fill(true)
            }
            ("unevaluatedItems", Value::Array(_)) => evaluated.fill(true),
            ("contains", Value::Array(items)) => {
                for (item, evaluated) in items.iter().zip(evaluated.iter_mut()) {
                    self.budget.charge(1)?;
                    *evaluated = *evaluated || self.is_valid(&keywords[keyword], item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
