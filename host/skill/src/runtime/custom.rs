//! Custom runtimes: an embedder can add a component for each further script language.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use super::Component;
use super::built_in::ProgramError;
use super::dispatch::{self, FileKind, Interpreter};
use super::shebang::shebang;

/// A runtime for a script language. Its component gets the path of a script and its arguments, as in
/// `lua x.lua ARGS`.
///
/// It cannot replace a built-in program: the commands and extensions of those take precedence. It
/// runs in the same sandbox, with the capabilities of its caller.
pub trait Runtime: Send + Sync {
    /// Returns the commands that start it, such as `lua`. The first one runs scripts.
    fn commands(&self) -> Vec<String>;

    /// Returns the extensions of its scripts in lower case, without the dot, such as `lua`.
    fn extensions(&self) -> Vec<String>;

    /// Returns its component, a WASI command. Called once, when the component is first needed.
    ///
    /// # Errors
    /// The component is not available. Then its scripts do not run, and the error says why.
    fn component(&self) -> io::Result<Vec<u8>>;
}

/// The custom runtimes of an embedder. Cheap to clone.
#[derive(Clone, Default)]
pub struct Runtimes(Arc<[CustomRuntime]>);

struct CustomRuntime {
    commands: Vec<String>,
    extensions: Vec<String>,
    runtime: Arc<dyn Runtime>,
    component: OnceLock<Result<Component, ProgramError>>,
}

impl Runtimes {
    /// Creates the list of runtimes, in order of precedence.
    pub fn new(runtimes: Vec<Arc<dyn Runtime>>) -> Runtimes {
        let custom = |runtime: Arc<dyn Runtime>| CustomRuntime {
            commands: runtime.commands(),
            extensions: runtime.extensions(),
            runtime,
            component: OnceLock::new(),
        };
        Runtimes(runtimes.into_iter().map(custom).collect())
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
        let interpreter = |(one, args): (&CustomRuntime, _)| {
            Some(Interpreter { command: one.commands.first()?.clone(), args })
        };
        found.and_then(interpreter).map_or(known, FileKind::Script)
    }

    /// Returns the component for a command.
    ///
    /// # Errors
    /// The embedder cannot provide the component.
    pub(super) fn find(&self, command: &str) -> Result<Option<Component>, ProgramError> {
        let Some(one) = self.answering(command) else { return Ok(None) };
        let missing = |error: io::Error| ProgramError {
            message: format!("the program `{command}` is not available: {error}"),
            fix: None,
        };
        let component = one
            .component
            .get_or_init(|| one.runtime.component().map(Component::new).map_err(missing));
        component.clone().map(Some)
    }

    /// Returns all commands.
    pub fn commands(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(|one| &one.commands)
    }

    fn answering(&self, command: &str) -> Option<&CustomRuntime> {
        self.0.iter().find(|one| one.commands.iter().any(|name| name == command))
    }
}

impl fmt::Debug for Runtimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|one| &one.commands)).finish()
    }
}
