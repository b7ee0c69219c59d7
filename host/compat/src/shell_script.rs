//! Judges a shell script: the program that each command starts, after prefixes such as `env` and
//! `xargs`.

use std::collections::HashSet;
use std::ops::Range;

use super::judge::{Caller, Judge};
use super::need::NeedEffect;
use super::shell_words::{self, Word};
use super::{Reach, Role, javascript_script, network, python_script};
use skillhost_skill::runtime::javascript;

/// The most levels of nested scripts: `bash -c`, `eval`, `python3 -c`.
const MAX_NESTING: usize = 3;
/// The most prefixes before a command, such as `env`, `xargs` and `timeout`.
const MAX_PREFIXES: usize = 8;

/// Judges a range of a text.
pub(super) fn judge(
    judge: &mut Judge<'_>,
    text: &str,
    part: Range<usize>,
    reach: Reach,
    caller: Caller,
    nesting: usize,
) {
    if nesting > MAX_NESTING {
        return;
    }
    let script = shell_words::read(text, part);
    let mut reader = Commands { judge, text, functions: &script.functions, caller, nesting };
    for command in &script.commands {
        let reach = if reach == Reach::Always { command.reach } else { reach };
        reader.command(&command.words, command.here.clone(), reach);
    }
    for word in &script.addresses {
        reader.addresses(word);
    }
}

/// Judges a command that a script in another language starts with a list of arguments.
pub(super) fn argv(judge: &mut Judge<'_>, argv: &[Option<String>], offset: usize, reach: Reach) {
    let words: Vec<Word> = argv.iter().map(|word| Word::known(word.as_deref(), offset)).collect();
    let outer = judge.inside;
    judge.inside.get_or_insert(offset);
    Commands { judge, text: "", functions: &HashSet::new(), caller: Caller::Program, nesting: 1 }
        .command(&words, None, reach);
    judge.inside = outer;
}

struct Commands<'j, 'a, 't> {
    judge: &'j mut Judge<'a>,
    text: &'t str,
    functions: &'t HashSet<String>,
    caller: Caller,
    nesting: usize,
}

impl Commands<'_, '_, '_> {
    /// Judges one command. Each round removes one prefix.
    fn command(&mut self, words: &[Word], here: Option<Range<usize>>, reach: Reach) {
        let mut words = words;
        if !matches!(words.first().map(|w| w.text.as_str()), Some("echo" | "printf" | "cat")) {
            words
                .iter()
                .filter(|word| word.text.contains("://"))
                .for_each(|word| self.addresses(word));
        }
        for _ in 0..MAX_PREFIXES {
            let Some((first, rest)) = words.split_first() else { return };
            let name = first.text.rsplit('/').next().unwrap_or(&first.text);
            let shared = || self.caller == Caller::Shell && self.judge.shares_function(&first.text);
            if self.functions.contains(&first.text) || shared() {
                return;
            }
            words = match name {
                // A prompt in instructions.
                "$" | "%" => rest,
                "env" => after_variables(after_options(rest, &["-u", "--unset", "-C"])),
                "command"
                    if rest.first().is_some_and(|w| matches!(w.text.as_str(), "-v" | "-V")) =>
                {
                    return;
                }
                "command" | "builtin" | "exec" | "nohup" | "time" | "stdbuf" | "setsid"
                | "nice" | "sudo" | "doas" => {
                    if matches!(name, "sudo" | "doas" | "setsid" | "nice" | "stdbuf") {
                        self.started(words, reach);
                    }
                    after_options(rest, &["-u", "-g", "-n", "-a", "-o", "-e", "-i"])
                }
                "timeout" => after_options(rest, &["-s", "-k", "--signal", "--kill-after"])
                    .get(1..)
                    .unwrap_or_default(),
                "xargs" => {
                    self.started(words, reach);
                    after_options(rest, &["-n", "-I", "-P", "-d", "-L", "-a", "-E", "-s"])
                }
                "find" => {
                    self.started(words, reach);
                    let from = rest
                        .iter()
                        .position(|w| matches!(w.text.as_str(), "-exec" | "-execdir" | "-ok"));
                    let Some(command) = from.and_then(|at| rest.get(at + 1..)) else { return };
                    let end = command
                        .iter()
                        .position(|w| matches!(w.text.as_str(), ";" | "+"))
                        .unwrap_or(command.len());
                    &command[..end]
                }
                "uv" if rest.first().is_some_and(|w| w.text == "run") => {
                    let options = [
                        "--with",
                        "-p",
                        "--python",
                        "--project",
                        "--directory",
                        "--extra",
                        "--group",
                        "--from",
                        "--index",
                    ];
                    match after_options(&rest[1..], &options) {
                        [script, ..] if script.text.ends_with(".py") => {
                            return self.script(script, reach);
                        }
                        rest => rest,
                    }
                }
                "uv" if rest.first().is_some_and(|w| w.text == "pip") => rest,
                _ => return self.program(name, words, here, reach),
            };
        }
    }

    /// Judges a command without prefixes.
    fn program(&mut self, name: &str, words: &[Word], here: Option<Range<usize>>, reach: Reach) {
        let (first, rest) = (&words[0], &words[1..]);
        let literal = rest.first().filter(|word| !word.computed);
        match name {
            "eval" => literal
                .into_iter()
                .filter(|_| rest.len() == 1)
                .for_each(|word| self.shell(word, reach)),
            "trap" => literal
                .into_iter()
                .filter(|_| rest.len() > 1)
                .for_each(|word| self.shell(word, Reach::Sometimes)),
            "source" | "." => rest.iter().take(1).for_each(|word| self.script(word, reach)),
            "bash" | "sh" => {
                self.started(words, reach);
                let options = rest.iter().take_while(|word| word.text.starts_with('-')).count();
                let command = rest[..options].iter().any(|word| word.text.ends_with('c'));
                match rest.get(options) {
                    Some(text) if command => self.shell(text, reach),
                    Some(script) => self.script(script, reach),
                    None => {}
                }
            }
            "python3" | "python" => {
                self.started(words, reach);
                self.python(rest, here, reach);
            }
            "pip" | "pip3" => {
                self.started(words, reach);
                self.pip(rest);
            }
            "node" | "nodejs" => {
                self.started(words, reach);
                self.node(rest, here, reach);
            }
            _ if javascript::is_tool(name) => {
                self.started(words, reach);
                self.javascript_tool(name, rest, reach);
            }
            "curl" | "wget" => {
                self.started(words, reach);
                self.judge.asks(name, first.at.start, reach);
            }
            _ if first.computed => self.script(first, reach),
            _ => self.started(words, reach),
        }
    }

    /// Judges the arguments of `python3`.
    fn python(&mut self, rest: &[Word], here: Option<Range<usize>>, reach: Reach) {
        let rest = after_options(rest, &["-X", "-W"]);
        match rest {
            [option, module, after @ ..] if option.text == "-m" => match module.text.as_str() {
                "pip" => self.pip(after),
                _ if module.computed => {}
                name => self.judge.runs_module(name, module.at.start, reach),
            },
            [option, text, ..]
                if option.text == "-c" && !text.computed && self.nesting < MAX_NESTING =>
            {
                let outer = self.judge.inside;
                self.judge.inside.get_or_insert(text.at.start);
                python_script::judge(self.judge, &text.text, 0..text.text.len(), self.nesting + 1);
                self.judge.inside = outer;
            }
            [script, ..] if script.text != "-" && !script.text.starts_with("-") => {
                self.script(script, reach)
            }
            _ => {
                if let Some(at) =
                    here.filter(|_| self.nesting < MAX_NESTING && !self.text.is_empty())
                {
                    python_script::judge(self.judge, self.text, at, self.nesting + 1);
                }
            }
        }
    }

    /// Judges the arguments of `node`.
    fn node(&mut self, rest: &[Word], here: Option<Range<usize>>, reach: Reach) {
        let rest = after_node_options(rest);
        match rest {
            [option, text, ..] if javascript::CODE.contains(&option.text.as_str()) => {
                if !text.computed && self.nesting < MAX_NESTING {
                    self.javascript(&text.text, text.at.start);
                }
            }
            [script, ..] if script.text != "-" => self.script(script, reach),
            _ => {
                if let Some(at) =
                    here.filter(|_| self.nesting < MAX_NESTING && !self.text.is_empty())
                {
                    let text = self.text;
                    self.javascript(&text[at.clone()], at.start);
                }
            }
        }
    }

    /// Judges JavaScript in a word or a here-document.
    fn javascript(&mut self, text: &str, offset: usize) {
        let outer = self.judge.inside;
        self.judge.inside.get_or_insert(offset);
        javascript_script::judge(self.judge, text, 0, self.nesting + 1);
        self.judge.inside = outer;
    }

    /// Judges a command of another JavaScript tool, such as `npx tsx x.ts` or `npm install x`.
    fn javascript_tool(&mut self, name: &str, rest: &[Word], reach: Reach) {
        let texts: Vec<String> = rest.iter().map(|word| word.text.clone()).collect();
        let Some(Ok(node)) = javascript::node_arguments(name, &texts) else { return };
        // The arguments of `node` are the last words of the command.
        let Some(words) = rest.len().checked_sub(node.len()).map(|from| &rest[from..]) else {
            return self.npm(&node, rest);
        };
        if words.iter().map(|word| &word.text).eq(&node) {
            self.node(words, None, reach);
        } else {
            self.npm(&node, rest);
        }
    }

    /// Judges `npm install NAMES` and `npx NAME`, like [`Self::pip`]. `node` has the command's
    /// arguments of `node`.
    fn npm(&mut self, node: &[String], rest: &[Word]) {
        let is_block = self.judge.role == Role::Block;
        let effect = if is_block { NeedEffect::None } else { NeedEffect::Part };
        let args = node.iter().filter(|word| !word.starts_with("--as="));
        let args: Vec<&str> = args.map(String::as_str).collect();
        let names: &[&str] = match args.as_slice() {
            [script, name, ..] if *script == javascript::NPX => std::slice::from_ref(name),
            [_, "install" | "i" | "add" | "a", names @ ..] => names,
            _ => &[],
        };
        for word in rest.iter().filter(|word| !word.computed && names.contains(&&*word.text)) {
            if let Some(dependency) = super::dependencies::npm_package(&word.text) {
                self.judge.declared_npm(&dependency, word.at.start, effect);
            }
        }
    }

    /// Judges `pip install NAMES`, which fails in a script for a package that is not in the set. In
    /// a block of instructions, a missing package has an effect only where it is imported.
    fn pip(&mut self, rest: &[Word]) {
        if rest.first().is_none_or(|w| w.text != "install") {
            return;
        }
        let is_block = self.judge.role == Role::Block;
        let effect = if is_block { NeedEffect::None } else { NeedEffect::Part };
        let names = after_options(&rest[1..], &["-r", "-t", "-i", "--target", "--index-url"]);
        for word in names.iter().filter(|word| !word.computed && !word.text.starts_with('-')) {
            for dependency in super::dependencies::requirements(&word.text) {
                self.judge.declared(&dependency, word.at.start, effect);
            }
        }
    }

    /// Judges a file that is run.
    fn script(&mut self, word: &Word, reach: Reach) {
        self.judge.runs(&word.text, word.at.start, reach);
    }

    /// Judges a shell command in a word.
    fn shell(&mut self, word: &Word, reach: Reach) {
        if word.computed {
            return;
        }
        let outer = self.judge.inside;
        self.judge.inside.get_or_insert(word.at.start);
        judge(self.judge, &word.text, 0..word.text.len(), reach, self.caller, self.nesting + 1);
        self.judge.inside = outer;
    }

    fn started(&mut self, words: &[Word], reach: Reach) {
        let argv: Vec<Option<String>> =
            words.iter().take(16).map(|w| (!w.computed).then(|| w.text.clone())).collect();
        self.judge.command(&argv, words[0].at.start, reach, self.caller);
    }

    fn addresses(&mut self, word: &Word) {
        for (offset, to) in network::addresses(&word.text) {
            self.judge.names_host(word.at.start + offset, to);
        }
    }
}

/// Returns the words after the options at the start. `with_value` lists options with a value.
fn after_options<'w>(words: &'w [Word], with_value: &[&str]) -> &'w [Word] {
    let mut rest = words;
    while let [option, after @ ..] = rest {
        match option.text.as_str() {
            "--" => return after,
            // The caller handles these.
            "-" | "-m" | "-c" => break,
            text if with_value.contains(&text) => rest = after.get(1..).unwrap_or_default(),
            text if text.starts_with('-') => rest = after,
            _ => break,
        }
    }
    rest
}

/// Returns the words of a command of `node` after the options at the start; an option whose value is
/// the program is left.
fn after_node_options(words: &[Word]) -> &[Word] {
    let mut rest = words;
    while let [option, after @ ..] = rest {
        match option.text.as_str() {
            "--" => return after,
            "-" => break,
            text if javascript::CODE.contains(&text) => break,
            text if javascript::takes_value(text) => rest = after.get(1..).unwrap_or_default(),
            text if text.starts_with('-') => rest = after,
            _ => break,
        }
    }
    rest
}

/// Returns the words after the variable assignments at the start.
fn after_variables(words: &[Word]) -> &[Word] {
    let set = words.iter().take_while(|word| word.text.contains('=')).count();
    &words[set..]
}
