//! One run: from the arguments to the exit code.

use rquickjs::{Ctx, Function, Object};

use crate::bindings::wasi::cli::environment::{get_environment, initial_cwd};
use crate::builtins::{module, performance};
use crate::command_line::{self, Command, Main, Run};
use crate::modules::loader::{self, Format};
use crate::typescript::{self, Language};
use crate::{engine, files, stdio, system};

/// The exit code of a program whose engine failed.
const BROKEN: u8 = 70;

/// Runs the program, and returns its exit code.
pub(crate) fn run(arguments: Vec<String>) -> u8 {
    system::set_running();
    performance::start();
    files::set_current_dir(initial_cwd().unwrap_or_else(|| "/".to_owned()));
    let environment = get_environment();
    let node_options = environment.iter().find(|(name, _)| name == "NODE_OPTIONS");
    let name = arguments.first().cloned().unwrap_or_else(|| "node".to_owned());
    match command_line::parse(arguments, node_options.map_or("", |(_, value)| value)) {
        Command::Print(text) => {
            // A reader that has closed its end does not need the text.
            stdio::write(stdio::STDOUT, text.as_bytes()).ok();
            0
        }
        Command::Fail(message, code) => {
            stdio::report(&message);
            code
        }
        Command::Check(file) => call(|ctx, exports| {
            let path = files::absolute(&file);
            check(ctx, exports, &path, module::read_source(ctx, &path))
        }),
        Command::CheckText(name) => check_text(name),
        Command::Run(run) => call(|ctx, exports| start(ctx, exports, &name, run)),
    }
}

/// Calls `action` with the engine. Errors are those that js/ could not report.
fn call(action: impl for<'js> FnOnce(&Ctx<'js>, &Object<'js>) -> rquickjs::Result<u8>) -> u8 {
    engine::with(|ctx, exports| match action(&ctx, &exports) {
        Ok(code) => code,
        Err(error) => {
            stdio::report(&format!("node: {}\n", engine::take_exception(&ctx, &error)));
            BROKEN
        }
    })
}

fn start<'js>(ctx: &Ctx<'js>, exports: &Object<'js>, name: &str, run: Run) -> rquickjs::Result<u8> {
    let options = Object::new(ctx.clone())?;
    let mut argv = vec!["/usr/bin/node".to_owned()];
    if run.modules_by_default {
        loader::set_modules_by_default();
    }
    match run.main {
        Main::File(file) => {
            let path = files::absolute(&file);
            argv.push(path.clone());
            options.set("file", path)?;
        }
        Main::Text(text, print) => {
            command_line::set_text(&text);
            options.set("name", "[eval]")?;
            options.set("text", text)?;
            options.set("print", print)?;
        }
        Main::Stdin => {
            let text = read_stdin();
            command_line::set_text(&text);
            argv.push("-".to_owned());
            options.set("name", "[stdin]")?;
            options.set("text", text)?;
        }
    }
    argv.extend(run.arguments);
    options.set("argv", argv)?;
    options.set("argv0", name)?;
    options.set("execArgv", run.options)?;
    options.set("requires", run.requires)?;
    options.set("imports", run.imports)?;
    options.set("envFiles", run.env_files)?;
    options.set("isModule", run.is_module)?;
    let code: i32 = exports.get::<_, Function<'_>>("run")?.call((options,))?;
    Ok(code as u8)
}

fn read_stdin() -> String {
    let mut bytes = Vec::new();
    loop {
        let piece = stdio::read_blocking(1 << 16);
        if piece.is_empty() {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        bytes.extend(piece);
    }
}

/// Reports the syntax errors of the text on stdin, under the name of a file.
fn check_text(name: &str) -> u8 {
    let text = read_stdin();
    command_line::set_text(&text);
    if let Some(language) = Language::of(name)
        && let Err(error) = typescript::strip(&text, language)
    {
        let before = text.get(..error.offset).unwrap_or(&text);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let (number, column) = (before.matches('\n').count() + 1, before[start..].chars().count());
        let line = text[start..].lines().next().unwrap_or_default();
        let report = format!(
            "{name}:{number}\n{line}\n{}^\n\nSyntaxError [ERR_INVALID_TYPESCRIPT_SYNTAX]: {}\n",
            " ".repeat(column),
            error.message
        );
        stdio::report(&report);
        return 1;
    }
    call(|ctx, exports| check(ctx, exports, name, module::source(ctx, name, text)))
}

/// Whether a line of a text begins with `import` or `export`, as only those of modules do.
fn imports(text: &str) -> bool {
    let mut words = text.lines().filter_map(|line| line.split_whitespace().next());
    words.any(|word| matches!(word, "import" | "export"))
}

/// Reports the syntax errors of a source.
fn check<'js>(
    ctx: &Ctx<'js>,
    exports: &Object<'js>,
    path: &str,
    source: rquickjs::Result<String>,
) -> rquickjs::Result<u8> {
    let checked = source.and_then(|text| match loader::format(path) {
        Format::Module => loader::check_module(ctx, path, &text),
        Format::Unknown if loader::is_module(ctx, path, &text) => Ok(()),
        // A module with errors: those that it has as one are reported.
        Format::Unknown if imports(&text) => loader::check_module(ctx, path, &text),
        _ => loader::compile_function(ctx, path, &text, true).map(drop),
    });
    if checked.is_ok() {
        return Ok(0);
    }
    exports.get::<_, Function<'_>>("fatal")?.call::<_, ()>((ctx.catch(),))?;
    Ok(1)
}
