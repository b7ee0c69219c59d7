//! Pass: gives files the permissions and owners that WASI does not have.
//!
//! WASI has no permission bits and no users, so libc sets them to zero. Access is checked when a
//! file is opened, but scripts print modes, compare owners and check whether a file is executable.
//! So each file gets the permissions that it would have on Linux, and belongs to the only user (uid
//! and gid 1000, as in `guest/_skillhost/system.py`). CPython creates every `os.stat_result` in one
//! function, from libc's structure. This pass adds instructions to its start that fill in the
//! structure.

use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{BlockType, CodeSection, Instruction, MemArg, Module};
use wasmparser::{CodeSectionReader, FunctionBody, Operator, Parser};

use crate::error::{Error, Reencoded, Result};
use crate::module::Functions;

const FUNCTION: &str = "_pystat_fromstructstat";
/// Its parameters are the module and the structure, whose fields these are (wasi-libc's
/// `__struct_stat.h`).
const STRUCTURE: u32 = 1;
const MODE: i32 = 24;
const UID: i32 = 28;
const GID: i32 = 32;
const USER: i32 = 1000;
/// POSIX's `sys/stat.h`: `S_IFMT`, and the permissions of `S_IFDIR`, `S_IFREG`, `S_IFLNK` and
/// `S_IFCHR`.
const KINDS: i32 = 0o170000;
const MODES: [(i32, i32); 4] =
    [(0o040000, 0o755), (0o100000, 0o644), (0o120000, 0o777), (0o020000, 0o620)];
/// The permissions of files of other kinds.
const OTHERS: i32 = 0o600;
const PERMISSIONS: i32 = 0o777;

/// Adds the instructions to the function.
pub(crate) fn with_modes(module: &[u8]) -> Result<Vec<u8>> {
    let functions = Functions::read(module)?;
    let function = functions.named(FUNCTION)?;
    let body =
        functions.body(function).ok_or_else(|| Error::new(format!("{FUNCTION} has no body")))?;
    for field in [MODE, UID, GID] {
        if !reads(body, field)? {
            let what = format!("{FUNCTION} does not read the field of the structure at {field}");
            return Err(Error::new(what));
        }
    }
    let mut pass = Modes { body: function as usize - functions.imported };
    let mut out = Module::new();
    utils::parse_core_module(&mut pass, &mut out, Parser::new(0), module)?;
    Ok(out.finish())
}

/// Returns whether the function reads the field of the structure.
fn reads(body: &FunctionBody, field: i32) -> Result<bool> {
    let operators: std::result::Result<Vec<_>, _> =
        body.get_operators_reader()?.into_iter().collect();
    Ok(operators?.windows(4).any(|operators| {
        matches!(
            operators,
            [
                Operator::LocalGet { local_index: STRUCTURE },
                Operator::I32Const { value },
                Operator::I32Add,
                Operator::I32Load { memarg },
            ] if *value == field && memarg.offset == 0
        )
    }))
}

struct Modes {
    /// The index of the body that changes.
    body: usize,
}

impl Reencode for Modes {
    type Error = Error;

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader,
    ) -> Reencoded<()> {
        for (number, body) in section.into_iter().enumerate() {
            let body = body?;
            let mut function = self.new_function_with_parsed_locals(&body)?;
            if number == self.body {
                for instruction in &fill_in() {
                    function.instruction(instruction);
                }
            }
            for operator in body.get_operators_reader()? {
                function.instruction(&self.instruction(operator?)?);
            }
            code.function(&function);
        }
        Ok(())
    }
}

/// Returns the instructions that set the permissions, by the kind of file, and the owner, unless a
/// permission is set.
fn fill_in() -> Vec<Instruction<'static>> {
    use Instruction as I;
    let mut mode = vec![I::I32Const(OTHERS)];
    for (kind, bits) in MODES {
        mode.insert(0, I::I32Const(bits));
        mode.extend(load(MODE));
        mode.extend([I::I32Const(KINDS), I::I32And, I::I32Const(kind), I::I32Eq, I::Select]);
    }
    let mut code = load(MODE).to_vec();
    code.extend([I::I32Const(PERMISSIONS), I::I32And, I::I32Eqz, I::If(BlockType::Empty)]);
    code.push(I::LocalGet(STRUCTURE));
    code.extend(load(MODE));
    code.extend(mode);
    code.extend([I::I32Or, I::I32Store(field(MODE))]);
    for owner in [UID, GID] {
        code.extend([I::LocalGet(STRUCTURE), I::I32Const(USER), I::I32Store(field(owner))]);
    }
    code.push(I::End);
    code
}

fn load(offset: i32) -> [Instruction<'static>; 2] {
    [Instruction::LocalGet(STRUCTURE), Instruction::I32Load(field(offset))]
}

fn field(offset: i32) -> MemArg {
    MemArg { offset: offset.unsigned_abs().into(), align: 2, memory_index: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(fields: &[i32]) -> Vec<u8> {
        let reads: String = fields
            .iter()
            .map(|field| format!("(drop (i32.load (i32.add (local.get 1) (i32.const {field}))))"))
            .collect();
        let text = format!(
            "(module (memory 1) (func $other)
                (func ${FUNCTION} (param i32 i32) (local i64) {reads}))"
        );
        wat::parse_str(text).unwrap()
    }

    #[test]
    fn the_structure_is_filled_in_first() {
        let changed = with_modes(&module(&[MODE, UID, GID])).unwrap();
        let functions = Functions::read(&changed).unwrap();
        let operators = functions.bodies[1].get_operators_reader().unwrap();
        let operators: Vec<_> = operators.into_iter().map(|operator| operator.unwrap()).collect();
        let start = [
            Operator::LocalGet { local_index: 1 },
            Operator::I32Load {
                memarg: wasmparser::MemArg { align: 2, max_align: 2, offset: 24, memory: 0 },
            },
            Operator::I32Const { value: 0o777 },
            Operator::I32And,
            Operator::I32Eqz,
        ];
        assert_eq!(operators[..5], start);
        let stores = |offset| {
            operators.iter().any(|operator| {
                matches!(operator, Operator::I32Store { memarg } if memarg.offset == offset)
            })
        };
        assert!(stores(24) && stores(28) && stores(32));
        wasmparser::Validator::new().validate_all(&changed).unwrap();
    }

    #[test]
    fn unknown_structure_is_an_error() {
        let error = with_modes(&module(&[MODE, UID])).unwrap_err().to_string();
        assert!(error.contains("at 32"), "{error}");
        assert!(with_modes(&wat::parse_str("(module)").unwrap()).is_err());
    }
}
