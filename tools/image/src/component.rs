//! Reads how the core modules of a component are wired: which instance imports from which, and the
//! item that an index refers to.
//!
//! Understands only components that componentize-py writes. Anything else is an error.

use std::collections::HashMap;

use wasm_encoder::{ComponentExportSection, ComponentInstanceSection};
use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentAlias, ComponentType, Encoding, Export,
    ExternalKind, Instance, Parser, Payload,
};

use crate::error::{Error, Result};

/// The origin of a core item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// A canonical function, by its index among the core functions.
    Canonical(u32),
    /// An export of a core instance.
    Export { instance: u32, name: &'a str },
}

/// A core instance.
pub(crate) enum CoreInstance<'a> {
    /// An instance of a module, with the instance for each name that the module imports from.
    Module { module: u32, imports: HashMap<&'a str, u32> },
    /// A bundle of items.
    Bundle(Vec<Export<'a>>),
}

/// A piece of a component, in the order in which they are written.
pub(crate) enum Part<'a> {
    /// The place of the core modules.
    Modules,
    CoreInstance(u32),
    /// An alias of anything but an item of a core instance.
    Alias(ComponentAlias<'a>),
    Canonical {
        function: CanonicalFunction,
        /// Its index among the core functions, unless it lifts one.
        defines: Option<u32>,
    },
    /// A section as it is in the input.
    Section {
        id: u8,
        data: &'a [u8],
    },
    Instances(ComponentInstanceSection),
    Exports(ComponentExportSection),
}

/// A component, with its core index spaces resolved.
pub(crate) struct Wiring<'a> {
    pub(crate) parts: Vec<Part<'a>>,
    pub(crate) modules: Vec<&'a [u8]>,
    pub(crate) instances: Vec<CoreInstance<'a>>,
    functions: Vec<Origin<'a>>,
    tables: Vec<Origin<'a>>,
    pub(crate) memories: Vec<Origin<'a>>,
    globals: Vec<Origin<'a>>,
}

impl<'a> Wiring<'a> {
    pub(crate) fn read(component: &'a [u8]) -> Result<Self> {
        let mut wiring = Self {
            parts: Vec::new(),
            modules: Vec::new(),
            instances: Vec::new(),
            functions: Vec::new(),
            tables: Vec::new(),
            memories: Vec::new(),
            globals: Vec::new(),
        };
        let mut parser = Parser::new(0);
        let mut rest = component;
        while !rest.is_empty() {
            let wasmparser::Chunk::Parsed { consumed, payload } = parser.parse(rest, true)? else {
                return Err(Error::new("the component ends early"));
            };
            rest = rest.get(consumed..).unwrap_or_default();
            // Skips nested modules and components.
            if let Payload::ModuleSection { unchecked_range, .. }
            | Payload::ComponentSection { unchecked_range, .. } = &payload
            {
                rest = rest.get(unchecked_range.len()..).unwrap_or_default();
            }
            wiring.read_payload(component, payload)?;
        }
        Ok(wiring)
    }

    fn read_payload(&mut self, component: &'a [u8], payload: Payload<'a>) -> Result<()> {
        match payload {
            Payload::Version { encoding: Encoding::Component, .. }
            | Payload::CustomSection(_)
            | Payload::End(_) => {}
            Payload::Version { .. } => return Err(Error::new("not a component")),
            Payload::ModuleSection { unchecked_range, .. } => {
                let module = component.get(unchecked_range);
                self.modules.push(module.ok_or_else(|| Error::new("a core module ends early"))?);
                if self.modules.len() == 1 {
                    self.parts.push(Part::Modules);
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section {
                    self.parts.push(Part::CoreInstance(length(&self.instances)));
                    self.instances.push(core_instance(instance?));
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    self.read_alias(alias?)?;
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                for function in section {
                    self.read_canonical(function?);
                }
            }
            Payload::ComponentTypeSection(section) => {
                let (id, range) = (7, section.range());
                for ty in section {
                    if let ComponentType::Resource { dtor: Some(_), .. } = ty? {
                        return Err(Error::new("a resource with a destructor is not supported"));
                    }
                }
                self.read_section(component, id, range)?;
            }
            other => {
                let (id, range) = other
                    .as_section()
                    .ok_or_else(|| Error::new("the component has an unknown part"))?;
                self.read_section(component, id, range)?;
            }
        }
        Ok(())
    }

    fn read_section(
        &mut self,
        component: &'a [u8],
        id: u8,
        range: std::ops::Range<usize>,
    ) -> Result<()> {
        let data = component.get(range).ok_or_else(|| Error::new("a section ends early"))?;
        self.parts.push(Part::Section { id, data });
        Ok(())
    }

    fn read_alias(&mut self, alias: ComponentAlias<'a>) -> Result<()> {
        let ComponentAlias::CoreInstanceExport { kind, instance_index: instance, name } = alias
        else {
            self.parts.push(Part::Alias(alias));
            return Ok(());
        };
        let space = match kind {
            ExternalKind::Func => &mut self.functions,
            ExternalKind::Table => &mut self.tables,
            ExternalKind::Memory => &mut self.memories,
            ExternalKind::Global => &mut self.globals,
            _ => return Err(unsupported_kind(kind)),
        };
        space.push(Origin::Export { instance, name });
        Ok(())
    }

    fn read_canonical(&mut self, function: CanonicalFunction) {
        let defines = (!matches!(function, CanonicalFunction::Lift { .. })).then(|| {
            let index = length(&self.functions);
            self.functions.push(Origin::Canonical(index));
            index
        });
        self.parts.push(Part::Canonical { function, defines });
    }

    /// Returns the origin of an item, by its index among the core items of its kind.
    pub(crate) fn origin(&self, kind: ExternalKind, index: u32) -> Result<Origin<'a>> {
        let space = match kind {
            ExternalKind::Func => &self.functions,
            ExternalKind::Table => &self.tables,
            ExternalKind::Memory => &self.memories,
            ExternalKind::Global => &self.globals,
            _ => return Err(unsupported_kind(kind)),
        };
        let origin = space.get(index as usize).copied();
        origin.ok_or_else(|| Error::new(format!("no core {kind:?} has index {index}")))
    }

    pub(crate) fn instance(&self, index: u32) -> Result<&CoreInstance<'a>> {
        let instance = self.instances.get(index as usize);
        instance.ok_or_else(|| Error::new(format!("no core instance has index {index}")))
    }

    /// Returns the module of an instance.
    pub(crate) fn module_of(&self, instance: u32) -> Result<&'a [u8]> {
        let CoreInstance::Module { module, .. } = self.instance(instance)? else {
            return Err(Error::new(format!(
                "core instance {instance} is not an instance of a module"
            )));
        };
        let module = self.modules.get(*module as usize).copied();
        module.ok_or_else(|| Error::new(format!("core instance {instance} has no module")))
    }
}

/// The roles of the core instances.
pub(crate) struct Roles<'a> {
    /// The bundle that fills the shim's table.
    pub(crate) bundle: u32,
    /// Has trampolines for host functions that need the memory, which is created later.
    pub(crate) shim: u32,
    /// Fills the shim's table.
    pub(crate) fixup: u32,
    /// The instances that are merged into one.
    pub(crate) merged: Vec<u32>,
    trampolines: HashMap<&'a str, Export<'a>>,
}

/// The name by which the shim exports its table.
pub(crate) const SHIM_TABLE: &str = "$imports";

impl<'a> Roles<'a> {
    pub(crate) fn find(wiring: &Wiring<'a>) -> Result<Self> {
        let mut bundles = (0..).zip(&wiring.instances).filter_map(|(index, instance)| {
            let CoreInstance::Bundle(items) = instance else { return None };
            items.iter().any(|item| item.name == SHIM_TABLE).then_some((index, items))
        });
        let (Some((bundle, items)), None) = (bundles.next(), bundles.next()) else {
            return Err(Error::new("expected exactly one instance that fills a shim's table"));
        };
        let trampolines: HashMap<_, _> = items.iter().map(|item| (item.name, *item)).collect();
        let table = trampolines.get(SHIM_TABLE).map_or(0, |table| table.index);
        let Origin::Export { instance: shim, .. } = wiring.origin(ExternalKind::Table, table)?
        else {
            return Err(Error::new("no instance exports the shim's table"));
        };
        let mut roles = Self { bundle, shim, fixup: u32::MAX, merged: Vec::new(), trampolines };
        let mut modules = Vec::new();
        for (index, instance) in (0..).zip(&wiring.instances) {
            let CoreInstance::Module { module, imports } = instance else { continue };
            modules.push(*module);
            if imports.values().any(|import| *import == bundle) {
                roles.fixup = index;
            } else if index != shim {
                roles.merged.push(index);
            }
        }
        modules.sort_unstable();
        if !modules.iter().copied().eq(0..length(&wiring.modules)) {
            return Err(Error::new("a module is instantiated twice or never"));
        }
        wiring.module_of(roles.fixup)?;
        wiring.module_of(roles.shim)?;
        Ok(roles)
    }

    /// Follows bundles and trampolines to the origin of an item: a canonical function, an export of
    /// a merged module, or a trampoline for a host function.
    pub(crate) fn resolve(
        &self,
        wiring: &Wiring<'a>,
        mut origin: Origin<'a>,
    ) -> Result<Origin<'a>> {
        for _ in 0..=wiring.instances.len() {
            let Origin::Export { instance, name } = origin else { return Ok(origin) };
            if let CoreInstance::Bundle(items) = wiring.instance(instance)? {
                let item = items.iter().find(|item| item.name == name).ok_or_else(|| {
                    Error::new(format!("core instance {instance} has no item {name}"))
                })?;
                origin = wiring.origin(item.kind, item.index)?;
            } else if let Some(item) = self.trampolines.get(name).filter(|_| instance == self.shim)
                && item.kind == ExternalKind::Func
                && let target @ Origin::Export { .. } = wiring.origin(item.kind, item.index)?
            {
                origin = target;
            } else {
                return Ok(origin);
            }
        }
        Err(Error::new("an item of a core instance refers to itself"))
    }

    /// Returns the name by which the merged module exports a core item of the component.
    pub(crate) fn merged_name(
        &self,
        wiring: &Wiring<'a>,
        kind: ExternalKind,
        index: u32,
    ) -> Result<String> {
        match self.resolve(wiring, wiring.origin(kind, index)?)? {
            Origin::Export { instance, name } => Ok(merged_name(instance, name)),
            Origin::Canonical(_) => {
                Err(Error::new("the component uses a host function as one of its own"))
            }
        }
    }
}

/// Returns the name by which the merged module exports an item of an instance.
pub(crate) fn merged_name(instance: u32, name: &str) -> String {
    format!("i{instance}:{name}")
}

/// Returns whether a canonical function uses a memory of the component.
pub(crate) fn uses_memory(function: &CanonicalFunction) -> bool {
    options(function)
        .iter()
        .any(|option| matches!(option, CanonicalOption::Memory(_) | CanonicalOption::Realloc(_)))
}

/// Returns the options of a canonical function, of the kinds that componentize-py writes.
pub(crate) fn options(function: &CanonicalFunction) -> &[CanonicalOption] {
    match function {
        CanonicalFunction::Lift { options, .. }
        | CanonicalFunction::Lower { options, .. }
        | CanonicalFunction::TaskReturn { options, .. } => options,
        _ => &[],
    }
}

/// Returns the core functions that options refer to.
pub(crate) fn functions_of(options: &[CanonicalOption]) -> impl Iterator<Item = u32> {
    options.iter().filter_map(|option| match option {
        CanonicalOption::Realloc(function)
        | CanonicalOption::PostReturn(function)
        | CanonicalOption::Callback(function) => Some(*function),
        _ => None,
    })
}

fn core_instance(instance: Instance) -> CoreInstance {
    match instance {
        Instance::Instantiate { module_index: module, args } => CoreInstance::Module {
            module,
            imports: args.iter().map(|argument| (argument.name, argument.index)).collect(),
        },
        Instance::FromExports(exports) => CoreInstance::Bundle(exports.into_vec()),
    }
}

fn unsupported_kind(kind: ExternalKind) -> Error {
    Error::new(format!("a core item of kind {kind:?} is not supported"))
}

/// Returns the length of a list whose indices have 32 bits.
pub(crate) fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}
