//! Rewrites a module with its functions in a different order, or without some of them, and updates
//! all references to functions. Keeps names, but no other custom sections.

use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{CodeSection, FunctionSection, ImportSection, Module, NameMap, NameSection};
use wasmparser::{
    CodeSectionReader, CustomSectionReader, FunctionSectionReader, ImportSectionReader, Parser,
    TypeRef,
};

use crate::error::{Error, Reencoded, Result};
use crate::module::Functions;

/// Returns the module with the functions of `order`, by their old indices, in that order. Imported
/// functions come first, in their old order.
pub(crate) fn with_functions(
    module: &[u8],
    functions: &Functions,
    order: &[u32],
) -> Result<Vec<u8>> {
    let mut indices = vec![None; functions.type_of.len()];
    for (new, old) in (0..).zip(order) {
        if let Some(index) = indices.get_mut(*old as usize) {
            *index = Some(new);
        }
    }
    let imported = order.partition_point(|old| (*old as usize) < functions.imported);
    let (imported, own) = order.split_at(imported);
    let mut layout = Layout { indices, imported, own, functions };
    let mut out = Module::new();
    utils::parse_core_module(&mut layout, &mut out, Parser::new(0), module)?;
    let mut names = NameMap::new();
    for (new, old) in (0..).zip(order) {
        if let Some(name) = functions.names.get(*old as usize).filter(|name| !name.is_empty()) {
            names.append(new, name);
        }
    }
    let mut section = NameSection::new();
    section.functions(&names);
    out.section(&section);
    Ok(out.finish())
}

struct Layout<'l, 'a> {
    /// The new index of each function, by its old one.
    indices: Vec<Option<u32>>,
    /// The old indices of the functions that stay.
    imported: &'l [u32],
    own: &'l [u32],
    functions: &'l Functions<'a>,
}

impl Reencode for Layout<'_, '_> {
    type Error = Error;

    fn function_index(&mut self, old: u32) -> Reencoded<u32> {
        let new = self.indices.get(old as usize).copied().flatten();
        new.ok_or_else(|| Error::new(format!("function {old} is not in the new module")).into())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader,
    ) -> Reencoded<()> {
        let mut function = 0;
        for import in section.into_imports() {
            let import = import?;
            if let TypeRef::Func(_) | TypeRef::FuncExact(_) = import.ty {
                function += 1;
                if !self.imported.contains(&(function - 1)) {
                    continue;
                }
            }
            self.parse_import(imports, import)?;
        }
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        _: FunctionSectionReader,
    ) -> Reencoded<()> {
        for old in self.own {
            let ty = self.functions.type_of.get(*old as usize);
            functions.function(*ty.ok_or_else(|| Error::new("a function has no type"))?);
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        _: CodeSectionReader,
    ) -> Reencoded<()> {
        for old in self.own {
            let body = self.functions.body(*old);
            let body = body.ok_or_else(|| Error::new("a function has no body"))?.clone();
            self.parse_function_body(code, body)?;
        }
        Ok(())
    }

    fn parse_custom_section(&mut self, _: &mut Module, _: CustomSectionReader) -> Reencoded<()> {
        Ok(())
    }
}
