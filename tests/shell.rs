//! `skillhost shell` on a real terminal, which script(1) provides.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::cli::{User, script_skill, skipped, text};

/// A session in which a person types.
struct Session {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<String>>,
    /// How much of the screen has been looked at.
    seen: usize,
}

const LEFT: &str = "\u{1b}[D";
const UP: &str = "\u{1b}[A";
const BACKSPACE: &str = "\u{7f}";
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";

impl Session {
    /// Starts a shell in the skill `demo`; `None` on a machine without script(1).
    fn start(user: &User, options: &str) -> Option<Session> {
        script_skill(&user.work().join("demo"), &[("count.py", "print(1 + 1)\n")]);
        let line = format!("stty cols 100; exec skillhost shell ./demo {options}");
        let mut command = user.command("script");
        command.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm");
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = started else {
            skipped("script(1) is missing, so there is no terminal");
            return None;
        };
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut output, shown) = (child.stdout.take().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let keyboard = child.stdin.take().unwrap();
        let mut session = Session { child, keyboard, screen, seen: 0 };
        session.expect("demo$ ");
        Some(session)
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until a text is shown after what was expected before.
    fn expect(&mut self, expected: &str) {
        let since = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap().clone();
            if let Some(at) = screen[self.seen..].find(expected) {
                self.seen += at + expected.len();
                return;
            }
            let rest = &screen[self.seen..];
            assert!(since.elapsed() < Duration::from_secs(60), "no {expected:?} in {rest:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types a line, and waits for a line of output and the next prompt.
    fn types(&mut self, line: &str, expected: &str) {
        self.press(&format!("{line}\r"));
        self.expect(&format!("{expected}\r\n"));
        self.expect("demo$ ");
    }

    fn ends(mut self) -> Option<i32> {
        let since = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < Duration::from_secs(60), "{:?}", self.screen);
            std::thread::sleep(Duration::from_millis(10));
        }
        self.child.wait().unwrap().code()
    }
}

#[test]
fn shell_keeps_its_state_between_lines_and_exits_with_its_code() {
    let user = User::new();
    let Some(mut session) = Session::start(&user, "--workspace .") else { return };
    session.types("echo $((6 * 7))", "42");
    session.types("cd /tmp; pwd", "/tmp");
    for line in ["x=kept", "f() { echo \"f $1\"; }"] {
        session.press(&format!("{line}\r"));
        session.expect("demo$ ");
    }
    session.types("echo $x in $PWD", "kept in /tmp");
    session.types("f here", "f here");
    session.press("(exit 3)\r");
    session.expect("demo$ ");
    session.types("echo status $?", "status 3");
    session.types("no-such-command; echo $?", "127");
    session.types("echo a; false", "a");
    session.types("echo status $?", "status 1");
    session.types("ls /skill", "scripts");
    session.types("python3 /skill/scripts/count.py", "2");
    session.types("ls -d /workspace/demo", "/workspace/demo");
    session.types("cat; echo end", "end");
    session.press("echo 'two\r");
    session.expect("> ");
    session.types("lines'", "lines");
    session.types("if true; then echo yes; fi", "yes");
    session.press("fi\r");
    session.expect("demo$ ");
    session.types("echo goes on", "goes on");
    session.press("exit 5\r");
    assert_eq!(session.ends(), Some(5));
    assert!(user.records().len() > 10, "each line is a run");
}

#[test]
fn lines_are_edited_and_recalled() {
    let user = User::new();
    let Some(mut session) = Session::start(&user, "") else { return };
    session.types(&format!("echo abXc{LEFT}{BACKSPACE}"), "abc");
    session.types(UP, "abc");
    // At the prompt, Ctrl-C discards the line.
    session.press(&format!("echo discarded{CTRL_C}"));
    session.expect("demo$ ");
    session.types("echo used", "used");
    session.press(CTRL_D);
    assert_eq!(session.ends(), Some(0));
}

#[test]
fn ctrl_c_ends_the_command_and_not_the_shell() {
    let user = User::new();
    let Some(mut session) = Session::start(&user, "") else { return };
    session.press("echo started; sleep 600\r");
    session.expect("started\r\n");
    session.press(CTRL_C);
    session.expect("demo$ ");
    session.types("echo alive", "alive");
    session.press("exit\r");
    assert_eq!(session.ends(), Some(0));
    assert_eq!(user.records()[0]["status"]["kind"], "interrupted");
}

#[test]
fn limit_ends_the_command_and_not_the_shell() {
    let user = User::new();
    let Some(mut session) = Session::start(&user, "--timeout 3s") else { return };
    session.press("sleep 600\r");
    session.expect("timeout");
    session.expect("demo$ ");
    session.types("echo alive", "alive");
    session.press(CTRL_D);
    assert_eq!(session.ends(), Some(0));
}

#[test]
fn shell_has_the_permissions_of_a_run() {
    let user = User::new();
    let Some(mut session) = Session::start(&user, "--workspace .:ro") else { return };
    session.press("echo x > /workspace/new; echo code $?\r");
    session.expect("code 1\r\n");
    session.expect("demo$ ");
    session.press(CTRL_D);
    session.ends();
    assert!(!user.work().join("new").exists());
}

#[test]
fn shell_without_a_terminal_is_refused() {
    let user = User::new();
    script_skill(&user.work().join("demo"), &[]);
    let refused = user.skillhost(&["shell", "./demo"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(text(&refused.stderr).contains("needs a terminal"), "{refused:?}");
}
