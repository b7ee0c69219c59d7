//! Pass: removes functions that nothing can call.
//!
//! Keeps the functions that exports, the table and the initial values of globals refer to, and the
//! functions that these call.

use wasmparser::{ElementItems, ExternalKind, Operator, OperatorsReader, Parser, Payload};

use crate::error::Result;
use crate::layout::with_functions;
use crate::module::Functions;

/// Removes the functions that nothing can call.
pub(crate) fn prune(module: &[u8]) -> Result<Vec<u8>> {
    let functions = Functions::read(module)?;
    let mut reached = vec![false; functions.type_of.len()];
    let mut pending = roots(module)?;
    while let Some(function) = pending.pop() {
        match reached.get_mut(function as usize) {
            Some(reached) if !*reached => *reached = true,
            _ => continue,
        }
        if let Some(body) = functions.body(function) {
            collect(body.get_operators_reader()?, &mut pending)?;
        }
    }
    let order: Vec<u32> =
        (0..).zip(&reached).filter(|(_, reached)| **reached).map(|(index, _)| index).collect();
    with_functions(module, &functions, &order)
}

/// Returns the functions that exports, the table and the initial values of globals refer to.
fn roots(module: &[u8]) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    if let ExternalKind::Func | ExternalKind::FuncExact = export.kind {
                        found.push(export.index);
                    }
                }
            }
            Payload::StartSection { func, .. } => found.push(func),
            Payload::GlobalSection(section) => {
                for global in section {
                    collect(global?.init_expr.get_operators_reader(), &mut found)?;
                }
            }
            Payload::ElementSection(section) => {
                for element in section {
                    match element?.items {
                        ElementItems::Functions(functions) => {
                            for function in functions {
                                found.push(function?);
                            }
                        }
                        ElementItems::Expressions(_, expressions) => {
                            for expression in expressions {
                                collect(expression?.get_operators_reader(), &mut found)?;
                            }
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Adds the functions that code refers to.
fn collect(operators: OperatorsReader, found: &mut Vec<u32>) -> Result<()> {
    for operator in operators {
        if let Operator::Call { function_index }
        | Operator::ReturnCall { function_index }
        | Operator::RefFunc { function_index } = operator?
        {
            found.push(function_index);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strip::without_custom_sections;

    #[test]
    fn unreachable_functions_are_removed() {
        let module = wat::parse_str(
            r#"(module
                (import "host" "dead" (func $dead_import))
                (import "host" "used" (func $used (param i32)))
                (table 1 funcref)
                (global funcref (ref.func $global))
                (export "start" (func $start))
                (elem (i32.const 0) func $element)
                (func $dead (call $dead_import) (call $dead2))
                (func $dead2 (call $dead))
                (func $start (call $used (i32.const 1)) (call $called))
                (func $called)
                (func $element (result i32) i32.const 3)
                (func $global))"#,
        )
        .unwrap();
        let expected = wat::parse_str(
            r#"(module
                (type (func))
                (type (func (param i32)))
                (type (func (result i32)))
                (import "host" "used" (func $used (type 1)))
                (table 1 funcref)
                (global funcref (ref.func $global))
                (export "start" (func $start))
                (elem (i32.const 0) func $element)
                (func $start (type 0) (call $used (i32.const 1)) (call $called))
                (func $called (type 0))
                (func $element (type 2) i32.const 3)
                (func $global (type 0)))"#,
        )
        .unwrap();
        let pruned = prune(&module).unwrap();
        assert_eq!(
            without_custom_sections(&pruned).unwrap(),
            without_custom_sections(&expected).unwrap()
        );
        let names = Functions::read(&pruned).unwrap().names;
        assert_eq!(names, ["used", "start", "called", "element", "global"]);
    }

    #[test]
    fn call_of_a_missing_function_is_an_error() {
        let module = wat::parse_str("(module (export \"f\" (func 0)) (func (call 7)))").unwrap();
        assert!(prune(&module).is_err());
        assert!(prune(&module[..module.len() - 3]).is_err());
    }
}
