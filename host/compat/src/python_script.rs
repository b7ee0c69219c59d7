//! Judges a Python script: its imports, the commands that it starts, the hosts that it names, and its
//! declared dependencies.

use std::ops::Range;

use super::dependencies::{self, Dependency};
use super::judge::{Caller, Judge};
use super::known_packages::{Known, Why};
use super::need::{Need, NeedEffect, NeedKind, NeedStatus};
use super::packages::{self, Lookup};
use super::python_commands::SpawnedCommand;
use super::python_imports::{self, Import};
use super::stdlib::Standard;
use super::tries::{Tried, Tries};
use super::{Reach, network, shell_script};

/// Judges a range of the judge's text, or of a text inside it.
pub(super) fn judge(judge: &mut Judge<'_>, text: &str, part: Range<usize>, nesting: usize) {
    let from = part.start;
    let part = &text[part];
    let scan = python_imports::scan(part);
    let found: Vec<Vec<(String, Lookup)>> =
        scan.imports.iter().map(|import| look_up(judge, import)).collect();
    let imports = scan.imports.iter().zip(&found).map(|(import, found)| Tried {
        tried: import.tried,
        instead_of: import.instead_of,
        is_met: found.iter().all(|(_, found)| is_met(*found)),
    });
    let tries = Tries::of(&scan.tries, imports);
    for (import, found) in scan.imports.iter().zip(&found) {
        if tries.is_needless(import.instead_of) {
            continue;
        }
        let is_optional = tries.is_optional(import.tried);
        let effect = if is_optional { NeedEffect::None } else { judge.effect(import.reach) };
        for (module, found) in found {
            judge.module(module, *found, from + import.at.start, effect);
            if packages::is_http_client(module) {
                judge.asks(module, from + import.at.start, import.reach);
            }
        }
        if found.is_empty()
            && let Some(path) = judge.facts.module_file(judge.folder(), &import.module)
        {
            let reach = if effect == NeedEffect::Whole { Reach::Always } else { Reach::Sometimes };
            judge.uses(path, true, from + import.at.start, reach);
        }
    }
    for spawn in scan.spawns {
        match spawn.command {
            SpawnedCommand::Argv(argv) => {
                shell_script::argv(judge, &argv.words, from + argv.at.start, spawn.reach)
            }
            SpawnedCommand::Shell(at) => {
                let argv = [Some("sh".to_owned()), Some("-c".to_owned()), None];
                judge.command(&argv, from + at.start, spawn.reach, Caller::Program);
                let outer = judge.inside;
                judge.inside.get_or_insert(from + at.start);
                shell_script::judge(judge, part, at, spawn.reach, Caller::Shell, nesting + 1);
                judge.inside = outer;
            }
        }
    }
    for at in &scan.texts {
        let addresses: Vec<_> = network::addresses(&part[at.clone()]).collect();
        for (offset, to) in addresses {
            judge.names_host(from + at.start + offset, to);
        }
    }
    for dependency in dependencies::inline(part) {
        judge.declared(&dependency, from + dependency.offset, NeedEffect::Part);
    }
}

/// Looks up the modules of an import. Returns nothing for modules of the skill and of
/// `--site-packages`.
fn look_up(judge: &Judge<'_>, import: &Import) -> Vec<(String, Lookup)> {
    let root = import.module.split('.').next().unwrap_or_default();
    if judge.facts.has_module_in(judge.folder(), root) {
        return Vec::new();
    }
    let whole = packages::module(&import.module);
    if whole == Lookup::Unknown && judge.facts.has_module(root) {
        return Vec::new();
    }
    let native = matches!(whole, Lookup::Known(Known { why: Why::Native, .. }));
    let lacks = matches!(whole, Lookup::Known(_) | Lookup::Unknown);
    if lacks && !native && judge.facts.provides_module(root) {
        return Vec::new();
    }
    // `google.cloud.storage` is in another package than `google.cloud`.
    let names = import
        .names
        .iter()
        .map(|name| format!("{}.{name}", import.module))
        .map(|name| (packages::module(&name), name));
    let mut found: Vec<(String, Lookup)> = names
        .filter(|(is, name)| *is != whole || packages::is_http_client(name))
        .map(|(is, name)| (name, is))
        .collect();
    if found.len() < import.names.len() || found.is_empty() {
        found.push((import.module.clone(), whole));
    }
    found
}

fn is_met(found: Lookup) -> bool {
    matches!(
        found,
        Lookup::InSet(_) | Lookup::Standard(Standard::Available | Standard::Limited { .. })
    )
}

impl Judge<'_> {
    /// Judges `python3 -m NAME`.
    pub(super) fn runs_module(&mut self, name: &str, offset: usize, reach: Reach) {
        let root = name.split('.').next().unwrap_or(name);
        if self.facts.has_module(root) || name.is_empty() {
            return;
        }
        let effect = self.effect(reach);
        self.module(name, packages::module(name), offset, effect);
    }

    /// Judges a module that is imported. `effect` is what fails without it.
    fn module(&mut self, module: &str, found: Lookup, offset: usize, effect: NeedEffect) {
        let root = module.split('.').next().unwrap_or(module);
        let standard = |status, effect, message: String, instead: Option<&str>| Need {
            effect,
            message: Some(message),
            fix: instead.map(str::to_owned),
            ..self.blank(NeedKind::Module, module, status)
        };
        let need = match found {
            Lookup::Standard(Standard::Available) => return,
            Lookup::Standard(Standard::Missing { why, instead }) => {
                let message = format!("the module `{module}` is not available: {why}");
                standard(NeedStatus::Unavailable, effect, message, instead)
            }
            Lookup::Standard(Standard::Limited { why, instead }) => {
                let message = format!("the module `{module}` does not work in the sandbox: {why}");
                let effect = effect.min(NeedEffect::Part);
                standard(NeedStatus::Unavailable, effect, message, Some(instead))
            }
            Lookup::Standard(Standard::Removed { since, instead }) => {
                let message = format!(
                    "the module `{module}` was removed in Python {since}; the sandbox has 3.14"
                );
                standard(NeedStatus::Removed, effect, message, Some(instead))
            }
            Lookup::InSet(package) => Need {
                version: Some(package.version.clone()),
                ..self.blank(NeedKind::Package, &package.name, NeedStatus::BuiltIn)
            },
            found => self.package(found, root, effect),
        };
        self.add(offset, need);
    }

    /// Returns the need for a package that is not in the package set.
    pub(super) fn package(&self, found: Lookup, name: &str, effect: NeedEffect) -> Need {
        let install = |name: &str| {
            format!("pip install --target DIR {name}, then run with --site-packages DIR")
        };
        let use_ = |instead: &str| format!("use {instead}");
        let (name, status, message, fix) = match found {
            Lookup::Known(known) => {
                let (name, instead) = (known.distribution, known.instead.map(use_));
                let (status, message, fix) = match known.why {
                    Why::Pure => (
                        NeedStatus::Pure,
                        "is pure Python, but not in the package set",
                        instead.or_else(|| Some(install(name))),
                    ),
                    Why::Native => (
                        NeedStatus::Native,
                        "needs native code, which the sandbox cannot load",
                        instead,
                    ),
                    Why::Sdk => {
                        let http = "call the service's HTTP API with requests or httpx".to_owned();
                        (
                            NeedStatus::Sdk,
                            "is the SDK of a service and not in the package set",
                            Some(http),
                        )
                    }
                };
                (name, status, format!("the package `{name}` {message}"), fix)
            }
            _ => {
                let message = format!(
                    "`{name}` is not in the standard library, the package set or the skill"
                );
                (
                    name,
                    NeedStatus::Unknown,
                    message,
                    Some(format!("if it is pure Python: {}", install(name))),
                )
            }
        };
        Need { effect, message: Some(message), fix, ..self.blank(NeedKind::Package, name, status) }
    }

    /// Judges a declared dependency.
    pub(super) fn declared(&mut self, dependency: &Dependency, offset: usize, effect: NeedEffect) {
        let Dependency { name, versions, .. } = dependency;
        let found = packages::distribution(name);
        let need = match found {
            Lookup::InSet(package) => {
                let accepted = dependencies::accepts(versions, &package.version);
                let message = format!(
                    "the package set holds {} {}, but `{versions}` is required",
                    package.name, package.version
                );
                let message = (!accepted).then_some(message);
                let version = Some(package.version.clone());
                Need {
                    version,
                    message,
                    ..self.blank(NeedKind::Package, &package.name, NeedStatus::BuiltIn)
                }
            }
            found => self.package(found, name, effect),
        };
        self.add(offset, need);
    }
}
