//! Everything that a guest can import, by package.
//!
//! A linker holds only the packages that a component imports. Most import few, and linking all
//! packages takes as long as the rest of a small component's start.

use wasmtime::Engine;
use wasmtime::component::{Component, HasData, Linker, ResourceTable};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, io, sockets};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};

use super::state::State;
use crate::determinism::{randomness, wasi_clocks};
use crate::engine::Mode;
use crate::{files, javascript, process, python};

/// Packages that a component imports: a bit for each of [`PACKAGES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Imports(u32);

type Link = fn(&mut Linker<State>) -> wasmtime::Result<()>;

/// Each package's name, the start of its version, and the function that links it.
///
/// The stock file system is never linked: files and randomness are this crate's own, for both
/// versions of WASI. Sockets and name lookup are linked because guests built with a libc import
/// them; every use of them is denied.
const PACKAGES: [(&str, &str, Link); 17] = [
    ("skillhost:skill", "0.1.", |l| process::add_to_linker(l, State::process)),
    ("skillhost:files", "0.1.", |l| files::add_modes_to_linker(l, State::files)),
    ("skillhost:python", "0.1.", |l| {
        python::add_to_linker(l, State::scripts, State::usage, State::web)
    }),
    ("skillhost:javascript", "0.1.", |l| javascript::add_to_linker(l, State::scripts)),
    ("wasi:cli", "0.3.", wasmtime_wasi::p3::cli::add_to_linker),
    ("wasi:clocks", "0.3.", wasmtime_wasi::p3::clocks::add_to_linker),
    ("wasi:filesystem", "0.3.", |l| files::add_p3_to_linker(l, State::files)),
    ("wasi:random", "0.3.", |l| randomness::add_p3_to_linker(l, State::random)),
    ("wasi:sockets", "0.3.", wasmtime_wasi::p3::sockets::add_to_linker),
    ("wasi:http", "0.3.", wasmtime_wasi_http::p3::add_to_linker),
    ("wasi:io", "0.2.", io_p2),
    ("wasi:cli", "0.2.", cli_p2),
    ("wasi:clocks", "0.2.", clocks_p2),
    ("wasi:filesystem", "0.2.", |l| files::add_p2_to_linker(l, State::files)),
    ("wasi:random", "0.2.", |l| randomness::add_p2_to_linker(l, State::random)),
    ("wasi:sockets", "0.2.", sockets_p2),
    ("wasi:http", "0.2.", wasmtime_wasi_http::p2::add_only_http_to_linker_async),
];

impl Imports {
    /// Returns the packages that a component imports. Linking reports imports of anything else.
    pub(super) fn of(component: &Component, engine: &Engine) -> Imports {
        let mut bits = 0;
        for (name, _) in component.component_type().imports(engine) {
            let Some((path, version)) = name.split_once('@') else { continue };
            let package = path.split('/').next().unwrap_or(path);
            let found = PACKAGES
                .iter()
                .position(|(name, start, _)| *name == package && version.starts_with(start));
            bits |= found.map_or(0, |index| 1 << index);
        }
        Imports(bits)
    }
}

/// Links the packages.
///
/// # Errors
/// A package is linked twice: a bug in this file.
pub(super) fn linker(
    engine: &Engine,
    mode: Mode,
    imports: Imports,
) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    for (index, (name, version, link)) in PACKAGES.iter().enumerate() {
        if imports.0 & (1 << index) != 0 {
            match (mode, *name, *version) {
                (Mode::Deterministic, "wasi:clocks", "0.2.") => {
                    wasi_clocks::add_p2_to_linker(&mut linker)?
                }
                (Mode::Deterministic, "wasi:clocks", _) => {
                    wasi_clocks::add_p3_to_linker(&mut linker)?
                }
                _ => link(&mut linker)?,
            }
        }
    }
    Ok(linker)
}

/// Marks the table as what the bindings of `wasi:io` get.
struct Table;

impl HasData for Table {
    type Data<'a> = &'a mut ResourceTable;
}

fn io_p2(l: &mut Linker<State>) -> wasmtime::Result<()> {
    io::error::add_to_linker::<State, Table>(l, |state| state.ctx().table)?;
    io::poll::add_to_linker::<State, Table>(l, |state| state.ctx().table)?;
    io::streams::add_to_linker::<State, Table>(l, |state| state.ctx().table)
}

fn cli_p2(l: &mut Linker<State>) -> wasmtime::Result<()> {
    cli::exit::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::environment::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::stderr::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(l, State::cli)
}

fn clocks_p2(l: &mut Linker<State>) -> wasmtime::Result<()> {
    clocks::wall_clock::add_to_linker::<State, WasiClocks>(l, State::clocks)?;
    clocks::monotonic_clock::add_to_linker::<State, WasiClocks>(l, State::clocks)
}

fn sockets_p2(l: &mut Linker<State>) -> wasmtime::Result<()> {
    sockets::tcp::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::udp::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::udp_create_socket::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::instance_network::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::network::add_to_linker::<State, WasiSockets>(
        l,
        &sockets::network::LinkOptions::default(),
        State::sockets,
    )?;
    sockets::ip_name_lookup::add_to_linker::<State, WasiSockets>(l, State::sockets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::config::codegen;

    #[test]
    fn every_package_links_with_the_others_and_only_once() {
        let all = Imports((1 << PACKAGES.len()) - 1);
        for mode in [Mode::Fast, Mode::Deterministic] {
            let engine = Engine::new(&codegen(mode, false)).unwrap();
            let mut linker = linker(&engine, mode, all).unwrap();
            for (name, version, link) in PACKAGES {
                assert!(link(&mut linker).is_err(), "{name}@{version}");
            }
        }
    }

    #[test]
    fn imports_are_found_by_package_and_version() {
        let engine = Engine::new(&codegen(Mode::Fast, false)).unwrap();
        let text = r#"(component
            (import "wasi:cli/stdin@0.2.6" (instance)) (import "wasi:cli/exit@0.2.0" (instance)) (import "wasi:http/client@0.3.0" (instance))
            (import "wasi:cli/exit@1.0.0" (instance)) (import "other:cli/exit@0.2.0" (instance)) (import "plain" (instance)))"#;
        let component = Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
        let Imports(bits) = Imports::of(&component, &engine);
        let found: Vec<_> = PACKAGES
            .iter()
            .enumerate()
            .filter(|(i, _)| bits & (1 << i) != 0)
            .map(|(_, p)| (p.0, p.1))
            .collect();
        assert_eq!(found, [("wasi:http", "0.3."), ("wasi:cli", "0.2.")]);
    }
}
