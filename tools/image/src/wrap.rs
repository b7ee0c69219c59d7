//! The last step of the merge: writes the component around the merged module. Its types, imports
//! and exports do not change. Three core modules replace all others.

use std::collections::HashMap;

use wasm_encoder::reencode::{Reencode, ReencodeComponent, RoundtripReencoder};
use wasm_encoder::{
    Alias, CanonicalFunctionSection, Component, ComponentAliasSection, ExportKind, InstanceSection,
    ModuleArg, RawSection,
};
use wasmparser::{CanonicalFunction, ExternalKind};

use crate::component::{
    CoreInstance, Origin, Part, Roles, SHIM_TABLE, Wiring, functions_of, options, uses_memory,
};
use crate::error::{Error, Reencoded, Result};
use crate::merge::{HOST, Merged, SHIM};
use crate::strip::without_custom_sections;

/// The core modules of the result, and the instance of the first.
const SHIM_MODULE: u32 = 0;
const MAIN_MODULE: u32 = 1;
const FIXUP_MODULE: u32 = 2;
const SHIM_INSTANCE: u32 = 0;

/// Writes the component.
pub(crate) fn wrap(wiring: &Wiring, roles: &Roles, merged: &Merged) -> Result<Vec<u8>> {
    let mut wrapper = Wrapper {
        wiring,
        roles,
        merged,
        component: Component::new(),
        functions: 0,
        instances: 0,
        canonical: HashMap::new(),
        aliases: HashMap::new(),
        main: None,
    };
    for part in &wiring.parts {
        wrapper.add(part)?;
    }
    Ok(wrapper.component.finish())
}

struct Wrapper<'w, 'a> {
    wiring: &'w Wiring<'a>,
    roles: &'w Roles<'a>,
    merged: &'w Merged,
    component: Component,
    /// The numbers of core functions and core instances so far.
    functions: u32,
    instances: u32,
    /// The new index of each canonical function, by its old one.
    canonical: HashMap<u32, u32>,
    /// The index of each aliased function, by the instance and the name of its export.
    aliases: HashMap<(u32, String), u32>,
    /// The instance of the merged module.
    main: Option<u32>,
}

impl Wrapper<'_, '_> {
    fn add(&mut self, part: &Part) -> Result<()> {
        match part {
            Part::Modules => {
                let (shim, fixup) = (self.roles.shim, self.roles.fixup);
                let shim = without_custom_sections(self.wiring.module_of(shim)?)?;
                let fixup = without_custom_sections(self.wiring.module_of(fixup)?)?;
                for module in [&shim, &self.merged.module, &fixup] {
                    self.component.section(&wasm_encoder::RawSection {
                        id: wasm_encoder::ComponentSectionId::CoreModule as u8,
                        data: module,
                    });
                }
            }
            Part::CoreInstance(index) if *index == self.roles.shim => {
                if self.instantiate(SHIM_MODULE, &[]) != SHIM_INSTANCE {
                    return Err(Error::new("the shim is not the first core instance"));
                }
            }
            Part::CoreInstance(index) if *index == self.roles.fixup => self.fix_up()?,
            Part::CoreInstance(_) => {}
            Part::Alias(alias) => {
                let mut aliases = ComponentAliasSection::new();
                let alias = RoundtripReencoder.component_alias(alias.clone());
                aliases.alias(alias.map_err(Error::new)?);
                self.component.section(&aliases);
            }
            Part::Canonical { function, defines } => self.add_canonical(function, *defines)?,
            Part::Section { id, data } => {
                self.component.section(&RawSection { id: *id, data });
            }
            Part::Instances(section) => {
                self.component.section(section);
            }
            Part::Exports(section) => {
                self.component.section(section);
            }
        }
        Ok(())
    }

    fn instantiate(&mut self, module: u32, imports: &[(&str, u32)]) -> u32 {
        let mut section = InstanceSection::new();
        let imports =
            imports.iter().map(|(name, instance)| (*name, ModuleArg::Instance(*instance)));
        section.instantiate(module, imports);
        self.add_instance(&section)
    }

    fn bundle(&mut self, items: &[(String, ExportKind, u32)]) -> u32 {
        let mut section = InstanceSection::new();
        section
            .export_items(items.iter().map(|(name, kind, index)| (name.as_str(), *kind, *index)));
        self.add_instance(&section)
    }

    fn add_instance(&mut self, section: &InstanceSection) -> u32 {
        self.component.section(section);
        self.instances += 1;
        self.instances - 1
    }

    fn alias(&mut self, kind: ExportKind, instance: u32, name: &str) {
        let mut section = ComponentAliasSection::new();
        section.alias(Alias::CoreInstanceExport { instance, kind, name });
        self.component.section(&section);
    }

    /// Returns the index of a function that a core instance exports.
    fn function(&mut self, instance: u32, name: &str) -> u32 {
        if let Some(index) = self.aliases.get(&(instance, name.to_owned())) {
            return *index;
        }
        self.alias(ExportKind::Func, instance, name);
        self.aliases.insert((instance, name.to_owned()), self.functions);
        self.functions += 1;
        self.functions - 1
    }

    /// Instantiates the merged module, immediately before the first function that needs it. By
    /// then, its imports must be defined.
    fn main(&mut self) -> Result<u32> {
        if let Some(main) = self.main {
            return Ok(main);
        }
        let mut imports = Vec::new();
        for old in &self.merged.canonical {
            let new = self.canonical.get(old).ok_or_else(|| {
                Error::new(format!("host function {old} is defined after the memory"))
            })?;
            imports.push((old.to_string(), ExportKind::Func, *new));
        }
        let host = self.bundle(&imports);
        let main = self.instantiate(MAIN_MODULE, &[(HOST, host), (SHIM, SHIM_INSTANCE)]);
        let mut memory = None;
        for index in (0..).take(self.wiring.memories.len()) {
            let name = self.roles.merged_name(self.wiring, ExternalKind::Memory, index)?;
            if memory.get_or_insert_with(|| name.clone()) != &name {
                return Err(Error::new("the component uses more than one memory"));
            }
        }
        let memory = memory.ok_or_else(|| Error::new("the component uses no memory"))?;
        self.alias(ExportKind::Memory, main, &memory);
        self.main = Some(main);
        Ok(main)
    }

    fn add_canonical(&mut self, function: &CanonicalFunction, defines: Option<u32>) -> Result<()> {
        let mut indices = Indices(HashMap::new());
        let lifted = match function {
            CanonicalFunction::Lift { core_func_index, .. } => Some(*core_func_index),
            _ => None,
        };
        if lifted.is_some() || uses_memory(function) {
            let main = self.main()?;
            for old in functions_of(options(function)).chain(lifted) {
                let name = self.roles.merged_name(self.wiring, ExternalKind::Func, old)?;
                indices.0.insert(old, self.function(main, &name));
            }
        }
        let mut section = CanonicalFunctionSection::new();
        indices.parse_component_canonical(&mut section, function.clone())?;
        self.component.section(&section);
        if let Some(old) = defines {
            self.canonical.insert(old, self.functions);
            self.functions += 1;
        }
        Ok(())
    }

    /// Fills the shim's table. The entry of a trampoline that is no longer used is the trampoline
    /// itself, which has the right type and is never called.
    fn fix_up(&mut self) -> Result<()> {
        let CoreInstance::Bundle(items) = self.wiring.instance(self.roles.bundle)? else {
            return Err(Error::new("the shim's table is not filled by a bundle"));
        };
        self.alias(ExportKind::Table, SHIM_INSTANCE, SHIM_TABLE);
        let mut entries = Vec::new();
        for item in items {
            let index = match item.kind {
                ExternalKind::Table => 0,
                kind => match self.wiring.origin(kind, item.index)? {
                    Origin::Canonical(old) => *self
                        .canonical
                        .get(&old)
                        .ok_or_else(|| Error::new("a trampoline has no target"))?,
                    Origin::Export { .. } => self.function(SHIM_INSTANCE, item.name),
                },
            };
            entries.push((item.name.to_owned(), item.kind.into(), index));
        }
        let bundle = self.bundle(&entries);
        self.instantiate(FIXUP_MODULE, &[("", bundle)]);
        Ok(())
    }
}

/// The new index of each core function that a canonical function refers to. The index of the only
/// memory is 0.
struct Indices(HashMap<u32, u32>);

impl Reencode for Indices {
    type Error = Error;

    fn function_index(&mut self, old: u32) -> Reencoded<u32> {
        let new = self.0.get(&old).copied();
        new.ok_or_else(|| Error::new(format!("core function {old} is not aliased")).into())
    }

    fn memory_index(&mut self, _: u32) -> Reencoded<u32> {
        Ok(0)
    }
}

impl ReencodeComponent for Indices {}

#[cfg(test)]
mod tests {
    use wasmparser::{Operator, Parser, Payload, Validator};

    use super::*;
    use crate::constants::constants;
    use crate::init::remove_init;
    use crate::merge::merge;
    use crate::module::Functions;
    use crate::prune::prune;

    /// A small component like those of componentize-py: two libraries, one of which has memory and
    /// a global, a shim and a fix-up for the host function that needs the memory, and two exports.
    const COMPONENT: &str = r#"(component
        (import "print" (func $print (param "text" string)))
        (import "now" (func $now (result u32)))
        (core module $shim
            (table (export "$imports") 1 funcref)
            (func (export "0") (param i32 i32)
                (call_indirect (param i32 i32) (local.get 0) (local.get 1) (i32.const 0))))
        (core module $env
            (memory (export "memory") 1)
            (global (export "base") i32 (i32.const 8)))
        (core module $main
            (import "env" "memory" (memory 1))
            (import "env" "base" (global i32))
            (import "host" "print" (func $print (param i32 i32)))
            (import "host" "now" (func $now (result i32)))
            (func (export "init"))
            (func (export "run") (call $print (global.get 0) (call $now)))
            (data (global.get 0) "text"))
        (core module $fixup
            (import "" "$imports" (table 1 funcref))
            (import "" "0" (func (param i32 i32)))
            (elem (i32.const 0) func 0))
        (core instance $shim (instantiate $shim))
        (core instance $env (instantiate $env))
        (alias core export $env "memory" (core memory $memory))
        (alias core export $shim "0" (core func $trampoline))
        (core func $lowered_now (canon lower (func $now)))
        (core instance $imports
            (export "print" (func $trampoline)) (export "now" (func $lowered_now)))
        (core instance $main (instantiate $main
            (with "env" (instance $env)) (with "host" (instance $imports))))
        (alias core export $shim "$imports" (core table $table))
        (core func $lowered_print (canon lower (func $print) (memory $memory)))
        (core instance $entries
            (export "$imports" (table $table)) (export "0" (func $lowered_print)))
        (core instance (instantiate $fixup (with "" (instance $entries))))
        (alias core export $main "init" (core func $init))
        (alias core export $main "run" (core func $run))
        (type $exported (func))
        (func $lifted_init (type $exported) (canon lift (core func $init)))
        (component $renamed_init
            (import "function" (func $function)) (export "init" (func $function)))
        (instance $init (instantiate $renamed_init (with "function" (func $lifted_init))))
        (export "exports" (instance $init))
        (func $lifted_run (type $exported) (canon lift (core func $run)))
        (component $renamed_run
            (import "function" (func $function)) (export "run" (func $function)))
        (instance $run (instantiate $renamed_run (with "function" (func $lifted_run))))
        (export "program" (instance $run)))"#;

    fn merged(component: &[u8]) -> Result<Vec<u8>> {
        let mut wiring = Wiring::read(component)?;
        remove_init(&mut wiring)?;
        let roles = Roles::find(&wiring)?;
        let mut merged = merge(&wiring, &roles)?;
        merged.module = without_custom_sections(&constants(&prune(&merged.module)?)?)?;
        wrap(&wiring, &roles, &merged)
    }

    #[test]
    fn libraries_become_one_module_and_the_first_export_is_removed() {
        let component = wat::parse_str(COMPONENT).unwrap();
        let merged = merged(&component).unwrap();
        Validator::new().validate_all(&merged).unwrap();
        let (mut modules, mut exports) = (Vec::new(), Vec::new());
        let mut depth = 0;
        for payload in Parser::new(0).parse_all(&merged) {
            match payload.unwrap() {
                Payload::ModuleSection { unchecked_range, .. } => {
                    modules.push(&merged[unchecked_range]);
                }
                Payload::ComponentSection { .. } => depth += 1,
                Payload::ComponentExportSection(section) if depth == 0 => {
                    exports.extend(section.into_iter().map(|export| export.unwrap().name.name));
                }
                Payload::End(_) => depth = 0,
                _ => {}
            }
        }
        assert_eq!(exports, ["program"]);
        assert_eq!(modules.len(), 3);
        let functions = Functions::read(modules[MAIN_MODULE as usize]).unwrap();
        assert_eq!((functions.imported, functions.bodies.len()), (2, 1));
        let operators = functions.bodies[0].get_operators_reader().unwrap();
        let operators: Vec<_> = operators.into_iter().map(|operator| operator.unwrap()).collect();
        let expected = [
            Operator::I32Const { value: 8 },
            Operator::Call { function_index: 1 },
            Operator::Call { function_index: 0 },
            Operator::End,
        ];
        assert_eq!(operators, expected);
    }

    #[test]
    fn unknown_wiring_is_an_error() {
        for (old, new) in [
            ("\"exports\"", "\"others\""),
            ("(export \"exports\" (instance $init))", ""),
            ("(export \"$imports\" (table $table))", ""),
            ("(core instance $env", "(core instance (instantiate $env)) (core instance $env"),
            ("(func (export \"init\"))", "(func (export \"init\")) (func $start) (start $start)"),
        ] {
            let text = COMPONENT.replacen(old, new, 1);
            assert_ne!(text, COMPONENT);
            assert!(merged(&wat::parse_str(text).unwrap()).is_err(), "{old}");
        }
        let component = wat::parse_str(COMPONENT).unwrap();
        assert!(merged(&component[..component.len() / 2]).is_err());
        assert!(merged(b"\0asm\x01\0\0\0").is_err());
    }
}
