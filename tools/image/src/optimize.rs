//! Pass: lets Binaryen's `wasm-opt` optimise the merged module as a whole.
//!
//! CPython is compiled file by file and linked as shared libraries, so no compiler has seen a
//! function together with its callers in other files. The gain comes from inlining the functions
//! that allocate, free and create floats. `wasm-opt` also replaces calls of constant table entries
//! by direct calls, and removes functions that nothing can call.

use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};

const FEATURES: [&str; 9] = [
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-multivalue",
    "--enable-reference-types",
    "--enable-simd",
    "--enable-extended-const",
];
const PASSES: [&str; 4] =
    ["--simplify-globals", "--directize", "--remove-unused-module-elements", "-O3"];

/// Runs the program `wasm_opt`, with its input and output in the folder `exchange`.
pub(crate) fn optimize(module: &[u8], wasm_opt: &Path, exchange: &Path) -> Result<Vec<u8>> {
    let [input, output] = ["input.wasm", "output.wasm"].map(|name| exchange.join(name));
    let failed = |error| Error::new(format!("{}: {error}", exchange.display()));
    std::fs::create_dir_all(exchange).map_err(failed)?;
    std::fs::write(&input, module).map_err(failed)?;
    let status = Command::new(wasm_opt)
        .arg("-g")
        .args(FEATURES)
        .arg(&input)
        .args(PASSES)
        .arg("-o")
        .arg(&output)
        .status()
        .map_err(|error| Error::new(format!("{}: {error}", wasm_opt.display())))?;
    if !status.success() {
        return Err(Error::new(format!("{} failed: {status}", wasm_opt.display())));
    }
    let optimized = std::fs::read(&output).map_err(failed)?;
    std::fs::remove_dir_all(exchange).map_err(failed)?;
    Ok(optimized)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_or_failing_program_is_an_error() {
        let exchange = std::env::temp_dir().join(format!("skillhost-image-{}", std::process::id()));
        for program in ["/nowhere/wasm-opt", "false"] {
            let error = optimize(b"", program.as_ref(), &exchange).unwrap_err().to_string();
            assert!(error.contains(program), "{error}");
        }
        std::fs::remove_dir_all(exchange).unwrap();
    }
}
