//! `cargo xtask toolchain`: the toolchain for the components, and the proof that it makes one.

use std::path::Path;

use skillhost_toolchain::{Build, Error, Origin, Progress, Source, WasmToolchain, files, find};

use crate::{say, workspace};

/// How a component begins: the magic of WebAssembly, version 13, layer 1.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// A guest that uses what needs an allocator and std, and nothing from a registry.
const PROBE: [(&str, &str); 2] = [
    (
        "Cargo.toml",
        "[package]\nname = \"probe\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[lib]\ncrate-type = [\"cdylib\"]\n",
    ),
    (
        "src/lib.rs",
        "#[unsafe(no_mangle)]\npub extern \"C\" fn probe(n: usize) -> usize {\n    \
         std::collections::HashMap::from([(n, format!(\"{n:?}\"))])[&n].len()\n}\n",
    ),
];

pub(crate) fn run(from_packages: bool, progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let toolchain =
        find(&cache(&root), if from_packages { Source::Packages } else { Source::Any }, progress)?;
    let dir = root.join("target/toolchain/probe");
    for (name, text) in PROBE {
        files::write_if_changed(&dir.join(name), text.as_bytes())?;
    }
    let build = Build { dir: &dir, profile: "release", target_dir: &dir.join("target"), args: &[] };
    let built = progress.step("build a small component", |step| toolchain.build(build, step))?;
    let wasm = built.first().ok_or_else(|| Error::new("cargo reports no component"))?;
    let bytes = std::fs::read(&wasm.wasm).map_err(Error::context(wasm.wasm.display()))?;
    if !bytes.starts_with(COMPONENT) {
        return Err(Error::new(format!("{} is no component", wasm.wasm.display())));
    }
    say(match &toolchain.origin {
        Origin::Active => "The active toolchain compiles components.".into(),
        Origin::Rustup => {
            "The active toolchain compiles components, now that rustup added the target.".into()
        }
        Origin::Packages(version) => format!("Debian's Rust {version} compiles components."),
    });
    if let Some(rustc) = &toolchain.rustc {
        say(format!("RUSTC={}", rustc.display()));
    }
    Ok(())
}

/// The toolchain for the guests of this repository.
pub(crate) fn get(root: &Path, progress: &Progress) -> Result<WasmToolchain, Error> {
    find(&cache(root), Source::Any, progress)
}

fn cache(root: &Path) -> std::path::PathBuf {
    root.join("target/toolchain")
}
