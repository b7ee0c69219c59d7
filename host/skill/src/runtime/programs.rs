//! The programs that an invocation can start: those that come with the host, and those that the
//! skill brings.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, OnceLock};

use super::built_in::{BUILD_COMMAND, BuiltIn, BuiltIns, EXPECTED_PROGRAMS, ProgramError};
use super::digests::Digests;
use super::dispatch::FileKind;
use super::{Component, Program};
use crate::Skill;
use skillhost_policy::program_name::{installed_name, interpreter};

/// The programs of one invocation, by the commands that start them.
///
/// A built-in program comes first, so that a skill cannot put its own in the place of `python3` or
/// `bash`: whoever allows `Bash(python3:*)` means the one that they know. The skill's own are each
/// `.wasm` file by its stem, and the main component by the skill's name too.
#[derive(Debug, Clone)]
pub struct Programs {
    skill: Arc<Skill>,
    /// Of those of the skill's own: the path.
    paths: BTreeMap<String, String>,
    digests: Digests,
    built_ins: BuiltIns,
    listed: OnceLock<Result<Vec<Arc<BuiltIn>>, ProgramError>>,
    /// Those of the skill's files that are not started.
    denied: Vec<DeniedFile>,
}

/// A file of the skill that is not started.
#[derive(Debug, Clone)]
pub struct DeniedFile {
    /// Its path in the skill.
    pub path: String,
    /// How many bytes it has.
    pub(crate) size: usize,
    /// Their digest: a copy elsewhere, or a link to it, is the same program.
    pub digest: String,
}

impl Programs {
    /// Lists a skill's programs; reads none, and none of the built-in ones until one is looked for.
    pub fn new(skill: Arc<Skill>, digests: Digests, built_ins: BuiltIns) -> Programs {
        let mut paths = BTreeMap::new();
        for file in &skill.files {
            let name = file.path.rsplit('/').next().unwrap_or(&file.path);
            if let Some(stem) = name.strip_suffix(".wasm") {
                paths.entry(stem.to_owned()).or_insert_with(|| file.path.clone());
            }
        }
        if let Some(main) = &skill.manifest.component {
            paths.insert(skill.manifest.name.clone(), main.clone());
        }
        Programs { skill, paths, digests, built_ins, listed: OnceLock::new(), denied: Vec::new() }
    }

    /// The same programs, of which these files of the skill are not started.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn denying(&self, files: &BTreeSet<String>) -> io::Result<Programs> {
        let mut denied = Vec::new();
        for file in self.skill.files.iter().filter(|file| files.contains(&file.path)) {
            match self.skill.read(&file.path) {
                Ok(bytes) => denied.push(DeniedFile {
                    path: file.path.clone(),
                    size: bytes.len(),
                    digest: super::digest(&bytes),
                }),
                // It leads to a folder, or nowhere.
                Err(_) if file.link.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Programs { denied, ..self.clone() })
    }

    /// Those of the skill's files that are not started.
    pub fn denied_files(&self) -> &[DeniedFile] {
        &self.denied
    }

    /// Their paths in the skill.
    pub fn denied_paths(&self) -> impl Iterator<Item = String> {
        self.denied.iter().map(|file| file.path.clone())
    }

    /// Whether a command is an interpreter that an embedder brings.
    pub(super) fn is_custom(&self, command: &str) -> bool {
        self.built_ins.custom.commands().any(|known| known == command)
    }

    /// The commands that can be started.
    pub fn names(&self) -> Vec<String> {
        let built_in =
            self.built_ins().unwrap_or_default().iter().flat_map(|one| &one.description.programs);
        let mut names: Vec<String> = built_in
            .chain(self.built_ins.custom.commands())
            .chain(self.paths.keys())
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The commands that the skill's own components are.
    pub(super) fn brought(&self) -> Vec<&str> {
        self.paths.keys().map(String::as_str).collect()
    }

    /// The skill's digests.
    pub fn digests(&self) -> &Digests {
        &self.digests
    }

    /// The skill.
    pub fn skill(&self) -> &Skill {
        &self.skill
    }

    /// The built-in programs.
    ///
    /// # Errors
    /// One of their JSON files is broken.
    pub fn built_ins(&self) -> Result<&[Arc<BuiltIn>], ProgramError> {
        let list = || Ok(self.built_ins.list()?.into_iter().map(Arc::new).collect());
        self.listed.get_or_init(list).as_ref().map(Vec::as_slice).map_err(Clone::clone)
    }

    /// The component that a command's first word names; `None` where there is none.
    ///
    /// A path means a built-in program where programs are installed (`/usr/bin/jq`), and wherever
    /// it is for the interpreters (`.venv/bin/python3`). `./sort` is a file of the caller's own.
    ///
    /// # Errors
    /// It is one that is broken or missing, or cannot be read.
    pub fn find(&self, command: &str) -> Result<Option<Component>, ProgramError> {
        let file = file_name(command);
        let interpreter = interpreter(file);
        if let Some(name) = interpreter.or_else(|| installed_name(command))
            && let Some(built_in) = self.answering(name)?
        {
            return built_in.component().map(Some);
        }
        if let Some(name) = interpreter
            .filter(|name| EXPECTED_PROGRAMS.iter().any(|(_, commands)| commands.contains(name)))
        {
            // Never the skill's own in its place.
            return Err(self.missing(name));
        }
        if let Some(component) =
            installed_name(command).map_or(Ok(None), |name| self.built_ins.custom.find(name))?
        {
            return Ok(Some(component));
        }
        if self.impersonates_built_in(command) {
            return Ok(None);
        }
        let Some(path) = self.paths.get(file.strip_suffix(".wasm").unwrap_or(file)) else {
            return Ok(None);
        };
        self.component_at(path)
            .map(Some)
            .map_err(|error| ProgramError { message: format!("{path}: {error}"), fix: None })
    }

    /// What a file is to someone who wants to run it, by its path and the start of its content.
    pub fn classify(&self, path: &str, head: &[u8]) -> FileKind {
        self.built_ins.custom.classify(path, head)
    }

    /// One of the skill's own components, by its path.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn component_at(&self, path: &str) -> io::Result<Component> {
        match self.digests.components.get(path) {
            Some(digest) => Ok(Component::own(&self.skill, path, digest)),
            None => Ok(Component::new(self.skill.read(path)?)),
        }
    }

    /// Whether a path ends in a built-in program's command without meaning it: whoever allows
    /// `Bash(jq:*)` does not mean `./jq`.
    pub fn impersonates_built_in(&self, command: &str) -> bool {
        let file = file_name(command);
        let is_own = installed_name(command).is_none() && interpreter(file).is_none();
        is_own && self.answering(file).is_ok_and(|found| found.is_some())
    }

    /// The command lines that mean a program: one for each name that it has. A component of the
    /// skill answers to several.
    pub fn command_lines_of(&self, program: &Program) -> Vec<Vec<String>> {
        let is_it =
            |path: &String| self.digests.components.get(path) == Some(&program.component.digest);
        let own = self.paths.iter().filter(|(_, path)| is_it(path)).map(|(name, _)| name);
        std::iter::once(&program.name)
            .chain(own)
            .map(|name| [std::slice::from_ref(name), &program.args[..]].concat())
            .collect()
    }

    fn answering(&self, name: &str) -> Result<Option<&Arc<BuiltIn>>, ProgramError> {
        Ok(self
            .built_ins()?
            .iter()
            .find(|one| one.description.programs.iter().any(|program| program == name)))
    }

    fn missing(&self, command: &str) -> ProgramError {
        let folders: Vec<String> =
            self.built_ins.folders.iter().map(|folder| folder.display().to_string()).collect();
        let place = if folders.is_empty() {
            "no folder of programs is here".into()
        } else {
            format!("not in {}", folders.join(", "))
        };
        ProgramError {
            message: format!("the program `{command}` is not installed: {place}"),
            fix: Some(format!(
                "build it: `{BUILD_COMMAND}`; or name the folder that holds it: `--programs DIR`"
            )),
        }
    }
}

fn file_name(command: &str) -> &str {
    command.rsplit('/').next().unwrap_or(command)
}
