//! Replaces the memory of a component's main module by the memory after its initialisation.
//!
//! The module exports [`INITIALIZE`], which calls nothing of the host. The build calls it once, and
//! the component starts from there.

use std::ops::Range;

use wasm_encoder::reencode::{self, Reencode, ReencodeComponent};
use wasm_encoder::{
    Component, ComponentSectionId, ConstExpr, DataSection, MemoryType, Module, RawSection,
};
use wasmparser::{DataSectionReader, ExternalKind, Parser, Payload};

use crate::error::{Error, Reencoded, Result};

/// The export of the main module that starts the guest.
pub const INITIALIZE: &str = "wizer-initialize";

const PAGE: usize = 1 << 16;

/// Shorter runs of zeros stay in a segment: each segment costs some bytes and time.
const LEAST_GAP: usize = 4096;

/// The state of a main module after its initialisation.
pub struct State {
    /// The content of the memory.
    pub memory: Vec<u8>,
    /// The end of the stack, which grows down to address 0. What is below is garbage.
    pub stack: usize,
}

/// Returns the first core module of a component.
pub(crate) fn main_module(component: &[u8]) -> Result<&[u8]> {
    for payload in Parser::new(0).parse_all(component) {
        if let Payload::ModuleSection { unchecked_range, .. } = payload? {
            return component
                .get(unchecked_range)
                .ok_or_else(|| Error::new("the component ends in its module"));
        }
    }
    Err(Error::new("the component has no core module"))
}

/// Returns the component with this state in its main module.
pub(crate) fn restore(component: &[u8], state: State) -> Result<Vec<u8>> {
    let mut bytes = state.memory;
    bytes.get_mut(..state.stack).ok_or_else(|| Error::new("the stack is not in memory"))?.fill(0);
    let segments = segments(&bytes);
    let mut restore = Restore { bytes, segments, first: true };
    let mut out = Component::new();
    restore.parse_component(&mut out, Parser::new(0), component)?;
    Ok(out.finish())
}

/// Returns the parts of the memory that are not zero.
fn segments(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut segments: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(|byte| *byte != 0).map(|n| at + n) {
        let mut end = start + 1;
        let mut zeros = 0;
        while end + zeros < bytes.len() && zeros < LEAST_GAP {
            if bytes[end + zeros] == 0 {
                zeros += 1;
            } else {
                end += zeros + 1;
                zeros = 0;
            }
        }
        segments.push(start..end);
        at = end;
    }
    segments
}

struct Restore {
    bytes: Vec<u8>,
    segments: Vec<Range<usize>>,
    /// Whether the main module is still to come.
    first: bool,
}

impl Reencode for Restore {
    type Error = Error;

    fn parse_memory_section(
        &mut self,
        memories: &mut wasm_encoder::MemorySection,
        section: wasmparser::MemorySectionReader<'_>,
    ) -> Reencoded<()> {
        for ty in section {
            let ty = ty?;
            memories.memory(MemoryType {
                minimum: ty.initial.max(self.bytes.len().div_ceil(PAGE) as u64),
                maximum: ty.maximum,
                memory64: ty.memory64,
                shared: ty.shared,
                page_size_log2: ty.page_size_log2,
            });
        }
        Ok(())
    }

    fn parse_export(
        &mut self,
        exports: &mut wasm_encoder::ExportSection,
        export: wasmparser::Export<'_>,
    ) -> Reencoded<()> {
        if export.name == INITIALIZE && export.kind == ExternalKind::Func {
            return Ok(());
        }
        reencode::utils::parse_export(self, exports, export)
    }

    fn parse_data_section(
        &mut self,
        data: &mut DataSection,
        _: DataSectionReader,
    ) -> Reencoded<()> {
        for segment in &self.segments {
            let address = u32::try_from(segment.start).map_err(Error::new)?.cast_signed();
            let content = self.bytes.get(segment.clone());
            let content = content.ok_or_else(|| Error::new("a segment is not in memory"))?;
            data.active(0, &ConstExpr::i32_const(address), content.iter().copied());
        }
        Ok(())
    }
}

impl ReencodeComponent for Restore {
    fn parse_component_submodule(
        &mut self,
        component: &mut Component,
        _: Parser,
        module: &[u8],
    ) -> Reencoded<()> {
        let id = ComponentSectionId::CoreModule as u8;
        if !std::mem::take(&mut self.first) {
            component.section(&RawSection { id, data: module });
            return Ok(());
        }
        let mut out = Module::new();
        reencode::utils::parse_core_module(self, &mut out, Parser::new(0), module)?;
        component.section(&RawSection { id, data: &out.finish() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_of_zeros_stay_in_a_segment() {
        let mut bytes = vec![0; 20_000];
        for at in [10, 12, 9_000, 19_999] {
            bytes[at] = 1;
        }
        assert_eq!(segments(&bytes), [10..13, 9_000..9_001, 19_999..20_000]);
        assert_eq!(segments(&[0; 8]), []);
        assert_eq!(segments(&[]), []);
    }

    #[test]
    fn main_module_starts_from_the_state() {
        let component = wat::parse_str(
            r#"(component
                (core module
                    (memory (export "memory") 1) (func (export "wizer-initialize")) (func (export "run"))
                    (data (i32.const 65530) "old"))
                (core module (memory 1)))"#,
        )
        .unwrap();
        let expected = wat::parse_str(
            r#"(component
                (core module
                    (type (func)) (func (type 0)) (func (type 0)) (memory 2)
                    (export "memory" (memory 0)) (export "run" (func 1))
                    (data (i32.const 65540) "new"))
                (core module (memory 1)))"#,
        )
        .unwrap();
        let mut memory = vec![0; 2 * PAGE];
        memory[..5].copy_from_slice(b"stack");
        memory[65_540..65_543].copy_from_slice(b"new");
        let restored = restore(&component, State { memory, stack: 16 }).unwrap();
        let printed = |bytes: &[u8]| main_module(bytes).map(<[u8]>::to_vec).unwrap();
        assert_eq!(printed(&restored), printed(&expected));
    }
}
