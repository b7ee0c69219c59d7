//! Pass: replaces globals that nothing changes by their values, and adds up constants.
//!
//! Code of a shared library finds its data and functions by globals, whose values are known once
//! the image is made. Only at constant offsets can an engine lay out table and memory before a
//! start, and only a constant can be the target of a direct call.

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
    let mut pass = Constants { fates: globals.fates()?, globals };
    let mut out = Module::new();
    utils::parse_core_module(&mut pass, &mut out, Parser::new(0), module)?;
    Ok(out.finish())
}

/// The globals of a module.
struct Globals<'a> {
    /// How many are imported. They come first.
    imported: usize,
    own: Vec<Global<'a>>,
    /// Those that code sets, and those that are exported.
    used: BTreeSet<u32>,
}

/// How many globals may refer to one another for an initial value.
const MOST_STEPS: u32 = 16;

impl<'a> Globals<'a> {
    fn read(module: &'a [u8]) -> Result<Self> {
        let mut globals = Self { imported: 0, own: Vec::new(), used: BTreeSet::new() };
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
                            globals.used.insert(export.index);
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    for operator in body.get_operators_reader()? {
                        if let Operator::GlobalSet { global_index } = operator? {
                            globals.used.insert(global_index);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(globals)
    }

    /// What becomes of each global.
    fn fates(&self) -> Result<Vec<Fate>> {
        let count = self.imported + self.own.len();
        let mut stay = 0;
        let mut fates = Vec::with_capacity(count);
        for index in (0..).take(count) {
            let value = if self.used.contains(&index) { None } else { self.initial(index, 0)? };
            fates.push(value.map_or_else(
                || {
                    stay += 1;
                    Fate::Stays(stay - 1)
                },
                Fate::Constant,
            ));
        }
        Ok(fates)
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
        if steps > MOST_STEPS {
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
enum Fate {
    Constant(i32),
    /// It stays, with this index.
    Stays(u32),
}

struct Constants<'a> {
    globals: Globals<'a>,
    fates: Vec<Fate>,
}

impl Constants<'_> {
    fn fate(&self, global: u32) -> Reencoded<Fate> {
        let fate = self.fates.get(global as usize).copied();
        fate.ok_or_else(|| Error::new(format!("no global has index {global}")).into())
    }
}

impl Reencode for Constants<'_> {
    type Error = Error;

    fn global_index(&mut self, global: u32) -> Reencoded<u32> {
        match self.fate(global)? {
            Fate::Stays(index) => Ok(index),
            Fate::Constant(_) => Err(Error::new(format!("global {global} is a constant")).into()),
        }
    }

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader,
    ) -> Reencoded<()> {
        for (index, global) in (0..).skip(self.globals.imported).zip(section) {
            if let Fate::Stays(_) = self.fate(index)? {
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
            && let Fate::Constant(value) = self.fate(global_index)?
        {
            return Ok(Instruction::I32Const(value));
        }
        utils::instruction(self, operator)
    }

    /// Keeps the names of functions: globals go.
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
        // Constants that were read and not written yet: sums of them are constants too.
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
    fn globals_that_nothing_changes_become_constants() {
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
    fn a_global_that_refers_to_itself_is_an_error() {
        let module = wat::parse_str("(module (global i32 (global.get 0)))").unwrap();
        assert!(constants(&module).is_err());
        let module = wat::parse_str("(module (global i32 (i32.add)))").unwrap();
        assert!(constants(&module).is_err());
        let module = wat::parse_str("(module (func (drop (global.get 3))))").unwrap();
        assert!(constants(&module).is_err());
    }
}
