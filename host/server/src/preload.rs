//! Activates skills at the start of a session, if the policy says so. This shows tools, and grants
//! nothing.

use super::Shared;
use super::session::Session;
use skillhost_catalog::CatalogEntry;
use skillhost_policy::Preload;

impl Shared {
    /// Activates the skills that the policy names, once per session, and returns their names.
    ///
    /// Skips skills that are disabled or blocked, and those from outside the user's and the
    /// operator's own folders: a project's skill must not get into a session by using a well-known
    /// name.
    pub(super) async fn preload<'a>(&self, session: &'a Session) -> &'a [String] {
        if self.policy.preload == Preload::Nothing {
            return &[];
        }
        session.preloaded.get_or_init(|| self.activate_first(session)).await
    }

    async fn activate_first(&self, session: &Session) -> Vec<String> {
        let wanted = match &self.policy.preload {
            Preload::Nothing => Vec::new(),
            Preload::Suggested => self.usage.suggested_skills(),
            Preload::Named(names) => names.clone(),
        };
        // Checked now, because a server may run for a long time.
        let enabled = match self.approvals.enabled_filter(&self.policy) {
            Ok(enabled) => enabled,
            Err(error) => {
                tracing::warn!(%error, "cannot preload skills");
                return Vec::new();
            }
        };
        let mut active = Vec::new();
        for name in wanted {
            let entry = self.entry(&name).filter(|entry: &CatalogEntry| {
                entry.trusted && enabled(&entry.name, entry.network)
            });
            let Some(skill) = entry.and_then(|entry| self.load(&entry).ok()) else {
                tracing::warn!(
                    skill = name,
                    "not preloaded: missing, disabled, blocked, untrusted, or cannot be loaded"
                );
                continue;
            };
            match self.known_tools(&skill).await {
                Ok(tools) => {
                    if tools.is_none() {
                        tracing::warn!(
                            skill = name,
                            "preloaded without typed tools: its component does not list them"
                        );
                    }
                    let tools = tools.unwrap_or_default();
                    session.state().active.insert(name.clone(), tools);
                    active.push(name);
                }
                Err(why) => {
                    tracing::warn!(skill = name, why = %self.hidden.text(&why), "not preloaded")
                }
            }
        }
        active
    }
}
