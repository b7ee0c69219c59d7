//! Write skillhost components in Rust: commands and typed tools on WASI 0.3.
//!
//! A component is a `cdylib` crate for the target `wasm32-unknown-unknown`. On this target std has
//! collections, formatting and everything else that needs no operating system. For the rest, this
//! crate has modules of a similar shape: [`mod@env`], [`io`], [`fs`], [`time`], [`random`],
//! [`process`] and [`http`], and [`state`] for data that a skill keeps between runs. A component
//! imports exactly the interfaces that it uses.
//!
//! # Commands
//!
//! [`macro@main`] makes a function the component's command:
//!
//! ```no_run
//! use skillhost_guest::{fs, println};
//!
//! /// Counts the lines of files.
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
//! # Tools
//!
//! [`macro@tool`] makes a function a typed tool, and [`tools!`] exports it:
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
//! A crate can have both. The host runs the command, or calls a tool if the request names one.
//!
//! # Concurrency
//!
//! A component has one thread, so nothing in this crate is `Send`. To wait for several things at
//! once, combine futures inside one `async` function, for example with `join!` of the `futures`
//! crate. There is no runtime, and no function to spawn futures.
//!
//! # Panics
//!
//! A panic writes its message to stderr, and the component traps.
//!
//! # Memory
//!
//! The default feature `allocator` sets a global allocator that is fast for small blocks and leaves
//! large ones to std's allocator. Disable it to use std's allocator alone, or your own.
//!
//! # Tests
//!
//! `cargo test` builds for the native target, which has no host: calling one panics. Put the logic
//! into functions without input and output, and test those.

// The macros refer to this crate by name, also in its own documentation and tests.
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

/// Makes a function the component's command, by exporting `wasi:cli/run`. The function is usually
/// called `main`.
///
/// It takes either no parameter or the arguments, whose first is the program's name. It may be
/// `async`, and returns a [`Termination`].
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
/// - The doc comment is the description that an agent reads. It must say what the tool does, and
///   should say when to use it.
/// - The name is the function's name, unless set: `#[skillhost_guest::tool(name = "to-json")]`.
/// - The parameter is a struct that implements `serde::Deserialize` and `schemars::JsonSchema`. The
///   doc comments of its fields become their descriptions. If an input does not parse, the function
///   is not called, and the error names the field.
/// - The function returns a `Result`. The output implements `serde::Serialize` and
///   `schemars::JsonSchema`, the error `Display`.
///
/// The crate needs `serde` and `schemars` as dependencies.
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
/// A tool without a doc comment does not compile:
///
/// ```compile_fail
/// #[skillhost_guest::tool]
/// fn add(input: ()) -> Result<(), String> {
///     Ok(())
/// }
/// ```
pub use skillhost_guest_macros::tool;

/// Exports tools, in the order in which they are listed. Call it once, at the root of the crate.
///
/// ```no_run
/// mod text {
///     #[derive(serde::Deserialize, schemars::JsonSchema)]
///     pub struct Text {
///         text: String,
///     }
///
///     /// Converts text to upper case.
///     #[skillhost_guest::tool]
///     pub fn shout(input: Text) -> Result<String, String> {
///         Ok(input.text.to_uppercase())
///     }
///
///     /// Converts text to lower case.
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
/// Two tools of the same name do not compile:
///
/// ```compile_fail
/// /// Does nothing.
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
        #[allow(unsafe_code, reason = "exports need it")]
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

/// Prints to stderr, unbuffered.
///
/// ```no_run
/// skillhost_guest::eprint!(".");
/// ```
#[macro_export]
macro_rules! eprint {
    ($($argument:tt)*) => { $crate::__private::print_stderr(::core::format_args!($($argument)*)) };
}

/// Prints a line to stderr, unbuffered.
///
/// ```no_run
/// skillhost_guest::eprintln!("skipped {} rows", 3);
/// ```
#[macro_export]
macro_rules! eprintln {
    () => { $crate::eprint!("\n") };
    ($($argument:tt)*) => { $crate::eprint!("{}\n", ::core::format_args!($($argument)*)) };
}

/// Runs the README's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Used by the code that the macros generate.
#[doc(hidden)]
pub mod __private {
    pub use crate::bindings::{command, toolbox};
    pub use crate::entry::run;
    pub use crate::io::output::{print_stderr, print_stdout};
    pub use crate::tool::{Tool, ToolResult, assert_distinct, call, describe, unknown};
    pub use wit_bindgen;
}
