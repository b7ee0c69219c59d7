//! Loading of realistic skills. Each case is a folder of `cases/skill`: the skill, and
//! `expected.txt`, which contains the loaded manifest or the error, and the diagnostics. `BLESS=1`
//! rewrites the expectations.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use skillhost_policy::Policy;
use skillhost_policy::diagnostic::{Diagnostic, Severity, render};
use skillhost_policy::manifest;
use skillhost_policy::manifest::rules::{self, LoadEffect, RULES};
use skillhost_skill::{SizeLimits, Skill};

const GOOD: &str = "---\nname: NAME\ndescription: Does a thing. Use when a thing is to be done.\nallowed-tools: Read\n---\n";

/// Skills that cannot be stored well in a repository: bytes that editors and git would change,
/// symlinks, and very large files.
const GENERATED: &[(&str, Generate)] = &[
    ("byte-order-mark", |folder| write(folder, "SKILL.md", format!("\u{feff}{GOOD}Body.\n"))),
    ("byte-order-mark-and-spaces", |folder| {
        write(folder, "SKILL.md", format!("\u{feff}{}", GOOD.replacen("---\n", "---  \n", 1)))
    }),
    ("nul-in-frontmatter", |folder| write(folder, "SKILL.md", GOOD.replace("Read", "Read\0Bash"))),
    ("nul-in-body", |folder| write(folder, "SKILL.md", format!("{GOOD}\nOne\0two\0three\n"))),
    ("not-utf8-in-frontmatter", |folder| {
        let (head, tail) = GOOD.split_once("a thing").unwrap();
        write(folder, "SKILL.md", [head.as_bytes(), b"caf\xe9", tail.as_bytes()].concat());
    }),
    ("not-utf8-in-body", |folder| {
        write(folder, "SKILL.md", [GOOD.as_bytes(), b"caf\xe9\n"].concat())
    }),
    ("utf16", |folder| {
        let bytes = "\u{feff}---\nname: utf16\n---\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<u8>>();
        write(folder, "SKILL.md", bytes);
    }),
    ("empty-file", |folder| write(folder, "SKILL.md", "")),
    ("body-of-160-kb", |folder| {
        write(
            folder,
            "SKILL.md",
            format!("{GOOD}{}", "Forty bytes of text, the line end too.\n".repeat(4_096)),
        )
    }),
    ("frontmatter-too-long", |folder| {
        write(
            folder,
            "SKILL.md",
            GOOD.replace("name:", &format!("# {}\nname:", "x".repeat(70_000))),
        )
    }),
    ("too-many-tools", |folder| {
        write(folder, "SKILL.md", GOOD.replace("Read", &"Read ".repeat(1_001)))
    }),
    ("skill-md-too-large", |folder| {
        write(folder, "SKILL.md", format!("{GOOD}{}", "x".repeat(1 << 20)))
    }),
    ("too-many-files", |folder| {
        write(folder, "SKILL.md", GOOD);
        (0..2_000).for_each(|i| write(folder, &format!("data/{i}.txt"), ""));
    }),
    ("too-large", |folder| {
        write(folder, "SKILL.md", GOOD);
        fs::File::create(folder.join("data.bin")).unwrap().set_len(10 << 20).unwrap();
    }),
    ("link-inside", |folder| {
        write(folder, "SKILL.md", GOOD);
        write(folder, "lib/tool.py", "print(1)\n");
        symlink("../lib/tool.py", mkdir(folder, "scripts").join("tool.py")).unwrap();
        symlink("lib", folder.join("library")).unwrap();
    }),
    ("link-outside", |folder| {
        write(folder, "SKILL.md", GOOD);
        symlink("/etc/passwd", folder.join("absolute")).unwrap();
        symlink("../../../../../../../../etc/passwd", folder.join("relative")).unwrap();
        symlink("/etc", folder.join("folder")).unwrap();
    }),
    ("link-broken", |folder| {
        write(folder, "SKILL.md", GOOD);
        symlink("missing", folder.join("missing-link")).unwrap();
        symlink("loop", folder.join("loop")).unwrap();
    }),
    ("left-out-files", |folder| {
        write(folder, "SKILL.md", GOOD);
        write(folder, ".skillignore", "/target\n*.log\n");
        write(folder, "scripts/a.sh", "true\n");
        write(folder, "scripts/a.log", "");
        fs::File::create(mkdir(folder, "target").join("large.bin"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        (0..2_000).for_each(|i| write(folder, &format!("target/{i}.txt"), ""));
        symlink("target/0.txt", folder.join("link")).unwrap();
    }),
    ("left-out-manifest", |folder| {
        write(folder, "SKILL.md", GOOD);
        write(folder, ".skillignore", "*\n");
    }),
    ("skillignore-invalid", |folder| {
        write(folder, "SKILL.md", GOOD);
        write(folder, ".skillignore", "ok\n{broken\n");
    }),
    ("skillignore-is-a-link", |folder| {
        write(folder, "SKILL.md", GOOD);
        symlink("SKILL.md", folder.join(".skillignore")).unwrap();
    }),
    ("skillignore-too-large", |folder| {
        write(folder, "SKILL.md", GOOD);
        write(folder, ".skillignore", "x".repeat((16 << 10) + 1));
    }),
    ("skill-md-is-a-link-outside", |folder| {
        write(&folder.with_file_name("elsewhere"), "SKILL.md", GOOD);
        symlink("../elsewhere/SKILL.md", folder.join("SKILL.md")).unwrap();
    }),
    ("skill-md-is-a-pipe", |folder| mkfifo(&folder.join("SKILL.md"))),
    ("pipe", |folder| {
        write(folder, "SKILL.md", GOOD);
        mkfifo(&folder.join("pipe"));
    }),
    ("file-name-not-utf8", |folder| {
        use std::os::unix::ffi::OsStrExt;
        write(folder, "SKILL.md", GOOD);
        fs::write(folder.join(std::ffi::OsStr::from_bytes(b"caf\xe9.txt")), "").unwrap();
    }),
    ("file-instead-of-folder", |folder| {
        fs::remove_dir(folder).unwrap();
        fs::write(folder, "a file").unwrap();
    }),
    ("missing-folder", |folder| fs::remove_dir(folder).unwrap()),
];

#[test]
fn skill_cases_match_their_expectations() {
    let mut wrong = String::new();
    for name in all_cases() {
        let actual = report(&load(&name), &name);
        let file = cases().join(&name).join("expected.txt");
        if std::env::var_os("BLESS").is_some() {
            write(&cases().join(&name), "expected.txt", &actual);
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if actual != expected {
            writeln!(
                wrong,
                "== {name}\n{}",
                similar::TextDiff::from_lines(&expected, &actual).unified_diff()
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}\nBLESS=1 rewrites the expectations");
}

#[test]
fn every_rule_has_a_case_with_its_effect() {
    let mut unbroken: Vec<&str> =
        RULES.iter().map(|r| r.name).filter(|r| *r != "unreadable").collect();
    // `check` and runs apply these to a skill that loads; see the cases of `tricks`, `signatures` and
    // `requires`.
    let of_runs = ["policy-require", "required-skill"];
    unbroken.retain(|rule| !crate::tricks::RULES.contains(rule) && !of_runs.contains(rule));
    for name in all_cases() {
        let loaded = load(&name);
        let diagnostics = diagnostics(&loaded);
        unbroken.retain(|rule| diagnostics.iter().all(|d| d.rule != *rule));
        let effect = diagnostics
            .iter()
            .map(|d| RULES.iter().find(|r| r.name == d.rule).unwrap().effect)
            .max();
        match &loaded {
            Err(_) => assert_eq!(effect, Some(LoadEffect::Refused), "{name}"),
            Ok(skill) => {
                assert_eq!(
                    skill.manifest.recovered,
                    effect == Some(LoadEffect::GrantsNothing),
                    "{name}"
                );
                assert_eq!(
                    skill.manifest.ungranted,
                    effect == Some(LoadEffect::Ungranted),
                    "{name}"
                );
            }
        }
    }
    assert!(unbroken.is_empty(), "no case breaks {unbroken:?}");
}

#[test]
fn recovered_skills_request_nothing() {
    let mut recovered = 0;
    for skill in
        all_cases().iter().filter_map(|name| load(name).ok()).filter(|s| s.manifest.recovered)
    {
        assert_eq!(skill.manifest.allowed_tools, Some(vec![]), "{}", skill.name);
        assert!(
            skill.manifest.component.is_none() && skill.manifest.metadata.is_empty(),
            "{}",
            skill.name
        );
        recovered += 1;
    }
    assert!(recovered > 10);
}

#[test]
fn diagnostics_render_as_snippets_of_the_file() {
    let mut actual = String::new();
    for case in [
        "several-problems",
        "crlf",
        "byte-order-mark-and-spaces",
        "unquoted-colon-in-a-long-value",
        "tab-indentation",
        "unclosed-quote",
        "description-too-long",
        "tools-block-list",
        "name-with-escape-sequence",
        "nul-in-body",
        "frontmatter-too-long",
        "link-outside",
        "skill-md-missing",
    ] {
        let loaded = load(case);
        let (source, root) = match &loaded {
            Ok(skill) => (&skill.source, &skill.root),
            Err(error) => (&error.text, &error.root),
        };
        let rendered =
            anstream::adapter::strip_str(&render(diagnostics(&loaded), source)).to_string();
        writeln!(
            actual,
            "== {case}\n\n{}",
            rendered.replace(&format!("{}/", root.parent().unwrap().display()), "")
        )
        .unwrap();
    }
    let file = root().join("tests/cases/skill-snippets.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &actual).unwrap();
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    assert_eq!(
        expected,
        actual,
        "BLESS=1 rewrites the snippets:\n{}",
        similar::TextDiff::from_lines(&expected, &actual).unified_diff()
    );
}

/// The rules that the JSON schema of the frontmatter expresses.
const OF_THE_SCHEMA: [&str; 15] = [
    rules::YAML_MAP.name,
    rules::FIELD_TYPE.name,
    rules::NAME_MISSING.name,
    rules::NAME_LENGTH.name,
    rules::NAME_PATTERN.name,
    rules::DESCRIPTION_MISSING.name,
    rules::DESCRIPTION_LENGTH.name,
    rules::LICENSE_EMPTY.name,
    rules::COMPATIBILITY_LENGTH.name,
    rules::METADATA_TYPE.name,
    rules::METADATA_VALUE.name,
    rules::METADATA_COMPONENT.name,
    rules::TOOLS_TYPE.name,
    rules::TOOLS_EMPTY.name,
    rules::CLIENT_FIELD_TYPE.name,
];

#[test]
fn schema_and_reader_agree_on_fields_and_types() {
    let validator = jsonschema::validator_for(&manifest::schema()).unwrap();
    let (mut valid, mut invalid) = (0, 0);
    let mut check = |name: &str, loaded: &LoadResult| {
        let source = match loaded {
            Ok(skill) => &skill.source,
            Err(error) => &error.text,
        };
        let lines =
            source.trim_start_matches('\u{feff}').lines().skip_while(|line| line.trim() != "---");
        let frontmatter: Vec<&str> =
            lines.skip(1).take_while(|line| line.trim_end() != "---").collect();
        // The schema is for YAML that parses.
        let Ok(json) = serde_saphyr::from_str::<serde_json::Value>(&frontmatter.join("\n")) else {
            return;
        };
        let diagnostics = diagnostics(loaded);
        let why = || format!("{name}: {:?}", validator.iter_errors(&json).next());
        if diagnostics.iter().any(|d| OF_THE_SCHEMA.contains(&d.rule)) {
            assert!(!validator.is_valid(&json), "{name}: {diagnostics:#?}");
            invalid += 1;
        } else if diagnostics.iter().all(|d| d.severity == Severity::Warning) {
            assert!(validator.is_valid(&json), "{}", why());
            valid += 1;
        }
    };
    all_cases().iter().for_each(|name| check(name, &load(name)));
    for entry in fs::read_dir(root().join("skills")).unwrap() {
        let path = entry.unwrap().path();
        if path.join("SKILL.md").exists() {
            check(&path.display().to_string(), &Skill::load(&path, &SizeLimits::default()));
        }
    }
    assert!(valid > 30 && invalid > 15, "{valid} valid, {invalid} invalid");
}

#[test]
fn reader_knows_the_fields_of_the_schema_and_no_other() {
    let schema = manifest::schema();
    let rules_of = |field: &str| -> Vec<&'static str> {
        let text = format!("---\nname: x\ndescription: d\n{field}: a\n---\n");
        manifest::parse(text.as_bytes(), "x", "SKILL.md")
            .diagnostics
            .iter()
            .map(|d| d.rule)
            .collect()
    };
    let fields = schema["properties"].as_object().unwrap();
    assert!(fields.len() > 20);
    for (field, of_the_schema) in fields {
        let found = rules_of(field);
        assert!(!found.contains(&"unknown-field"), "{field}: {found:?}");
        let is_ignored = of_the_schema["deprecated"] == true;
        assert_eq!(found.contains(&"client-field"), is_ignored, "{field}: {found:?}");
    }
    for field in ["colour", "tools", "version", "component", "Name"] {
        assert!(
            !fields.contains_key(field) && rules_of(field).contains(&"unknown-field"),
            "{field}"
        );
    }
    // Each key of `metadata` that the reader interprets has its own description.
    let metadata = schema["properties"]["metadata"]["properties"].as_object().unwrap();
    for (key, wrong) in
        [("component", "../x"), ("settings", "x"), ("timeout", "x"), ("memory", "x"), ("fuel", "x")]
    {
        let text = format!("---\nname: x\ndescription: d\nmetadata:\n  {key}: {wrong}\n---\n");
        let parsed = manifest::parse(text.as_bytes(), "x", "SKILL.md");
        assert!(parsed.manifest.is_none(), "{key} is interpreted");
        assert!(metadata[key]["description"].is_string(), "{key}");
    }
}

/// Editors read the comment, and the reader ignores it.
#[test]
fn comment_that_names_the_schema_is_no_problem() {
    let text = "---\n# yaml-language-server: $schema=frontmatter.schema.json\nname: x\ndescription: d\n---\n";
    assert_eq!(manifest::parse(text.as_bytes(), "x", "SKILL.md").diagnostics, []);
}

#[test]
fn documentation_lists_all_rules() {
    let mut text = String::from(
        "# Rules for skills\n\n`skillhost check` applies these rules, and exits with 1 if a skill violates one of severity error. The last column\n\
         says what `skillhost run` does with such a skill.\n\n| rule | severity | requires | source | when run |\n|---|---|---|---|---|\n",
    );
    for rule in RULES {
        let severity = match rule.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let effect = match rule.effect {
            LoadEffect::Loads => "loads",
            LoadEffect::Ungranted => "loads, granted nothing",
            LoadEffect::GrantsNothing => "loads as instructions only, granted nothing",
            LoadEffect::Refused => "does not load",
        };
        writeln!(
            text,
            "| `{}` | {severity} | {} | {} | {effect} |",
            rule.name, rule.says, rule.source
        )
        .unwrap();
    }
    let file = root().join("docs/reference/rules.md");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(file).unwrap(), text, "BLESS=1 rewrites docs/reference/rules.md");
}

#[test]
fn digest_covers_only_names_lengths_and_content() {
    let folder = tempfile::tempdir().unwrap();
    let digest = |files: &[(&str, &str)]| {
        let skill = folder.path().join("skill");
        write(&skill, "SKILL.md", GOOD);
        files.iter().for_each(|(path, text)| write(&skill, path, text));
        let digest = Skill::load(&skill, &SizeLimits::default()).unwrap().digest().unwrap();
        fs::remove_dir_all(&skill).unwrap();
        digest
    };
    let one = digest(&[("a", "bc"), ("d/e", "f")]);
    assert!(one.starts_with("sha256:") && one.len() == 7 + 64, "{one}");
    assert_eq!(one, digest(&[("d/e", "f"), ("a", "bc")]), "the order of creation does not count");
    for other in [
        [("a", "bd"), ("d/e", "f")],
        [("ab", "c"), ("d/e", "f")],
        [("a", "bcd"), ("/e", "f")],
        [("a", "bc"), ("d.e", "f")],
    ] {
        let other = other.map(|(path, text)| (path.trim_start_matches('/'), text));
        assert_ne!(one, digest(&other), "{other:?}");
    }
}

#[test]
fn digest_covers_the_target_of_a_symlink() {
    let digest = |target: &str| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "SKILL.md", GOOD);
        write(folder.path(), "a", "same");
        write(folder.path(), "b", "same");
        symlink(target, folder.path().join("link")).unwrap();
        Skill::load(folder.path(), &SizeLimits::default()).unwrap().digest().unwrap()
    };
    assert_ne!(digest("a"), digest("b"));
}

#[test]
fn left_out_files_are_neither_digested_nor_read() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "SKILL.md", GOOD);
    write(folder.path(), ".skillignore", "/target\n");
    let load = || Skill::load(folder.path(), &SizeLimits::default()).unwrap();
    let digest = load().digest().unwrap();
    write(folder.path(), "target/a", "built");
    assert_eq!(load().digest().unwrap(), digest);
    assert_eq!(load().left_out, ["target"]);
    assert_eq!(load().read("target/a").unwrap_err().kind(), std::io::ErrorKind::NotFound);
    write(folder.path(), ".skillignore", "/target \n");
    assert_ne!(load().digest().unwrap(), digest, "the patterns themselves are digested");
    write(folder.path(), ".gitignore", "/target\n");
    fs::remove_file(folder.path().join(".skillignore")).unwrap();
    assert_eq!(load().read("target/a").unwrap(), b"built", ".gitignore has no effect");
}

#[test]
fn file_changed_after_loading_is_not_digested() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "SKILL.md", GOOD);
    write(folder.path(), "a", "four");
    let skill = Skill::load(folder.path(), &SizeLimits::default()).unwrap();
    assert!(skill.digest().is_ok());
    write(folder.path(), "a", "longer");
    assert!(skill.digest().unwrap_err().to_string().contains("`a` was modified"));
}

#[test]
fn only_listed_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skill");
    write(&skill, "SKILL.md", GOOD);
    write(&skill, "data/a.txt", "inside");
    write(folder.path(), "secret", "outside");
    symlink("../secret", skill.join("link")).unwrap();
    let loaded = Skill::load(&skill, &SizeLimits::default()).unwrap();
    assert_eq!(loaded.read("data/a.txt").unwrap(), b"inside");
    for path in ["link", "../secret", "data", "data/../data/a.txt", "/etc/passwd", ""] {
        assert_eq!(loaded.read(path).unwrap_err().kind(), std::io::ErrorKind::NotFound, "{path}");
    }
    // The file is replaced after loading: the handle still neither leaves the skill nor waits for a
    // writer.
    fs::remove_file(skill.join("data/a.txt")).unwrap();
    symlink("../../secret", skill.join("data/a.txt")).unwrap();
    assert!(loaded.read("data/a.txt").is_err());
    fs::remove_file(skill.join("data/a.txt")).unwrap();
    mkfifo(&skill.join("data/a.txt"));
    assert!(loaded.read("data/a.txt").unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn size_limits_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skill");
    write(&skill, "SKILL.md", GOOD);
    write(&skill, "data/a.txt", "12345");
    let skill_md = fs::metadata(skill.join("SKILL.md")).unwrap().len();
    let exact = SizeLimits { skill_md, total: skill_md + 5, files: 3 };
    assert!(Skill::load(&skill, &exact).is_ok());
    for (rule, caps) in [
        ("skill-md-size", SizeLimits { skill_md: skill_md - 1, ..exact.clone() }),
        ("skill-size", SizeLimits { total: skill_md + 4, ..exact.clone() }),
        ("skill-files", SizeLimits { files: 2, ..exact.clone() }),
    ] {
        let error = Skill::load(&skill, &caps).unwrap_err();
        assert_eq!(error.diagnostics.iter().map(|d| d.rule).collect::<Vec<_>>(), [rule]);
    }
}

#[test]
fn policy_raises_the_size_of_skills_and_with_it_the_number_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skill");
    write(&skill, "SKILL.md", GOOD);
    write(&skill, "data/large", "x".repeat(10 << 20));
    for number in 0..2_500 {
        write(&skill, &format!("data/{number}"), "");
    }
    let under = |skill_size| {
        let policy = Policy { skill_size, ..Policy::builtin() };
        Skill::load(&skill, &SizeLimits::of(&policy))
    };
    let rule = |skill_size| under(skill_size).unwrap_err().diagnostics[0].rule;
    assert!(["skill-size", "skill-files"].contains(&rule(10 << 20)));
    let error = under(10 << 20).unwrap_err();
    let fix = error.diagnostics[0].fix.as_deref().unwrap();
    assert!(fix.contains("`--skill-size SIZE`") && fix.contains("`skill-size: SIZE`"), "{fix}");
    // One byte more allows 4,000 files, but not yet the size.
    assert_eq!(rule((10 << 20) + 1), "skill-size");
    under(11 << 20).unwrap();
    let read =
        |text| skillhost_policy::load(Path::new("policy.yaml"), text, None).unwrap().skill_size;
    assert_eq!((read("skill-size: 40MiB"), read("{}")), (40 << 20, 10 << 20));
}

#[test]
fn any_path_to_the_folder_loads_the_skill() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("thing");
    write(&skill, "SKILL.md", GOOD.replace("NAME", "thing"));
    symlink(&skill, folder.path().join("alias")).unwrap();
    for (path, name) in [
        (skill.join(""), "thing"),
        (skill.join("."), "thing"),
        (mkdir(&skill, "x").join(".."), "thing"),
        (folder.path().join("alias"), "alias"),
    ] {
        assert_eq!(
            Skill::load(&path, &SizeLimits::default()).unwrap().name,
            name,
            "{}",
            path.display()
        );
    }
}

/// Writes a skill into an empty folder.
type Generate = fn(&Path);
type LoadResult = Result<Skill, skillhost_skill::SkillError>;

fn all_cases() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(cases())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.extend(GENERATED.iter().map(|(name, _)| (*name).to_owned()));
    names.sort();
    names.dedup();
    assert!(names.len() > 80, "cases are found");
    names
}

/// Loads a case's skill: a generated one, or the only folder next to `expected.txt`.
fn load(case: &str) -> LoadResult {
    if let Some((name, make)) = GENERATED.iter().find(|(name, _)| *name == case) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = mkdir(scratch.path(), name);
        make(&folder);
        return Skill::load(&folder, &SizeLimits::default());
    }
    let folder =
        fs::read_dir(cases().join(case)).unwrap().map(|e| e.unwrap().path()).find(|p| p.is_dir());
    Skill::load(
        &folder.unwrap_or_else(|| panic!("{case} has no skill folder")),
        &SizeLimits::default(),
    )
}

fn diagnostics(loaded: &LoadResult) -> &[Diagnostic] {
    match loaded {
        Ok(skill) => &skill.diagnostics,
        Err(error) => &error.diagnostics,
    }
}

/// Formats a result as in `expected.txt`.
fn report(loaded: &LoadResult, case: &str) -> String {
    let mut out = String::new();
    let root = match loaded {
        Ok(skill) => {
            let mut json = serde_json::to_value(&skill.manifest).unwrap();
            for entry in json["allowed_tools"].as_array_mut().into_iter().flatten() {
                let span = &entry["span"];
                *entry = format!(
                    "{} at {}:{}+{}",
                    entry["text"].as_str().unwrap(),
                    span["line"],
                    span["column"],
                    span["length"]
                )
                .into();
            }
            writeln!(
                out,
                "loads: {}\n{}",
                skill.name,
                serde_json::to_string_pretty(&json).unwrap()
            )
            .unwrap();
            if skill.files.len() > 1 {
                let shown = skill.files.iter().map(|f| match &f.link {
                    Some(target) => format!("{} -> {target}", f.path),
                    None => f.path.clone(),
                });
                writeln!(out, "files: {}", shown.collect::<Vec<_>>().join(", ")).unwrap();
            }
            writeln!(
                out,
                "body from line {}",
                skill.source[..skill.body_offset].matches('\n').count() + 1
            )
            .unwrap();
            &skill.root
        }
        Err(error) => {
            let message = error.to_string().replace(&error.root.display().to_string(), case);
            writeln!(out, "refused: {message}").unwrap();
            &error.root
        }
    };
    let parent = root.parent().unwrap().display().to_string() + "/";
    for d in diagnostics(loaded) {
        let place = d.span.map(|s| format!(":{}:{}", s.line, s.column)).unwrap_or_default();
        let severity = if d.severity == Severity::Error { "error" } else { "warning" };
        writeln!(
            out,
            "\n{}{place} {severity} {} {}",
            d.file.replace(&parent, ""),
            d.rule,
            d.message
        )
        .unwrap();
        if let Some(fix) = &d.fix {
            writeln!(
                out,
                "  fix: {}",
                fix.replace(parent.trim_end_matches('/'), "..").replace('\n', "\n       ")
            )
            .unwrap();
        }
    }
    out
}

fn root() -> PathBuf {
    crate::ROOT.into()
}

fn cases() -> PathBuf {
    root().join("tests/cases/skill")
}

fn write(folder: &Path, path: &str, content: impl AsRef<[u8]>) {
    let content = content.as_ref();
    let file = folder.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    let content = match content.windows(4).position(|w| w == b"NAME") {
        Some(at) => [&content[..at], name.as_bytes(), &content[at + 4..]].concat(),
        None => content.to_owned(),
    };
    fs::write(file, content).unwrap();
}

fn mkdir(folder: &Path, name: &str) -> PathBuf {
    fs::create_dir_all(folder.join(name)).unwrap();
    folder.join(name)
}

fn mkfifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
}
