//! Reads shell scripts: words, quotes, substitutions and compound commands, as bash's lexer does.
//!
//! It accepts any text, reads each byte once, and limits nesting: text that is nested deeper is not
//! analyzed.

mod compound;
mod expand;
mod redirect;

use std::collections::HashSet;
use std::ops::Range;

use super::Reach;

/// The most levels of substitutions and subshells.
const MAX_DEPTH: usize = 40;

/// The result of reading a script.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Command>,
    /// The functions and aliases that it defines.
    pub(super) functions: HashSet<String>,
    /// The URLs that are assigned to variables.
    pub(super) addresses: Vec<Word>,
}

/// A simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// The words, at least one, without assignments before the command and redirections.
    pub(super) words: Vec<Word>,
    pub(super) reach: Reach,
    /// The range of its here-document.
    pub(super) here: Option<Range<usize>>,
}

/// A word without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The text. Expansions of variables are kept as written; `$()` stands for a substitution.
    pub(super) text: String,
    pub(super) at: Range<usize>,
    /// Whether it contains an expansion, so that only the shell knows its value.
    pub(super) computed: bool,
    quoted: bool,
}

impl Word {
    /// Creates a word from another language; `None` for an unknown one.
    pub(super) fn known(text: Option<&str>, offset: usize) -> Word {
        Word {
            text: text.unwrap_or("$()").to_owned(),
            at: offset..offset,
            computed: text.is_none(),
            quoted: true,
        }
    }
}

/// Reads the range of a text that is a script.
pub(super) fn read(text: &str, part: Range<usize>) -> Script {
    let end = text.floor_char_boundary(part.end);
    let at = text.floor_char_boundary(part.start).min(end);
    let mut reader = Reader {
        text,
        bytes: &text.as_bytes()[..end],
        at,
        script: Script::default(),
        here: Vec::new(),
        depth: 0,
    };
    while reader.at < end {
        reader.list(Reach::Always, End::Text);
        // An unmatched `)`.
        reader.at += usize::from(reader.at < end);
    }
    reader.script
}

/// The end of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Text,
    Paren,
    Backtick,
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    script: Script,
    /// The here-documents whose bodies follow.
    here: Vec<Here>,
    depth: usize,
}

struct Here {
    delimiter: String,
    tabs: bool,
    /// The command to which it belongs, once known.
    command: Option<usize>,
}

/// An open compound command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    If,
    Loop,
    /// `case`, and whether a pattern follows.
    Case(bool),
    Brace,
    /// A brace after `&&` or `||`.
    ChainedBrace,
    Function,
}

/// The list that is being read: its open compound commands, and the words of the current command.
struct List {
    open: Vec<Open>,
    words: Vec<Word>,
    /// Whether `&&` or `||` precedes.
    chained: bool,
    base: Reach,
}

impl List {
    /// Ends a function, whose body is one compound command.
    fn end_function(&mut self) {
        if self.open.last() == Some(&Open::Function) {
            self.open.pop();
        }
    }

    fn reach(&self) -> Reach {
        let always = self.open.iter().all(|open| *open == Open::Brace) && !self.chained;
        if always { self.base } else { Reach::Sometimes }
    }
}

impl<'a> Reader<'a> {
    /// Reads commands up to the end of the list, without consuming it.
    fn list(&mut self, base: Reach, end: End) {
        let mut list = List { open: Vec::new(), words: Vec::new(), chained: false, base };
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if self.line_ends(1) => self.join_lines(),
                b'\n' => {
                    if !list.words.is_empty() {
                        self.command(&mut list, false);
                        list.chained = false;
                    }
                    self.at += 1;
                    self.here_documents();
                }
                b'#' => self.skip_line(),
                b'`' if end == End::Backtick => break,
                b')' if matches!(list.open.last(), Some(Open::Case(true))) => {
                    // The end of a pattern.
                    list.words.clear();
                    *list.open.last_mut().unwrap_or(&mut Open::If) = Open::Case(false);
                    self.at += 1;
                }
                b')' if end == End::Paren || end == End::Text => break,
                b';' | b'&' | b'|' if !self.is_redirection() => self.separator(&mut list),
                b'(' => self.parenthesis(&mut list),
                b'<' | b'>' | b'&' => self.redirection(&mut list),
                _ => self.next_word(&mut list, end),
            }
        }
        self.command(&mut list, false);
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn starts(&self, text: &str) -> bool {
        self.bytes[self.at.min(self.bytes.len())..].starts_with(text.as_bytes())
    }

    fn line_ends(&self, ahead: usize) -> bool {
        self.peek(ahead) == Some(b'\n')
            || (self.peek(ahead) == Some(b'\r') && self.peek(ahead + 1) == Some(b'\n'))
    }

    /// Skips a backslash and the line end after it.
    fn join_lines(&mut self) {
        self.at += if self.peek(1) == Some(b'\r') { 3 } else { 2 };
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|b| b != b'\n') {
            self.at += 1;
        }
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(0), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Reads `;`, `&`, `|` and their doubles.
    fn separator(&mut self, list: &mut List) {
        let two = &self.bytes[self.at..self.bytes.len().min(self.at + 2)];
        let (or, and, case) = (two == b"||", two == b"&&", matches!(two, b";;" | b";&"));
        self.at += if or || and || case || two == b"|&" { 2 } else { 1 };
        if case && self.peek(0) == Some(b'&') {
            self.at += 1;
        }
        if matches!(list.open.last(), Some(Open::Case(true))) {
            // Separates the alternatives of a pattern.
            return;
        }
        self.command(list, or);
        match () {
            () if or || and => list.chained = true,
            () if two[0] == b'|' => {}
            () => list.chained = false,
        }
        if case && let Some(open @ Open::Case(_)) = list.open.last_mut() {
            *open = Open::Case(true);
        }
    }

    /// Reads `(`: a subshell, arithmetic, the `()` of a function, or the start of a pattern.
    fn parenthesis(&mut self, list: &mut List) {
        if matches!(list.open.last(), Some(Open::Case(true))) {
            self.at += 1;
        } else if list.words.is_empty() {
            let arithmetic = self.starts("((");
            self.at += if arithmetic { 2 } else { 1 };
            if arithmetic {
                self.arithmetic(2);
            } else {
                self.nested(list.reach(), End::Paren);
            }
            list.end_function();
        } else {
            self.at += 1;
            self.skip_blanks();
            if self.peek(0) == Some(b')') && list.words.len() == 1 {
                self.at += 1;
                let name = list.words.swap_remove(0).text;
                self.define(list, name);
            } else {
                self.array(list.reach());
            }
        }
    }

    fn define(&mut self, list: &mut List, name: String) {
        self.script.functions.insert(name);
        list.open.push(Open::Function);
    }

    /// Reads a nested list and its closing character.
    fn nested(&mut self, base: Reach, end: End) {
        if self.depth == MAX_DEPTH {
            self.at = self.bytes.len();
            return;
        }
        self.depth += 1;
        // Bodies of here-documents of the outer list follow the line of that list.
        let outer = std::mem::take(&mut self.here);
        self.list(base, end);
        self.here.splice(0..0, outer);
        self.depth -= 1;
        self.at += usize::from(self.at < self.bytes.len());
    }

    /// Reads a word, and handles assignments and keywords.
    fn next_word(&mut self, list: &mut List, end: End) {
        let start = self.at;
        let reach = list.reach();
        let word = self.word(reach, end);
        if self.at == start {
            self.at += 1;
            return;
        }
        let pattern = matches!(list.open.last(), Some(Open::Case(true)));
        let first = list.words.is_empty();
        if first && !pattern && is_assignment(&word) {
            if word.text.ends_with('=') && self.peek(0) == Some(b'(') {
                self.at += 1;
                self.array(reach);
            }
            if word.text.contains("://") {
                self.script.addresses.push(word);
            }
            return;
        }
        if first
            && !word.quoted
            && (!pattern || word.text == "esac")
            && self.keyword(list, &word.text)
        {
            return;
        }
        list.words.push(word);
    }

    /// Reads the elements of an array and the closing parenthesis.
    fn array(&mut self, reach: Reach) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b')' => {
                    self.at += 1;
                    return;
                }
                b'#' => self.skip_line(),
                _ => {
                    let start = self.at;
                    self.word(reach, End::Text);
                    self.at += usize::from(self.at == start);
                }
            }
        }
    }

    /// Ends the current command.
    fn command(&mut self, list: &mut List, or: bool) {
        let words = std::mem::take(&mut list.words);
        if words.is_empty() || matches!(list.open.last(), Some(Open::Case(true))) {
            return;
        }
        let reach = if or { Reach::Sometimes } else { list.reach() };
        if words[0].text == "alias" {
            let named = words[1..].iter().filter_map(|word| word.text.split_once('='));
            self.script.functions.extend(named.map(|(name, _)| name.to_owned()));
        }
        let index = self.script.commands.len();
        self.here
            .iter_mut()
            .filter(|here| here.command.is_none())
            .for_each(|here| here.command = Some(index));
        self.script.commands.push(Command { words, reach, here: None });
    }
}

fn is_assignment(word: &Word) -> bool {
    let Some((name, _)) = word.text.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(array, _)| array);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats each command, with `?` before one that runs on a condition.
    fn commands(text: &str) -> Vec<String> {
        let script = read(text, 0..text.len());
        let shown = script.commands.iter().map(|command| {
            let words: Vec<&str> = command.words.iter().map(|w| w.text.as_str()).collect();
            let here =
                command.here.clone().map_or(String::new(), |at| format!(" <<{:?}", &text[at]));
            format!(
                "{}{}{here}",
                if command.reach == Reach::Sometimes { "?" } else { "" },
                words.join(" ")
            )
        });
        shown.collect()
    }

    #[test]
    fn quotes_are_removed_and_expansions_are_kept() {
        assert_eq!(
            commands(r#"a 'b c' "d $e ${f:-g}" h\ i $'j\'k' l"m"n"#),
            ["a b c d $e ${f:-g} h i j'k lmn"]
        );
        assert_eq!(commands("X=1 Y='2 3' a[1]=x b=$(c d) e f=g # h\n"), ["c d", "e f=g"]);
        assert_eq!(commands("a \\\n b\\\r\n c"), ["a b c"]);
        assert_eq!(
            commands("arr=(x 'y z' $(w)) q; local l=(r s); declare -a t=(u)"),
            ["w", "q", "local l=", "declare -a t="]
        );
    }

    #[test]
    fn lists_pipes_and_substitutions_are_split() {
        assert_eq!(commands("a | b |& c; d & e\nf"), ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(commands("a && b || c; d"), ["a", "?b", "?c", "d"]);
        let nested = "a \"$(b `c` \"$(d)\")\" <(e) $((f * (2))) ${g:-$(h)}";
        assert_eq!(commands(nested), ["c", "d", "b $() $()", "e", "h", "a $() $() $() $()"]);
        assert_eq!(commands("(a; b) && { c; d; }; e &&\n f"), ["a", "b", "?c", "?d", "e", "?f"]);
    }

    #[test]
    fn redirections_and_here_documents_are_not_words() {
        assert_eq!(commands("a 2>&1 >b <c &>d 3<&- e >|f"), ["a e"]);
        let text = "a <<E b\nno $(no)\nE\nc <<-'F' <<<x\n\tno\n\tF\nd";
        assert_eq!(commands(text), ["a b <<\"no $(no)\\n\"", "c <<\"\\tno\\n\"", "d"]);
        assert_eq!(commands("x=$(cat <<E\nno)\nE\n)\ny"), ["cat <<\"no)\\n\"", "y"]);
        assert_eq!(commands("while read l; do a; done < <(b)"), ["?read l", "?a", "b", "$()"]);
        assert_eq!(commands("a <<E\nnever closed"), ["a <<\"never closed\""]);
    }

    #[test]
    fn commands_in_branches_and_loops_run_sometimes() {
        assert_eq!(
            commands("if a; then b; elif c; then d; else e; fi; f"),
            ["?a", "?b", "?c", "?d", "?e", "f"]
        );
        assert_eq!(
            commands("for i in x $(y) z; do a; done; for ((i=0;i<3;i++)); do b; done; c"),
            ["?y", "?a", "?b", "c"]
        );
        assert_eq!(
            commands("case $1 in a|if) b;; (c) d;;\n *) e ;; *) f\nesac; g"),
            ["?b", "?d", "?e", "?f", "g"]
        );
        assert_eq!(
            commands("case \"$1\" in\n a | b )\n  c ;;\n *) d ;& esac\n e"),
            ["?c", "?d", "e"]
        );
        assert_eq!(
            commands("[[ $a == b && ( -f c || $d =~ ^[[:digit:]](e)$ ) ]] && f; ! g"),
            ["?f", "g"]
        );
        assert_eq!(
            commands("until a; do b; done; select x in y; do c; done; d"),
            ["?a", "?b", "?c", "d"]
        );
    }

    #[test]
    fn functions_and_aliases_are_recorded() {
        let script = read(
            "f() { a; }\nfunction g { b; }\nfunction h() ( c )\nalias i='j k' l=m\nf",
            0..1_000,
        );
        let mut names: Vec<&str> = script.functions.iter().map(String::as_str).collect();
        names.sort();
        assert_eq!(names, ["f", "g", "h", "i", "l"]);
        assert_eq!(
            commands("f() {\n a; if b; then c; fi; }\nd\ng () ( e )\nh"),
            ["?a", "?b", "?c", "d", "?e", "h"]
        );
    }

    #[test]
    fn text_nested_too_deeply_is_skipped() {
        for text in ["$(", "${", "\"${x:-", "(", "<(", "f() (", "[[ $("] {
            assert!(commands(&text.repeat(100_000)).len() <= MAX_DEPTH + 1, "{text}");
        }
    }
}
