//! Deterministic runs have the same receipts on every processor, and no processor runs code that was
//! compiled for another one.
//!
//! `cargo xtask determinism --cpu` unpacks qemu, compiles the components on each processor, and runs
//! these tests. The variables are its.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use super::conditions::{Conditions, Environment, Processor, copy_cache};
use super::programs::{self, Program, Target};
use super::{RunResult, run_all};
use crate::cli::{repository, text};
use crate::hostile_host::hostile;

/// Returns the emulated processors, the one with the fewest features first.
fn processors() -> Vec<Processor> {
    let variable = |name: &str| {
        std::env::var(name).unwrap_or_else(|_| panic!("run `cargo xtask determinism --cpu`"))
    };
    let caches = PathBuf::from(variable("EMULATED_CACHES"));
    let of = |model: &str| Processor {
        emulator: variable("EMULATOR").into(),
        model: model.to_owned(),
        cache: caches.join(model.split(',').next().unwrap()),
    };
    variable("EMULATED_MODELS").split(' ').map(of).collect()
}

/// Returns all programs, or those whose name contains `CASE`. With `QUICK`, only the command lines
/// of the component, which compiles in seconds.
fn selected() -> Vec<Program> {
    let all = programs::all();
    assert_eq!(all.len(), 116);
    let case = std::env::var("CASE").unwrap_or_default();
    let quick = std::env::var_os("QUICK").is_some();
    let is_selected = |program: &Program| {
        program.name.contains(&case) && (!quick || matches!(program.target, Target::Component(_)))
    };
    all.into_iter().filter(is_selected).collect()
}

#[test]
#[ignore = "needs qemu: cargo xtask determinism --cpu"]
#[expect(clippy::print_stderr, reason = "reports progress, because this takes minutes")]
fn programs_have_the_same_receipt_on_every_processor() {
    let programs = selected();
    let results = |processor: Option<&Processor>| -> Vec<RunResult> {
        let conditions = Conditions::on(processor);
        let started = Instant::now();
        let results = run_all(&programs, &Environment::new(&conditions), &conditions);
        let name = processor.map_or("this machine", |processor| &processor.model);
        eprintln!("{} programs on {name}: {} s", programs.len(), started.elapsed().as_secs());
        results
    };
    let native = results(None);
    let mut errors: String =
        programs.iter().zip(&native).map(|(program, result)| program.check(result)).collect();
    for processor in processors() {
        for ((program, here), there) in programs.iter().zip(&native).zip(&results(Some(&processor)))
        {
            if let Some(difference) = here.difference(there) {
                errors += &format!(
                    "==> {} differs on {}: {difference}\n\n",
                    program.name, processor.model
                );
            }
        }
    }
    assert!(errors.is_empty(), "{errors}");
}

/// The emulated host starts its compiler on the processor of this machine, so the code that it gets
/// is for that one. A cache that machines share is the same case.
#[test]
#[ignore = "needs qemu: cargo xtask determinism --cpu"]
fn code_for_another_processor_is_not_run() {
    let processors = processors();
    let (weakest, strongest) = (&processors[0], processors.last().unwrap());
    let place = tempfile::tempdir().unwrap();
    let skill = place.path().join("hostile");
    std::fs::create_dir(&skill).unwrap();
    std::fs::write(skill.join("hostile.wasm"), hostile()).unwrap();
    let manifest = "---\nname: hostile\ndescription: Attacks. Use to test.\nmetadata:\n  component: hostile.wasm\n---\n";
    std::fs::write(skill.join("SKILL.md"), manifest).unwrap();
    let run = |cache: &Path| -> Output {
        weakest
            .host()
            .args(["run", "--deterministic", "--programs"])
            .arg(repository("target/components"))
            .arg(&skill)
            .args(["--", "floats"])
            .env("HOME", place.path())
            .env("XDG_CACHE_HOME", cache)
            .output()
            .unwrap()
    };
    // The runs are possible: with code for this processor, they succeed.
    let own = place.path().join("own");
    copy_cache(&weakest.cache, &own);
    private(&own);
    let output = run(&own);
    assert!(output.status.success(), "{}", text(&output.stderr));

    let of_another = place.path().join("of-another");
    copy_cache(&strongest.cache, &of_another);
    private(&of_another);
    for cache in [of_another, place.path().join("empty")] {
        let output = run(&cache);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(74), ""));
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("the compiled component did not load")
                && stderr.contains("not available on the host"),
            "{stderr}"
        );
    }
}

/// The emulator has no system call filters. A compiler that cannot be confined reads nothing.
#[test]
#[ignore = "needs qemu: cargo xtask determinism --cpu"]
fn compiler_without_confinement_refuses() {
    let compile = |mut host: Command| {
        host.args(["__compile", "deterministic", "whole", "native", "60000", "1000000000"]);
        let mut child = host
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may have ended, which breaks the pipe.
        drop(child.stdin.take().unwrap().write_all(&hostile()));
        child.wait_with_output().unwrap()
    };
    let native = compile(Command::new(env!("CARGO_BIN_EXE_skillhost")));
    assert!(native.status.success() && !native.stdout.is_empty());
    for processor in processors() {
        let emulated = compile(processor.host());
        assert_eq!((emulated.status.code(), emulated.stdout.len()), (Some(71), 0), "{emulated:?}");
    }
}

/// Gives a copied cache the mode that the host requires.
fn private(cache: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = cache.join("skillhost/components");
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
}
