//! Bindings to everything that a host can offer, in both versions of WASI.

#![allow(clippy::undocumented_unsafe_blocks, reason = "generated")]

/// WASI 0.3 and `skillhost:skill/process`.
pub(crate) mod new {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "
            package skillhost:hostile-new;
            world everything {
                import wasi:cli/environment@0.3.0;
                import wasi:cli/exit@0.3.0;
                import wasi:cli/stdin@0.3.0;
                import wasi:cli/stdout@0.3.0;
                import wasi:cli/stderr@0.3.0;
                import wasi:clocks/monotonic-clock@0.3.0;
                import wasi:clocks/system-clock@0.3.0;
                import wasi:random/random@0.3.0;
                import wasi:random/insecure@0.3.0;
                import wasi:random/insecure-seed@0.3.0;
                import wasi:filesystem/types@0.3.0;
                import wasi:filesystem/preopens@0.3.0;
                import wasi:sockets/types@0.3.0;
                import wasi:sockets/ip-name-lookup@0.3.0;
                import wasi:http/types@0.3.0;
                import wasi:http/client@0.3.0;
                import skillhost:skill/process@0.1.0;
            }
        ",
        world: "skillhost:hostile-new/everything",
        generate_all,
    });
}

/// WASI 0.2.
pub(crate) mod old {
    wit_bindgen::generate!({ path: "wit", world: "skillhost:hostile/old", generate_all });
}
