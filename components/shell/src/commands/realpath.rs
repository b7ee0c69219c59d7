//! `realpath`.

use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};

use super::{absolute, fail};

/// The number of links to follow before reporting a loop.
const LINKS: usize = 40;

pub(super) struct Realpath;

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
        let (mut missing, mut as_written, mut quiet, mut end) = (Missing::Last, false, false, '\n');
        let (mut from, mut base, mut paths) = (None, None, Vec::new());
        let mut words = context.args.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" => paths.extend(words.by_ref().cloned()),
                "-m" | "--canonicalize-missing" => missing = Missing::Any,
                "-e" | "--canonicalize-existing" => missing = Missing::None,
                "-s" | "--no-symlinks" | "--strip" => as_written = true,
                "-q" | "--quiet" => quiet = true,
                "-z" | "--zero" => end = '\0',
                "-L" | "-P" | "--logical" | "--physical" => {}
                "--relative-to" => from = words.next().cloned(),
                "--relative-base" => base = words.next().cloned(),
                word if word.starts_with("--relative-to=") => {
                    from = Some(word["--relative-to=".len()..].to_owned())
                }
                word if word.starts_with("--relative-base=") => {
                    base = Some(word["--relative-base=".len()..].to_owned())
                }
                word if word.len() > 1 && word.starts_with('-') => {
                    return fail(
                        &context,
                        &format!(
                            "realpath: invalid option -- '{}'\n",
                            word.trim_start_matches('-')
                        ),
                        1,
                    )
                    .await;
                }
                path => paths.push(path.to_owned()),
            }
        }
        if paths.is_empty() {
            return fail(&context, "realpath: missing operand\n", 1).await;
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
