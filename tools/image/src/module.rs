//! Reads the parts of a core module that passes use: its functions with their types, bodies and
//! names, and its table.

use std::collections::{BTreeMap, HashMap};

use wasmparser::{
    ElementItems, ElementKind, ExternalKind, FuncType, FunctionBody, KnownCustom, Name, Operator,
    Parser, Payload, TypeRef,
};

use crate::error::{Error, Result};

/// The functions of a core module.
pub(crate) struct Functions<'a> {
    pub(crate) types: Vec<FuncType>,
    /// The type of each function. The imported functions come first.
    pub(crate) type_of: Vec<u32>,
    /// The number of imported functions.
    pub(crate) imported: usize,
    /// The bodies of the functions that are not imported.
    pub(crate) bodies: Vec<FunctionBody<'a>>,
    /// The name of each function; empty if it has none.
    pub(crate) names: Vec<String>,
}

impl<'a> Functions<'a> {
    pub(crate) fn read(module: &'a [u8]) -> Result<Self> {
        let mut functions = Self {
            types: Vec::new(),
            type_of: Vec::new(),
            imported: 0,
            bodies: Vec::new(),
            names: Vec::new(),
        };
        let mut names = HashMap::new();
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    for ty in section.into_iter_err_on_gc_types() {
                        functions.types.push(ty?);
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        if let TypeRef::Func(ty) | TypeRef::FuncExact(ty) = import?.ty {
                            functions.type_of.push(ty);
                        }
                    }
                    functions.imported = functions.type_of.len();
                }
                Payload::FunctionSection(section) => {
                    for ty in section {
                        functions.type_of.push(ty?);
                    }
                }
                Payload::CodeSectionEntry(body) => functions.bodies.push(body),
                Payload::CustomSection(section) => {
                    if let KnownCustom::Name(section) = section.as_known() {
                        names = read_names(section)?;
                    }
                }
                _ => {}
            }
        }
        if functions.imported + functions.bodies.len() != functions.type_of.len() {
            return Err(Error::new("the module has functions without a body"));
        }
        let count = functions.type_of.len();
        functions.names =
            (0..).take(count).map(|index| names.remove(&index).unwrap_or_default()).collect();
        make_unique(&mut functions.names);
        Ok(functions)
    }

    pub(crate) fn function_type(&self, function: u32) -> Result<&FuncType> {
        let ty = self.type_of.get(function as usize).and_then(|ty| self.types.get(*ty as usize));
        ty.ok_or_else(|| Error::new(format!("function {function} has no type")))
    }

    /// Returns the function of a name.
    pub(crate) fn named(&self, name: &str) -> Result<u32> {
        (0..)
            .zip(&self.names)
            .find(|(_, candidate)| *candidate == name)
            .map(|(index, _)| index)
            .ok_or_else(|| Error::new(format!("no function is named {name}")))
    }

    /// Returns the body of a function that is not imported.
    pub(crate) fn body(&self, function: u32) -> Option<&FunctionBody<'a>> {
        self.bodies.get((function as usize).checked_sub(self.imported)?)
    }
}

fn read_names(section: wasmparser::NameSectionReader) -> Result<HashMap<u32, String>> {
    let mut found = HashMap::new();
    for part in section {
        let Name::Function(names) = part? else { continue };
        for naming in names {
            let naming = naming?;
            found.insert(naming.index, without_hash(naming.name).to_owned());
        }
    }
    Ok(found)
}

/// Removes the hash with which rustc ends many names, `17h0123456789abcdefE`, because it differs
/// between builds.
fn without_hash(name: &str) -> &str {
    name.strip_suffix('E')
        .and_then(|name| name.split_at_checked(name.len().checked_sub(19)?))
        .map_or(name, |(rest, hash)| {
            let is_hash = hash
                .strip_prefix("17h")
                .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            if is_hash { rest } else { name }
        })
}

/// Renames the second function of a name to `NAME 2`, the third to `NAME 3`.
fn make_unique(names: &mut [String]) {
    let mut seen = HashMap::new();
    for name in names.iter_mut().filter(|name| !name.is_empty()) {
        let count = seen.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            *name = format!("{name} {count}");
        }
    }
}

/// Returns the functions in the module's only table, by entry. Refuses a module that could change
/// the table later.
pub(crate) fn constant_table(module: &[u8]) -> Result<BTreeMap<u32, u32>> {
    let mut table = BTreeMap::new();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::TableSection(section) if section.count() != 1 => {
                return Err(Error::new("the module has more than one table"));
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    if let TypeRef::Table(_) = import?.ty {
                        return Err(Error::new("the module imports a table"));
                    }
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    if export?.kind == ExternalKind::Table {
                        return Err(Error::new("the module exports its table"));
                    }
                }
            }
            Payload::ElementSection(section) => {
                for element in section {
                    fill(&mut table, element?)?;
                }
            }
            Payload::CodeSectionEntry(body) => {
                for operator in body.get_operators_reader()? {
                    if writes_table(&operator?) {
                        return Err(Error::new("the module changes its table"));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(table)
}

fn fill(table: &mut BTreeMap<u32, u32>, element: wasmparser::Element) -> Result<()> {
    let unsupported = || Error::new("an element segment is not active at a constant offset");
    let ElementKind::Active { table_index: None | Some(0), offset_expr } = element.kind else {
        return Err(unsupported());
    };
    let ElementItems::Functions(functions) = element.items else { return Err(unsupported()) };
    let mut operators = offset_expr.get_operators_reader();
    let Operator::I32Const { value } = operators.read()? else { return Err(unsupported()) };
    let Operator::End = operators.read()? else { return Err(unsupported()) };
    for (entry, function) in (value.cast_unsigned()..).zip(functions) {
        table.insert(entry, function?);
    }
    Ok(())
}

fn writes_table(operator: &Operator) -> bool {
    matches!(
        operator,
        Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_hashes_and_are_unique() {
        let module = wat::parse_str(
            r#"(module
                (func (@name "_ZN4same17h0123456789abcdefE"))
                (func)
                (func (@name "_ZN4same17hfedcba9876543210E"))
                (func (@name "short17hE")))"#,
        )
        .unwrap();
        let functions = Functions::read(&module).unwrap();
        assert_eq!(functions.names, ["_ZN4same", "", "_ZN4same 2", "short17hE"]);
        assert_eq!(functions.named("_ZN4same 2").unwrap(), 2);
        assert!(functions.named("nobody").is_err());
    }

    #[test]
    fn tables_that_can_change_are_refused() {
        let table = |text: &str| constant_table(&wat::parse_str(text).unwrap());
        let found = table("(module (table 3 funcref) (elem (i32.const 1) 0 0) (func))").unwrap();
        assert_eq!(found, BTreeMap::from([(1, 0), (2, 0)]));
        for text in [
            "(module (table (export \"t\") 1 funcref))",
            "(module (import \"a\" \"t\" (table 1 funcref)))",
            "(module (table 1 funcref) (table 1 funcref))",
            "(module (table 1 funcref) (elem func 0) (func))",
            "(module (table 1 funcref) (global i32 (i32.const 0)) (func)
                (elem (global.get 0) func 0))",
            "(module (table 1 funcref) (func (table.set (i32.const 0) (ref.null func))))",
        ] {
            assert!(table(text).is_err(), "{text}");
        }
    }
}
