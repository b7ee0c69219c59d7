//! The commands of JavaScript's tools, as command lines of `node`: `bun run x.ts`, `deno run -A x.ts`,
//! `tsx x.ts`, `npx ts-node x.ts`, `npm install`. The sandbox has one JavaScript runtime, so all of
//! them start it. To the capabilities, they are exactly that command line.

use skillhost_policy::program_name::{interpreter, script_interpreter};

/// The script with the sandbox's own `npm`, in the folder of the runtime's packages.
pub const NPM: &str = "/usr/lib/node_modules/npm/bin/npm-cli.js";
/// The script with the sandbox's own `npx`.
pub const NPX: &str = "/usr/lib/node_modules/npm/bin/npx-cli.js";

/// The package managers, and the commands that run packages. All need the runtime.
pub const PACKAGE_MANAGERS: [&str; 6] = ["npm", "npx", "pnpm", "pnpx", "yarn", "bunx"];

/// The other runtimes, which run a file as `node` does.
pub const RUNTIMES: [&str; 4] = ["bun", "deno", "tsx", "ts-node"];

/// The most commands that can start each other, as in `npx bun x tsx x.ts`.
const NESTED_MAX: usize = 8;

/// Returns the arguments of `node` for a command of another tool, by the name of the command. `None`
/// if the command is `node` itself, or no tool of JavaScript.
///
/// # Errors
/// The sandbox cannot do what the command does; the text says why.
pub fn node_arguments(name: &str, args: &[String]) -> Option<Result<Vec<String>, String>> {
    let is_tool = RUNTIMES.contains(&name) || PACKAGE_MANAGERS.contains(&name);
    is_tool.then(|| resolve(name, args))
}

/// What a command of a tool means.
enum Meaning {
    /// The arguments of `node`.
    Node(Vec<String>),
    /// A command of another tool, by its name and arguments.
    Tool(String, Vec<String>),
}

fn resolve(name: &str, args: &[String]) -> Result<Vec<String>, String> {
    let (mut name, mut args) = (name.to_owned(), args.to_vec());
    for _ in 0..NESTED_MAX {
        let meaning = match name.as_str() {
            "bun" => bun(&args),
            "deno" => deno(&args),
            "tsx" => tsx(args),
            "ts-node" => ts_node(args),
            "npx" | "pnpx" | "bunx" => package(&name, &args),
            "npm" | "pnpm" | "yarn" => manager(&name, args),
            _ => Ok(Meaning::Node(args)),
        };
        match meaning? {
            Meaning::Node(args) => return Ok(args),
            Meaning::Tool(next, rest) => (name, args) = (next, rest),
        }
    }
    Err(format!("more than {NESTED_MAX} nested commands that run JavaScript"))
}

/// `tsx [OPTIONS] FILE`.
fn tsx(mut args: Vec<String>) -> Result<Meaning, String> {
    if args.first().is_some_and(|first| first == "watch") {
        return Err(no_watching("tsx watch"));
    }
    let options = Options { tool: "tsx", dropped: &["--no-cache"], valued: &["--tsconfig"] };
    options.remove(&mut args, true)?;
    Ok(Meaning::Node(args))
}

/// `ts-node [OPTIONS] FILE`.
fn ts_node(mut args: Vec<String>) -> Result<Meaning, String> {
    let options = Options {
        tool: "ts-node",
        dropped: &[
            "-T",
            "--transpile-only",
            "--transpileOnly",
            "--files",
            "--esm",
            "--swc",
            "--type-check",
            "--typeCheck",
            "--skip-project",
            "--skipProject",
            "--prefer-ts-exts",
            "--preferTsExts",
            "--log-error",
            "--pretty",
        ],
        valued: &[
            "-P",
            "--project",
            "-O",
            "--compiler-options",
            "--compilerOptions",
            "-C",
            "--compiler",
            "-I",
            "--ignore",
            "-D",
            "--ignore-diagnostics",
        ],
    };
    options.remove(&mut args, true)?;
    Ok(Meaning::Node(args))
}

/// `bun FILE`, `bun run FILE`, and bun's package manager.
fn bun(args: &[String]) -> Result<Meaning, String> {
    let options = Options {
        tool: "bun",
        dropped: &["--bun", "-b", "--silent", "--smol", "--no-install", "--prefer-offline", "-i"],
        valued: &[],
    };
    let mut args = args.to_vec();
    options.remove(&mut args, false)?;
    let Some(first) = args.first().cloned() else {
        return Err(
            "only `bun FILE`, `bun run FILE` and bun's package manager are available".into()
        );
    };
    match first.as_str() {
        "run" => {
            args.remove(0);
            options.remove(&mut args, false)?;
            match args.first() {
                Some(file) if is_file(file) || file.starts_with('-') => Ok(Meaning::Node(args)),
                // A script of package.json.
                _ => Ok(npm("bun", "run", args)),
            }
        }
        "-e" | "--eval" | "-p" | "--print" | "-v" | "--version" => Ok(Meaning::Node(args)),
        "x" => Ok(Meaning::Tool("bunx".into(), args.split_off(1))),
        "install" | "i" | "add" | "a" | "remove" | "rm" | "ci" => {
            let rest = args.split_off(1);
            Ok(npm("bun", &first, rest))
        }
        file if is_file(file) => Ok(Meaning::Node(args)),
        other => {
            Err(format!("`bun {other}` is not available: the sandbox runs files with `bun FILE`"))
        }
    }
}

/// `deno run FILE`, `deno FILE` and `deno eval CODE`.
fn deno(args: &[String]) -> Result<Meaning, String> {
    let mut args = args.to_vec();
    let command = args.first().cloned().unwrap_or_default();
    match command.as_str() {
        "run" | "eval" => drop(args.remove(0)),
        "-V" | "--version" => return Ok(Meaning::Node(vec!["--version".into()])),
        "task" => {
            return Err("`deno task` is not available; run the file that it names".into());
        }
        file if is_file(file) || file.starts_with('-') => {}
        other => {
            return Err(format!(
                "only `deno run FILE` and `deno eval CODE` are available, not `deno {other}`"
            ));
        }
    }
    let mut kept = Vec::new();
    while let Some(word) = args.first().cloned() {
        match word.as_str() {
            "--" => drop(args.remove(0)),
            "--watch" => return Err(no_watching("deno run --watch")),
            "-c" | "--config" | "--import-map" | "--seed" | "--location" | "--ext" | "--cert" => {
                take_value(&mut args, &word)?;
                args.remove(0);
            }
            // The sandbox's own limits and permissions apply, and nothing is downloaded.
            word if word.starts_with('-') && word.len() > 1 => {
                let word = args.remove(0);
                if word.starts_with("--env-file=") {
                    kept.push(word);
                }
            }
            _ => break,
        }
        if word == "--" {
            break;
        }
    }
    if args.is_empty() {
        return Err(format!("`deno {command}` needs a file or code to run"));
    }
    if command == "eval" {
        kept.extend(["--input-type=module".to_owned(), "-e".to_owned()]);
    }
    kept.append(&mut args);
    Ok(Meaning::Node(kept))
}

/// `npx [OPTIONS] NAME ARGS`: a runtime, or the program of a package.
fn package(tool: &str, args: &[String]) -> Result<Meaning, String> {
    let mut args = args.to_vec();
    while let Some(word) = args.first().cloned() {
        match word.as_str() {
            "--" => {
                args.remove(0);
                break;
            }
            "-c" | "--call" => return Err(format!("`{tool} {word}` is not available")),
            "-p" | "--package" => {
                take_value(&mut args, &word)?;
                args.remove(0);
            }
            word if word.starts_with('-') => drop(args.remove(0)),
            _ => break,
        }
    }
    if args.is_empty() {
        return Err(format!("`{tool}` needs the name of a package"));
    }
    let name = args.remove(0);
    // `tsx@latest` is `tsx`: the sandbox has one version. A name can start with its scope.
    let plain = name.get(1..).and_then(|rest| rest.find('@')).map_or(&name[..], |at| &name[..=at]);
    if interpreter(plain) == Some("node") && !plain.contains('/') {
        return Ok(Meaning::Tool(plain.to_owned(), args));
    }
    args.splice(0..0, [NPX.to_owned(), name]);
    Ok(Meaning::Node(args))
}

/// `npm`, `pnpm` and `yarn`: a runtime or package that they run, or a command of theirs.
fn manager(tool: &str, mut args: Vec<String>) -> Result<Meaning, String> {
    let first = args.first().cloned().unwrap_or_default();
    match first.as_str() {
        "exec" | "x" | "dlx" => {
            let rest = args.split_off(1);
            return Ok(Meaning::Tool("npx".into(), rest));
        }
        _ if tool != "npm" && interpreter(&first) == Some("node") && !first.contains('/') => {
            let rest = args.split_off(1);
            return Ok(Meaning::Tool(first, rest));
        }
        _ => {}
    }
    let mut node = vec![NPM.to_owned()];
    if tool != "npm" {
        node.push(format!("--as={tool}"));
    }
    node.append(&mut args);
    Ok(Meaning::Node(node))
}

/// A command of the sandbox's `npm`, under the name of the tool that was asked.
fn npm(tool: &str, command: &str, args: Vec<String>) -> Meaning {
    let start = [NPM.to_owned(), format!("--as={tool}"), command.to_owned()];
    Meaning::Node([&start[..], &args].concat())
}

/// The options of a tool that have no effect in the sandbox.
struct Options {
    tool: &'static str,
    /// Without a value.
    dropped: &'static [&'static str],
    /// With a value, in the same word or the next one.
    valued: &'static [&'static str],
}

impl Options {
    /// Removes the options at the start of `args`. Keeps other options if `node` has them too.
    fn remove(&self, args: &mut Vec<String>, keeps_others: bool) -> Result<(), String> {
        let mut kept = Vec::new();
        while let Some(word) = args.first().cloned() {
            let name = word.split('=').next().unwrap_or(&word);
            if matches!(name, "--watch" | "--hot") {
                return Err(no_watching(&format!("{} {name}", self.tool)));
            }
            if self.valued.contains(&word.as_str()) {
                take_value(args, &word)?;
            } else if keeps_others && takes_value(&word) {
                kept.extend([args.remove(0)]);
                if args.is_empty() {
                    return Err(format!("the option `{word}` needs a value"));
                }
                kept.push(args[0].clone());
                // The value of `-e` is the program: what follows belongs to it.
                if matches!(word.as_str(), "-e" | "--eval" | "-p" | "--print" | "-pe") {
                    args.remove(0);
                    break;
                }
            } else if keeps_others && word.starts_with('-') && word.len() > 1 && word != "--" {
                if !self.dropped.contains(&name) && !self.valued.contains(&name) {
                    kept.push(word);
                }
            } else if !self.dropped.contains(&word.as_str()) {
                break;
            }
            args.remove(0);
        }
        args.splice(0..0, kept);
        Ok(())
    }
}

/// Whether the next word is the value of an option of `node`.
pub(super) fn takes_value(option: &str) -> bool {
    VALUED.contains(&option) || CODE.contains(&option) || PRELOADED.contains(&option)
}

/// The options of `node` whose value is a module that runs before the script.
const PRELOADED: [&str; 5] = ["-r", "--require", "--import", "--loader", "--experimental-loader"];

/// The options of `node` whose value is the program.
pub(super) const CODE: [&str; 5] = ["-e", "--eval", "-p", "--print", "-pe"];

/// The other options of `node` with a value in the next word.
const VALUED: [&str; 24] = [
    "-C",
    "--conditions",
    "--cpu-prof-dir",
    "--cpu-prof-name",
    "--diagnostic-dir",
    "--disable-warning",
    "--dns-result-order",
    "--env-file",
    "--env-file-if-exists",
    "--experimental-default-type",
    "--icu-data-dir",
    "--input-type",
    "--inspect-port",
    "--localstorage-file",
    "--max-http-header-size",
    "--openssl-config",
    "--redirect-warnings",
    "--stack-trace-limit",
    "--test-name-pattern",
    "--test-reporter",
    "--test-reporter-destination",
    "--title",
    "--unhandled-rejections",
    "--watch-path",
];

/// Removes the value after an option; the option stays first.
fn take_value(args: &mut Vec<String>, option: &str) -> Result<(), String> {
    if args.len() < 2 {
        return Err(format!("the option `{option}` needs a value"));
    }
    args.remove(1);
    Ok(())
}

/// Whether a word names a file rather than a script of package.json.
fn is_file(word: &str) -> bool {
    word.contains('/') || word == "." || script_interpreter(word) == Some("node")
}

fn no_watching(command: &str) -> String {
    format!("`{command}` is not available: nothing in the sandbox changes a file from outside")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(line: &str) -> Result<String, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let resolved = node_arguments(&words[0], &words[1..]).expect("a tool of JavaScript");
        resolved.map(|args| args.join(" ").replace("/usr/lib/node_modules/npm/bin/", "@"))
    }

    #[test]
    fn runtimes_run_files_as_node_does() {
        for (line, expected) in [
            ("bun x.ts a", "x.ts a"),
            ("bun run ./x.ts --watch", "./x.ts --watch"),
            ("bun --silent run --bun scripts/x.js", "scripts/x.js"),
            ("bun -e 1", "-e 1"),
            ("deno run x.ts", "x.ts"),
            ("deno run --allow-net=a.b -A --no-prompt x.ts -A", "x.ts -A"),
            ("deno run -c deno.json --env-file=.env x.ts", "--env-file=.env x.ts"),
            ("deno x.ts", "x.ts"),
            ("deno run -RW -- x.ts", "x.ts"),
            ("deno eval 1", "--input-type=module -e 1"),
            ("deno --version", "--version"),
            ("tsx x.ts a", "x.ts a"),
            ("tsx --tsconfig t.json --no-cache x.ts", "x.ts"),
            (
                "tsx --env-file=.env --import ./a.mjs x.ts --no-cache",
                "--env-file=.env --import ./a.mjs x.ts --no-cache",
            ),
            ("tsx -e 1 --no-cache", "-e 1 --no-cache"),
            ("ts-node --esm -P tsconfig.json x.ts -T", "x.ts -T"),
            ("ts-node --project=t.json -T x.ts", "x.ts"),
            ("ts-node -r dotenv/config x.ts", "-r dotenv/config x.ts"),
        ] {
            assert_eq!(node(line).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn package_managers_start_runtimes_and_the_npm_of_the_sandbox() {
        for (line, expected) in [
            ("npx tsx x.ts a", "x.ts a"),
            ("npx -y tsx@latest x.ts", "x.ts"),
            ("npx --yes --package typescript ts-node x.ts", "x.ts"),
            ("npx deno run -A x.ts", "x.ts"),
            ("npx node x.js", "x.js"),
            ("bunx tsx x.ts", "x.ts"),
            ("bun x tsx x.ts", "x.ts"),
            ("pnpm exec tsx x.ts", "x.ts"),
            ("pnpm dlx tsx x.ts", "x.ts"),
            ("pnpm tsx x.ts", "x.ts"),
            ("yarn ts-node x.ts", "x.ts"),
            ("npm exec -- tsx x.ts", "x.ts"),
            ("npx prettier@3 --check .", "@npx-cli.js prettier@3 --check ."),
            ("npx @scope/a@1 x", "@npx-cli.js @scope/a@1 x"),
            ("npm install a", "@npm-cli.js install a"),
            ("npm ci", "@npm-cli.js ci"),
            ("npm", "@npm-cli.js"),
            ("pnpm add a", "@npm-cli.js --as=pnpm add a"),
            ("yarn", "@npm-cli.js --as=yarn"),
            ("bun install", "@npm-cli.js --as=bun install"),
            ("bun run build --x", "@npm-cli.js --as=bun run build --x"),
        ] {
            assert_eq!(node(line).as_deref(), Ok(expected), "{line}");
        }
        assert_eq!(node_arguments("node", &["x.js".into()]), None);
        assert_eq!(node_arguments("jq", &[".".into()]), None);
    }

    #[test]
    fn commands_without_a_meaning_in_the_sandbox_are_errors() {
        for line in [
            "bun",
            "bun test",
            "bun --hot x.ts",
            "deno",
            "deno run",
            "deno run --watch x.ts",
            "deno task x",
            "deno run -c",
            "tsx watch x.ts",
            "tsx --watch x.ts",
            "tsx --tsconfig",
            "npx",
            "npx -y",
            "npx -c tsx",
            &format!("npx {}tsx x.ts", "bun x ".repeat(100)),
        ] {
            assert!(node(line).is_err(), "{line}: {:?}", node(line));
        }
    }
}
