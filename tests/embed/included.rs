//! `include_skill!`: what the compiler says about a skill, and what a program embeds.

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost::included::{EmbeddedCode, EmbeddedContent};
use skillhost::outcome::Status;
use skillhost::{BuildError, EmbeddedSkill, Host, Request, include_skill, load_policy};
use skillhost_build::{PrecompileError, Precompiler};
use skillhost_ledger::receipt::envelope;
use skillhost_ledger::receipt::key::SigningKey;
use skillhost_skill::{SizeLimits, Skill};
use skillhost_sources::signature;

use super::{builder, components};
use crate::cli::{copy_compiled_runtimes, ends, repository};

/// A package with the skill `skills/reporter`.
fn package() -> tempfile::TempDir {
    let package = tempfile::tempdir().unwrap();
    let skill = package.path().join("skills/reporter");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    let skill_md = "---\nname: reporter\ndescription: Runs a script. Use to test.\n---\nRun it.\n";
    std::fs::write(skill.join("SKILL.md"), skill_md).unwrap();
    std::fs::write(skill.join("scripts/report.sh"), "echo report\n").unwrap();
    package
}

/// Returns the newest file of a crate that this test program was built with.
fn library(name: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_it = |path: &PathBuf| {
        let file = path.file_name().unwrap().to_str().unwrap();
        file.starts_with(&format!("lib{name}-")) && file.ends_with(".rlib")
    };
    let files = std::fs::read_dir(deps).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(is_it)
        .max_by_key(|path| path.metadata().and_then(|file| file.modified()).unwrap())
        .unwrap()
}

/// Checks a library of a package as Cargo would. Returns whether it compiles, and what the compiler
/// says. `depends.d` of the package then has the files that it depends on.
fn compile(package: &Path, source: &str, out: Option<&Path>) -> (bool, String) {
    let library = library("skillhost");
    std::fs::write(package.join("lib.rs"), source).unwrap();
    let mut rustc = Command::new("rustc");
    rustc
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=metadata,dep-info=depends.d",
            "lib.rs",
        ])
        .arg(format!("-Ldependency={}", library.parent().unwrap().display()))
        .arg(format!("--extern=skillhost={}", library.display()))
        .current_dir(package)
        .env_remove("OUT_DIR")
        .env("CARGO_MANIFEST_DIR", package);
    if let Some(out) = out {
        rustc.env("OUT_DIR", out);
    }
    let output = rustc.output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

const LIBRARY: &str = "//! A library.\n#![forbid(unsafe_code)]\nuse skillhost::{EmbeddedSkill, include_skill};\n/// A skill.\npub static SKILL: EmbeddedSkill = include_skill!(\"skills/reporter\");\n";

#[test]
fn compiler_points_into_skill_md_and_at_the_path() {
    let package = package();
    let skill_md = package.path().join("skills/reporter/SKILL.md");
    let (compiles, says) = compile(package.path(), LIBRARY, None);
    assert!(compiles, "{says}");
    for (text, expected) in [
        ("---\nname: Reporter\ndescription: Tests.\n---\n", "skills/reporter/SKILL.md:2:7: "),
        ("---\nname: reporter\n---\n", "(description-missing)"),
        ("---\nname: reporter\ndescription: x: y\n---\n", "skills/reporter/SKILL.md:3:15: "),
        (
            "---\nname: reporter\ndescription: Tests.\nmetadata:\n  component: a.wasm\n---\n",
            "skills/reporter/SKILL.md:5:14: the file `a.wasm` does not exist in the skill (component-missing)\n",
        ),
    ] {
        std::fs::write(&skill_md, text).unwrap();
        let (compiles, says) = compile(package.path(), LIBRARY, None);
        let is_at_path = says.contains("--> lib.rs:5:50\n") && says.contains("^^^^^^^^^^^^^^^^^");
        assert!(!compiles && is_at_path, "{says}");
        assert!(says.contains("cannot embed the skill skills/reporter\n"), "{says}");
        assert!(says.contains(expected), "{expected}: {says}");
    }
    std::fs::remove_file(&skill_md).unwrap();
    let (compiles, says) = compile(package.path(), LIBRARY, None);
    assert!(!compiles && says.contains("(skill-md-missing)"), "{says}");
    std::fs::remove_dir_all(package.path().join("skills")).unwrap();
    let (compiles, says) = compile(package.path(), LIBRARY, None);
    assert!(!compiles && says.contains("no such folder (skill-folder)"), "{says}");
}

#[test]
fn change_of_any_file_compiles_the_program_again() {
    let package = package();
    std::fs::write(package.path().join("skills/reporter/.skillignore"), "/notes\n").unwrap();
    std::fs::write(package.path().join("skills/reporter/notes"), "mine").unwrap();
    assert!(compile(package.path(), LIBRARY, None).0);
    let depends = std::fs::read_to_string(package.path().join("depends.d")).unwrap();
    for file in ["SKILL.md", "scripts/report.sh"] {
        let path = package.path().join("skills/reporter").join(file);
        assert!(depends.contains(path.to_str().unwrap()), "{file}: {depends}");
    }
    assert!(!depends.contains("notes"), "{depends}");
}

#[test]
fn code_of_the_build_script_is_embedded() {
    let package = package();
    let (skill, out) = (package.path().join("skills/reporter"), package.path().join("out"));
    std::fs::copy(components().join("hello.wasm"), skill.join("hello.wasm")).unwrap();
    let has = |count: usize| {
        format!("{LIBRARY}const _: () = assert!(SKILL.code().len() == {count});\n")
            .replace("pub static", "pub const")
    };
    let compiles = |source: &str| compile(package.path(), source, Some(&out));
    let (compiled, says) = compiles(&has(0));
    assert!(compiled, "{says}");
    let precompiler = Precompiler {
        package: package.path().to_owned(),
        out: out.clone(),
        architecture: std::env::consts::ARCH.to_owned(),
    };
    let written = precompiler.skill("skills/reporter").unwrap();
    assert_eq!(written.len(), 1);
    let (compiled, says) = compiles(&has(1));
    assert!(compiled, "{says}");
    // The code is that of this component, and of no other.
    std::fs::write(skill.join("hello.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
    let (compiled, says) = compiles(&has(0));
    assert!(compiled, "{says}");

    std::fs::write(skill.join("hello.wasm"), b"\0asm").unwrap();
    let error = precompiler.skill("skills/reporter").unwrap_err();
    assert!(matches!(error, PrecompileError::Component { .. }), "{error}");
    let error = precompiler.skill("skills/other").unwrap_err();
    assert!(error.to_string().contains("no such folder"), "{error}");
    let other = Precompiler { architecture: "riscv64".into(), ..precompiler };
    assert!(matches!(other.skill("skills/reporter"), Err(PrecompileError::Target(_))));
}

#[tokio::test]
async fn embedded_python_and_shell_skills_run() {
    static REPORT: EmbeddedSkill = include_skill!("../../skills/csv-report");
    static TRIAGE: EmbeddedSkill = include_skill!("../../skills/log-triage");
    let folder = tempfile::tempdir().unwrap();
    let (home, work) = (folder.path().join("home"), folder.path().join("work"));
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("people.csv"), "name,age\nAda,36\nGrace,85\n").unwrap();
    std::fs::write(work.join("app.log"), "2026-01-01T00:00:01Z ERROR cannot open data.db\n")
        .unwrap();
    let host = builder(&home).embedded_skill(REPORT).embedded_skill(TRIAGE).build().unwrap();
    copy_compiled_runtimes(&home.join("cache/components"));
    let found = host.catalog().get("csv-report").unwrap();
    assert!(found.folder.starts_with("/dev/shm") && found.trusted, "{found:?}");
    for (skill, script, file, says) in [
        ("csv-report", "scripts/csv_report.py", "people.csv", "people.csv: 2 rows, 2 columns\n"),
        ("log-triage", "scripts/triage.sh", "app.log", "cannot open data.db"),
    ] {
        let request = Request::of(skill)
            .script(script)
            .args([file])
            .workspace(&work, skillhost::MountMode::Write);
        let outcome = host.invoke(request).await.unwrap().outcome;
        let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
        assert_eq!(outcome.status, Status::Exited { code: 0 }, "{skill}: {stderr}");
        assert!(stdout.contains(says), "{skill}: {stdout}");
    }
    // The digest in the records is that of the skill's folder, and nothing of it was copied.
    let log = std::fs::read_to_string(home.join("audit.jsonl")).unwrap();
    for record in ends(&log) {
        let name = record["skill"]["name"].as_str().unwrap();
        let skill = Skill::load(&repository("skills").join(name), &SizeLimits::default()).unwrap();
        assert_eq!(record["skill"]["digest"], skill.digest().unwrap());
    }
    assert!(!home.join("cache/components/skills").exists());
    let folder = found.folder.to_path_buf();
    host.close().await;
    assert!(folder.exists());
    drop(host);
    assert!(!folder.exists(), "the folder is removed with the host");
}

/// A skill whose component prints its arguments, as the macro would embed it.
fn greeter(code: &'static [EmbeddedCode]) -> EmbeddedSkill {
    let component = std::fs::read(components().join("hello.wasm")).unwrap();
    let skill_md =
        b"---\nname: greeter\ndescription: Tests.\nmetadata:\n  component: hello.wasm\n---\n";
    let files = [
        ("SKILL.md", EmbeddedContent::File(skill_md)),
        ("hello.wasm", EmbeddedContent::File(component.leak())),
    ];
    EmbeddedSkill::new("greeter", Box::leak(Box::new(files)), code)
}

#[tokio::test]
async fn embedded_component_runs_without_a_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skills/greeter");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::copy(components().join("hello.wasm"), skill.join("hello.wasm")).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: greeter\ndescription: Tests.\n---\n")
        .unwrap();
    let precompiler = Precompiler {
        package: folder.path().to_owned(),
        out: folder.path().join("out"),
        architecture: std::env::consts::ARCH.to_owned(),
    };
    let written = precompiler.skill("skills/greeter").unwrap();
    let code = std::fs::read(&written[0]).unwrap().leak();
    let digest = format!("sha256:{}", written[0].file_stem().unwrap().to_str().unwrap()).leak();
    #[expect(unsafe_code, reason = "what the macro writes")]
    // SAFETY: `Precompiler` has written the code for this component.
    let code = Box::leak(Box::new([unsafe { EmbeddedCode::new(digest, code) }]));

    let host = |home: &str, skill: EmbeddedSkill| {
        let builder = Host::builder().home(folder.path().join(home)).compiler("/nowhere/compiler");
        builder.embedded_skill(skill).build().unwrap()
    };
    let run = async |host: &Host| {
        host.invoke(Request::of("greeter").args(["a b"])).await.unwrap().outcome
    };
    let outcome = run(&host("with", greeter(code))).await;
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{}", outcome.stderr.text());
    assert!(!outcome.stdout.text().is_empty());
    let outcome = run(&host("without", greeter(&[]))).await;
    assert!(matches!(outcome.status, Status::Failed { .. }), "{:?}", outcome.status);
}

#[test]
fn two_embedded_skills_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let built = builder(folder.path()).embedded_skill(greeter(&[])).embedded_skill(greeter(&[]));
    assert!(matches!(built.build(), Err(BuildError::Embedded { .. })));
}

#[tokio::test]
async fn host_trusts_the_keys_that_it_is_given() {
    let package = package();
    let skill = package.path().join("skills/reporter");
    let (key, other) = (SigningKey::generate(), SigningKey::generate());
    let loaded = Skill::load(&skill, &SizeLimits::default()).unwrap();
    let files = skillhost::invoke::evidence::listing(&loaded).unwrap();
    let statement = signature::statement("reporter", &files).to_string();
    let envelope = envelope::sign_statement(statement.as_bytes(), &key).unwrap();
    std::fs::write(skill.join(signature::FILE), envelope).unwrap();
    let require = |key: &SigningKey| {
        let text = format!(
            "default: {{ allow: [Bash] }}\nskills:\n  reporter:\n    require: {{ signed-by: ['{}'] }}\n",
            key.public().id()
        );
        load_policy(Path::new("policy.yaml"), &text, None).unwrap()
    };
    let run = async |name: &str, required: &SigningKey, trusted: &SigningKey| {
        let home = package.path().join(name);
        let host = builder(&home)
            .skills(package.path().join("skills"))
            .policy(require(required))
            .trust(trusted.public().pem())
            .build()
            .unwrap();
        copy_compiled_runtimes(&home.join("cache/components"));
        host.invoke(Request::of("reporter").script("report.sh")).await
    };
    let signed = run("signed", &key, &key).await.unwrap().outcome;
    assert_eq!(signed.stdout.text(), "report\n", "{:?}", signed.status);
    for (name, required, trusted) in [("unknown", &key, &other), ("other", &other, &key)] {
        let error = run(name, required, trusted).await.err().unwrap().to_string();
        assert!(error.contains("requires a signature by"), "{name}: {error}");
    }
    std::fs::write(skill.join("scripts/report.sh"), "echo changed\n").unwrap();
    let error = run("changed", &key, &key).await.err().unwrap().to_string();
    assert!(error.contains("`scripts/report.sh` was modified"), "{error}");
    let built = builder(&package.path().join("broken")).trust("no key").build();
    assert!(matches!(built, Err(BuildError::Trust { at: 0, .. })));
}
