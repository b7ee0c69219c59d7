//! Colours only if enabled, and no escape sequence from a skill or a guest reaches the terminal.

use super::{User, text};

/// Returns the output with forced colours, on both streams.
fn coloured(user: &User, args: &[&str]) -> String {
    let run = user
        .command(env!("CARGO_BIN_EXE_skillhost"))
        .env("CLICOLOR_FORCE", "1")
        .args(args)
        .output()
        .unwrap();
    format!("{}{}", text(&run.stdout), text(&run.stderr))
}

/// Removes the colours that skillhost itself uses.
fn without_colours(text: &str) -> String {
    let mut remaining = text;
    let mut out = String::new();
    while let Some((before, after)) = remaining.split_once("\u{1b}[") {
        out.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap();
        assert_eq!(&after[end..=end], "m", "only colours: {text:?}");
        remaining = &after[end + 1..];
    }
    out + remaining
}

fn make_hostile_skill(user: &User) {
    let folder = user.work().join("hostile");
    std::fs::create_dir_all(&folder).unwrap();
    let skill = "---\nname: \"\\e[31mred\"\ndescription: \"d\\e[2J\"\nallowed-tools:\n  - \"Read(\\e[31m)\"\n  - \"\\u202eFoo\\u009b1m\"\nmetadata:\n  component: \"\\e[2J.wasm\"\n  \"\\e[1m\": x\n\"\\e[7m\": \"1\u{202e}\u{9b}\" # \u{200f}\n---\n";
    std::fs::write(folder.join("SKILL.md"), skill).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("\u{1b}[31mlink\u{202e}")).unwrap();
    std::fs::write(folder.join(std::ffi::OsStr::new("skill.MD\u{1b}[2J")), "x").unwrap();
}

#[test]
fn only_terminals_get_colours() {
    let user = User::new();
    let plain = user.skillhost(&["check", "./nowhere"]);
    assert!(!text(&plain.stdout).contains('\u{1b}') && plain.stderr.is_empty(), "{plain:?}");
    assert!(coloured(&user, &["check", "./nowhere"]).contains("\u{1b}["));
    let none = user
        .command(env!("CARGO_BIN_EXE_skillhost"))
        .env("NO_COLOR", "1")
        .args(["run", "./nowhere"])
        .output()
        .unwrap();
    assert!(!text(&none.stderr).contains('\u{1b}'));
}

#[test]
fn hostile_skill_cannot_write_escapes() {
    let user = User::new();
    make_hostile_skill(&user);
    for args in [
        &["check", "./hostile"][..],
        &["check", "./hostile", "./hello"],
        &["run", "./hostile"],
        &["run", "./hostile", "--explain"],
        &["inspect", "hostile"],
        &["inspect", "echo"],
        &["run", "./trap"],
        &["run", "./echo", "\u{1b}[31mtool"],
        &["run", "./echo", "echo", "--input", "{\"\\u001b[2J\u{9b}\": 1}"],
    ] {
        let shown = without_colours(&coloured(&user, args));
        let hidden: Vec<char> = shown
            .chars()
            .filter(|c| *c != '\n' && skillhost_policy::diagnostic::is_hidden(*c))
            .collect();
        assert!(hidden.is_empty(), "{args:?}: {hidden:?} in {shown:?}");
    }
}

#[test]
fn tables_fit_the_terminal() {
    let user = User::new();
    for columns in [40_usize, 80, 140] {
        let inner = format!("stty cols {columns}; skillhost run ./tools --explain");
        let run = user.command("script").args(["-qec", &inner, "/dev/null"]).output();
        // A machine without script(1) cannot provide a terminal.
        let Ok(run) = run else { return };
        let shown = without_colours(&text(&run.stdout).replace('\r', ""));
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(
            shown.contains("capability") && widest <= columns,
            "{columns} columns: {widest}\n{shown}"
        );
    }
}

#[test]
fn compiling_a_runtime_is_announced_on_a_terminal_only() {
    let user = User::new();
    let programs = user.stand_ins();
    let run = |cache: &str, program: &str, args: &[&str]| {
        user.command(program)
            .env("XDG_CACHE_HOME", user.root().join(cache))
            .env("SKILLHOST_PROGRAMS", &programs)
            .args(args)
            .output()
    };
    let piped = run("a", env!("CARGO_BIN_EXE_skillhost"), &["run", "./scripts", "table.py"]);
    assert_eq!(text(&piped.unwrap().stderr), "");
    let line = "skillhost run ./scripts table.py";
    // A machine without script(1) cannot provide a terminal.
    let Ok(first) = run("b", "script", &["-qec", line, "/dev/null"]) else { return };
    let shown = text(&first.stdout);
    assert!(
        shown.contains("Compiling the Python runtime (first use only) ... done in "),
        "{shown}"
    );
    let again = text(&run("b", "script", &["-qec", line, "/dev/null"]).unwrap().stdout);
    assert!(!again.contains("Compiling"), "{again}");
}

#[test]
fn shell_that_reads_a_terminal_says_so() {
    let user = User::new();
    let programs = user.stand_ins();
    let run = |command: &str| {
        let line = format!("skillhost run ./scripts --command '{command}'");
        let mut script = user.command("script");
        script.args(["-qec", &line, "/dev/null"]).env("SKILLHOST_PROGRAMS", &programs);
        // A machine without script(1) cannot provide a terminal.
        script.output().map(|output| text(&output.stdout))
    };
    let Ok(shown) = run("bash") else { return };
    assert!(shown.contains("bash reads a script from the terminal, without a prompt"), "{shown}");
    let shown = run("echo bash").unwrap();
    assert!(!shown.contains("prompt"), "{shown}");
}

#[test]
fn long_lists_go_through_the_pager_on_a_terminal_only() {
    let user = User::new();
    let program = env!("CARGO_BIN_EXE_skillhost");
    let listed = |pager: &str, rows: u16| {
        let line = format!("stty rows {rows} cols 80; {program} list --skills .");
        let mut command = user.command("script");
        command.args(["-qec", &line, "/dev/null"]).env("PAGER", pager);
        text(&command.output().unwrap().stdout)
    };
    let paged = listed("cat; echo paged", 5);
    assert!(paged.contains("paged") && paged.contains("writer"), "{paged}");
    assert!(!listed("cat; echo paged", 200).contains("paged"), "it fits");
    // Without a pager, the list is printed.
    for pager in ["", "no-such-pager"] {
        assert!(listed(pager, 5).contains("writer"), "{pager}");
    }
    let mut piped = user.command(program);
    let piped = piped.args(["list", "--skills", "."]).env("PAGER", "echo paged").output().unwrap();
    assert!(!text(&piped.stdout).contains("paged"));
}
