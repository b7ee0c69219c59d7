//! What the server counted, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use skillhost::service::ServiceLoad;
use skillhost_policy::outcome::Outcome;

/// Upper bounds of the latency histogram, in seconds.
const BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Skills with figures of their own; all further ones share those of `other`.
const SKILLS: usize = 1_000;

#[derive(Default)]
pub(super) struct Metrics(Mutex<BTreeMap<String, Skill>>);

/// Of one skill.
#[derive(Default)]
struct Skill {
    statuses: BTreeMap<&'static str, u64>,
    /// Runs that took no longer than each of the bounds.
    buckets: [u64; BUCKETS.len()],
    runs: u64,
    seconds: f64,
    fuel: u64,
    memory: u64,
    denials: u64,
}

impl Metrics {
    /// Counts a run that ended, with its outcome if it came to one.
    pub(super) fn ended(
        &self,
        skill: &str,
        status: &'static str,
        took: Duration,
        outcome: Option<&Outcome>,
    ) {
        let mut skills = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name =
            if skills.len() < SKILLS || skills.contains_key(skill) { skill } else { "other" };
        let of = skills.entry(name.to_owned()).or_default();
        *of.statuses.entry(status).or_default() += 1;
        let Some(outcome) = outcome else { return };
        let seconds = took.as_secs_f64();
        for (count, bound) in of.buckets.iter_mut().zip(BUCKETS) {
            *count += u64::from(seconds <= bound);
        }
        of.runs += 1;
        of.seconds += seconds;
        of.fuel += outcome.usage.fuel.unwrap_or(0);
        of.memory = of.memory.max(outcome.usage.memory_peak);
        of.denials += outcome.denials.len() as u64;
    }

    pub(super) fn text(&self, load: ServiceLoad, sessions: usize) -> String {
        let skills = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        family(
            &mut text,
            "skillhost_invocations_total",
            "counter",
            "Calls of a skill's programs and tools, by how they ended.",
        );
        for (skill, of) in &*skills {
            for (status, count) in &of.statuses {
                line(
                    &mut text,
                    "skillhost_invocations_total",
                    &[("skill", skill), ("status", status)],
                    count,
                );
            }
        }
        family(
            &mut text,
            "skillhost_invocation_seconds",
            "histogram",
            "Time of an invocation, the wait for its turn included.",
        );
        for (skill, of) in &*skills {
            for (bound, count) in BUCKETS.iter().zip(of.buckets) {
                line(
                    &mut text,
                    "skillhost_invocation_seconds_bucket",
                    &[("skill", skill), ("le", &bound.to_string())],
                    count,
                );
            }
            line(
                &mut text,
                "skillhost_invocation_seconds_bucket",
                &[("skill", skill), ("le", "+Inf")],
                of.runs,
            );
            line(&mut text, "skillhost_invocation_seconds_sum", &[("skill", skill)], of.seconds);
            line(&mut text, "skillhost_invocation_seconds_count", &[("skill", skill)], of.runs);
        }
        type Figure = fn(&Skill) -> u64;
        let each: [(&str, &str, &str, Figure); 3] = [
            ("skillhost_fuel_total", "counter", "Fuel burnt, where it is counted.", |of| of.fuel),
            (
                "skillhost_memory_peak_bytes",
                "gauge",
                "The highest linear memory of an invocation so far.",
                |of| of.memory,
            ),
            (
                "skillhost_denials_total",
                "counter",
                "What guests tried and were not allowed.",
                |of| of.denials,
            ),
        ];
        for (name, kind, help, value) in each {
            family(&mut text, name, kind, help);
            for (skill, of) in &*skills {
                line(&mut text, name, &[("skill", skill)], value(of));
            }
        }
        for (name, help, value) in [
            ("skillhost_queue_running", "Invocations that have their turn.", load.running as u64),
            ("skillhost_queue_waiting", "Invocations that wait for it.", load.waiting as u64),
            ("skillhost_queue_memory_bytes", "Memory that is promised.", load.memory),
            ("skillhost_sessions", "Sessions, and requests that stand alone.", sessions as u64),
        ] {
            family(&mut text, name, "gauge", help);
            line(&mut text, name, &[], value);
        }
        text
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
    let quoted =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(text, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_told_by_skill() {
        let metrics = Metrics::default();
        let mut outcome = Outcome::default();
        outcome.usage.memory_peak = 5;
        metrics.ended("a\"b", "exited", Duration::from_millis(60), Some(&outcome));
        metrics.ended("a\"b", "busy", Duration::ZERO, None);
        let text = metrics.text(ServiceLoad { running: 1, waiting: 2, memory: 3 }, 4);
        for line in [
            r#"skillhost_invocations_total{skill="a\"b",status="busy"} 1"#,
            r#"skillhost_invocations_total{skill="a\"b",status="exited"} 1"#,
            r#"skillhost_invocation_seconds_bucket{skill="a\"b",le="0.05"} 0"#,
            r#"skillhost_invocation_seconds_bucket{skill="a\"b",le="0.1"} 1"#,
            r#"skillhost_invocation_seconds_bucket{skill="a\"b",le="+Inf"} 1"#,
            r#"skillhost_memory_peak_bytes{skill="a\"b"} 5"#,
            "skillhost_queue_waiting 2",
            "skillhost_sessions 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn skills_without_end_share_one_line() {
        let metrics = Metrics::default();
        for number in 0..SKILLS + 10 {
            metrics.ended(&number.to_string(), "exited", Duration::ZERO, None);
        }
        assert_eq!(metrics.0.lock().unwrap().len(), SKILLS + 1);
        assert_eq!(metrics.0.lock().unwrap()["other"].statuses["exited"], 10);
    }
}
