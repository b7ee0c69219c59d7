//! The functions of a component that starts run lie side by side in its modules, and so in the code
//! that an engine makes of them: code is mapped piece by piece as it is run first. A list names
//! them in the order of their first call. A name that no function has is skipped, and a function
//! that the list does not name comes after those that it does: a stale list costs time alone, and
//! no order is wrong.

use std::collections::HashMap;
use std::convert::Infallible;

use skillhost_toolchain::Error;
use wasm_encoder::reencode::{Error as ReencodeError, Reencode, ReencodeComponent, utils};
use wasm_encoder::{CodeSection, Component, FunctionSection, Module, ModuleSection};
use wasmparser::{
    CodeSectionReader, CustomSectionReader, FunctionSectionReader, KnownCustom, Name,
    NameSectionReader, Parser, Payload, TypeRef,
};

type Result<T> = std::result::Result<T, ReencodeError<Infallible>>;

/// A component whose functions were put in order.
pub(crate) struct Ordered {
    /// Its bytes, without names.
    pub(crate) component: Vec<u8>,
    /// The names of its first module's functions, one a line: that of function 0 first.
    pub(crate) names: String,
}

/// Puts a component's functions in the order of `list`, a name a line. It must have names.
pub(crate) fn ordered(component: &[u8], list: &str) -> std::result::Result<Ordered, Error> {
    let mut pass = Pass {
        ranks: list.lines().enumerate().map(|(rank, name)| (name, rank)).collect(),
        names: Vec::new(),
    };
    let mut out = Component::new();
    let done = pass.parse_component(&mut out, Parser::new(0), component);
    done.map_err(|error| {
        Error::new(format!("the component's functions cannot be put in order: {error}"))
    })?;
    let names = pass.names.into_iter().next().unwrap_or_default();
    Ok(Ordered {
        component: out.finish(),
        names: names.iter().map(|name| format!("{name}\n")).collect(),
    })
}

struct Pass<'a> {
    ranks: HashMap<&'a str, usize>,
    /// Of each module.
    names: Vec<Vec<String>>,
}

impl Reencode for Pass<'_> {
    type Error = Infallible;
}

impl ReencodeComponent for Pass<'_> {
    fn parse_component_submodule(
        &mut self,
        component: &mut Component,
        parser: Parser,
        module: &[u8],
    ) -> Result<()> {
        let functions = Functions::of(parser.clone(), module)?;
        let mut names = functions.names.clone();
        names[functions.imported..].sort_by_key(|name| self.rank(name));
        let mut order: Vec<usize> = (functions.imported..functions.names.len()).collect();
        order.sort_by_key(|index| self.rank(&functions.names[*index]));
        let mut indices: Vec<u32> = (0..).take(functions.names.len()).collect();
        for (index, old) in (0..).skip(functions.imported).zip(&order) {
            indices[*old] = index;
        }
        let order = order.into_iter().map(|index| index - functions.imported).collect();
        let mut out = Module::new();
        utils::parse_core_module(&mut ModulePass { indices, order }, &mut out, parser, module)?;
        component.section(&ModuleSection(&out));
        self.names.push(names);
        Ok(())
    }
}

impl Pass<'_> {
    fn rank(&self, name: &str) -> usize {
        self.ranks.get(name).copied().unwrap_or(usize::MAX)
    }
}

/// What a module says of its functions.
struct Functions {
    imported: usize,
    /// Those that are imported come first.
    names: Vec<String>,
}

impl Functions {
    fn of(parser: Parser, module: &[u8]) -> Result<Functions> {
        let mut functions = Functions { imported: 0, names: Vec::new() };
        for payload in parser.parse_all(module) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        functions.imported += usize::from(matches!(
                            import?.ty,
                            TypeRef::Func(_) | TypeRef::FuncExact(_)
                        ));
                    }
                    functions.names.resize(functions.imported, String::new());
                }
                Payload::FunctionSection(section) => functions
                    .names
                    .resize(functions.imported + section.count() as usize, String::new()),
                Payload::CustomSection(section) => {
                    if let KnownCustom::Name(names) = section.as_known() {
                        functions.name(names)?;
                    }
                }
                _ => {}
            }
        }
        functions.tell_apart();
        Ok(functions)
    }

    /// Of functions of one name, the second is `NAME 2`.
    fn tell_apart(&mut self) {
        let mut seen = HashMap::new();
        for name in &mut self.names {
            let count = seen.entry(name.clone()).or_insert(0);
            *count += 1;
            if *count > 1 {
                *name = format!("{name} {count}");
            }
        }
    }

    fn name(&mut self, section: NameSectionReader) -> Result<()> {
        for part in section {
            let Name::Function(names) = part? else { continue };
            for naming in names {
                let naming = naming?;
                if let Some(name) = self.names.get_mut(naming.index as usize) {
                    without_hash(naming.name).clone_into(name);
                }
            }
        }
        Ok(())
    }
}

/// rustc ends many names with a hash of what they were compiled from, which differs from build to
/// build: `17h0123456789abcdefE`.
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

struct ModulePass {
    /// New index of each function, by its old one.
    indices: Vec<u32>,
    /// Old number of each function of the module's own, by its new one.
    order: Vec<usize>,
}

impl Reencode for ModulePass {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32> {
        Ok(self.indices[function as usize])
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader,
    ) -> Result<()> {
        let types = section.into_iter().collect::<std::result::Result<Vec<u32>, _>>()?;
        for old in &self.order {
            functions.function(types[*old]);
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader,
    ) -> Result<()> {
        let bodies = section.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
        for old in self.order.clone() {
            self.parse_function_body(code, bodies[old].clone())?;
        }
        Ok(())
    }

    /// Names are for this pass alone.
    fn parse_custom_section(
        &mut self,
        module: &mut Module,
        section: CustomSectionReader,
    ) -> Result<()> {
        if section.name() == "name" || section.name().starts_with(".debug_") {
            return Ok(());
        }
        utils::parse_custom_section(self, module, section)
    }
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{ConstExpr, ExportKind, Function, NameMap, NameSection, ValType};

    use super::*;

    /// A component of one module of three functions: the last one calls the first and is exported,
    /// the one in between has its name.
    fn component() -> Vec<u8> {
        let mut types = wasm_encoder::TypeSection::new();
        types.ty().function([], [ValType::I32]);
        types.ty().function([], [ValType::I64]);
        let mut functions = FunctionSection::new();
        for ty in [0, 1, 0] {
            functions.function(ty);
        }
        let mut exports = wasm_encoder::ExportSection::new();
        exports.export("third", ExportKind::Func, 2);
        let mut elements = wasm_encoder::ElementSection::new();
        let mut tables = wasm_encoder::TableSection::new();
        tables.table(wasm_encoder::TableType {
            element_type: wasm_encoder::RefType::FUNCREF,
            table64: false,
            minimum: 1,
            maximum: None,
            shared: false,
        });
        elements.active(
            None,
            &ConstExpr::i32_const(0),
            wasm_encoder::Elements::Functions(vec![1].into()),
        );
        let mut code = CodeSection::new();
        let bodies: [fn(&mut Function); 3] = [
            |function| _ = function.instructions().i32_const(7).end(),
            |function| _ = function.instructions().i64_const(8).end(),
            |function| _ = function.instructions().call(0).end(),
        ];
        for write in bodies {
            let mut function = Function::new([]);
            write(&mut function);
            code.function(&function);
        }
        let mut map = NameMap::new();
        for (index, name) in
            (0..).zip(["first", "_ZN4same17h0123456789abcdefE", "_ZN4same17hfedcba9876543210E"])
        {
            map.append(index, name);
        }
        let mut names = NameSection::new();
        names.functions(&map);
        let mut module = Module::new();
        module
            .section(&types)
            .section(&functions)
            .section(&tables)
            .section(&exports)
            .section(&elements)
            .section(&code)
            .section(&names);
        let mut component = Component::new();
        component.section(&ModuleSection(&module));
        component.finish()
    }

    /// What of a component the order of its functions can change.
    fn shown(component: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(component) {
            match payload.unwrap() {
                Payload::ExportSection(section) => found.extend(
                    section.into_iter().map(|export| format!("export {}", export.unwrap().index)),
                ),
                Payload::FunctionSection(section) => {
                    found.extend(section.into_iter().map(|ty| format!("type {}", ty.unwrap())))
                }
                Payload::ElementSection(section) => {
                    for element in section {
                        let wasmparser::ElementItems::Functions(functions) = element.unwrap().items
                        else {
                            continue;
                        };
                        found.extend(
                            functions
                                .into_iter()
                                .map(|index| format!("element {}", index.unwrap())),
                        );
                    }
                }
                Payload::CodeSectionEntry(body) => found
                    .push(format!("{:?}", body.get_operators_reader().unwrap().read().unwrap())),
                Payload::CustomSection(section) => found.push(section.name().to_owned()),
                _ => {}
            }
        }
        found
    }

    #[test]
    fn functions_are_put_in_order_and_all_that_refers_to_them_follows() {
        let ordered = ordered(&component(), "_ZN4same 2\nnobody\n_ZN4same\n").unwrap();
        assert_eq!(ordered.names, "_ZN4same 2\n_ZN4same\nfirst\n");
        let expected = [
            "type 0",
            "type 1",
            "type 0",
            "export 0",
            "element 1",
            "Call { function_index: 2 }",
            "I64Const { value: 8 }",
            "I32Const { value: 7 }",
        ];
        assert_eq!(shown(&ordered.component), expected);
    }

    #[test]
    fn without_a_list_only_the_names_go() {
        let ordered = ordered(&component(), "").unwrap();
        let expected = [
            "type 0",
            "type 1",
            "type 0",
            "export 2",
            "element 1",
            "I32Const { value: 7 }",
            "I64Const { value: 8 }",
            "Call { function_index: 0 }",
        ];
        assert_eq!(shown(&ordered.component), expected);
        assert!(super::ordered(b"\0asm", "").is_err());
    }
}
