//! The commands of the catalogue, as a user sees them.

use std::process::Output;

use serde_json::Value;

use super::write;
use crate::cli::{User, skill_of};

fn user() -> User {
    let user = User::new();
    write(
        &user.work().join(".agents/skills/notes"),
        "description: Keeps notes of meetings.\n",
        "# Notes\n\nWrite them down.\n",
    );
    write(&user.home().join(".claude/skills/notes"), "description: Another.\n", "");
    let folder = write(
        &user.home().join(".agents/skills/tax"),
        "description: Computes taxes.\nmetadata:\n  tags: money\n",
        "Add it up.\n",
    );
    std::fs::write(folder.join("rates.txt"), "19 %\n").unwrap();
    std::fs::create_dir_all(user.home().join(".agents/skills/bad")).unwrap();
    std::fs::write(user.home().join(".agents/skills/bad/SKILL.md"), "---\nname: [\n---\n").unwrap();
    user
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn list_shows_skills_and_reports_the_rest() {
    let user = user();
    let listed = user.skillhost(&["list"]);
    assert_eq!(
        stdout(&listed),
        "notes (untrusted): Keeps notes of meetings.\ntax (untrusted): Computes taxes.\n"
    );
    assert!(stderr(&listed).contains(".claude/skills/notes is shadowed by"), "{}", stderr(&listed));
    assert!(stderr(&listed).contains(".agents/skills/bad: "), "{}", stderr(&listed));
    let listed = json(&user.skillhost(&["list", "--json"]));
    assert_eq!(listed["skills"][0]["name"], "notes");
    assert_eq!(listed["skills"][0]["source"], "project");
    assert_eq!(
        (&listed["shadowed"][0]["name"], listed["broken"].as_array().unwrap().len()),
        (&"notes".into(), 1)
    );
    // A folder on the command line comes first.
    write(&user.work().join("mine/notes"), "description: Mine.\n", "");
    let listed = user.skillhost(&["list", "--skills", "mine"]);
    assert!(stdout(&listed).starts_with("notes (untrusted): Mine.\n"), "{}", stdout(&listed));
    assert_eq!(user.skillhost(&["list", "--skills", "nowhere"]).status.code(), Some(64));
}

#[test]
fn list_all_shows_the_order_of_the_search() {
    let user = user();
    let listed = user.skillhost(&["list", "--all"]);
    let shown = user.normal(stdout(&listed));
    let lines: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    for row in [
        &["1", "the project's", "[work]/.agents/skills", "1"][..],
        &["2", "the project's", "[work]/.claude/skills", "0"],
        &["3", "yours", "[home]/.agents/skills", "1"],
        &["4", "yours", "[home]/.claude/skills", "1"],
        &["1", "notes", "[work]/.agents/skills/notes"],
        &["3", "tax", "[home]/.agents/skills/tax"],
    ] {
        assert!(lines.contains(&row.to_vec()), "{row:?}\n{shown}");
    }
    assert!(shown.contains("shadowed by"), "{shown}");
    let listed = json(&user.skillhost(&["list", "--json"]));
    assert_eq!(listed["sources"][2]["kind"], "user");
    assert_eq!(listed["skills"][0]["position"], 1);
    let shadowed = &listed["shadowed"][0];
    assert_eq!((&shadowed["source"], &shadowed["position"]), (&"user".into(), &4.into()));
}

#[test]
fn a_single_file_is_shown_and_never_runs() {
    let user = user();
    let file = user.home().join(".agents/skills/mail.md");
    let text = "---\nname: mail\ndescription: Writes mails.\nallowed-tools: Bash\n---\nBe brief.\n";
    std::fs::write(file, text).unwrap();
    let shown = json(&user.skillhost(&["show", "mail", "--json"]));
    assert_eq!(shown["instructions"], "Be brief.\n");
    let trusted = user.skillhost(&["trust", "../home/.agents/skills"]);
    assert!(stdout(&trusted).contains("mail: approved: sha256:"), "{}", stdout(&trusted));
    for args in [
        &["run", "mail"][..],
        &["run", "mail", "--command", "echo hi"],
        &["run", "mail", "mail.md"],
    ] {
        let run = user.skillhost(args);
        assert_eq!(run.status.code(), Some(65), "{args:?}: {}", stderr(&run));
        assert!(stderr(&run).contains("only instructions"), "{}", stderr(&run));
    }
    let checked = json(&user.skillhost(&["check", "mail", "--json"]));
    let decisions = checked["skills"][0]["grant"]["decisions"].as_array().unwrap();
    assert!(!decisions.is_empty() && decisions.iter().all(|one| one["verdict"] == "refused"));
    // By its path, a file is still an error: the operator may have meant its folder.
    let checked = user.skillhost(&["check", ".agents/skills/notes/SKILL.md"]);
    assert_eq!(checked.status.code(), Some(1), "{}", stdout(&checked));
}

#[test]
fn nothing_of_a_skill_without_valid_frontmatter_runs() {
    let user = User::new();
    for (name, text) in [("none", "Do it.\n"), ("broken", "---\nname: [\n---\nDo it.\n")] {
        let folder = user.work().join(format!("{name}-skill"));
        std::fs::create_dir_all(folder.join("scripts")).unwrap();
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
        std::fs::write(folder.join("scripts/x.sh"), "echo ran\n").unwrap();
        let path = format!("./{name}-skill");
        for args in [
            &["run", &path, "scripts/x.sh"][..],
            &["run", &path],
            &["run", &path, "--command", "echo ran"],
        ] {
            let run = user.skillhost(args);
            assert_eq!((run.status.code(), stdout(&run)), (Some(65), ""), "{args:?}");
            assert!(stderr(&run).contains("no valid frontmatter"), "{}", stderr(&run));
        }
    }
}

#[test]
fn the_policy_adds_skills_folders() {
    let user = user();
    write(&user.work().join("shared/audit"), "description: Audits.\n", "");
    std::fs::write(user.work().join("policy.yaml"), "skill-folders: [shared]\n").unwrap();
    let listed = json(&user.skillhost(&["list", "--json", "--policy", "policy.yaml"]));
    assert_eq!(
        (&listed["skills"][2]["name"], &listed["skills"][2]["source"]),
        (&"audit".into(), &"policy".into())
    );
    assert_eq!(listed["skills"][2]["trusted"], true);
}

#[test]
fn search_ranks_and_filters() {
    let user = user();
    assert_eq!(stdout(&user.skillhost(&["search", "taxs"])), "tax (untrusted): Computes taxes.\n");
    assert_eq!(
        stdout(&user.skillhost(&["search", "--tag", "money"])),
        "tax (untrusted): Computes taxes.\n"
    );
    let found = json(&user.skillhost(&["search", "meeting", "notes", "--json", "--network", "no"]));
    assert_eq!(found["hits"][0]["name"], "notes");
    let nothing = user.skillhost(&["search", "xylophone"]);
    assert_eq!((nothing.status.code(), stdout(&nothing)), (Some(1), ""));
    assert_eq!(user.skillhost(&["search", "--runtime", "java"]).status.code(), Some(64));
}

#[test]
fn show_prints_a_skill_or_one_of_its_files() {
    let user = user();
    let shown = user.skillhost(&["show", "tax"]);
    for part in ["tax (", "Computes taxes.", "rates.txt (5 B)", "Add it up."] {
        assert!(stdout(&shown).contains(part), "{part}: {}", stdout(&shown));
    }
    assert_eq!(stdout(&user.skillhost(&["show", "tax", "rates.txt"])), "19 %\n");
    let shown = json(&user.skillhost(&["show", "tax", "--json"]));
    assert_eq!(
        (&shown["instructions"], shown["files"].as_array().unwrap().len()),
        (&"Add it up.\n".into(), 2)
    );
    for wrong in [
        vec!["show", "tox"],
        vec!["show", "tax", "../notes/SKILL.md"],
        vec!["show", "tax", "nothing"],
    ] {
        assert_eq!(user.skillhost(&wrong).status.code(), Some(64), "{wrong:?}");
    }
    assert!(stderr(&user.skillhost(&["show", "tox"])).contains("did you mean `tax`?"));
}

#[test]
fn prompt_reports_what_it_omits() {
    let user = user();
    let prompt = user.skillhost(&["prompt"]);
    assert!(
        stdout(&prompt).starts_with("<available_skills>\n<skill><name>notes</name>"),
        "{}",
        stdout(&prompt)
    );
    let short = user.skillhost(&["prompt", "--budget", "40"]);
    assert!(
        stdout(&short).contains("omitted")
            && stderr(&short).contains("omitted to stay within 40 tokens"),
        "{}",
        stderr(&short)
    );
    assert!(
        json(&user.skillhost(&["prompt", "--budget", "40", "--json"]))["dropped"].as_u64().unwrap()
            > 0
    );
}

#[test]
fn a_bare_name_never_means_a_local_folder() {
    let user = user();
    skill_of("code3", &user.home().join(".agents/skills/shared"));
    // A folder that a stranger may have put into the operator's working directory.
    skill_of("hello", &user.work().join("shared"));
    skill_of("hello", &user.work().join("lonely"));
    let ran = user.skillhost(&["run", "shared"]);
    assert!(!stdout(&ran).contains("hello"), "{}", stdout(&ran));
    assert!(stderr(&ran).contains(".agents/skills/shared"), "{}", stderr(&ran));
    for path in ["./shared", "shared/", "../work/shared"] {
        assert_eq!(stdout(&user.skillhost(&["run", path])), "hello from 0.3\n", "{path}");
    }
    for verb in ["run", "check", "bench"] {
        let refused = user.skillhost(&[verb, "lonely"]);
        assert_eq!(refused.status.code(), Some(64), "{verb}: {}", stderr(&refused));
        assert!(
            stderr(&refused).contains("did you mean `./lonely`?"),
            "{verb}: {}",
            stderr(&refused)
        );
    }
}

#[test]
fn a_skill_in_the_catalogue_runs_by_name() {
    let user = user();
    skill_of("code3", &user.home().join(".agents/skills/elsewhere"));
    let ran = user.skillhost(&["run", "elsewhere"]);
    assert!(stderr(&ran).contains("elsewhere is "), "{}", stderr(&ran));
    assert_eq!(user.records()[0]["skill"]["name"], "elsewhere");
    let checked = user.skillhost(&["check", "elsewhere", "--json"]);
    assert_eq!(json(&checked)["skills"][0]["name"], "elsewhere");
    let nothing = user.skillhost(&["run", "elswhere"]);
    assert_eq!(nothing.status.code(), Some(64), "{}", stderr(&nothing));
    assert!(stderr(&nothing).contains("did you mean `elsewhere`?"), "{}", stderr(&nothing));
}
