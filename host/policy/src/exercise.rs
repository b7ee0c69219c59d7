//! Any text through every parser of the policy: the body of a fuzz target.

use std::path::Path;

use super::entry::{Side, parse};
use super::{Overrides, Policy, explain, grant, load};
use crate::diagnostic;
use crate::manifest::{Manifest, ToolEntry};

/// Reads a text as entries, a line each, and as a policy file; meets the two; explains the result.
///
/// # Panics
/// Where a parser, the grant or its explanation does, or where the grant breaks a promise: never
/// more folders or variables than the policy has, and no control character of the input in what is
/// shown.
pub fn exercise(text: &str) {
    for side in [Side::Asked, Side::Allow, Side::Deny] {
        for line in text.lines() {
            parse(line, side);
        }
    }
    let policy = match load(Path::new("policy.yaml"), text, None) {
        Ok(policy) => policy,
        Err(error) => {
            assert!(!error.diagnostics.is_empty(), "a policy is refused for a reason");
            diagnostic::render(&error.diagnostics, &error.source_text);
            Policy::builtin()
        }
    };
    let lines = || text.lines().map(str::to_owned);
    // Only what the command line's own reader takes gets further.
    let usable = |flag: fn(String) -> Overrides| {
        lines().map(flag).filter(|o| policy.clone().with_command_line(o.clone()).is_ok())
    };
    let allow = usable(|entry| Overrides { allow: vec![entry], ..Overrides::default() })
        .flat_map(|o| o.allow)
        .collect();
    let deny = usable(|entry| Overrides { deny: vec![entry], ..Overrides::default() })
        .flat_map(|o| o.deny)
        .take(2)
        .collect();
    let Ok(policy) =
        policy.clone().with_command_line(Overrides { allow, deny, ..Overrides::default() })
    else {
        return;
    };
    let entries = lines().map(|text| ToolEntry { text, span: None }).collect();
    let manifest = Manifest {
        name: lines().next().unwrap_or_default(),
        allowed_tools: Some(entries),
        ..Manifest::default()
    };
    let result = grant(&manifest, &policy);
    let all = grant(&Manifest { allowed_tools: None, ..manifest.clone() }, &policy);
    assert!(
        result.capabilities.mounts.len() <= all.capabilities.mounts.len(),
        "a skill sees no folder that the policy does not show"
    );
    assert_eq!(
        result.capabilities.env, all.capabilities.env,
        "variables are the policy's alone to give"
    );
    let shown = explain(&result, 80);
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
}
