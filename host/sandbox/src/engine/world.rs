//! A component's world: what it imports and exports, read from the binary without running it.

use serde::Serialize;
use wit_component::{DecodedWasm, WitPrinter};

use super::status::{invalid, say};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::outcome::Status;

/// The imports and exports of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct World {
    /// The names of its imports, in the component's order.
    pub imports: Vec<String>,
    /// The names of its exports.
    pub exports: Vec<String>,
    /// The world as WIT.
    pub wit: String,
}

/// Reads the world of an untrusted component, without running it.
///
/// # Errors
/// The bytes are not a component.
pub fn read(bytes: &[u8]) -> Result<World, String> {
    if let Err(status) = check_kind(bytes) {
        return Err(say(&status));
    }
    let decoded = wit_component::decode(bytes)
        .map_err(|error| format!("this component cannot be read: {error:#}"))?;
    let DecodedWasm::Component(resolve, id) = &decoded else {
        return Err("this is a WIT package, not a component".into());
    };
    let world = &resolve.worlds[*id];
    let mut printer = WitPrinter::default();
    printer.emit_docs(false);
    printer
        .print(resolve, decoded.package(), &[])
        .map_err(|error| format!("its world cannot be printed: {error:#}"))?;
    Ok(World {
        imports: world.imports.keys().map(|key| resolve.name_world_key(key)).collect(),
        exports: world.exports.keys().map(|key| resolve.name_world_key(key)).collect(),
        wit: printer.output.to_string(),
    })
}

/// Checks whether bytes are a component, and not a file that is mistaken for one.
///
/// # Errors
/// `Status::Invalid`, with the fix.
pub fn check_kind(bytes: &[u8]) -> Result<(), Status> {
    // Preamble: magic, then version 0x0d and layer 1 for a component, version 1 and layer 0 for a
    // core module (component-model/design/mvp/Binary.md).
    match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(Status::Invalid {
            message: "this is a core module, not a component".into(),
            fix: Some(
                "build it with `skillhost build`, or with `linker = \"wasm-component-ld\"` for the target in .cargo/config.toml, \
                 or wrap it with `wasm-tools component new MODULE.wasm -o COMPONENT.wasm`"
                    .into(),
            ),
        }),
        [0, b'a', b's', b'm', ..] => Err(invalid("this WebAssembly file has an unknown version".into())),
        _ => Err(invalid("this is not a WebAssembly file".into())),
    }
}

impl World {
    /// Checks whether it has typed tools.
    pub fn offers_tools(&self) -> bool {
        self.exports.iter().any(|name| name.starts_with("skillhost:skill/tools@"))
    }

    /// Lists the imports that are useless without a capability that was not granted: one sentence
    /// each.
    pub fn unasked(&self, capabilities: &Capabilities) -> Vec<String> {
        let imports = |prefix: &str| self.imports.iter().any(|name| name.starts_with(prefix));
        let mut unasked = Vec::new();
        if imports("wasi:http/") && capabilities.fetch.is_empty() {
            unasked.push(
                "it imports wasi:http, but no `WebFetch` entry of allowed-tools requests a host"
                    .into(),
            );
        }
        if imports("skillhost:skill/process") && capabilities.spawn.is_empty() {
            unasked.push("it imports skillhost:skill/process, but no `Bash` entry of allowed-tools requests a command".into());
        }
        if imports("wasi:filesystem/")
            && capabilities.read.is_empty()
            && capabilities.write.is_empty()
        {
            unasked.push("it imports wasi:filesystem, but no `Read` or `Write` entry requests files: it sees only /skill and /tmp".into());
        }
        if imports("wasi:sockets/") {
            unasked.push("it imports wasi:sockets, which are never granted".into());
        }
        unasked
    }
}
