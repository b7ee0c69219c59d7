//! How the grant combines a skill's requests with the operator's policy.

use skillhost_policy::capabilities::{MountMode, PathAccess};
use skillhost_policy::determinism::{DEFAULT_FUEL, Determinism, DeterminismRule};
use skillhost_policy::limits::Limit;
use skillhost_policy::manifest::{Manifest, ToolEntry, parse};
use skillhost_policy::outcome::DenialKind;
use skillhost_policy::{
    EntryDecision, Grant, Overrides, Policy, Verdict, blocking_entry, explain, grant,
};

use super::{
    access, asks, builtin, granted, may_fetch, may_fetch_private, may_spawn, policy, skill,
    with_workspace,
};

/// The permission table of the design, row by row, under the built-in policy with a network rule.
#[test]
fn each_kind_of_entry_grants_its_capability() {
    let policy = builtin()
        .with_command_line(Overrides { allow: vec!["WebFetch".into()], ..Overrides::default() })
        .unwrap();
    let (w, docs, out) = ("/workspace/a.csv", "/workspace/docs/x", "/workspace/out/x");
    use PathAccess::{None, Read, Traverse, Write};
    for (entries, expected, spawn, fetch) in [
        (&["Read"][..], [(w, Read), (docs, Read), (out, Read)], [false, false], [false, false]),
        (&["Glob"], [(w, Read), (docs, Read), (out, Read)], [false, false], [false, false]),
        (
            &["Read(docs/**)"],
            [(w, None), (docs, Read), ("/workspace", Traverse)],
            [false, false],
            [false, false],
        ),
        (
            &["Read(*.csv)"],
            [(w, Read), (docs, None), ("/workspace", Traverse)],
            [false, false],
            [false, false],
        ),
        (&["Write"], [(w, Write), (docs, Write), (out, Write)], [false, false], [false, false]),
        (
            &["Write(out/**)"],
            [(w, None), (docs, None), (out, Write)],
            [false, false],
            [false, false],
        ),
        (
            &["Read", "Write(out/**)"],
            [(w, Read), (docs, Read), (out, Write)],
            [false, false],
            [false, false],
        ),
        (&["Bash"], [(w, Write), (docs, Write), (out, Write)], [true, true], [false, false]),
        (
            &["Bash(python3:*)"],
            [(w, Write), (docs, Write), (out, Write)],
            [true, false],
            [false, false],
        ),
        (
            &["Bash(python3:*)", "Read(docs)"],
            [(w, None), (docs, Read), (out, None)],
            [true, false],
            [false, false],
        ),
        (
            &["Bash", "Raed(docs)"],
            [(w, None), (docs, None), (out, None)],
            [true, true],
            [false, false],
        ),
        (
            &["WebFetch(domain:api.example.com)"],
            [(w, None), (docs, None), (out, None)],
            [false, false],
            [true, false],
        ),
        (&["WebFetch"], [(w, None), (docs, None), (out, None)], [false, false], [true, true]),
        (
            &["WebSearch", "mcp__x__y"],
            [(w, None), (docs, None), (out, None)],
            [false, false],
            [false, false],
        ),
        (&[], [(w, None), (docs, None), (out, None)], [false, false], [false, false]),
    ] {
        let c = granted(entries, &policy).capabilities;
        for (path, want) in expected {
            assert_eq!(access(&c, path), want, "{entries:?} {path}");
        }
        assert_eq!([may_spawn(&c, "python3 x.py"), may_spawn(&c, "sh x.sh")], spawn, "{entries:?}");
        assert_eq!(
            [may_fetch(&c, "https://api.example.com"), may_fetch(&c, "https://other.example")],
            fetch,
            "{entries:?}"
        );
        assert!(!may_fetch(&c, "http://api.example.com"), "the operator's WebFetch is HTTPS alone");
    }
}

#[test]
fn built_in_policy_grants_only_files_and_programs() {
    let c = grant(&skill(None), &builtin()).capabilities;
    assert_eq!(access(&c, "/workspace/x"), PathAccess::Write);
    assert!(may_spawn(&c, "python3 x.py"));
    assert!(!may_fetch(&c, "https://example.com"));
    assert!(c.env.is_empty());
    let c = grant(&skill(None), &Policy::builtin()).capabilities;
    assert!(c.mounts.is_empty(), "no workspace is configured");
}

#[test]
fn read_only_workspace_is_never_writable() {
    let result = granted(&["Write"], &with_workspace(Policy::builtin(), MountMode::Read));
    assert_eq!(access(&result.capabilities, "/workspace/x"), PathAccess::Read);
    assert_eq!(result.decisions[0].verdict, Verdict::Narrowed);
    assert!(result.decisions[0].rule.contains("--workspace"), "{:?}", result.decisions);
}

#[test]
fn mounts_without_matching_entries_are_narrowed_or_omitted() {
    let read = granted(&["Read(docs)"], &builtin()).capabilities;
    assert_eq!(read.mounts[0].mode, MountMode::Read);
    assert!(granted(&["Read(/data/**)"], &builtin()).capabilities.mounts.is_empty());
    assert!(granted(&["WebSearch"], &builtin()).capabilities.mounts.is_empty());
}

#[test]
fn disallowed_tools_deny_what_is_allowed() {
    let deny = |allowed: Option<&[&str]>, entries: &[&str]| {
        let disallowed_tools =
            entries.iter().map(|text| ToolEntry { text: (*text).into(), span: None }).collect();
        grant(&Manifest { disallowed_tools, ..skill(allowed) }, &builtin()).capabilities
    };
    let everything = deny(None, &[]);
    assert_eq!(access(&everything, "/workspace/secrets/key"), PathAccess::Write);
    assert!(may_spawn(&everything, "rm x") && may_spawn(&everything, "jq ."));
    for allowed in [None, Some(&["Read", "Write", "Bash"][..])] {
        let c = deny(allowed, &["Read(secrets/**)", "Write(out/**)", "Bash(rm:*)", "Task"]);
        assert_eq!(access(&c, "/workspace/secrets/key"), PathAccess::None);
        assert_eq!(access(&c, "/workspace/out/x"), PathAccess::Read);
        assert_eq!(access(&c, "/workspace/x"), PathAccess::Write);
        assert!(!may_spawn(&c, "rm x") && may_spawn(&c, "jq ."));
    }
}

#[test]
fn unenforceable_denial_denies_the_whole_tool() {
    for (entry, spawn, read) in [
        ("Bash(rm -rf *.log)", false, true),
        ("bash", false, true),
        ("Read(~/x)", true, false),
        ("Task", true, true),
        ("*", false, false),
        ("ALL", false, false),
    ] {
        let disallowed_tools = vec![ToolEntry { text: entry.into(), span: None }];
        let c = grant(&Manifest { disallowed_tools, ..skill(None) }, &builtin()).capabilities;
        assert_eq!(may_spawn(&c, "jq ."), spawn, "{entry}");
        assert_eq!(access(&c, "/workspace/x") != PathAccess::None, read, "{entry}");
    }
}

#[test]
fn skill_with_misspelt_permission_key_is_granted_nothing() {
    let policy = policy(
        "default: { allow: [Read, Bash, WebFetch], env: [A=b], mounts: [{ host: x, guest: /data }] }",
    );
    let grant_of = |key: &str| {
        let text = format!(
            "---\nname: x\ndescription: Does a thing.\n{key}: Read(docs/**)\nmetadata: {{ component: x.wasm }}\n---\n"
        );
        let manifest = parse(text.as_bytes(), "x", "SKILL.md").manifest.unwrap();
        assert_eq!(manifest.component.as_deref(), Some("x.wasm"), "the skill still runs");
        grant(&manifest, &policy)
    };
    let unrelated = grant_of("tools").capabilities;
    assert!(
        !unrelated.spawn.is_empty() && !unrelated.mounts.is_empty(),
        "without allowed-tools, the policy decides"
    );
    for key in ["alowed-tools", "allowed_tools", "disallowedTools"] {
        let result = grant_of(key);
        let c = &result.capabilities;
        assert!(c.mounts.is_empty() && c.env.is_empty() && c.methods.is_empty(), "{key}");
        assert!(
            c.read.is_empty() && c.write.is_empty() && c.spawn.is_empty() && c.fetch.is_empty(),
            "{key}"
        );
        assert!(
            result.decisions.iter().all(|decision| decision.verdict == Verdict::Refused),
            "{key}"
        );
    }
}

#[test]
fn skill_with_broken_frontmatter_is_granted_nothing() {
    let mut manifest = asks(&["Read", "Bash"]);
    manifest.recovered = true;
    let policy = policy(
        "default: { allow: [Read, Bash, WebFetch], env: [A=b], mounts: [{ host: x, guest: /data }] }",
    );
    let result = grant(&manifest, &policy);
    let c = &result.capabilities;
    assert!(c.mounts.is_empty() && c.env.is_empty() && c.methods.is_empty());
    assert!(c.read.is_empty() && c.write.is_empty() && c.spawn.is_empty() && c.fetch.is_empty());
    assert_eq!(result.decisions.len(), 2);
    assert!(result.decisions.iter().all(|d| d.verdict == Verdict::Refused));
}

#[test]
fn deny_overrides_allow_in_every_layer() {
    let text = "default: { allow: [Read, Write, Bash, WebFetch] }\nskills: { d*: { deny: [Read(secret/**), Write(log), Bash(rm:*), WebFetch(domain:evil.example)] } }";
    let flags = Overrides {
        allow: vec!["Read(secret/**)".into(), "WebFetch(https://evil.example:8443)".into()],
        ..Overrides::default()
    };
    let c = grant(
        &skill(None),
        &with_workspace(policy(text), MountMode::Write).with_command_line(flags).unwrap(),
    )
    .capabilities;
    assert_eq!(access(&c, "/workspace/secret/x"), PathAccess::None);
    assert_eq!(access(&c, "/workspace/log/x"), PathAccess::Read);
    assert_eq!(access(&c, "/workspace/x"), PathAccess::Write);
    assert!(may_spawn(&c, "ls") && !may_spawn(&c, "rm -rf x") && !may_spawn(&c, "/bin/rm x"));
    assert!(may_fetch(&c, "https://good.example"));
    assert!(!may_fetch(&c, "https://evil.example") && !may_fetch(&c, "https://evil.example:8443"));
}

#[test]
fn allowing_programs_grants_no_files() {
    for allow in ["\"Bash(jq:*)\"", "Bash"] {
        let alone =
            with_workspace(policy(&format!("default: {{ allow: [{allow}] }}")), MountMode::Write);
        for asked in
            [None, Some(&["Bash"][..]), Some(&["Bash(jq:*)"]), Some(&["Bash", "Read", "Write"])]
        {
            let result = grant(&skill(asked), &alone);
            let c = &result.capabilities;
            assert!(may_spawn(c, "jq ."), "{allow} {asked:?}");
            assert_eq!(access(c, "/workspace/x"), PathAccess::None, "{allow} {asked:?}");
            assert!(c.mounts.is_empty(), "{allow} {asked:?}");
            let files = result.decisions.iter().find(|decision| decision.entry.starts_with("Bash"));
            assert!(
                files.is_none_or(|decision| !decision
                    .meaning
                    .contains("write every mounted folder")),
                "{files:?}"
            );
        }
    }
    // Files are granted only if the policy allows them, and a skill that requests only programs
    // requests those files too.
    let read = with_workspace(
        policy("default: { allow: [\"Bash(jq:*)\", Read(docs/**)] }"),
        MountMode::Write,
    );
    let c = granted(&["Bash(jq:*)"], &read).capabilities;
    assert_eq!(
        [access(&c, "/workspace/docs/x"), access(&c, "/workspace/x")],
        [PathAccess::Read, PathAccess::None]
    );
}

#[test]
fn denial_applies_to_every_alias_of_a_program() {
    let c = |deny: &str| {
        let policy = policy(&format!("default: {{ allow: [Bash], deny: [\"{deny}\"] }}"));
        grant(&skill(None), &policy).capabilities
    };
    for deny in [
        "Bash(python3:*)",
        "Bash(python)",
        "Bash(python3.11 *)",
        "Bash(/usr/bin/python3:*)",
        "Bash(pypy3:*)",
    ] {
        let c = c(deny);
        for command in
            ["python3 x.py", "python x.py", "python3.14", "/opt/venv/bin/python -m http.server"]
        {
            assert!(!may_spawn(&c, command), "{deny}: {command}");
        }
        assert!(may_spawn(&c, "sh x.sh") && may_spawn(&c, "pythonic"), "{deny}");
    }
    assert!(
        !may_spawn(&c("Bash(dash:*)"), "bash x.sh") && !may_spawn(&c("Bash(fgrep:*)"), "grep x")
    );
    // The explanation says so.
    let denied = policy("default: { allow: [Bash], deny: [\"Bash(python3:*)\"] }");
    for (asked, verdict) in [
        ("Bash(python:*)", Verdict::Refused),
        ("Bash(python3.11 -m json.tool)", Verdict::Refused),
        ("Bash(scripts/x.py:*)", Verdict::Narrowed),
        ("Bash", Verdict::Narrowed),
        ("Bash(jq:*)", Verdict::Granted),
    ] {
        let d = granted(&[asked, "Read"], &denied).decisions.remove(0);
        assert_eq!(d.verdict, verdict, "{d:?}");
    }
}

#[test]
fn sections_apply_only_to_skills_of_their_name() {
    let policy = policy("skills: { other: { allow: [Bash] }, de*: { allow: [\"Bash(jq:*)\"] } }");
    let c = grant(&skill(None), &policy).capabilities;
    assert!(may_spawn(&c, "jq .") && !may_spawn(&c, "sh"));
}

#[test]
fn wildcards_never_allow_private_addresses() {
    let c = granted(
        &["WebFetch"],
        &policy("default: { allow: [WebFetch, \"WebFetch(domain:*.example.com)\"] }"),
    )
    .capabilities;
    assert!(
        may_fetch(&c, "https://a.example.com") && !may_fetch_private(&c, "https://a.example.com")
    );
    let c = granted(
        &["WebFetch"],
        &policy("default: { allow: [\"WebFetch(http://localhost:3000)\"] }"),
    )
    .capabilities;
    assert!(
        may_fetch_private(&c, "http://localhost:3000")
            && !may_fetch_private(&c, "http://localhost:3001")
    );
}

#[test]
fn refused_private_address_suggests_an_explicit_entry() {
    let result =
        granted(&["WebFetch(domain:127.0.0.1)"], &policy("default: { allow: [WebFetch] }"));
    assert_eq!(result.decisions[0].verdict, Verdict::Refused, "{:?}", result.decisions);
}

#[test]
fn refusals_name_the_rule_and_the_line_that_allows() {
    let entry = "WebFetch(domain:api.example.com)";
    let d = granted(&[entry], &builtin()).decisions.remove(0);
    assert_eq!(
        (d.verdict, d.rule.as_str()),
        (Verdict::Refused, "no `allow` of the built-in policy")
    );
    assert_eq!(
        d.fix.as_deref(),
        Some(
            r#"--allow 'WebFetch(domain:api.example.com)', or in a policy file: skills: { demo: { allow: ["WebFetch(domain:api.example.com)"] } }"#
        )
    );
    // Following the advice works, in both ways.
    let flag = Overrides { allow: vec![entry.into()], ..Overrides::default() };
    let with_flag = builtin().with_command_line(flag).unwrap();
    assert_eq!(granted(&[entry], &with_flag).decisions[0].verdict, Verdict::Granted);
    let line = d.fix.unwrap().split("in a policy file: ").nth(1).unwrap().to_owned();
    assert_eq!(granted(&[entry], &policy(&line)).decisions[0].verdict, Verdict::Granted);

    let denied = policy("default:\n  allow: [Bash]\n  deny:\n    - Bash(rm:*)\n");
    let d = granted(&["Bash(rm x)", "Read"], &denied).decisions.remove(0);
    assert_eq!(
        (d.verdict, d.rule.as_str(), d.fix),
        (Verdict::Refused, "blocked by `Bash(rm:*)` in policy.yaml:4:7", None)
    );
    let d = granted(&["mcp__web__search"], &builtin()).decisions.remove(0);
    assert!(
        d.verdict == Verdict::Refused && d.meaning.contains("entries can be enforced"),
        "{d:?}"
    );
}

#[test]
fn verdicts_distinguish_full_and_partial_grants() {
    let policy = with_workspace(
        policy(
            "default: { allow: [Read(docs/**), Write(out), \"Bash(git:*)\", \"WebFetch(domain:*.example.com)\"] }",
        ),
        MountMode::Write,
    );
    for (entry, verdict) in [
        ("Read(docs/api/*.md)", Verdict::Granted),
        ("Read", Verdict::Narrowed),
        ("Read(src)", Verdict::Refused),
        ("Write(out/a.txt)", Verdict::Granted),
        ("Write(docs)", Verdict::Narrowed),
        ("Write(src)", Verdict::Refused),
        ("Bash(git commit:*)", Verdict::Narrowed), // alone it asks for all files too
        ("Bash(rm:*)", Verdict::Narrowed),         // and gets some of these
        ("Bash", Verdict::Narrowed),
        ("WebFetch(domain:a.example.com)", Verdict::Granted),
        ("WebFetch(domain:a.example.com:8443)", Verdict::Refused),
        ("WebFetch", Verdict::Narrowed),
        ("Read({baseDir}/x)", Verdict::Granted),
        ("Write(/tmp/x)", Verdict::Granted),
        ("Write(/skill/x)", Verdict::Narrowed),
    ] {
        let d = granted(&[entry], &policy).decisions.remove(0);
        assert_eq!(d.verdict, verdict, "{d:?}");
    }
    let together = granted(&["Read(docs)", "Bash(git commit:*)", "Bash(rm:*)"], &policy).decisions;
    assert_eq!(
        together.iter().map(|d| d.verdict).collect::<Vec<_>>(),
        [Verdict::Granted, Verdict::Granted, Verdict::Refused]
    );
}

#[test]
fn decision_notes_that_no_folder_is_mounted() {
    let d = granted(&["Read(docs/**)"], &Policy::builtin()).decisions.remove(0);
    assert!(d.meaning.contains("no folder is mounted there"), "{d:?}");
    assert_eq!(d.fix.as_deref(), Some("--workspace DIR"));
}

#[test]
fn only_the_operator_raises_limits() {
    let text = "limits: { timeout: 2m, memory: 1GiB }\nskills: { demo: { limits: { timeout: 90s, files: 7 } }, d*: { limits: { timeout: 80s, files: 9 } } }";
    let mut manifest = asks(&[]);
    manifest.limits = [
        (Limit::Timeout, 1_000_000),
        (Limit::Memory, 1 << 20),
        (Limit::Fuel, 5),
        (Limit::Files, 1),
    ]
    .into();
    let result = grant(&manifest, &policy(text));
    let limits = &result.capabilities.limits;
    assert_eq!(
        (limits.timeout_ms, limits.memory, limits.fuel, limits.files),
        (80_000, 1 << 20, Some(5), 7)
    );
    assert_eq!(result.decisions.len(), 1);
    let d = &result.decisions[0];
    assert!(
        d.verdict == Verdict::Narrowed
            && d.meaning.contains("1m 20s")
            && d.rule.contains("policy.yaml:2:"),
        "{d:?}"
    );

    let flags = Overrides {
        limits: vec![(Limit::Timeout, 500_000), (Limit::Fuel, 4)],
        ..Overrides::default()
    };
    let limits =
        grant(&manifest, &policy(text).with_command_line(flags).unwrap()).capabilities.limits;
    assert_eq!((limits.timeout_ms, limits.fuel), (500_000, Some(4)));
}

#[test]
fn values_of_variables_are_never_printed() {
    let mut policy = policy("default: { env: [TOKEN=hunter2, HOST_ONE, ABSENT] }");
    policy.resolve_env(|name| (name == "HOST_ONE").then(|| "hunter3".into()));
    let result = grant(&asks(&[]), &policy);
    let env = &result.capabilities.env;
    assert_eq!(
        (env["TOKEN"].as_str(), env["HOST_ONE"].as_str(), env.len()),
        ("hunter2", "hunter3", 2)
    );
    assert_eq!(result.decisions[0].entry, "env ABSENT");
    for shown in [
        explain(&result, 100),
        serde_json::to_string(&result).unwrap(),
        format!("{result:?}"),
        format!("{policy:?}"),
    ] {
        assert!(shown.contains("TOKEN") && !shown.contains("hunter"), "{shown}");
    }
}

#[test]
fn method_lists_narrow_the_default_methods() {
    let all = granted(&["WebFetch"], &builtin()).capabilities.methods;
    assert_eq!(all, ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]);
    let text = "default: { methods: [GET, POST] }\nskills: { demo: { methods: [GET, PUT] } }";
    assert_eq!(granted(&["WebFetch"], &policy(text)).capabilities.methods, ["GET"]);
}

#[test]
fn symlinks_are_allowed_by_one_layer_and_forbidden_by_any() {
    let mount = "allow: [Read, Write], mounts: [{ host: /a, guest: /data, mode: write }]";
    let allowed = |default: &str, section: &str| {
        let text = format!("default: {{ {mount}{default} }}\nskills: {{ demo: {{ {section} }} }}");
        grant(&skill(None), &policy(&text)).capabilities.mounts[0].symlinks
    };
    for (default, section, expected) in [
        ("", "", false),
        (", symlinks: true", "", true),
        ("", "symlinks: true", true),
        (", symlinks: true", "symlinks: false", false),
        (", symlinks: false", "symlinks: true", false),
    ] {
        assert_eq!(allowed(default, section), expected, "{default} {section}");
    }
    let text = "default: { allow: [Read], symlinks: true, mounts: [{ host: /a, guest: /data }] }";
    let read_only = grant(&skill(None), &policy(text));
    assert!(!read_only.capabilities.mounts[0].symlinks);
    let text = text.replace("[Read]", "[Write]").replace("/data }", "/data, mode: write }");
    let shown = explain(&grant(&skill(None), &policy(&text)), 110);
    assert!(shown.contains("/data = /a (read-write, with symlinks)"), "{shown}");
    // A section for a folder that is named by its path does not grant anything.
    let section = &policy("skills: { demo: { symlinks: true } }").layers[1];
    assert!(!section.only_restricts());
    assert!(policy("skills: { demo: { symlinks: false } }").layers[1].only_restricts());
}

#[test]
fn workspace_flag_replaces_the_mount_or_reports_an_overlap() {
    let text = "default: { allow: [Read], mounts: [{ host: /a, guest: /workspace }] }";
    let c = grant(&skill(None), &with_workspace(policy(text), MountMode::Read)).capabilities;
    assert_eq!((c.mounts.len(), c.mounts[0].host.to_str()), (1, Some("/host/work")));
    let inside = policy("default: { mounts: [{ host: /a, guest: /workspace/inner }] }");
    let flags =
        Overrides { workspace: Some(("/host".into(), MountMode::Read)), ..Overrides::default() };
    assert_eq!(inside.with_command_line(flags).unwrap_err()[0].rule, "policy-mount");
}

#[test]
fn invalid_flags_are_all_reported() {
    let flags = Overrides {
        allow: vec!["bash".into()],
        deny: vec!["WebFetch(x)".into()],
        env: vec!["1=2".into()],
        ..Overrides::default()
    };
    let errors = Policy::builtin().with_command_line(flags).unwrap_err();
    let files: Vec<&str> = errors.iter().map(|d| d.file.as_str()).collect();
    assert_eq!(files, ["--allow", "--deny", "--env"]);
}

#[test]
fn control_characters_in_entries_are_escaped() {
    let result = granted(
        &["Read(\u{1b}]0;x\u{7})", "\u{202e}Bash", "WebFetch(domain:\u{1b}[1m)"],
        &builtin(),
    );
    let shown = explain(&result, 80);
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown:?}");
}

#[test]
fn explanation_shows_entries_then_capabilities() {
    let policy = with_workspace(
        policy("default: { allow: [Read, \"Bash(jq:*)\"], deny: [Read(.env)] }"),
        MountMode::Read,
    );
    let shown = explain(&granted(&["Read(docs/**)", "Bash(jq .)", "WebSearch"], &policy), 110);
    for part in [
        "Read(docs/**)",
        "granted",
        "refused",
        "policy.yaml:1:",
        "/workspace = /host/work (read-only)",
        "except: /workspace/.env",
        "programs   ┆ jq . ",
        "timeout 1m",
    ] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 110), "{shown}");
}

#[test]
fn deterministic_runs_have_fuel_and_flags_override_the_file() {
    let text = "deterministic: true\nseed: 3\nskills: { live: { deterministic: false }, demo: { start-time: 2030-01-01T00:00:00Z } }";
    let flags = |rule| {
        policy(text)
            .with_command_line(Overrides { determinism: rule, ..Overrides::default() })
            .unwrap()
    };
    let granted = grant(&asks(&[]), &flags(DeterminismRule::default())).capabilities;
    assert_eq!(granted.determinism, Some(Determinism { seed: 3, start_time: 1_893_456_000 }));
    assert_eq!(granted.limits.fuel, Some(DEFAULT_FUEL));
    let live = Manifest { name: "live".into(), ..asks(&[]) };
    let granted = grant(&live, &flags(DeterminismRule::default())).capabilities;
    assert_eq!((granted.determinism, granted.limits.fuel), (None, None));
    let flag = DeterminismRule { on: Some(true), seed: Some(9), start_time: None };
    assert_eq!(
        grant(&live, &flags(flag)).capabilities.determinism,
        Some(Determinism { seed: 9, ..Determinism::default() })
    );
    let mut lower = asks(&[]);
    lower.limits = [(Limit::Fuel, 5)].into();
    assert_eq!(grant(&lower, &flags(flag)).capabilities.limits.fuel, Some(5));
}

#[test]
fn missing_entry_is_suggested_for_the_side_that_lacks_it() {
    let allowing = |entries: &[&str]| {
        let allow = entries.iter().map(|entry| (*entry).to_owned()).collect();
        with_workspace(builtin(), MountMode::Write)
            .with_command_line(Overrides { allow, ..Overrides::default() })
            .unwrap()
    };
    let narrow = policy(
        "default: { allow: [\"Write(out/**)\"], mounts: [{ host: /w, guest: /workspace, mode: write }] }",
    );
    for (asked, policy, expected) in [
        (&["Read"][..], allowing(&[]), "add `Write(new.txt)` to allowed-tools in SKILL.md"),
        (&["Write(new.txt)"], narrow.clone(), "--allow 'Write(new.txt)'"),
        // The skill's requests overlap with nothing that the policy allows.
        (&["Write(data/**)", "Write(new.txt)"], narrow.clone(), "--allow 'Write(new.txt)'"),
        (
            &["Read"],
            narrow,
            "--allow 'Write(new.txt)', and `Write(new.txt)` in allowed-tools of SKILL.md",
        ),
    ] {
        let write = grant(&asks(asked), &policy).capabilities.write;
        let missing = write.missing_entry(|glob| glob.matches("/workspace/new.txt"));
        assert_eq!(missing.unwrap().fix("Write(new.txt)"), expected, "{asked:?}");
    }
    let write = grant(&asks(&["Write"]), &allowing(&[])).capabilities.write;
    assert_eq!(write.missing_entry(|glob| glob.matches("/workspace/new.txt")), None);
}

/// The operator's message about a denial names the deciding entry; the guest's message does not.
#[test]
fn blocking_entry_is_named_with_its_place() {
    let policy = policy("default:\n  deny: [Bash, Write(a.txt), 'WebFetch(domain:x.test)']\n");
    let skill = Manifest {
        disallowed_tools: vec![ToolEntry { text: "Read(b.txt)".into(), span: None }],
        ..asks(&["Read"])
    };
    let capabilities = grant(&skill, &policy).capabilities;
    let named = |kind| blocking_entry(&skill, &policy, &kind);
    let denial = capabilities.spawn.none_of[0].denial(&["python3".into()]);
    assert_eq!(denial.rule, "the policy denies `Bash`");
    assert_eq!(named(denial.kind).unwrap(), "blocked by `Bash` in policy.yaml:2:10");
    let write = capabilities.write.none_of.iter().find(|glob| glob.pattern().contains("a.txt"));
    assert_eq!(
        named(DenialKind::DeniedPath(Box::new(write.unwrap().clone()))).unwrap(),
        "blocked by `Write(a.txt)` in policy.yaml:2:16"
    );
    assert_eq!(
        named(DenialKind::DeniedPath(Box::new(capabilities.read.none_of[0].clone()))).unwrap(),
        "blocked by `Read(b.txt)` in the skill's disallowed-tools"
    );
    let host =
        DenialKind::DeniedHost("x.test".into(), Box::new(capabilities.fetch.none_of[0].clone()));
    assert_eq!(named(host).unwrap(), "blocked by `WebFetch(domain:x.test)` in policy.yaml:2:30");
    assert_eq!(named(DenialKind::Program), None);
}

/// `--allow` never lifts a denial, so it is never suggested, even if nothing is allowed.
#[test]
fn a_denied_entry_suggests_no_allow() {
    let policy = policy("default:\n  deny: [Bash]\n");
    let decision = grant(&asks(&["Bash(python3:*)"]), &policy).decisions.remove(0);
    assert_eq!(
        decision.rule.split(';').next().unwrap(),
        "programs: blocked by `Bash` in policy.yaml:2:10"
    );
    assert!(!decision.fix.unwrap_or_default().contains("Bash"), "{:?}", decision.rule);
}

#[test]
fn blocking_section_is_named_with_its_place() {
    let policy = policy("skills:\n  tdd-*:\n    approval: blocked\n");
    assert_eq!(
        policy.approval_block("tdd-guide").unwrap(),
        "blocked by `tdd-*` in policy.yaml:2:3"
    );
    assert_eq!(policy.approval_block("other"), None);
}

/// Returns the grant of a skill on a host that asks for approval.
fn with_client_names(entries: &[&str]) -> Grant {
    granted(entries, &builtin().with_client_names())
}

#[test]
fn names_of_other_clients_grant_nothing_without_approval() {
    let names = ["run_shell_command", "read_file", "write_file", "web_fetch", "Shell", "bash"];
    let grant = granted(&names, &builtin());
    assert_eq!(grant.capabilities, granted(&[], &builtin()).capabilities);
    assert!(!grant.needs_approval);
    let refused = |decision: &EntryDecision| decision.verdict == Verdict::Refused;
    assert!(grant.decisions.iter().all(refused), "{:?}", grant.decisions);
    assert_eq!(grant.decisions[0].meaning, "Gemini CLI calls `Bash` by this name");
    assert_eq!(grant.decisions[0].fix.as_deref(), Some("in SKILL.md: Bash"));
}

#[test]
fn names_of_other_clients_request_what_our_names_do() {
    for (theirs, ours) in [
        (&["read_file"][..], &["Read"][..]),
        (&["search_file_content", "edit_file"], &["Grep", "Edit"]),
        (&["bash"], &["Bash"]),
        (&["run_shell_command", "read_file"], &["Bash", "Read"]),
        (&["bash", "Read(docs/**)"], &["Bash", "Read(docs/**)"]),
    ] {
        let grant = with_client_names(theirs);
        assert_eq!(grant.capabilities, granted(ours, &builtin()).capabilities, "{theirs:?}");
        assert!(grant.needs_approval, "{theirs:?}");
    }
    let decision = &with_client_names(&["read_file"]).decisions[0];
    assert_eq!((&*decision.entry, decision.verdict), ("read_file", Verdict::Approval));
    assert_eq!(
        decision.meaning,
        "read every mounted folder, if the run is approved (`read_file` is Codex's name for `Read`)"
    );
}

#[test]
fn names_of_other_clients_take_nothing_away() {
    let own = granted(&["Bash"], &builtin()).capabilities;
    let grant = with_client_names(&["Bash", "read_file"]);
    assert!(may_spawn(&grant.capabilities, "ls"));
    assert_eq!(access(&grant.capabilities, "/workspace/a"), access(&own, "/workspace/a"));
    assert!(!grant.needs_approval, "`Bash` already requests files");
    assert_eq!(grant.decisions[1].verdict, Verdict::Granted);
}

#[test]
fn names_of_other_clients_with_arguments_grant_nothing() {
    for entry in ["Shell(git)", "read_file(docs/**)", "web_fetch(domain:example.com)"] {
        let grant = with_client_names(&[entry]);
        assert_eq!(grant.decisions[0].verdict, Verdict::Refused, "{entry}");
        assert!(!grant.needs_approval, "{entry}");
    }
}

#[test]
fn ambiguous_and_unenforceable_names_say_so() {
    let meaning = |entry: &str| with_client_names(&[entry]).decisions[0].meaning.clone();
    assert!(meaning("read").starts_with("clients use this name for different tools"));
    assert!(meaning("search").starts_with("clients use this name for different tools"));
    assert!(meaning("WebSearch").starts_with("no rule can enforce which hosts"));
    assert!(meaning("TodoWrite").starts_with("it is a tool of the client (Claude Code)"));
}

#[test]
fn skill_can_disallow_tools_by_names_of_other_clients() {
    let manifest = Manifest {
        disallowed_tools: vec![ToolEntry { text: "run_shell_command".into(), span: None }],
        ..asks(&["Bash", "Read"])
    };
    let grant = grant(&manifest, &builtin());
    assert!(!may_spawn(&grant.capabilities, "ls"));
}

#[test]
fn nothing_exceeds_the_ceiling() {
    let policy = policy(
        "ceiling: { timeout: 2m, memory: 64MiB, fuel: 1000, stack: 2MiB, state: 1MiB }
limits: { timeout: 1m }
skills: { demo: { limits: { memory: 1GiB, state: 2MiB } } }",
    );
    let flags = Overrides { limits: vec![(Limit::Timeout, 300_000)], ..Overrides::default() };
    let policy = policy.with_command_line(flags).unwrap();
    let grant = grant(&asks(&["Read"]), &policy);
    let limits = &grant.capabilities.limits;
    assert_eq!((limits.timeout_ms, limits.memory, limits.state), (120_000, 64 << 20, 1 << 20));
    assert_eq!((limits.fuel, limits.stack), (Some(1000), Some(2 << 20)), "off or undeclared");
    let decision = grant.decisions.iter().find(|d| d.entry == "timeout: 5m").unwrap();
    assert_eq!(decision.meaning, "limited to 2m");
    assert_eq!(decision.rule, "`ceiling` at policy.yaml:1:12");
}

#[test]
fn ceiling_raises_nothing() {
    let policy = policy("ceiling: { timeout: 2m, state: 1MiB }\nlimits: { timeout: 1m }");
    let grant = grant(&asks(&["Read"]), &policy);
    assert_eq!(grant.capabilities.limits.timeout_ms, 60_000);
    assert_eq!(grant.capabilities.limits.state, 0, "a ceiling grants no state");
    assert!(!grant.decisions.iter().any(|decision| decision.rule.contains("ceiling")));
}
