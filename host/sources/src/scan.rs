//! Reports of scanners about a skill: SARIF files that the operator names.
//!
//! A report counts only if it says which content it is about: a run whose `automationDetails.id`
//! contains the skill's digest, or whose `artifacts` name every file of the skill with its SHA-256.
//! A report inside the skill never counts: the author of the skill could have written it.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use skillhost_policy::require::ScanLevel;

use crate::digest::Listing;

/// The most bytes of a report.
pub const MAX_BYTES: u64 = 32 << 20;

/// The most runs in a report. Scanners write one for each of their tools.
const MAX_RUNS: usize = 64;

#[derive(Deserialize)]
struct Report {
    version: String,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    automation_details: Option<AutomationDetails>,
    #[serde(default)]
    artifacts: Vec<Artifact>,
    /// Absent if the scan did not finish.
    results: Option<Vec<Finding>>,
    #[serde(default)]
    invocations: Vec<Invocation>,
    tool: Tool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: Option<bool>,
}

#[derive(Deserialize)]
struct AutomationDetails {
    id: Option<String>,
}

#[derive(Deserialize)]
struct Artifact {
    location: Option<Location>,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Location {
    uri: Option<String>,
}

#[derive(Deserialize)]
struct Tool {
    driver: Component,
    #[serde(default)]
    extensions: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: Option<String>,
    default_configuration: Option<Configuration>,
}

#[derive(Deserialize)]
struct Configuration {
    level: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    level: Option<String>,
    kind: Option<String>,
    rule_id: Option<String>,
    rule_index: Option<i64>,
    rule: Option<RuleReference>,
    #[serde(default)]
    suppressions: Vec<Suppression>,
}

#[derive(Deserialize)]
struct RuleReference {
    id: Option<String>,
    index: Option<i64>,
}

#[derive(Deserialize)]
struct Suppression {
    status: Option<String>,
}

/// Returns the worst finding of the runs of a report that are about exactly these files.
///
/// # Errors
/// The report is broken, or no run of it is about these files.
pub fn worst(report: &[u8], files: &Listing) -> Result<ScanLevel, String> {
    let report: Report =
        serde_json::from_slice(report).map_err(|error| format!("not a SARIF report: {error}"))?;
    if report.version != "2.1.0" {
        return Err("not a SARIF report of version 2.1.0".to_owned());
    }
    if report.runs.len() > MAX_RUNS {
        return Err(format!("it has more than {MAX_RUNS} runs"));
    }
    let digest = format!("sha256:{}", files.digest());
    let runs = report.runs.iter().filter(|run| run.is_about(files, &digest));
    let mut worst = None;
    for run in runs {
        let failed = run.invocations.iter().any(|one| one.execution_successful == Some(false));
        let Some(results) = run.results.as_ref().filter(|_| !failed) else {
            return Err("one of its runs did not finish".to_owned());
        };
        let rules = run.rules();
        let levels = results.iter().filter(|finding| !finding.is_suppressed());
        let level = levels.map(|finding| finding.worst_level(&rules)).max().unwrap_or_default();
        worst = worst.max(Some(level));
    }
    worst.ok_or_else(|| format!("none of its runs names the digest {digest}"))
}

impl Run {
    /// Checks whether the run names the digest of the skill, or all of its files.
    fn is_about(&self, files: &Listing, digest: &str) -> bool {
        let named = self.automation_details.as_ref().and_then(|details| details.id.as_deref());
        named.is_some_and(|id| id.split('/').any(|part| part == digest)) || self.names(files)
    }

    /// Checks whether the artifacts are all files, with their digests.
    fn names(&self, files: &Listing) -> bool {
        if files.0.is_empty() || self.artifacts.len() != files.0.len() {
            return false;
        }
        let hashes: BTreeMap<&str, &str> = self
            .artifacts
            .iter()
            .filter_map(|artifact| {
                let uri = artifact.location.as_ref()?.uri.as_deref()?;
                Some((uri, artifact.hashes.get("sha-256")?.as_str()))
            })
            .collect();
        files.0.iter().all(|(path, digest)| {
            let hash = hashes.get(path.as_str());
            hash.is_some_and(|hash| hash.eq_ignore_ascii_case(&digest.to_string()))
        })
    }

    /// Returns the rules of the tool by their ids.
    fn rules(&self) -> HashMap<&str, &Rule> {
        let components = std::iter::once(&self.tool.driver).chain(&self.tool.extensions);
        let rules = components.flat_map(|component| &component.rules);
        rules.filter_map(|rule| Some((rule.id.as_deref()?, rule))).collect()
    }
}

impl Finding {
    /// Returns the level: its own, or that of its rule. An unknown level counts as the worst, and so
    /// does a rule that the report does not describe by its id.
    fn worst_level(&self, rules: &HashMap<&str, &Rule>) -> ScanLevel {
        // Only a failure has a level.
        if self.kind.as_deref().is_some_and(|kind| kind != "fail") {
            return ScanLevel::None;
        }
        if let Some(level) = &self.level {
            return ScanLevel::parse(level).unwrap_or(ScanLevel::Error);
        }
        let reference = self.rule.as_ref();
        let id = self.rule_id.as_deref().or_else(|| reference?.id.as_deref());
        let index = self.rule_index.or_else(|| reference?.index);
        match id {
            // The default of SARIF.
            None if index.is_none() => ScanLevel::Warning,
            None => ScanLevel::Error,
            Some(id) => match rules.get(id) {
                None => ScanLevel::Error,
                Some(rule) => match &rule.default_configuration {
                    Some(Configuration { level: Some(level) }) => {
                        ScanLevel::parse(level).unwrap_or(ScanLevel::Error)
                    }
                    _ => ScanLevel::Warning,
                },
            },
        }
    }

    fn is_suppressed(&self) -> bool {
        let is_accepted =
            |one: &Suppression| one.status.as_deref().is_none_or(|status| status == "accepted");
        !self.suppressions.is_empty() && self.suppressions.iter().all(is_accepted)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::digest::Digest;

    fn files() -> Listing {
        Listing(
            [("SKILL.md", "x"), ("a/b.py", "y")]
                .map(|(path, text)| (path.to_owned(), Digest::of(text.as_bytes())))
                .into(),
        )
    }

    fn report(id: &str, results: Value) -> Value {
        json!({
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": { "name": "t", "rules": [
                    { "id": "R1", "defaultConfiguration": { "level": "error" } },
                ] } },
                "automationDetails": { "id": id },
                "results": results,
            }],
        })
    }

    fn worst_of(report: &Value) -> Result<ScanLevel, String> {
        worst(report.to_string().as_bytes(), &files())
    }

    fn id() -> String {
        format!("scan/sha256:{}", files().digest())
    }

    #[test]
    fn worst_finding_counts() {
        let level = |results| worst_of(&report(&id(), results)).unwrap();
        assert_eq!(level(json!([])), ScanLevel::None);
        assert_eq!(level(json!([{ "level": "note" }, { "level": "warning" }])), ScanLevel::Warning);
        assert_eq!(level(json!([{ "ruleId": "R1" }])), ScanLevel::Error);
        assert_eq!(level(json!([{}])), ScanLevel::Warning);
        for unknown in [
            json!({ "ruleId": "R2" }),
            json!({ "ruleIndex": 0 }),
            json!({ "rule": { "index": 0 } }),
        ] {
            assert_eq!(level(json!([unknown])), ScanLevel::Error);
        }
        assert_eq!(level(json!([{ "rule": { "id": "R1" } }])), ScanLevel::Error);
        assert_eq!(level(json!([{ "level": "critical" }])), ScanLevel::Error);
        assert_eq!(level(json!([{ "level": "error", "kind": "pass" }])), ScanLevel::None);
        let suppressed = json!([{ "level": "error", "suppressions": [{ "kind": "external" }] }]);
        assert_eq!(level(suppressed), ScanLevel::None);
        let rejected = json!([{ "level": "error", "suppressions": [{ "kind": "external", "status": "rejected" }] }]);
        assert_eq!(level(rejected), ScanLevel::Error);
    }

    #[test]
    fn report_must_be_about_exactly_these_files() {
        let none = json!([]);
        worst_of(&report(&id(), none.clone())).unwrap();
        let other = format!("sha256:{}", Digest::of(b"other"));
        for id in ["", "scan", &other, &id()[..70]] {
            assert!(worst_of(&report(id, none.clone())).is_err(), "{id}");
        }
        let artifact = |path: &str, digest: &Digest| json!({ "location": { "uri": path }, "hashes": { "sha-256": digest } });
        let all: Vec<Value> =
            files().0.iter().map(|(path, digest)| artifact(path, digest)).collect();
        let with = |artifacts: &[Value]| {
            let mut report = report("", none.clone());
            report["runs"][0]["artifacts"] = json!(artifacts);
            worst_of(&report)
        };
        with(&all).unwrap();
        assert!(with(&all[..1]).is_err());
        assert!(with(&[all[0].clone(), artifact("a/b.py", &Digest::of(b"z"))]).is_err());
    }

    #[test]
    fn unfinished_and_broken_reports_do_not_count() {
        let mut unfinished = report(&id(), json!([]));
        unfinished["runs"][0].as_object_mut().unwrap().remove("results");
        let mut failed = report(&id(), json!([]));
        failed["runs"][0]["invocations"] = json!([{ "executionSuccessful": false }]);
        let mut many = report(&id(), json!([]));
        many["runs"] = json!(vec![many["runs"][0].clone(); 65]);
        let mut old = report(&id(), json!([]));
        old["version"] = json!("2.0.0");
        for report in [unfinished, failed, many, old, json!({}), json!([])] {
            assert!(worst_of(&report).is_err(), "{report}");
        }
    }
}
