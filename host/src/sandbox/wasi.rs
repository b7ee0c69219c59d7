//! Everything a guest can import, linked by name: what is not here does not exist for a guest.

use wasmtime::Engine;
use wasmtime::component::Linker;
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::p2::bindings::{cli, sockets};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};

use super::state::State;
use super::{files, process, random};

/// Links WASI 0.2 and 0.3 and `skillhost:skill/process`.
///
/// The stock file system is never present; files and chance are this sandbox's own, for both versions alike. Sockets and name
/// lookup are linked because libc-based guests import them, and every use of them is denied.
///
/// # Errors
/// An interface is linked twice: a mistake in this function.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;

    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)?;
    cli::exit::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::environment::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(l, State::cli)?;
    sockets::tcp::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::udp::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::udp_create_socket::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::instance_network::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    sockets::network::add_to_linker::<State, WasiSockets>(l, &sockets::network::LinkOptions::default(), State::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<State, WasiSockets>(l, State::sockets)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(l)?;

    wasmtime_wasi::p3::cli::add_to_linker(l)?;
    wasmtime_wasi::p3::clocks::add_to_linker(l)?;
    wasmtime_wasi::p3::sockets::add_to_linker(l)?;
    wasmtime_wasi_http::p3::add_to_linker(l)?;

    files::add_to_linker(l, State::files)?;
    process::add_to_linker(l)?;

    // The 0.2 proxy set above brings the stock `wasi:random/random`; this replaces it.
    l.allow_shadowing(true);
    random::add_to_linker(l, State::random)?;
    l.allow_shadowing(false);
    Ok(linker)
}
