//! Pass: refuses empty paths.
//!
//! libc takes an empty path for the working folder. Elsewhere there is no such file, and scripts
//! rely on the error. Every function of libc that takes a path resolves it in one of two functions,
//! to whose starts this pass adds a check.

use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{BlockType, CodeSection, Instruction, MemArg, Module};
use wasmparser::{CodeSectionReader, Operator, Parser, ValType};

use crate::error::{Error, Reencoded, Result};
use crate::module::Functions;

/// The functions, whose first parameter is the path, and whose result is -1 after an error.
const FUNCTIONS: [&str; 2] = ["__wasilibc_find_relpath", "__wasilibc_find_relpath_alloc"];
/// Reports a path in no folder with the same error.
const REPORTS: &str = "__wasilibc_find_abspath";
/// `ENOENT` of wasi-libc.
const MISSING: i32 = 44;

/// Adds the checks.
pub(crate) fn refuse_empty_paths(module: &[u8]) -> Result<Vec<u8>> {
    let functions = Functions::read(module)?;
    let errno = errno(&functions)?;
    let mut bodies = Vec::new();
    for name in FUNCTIONS {
        let function = functions.named(name)?;
        let ty = functions.function_type(function)?;
        if ty.params().first() != Some(&ValType::I32) || ty.results() != [ValType::I32] {
            return Err(Error::new(format!("{name} has another type")));
        }
        let body = (function as usize).checked_sub(functions.imported);
        bodies.push(body.ok_or_else(|| Error::new(format!("{name} has no body")))?);
    }
    let mut pass = Paths { bodies, errno };
    let mut out = Module::new();
    utils::parse_core_module(&mut pass, &mut out, Parser::new(0), module)?;
    Ok(out.finish())
}

/// Returns the address of `errno`, by the place where libc stores [`MISSING`].
fn errno(functions: &Functions) -> Result<i32> {
    let body = functions.body(functions.named(REPORTS)?);
    let body = body.ok_or_else(|| Error::new(format!("{REPORTS} has no body")))?;
    let operators: std::result::Result<Vec<_>, _> =
        body.get_operators_reader()?.into_iter().collect();
    let found = operators?.windows(3).find_map(|operators| match operators {
        [
            Operator::I32Const { value: address },
            Operator::I32Const { value: MISSING },
            Operator::I32Store { memarg },
        ] if memarg.offset == 0 => Some(*address),
        _ => None,
    });
    found.ok_or_else(|| Error::new(format!("{REPORTS} does not report a missing file")))
}

struct Paths {
    /// The indices of the bodies that change.
    bodies: Vec<usize>,
    errno: i32,
}

impl Reencode for Paths {
    type Error = Error;

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader,
    ) -> Reencoded<()> {
        for (number, body) in section.into_iter().enumerate() {
            let body = body?;
            if !self.bodies.contains(&number) {
                self.parse_function_body(code, body)?;
                continue;
            }
            let mut function = self.new_function_with_parsed_locals(&body)?;
            for instruction in &self.check() {
                function.instruction(instruction);
            }
            for operator in body.get_operators_reader()? {
                function.instruction(&self.instruction(operator?)?);
            }
            code.function(&function);
        }
        Ok(())
    }
}

impl Paths {
    fn check(&self) -> [Instruction<'static>; 10] {
        let first = MemArg { offset: 0, align: 0, memory_index: 0 };
        [
            Instruction::LocalGet(0),
            Instruction::I32Load8U(first),
            Instruction::I32Eqz,
            Instruction::If(BlockType::Empty),
            Instruction::I32Const(self.errno),
            Instruction::I32Const(MISSING),
            Instruction::I32Store(MemArg { align: 2, ..first }),
            Instruction::I32Const(-1),
            Instruction::Return,
            Instruction::End,
        ]
    }
}

#[cfg(test)]
mod tests {
    use wasmparser::Validator;

    use super::*;

    fn module(result: &str) -> Vec<u8> {
        let text = format!(
            "(module (memory 1)
                (func $__wasilibc_find_abspath (i32.store (i32.const 16) (i32.const 44)))
                (func $other (param i32) (result i32) (local.get 0))
                (func $__wasilibc_find_relpath (param i32 i32) (result i32)
                    (local i64) (local.get 1))
                (func $__wasilibc_find_relpath_alloc (param i32 i32) (result {result})
                    ({result}.const 7)))"
        );
        wat::parse_str(text).unwrap()
    }

    #[test]
    fn path_is_checked_first() {
        let changed = refuse_empty_paths(&module("i32")).unwrap();
        Validator::new().validate_all(&changed).unwrap();
        let functions = Functions::read(&changed).unwrap();
        let lengths: Vec<_> = functions
            .bodies
            .iter()
            .map(|body| body.get_operators_reader().unwrap().into_iter().count())
            .collect();
        assert_eq!(lengths, [4, 2, 12, 12]);
        let operators = functions.bodies[2].get_operators_reader().unwrap();
        let operators: Vec<_> = operators.into_iter().map(|operator| operator.unwrap()).collect();
        assert_eq!(operators[0], Operator::LocalGet { local_index: 0 });
        assert_eq!(operators[4], Operator::I32Const { value: 16 });
    }

    #[test]
    fn unknown_libc_is_an_error() {
        let error = refuse_empty_paths(&module("i64")).unwrap_err().to_string();
        assert!(error.contains("__wasilibc_find_relpath_alloc"), "{error}");
        assert!(refuse_empty_paths(&wat::parse_str("(module)").unwrap()).is_err());
    }
}
