//! Creates and builds a skill with the real toolchain and the embedded SDK.

#![expect(clippy::disallowed_methods, reason = "tests run cargo")]

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Progress, Source, find, new, sdk, skill};

/// The first bytes of a component: the magic number of WebAssembly, version 13, layer 1.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn new_skill_builds_and_passes_its_tests() {
    // Kept between test runs, so that the skill's dependencies compile once.
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
    assert!(!dir.join("target").exists(), "build output stays outside the skill");

    let mut cargo = Command::new("cargo");
    cargo.current_dir(&dir).arg("test").env("CARGO_TARGET_DIR", cache.join("target"));
    progress.step("plain cargo test", |step| step.run(&mut cargo)).unwrap();

    // With a second crate type, plain cargo would not optimise the component across crates.
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
        "the component is the same as without the second crate type"
    );
}

#[test]
fn folder_without_a_crate_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = build_in(dir.path(), None).unwrap_err();
    assert!(error.what.contains("has no Cargo.toml"), "{error}");
    assert_eq!(error.help.as_deref(), Some("create one with `skillhost new NAME --lang rust`"));
}

#[test]
fn component_outside_the_skill_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
    for path in ["../x.wasm", "/x.wasm", "a/../../x.wasm"] {
        assert!(
            build_in(dir.path(), Some(path)).unwrap_err().what.contains("outside the skill"),
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
