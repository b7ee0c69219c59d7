//! A skill's Python files are compiled once: what the cache contains, who shares it, and that
//! scripts cannot observe it.

use std::path::PathBuf;

use super::Place;
use crate::cli::{cached_script, text};

fn compiled(path: &str, content: &str) -> PathBuf {
    cached_script("python", path, content)
}

/// A script that no other test uses.
fn script(code: &str) -> String {
    format!("{code}\n# {}", tempfile::tempdir().unwrap().path().display())
}

fn main(code: &str) -> (Place, PathBuf) {
    let code = script(code);
    (Place::new(&code), compiled("/skill/scripts/main.py", &code))
}

/// What a Python guest can observe of a file, both imported and as the main script.
const ASK: &str = "import sys
from _skillhost import compiled
print(type(compiled.of(sys.argv[1])).__name__, type(compiled.script(sys.argv[1])).__name__)";

#[test]
fn the_second_run_uses_the_code_cached_by_the_first() {
    let (place, one) = main("print('one')");
    let (other, two) = main("print('two')");
    assert_eq!(
        (place.prints(&["main"]), other.prints(&["main"])),
        ("one\n".into(), "two\n".into())
    );
    std::fs::copy(&two, &one).unwrap();
    assert_eq!(place.prints(&["main"]), "two\n", "the cached code runs");
}

#[test]
fn imports_are_cached_and_compiled_again_when_changed() {
    let (place, _) = main("from helper import name\nprint(name)");
    let (old, new) = (script("name = 'old'"), script("name = 'new'"));
    place.write("scripts/helper.py", &old);
    assert_eq!(
        (place.prints(&["main"]), place.prints(&["main"])),
        ("old\n".into(), "old\n".into())
    );
    place.write("scripts/helper.py", &new);
    assert_eq!(
        (place.prints(&["main"]), place.prints(&["main"])),
        ("new\n".into(), "new\n".into())
    );
    assert!([&old, &new].iter().all(|code| compiled("/skill/scripts/helper.py", code).is_file()));
}

#[test]
fn incomplete_code_is_recompiled() {
    let (place, compiled) = main("print('hi')");
    assert_eq!(place.prints(&["main"]), "hi\n");
    let complete = std::fs::read(&compiled).unwrap();
    for broken in [
        &complete[..complete.len() - 1],
        &complete[..32],
        &complete[..31],
        b"",
        &[complete.as_slice(), b"more"].concat(),
    ] {
        std::fs::write(&compiled, broken).unwrap();
        assert_eq!(place.prints(&["main"]), "hi\n");
        assert_eq!(std::fs::read(&compiled).unwrap(), complete);
    }
}

#[test]
fn cached_code_gives_the_same_warnings_and_tracebacks() {
    for (code, word) in [
        ("print('\\d')", "SyntaxWarning: \"\\d\" is an invalid escape sequence"),
        ("def (", "    def (\n        ^\nSyntaxError: invalid syntax"),
        (
            "def f():\n    1 / 0\nf()",
            "File \"/skill/scripts/main.py\", line 2, in f\n    1 / 0\n    ~~^~~\n",
        ),
        (
            "import helper",
            "File \"/skill/scripts/helper.py\", line 1\n    return 1\n    ^^^^^^^^\nSyntaxError: 'return' outside function",
        ),
    ] {
        let (place, compiled) = main(code);
        place.write("scripts/helper.py", "return 1");
        let [first, second] = [(); 2].map(|()| place.run(&["main"]));
        assert!(compiled.is_file() && text(&first.stderr).contains(word), "{code}: {first:?}");
        assert_eq!(first, second, "{code}");
    }
}

#[test]
fn only_files_of_the_skill_have_code() {
    let (place, _) = main(ASK);
    let (plain, work) = (script("x = 1"), script("x = 2"));
    place.write("scripts/plain.py", &plain);
    std::os::unix::fs::symlink("plain.py", place.user.work().join("py/scripts/link.py")).unwrap();
    let folder = place.user.work().join("w");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("work.py"), &work).unwrap();
    let ask = |path| {
        place.prints(&[
            "main",
            "--workspace",
            folder.to_str().unwrap(),
            "--allow",
            "Read",
            "--",
            path,
        ])
    };
    assert_eq!(ask("/skill/scripts/plain.py"), "code tuple\n");
    for path in ["/skill/scripts/link.py", "/skill/scripts/../scripts/plain.py"] {
        assert_eq!(
            ask(path),
            "code NoneType\n",
            "{path}: where a script's folder is, is not for its name to say"
        );
    }
    for path in [
        "/skill/scripts/none.py",
        "/skill/scripts",
        "/skill/../workspace/work.py",
        "/workspace/work.py",
        "work.py",
        "",
    ] {
        assert_eq!(ask(path), "NoneType NoneType\n", "{path}");
    }
    assert!(
        !compiled("/workspace/work.py", &work).exists()
            && !compiled("/skill/../workspace/work.py", &work).exists()
    );
}

#[test]
fn adjacent_modules_shadow_the_standard_library_in_every_run() {
    let (place, compiled) = main("import textwrap\nprint(textwrap.name)");
    place.write("scripts/textwrap.py", "name = __file__");
    for _ in 0..2 {
        assert_eq!(place.prints(&["main"]), "/skill/scripts/textwrap.py\n");
        assert!(compiled.is_file());
    }
}

#[test]
fn each_run_that_counts_fuel_compiles_for_itself() {
    let (place, compiled) = main("print('hi')");
    let burnt = |args: &[&str]| {
        let run: serde_json::Value =
            serde_json::from_slice(&place.run(&[&["main", "--json"], args].concat()).stdout)
                .unwrap();
        run["usage"]["fuel"].as_u64().unwrap()
    };
    for args in [&["--fuel", "1000000000"][..], &["--deterministic", "--fuel", "1000000000"]] {
        let first = burnt(args);
        assert!(!compiled.exists());
        assert_eq!(place.prints(&["main"]), "hi\n");
        assert_eq!(burnt(args), first);
        std::fs::remove_file(&compiled).unwrap();
    }
}

#[test]
fn long_sources_are_compiled_in_the_guest_and_not_cached() {
    let long = format!("x = '{}'\nprint(len(x))", "a".repeat(256 << 10));
    // The compiler copies the source for each field, which takes seconds.
    let slow = format!("if 0: f'{}'\nprint('done')", "{x}".repeat(60_000));
    for (code, printed) in [(long, "262144\n"), (slow, "done\n")] {
        let (place, compiled) = main(&code);
        assert_eq!(place.prints(&["main"]), printed);
        assert!(!compiled.exists());
    }
}

#[test]
fn a_compilation_out_of_memory_is_not_cached() {
    let (place, compiled) = main(&format!("x = [{}]\nprint(len(x))", "1,2,".repeat(10_000)));
    let code = || std::fs::read(&compiled).map_or(0, |compiled| compiled.len() - 32);
    assert!(!place.run(&["main", "--memory", "44MiB"]).status.success());
    assert_eq!(code(), 0);
    assert_eq!(place.prints(&["main"]), "20000\n");
    assert!(code() > 0);
}
