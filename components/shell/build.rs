//! Sets the size of the stack in linear memory, for the recursion that src/limits.rs allows.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-zstack-size={}", 16 << 20);
}
