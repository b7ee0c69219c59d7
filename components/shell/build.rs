//! The stack in linear memory: deep enough for the recursion that src/limits.rs allows.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-zstack-size={}", 16 << 20);
}
