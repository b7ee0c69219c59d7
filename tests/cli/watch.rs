//! `run --watch`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::{User, script_skill};

#[test]
fn watch_reruns_when_a_skill_or_workspace_file_changes() {
    let user = User::new();
    let programs = user.stand_ins();
    let skill = user.work().join("watched");
    script_skill(&skill, &[("a.sh", "")]);
    let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
    command
        .args(["run", "./watched", "--watch", "--workspace", "data", "--programs"])
        .arg(programs);
    command.args(["--", "--watch"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    // The stand-in prints its argv, which ends with the argument for the skill.
    let mut ran = || {
        assert!(stdout.any(|line| line.unwrap() == "--watch"));
        assert!(stderr.any(|line| line.unwrap().contains("waiting for a change")));
    };
    ran();
    std::fs::write(skill.join("scripts/a.sh"), "# changed").unwrap();
    ran();
    std::fs::write(user.work().join("data/new.txt"), "new").unwrap();
    ran();
    std::fs::remove_file(user.work().join("data/new.txt")).unwrap();
    ran();
    child.kill().unwrap();
    child.wait().unwrap();
}
