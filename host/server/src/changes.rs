//! Notifies clients when skills are added, removed or changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Shared;
use super::session::{ActivatedBy, Session};
use super::skills::parts;
use skillhost_catalog::Changes;

/// Notifies every session, and lists the tools of changed skills again if they are activated.
pub(super) async fn tell(shared: &Arc<Shared>, changes: &Changes) {
    let Changes { skills, files, all } = changes;
    tracing::info!(skills = skills.len(), files = files.len(), all, "skills changed");
    // The component of a changed skill may be a different one.
    let touched: BTreeSet<&str> =
        skills.iter().chain(files.iter().map(|(skill, _)| skill)).map(String::as_str).collect();
    for session in shared.sessions() {
        let active: Vec<String> = session
            .state()
            .active
            .keys()
            .filter(|name| *all || touched.contains(name.as_str()))
            .cloned()
            .collect();
        let mut differ = false;
        for name in active {
            differ |= list_again(shared, &session, &name).await;
        }
        if differ {
            session.tools_changed().await;
        }
        session.lists_changed().await;
        let is_changed = |uri: &str| {
            let Some((skill, path)) = parts(uri) else { return false };
            if shared.conceals(&session, skill) {
                return false;
            }
            *all || skills.iter().any(|name| name == skill)
                || files.contains(&(skill.to_owned(), path))
        };
        session.updated(is_changed).await;
    }
}

/// Lists the tools of an activated skill again, without running it. Tools that only a run can list
/// appear when the skill is activated again. Returns whether the tools have changed.
async fn list_again(shared: &Shared, session: &Session, name: &str) -> bool {
    let tools = match shared.entry_in(session, name).and_then(|entry| shared.load(&entry).ok()) {
        Some(skill) => shared.known_tools(&skill).await.ok().map(Option::unwrap_or_default),
        None => None,
    };
    let mut state = session.state();
    let Some(tools) = tools else { return state.active.remove(name).is_some() };
    let Some(active) = state.active.get_mut(name) else { return false };
    let tools = match active.by {
        ActivatedBy::Policy => shared.tools_from_start(session, name, tools),
        ActivatedBy::Agent | ActivatedBy::User => shared.tools_for_agents(name, tools),
    };
    let differ = active.tools != tools;
    active.tools = tools;
    differ
}
