//! Pass: places the functions that a start runs next to each other, in the order of their first
//! calls.
//!
//! Engines lay out functions in the order of the module, and the kernel maps code piece by piece
//! when it first runs. A start that runs a tenth of the functions, scattered over the module,
//! touches nearly every piece.
//!
//! A list names the functions. Names without a function are skipped, and functions that are not
//! listed come before or after those that are. So a stale list costs time, but is not an error.

use std::collections::HashMap;

use crate::error::Result;
use crate::layout::with_functions;
use crate::module::Functions;

/// Puts the functions in the order of `list`, which has one name per line. Other functions with a
/// total of `before` bytes come first.
pub(crate) fn order(module: &[u8], list: &str, before: usize) -> Result<Vec<u8>> {
    let functions = Functions::read(module)?;
    let ranks: HashMap<&str, usize> =
        list.lines().enumerate().map(|(rank, name)| (name, rank)).collect();
    let mut bytes = 0;
    let mut place = |index: u32| {
        let name = functions.names.get(index as usize).map_or("", String::as_str);
        if let Some(rank) = ranks.get(name) {
            return (1, *rank);
        }
        let place = if bytes < before { 0 } else { 2 };
        bytes += functions.body(index).map_or(0, |body| body.range().len());
        (place, 0)
    };
    let count = crate::component::length(&functions.type_of);
    let mut order: Vec<u32> = (0..count).collect();
    let (_, own) = order.split_at_mut(functions.imported);
    own.sort_by_cached_key(|index| place(*index));
    with_functions(module, &functions, &order)
}

/// Returns the names of a module's functions, one per line, starting with function 0.
pub(crate) fn names(module: &[u8]) -> Result<String> {
    Ok(Functions::read(module)?.names.iter().map(|name| format!("{name}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strip::without_custom_sections;

    const MODULE: &str = r#"(module
        (import "a" "b" (func $import))
        (table 1 funcref)
        (export "third" (func $third))
        (elem (i32.const 0) func $second)
        (func $first (result i32) i32.const 7)
        (func $second (result i64) i64.const 8)
        (func $third (result i32) call $first))"#;

    #[test]
    fn references_follow_moved_functions() {
        let module = wat::parse_str(MODULE).unwrap();
        let ordered = order(&module, "third\nnobody\nsecond\n", 0).unwrap();
        let expected = wat::parse_str(
            r#"(module
                (type (func)) (type (func (result i32))) (type (func (result i64)))
                (import "a" "b" (func (type 0)))
                (table 1 funcref)
                (export "third" (func 1))
                (elem (i32.const 0) func 2)
                (func (type 1) call 3)
                (func (type 2) i64.const 8)
                (func (type 1) i32.const 7))"#,
        )
        .unwrap();
        assert_eq!(without_custom_sections(&ordered).unwrap(), expected);
        assert_eq!(names(&ordered).unwrap(), "import\nthird\nsecond\nfirst\n");
    }

    #[test]
    fn other_functions_come_before_the_list() {
        let module = wat::parse_str(MODULE).unwrap();
        let ordered = order(&module, "third\n", 1).unwrap();
        assert_eq!(names(&ordered).unwrap(), "import\nfirst\nthird\nsecond\n");
    }

    #[test]
    fn empty_list_changes_nothing() {
        let module = wat::parse_str(MODULE).unwrap();
        let ordered = order(&module, "", 0).unwrap();
        assert_eq!(
            without_custom_sections(&ordered).unwrap(),
            without_custom_sections(&module).unwrap()
        );
    }

    #[test]
    fn truncated_module_is_an_error() {
        let module = wat::parse_str(MODULE).unwrap();
        assert!(order(&module[..module.len() - 60], "", 0).is_err());
    }
}
