//! Write skillhost components in Rust: commands and typed tools on WASI 0.3.
//!
//! A component is a `cdylib` crate for `wasm32-unknown-unknown`. There, std has collections, thread
//! locals, formatting and everything else that needs no system; for what needs one, this crate has
//! modules of the same shape: [`mod@env`], [`io`], [`fs`], [`state`], [`time`], [`random`],
//! [`process`], and [`http`]. A component imports exactly the interfaces that it uses.
//!
//! A command:
//!
//! ```no_run
//! use skillhost_guest::{fs, println};
//!
//! /// Counts the lines of the files that it is given.
//! #[skillhost_guest::main]
//! async fn main(args: Vec<String>) -> Result<(), std::io::Error> {
//!     for path in args.iter().skip(1) {
//!         let text = fs::read_to_string(path).await?;
//!         println!("{:>8} {path}", text.lines().count());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! A typed tool:
//!
//! ```no_run
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct CountInput {
//!     /// The text to count in.
//!     text: String,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Count {
//!     words: usize,
//!     characters: usize,
//! }
//!
//! /// Counts words and characters. Use it when asked how long a text is.
//! #[skillhost_guest::tool]
//! async fn count(input: CountInput) -> Result<Count, String> {
//!     Ok(Count { words: input.text.split_whitespace().count(), characters: input.text.chars().count() })
//! }
//!
//! skillhost_guest::tools![count];
//! # fn main() {}
//! ```
//!
//! A crate may hold both: the host then runs the command, or calls a tool when one is named.
//!
//! Small blocks of memory come from an allocator of this crate; std's serves the others. Feature
//! `allocator`, a default, is it.
//!
//! Panics write their message to stderr and trap. Nothing here is `Send`: a component has one
//! thread. Futures go on while others wait only inside one `async` function, with `join!` of the
//! `futures` crate for example; there is no runtime to spawn them on, and none is needed. Built
//! natively, as `cargo test` does, whatever reaches for the host panics: what is worth a unit test
//! is best a function of its own that reads and writes nothing.

// The macros name this crate by its name, in its own documentation and tests too.
extern crate self as skillhost_guest;

#[cfg(any(
    test,
    all(target_family = "wasm", not(target_feature = "atomics"), feature = "allocator")
))]
mod allocator;
mod bindings;
mod entry;
pub mod env;
pub mod fs;
pub mod http;
pub mod io;
pub mod process;
pub mod random;
pub mod state;
mod stream;
pub mod time;
mod tool;

pub use entry::Termination;

/// Makes a function, `main` by custom, the component's command: exports `wasi:cli/run`.
///
/// It takes the arguments, the program's name first, or nothing, is `async` or not, and returns a
/// [`Termination`].
///
/// ```no_run
/// #[skillhost_guest::main]
/// async fn main(args: Vec<String>) -> Result<(), String> {
///     let name = args.get(1).ok_or("usage: greet NAME")?;
///     skillhost_guest::println!("Hello {name}!");
///     Ok(())
/// }
/// ```
pub use skillhost_guest_macros::main;
/// Makes a function a typed tool, to be exported by [`tools!`].
///
/// - Its doc comment is the description that an agent reads: what the tool does and when to use it.
/// - Its name is the function's, or the one given: `#[skillhost_guest::tool(name = "to-json")]`.
/// - Its parameter is a `serde::Deserialize` and `schemars::JsonSchema` struct; doc comments of the
///   fields are their descriptions. What does not parse never reaches the function: the caller is
///   told which field is wrong.
/// - It returns a `Result`: a `serde::Serialize` and `schemars::JsonSchema` output, or an error
///   that can be shown.
///
/// Serde and schemars are dependencies of the crate that holds the tool.
///
/// ```no_run
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Sum {
///     /// The numbers to add.
///     numbers: Vec<f64>,
/// }
///
/// /// Adds numbers.
/// #[skillhost_guest::tool(name = "add-up")]
/// fn add_up(input: Sum) -> Result<f64, std::convert::Infallible> {
///     Ok(input.numbers.iter().sum())
/// }
///
/// skillhost_guest::tools![add_up];
/// # fn main() {}
/// ```
///
/// A tool must say what it does:
///
/// ```compile_fail
/// #[skillhost_guest::tool]
/// fn add(input: ()) -> Result<(), String> {
///     Ok(())
/// }
/// ```
pub use skillhost_guest_macros::tool;

/// Exports functions marked with `#[tool]`, in the order to show them. Once in a crate, at its
/// root.
///
/// ```no_run
/// mod text {
///     #[derive(serde::Deserialize, schemars::JsonSchema)]
///     pub struct Text {
///         text: String,
///     }
///
///     /// Makes text loud.
///     #[skillhost_guest::tool]
///     pub fn shout(input: Text) -> Result<String, String> {
///         Ok(input.text.to_uppercase())
///     }
///
///     /// Makes text quiet.
///     #[skillhost_guest::tool]
///     pub fn whisper(input: Text) -> Result<String, String> {
///         Ok(input.text.to_lowercase())
///     }
/// }
///
/// skillhost_guest::tools![text::shout, text::whisper];
/// # fn main() {}
/// ```
///
/// Names are distinct:
///
/// ```compile_fail
/// /// Says nothing.
/// #[skillhost_guest::tool]
/// fn nothing(input: ()) -> Result<(), String> {
///     Ok(())
/// }
///
/// skillhost_guest::tools![nothing, nothing];
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! tools {
    ($($tool:path),+ $(,)?) => {
        #[allow(unsafe_code, reason = "exports are")]
        const _: () = {
            $crate::__private::assert_distinct(&[$(<$tool as $crate::__private::Tool>::NAME),+]);

            struct Toolbox;
            impl $crate::__private::toolbox::exports::skillhost::skill::tools::Guest for Toolbox {
                fn list_tools() -> ::std::vec::Vec<$crate::__private::toolbox::exports::skillhost::skill::tools::Tool> {
                    ::std::vec![$($crate::__private::describe::<$tool>()),+]
                }

                async fn call(
                    name: ::std::string::String,
                    input: ::std::string::String,
                ) -> ::core::result::Result<
                    ::std::string::String,
                    $crate::__private::toolbox::exports::skillhost::skill::tools::ToolError,
                > {
                    $(
                        if name == <$tool as $crate::__private::Tool>::NAME {
                            return $crate::__private::call::<$tool>(&input).await;
                        }
                    )+
                    ::core::result::Result::Err($crate::__private::unknown(name))
                }
            }
            // Native builds, for tests, have no component to export it from.
            #[cfg(target_family = "wasm")]
            $crate::__private::toolbox::export_toolbox!(Toolbox);
        };
    };
}

/// Prints to stdout, buffered: see [`io`].
///
/// ```no_run
/// skillhost_guest::print!("{}, ", 1);
/// ```
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => { $crate::__private::print_stdout(::core::format_args!($($argument)*)) };
}

/// Prints a line to stdout, buffered: see [`io`].
///
/// ```no_run
/// let name = "world";
/// skillhost_guest::println!("Hello {name}!");
/// ```
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($argument:tt)*) => { $crate::print!("{}\n", ::core::format_args!($($argument)*)) };
}

/// Prints to stderr, at once.
///
/// ```no_run
/// skillhost_guest::eprint!(".");
/// ```
#[macro_export]
macro_rules! eprint {
    ($($argument:tt)*) => { $crate::__private::print_stderr(::core::format_args!($($argument)*)) };
}

/// Prints a line to stderr, at once.
///
/// ```no_run
/// skillhost_guest::eprintln!("skipped {} rows", 3);
/// ```
#[macro_export]
macro_rules! eprintln {
    () => { $crate::eprint!("\n") };
    ($($argument:tt)*) => { $crate::eprint!("{}\n", ::core::format_args!($($argument)*)) };
}

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// For what the macros expand to.
#[doc(hidden)]
pub mod __private {
    pub use crate::bindings::{command, toolbox};
    pub use crate::entry::run;
    pub use crate::io::output::{print_stderr, print_stdout};
    pub use crate::tool::{Tool, ToolResult, assert_distinct, call, describe, unknown};
    pub use wit_bindgen;
}
