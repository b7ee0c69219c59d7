//! `cargo xtask determinism`: runs the full suite of deterministic runs. CI runs only a few rounds.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use crate::{host, print_line, workspace};

/// Runs each program `times` times, each time under different conditions.
pub(crate) fn run(times: u32) -> Result<(), Error> {
    let mut cargo = workspace::cargo(&workspace::root());
    cargo.args([
        "test",
        "-p",
        "skillhost-cli",
        "--test",
        "main",
        "--",
        "determinism::",
        "--nocapture",
    ]);
    // Its output goes to the terminal, because it lists what this machine cannot test.
    let status =
        cargo.env("REPEAT", times.to_string()).status().map_err(Error::context("cargo"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::new("the results of some programs differ between runs"))
    }
}

/// The emulated processors, as qemu names them, the one with the fewest features first. A model
/// leaves out the features that qemu does not emulate, about which it would warn on stderr.
///
/// The first has SSE3 and no later extension. The second has AVX2, FMA, BMI1, BMI2 and LZCNT.
const MODELS: [&str; 2] = ["kvm64", "Haswell,-pcid,-x2apic,-tsc-deadline,-hle,-invpcid,-rtm"];

/// The package of Debian with qemu, and the file that emulates a process on x86-64.
const EMULATOR: (&str, &str) = ("qemu-user-static", "usr/bin/qemu-x86_64-static");

/// The tests of the sandbox that compile on an emulated processor.
const COMPILE: &str = "engine::compile::emulated::components_compile_on_an_emulated_processor";
const COMPILER: &str = "engine::compile::emulated::compiler";

/// Runs each program once on this machine and once on each emulated processor, and compares their
/// receipts. The quick form runs only the programs whose component compiles in seconds.
pub(crate) fn on_processors(quick: bool, progress: &Progress) -> Result<(), Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::new("the emulated processors are x86-64, and this machine is not"));
    }
    let root = workspace::root();
    let components = root.join("target/components");
    let component = components.join("hostile.wasm");
    if !component.is_file() {
        return Err(Error::new(format!("{} is missing", component.display()))
            .help("build it: cargo xtask components"));
    }
    let emulator = emulator(&root, progress)?;
    let tests = build(&root, progress)?;
    let caches = root.join("target/processors");
    let programs = if quick { caches.join("no-programs") } else { components };
    for model in MODELS {
        let place = caches.join(name(model));
        let compiler = place.join("compiler");
        fs::create_dir_all(&place).map_err(Error::context(place.display()))?;
        write_compiler(&compiler, &emulator, model, &tests.sandbox)?;
        let mut compile = Command::new(&emulator);
        compile
            .args(["-cpu", model])
            .arg(&tests.sandbox)
            .args(["--ignored", "--exact", COMPILE])
            .env("EMULATED_CACHE", place.join("skillhost/components"))
            .env("EMULATED_PROGRAMS", &programs)
            .env("EMULATED_COMPONENT", &component)
            .env("EMULATED_COMPILER", &compiler);
        progress
            .step(&format!("compile the components on {}", name(model)), |step| {
                step.run(&mut compile)
            })
            .map_err(Error::from)?;
    }
    let mut run = Command::new(&tests.main);
    run.current_dir(&root)
        .args(["determinism::processors::", "--ignored", "--nocapture", "--test-threads=1"])
        .env("EMULATOR", &emulator)
        .env("EMULATED_MODELS", MODELS.join(" "))
        .env("EMULATED_CACHES", &caches);
    if quick {
        run.env("QUICK", "1");
    }
    let status = run.status().map_err(Error::context(tests.main.display()))?;
    print_line("not tested: aarch64, where the emulator cannot run the compiler");
    if status.success() {
        Ok(())
    } else {
        Err(Error::new("the results of some programs differ between processors"))
    }
}

/// Unpacks qemu, and prints its version.
fn emulator(root: &Path, progress: &Progress) -> Result<PathBuf, Error> {
    let (package, file) = EMULATOR;
    let tools = root.join("target/tools");
    let path = skillhost_toolchain::unpack_file(&tools, package, file, progress)?;
    let version =
        Command::new(&path).arg("--version").output().map_err(Error::context(path.display()))?;
    print_line(String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default());
    Ok(path)
}

/// The test programs of the sandbox and of the command.
struct Tests {
    sandbox: PathBuf,
    main: PathBuf,
}

/// Builds both at once, and as `cargo xtask test` does: a cache is only found by a host whose
/// dependencies have the same features.
fn build(root: &Path, progress: &Progress) -> Result<Tests, Error> {
    let mut cargo = workspace::cargo(root);
    host::linted(&mut cargo).args(["test", "--workspace", "--locked", "--lib", "--test", "main"]);
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let messages =
        progress.step("build the tests", |step| step.run(&mut cargo)).map_err(Error::from)?;
    Ok(Tests {
        sandbox: host::executable(&messages, "skillhost_sandbox")?,
        main: host::executable(&messages, "main")?,
    })
}

/// Writes the program that the sandbox starts as the compiler. qemu starts it natively, so it starts
/// qemu again. The test prints to stdout, so the code goes to another descriptor.
fn write_compiler(path: &Path, emulator: &Path, model: &str, test: &Path) -> Result<(), Error> {
    let script = format!(
        "#!/bin/sh\nshift\nexec 3>&1 >&2\nEMULATED_COMPILER_ARGS=\"$*\" exec '{}' -cpu '{model}' '{}' --ignored --exact {COMPILER}\n",
        emulator.display(),
        test.display()
    );
    fs::write(path, script)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .map_err(Error::context(path.display()))
}

/// Returns the name of a model, without its features.
fn name(model: &str) -> &str {
    model.split(',').next().unwrap_or(model)
}
