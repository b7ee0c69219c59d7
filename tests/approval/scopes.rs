//! Levels for one workspace, and levels and approvals that end by themselves.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use skillhost_ledger::approval::{LevelScope, Workspace};

use super::*;

fn with_workspace(folder: &Path) -> Run {
    let policy = policy("", |flags| {
        flags.workspace = Some((folder.to_owned(), MountMode::Write));
    });
    Run { policy, ..writing() }
}

fn set(place: &Place, level: PermissionLevel, scope: &LevelScope) {
    let digest = place.skill().digest().unwrap();
    let part = SkillPart::Skill;
    place
        .approvals()
        .set_level_in("report", &part, Some(level), Some(&digest), "ada", scope)
        .unwrap();
}

fn only_in(folder: &Path) -> LevelScope {
    LevelScope { workspace: Some(Workspace::of(folder).unwrap()), until: None }
}

fn until(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp::now() + SignedDuration::from_secs(seconds))
}

fn folder(place: &Place, name: &str) -> PathBuf {
    let folder = place.0.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn level_for_a_workspace_applies_there_only() {
    let place = Place::new("");
    let (mine, other) = (folder(&place, "mine"), folder(&place, "other"));
    set(&place, PermissionLevel::AutoApproved, &only_in(&mine));
    assert_eq!(place.decide(&with_workspace(&mine)), allowed());
    place.asks(&with_workspace(&other));
    set(&place, PermissionLevel::Blocked, &only_in(&other));
    place.refused(&with_workspace(&other));
    assert_eq!(place.decide(&with_workspace(&mine)), allowed());
    // The level for every workspace is a setting of its own.
    set(&place, PermissionLevel::Enabled, &LevelScope::default());
    assert_eq!(place.decide(&with_workspace(&mine)), allowed());
    set(&place, PermissionLevel::Disabled, &LevelScope::default());
    place.refused(&with_workspace(&mine));
}

#[test]
fn allowing_level_does_not_follow_a_replaced_workspace() {
    let place = Place::new("");
    let mine = folder(&place, "mine");
    set(&place, PermissionLevel::AutoApproved, &only_in(&mine));
    let moved = place.0.path().join("moved");
    std::fs::rename(&mine, &moved).unwrap();
    place.asks(&with_workspace(&moved));
    std::fs::create_dir(&mine).unwrap();
    place.asks(&with_workspace(&mine));
}

#[test]
fn denying_level_follows_a_moved_workspace() {
    let place = Place::new("");
    let mine = folder(&place, "mine");
    set(&place, PermissionLevel::Blocked, &only_in(&mine));
    let moved = place.0.path().join("moved");
    std::fs::rename(&mine, &moved).unwrap();
    place.refused(&with_workspace(&moved));
    std::fs::create_dir(&mine).unwrap();
    place.refused(&with_workspace(&mine));
}

#[test]
fn level_of_a_workspace_disables_a_skill_there() {
    let place = Place::new("");
    let mine = folder(&place, "mine");
    set(&place, PermissionLevel::Disabled, &only_in(&mine));
    let enabled =
        |run: &Run| place.approvals().enabled_filter(&run.policy).unwrap()("report", false);
    assert!(!enabled(&with_workspace(&mine)));
    assert!(enabled(&harmless()));
}

#[test]
fn levels_and_approvals_end_at_their_time() {
    let place = Place::new("");
    set(&place, PermissionLevel::AutoApproved, &LevelScope { workspace: None, until: until(3600) });
    assert_eq!(place.decide(&writing()), allowed());
    set(&place, PermissionLevel::AutoApproved, &LevelScope { workspace: None, until: until(-1) });
    let (id, _) = place.asks(&writing());
    assert!(place.approvals().levels().unwrap().is_empty(), "it is over");
    place.approvals().approve_until(id, Term::Always, until(3600), "ada").unwrap();
    assert_eq!(place.decide(&writing()), allowed());
    place.approvals().revoke("report").unwrap();
    let (id, _) = place.asks(&writing());
    place.approvals().approve_until(id, Term::Always, until(-1), "ada").unwrap();
    place.asks(&writing());
}

#[test]
fn restricting_level_holds_in_folders_inside_and_without_access_to_files() {
    let place = Place::new("allowed-tools: Bash Read(/skill/**)\n");
    let mine = folder(&place, "mine");
    set(&place, PermissionLevel::Blocked, &only_in(&mine));
    place.refused(&with_workspace(&mine));
    let inside = mine.join("inside");
    std::fs::create_dir(&inside).unwrap();
    let run = with_workspace(&mine);
    let narrower = run.policy.clone().with_narrower_workspace(
        inside.clone(),
        MountMode::Write,
        "inside".into(),
    );
    place.refused(&Run { policy: narrower, ..run });
    place.refused(&with_workspace(&inside));
}

#[test]
fn level_for_a_time_does_not_replace_one_without_an_end() {
    let place = Place::new("");
    set(&place, PermissionLevel::Blocked, &LevelScope::default());
    let (part, level) = (SkillPart::Skill, Some(PermissionLevel::Enabled));
    let scope = LevelScope { workspace: None, until: until(3600) };
    let refused = place.approvals().set_level_in("report", &part, level, None, "ada", &scope);
    assert!(matches!(refused, Err(ApprovalError::PermanentLevel)), "{refused:?}");
    place.refused(&harmless());
}

#[test]
fn rejected_request_is_not_shown_as_an_approval() {
    let place = Place::new("");
    let (id, first) = place.asks(&writing());
    place.approvals().deny(id, "ada").unwrap();
    let (_, again) = place.asks(&writing());
    assert_eq!(first, again);
}
