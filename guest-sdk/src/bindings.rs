//! Generated bindings to `wit/`.
//!
//! There is one module per interface, because a component must import only the interfaces that it
//! uses. The built-ins of a stream or future are named after some function of the same `generate!`,
//! and naming a function imports its interface: with one module for everything, a component that
//! writes to stdout would import `wasi:cli/stdin`.

#![allow(missing_docs, unreachable_pub, clippy::undocumented_unsafe_blocks, reason = "generated")]

macro_rules! import {
    ($module:ident, $world:literal) => {
        pub(crate) mod $module {
            wit_bindgen::generate!({ path: "wit", inline: $world, generate_all });
        }
    };
}

import!(
    environment,
    "package skillhost:guest-environment; world environment { import wasi:cli/environment@0.3.0; }"
);
import!(exit, "package skillhost:guest-exit; world exit { import wasi:cli/exit@0.3.0; }");
import!(stdin, "package skillhost:guest-stdin; world stdin { import wasi:cli/stdin@0.3.0; }");
import!(stdout, "package skillhost:guest-stdout; world stdout { import wasi:cli/stdout@0.3.0; }");
import!(stderr, "package skillhost:guest-stderr; world stderr { import wasi:cli/stderr@0.3.0; }");
import!(
    clocks,
    "package skillhost:guest-clocks; world clocks { import wasi:clocks/monotonic-clock@0.3.0; import wasi:clocks/system-clock@0.3.0; }"
);
import!(
    random,
    "package skillhost:guest-random; world random { import wasi:random/random@0.3.0; }"
);
import!(
    filesystem,
    "package skillhost:guest-filesystem; world filesystem { import wasi:filesystem/types@0.3.0; import wasi:filesystem/preopens@0.3.0; }"
);
import!(
    http,
    "package skillhost:guest-http; world http { import wasi:http/types@0.3.0; import wasi:http/client@0.3.0; }"
);
import!(
    process,
    "package skillhost:guest-process; world process { import skillhost:skill/process@0.1.0; }"
);

macro_rules! export {
    ($module:ident, $world:literal, $macro:literal, $path:literal) => {
        pub mod $module {
            wit_bindgen::generate!({
                path: "wit",
                inline: $world,
                generate_all,
                pub_export_macro: true,
                export_macro_name: $macro,
                default_bindings_module: $path,
                runtime_path: "::skillhost_guest::__private::wit_bindgen::rt",
            });
        }
    };
}

export!(
    command,
    "package skillhost:guest-command; world command { export wasi:cli/run@0.3.0; }",
    "export_command",
    "::skillhost_guest::__private::command"
);
export!(
    toolbox,
    "package skillhost:guest-toolbox; world toolbox { export skillhost:skill/tools@0.1.0; }",
    "export_toolbox",
    "::skillhost_guest::__private::toolbox"
);
