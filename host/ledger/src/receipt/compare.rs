//! Finds the differences between two receipts.

use base64::Engine as _;
use serde::Serialize;
use serde_json::Value;

/// A field in which two receipts differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The field, such as `result.stdout.digest`. A key with special characters is in brackets.
    pub field: String,
    /// The value in the receipt; `None` if it is missing.
    pub receipt: Option<Value>,
    /// The value found here; `None` if it is missing.
    pub here: Option<Value>,
    /// For an output whose bytes are known: the first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteDifference>,
}

/// The first difference between two outputs, with some context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ByteDifference {
    /// The offset of the first byte that differs.
    pub offset: usize,
    /// The receipt's bytes around that offset, escaped as in Rust.
    pub receipt: String,
    /// The bytes found here.
    pub here: String,
}

/// What a difference is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The skill, or the program that ran.
    Skill,
    /// The runtime, the grant or the input.
    Conditions,
    /// The result.
    Result,
}

/// How many bytes to show before and after the first difference.
const AROUND: usize = 16;

/// Returns all differences, causes before effects.
pub fn differences(receipt: &Value, here: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(String::new(), Some(receipt), Some(here), &mut found);
    found.retain(|difference| !is_about_the_place(difference, &receipt["skill"], &here["skill"]));
    // Whether a host has executed a run again is no difference of the run.
    found.retain(|difference| difference.field != "cached");
    let rank = |difference: &Difference| {
        ORDER.iter().position(|part| difference.field.starts_with(part)).unwrap_or(ORDER.len())
    };
    found.sort_by_key(rank);
    found
}

/// Checks whether a difference is only about where the skill is installed, or about how an earlier
/// version named it: that version had the declared name as `name`, and no source.
fn is_about_the_place(difference: &Difference, receipt: &Value, here: &Value) -> bool {
    let is_earlier = |skill: &Value| skill["source"].is_null();
    let declared = |skill: &Value| skill.get("declared").unwrap_or(&skill["name"]).clone();
    match difference.field.as_str() {
        "skill.source" => true,
        "skill.name" | "skill.declared" if is_earlier(receipt) != is_earlier(here) => {
            declared(receipt) == declared(here)
        }
        _ => false,
    }
}

/// Causes come before effects: the skill, its input, its result.
const ORDER: [&str; 10] = [
    "version",
    "skill",
    "input.arguments",
    "program",
    "runtime",
    "grant",
    "input",
    "result.status",
    "result.stdout.head",
    "result.stderr.head",
];

impl Difference {
    /// Returns what the difference is about.
    pub fn kind(&self) -> DifferenceKind {
        match self.field.split('.').next() {
            // Digests that follow from the input.
            Some("program") if self.field == "program.arguments" => DifferenceKind::Conditions,
            Some("skill" | "program") => DifferenceKind::Skill,
            Some("result") => DifferenceKind::Result,
            _ => DifferenceKind::Conditions,
        }
    }
}

/// A part of a run, in chronological order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunPart {
    /// The skill and the program.
    Skill,
    /// The runtime.
    Runtime,
    /// The input.
    Input,
    /// The capabilities.
    Capability,
    /// The seed and the start time.
    Start,
    /// Requests, started programs and refused attempts.
    HostCall,
    /// The output.
    Output,
    /// The resources used.
    Cost,
}

impl RunPart {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            RunPart::Skill => "skill",
            RunPart::Runtime => "runtime",
            RunPart::Input => "input",
            RunPart::Capability => "capabilities",
            RunPart::Start => "seed or start time",
            RunPart::HostCall => "host calls",
            RunPart::Output => "output",
            RunPart::Cost => "resource usage",
        }
    }

    fn of(field: &str) -> RunPart {
        let is = |parts: &[&str]| parts.iter().any(|part| field.starts_with(part));
        match field {
            "program.arguments" => RunPart::Input,
            _ if is(&["skill", "program"]) => RunPart::Skill,
            _ if is(&["version", "runtime"]) => RunPart::Runtime,
            _ if is(&["input"]) => RunPart::Input,
            _ if is(&["grant.capabilities.determinism"]) => RunPart::Start,
            _ if is(&["grant"]) => RunPart::Capability,
            _ if is(&[
                "exchanges",
                "result.requests",
                "result.processes",
                "result.host_programs",
                "result.denials",
                "result.limits_hit",
            ]) =>
            {
                RunPart::HostCall
            }
            _ if is(&["result.cost"]) => RunPart::Cost,
            _ => RunPart::Output,
        }
    }
}

/// Returns all differences between two runs, by part of the run. Leaves out digests of other
/// fields, since those fields show the difference.
pub fn differences_by_part(one: &Value, other: &Value) -> Vec<(RunPart, Difference)> {
    let mut found = Vec::new();
    walk(String::new(), Some(one), Some(other), &mut found);
    let summaries =
        ["grant.digest", "input.files.digest", "result.files.digest", "program.arguments"];
    let count = found.len();
    let mut parts: Vec<(RunPart, Difference)> =
        found.into_iter().map(|difference| (RunPart::of(&difference.field), difference)).collect();
    if count > 1 {
        parts.retain(|(_, difference)| !summaries.contains(&difference.field.as_str()));
    }
    // Within a part in the order of the receipt, except that exchanges come before what is derived
    // from them.
    parts.sort_by_key(|(part, difference)| (*part, !difference.field.starts_with("exchanges")));
    parts
}

fn walk(field: String, receipt: Option<&Value>, here: Option<&Value>, found: &mut Vec<Difference>) {
    match (receipt, here) {
        (Some(one), Some(other)) if one == other => {}
        // An output that is not text is an object too, with base64.
        (Some(Value::Object(one)), Some(Value::Object(other))) if !field.ends_with(".head") => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                walk(below(&field, key), one.get(key), other.get(key), found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                walk(format!("{field}[{index}]"), one.get(index), other.get(index), found);
            }
        }
        (one, other) => {
            let bytes = if field.ends_with(".head") {
                one.zip(other).and_then(|(one, other)| first_bytes(&raw(one)?, &raw(other)?))
            } else {
                None
            };
            found.push(Difference { field, receipt: one.cloned(), here: other.cloned(), bytes });
        }
    }
}

fn below(field: &str, key: &str) -> String {
    let plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    match (field.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{field}.{key}"),
        (_, false) => format!("{field}[{key:?}]"),
    }
}

/// Decodes an output, as outcomes encode it.
fn raw(output: &Value) -> Option<Vec<u8>> {
    match output {
        Value::String(text) => Some(text.clone().into_bytes()),
        other => {
            base64::engine::general_purpose::STANDARD.decode(other.get("base64")?.as_str()?).ok()
        }
    }
}

/// Returns the first difference of two outputs; the end of the shorter one counts.
fn first_bytes(one: &[u8], other: &[u8]) -> Option<ByteDifference> {
    let offset =
        one.iter().zip(other).position(|(a, b)| a != b).unwrap_or(one.len().min(other.len()));
    let around = |bytes: &[u8]| {
        bytes[offset.saturating_sub(AROUND)..bytes.len().min(offset + AROUND)]
            .escape_ascii()
            .to_string()
    };
    (one != other).then(|| ByteDifference { offset, receipt: around(one), here: around(other) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_have_fields_and_causes_come_first() {
        let one = json!({ "result": { "status": 1, "list": [1, 2], "same": {} }, "skill": { "digest": "a" }, "input": { "files": { "/w/a b": "x" } } });
        let other = json!({ "result": { "status": 2, "list": [1], "same": {}, "new": null }, "skill": { "digest": "b" }, "input": { "files": {} } });
        let found = differences(&one, &other);
        let fields: Vec<&str> = found.iter().map(|difference| difference.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "skill.digest",
                "input.files[\"/w/a b\"]",
                "result.status",
                "result.list[1]",
                "result.new"
            ]
        );
        let about: Vec<DifferenceKind> = found.iter().map(Difference::kind).collect();
        assert_eq!(
            about[..3],
            [DifferenceKind::Skill, DifferenceKind::Conditions, DifferenceKind::Result]
        );
        assert_eq!(differences(&one, &one), []);
    }

    #[test]
    fn the_first_differing_bytes_are_shown() {
        let head = |head: Value| json!({ "result": { "stdout": { "head": head } } });
        let bytes = |one: Value, other: Value| {
            differences(&head(one), &head(other)).pop().unwrap().bytes.unwrap()
        };
        let long = "a line of the output, and another one\n";
        let found = bytes(json!(format!("{long}x\u{1b}[1m")), json!(format!("{long}y\u{1b}[1m")));
        assert_eq!(
            found,
            ByteDifference {
                offset: 38,
                receipt: "and another one\\nx\\x1b[1m".into(),
                here: "and another one\\ny\\x1b[1m".into()
            }
        );
        assert_eq!(
            bytes(json!("ab"), json!("a")),
            ByteDifference { offset: 1, receipt: "ab".into(), here: "a".into() }
        );
        assert_eq!(bytes(json!({ "base64": "//4=" }), json!("a")).receipt, "\\xff\\xfe");
    }
}
