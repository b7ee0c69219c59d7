//! Pass: keeps what is written to stdout in memory until the host needs it.
//!
//! Python flushes stdout at every line, because a run may be stopped at any moment. Here such a
//! write stays in the guest: functions around the imports append it to a buffer, and hand the
//! buffer over when it is full and before every other call of the host. So stdout keeps its order
//! with everything else that a guest does, and the host has all of it whenever the guest waits.
//! The guest announces the buffer (`skillhost:python/lines`), and the host reads the rest of it at
//! each epoch and when the guest ends or is stopped (`host/sandbox/src/python/lines.rs`).
//!
//! The buffer begins with two counters: all bytes that were handed over when the buffer was last
//! emptied, and all bytes that were written. Both only grow, and each changes in one instruction,
//! so the host finds them consistent wherever it interrupts the guest.

use std::collections::BTreeMap;

use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, Function, FunctionSection, GlobalSection, GlobalType,
    Instruction, MemArg, Module, NameMap, NameSection, ValType,
};
use wasmparser::{
    CodeSectionReader, CustomSectionReader, FuncType, FunctionSectionReader, GlobalSectionReader,
    Parser, Payload,
};

use crate::component::length;
use crate::error::{Error, Reencoded, Result};
use crate::module::Functions;

/// The interfaces without their versions: libc and the bindings of componentize-py may name
/// different ones, for the same or for different imports.
const GET_STDOUT: &str = "wasi:cli/stdout#get-stdout";
const CHECK_WRITE: &str = "wasi:io/streams#[method]output-stream.check-write";
const WRITE: &str = "wasi:io/streams#[method]output-stream.write";
const BLOCKING_FLUSH: &str = "wasi:io/streams#[method]output-stream.blocking-flush";
const DROP: &str = "wasi:io/streams#[resource-drop]output-stream";
const ANNOUNCE: &str = "skillhost:python/lines#announce";
const FLUSH: &str = "skillhost:python/lines#flush";
/// Imports that neither wait nor do anything that others can see.
const HARMLESS: [&str; 6] = [
    "wasi:clocks/monotonic-clock#now",
    "wasi:clocks/wall-clock#now",
    "wasi:filesystem/types#[method]descriptor.stat",
    "wasi:filesystem/types#[method]descriptor.stat-at",
    "wasi:filesystem/types#[method]descriptor.metadata-hash",
    "wasi:filesystem/types#[method]descriptor.metadata-hash-at",
];
/// libc's allocator, for the buffer.
const ALLOCATE: &str = "malloc";

/// The size of the buffer with its counters.
const SIZE: i32 = 64 << 10;
/// The number that is no handle.
const NONE: i32 = -1;
/// The offsets of the counters, and of the bytes.
const HANDED_OVER: u64 = 0;
const WRITTEN: u64 = 8;
const BYTES: i32 = 16;
const CAPACITY: i64 = (SIZE - BYTES) as i64;

/// Adds the functions around the imports.
pub(crate) fn keep_lines(module: &[u8]) -> Result<Vec<u8>> {
    let functions = Functions::read(module)?;
    let imports = Imports::find(&functions)?;
    let mut wrapped = Vec::new();
    for (index, name) in (0..).zip(&functions.names).take(functions.imported) {
        if !HARMLESS.contains(&without_version(name).as_str()) {
            wrapped.push(index);
        }
    }
    let hand_over = length(&functions.type_of);
    let globals = globals(module)?;
    let mut indices: Vec<u32> = (0..hand_over).collect();
    for (new, old) in (hand_over + 1..).zip(&wrapped) {
        if let Some(index) = indices.get_mut(*old as usize) {
            *index = new;
        }
    }
    let code = Code { imports, hand_over, stdout: globals, buffer: globals + 1 };
    let mut pass = Lines { functions: &functions, wrapped: &wrapped, indices, code };
    let mut out = Module::new();
    utils::parse_core_module(&mut pass, &mut out, Parser::new(0), module)?;
    let mut names = NameMap::new();
    let old = functions.names.iter().cloned();
    let around = wrapped.iter().map(|index| {
        let name = functions.names.get(*index as usize).map_or("", String::as_str);
        format!("around {name}")
    });
    let new = old.chain(["hand over lines".to_owned()]).chain(around);
    for (index, name) in (0..).zip(new).filter(|(_, name)| !name.is_empty()) {
        names.append(index, &name);
    }
    let mut section = NameSection::new();
    section.functions(&names);
    out.section(&section);
    Ok(out.finish())
}

/// Returns the number of the module's globals.
fn globals(module: &[u8]) -> Result<u32> {
    let mut count = 0;
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::GlobalSection(section) => count = section.count(),
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    if let wasmparser::TypeRef::Global(_) = import?.ty {
                        return Err(Error::new("the module imports a global"));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(count)
}

/// Returns the name of an import without the version of its interface.
fn without_version(name: &str) -> String {
    let parts = name.split_once('#').and_then(|(interface, function)| {
        let (interface, _) = interface.split_once('@')?;
        Some(format!("{interface}#{function}"))
    });
    parts.unwrap_or_else(|| name.to_owned())
}

/// What a function around an import does.
#[derive(Clone, Copy)]
enum Role {
    GetStdout,
    CheckWrite,
    Write,
    BlockingFlush,
    Drop,
    Flush,
    Other,
}

/// The functions that the new code treats specially or calls.
struct Imports {
    roles: BTreeMap<u32, Role>,
    announce: u32,
    flush: u32,
    allocate: u32,
}

impl Imports {
    fn find(functions: &Functions) -> Result<Self> {
        use wasmparser::ValType::I32;
        let find = |name: &str, expected: FuncType| -> Result<Vec<u32>> {
            let named =
                (0..).zip(&functions.names).filter(|(_, found)| without_version(found) == name);
            let found: Vec<u32> = named.map(|(index, _)| index).collect();
            for index in &found {
                if functions.function_type(*index)? != &expected {
                    return Err(Error::new(format!("{name} has another type")));
                }
            }
            if found.is_empty() {
                return Err(Error::new(format!("no function is named {name}")));
            }
            Ok(found)
        };
        let mut roles = BTreeMap::new();
        for (role, name, ty) in [
            (Role::GetStdout, GET_STDOUT, FuncType::new([], [I32])),
            (Role::CheckWrite, CHECK_WRITE, FuncType::new([I32; 2], [])),
            (Role::Write, WRITE, FuncType::new([I32; 4], [])),
            (Role::BlockingFlush, BLOCKING_FLUSH, FuncType::new([I32; 2], [])),
            (Role::Drop, DROP, FuncType::new([I32], [])),
            (Role::Flush, FLUSH, FuncType::new([], [I32])),
        ] {
            roles.extend(find(name, ty)?.into_iter().map(|index| (index, role)));
        }
        let only = |name, ty| match find(name, ty)?[..] {
            [index] => Ok(index),
            _ => Err(Error::new(format!("more than one function is named {name}"))),
        };
        Ok(Self {
            roles,
            announce: only(ANNOUNCE, FuncType::new([I32; 2], []))?,
            flush: only(FLUSH, FuncType::new([], [I32]))?,
            allocate: only(ALLOCATE, FuncType::new([I32], [I32]))?,
        })
    }

    fn role(&self, import: u32) -> Role {
        self.roles.get(&import).copied().unwrap_or(Role::Other)
    }
}

struct Lines<'l, 'a> {
    functions: &'l Functions<'a>,
    /// The imports that get a function around them.
    wrapped: &'l [u32],
    /// The function that replaces each function.
    indices: Vec<u32>,
    code: Code,
}

impl Reencode for Lines<'_, '_> {
    type Error = Error;

    fn function_index(&mut self, old: u32) -> Reencoded<u32> {
        let new = self.indices.get(old as usize).copied();
        new.ok_or_else(|| Error::new(format!("no function has index {old}")).into())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader,
    ) -> Reencoded<()> {
        utils::parse_function_section(self, functions, section)?;
        let nothing = FuncType::new([], []);
        let ty = (0..).zip(&self.functions.types).find(|(_, ty)| **ty == nothing);
        functions.function(ty.ok_or_else(|| Error::new("no function has an empty type"))?.0);
        for index in self.wrapped {
            let ty = self.functions.type_of.get(*index as usize);
            functions.function(*ty.ok_or_else(|| Error::new("an import has no type"))?);
        }
        Ok(())
    }

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader,
    ) -> Reencoded<()> {
        utils::parse_global_section(self, globals, section)?;
        for initial in [NONE, 0] {
            let ty = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
            globals.global(ty, &ConstExpr::i32_const(initial));
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader,
    ) -> Reencoded<()> {
        utils::parse_code_section(self, code, section)?;
        code.function(&function(0, self.code.hand_over()));
        for index in self.wrapped {
            let parameters = length(self.functions.function_type(*index)?.params());
            let around = &self.code;
            let (locals, body) = match around.imports.role(*index) {
                Role::GetStdout => (1, around.get_stdout(*index)),
                Role::CheckWrite => (0, around.check_write(*index)),
                Role::Write => (0, around.write(*index)),
                Role::BlockingFlush => (0, around.blocking_flush(*index)),
                Role::Drop => (0, around.drop(*index)),
                Role::Flush => (1, around.flush()),
                Role::Other => (0, around.other(*index, parameters)),
            };
            code.function(&function(locals, body));
        }
        Ok(())
    }

    fn parse_custom_section(&mut self, _: &mut Module, _: CustomSectionReader) -> Reencoded<()> {
        Ok(())
    }
}

fn function(locals: u32, body: Vec<Instruction>) -> Function {
    let mut function = Function::new((locals > 0).then_some((locals, ValType::I32)));
    for instruction in &body {
        function.instruction(instruction);
    }
    function.instruction(&Instruction::End);
    function
}

/// The new code.
struct Code {
    imports: Imports,
    /// The function that hands the buffer over, if it is not empty.
    hand_over: u32,
    /// The global with the handle of stdout, or [`NONE`] if its writes are not kept: before the
    /// first write, without a buffer, and after the host could not write. Then the guest's own
    /// write fails as well.
    stdout: u32,
    /// The global with the address of the buffer, or 0.
    buffer: u32,
}

use Instruction as I;

impl Code {
    /// Hands the buffer over, if it is not empty.
    fn hand_over(&self) -> Vec<I<'static>> {
        let mut code = vec![I::GlobalGet(self.stdout), I::I32Const(NONE), I::I32Eq];
        code.extend([I::If(BlockType::Empty), I::Return, I::End]);
        code.extend([I::GlobalGet(self.buffer), I::I64Load(counter(HANDED_OVER))]);
        code.extend([I::GlobalGet(self.buffer), I::I64Load(counter(WRITTEN))]);
        code.extend([I::I64Eq, I::If(BlockType::Empty), I::Return, I::End]);
        code.extend([I::Call(self.imports.flush), I::If(BlockType::Empty)]);
        code.extend([I::I32Const(NONE), I::GlobalSet(self.stdout), I::End]);
        code.extend(self.empty());
        code
    }

    /// Marks the buffer as empty.
    fn empty(&self) -> [I<'static>; 4] {
        [
            I::GlobalGet(self.buffer),
            I::GlobalGet(self.buffer),
            I::I64Load(counter(WRITTEN)),
            I::I64Store(counter(HANDED_OVER)),
        ]
    }

    /// Begins a block that is entered if the first parameter is stdout, whose writes are kept.
    fn if_stdout(&self) -> [I<'static>; 4] {
        [I::GlobalGet(self.stdout), I::LocalGet(0), I::I32Eq, I::If(BlockType::Empty)]
    }

    /// Hands the buffer over, and calls the import with the same arguments.
    fn other(&self, import: u32, parameters: u32) -> Vec<I<'static>> {
        let mut code = vec![I::Call(self.hand_over)];
        code.extend((0..parameters).map(I::LocalGet));
        code.push(I::Call(import));
        code
    }

    /// Also allocates and announces the buffer, when it is called first.
    fn get_stdout(&self, import: u32) -> Vec<I<'static>> {
        const HANDLE: u32 = 0;
        let mut code = self.other(import, 0);
        code.push(I::LocalSet(HANDLE));
        code.extend([I::GlobalGet(self.buffer), I::I32Eqz, I::If(BlockType::Empty)]);
        code.extend([I::I32Const(SIZE), I::Call(self.imports.allocate)]);
        code.extend([I::GlobalSet(self.buffer), I::GlobalGet(self.buffer)]);
        code.push(I::If(BlockType::Empty));
        for offset in [HANDED_OVER, WRITTEN] {
            code.extend([I::GlobalGet(self.buffer), I::I64Const(0)]);
            code.push(I::I64Store(counter(offset)));
        }
        code.extend([I::GlobalGet(self.buffer), I::I32Const(SIZE)]);
        code.extend([I::Call(self.imports.announce), I::End, I::End]);
        code.extend([I::GlobalGet(self.buffer), I::If(BlockType::Empty)]);
        code.extend([I::LocalGet(HANDLE), I::GlobalSet(self.stdout), I::End]);
        code.push(I::LocalGet(HANDLE));
        code
    }

    /// Permits a write of any size that fits an empty buffer.
    fn check_write(&self, import: u32) -> Vec<I<'static>> {
        let mut code = self.if_stdout().to_vec();
        code.extend([I::LocalGet(1), I::I64Const(CAPACITY), I::I64Store(counter(8))]);
        code.extend(success(1));
        code.extend([I::Return, I::End]);
        code.extend(self.other(import, 2));
        code
    }

    /// Appends the bytes to the buffer, which is handed over first if they do not fit.
    fn write(&self, import: u32) -> Vec<I<'static>> {
        let length = [I::LocalGet(2), I::I64ExtendI32U];
        let mut code = self.if_stdout().to_vec();
        code.extend(length.clone());
        code.push(I::I64Const(CAPACITY));
        code.extend(self.used());
        code.extend([I::I64Sub, I::I64GtU, I::If(BlockType::Empty)]);
        code.extend([I::Call(self.hand_over), I::End, I::End]);
        code.extend(self.if_stdout());
        code.extend(length.clone());
        code.extend([I::I64Const(CAPACITY), I::I64LeU, I::If(BlockType::Empty)]);
        code.extend([I::GlobalGet(self.buffer), I::I32Const(BYTES), I::I32Add]);
        code.extend(self.used());
        code.extend([I::I32WrapI64, I::I32Add, I::LocalGet(1), I::LocalGet(2)]);
        code.push(I::MemoryCopy { src_mem: 0, dst_mem: 0 });
        code.extend([I::GlobalGet(self.buffer), I::GlobalGet(self.buffer)]);
        code.push(I::I64Load(counter(WRITTEN)));
        code.extend(length);
        code.extend([I::I64Add, I::I64Store(counter(WRITTEN))]);
        code.extend(success(3));
        code.extend([I::Return, I::End, I::End]);
        code.extend(self.other(import, 4));
        code
    }

    /// The number of bytes in the buffer.
    fn used(&self) -> [I<'static>; 5] {
        [
            I::GlobalGet(self.buffer),
            I::I64Load(counter(WRITTEN)),
            I::GlobalGet(self.buffer),
            I::I64Load(counter(HANDED_OVER)),
            I::I64Sub,
        ]
    }

    /// Does nothing for stdout: libc flushes after every write.
    fn blocking_flush(&self, import: u32) -> Vec<I<'static>> {
        let mut code = self.if_stdout().to_vec();
        code.extend(success(1));
        code.extend([I::Return, I::End]);
        code.extend(self.other(import, 2));
        code
    }

    /// Also forgets a handle of stdout.
    fn drop(&self, import: u32) -> Vec<I<'static>> {
        let mut code = vec![I::Call(self.hand_over)];
        code.extend(self.if_stdout());
        code.extend([I::I32Const(NONE), I::GlobalSet(self.stdout), I::End]);
        code.extend([I::LocalGet(0), I::Call(import)]);
        code
    }

    /// The guest's own call: hands the buffer over even if it is empty, and returns the result.
    fn flush(&self) -> Vec<I<'static>> {
        const RESULT: u32 = 0;
        let mut code = vec![I::Call(self.imports.flush), I::LocalSet(RESULT)];
        code.extend([I::GlobalGet(self.buffer), I::If(BlockType::Empty)]);
        code.extend(self.empty());
        code.extend([I::LocalGet(RESULT), I::If(BlockType::Empty)]);
        code.extend([I::I32Const(NONE), I::GlobalSet(self.stdout), I::End, I::End]);
        code.push(I::LocalGet(RESULT));
        code
    }
}

/// Stores that a call succeeded, where a parameter points to.
fn success(parameter: u32) -> [I<'static>; 3] {
    let first = MemArg { offset: 0, align: 0, memory_index: 0 };
    [I::LocalGet(parameter), I::I32Const(0), I::I32Store8(first)]
}

fn counter(offset: u64) -> MemArg {
    MemArg { offset, align: 3, memory_index: 0 }
}

#[cfg(test)]
mod tests {
    use wasmparser::{Operator, Validator};

    use super::*;

    /// A module with the imports that the pass looks for, one that is harmless and one that is not.
    fn module(flush: &str) -> Vec<u8> {
        let import = |name: &str, ty: &str| {
            format!("(import \"host\" \"{name}\" (func (@name \"{name}\") {ty}))\n")
        };
        let imports: String = [
            import(GET_STDOUT, "(result i32)"),
            import(CHECK_WRITE, "(param i32 i32)"),
            import(WRITE, "(param i32 i32 i32 i32)"),
            import(BLOCKING_FLUSH, "(param i32 i32)"),
            import(DROP, "(param i32)"),
            import(ANNOUNCE, "(param i32 i32)"),
            import(FLUSH, flush),
            import(HARMLESS[0], "(result i64)"),
            import("poll", "(param i32 i64) (result f64)"),
        ]
        .concat();
        let text = format!(
            "(module {imports} (memory 1) (global (mut i64) (i64.const 7))
                (table 1 funcref) (elem (i32.const 0) func 8)
                (func $malloc (param i32) (result i32) (i32.const 64))
                (func (export \"run\")
                    (drop (call 7)) (drop (call 8 (i32.const 1) (i64.const 2)))))"
        );
        wat::parse_str(text).unwrap()
    }

    fn operators<'a>(functions: &Functions<'a>, name: &str) -> Vec<Operator<'a>> {
        let body = functions.body(functions.named(name).unwrap()).unwrap();
        body.get_operators_reader().unwrap().into_iter().map(|operator| operator.unwrap()).collect()
    }

    #[test]
    fn buffer_is_handed_over_before_every_call_that_waits_or_has_an_effect() {
        let changed = keep_lines(&module("(result i32)")).unwrap();
        Validator::new().validate_all(&changed).unwrap();
        let functions = Functions::read(&changed).unwrap();
        let hand_over = functions.named("hand over lines").unwrap();
        let around = functions.named("around poll").unwrap();
        let expected = [
            Operator::Call { function_index: hand_over },
            Operator::LocalGet { local_index: 0 },
            Operator::LocalGet { local_index: 1 },
            Operator::Call { function_index: 8 },
            Operator::End,
        ];
        assert_eq!(operators(&functions, "around poll"), expected);
        let caller = functions.bodies[1].get_operators_reader().unwrap();
        let called: Vec<u32> = caller
            .into_iter()
            .filter_map(|operator| match operator.unwrap() {
                Operator::Call { function_index } => Some(function_index),
                _ => None,
            })
            .collect();
        assert_eq!(called, [7, around], "the clock is called directly");
        assert!(functions.named(&format!("around {}", HARMLESS[0])).is_err());
        let table = crate::module::constant_table(&changed).unwrap();
        assert_eq!(table.get(&0), Some(&around));
    }

    #[test]
    fn writes_to_stdout_call_no_import_unless_the_buffer_is_full() {
        let changed = keep_lines(&module("(result i32)")).unwrap();
        let functions = Functions::read(&changed).unwrap();
        for name in [CHECK_WRITE, WRITE, BLOCKING_FLUSH] {
            let operators = operators(&functions, &format!("around {name}"));
            let returns = operators.iter().position(|found| *found == Operator::Return).unwrap();
            let calls = |found: &Operator| {
                let hand_over = functions.named("hand over lines").unwrap();
                matches!(found, Operator::Call { function_index } if *function_index != hand_over)
            };
            assert!(!operators[..returns].iter().any(calls), "{name}");
            assert!(operators[returns..].iter().any(calls), "{name}");
        }
    }

    #[test]
    fn unknown_imports_are_an_error() {
        let error = keep_lines(&module("(result i64)")).unwrap_err().to_string();
        assert!(error.contains(FLUSH), "{error}");
        assert!(keep_lines(&wat::parse_str("(module)").unwrap()).is_err());
    }
}
