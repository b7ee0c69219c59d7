//! The names that a CommonJS file exports, for `import { name }` of it.
//!
//! As in Node, they are found in the text, because the file runs only after its importers are
//! linked: assignments to `exports.name` and `module.exports`, `Object.defineProperty(exports, ...)`,
//! and what compilers write. Names that are found and never set are `undefined`.

use std::collections::BTreeSet;

/// What the text of a file exports.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Exports {
    /// The names.
    pub(crate) names: BTreeSet<String>,
    /// The specifiers of files whose names it exports as well.
    pub(crate) reexports: Vec<String>,
}

/// Finds what the text of a CommonJS file exports.
pub(crate) fn find(text: &str) -> Exports {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, found: Exports::default() };
    scan.run();
    scan.found
}

struct Scan<'t> {
    bytes: &'t [u8],
    at: usize,
    found: Exports,
}

impl Scan<'_> {
    fn run(&mut self) {
        // The last byte that is no space, and the last word, tell a regular expression from a
        // division.
        let mut last = b';';
        let mut last_word = String::new();
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'/' if self.skip_comment() => {}
                b'/' if starts_regexp(last, &last_word) => {
                    self.skip_regexp();
                    last = b')';
                }
                b'"' | b'\'' => {
                    self.string();
                    last = b')';
                }
                b'`' => {
                    self.skip_template();
                    last = b')';
                }
                _ if is_word(byte) => {
                    let word = self.word();
                    if last != b'.' {
                        self.statement(&word);
                    } else if matches!(word.as_str(), "__exportStar" | "__export") {
                        self.reexport_call();
                    }
                    last = b'a';
                    last_word = word;
                }
                _ => {
                    if !byte.is_ascii_whitespace() {
                        last = byte;
                        last_word.clear();
                    }
                    self.at += 1;
                }
            }
        }
    }

    /// Looks at what follows a word that may begin an export.
    fn statement(&mut self, word: &str) {
        let start = self.at;
        match word {
            "exports" => self.member(),
            "module" => {
                if self.take(b'.') && self.word() == "exports" {
                    let after = self.at;
                    self.space();
                    if self.bytes.get(self.at) == Some(&b'=') {
                        self.whole();
                    } else {
                        self.at = after;
                        self.member();
                    }
                }
            }
            "Object" => self.define_property(),
            "__exportStar" | "__export" => self.reexport_call(),
            _ => return,
        }
        // What was looked at may contain exports itself.
        self.at = start;
    }

    /// `.name =` or `['name'] =` after `exports`.
    fn member(&mut self) {
        let name = if self.take(b'.') {
            self.space();
            Some(self.word())
        } else if self.take(b'[') {
            self.space();
            let name = self.string();
            name.filter(|_| self.take(b']'))
        } else {
            None
        };
        if let Some(name) = name.filter(|name| !name.is_empty())
            && self.take(b'=')
            && self.bytes.get(self.at) != Some(&b'=')
        {
            self.found.names.insert(name);
        }
    }

    /// `= { names }` or `= require('file')` after `module.exports`.
    fn whole(&mut self) {
        if !self.take(b'=') || self.bytes.get(self.at) == Some(&b'=') {
            return;
        }
        self.space();
        if self.take(b'{') {
            self.object();
        } else if self.word() == "require" {
            self.required();
        }
    }

    /// The keys of an object literal, up to the first that is no name.
    fn object(&mut self) {
        loop {
            self.space();
            if self.bytes[self.at.min(self.bytes.len())..].starts_with(b"...") {
                self.at += 3;
                self.space();
                if self.word() == "require" {
                    self.required();
                }
            } else {
                let name = match self.bytes.get(self.at) {
                    Some(b'"' | b'\'') => self.string(),
                    Some(&byte) if is_word(byte) => Some(self.word()),
                    _ => None,
                };
                let Some(name) = name else { return };
                self.space();
                match self.bytes.get(self.at) {
                    Some(b',' | b'}') => {}
                    Some(b':') => {
                        self.at += 1;
                        self.value();
                    }
                    // Methods: `a() {}`. `get a() {}` and `async a() {}` have the name second.
                    Some(b'(') => self.value(),
                    Some(&byte) if is_word(byte) && matches!(name.as_str(), "get" | "async") => {
                        let name = self.word();
                        self.found.names.insert(name);
                        self.value();
                        if !self.take(b',') {
                            return;
                        }
                        continue;
                    }
                    _ => return,
                }
                self.found.names.insert(name);
            }
            if !self.take(b',') {
                return;
            }
        }
    }

    /// Skips a value in an object literal, up to its comma.
    fn value(&mut self) {
        let mut depth = 0usize;
        let mut last = b':';
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'/' if self.skip_comment() => continue,
                b'/' if starts_regexp(last, "") => {
                    self.skip_regexp();
                    last = b')';
                    continue;
                }
                b'"' | b'\'' => {
                    self.string();
                    last = b')';
                    continue;
                }
                b'`' => {
                    self.skip_template();
                    last = b')';
                    continue;
                }
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' if depth == 0 => return,
                b')' | b']' | b'}' => depth -= 1,
                b',' if depth == 0 => return,
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                last = byte;
            }
            self.at += 1;
        }
    }

    /// `.defineProperty(exports, 'name'` after `Object`.
    fn define_property(&mut self) {
        if !(self.take(b'.') && self.word() == "defineProperty" && self.take(b'(')) {
            return;
        }
        self.space();
        let on = self.word();
        let of_exports =
            on == "exports" || on == "module" && self.take(b'.') && self.word() == "exports";
        if of_exports && self.take(b',') {
            self.space();
            if let Some(name) = self.string() {
                self.found.names.insert(name);
            }
        }
    }

    /// `(require('file')` after a function that exports what another file does.
    fn reexport_call(&mut self) {
        let start = self.at;
        if self.take(b'(') {
            self.space();
            if self.word() == "require" {
                self.required();
            }
        }
        self.at = start;
    }

    /// `('file')` after `require`.
    fn required(&mut self) {
        if self.take(b'(') {
            self.space();
            let specifier = self.string();
            if let Some(specifier) = specifier.filter(|_| self.take(b')')) {
                self.found.reexports.push(specifier);
            }
        }
    }

    /// Skips spaces and then this byte, if it is there.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let there = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(there);
        there
    }

    fn space(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            if byte.is_ascii_whitespace() {
                self.at += 1;
            } else if byte != b'/' || !self.skip_comment() {
                return;
            }
        }
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(|byte| is_word(*byte)) {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned()
    }

    /// Reads a string without escapes. `None` if it has some, or if there is no string.
    fn string(&mut self) -> Option<String> {
        let quote = *self.bytes.get(self.at).filter(|byte| matches!(byte, b'"' | b'\''))?;
        let start = self.at + 1;
        let mut escapes = false;
        self.at = start;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\\' => {
                    escapes = true;
                    self.at += 1;
                }
                b'\n' => return None,
                _ if byte == quote => break,
                _ => {}
            }
            self.at += 1;
        }
        let end = self.at.min(self.bytes.len());
        self.at = end + 1;
        (!escapes).then(|| String::from_utf8_lossy(&self.bytes[start..end]).into_owned())
    }

    fn skip_comment(&mut self) -> bool {
        let end: &[u8] = match self.bytes.get(self.at + 1) {
            Some(b'/') => b"\n",
            Some(b'*') => b"*/",
            _ => return false,
        };
        let rest = &self.bytes[self.at + 2..];
        let length = rest.windows(end.len()).position(|part| part == end);
        self.at += 2 + length.map_or(rest.len(), |length| length + end.len());
        true
    }

    fn skip_regexp(&mut self) {
        let mut in_class = false;
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => return,
                b'\n' => return,
                _ => {}
            }
        }
    }

    /// Skips a template with its substitutions, which may contain templates. It does not recurse:
    /// the text decides how deep they are.
    fn skip_template(&mut self) {
        // The open braces in each substitution that has begun.
        let mut substitutions: Vec<usize> = Vec::new();
        let mut in_template = true;
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            if !in_template && matches!(byte, b'"' | b'\'') {
                self.string();
                continue;
            }
            self.at += 1;
            match byte {
                b'\\' if in_template => self.at += 1,
                b'`' if in_template && substitutions.is_empty() => return,
                b'`' => in_template = !in_template,
                b'$' if in_template && self.bytes.get(self.at) == Some(&b'{') => {
                    self.at += 1;
                    substitutions.push(0);
                    in_template = false;
                }
                b'{' | b'}' if !in_template => match (byte, substitutions.last_mut()) {
                    (b'{', Some(depth)) => *depth += 1,
                    (_, Some(depth)) if *depth > 0 => *depth -= 1,
                    _ => {
                        substitutions.pop();
                        in_template = true;
                    }
                },
                _ => {}
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

/// Whether a slash after this byte or word begins a regular expression.
fn starts_regexp(last: u8, last_word: &str) -> bool {
    match last_word {
        "return" | "typeof" | "case" | "in" | "of" | "delete" | "void" | "throw" | "new" | "do"
        | "else" => true,
        "" => !matches!(last, b')' | b']' | b'}') && !is_word(last),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        find(text).names.into_iter().collect()
    }

    #[test]
    fn assignments_are_found() {
        assert_eq!(
            names("exports.a = 1; module.exports.b = 2; exports['c'] = 3;"),
            ["a", "b", "c"]
        );
        assert_eq!(names("exports.a = exports.b = void 0;"), ["a", "b"]);
        assert_eq!(names("if (exports.a == 1) {} x.exports.b = 1"), [""; 0]);
        assert_eq!(names("module.exports = x == { a }"), [""; 0]);
    }

    #[test]
    fn keys_of_an_object_are_found() {
        assert_eq!(
            names(
                "module.exports = { a, b: f(1, {x: 2}), 'c': /,}/, d() { return 1 }, get e() {}, };"
            ),
            ["a", "b", "c", "d", "e"]
        );
        assert_eq!(names("0 && (module.exports = {\n  one,\n  two\n});"), ["one", "two"]);
    }

    #[test]
    fn what_compilers_write_is_found() {
        let text = r#"Object.defineProperty(exports, "__esModule", { value: true });
            Object.defineProperty(exports, "x", { enumerable: true, get: function () { return y.x; } });
            __exportStar(require("./z"), exports); tslib_1.__exportStar(require('w'), exports);"#;
        assert_eq!(names(text), ["__esModule", "x"]);
        assert_eq!(find(text).reexports, ["./z", "w"]);
        assert_eq!(find("module.exports = require('./lib')").reexports, ["./lib"]);
    }

    #[test]
    fn comments_strings_and_expressions_are_skipped() {
        let text = "// exports.a = 1\n/* exports.b = 1 */ 'exports.c = 1'; `exports.d = 1`; x = /exports.e = 1/;";
        assert_eq!(names(text), [""; 0]);
        assert_eq!(names("var r = a / b; exports.f = 1 / 2;"), ["f"]);
        assert_eq!(names("`${`${'}'}`}`; exports.g = 1"), ["g"]);
        assert_eq!(names("`${{a: '`'}}\\``; exports.h = 1; `${x}${y}`; exports.i = 1"), ["h", "i"]);
        assert_eq!(names("`${a + `${b}` + c} exports.d = 1`; exports.j = 1"), ["j"]);
    }

    #[test]
    fn deep_texts_do_not_exhaust_the_stack() {
        for part in ["`${", "= "] {
            find(&format!("module.exports {}", part.repeat(100_000)));
        }
    }

    #[test]
    fn no_text_fails() {
        for text in
            ["exports.", "module.exports = {", "'", "`${", "/", "exports['a", "/*", "\u{e9}"]
        {
            find(text);
        }
    }
}
