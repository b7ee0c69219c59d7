//! Reports of scanners about a skill: SARIF files that the operator names.
//!
//! A report counts only if it says which content it is about: a run whose `automationDetails.id`
//! contains the skill's digest, or whose `artifacts` name every file of the skill with its SHA-256.
//! A report inside the skill never counts: the author of the skill could have written it.

use std::collections::BTreeMap;

use serde::Deserialize;
use skillhost_policy::require::ScanLevel;

use crate::digest::{Digest, Listing};

/// The most bytes of a report.
pub const MAX_BYTES: u64 = 32 << 20;

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
    tool: Tool,
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
    #[serde(default)]
    suppressions: Vec<Suppression>,
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
    let runs = report.runs.iter().filter(|run| run.is_about(files));
    let mut worst = None;
    for run in runs {
        let Some(results) = &run.results else {
            return Err("a run of it did not finish".to_owned());
        };
        let levels = results.iter().filter(|finding| !finding.is_suppressed());
        let level = levels.map(|finding| run.level(finding)).max().unwrap_or_default();
        worst = worst.max(Some(level));
    }
    worst.ok_or_else(|| format!("no run of it names the digest sha256:{}", files.digest()))
}

impl Run {
    fn is_about(&self, files: &Listing) -> bool {
        let named = self.automation_details.as_ref().and_then(|details| details.id.as_deref());
        let digest = format!("sha256:{}", files.digest());
        named.is_some_and(|id| id.split('/').any(|part| part == digest)) || self.names(files)
    }

    /// Checks whether the artifacts are all files, with their digests.
    fn names(&self, files: &Listing) -> bool {
        let has = |(path, digest): (&String, &Digest)| {
            self.artifacts.iter().any(|artifact| {
                let uri = artifact.location.as_ref().and_then(|location| location.uri.as_deref());
                let hash = artifact.hashes.get("sha-256").map(|hash| hash.to_ascii_lowercase());
                uri == Some(path.as_str()) && hash.as_deref() == Some(&digest.to_string())
            })
        };
        !files.0.is_empty() && self.artifacts.len() == files.0.len() && files.0.iter().all(has)
    }

    /// Returns the level of a finding: its own, or that of its rule. An unknown one counts as the
    /// worst.
    fn level(&self, finding: &Finding) -> ScanLevel {
        // Only a failure has a level.
        if finding.kind.as_deref().is_some_and(|kind| kind != "fail") {
            return ScanLevel::None;
        }
        let components = || std::iter::once(&self.tool.driver).chain(&self.tool.extensions);
        let of_rule = || {
            let rules = components().flat_map(|component| &component.rules);
            let rule =
                rules.filter(|rule| rule.id.is_some()).find(|rule| rule.id == finding.rule_id);
            rule.and_then(|rule| rule.default_configuration.as_ref()?.level.clone())
        };
        match finding.level.clone().or_else(of_rule).as_deref() {
            // The default of SARIF.
            None => ScanLevel::Warning,
            Some(level) => ScanLevel::parse(level).unwrap_or(ScanLevel::Error),
        }
    }
}

impl Finding {
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
        let mut old = report(&id(), json!([]));
        old["version"] = json!("2.0.0");
        for report in [unfinished, old, json!({}), json!([])] {
            assert!(worst_of(&report).is_err(), "{report}");
        }
    }
}
