//! Languages of scripts that a host does not know by itself: an embedder brings a component for
//! each.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use super::Component;
use super::built_in::ProgramError;
use super::dispatch::{self, FileKind, Interpreter};
use super::shebang::shebang;

/// A language of scripts: a component that is given the script's path and its arguments, as
/// `lua x.lua ARGS`.
///
/// It never takes the place of a built-in program: the commands and extensions that those have stay
/// theirs. It runs in the same sandbox, with the capabilities of its caller.
pub trait Runtime: Send + Sync {
    /// The commands that it answers to, such as `lua`; scripts are run by the first.
    fn commands(&self) -> Vec<String>;

    /// The extensions of its scripts, without the dot and in lower case, such as `lua`.
    fn extensions(&self) -> Vec<String>;

    /// Its component, a WASI command. Asked when it is first needed, once.
    ///
    /// # Errors
    /// It cannot be had: then its scripts do not run, and the reason is told.
    fn component(&self) -> io::Result<Vec<u8>>;
}

/// The languages that an embedder brings. Cheap to clone.
#[derive(Clone, Default)]
pub struct Runtimes(Arc<[Brought]>);

struct Brought {
    commands: Vec<String>,
    extensions: Vec<String>,
    runtime: Arc<dyn Runtime>,
    component: OnceLock<Result<Component, ProgramError>>,
}

impl Runtimes {
    /// Those, first come first served.
    pub fn new(runtimes: Vec<Arc<dyn Runtime>>) -> Runtimes {
        let brought = |runtime: Arc<dyn Runtime>| Brought {
            commands: runtime.commands(),
            extensions: runtime.extensions(),
            runtime,
            component: OnceLock::new(),
        };
        Runtimes(runtimes.into_iter().map(brought).collect())
    }

    /// What a file is, by its path and the start of its content: as [`dispatch::classify`] says, and
    /// for what that does not run, by these.
    pub fn classify(&self, path: &str, head: &[u8]) -> FileKind {
        let known = dispatch::classify(path, head);
        if self.0.is_empty() || matches!(known, FileKind::Script(_)) {
            return known;
        }
        let found = match shebang(head) {
            Some((program, args)) => self.answering(&program).map(|one| (one, args)),
            None => {
                let extension = path
                    .rsplit('/')
                    .next()
                    .and_then(|name| name.rsplit_once('.'))
                    .map(|(_, extension)| extension);
                let extension = extension.map(str::to_ascii_lowercase);
                self.0
                    .iter()
                    .find(|one| extension.as_ref().is_some_and(|e| one.extensions.contains(e)))
                    .map(|one| (one, Vec::new()))
            }
        };
        let interpreter = |(one, args): (&Brought, _)| {
            Some(Interpreter { command: one.commands.first()?.clone(), args })
        };
        found.and_then(interpreter).map_or(known, FileKind::Script)
    }

    /// The component that a command means.
    ///
    /// # Errors
    /// The embedder does not have it.
    pub(super) fn find(&self, command: &str) -> Result<Option<Component>, ProgramError> {
        let Some(one) = self.answering(command) else { return Ok(None) };
        let missing = |error: io::Error| ProgramError {
            message: format!("the program `{command}` cannot be had: {error}"),
            fix: None,
        };
        let component = one
            .component
            .get_or_init(|| one.runtime.component().map(Component::new).map_err(missing));
        component.clone().map(Some)
    }

    /// All commands.
    pub(super) fn commands(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(|one| &one.commands)
    }

    fn answering(&self, command: &str) -> Option<&Brought> {
        self.0.iter().find(|one| one.commands.iter().any(|name| name == command))
    }
}

impl fmt::Debug for Runtimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|one| &one.commands)).finish()
    }
}
