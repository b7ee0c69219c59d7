//! `cargo xtask toolchain`: finds or builds the toolchain for components, and tests it by building
//! a small one.

use std::path::Path;

use skillhost_toolchain::{Build, Error, Origin, Progress, Source, WasmToolchain, files, find};

use crate::{print_line, workspace};

/// The first bytes of a component: the magic number of WebAssembly, version 13, layer 1.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// A guest that uses the allocator and std, but no dependencies.
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
    let wasm = built.first().ok_or_else(|| Error::new("cargo built no component"))?;
    let bytes = std::fs::read(&wasm.wasm).map_err(Error::context(wasm.wasm.display()))?;
    if !bytes.starts_with(COMPONENT) {
        return Err(Error::new(format!("{} is not a component", wasm.wasm.display())));
    }
    print_line(match &toolchain.origin {
        Origin::Active => "The active toolchain compiles components.".into(),
        Origin::Rustup => {
            "The active toolchain compiles components, after rustup added the target.".into()
        }
        Origin::Packages(version) => format!("Debian's Rust {version} compiles components."),
    });
    if let Some(rustc) = &toolchain.rustc {
        print_line(format!("RUSTC={}", rustc.display()));
    }
    Ok(())
}

/// Finds or builds the toolchain for the guests of this repository.
pub(crate) fn get(root: &Path, progress: &Progress) -> Result<WasmToolchain, Error> {
    find(&cache(root), Source::Any, progress)
}

fn cache(root: &Path) -> std::path::PathBuf {
    root.join("target/toolchain")
}
