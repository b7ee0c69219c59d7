//! `diff`: compares files and folders, in the normal and the unified format.

pub(super) mod print;
pub(super) mod script;

use std::collections::BTreeSet;
use std::pin::Pin;

use async_trait::async_trait;
use bashkit::time::{SystemTime, UNIX_EPOCH};
use bashkit::{Command, CommandContext, CommandStatus, Result};
use lexopt::Arg::{Long, Short, Value};
use lexopt::{Error, ValueExt as _};

use super::{absolute, fail, ls, options, reason, standard_input};

const TRY_HELP: &str = "diff: Try 'diff --help' for more information.\n";

pub(super) struct Diff;

#[derive(Default)]
struct Options {
    /// Lines of context of the unified format.
    unified: Option<usize>,
    brief: bool,
    recursive: bool,
    new_file: bool,
    say_same: bool,
    text: bool,
    ignore_case: bool,
    ignore_space: bool,
    ignore_space_change: bool,
    ignore_space_at_end: bool,
    ignore_blank: bool,
    strip_return: bool,
    labels: Vec<String>,
    exclude: Vec<String>,
    operands: Vec<String>,
    /// The options as written, for the heading of each pair of files in a comparison of folders.
    written: String,
}

#[async_trait]
impl Command for Diff {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let options = match parse(context.args) {
            Ok(options) => options,
            Err(error) => {
                let message = options::message(&error);
                return fail(&context, &format!("diff: {message}\n{TRY_HELP}"), 2).await;
            }
        };
        let [old, new] = options.operands.as_slice() else {
            let message = match options.operands.as_slice() {
                [] => "missing operand after 'diff'".to_owned(),
                [one] => format!("missing operand after '{one}'"),
                [_, _, third, ..] => format!("extra operand '{third}'"),
                [_, _] => String::new(),
            };
            return fail(&context, &format!("diff: {message}\n{TRY_HELP}"), 2).await;
        };
        let mut run = Run {
            context: &context,
            options: &options,
            out: Vec::new(),
            errors: String::new(),
            code: 0,
        };
        run.operands(old, new).await?;
        context.stderr.write_all(run.errors.as_bytes()).await?;
        context.stdout.write_all(&run.out).await?;
        Ok(CommandStatus::with_code(run.code))
    }
}

fn parse(args: &[String]) -> std::result::Result<Options, Error> {
    let mut options = Options::default();
    let mut parser = options::parser(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Short('u') => options.unified = options.unified.or(Some(3)),
            Short('U') => options.unified = Some(count(&parser.value()?.string()?)?),
            Long("unified") => {
                options.unified = Some(match parser.optional_value() {
                    Some(value) => count(&value.string()?)?,
                    None => 3,
                });
            }
            Short('q') | Long("brief") => options.brief = true,
            Short('r') | Long("recursive") => options.recursive = true,
            Short('N') | Long("new-file") => options.new_file = true,
            Short('s') | Long("report-identical-files") => options.say_same = true,
            Short('a') | Long("text") => options.text = true,
            Short('i') | Long("ignore-case") => options.ignore_case = true,
            Short('w') | Long("ignore-all-space") => options.ignore_space = true,
            Short('b') | Long("ignore-space-change") => options.ignore_space_change = true,
            Short('Z') | Long("ignore-trailing-space") => options.ignore_space_at_end = true,
            Short('B') | Long("ignore-blank-lines") => options.ignore_blank = true,
            Long("strip-trailing-cr") => options.strip_return = true,
            Short('L') | Long("label") => options.labels.push(parser.value()?.string()?),
            Short('x') | Long("exclude") => options.exclude.push(parser.value()?.string()?),
            Long("color") => drop(parser.optional_value()),
            Short('d' | 'H')
            | Long("normal" | "minimal" | "speed-large-files" | "no-dereference") => {}
            Value(operand) => options.operands.push(operand.string()?),
            other => return Err(options::with_value(other.unexpected(), &mut parser)),
        }
    }
    let switches =
        args.iter().take_while(|arg| *arg != "--").filter(|arg| !options.operands.contains(arg));
    options.written = switches.map(|arg| format!(" {arg}")).collect();
    Ok(options)
}

fn count(text: &str) -> std::result::Result<usize, Error> {
    text.parse().map_err(|_| format!("invalid context length '{text}'").into())
}

/// One operand: a file, a folder, or missing.
enum Side {
    Folder(BTreeSet<String>),
    File(Vec<u8>, SystemTime),
    Missing,
}

struct Run<'a> {
    context: &'a CommandContext<'a>,
    options: &'a Options,
    out: Vec<u8>,
    errors: String,
    code: i32,
}

impl Run<'_> {
    async fn operands(&mut self, old: &str, new: &str) -> Result<()> {
        let [mut left, mut right] = [self.side(old).await?, self.side(new).await?];
        let (mut old, mut new) = (old.to_owned(), new.to_owned());
        // A file and a folder: the file is compared with the file of the same name in the folder.
        match (&left, &right) {
            (Side::File(..), Side::Folder(_)) => {
                new = below(&new, old.rsplit('/').next().unwrap_or_default());
                right = self.side(&new).await?;
            }
            (Side::Folder(_), Side::File(..)) => {
                old = below(&old, new.rsplit('/').next().unwrap_or_default());
                left = self.side(&old).await?;
            }
            _ => {}
        }
        let both = matches!((&left, &right), (Side::Missing, Side::Missing));
        for (side, name) in [(&left, &old), (&right, &new)] {
            if matches!(side, Side::Missing) && (both || !self.options.new_file) {
                self.trouble(name, "No such file or directory");
            }
        }
        if self.code == 0 { self.compare(&old, left, &new, right, false).await } else { Ok(()) }
    }

    fn compare<'b>(
        &'b mut self,
        old: &'b str,
        left: Side,
        new: &'b str,
        right: Side,
        in_tree: bool,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'b>> {
        Box::pin(async move {
            match (left, right) {
                (Side::Folder(left), Side::Folder(right)) => {
                    self.folders(old, left, new, right).await
                }
                (Side::Folder(left), Side::Missing) => {
                    self.folders(old, left, new, BTreeSet::new()).await
                }
                (Side::Missing, Side::Folder(right)) => {
                    self.folders(old, BTreeSet::new(), new, right).await
                }
                (Side::Folder(_), Side::File(..)) => {
                    self.say(
                        1,
                        &format!("File {old} is a directory while file {new} is a regular file\n"),
                    );
                    Ok(())
                }
                (Side::File(..), Side::Folder(_)) => {
                    self.say(
                        1,
                        &format!("File {old} is a regular file while file {new} is a directory\n"),
                    );
                    Ok(())
                }
                (left, right) => {
                    let content = |side| match side {
                        Side::File(bytes, time) => (bytes, time),
                        _ => (Vec::new(), UNIX_EPOCH),
                    };
                    let ((left, left_time), (right, right_time)) = (content(left), content(right));
                    self.files([old, new], [&left, &right], [left_time, right_time], in_tree);
                    Ok(())
                }
            }
        })
    }

    async fn folders(
        &mut self,
        old: &str,
        left: BTreeSet<String>,
        new: &str,
        right: BTreeSet<String>,
    ) -> Result<()> {
        for name in left.union(&right) {
            if self
                .options
                .exclude
                .iter()
                .any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
            {
                continue;
            }
            let only = if !left.contains(name) {
                Some(new)
            } else if !right.contains(name) {
                Some(old)
            } else {
                None
            };
            if let Some(folder) = only.filter(|_| !self.options.new_file) {
                self.say(1, &format!("Only in {folder}: {name}\n"));
                continue;
            }
            let (old, new) = (below(old, name), below(new, name));
            let one = if left.contains(name) { self.side(&old).await? } else { Side::Missing };
            let other = if right.contains(name) { self.side(&new).await? } else { Side::Missing };
            let a_folder = matches!(
                (&one, &other),
                (Side::Folder(_), Side::Folder(_) | Side::Missing)
                    | (Side::Missing, Side::Folder(_))
            );
            if a_folder && !self.options.recursive {
                self.say(0, &format!("Common subdirectories: {old} and {new}\n"));
                continue;
            }
            self.compare(&old, one, &new, other, true).await?;
        }
        Ok(())
    }

    fn files(
        &mut self,
        names: [&str; 2],
        bytes: [&[u8]; 2],
        times: [SystemTime; 2],
        in_tree: bool,
    ) {
        let options = self.options;
        let [old, new] = names;
        let binary = !options.text && bytes.iter().any(|bytes| bytes.contains(&0));
        let lines =
            bytes.map(|bytes| bytes.split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>());
        let keys = lines
            .each_ref()
            .map(|lines| lines.iter().map(|line| options.key(line)).collect::<Vec<_>>());
        let same = bytes[0] == bytes[1] || (!binary && keys[0] == keys[1]);
        let mut changes = if same || binary {
            Vec::new()
        } else {
            script::changes(&keys[0], &keys[1], options.unified.unwrap_or(0))
        };
        if options.ignore_blank {
            let blank = |line: &[u8]| line == b"\n";
            changes.retain(|change| {
                !(lines[0][change.old.clone()].iter().all(|line| blank(line))
                    && lines[1][change.new.clone()].iter().all(|line| blank(line)))
            });
        }
        if same || (!binary && changes.is_empty()) {
            if options.say_same {
                self.say(0, &format!("Files {old} and {new} are identical\n"));
            }
        } else if options.brief {
            self.say(1, &format!("Files {old} and {new} differ\n"));
        } else if binary {
            self.say(2, &format!("Binary files {old} and {new} differ\n"));
        } else {
            if in_tree {
                self.say(1, &format!("diff{} {old} {new}\n", options.written));
            }
            self.code = self.code.max(1);
            let text = match options.unified {
                None => print::normal(&lines[0], &lines[1], &changes),
                Some(context) => {
                    for (mark, at) in [("---", 0), ("+++", 1)] {
                        let label = options
                            .labels
                            .get(at)
                            .cloned()
                            .unwrap_or_else(|| format!("{}\t{}", names[at], moment(times[at])));
                        self.say(1, &format!("{mark} {label}\n"));
                    }
                    print::unified(&lines[0], &lines[1], &changes, context, |_| None)
                }
            };
            self.out.extend(text);
        }
    }

    async fn side(&mut self, path: &str) -> Result<Side> {
        if path == "-" {
            return Ok(Side::File(standard_input(self.context).await?, SystemTime::now()));
        }
        let at = absolute(self.context, path);
        let fs = &self.context.fs;
        let read = async {
            let found = fs.stat(&at).await?;
            if !found.file_type.is_dir() {
                return Ok(Side::File(fs.read_file(&at).await?, found.modified));
            }
            Ok(Side::Folder(fs.read_dir(&at).await?.into_iter().map(|entry| entry.name).collect()))
        };
        let read: Result<Side> = read.await;
        Ok(read.unwrap_or_else(|error| {
            let why = reason(&error);
            if why != "No such file or directory" {
                self.trouble(path, &why);
            }
            Side::Missing
        }))
    }

    fn trouble(&mut self, path: &str, why: &str) {
        self.errors += &format!("diff: {path}: {why}\n");
        self.code = 2;
    }

    fn say(&mut self, code: i32, text: &str) {
        self.out.extend(text.bytes());
        self.code = self.code.max(code);
    }
}

impl Options {
    /// Returns the key of a line. Lines with equal keys are equal under the options.
    fn key(&self, line: &[u8]) -> Vec<u8> {
        let mut key = line.to_vec();
        if self.strip_return && key.ends_with(b"\r\n") {
            key.truncate(key.len() - 2);
            key.push(b'\n');
        }
        if self.ignore_case {
            key = String::from_utf8_lossy(&key).to_lowercase().into_bytes();
        }
        if self.ignore_space {
            key.retain(|byte| !byte.is_ascii_whitespace());
        } else if self.ignore_space_change || self.ignore_space_at_end {
            key.truncate(key.trim_ascii_end().len());
            if self.ignore_space_change {
                key = key.chunk_by(|a, b| a.is_ascii_whitespace() == b.is_ascii_whitespace()).fold(
                    Vec::new(),
                    |mut all, run| {
                        all.extend(if run[0].is_ascii_whitespace() { b" " } else { run });
                        all
                    },
                );
            }
        }
        key
    }
}

fn below(folder: &str, name: &str) -> String {
    if folder.ends_with('/') { format!("{folder}{name}") } else { format!("{folder}/{name}") }
}

/// Matches a name against a pattern with `*` and `?`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        ([b'?', rest @ ..], [_, left @ ..]) => matches(rest, left),
        ([one, rest @ ..], [other, left @ ..]) => one == other && matches(rest, left),
        _ => false,
    }
}

fn moment(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (year, month, day) = ls::civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{:09} +0000",
        since.subsec_nanos()
    )
}
