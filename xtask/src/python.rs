//! `cargo xtask python`: builds the Python runtime, `target/components/python.wasm`.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use skillhost_image::Optimizer;
use skillhost_toolchain::{Error, Progress, files};

use crate::shell::hex;
use crate::{javascript, workspace};

/// The names of the functions that starts call, as recorded by `record_order.py` in the same
/// folder.
const ORDER: &str = include_str!("../../components/python/build/order.txt");
/// With a smaller stack, deep recursion reaches its limit before CPython raises RecursionError:
/// `repr` of nested deques needs more than 80 MiB.
const STACK: &str = "128MiB";

/// Builds what has changed. `components/python/build.py` builds the image and the packages.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    check()?;
    // Compiles the C libraries of the runtime.
    javascript::prepare_compiler(&workspace::root(), progress)?;
    progress
        .step("build the Python runtime", |step| step.run(&mut script()).map(drop))
        .map_err(|error| Error::new(error.to_string()))?;
    progress.step("transform the image of the Python runtime", |_| transform(&workspace::root()))
}

/// Transforms the image, and writes the component and its program manifest, unless they are up to
/// date.
fn transform(root: &Path) -> Result<(), Error> {
    let built = root.join("target/python");
    let components = root.join("target/components");
    let read = |path: &Path| std::fs::read(path).map_err(Error::context(path.display()));
    let stamp = stamp(root)?;
    let done = built.join("transformed");
    if read(&done).is_ok_and(|old| old == stamp.as_bytes())
        && components.join("python.wasm").is_file()
        && components.join("python.json").is_file()
    {
        return Ok(());
    }
    let optimizer = Optimizer {
        program: &built.join("tools/node_modules/.bin/wasm-opt"),
        exchange: &built.join("optimized"),
    };
    let image = read(&built.join("image/python.wasm"))?;
    let image = skillhost_image::python(&image, ORDER, &optimizer)
        .map_err(Error::context("the image of the Python runtime"))?;
    let version =
        String::from_utf8_lossy(&read(&built.join("stdlib/stdlib.version"))?).into_owned();
    let digest = hex(&Sha256::digest(&image.component));
    let manifest = json!({
        "name": "python",
        "version": version,
        "programs": ["python3", "python", "python3.14"],
        "wasm": "python.wasm",
        "size": image.component.len(),
        "digest": format!("sha256:{digest}"),
        "limits": { "stack": STACK },
        // If this folder exists next to the component, the host mounts it at
        // /usr/lib/python3.14/site-packages.
        "packages": "python-packages",
    });
    let text = serde_json::to_string_pretty(&manifest).map_err(Error::context("python.json"))?;
    files::write_if_changed(&built.join("names.txt"), image.names.as_bytes())?;
    files::write_if_changed(&components.join("python.wasm"), &image.component)?;
    files::write_if_changed(&components.join("python.json"), format!("{text}\n").as_bytes())?;
    files::write_if_changed(&done, stamp.as_bytes()).map(drop)
}

/// Returns a digest of the inputs of the component: the image, the list of functions, the optimizer
/// and the passes.
fn stamp(root: &Path) -> Result<String, Error> {
    let passes = root.join("tools/image/src");
    let entries = std::fs::read_dir(&passes)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>());
    let mut inputs = entries.map_err(Error::context(passes.display()))?;
    inputs.sort();
    // The keys of the stages that `build.py` runs.
    inputs.extend(["tools/key", "image/key"].map(|key| root.join("target/python").join(key)));
    let mut digest = Sha256::new_with_prefix(ORDER);
    for input in inputs {
        digest.update(std::fs::read(&input).map_err(Error::context(input.display()))?);
    }
    Ok(hex(&digest.finalize()))
}

/// Checks for the tools that build the Python runtime.
///
/// # Errors
/// Lists what is missing, with the commands that install it.
pub(crate) fn check() -> Result<(), Error> {
    let missing = || {
        Error::new(format!("{PYTHON} is not installed"))
            .help("`apt install python3 python3-venv`, or https://www.python.org/downloads")
    };
    let done = script().arg("--check").output().map_err(|_| missing())?;
    if done.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&done.stderr);
    Err(Error::new(stderr.trim().trim_start_matches("error: ").to_owned()))
}

/// Returns the command that runs test scripts in the sandbox and compares their output with that of
/// native CPython. It requires the host and the runtime.
pub(crate) fn cases() -> Command {
    let root = workspace::root();
    let mut cases = Command::new(PYTHON);
    cases
        .arg(root.join("components/python/tests/run.py"))
        .arg("--skillhost")
        .arg(root.join("target/debug/skillhost"))
        .current_dir(&root);
    cases
}

const PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };

fn script() -> Command {
    let root = workspace::root();
    let mut script = Command::new(PYTHON);
    script.arg(root.join("components/python/build.py")).current_dir(&root);
    script
}
