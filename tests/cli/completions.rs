//! Completion scripts: each shell gets one, and installed shells can parse theirs.

use std::io::Write as _;
use std::process::Stdio;

use super::{User, text};

#[test]
fn completion_scripts_know_the_commands() {
    let user = User::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = user.skillhost(&["completions", shell]);
        assert!(run.status.success() && run.stderr.is_empty(), "{shell}: {run:?}");
        let script = text(&run.stdout);
        for word in ["run", "check", "inspect", "workspace", "explain"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
}

#[test]
fn bash_completes_with_its_script() {
    let user = User::new();
    let script = user.skillhost(&["completions", "bash"]).stdout;
    let mut bash = user
        .command("bash")
        .args(["-n"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    bash.stdin.take().unwrap().write_all(&script).unwrap();
    let read = bash.wait_with_output().unwrap();
    assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");

    let complete = "source <(skillhost completions bash); COMP_WORDS=(skillhost ins); COMP_CWORD=1; _skillhost skillhost ins skillhost; echo \"${COMPREPLY[@]}\"";
    let run = user.command("bash").args(["-c", complete]).output().unwrap();
    assert_eq!(text(&run.stdout), "inspect\n", "{run:?}");
}
