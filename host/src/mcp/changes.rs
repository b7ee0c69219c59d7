//! Skills came, went or changed: the clients that want to know are told.

use std::sync::Arc;

use super::Shared;

/// Tells every session, and lists the tools of changed skills again where they are activated.
pub(super) async fn tell(shared: &Arc<Shared>, names: &[String]) {
    if names.is_empty() {
        return;
    }
    tracing::info!(skills = names.len(), "skills changed");
    for session in shared.sessions() {
        let active: Vec<String> = session.state().active.keys().filter(|name| names.contains(name)).cloned().collect();
        for name in &active {
            let tools = match shared.entry(name).and_then(|entry| shared.load(&entry).ok()) {
                Some(skill) => shared.tools_of(&skill).await.ok(),
                None => None,
            };
            let mut state = session.state();
            match tools {
                Some(tools) => state.active.insert(name.clone(), tools),
                None => state.active.remove(name),
            };
        }
        if !active.is_empty() {
            session.tools_changed().await;
        }
        session.lists_changed().await;
        let of_changed =
            |uri: &str| uri.strip_prefix("skill://").is_some_and(|path| names.iter().any(|name| path.split('/').next() == Some(name)));
        session.updated(of_changed).await;
    }
}
