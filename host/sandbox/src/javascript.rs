//! The JavaScript of a skill's TypeScript files: `skillhost:javascript/compiled`, which the built-in
//! JavaScript runtime calls before it reads a file and removes its types itself.

use wasmtime::component::{HasData, Linker};

use crate::scripts::{Language, ScriptsView};

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        reason = "generated from WIT, where the documentation is"
    )]
    wasmtime::component::bindgen!({
        inline: "package skillhost:host-compiled; world compiled-guest { import skillhost:javascript/compiled@0.1.0; }",
        path: "javascript-wit/compiled.wit",
        world: "skillhost:host-compiled/compiled-guest",
        imports: { default: async | trappable },
    });
}

use bindings::skillhost::javascript::compiled;

/// Marks [`ScriptsView`] as what the bindings get.
struct CompiledInterface;

impl HasData for CompiledInterface {
    type Data<'a> = ScriptsView<'a>;
}

/// Links the interface.
pub(crate) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> ScriptsView<'_>,
) -> wasmtime::Result<()> {
    compiled::add_to_linker::<T, CompiledInterface>(linker, get)
}

impl compiled::Host for ScriptsView<'_> {
    async fn get(&mut self, path: String) -> wasmtime::Result<Option<Vec<u8>>> {
        Ok(self.code(Language::TypeScript, &path).await.map(|(_, code)| code.to_vec()))
    }
}
