//! `audit show`: one record for people. `--json` prints all of it.

use serde_json::Value;
use skillhost_policy::WORKSPACE;
use skillhost_policy::diagnostic::printable;
use skillhost_policy::limits::show_size;

use crate::output;

/// A record as lines of a name and a value.
pub(super) fn text(record: &Value) -> String {
    let mut out = format!("record {}\n", word(&record["sequence"]));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            out += &format!("  {name:<10} {}\n", output::lines(&value, 13));
        }
    };
    line("time", output::seconds(&word(&record["time"])));
    line("run", word(&record["run"]));
    let user = &record["user"];
    line("user", words(&[&user["name"], &user["uid"]]));
    let session = &record["session"];
    line("session", words(&[&session["client"], &session["id"]]));
    let skill = &record["skill"];
    line("skill", words(&[&skill["name"], &skill["source"], &skill["digest"]]));
    let program = &record["program"];
    line("program", words(&[&program["name"], &program["version"], &program["component"]]));
    line("script", words(&[&program["script"]["path"], &program["script"]["digest"]]));
    line("tool", word(&program["tool"]));
    line("status", status(&record["status"]));
    line("pruned", words(&[&record["pruned"]["sequence"], &record["pruned"]["digest"]]));
    let mounts = items(&record["capabilities"]["mounts"]);
    for mount in &mounts {
        let is_workspace = mount["guest"] == WORKSPACE;
        let name = if is_workspace { "workspace" } else { "mount" };
        let guest = if is_workspace { &Value::Null } else { &mount["guest"] };
        line(name, words(&[guest, &mount["host"], &mount["mode"]]));
    }
    line("usage", usage(&record["usage"]));
    for denial in items(&record["denials"]) {
        line("denied", words(&[&denial["about"], &denial["host"], &denial["rule"]]));
    }
    for request in items(&record["requests"]) {
        let Value::Object(_) = request else { continue };
        let cached = request["cached"].as_str().map(|how| format!("cached ({how})").into());
        line(
            "request",
            words(&[
                &request["method"],
                &request["host"],
                &request["status"],
                &request["failure"],
                &cached.unwrap_or(Value::Null),
            ]),
        );
    }
    for process in items(&record["processes"]) {
        line("started", format!("{} {}", word(&process["program"]), status(&process["exit"])));
    }
    line("previous", word(&record["previous"]));
    line("digest", word(&record["digest"]));
    out
}

fn status(status: &Value) -> String {
    words(&[&status["kind"], &status["code"], &status["limit"], &status["rule"]])
}

fn usage(usage: &Value) -> String {
    let Some(wall) = usage["wall_ms"].as_f64() else { return String::new() };
    let size = |name: &str| show_size(usage[name].as_u64().unwrap_or(0));
    format!(
        "{wall:.1} ms, {} of memory, {} read, {} written",
        size("memory_peak"),
        size("bytes_read"),
        size("bytes_written")
    )
}

fn items(list: &Value) -> Vec<&Value> {
    list.as_array().into_iter().flatten().collect()
}

/// The values that are there, in a row.
fn words(values: &[&Value]) -> String {
    let texts = values.iter().map(|value| word(value)).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join(" ")
}

/// Returns a value on one line, or nothing for a missing value.
fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}
