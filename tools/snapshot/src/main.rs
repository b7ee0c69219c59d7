//! `skillhost-snapshot COMPONENT IMAGE`: initialises the JavaScript runtime, and writes the
//! component that starts from there.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a build tool reads and writes files of the build, and reports its errors"
)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use skillhost_image::{INITIALIZE, State, javascript, javascript_module};
use wasmtime::{Config, Engine, Extern, ExternType, Func, Instance, Store};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [component, image] = arguments.as_slice() else {
        eprintln!("usage: skillhost-snapshot COMPONENT IMAGE");
        return ExitCode::from(2);
    };
    match run(component.as_ref(), image.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(component: &Path, image: &Path) -> Result<(), Box<dyn Error>> {
    let component = std::fs::read(component)?;
    let state = initialize(javascript_module(&component)?)?;
    std::fs::write(image, javascript(&component, state)?.component)?;
    Ok(())
}

/// Calls the initialisation of a module, and returns the state that it leaves. Its imports trap:
/// every run starts from this state, so it must not depend on the host.
fn initialize(module: &[u8]) -> Result<State, Box<dyn Error>> {
    let mut config = Config::new();
    config.max_wasm_stack(64 << 20).async_stack_size(65 << 20);
    let engine = Engine::new(&config)?;
    let module = wasmtime::Module::from_binary(&engine, module)?;
    let mut store = Store::new(&engine, ());
    let mut imports = Vec::new();
    for import in module.imports() {
        let name = format!("{}.{}", import.module(), import.name());
        let ExternType::Func(ty) = import.ty() else {
            return Err(format!("the import {name} is not a function").into());
        };
        imports.push(Extern::Func(Func::new(&mut store, ty, move |_, _, _| {
            Err(wasmtime::Error::msg(format!("the initialisation calls {name}")))
        })));
    }
    let instance = Instance::new(&mut store, &module, &imports)?;
    let initialize = instance.get_typed_func::<(), ()>(&mut store, INITIALIZE)?;
    initialize.call(&mut store, ())?;
    let memory = instance.get_memory(&mut store, "memory").ok_or("the module exports no memory")?;
    Ok(State { memory: memory.data(&store).to_vec(), stack: STACK })
}

/// The size of the stack, which build.rs of the component sets. rustc places the stack first.
const STACK: usize = 16 << 20;
