//! Pass: calls likely targets directly. A call through the table that mostly has the same few
//! targets first compares its pointer with theirs.
//!
//! CPython frees, hashes and allocates objects through pointers to functions. For such a call, an
//! engine checks that the pointer is within the table, checks that the entry is filled, and
//! compares the type of the function. Other pointers still go through the table.

use std::collections::BTreeMap;

use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{BlockType, CodeSection, Function, Instruction, Module, ValType};
use wasmparser::{CodeSectionReader, FuncType, FunctionBody, Operator, Parser};

use crate::error::{Error, Reencoded, Result};
use crate::module::{Functions, constant_table};

/// Functions of CPython, and the likely targets of their calls, the likeliest first.
pub(crate) const LIKELY: &[(&str, &[&str])] = &[
    (
        "_Py_Dealloc",
        &["unicode_dealloc", "float_dealloc", "list_dealloc", "tuple_dealloc", "dict_dealloc"],
    ),
    ("unicode_dealloc", &["PyObject_Free"]),
    ("PyObject_Hash", &["unicode_hash", "long_hash"]),
    ("PyObject_Malloc", &["_PyMem_RawMalloc"]),
    ("PyObject_Realloc", &["_PyMem_RawRealloc"]),
    ("PyObject_Free", &["_PyMem_RawFree"]),
    ("PyMem_Malloc", &["_PyMem_RawMalloc"]),
    ("PyMem_Realloc", &["_PyMem_RawRealloc"]),
    ("PyMem_Free", &["_PyMem_RawFree"]),
];

/// Changes the calls of the callers in `likely`. Returns an error if the module lacks one of the
/// functions, or if a caller calls none of its targets.
pub(crate) fn call_likely_targets(module: &[u8], likely: &[(&str, &[&str])]) -> Result<Vec<u8>> {
    let functions = Functions::read(module)?;
    let entries: BTreeMap<u32, u32> =
        constant_table(module)?.into_iter().map(|(entry, function)| (function, entry)).collect();
    let mut callers = BTreeMap::new();
    for (caller, targets) in likely {
        let index = functions.named(caller)?;
        let mut found = Vec::new();
        for target in *targets {
            let function = functions.named(target)?;
            let entry = entries
                .get(&function)
                .ok_or_else(|| Error::new(format!("{target} is not in the table")))?;
            found.push(Target {
                function,
                entry: entry.cast_signed(),
                ty: functions.function_type(function)?.clone(),
            });
        }
        let body = (index as usize).checked_sub(functions.imported);
        let body = body.ok_or_else(|| Error::new(format!("{caller} has no body")))?;
        let parameters = crate::component::length(functions.function_type(index)?.params());
        callers.insert(body, Caller { name: caller, parameters, targets: found });
    }
    let mut pass = Calls { types: &functions.types, callers };
    let mut out = Module::new();
    utils::parse_core_module(&mut pass, &mut out, Parser::new(0), module)?;
    Ok(out.finish())
}

struct Caller<'a> {
    name: &'a str,
    parameters: u32,
    targets: Vec<Target>,
}

struct Target {
    function: u32,
    entry: i32,
    ty: FuncType,
}

struct Calls<'a> {
    types: &'a [FuncType],
    /// The callers, by the index of their bodies.
    callers: BTreeMap<usize, Caller<'a>>,
}

impl Reencode for Calls<'_> {
    type Error = Error;

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader,
    ) -> Reencoded<()> {
        for (number, body) in section.into_iter().enumerate() {
            match self.callers.remove(&number) {
                Some(caller) => {
                    code.function(&self.rewritten(&caller, &body?)?);
                }
                None => self.parse_function_body(code, body?)?,
            }
        }
        Ok(())
    }
}

impl Calls<'_> {
    fn rewritten(&mut self, caller: &Caller, body: &FunctionBody) -> Reencoded<Function> {
        let mut locals = Vec::new();
        let mut pointer = caller.parameters;
        for declared in body.get_locals_reader()? {
            let (count, ty) = declared?;
            locals.push((count, self.val_type(ty)?));
            pointer = pointer.saturating_add(count);
        }
        locals.push((1, ValType::I32));
        let mut function = Function::new(locals);
        let mut changes = 0;
        for operator in body.get_operators_reader()? {
            let operator = operator?;
            let targets = self.matching(caller, &operator);
            changes += targets.len();
            if let Operator::CallIndirect { type_index, .. } = operator
                && !targets.is_empty()
            {
                function.instruction(&Instruction::LocalSet(pointer));
                for target in &targets {
                    // The arguments are on the stack. The `if` takes them and returns the results,
                    // like the call.
                    for instruction in [
                        Instruction::LocalGet(pointer),
                        Instruction::I32Const(target.entry),
                        Instruction::I32Eq,
                        Instruction::If(BlockType::FunctionType(type_index)),
                        Instruction::Call(target.function),
                        Instruction::Else,
                    ] {
                        function.instruction(&instruction);
                    }
                }
                function.instruction(&Instruction::LocalGet(pointer));
            }
            function.instruction(&self.instruction(operator)?);
            for _ in &targets {
                function.instruction(&Instruction::End);
            }
        }
        if changes == 0 {
            let what = format!("{} does not call any of its likely targets", caller.name);
            return Err(Error::new(what).into());
        }
        Ok(function)
    }

    /// Returns the targets whose type is that of a call.
    fn matching<'c>(&self, caller: &'c Caller, operator: &Operator) -> Vec<&'c Target> {
        let Operator::CallIndirect { type_index, table_index: 0 } = operator else {
            return Vec::new();
        };
        let ty = self.types.get(*type_index as usize);
        caller.targets.iter().filter(|target| Some(&target.ty) == ty).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strip::without_custom_sections;

    const MODULE: &str = r#"(module
        (type $ty (func (param i32) (result i32)))
        (table 4 funcref)
        (elem (i32.const 1) func $other $first $second)
        (func $first (type $ty) local.get 0)
        (func $second (type $ty) local.get 0)
        (func $other)
        (func $caller (param i32) (result i32) (local i64)
            local.get 0
            local.get 0
            call_indirect (type $ty)))"#;

    #[test]
    fn likely_targets_are_called_directly() {
        let module = wat::parse_str(MODULE).unwrap();
        let likely: &[(&str, &[&str])] = &[("caller", &["second", "first"])];
        let changed = call_likely_targets(&module, likely).unwrap();
        let expected = wat::parse_str(
            r#"(module
                (type $ty (func (param i32) (result i32)))
                (type (func))
                (table 4 funcref)
                (elem (i32.const 1) func $other $first $second)
                (func $first (type $ty) local.get 0)
                (func $second (type $ty) local.get 0)
                (func $other)
                (func $caller (param i32) (result i32) (local i64) (local i32)
                    local.get 0
                    local.get 0
                    local.set 2
                    local.get 2
                    i32.const 3
                    i32.eq
                    if (type $ty)
                        call $second
                    else
                        local.get 2
                        i32.const 2
                        i32.eq
                        if (type $ty)
                            call $first
                        else
                            local.get 2
                            call_indirect (type $ty)
                        end
                    end))"#,
        )
        .unwrap();
        let expected = without_custom_sections(&expected).unwrap();
        assert_eq!(without_custom_sections(&changed).unwrap(), expected);
        wasmparser::Validator::new().validate_all(&changed).unwrap();
    }

    #[test]
    fn missing_and_uncalled_targets_are_errors() {
        let module = wat::parse_str(MODULE).unwrap();
        let error = |caller, target| {
            call_likely_targets(&module, &[(caller, &[target])]).unwrap_err().to_string()
        };
        assert_eq!(error("nobody", "first"), "no function is named nobody");
        assert_eq!(error("caller", "nobody"), "no function is named nobody");
        assert_eq!(error("caller", "caller"), "caller is not in the table");
        assert_eq!(error("caller", "other"), "caller does not call any of its likely targets");
        assert_eq!(error("first", "second"), "first does not call any of its likely targets");
    }
}
