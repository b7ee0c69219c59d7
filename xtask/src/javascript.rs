//! Builds the JavaScript runtime: prepares the sources of Node's modules and of the engine, with the
//! patches of components/javascript, and the C compiler for the engine; and initialises the component.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use skillhost_toolchain::{Error, Progress, Step, files};

use crate::patched::Patched;
use crate::{sources, workspace};

/// The name of the component and of its crate.
pub(crate) const NAME: &str = "javascript";
/// The workspace of the component.
pub(crate) const WORKSPACE: &str = "components/javascript";
/// Node's modules.
const MODULES: Patched = Patched {
    component: NAME,
    patches: "patches/modules",
    upstream: "wasm-rquickjs",
    copied: &[("skeleton/src/builtin", "builtin"), ("licenses", "licenses")],
    patched_in: "builtin",
};
/// The engine.
const ENGINE: Patched = Patched {
    component: NAME,
    patches: "patches/engine",
    upstream: "rquickjs-sys",
    copied: &[
        ("Cargo.toml", "rquickjs-sys/Cargo.toml"),
        ("build.rs", "rquickjs-sys/build.rs"),
        ("quickjs.bind.h", "rquickjs-sys/quickjs.bind.h"),
        ("quickjs", "rquickjs-sys/quickjs"),
        ("src", "rquickjs-sys/src"),
        ("vendor", "rquickjs-sys/vendor"),
        ("wasm-shim", "rquickjs-sys/wasm-shim"),
    ],
    patched_in: "rquickjs-sys",
};
/// The names by which scripts start the runtime. After the first two, they are those of other
/// runtimes.
const PROGRAMS: [&str; 6] = ["node", "nodejs", "bun", "deno", "ts-node", "tsx"];
/// The wasm stack that the deepest recursion of a script needs: see `engine.rs` of the component.
const STACK: &str = "64MiB";

/// Pins the C compiler by its digest: Zig from PyPI, which contains clang.
const COMPILER: &str = "components/javascript/compiler.txt";

/// Writes the patched sources to the folders that modules.txt and Cargo.toml of the component refer
/// to, and fetches the compiler, unless both are up to date.
pub(crate) fn prepare(root: &Path, progress: &Progress) -> Result<(), Error> {
    progress.step("prepare the source of the JavaScript runtime", |step| {
        MODULES.prepare(root, step)?;
        ENGINE.prepare(root, step)
    })?;
    prepare_compiler(root, progress)
}

/// Fetches the C compiler, which the Python runtime uses too, unless it is up to date.
pub(crate) fn prepare_compiler(root: &Path, progress: &Progress) -> Result<(), Error> {
    let lock = root.join(COMPILER);
    let lock = std::fs::read_to_string(&lock).map_err(Error::context(lock.display()))?;
    let folder = compiler(root);
    let stamp = folder.join("stamp");
    if !std::fs::read_to_string(&stamp).is_ok_and(|old| old == lock) {
        progress.step("fetch the C compiler of the runtimes", |step| {
            // The stamp goes first: an interrupted run must not leave a partial folder that counts
            // as complete.
            workspace::remove(&stamp)?;
            workspace::remove(&folder)?;
            fetch_compiler(root, &folder, step)
        })?;
        std::fs::write(&stamp, lock).map_err(Error::context(stamp.display()))?;
    }
    write_wrappers(&folder)
}

fn fetch_compiler(root: &Path, folder: &Path, step: &Step) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(Error::context(folder.display()))?;
    let help = |error: skillhost_toolchain::CommandError| {
        Error::new(error.to_string()).help("`apt install python3 python3-venv`")
    };
    let environment = folder.join("environment");
    step.run(Command::new("python3").args(["-m", "venv"]).arg(&environment)).map_err(help)?;
    let mut install = Command::new(environment.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--no-deps", "--only-binary=:all:", "--require-hashes", "-r"]);
    step.run(install.arg(root.join(COMPILER))).map(drop).map_err(help)
}

/// Writes the programs that cargo finds as the compiler and the archiver.
fn write_wrappers(folder: &Path) -> Result<(), Error> {
    // The target that the `cc` crate passes is not one of Zig's.
    let cc = "for argument do\n  shift\n  case $argument in --target=*) ;; *) set -- \"$@\" \"$argument\" ;; esac\ndone\n\
              exec \"$here/environment/bin/python\" -m ziglang cc -target wasm32-freestanding \"$@\"\n";
    let ar = "exec \"$here/environment/bin/python\" -m ziglang ar \"$@\"\n";
    for (name, commands) in [("cc", cc), ("ar", ar)] {
        let script = format!(
            "#!/bin/sh\nhere=${{0%/*}}\nexport ZIG_GLOBAL_CACHE_DIR=\"$here/cache\" ZIG_LOCAL_CACHE_DIR=\"$here/cache\"\n{commands}"
        );
        let path = folder.join(name);
        files::write_if_changed(&path, script.as_bytes())?;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).map_err(Error::context(path.display()))?;
    }
    Ok(())
}

/// Returns the arguments of cargo with which build scripts find the compiler.
pub(crate) fn cargo_args(root: &Path) -> Vec<String> {
    [("CC", "cc"), ("AR", "ar")]
        .into_iter()
        .flat_map(|(variable, program)| {
            let path = compiler(root).join(program).display().to_string();
            ["--config".to_owned(), format!("env.{variable}_wasm32_unknown_unknown={path:?}")]
        })
        .collect()
}

fn compiler(root: &Path) -> PathBuf {
    root.join("target/javascript/compiler")
}

/// Writes the component to `to`, initialised.
pub(crate) fn write_initialized(
    root: &Path,
    built: &Path,
    to: &Path,
    progress: &Progress,
) -> Result<(), Error> {
    let image = root.join("target/javascript/image.wasm");
    progress.step("initialise the JavaScript runtime", |step| {
        // Without `--package`, the tool shares the host's compiled engine.
        let mut snapshot = workspace::cargo(root);
        snapshot.args(["run", "--quiet", "--locked", "--bin", "skillhost-snapshot", "--"]);
        step.run(snapshot.arg(built).arg(&image)).map(drop)
    })?;
    files::copy_if_changed(&image, to).map(drop)
}

/// Writes the program manifest next to the component.
pub(crate) fn write_manifest(root: &Path, wasm: &Path) -> Result<(), Error> {
    let bytes = std::fs::read(wasm).map_err(Error::context(wasm.display()))?;
    let manifest = json!({
        "name": NAME,
        "version": version(root)?,
        "programs": PROGRAMS,
        "wasm": "javascript.wasm",
        "size": bytes.len(),
        "digest": format!("sha256:{}", sources::digest(&bytes)),
        "limits": { "stack": STACK },
        // If this folder exists next to the component, the host mounts it at /usr/lib/node_modules.
        "packages": "javascript-packages",
    });
    let text =
        serde_json::to_string_pretty(&manifest).map_err(Error::context("javascript.json"))?;
    files::write_if_changed(&wasm.with_extension("json"), format!("{text}\n").as_bytes()).map(drop)
}

/// Returns the version of Node that the component states.
fn version(root: &Path) -> Result<String, Error> {
    let file = root.join(WORKSPACE).join("src/command_line.rs");
    let text = std::fs::read_to_string(&file).map_err(Error::context(file.display()))?;
    let line = text.lines().find_map(|line| line.split_once("const VERSION: &str = \""));
    line.map(|(_, rest)| rest.trim_end_matches("\";").to_owned())
        .ok_or_else(|| Error::new(format!("{} has no version", file.display())))
}
