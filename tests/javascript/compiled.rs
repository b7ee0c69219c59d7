//! The types of a skill's TypeScript files are removed once: what the cache contains, and that scripts
//! cannot observe it. `tests/python/compiled.rs` has what both languages share.

use std::path::PathBuf;

use super::runs::Skill;
use crate::cli::{cached_script, text};

/// A skill whose script no other test uses, and where the script's JavaScript is cached.
fn skill(name: &str, code: &str) -> (Skill, PathBuf) {
    let code = format!("{code}\n// {}", tempfile::tempdir().unwrap().path().display());
    let cached = cached_script("javascript", &format!("/skill/scripts/{name}"), &code);
    (Skill::new(name, &code), cached)
}

#[test]
fn second_run_uses_the_javascript_cached_by_the_first() {
    for name in ["main.ts", "main.mts", "main.cts", "main.tsx"] {
        let (one, first) = skill(name, "const one: string = 'one'; console.log(one);");
        let (two, second) = skill(name, "const two: string = 'two'; console.log(two);");
        assert_eq!((one.prints(&[name]), two.prints(&[name])), ("one\n".into(), "two\n".into()));
        std::fs::copy(&second, &first).unwrap();
        assert_eq!(one.prints(&[name]), "two\n", "{name}: the cached JavaScript runs");
    }
}

#[test]
fn imported_and_required_files_are_cached() {
    let helper = "export const name: string = 'helper';";
    let (skill, _) = skill("main.ts", "import { name } from './helper.ts'; console.log(name);");
    skill.write("scripts/helper.ts", helper);
    assert_eq!(
        (skill.prints(&["main"]), skill.prints(&["main"])),
        ("helper\n".into(), "helper\n".into())
    );
    assert!(cached_script("javascript", "/skill/scripts/helper.ts", helper).is_file());
}

#[test]
fn incomplete_javascript_is_made_again() {
    let (skill, cached) = skill("main.ts", "console.log('hi' as string)");
    assert_eq!(skill.prints(&["main"]), "hi\n");
    let complete = std::fs::read(&cached).unwrap();
    for broken in [&complete[..complete.len() - 1], &complete[..31], b""] {
        std::fs::write(&cached, broken).unwrap();
        assert_eq!(skill.prints(&["main"]), "hi\n");
        assert_eq!(std::fs::read(&cached).unwrap(), complete);
    }
}

#[test]
fn cached_files_report_the_same_errors() {
    for (code, word) in [
        ("const x: = 1;", "ERR_INVALID_TYPESCRIPT_SYNTAX"),
        (
            "enum A { B = 1 }\nfunction f(): void { throw new Error('x'); }\nf();",
            "at f (/skill/scripts/main.ts:2:28)",
        ),
        ("#!/usr/bin/env node\nnull.x as number", "main.ts:2"),
    ] {
        let (skill, cached) = skill("main.ts", code);
        let [first, second] = [(); 2].map(|()| skill.run(&["main"]));
        assert!(cached.is_file() && text(&first.stderr).contains(word), "{code}: {first:?}");
        assert_eq!(first, second, "{code}");
    }
}

#[test]
fn javascript_files_files_of_the_workspace_and_runs_that_count_fuel_are_not_cached() {
    let (skill_, cached) = skill("main.js", "console.log('hi')");
    assert_eq!(skill_.prints(&["main"]), "hi\n");
    assert!(!cached.exists());
    let (skill_, cached) = skill("main.ts", "console.log('hi' as string)");
    for options in [&["--fuel", "10000000000"][..], &["--deterministic"]] {
        assert_eq!(skill_.prints(&[&["main"], options].concat()), "hi\n");
        assert!(!cached.exists(), "{options:?}");
    }
}
