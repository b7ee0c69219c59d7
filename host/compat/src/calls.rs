//! The commands that a Python script starts, as far as its text names them: literal argument lists
//! and shell texts.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::Reach;
use super::python::{Kind, Token};

/// Tokens of a call that are looked at.
const MAX_CALL: usize = 400;

/// One command that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spawn {
    pub(super) command: Started,
    pub(super) reach: Reach,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Started {
    Argv(Argv),
    /// A text for the shell, as written between its quotes.
    Shell(Range<usize>),
}

/// The arguments, `None` where the text does not tell, and the place of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argv {
    pub(super) words: Vec<Option<String>>,
    pub(super) at: Range<usize>,
}

/// Finds them, statement by statement.
#[derive(Debug, Default)]
pub(super) struct Calls<'a> {
    pub(super) spawns: Vec<Spawn>,
    /// What the modules that start commands are called here.
    modules: HashMap<String, &'static str>,
    /// Functions that were taken from `subprocess` by name.
    functions: HashMap<String, String>,
    /// Lists that were given a name before they were used.
    lists: HashMap<&'a str, Argv>,
    seen: HashSet<usize>,
}

const MODULES: [&str; 3] = ["subprocess", "os", "asyncio"];

impl<'a> Calls<'a> {
    /// `import name as alias`
    pub(super) fn imported(&mut self, name: &str, alias: &str) {
        if let Some(module) = MODULES.iter().find(|module| **module == name) {
            self.modules.insert(alias.to_owned(), module);
        }
    }

    /// `from module import name as alias`
    pub(super) fn imported_from(&mut self, module: &str, name: &str, alias: &str) {
        if MODULES.contains(&module) && takes(module, name).is_some() {
            self.functions.insert(alias.to_owned(), format!("{module}.{name}"));
        }
    }

    /// Looks through one statement.
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

    /// `name = ["program", ...]`, annotated or not.
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

    /// What the function that is called here takes, if it starts commands.
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

    fn command(&self, text: &str, call: &[Token<'a>], takes: Takes) -> Option<Started> {
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
                Some(Started::Shell(inner.clone()))
            }
            Kind::Text { .. } if takes == Takes::Words => elements(text, call).map(Started::Argv),
            Kind::Text { inner, computed: false } => Some(Started::Argv(Argv {
                words: vec![Some(text[inner.clone()].to_owned())],
                at: inner.clone(),
            })),
            Kind::Op(b'[') => elements(text, &call[1..]).map(Started::Argv),
            Kind::Name(_) if takes == Takes::Words => elements(text, call).map(Started::Argv),
            Kind::Name(name) => self.lists.get(name).cloned().map(Started::Argv),
            _ => None,
        }
    }
}

/// How a function takes its command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// A list, or a text where it is told `shell=True`.
    List,
    /// A text for the shell.
    Text,
    /// One argument for each word.
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

/// The elements of a list, or the arguments of a call, up to the bracket that closes it. `None`
/// where the first is unknown.
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

/// One argument: its text, or `None` inside where it is computed; nothing for an option of the call
/// or an empty place.
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
    /// Each command as its words, `?` where unknown; a text for the shell in quotes.
    fn spawns(text: &str) -> Vec<String> {
        let text = format!("import subprocess, os, asyncio, sys\n{text}");
        let shown = super::super::imports::scan(&text).spawns.into_iter().map(|spawn| match spawn
            .command
        {
            super::Started::Argv(argv) => argv
                .words
                .into_iter()
                .map(|w| w.unwrap_or_else(|| "?".into()))
                .collect::<Vec<_>>()
                .join(" "),
            super::Started::Shell(at) => format!("'{}'", &text[at]),
        });
        shown.collect()
    }

    #[test]
    fn argument_lists_are_read_where_they_stand_and_by_name() {
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
    fn texts_for_the_shell_are_kept_as_such() {
        assert_eq!(
            spawns(
                "os.system('ls | wc')\nsubprocess.run(f'git log {x}', shell=True)\nsubprocess.getoutput('w')"
            ),
            ["'ls | wc'", "'git log {x}'", "'w'"]
        );
    }

    #[test]
    fn names_mean_what_they_were_imported_as() {
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
    fn nested_calls_are_looked_at_once_each_and_not_to_their_ends() {
        let nested = format!("{}{}", "subprocess.run(['a', ".repeat(2_000), "])".repeat(2_000));
        assert_eq!(spawns(&nested).len(), 2_000);
    }
}
