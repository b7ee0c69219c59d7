//! Whether an instance is what a schema says.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::accept::count;
use super::value::{Num, all_differ, equal};
use super::{Budget, Schema, Stop, quote};

mod describe;
mod unevaluated;

use describe::{Place, listed, show, unknown};

/// Problems that are named.
const PROBLEMS_MAX: usize = 10;

pub(super) fn problems(
    schema: &Schema<'_>,
    instance: &Value,
    budget: &mut Budget<'_>,
) -> Result<Vec<String>, Stop> {
    let mut found = Vec::new();
    let mut evaluation = Evaluation { schema, budget };
    evaluation.check(schema.root, instance, &Place::Root, &mut Report::Named(&mut found))?;
    Ok(found)
}

/// What becomes of problems.
enum Report<'a> {
    Named(&'a mut Vec<String>),
    /// It is asked whether there are any.
    Counted,
}

impl Report<'_> {
    /// Takes a problem. Returns `false`: the value is not valid.
    fn problem(&mut self, place: &Place<'_>, what: impl FnOnce() -> String) -> bool {
        if let Report::Named(problems) = self
            && problems.len() < PROBLEMS_MAX
        {
            let place = place.pointer();
            problems.push(if place.is_empty() {
                what()
            } else {
                format!("at {place}: {}", what())
            });
        }
        false
    }

    /// Whether nothing that follows changes the answer.
    fn is_done(&self) -> bool {
        match self {
            Report::Named(problems) => problems.len() >= PROBLEMS_MAX,
            Report::Counted => true,
        }
    }
}

struct Evaluation<'e, 'b> {
    schema: &'e Schema<'e>,
    budget: &'e mut Budget<'b>,
}

/// A keyword of a schema, with those beside it.
#[derive(Clone, Copy)]
struct Keyword<'e> {
    name: &'e str,
    value: &'e Value,
    siblings: &'e Map<String, Value>,
}

type Verdict = Result<bool, Stop>;

impl<'e> Evaluation<'e, '_> {
    fn check(
        &mut self,
        schema: &'e Value,
        instance: &Value,
        place: &Place<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let keywords = match schema {
            Value::Bool(true) => return Ok(true),
            Value::Object(keywords) => keywords,
            _ => return Ok(report.problem(place, || format!("{} is not allowed", show(instance)))),
        };
        self.budget.descend()?;
        let mut valid = true;
        for (name, value) in keywords {
            self.budget.charge(1)?;
            let keyword = Keyword { name, value, siblings: keywords };
            let passed = match instance {
                Value::Object(members) => self.object(keyword, instance, members, place, report)?,
                Value::Array(items) => self.array(keyword, instance, items, place, report)?,
                Value::String(text) => self.string(keyword, text, place, report)?,
                Value::Number(number) => numeric(keyword, Num::of(number), place, report),
                Value::Null | Value::Bool(_) => true,
            };
            valid &= passed && self.any(keyword, instance, place, report)?;
            if !valid && report.is_done() {
                break;
            }
        }
        self.budget.ascend();
        Ok(valid)
    }

    fn is_valid(&mut self, schema: &'e Value, instance: &Value) -> Verdict {
        self.check(schema, instance, &Place::Root, &mut Report::Counted)
    }

    /// Keywords for values of every type.
    fn any(
        &mut self,
        keyword: Keyword<'e>,
        instance: &Value,
        place: &Place<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let Keyword { name, value, siblings } = keyword;
        Ok(match (name, value) {
            ("type", Value::String(name)) => {
                is_of(instance, name)
                    || report
                        .problem(place, || format!("{} is not of type `{name}`", show(instance)))
            }
            ("type", Value::Array(names)) => {
                self.budget.charge(names.len() as u64)?;
                names.iter().filter_map(Value::as_str).any(|name| is_of(instance, name))
                    || report.problem(place, || {
                        format!("{} is of none of the types {}", show(instance), listed(value))
                    })
            }
            ("const", value) => {
                equal(instance, value, self.budget)?
                    || report
                        .problem(place, || format!("{} is not {}", show(instance), show(value)))
            }
            ("enum", Value::Array(values)) => {
                let mut found = false;
                for value in values {
                    found = found || equal(instance, value, self.budget)?;
                }
                found
                    || report.problem(place, || {
                        format!("{} is not one of {}", show(instance), listed(value))
                    })
            }
            ("$ref", Value::String(text)) => match self.schema.reference(text) {
                Some(target) => self.check(target, instance, place, report)?,
                None => {
                    report.problem(place, || format!("the reference {} leads nowhere", quote(text)))
                }
            },
            ("allOf", Value::Array(schemas)) => {
                let mut valid = true;
                for schema in schemas {
                    valid &= self.check(schema, instance, place, report)?;
                    if !valid && report.is_done() {
                        break;
                    }
                }
                valid
            }
            ("anyOf", Value::Array(schemas)) => {
                self.matching(schemas, instance, 1)? > 0
                    || report.problem(place, || {
                        format!("{} matches no schema of `anyOf`", show(instance))
                    })
            }
            ("oneOf", Value::Array(schemas)) => match self.matching(schemas, instance, 2)? {
                0 => report
                    .problem(place, || format!("{} matches no schema of `oneOf`", show(instance))),
                1 => true,
                _ => report.problem(place, || {
                    format!("{} matches more than one schema of `oneOf`", show(instance))
                }),
            },
            ("dependentSchemas" | "dependencies", Value::Object(rules)) => {
                let mut valid = true;
                for (name, schema) in rules.iter().filter(|(_, rule)| !rule.is_array()) {
                    self.budget.charge(1)?;
                    if instance.get(name).is_some() {
                        valid &= self.check(schema, instance, place, report)?;
                    }
                }
                valid
            }
            ("not", schema) => {
                !self.is_valid(schema, instance)?
                    || report.problem(place, || {
                        format!("{} matches the schema of `not`", show(instance))
                    })
            }
            ("if", schema) => {
                let branch = if self.is_valid(schema, instance)? { "then" } else { "else" };
                siblings
                    .get(branch)
                    .map_or(Ok(true), |schema| self.check(schema, instance, place, report))?
            }
            _ => true,
        })
    }

    /// How many of some schemas match, up to `enough`.
    fn matching(
        &mut self,
        schemas: &'e [Value],
        instance: &Value,
        enough: usize,
    ) -> Result<usize, Stop> {
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
        place: &Place<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let Keyword { name, value, .. } = keyword;
        Ok(match (name, value) {
            ("minLength" | "maxLength", _) => {
                self.budget.charge(text.len() as u64 / 64)?;
                within(name, value, text.chars().count(), "characters", place, report)
            }
            ("pattern", Value::String(pattern)) => {
                self.matches(pattern, text)?
                    || report.problem(place, || {
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
        place: &Place<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let Keyword { name, value, siblings } = keyword;
        let all = items.iter().enumerate();
        match (name, value) {
            ("minItems" | "maxItems", _) => {
                Ok(within(name, value, items.len(), "items", place, report))
            }
            ("prefixItems" | "items", Value::Array(schemas)) => {
                self.items(all.zip(schemas), place, report)
            }
            ("items", schema) => {
                let first =
                    siblings.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                self.items(all.skip(first).map(|item| (item, schema)), place, report)
            }
            ("additionalItems", schema) => match siblings.get("items") {
                Some(Value::Array(first)) => {
                    self.items(all.skip(first.len()).map(|item| (item, schema)), place, report)
                }
                _ => Ok(true),
            },
            ("contains", schema) => {
                let least = siblings.get("minContains").and_then(count).unwrap_or(1);
                let most = siblings.get("maxContains").and_then(count).unwrap_or(u64::MAX);
                let mut found = 0;
                for item in items {
                    self.budget.charge(1)?;
                    found += u64::from(self.is_valid(schema, item)?);
                }
                let fits = (least..=most).contains(&found);
                Ok(fits || report.problem(place, || format!("{found} items match `contains`")))
            }
            ("uniqueItems", Value::Bool(true)) => Ok(all_differ(items, self.budget)?
                || report.problem(place, || "two items are the same".into())),
            ("unevaluatedItems", schema) => {
                let seen = self.evaluated(siblings, instance, items.len(), name)?;
                self.items(
                    all.filter(|(at, _)| !seen[*at]).map(|item| (item, schema)),
                    place,
                    report,
                )
            }
            _ => Ok(true),
        }
    }

    fn items<'i>(
        &mut self,
        items: impl Iterator<Item = ((usize, &'i Value), &'e Value)>,
        place: &Place<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let mut valid = true;
        for ((at, item), schema) in items {
            self.budget.charge(1)?;
            valid &= self.check(schema, item, &Place::Item(place, at), report)?;
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
        place: &Place<'_>,
        report: &mut Report<'_>,
    ) -> Verdict {
        let Keyword { name: keyword, value, siblings } = keyword;
        let mut valid = true;
        match (keyword, value) {
            ("minProperties" | "maxProperties", _) => {
                return Ok(within(keyword, value, members.len(), "fields", place, report));
            }
            ("required", Value::Array(names)) => {
                for name in names.iter().filter_map(Value::as_str) {
                    self.budget.charge(1)?;
                    valid &= members.contains_key(name)
                        || report
                            .problem(place, || format!("the field {} is missing", quote(name)));
                }
            }
            ("dependentRequired" | "dependencies", Value::Object(rules)) => {
                for (name, needed) in rules.iter().filter(|(name, _)| members.contains_key(*name)) {
                    for needed in needed.as_array().into_iter().flatten().filter_map(Value::as_str)
                    {
                        self.budget.charge(1)?;
                        valid &= members.contains_key(needed)
                            || report.problem(place, || {
                                format!(
                                    "the field {} is missing, which {} needs",
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
                        || report
                            .problem(place, || format!("the name {} is not allowed", quote(name)));
                }
            }
            ("properties", Value::Object(schemas)) => {
                for (name, schema) in schemas {
                    self.budget.charge(1)?;
                    if let Some(member) = members.get(name) {
                        valid &= self.check(schema, member, &Place::Member(place, name), report)?;
                    }
                }
            }
            ("patternProperties", Value::Object(schemas)) => {
                for (pattern, schema) in schemas {
                    for (name, member) in members {
                        if self.matches(pattern, name)? {
                            valid &=
                                self.check(schema, member, &Place::Member(place, name), report)?;
                        }
                    }
                }
            }
            ("additionalProperties" | "unevaluatedProperties", schema) => {
                let seen = match keyword {
                    "additionalProperties" => self.named(siblings, members)?,
                    _ => self.evaluated(siblings, instance, members.len(), keyword)?,
                };
                for ((name, member), _) in members.iter().zip(seen).filter(|(_, seen)| !seen) {
                    self.budget.charge(1)?;
                    valid &= match schema {
                        Value::Bool(false) => report.problem(place, || unknown(name, siblings)),
                        schema => {
                            self.check(schema, member, &Place::Member(place, name), report)?
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
fn numeric(keyword: Keyword<'_>, number: Num, place: &Place<'_>, report: &mut Report<'_>) -> bool {
    let Value::Number(bound) = keyword.value else { return true };
    let bound = Num::of(bound);
    let order = number.compare(bound);
    let (fits, wanted) = match keyword.name {
        "minimum" => (order.is_some_and(Ordering::is_ge), "at least"),
        "maximum" => (order.is_some_and(Ordering::is_le), "at most"),
        "exclusiveMinimum" => (order.is_some_and(Ordering::is_gt), "more than"),
        "exclusiveMaximum" => (order.is_some_and(Ordering::is_lt), "less than"),
        "multipleOf" => (number.is_multiple_of(bound), "a multiple of"),
        _ => (true, ""),
    };
    fits || report.problem(place, || format!("the number is not {wanted} {}", keyword.value))
}

/// A keyword that bounds a size.
fn within(
    keyword: &str,
    value: &Value,
    size: usize,
    unit: &str,
    place: &Place<'_>,
    report: &mut Report<'_>,
) -> bool {
    let (Some(bound), size) = (count(value), size as u64) else { return true };
    match keyword.starts_with("min") {
        true => {
            size >= bound
                || report.problem(place, || format!("it has {size} {unit}, fewer than {bound}"))
        }
        false => {
            size <= bound
                || report.problem(place, || format!("it has {size} {unit}, more than {bound}"))
        }
    }
}

fn is_of(instance: &Value, name: &str) -> bool {
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
