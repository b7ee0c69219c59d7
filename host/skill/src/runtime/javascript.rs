//! The commands of JavaScript's tools, as command lines of `node`: `bun run x.ts`, `deno run -A x.ts`,
//! `tsx x.ts`, `npx ts-node x.ts`, `npm install`. The sandbox has one JavaScript runtime, so all of
//! them start it. To the capabilities, they are exactly that command line.

use std::collections::VecDeque;

use super::spawn::is_node;
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

/// Checks whether a command is a JavaScript tool other than `node`.
pub fn is_tool(name: &str) -> bool {
    RUNTIMES.contains(&name) || PACKAGE_MANAGERS.contains(&name)
}

/// Returns the arguments of `node` for a command of another tool, by the name of the command. `None`
/// if the command is `node` itself, or no tool of JavaScript. Takes time linear in the arguments,
/// which a stranger can choose.
///
/// # Errors
/// The sandbox cannot do what the command does; the text says why.
pub fn node_arguments(name: &str, args: &[String]) -> Option<Result<Vec<String>, String>> {
    is_tool(name).then(|| resolve(name, args))
}

/// The arguments that are left. They are taken from the front.
type Args = VecDeque<String>;

/// What a command of a tool means.
enum Meaning {
    /// The arguments of `node`.
    Node(Args),
    /// A command of another tool, by its name and arguments.
    Tool(String, Args),
}

fn resolve(name: &str, args: &[String]) -> Result<Vec<String>, String> {
    let (mut name, mut args) = (name.to_owned(), Args::from(args.to_vec()));
    for _ in 0..NESTED_MAX {
        let meaning = match name.as_str() {
            "bun" => bun(args),
            "deno" => deno(args),
            "tsx" => tsx(args),
            "ts-node" => ts_node(args),
            "npx" | "pnpx" | "bunx" => package(&name, args),
            "npm" | "pnpm" | "yarn" => manager(&name, args),
            _ => Ok(Meaning::Node(args)),
        };
        match meaning? {
            Meaning::Node(args) => return Ok(args.into()),
            Meaning::Tool(next, rest) => (name, args) = (next, rest),
        }
    }
    Err(format!("more than {NESTED_MAX} nested commands that run JavaScript"))
}

/// `tsx [OPTIONS] FILE`.
fn tsx(mut args: Args) -> Result<Meaning, String> {
    if args.front().is_some_and(|first| first == "watch") {
        return Err(no_watching("tsx watch"));
    }
    let options = Options { tool: "tsx", dropped: &["--no-cache"], valued: &["--tsconfig"] };
    options.remove(&mut args, true)?;
    Ok(Meaning::Node(args))
}

/// `ts-node [OPTIONS] FILE`.
fn ts_node(mut args: Args) -> Result<Meaning, String> {
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
fn bun(mut args: Args) -> Result<Meaning, String> {
    let options = Options {
        tool: "bun",
        dropped: &["--bun", "-b", "--silent", "--smol", "--no-install", "--prefer-offline", "-i"],
        valued: &[],
    };
    options.remove(&mut args, false)?;
    let Some(first) = args.front().cloned() else {
        return Err(
            "only `bun FILE`, `bun run FILE` and bun's package manager are available".into()
        );
    };
    match first.as_str() {
        "run" => {
            args.pop_front();
            options.remove(&mut args, false)?;
            match args.front() {
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
fn deno(mut args: Args) -> Result<Meaning, String> {
    let command = args.front().cloned().unwrap_or_default();
    match command.as_str() {
        "run" | "eval" => drop(args.pop_front()),
        "-V" | "--version" => return Ok(Meaning::Node(Args::from(["--version".into()]))),
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
    let mut kept = Args::new();
    while let Some(word) = args.pop_front_if(|word| word.starts_with('-') && word.len() > 1) {
        match word.as_str() {
            "--" => break,
            "--watch" => return Err(no_watching("deno run --watch")),
            "-c" | "--config" | "--import-map" | "--seed" | "--location" | "--ext" | "--cert" => {
                take_value(&mut args, &word)?;
            }
            // The sandbox's own limits and permissions apply, and nothing is downloaded.
            _ if word.starts_with("--env-file=") => kept.push_back(word),
            _ => {}
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
fn package(tool: &str, mut args: Args) -> Result<Meaning, String> {
    while let Some(word) = args.pop_front_if(|word| word.starts_with('-')) {
        match word.as_str() {
            "--" => break,
            "-c" | "--call" => return Err(format!("`{tool} {word}` is not available")),
            "-p" | "--package" => drop(take_value(&mut args, &word)?),
            _ => {}
        }
    }
    let Some(name) = args.pop_front() else {
        return Err(format!("`{tool}` needs the name of a package"));
    };
    // `tsx@latest` is `tsx`: the sandbox has one version. A name can start with its scope.
    let plain = name.get(1..).and_then(|rest| rest.find('@')).map_or(&name[..], |at| &name[..=at]);
    if interpreter(plain) == Some("node") && !plain.contains('/') {
        return Ok(Meaning::Tool(plain.to_owned(), args));
    }
    Ok(Meaning::Node(before([NPX.to_owned(), name], args)))
}

/// `npm`, `pnpm` and `yarn`: a runtime or package that they run, or a command of theirs.
fn manager(tool: &str, mut args: Args) -> Result<Meaning, String> {
    let first = args.front().cloned().unwrap_or_default();
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
    let name = (tool != "npm").then(|| format!("--as={tool}"));
    Ok(Meaning::Node(before([NPM.to_owned()].into_iter().chain(name), args)))
}

/// A command of the sandbox's `npm`, under the name of the tool that was asked.
fn npm(tool: &str, command: &str, args: Args) -> Meaning {
    Meaning::Node(before([NPM.to_owned(), format!("--as={tool}"), command.to_owned()], args))
}

fn before(words: impl IntoIterator<Item = String>, args: Args) -> Args {
    words.into_iter().chain(args).collect()
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
    fn remove(&self, args: &mut Args, keeps_others: bool) -> Result<(), String> {
        let is_option = |word: &mut String| word.starts_with('-') && word.len() > 1 && word != "--";
        let mut kept = Vec::new();
        while let Some(word) = args.pop_front_if(is_option) {
            let name = word.split('=').next().unwrap_or(&word);
            if matches!(name, "--watch" | "--hot") {
                return Err(no_watching(&format!("{} {name}", self.tool)));
            }
            if self.valued.contains(&word.as_str()) {
                take_value(args, &word)?;
            } else if keeps_others && takes_value(&word) {
                let value = take_value(args, &word)?;
                // The value of `-e` is the program: what follows belongs to it.
                let is_program = CODE.contains(&word.as_str());
                kept.extend([word, value]);
                if is_program {
                    break;
                }
            } else if !keeps_others && !self.dropped.contains(&word.as_str()) {
                kept.push(word);
                break;
            } else if !self.dropped.contains(&name) && !self.valued.contains(&name) {
                kept.push(word);
            }
        }
        *args = before(kept, std::mem::take(args));
        Ok(())
    }
}

/// Whether the next word is the value of an option of `node`.
pub fn takes_value(option: &str) -> bool {
    VALUED.contains(&option) || CODE.contains(&option) || PRELOADED.contains(&option)
}

/// The options of `node` whose value is a module that runs before the script.
const PRELOADED: [&str; 5] = ["-r", "--require", "--import", "--loader", "--experimental-loader"];

/// The options of `node` whose value is the program.
pub const CODE: [&str; 5] = ["-e", "--eval", "-p", "--print", "-pe"];

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

/// Removes and returns the value of an option that was removed.
fn take_value(args: &mut Args, option: &str) -> Result<String, String> {
    args.pop_front().ok_or_else(|| format!("the option `{option}` needs a value"))
}

/// Returns the words of `NODE_OPTIONS` if any of them runs code that a command line does not name, such
/// as `--import=x`; none for commands other than `node`. An entry for a script does not cover them. All
/// words are returned, because the value of an option may be the next word.
pub fn code_of_environment(command: &str, env: &[(String, String)]) -> Vec<String> {
    if !is_node(command) {
        return Vec::new();
    }
    let runs_code = |word: &String| {
        let name = word.split('=').next().unwrap_or(word);
        CODE.contains(&name) || PRELOADED.contains(&name)
    };
    let values = env.iter().filter(|(name, _)| name == "NODE_OPTIONS");
    let words = values.flat_map(|(_, value)| match environment_words(value) {
        Some(words) if !words.iter().any(runs_code) => Vec::new(),
        Some(words) => words,
        // The component refuses such a value, and no entry names it.
        None => vec![value.clone()],
    });
    words.collect()
}

/// Splits a value of `NODE_OPTIONS` exactly as the component does (`split_options` in
/// `components/javascript/src/command_line.rs`): at spaces, except between double quotes, where a
/// backslash stands before a quote or a backslash. Returns `None` if the component refuses the value.
fn environment_words(value: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let (mut is_quoted, mut is_new) = (false, true);
    let mut characters = value.chars();
    while let Some(mut character) = characters.next() {
        match character {
            '\\' if is_quoted => character = characters.next()?,
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
            words.push(String::new());
            is_new = false;
        }
        words.last_mut()?.push(character);
    }
    (!is_quoted).then_some(words)
}

/// Returns the files that an import of a relative path in a folder may mean, by their paths without a
/// `/` in front; `None` for other imports, and for paths above the outermost folder. The first one is
/// the path itself.
pub fn imported_files(folder: &str, specifier: &str) -> Option<Vec<String>> {
    /// The ends that Node, and TypeScript's tools, add to a path.
    const ENDS: [&str; 13] = [
        "",
        ".js",
        ".mjs",
        ".cjs",
        ".json",
        ".ts",
        ".mts",
        ".cts",
        ".tsx",
        ".jsx",
        "/index.js",
        "/index.ts",
        "/package.json",
    ];
    let is_relative = specifier.starts_with("./") || specifier.starts_with("../");
    if !is_relative && !matches!(specifier, "." | "..") {
        return None;
    }
    let relative = specifier.split(['?', '#']).next().unwrap_or(specifier);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let ends = ENDS.iter().map(|end| format!("{path}{end}").trim_start_matches('/').to_owned());
    Some(ends.chain(typescript_of(&path)).collect())
}

/// Returns the file of TypeScript that a path also means: `./x.js` is the name of `./x.ts`, too.
pub(super) fn typescript_of(path: &str) -> Option<String> {
    let (stem, end) = path.rsplit_once('.')?;
    let end = match end {
        "js" => "ts",
        "mjs" => "mts",
        "cjs" => "cts",
        "jsx" => "tsx",
        _ => return None,
    };
    Some(format!("{stem}.{end}"))
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
        assert_eq!(
            node(&format!("bun {}x.ts", "-b ".repeat(300_000))).as_deref(),
            Ok("x.ts"),
            "in linear time"
        );
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

    #[test]
    fn options_of_the_environment_that_run_code_are_found() {
        let found = |value: &str| {
            let env = [("A", "--eval=1"), ("NODE_OPTIONS", value)];
            let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert!(code_of_environment("python3", &env).is_empty());
            code_of_environment("/usr/bin/node", &env).join(" ")
        };
        assert_eq!(found("--max-old-space-size=100 --no-warnings"), "");
        assert_eq!(found("--import=./a.mjs --x  --require=b"), "--import=./a.mjs --x --require=b");
        assert_eq!(found("-r ./a.js --eval=1 --print=1"), "-r ./a.js --eval=1 --print=1");
        assert_eq!(found(r#""--import" "./a b.mjs" -x"#), "--import ./a b.mjs -x");
        assert_eq!(found(r#""--import=./a.mjs evil.mjs""#), "--import=./a.mjs evil.mjs");
        assert_eq!(found(r"--import=./go\od.mjs"), r"--import=./go\od.mjs");
        assert_eq!(found(r#""\\-r" x"#), "", "the option is `\\-r`, which does not exist");
        assert_eq!(found(r#"--import="./a.mjs"#), r#"--import="./a.mjs"#, "refused");
    }
}
