//! Reads a Python script: its imports, when they run and what happens if they fail, the commands that
//! it starts, and its string literals.

use std::ops::Range;

use super::Reach;
use super::python_commands::{Calls, Spawn};
use super::python_tokens::{Lexer, Line};
use super::tokens::{Kind, Token};
use super::tries::Try;

/// The result of reading a script.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) imports: Vec<Import>,
    /// The `try` statements, by number.
    pub(super) tries: Vec<Try>,
    pub(super) spawns: Vec<Spawn>,
    /// The ranges of string literals, without quotes. Docstrings are excluded.
    pub(super) texts: Vec<Range<usize>>,
}

/// An import of one module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    /// The dotted name, such as `google.cloud`.
    pub(super) module: String,
    /// The imported names: `storage` in `from google.cloud import storage`.
    pub(super) names: Vec<String>,
    /// The range of the module's name.
    pub(super) at: Range<usize>,
    pub(super) reach: Reach,
    /// The `try` whose body contains it.
    pub(super) tried: Option<usize>,
    /// The `try` whose handler for failed imports contains it.
    pub(super) instead_of: Option<usize>,
}

/// Reads the text of a script.
pub(super) fn scan(text: &str) -> Scan {
    let mut reader = Reader {
        text,
        scan: Scan::default(),
        blocks: Vec::new(),
        ended: None,
        calls: Calls::default(),
    };
    let mut lexer = Lexer::new(text);
    let mut line = Line::default();
    while lexer.next_line(&mut line) {
        reader.line(&line);
    }
    reader.scan.spawns = reader.calls.spawns;
    reader.scan
}

struct Reader<'a> {
    text: &'a str,
    scan: Scan,
    blocks: Vec<Block>,
    /// The `try` or handler that ends before this line, and the indent of both.
    ended: Option<(usize, usize)>,
    calls: Calls<'a>,
}

/// A compound statement whose body is being read.
struct Block {
    indent: usize,
    kind: BlockKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    /// The body always runs.
    Plain,
    /// The body runs on a condition or when it is called.
    Sometimes,
    /// The body of `if TYPE_CHECKING:` never runs.
    Never,
    Try(usize),
    /// An `except`, and whether it handles failed imports.
    Handler(usize, bool),
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &Line<'a>) {
        self.ended = None;
        while let Some(block) = self.blocks.last().filter(|b| b.indent >= line.indent) {
            if let BlockKind::Try(id) | BlockKind::Handler(id, _) = block.kind
                && block.indent == line.indent
            {
                self.ended = Some((id, line.indent));
            }
            self.blocks.pop();
        }
        let tokens = line.tokens.as_slice();
        match self.header(tokens) {
            Some((kind, end)) => {
                self.expression(&tokens[..end]);
                self.blocks.push(Block { indent: line.indent, kind });
                self.statements(&tokens[end + 1..]);
            }
            None => self.statements(tokens),
        }
    }

    /// Returns the kind of block that a line opens, and the index of its `:`.
    fn header(&mut self, tokens: &[Token<'a>]) -> Option<(BlockKind, usize)> {
        let Kind::Name(first) = tokens.first()?.kind else { return None };
        let known = matches!(
            first,
            "if" | "elif"
                | "else"
                | "for"
                | "while"
                | "with"
                | "try"
                | "except"
                | "finally"
                | "def"
                | "class"
                | "async"
                | "match"
                | "case"
        );
        if !known {
            return None;
        }
        let end = colon(tokens)?;
        let head = &tokens[1..end];
        let names = |name: &str| head.iter().any(|t| t.is_name(name));
        let kind = match first {
            "if" if names("TYPE_CHECKING") && !names("not") => BlockKind::Never,
            "if" if names("__name__") => BlockKind::Plain,
            "with" | "class" | "finally" => BlockKind::Plain,
            "async" if names("with") => BlockKind::Plain,
            "try" => {
                self.scan.tries.push(Try::default());
                BlockKind::Try(self.scan.tries.len() - 1)
            }
            "except" => {
                let (id, _) = self.ended?;
                let caught = ["ImportError", "ModuleNotFoundError", "Exception", "BaseException"];
                let catches = head.is_empty() || caught.iter().any(|name| names(name));
                self.scan.tries[id].catches |= catches;
                BlockKind::Handler(id, catches)
            }
            // The `else` of a `try` runs if the body succeeds; that of an `if` runs on a condition.
            "else" if self.ended.is_some() => BlockKind::Plain,
            _ => BlockKind::Sometimes,
        };
        Some((kind, end))
    }

    fn statements(&mut self, tokens: &[Token<'a>]) {
        let mut depth = 0usize;
        let mut start = 0;
        for (at, token) in tokens.iter().enumerate() {
            match token.kind {
                Kind::Op(b'(' | b'[' | b'{') => depth += 1,
                Kind::Op(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
                Kind::Op(b';') if depth == 0 => {
                    self.statement(&tokens[start..at]);
                    start = at + 1;
                }
                _ => {}
            }
        }
        self.statement(&tokens[start..]);
    }

    fn statement(&mut self, tokens: &[Token<'a>]) {
        match tokens.first().map(|t| &t.kind) {
            Some(Kind::Name("import")) => self.import(&tokens[1..]),
            Some(Kind::Name("from")) => self.import_from(&tokens[1..]),
            // A docstring.
            Some(Kind::Text { .. })
                if tokens.iter().all(|t| matches!(t.kind, Kind::Text { .. })) => {}
            _ => self.expression(tokens),
        }
    }

    /// Reads anything except imports and docstrings.
    fn expression(&mut self, tokens: &[Token<'a>]) {
        if let Some(id) = self.handled()
            && tokens.iter().any(|t| {
                matches!(t.kind, Kind::Name("raise" | "exit" | "_exit" | "quit" | "abort"))
            })
        {
            self.scan.tries[id].gives_up = true;
        }
        let Some(reach) = self.reach() else { return };
        for token in tokens {
            if let Kind::Text { inner, .. } = &token.kind {
                self.scan.texts.push(inner.clone());
            }
        }
        self.calls.statement(self.text, tokens, reach);
        for (at, token) in tokens.iter().enumerate() {
            let called = matches!(token.kind, Kind::Name("import_module" | "__import__"));
            let [open, argument, after] = tokens.get(at + 1..at + 4).unwrap_or_default() else {
                continue;
            };
            if let Kind::Text { inner, computed: false } = &argument.kind
                && called
                && open.is_op(b'(')
                && (after.is_op(b')') || after.is_op(b','))
            {
                let name = self.text[inner.clone()].to_owned();
                if !name.starts_with('.') {
                    self.add(name, Vec::new(), inner.clone());
                }
            }
        }
    }

    /// Reads the rest of `import a.b as c, d`.
    fn import(&mut self, tokens: &[Token<'a>]) {
        for part in tokens.split(|t| t.is_op(b',')) {
            let (name, at, rest) = dotted(part);
            let alias = match rest {
                [keyword, Token { kind: Kind::Name(alias), .. }, ..] if keyword.is_name("as") => {
                    alias
                }
                _ => name.as_str(),
            };
            self.calls.imported(&name, alias);
            if !name.is_empty() {
                self.add(name, Vec::new(), at);
            }
        }
    }

    /// Reads the rest of `from a.b import (c as d, e)`. Ignores relative imports.
    fn import_from(&mut self, tokens: &[Token<'a>]) {
        let (module, at, rest) = dotted(tokens);
        let Some((keyword, names)) = rest.split_first() else { return };
        if module.is_empty() || !keyword.is_name("import") {
            return;
        }
        let names = names.split(|t| t.is_op(b','));
        let names = names.filter_map(|part| {
            let mut parts = part.iter().filter_map(|t| match t.kind {
                Kind::Name(name) => Some(name),
                _ => None,
            });
            let name = parts.next()?;
            Some((name, parts.nth(1).unwrap_or(name)))
        });
        let names: Vec<(&str, &str)> = names.collect();
        for (name, alias) in &names {
            self.calls.imported_from(&module, name, alias);
        }
        self.add(module, names.into_iter().map(|(name, _)| name.to_owned()).collect(), at);
    }

    fn add(&mut self, module: String, names: Vec<String>, at: Range<usize>) {
        let Some(reach) = self.reach() else { return };
        let tried = self.blocks.iter().rev().find_map(|b| match b.kind {
            BlockKind::Try(id) => Some(id),
            _ => None,
        });
        let instead_of = self.handled();
        self.scan.imports.push(Import { module, names, at, reach, tried, instead_of });
    }

    /// Returns the `try` whose handler for failed imports is being read.
    fn handled(&self) -> Option<usize> {
        self.blocks.iter().rev().find_map(|b| match b.kind {
            BlockKind::Handler(id, true) => Some(id),
            _ => None,
        })
    }

    /// Returns when the current statement runs; `None` for never.
    fn reach(&self) -> Option<Reach> {
        if self.blocks.iter().any(|b| b.kind == BlockKind::Never) {
            return None;
        }
        Some(if self.blocks.iter().any(|b| b.kind == BlockKind::Sometimes) {
            Reach::Sometimes
        } else {
            Reach::Always
        })
    }
}

/// Returns the index of the `:` that ends a header: the first one outside brackets and lambdas.
fn colon(tokens: &[Token<'_>]) -> Option<usize> {
    let (mut depth, mut lambdas) = (0usize, 0usize);
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Op(b'(' | b'[' | b'{') => depth += 1,
            Kind::Op(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            Kind::Name("lambda") if depth == 0 => lambdas += 1,
            Kind::Op(b':') if depth == 0 && lambdas > 0 => lambdas -= 1,
            Kind::Op(b':') if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns the dotted name at the start, its range, and the rest. The name is empty if there is none.
fn dotted<'t, 'a>(tokens: &'t [Token<'a>]) -> (String, Range<usize>, &'t [Token<'a>]) {
    let mut name = String::new();
    let mut at = tokens.first().map_or(0..0, |t| t.at.clone());
    let mut rest = tokens;
    while let [token, after @ ..] = rest {
        match token.kind {
            Kind::Name(part) if (name.is_empty() || name.ends_with('.')) && part != "import" => {
                name.push_str(part)
            }
            Kind::Op(b'.') if !name.is_empty() && !name.ends_with('.') => name.push('.'),
            _ => break,
        }
        at.end = token.at.end;
        rest = after;
    }
    (name, at, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats each import as `module[names]`, with its conditions.
    fn imports(text: &str) -> Vec<String> {
        let scan = scan(text);
        let shown = scan.imports.iter().map(|i| {
            let mut out = i.module.clone();
            if !i.names.is_empty() {
                out += &format!("[{}]", i.names.join(" "));
            }
            for (says, word) in [
                (i.reach == Reach::Sometimes, " sometimes"),
                (i.tried.is_some_and(|id| scan.tries[id].catches), " tried"),
                (i.tried.is_some_and(|id| scan.tries[id].gives_up), " gives up"),
                (i.instead_of.is_some(), " instead"),
            ] {
                if says {
                    out += word;
                }
            }
            out
        });
        shown.collect()
    }

    #[test]
    fn all_forms_of_imports_are_found() {
        assert_eq!(
            imports("import a, b.c as d; import e\nfrom f.g import (h as i, # x\n j,\n)\n"),
            ["a", "b.c", "e", "f.g[h j]"]
        );
        assert_eq!(
            imports("from . import a\nfrom .b import c\nfrom ..d import e\n"),
            Vec::<String>::new()
        );
        assert_eq!(
            imports(
                "m = importlib.import_module('a.b')\n__import__(\"c\", x)\nimport_module(name)\n"
            ),
            ["a.b", "c"]
        );
        assert_eq!(imports("from x import *\nimport \\\n  y\n"), ["x", "y"]);
        assert_eq!(
            imports(
                "'''\nimport no\n'''\nx = 'import no'\n# import no\nf(\"\"\"\nimport no\n\"\"\")\nimportant = 1\n"
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn imports_in_functions_and_branches_run_sometimes() {
        assert_eq!(
            imports("def f():\n  import a\n  class C:\n    import b\nimport c\n"),
            ["a sometimes", "b sometimes", "c"]
        );
        assert_eq!(
            imports(
                "class C:\n  import a\nwith x: import b\nif __name__ == '__main__':\n  import c\n"
            ),
            ["a", "b", "c"]
        );
        assert_eq!(
            imports("if x: import a\nelse:\n\timport b\nimport c"),
            ["a sometimes", "b sometimes", "c"]
        );
        assert_eq!(
            imports("async def f(x: int = {1: 2}) -> dict[str, int]: import a\nimport b"),
            ["a sometimes", "b"]
        );
        assert_eq!(
            imports("if x[lambda: 1]: import a\nif lambda: 1: import b"),
            ["a sometimes", "b sometimes"]
        );
    }

    #[test]
    fn imports_for_type_checkers_are_ignored() {
        assert_eq!(imports("if TYPE_CHECKING:\n  import a\nelse:\n  import b\n"), ["b sometimes"]);
        assert_eq!(
            imports("if typing.TYPE_CHECKING: import a\nif not TYPE_CHECKING: import b\n"),
            ["b sometimes"]
        );
    }

    #[test]
    fn try_statements_show_how_failed_imports_are_handled() {
        assert_eq!(imports("try:\n  import a\nexcept ImportError:\n  a = None\n"), ["a tried"]);
        assert_eq!(
            imports("try:\n  import a\nexcept ImportError:\n  print('no')\n  sys.exit(1)\n"),
            ["a tried gives up"]
        );
        assert_eq!(
            imports(
                "try:\n  import a\nexcept (OSError, ModuleNotFoundError):\n  import b as a\nimport c\n"
            ),
            ["a tried", "b instead", "c"]
        );
        assert_eq!(
            imports("try: import a\nexcept: a = 0\nelse: import b\nfinally: import c\n"),
            ["a tried", "b", "c"]
        );
        assert_eq!(imports("try:\n  import a\nexcept ValueError:\n  raise\n"), ["a"]);
        assert_eq!(
            imports(
                "try:\n  import a\nexcept KeyError:\n  pass\nexcept ImportError as e:\n  raise SystemExit from e\n"
            ),
            ["a tried gives up"]
        );
        assert_eq!(
            imports("def f():\n  try:\n    import a\n  except Exception:\n    return\n"),
            ["a sometimes tried"]
        );
    }

    #[test]
    fn docstrings_are_not_string_literals() {
        let text = "'''https://doc'''\nx = 'https://a'\nif y == 'https://b': pass\ndef f(u='https://c'):\n  'doc'\n";
        let found: Vec<&str> = scan(text).texts.into_iter().map(|at| &text[at]).collect();
        assert_eq!(found, ["https://a", "https://b", "https://c"]);
    }
}
