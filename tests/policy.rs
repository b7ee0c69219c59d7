//! The operator's policy, and how it combines with a skill's requests.

mod cases;
mod disclosure;
mod entries;
mod grants;
mod properties;
mod test_cases;

use std::path::Path;

use skillhost_policy::capabilities::{Capabilities, Mount, MountMode, PathAccess};
use skillhost_policy::manifest::{Manifest, ToolEntry};
use skillhost_policy::pattern::Destination;
use skillhost_policy::{Grant, Overrides, Policy, grant, load};

/// A skill that requests these entries; `None`: without `allowed-tools`.
fn skill(entries: Option<&[&str]>) -> Manifest {
    let entry = |text: &&str| ToolEntry { text: (*text).to_owned(), span: None };
    Manifest {
        name: "demo".into(),
        description: "d".into(),
        allowed_tools: entries.map(|e| e.iter().map(entry).collect()),
        ..Manifest::default()
    }
}

fn asks(entries: &[&str]) -> Manifest {
    skill(Some(entries))
}

/// Parses a valid policy file.
fn policy(text: &str) -> Policy {
    load(Path::new("policy.yaml"), text, Some(Path::new("/home/op")))
        .unwrap_or_else(|e| panic!("{:#?}", e.diagnostics))
}

/// The built-in policy with a workspace.
fn builtin() -> Policy {
    with_workspace(Policy::builtin(), MountMode::Write)
}

fn with_workspace(policy: Policy, mode: MountMode) -> Policy {
    policy
        .with_command_line(Overrides {
            workspace: Some(("/host/work".into(), mode)),
            ..Overrides::default()
        })
        .unwrap()
}

fn granted(entries: &[&str], policy: &Policy) -> Grant {
    grant(&asks(entries), policy)
}

/// Returns what the mount that holds a path allows; nothing outside every mount.
fn access(c: &Capabilities, path: &str) -> PathAccess {
    let holds = |m: &&Mount| path == m.guest || path.starts_with(&format!("{}/", m.guest));
    c.mounts.iter().find(holds).map_or(PathAccess::None, |m| c.path_access(m, path))
}

fn may_spawn(c: &Capabilities, command: &str) -> bool {
    let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
    c.spawn.allows_command(&argv)
}

/// Checks whether a request to a public address of this host is allowed.
fn may_fetch(c: &Capabilities, url: &str) -> bool {
    c.fetch.allows(|p| p.matches(&target(url)))
}

/// The same if the host resolves to a private address.
fn may_fetch_private(c: &Capabilities, url: &str) -> bool {
    c.fetch.allows(|p| p.private && p.matches(&target(url)))
}

fn target(url: &str) -> Destination {
    let (scheme, rest) = url.split_once("://").unwrap();
    let https = scheme == "https";
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !port.ends_with(']') => {
            (host, port.parse().unwrap())
        }
        _ => (rest, if https { 443 } else { 80 }),
    };
    Destination { https, host: host.trim_matches(['[', ']']).to_owned(), port }
}
