//! In what two receipts differ.

use base64::Engine as _;
use serde::Serialize;
use serde_json::Value;

/// A place where two receipts are not the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The field, such as `result.stdout.digest`; a name with other characters in brackets.
    pub field: String,
    /// What the receipt says there; `None`: nothing.
    pub receipt: Option<Value>,
    /// What was found here; `None`: nothing.
    pub here: Option<Value>,
    /// Where it is an output whose bytes are known: the first that differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteDifference>,
}

/// The first bytes in which two outputs differ, with some before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ByteDifference {
    /// Where the first of them is.
    pub offset: usize,
    /// The receipt's, from some bytes before that place, escaped as in Rust.
    pub receipt: String,
    /// Those found here.
    pub here: String,
}

/// What a difference is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The skill, and so what ran.
    Skill,
    /// What it ran in, was allowed and was given.
    Conditions,
    /// What it came to.
    Result,
}

/// Shown of bytes before and after the first that differs.
const AROUND: usize = 16;

/// All differences, what decides before what follows from it.
pub fn differences(receipt: &Value, here: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(String::new(), Some(receipt), Some(here), &mut found);
    found.retain(|difference| !is_about_the_place(difference, &receipt["skill"], &here["skill"]));
    let rank = |difference: &Difference| {
        ORDER.iter().position(|part| difference.field.starts_with(part)).unwrap_or(ORDER.len())
    };
    found.sort_by_key(rank);
    found
}

/// Whether a difference is only about where the skill lay, or how an earlier version named it: it
/// had the declared name for `name`, and no source.
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

/// Causes come before their effects: the skill, then what it was given, then what it came to.
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
    /// What it is about.
    pub fn kind(&self) -> DifferenceKind {
        match self.field.split('.').next() {
            // They follow from what it was given.
            Some("program") if self.field == "program.arguments" => DifferenceKind::Conditions,
            Some("skill" | "program") => DifferenceKind::Skill,
            Some("result") => DifferenceKind::Result,
            _ => DifferenceKind::Conditions,
        }
    }
}

/// A part of a run, in the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunPart {
    /// What ran.
    Skill,
    /// What it ran in.
    Runtime,
    /// What it was given.
    Input,
    /// What it was allowed.
    Capability,
    /// Seed and start time.
    Start,
    /// What it asked of the host: requests, programs, and what was refused.
    HostCall,
    /// What it put out.
    Output,
    /// What that cost.
    Cost,
}

impl RunPart {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            RunPart::Skill => "the skill",
            RunPart::Runtime => "what it ran in",
            RunPart::Input => "the input",
            RunPart::Capability => "the capabilities",
            RunPart::Start => "seed or start time",
            RunPart::HostCall => "the host calls",
            RunPart::Output => "the output",
            RunPart::Cost => "the cost",
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

/// All differences of two runs, with the part of the run that each is in, in the order of the
/// parts. What is a digest over other fields is left out: these tell it.
pub fn differences_by_part(one: &Value, other: &Value) -> Vec<(RunPart, Difference)> {
    let mut found = Vec::new();
    walk(String::new(), Some(one), Some(other), &mut found);
    let over = ["grant.digest", "input.files.digest", "result.files.digest", "program.arguments"];
    let told = found.len();
    let mut parts: Vec<(RunPart, Difference)> =
        found.into_iter().map(|difference| (RunPart::of(&difference.field), difference)).collect();
    if told > 1 {
        parts.retain(|(_, difference)| !over.contains(&difference.field.as_str()));
    }
    // Within a part as they come in a receipt; what left the host before the account of it.
    parts.sort_by_key(|(part, difference)| (*part, !difference.field.starts_with("exchanges")));
    parts
}

fn walk(field: String, receipt: Option<&Value>, here: Option<&Value>, found: &mut Vec<Difference>) {
    match (receipt, here) {
        (Some(one), Some(other)) if one == other => {}
        // An output that is no text is an object too, of base64.
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

/// The bytes of an output, as an outcome writes them.
fn raw(output: &Value) -> Option<Vec<u8>> {
    match output {
        Value::String(text) => Some(text.clone().into_bytes()),
        other => {
            base64::engine::general_purpose::STANDARD.decode(other.get("base64")?.as_str()?).ok()
        }
    }
}

/// Where two texts differ first; the end of one counts.
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
    fn each_difference_is_told_with_its_field_and_causes_come_first() {
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
    fn the_first_bytes_that_differ_are_shown() {
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
