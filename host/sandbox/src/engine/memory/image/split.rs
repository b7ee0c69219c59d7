//! Takes the data segments out of a component that has one memory.

use wasm_encoder::{Component, Module, ModuleSection, RawSection};
use wasmparser::{BinaryReaderError, ConstExpr, Data, DataKind, Operator, Parser, Payload};

use crate::engine::address_space::UNIT;
use crate::engine::config::IMAGE;

type Result<T> = std::result::Result<T, BinaryReaderError>;

/// A component without its data segments, and its initial memory.
pub(crate) struct Split {
    /// The component without data segments.
    pub(crate) component: Vec<u8>,
    /// The initial memory up to the end of its last segment; its size is a multiple of [`UNIT`].
    pub(crate) image: Vec<u8>,
    /// Size of the memory, in bytes.
    pub(crate) memory: u64,
}

/// Splits a component. Returns `None` if it does not have exactly one memory, or if the effect of
/// its segments is known only when it runs.
///
/// # Errors
/// The bytes are not a component.
pub(crate) fn split(component: &[u8]) -> Result<Option<Split>> {
    let (mut out, mut found) = (Component::new(), None);
    let (mut memories, mut depth) = (0, 0);
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        if depth == 0
            && let Some((id, range)) = payload.as_section()
        {
            let content = if let Payload::ModuleSection { .. } = payload {
                Content::of(&component[range.clone()])?
            } else {
                None
            };
            match content {
                Some(content) => {
                    out.section(&ModuleSection(&without_data(&component[range])?));
                    found = Some(content);
                }
                None => drop(out.section(&RawSection { id, data: &component[range] })),
            }
        }
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::MemorySection(section) => memories += section.count(),
            _ => {}
        }
    }
    let found = found.filter(|_| memories == 1);
    Ok(found.map(|Content { image, memory }| Split { component: out.finish(), image, memory }))
}

/// The initial memory of a module.
struct Content {
    image: Vec<u8>,
    memory: u64,
}

impl Content {
    /// Returns `None` if the module has no memory, or uses its segments for more than its initial
    /// content.
    fn of(module: &[u8]) -> Result<Option<Content>> {
        let (mut memory, mut image, mut may_use_segments) = (None, Vec::new(), false);
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::MemorySection(section) => {
                    for ty in section {
                        let ty = ty?;
                        let plain = !ty.memory64 && !ty.shared && ty.page_size_log2.is_none();
                        memory = Some(ty.initial << 16).filter(|_| plain);
                    }
                }
                Payload::DataCountSection { .. } => may_use_segments = true,
                Payload::CodeSectionEntry(body) if may_use_segments => {
                    for operator in body.get_operators_reader()? {
                        if matches!(
                            operator?,
                            Operator::MemoryInit { .. } | Operator::DataDrop { .. }
                        ) {
                            return Ok(None);
                        }
                    }
                }
                Payload::DataSection(section) => {
                    for data in section {
                        let (data, Some(memory)) = (data?, memory) else { return Ok(None) };
                        let Some(start) = start(&data) else { return Ok(None) };
                        let end = start + data.data.len();
                        if end as u64 > memory.min(IMAGE) {
                            return Ok(None);
                        }
                        image.resize(image.len().max(end.next_multiple_of(UNIT)), 0);
                        image[start..end].copy_from_slice(data.data);
                    }
                }
                _ => {}
            }
        }
        Ok(memory.filter(|_| !image.is_empty()).map(|memory| Content { image, memory }))
    }
}

/// Returns the offset of a segment; `None` if it is known only when the module runs.
fn start(data: &Data) -> Option<usize> {
    let DataKind::Active { memory_index: 0, offset_expr } = &data.kind else { return None };
    constant(offset_expr)
}

fn constant(expression: &ConstExpr) -> Option<usize> {
    let mut operators = expression.get_operators_reader();
    let value = match operators.read().ok()? {
        Operator::I32Const { value } => value.cast_unsigned(),
        _ => return None,
    };
    matches!(operators.read().ok()?, Operator::End).then_some(value as usize)
}

fn without_data(module: &[u8]) -> Result<Module> {
    let mut out = Module::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        if matches!(payload, Payload::DataSection(_) | Payload::DataCountSection { .. }) {
            continue;
        }
        if let Some((id, range)) = payload.as_section() {
            out.section(&RawSection { id, data: &module[range] });
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(module: &str) -> Vec<u8> {
        wat::parse_str(format!("(component {module})")).unwrap()
    }

    #[test]
    fn segments_move_from_the_component_to_the_image() {
        let whole = component(
            r#"(core module (memory 2) (data (i32.const 4) "abc") (func nop) (data (i32.const 5) "XYZ")) (core module)"#,
        );
        let split = split(&whole).unwrap().unwrap();
        assert_eq!(split.memory, 2 << 16);
        assert_eq!(split.image.len(), UNIT);
        assert_eq!(split.image[..8], *b"\0\0\0\0aXYZ");
        let bare = component("(core module (memory 2) (func nop)) (core module)");
        assert_eq!(split.component, bare);
    }

    #[test]
    fn components_with_dynamic_segments_are_not_split() {
        for module in [
            r#"(core module (memory 1) (memory 1) (data (i32.const 4) "abc"))"#,
            r#"(core module (memory 1) (data (i32.const 4) "abc")) (core module (memory 1))"#,
            r#"(core module (memory i64 1) (data (i64.const 4) "abc"))"#,
            r#"(core module (memory 1) (data "abc") (func i32.const 0 i32.const 0 i32.const 3 memory.init 0))"#,
            r#"(core module (memory 1) (data (i32.const 4) "abc") (func data.drop 0))"#,
            r#"(core module (import "a" "b" (global i32)) (memory 1) (data (global.get 0) "abc"))"#,
            r#"(core module (import "a" "b" (memory 1)) (data (i32.const 4) "abc"))"#,
            r#"(core module (memory 1) (data (i32.const 65534) "abc"))"#,
            "(core module (memory 1))",
        ] {
            assert!(split(&component(module)).unwrap().is_none(), "{module}");
        }
    }

    #[test]
    fn bytes_that_are_not_a_component_are_an_error() {
        assert!(split(b"\0asm").is_err());
        assert!(split(b"no WebAssembly").is_err());
    }
}
