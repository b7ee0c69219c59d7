//! The command line, as bash takes it.

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `-c TEXT`.
    Text(String),
    /// A file.
    File(String),
    /// Standard input.
    Stdin,
    /// Nothing but a text for stdout: `--version`, `--help`.
    Tell(&'static str),
}

/// A command line that was understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) source: Source,
    /// `$0`.
    pub(crate) name: String,
    /// `$1` and on.
    pub(crate) args: Vec<String>,
    /// Arguments for `set`, to be in force from the first line on.
    pub(crate) set: Vec<String>,
    /// Arguments for `shopt`.
    pub(crate) shopt: Vec<String>,
}

/// The names by which it is a shell. By any other it is that command of its own: `jq`.
const SHELLS: [&str; 4] = ["bash", "sh", "dash", "ash"];

const VERSION: &str = "\
GNU bash, version 5.2.15(1)-release (wasm32-skillhost)
This is bashkit's interpreter in skillhost's sandbox, not GNU bash itself.
";
const HELP: &str = "Usage:\tbash [option] ...\n\tbash [option] script-file ...\n";

/// Takes `argv` apart, the program's name first.
///
/// # Errors
/// The message, without `bash: `.
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
            "--version" => return Ok(tell(name, VERSION)),
            "--help" => return Ok(tell(name, HELP)),
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

fn tell(name: String, text: &'static str) -> CommandLine {
    CommandLine {
        source: Source::Tell(text),
        name,
        args: Vec::new(),
        set: Vec::new(),
        shopt: Vec::new(),
    }
}
