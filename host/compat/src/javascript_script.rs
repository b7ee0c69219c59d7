//! Judges a JavaScript or TypeScript script: its imports, the commands that it starts, and the hosts
//! that it names.

use super::dependencies::Dependency;
use super::javascript_scan::{self, Command, Global, Import};
use super::judge::{Caller, Judge};
use super::need::{Need, NeedEffect, NeedKind, NeedStatus};
use super::node_modules::{self, NodeModule, NpmWhy};
use super::tries::{Tried, Tries};
use super::{Reach, network, shell_script};
use skillhost_skill::runtime::javascript;

/// Judges a text: the judge's, or one inside it at an offset.
pub(super) fn judge(judge: &mut Judge<'_>, text: &str, from: usize, nesting: usize) {
    let scan = javascript_scan::scan(text);
    let found: Vec<Found> =
        scan.imports.iter().map(|import| look_up(judge, &import.module)).collect();
    let imports = scan.imports.iter().zip(&found).map(|(import, found)| Tried {
        tried: import.tried,
        instead_of: import.instead_of,
        is_met: is_met(found),
    });
    let tries = Tries::of(&scan.tries, imports);
    for (import, found) in scan.imports.iter().zip(&found) {
        if tries.is_needless(import.instead_of) {
            continue;
        }
        let is_optional = tries.is_optional(import.tried);
        let effect = if is_optional { NeedEffect::None } else { judge.effect(import.reach) };
        judge.imported(found, import, from, effect);
    }
    for spawn in scan.spawns {
        let at = from + spawn.at.start;
        match spawn.command {
            Command::Argv(words) => shell_script::argv(judge, &words, at, spawn.reach),
            Command::Shell(command) => {
                let argv = [Some("sh".to_owned()), Some("-c".to_owned()), None];
                judge.command(&argv, at, spawn.reach, Caller::Program);
                let outer = judge.inside;
                judge.inside.get_or_insert(at);
                let whole = 0..command.len();
                shell_script::judge(
                    judge,
                    &command,
                    whole,
                    spawn.reach,
                    Caller::Shell,
                    nesting + 1,
                );
                judge.inside = outer;
            }
        }
    }
    for (global, at, reach) in scan.globals {
        judge.uses_global(global, from + at, reach);
    }
    for at in &scan.texts {
        let addresses: Vec<_> = network::addresses(&text[at.clone()]).collect();
        for (offset, to) in addresses {
            judge.names_host(from + at.start + offset, to);
        }
    }
}

/// What an import refers to.
enum Found {
    /// A file of the skill.
    File(String),
    /// A file that the skill lacks.
    MissingFile(String),
    /// A built-in module or a package, by its name.
    Module(String, NodeModule),
    /// A module that only another runtime can load, such as `bun:sqlite`.
    Foreign,
    /// Something that is provided or cannot be told.
    Other,
}

fn look_up(judge: &Judge<'_>, specifier: &str) -> Found {
    let facts = judge.facts;
    if specifier.starts_with('.') {
        let Some(files) = javascript::imported_files(judge.folder(), specifier) else {
            return Found::Other;
        };
        let found = files.iter().find(|path| facts.has(path));
        return match (found, files.first()) {
            (Some(path), _) => Found::File(path.clone()),
            (None, Some(path)) => Found::MissingFile(path.clone()),
            (None, None) => Found::Other,
        };
    }
    let (scheme, rest) = specifier.split_once(':').unwrap_or(("", specifier));
    match scheme {
        "" => {}
        "node" => return Found::Module(rest.to_owned(), node_modules::find(rest)),
        "bun" | "npm" | "jsr" | "http" | "https" => return Found::Foreign,
        _ => return Found::Other,
    }
    let name = node_modules::package_name(specifier);
    // A file by its absolute path, or an alias of a build tool.
    if !node_modules::is_package_name(name) {
        return Found::Other;
    }
    let found = node_modules::find(specifier);
    // `test` and `sqlite` are built in only as `node:test` and `node:sqlite`.
    let is_prefixed = matches!(specifier, "test" | "test/reporters" | "sqlite" | "sea");
    let found = if is_prefixed { node_modules::package(name) } else { found };
    let is_own = || {
        let folders = std::iter::successors(Some(judge.folder()), |folder| {
            (!folder.is_empty()).then(|| folder.rsplit_once('/').map_or("", |(up, _)| up))
        });
        folders.take(16).any(|folder| {
            let place = format!("{folder}/node_modules/{name}");
            facts.has_folder(place.trim_start_matches('/'))
        })
    };
    match found {
        NodeModule::Known { why: NpmWhy::Native | NpmWhy::Browser, .. } => {}
        NodeModule::Known { .. } | NodeModule::Unknown => {
            let root = name.split('/').next().unwrap_or(name);
            if is_own() || facts.provides_module(root) {
                return Found::Other;
            }
        }
        _ => {}
    }
    Found::Module(name_of(specifier, found).to_owned(), found)
}

/// Returns the name of what a specifier refers to: a built-in module with its path, or a package.
fn name_of(specifier: &str, found: NodeModule) -> &str {
    match found {
        NodeModule::BuiltIn | NodeModule::Limited { .. } | NodeModule::Missing { .. } => specifier,
        _ => node_modules::package_name(specifier),
    }
}

/// Checks whether what an import refers to is available.
fn is_met(found: &Found) -> bool {
    !matches!(
        found,
        Found::MissingFile(_)
            | Found::Foreign
            | Found::Module(
                _,
                NodeModule::Missing { .. } | NodeModule::Known { .. } | NodeModule::Unknown
            )
    )
}

impl Judge<'_> {
    fn imported(&mut self, found: &Found, import: &Import, from: usize, effect: NeedEffect) {
        let offset = from + import.at.start;
        match found {
            Found::Other => {}
            Found::File(path) => {
                let reach =
                    if effect == NeedEffect::Whole { Reach::Always } else { Reach::Sometimes };
                self.uses(path.clone(), true, offset, reach);
            }
            Found::MissingFile(path) => {
                let message = Some(format!("it imports `{path}`, which does not exist"));
                let blank = self.blank(NeedKind::File, path, NeedStatus::Missing);
                self.add(offset, Need { effect, message, ..blank });
            }
            Found::Foreign => {
                let message = Some(format!(
                    "`{}` is not available: only files, packages and Node's modules can be imported",
                    import.module
                ));
                let blank = self.blank(NeedKind::Module, &import.module, NeedStatus::Unavailable);
                self.add(offset, Need { effect, message, ..blank });
            }
            Found::Module(name, found) => {
                self.node_module(name, *found, offset, effect);
                if node_modules::is_http_client(name) {
                    self.asks(name, offset, import.reach);
                }
            }
        }
    }

    /// Judges a built-in module or a package.
    fn node_module(&mut self, name: &str, found: NodeModule, offset: usize, effect: NeedEffect) {
        let unavailable = |judge: &Self, message: String, instead: &str, effect| Need {
            effect,
            message: Some(message),
            fix: Some(instead.to_owned()),
            ..judge.blank(NeedKind::Module, name, NeedStatus::Unavailable)
        };
        let need = match found {
            NodeModule::BuiltIn => return,
            NodeModule::Limited { why, instead } => {
                let message = format!("the module `{name}` does not work in the sandbox: {why}");
                unavailable(self, message, instead, effect.min(NeedEffect::Part))
            }
            NodeModule::Missing { why, instead } => {
                let message = format!("the module `{name}` is not available: {why}");
                unavailable(self, message, instead, effect)
            }
            found => self.npm_package(name, found, effect),
        };
        self.add(offset, need);
    }

    /// Returns the need for a package.
    fn npm_package(&self, name: &str, found: NodeModule, effect: NeedEffect) -> Need {
        let (status, what, fix) = match found {
            NodeModule::InSet(package) => {
                return Need {
                    version: Some(package.version.clone()),
                    ..self.blank(NeedKind::Package, name, NeedStatus::BuiltIn)
                };
            }
            NodeModule::Known { why, instead } => {
                let (status, what) = match why {
                    NpmWhy::Native => {
                        (NeedStatus::Native, "needs native code, which the sandbox cannot load")
                    }
                    NpmWhy::Browser => {
                        (NeedStatus::Native, "needs a browser, which the sandbox does not have")
                    }
                    NpmWhy::Server => {
                        (NeedStatus::Unavailable, "listens for connections, which nothing here can")
                    }
                    NpmWhy::Sockets => {
                        (NeedStatus::Unavailable, "connects to something other than an HTTP server")
                    }
                    NpmWhy::Sdk => {
                        (NeedStatus::Sdk, "is the SDK of a service and not in the package set")
                    }
                };
                (status, format!("the package `{name}` {what}"), instead.map(str::to_owned))
            }
            _ => (
                NeedStatus::Unknown,
                format!("the package `{name}` is not in the package set or the skill"),
                Some(format!(
                    "if it is pure JavaScript: npm install --prefix DIR {name}, then run with --site-packages DIR/node_modules"
                )),
            ),
        };
        Need { effect, message: Some(what), fix, ..self.blank(NeedKind::Package, name, status) }
    }

    /// Judges a package that `package.json` or `npm install` names.
    pub(super) fn declared_npm(
        &mut self,
        dependency: &Dependency,
        offset: usize,
        effect: NeedEffect,
    ) {
        let found = node_modules::package(&dependency.name);
        let need = self.npm_package(&dependency.name, found, effect);
        self.add(offset, need);
    }

    fn uses_global(&mut self, global: Global, offset: usize, reach: Reach) {
        let effect = self.effect(reach).min(NeedEffect::Part);
        let (name, what, fix) = match global {
            Global::Fetch => return self.asks("fetch", offset, reach),
            Global::WebSocket => ("WebSocket", "only HTTP requests leave the sandbox", "use fetch"),
            Global::EventSource => ("EventSource", "responses are read as a whole", "use fetch"),
            Global::Bun => ("Bun", "scripts run as in Node", "use Node's modules"),
            Global::Deno => ("Deno", "scripts run as in Node", "use Node's modules"),
        };
        let need = Need {
            effect,
            message: Some(format!("`{name}` is not available: {what}")),
            fix: Some(fix.to_owned()),
            ..self.blank(NeedKind::Module, name, NeedStatus::Unavailable)
        };
        self.add(offset, need);
    }
}
