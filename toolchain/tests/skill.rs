//! From a new skill to its component, with the real toolchain and the embedded SDK.

#![expect(clippy::disallowed_methods, reason = "cargo is what is tested here")]

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Progress, Source, find, new, sdk, skill};

/// How a component begins: the magic of WebAssembly, version 13, layer 1.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn a_new_skill_builds_to_a_component_and_passes_its_own_tests_with_plain_cargo() {
    // Kept between runs, as an author's cache is: what skills stand on is compiled once.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let progress = Progress::silent();
    let toolchain = find(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/toolchain"),
        Source::Any,
        &progress,
    )
    .unwrap();
    let parent = tempfile::tempdir().unwrap();
    let dir = new::rust("my-skill", parent.path(), &sdk::unpack(&cache).unwrap()).unwrap();

    let component = progress
        .step("build", |step| skill::build(&dir, Some("my-skill.wasm"), &toolchain, &cache, step))
        .unwrap();
    assert_eq!(component, dir.join("my-skill.wasm"));
    assert!(std::fs::read(&component).unwrap().starts_with(COMPONENT));
    assert!(!dir.join("target").exists(), "a skill's folder stays small");

    let mut cargo = Command::new("cargo");
    cargo.current_dir(&dir).arg("test").env("CARGO_TARGET_DIR", cache.join("target"));
    progress.step("plain cargo test", |step| step.run(&mut cargo)).unwrap();

    // Another crate may use the library too: cargo alone would then make the component without
    // optimising across crates.
    let alone = std::fs::read(&component).unwrap();
    let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("[\"cdylib\"]"));
    std::fs::write(
        dir.join("Cargo.toml"),
        manifest.replace("[\"cdylib\"]", "[\"cdylib\", \"rlib\"]"),
    )
    .unwrap();
    progress
        .step("build both", |step| {
            skill::build(&dir, Some("my-skill.wasm"), &toolchain, &cache, step)
        })
        .unwrap();
    assert!(
        std::fs::read(&component).unwrap() == alone,
        "the component is optimised as if it were alone"
    );
}

#[test]
fn a_folder_that_is_no_crate_is_refused_with_what_would_make_one() {
    let dir = tempfile::tempdir().unwrap();
    let error = build_in(dir.path(), None).unwrap_err();
    assert!(error.what.contains("has no Cargo.toml"), "{error}");
    assert_eq!(error.help.as_deref(), Some("`skillhost new NAME --lang rust` makes one"));
}

#[test]
fn a_component_outside_of_the_skill_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
    for path in ["../x.wasm", "/x.wasm", "a/../../x.wasm"] {
        assert!(
            build_in(dir.path(), Some(path)).unwrap_err().what.contains("outside of the skill"),
            "{path}"
        );
    }
}

fn build_in(dir: &Path, component: Option<&str>) -> Result<PathBuf, Error> {
    let toolchain = skillhost_toolchain::WasmToolchain {
        rustc: None,
        origin: skillhost_toolchain::Origin::Active,
    };
    Progress::silent()
        .step("build", |step| skill::build(dir, component, &toolchain, &dir.join("cache"), step))
}
