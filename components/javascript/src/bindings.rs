//! Generated bindings to WASI 0.2, `skillhost:skill/process`, and the host's shortcuts for stdout
//! and HTTP.

#![allow(unreachable_pub, clippy::undocumented_unsafe_blocks, reason = "generated")]

wit_bindgen::generate!({
    path: "wit",
    world: "skillhost:javascript/javascript",
    generate_all,
});
