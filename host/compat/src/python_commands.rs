//! Finds the commands that a Python script starts with literal arguments or a literal shell command.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::Reach;
use super::tokens::{Kind, Token};

/// The most tokens of a call that are read.
const MAX_CALL: usize = 400;

/// A command that a script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spawn {
    pub(super) command: SpawnedCommand,
    pub(super) reach: Reach,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SpawnedCommand {
    Argv(Argv),
    /// A shell command: the range between its quotes.
    Shell(Range<usize>),
}

/// The arguments, `None` for an unknown one, and the range of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argv {
    pub(super) words: Vec<Option<String>>,
    pub(super) at: Range<usize>,
}

/// Finds commands, statement by statement.
#[derive(Debug, Default)]
pub(super) struct Calls<'a> {
    pub(super) spawns: Vec<Spawn>,
    /// The names under which modules that start commands were imported.
    modules: HashMap<String, &'static str>,
    /// The names under which functions of these modules were imported.
    functions: HashMap<String, String>,
    /// Lists that were assigned to a variable.
    lists: HashMap<&'a str, Argv>,
    seen: HashSet<usize>,
}

const MODULES: [&str; 3] = ["subprocess", "os", "asyncio"];

impl<'a> Calls<'a> {
    /// Records `import name as alias`.
    pub(super) fn imported(&mut self, name: &str, alias: &str) {
        if let Some(module) = MODULES.iter().find(|module| **module == name) {
            self.modules.insert(alias.to_owned(), module);
        }
    }

    /// Records `from module import name as alias`.
    pub(super) fn imported_from(&mut self, module: &str, name: &str, alias: &str) {
        if MODULES.contains(&module) && takes(module, name).is_some() {
            self.functions.insert(alias.to_owned(), format!("{module}.{name}"));
        }
    }

    /// Reads one statement.
    pub(super) fn statement(&mut self, text: &'a str, tokens: &[Token<'a>], reach: Reach) {
        self.assignment(text, tokens);
        for (at, token) in tokens.iter().enumerate() {
            let Kind::Name(name) = token.kind else { continue };
            if !tokens.get(at + 1).is_some_and(|t| t.is_op(b'(')) {
                continue;
            }
            let Some(takes) = self.called(tokens, at, name) else { continue };
            let call = &tokens[at + 2..tokens.len().min(at + 2 + MAX_CALL)];
            if let Some(command) = self.command(text, call, takes)
                && self.seen.insert(token.at.start)
            {
                self.spawns.push(Spawn { command, reach });
            }
        }
    }

    /// Records `name = ["program", ...]`, with or without an annotation.
    fn assignment(&mut self, text: &'a str, tokens: &[Token<'a>]) {
        let [Token { kind: Kind::Name(name), .. }, rest @ ..] = tokens else { return };
        let Some(equals) = rest.iter().take(12).position(|t| t.is_op(b'=')) else { return };
        if equals > 0 && !rest[0].is_op(b':') {
            return;
        }
        let value = &rest[equals + 1..];
        if value.first().is_some_and(|t| t.is_op(b'['))
            && let Some(argv) = elements(text, &value[1..value.len().min(MAX_CALL)])
        {
            self.lists.insert(name, argv);
        }
    }

    /// Returns how the called function takes its command, if it starts commands.
    fn called(&self, tokens: &[Token<'a>], at: usize, name: &str) -> Option<Takes> {
        match at.checked_sub(2).map(|from| &tokens[from..at]) {
            Some([Token { kind: Kind::Name(module), .. }, dot]) if dot.is_op(b'.') => {
                takes(self.modules.get(*module)?, name)
            }
            Some([_, dot]) if dot.is_op(b'.') => None,
            _ => self
                .functions
                .get(name)
                .and_then(|full| full.split_once('.'))
                .and_then(|(module, name)| takes(module, name)),
        }
    }

    fn command(&self, text: &str, call: &[Token<'a>], takes: Takes) -> Option<SpawnedCommand> {
        let call = match call {
            [keyword, equals, rest @ ..]
                if equals.is_op(b'=')
                    && matches!(keyword.kind, Kind::Name("args" | "cmd" | "command")) =>
            {
                rest
            }
            _ => call,
        };
        let shell = takes == Takes::Text
            || call
                .windows(3)
                .any(|w| w[0].is_name("shell") && w[1].is_op(b'=') && w[2].is_name("True"));
        match &call.first()?.kind {
            Kind::Text { inner, .. } if shell && takes != Takes::Words => {
                Some(SpawnedCommand::Shell(inner.clone()))
            }
            Kind::Text { .. } if takes == Takes::Words => {
                elements(text, call).map(SpawnedCommand::Argv)
            }
            Kind::Text { inner, computed: false } => Some(SpawnedCommand::Argv(Argv {
                words: vec![Some(text[inner.clone()].to_owned())],
                at: inner.clone(),
            })),
            Kind::Op(b'[') => elements(text, &call[1..]).map(SpawnedCommand::Argv),
            Kind::Name(_) if takes == Takes::Words => {
                elements(text, call).map(SpawnedCommand::Argv)
            }
            Kind::Name(name) => self.lists.get(name).cloned().map(SpawnedCommand::Argv),
            _ => None,
        }
    }
}

/// How a function takes its command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// A list, or a shell command with `shell=True`.
    List,
    /// A shell command.
    Text,
    /// Each word as an argument.
    Words,
}

fn takes(module: &str, function: &str) -> Option<Takes> {
    match (module, function) {
        ("subprocess", "run" | "Popen" | "call" | "check_call" | "check_output") => {
            Some(Takes::List)
        }
        ("subprocess", "getoutput" | "getstatusoutput") | ("os", "system" | "popen") => {
            Some(Takes::Text)
        }
        ("asyncio", "create_subprocess_shell") => Some(Takes::Text),
        ("asyncio", "create_subprocess_exec") => Some(Takes::Words),
        _ => None,
    }
}

/// Returns the elements of a list or the arguments of a call, up to the closing bracket. Returns
/// `None` if the first one is unknown.
fn elements(text: &str, tokens: &[Token<'_>]) -> Option<Argv> {
    let mut words = Vec::new();
    let mut depth = 0usize;
    let mut start = 0;
    let mut closed = false;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Op(b'(' | b'[' | b'{') => depth += 1,
            Kind::Op(b')' | b']' | b'}') if depth == 0 => {
                words.extend(element(text, &tokens[start..at]));
                closed = true;
                break;
            }
            Kind::Op(b')' | b']' | b'}') => depth -= 1,
            Kind::Op(b',') if depth == 0 => {
                words.extend(element(text, &tokens[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    if !closed {
        words.push(None);
    }
    words.first()?.as_ref()?;
    Some(Argv { words, at: tokens.first()?.at.clone() })
}

/// Returns the text of an argument, `Some(None)` for a computed one, or `None` for a keyword argument
/// or an empty one.
fn element(text: &str, tokens: &[Token<'_>]) -> Option<Option<String>> {
    match tokens {
        [] => None,
        [Token { kind: Kind::Text { inner, computed: false }, .. }] => {
            Some(Some(text[inner.clone()].to_owned()))
        }
        [module, dot, name]
            if module.is_name("sys") && dot.is_op(b'.') && name.is_name("executable") =>
        {
            Some(Some("python3".into()))
        }
        [Token { kind: Kind::Name(_), .. }, equals, ..] if equals.is_op(b'=') => None,
        _ => Some(None),
    }
}

#[cfg(test)]
mod tests {
    /// Formats each command: its words, `?` for unknown ones, or a shell command in quotes.
    fn spawns(text: &str) -> Vec<String> {
        let text = format!("import subprocess, os, asyncio, sys\n{text}");
        let shown = super::super::python_imports::scan(&text).spawns.into_iter().map(|spawn| {
            match spawn.command {
                super::SpawnedCommand::Argv(argv) => argv
                    .words
                    .into_iter()
                    .map(|w| w.unwrap_or_else(|| "?".into()))
                    .collect::<Vec<_>>()
                    .join(" "),
                super::SpawnedCommand::Shell(at) => format!("'{}'", &text[at]),
            }
        });
        shown.collect()
    }

    #[test]
    fn literal_and_named_argument_lists_are_found() {
        assert_eq!(
            spawns("subprocess.run(['git', 'log', f'-{n}', *rest], check=True)"),
            ["git log ? ?"]
        );
        assert_eq!(
            spawns(
                "cmd = ['ffmpeg', '-i', path]\nout: list[str] = ['x', 'y']\nsubprocess.Popen(cmd)\nsubprocess.run(out)"
            ),
            ["ffmpeg -i ?", "x y"]
        );
        assert_eq!(
            spawns("r = subprocess.check_output([sys.executable, '-m', 'x'])"),
            ["python3 -m x"]
        );
        assert_eq!(
            spawns("await asyncio.create_subprocess_exec('node', a, stdout=PIPE)"),
            ["node ?"]
        );
        assert_eq!(
            spawns(
                "subprocess.run(args=['a'])\nsubprocess.run('b')\nsubprocess.run(cmd)\nsubprocess.run([tool, 'x'])"
            ),
            ["a", "b"]
        );
    }

    #[test]
    fn shell_commands_are_found() {
        assert_eq!(
            spawns(
                "os.system('ls | wc')\nsubprocess.run(f'git log {x}', shell=True)\nsubprocess.getoutput('w')"
            ),
            ["'ls | wc'", "'git log {x}'", "'w'"]
        );
    }

    #[test]
    fn import_aliases_are_resolved() {
        assert_eq!(
            spawns(
                "import subprocess as sp\nfrom subprocess import run as go, Popen\nsp.run(['a'])\ngo(['b'])\nPopen(['c'])"
            ),
            ["a", "b", "c"]
        );
        assert_eq!(
            spawns("self.run(['a'])\nrun(['b'])\ntool.subprocess.run(['c'])\nclick.run('d')"),
            ["c"]
        );
    }

    #[test]
    fn deeply_nested_calls_are_read_in_bounded_time() {
        let nested = format!("{}{}", "subprocess.run(['a', ".repeat(2_000), "])".repeat(2_000));
        assert_eq!(spawns(&nested).len(), 2_000);
    }
}
