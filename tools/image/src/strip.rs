//! Pass: removes the custom sections. Only the passes use names, and nothing uses the others.

use wasm_encoder::Module;
use wasm_encoder::reencode::{Reencode, utils};
use wasmparser::{CustomSectionReader, Parser};

use crate::error::{Error, Reencoded, Result};

/// Returns the module without its custom sections.
pub(crate) fn without_custom_sections(module: &[u8]) -> Result<Vec<u8>> {
    let mut out = Module::new();
    utils::parse_core_module(&mut Strip, &mut out, Parser::new(0), module)?;
    Ok(out.finish())
}

struct Strip;

impl Reencode for Strip {
    type Error = Error;

    fn parse_custom_section(&mut self, _: &mut Module, _: CustomSectionReader) -> Reencoded<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_sections_are_removed() {
        let module = wat::parse_str("(module $name (@custom \"a\" \"b\") (func $f))").unwrap();
        let plain = wat::parse_str("(module (func))").unwrap();
        assert_eq!(without_custom_sections(&module).unwrap(), plain);
        assert!(without_custom_sections(b"\0asm").is_err());
    }
}
