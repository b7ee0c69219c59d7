//! Activates skills at the start of a session, if the policy says so, and lists them in the
//! server's instructions. This shows tools, and grants nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use super::Shared;
use super::session::{ActivatedBy, ActiveSkill, Session};
use skillhost_catalog::{CatalogEntry, summary};
use skillhost_policy::Preload;
use skillhost_policy::disclosure::Disclosure;
use skillhost_sandbox::Tool;

/// A skill that a session has from the start.
pub(super) struct FromStart {
    entry: CatalogEntry,
    /// Whether `preload` covers it, so that its sections need not say `always`.
    preloaded: bool,
}

/// The most skills that a session has from the start: each costs tokens in every conversation, and a
/// policy may say `always` for all skills.
const MOST: usize = 50;
/// The most characters of a skill's description in the instructions.
const SUMMARY: usize = 120;

impl Shared {
    /// Returns the skills that the session has from the start, determined once per session.
    ///
    /// Skips skills that are disabled or blocked, and those from outside the user's and the
    /// operator's own folders: a project's skill must not get into a session by using a well-known
    /// name.
    fn starting<'a>(&self, session: &'a Session) -> &'a [FromStart] {
        session.from_start.get_or_init(|| self.find_starting())
    }

    fn find_starting(&self) -> Vec<FromStart> {
        let preloaded = match &self.policy.preload {
            Preload::Nothing => Vec::new(),
            Preload::Suggested => self.usage.suggested_skills(),
            Preload::Named(names) => names.clone(),
        };
        let others = match self.policy.discloses_anything_from_start() {
            true => self.entries(),
            false => Vec::new(),
        };
        let others = others
            .iter()
            .map(|entry| (&*entry.name, false))
            .filter(|(name, _)| !preloaded.iter().any(|preloaded| preloaded == name));
        let names = preloaded.iter().map(|name| (name.as_str(), true)).chain(others);
        let wanted: Vec<(&str, bool)> = names
            .filter(|(name, preloaded)| self.policy.discloses_from_start(name, *preloaded))
            .collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        // Checked now, because a server may run for a long time.
        let enabled = match self.approvals.enabled_filter(&self.policy) {
            Ok(enabled) => enabled,
            Err(error) => {
                tracing::warn!(%error, "no skill is active from the start");
                return Vec::new();
            }
        };
        let (mut found, mut skipped) = (Vec::new(), Vec::new());
        for (name, preloaded) in wanted {
            let entry = self
                .entry(name)
                .filter(|entry| entry.trusted && enabled(&entry.name, entry.network))
                .filter(|_| found.len() < MOST);
            match entry {
                Some(entry) => found.push(FromStart { entry, preloaded }),
                None => skipped.push(name),
            }
        }
        if !skipped.is_empty() {
            let some = &skipped[..skipped.len().min(MOST)];
            tracing::warn!(
                skipped = skipped.len(),
                skills = some.join(" "),
                "not active from the start: missing, disabled, blocked, untrusted, or more than {MOST}"
            );
        }
        found
    }

    /// Activates the skills that the session has from the start, once, and returns their names.
    pub(super) async fn start<'a>(&self, session: &'a Session) -> &'a [String] {
        session.started.get_or_init(|| self.activate_first(session)).await
    }

    async fn activate_first(&self, session: &Session) -> Vec<String> {
        let mut active = Vec::new();
        for FromStart { entry, .. } in self.starting(session) {
            let name = entry.name.to_string();
            let tools = match self.load(entry) {
                Ok(skill) => self.known_tools(&skill).await,
                Err(error) => Err(error.to_string()),
            };
            match tools {
                Ok(tools) => {
                    if tools.is_none() {
                        tracing::warn!(
                            skill = name,
                            "active without typed tools: its component does not list them"
                        );
                    }
                    let tools = self.tools_from_start(session, &name, tools.unwrap_or_default());
                    let skill = ActiveSkill { tools, by: ActivatedBy::Policy };
                    session.state().active.insert(name.clone(), skill);
                    active.push(name);
                }
                Err(why) => {
                    let why = self.hidden.text(&why);
                    tracing::warn!(skill = name, %why, "not active from the start")
                }
            }
        }
        active
    }

    /// Returns the instructions with the skills that the session has from the start.
    pub(super) fn instructions(&self, session: &Session, general: &str) -> String {
        let mut text = general.to_owned();
        let always = self.starting(session).iter().filter(|skill| self.is_always(skill));
        for (at, FromStart { entry, .. }) in always.enumerate() {
            if at == 0 {
                text += "\nActive from the start:";
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "\n- {}: {}", entry.name, summary(&entry.description, SUMMARY));
        }
        text
    }

    /// Returns how a skill that agents may find is disclosed to a session.
    pub(super) fn disclosure(&self, session: &Session, name: &str) -> Disclosure {
        let always = self.starting(session).iter().filter(|skill| self.is_always(skill));
        match always.into_iter().any(|skill| *skill.entry.name == *name) {
            true => Disclosure::Always,
            false => Disclosure::Deferred,
        }
    }

    /// Checks whether the skill itself is disclosed from the start, and not only some of its tools.
    fn is_always(&self, FromStart { entry, preloaded }: &FromStart) -> bool {
        self.policy.disclosure(&entry.name, *preloaded) == Disclosure::Always
    }

    /// Returns the typed tools of a skill that the session has from the start.
    pub(super) fn tools_from_start(
        &self,
        session: &Session,
        skill: &str,
        tools: Arc<Vec<Tool>>,
    ) -> Arc<Vec<Tool>> {
        let found = self.starting(session).iter().find(|found| *found.entry.name == *skill);
        let preloaded = found.is_some_and(|found| found.preloaded);
        let disclosed = |tool: &Tool| self.policy.tool_disclosure(skill, &tool.name, preloaded);
        only(tools, |tool| disclosed(tool) == Disclosure::Always)
    }

    /// Returns the typed tools of a skill that an agent gets by activating it.
    pub(super) fn tools_for_agents(&self, skill: &str, tools: Arc<Vec<Tool>>) -> Arc<Vec<Tool>> {
        let disclosed = |tool: &Tool| self.policy.tool_disclosure(skill, &tool.name, false);
        only(tools, |tool| disclosed(tool) != Disclosure::Hidden)
    }
}

/// Returns some of the tools; the same list if it is all of them.
fn only(tools: Arc<Vec<Tool>>, shown: impl Fn(&Tool) -> bool) -> Arc<Vec<Tool>> {
    if tools.iter().all(&shown) {
        return tools;
    }
    Arc::new(tools.iter().filter(|tool| shown(tool)).cloned().collect())
}
