//! The compiler of the library's tests: an embedder's program that the sandbox starts to compile a
//! component.

fn main() {
    skillhost_sandbox::compile_if_asked();
}
