//! The arguments of `node`. The host replaces the commands of other tools, such as `bun run`, by
//! these.

#![allow(clippy::result_large_err, reason = "the error is the command itself, and is made once")]

use std::cell::RefCell;

/// The version of Node whose behaviour scripts find.
pub(crate) const VERSION: &str = "22.23.3";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Run a file or a text.
    Run(Run),
    /// Compile a file, and report its syntax errors.
    Check(String),
    /// Compile the text on stdin under this name, and report its syntax errors.
    CheckText(&'static str),
    /// Print the JavaScript of the text on stdin, which is the TypeScript of the file at this path.
    StripTypes(String),
    /// Print a text to stdout, and end.
    Print(String),
    /// Print an error to stderr, and end with the code.
    Fail(String, u8),
}

/// A run of a file or a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// The options before the file.
    pub(crate) options: Vec<String>,
    pub(crate) main: Main,
    /// The arguments after the file.
    pub(crate) arguments: Vec<String>,
    /// Modules to load before, by `-r` and `--import`.
    pub(crate) requires: Vec<String>,
    pub(crate) imports: Vec<String>,
    /// Whether a text is a module, by `--input-type`.
    pub(crate) is_module: bool,
    /// The name of a text whose syntax is checked, by `--input-type`.
    pub(crate) text_name: Option<&'static str>,
    /// Whether files are modules unless a package.json says otherwise, by
    /// `--experimental-default-type`.
    pub(crate) modules_by_default: bool,
    /// The files with values for the environment, by `--env-file` and `--env-file-if-exists`, and
    /// whether they must exist.
    pub(crate) env_files: Vec<(String, bool)>,
    /// The options of `NODE_OPTIONS`.
    pub(crate) environment_options: Vec<String>,
}

/// What runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Main {
    /// The text on stdin.
    #[default]
    Stdin,
    File(String),
    /// A text, and whether to print its value.
    Text(String, bool),
}

thread_local! {
    static TEXT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns the text that runs, for error messages.
pub(crate) fn text() -> Option<String> {
    TEXT.with_borrow(Clone::clone)
}

/// Notes the text that runs.
pub(crate) fn set_text(text: &str) {
    TEXT.set(Some(text.to_owned()));
}

/// Options with a value in the next argument.
const WITH_VALUE: [&str; 9] = [
    "--conditions",
    "-C",
    "--disable-warning",
    "--redirect-warnings",
    "--title",
    "--icu-data-dir",
    "--max-http-header-size",
    "--stack-trace-limit",
    "--experimental-loader",
];

/// The beginnings of options that change nothing here.
const IGNORED: [&str; 38] = [
    "--abort-on",
    "--allow-",
    "--conditions=",
    "--cpu-prof",
    "--debug",
    "--deprecation",
    "--disable-",
    "--enable-",
    "--experimental-",
    "--expose-gc",
    "--expose_gc",
    "--frozen-intrinsics",
    "--harmony",
    "--heap",
    "--icu-data-dir=",
    "--insecure-http-parser",
    "--gc-interval",
    "--inspect",
    "--interactive",
    "--jitless",
    "--js-",
    "--max",
    "--no-",
    "--noconcurrent",
    "--node-",
    "--openssl",
    "--pending-deprecation",
    "--permission",
    "--preserve-symlinks",
    "--secure-heap",
    "--stack",
    "--throw-deprecation",
    "--title=",
    "--trace-",
    "--use-",
    "--v8-",
    "--warnings",
    "--zero-fill",
];

/// Options that `NODE_OPTIONS` may not have.
const NOT_IN_ENVIRONMENT: [&str; 18] = [
    "-",
    "--",
    "-c",
    "--check",
    "-e",
    "--eval",
    "-h",
    "--help",
    "-i",
    "--interactive",
    "-p",
    "-pe",
    "--print",
    "-v",
    "--version",
    "--test",
    "--expose-internals",
    "--skillhost-strip-types",
];

const HELP: &str = "Usage: node [options] [ script.js ] [arguments]
       node [options] -e script [arguments]

Options:
  -                      read the script from stdin
  --                     end of the options
  -c, --check            check the syntax of a file, without running it
  -e, --eval=...         run a text
  -p, --print=...        run a text and print its value
  -r, --require=...      load a CommonJS module before
  -h, --help             print this help
  -v, --version          print the version
  --env-file=...         set environment variables from a file
  --import=...           load an ECMAScript module before
  --input-type=...       the kind of a text: commonjs or module

It runs in a sandbox, without native addons, worker threads and an inspector.
";

/// Parses the arguments, of which the first is the program's name.
pub(crate) fn parse(arguments: Vec<String>, node_options: &str) -> Command {
    let mut arguments = arguments.into_iter();
    arguments.next();
    let mut parser = Parser { run: Run::default(), check: false, text: None, print: false };
    let mut options = match split_options(node_options) {
        Ok(options) => options.into_iter(),
        Err(command) => return command,
    };
    while let Some(option) = options.next() {
        let name = option.split_once('=').map_or(option.as_str(), |(name, _)| name);
        if NOT_IN_ENVIRONMENT.contains(&name) || !option.starts_with('-') {
            let shown = option.split_inclusive('=').next().unwrap_or(&option);
            return Command::Fail(format!("node: {shown} is not allowed in NODE_OPTIONS\n"), 9);
        }
        if let Err(command) = parser.option(&option, &mut options) {
            return command;
        }
    }
    // The options of the environment are not those of `process.execArgv`.
    parser.run.environment_options = std::mem::take(&mut parser.run.options);
    parser.all(arguments)
}

/// Splits the value of `NODE_OPTIONS`: at spaces, except between double quotes. A backslash between
/// quotes stands before a quote or a backslash.
fn split_options(text: &str) -> Result<Vec<String>, Command> {
    let fail =
        |why: &str| Command::Fail(format!("node: invalid value for NODE_OPTIONS ({why})\n"), 9);
    let mut options = Vec::new();
    let (mut is_quoted, mut is_new) = (false, true);
    let mut chars = text.chars();
    while let Some(mut char) = chars.next() {
        match char {
            '\\' if is_quoted => {
                char = chars.next().ok_or_else(|| fail("invalid escape"))?;
            }
            ' ' if !is_quoted => {
                is_new = true;
                continue;
            }
            '"' => {
                is_quoted = !is_quoted;
                continue;
            }
            _ => {}
        }
        if is_new {
            options.push(String::new());
            is_new = false;
        }
        if let Some(last) = options.last_mut() {
            last.push(char);
        }
    }
    if is_quoted { Err(fail("unterminated string")) } else { Ok(options) }
}

struct Parser {
    run: Run,
    check: bool,
    text: Option<String>,
    print: bool,
}

impl Parser {
    fn all(mut self, mut arguments: std::vec::IntoIter<String>) -> Command {
        let mut file = None;
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                file = if self.text.is_some() { None } else { arguments.next() };
                break;
            }
            if argument == "-" || !argument.starts_with('-') {
                file = Some(argument);
                break;
            }
            if let Err(command) = self.option(&argument, &mut arguments) {
                return command;
            }
        }
        self.run.arguments = arguments.collect();
        if self.check && self.text.is_some() {
            let message = "node: either --check or --eval can be used, not both\n";
            return Command::Fail(message.to_owned(), 9);
        }
        if let Some(text) = self.text {
            self.run.arguments.splice(0..0, file);
            self.run.main = Main::Text(text, self.print);
        } else if self.check {
            return match file {
                Some(file) if file != "-" => Command::Check(file),
                _ => Command::CheckText(self.run.text_name.unwrap_or("[stdin].js")),
            };
        } else if let Some(file) = file.filter(|file| file != "-") {
            self.run.main = Main::File(file);
        }
        Command::Run(self.run)
    }

    fn option(
        &mut self,
        option: &str,
        rest: &mut std::vec::IntoIter<String>,
    ) -> Result<(), Command> {
        let (name, given) = match option.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (option, None),
        };
        // What `process.execArgv` has of the option: a value that is the next argument is part of it.
        let mut words = vec![option.to_owned()];
        let mut value = || {
            let value =
                given.clone().or_else(|| rest.next().inspect(|next| words.push(next.clone())));
            value.ok_or_else(|| Command::Fail(format!("node: {name} requires an argument\n"), 9))
        };
        match name {
            "-v" | "--version" => return Err(Command::Print(format!("v{VERSION}\n"))),
            "-h" | "--help" => return Err(Command::Print(HELP.to_owned())),
            "-c" | "--check" => self.check = true,
            // The host asks for this once for each TypeScript file of a skill.
            "--skillhost-strip-types" => return Err(Command::StripTypes(value()?)),
            "-e" | "--eval" => self.text = Some(value()?),
            "-p" | "-pe" | "--print" => {
                self.text = Some(value()?);
                self.print = true;
            }
            "-r" | "--require" => {
                let module = value()?;
                self.run.requires.push(module);
            }
            "--import" => {
                let module = value()?;
                self.run.imports.push(module);
            }
            "--env-file" | "--env-file-if-exists" => {
                let file = value()?;
                self.run.env_files.push((file, name == "--env-file"));
            }
            "--experimental-default-type" => match value()?.as_str() {
                "module" => {
                    self.run.modules_by_default = true;
                    (self.run.is_module, self.run.text_name) = (true, Some("[stdin].mjs"));
                }
                "commonjs" | "" => {}
                _ => {
                    let message =
                        "node: --experimental-default-type= must be \"module\" or \"commonjs\"\n";
                    return Err(Command::Fail(message.to_owned(), 9));
                }
            },
            "--input-type" => match value()?.as_str() {
                "module" => (self.run.is_module, self.run.text_name) = (true, Some("[stdin].mjs")),
                "module-typescript" => {
                    (self.run.is_module, self.run.text_name) = (true, Some("[stdin].ts"));
                }
                "commonjs" => {
                    (self.run.is_module, self.run.text_name) = (false, Some("[stdin].cjs"));
                }
                "commonjs-typescript" => {
                    (self.run.is_module, self.run.text_name) = (false, Some("[stdin].cts"));
                }
                // Not of Node: what `check` of the host asks for.
                "jsx" => (self.run.is_module, self.run.text_name) = (true, Some("[stdin].jsx")),
                "tsx" => (self.run.is_module, self.run.text_name) = (true, Some("[stdin].tsx")),
                _ => {
                    let message = "node: --input-type must be \"module\",\"commonjs\", \"module-typescript\" or \"commonjs-typescript\"\n";
                    return Err(Command::Fail(message.to_owned(), 9));
                }
            },
            "--unhandled-rejections" => {
                let mode = value()?;
                let modes = ["none", "warn", "warn-with-error-codes", "strict", "throw"];
                if !modes.contains(&mode.as_str()) {
                    let message = "node: invalid value for --unhandled-rejections\n";
                    return Err(Command::Fail(message.to_owned(), 9));
                }
            }
            "--test" => {
                return Err(Command::Fail(
                    "node: the runner of tests does not run in the sandbox: run the file of a test with `node FILE`\n".to_owned(),
                    9,
                ));
            }
            _ if WITH_VALUE.contains(&name) => drop(value()?),
            _ if IGNORED.iter().any(|beginning| option.starts_with(beginning)) => {}
            _ => return Err(Command::Fail(format!("node: bad option: {option}\n"), 9)),
        }
        self.run.options.append(&mut words);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Command {
        parse(arguments.iter().map(|&argument| argument.to_owned()).collect(), "")
    }

    fn run(arguments: &[&str]) -> Run {
        match parsed(arguments) {
            Command::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_after_the_file_are_the_scripts() {
        let run = run(&["node", "--no-warnings", "a.js", "-e", "--check"]);
        assert_eq!(run.main, Main::File("a.js".to_owned()));
        assert_eq!(run.options, ["--no-warnings"]);
        assert_eq!(run.arguments, ["-e", "--check"]);
    }

    #[test]
    fn values_that_are_arguments_of_their_own_belong_to_the_options() {
        let options = ["-r", "./a.js", "--import=./b.mjs", "--env-file", ".env", "-e", "1"];
        let run = run(&[&["node"], &options[..], &["c"]].concat());
        assert_eq!(run.options, options);
        assert_eq!(
            (run.requires, run.arguments),
            (vec!["./a.js".to_owned()], vec!["c".to_owned()])
        );
    }

    #[test]
    fn texts_run_instead_of_a_file() {
        let run = run(&["node", "--input-type=module", "-e", "1", "a"]);
        assert_eq!(run.main, Main::Text("1".to_owned(), false));
        assert!(run.is_module);
        assert_eq!(run.arguments, ["a"]);
    }

    #[test]
    fn unknown_options_fail() {
        assert_eq!(
            parsed(&["node", "--nonsense"]),
            Command::Fail("node: bad option: --nonsense\n".to_owned(), 9)
        );
        assert_eq!(
            parsed(&["node", "-e"]),
            Command::Fail("node: -e requires an argument\n".to_owned(), 9)
        );
    }

    #[test]
    fn environment_adds_options_but_no_text() {
        let with = |options| parse(vec!["node".to_owned(), "a.js".to_owned()], options);
        let Command::Run(run) = with(r#"--require "./a b.js" --no-warnings"#) else { panic!() };
        assert_eq!(
            (run.requires, run.main),
            (vec!["./a b.js".to_owned()], Main::File("a.js".to_owned()))
        );
        for (options, message) in [
            ("--eval=1", "node: --eval= is not allowed in NODE_OPTIONS\n"),
            ("-p 1", "node: -p is not allowed in NODE_OPTIONS\n"),
            ("--require \"a", "node: invalid value for NODE_OPTIONS (unterminated string)\n"),
        ] {
            assert_eq!(with(options), Command::Fail(message.to_owned(), 9));
        }
    }

    #[test]
    fn stdin_runs_without_a_file() {
        assert_eq!(run(&["node"]).main, Main::Stdin);
        assert_eq!(run(&["node", "-", "a"]).arguments, ["a"]);
    }
}
