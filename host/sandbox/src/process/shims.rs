//! Commands that run another command: `env`, `nohup`, `nice`, `time`, `timeout`, `uv run`, `pip`.
//! They are no programs here: what they would do is done to the command line, before anything is
//! looked up or checked. So `env python3 x.py` is `python3 x.py` to the capabilities, which neither
//! gains nor loses anything by it.

use std::time::Duration;

use skillhost_policy::program_name::installed_name;

/// A command line, and what the commands before it asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) argv: Vec<String>,
    /// The commands that were taken away from before it.
    pub(super) before: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<String>,
    pub(super) timeout: Option<Timeout>,
}

/// The end that `timeout` sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Timeout {
    pub(super) after: Duration,
    /// What the program then ends with: 124, as `timeout` says it, or 137 where it was to be killed
    /// at once.
    pub(super) code: u8,
}

/// How many may stand before a command. Each takes a word at least, so this only keeps mistakes
/// short.
const NESTED: usize = 16;

/// Takes away the commands that run the one behind them, where `is_program` knows no program of
/// that name.
///
/// # Errors
/// A sentence: such a command is not written as it has to be.
pub(super) fn unwrap(mut line: Line, is_program: impl Fn(&str) -> bool) -> Result<Line, String> {
    for _ in 0..NESTED {
        let Some(name) = line.argv.first().and_then(|command| installed_name(command)) else {
            return Ok(line);
        };
        let wrapper = match name {
            "env" => env,
            "nohup" => nohup,
            "nice" => nice,
            "time" => time,
            "timeout" => timeout,
            "uv" => uv,
            "pip" | "pip3" => pip,
            _ => return Ok(line),
        };
        if is_program(name) {
            return Ok(line);
        }
        let name = name.to_owned();
        line.argv.remove(0);
        line.before.push(name.clone());
        wrapper(&mut line)?;
        if line.argv.is_empty() && name == "env" && is_program("printenv") {
            line.argv.push("printenv".into());
        }
        if line.argv.is_empty() {
            return Err(format!("`{name}` without a command to run does nothing here"));
        }
    }
    Err(format!("more than {NESTED} commands that only run another"))
}

type Shimmed = Result<(), String>;

fn env(line: &mut Line) -> Shimmed {
    while let Some(word) = line.argv.first().cloned() {
        match word.as_str() {
            "--" => {
                line.argv.remove(0);
                break;
            }
            "-i" | "-" | "--ignore-environment" => line.env.clear(),
            "-u" | "--unset" => {
                let name = value(line, &word)?;
                line.env.retain(|(known, _)| *known != name);
            }
            "-C" | "--chdir" => line.cwd = Some(value(line, &word)?),
            "-S" | "--split-string" => {
                let words = value(line, &word)?;
                line.argv.splice(1..1, words.split_whitespace().map(str::to_owned));
            }
            _ if word.starts_with('-') => return Err(format!("`env {word}` is not known here")),
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

fn nohup(line: &mut Line) -> Shimmed {
    skip(line, &[], &["--"])
}

fn nice(line: &mut Line) -> Shimmed {
    if line.argv.first().is_some_and(|word| {
        word.starts_with("-n") && word.len() > 2 || word.starts_with("--adjustment=")
    }) {
        line.argv.remove(0);
    }
    skip(line, &["-n", "--adjustment"], &["--"])
}

/// Nobody is told the time: the outcome has it.
fn time(line: &mut Line) -> Shimmed {
    skip(line, &["-f", "-o"], &["-p", "-v", "-a", "--"])
}

fn timeout(line: &mut Line) -> Shimmed {
    let mut code = 124;
    if let ["-s" | "--signal", "KILL" | "SIGKILL" | "9", ..] = words(line)[..] {
        code = 137;
    }
    skip(
        line,
        &["-s", "--signal", "-k", "--kill-after"],
        &["--preserve-status", "--foreground", "-v", "--verbose", "--"],
    )?;
    let text = line.argv.first().cloned().ok_or("`timeout` without a time")?;
    let after = duration(&text)
        .ok_or_else(|| format!("`timeout {text}`: not a time like 5, 0.5s, 2m, 1h"))?;
    line.argv.remove(0);
    // `timeout 0` sets none.
    if !after.is_zero() {
        let sooner = line.timeout.filter(|set| set.after <= after);
        line.timeout = Some(sooner.unwrap_or(Timeout { after, code }));
    }
    Ok(())
}

fn uv(line: &mut Line) -> Shimmed {
    match line.argv.first().map(String::as_str) {
        Some("run") => {}
        Some("pip") => {
            line.argv.remove(0);
            return pip(line);
        }
        other => {
            return Err(format!(
                "of `uv` there is `uv run` and `uv pip` here, not `uv {}`",
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
                // Python reads the rest as it is.
                line.argv[0] = "-m".into();
                line.argv.insert(0, "python3".into());
                return Ok(());
            }
            "-s" | "--script" => script = true,
            _ if with_value.contains(&word.as_str()) => drop(value(line, &word)?),
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

fn pip(line: &mut Line) -> Shimmed {
    line.argv.splice(0..0, ["python3", "-m", "pip"].map(str::to_owned));
    Ok(())
}

/// Takes the options away: `with_value` those that take the next word, `alone` those that do not.
fn skip(line: &mut Line, with_value: &[&str], alone: &[&str]) -> Shimmed {
    while let Some(word) = line.argv.first().cloned() {
        if with_value.contains(&word.as_str()) {
            value(line, &word)?;
        } else if with_value
            .iter()
            .any(|option| option.starts_with("--") && word.starts_with(&format!("{option}=")))
        {
            // Its value is in the same word.
        } else if !alone.contains(&word.as_str()) {
            break;
        }
        line.argv.remove(0);
    }
    Ok(())
}

/// The word behind an option; the option stays first.
fn value(line: &mut Line, option: &str) -> Result<String, String> {
    if line.argv.len() < 2 {
        Err(format!("`{option}` without a value"))
    } else {
        Ok(line.argv.remove(1))
    }
}

fn words(line: &Line) -> Vec<&str> {
    line.argv.iter().map(String::as_str).collect()
}

/// Seconds, or with a unit; a fraction is allowed.
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

    fn line(text: &str) -> Line {
        let argv = text.split(' ').map(str::to_owned).collect();
        Line {
            argv,
            before: Vec::new(),
            env: vec![("A".into(), "1".into())],
            cwd: None,
            timeout: None,
        }
    }

    #[test]
    fn a_command_behind_others_is_what_runs() {
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
        ] {
            let unwrapped =
                unwrap(line(given), |_| false).unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(unwrapped.argv.join(" "), runs, "{given}");
        }
    }

    #[test]
    fn what_they_ask_for_is_kept() {
        let made = unwrap(line("env -u A B=2 -C"), |_| false).unwrap();
        assert_eq!((made.argv.join(" "), made.env), ("-C".into(), vec![("B".into(), "2".into())]));
        let made = unwrap(line("env -C /tmp A=2 python3"), |_| false).unwrap();
        assert_eq!((made.cwd.as_deref(), made.env), (Some("/tmp"), vec![("A".into(), "2".into())]));
        assert_eq!(unwrap(line("env -i python3"), |_| false).unwrap().env, []);
        let timeout = |text: &str| unwrap(line(text), |_| false).unwrap().timeout;
        assert_eq!(
            timeout("timeout 1.5 a"),
            Some(Timeout { after: Duration::from_millis(1_500), code: 124 })
        );
        assert_eq!(
            timeout("timeout -s KILL 2m a"),
            Some(Timeout { after: Duration::from_secs(120), code: 137 })
        );
        // The sooner of two, wherever it stands.
        assert_eq!(timeout("timeout 1 timeout 9 a").unwrap().after, Duration::from_secs(1));
        assert_eq!(timeout("timeout 9 timeout 1 a").unwrap().after, Duration::from_secs(1));
        assert_eq!(timeout("timeout 0 a"), None);
    }

    #[test]
    fn a_program_of_that_name_comes_first() {
        assert_eq!(unwrap(line("env python3"), |name| name == "env").unwrap(), line("env python3"));
    }

    #[test]
    fn env_alone_shows_the_environment_where_something_can() {
        let made = unwrap(line("env -i A=1"), |name| name == "printenv").unwrap();
        assert_eq!(
            (made.argv, made.env),
            (vec!["printenv".into()], vec![("A".into(), "1".into())])
        );
        assert!(unwrap(line("env"), |_| false).is_err());
    }

    #[test]
    fn what_is_not_understood_does_not_run() {
        for given in [
            "env",
            "env A=1",
            "env --block-signal python3",
            "timeout 5",
            "timeout soon a",
            "timeout -s",
            "nohup",
            "uv sync",
        ] {
            assert!(unwrap(line(given), |_| false).is_err(), "{given}");
        }
        assert!(unwrap(line(&format!("{}python3", "env ".repeat(1_000))), |_| false).is_err());
    }
}
