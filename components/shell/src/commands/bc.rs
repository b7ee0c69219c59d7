//! `bc`: arithmetic with any number of digits.

mod library;
mod number;
mod parse;
mod run;

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use lexopt::Arg::{Long, Short, Value};
use lexopt::{Error, ValueExt as _};

use self::parse::{Parser, Statement};
use self::run::{Flow, Machine};
use super::{absolute, fail, options, standard_input};

const HELP: &str = "\
Usage: bc [-l] [FILE]...
Computes with numbers of any length: reads the files, and then standard input.
  -l  defines s, c, a, l, e and j, and sets scale to 20
  -q, -s, -w  have no effect here
";

pub(super) struct Bc;

struct Options {
    has_library: bool,
    help: bool,
    files: Vec<String>,
}

#[async_trait]
impl Command for Bc {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let options = match parse(context.args) {
            Ok(options) => options,
            Err(error) => {
                return fail(&context, &format!("bc: {}\n", options::message(&error)), 1).await;
            }
        };
        if options.help {
            context.stdout.write_all(HELP.as_bytes()).await?;
            return Ok(CommandStatus::with_code(0));
        }
        let mut machine = Machine::new(options.has_library);
        for file in &options.files {
            let Ok(bytes) = context.fs.read_file(&absolute(&context, file)).await else {
                return fail(&context, &format!("File {file} is unavailable.\n"), 1).await;
            };
            if !run(&context, &mut machine, file, &bytes).await? {
                return Ok(CommandStatus::with_code(0));
            }
        }
        let bytes = standard_input(&context).await?;
        run(&context, &mut machine, "(standard_in)", &bytes).await?;
        Ok(CommandStatus::with_code(0))
    }
}

/// Runs a program line by line. Returns whether the next one runs too.
async fn run(
    context: &CommandContext<'_>,
    machine: &mut Machine,
    name: &str,
    program: &[u8],
) -> Result<bool> {
    let mut parser = Parser::new(&String::from_utf8_lossy(program));
    loop {
        let statements = match parser.next() {
            Ok(None) => return Ok(true),
            Ok(Some(statements)) => statements,
            Err(error) => {
                fail(context, &format!("{name} {}: syntax error\n", error.0), 0).await?;
                continue;
            }
        };
        let quits = has_quit(&statements);
        let flow = if quits { Ok(Flow::Halt) } else { machine.run(&statements) };
        let output = std::mem::take(&mut machine.output);
        context.stdout.write_all(output.as_bytes()).await?;
        match flow {
            Ok(Flow::Halt) => return Ok(false),
            Ok(_) => {}
            Err(message) => {
                fail(context, &format!("Runtime error (func=(main)): {message}\n"), 0).await?;
            }
        }
    }
}

/// Whether the statements of a line have `quit`, which ends the program when it is read.
fn has_quit(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Quit => true,
        Statement::Block(inner) => has_quit(inner),
        Statement::If(_, body, other) => {
            has_quit(std::slice::from_ref(body))
                || other.as_deref().is_some_and(|other| has_quit(std::slice::from_ref(other)))
        }
        Statement::While(_, body) | Statement::For { body, .. } => {
            has_quit(std::slice::from_ref(body))
        }
        _ => false,
    })
}

fn parse(args: &[String]) -> std::result::Result<Options, Error> {
    let mut options = Options { has_library: false, help: false, files: Vec::new() };
    let mut parser = options::parser(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Short('l') | Long("mathlib") => options.has_library = true,
            Short('q' | 's' | 'w' | 'i') | Long("quiet" | "standard" | "warn" | "interactive") => {}
            Short('h') | Long("help") => options.help = true,
            Value(file) => options.files.push(file.string()?),
            other => return Err(options::with_value(other.unexpected(), &mut parser)),
        }
    }
    Ok(options)
}
