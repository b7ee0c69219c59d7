//! `realpath`.

use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use lexopt::Arg::{Long, Short, Value};
use lexopt::{Error, ValueExt as _};

use super::{absolute, fail, options};

/// The number of links to follow before reporting a loop.
const LINKS: usize = 40;

const TRY_HELP: &str = "Try 'realpath --help' for more information.\n";

pub(super) struct Realpath;

struct Options {
    missing: Missing,
    as_written: bool,
    quiet: bool,
    /// The character after each path.
    end: char,
    from: Option<String>,
    base: Option<String>,
    paths: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// `-e`: no component may be missing.
    None,
    /// The last component may be missing.
    Last,
    /// `-m`: every component may be missing.
    Any,
}

#[async_trait]
impl Command for Realpath {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let options = match parse(context.args) {
            Ok(options) => options,
            Err(error) => {
                let message = options::message(&error);
                return fail(&context, &format!("realpath: {message}\n{TRY_HELP}"), 1).await;
            }
        };
        let Options { missing, as_written, quiet, end, from, base, paths } = options;
        if paths.is_empty() {
            return fail(&context, &format!("realpath: missing operand\n{TRY_HELP}"), 1).await;
        }
        let (mut text, mut code) = (String::new(), 0);
        for path in paths {
            let Some(real) = resolve(&context, &path, missing, as_written).await else {
                code = 1;
                if !quiet {
                    fail(&context, &format!("realpath: {path}: No such file or directory\n"), 1)
                        .await?;
                }
                continue;
            };
            let mut shown = real.clone();
            if let Some(from) = from.as_ref().or(base.as_ref()) {
                let from =
                    resolve(&context, from, Missing::Any, as_written).await.unwrap_or_default();
                if base.is_none() || real.starts_with(&from) {
                    shown = relative(&from, &real);
                }
            }
            text += &format!("{}{end}", shown.display());
        }
        context.stdout.write_all(text.as_bytes()).await?;
        Ok(CommandStatus::with_code(code))
    }
}

fn parse(args: &[String]) -> std::result::Result<Options, Error> {
    let mut options = Options {
        missing: Missing::Last,
        as_written: false,
        quiet: false,
        end: '\n',
        from: None,
        base: None,
        paths: Vec::new(),
    };
    let mut parser = options::parser(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Short('m') | Long("canonicalize-missing") => options.missing = Missing::Any,
            Short('e') | Long("canonicalize-existing") => options.missing = Missing::None,
            Short('s') | Long("no-symlinks" | "strip") => options.as_written = true,
            Short('q') | Long("quiet") => options.quiet = true,
            Short('z') | Long("zero") => options.end = '\0',
            Short('L' | 'P') | Long("logical" | "physical") => {}
            Long("relative-to") => options.from = Some(parser.value()?.string()?),
            Long("relative-base") => options.base = Some(parser.value()?.string()?),
            Value(path) => options.paths.push(path.string()?),
            other => return Err(options::with_value(other.unexpected(), &mut parser)),
        }
    }
    Ok(options)
}

async fn resolve(
    context: &CommandContext<'_>,
    path: &str,
    missing: Missing,
    as_written: bool,
) -> Option<PathBuf> {
    let mut left: Vec<PathBuf> = parts(&absolute(context, path));
    let (mut done, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = left.pop() {
        if part == Path::new("..") {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        match context.fs.lstat(&next).await {
            Ok(found) if found.file_type.is_symlink() && !as_written => {
                links += 1;
                let target = context.fs.read_link(&next).await.ok().filter(|_| links <= LINKS)?;
                left.extend(parts(&done.join(target)));
                done = PathBuf::from("/");
                continue;
            }
            Ok(_) => {}
            Err(_) if missing == Missing::Any || (missing == Missing::Last && left.is_empty()) => {}
            Err(_) => return None,
        }
        done = next;
    }
    Some(done)
}

/// Returns the components of an absolute path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to.components().skip(common)).collect();
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}
