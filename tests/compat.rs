//! `check` on realistic scripts. Each case is a folder of `cases/compat`: the skill,
//! `expected.txt`, and `allow.txt` if the operator allows more than the built-in policy. `BLESS=1`
//! rewrites the expectations.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use skillhost_compat::{
    self as compat, Compatibility, NeedEffect, NeedKind, NeedStatus, Role, SupportLevel,
};
use skillhost_policy::{Overrides, Policy, grant};
use skillhost_skill::{SizeLimits, Skill, scan};

use crate::support::{pinned, repository};

/// Returns the report on a skill under the built-in policy with these additional entries.
fn check(folder: &Path, allow: &[String]) -> Compatibility {
    let skill = Skill::load(folder, &SizeLimits::default()).unwrap();
    let overrides = Overrides { allow: allow.to_vec(), ..Overrides::default() };
    let policy = Policy::builtin().with_command_line(overrides).unwrap();
    compat::check(&skill, &grant(&skill.policy_manifest(), &policy).capabilities)
}

/// Checks a skill with these files.
fn report(files: &[(&str, &str)]) -> Compatibility {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("case");
    let skill_md = ("SKILL.md", "---\nname: case\ndescription: A case. Use to test.\n---\n");
    for (path, text) in [skill_md].iter().chain(files) {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    check(&folder, &[])
}

#[test]
fn compatibility_cases_match_their_expectations() {
    let mut names: Vec<String> = fs::read_dir(repository("tests/cases/compat"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 14, "cases are missing");
    let problems: Vec<String> = names
        .iter()
        .filter_map(|name| {
            let folder = repository("tests/cases/compat").join(name);
            let allow = fs::read_to_string(folder.join("allow.txt")).unwrap_or_default();
            let allow: Vec<String> = allow.lines().map(str::to_owned).collect();
            pinned(&folder.join("expected.txt"), &shown(&check(&folder.join(name), &allow))).err()
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Formats a report as text, without the package set's versions, which change with the set.
fn shown(report: &Compatibility) -> String {
    let mut out = format!("{}\n", report.verdict.description());
    for script in &report.scripts {
        let line = script.line.map(|line| format!(":{line}")).unwrap_or_default();
        let role = format!("{:?}", script.role).to_lowercase();
        writeln!(
            out,
            "\n{}{line} {role} {} {}",
            script.file,
            script.program,
            script.verdict.description()
        )
        .unwrap();
        script.needs.iter().for_each(|need| out.push_str(&need_shown(need)));
    }
    if !report.needs.is_empty() {
        writeln!(out, "\nthe skill").unwrap();
        report.needs.iter().for_each(|need| out.push_str(&need_shown(need)));
    }
    out
}

fn need_shown(need: &compat::Need) -> String {
    let word = |value: serde_json::Value| value.as_str().unwrap().to_owned();
    let [kind, status, effect] = [
        serde_json::to_value(need.kind),
        serde_json::to_value(need.status),
        serde_json::to_value(need.effect),
    ]
    .map(|value| word(value.unwrap()));
    let version = need.version.as_ref().map(|_| " [version]").unwrap_or_default();
    let place = format!("{}:{}", need.place.line, need.place.column);
    let mut out = format!("  {place} {kind} {}{version}: {status}, loses {effect}\n", need.name);
    if let Some(message) = &need.message {
        let message = need
            .version
            .as_ref()
            .map_or(message.clone(), |version| message.replace(version, "[version]"));
        writeln!(out, "      {message}").unwrap();
    }
    if let Some(fix) = &need.fix {
        writeln!(out, "      fix: {fix}").unwrap();
    }
    out
}

#[test]
fn cases_cover_every_kind_status_effect_role_and_verdict() {
    let text: String = fs::read_dir(repository("tests/cases/compat"))
        .unwrap()
        .map(|case| fs::read_to_string(case.unwrap().path().join("expected.txt")).unwrap())
        .collect();
    let words = |value: serde_json::Value| value.as_str().unwrap().to_owned();
    for kind in [
        NeedKind::Language,
        NeedKind::Module,
        NeedKind::Package,
        NeedKind::Command,
        NeedKind::Host,
        NeedKind::File,
    ] {
        let kind = words(serde_json::to_value(kind).unwrap());
        assert!(text.contains(&format!(" {kind} ")), "{kind}");
    }
    use NeedStatus::*;
    for status in
        [BuiltIn, Granted, NotGranted, Pure, Native, Sdk, Unknown, Unavailable, Removed, Missing]
    {
        let status = words(serde_json::to_value(status).unwrap());
        assert!(text.contains(&format!(": {status}, ")), "{status}");
    }
    for verdict in [
        SupportLevel::Full,
        SupportLevel::Partial,
        SupportLevel::Unsupported,
        SupportLevel::InstructionsOnly,
    ] {
        assert!(text.contains(&format!("{}\n", verdict.description())), "{verdict:?}");
    }
}

#[test]
fn oversized_scripts_are_reported_but_not_read() {
    let large = format!("import numpy\n{}", "#".repeat(1 << 20));
    let report = report(&[("a.py", &large), ("data", &large)]);
    let [script] = report.scripts.as_slice() else { panic!("{report:?}") };
    assert_eq!(
        (script.needs[0].status, script.needs[0].effect),
        (NeedStatus::NotRead, NeedEffect::None)
    );
    assert_eq!(script.needs.len(), 1);
    let exact = format!("import numpy\n{}", "#".repeat((1 << 20) - 13));
    assert_eq!(self::report(&[("a.py", &exact)]).verdict, SupportLevel::Unsupported);
}

#[test]
fn needs_are_bounded() {
    let imports: String = (0..1_000).map(|i| format!("import module_{i}\n")).collect();
    assert_eq!(report(&[("a.py", &imports)]).scripts[0].needs.len(), 100);
    let commands: String =
        (0..1_000).map(|i| format!("tool{i}; ./{i}.sh; curl https://a{i}.io\n")).collect();
    let needs = &report(&[("a.sh", &commands)]).scripts[0].needs;
    assert_eq!((needs.len(), needs.iter().filter(|need| need.is_unmet()).count()), (101, 100));
}

#[test]
fn options_of_prefixes_and_of_node_do_not_hide_what_runs() {
    let shell = "command -p ffmpeg x\nstdbuf -e L ffprobe x\nuv run -p 3.12 sox\nxargs -p docker\nnode -pe 'require(\"sharp\")'\n";
    let report = report(&[("scripts/a.sh", shell)]);
    let needs: Vec<(usize, &str)> = report.scripts[0]
        .needs
        .iter()
        .filter(|need| !matches!(need.status, NeedStatus::BuiltIn | NeedStatus::Granted))
        .map(|need| (need.place.line, need.name.as_str()))
        .collect();
    for expected in [(1, "ffmpeg"), (2, "ffprobe"), (3, "sox"), (4, "docker"), (5, "sharp")] {
        assert!(needs.contains(&expected), "{expected:?}: {needs:?}");
    }
}

#[test]
fn cyclic_imports_are_followed_once() {
    let files: Vec<(String, String)> =
        (0..40).map(|i| (format!("m{i}.py"), format!("import m{}\n", (i + 1) % 40))).collect();
    let mut files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert_eq!(
        report(&files).scripts.iter().filter(|s| s.verdict == SupportLevel::Full).count(),
        40
    );
    files.push(("z.py", "import numpy, m0\n"));
    files[5].1 = "import m6, z\n";
    let report = report(&files);
    assert!(
        report.scripts.iter().filter(|s| s.verdict == SupportLevel::Unsupported).count() >= 20,
        "{report:?}"
    );
}

#[test]
fn component_is_fully_supported() {
    let skill_md =
        "---\nname: case\ndescription: A case. Use to test.\nmetadata:\n  component: a.wasm\n---\n";
    let report = report(&[("SKILL.md", skill_md), ("a.wasm", "")]);
    assert_eq!(report.verdict, SupportLevel::Full);
    assert_eq!(
        (report.scripts[0].role, report.scripts[0].program.as_str()),
        (Role::Component, "wasm")
    );
}

#[test]
fn site_packages_provide_pure_python_modules() {
    let scratch = tempfile::tempdir().unwrap();
    let (folder, site) = (scratch.path().join("case"), scratch.path().join("site"));
    for path in ["case", "site/mystery", "site/numpy", "site/PyPDF2", "site/PyPDF2-3.0.dist-info"] {
        fs::create_dir_all(scratch.path().join(path)).unwrap();
    }
    fs::write(site.join("single.py"), "").unwrap();
    fs::write(folder.join("SKILL.md"), "---\nname: case\ndescription: A case. Use to test.\n---\n")
        .unwrap();
    fs::write(
        folder.join("a.py"),
        "import mystery.x\nimport single\nimport PyPDF2\nimport numpy\nimport other\n",
    )
    .unwrap();
    let skill = Skill::load(&folder, &SizeLimits::default()).unwrap();
    let missing_packages = |packages: Vec<std::path::PathBuf>| {
        let policy = Policy::builtin()
            .with_command_line(Overrides { packages, ..Overrides::default() })
            .unwrap();
        let report = compat::check(&skill, &grant(&skill.policy_manifest(), &policy).capabilities);
        report.scripts[0].needs.iter().map(|need| need.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(missing_packages(vec![site]), ["numpy", "other"]);
    assert_eq!(
        missing_packages(vec![scratch.path().join("nowhere")]),
        ["mystery", "single", "PyPDF2", "numpy", "other"]
    );
}

#[test]
fn search_for_skills_stays_inside_the_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let make = |path: &str| {
        let folder = scratch.path().join(path);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("SKILL.md"), "").unwrap();
        folder
    };
    make("all/a");
    make("all/a/inside");
    make("all/.claude/skills/b");
    make("all/node_modules/c");
    make("outside");
    fs::rename(make("all/d").join("SKILL.md"), scratch.path().join("all/d/skill.md")).unwrap();
    std::os::unix::fs::symlink("../outside", scratch.path().join("all/link")).unwrap();
    let root = scratch.path().join("all");
    let found: Vec<String> = scan::find_skills(&root)
        .unwrap()
        .iter()
        .map(|p| p.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    assert_eq!(found, [".claude/skills/b", "a", "d"]);
    assert_eq!(scan::find_skills(&root.join("a")).unwrap(), [root.join("a")]);
    assert!(scan::find_skills(&root.join("nowhere")).is_err());
}

#[test]
fn summary_counts_skills_and_unmet_needs() {
    let one = report(&[("a.py", "import numpy\n"), ("b.py", "import numpy, torch\n")]);
    let two = report(&[("a.py", "import numpy\n"), ("b.sh", "ls\n")]);
    let none = report(&[]);
    let summary = compat::summarize([Some(&one), Some(&two), None, Some(&none)].into_iter());
    assert_eq!(
        (summary.skills, summary.run_here, summary.run_partly, summary.do_not_run_here),
        (4, 0, 1, 1)
    );
    assert_eq!((summary.instructions_only, summary.do_not_load), (1, 1));
    let reasons: Vec<(&str, usize)> =
        summary.reasons.iter().map(|reason| (reason.name.as_str(), reason.skills)).collect();
    assert_eq!(reasons, [("numpy", 2), ("torch", 1)]);
}

/// Fragments that are significant to at least one parser, so that random texts reach deeper code.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("import "),
        Just("from "),
        Just("numpy"),
        Just("\n"),
        Just("  "),
        Just("try:"),
        Just("except ImportError:"),
        Just("\\"),
        Just("'"),
        Just("\""),
        Just("'''"),
        Just("\"\"\""),
        Just("f\""),
        Just("{"),
        Just("}"),
        Just("("),
        Just(")"),
        Just("["),
        Just("]"),
        Just("$("),
        Just("${"),
        Just("`"),
        Just("<<E\n"),
        Just("\nE\n"),
        Just("case x in"),
        Just("esac"),
        Just("if "),
        Just("; then"),
        Just("fi"),
        Just("|"),
        Just("&&"),
        Just(";;"),
        Just(";"),
        Just("="),
        Just("a"),
        Just("\t"),
        Just("\r\n"),
        Just("#"),
        Just("é"),
        Just("\u{feff}"),
        Just("\0"),
        Just("subprocess.run(["),
        Just("bash -c '"),
        Just("python3 -c "),
        Just("eval "),
        Just("env "),
        Just("https://a.b"),
        Just("# /// script\n"),
        Just("# dependencies = ["),
        Just("# ///\n"),
        Just("```bash\n"),
        Just("```\n"),
        Just("def f():"),
        Just("lambda:"),
        Just(":"),
        Just("xargs "),
        Just("<("),
        Just("[["),
        Just("]]"),
        Just("function "),
        Just("pip install "),
        Just("require('"),
        Just("import('a')"),
        Just(" from 'b'"),
        Just("const {"),
        Just("} = "),
        Just("child_process"),
        Just("execSync("),
        Just("spawn('a', ["),
        Just("try {"),
        Just("catch (e) {"),
        Just("=> {"),
        Just("/"),
        Just("/*"),
        Just("*/"),
        Just("//"),
        Just("fetch("),
        Just("npx tsx "),
        Just("npm install "),
        Just("node -e "),
        Just("{\"dependencies\": {\"a\": \"1\"}}"),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_analyzed_with_valid_places(text in prop_oneof![pieces(), "(\\PC|\n|\t|\r){0,200}"]) {
        crate::fuzz::targets::compat(&text);
    }

    #[test]
    fn imports_are_found_anywhere_in_a_script(before in "([a-z]+ = '[a-z #\"]*'\n|# [a-z'\"]*\n|def f\\(\\):\n    return \"\"\"[a-z'\n]*\"\"\"\n){0,6}") {
        let found = report(&[("a.py", &format!("{before}import numpy\n"))]);
        prop_assert_eq!(&found.scripts[0].needs[0].name, "numpy");
        let hidden = report(&[("a.py", &format!("x = '''\n{}\nimport numpy\n'''\n", before.replace('\'', "")))]);
        prop_assert!(hidden.scripts[0].needs.is_empty());
    }
}

#[test]
fn hostile_scripts_are_analyzed_in_bounded_time() {
    let pieces = [
        "(",
        "[",
        "{",
        "f\"{",
        "f'{f\"{",
        "'",
        "\"\"\"",
        "\\",
        "import a,",
        "from a import (",
        "try:\n ",
        "except:\n",
        "if x:\n ",
        "lambda:",
        "subprocess.run([",
        "subprocess.run(['a', ",
        "x = ['a', ",
        "$(",
        "${",
        "`",
        "\"$(",
        "<<A\n",
        "<<A ",
        "a <<A\n",
        "case x in ",
        "f() {",
        "f()(",
        "[[ ",
        "((",
        "<(",
        "a|",
        "a&&",
        "env ",
        "sudo ",
        "xargs ",
        "eval 'a' ",
        "bash -c 'b' ",
        "find -exec ",
        "https://a",
        "https://a.b ",
        "a=b ",
        "a=(",
        "if a; then ",
        "scripts/a.py ",
        "```bash\n",
        "# /// script\n# dependencies = [\n",
        "a.b.c.",
        "é",
        "import a\n",
        "import a.b as c\n",
        "./a.py\n",
        "x.py\n",
        "pip install a\n",
        "python3 -m a\n",
        "source a.sh\n",
        "curl https://a.io\n",
        "from a.b import c\n",
        "require('a')",
        "require('./a')\n",
        "import('a').catch(",
        "import {a} from 'b';",
        "import {",
        "export * from './a';\n",
        "try { require('a') } catch { require('b') }\n",
        "const {execSync} = require('child_process'); execSync('ls | wc');\n",
        "/[",
        "/*",
        "`${",
        "'\\'",
        "if (a) require('b'), ",
        "(async () => {",
        "function f() {",
        "npx tsx a.ts\n",
        "npm install a\n",
        "node -e 'b' ",
    ];
    for piece in pieces {
        let text = piece.repeat((256 << 10) / piece.len());
        let start = std::time::Instant::now();
        crate::fuzz::targets::compat(&text);
        let took = start.elapsed();
        assert!(took < crate::hostile_host::HANG_TIMEOUT, "{took:?} for {piece:?} repeated");
    }
    for (before, after) in [("bun ", "-b "), ("npx ", "-y "), ("deno run ", "-A ")] {
        let text = format!("{before}{}x.ts\n", after.repeat((1 << 20) / after.len() - 10));
        let start = std::time::Instant::now();
        report(&[("scripts/a.sh", &text)]);
        assert!(start.elapsed() < crate::hostile_host::HANG_TIMEOUT, "{before}{after}");
    }
}
