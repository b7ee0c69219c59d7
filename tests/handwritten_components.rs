//! Components that no compiler in use emits, and the processes that compile them.

use std::fmt::Write as _;

/// A function of this many statements, all of whose values stay live until the end.
pub fn long_function(statements: usize) -> Vec<u8> {
    let mut body = String::new();
    for n in 0..statements {
        write!(
            body,
            "(local.set {} (i32.add (i32.mul (local.get {}) (local.get {})) (i32.load (local.get {}))))",
            n % 500,
            (n * 7 + 3) % 500,
            (n * 13 + 5) % 500,
            (n * 17 + 1) % 500
        )
        .unwrap();
        if n % 10 == 0 {
            write!(
                body,
                "(if (local.get {}) (then (local.set {} (i32.const {n}))))",
                n % 499,
                n % 497
            )
            .unwrap();
        }
    }
    command(&format!(
        "(memory 1) (func (export \"run\") (result i32) (local {}) {body} (i32.const 0))",
        "i32 ".repeat(500)
    ))
}

/// Returns the number of running compiler processes with these arguments.
pub fn compilers_with(arguments: &[&str]) -> usize {
    let command_line = format!("__compile\0{}\0", arguments.join("\0"));
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok())
        .filter(|line| line.contains(&command_line))
        .count()
}

/// A command that wraps a core module exporting `run`, which returns 0 for success.
pub fn command(module: &str) -> Vec<u8> {
    component(&format!(
        r#"(component
            (core module $m {module})
            (core instance $i (instantiate $m))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.2.6" (instance $run)))"#
    ))
}

/// Assembles a component from its text.
pub fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
