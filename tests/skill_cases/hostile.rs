//! What the test cases of a hostile author cannot do to the operator who runs them.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::{case, report, tally, test, text};
use crate::cli::User;

#[test]
fn case_cannot_grant_anything() {
    let user = User::new();
    let skill = tally(&user);
    for key in [
        "allow: [WebFetch]",
        "env: { A: b }",
        "mounts: []",
        "limits: {}",
        "policy: {}",
        "deterministic: true",
    ] {
        case(&skill, "more", &format!("script: sum.sh\n{key}\n"));
        let output = test(&user, &["./tally"]);
        assert_eq!(output.status.code(), Some(65), "{key}: {output:?}");
        assert!(text(&output.stderr).contains("error[case-key]"), "{key}: {output:?}");
    }
}

#[test]
fn paths_of_a_case_stay_in_its_workspace() {
    let user = User::new();
    let skill = tally(&user);
    for path in ["../escape", "/tmp/escape", "a/../../escape", "."] {
        case(&skill, "path", &format!("script: sum.sh\nworkspace: {{ \"{path}\": x }}\n"));
        let output = test(&user, &["./tally"]);
        assert_eq!(output.status.code(), Some(65), "{path}: {output:?}");
        assert!(text(&output.stderr).contains("error[case-path]"), "{path}: {output:?}");
    }
    assert!(!user.root().join("tmp/escape").exists());
}

#[test]
fn symlinks_of_a_case_are_refused() {
    let user = User::new();
    let skill = tally(&user);
    let secret = user.home().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let folder = case(&skill, "links", "command: cat link\n");
    std::fs::create_dir(folder.join("workspace")).unwrap();
    symlink(&secret, folder.join("workspace/link")).unwrap();
    let (code, found) = report(&user, &["./tally"]);
    assert_eq!(code, Some(1));
    let problem = found["skills"][0]["cases"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("workspace/link: a case has files and folders only"), "{problem}");
    std::fs::remove_dir_all(folder.join("workspace")).unwrap();

    symlink(user.home(), folder.join("workspace")).unwrap();
    let (code, found) = report(&user, &["./tally"]);
    assert_eq!(code, Some(1), "{found:#}");
    assert!(!found.to_string().contains("\"secret"), "{found:#}");
    std::fs::remove_file(folder.join("workspace")).unwrap();

    symlink(&secret, folder.join("stdin")).unwrap();
    let output = test(&user, &["./tally"]);
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert!(!text(&output.stdout).contains("secret"));
    std::fs::remove_file(folder.join("stdin")).unwrap();

    std::fs::rename(&folder, user.work().join("outside")).unwrap();
    symlink(user.work().join("outside"), &folder).unwrap();
    let output = test(&user, &["./tally"]);
    assert!(text(&output.stderr).contains("has no test cases"), "{output:?}");
}

#[test]
fn sizes_and_numbers_are_bounded() {
    let user = User::new();
    let skill = tally(&user);
    let folder = case(&skill, "large", "script: sum.sh\n");
    let set_size = |name: &str, bytes: u64| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    };
    // Otherwise the skill itself would be too large.
    std::fs::write(skill.join(".skillignore"), "/tests\n").unwrap();
    let stdin = set_size("stdin", (10 << 20) + 1);
    let output = test(&user, &["./tally"]);
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert!(text(&output.stderr).contains("larger than 10 MiB"), "{output:?}");
    std::fs::remove_file(stdin).unwrap();

    let problem = |user: &User| {
        let (code, found) = report(user, &["./tally"]);
        assert_eq!(code, Some(1), "{found:#}");
        found["skills"][0]["cases"][0]["problem"].as_str().unwrap().to_owned()
    };
    set_size("workspace/large", (10 << 20) + 1);
    assert!(problem(&user).contains("the files of workspace are larger than 10 MiB"));
    std::fs::remove_dir_all(folder.join("workspace")).unwrap();
    for n in 0..1_001 {
        set_size(&format!("workspace/{n}"), 0);
    }
    assert!(problem(&user).contains("workspace has more than 1000 files and folders"));
    std::fs::remove_dir_all(folder.join("workspace")).unwrap();

    set_size("case.yaml", (1 << 20) + 1);
    assert_eq!(test(&user, &["./tally"]).status.code(), Some(65));
    for n in 0..501 {
        case(&skill, &format!("n{n}"), "script: sum.sh\n");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let output = test(&user, &["./tally"]);
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert!(text(&output.stderr).contains("more than 500 cases"), "{output:?}");
}

#[test]
fn long_differences_are_cut() {
    let user = User::new();
    let skill = tally(&user);
    case(&skill, "long", "command: seq 1 300000\nexpect: { stdout: x }\n");
    case(&skill, "many", "command: for n in {1..60}; do echo $n > $n.txt; done\n");
    let output = test(&user, &["./tally"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = text(&output.stdout);
    assert!(shown.contains("more lines, which --json prints"), "{shown}");
    assert!(shown.contains("    and 40 more differences, which --json prints\n"), "{shown}");
    assert!(shown.lines().count() < 250, "{shown}");
    let output = test(&user, &["./tally", "--json"]);
    assert!(output.stdout.len() < 2 << 20, "{} bytes", output.stdout.len());
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = &found["skills"][0]["cases"];
    assert!(cases[0]["differences"][0]["found"].as_str().unwrap().ends_with("... (cut)"));
    assert_eq!(cases[1]["differences"].as_array().unwrap().len(), 60);
}

#[test]
fn text_of_a_case_cannot_control_the_terminal() {
    let user = User::new();
    let skill = tally(&user);
    case(
        &skill,
        "esc",
        "description: \"a\\e[2Jb\"\ncommand: printf 'x\\033[31m\\n'\nexpect:\n  stdout: \"\\e[2J\"\n  files: { \"\\e[2J\": x }\n",
    );
    let output = test(&user, &["./tally"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{output:?}");
}

#[test]
fn guest_cannot_make_the_comparison_leave_its_workspace() {
    let user = User::new();
    let skill = tally(&user);
    std::fs::write(user.home().join("secret"), "secret").unwrap();
    let target = user.home().join("secret").display().to_string();
    case(&skill, "link", &format!("command: ln -s {target} link; ln -s . loop; ls\n"));
    let (_, found) = report(&user, &["./tally"]);
    assert!(!found.to_string().contains("\"secret"), "{found:#}");
    case(
        &skill,
        "link",
        "command: i=0; while ((i < 40)); do mkdir d && cd d; i=$((i + 1)); done; touch f\n",
    );
    let (code, found) = report(&user, &["./tally"]);
    assert_eq!(code, Some(1));
    let problem = found["skills"][0]["cases"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("more than 32 names"), "{problem}");
    assert_eq!(user.scratch(), Vec::<PathBuf>::new());
}
