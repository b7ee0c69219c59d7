//! The memory image of a module: the content of its data segments, by address.

use std::ops::Range;

use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{ConstExpr, DataSection, Module};
use wasmparser::{DataKind, DataSectionReader, Operator, Parser, Payload};

use crate::error::{Error, Reencoded, Result};

/// The content of a memory.
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
    /// The addresses that each data segment fills.
    segments: Vec<Range<usize>>,
}

const PAGE: u64 = 1 << 16;

impl Memory {
    /// Reads the content of a module's memory.
    pub(crate) fn read(module: &[u8]) -> Result<Self> {
        let mut memory = Self { bytes: Vec::new(), segments: Vec::new() };
        let mut size = 0;
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::MemorySection(section) => {
                    for ty in section {
                        size = ty?.initial.saturating_mul(PAGE);
                    }
                }
                Payload::DataSection(section) => memory.fill(section, size)?,
                _ => {}
            }
        }
        Ok(memory)
    }

    fn fill(&mut self, section: DataSectionReader, size: u64) -> Result<()> {
        for segment in section {
            let segment = segment?;
            let start = offset(&segment.kind)?;
            let end = start + segment.data.len();
            if end as u64 > size {
                return Err(Error::new("a data segment does not fit in the memory"));
            }
            if end > self.bytes.len() {
                self.bytes.resize(end, 0);
            }
            self.bytes[start..end].copy_from_slice(segment.data);
            self.segments.push(start..end);
        }
        Ok(())
    }

    /// Returns the module with this content in its data segments.
    pub(crate) fn write(self, module: &[u8]) -> Result<Vec<u8>> {
        let mut out = Module::new();
        utils::parse_core_module(&mut Rewrite(self), &mut out, Parser::new(0), module)?;
        Ok(out.finish())
    }

    /// Returns `size` bytes at an address.
    pub(crate) fn slice(&mut self, address: u32, size: usize) -> Result<&mut [u8]> {
        let start = address as usize;
        let slice = self.bytes.get_mut(start..start.saturating_add(size));
        slice.ok_or_else(|| Error::new(format!("address {address:#x} is not in the image")))
    }

    /// Returns the 32-bit number at an address.
    pub(crate) fn word(&mut self, address: u32) -> Result<u32> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.slice(address, 4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    /// Sets the 32-bit number at an address.
    pub(crate) fn set_word(&mut self, address: u32, value: u32) -> Result<()> {
        self.slice(address, 4)?.copy_from_slice(&value.to_le_bytes());
        Ok(())
    }
}

fn offset(kind: &DataKind) -> Result<usize> {
    let unsupported = || Error::new("a data segment is not active at a constant address");
    let DataKind::Active { memory_index: 0, offset_expr } = kind else { return Err(unsupported()) };
    let mut operators = offset_expr.get_operators_reader();
    match (operators.read()?, operators.read()?) {
        (Operator::I32Const { value }, Operator::End) => Ok(value.cast_unsigned() as usize),
        _ => Err(unsupported()),
    }
}

struct Rewrite(Memory);

impl Reencode for Rewrite {
    type Error = Error;

    fn parse_data_section(
        &mut self,
        data: &mut DataSection,
        _: DataSectionReader,
    ) -> Reencoded<()> {
        let Memory { bytes, segments } = &self.0;
        for segment in segments {
            let address = u32::try_from(segment.start).unwrap_or(u32::MAX).cast_signed();
            let content = bytes.get(segment.clone()).unwrap_or_default();
            data.active(0, &ConstExpr::i32_const(address), content.iter().copied());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_written_to_the_segments() {
        let module =
            |segments: &str| wat::parse_str(format!("(module (memory 1) {segments})")).unwrap();
        let old = module(r#"(data (i32.const 16) "abcd") (data (i32.const 2) "ef")"#);
        let mut memory = Memory::read(&old).unwrap();
        assert_eq!(memory.bytes.len(), 20);
        assert_eq!(memory.word(16).unwrap(), u32::from_le_bytes(*b"abcd"));
        memory.set_word(16, u32::from_le_bytes(*b"wxyz")).unwrap();
        memory.slice(3, 1).unwrap()[0] = b'!';
        assert!(memory.word(17).is_err());
        let new = module(r#"(data (i32.const 16) "wxyz") (data (i32.const 2) "e!")"#);
        assert_eq!(memory.write(&old).unwrap(), new);
    }

    #[test]
    fn segments_without_a_constant_address_are_refused() {
        for text in [
            r#"(module (memory 1) (data "passive"))"#,
            r#"(module (memory 1) (global i32 (i32.const 0)) (data (global.get 0) "a"))"#,
            r#"(module (memory 1) (data (i32.const 65535) "ab"))"#,
            r#"(module (memory 1) (data (i32.const -1) "ab"))"#,
        ] {
            assert!(Memory::read(&wat::parse_str(text).unwrap()).is_err(), "{text}");
        }
    }
}
