//! The cases of the skills that come with skillhost.

use super::{repository, test, text};
use crate::cli::User;

#[test]
fn built_in_skills_pass_their_cases() {
    let mut folders: Vec<String> = std::fs::read_dir(repository("skills"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("SKILL.md").is_file())
        .map(|path| path.display().to_string())
        .collect();
    folders.sort();
    for folder in &folders {
        let cases = skillhost_skill::cases::read(folder.as_ref()).unwrap();
        assert!(cases.len() >= 2, "{folder} has {} cases", cases.len());
    }
    assert!(folders.len() >= 16, "{folders:?}");
    let policy = repository("tests/cases/skills/policy.yaml").display().to_string();
    let mut args: Vec<&str> = folders.iter().map(String::as_str).collect();
    args.extend(["--policy", &policy]);
    let output = test(&User::new(), &args);
    assert_eq!(output.status.code(), Some(0), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
