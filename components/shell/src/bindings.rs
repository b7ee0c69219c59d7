//! Generated bindings to WASI 0.3, `skillhost:skill/process` and `skillhost:files/modes`.

#![allow(unreachable_pub, clippy::undocumented_unsafe_blocks, reason = "generated")]

wit_bindgen::generate!({
    path: ["../../wit", "../../host/sandbox/files-wit"],
    inline: "
        package skillhost:shell;
        world shell {
            import wasi:cli/environment@0.3.0;
            import wasi:cli/exit@0.3.0;
            import wasi:cli/stdin@0.3.0;
            import wasi:cli/stdout@0.3.0;
            import wasi:cli/stderr@0.3.0;
            import wasi:clocks/monotonic-clock@0.3.0;
            import wasi:clocks/system-clock@0.3.0;
            import wasi:filesystem/types@0.3.0;
            import wasi:filesystem/preopens@0.3.0;
            import wasi:http/types@0.3.0;
            import wasi:http/client@0.3.0;
            import wasi:random/random@0.3.0;
            import skillhost:skill/process@0.1.0;
            import skillhost:files/modes@0.1.0;
            export wasi:cli/run@0.3.0;
        }
    ",
    world: "skillhost:shell/shell",
    generate_all,
});
