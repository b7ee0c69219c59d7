//! What skills require of each other: resolved, locked and mounted, with chains in every problem.

use serde_json::Value;

use crate::cli::{User, run, succeeds};

/// Runs a command that must fail, and returns its messages.
fn fails(user: &User, args: &[&str]) -> String {
    let (code, stdout, stderr) = run(user, args);
    assert_ne!(code, Some(0), "{args:?}: {stdout}");
    stdout + &stderr
}

fn write(user: &User, path: &str, content: &str) {
    let path = user.work().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Writes a skill of `./skills` with a version and what it requires.
fn skill(user: &User, name: &str, version: &str, requires: &[&str]) {
    let lines: String = requires.iter().map(|line| format!("    {line}\n")).collect();
    let requires = if lines.is_empty() { String::new() } else { format!("  requires: |\n{lines}") };
    let text = format!(
        "---\nname: {name}\ndescription: Does a thing. Use to test.\nallowed-tools: Bash\nmetadata:\n  version: {version}\n{requires}---\nText.\n"
    );
    write(user, &format!("skills/{name}/SKILL.md"), &text);
}

/// A user with the skill `report`, which requires `charts`, which requires `fonts`.
fn user() -> User {
    let user = User::new();
    skill(&user, "report", "1.0.0", &["charts ^1.2", "command jq"]);
    write(&user, "skills/report/run.sh", "cat /skills/charts/style.txt /skills/fonts/font.txt\n");
    write(&user, "skills/report/write.sh", "echo x > /skills/charts/style.txt; ls /skills\n");
    skill(&user, "charts", "1.3.0", &["fonts"]);
    write(&user, "skills/charts/style.txt", "blue\n");
    skill(&user, "fonts", "2", &[]);
    write(&user, "skills/fonts/font.txt", "sans\n");
    write(&user, "policy.yaml", "default: { allow: [Bash] }\n");
    user
}

const POLICY: [&str; 2] = ["--policy", "policy.yaml"];

fn report(user: &User, script: &str) -> (Option<i32>, String, String) {
    run(user, &[&["run", "report", script], &POLICY[..]].concat())
}

#[test]
fn required_skills_are_added_locked_and_mounted() {
    let user = user();
    let added = succeeds(&user, &["add", "./skills", "--path", "report"]);
    for name in ["report", "charts", "fonts"] {
        assert!(added.contains(&format!("added {name} ")), "{added}");
    }
    let why: Value = serde_json::from_str(&succeeds(&user, &["why", "report", "--json"])).unwrap();
    assert_eq!(why["locked"]["version"], "1.0.0");
    assert_eq!(why["locked"]["requires"], serde_json::json!(["charts ^1.2", "command jq"]));
    succeeds(&user, &["ci"]);
    succeeds(&user, &["trust", "report"]);
    let (code, stdout, stderr) = report(&user, "run.sh");
    assert_eq!((code, stdout.as_str()), (Some(0), "blue\nsans\n"), "{stderr}");
    // They are read-only.
    let (_, stdout, stderr) = report(&user, "write.sh");
    assert_eq!(stdout, "charts\nfonts\n", "{stderr}");
    assert!(stderr.contains("style.txt"), "{stderr}");
    // A skill that requires nothing does not see them.
    write(&user, "skills/fonts/list.sh", "ls /skills\n");
    let (code, _, _) = run(&user, &[&["run", "./skills/fonts", "list.sh"], &POLICY[..]].concat());
    assert_ne!(code, Some(0));
}

#[test]
fn changed_requirement_needs_approval_again() {
    let user = user();
    succeeds(&user, &["add", "./skills", "--path", "report"]);
    succeeds(&user, &["trust", "report"]);
    assert_eq!(report(&user, "run.sh").0, Some(0));
    write(&user, "skills/fonts/font.txt", "serif\n");
    assert_eq!(report(&user, "run.sh").1, "blue\nsans\n", "it is locked");
    succeeds(&user, &["update", "fonts"]);
    let (code, _, stderr) = report(&user, "run.sh");
    assert_eq!(code, Some(77), "{stderr}");
    succeeds(&user, &["trust", "report"]);
    assert_eq!(report(&user, "run.sh").1, "blue\nserif\n");
}

#[test]
fn problems_are_reported_with_their_chain_and_change_nothing() {
    let user = user();
    succeeds(&user, &["add", "./skills", "--path", "report"]);
    let lock = user.home().join(".config/skillhost/skills.lock");
    let before = std::fs::read_to_string(&lock).unwrap();
    skill(&user, "charts", "2.0.0", &["fonts"]);
    let error = fails(&user, &["update"]);
    assert!(
        error.contains("`report` requires `charts` ^1.2, which is 2.0.0 (report -> charts)"),
        "{error}"
    );
    skill(&user, "charts", "1.3.0", &["fonts", "report"]);
    let error = fails(&user, &["update"]);
    assert!(error.contains("skills require each other: charts -> report -> charts"), "{error}");
    let error = fails(&user, &["remove", "fonts"]);
    assert!(error.contains("`charts` requires the skill `fonts`, which is not locked"), "{error}");
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), before);
    succeeds(&user, &["ci"]);
    // A disabled skill is not there for others.
    let yaml = user.home().join(".config/skillhost/skills.yaml");
    let wanted = std::fs::read_to_string(&yaml).unwrap();
    let path = "    path: fonts\n";
    assert!(wanted.contains(path), "{wanted}");
    std::fs::write(&yaml, wanted.replace(path, &format!("{path}    enabled: false\n"))).unwrap();
    let (code, _, stderr) = report(&user, "run.sh");
    assert!(code == Some(65) && stderr.contains("report -> charts -> fonts"), "{stderr}");
}

#[test]
fn skill_of_a_folder_finds_what_it_requires_beside_it() {
    let user = user();
    let run_here =
        |user: &User| run(user, &[&["run", "./skills/report", "run.sh"], &POLICY[..]].concat());
    assert_eq!(run_here(&user).1, "blue\nsans\n");
    std::fs::remove_dir_all(user.work().join("skills/fonts")).unwrap();
    let (code, _, stderr) = run_here(&user);
    assert_eq!(code, Some(65), "{stderr}");
    assert!(
        stderr.contains(
            "it requires `fonts`, which is not beside its folder (report -> charts -> fonts)"
        ),
        "{stderr}"
    );
    skill(&user, "fonts", "2", &["report"]);
    assert!(run_here(&user).2.contains("report -> charts -> fonts -> report"));
    skill(&user, "fonts", "2", &[]);
    write(&user, "skills/fonts/font.txt", "sans\n");
    skill(&user, "charts", "1.1.0", &["fonts"]);
    let stderr = run_here(&user).2;
    assert!(stderr.contains("it requires `charts` ^1.2, which is 1.1.0"), "{stderr}");
}

#[test]
fn check_reports_commands_and_packages_that_are_not_there() {
    let user = User::new();
    skill(&user, "one", "1", &["command ffmpeg", "python no-such-package-here", "command jq"]);
    let (_, stdout, _) = run(&user, &["check", "./skills/one", "--json"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let needs = report["skills"][0]["compatibility"]["needs"].as_array().unwrap().clone();
    let names: Vec<&str> = needs.iter().map(|need| need["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ffmpeg", "no-such-package-here"], "{needs:#?}");
}
