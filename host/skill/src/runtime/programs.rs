//! The programs that a run can start: built-in programs, custom runtimes, and the skill's components.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, OnceLock};

use super::built_in::{BUILD_COMMAND, BuiltIn, BuiltIns, EXPECTED_PROGRAMS, ProgramError};
use super::digests::Digests;
use super::dispatch::FileKind;
use super::{Component, Program};
use crate::Skill;
use skillhost_policy::program_name::{installed_name, interpreter};

/// The programs of one run, by the commands that start them.
///
/// Built-in programs take precedence, so a skill cannot replace `python3` or `bash`: an operator who
/// allows `Bash(python3:*)` means the built-in one. Each `.wasm` file of the skill is a program by
/// its stem, and the main component also by the skill's name. A host program takes precedence over
/// these too, whether or not the skill may start it.
#[derive(Debug, Clone)]
pub struct Programs {
    skill: Arc<Skill>,
    /// The paths of the skill's components, by command.
    paths: BTreeMap<String, String>,
    digests: Digests,
    built_ins: BuiltIns,
    listed: OnceLock<Result<Vec<Arc<BuiltIn>>, ProgramError>>,
    /// The files of the skill that must not be started.
    denied: Vec<DeniedFile>,
}

/// A file of the skill that must not be started.
#[derive(Debug, Clone)]
pub struct DeniedFile {
    /// The path in the skill.
    pub path: String,
    /// The size in bytes.
    pub(crate) size: usize,
    /// The digest. A copy of the file or a symlink to it is the same program.
    pub digest: String,
}

impl Programs {
    /// Lists a skill's programs without reading files. Built-in programs are listed when needed.
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

    /// Returns the programs with some of the skill's files denied.
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
                // The symlink points to a folder, or is broken.
                Err(_) if file.link.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Programs { denied, ..self.clone() })
    }

    /// Returns the files of the skill that must not be started.
    pub fn denied_files(&self) -> &[DeniedFile] {
        &self.denied
    }

    /// Returns the paths of the denied files in the skill.
    pub fn denied_paths(&self) -> impl Iterator<Item = String> {
        self.denied.iter().map(|file| file.path.clone())
    }

    /// Returns the name of the host program that a command means, if any. A built-in program or a
    /// custom runtime of that name takes precedence. A path means one only in a folder for programs.
    ///
    /// # Errors
    /// The JSON file of a built-in program is invalid.
    pub fn host_program(&self, command: &str) -> Result<Option<&str>, ProgramError> {
        let name = installed_name(command).and_then(|name| self.built_ins.host_programs.get(name));
        let Some(name) = name else { return Ok(None) };
        let is_replaced = self.built_in_for(name)?.is_some() || self.is_custom(name);
        Ok((!is_replaced).then_some(name))
    }

    /// Checks whether a command belongs to a custom runtime.
    pub(super) fn is_custom(&self, command: &str) -> bool {
        self.built_ins.custom.commands().any(|known| known == command)
    }

    /// Returns the commands that can be started.
    pub fn names(&self) -> Vec<String> {
        let built_in =
            self.built_ins().unwrap_or_default().iter().flat_map(|one| &one.description.programs);
        let mut names: Vec<String> = built_in
            .chain(self.built_ins.custom.commands())
            .chain(self.built_ins.host_programs.iter())
            .chain(self.paths.keys())
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the commands of the skill's components.
    pub(super) fn skill_commands(&self) -> Vec<&str> {
        self.paths.keys().map(String::as_str).collect()
    }

    /// Returns the skill's digests.
    pub fn digests(&self) -> &Digests {
        &self.digests
    }

    /// Returns the skill.
    pub fn skill(&self) -> &Skill {
        &self.skill
    }

    /// Returns the built-in programs.
    ///
    /// # Errors
    /// One of their JSON files is invalid.
    pub fn built_ins(&self) -> Result<&[Arc<BuiltIn>], ProgramError> {
        let list = || Ok(self.built_ins.list()?.into_iter().map(Arc::new).collect());
        self.listed.get_or_init(list).as_ref().map(Vec::as_slice).map_err(Clone::clone)
    }

    /// Returns the component for the first word of a command line, or `None` if there is none.
    ///
    /// A path means a built-in program if it is in a folder for programs (`/usr/bin/jq`), and for
    /// interpreters in any folder (`.venv/bin/python3`). `./sort` is a file of the caller.
    ///
    /// # Errors
    /// The program is invalid, missing or unreadable.
    pub fn find(&self, command: &str) -> Result<Option<Component>, ProgramError> {
        let file = file_name(command);
        let interpreter = interpreter(file);
        if let Some(name) = interpreter.or_else(|| installed_name(command))
            && let Some(built_in) = self.built_in_for(name)?
        {
            return built_in.component().map(Some);
        }
        if let Some(name) = interpreter
            .filter(|name| EXPECTED_PROGRAMS.iter().any(|(_, commands)| commands.contains(name)))
        {
            // Do not fall back to a component of the skill.
            return Err(self.missing(name));
        }
        if let Some(component) =
            installed_name(command).map_or(Ok(None), |name| self.built_ins.custom.find(name))?
        {
            return Ok(Some(component));
        }
        if self.host_program(command)?.is_some() || self.impersonates_built_in(command) {
            return Ok(None);
        }
        let Some(path) = self.paths.get(file.strip_suffix(".wasm").unwrap_or(file)) else {
            return Ok(None);
        };
        self.component_at(path)
            .map(Some)
            .map_err(|error| ProgramError { message: format!("{path}: {error}"), fix: None })
    }

    /// Classifies a file by its path and the start of its content.
    pub fn classify(&self, path: &str, head: &[u8]) -> FileKind {
        self.built_ins.custom.classify(path, head)
    }

    /// Returns the skill's component at a path.
    ///
    /// # Errors
    /// The file does not exist or cannot be read.
    pub fn component_at(&self, path: &str) -> io::Result<Component> {
        match self.digests.components.get(path) {
            Some(digest) => Ok(Component::own(&self.skill, path, digest)),
            None => {
                let digest = super::digest(&self.skill.read(path)?);
                Ok(Component::own(&self.skill, path, &digest))
            }
        }
    }

    /// Checks whether a path ends in the command of a built-in or host program without meaning it.
    /// An operator who allows `Bash(jq:*)` does not mean `./jq`.
    pub fn impersonates_built_in(&self, command: &str) -> bool {
        let file = file_name(command);
        let is_own = installed_name(command).is_none() && interpreter(file).is_none();
        is_own
            && (self.built_ins.host_programs.contains(file)
                || self.built_in_for(file).is_ok_and(|found| found.is_some()))
    }

    /// Returns the command lines that start a program, one for each of its names. A component of the
    /// skill can have several.
    pub fn command_lines_of(&self, program: &Program) -> Vec<Vec<String>> {
        let is_it =
            |path: &String| self.digests.components.get(path) == Some(&program.component.digest);
        let own = self.paths.iter().filter(|(_, path)| is_it(path)).map(|(name, _)| name);
        std::iter::once(&program.name)
            .chain(own)
            .map(|name| [std::slice::from_ref(name), &program.args[..]].concat())
            .collect()
    }

    fn built_in_for(&self, name: &str) -> Result<Option<&Arc<BuiltIn>>, ProgramError> {
        Ok(self
            .built_ins()?
            .iter()
            .find(|one| one.description.programs.iter().any(|program| program == name)))
    }

    fn missing(&self, command: &str) -> ProgramError {
        let folders: Vec<String> =
            self.built_ins.folders.iter().map(|folder| folder.display().to_string()).collect();
        let place = if folders.is_empty() {
            "no folder of runtimes was found".into()
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
