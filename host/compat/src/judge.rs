//! Compares the needs of a text with what is available: the runtimes, the files of the skill, and its
//! capabilities.

use std::collections::{HashMap, HashSet};

use super::known_commands::{self, Availability};
use super::need::{Lines, Need, NeedEffect, NeedKind, NeedStatus, Place};
use super::references::{self, Resolved};
use super::sourced::SharedFunctions;
use super::{Reach, Role, packages};
use skillhost_policy::capabilities::{Capabilities, Scope};
use skillhost_policy::pattern::{CommandPattern, Destination};
use skillhost_policy::refusal::Refusal;
use skillhost_skill::Skill;
use skillhost_skill::files::SkillFile;
use skillhost_skill::runtime::javascript;

/// The most needs of one script that are met, and that are not. An author reads a few, and a hostile
/// text could cause millions.
const MAX_NEEDS: usize = 100;

/// The facts about a skill that all its scripts share.
pub(super) struct Facts<'a> {
    /// The name of the skill's folder.
    pub(super) name: &'a str,
    /// The files, sorted by path.
    files: &'a [SkillFile],
    /// Whether the skill is granted nothing because of its frontmatter.
    recovered: bool,
    pub(super) capabilities: &'a Capabilities,
    /// The names under which files and folders anywhere in the skill can be imported.
    modules: HashSet<&'a str>,
    /// The first file of each name, anywhere in the skill.
    names: HashMap<&'a str, &'a str>,
    /// The modules in the folders of `--site-packages`.
    provided: HashSet<String>,
    /// The functions that shell scripts share because one sources another.
    shared_functions: SharedFunctions,
}

/// The reason why something is not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    Denied,
    Recovered,
    Operator,
    Skill,
}

impl<'a> Facts<'a> {
    pub(super) fn of(skill: &'a Skill, capabilities: &'a Capabilities) -> Facts<'a> {
        let (name, files) = (skill.name.as_str(), skill.files.as_slice());
        let python = files.iter().filter_map(|file| file.path.strip_suffix(".py"));
        let modules = python.flat_map(|path| path.split('/')).collect();
        let paths = files.iter().rev().map(|file| file.path.as_str());
        let names = paths.map(|path| (path.rsplit('/').next().unwrap_or(path), path)).collect();
        let provided = packages::provided(&capabilities.packages);
        let mut facts = Facts {
            name,
            files,
            recovered: skill.manifest.is_granted_nothing(),
            capabilities,
            modules,
            names,
            provided,
            shared_functions: SharedFunctions::default(),
        };
        facts.shared_functions = SharedFunctions::of(skill, &facts);
        facts
    }

    /// Checks whether a file has a function because it sources another file, or is sourced by one.
    pub(super) fn shares_function(&self, file: &str, name: &str) -> bool {
        self.shared_functions.has(file, name)
    }

    /// Checks whether the skill has a file at a path.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.binary_search_by(|f| f.path.as_str().cmp(path)).is_ok()
    }

    /// Checks whether the skill has files below a folder.
    pub(super) fn has_folder(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        let at = self.files.partition_point(|f| f.path < inside);
        self.files.get(at).is_some_and(|f| f.path.starts_with(&inside))
    }

    /// Returns the first file of a name, anywhere in the skill.
    pub(super) fn named(&self, name: &str) -> Option<&'a str> {
        self.names.get(name).copied()
    }

    /// Checks whether a module of this name is in a folder.
    pub(super) fn has_module_in(&self, folder: &str, name: &str) -> bool {
        let base = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let inside = format!("{base}/");
        let at = self.files.partition_point(|f| f.path < inside);
        self.has(&format!("{base}.py"))
            || self.files.get(at).is_some_and(|f| f.path.starts_with(&inside))
    }

    /// Checks whether the skill has a module of this name anywhere.
    pub(super) fn has_module(&self, name: &str) -> bool {
        self.modules.contains(name)
    }

    /// Checks whether the operator provides a module of this name.
    pub(super) fn provides_module(&self, name: &str) -> bool {
        self.provided.contains(name)
    }

    /// Returns the file of a dotted module name that is imported by a file in a folder.
    pub(super) fn module_file(&self, folder: &str, module: &str) -> Option<String> {
        let path = module.replace('.', "/");
        let folders = std::iter::successors(Some(folder), |f| {
            (!f.is_empty()).then(|| f.rsplit_once('/').map_or("", |(up, _)| up))
        });
        let mut found = folders.flat_map(|folder| {
            let base = if folder.is_empty() { path.clone() } else { format!("{folder}/{path}") };
            [format!("{base}.py"), format!("{base}/__init__.py")]
        });
        found.find(|path| self.has(path)).or_else(|| {
            let file = format!("{path}.py");
            self.named(file.rsplit('/').next().unwrap_or(&file))
                .filter(|there| there.ends_with(&file))
                .map(str::to_owned)
        })
    }

    /// Returns why a scope does not grant something, or `None` if it does. `matches` and `denied`
    /// compare it with one pattern.
    pub(super) fn lack<P>(
        &self,
        scope: &Scope<P>,
        matches: impl Fn(&P) -> bool,
        denied: impl Fn(&P) -> bool,
    ) -> Option<Lack> {
        if self.recovered {
            return Some(Lack::Recovered);
        }
        if scope.none_of.iter().any(denied) {
            return Some(Lack::Denied);
        }
        let lacks = |side: Option<&Vec<P>>| !side.is_some_and(|side| side.iter().any(&matches));
        // The operator's side is the last one. The first omits requests that overlap with nothing.
        match () {
            () if lacks(scope.all_of.last()) => Some(Lack::Operator),
            // A request that overlaps with no entry of the operator may mean the same in other words.
            () if lacks(scope.all_of.first()) && lacks(Some(&scope.unmet)) => Some(Lack::Skill),
            () => None,
        }
    }
}

/// Judges one text.
pub(super) struct Judge<'a> {
    pub(super) facts: &'a Facts<'a>,
    file: &'a str,
    text: &'a str,
    pub(super) role: Role,
    /// The needs, with their offsets in the text.
    needs: Vec<(usize, Need)>,
    seen: HashMap<(NeedKind, String), usize>,
    /// The numbers of needs that are met, and that are not.
    kept: [usize; 2],
    /// The offset that is reported for texts inside the text: the start of the outermost one.
    pub(super) inside: Option<usize>,
    /// The files of the skill that are imported or run, with the offsets.
    uses: Vec<(usize, Use)>,
    /// The first thing that sends requests.
    pub(super) client: Option<(String, usize, Reach)>,
    pub(super) hosts: Vec<(usize, Destination)>,
}

/// Who starts a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    Shell,
    /// A script in another language, which starts each command as a program.
    Program,
}

/// The result of judging a text: its needs, and the files of the skill that it uses.
pub(super) struct Judged {
    pub(super) needs: Vec<Need>,
    pub(super) uses: Vec<Use>,
}

/// A file of the skill that a text imports or runs.
pub(super) struct Use {
    pub(super) path: String,
    pub(super) imported: bool,
    pub(super) reach: Reach,
    pub(super) place: Place,
}

impl<'a> Judge<'a> {
    pub(super) fn new(facts: &'a Facts<'a>, file: &'a str, text: &'a str, role: Role) -> Judge<'a> {
        let (needs, seen, uses, hosts) = (Vec::new(), HashMap::new(), Vec::new(), Vec::new());
        Judge {
            facts,
            file,
            text,
            role,
            needs,
            seen,
            kept: [0; 2],
            inside: None,
            uses,
            client: None,
            hosts,
        }
    }

    pub(super) fn finish(mut self) -> Judged {
        self.network();
        self.needs.sort_by_key(|(offset, _)| *offset);
        if self.needs.is_empty() && self.uses.is_empty() {
            return Judged { needs: Vec::new(), uses: Vec::new() };
        }
        let lines = Lines::new(self.text);
        let needs = self
            .needs
            .into_iter()
            .map(|(offset, need)| Need { place: lines.place(self.file, offset), ..need });
        let uses = self
            .uses
            .into_iter()
            .map(|(offset, used)| Use { place: lines.place(self.file, offset), ..used });
        Judged { needs: needs.collect(), uses: uses.collect() }
    }

    /// Checks whether the file has a function from another one.
    pub(super) fn shares_function(&self, name: &str) -> bool {
        self.facts.shares_function(self.file, name)
    }

    /// Returns the folder of the file.
    pub(super) fn folder(&self) -> &'a str {
        self.file.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Creates a need without a problem.
    pub(super) fn blank(&self, kind: NeedKind, name: &str, status: NeedStatus) -> Need {
        let place = self.nowhere();
        Need {
            kind,
            name: name.to_owned(),
            status,
            effect: NeedEffect::None,
            version: None,
            place,
            message: None,
            fix: None,
        }
    }

    /// Returns the place of a need until `finish` computes it.
    fn nowhere(&self) -> Place {
        Place { file: String::new(), line: 0, column: 0 }
    }

    /// Returns what fails without something that is reached in this way.
    pub(super) fn effect(&self, reach: Reach) -> NeedEffect {
        if reach == Reach::Always { NeedEffect::Whole } else { NeedEffect::Part }
    }

    /// Adds a need. Merges needs of the same kind and name: keeps the first place and the worse effect.
    pub(super) fn add(&mut self, offset: usize, need: Need) {
        let offset = self.inside.unwrap_or(offset);
        let key = (need.kind, need.name.clone());
        if let Some(at) = self.seen.get(&key) {
            let (first, known) = &mut self.needs[*at];
            if need.effect > known.effect || (need.is_unmet() && !known.is_unmet()) {
                (*first, *known) = (offset, need);
            }
            return;
        }
        let kept = &mut self.kept[usize::from(need.is_unmet())];
        if *kept < MAX_NEEDS {
            *kept += 1;
            self.seen.insert(key, self.needs.len());
            self.needs.push((offset, need));
        }
    }

    /// Adds a file that is run. Returns `false` if it is not a file of the skill.
    pub(super) fn runs(&mut self, named: &str, offset: usize, reach: Reach) -> bool {
        let Resolved::Own(path) = references::resolve(named, self.facts) else { return false };
        self.uses(path, false, offset, reach);
        true
    }

    /// Adds a file of the skill that is imported or run.
    pub(super) fn uses(&mut self, path: String, imported: bool, offset: usize, reach: Reach) {
        if path != self.file && self.uses.len() < MAX_NEEDS {
            let place = self.nowhere();
            self.uses.push((self.inside.unwrap_or(offset), Use { path, imported, reach, place }));
        }
    }

    /// Adds something that sends requests.
    pub(super) fn asks(&mut self, client: &str, offset: usize, reach: Reach) {
        let offset = self.inside.unwrap_or(offset);
        self.client.get_or_insert_with(|| (client.to_owned(), offset, reach));
    }

    /// Adds a host that the text names.
    pub(super) fn names_host(&mut self, offset: usize, to: Destination) {
        if self.hosts.len() < MAX_NEEDS && !self.hosts.iter().any(|(_, known)| *known == to) {
            self.hosts.push((self.inside.unwrap_or(offset), to));
        }
    }

    /// Judges a command line. `None` stands for an unknown word.
    pub(super) fn command(
        &mut self,
        argv: &[Option<String>],
        offset: usize,
        reach: Reach,
        caller: Caller,
    ) {
        let Some(Some(program)) = argv.first() else { return };
        let name = program.rsplit('/').next().unwrap_or(program);
        let path = program.strip_suffix(name).unwrap_or_default();
        let standard = matches!(
            path,
            "" | "/bin/"
                | "/usr/bin/"
                | "/usr/local/bin/"
                | "/usr/sbin/"
                | "/sbin/"
                | "/opt/homebrew/bin/"
        );
        if !standard || name.is_empty() || self.runs(program, offset, reach) {
            return;
        }
        // A word with other characters is a placeholder or text.
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+[:".contains(&b)) {
            return;
        }
        let effect = self.effect(reach);
        let unavailable = |what: &str| format!("`{name}` is not available: it {what}");
        let (status, effect, message, fix) = match known_commands::availability(name) {
            Availability::BuiltIn => match self.subcommand(name, argv) {
                Some((sub, why)) => {
                    let name = format!("{name} {sub}");
                    let message = Some(format!("`{name}` is not available: {why}"));
                    return self.add(
                        offset,
                        Need {
                            effect,
                            message,
                            ..self.blank(NeedKind::Command, &name, NeedStatus::Unavailable)
                        },
                    );
                }
                None if caller == Caller::Program => self.granted(argv, name),
                None => (NeedStatus::BuiltIn, NeedEffect::None, None, None),
            },
            Availability::Program => self.granted(argv, name),
            // A component of the skill is a program by its name.
            _ if self.facts.named(&format!("{name}.wasm")).is_some() => self.granted(argv, name),
            Availability::Installer => (
                NeedStatus::Unavailable,
                NeedEffect::None,
                Some(format!("`{name}` cannot install anything in the sandbox")),
                None,
            ),
            Availability::Unavailable(what, instead) => (
                NeedStatus::Unavailable,
                effect,
                Some(unavailable(what)),
                instead.map(str::to_owned),
            ),
            Availability::Unknown => {
                // A block of instructions may contain anything.
                let effect = if self.role == Role::Block { NeedEffect::Part } else { effect };
                let fix = "add it to the skill as a script or a component".to_owned();
                (
                    NeedStatus::Unknown,
                    effect,
                    Some(format!("`{name}` is not a command of the sandbox")),
                    Some(fix),
                )
            }
        };
        self.add(
            offset,
            Need { effect, message, fix, ..self.blank(NeedKind::Command, name, status) },
        );
    }

    /// Returns the subcommand if it does not work in the sandbox, and why.
    fn subcommand(&self, name: &str, argv: &[Option<String>]) -> Option<(String, &'static str)> {
        let (working, why) = known_commands::subcommands(name)?;
        let mut words = argv[1..].iter();
        while let Some(Some(word)) = words.next() {
            match word.as_str() {
                "-C" | "-c" => drop(words.next()),
                _ if word.starts_with('-') => {}
                sub if working.contains(&sub)
                    || !sub.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') =>
                {
                    return None;
                }
                sub => return Some((sub.to_owned(), why)),
            }
        }
        None
    }

    /// Judges whether the capabilities allow a program.
    fn granted(
        &self,
        argv: &[Option<String>],
        name: &str,
    ) -> (NeedStatus, NeedEffect, Option<String>, Option<String>) {
        let mut literal: Vec<String> = argv.iter().map_while(Clone::clone).collect();
        let whole = literal.len() == argv.len();
        let mut program = name;
        // The sandbox starts pip as a module of Python.
        if matches!(name, "pip" | "pip3") && !literal.is_empty() {
            literal.splice(0..1, ["python3", "-m", "pip"].map(str::to_owned));
            program = "python3";
        }
        // An entry for `npx tsx` or for `node` allows `npx tsx x.ts`.
        let node = literal.split_first().and_then(|(_, args)| {
            let args = javascript::node_arguments(name, args)?;
            program = if args.is_ok() { "node" } else { name };
            Some([vec!["node".to_owned()], args.unwrap_or_default()].concat())
        });
        let spellings: Vec<CommandPattern> = [Some(literal), node]
            .into_iter()
            .flatten()
            .map(|words| CommandPattern { words, open: true })
            .collect();
        let matches = |p: &CommandPattern| {
            spellings.iter().any(|one| if whole { p.matches(&one.words) } else { p.overlaps(one) })
        };
        let denies = |p: &CommandPattern| spellings.iter().any(|one| p.denies_some(one));
        let lack = self.facts.lack(&self.facts.capabilities.spawn, matches, denies);
        match lack {
            None => (NeedStatus::Granted, NeedEffect::None, None, None),
            Some(lack) => {
                let Refusal { why, fix } = lack.explain(&format!("Bash({program}:*)"));
                (
                    NeedStatus::NotGranted,
                    NeedEffect::Part,
                    Some(format!("the program `{name}` is not granted: {why}")),
                    fix,
                )
            }
        }
    }
}
