//! The compiler program of the library tests: like an embedder's program, the sandbox starts it to
//! compile components.

fn main() {
    skillhost_sandbox::compile_if_asked();
}
