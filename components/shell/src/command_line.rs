//! Parses the shell's own command line.
//!
//! Not with a library: `+o`, options that take their argument from a later word (`-eo pipefail`)
//! and the order of long and short options are bash's own rules, which option parsers do not know.

/// The source of the commands to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `-c TEXT`.
    Text(String),
    /// A script file.
    File(String),
    /// Standard input.
    Stdin,
    /// `--version` and `--help`, which only print this text.
    Print(&'static str),
}

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) source: Source,
    /// `$0`.
    pub(crate) name: String,
    /// `$1` and the following arguments.
    pub(crate) args: Vec<String>,
    /// Arguments of `set`, applied before the first line.
    pub(crate) set: Vec<String>,
    /// Arguments of `shopt`, applied before the first line.
    pub(crate) shopt: Vec<String>,
}

/// The names under which the program is a shell. Under any other name, such as `jq`, it runs the
/// command of that name.
const SHELLS: [&str; 4] = ["bash", "sh", "dash", "ash"];

const VERSION: &str = "\
GNU bash, version 5.2.15(1)-release (wasm32-skillhost)
This is bashkit's interpreter in skillhost's sandbox, not GNU bash itself.
";
const HELP: &str = "Usage:\tbash [option] ...\n\tbash [option] script-file ...\n";

/// Parses `argv`, whose first word is the program's name.
///
/// # Errors
/// Returns bash's message, without `bash: `.
pub(crate) fn parse(argv: Vec<String>) -> Result<CommandLine, String> {
    let mut rest = argv.into_iter();
    let name = rest.next().unwrap_or_else(|| "bash".into());
    let file = name.rsplit('/').next().unwrap_or(&name);
    if !SHELLS.contains(&file) {
        let source = Source::Text(format!("'{}' \"$@\"", file.replace('\'', r"'\''")));
        return Ok(CommandLine {
            source,
            name,
            args: rest.collect(),
            set: Vec::new(),
            shopt: Vec::new(),
        });
    }
    let mut args = rest.collect::<std::collections::VecDeque<_>>();
    let (mut set, mut shopt) = (Vec::new(), Vec::new());
    let (mut text, mut stdin) = (false, false);
    while let Some(arg) =
        args.front().filter(|arg| arg.len() > 1 && arg.starts_with(['-', '+'])).cloned()
    {
        args.pop_front();
        match arg.as_str() {
            "--" => break,
            "--version" => return Ok(print(name, VERSION)),
            "--help" => return Ok(print(name, HELP)),
            "--rcfile" | "--init-file" => {
                args.pop_front();
            }
            "--login" | "--noprofile" | "--norc" | "--noediting" | "--restricted" | "--verbose"
            | "--debugger" => {}
            "--posix" => set.extend(["-o".into(), "posix".into()]),
            long if long.starts_with("--") => return Err(format!("{long}: invalid option")),
            _ => {
                let sign = &arg[..1];
                for letter in arg[1..].chars() {
                    match letter {
                        'c' => text = true,
                        's' => stdin = true,
                        'l' | 'i' | 'r' | 'D' => {}
                        'o' => {
                            let option = args
                                .pop_front()
                                .ok_or(format!("{sign}o: option requires an argument"))?;
                            set.extend([format!("{sign}o"), option]);
                        }
                        'O' => {
                            let option = args
                                .pop_front()
                                .ok_or(format!("{sign}O: option requires an argument"))?;
                            shopt.extend([
                                if sign == "-" { "-s".into() } else { "-u".into() },
                                option,
                            ]);
                        }
                        'a' | 'b' | 'e' | 'f' | 'h' | 'k' | 'm' | 'n' | 'p' | 't' | 'u' | 'v'
                        | 'x' | 'B' | 'C' | 'E' | 'H' | 'P' | 'T' => {
                            set.push(format!("{sign}{letter}"));
                        }
                        other => return Err(format!("{sign}{other}: invalid option")),
                    }
                }
            }
        }
    }
    let (source, name) = if text {
        let text = args.pop_front().ok_or("-c: option requires an argument")?;
        (Source::Text(text), args.pop_front().unwrap_or(name))
    } else if let Some(file) = args.pop_front_if(|_| !stdin) {
        (Source::File(file.clone()), file)
    } else {
        (Source::Stdin, name)
    };
    Ok(CommandLine { source, name, args: args.into(), set, shopt })
}

fn print(name: String, text: &'static str) -> CommandLine {
    CommandLine {
        source: Source::Print(text),
        name,
        args: Vec::new(),
        set: Vec::new(),
        shopt: Vec::new(),
    }
}
