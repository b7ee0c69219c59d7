//! The server's metrics, in the text format of Prometheus.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use skillhost::service::ServiceLoad;
use skillhost_policy::disclosure::Disclosure;
use skillhost_policy::outcome::Outcome;

/// Upper bounds of the buckets of the duration histogram, in seconds.
const BUCKETS: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// The most skills with metrics of their own; all others share those of `other`.
const SKILLS: usize = 1_000;

pub(super) struct Metrics {
    registry: Registry,
    skills: Mutex<BTreeSet<String>>,
    invocations: Family<Ending, Counter>,
    seconds: Family<Label, Histogram>,
    fuel: Family<Label, Counter>,
    memory: Family<Label, Number>,
    last_used: Family<Label, Number>,
    denials: Family<Refusal, Counter>,
    activations: Family<Activation, Counter>,
    answers: Family<Answer, Counter>,
    running: Number,
    waiting: Number,
    reserved: Number,
    sessions: Number,
}

// Not the default type, which is signed.
type Number = Gauge<u64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    skill: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ending {
    skill: String,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    skill: String,
    /// What the rule is about. The rule itself may name paths and hosts.
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Activation {
    skill: String,
    disclosure: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    skill: String,
    answer: &'static str,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Metrics {
            registry: Registry::default(),
            skills: Mutex::default(),
            invocations: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            fuel: Family::default(),
            memory: Family::default(),
            last_used: Family::default(),
            denials: Family::default(),
            activations: Family::default(),
            answers: Family::default(),
            running: Number::default(),
            waiting: Number::default(),
            reserved: Number::default(),
            sessions: Number::default(),
        };
        metrics.registered()
    }
}

impl Metrics {
    /// Registers every metric. The registry adds `_total` to the names of counters, and a full stop
    /// to each help text.
    fn registered(mut self) -> Metrics {
        let registry = &mut self.registry;
        registry.register(
            "skillhost_invocations",
            "Runs of a skill's programs and tools, by status",
            self.invocations.clone(),
        );
        registry.register(
            "skillhost_invocation_seconds",
            "Duration of a run, including the time in the queue",
            self.seconds.clone(),
        );
        registry.register("skillhost_fuel", "Fuel used, if it is counted", self.fuel.clone());
        registry.register(
            "skillhost_memory_peak_bytes",
            "The highest linear memory of a run so far",
            self.memory.clone(),
        );
        registry.register(
            "skillhost_last_used_timestamp_seconds",
            "When a run last ended, in seconds since 1970",
            self.last_used.clone(),
        );
        registry.register(
            "skillhost_denials",
            "Denied attempts of guests, by what the rule is about",
            self.denials.clone(),
        );
        registry.register(
            "skillhost_activations",
            "Instructions that were sent, by how the skill was disclosed",
            self.activations.clone(),
        );
        registry.register(
            "skillhost_approval_answers",
            "Answers of clients' users to requests for approval",
            self.answers.clone(),
        );
        for (name, help, gauge) in [
            ("skillhost_queue_running", "Runs in progress", &self.running),
            ("skillhost_queue_waiting", "Runs in the queue", &self.waiting),
            ("skillhost_queue_memory_bytes", "Reserved memory", &self.reserved),
            ("skillhost_sessions", "Sessions, and requests without one", &self.sessions),
        ] {
            registry.register(name, help, gauge.clone());
        }
        self
    }

    /// Counts a run that ended, with its outcome if it has one.
    pub(super) fn ended(
        &self,
        skill: &str,
        status: &'static str,
        took: Duration,
        outcome: Option<&Outcome>,
    ) {
        let skill = self.label(skill);
        self.invocations.get_or_create(&Ending { skill: skill.clone(), status }).inc();
        let Some(Outcome { usage, denials, .. }) = outcome else { return };
        for denial in denials {
            let refusal = Refusal { skill: skill.clone(), kind: denial.kind.name() };
            self.denials.get_or_create(&refusal).inc();
        }
        let label = Label { skill };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_used.get_or_create(&label).set(now.as_secs());
        self.seconds.get_or_create(&label).observe(took.as_secs_f64());
        self.fuel.get_or_create(&label).inc_by(usage.fuel.unwrap_or(0));
        self.memory.get_or_create(&label).inner().fetch_max(usage.memory_peak, Ordering::Relaxed);
    }

    /// Counts that the instructions of a skill were sent.
    pub(super) fn activated(&self, skill: &str, disclosure: Disclosure) {
        let activation = Activation { skill: self.label(skill), disclosure: disclosure.name() };
        self.activations.get_or_create(&activation).inc();
    }

    /// Counts the answer of a client's user to a request for approval.
    pub(super) fn answered(&self, skill: &str, is_approved: bool) {
        let answer = if is_approved { "approved" } else { "rejected" };
        self.answers.get_or_create(&Answer { skill: self.label(skill), answer }).inc();
    }

    /// Returns the label of a skill.
    fn label(&self, skill: &str) -> String {
        let mut skills = self.skills.lock().unwrap_or_else(PoisonError::into_inner);
        if !skills.contains(skill) {
            if skills.len() >= SKILLS {
                return "other".to_owned();
            }
            skills.insert(skill.to_owned());
        }
        skill.to_owned()
    }

    pub(super) fn text(&self, load: ServiceLoad, sessions: usize) -> String {
        self.running.set(load.running as u64);
        self.waiting.set(load.waiting as u64);
        self.reserved.set(load.memory);
        self.sessions.set(sessions as u64);
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry) {
            tracing::error!(%error, "cannot write the metrics");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost_policy::outcome::{Denial, DenialKind};

    const IDLE: ServiceLoad = ServiceLoad { running: 0, waiting: 0, memory: 0 };

    #[test]
    fn metrics_are_counted_by_skill() {
        let metrics = Metrics::default();
        let mut outcome = Outcome::default();
        outcome.usage.memory_peak = 5;
        outcome.denials.push(Denial {
            what: "read /etc/shadow".into(),
            rule: "no entry".into(),
            fix: None,
            kind: DenialKind::Path,
        });
        metrics.activated("a\"b", Disclosure::Always);
        metrics.answered("a\"b", false);
        metrics.ended("a\"b", "exited", Duration::from_millis(60), Some(&outcome));
        metrics.ended("a\"b", "busy", Duration::ZERO, None);
        let text = metrics.text(ServiceLoad { running: 1, waiting: 2, memory: 3 }, 4);
        for line in [
            r#"skillhost_invocations_total{skill="a\"b",status="busy"} 1"#,
            r#"skillhost_invocations_total{skill="a\"b",status="exited"} 1"#,
            r#"skillhost_invocation_seconds_bucket{skill="a\"b",le="0.05"} 0"#,
            r#"skillhost_invocation_seconds_bucket{skill="a\"b",le="0.1"} 1"#,
            r#"skillhost_invocation_seconds_bucket{skill="a\"b",le="+Inf"} 1"#,
            r#"skillhost_invocation_seconds_count{skill="a\"b"} 1"#,
            r#"skillhost_memory_peak_bytes{skill="a\"b"} 5"#,
            r#"skillhost_denials_total{skill="a\"b",kind="path"} 1"#,
            r#"skillhost_activations_total{skill="a\"b",disclosure="always"} 1"#,
            r#"skillhost_approval_answers_total{skill="a\"b",answer="rejected"} 1"#,
            "# TYPE skillhost_fuel_total counter",
            "skillhost_queue_waiting 2",
            "skillhost_sessions 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_skill_name_cannot_add_lines_to_the_metrics() {
        let metrics = Metrics::default();
        metrics.ended("a\"} 1\nforged 7", "exited", Duration::ZERO, None);
        let text = metrics.text(IDLE, 0);
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
    }

    #[test]
    fn skills_beyond_the_limit_share_one_label() {
        let metrics = Metrics::default();
        for number in 0..SKILLS + 10 {
            metrics.ended(&number.to_string(), "exited", Duration::ZERO, None);
        }
        let text = metrics.text(IDLE, 0);
        let lines = text.lines().filter(|line| line.starts_with("skillhost_invocations_total{"));
        assert_eq!(lines.count(), SKILLS + 1);
        let other = r#"skillhost_invocations_total{skill="other",status="exited"} 10"#;
        assert!(text.lines().any(|line| line == other));
    }
}
