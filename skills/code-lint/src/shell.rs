//! Rules for shell scripts.

use shuck_ast::{
    Command, CommandSubstitutionSyntax, CompoundCommand, Stmt, StmtSeq, Word, WordPart,
};
use shuck_ast::{SimpleCommand, WordPartNode};
use shuck_parser::Error;
use shuck_parser::parser::Parser;

use crate::finding::Findings;

/// Variables that never have spaces or wildcards.
const SINGLE_WORDS: [&str; 5] = ["?", "#", "$", "!", "-"];

/// Checks a script of bash or sh.
pub fn lint(text: &str, findings: &mut Findings<'_>) {
    let parsed = Parser::new(text).parse();
    for one in &parsed.diagnostics {
        findings.at(one.span.start.offset(), "syntax", one.message.clone());
    }
    if let Some(Error::Parse { message, line, column }) = &parsed.terminal_error {
        let lines = text.matches('\n').count() + 1;
        findings.add((*line).clamp(1, lines), Some((*column).max(1)), "syntax", message.clone());
    }
    if parsed.is_ok() {
        Reader { text, findings }.sequence(&parsed.file.body);
    }
}

struct Reader<'a, 'f, 't> {
    text: &'a str,
    findings: &'f mut Findings<'t>,
}

impl Reader<'_, '_, '_> {
    fn sequence(&mut self, sequence: &StmtSeq) {
        for statement in sequence.iter() {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.command {
            Command::Simple(command) => self.simple(command),
            Command::Binary(both) => {
                self.statement(&both.left);
                self.statement(&both.right);
            }
            Command::Compound(compound) => self.compound(compound),
            Command::Function(function) => self.statement(&function.body),
            _ => {}
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::If(one) => {
                self.sequence(&one.condition);
                self.sequence(&one.then_branch);
                for (condition, branch) in &one.elif_branches {
                    self.sequence(condition);
                    self.sequence(branch);
                }
                if let Some(branch) = &one.else_branch {
                    self.sequence(branch);
                }
            }
            CompoundCommand::For(one) => self.sequence(&one.body),
            CompoundCommand::ArithmeticFor(one) => self.sequence(&one.body),
            CompoundCommand::Select(one) => self.sequence(&one.body),
            CompoundCommand::While(one) => {
                self.sequence(&one.condition);
                self.sequence(&one.body);
            }
            CompoundCommand::Until(one) => {
                self.sequence(&one.condition);
                self.sequence(&one.body);
            }
            CompoundCommand::Case(one) => {
                for case in &one.cases {
                    self.sequence(&case.body);
                }
            }
            CompoundCommand::Subshell(body) | CompoundCommand::BraceGroup(body) => {
                self.sequence(body);
            }
            CompoundCommand::Time(one) => {
                if let Some(command) = &one.command {
                    self.statement(command);
                }
            }
            CompoundCommand::Coproc(one) => self.statement(&one.body),
            _ => {}
        }
    }

    fn simple(&mut self, command: &SimpleCommand) {
        let name = self.source(&command.name);
        let has_option = |letter: char| {
            command.args.iter().any(|word| {
                let word = self.source(word);
                word.starts_with('-') && word.contains(letter)
            })
        };
        if name == "read" && !has_option('r') {
            let message = "`read` without `-r` changes backslashes";
            self.findings.at(command.span.start.offset(), "read-without-r", message);
        }
        for assignment in &command.assignments {
            let span = assignment.span;
            let text = self.text.get(span.start.offset()..span.end.offset()).unwrap_or_default();
            if let Some(at) = backtick(text) {
                self.backticks(span.start.offset() + at);
            }
        }
        self.parts(&command.name.parts, false);
        for word in &command.args {
            self.parts(&word.parts, false);
        }
    }

    fn parts(&mut self, parts: &[WordPartNode], is_quoted: bool) {
        for part in parts {
            let start = part.span.start.offset();
            match &part.kind {
                WordPart::DoubleQuoted { parts, .. } => self.parts(parts, true),
                WordPart::CommandSubstitution { body, syntax } => {
                    if *syntax == CommandSubstitutionSyntax::Backtick {
                        self.backticks(start);
                    }
                    self.sequence(body);
                }
                WordPart::Variable(name)
                    if !is_quoted && !SINGLE_WORDS.contains(&name.as_str()) =>
                {
                    let message = format!(
                        "`${name}` is split at spaces, and its wildcards expand: write `\"${name}\"`"
                    );
                    self.findings.at(start, "unquoted-variable", message);
                }
                _ => {}
            }
        }
    }

    fn backticks(&mut self, offset: usize) {
        self.findings.at(offset, "backticks", "write `$(...)`, which nests, instead of backticks");
    }

    fn source(&self, word: &Word) -> &str {
        self.text.get(word.span.start.offset()..word.span.end.offset()).unwrap_or_default()
    }
}

/// Returns where a backtick is, outside of single quotes and not after a backslash.
fn backtick(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if !is_quoted => is_escaped = true,
            b'\'' => is_quoted = !is_quoted,
            b'`' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}
