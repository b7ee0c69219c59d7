//! Evaluates an instance against a schema.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::accept::count;
use super::value::{Num, all_differ, equal};
use super::{Budget, EvaluationError, Schema, quote};

mod describe;
mod unevaluated;

use describe::{Location, describe, list_values, unknown_field};

/// The max problems that are reported.
const PROBLEMS_MAX: usize = 10;

pub(super) fn problems(
    schema: &Schema<'_>,
    instance: &Value,
    budget: &mut Budget<'_>,
) -> Result<Vec<String>, EvaluationError> {
    let mut found = Vec::new();
    let mut evaluation = Evaluation { schema, budget };
    evaluation.check(schema.root, instance, &Location::Root, &mut Report::Collect(&mut found))?;
    Ok(found)
}

/// How problems are reported.
enum Report<'a> {
    Collect(&'a mut Vec<String>),
    /// Only detects whether there are any.
    Detect,
}

impl Report<'_> {
    /// Reports a problem. Always returns `false`: the value is not valid.
    fn problem(&mut self, location: &Location<'_>, message: impl FnOnce() -> String) -> bool {
        if let Report::Collect(problems) = self
            && problems.len() < PROBLEMS_MAX
        {
            let location = location.pointer();
            problems.push(if location.is_empty() {
                message()
            } else {
                format!("at {location}: {}", message())
            });
        }
        false
    }

    /// Checks whether further problems would not change the result.
    fn is_done(&self) -> bool {
        match self {
            Report::Collect(problems) => problems.len() >= PROBLEMS_MAX,
            Report::Detect => true,
        }
    }
}

struct Evaluation<'e, 'b> {
    schema: &'e Schema<'e>,
    budget: &'e mut Budget<'b>,
}

/// A keyword of a schema, with its siblings.
#[derive(Clone, Copy)]
struct Keyword<'e> {
    name: &'e str,
    value: &'e Value,
    siblings: &'e Map<String, Value>,
}

type Verdict = Result<bool, EvaluationError>;

impl<'e> Evaluation<'e, '_> {
    fn check(
        &mut self,
        schema: &'e Value,
        instance: &Value,
        location: &Location<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let keywords = match schema {
            Value::Bool(true) => return Ok(true),
            Value::Object(keywords) => keywords,
            _ => {
                return Ok(
                    report.problem(location, || format!("{} is not allowed", describe(instance)))
                );
            }
        };
        self.budget.descend()?;
        let mut valid = true;
        for (name, value) in keywords {
            self.budget.charge(1)?;
            let keyword = Keyword { name, value, siblings: keywords };
            let passed = match instance {
                Value::Object(members) => {
                    self.object(keyword, instance, members, location, report)?
                }
                Value::Array(items) => self.array(keyword, instance, items, location, report)?,
                Value::String(text) => self.string(keyword, text, location, report)?,
                Value::Number(number) => numeric(keyword, Num::of(number), location, report),
                Value::Null | Value::Bool(_) => true,
            };
            valid &= passed && self.any(keyword, instance, location, report)?;
            if !valid && report.is_done() {
                break;
            }
        }
        self.budget.ascend();
        Ok(valid)
    }

    fn is_valid(&mut self, schema: &'e Value, instance: &Value) -> Verdict {
        self.check(schema, instance, &Location::Root, &mut Report::Detect)
    }

    /// Keywords for values of every type.
    fn any(
        &mut self,
        keyword: Keyword<'e>,
        instance: &Value,
        location: &Location<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let Keyword { name, value, siblings } = keyword;
        Ok(match (name, value) {
            ("type", Value::String(name)) => {
                has_type(instance, name)
                    || report.problem(location, || {
                        format!("{} is not of type `{name}`", describe(instance))
                    })
            }
            ("type", Value::Array(names)) => {
                self.budget.charge(names.len() as u64)?;
                names.iter().filter_map(Value::as_str).any(|name| has_type(instance, name))
                    || report.problem(location, || {
                        format!(
                            "{} has none of the types {}",
                            describe(instance),
                            list_values(value)
                        )
                    })
            }
            ("const", value) => {
                equal(instance, value, self.budget)?
                    || report.problem(location, || {
                        format!("{} is not {}", describe(instance), describe(value))
                    })
            }
            ("enum", Value::Array(values)) => {
                let mut found = false;
                for value in values {
                    found = found || equal(instance, value, self.budget)?;
                }
                found
                    || report.problem(location, || {
                        format!("{} is not one of {}", describe(instance), list_values(value))
                    })
            }
            ("$ref", Value::String(text)) => match self.schema.reference(text) {
                Some(target) => self.check(target, instance, location, report)?,
                None => report.problem(location, || {
                    format!("the reference {} does not resolve", quote(text))
                }),
            },
            ("allOf", Value::Array(schemas)) => {
                let mut valid = true;
                for schema in schemas {
                    valid &= self.check(schema, instance, location, report)?;
                    if !valid && report.is_done() {
                        break;
                    }
                }
                valid
            }
            ("anyOf", Value::Array(schemas)) => {
                self.count_matching(schemas, instance, 1)? > 0
                    || report.problem(location, || {
                        format!("{} matches no schema of `anyOf`", describe(instance))
                    })
            }
            ("oneOf", Value::Array(schemas)) => match self.count_matching(schemas, instance, 2)? {
                0 => report.problem(location, || {
                    format!("{} matches no schema of `oneOf`", describe(instance))
                }),
                1 => true,
                _ => report.problem(location, || {
                    format!("{} matches more than one schema of `oneOf`", describe(instance))
                }),
            },
            ("dependentSchemas" | "dependencies", Value::Object(rules)) => {
                let mut valid = true;
                for (name, schema) in rules.iter().filter(|(_, rule)| !rule.is_array()) {
                    self.budget.charge(1)?;
                    if instance.get(name).is_some() {
                        valid &= self.check(schema, instance, location, report)?;
                    }
                }
                valid
            }
            ("not", schema) => {
                !self.is_valid(schema, instance)?
                    || report.problem(location, || {
                        format!("{} matches the schema of `not`", describe(instance))
                    })
            }
            ("if", schema) => {
                let branch = if self.is_valid(schema, instance)? { "then" } else { "else" };
                siblings
                    .get(branch)
                    .map_or(Ok(true), |schema| self.check(schema, instance, location, report))?
            }
            _ => true,
        })
    }

    /// Counts the schemas that match, up to `enough`.
    fn count_matching(
        &mut self,
        schemas: &'e [Value],
        instance: &Value,
        enough: usize,
    ) -> Result<usize, EvaluationError> {
        let mut count = 0;
        for schema in schemas {
            count += usize::from(count < enough && self.is_valid(schema, instance)?);
        }
        Ok(count)
    }

    fn string(
        &mut self,
        keyword: Keyword<'e>,
        text: &str,
        location: &Location<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let Keyword { name, value, .. } = keyword;
        Ok(match (name, value) {
            ("minLength" | "maxLength", _) => {
                self.budget.charge(text.len() as u64 / 64)?;
                check_size(name, value, text.chars().count(), "characters", location, report)
            }
            ("pattern", Value::String(pattern)) => {
                self.matches(pattern, text)?
                    || report.problem(location, || {
                        format!("{} does not match the pattern {}", quote(text), quote(pattern))
                    })
            }
            _ => true,
        })
    }

    fn matches(&mut self, pattern: &str, text: &str) -> Verdict {
        match self.schema.pattern(pattern) {
            Some(pattern) => pattern.matches(text, self.budget),
            None => Ok(false),
        }
    }

    fn array(
        &mut self,
        keyword: Keyword<'e>,
        instance: &Value,
        items: &[Value],
        location: &Location<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let Keyword { name, value, siblings } = keyword;
        let all = items.iter().enumerate();
        match (name, value) {
            ("minItems" | "maxItems", _) => {
                Ok(check_size(name, value, items.len(), "items", location, report))
            }
            ("prefixItems" | "items", Value::Array(schemas)) => {
                self.items(all.zip(schemas), location, report)
            }
            ("items", schema) => {
                let first =
                    siblings.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                self.items(all.skip(first).map(|item| (item, schema)), location, report)
            }
            ("additionalItems", schema) => match siblings.get("items") {
                Some(Value::Array(first)) => {
                    self.items(all.skip(first.len()).map(|item| (item, schema)), location, report)
                }
                _ => Ok(true),
            },
            ("contains", schema) => {
                let min = siblings.get("minContains").and_then(count).unwrap_or(1);
                let max = siblings.get("maxContains").and_then(count).unwrap_or(u64::MAX);
                let mut found = 0;
                for item in items {
                    self.budget.charge(1)?;
                    found += u64::from(self.is_valid(schema, item)?);
                }
                let fits = (min..=max).contains(&found);
                Ok(fits || report.problem(location, || format!("{found} items match `contains`")))
            }
            ("uniqueItems", Value::Bool(true)) => Ok(all_differ(items, self.budget)?
                || report.problem(location, || "two items are equal".into())),
            ("unevaluatedItems", schema) => {
                let evaluated = self.evaluated(siblings, instance, items.len(), name)?;
                self.items(
                    all.filter(|(at, _)| !evaluated[*at]).map(|item| (item, schema)),
                    location,
                    report,
                )
            }
            _ => Ok(true),
        }
    }

    fn items<'i>(
        &mut self,
        items: impl Iterator<Item = ((usize, &'i Value), &'e Value)>,
        location: &Location<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let mut valid = true;
        for ((at, item), schema) in items {
            self.budget.charge(1)?;
            valid &= self.check(schema, item, &Location::Item(location, at), report)?;
            if !valid && report.is_done() {
                break;
            }
        }
        Ok(valid)
    }

    fn object(
        &mut self,
        keyword: Keyword<'e>,
        instance: &Value,
        members: &Map<String, Value>,
        location: &Location<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let Keyword { name: keyword, value, siblings } = keyword;
        let mut valid = true;
        match (keyword, value) {
            ("minProperties" | "maxProperties", _) => {
                return Ok(check_size(keyword, value, members.len(), "fields", location, report));
            }
            ("required", Value::Array(names)) => {
                for name in names.iter().filter_map(Value::as_str) {
                    self.budget.charge(1)?;
                    valid &= members.contains_key(name)
                        || report
                            .problem(location, || format!("the field {} is missing", quote(name)));
                }
            }
            ("dependentRequired" | "dependencies", Value::Object(rules)) => {
                for (name, needed) in rules.iter().filter(|(name, _)| members.contains_key(*name)) {
                    for needed in needed.as_array().into_iter().flatten().filter_map(Value::as_str)
                    {
                        self.budget.charge(1)?;
                        valid &= members.contains_key(needed)
                            || report.problem(location, || {
                                format!(
                                    "the field {} is missing, which {} requires",
                                    quote(needed),
                                    quote(name)
                                )
                            });
                    }
                }
            }
            ("propertyNames", schema) => {
                for name in members.keys() {
                    self.budget.charge(1 + name.len() as u64 / 64)?;
                    valid &= self.is_valid(schema, &Value::String(name.clone()))?
                        || report.problem(location, || {
                            format!("the name {} is not allowed", quote(name))
                        });
                }
            }
            ("properties", Value::Object(schemas)) => {
                for (name, schema) in schemas {
                    self.budget.charge(1)?;
                    if let Some(member) = members.get(name) {
                        valid &=
                            self.check(schema, member, &Location::Member(location, name), report)?;
                    }
                }
            }
            ("patternProperties", Value::Object(schemas)) => {
                for (pattern, schema) in schemas {
                    for (name, member) in members {
                        if self.matches(pattern, name)? {
                            valid &= self.check(
                                schema,
                                member,
                                &Location::Member(location, name),
                                report,
                            )?;
                        }
                    }
                }
            }
            ("additionalProperties" | "unevaluatedProperties", schema) => {
                let evaluated = match keyword {
                    "additionalProperties" => self.named(siblings, members)?,
                    _ => self.evaluated(siblings, instance, members.len(), keyword)?,
                };
                for ((name, member), _) in
                    members.iter().zip(evaluated).filter(|(_, evaluated)| !evaluated)
                {
                    self.budget.charge(1)?;
                    valid &= match schema {
                        Value::Bool(false) => {
                            report.problem(location, || unknown_field(name, siblings))
                        }
                        schema => {
                            self.check(schema, member, &Location::Member(location, name), report)?
                        }
                    };
                }
            }
            _ => {}
        }
        Ok(valid)
    }
}

/// Keywords for numbers.
fn numeric(
    keyword: Keyword<'_>,
    number: Num,
    location: &Location<'_>,
    report: &mut Report<'_>,
) -> bool {
    let Value::Number(bound) = keyword.value else { return true };
    let bound = Num::of(bound);
    let order = number.compare(bound);
    let (fits, wanted) = match keyword.name {
        "minimum" => (order.is_some_and(Ordering::is_ge), "at min"),
        "maximum" => (order.is_some_and(Ordering::is_le), "at max"),
        "exclusiveMinimum" => (order.is_some_and(Ordering::is_gt), "more than"),
        "exclusiveMaximum" => (order.is_some_and(Ordering::is_lt), "less than"),
        "multipleOf" => (number.is_multiple_of(bound), "a multiple of"),
        _ => (true, ""),
    };
    fits || report.problem(location, || format!("the number is not {wanted} {}", keyword.value))
}

/// Evaluates a keyword that bounds a size.
fn check_size(
    keyword: &str,
    value: &Value,
    size: usize,
    unit: &str,
    location: &Location<'_>,
    report: &mut Report<'_>,
) -> bool {
    let (Some(bound), size) = (count(value), size as u64) else { return true };
    match keyword.starts_with("min") {
        true => {
            size >= bound
                || report.problem(location, || format!("it has {size} {unit}, fewer than {bound}"))
        }
        false => {
            size <= bound
                || report.problem(location, || format!("it has {size} {unit}, more than {bound}"))
        }
    }
}

fn has_type(instance: &Value, name: &str) -> bool {
    match instance {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Object(_) => name == "object",
        Value::Array(_) => name == "array",
        Value::String(_) => name == "string",
        Value::Number(number) => {
            name == "number" || (name == "integer" && Num::of(number).is_whole())
        }
    }
}
