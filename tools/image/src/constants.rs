//! Pass: replaces globals that never change with their values, and adds up constants.
//!
//! The code of a shared library finds its data and functions through globals, whose values are
//! known once the image is built. An engine can lay out table and memory before a start only at
//! constant offsets, and only a constant can become the target of a direct call.

use std::collections::BTreeSet;

use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{CodeSection, ConstExpr, GlobalSection, Instruction, Module, NameSection};
use wasmparser::{
    ExternalKind, FunctionBody, Global, GlobalSectionReader, Name, Operator, Parser, Payload,
    TypeRef,
};

use crate::error::{Error, Reencoded, Result};

/// Replaces the globals, and removes them.
pub(crate) fn constants(module: &[u8]) -> Result<Vec<u8>> {
    let globals = Globals::read(module)?;
    let mut pass = Constants { replacements: globals.replacements()?, globals };
    let mut out = Module::new();
    utils::parse_core_module(&mut pass, &mut out, Parser::new(0), module)?;
    Ok(out.finish())
}

/// The globals of a module.
struct Globals<'a> {
    /// The number of imported globals, which come first.
    imported: usize,
    own: Vec<Global<'a>>,
    /// The globals that code sets or that are exported.
    variable: BTreeSet<u32>,
}

/// The maximal length of a chain of globals that refer to each other for an initial value.
const MAX_STEPS: u32 = 16;

impl<'a> Globals<'a> {
    fn read(module: &'a [u8]) -> Result<Self> {
        let mut globals = Self { imported: 0, own: Vec::new(), variable: BTreeSet::new() };
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        globals.imported += usize::from(matches!(import?.ty, TypeRef::Global(_)));
                    }
                }
                Payload::GlobalSection(section) => {
                    globals.own = section.into_iter().collect::<std::result::Result<_, _>>()?;
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        if export.kind == ExternalKind::Global {
                            globals.variable.insert(export.index);
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    for operator in body.get_operators_reader()? {
                        if let Operator::GlobalSet { global_index } = operator? {
                            globals.variable.insert(global_index);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(globals)
    }

    /// Returns the replacement of each global.
    fn replacements(&self) -> Result<Vec<Replacement>> {
        let count = self.imported + self.own.len();
        let mut next = 0;
        let mut replacements = Vec::with_capacity(count);
        for index in (0..).take(count) {
            let value = if self.variable.contains(&index) { None } else { self.initial(index, 0)? };
            replacements.push(value.map_or_else(
                || {
                    next += 1;
                    Replacement::Global(next - 1)
                },
                Replacement::Constant,
            ));
        }
        Ok(replacements)
    }

    /// Returns the initial value of a global, if it is a constant.
    fn initial(&self, index: u32, steps: u32) -> Result<Option<i32>> {
        let own = (index as usize).checked_sub(self.imported).map(|index| self.own.get(index));
        match own {
            None => Ok(None),
            Some(None) => Err(Error::new(format!("no global has index {index}"))),
            Some(Some(global)) => self.value(&global.init_expr, steps),
        }
    }

    /// Returns the value of a constant expression, if it consists of constants, sums and globals
    /// that are constants.
    fn value(&self, expression: &wasmparser::ConstExpr, steps: u32) -> Result<Option<i32>> {
        if steps > MAX_STEPS {
            return Err(Error::new("a global refers to itself"));
        }
        let mut stack = Vec::new();
        for operator in expression.get_operators_reader() {
            match operator? {
                Operator::I32Const { value } => stack.push(value),
                Operator::I32Add => {
                    let (Some(right), Some(left)) = (stack.pop(), stack.pop()) else {
                        return Err(Error::new("a sum in a constant lacks an operand"));
                    };
                    stack.push(i32::wrapping_add(left, right));
                }
                Operator::GlobalGet { global_index } => {
                    match self.initial(global_index, steps + 1)? {
                        Some(value) => stack.push(value),
                        None => return Ok(None),
                    }
                }
                Operator::End => {}
                _ => return Ok(None),
            }
        }
        Ok(stack.pop())
    }
}

#[derive(Clone, Copy)]
enum Replacement {
    Constant(i32),
    /// The same global, with a new index.
    Global(u32),
}

struct Constants<'a> {
    globals: Globals<'a>,
    replacements: Vec<Replacement>,
}

impl Constants<'_> {
    fn replacement(&self, global: u32) -> Reencoded<Replacement> {
        let replacement = self.replacements.get(global as usize).copied();
        replacement.ok_or_else(|| Error::new(format!("no global has index {global}")).into())
    }
}

impl Reencode for Constants<'_> {
    type Error = Error;

    fn global_index(&mut self, global: u32) -> Reencoded<u32> {
        match self.replacement(global)? {
            Replacement::Global(index) => Ok(index),
            Replacement::Constant(_) => {
                Err(Error::new(format!("global {global} is a constant")).into())
            }
        }
    }

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader,
    ) -> Reencoded<()> {
        for (index, global) in (0..).skip(self.globals.imported).zip(section) {
            if let Replacement::Global(_) = self.replacement(index)? {
                self.parse_global(globals, global?)?;
            }
        }
        Ok(())
    }

    fn const_expr(&mut self, expression: wasmparser::ConstExpr) -> Reencoded<ConstExpr> {
        match self.globals.value(&expression, 0)? {
            Some(value) => Ok(ConstExpr::i32_const(value)),
            None => utils::const_expr(self, expression),
        }
    }

    fn instruction<'o>(&mut self, operator: Operator<'o>) -> Reencoded<Instruction<'o>> {
        if let Operator::GlobalGet { global_index } = operator
            && let Replacement::Constant(value) = self.replacement(global_index)?
        {
            return Ok(Instruction::I32Const(value));
        }
        utils::instruction(self, operator)
    }

    /// Keeps only the names of functions, because the indices of globals change.
    fn parse_custom_name_subsection(
        &mut self,
        names: &mut NameSection,
        section: Name,
    ) -> Reencoded<()> {
        match section {
            Name::Function(_) => utils::parse_custom_name_subsection(self, names, section),
            _ => Ok(()),
        }
    }

    fn parse_function_body(&mut self, code: &mut CodeSection, body: FunctionBody) -> Reencoded<()> {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        // Constants that were read but not yet written. Their sums are constants too.
        let mut pending = Vec::new();
        for operator in body.get_operators_reader()? {
            match self.instruction(operator?)? {
                Instruction::I32Const(value) => pending.push(value),
                Instruction::I32Add if pending.len() > 1 => {
                    let sum = pending.drain(pending.len() - 2..).fold(0, i32::wrapping_add);
                    pending.push(sum);
                }
                instruction => {
                    for value in pending.drain(..) {
                        function.instruction(&Instruction::I32Const(value));
                    }
                    function.instruction(&instruction);
                }
            }
        }
        code.function(&function);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strip::without_custom_sections;

    fn check(module: &str, expected: &str) {
        let module = constants(&wat::parse_str(module).unwrap()).unwrap();
        let expected = without_custom_sections(&wat::parse_str(expected).unwrap()).unwrap();
        assert_eq!(without_custom_sections(&module).unwrap(), expected);
    }

    #[test]
    fn globals_that_never_change_become_constants() {
        check(
            r#"(module
                (global $base (mut i32) (i32.const 8))
                (global $set (mut i32) (i32.const 1))
                (global $shown i32 (i32.const 2))
                (global $sum i32 (i32.add (i32.const 4) (global.get $shown)))
                (export "shown" (global $shown))
                (table 9 funcref)
                (elem (i32.add (global.get $sum) (i32.const 1)) func 0)
                (func (result i32)
                    (global.set $set (i32.const 3))
                    (i32.add (i32.add (i32.const 1) (global.get $base)) (global.get $set))))"#,
            r#"(module
                (global $set (mut i32) (i32.const 1))
                (global $shown i32 (i32.const 2))
                (export "shown" (global $shown))
                (table 9 funcref)
                (elem (i32.const 7) func 0)
                (func (result i32)
                    (global.set $set (i32.const 3))
                    (i32.add (i32.const 9) (global.get $set))))"#,
        );
    }

    #[test]
    fn imported_and_other_globals_stay() {
        let module = r#"(module
            (import "a" "b" (global i32))
            (global i64 (i64.const 1))
            (global i32 (global.get 0))
            (func (drop (global.get 0)) (drop (global.get 1)) (drop (global.get 2))))"#;
        check(module, module);
    }

    #[test]
    fn invalid_globals_are_errors() {
        let module = wat::parse_str("(module (global i32 (global.get 0)))").unwrap();
        assert!(constants(&module).is_err());
        let module = wat::parse_str("(module (global i32 (i32.add)))").unwrap();
        assert!(constants(&module).is_err());
        let module = wat::parse_str("(module (func (drop (global.get 3))))").unwrap();
        assert!(constants(&module).is_err());
    }
}
