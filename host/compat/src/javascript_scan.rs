//! Reads a JavaScript or TypeScript script: its imports, when they run and what happens if they fail,
//! the commands that it starts, the requests that it sends, and its string literals.

use std::collections::HashMap;
use std::ops::Range;

use super::Reach;
use super::javascript_tokens::{tokens, value};
use super::tokens::{Kind, Token};
use super::tries::Try;

/// The most imports of a script that are read, and the most commands.
const MAX_FOUND: usize = 1_000;
/// The most bytes of a module's name. Many imports can share the same literal.
const MAX_MODULE: usize = 1_000;
/// The most tokens of a call or an import that are read.
const MAX_CALL: usize = 400;

/// The result of reading a script.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) imports: Vec<Import>,
    /// The `try` statements, by number.
    pub(super) tries: Vec<Try>,
    pub(super) spawns: Vec<Spawn>,
    /// The ranges of string literals, without quotes.
    pub(super) texts: Vec<Range<usize>>,
    /// The globals that are used, with their places.
    pub(super) globals: Vec<(Global, usize, Reach)>,
}

/// An import of one module, by `import`, `export ... from` or `require`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) module: String,
    /// The range of the module's name.
    pub(super) at: Range<usize>,
    pub(super) reach: Reach,
    /// The `try` whose body contains it.
    pub(super) tried: Option<usize>,
    /// The `try` whose handler contains it.
    pub(super) instead_of: Option<usize>,
}

/// A global object that has an effect outside of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Global {
    Fetch,
    WebSocket,
    EventSource,
    Bun,
    Deno,
}

/// A command that a script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spawn {
    pub(super) command: Command,
    pub(super) at: Range<usize>,
    pub(super) reach: Reach,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// The arguments, `None` for an unknown one.
    Argv(Vec<Option<String>>),
    /// A shell command.
    Shell(String),
}

/// Reads the text of a script.
pub(super) fn scan(text: &str) -> Scan {
    let tokens = tokens(text);
    let mut reader = Reader {
        text,
        tokens: &tokens,
        scan: Scan::default(),
        frames: Vec::new(),
        closed: Frame::Plain,
        returns: false,
        line_condition: None,
        conditions: 0,
        tries: Vec::new(),
        handlers: Vec::new(),
        modules: HashMap::new(),
        functions: HashMap::new(),
    };
    for at in 0..tokens.len() {
        reader.token(at);
    }
    reader.scan
}

/// Something between brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// It always runs, or is no code.
    Plain,
    /// A block that runs on a condition or when it is called.
    Sometimes,
    Try(usize),
    /// What runs if the `try` fails.
    Handler(usize),
    /// The brackets after `if`, `for` and the like.
    Condition,
    /// The brackets after `catch`.
    Caught(usize),
    /// The brackets around a function that is called at once.
    CalledAtOnce,
}

struct Reader<'a, 't> {
    text: &'a str,
    tokens: &'t [Token<'a>],
    scan: Scan,
    frames: Vec<Frame>,
    /// The last closed frame.
    closed: Frame,
    /// Whether the type that a function returns is being read.
    returns: bool,
    /// The end of a statement without braces that runs on a condition.
    line_condition: Option<usize>,
    /// The number of frames that run sometimes.
    conditions: usize,
    tries: Vec<usize>,
    handlers: Vec<usize>,
    /// The names of modules, such as `cp` for `child_process`.
    modules: HashMap<&'a str, &'static str>,
    /// The names of functions of `child_process`, such as `run` for `execSync`.
    functions: HashMap<&'a str, &'static str>,
}

impl<'a> Reader<'a, '_> {
    fn token(&mut self, at: usize) {
        let token = &self.tokens[at];
        match &token.kind {
            Kind::Op(op @ (b'(' | b'[' | b'{')) => self.open(at, *op),
            Kind::Op(b')' | b']' | b'}') => self.close(at),
            Kind::Op(b',' | b'=') => self.returns = false,
            Kind::Op(b';') => (self.returns, self.line_condition) = (false, None),
            Kind::Op(_) | Kind::Other => {}
            Kind::Text { inner, .. } => self.scan.texts.push(inner.clone()),
            Kind::Name(name) => self.name(at, name),
        }
    }

    /// Returns the token at a distance from another one.
    fn near(&self, at: usize, by: isize) -> Option<&Token<'a>> {
        self.tokens.get(at.checked_add_signed(by)?)
    }

    fn is_op(&self, at: usize, by: isize, op: u8) -> bool {
        self.near(at, by).is_some_and(|token| token.is_op(op))
    }

    fn is_name(&self, at: usize, by: isize, name: &str) -> bool {
        self.near(at, by).is_some_and(|token| token.is_name(name))
    }

    fn name_at(&self, at: usize, by: isize) -> Option<&'a str> {
        match self.near(at, by)?.kind {
            Kind::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the value and range of a literal without computed parts. Others than short ones name no
    /// module.
    fn literal(&self, at: usize, by: isize) -> Option<(String, Range<usize>)> {
        match &self.near(at, by)?.kind {
            Kind::Text { inner, computed: false } if inner.len() <= MAX_MODULE => {
                Some((value(&self.text[inner.clone()]), inner.clone()))
            }
            _ => None,
        }
    }

    fn open(&mut self, at: usize, op: u8) {
        let is_arrow = self.is_op(at, -1, b'>') && self.is_op(at, -2, b'=');
        let frame = match (op, self.name_at(at, -1)) {
            // The name of a method or property.
            (b'(', Some(_)) if self.is_op(at, -2, b'.') => Frame::Plain,
            (b'(', Some("if" | "for" | "while" | "switch" | "with")) => Frame::Condition,
            (b'(', Some("catch")) => self.caught().map_or(Frame::Plain, Frame::Caught),
            (b'(', None | Some("await" | "void" | "return")) if self.is_called_at_once(at) => {
                Frame::CalledAtOnce
            }
            (b'{', Some("try")) => {
                self.scan.tries.push(Try::default());
                Frame::Try(self.scan.tries.len() - 1)
            }
            (b'{', Some("catch")) => self.caught().map_or(Frame::Sometimes, Frame::Handler),
            (b'{', Some("else")) => Frame::Sometimes,
            (b'{', Some("do" | "finally")) => Frame::Plain,
            (b'{', None) if self.is_op(at, -1, b')') => match self.closed {
                Frame::Caught(id) => Frame::Handler(id),
                Frame::Condition => Frame::Sometimes,
                _ => self.function(),
            },
            (b'{', None) if is_arrow => self.function(),
            (b'{', _) if self.returns => self.function(),
            _ => Frame::Plain,
        };
        match frame {
            Frame::Sometimes => self.conditions += 1,
            Frame::Try(id) => self.tries.push(id),
            Frame::Handler(id) => {
                self.scan.tries[id].catches = true;
                self.handlers.push(id);
            }
            _ => {}
        }
        if op == b'{' {
            self.returns = false;
            self.line_condition = None;
        }
        self.frames.push(frame);
    }

    fn close(&mut self, at: usize) {
        let frame = self.frames.pop().unwrap_or(Frame::Plain);
        match frame {
            Frame::Sometimes => self.conditions -= 1,
            Frame::Try(_) => drop(self.tries.pop()),
            Frame::Handler(_) => drop(self.handlers.pop()),
            _ => {}
        }
        self.closed = frame;
        self.line_condition = None;
        if self.is_op(at, 0, b')') {
            self.returns = self.is_op(at, 1, b':') && frame == Frame::Plain;
            if frame == Frame::Condition && !self.is_op(at, 1, b'{') {
                self.line_condition = Some(self.end_of_statement(at));
            }
        }
    }

    /// Returns the end of the line after a token, where a statement without braces ends at the latest.
    fn end_of_statement(&self, at: usize) -> usize {
        /// Longer than two lines that a person wrote.
        const MAX_STATEMENT: usize = 400;
        let start = self.tokens[at].at.end;
        let end = self.text.len().min(start + MAX_STATEMENT);
        let bytes = &self.text.as_bytes()[start..end];
        let second = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1);
        second.map_or(end, |(at, _)| start + at)
    }

    /// Returns the frame of a function's body.
    fn function(&self) -> Frame {
        if self.frames.last() == Some(&Frame::CalledAtOnce) {
            Frame::Plain
        } else {
            Frame::Sometimes
        }
    }

    /// Returns the `try` that ends before `catch`.
    fn caught(&self) -> Option<usize> {
        match self.closed {
            Frame::Try(id) => Some(id),
            _ => None,
        }
    }

    /// Checks whether a bracket opens `(function () {...})()` or `(async () => {...})()`.
    fn is_called_at_once(&self, at: usize) -> bool {
        let before = self.near(at, -1).is_none_or(|token| {
            matches!(token.kind, Kind::Op(b';' | b'{' | b'}' | b'!' | b'=') | Kind::Name(_))
        });
        let starts = match self.name_at(at, 1) {
            Some("function") => true,
            Some("async") => self.is_op(at, 2, b'(') || self.is_name(at, 2, "function"),
            _ => self.is_op(at, 1, b'(') && self.is_op(at, 2, b')') && self.is_op(at, 3, b'='),
        };
        before && starts
    }

    fn reach(&self, at: usize) -> Reach {
        let on_line = self.line_condition.is_some_and(|end| self.tokens[at].at.start < end);
        if self.conditions > 0 || on_line { Reach::Sometimes } else { Reach::Always }
    }

    fn name(&mut self, at: usize, name: &'a str) {
        if matches!(name, "throw" | "exit" | "abort")
            && let Some(id) = self.handlers.last()
        {
            self.scan.tries[*id].gives_up = true;
        }
        let is_property = self.is_op(at, -1, b'.') && !self.is_op(at, -2, b'.');
        match name {
            "import" if !is_property => self.import(at),
            "export" if !is_property => self.export(at),
            "require" if !is_property => self.require(at),
            "promisify" => self.promisify(at),
            "fetch" if self.is_op(at, 1, b'(') && self.is_global(at) => {
                self.global(Global::Fetch, at);
            }
            "WebSocket" | "EventSource" if self.is_name(at, -1, "new") => {
                let global =
                    if name == "WebSocket" { Global::WebSocket } else { Global::EventSource };
                self.global(global, at);
            }
            "Bun" | "Deno" if self.is_op(at, 1, b'.') && self.is_global(at) => {
                self.global(if name == "Bun" { Global::Bun } else { Global::Deno }, at);
            }
            _ => {}
        }
        if self.is_op(at, 1, b'(')
            && let Some(function) = self.called(at, name)
        {
            self.call(function, at);
        }
    }

    fn is_global(&self, at: usize) -> bool {
        !self.is_op(at, -1, b'.') || self.is_name(at, -2, "globalThis")
    }

    fn global(&mut self, global: Global, at: usize) {
        if self.scan.globals.iter().all(|(known, ..)| *known != global) {
            let reach = self.reach(at);
            self.scan.globals.push((global, self.tokens[at].at.start, reach));
        }
    }

    /// Reads `import ... from 'x'`, `import 'x'` and `import('x')`.
    fn import(&mut self, at: usize) {
        if self.is_op(at, 1, b'(') {
            if let Some((module, range)) = self.literal(at, 2) {
                self.bind_before(at, &module);
                self.add(module, range, at, Some(at + 3));
            }
            return;
        }
        if let Some((module, range)) = self.literal(at, 1) {
            return self.add(module, range, at, None);
        }
        // `import type X from 'x'` is removed with the types.
        let is_type = self.is_name(at, 1, "type")
            && !self.is_name(at, 2, "from")
            && !self.is_op(at, 2, b',')
            && !self.is_op(at, 2, b'=');
        let Some(from) = self.find_from(at + 1).filter(|_| !is_type) else { return };
        let Some((module, range)) = self.literal(from, 1) else { return };
        self.bind(at + 1..from, &module);
        self.add(module, range, at, None);
    }

    /// Reads `export * from 'x'` and `export { a } from 'x'`.
    fn export(&mut self, at: usize) {
        if (self.is_op(at, 1, b'*') || self.is_op(at, 1, b'{'))
            && let Some(from) = self.find_from(at + 1)
            && let Some((module, range)) = self.literal(from, 1)
        {
            self.add(module, range, at, None);
        }
    }

    /// Returns the index of `from` before a text, in the names of an import.
    fn find_from(&self, start: usize) -> Option<usize> {
        let end = self.tokens.len().min(start + MAX_CALL);
        let is_name_list = |token: &&Token<'a>| {
            matches!(
                token.kind,
                Kind::Name(_) | Kind::Text { .. } | Kind::Op(b'{' | b'}' | b',' | b'*')
            )
        };
        let list = self.tokens[start.min(end)..end].iter().take_while(is_name_list);
        let from = list.enumerate().find(|(index, token)| {
            token.is_name("from") && self.literal(start + index, 1).is_some()
        });
        from.map(|(index, _)| start + index)
    }

    /// Reads `require('x')`.
    fn require(&mut self, at: usize) {
        let Some((module, range)) = self.literal(at, 2).filter(|_| self.is_op(at, 1, b'(')) else {
            return;
        };
        self.bind_before(at, &module);
        self.add(module, range, at, Some(at + 3));
    }

    /// Adds an import. `close` is the index of the bracket that closes a call.
    fn add(&mut self, module: String, range: Range<usize>, at: usize, close: Option<usize>) {
        if module.is_empty() || self.scan.imports.len() == MAX_FOUND {
            return;
        }
        let mut tried = self.tries.last().copied();
        // `import('x').catch(...)`.
        if close.is_some_and(|close| self.is_op(close, 1, b'.') && self.is_name(close, 2, "catch"))
        {
            self.scan.tries.push(Try { catches: true, gives_up: false });
            tried = Some(self.scan.tries.len() - 1);
        }
        let (reach, instead_of) = (self.reach(at), self.handlers.last().copied());
        self.scan.imports.push(Import { module, at: range, reach, tried, instead_of });
    }

    /// Records the names in `const { a, b: c } = require('x')` and `const x = await import('x')`.
    fn bind_before(&mut self, at: usize, module: &str) {
        let at = if self.is_name(at, -1, "await") { at - 1 } else { at };
        if !self.is_op(at, -1, b'=') {
            return;
        }
        let end = at - 1;
        let start = if self.is_op(end, -1, b'}') {
            let first = end.saturating_sub(MAX_CALL);
            let open = self.tokens[first..end].iter().rposition(|token| token.is_op(b'{'));
            open.map_or(end, |open| first + open)
        } else {
            end.saturating_sub(1)
        };
        self.bind(start..end, module);
    }

    /// Records the names of an import of `child_process`, `http` or `https`.
    fn bind(&mut self, names: Range<usize>, module: &str) {
        let module = module.strip_prefix("node:").unwrap_or(module);
        if module != "child_process" {
            return;
        }
        let mut in_braces = false;
        let mut at = names.start;
        while at < names.end {
            match self.tokens[at].kind {
                Kind::Op(b'{') => in_braces = true,
                Kind::Op(b'}') => in_braces = false,
                Kind::Name(name) if in_braces => {
                    // `a as b` and `a: b`.
                    let is_renamed = self.is_name(at, 1, "as") || self.is_op(at, 1, b':');
                    let alias = self.name_at(at, 2).filter(|_| is_renamed);
                    if let Some(function) = function(name) {
                        self.functions.insert(alias.unwrap_or(name), function);
                    } else if name == "default" {
                        self.modules.extend(alias.map(|alias| (alias, "child_process")));
                    }
                    at += if alias.is_some() { 2 } else { 0 };
                }
                Kind::Name("as") => {}
                Kind::Name(name) => drop(self.modules.insert(name, "child_process")),
                _ => {}
            }
            at += 1;
        }
    }

    /// Records `const run = promisify(exec)` and `util.promisify(cp.exec)`.
    fn promisify(&mut self, at: usize) {
        let start = if self.is_op(at, -1, b'.') { at.saturating_sub(2) } else { at };
        let Some(alias) = self.name_at(start, -2).filter(|_| self.is_op(start, -1, b'=')) else {
            return;
        };
        let found = match (self.name_at(at, 2), self.name_at(at, 4)) {
            (Some(module), Some(name)) if self.is_op(at, 3, b'.') => {
                function(name).filter(|_| self.modules.contains_key(module))
            }
            (Some(name), _) => self.functions.get(name).copied(),
            _ => None,
        };
        self.functions.extend(found.map(|function| (alias, function)));
    }

    /// Returns the function of `child_process` that a name means.
    fn called(&self, at: usize, name: &str) -> Option<&'static str> {
        if !self.is_op(at, -1, b'.') {
            return self.functions.get(name).copied();
        }
        let is_of_module = match self.name_at(at, -2) {
            Some(module) => self.modules.contains_key(module),
            // `require('child_process').execSync(...)`.
            None => {
                self.is_op(at, -2, b')')
                    && self.is_name(at, -5, "require")
                    && self.literal(at, -3).is_some_and(|(module, _)| {
                        module.strip_prefix("node:").unwrap_or(&module) == "child_process"
                    })
            }
        };
        function(name).filter(|_| is_of_module)
    }

    /// Reads a call of a function of `child_process`.
    fn call(&mut self, function: &'static str, at: usize) {
        let call = &self.tokens[at + 2..self.tokens.len().min(at + 2 + MAX_CALL)];
        let Some(first) = call.first() else { return };
        let (text, range) = match &first.kind {
            Kind::Text { inner, .. } => (Some(value(&self.text[inner.clone()])), inner.clone()),
            Kind::Name("process") if self.is_name(at, 4, "execPath") => {
                (Some("node".to_owned()), first.at.clone())
            }
            _ => return,
        };
        let is_computed = matches!(first.kind, Kind::Text { computed: true, .. });
        let command = match function {
            "exec" | "execSync" => text.map(Command::Shell),
            "fork" => text
                .filter(|_| !is_computed)
                .map(|file| Command::Argv(vec![Some("node".to_owned()), Some(file), None])),
            _ => {
                let is_shell = call.windows(3).any(|three| {
                    three[0].is_name("shell") && three[1].is_op(b':') && three[2].is_name("true")
                });
                match text {
                    Some(text) if is_shell => Some(Command::Shell(text)),
                    Some(text) if !is_computed => Some(Command::Argv(self.words(text, call))),
                    _ => None,
                }
            }
        };
        let reach = self.reach(at);
        let command = command.filter(|_| self.scan.spawns.len() < MAX_FOUND);
        self.scan.spawns.extend(command.map(|command| Spawn { command, at: range, reach }));
    }

    /// Returns the words of `spawn(program, [arguments])`.
    fn words(&self, program: String, call: &[Token<'a>]) -> Vec<Option<String>> {
        let mut words = vec![Some(program)];
        let list = call.iter().position(|token| token.is_op(b','));
        let Some(list) = list.map(|comma| &call[comma + 1..]) else { return words };
        match list.first() {
            Some(token) if token.is_op(b'[') => {}
            // Options and no arguments.
            Some(token) if token.is_op(b'{') => return words,
            _ => {
                words.push(None);
                return words;
            }
        }
        let (mut depth, mut start) = (0usize, 1);
        for (at, token) in list.iter().enumerate().skip(1) {
            match token.kind {
                Kind::Op(b'(' | b'[' | b'{') => depth += 1,
                Kind::Op(b']') if depth == 0 => {
                    words.extend(self.element(&list[start..at]));
                    return words;
                }
                Kind::Op(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
                Kind::Op(b',') if depth == 0 => {
                    words.extend(self.element(&list[start..at]));
                    start = at + 1;
                }
                _ => {}
            }
        }
        words.push(None);
        words
    }

    /// Returns an element of a list: its text, `Some(None)` if it is computed, `None` if it is empty.
    fn element(&self, tokens: &[Token<'a>]) -> Option<Option<String>> {
        match tokens {
            [] => None,
            [Token { kind: Kind::Text { inner, computed: false }, .. }] => {
                Some(Some(value(&self.text[inner.clone()])))
            }
            _ => Some(None),
        }
    }
}

/// Returns the function of `child_process` of this name.
fn function(name: &str) -> Option<&'static str> {
    const FUNCTIONS: [&str; 7] =
        ["exec", "execSync", "execFile", "execFileSync", "spawn", "spawnSync", "fork"];
    FUNCTIONS.into_iter().find(|function| *function == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats each import: its module, `?` if it runs sometimes, and what `try` means for it.
    fn imports(text: &str) -> Vec<String> {
        let scan = scan(text);
        let one = |import: &Import| {
            let reach = if import.reach == Reach::Sometimes { "?" } else { "" };
            let tried = import.tried.map_or("", |id| match &scan.tries[id] {
                Try { catches: true, gives_up: false } => " optional",
                Try { catches: true, gives_up: true } => " required",
                _ => "",
            });
            let instead = if import.instead_of.is_some() { " instead" } else { "" };
            assert_eq!(&text[import.at.clone()], import.module);
            format!("{}{reach}{tried}{instead}", import.module)
        };
        scan.imports.iter().map(one).collect()
    }

    /// Formats each command: its words, `?` for unknown ones, or a shell command in quotes.
    fn spawns(text: &str) -> Vec<String> {
        let one = |spawn: Spawn| match spawn.command {
            Command::Argv(words) => words
                .into_iter()
                .map(|word| word.unwrap_or_else(|| "?".into()))
                .collect::<Vec<_>>()
                .join(" "),
            Command::Shell(text) => format!("'{text}'"),
        };
        scan(text).spawns.into_iter().map(one).collect()
    }

    #[test]
    fn all_forms_of_imports_are_found() {
        assert_eq!(
            imports(
                "import fs from 'node:fs';\nimport 'a'\nimport * as b from \"b\"\nimport c, { d as e } from 'c';\nexport * from './f.js'\nexport { g } from './g.js';"
            ),
            ["node:fs", "a", "b", "c", "./f.js", "./g.js"]
        );
        assert_eq!(
            imports("const a = require('a'), b = require(\"b\");\nconst c = await import('c');"),
            ["a", "b", "c"]
        );
        assert_eq!(
            imports(
                "import type { A } from 'a';\nimport type from 'b';\nimport { type C } from 'c';\nimport d = require('d')"
            ),
            ["b", "c", "d"]
        );
        assert_eq!(
            imports(
                "x.import('a'); y.require('b'); import.meta.url; require(name); import(`./${x}.js`); export default { from: 'c' }"
            ),
            Vec::<String>::new()
        );
        assert_eq!(imports("// import 'a'\nconst x = \"require('b')\""), Vec::<String>::new());
    }

    #[test]
    fn conditions_and_functions_make_an_import_optional_or_later() {
        for (text, expected) in [
            ("function f() { require('a') } require('b')", "a? b"),
            ("const f = async () => { await import('a') }", "a?"),
            ("class A { m(): Promise<void> { require('a') } }", "a?"),
            ("if (x) { require('a') } else { require('b') } require('c')", "a? b? c"),
            ("if (x) require('a')\nelse y()\n\nrequire('b')", "a? b"),
            ("(async () => { await import('a') })()", "a"),
            ("(function () { require('a') })(); require('b')", "a b"),
            ("await (async function main() { require('a') })()", "a"),
            ("foo(function () { require('a') })", "a?"),
            ("const o = { a: require('a'), b: [require('b')] }", "a b"),
            ("try { require('a') } catch { }", "a optional"),
            ("try { require('a') } catch (e) { console.error(e); process.exit(1) }", "a required"),
            (
                "try { require('a') } catch (e) { require('b') } require('c')",
                "a optional b instead c",
            ),
            ("try { require('a') } finally { }", "a"),
            ("await import('a').catch(() => null)", "a optional"),
        ] {
            assert_eq!(imports(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn commands_of_child_process_are_found() {
        for (text, expected) in [
            ("const { execSync } = require('child_process'); execSync('git log')", "'git log'"),
            (
                "import { execSync as run } from 'node:child_process'; run(`git log ${x}`)",
                "'git log $value'",
            ),
            (
                "import cp from 'child_process'; cp.spawn('git', ['log', x, ...y, 'z'])",
                "git log ? ? z",
            ),
            ("import * as cp from 'child_process'; cp.spawnSync(\"git\")", "git"),
            ("const cp = require('node:child_process'); cp.execFile('git', args)", "git ?"),
            (
                "const { spawn: go } = await import('child_process'); go('git log', { shell: true })",
                "'git log'",
            ),
            ("require('child_process').execSync('ls')", "'ls'"),
            (
                "import { exec } from 'child_process'; const run = promisify(exec); await run('ls')",
                "'ls'",
            ),
            (
                "const cp = require('child_process'), run = require('util').promisify(cp.exec)\nrun('ls')",
                "",
            ),
            (
                "const cp = require('child_process'); const run = util.promisify(cp.exec)\nrun('ls')",
                "'ls'",
            ),
            ("import { fork } from 'child_process'; fork('./w.js')", "node ./w.js ?"),
            (
                "import { spawn } from 'child_process'; spawn(process.execPath, ['x.js'])",
                "node x.js",
            ),
            ("import { spawn } from 'child_process'; spawn(tool, ['x'])", ""),
            ("/x/.exec('ls'); db.exec('ls'); exec('ls')", ""),
        ] {
            assert_eq!(spawns(text).join("; "), expected, "{text}");
        }
    }

    #[test]
    fn globals_are_found_once() {
        let found = |text: &str| {
            let all = scan(text).globals.into_iter().map(|(global, ..)| format!("{global:?}"));
            all.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found("await fetch(u); fetch(v); x.fetch(w)"), "Fetch");
        assert_eq!(found("globalThis.fetch(u)"), "Fetch");
        assert_eq!(found("new WebSocket(u); Bun.file(x); Deno.args"), "WebSocket Bun Deno");
        assert_eq!(found("typeof Bun; x.Deno.args; const fetch = 1"), "");
    }

    #[test]
    fn hostile_scripts_are_read_in_bounded_time() {
        for part in [
            "import { ",
            "require('a'",
            "cp.spawn('a', [",
            "{",
            "}",
            "try {",
            "catch {",
            "export { a, ",
            "if (x) require('a')",
            "(async () => {",
        ] {
            let text = format!("const cp = require('child_process');{}", part.repeat(20_000));
            let scan = scan(&text);
            assert!(scan.imports.len().max(scan.spawns.len()) <= MAX_FOUND, "{part}");
        }
        let shared = format!("{}from 'b{}'", "import ".repeat(399), "a".repeat(500_000));
        let names: usize = scan(&shared).imports.iter().map(|import| import.module.len()).sum();
        assert!(names <= shared.len(), "{names} bytes of names");
    }
}
