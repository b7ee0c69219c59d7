//! Sets the size of the stack in linear memory, for the recursion that src/engine.rs allows, and
//! lists the JavaScript of Node's modules.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads its sources and cargo's variables"
)]

use std::fmt::Write as _;
use std::path::Path;

/// Our own modules, in js/, and those of wasm-rquickjs: the module's name, and its file below
/// target/javascript.
const MODULES: &str = "modules.txt";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={MODULES}");
    println!("cargo::rustc-link-arg-cdylib=-zstack-size={}", 16 << 20);
    let list = std::fs::read_to_string(MODULES).expect("modules.txt is readable");
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let upstream = Path::new(&here).join("../../target/javascript/builtin");
    let mut table = String::from("pub(crate) const SOURCES: &[(&str, &str)] = &[\n");
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, file) = line.split_once(' ').expect("a line has a name and a file");
        let file = file.trim();
        let path = match file.strip_prefix("upstream/") {
            Some(file) => upstream.join(file),
            None => Path::new(&here).join("js").join(file),
        };
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(table, "    ({name:?}, include_str!({path:?})),").expect("strings take text");
    }
    table.push_str("];\n");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("sources.rs"), table).expect("OUT_DIR is writable");
}
