//! Commands that run another command: `env`, `nohup`, `nice`, `time`, `timeout`, `uv run`, `pip`, and
//! those of JavaScript's tools, such as `npx tsx`. They are not programs here: their effect is applied
//! to the command line before anything is looked up or checked. To the capabilities, `env python3
//! x.py` is exactly `python3 x.py`.
//!
//! `bun x.ts` is `node x.ts`, and can only start `node`. So an entry for either allows it, and a
//! denial of either denies it.

use std::time::Duration;

use skillhost_policy::capabilities::Scope;
use skillhost_policy::pattern::CommandPattern;
use skillhost_policy::program_name::{installed_name, interpreter};
use skillhost_skill::runtime::javascript;

/// A command line, and the effects of its wrapper commands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CommandLine {
    pub(super) argv: Vec<String>,
    /// The wrapper commands that were removed from the front.
    pub(super) wrappers: Vec<String>,
    /// The command of a JavaScript tool that `argv` means, as it was written.
    pub(super) spelled: Option<Vec<String>>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<String>,
    pub(super) timeout: Option<Timeout>,
}

/// The deadline that `timeout` sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Timeout {
    pub(super) after: Duration,
    /// The exit code after the deadline: 124, as `timeout` returns it, or 137 if the signal is
    /// KILL.
    pub(super) code: u8,
}

/// The most wrapper commands before a command. Each takes at least one word, so this only keeps
/// mistakes short.
const NESTED_MAX: usize = 16;

/// Removes the wrapper commands for which `is_program` finds no program of that name.
///
/// # Errors
/// A wrapper command is used incorrectly; the text says how.
pub(super) fn unwrap_command(
    mut line: CommandLine,
    is_program: impl Fn(&str) -> bool,
) -> Result<CommandLine, String> {
    for _ in 0..NESTED_MAX {
        if let Some(args) = javascript_tool(&line.argv, &is_program) {
            let args = args?;
            line.wrappers.extend(line.argv.first().cloned());
            let argv = [vec!["node".to_owned()], args].concat();
            line.spelled = Some(std::mem::replace(&mut line.argv, argv));
            return Ok(line);
        }
        let Some(name) = line.argv.first().and_then(|command| installed_name(command)) else {
            return Ok(line);
        };
        let Some(wrapper) = wrapper(name).filter(|_| !is_program(name)) else { return Ok(line) };
        let name = name.to_owned();
        line.argv.remove(0);
        line.wrappers.push(name.clone());
        wrapper(&mut line)?;
        if line.argv.is_empty() && name == "env" && is_program("printenv") {
            line.argv.push("printenv".into());
        }
        if line.argv.is_empty() {
            return Err(format!("`{name}` needs a command to run"));
        }
    }
    Err(format!("more than {NESTED_MAX} nested wrapper commands"))
}

fn wrapper(name: &str) -> Option<fn(&mut CommandLine) -> Rewrite> {
    Some(match name {
        "env" => env,
        "nohup" => nohup,
        "nice" => nice,
        "time" => time,
        "timeout" => timeout,
        "uv" => uv,
        "pip" | "pip3" => pip,
        _ => return None,
    })
}

/// Checks whether a path ends in the name of a wrapper command without meaning it. An operator who
/// allows `Bash(npm:*)` does not mean `./npm`.
pub(super) fn impersonates_wrapper(command: &str) -> bool {
    let name = command.rsplit('/').next().unwrap_or(command);
    installed_name(command).is_none()
        && (wrapper(name).is_some() || javascript::PACKAGE_MANAGERS.contains(&name))
}

/// Returns the wrapper commands that start Python and JavaScript, if a run may start these. Without
/// them, scripts that look for them should find none.
pub(crate) fn wrapper_commands(spawn: &Scope<CommandPattern>) -> Vec<&'static str> {
    let mut found = Vec::new();
    if spawn.is_empty() {
        return found;
    }
    if spawn.allows_command(&["python3", "-m", "pip"].map(str::to_owned)) {
        found.extend(["pip", "pip3", "uv"]);
    }
    // An entry for `npx tsx` is enough: a script that finds `npx` learns from the host what it may not do.
    let is_listed = |name: &&&str| {
        let [script, tool] = [vec!["node", javascript::NPM], vec![**name]].map(|words| {
            let words = words.into_iter().map(str::to_owned).collect();
            CommandPattern { words, open: true }
        });
        let allows = |pattern: &CommandPattern| tool.overlaps(pattern) || pattern.covers(&script);
        let denied = [&script, &tool].map(|command| spawn.find_denial(&command.words));
        denied.iter().all(Option::is_none)
            && spawn.all_of.iter().all(|side| side.iter().any(allows))
    };
    let tools = javascript::RUNTIMES.iter().chain(&javascript::PACKAGE_MANAGERS);
    found.extend(tools.filter(is_listed));
    found
}

/// Returns the arguments of `node` if a command line is one of a JavaScript tool. A runtime is one
/// under any path, as `node` is; nothing can take its name.
fn javascript_tool(
    argv: &[String],
    is_program: impl Fn(&str) -> bool,
) -> Option<Result<Vec<String>, String>> {
    let (command, args) = argv.split_first()?;
    let file = command.rsplit('/').next().unwrap_or(command);
    let name = match interpreter(file) {
        Some("node") => file,
        _ => installed_name(command).filter(|name| !is_program(name))?,
    };
    javascript::node_arguments(name, args)
}

type Rewrite = Result<(), String>;

fn env(line: &mut CommandLine) -> Rewrite {
    while let Some(word) = line.argv.first().cloned() {
        match word.as_str() {
            "--" => {
                line.argv.remove(0);
                break;
            }
            "-i" | "-" | "--ignore-environment" => line.env.clear(),
            "-u" | "--unset" => {
                let name = take_value(line, &word)?;
                line.env.retain(|(known, _)| *known != name);
            }
            "-C" | "--chdir" => line.cwd = Some(take_value(line, &word)?),
            "-S" | "--split-string" => {
                let words = take_value(line, &word)?;
                line.argv.splice(1..1, words.split_whitespace().map(str::to_owned));
            }
            _ if word.starts_with('-') => {
                return Err(format!("`env` does not support the option `{word}`"));
            }
            _ => break,
        }
        line.argv.remove(0);
    }
    while let Some((name, value)) = line.argv.first().and_then(|word| word.split_once('=')) {
        let (name, value) = (name.to_owned(), value.to_owned());
        line.env.retain(|(known, _)| *known != name);
        line.env.push((name, value));
        line.argv.remove(0);
    }
    Ok(())
}

fn nohup(line: &mut CommandLine) -> Rewrite {
    skip_options(line, &[], &["--"])
}

fn nice(line: &mut CommandLine) -> Rewrite {
    if line.argv.first().is_some_and(|word| {
        word.starts_with("-n") && word.len() > 2 || word.starts_with("--adjustment=")
    }) {
        line.argv.remove(0);
    }
    skip_options(line, &["-n", "--adjustment"], &["--"])
}

/// `time` prints nothing; the outcome records the wall time.
fn time(line: &mut CommandLine) -> Rewrite {
    skip_options(line, &["-f", "-o"], &["-p", "-v", "-a", "--"])
}

fn timeout(line: &mut CommandLine) -> Rewrite {
    let mut code = 124;
    if let ["-s" | "--signal", "KILL" | "SIGKILL" | "9", ..] = words(line)[..] {
        code = 137;
    }
    skip_options(
        line,
        &["-s", "--signal", "-k", "--kill-after"],
        &["--preserve-status", "--foreground", "-v", "--verbose", "--"],
    )?;
    let text = line.argv.first().cloned().ok_or("`timeout` needs a duration")?;
    let after = duration(&text)
        .ok_or_else(|| format!("`timeout`: invalid duration `{text}`; try 5, 0.5s, 2m or 1h"))?;
    line.argv.remove(0);
    // `timeout 0` sets no deadline.
    if !after.is_zero() {
        let sooner = line.timeout.filter(|set| set.after <= after);
        line.timeout = Some(sooner.unwrap_or(Timeout { after, code }));
    }
    Ok(())
}

fn uv(line: &mut CommandLine) -> Rewrite {
    match line.argv.first().map(String::as_str) {
        Some("run") => {}
        Some("pip") => {
            line.argv.remove(0);
            return pip(line);
        }
        other => {
            return Err(format!(
                "only `uv run` and `uv pip` are available, not `uv {}`",
                other.unwrap_or_default()
            ));
        }
    }
    line.argv.remove(0);
    let mut script = false;
    let with_value = [
        "--with",
        "--python",
        "-p",
        "--project",
        "--directory",
        "--with-requirements",
        "--index-url",
        "--extra",
        "--group",
    ];
    while let Some(word) = line.argv.first().cloned() {
        match word.as_str() {
            "--" => {
                line.argv.remove(0);
                break;
            }
            "-m" | "--module" => {
                // Python parses the remaining arguments itself.
                line.argv[0] = "-m".into();
                line.argv.insert(0, "python3".into());
                return Ok(());
            }
            "-s" | "--script" => script = true,
            _ if with_value.contains(&word.as_str()) => drop(take_value(line, &word)?),
            "-" => break,
            _ if word.starts_with('-') => {}
            _ => break,
        }
        line.argv.remove(0);
    }
    let is_python = |word: &String| word == "-" || word.ends_with(".py");
    if line.argv.first().is_some_and(|word| script || is_python(word)) {
        line.argv.insert(0, "python3".into());
    }
    Ok(())
}

fn pip(line: &mut CommandLine) -> Rewrite {
    line.argv.splice(0..0, ["python3", "-m", "pip"].map(str::to_owned));
    Ok(())
}

/// Removes options: those in `with_value` take the next word, those in `alone` do not.
fn skip_options(line: &mut CommandLine, with_value: &[&str], alone: &[&str]) -> Rewrite {
    while let Some(word) = line.argv.first().cloned() {
        if with_value.contains(&word.as_str()) {
            take_value(line, &word)?;
        } else if with_value
            .iter()
            .any(|option| option.starts_with("--") && word.starts_with(&format!("{option}=")))
        {
            // The value is part of the same word.
        } else if !alone.contains(&word.as_str()) {
            break;
        }
        line.argv.remove(0);
    }
    Ok(())
}

/// Removes and returns the word after an option; the option stays first.
fn take_value(line: &mut CommandLine, option: &str) -> Result<String, String> {
    if line.argv.len() < 2 {
        Err(format!("the option `{option}` needs a value"))
    } else {
        Ok(line.argv.remove(1))
    }
}

fn words(line: &CommandLine) -> Vec<&str> {
    line.argv.iter().map(String::as_str).collect()
}

/// Parses seconds, or a number with a unit; fractions are allowed.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, text.as_bytes().last().copied()),
        None => (text, None),
    };
    let factor = match unit {
        Some(b'm') => 60.0,
        Some(b'h') => 3_600.0,
        Some(b'd') => 86_400.0,
        _ => 1.0,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> CommandLine {
        let argv = text.split(' ').map(str::to_owned).collect();
        CommandLine {
            argv,
            wrappers: Vec::new(),
            spelled: None,
            env: vec![("A".into(), "1".into())],
            cwd: None,
            timeout: None,
        }
    }

    #[test]
    fn wrapped_commands_resolve_to_the_command_that_runs() {
        for (given, runs) in [
            ("python3 x.py", "python3 x.py"),
            ("env python3 x.py", "python3 x.py"),
            ("/usr/bin/env python3 -u x.py", "python3 -u x.py"),
            ("./env python3", "./env python3"),
            ("/workspace/env python3", "/workspace/env python3"),
            ("env -i B=2 C= python3 x.py D=3", "python3 x.py D=3"),
            ("env -u A -- python3", "python3"),
            ("nohup nice -n 5 python3 x.py", "python3 x.py"),
            ("nice -n5 python3", "python3"),
            ("time -p bash x.sh", "bash x.sh"),
            ("timeout 5 python3 -c pass", "python3 -c pass"),
            ("timeout --signal=KILL -k 1 5m sh x", "sh x"),
            ("uv run x.py a", "python3 x.py a"),
            ("uv run --quiet --with requests --script tool a", "python3 tool a"),
            ("uv run python x.py", "python x.py"),
            ("uv run -m http.server", "python3 -m http.server"),
            ("uv run -- pytest -q", "pytest -q"),
            ("uv pip install requests", "python3 -m pip install requests"),
            ("pip3 install requests", "python3 -m pip install requests"),
            ("env timeout 5 nohup env env python3", "python3"),
            ("node x.js", "node x.js"),
            ("env tsx x.ts a", "node x.ts a"),
            ("timeout 5 npx tsx x.ts", "node x.ts"),
            ("./node_modules/.bin/ts-node x.ts", "node x.ts"),
            ("/opt/bun/bin/bun run x.ts", "node x.ts"),
            ("deno run -A x.ts", "node x.ts"),
            ("npm ci", "node /usr/lib/node_modules/npm/bin/npm-cli.js ci"),
            ("/usr/bin/npx a b", "node /usr/lib/node_modules/npm/bin/npx-cli.js a b"),
            ("./npm ci", "./npm ci"),
        ] {
            let unwrapped = unwrap_command(line(given), |_| false)
                .unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(unwrapped.argv.join(" "), runs, "{given}");
        }
    }

    #[test]
    fn wrappers_set_environment_folder_and_timeout() {
        let unwrapped = unwrap_command(line("env -u A B=2 -C"), |_| false).unwrap();
        assert_eq!(
            (unwrapped.argv.join(" "), unwrapped.env),
            ("-C".into(), vec![("B".into(), "2".into())])
        );
        let unwrapped = unwrap_command(line("env -C /tmp A=2 python3"), |_| false).unwrap();
        assert_eq!(
            (unwrapped.cwd.as_deref(), unwrapped.env),
            (Some("/tmp"), vec![("A".into(), "2".into())])
        );
        assert_eq!(unwrap_command(line("env -i python3"), |_| false).unwrap().env, []);
        let timeout = |text: &str| unwrap_command(line(text), |_| false).unwrap().timeout;
        assert_eq!(
            timeout("timeout 1.5 a"),
            Some(Timeout { after: Duration::from_millis(1_500), code: 124 })
        );
        assert_eq!(
            timeout("timeout -s KILL 2m a"),
            Some(Timeout { after: Duration::from_secs(120), code: 137 })
        );
        // The earlier of two deadlines, in either order.
        assert_eq!(timeout("timeout 1 timeout 9 a").unwrap().after, Duration::from_secs(1));
        assert_eq!(timeout("timeout 9 timeout 1 a").unwrap().after, Duration::from_secs(1));
        assert_eq!(timeout("timeout 0 a"), None);
    }

    #[test]
    fn javascript_tools_are_recorded_with_their_own_spelling() {
        let unwrapped = unwrap_command(line("env npx tsx x.ts"), |_| false).unwrap();
        assert_eq!(unwrapped.spelled, Some(line("npx tsx x.ts").argv));
        assert_eq!(unwrapped.wrappers, ["env", "npx"]);
        assert_eq!(unwrap_command(line("env node x.js"), |_| false).unwrap().spelled, None);
    }

    #[test]
    fn paths_that_end_in_the_name_of_a_wrapper_are_other_programs() {
        for command in ["./npm", "/tmp/npx", "node_modules/.bin/yarn", "x/pip", "/opt/env"] {
            assert!(impersonates_wrapper(command), "{command}");
        }
        for command in ["npm", "/usr/bin/npx", "/bin/env", "./x", "./tsx"] {
            assert!(!impersonates_wrapper(command), "{command}");
        }
    }

    #[test]
    fn javascript_tools_are_listed_if_some_entry_allows_one_of_their_commands() {
        let scope = |allow: &[&str], deny: &[&str]| {
            let pattern = |text: &&str| CommandPattern { words: line(text).argv, open: true };
            let list = |texts: &[&str]| texts.iter().map(pattern).collect::<Vec<_>>();
            Scope { all_of: vec![list(allow)], none_of: list(deny), unmet: Vec::new() }
        };
        let listed = |scope: &Scope<CommandPattern>| wrapper_commands(scope).contains(&"npx");
        assert!(listed(&scope(&["npx tsx"], &[])));
        assert!(listed(&scope(&["node"], &[])));
        assert!(!listed(&scope(&["node x.js", "npm"], &[])));
        assert!(!listed(&scope(&["npx tsx"], &["npx"])));
        assert!(!listed(&scope(&["npx tsx"], &["node"])));
    }

    #[test]
    fn existing_programs_take_precedence_over_wrappers() {
        assert_eq!(unwrap_command(line("npm ci"), |name| name == "npm").unwrap(), line("npm ci"));
        assert_eq!(
            unwrap_command(line("bun x.ts"), |name| name == "bun").unwrap().argv.join(" "),
            "node x.ts",
            "a runtime has its name alone"
        );
        assert_eq!(
            unwrap_command(line("env python3"), |name| name == "env").unwrap(),
            line("env python3")
        );
    }

    #[test]
    fn bare_env_prints_the_environment_if_a_program_can() {
        let unwrapped = unwrap_command(line("env -i A=1"), |name| name == "printenv").unwrap();
        assert_eq!(
            (unwrapped.argv, unwrapped.env),
            (vec!["printenv".into()], vec![("A".into(), "1".into())])
        );
        assert!(unwrap_command(line("env"), |_| false).is_err());
    }

    #[test]
    fn unparseable_commands_do_not_run() {
        for given in [
            "env",
            "env A=1",
            "env --block-signal python3",
            "timeout 5",
            "timeout soon a",
            "timeout -s",
            "nohup",
            "uv sync",
            "tsx watch x.ts",
            "npx",
        ] {
            assert!(unwrap_command(line(given), |_| false).is_err(), "{given}");
        }
        assert!(
            unwrap_command(line(&format!("{}python3", "env ".repeat(1_000))), |_| false).is_err()
        );
    }
}
