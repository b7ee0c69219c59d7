//! Transforms the images of guests: the content and the layout of their modules.
//!
//! An image is a component whose guest has already started: its memory holds an interpreter that
//! has imported its libraries. An instance maps the image and copies the pages that it writes to,
//! and the engine lays out code in the order of the module. So the image determines the cost of a
//! start.
//!
//! [`python`] and [`shell`] run the passes in the order of the table. Each pass is in a file of its
//! name. It takes and returns the bytes of a core module, or changes the content of its memory. A
//! pass returns an error if it does not recognise the layout of a module, so that the build fails
//! instead of producing a wrong image. Figures are for Python unless they name the shell. "hello"
//! is `print("hi")`.
//!
//! | pass | effect | gain | can be deleted when |
//! |---|---|---|---|
//! | `init` | removes the export by which componentize-py starts the interpreter | no time: a guest's world has one export, `wasi:cli/run` | componentize-py removes it |
//! | `merge`, `wrap` | merges twelve core modules into one | memory and table are mapped directly from the file; all later passes require it. Not measured alone | componentize-py links statically |
//! | `sqlite` | replaces CPython's SQLite by another build of it | full-text search. No time | componentize-py compiles SQLite with it |
//! | `prune` | removes functions that nothing can call | removes the code that sets the globals of shared libraries, which makes them constant. Not measured alone | as for `merge` |
//! | `constants` | replaces globals that never change with their values | the engine can lay out table and memory before a start. Not measured alone | as for `merge` |
//! | `modes` | gives files permissions and owners | `os.stat` takes 6.4 µs; Python code that does the same takes 12.7 µs | WASI has permissions, or scripts do not need them |
//! | `paths` | refuses empty paths | functions like `os.stat` call no Python code that does the same. Not measured alone | wasi-libc refuses them |
//! | `lines` | keeps what is written to stdout in the guest's memory until the host needs it | printing 200,000 lines takes 0.35 s of CPU time instead of 3.0 s, with a host compiled without optimisation | calls of the host cost nothing |
//! | `calls` | compares the pointer of a call with its likely targets | JSON, `re` and sorting take 5 to 10 % less time, a report on CSV 2 to 3 % less | the engine predicts targets of indirect calls itself, or CPython calls its allocator directly |
//! | `immortal` | makes the objects of the image immortal | with `gaps`, and with `guest/_skillhost/boot.py`, which places code together: 235 page faults per start instead of 620. Not measured alone | CPython can make all objects immortal itself |
//! | `gaps` | marks the gaps between objects as used | see `immortal`. Not measured alone | the interpreter's allocator starts after the image |
//! | `optimize` | lets `wasm-opt` optimise the module | nbody takes 9 % less CPU time, JSON, `re` and sorting 5 to 10 % less; fib does not change. All of the gain comes from inlining: without it, `-O3` gains nothing | the engine inlines across functions, or CPython is compiled with link-time optimisation |
//! | `snapshot` | starts the JavaScript runtime from the memory after its initialisation | see the figures in components/javascript | the guest starts as fast without |
//! | `order` | places the functions that a start runs next to each other | a hello touches 29 pieces of compiled code instead of 92, and takes 6.6 ms instead of 8.0 ms. Aligned to a large page, it has 228 page faults instead of 251. The shell's `echo hi` touches 23 pieces instead of 50 to 79 | the engine orders functions by a profile |
//! | `strip` | removes custom sections | the file is smaller by the names of 9,000 functions. Not measured alone | the size of names does not matter |
//!
//! The passes share the modules `component`, `module`, `memory` and `layout`.

#![expect(
    clippy::disallowed_methods,
    reason = "a build tool runs the optimizer and accesses files of the build"
)]

mod calls;
mod component;
mod constants;
mod error;
mod gaps;
mod immortal;
mod init;
mod layout;
mod lines;
mod memory;
mod merge;
mod modes;
mod module;
mod optimize;
mod order;
mod paths;
mod prune;
mod snapshot;
mod sqlite;
mod strip;
mod wrap;

use std::path::Path;

use wasm_encoder::reencode::{Reencode, ReencodeComponent};
use wasm_encoder::{Component, ComponentSectionId, RawSection};
use wasmparser::{Parser, Validator, WasmFeatures};

pub use error::Error;
pub use snapshot::{INITIALIZE, State};

use error::{Reencoded, Result};

/// A component whose image was transformed.
pub struct Image {
    /// The bytes of the component, without names.
    pub component: Vec<u8>,
    /// The names of the main module's functions, one per line, starting with function 0.
    pub names: String,
}

/// Binaryen, for [`python`].
pub struct Optimizer<'a> {
    /// The program `wasm-opt`.
    pub program: &'a Path,
    /// A folder for its input and output, which is removed afterwards.
    pub exchange: &'a Path,
}

/// The size of the functions of Python that are placed before those that a start runs. Compiled,
/// they take 2 MiB, so that those of a start begin in the second large page of the file of compiled
/// code. The kernel maps that page at once if it caches the file in large pages. The first large
/// page also contains data.
const BEFORE: usize = 620_000;

/// Transforms the component that componentize-py builds from CPython. `order` lists the names of
/// the functions that a start runs, one per line.
///
/// # Errors
/// Returns an error if a pass does not recognise the layout of the component, or if the optimizer
/// fails.
pub fn python(
    component: &[u8],
    order: &str,
    optimizer: &Optimizer,
) -> std::result::Result<Image, Error> {
    validate(component)?;
    let mut wiring = component::Wiring::read(component)?;
    init::remove_init(&mut wiring)?;
    let roles = component::Roles::find(&wiring)?;
    let mut merged = merge::merge(&wiring, &roles)?;
    let module = sqlite::replace_sqlite(&merged.module, &merged.functions)?;
    let module = prune::prune(&module)?;
    let module = constants::constants(&module)?;
    let module = modes::with_modes(&module)?;
    let module = paths::refuse_empty_paths(&module)?;
    let module = lines::keep_lines(&module)?;
    let module = calls::call_likely_targets(&module, calls::LIKELY)?;
    let mut memory = memory::Memory::read(&module)?;
    immortal::make_immortal(&mut memory, immortal::LEAST_OBJECTS)?;
    gaps::fill_gaps(&mut memory)?;
    let module = memory.write(&module)?;
    let module = optimize::optimize(&module, optimizer.program, optimizer.exchange)?;
    let module = order::order(&module, order, BEFORE)?;
    let names = order::names(&module)?;
    merged.module = strip::without_custom_sections(&module)?;
    let component = wrap::wrap(&wiring, &roles, &merged)?;
    validate(&component)?;
    Ok(Image { component, names })
}

/// Transforms the component of the shell. `order` lists the names of the functions that a start
/// runs, one per line.
///
/// # Errors
/// Returns an error if a pass does not recognise the layout of the component.
pub fn shell(component: &[u8], order: &str) -> std::result::Result<Image, Error> {
    let mut shell = Shell { order, names: None };
    let mut out = Component::new();
    shell.parse_component(&mut out, Parser::new(0), component)?;
    let component = out.finish();
    validate(&component)?;
    Ok(Image { component, names: shell.names.unwrap_or_default() })
}

/// Returns the main module of the component of the JavaScript runtime, which the build initialises.
///
/// # Errors
/// Returns an error if the bytes are not a component with a core module.
pub fn javascript_module(component: &[u8]) -> std::result::Result<&[u8], Error> {
    snapshot::main_module(component)
}

/// Transforms the component of the JavaScript runtime: it starts from a state after its
/// initialisation.
///
/// # Errors
/// Returns an error if a pass does not recognise the layout of the component.
pub fn javascript(component: &[u8], state: State) -> std::result::Result<Image, Error> {
    // The functions keep their order.
    shell(&snapshot::restore(component, state)?, "")
}

struct Shell<'a> {
    order: &'a str,
    /// The names of the functions of the first module.
    names: Option<String>,
}

impl Reencode for Shell<'_> {
    type Error = Error;
}

impl ReencodeComponent for Shell<'_> {
    fn parse_component_submodule(
        &mut self,
        component: &mut Component,
        _: Parser,
        module: &[u8],
    ) -> Reencoded<()> {
        let module = order::order(module, self.order, 0)?;
        if self.names.is_none() {
            self.names = Some(order::names(&module)?);
        }
        let data = strip::without_custom_sections(&module)?;
        let id = ComponentSectionId::CoreModule as u8;
        component.section(&RawSection { id, data: &data });
        Ok(())
    }
}

fn validate(component: &[u8]) -> Result<()> {
    Validator::new_with_features(WasmFeatures::all()).validate_all(component)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_the_shell_are_ordered_and_lose_their_names() {
        let component = wat::parse_str(
            "(component
                (core module (func $first) (func $second (result i32) i32.const 1))
                (core module (func $other)))",
        )
        .unwrap();
        let expected = wat::parse_str(
            "(component
                (core module (type (func)) (type (func (result i32)))
                    (func (type 1) i32.const 1) (func (type 0)))
                (core module (func)))",
        )
        .unwrap();
        let image = shell(&component, "second\n").unwrap();
        assert_eq!(image.names, "second\nfirst\n");
        assert_eq!(image.component, expected);
    }

    #[test]
    fn file_that_is_not_a_component_is_an_error() {
        let optimizer = Optimizer { program: "false".as_ref(), exchange: "/nowhere".as_ref() };
        for bytes in [&b""[..], b"\0asm", b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0\xff"] {
            assert!(python(bytes, "", &optimizer).is_err(), "{bytes:?}");
        }
        assert!(shell(b"\0asm\x01\0\0\0", "").is_err());
        assert!(shell(b"\0asm\x0d\0\x01\0\xff", "").is_err());
    }
}
