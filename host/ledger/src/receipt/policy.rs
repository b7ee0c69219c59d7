//! The digest of a policy: its rules, without anything that is specific to this machine.

use serde_json::{Value, json};

use super::canonical;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::{EnvValue, Layer, LimitRule, Origin, Policy, Rule};
use skillhost_skill::runtime;

/// Returns the digest of a policy's rules, in order. Leaves out host files and folders, and uses
/// digests of variables' values. Rules from the command line appear in the capabilities only, since
/// there are several ways to write the same rule.
pub fn digest(policy: &Policy) -> String {
    let authorities: Vec<&str> =
        policy.authorities.iter().map(|authority| authority.digest.as_str()).collect();
    let layers: Vec<Value> = policy
        .layers
        .iter()
        .filter(|layer| layer.origin != Origin::CommandLine)
        .map(layer)
        .collect();
    canonical::digest(&json!({ "layers": layers, "authorities": authorities }))
}

fn layer(layer: &Layer) -> Value {
    // Destructured, so that a new field does not compile until it is handled here.
    let Layer {
        origin: _,
        applies_to,
        source,
        // It decides whether a skill loads, not what its runs do.
        require: _,
        place: _,
        allow,
        deny,
        mounts,
        packages,
        env,
        methods,
        limits,
        determinism,
        approval: _,
        stage,
        symlinks,
        disclosure: _,
        tools: _,
    } = layer;
    let texts = |rules: &[Rule]| rules.iter().map(|rule| rule.text.clone()).collect::<Vec<_>>();
    let mounts: Vec<(&str, MountMode)> =
        mounts.iter().map(|rule| (rule.mount.guest.as_str(), rule.mount.mode)).collect();
    let env: Vec<(&str, Option<String>)> = env
        .iter()
        .map(|rule| match &rule.value {
            EnvValue::Literal(value) => {
                (rule.name.as_str(), Some(runtime::digest(value.as_bytes())))
            }
            EnvValue::Host | EnvValue::Unset => (rule.name.as_str(), None),
        })
        .collect();
    let limits: Vec<(&str, u64)> =
        limits.iter().map(|LimitRule { limit, value, .. }| (limit.key(), *value)).collect();
    let mut value = json!({
        "applies_to": applies_to.as_ref().map(|glob| glob.pattern()),
        "allow": texts(allow),
        "deny": texts(deny),
        "mounts": mounts,
        "packages": packages.len(),
        "env": env,
        "methods": methods,
        "limits": limits,
        "deterministic": [json!(determinism.on), json!(determinism.seed), json!(determinism.start_time)],
    });
    // Approvals and what agents see do not affect a result; where writes go does.
    if *stage {
        value["stage"] = true.into();
    }
    if let Some(symlinks) = symlinks {
        value["symlinks"] = (*symlinks).into();
    }
    if let Some(source) = source {
        value["source"] = source.as_str().into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost_policy::Overrides;

    #[test]
    fn the_policy_digest_covers_rules_but_not_folders() {
        let with = |change: fn(&mut Overrides)| {
            let mut overrides = Overrides::default();
            change(&mut overrides);
            let mut policy = Policy::builtin()
                .with_command_line(overrides)
                .unwrap_or_else(|findings| panic!("{findings:?}"));
            // As if it came from a file.
            policy.layers[1].origin = Origin::File("policy.yaml".into());
            digest(&policy)
        };
        let base = with(|o| o.workspace = Some(("/a".into(), MountMode::Write)));
        assert_eq!(base, with(|o| o.workspace = Some(("/b".into(), MountMode::Write))));
        let mut all = vec![
            base,
            with(|_| {}),
            with(|o| o.workspace = Some(("/a".into(), MountMode::Overlay))),
            with(|o| o.allow.push("WebFetch".into())),
            with(|o| o.deny.push("Write".into())),
            with(|o| o.env.push("A=1".into())),
            with(|o| o.env.push("A=2".into())),
            with(|o| o.limits.push((skillhost_policy::limits::Limit::Fuel, 1))),
            with(|o| o.determinism.on = Some(true)),
            with(|o| o.determinism.seed = Some(1)),
            {
                let mut staged = Policy::builtin();
                staged.layers[0].stage = true;
                digest(&staged)
            },
            {
                let mut linking = Policy::builtin();
                linking.layers[0].symlinks = Some(true);
                digest(&linking)
            },
        ];
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 12);
    }
}
