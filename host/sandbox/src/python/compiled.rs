//! The bytecode of a skill's Python files: `skillhost:python/compiled`, which the built-in Python
//! calls before it reads and compiles a file itself.

use wasmtime::component::{HasData, Linker};

use crate::scripts::{Language, ScriptsView};

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        reason = "generated from WIT, where the documentation is"
    )]
    wasmtime::component::bindgen!({
        inline: "package skillhost:host-compiled; world compiled-guest { import skillhost:python/compiled@0.1.0; }",
        path: "python-wit/compiled.wit",
        world: "skillhost:host-compiled/compiled-guest",
        imports: { default: async | trappable },
    });
}

use bindings::skillhost::python::compiled::{self, Script};

/// Marks [`ScriptsView`] as what the bindings get.
struct CompiledInterface;

impl HasData for CompiledInterface {
    type Data<'a> = ScriptsView<'a>;
}

/// Links the interface.
pub(super) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> ScriptsView<'_>,
) -> wasmtime::Result<()> {
    compiled::add_to_linker::<T, CompiledInterface>(linker, get)
}

impl compiled::Host for ScriptsView<'_> {
    async fn get(&mut self, path: String) -> wasmtime::Result<Option<Vec<u8>>> {
        Ok(self.code(Language::Python, &path).await.map(|(_, code)| code.to_vec()))
    }

    async fn begin(&mut self, path: String) -> wasmtime::Result<Option<Script>> {
        let Some((at, code)) = self.code(Language::Python, &path).await else { return Ok(None) };
        let Some((folder, _)) = path.rsplit_once('/').filter(|_| at == path) else {
            return Ok(None);
        };
        Ok(self.names(folder).map(|beside| Script { code: code.to_vec(), beside }))
    }
}
