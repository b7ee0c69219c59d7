//! The approval questions that operators read: for the skills of this repository, and for
//! third-party manifests. `BLESS=1` rewrites the expectations.

use std::path::PathBuf;

use skillhost_ledger::approval::{
    ApprovalRequest, Approvals, PermissionLevel, RunDecision, RunInput, SkillPart,
};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::{Policy, grant};
use skillhost_skill::{SizeLimits, Skill};

use super::policy;
use crate::cli::{pinned, repository};

/// Third-party manifests, each with a policy.
const MANIFESTS: [(&str, &str, &str); 7] = [
    ("reads-and-writes", "allowed-tools: Read Write Bash\n", "allow: [Read, Write, Bash]"),
    (
        "some-commands",
        "allowed-tools: Read, Bash(git status:*), Bash(jq:*), Bash(python3 scripts/fill.py)\n",
        "allow: [Read, Bash]",
    ),
    (
        "narrower-than-asked",
        "allowed-tools: [Read, Write, Bash]\n",
        "allow: [Read(reports/**), Write(reports/*.pdf), 'Bash(python3:*)']",
    ),
    (
        "neither-holds-the-other",
        "allowed-tools: Read(data/**) Write(**/*.csv)\n",
        "allow: ['Read(**/*.csv)', Write(data/**)]",
    ),
    (
        "what-is-denied",
        "allowed-tools: Read Write Bash\n",
        "allow: [Read, Write, Bash]\n  deny: [Read(.env), Write(.git/**), 'Bash(rm:*)']",
    ),
    (
        "network",
        "allowed-tools: WebFetch(domain:api.example.com) WebFetch(domain:*.example.org) WebFetch(domain:localhost:8080)\n",
        "allow: [WebFetch, WebFetch(domain:localhost:8080)]\n  env: [TOKEN=secret]",
    ),
    ("nothing", "", "allow: [Read]"),
];

/// Returns the question about an untrusted skill, which always needs approval.
fn text(skill: &Skill, part: &SkillPart, policy: &Policy) -> String {
    let place = tempfile::tempdir().unwrap();
    let approvals = Approvals::open(&place.path().join("approvals.db"));
    // A skill that asks for network access is disabled by default.
    approvals
        .set_level(&skill.name, &SkillPart::Skill, Some(PermissionLevel::Enabled), None, "ada")
        .unwrap();
    let capabilities = grant(&skill.policy_manifest(), policy).capabilities;
    let ask = ApprovalRequest {
        skill,
        digest: "sha256:...",
        part,
        capabilities: &capabilities,
        needs_approval: false,
        trusted: false,
        session_folder: None,
        session: "one",
        input: RunInput::default(),
    };
    match approvals.decide(policy, &ask).unwrap() {
        RunDecision::NeedsApproval(_, question) => question.client,
        other => panic!("{}: {other:?}", skill.name),
    }
}

#[test]
fn questions_list_the_permissions() {
    let work = |flags: &mut skillhost_policy::Overrides| {
        flags.workspace = Some(("/srv/work".into(), MountMode::Write))
    };
    let mut texts = Vec::new();
    let mut folders: Vec<PathBuf> = std::fs::read_dir(repository("skills"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.retain(|folder| folder.join("SKILL.md").exists());
    folders.sort();
    assert!(folders.len() >= 12, "skills are missing");
    let wide = "default:\n  allow: [Read, Write, Bash, WebFetch]\n";
    for folder in folders {
        let skill = Skill::load(&folder, &SizeLimits::default()).unwrap();
        texts.push(text(&skill, &SkillPart::Skill, &policy(wide, work)));
    }
    for (name, asks, grants) in MANIFESTS {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(
            folder.join("SKILL.md"),
            format!("---\nname: {name}\ndescription: One of the tests.\n{asks}---\n"),
        )
        .unwrap();
        let skill = Skill::load(&folder, &SizeLimits::default()).unwrap();
        texts.push(text(
            &skill,
            &SkillPart::Program("scripts/fill.py".into()),
            &policy(&format!("default:\n  {grants}\n"), work),
        ));
    }
    pinned(&repository("tests/cases").join("approvals.txt"), &(texts.join("\n\n") + "\n")).unwrap();
}
