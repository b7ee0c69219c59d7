//! Pass: merges the core modules of a component into one.
//!
//! componentize-py links libc, CPython and its own parts as shared libraries: every call between
//! them goes through a table, and every instance fills tables and globals. In one module, nearly
//! all of this is resolved at build time.
//!
//! Two small modules stay, because they resolve a cycle: the shim has trampolines for host
//! functions that need the memory, which does not exist yet, and the fix-up later fills the shim's
//! table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, DataCountSection, DataSection, ElementSection, ExportKind, ExportSection,
    FunctionSection, GlobalSection, ImportSection, MemorySection, Module, NameMap, NameSection,
    TableSection, TypeSection,
};
use wasmparser::{ExternalKind, FuncType, Import, Parser, Payload, TypeRef};

use crate::component::{
    CoreInstance, Origin, Part, Roles, Wiring, functions_of, length, merged_name, options,
};
use crate::error::{Error, Reencoded, Result};
use crate::module::Functions;

/// The merged module, and the canonical functions of the component that it imports.
pub(crate) struct Merged {
    pub(crate) module: Vec<u8>,
    /// The imported canonical functions, by their index among the core functions of the old
    /// component.
    pub(crate) canonical: BTreeSet<u32>,
    /// The functions that each core module has defined.
    pub(crate) functions: Vec<Range<u32>>,
}

/// The names of the two instances that the merged module imports from.
pub(crate) const HOST: &str = "host";
pub(crate) const SHIM: &str = "shim";

/// Merges the core modules. The result exports only the items that the component refers to.
pub(crate) fn merge(wiring: &Wiring, roles: &Roles) -> Result<Merged> {
    let mut inputs = Vec::new();
    for instance in &roles.merged {
        inputs.push(Input::read(*instance, wiring.module_of(*instance)?)?);
    }
    let mut spaces =
        Spaces { inputs: &inputs, wiring, roles, types: Vec::new(), imports: Vec::new() };
    let mut maps = Vec::new();
    for input in &inputs {
        spaces.add_types(&input.types);
        spaces.add_imports(input)?;
    }
    for (number, input) in inputs.iter().enumerate() {
        maps.push(spaces.maps(number, input)?);
    }
    let mut sections = Sections::default();
    for (input, map) in inputs.iter().zip(&mut maps) {
        sections.add(input, map)?;
    }
    for name in exported(wiring, roles)? {
        let (kind, index) = spaces.export(&name)?;
        sections.exports.export(&name.merged(), kind, index);
    }
    let names = spaces.names(&maps);
    Ok(Merged {
        module: sections.finish(&spaces, &names)?,
        canonical: spaces.canonical(),
        functions: spaces.functions(),
    })
}

/// An item that a core instance exports.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Exported<'a> {
    instance: u32,
    name: &'a str,
}

impl Exported<'_> {
    fn merged(&self) -> String {
        merged_name(self.instance, self.name)
    }
}

/// The exports that the component itself refers to.
fn exported<'a>(wiring: &Wiring<'a>, roles: &Roles<'a>) -> Result<BTreeSet<Exported<'a>>> {
    let mut found = BTreeSet::new();
    let mut add = |kind, index| -> Result<()> {
        match roles.resolve(wiring, wiring.origin(kind, index)?)? {
            Origin::Export { instance, name } => found.insert(Exported { instance, name }),
            Origin::Canonical(_) => return Err(Error::new("the component lifts its own import")),
        };
        Ok(())
    };
    for part in &wiring.parts {
        let Part::Canonical { function, .. } = part else { continue };
        if let wasmparser::CanonicalFunction::Lift { core_func_index, .. } = function {
            add(ExternalKind::Func, *core_func_index)?;
        }
        for index in functions_of(options(function)) {
            add(ExternalKind::Func, index)?;
        }
        for option in options(function) {
            if let wasmparser::CanonicalOption::Memory(memory) = option {
                add(ExternalKind::Memory, *memory)?;
            }
        }
    }
    Ok(found)
}

/// A module to merge.
struct Input<'a> {
    instance: u32,
    module: &'a [u8],
    functions: Functions<'a>,
    types: Vec<FuncType>,
    imports: Vec<Import<'a>>,
    exports: HashMap<&'a str, (ExternalKind, u32)>,
    /// The numbers of items that the module itself defines.
    tables: u32,
    memories: u32,
    globals: u32,
    elements: u32,
    data: u32,
}

impl<'a> Input<'a> {
    fn read(instance: u32, module: &'a [u8]) -> Result<Self> {
        let functions = Functions::read(module)?;
        let mut input = Self {
            instance,
            module,
            types: functions.types.clone(),
            functions,
            imports: Vec::new(),
            exports: HashMap::new(),
            tables: 0,
            memories: 0,
            globals: 0,
            elements: 0,
            data: 0,
        };
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::ImportSection(section) => {
                    input.imports =
                        section.into_imports().collect::<std::result::Result<_, _>>()?;
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        input.exports.insert(export.name, (export.kind, export.index));
                    }
                }
                Payload::TableSection(section) => input.tables = section.count(),
                Payload::MemorySection(section) => input.memories = section.count(),
                Payload::GlobalSection(section) => input.globals = section.count(),
                Payload::ElementSection(section) => input.elements = section.count(),
                Payload::DataSection(section) => input.data = section.count(),
                Payload::StartSection { .. } => {
                    return Err(Error::new(
                        "a start function would run before the shim's table is filled",
                    ));
                }
                Payload::TagSection(_) => return Err(Error::new("tags are not supported")),
                _ => {}
            }
        }
        Ok(input)
    }

    /// Returns how many items of a kind the module itself defines.
    fn own(&self, kind: ExternalKind) -> u32 {
        match kind {
            ExternalKind::Func => length(&self.functions.bodies),
            ExternalKind::Table => self.tables,
            ExternalKind::Memory => self.memories,
            ExternalKind::Global => self.globals,
            _ => 0,
        }
    }

    fn imports(&self, kind: ExternalKind) -> impl Iterator<Item = &Import<'a>> {
        self.imports.iter().filter(move |import| kind_of(&import.ty) == kind)
    }
}

fn kind_of(ty: &TypeRef) -> ExternalKind {
    match ty {
        TypeRef::Func(_) | TypeRef::FuncExact(_) => ExternalKind::Func,
        TypeRef::Table(_) => ExternalKind::Table,
        TypeRef::Memory(_) => ExternalKind::Memory,
        TypeRef::Global(_) => ExternalKind::Global,
        TypeRef::Tag(_) => ExternalKind::Tag,
    }
}

/// The item that an import refers to.
enum Target<'a> {
    /// A function that the merged module imports, by module and name.
    Import(&'static str, String),
    Export(Exported<'a>),
}

/// The index spaces of the merged module.
struct Spaces<'i, 'a> {
    inputs: &'i [Input<'a>],
    wiring: &'i Wiring<'a>,
    roles: &'i Roles<'a>,
    types: Vec<FuncType>,
    /// The imported functions, and their types.
    imports: Vec<(&'static str, String, u32)>,
}

impl<'a> Spaces<'_, 'a> {
    fn add_types(&mut self, types: &[FuncType]) {
        for ty in types {
            if !self.types.contains(ty) {
                self.types.push(ty.clone());
            }
        }
    }

    fn type_index(&self, ty: &FuncType) -> Result<u32> {
        let found = (0..).zip(&self.types).find(|(_, candidate)| *candidate == ty);
        found.map(|(index, _)| index).ok_or_else(|| Error::new("a function has no type"))
    }

    fn add_imports(&mut self, input: &Input<'a>) -> Result<()> {
        for import in &input.imports {
            let Target::Import(module, name) = self.target(input, import)? else { continue };
            let (TypeRef::Func(ty) | TypeRef::FuncExact(ty)) = import.ty else {
                return Err(Error::new(format!("{} of the host is not a function", import.name)));
            };
            let ty = input.types.get(ty as usize).ok_or_else(|| Error::new("no such type"))?;
            let ty = self.type_index(ty)?;
            if !self.imports.iter().any(|known| (known.0, &known.1) == (module, &name)) {
                self.imports.push((module, name, ty));
            }
        }
        Ok(())
    }

    fn target(&self, input: &Input<'a>, import: &Import<'a>) -> Result<Target<'a>> {
        let CoreInstance::Module { imports, .. } = self.wiring.instance(input.instance)? else {
            return Err(Error::new("a merged instance is not an instance of a module"));
        };
        let instance = *imports.get(import.module).ok_or_else(|| {
            Error::new(format!("nothing provides the imports from {}", import.module))
        })?;
        let origin = Origin::Export { instance, name: import.name };
        Ok(match self.roles.resolve(self.wiring, origin)? {
            Origin::Canonical(index) => Target::Import(HOST, index.to_string()),
            Origin::Export { instance, name } if instance == self.roles.shim => {
                Target::Import(SHIM, name.to_owned())
            }
            Origin::Export { instance, name } => Target::Export(Exported { instance, name }),
        })
    }

    /// Returns the index that an item of an input has in the merged module.
    fn merged_index(&self, mut number: usize, kind: ExternalKind, mut index: u32) -> Result<u32> {
        // Each step follows an import to the module that exports it.
        for _ in 0..=self.inputs.len() {
            let input =
                self.inputs.get(number).ok_or_else(|| Error::new("an instance is missing"))?;
            let Some(import) = input.imports(kind).nth(index as usize) else {
                let imported = input.imports(kind).count();
                let own = index - u32::try_from(imported).unwrap_or(u32::MAX);
                if own >= input.own(kind) {
                    return Err(Error::new(format!("no {kind:?} has index {index}")));
                }
                let before: u32 =
                    self.inputs.iter().take(number).map(|other| other.own(kind)).sum();
                let imports = if kind == ExternalKind::Func { length(&self.imports) } else { 0 };
                return Ok(imports + before + own);
            };
            match self.target(input, import)? {
                Target::Import(module, name) => {
                    let known = (0..)
                        .zip(&self.imports)
                        .find(|(_, known)| (known.0, &known.1) == (module, &name));
                    return known
                        .map(|(index, _)| index)
                        .ok_or_else(|| Error::new(format!("{name} is not imported")));
                }
                Target::Export(exported) => {
                    number = self.number_of(exported.instance)?;
                    index = self.exported_index(number, kind, exported.name)?;
                }
            }
        }
        Err(Error::new("an import refers to itself"))
    }

    fn number_of(&self, instance: u32) -> Result<usize> {
        let found = self.inputs.iter().position(|input| input.instance == instance);
        found.ok_or_else(|| Error::new(format!("core instance {instance} is not merged")))
    }

    fn exported_index(&self, number: usize, kind: ExternalKind, name: &str) -> Result<u32> {
        let input = self.inputs.get(number).ok_or_else(|| Error::new("an instance is missing"))?;
        match input.exports.get(name) {
            Some((found, index)) if *found == kind => Ok(*index),
            _ => Err(Error::new(format!("no {kind:?} is exported as {name}"))),
        }
    }

    fn export(&self, exported: &Exported) -> Result<(ExportKind, u32)> {
        let number = self.number_of(exported.instance)?;
        let exports = &self.inputs.get(number).map(|input| &input.exports);
        let (kind, index) = *exports
            .and_then(|exports| exports.get(exported.name))
            .ok_or_else(|| Error::new(format!("nothing is exported as {}", exported.name)))?;
        Ok((kind.into(), self.merged_index(number, kind, index)?))
    }

    fn maps(&self, number: usize, input: &Input<'a>) -> Result<Maps> {
        let map = |kind: ExternalKind| -> Result<Vec<u32>> {
            let count = u32::try_from(input.imports(kind).count()).unwrap_or(u32::MAX);
            (0..count + input.own(kind))
                .map(|index| self.merged_index(number, kind, index))
                .collect()
        };
        let before = self.inputs.iter().take(number);
        Ok(Maps {
            types: input.types.iter().map(|ty| self.type_index(ty)).collect::<Result<_>>()?,
            functions: map(ExternalKind::Func)?,
            tables: map(ExternalKind::Table)?,
            memories: map(ExternalKind::Memory)?,
            globals: map(ExternalKind::Global)?,
            elements: before.clone().map(|other| other.elements).sum(),
            data: before.map(|other| other.data).sum(),
        })
    }

    /// Returns the names of the merged module's functions. Those of imports are the names of their
    /// interfaces and functions.
    fn names(&self, maps: &[Maps]) -> NameMap {
        let mut found = BTreeMap::new();
        for (input, map) in self.inputs.iter().zip(maps) {
            for (import, index) in input.imports(ExternalKind::Func).zip(&map.functions) {
                if (*index as usize) < self.imports.len() {
                    let name = format!("{}#{}", import.module, import.name);
                    found.entry(*index).or_insert(name);
                }
            }
        }
        for (input, map) in self.inputs.iter().zip(maps) {
            for (name, index) in input.functions.names.iter().zip(&map.functions) {
                if !name.is_empty() {
                    found.entry(*index).or_insert_with(|| name.clone());
                }
            }
        }
        let mut names = NameMap::new();
        for (index, name) in found {
            names.append(index, &name);
        }
        names
    }

    /// Returns the functions that each input defines, by their indices in the merged module.
    fn functions(&self) -> Vec<Range<u32>> {
        let mut start = length(&self.imports);
        let mut found = Vec::new();
        for input in self.inputs {
            let end = start + input.own(ExternalKind::Func);
            found.push(start..end);
            start = end;
        }
        found
    }

    fn canonical(&self) -> BTreeSet<u32> {
        let host = self.imports.iter().filter(|(module, ..)| *module == HOST);
        host.filter_map(|(_, name, _)| name.parse().ok()).collect()
    }
}

/// The index in the merged module of each item of an input.
struct Maps {
    types: Vec<u32>,
    functions: Vec<u32>,
    tables: Vec<u32>,
    memories: Vec<u32>,
    globals: Vec<u32>,
    /// The numbers of segments of the merged module that come before those of the input.
    elements: u32,
    data: u32,
}

fn look_up(map: &[u32], index: u32) -> Reencoded<u32> {
    let found = map.get(index as usize).copied();
    found.ok_or_else(|| Error::new(format!("an index is out of bounds: {index}")).into())
}

impl Reencode for Maps {
    type Error = Error;

    fn type_index(&mut self, index: u32) -> Reencoded<u32> {
        look_up(&self.types, index)
    }

    fn function_index(&mut self, index: u32) -> Reencoded<u32> {
        look_up(&self.functions, index)
    }

    fn table_index(&mut self, index: u32) -> Reencoded<u32> {
        look_up(&self.tables, index)
    }

    fn memory_index(&mut self, index: u32) -> Reencoded<u32> {
        look_up(&self.memories, index)
    }

    fn global_index(&mut self, index: u32) -> Reencoded<u32> {
        look_up(&self.globals, index)
    }

    fn element_index(&mut self, index: u32) -> Reencoded<u32> {
        Ok(self.elements + index)
    }

    fn data_index(&mut self, index: u32) -> Reencoded<u32> {
        Ok(self.data + index)
    }
}

/// The sections of the merged module.
#[derive(Default)]
struct Sections {
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    counts_data: bool,
    code: CodeSection,
    data: DataSection,
}

impl Sections {
    fn add(&mut self, input: &Input, maps: &mut Maps) -> Result<()> {
        for payload in Parser::new(0).parse_all(input.module) {
            match payload? {
                Payload::FunctionSection(section) => {
                    maps.parse_function_section(&mut self.functions, section)?;
                }
                Payload::TableSection(section) => {
                    maps.parse_table_section(&mut self.tables, section)?;
                }
                Payload::MemorySection(section) => {
                    maps.parse_memory_section(&mut self.memories, section)?;
                }
                Payload::GlobalSection(section) => {
                    maps.parse_global_section(&mut self.globals, section)?;
                }
                Payload::ElementSection(section) => {
                    maps.parse_element_section(&mut self.elements, section)?;
                }
                Payload::DataCountSection { .. } => self.counts_data = true,
                Payload::CodeSectionEntry(body) => {
                    maps.parse_function_body(&mut self.code, body)?
                }
                Payload::DataSection(section) => {
                    maps.parse_data_section(&mut self.data, section)?
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(&self, spaces: &Spaces, names: &NameMap) -> Result<Vec<u8>> {
        let mut types = TypeSection::new();
        for ty in &spaces.types {
            types.ty().func_type(&RoundtripReencoder.func_type(ty.clone()).map_err(Error::new)?);
        }
        let mut imports = ImportSection::new();
        for (module, name, ty) in &spaces.imports {
            imports.import(module, name, wasm_encoder::EntityType::Function(*ty));
        }
        let mut module = Module::new();
        module
            .section(&types)
            .section(&imports)
            .section(&self.functions)
            .section(&self.tables)
            .section(&self.memories)
            .section(&self.globals)
            .section(&self.exports)
            .section(&self.elements);
        if self.counts_data {
            module.section(&DataCountSection { count: self.data.len() });
        }
        let mut name_section = NameSection::new();
        name_section.functions(names);
        module.section(&self.code).section(&self.data).section(&name_section);
        Ok(module.finish())
    }
}
