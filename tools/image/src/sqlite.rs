//! Pass: replaces CPython's SQLite by the one that the module `_native` has.
//!
//! componentize-py compiles SQLite without full-text search and links it to CPython, so that it
//! exports none of its functions. `_native` has SQLite with full-text search, and exports each
//! function that CPython calls, with a prefix. This pass lets CPython's functions call those of the
//! same name, and replaces the code of all other functions of its SQLite by a trap.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{CodeSection, Function, Instruction, Module};
use wasmparser::{CodeSectionReader, Operator, Parser};

use crate::component::length;
use crate::error::{Error, Reencoded, Result};
use crate::module::Functions;

/// What `_native` puts before a function's name (`SQLITE_PREFIX` of `native.py`).
const PREFIX: &str = "skillhost_";
/// How the names of SQLite's functions start, except for those that one of its files has to itself.
const SQLITE: &str = "sqlite3";

/// Replaces the functions. `modules` has the functions of each module that was merged.
pub(crate) fn replace_sqlite(module: &[u8], modules: &[Range<u32>]) -> Result<Vec<u8>> {
    let functions = Functions::read(module)?;
    let ours = prefixed(&functions);
    let old = old_functions(&functions, &ours, modules)?;
    let imported = length(&functions.type_of) - length(&functions.bodies);
    let mut calls = BTreeMap::new();
    for index in old.clone() {
        let name = name_of(&functions, index);
        let Some(target) = ours.get(name) else { continue };
        let ty = functions.function_type(index)?;
        if ty != functions.function_type(*target)? {
            return Err(Error::new(format!("{PREFIX}{name} has another type than {name}")));
        }
        calls.insert(index, (*target, length(ty.params())));
    }
    if calls.len() != ours.len() {
        return Err(Error::new("`_native` exports functions of SQLite that CPython does not have"));
    }
    let mut pass = Sqlite { imported, old, calls };
    pass.check_callers(&functions)?;
    let mut out = Module::new();
    utils::parse_core_module(&mut pass, &mut out, Parser::new(0), module)?;
    Ok(out.finish())
}

/// Returns the functions of `_native`'s SQLite, by their names without the prefix.
fn prefixed<'f>(functions: &'f Functions) -> HashMap<&'f str, u32> {
    let named = (0..).zip(&functions.names);
    named.filter_map(|(index, name)| Some((name.strip_prefix(PREFIX)?, index))).collect()
}

/// Returns the functions of CPython's SQLite: the last file that its module was linked from.
fn old_functions(
    functions: &Functions,
    ours: &HashMap<&str, u32>,
    modules: &[Range<u32>],
) -> Result<Range<u32>> {
    for module in modules {
        if module.clone().any(|index| ours.contains_key(name_of(functions, index))) {
            let mut indices = module.clone();
            let first = indices.find(|index| name_of(functions, *index).starts_with(SQLITE));
            return Ok(first.unwrap_or(module.end)..module.end);
        }
    }
    Err(Error::new("no module has the functions of SQLite that `_native` exports"))
}

/// Returns the name of a function, without the number that makes it unique.
fn name_of<'f>(functions: &'f Functions, index: u32) -> &'f str {
    let name = functions.names.get(index as usize).map_or("", String::as_str);
    name.split_once(' ').map_or(name, |(name, _)| name)
}

struct Sqlite {
    /// The number of imported functions.
    imported: u32,
    /// The functions of CPython's SQLite.
    old: Range<u32>,
    /// The functions among them that call others, the function that each of them calls, and the
    /// number of its parameters.
    calls: BTreeMap<u32, (u32, u32)>,
}

impl Sqlite {
    /// Checks that all other code calls only functions of the old SQLite that are replaced.
    fn check_callers(&self, functions: &Functions) -> Result<()> {
        for (caller, body) in (self.imported..).zip(&functions.bodies) {
            if self.old.contains(&caller) {
                continue;
            }
            for operator in body.get_operators_reader()? {
                if let Operator::Call { function_index: callee }
                | Operator::ReturnCall { function_index: callee }
                | Operator::RefFunc { function_index: callee } = operator?
                    && self.old.contains(&callee)
                    && !self.calls.contains_key(&callee)
                {
                    let names = [caller, callee].map(|index| name_of(functions, index));
                    let [caller, callee] = names;
                    let what = format!("{caller} calls {callee}, which `_native` does not export");
                    return Err(Error::new(what));
                }
            }
        }
        Ok(())
    }

    /// Returns the new code of a function, if it has other code.
    fn code(&self, index: u32) -> Option<Function> {
        if !self.old.contains(&index) {
            return None;
        }
        let mut code = Function::new([]);
        if let Some((target, parameters)) = self.calls.get(&index) {
            for parameter in 0..*parameters {
                code.instruction(&Instruction::LocalGet(parameter));
            }
            code.instruction(&Instruction::Call(*target));
        } else {
            code.instruction(&Instruction::Unreachable);
        }
        code.instruction(&Instruction::End);
        Some(code)
    }
}

impl Reencode for Sqlite {
    type Error = Error;

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader,
    ) -> Reencoded<()> {
        for (index, body) in (self.imported..).zip(section) {
            let body = body?;
            match self.code(index) {
                Some(function) => {
                    code.function(&function);
                }
                None => self.parse_function_body(code, body)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wasmparser::Validator;

    use super::*;

    /// A module in which CPython's functions come first, then its SQLite, then `_native`.
    fn module(called: &str, result: &str) -> Vec<u8> {
        let text = format!(
            r#"(module
                (import "host" "log" (func $log (param i32)))
                (func $cursor_step (result i32) (call ${called} (i32.const 1) (i32.const 2)))
                (func $sqlite3VdbeStep (param i32 i32) (result i32) (local.get 0))
                (func $sqlite3_step (param i32 i32) (result i32)
                    (call $sqlite3VdbeStep (local.get 0) (local.get 1)))
                (func $pcacheFree (call $log (i32.const 3)))
                (func (@name "sqlite3VdbeStep") (param i32 i32) (result i32) (local.get 1))
                (func $skillhost_sqlite3_step (param i32 i32) (result {result})
                    ({result}.const 7)))"#
        );
        wat::parse_str(text).unwrap()
    }

    const MODULES: [Range<u32>; 2] = [1..5, 5..7];

    fn operators<'a>(functions: &Functions<'a>, body: usize) -> Vec<Operator<'a>> {
        let operators = functions.bodies[body].get_operators_reader().unwrap();
        operators.into_iter().map(|operator| operator.unwrap()).collect()
    }

    #[test]
    fn functions_call_those_of_the_other_module() {
        let changed = replace_sqlite(&module("sqlite3_step", "i32"), &MODULES).unwrap();
        Validator::new().validate_all(&changed).unwrap();
        let functions = Functions::read(&changed).unwrap();
        let call = Operator::Call { function_index: 6 };
        let [first, second] = [0, 1].map(|local_index| Operator::LocalGet { local_index });
        assert_eq!(operators(&functions, 2), [first, second.clone(), call, Operator::End]);
        // The rest of the old SQLite, also the functions without its name, is a trap.
        for body in [1, 3] {
            assert_eq!(operators(&functions, body), [Operator::Unreachable, Operator::End]);
        }
        // Everything else stays.
        assert_eq!(operators(&functions, 0).len(), 4);
        assert_eq!(operators(&functions, 4), [second, Operator::End]);
    }

    #[test]
    fn unknown_layout_is_an_error() {
        let error = |module: Vec<u8>, modules: &[Range<u32>]| {
            replace_sqlite(&module, modules).unwrap_err().to_string()
        };
        let called = error(module("sqlite3VdbeStep", "i32"), &MODULES);
        assert!(called.contains("cursor_step calls sqlite3VdbeStep"), "{called}");
        let typed = error(module("sqlite3_step", "i64"), &MODULES);
        assert!(typed.contains("skillhost_sqlite3_step has another type"), "{typed}");
        let elsewhere = error(module("sqlite3_step", "i32"), &[1..3, 5..7]);
        assert!(elsewhere.contains("no module has"), "{elsewhere}");
        let text = "(module (func $sqlite3_step) (func $skillhost_sqlite3_step)
            (func $skillhost_sqlite3_open))";
        let more = error(wat::parse_str(text).unwrap(), &[0..1, 1..3]);
        assert!(more.contains("exports functions"), "{more}");
        assert!(replace_sqlite(&wat::parse_str("(module)").unwrap(), &[]).is_err());
    }
}
