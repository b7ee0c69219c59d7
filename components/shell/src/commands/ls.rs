//! `ls`, in the form for pipes: one name per line.

use std::path::Path;

use async_trait::async_trait;
use bashkit::time::{SystemTime, UNIX_EPOCH};
use bashkit::{Command, CommandContext, CommandStatus, FileType, Metadata, Result};
use lexopt::Arg::{Long, Short, Value};
use lexopt::{Error, ValueExt as _};

use super::{absolute, fail, options, reason};

/// The age from which on files are listed with their year.
const HALF_YEAR: u64 = 31_556_952 / 2;

pub(super) struct Ls;

/// The sort key of a listing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Name,
    Time,
    Size,
    Extension,
    None,
}

struct Options {
    all: bool,
    almost: bool,
    long: bool,
    folder_itself: bool,
    mark: bool,
    mark_folders: bool,
    reverse: bool,
    recursive: bool,
    human: bool,
    numeric: bool,
    owner: bool,
    group: bool,
    folders_first: bool,
    order: Order,
}

struct Item {
    name: String,
    found: Metadata,
    target: Option<String>,
}

#[async_trait]
impl Command for Ls {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let (options, mut paths) = match parse(context.args) {
            Ok(parsed) => parsed,
            Err(error) => {
                let message = options::message(&error);
                let message = format!("ls: {message}\nTry 'ls --help' for more information.\n");
                return fail(&context, &message, 2).await;
            }
        };
        if paths.is_empty() {
            paths.push(".".into());
        }
        let (mut files, mut folders, mut code) = (Vec::new(), Vec::new(), 0);
        let several = paths.len() > 1;
        for path in paths {
            let at = absolute(&context, &path);
            // A link given as operand is followed if its target is to be listed.
            let found = match context.fs.lstat(&at).await {
                Ok(found)
                    if found.file_type.is_symlink() && !options.long && !options.folder_itself =>
                {
                    Ok(context.fs.stat(&at).await.unwrap_or(found))
                }
                found => found,
            };
            match found {
                Ok(found) if found.file_type.is_dir() && !options.folder_itself => {
                    folders.push(path)
                }
                Ok(found) => {
                    let target = target(&context, &at, &found).await;
                    files.push(Item { name: path, found, target });
                }
                Err(error) => {
                    code = fail(
                        &context,
                        &format!("ls: cannot access '{path}': {}\n", reason(&error)),
                        2,
                    )
                    .await?
                    .exit_code
                }
            }
        }
        sort(&mut files, &options);
        let mut text = String::new();
        render(&files, &options, &mut text);
        folders.sort();
        if options.reverse {
            folders.reverse();
        }
        let headed = several || options.recursive;
        let mut rest: Vec<String> = folders.into_iter().rev().collect();
        let mut first = files.is_empty();
        while let Some(folder) = rest.pop() {
            let items = match list(&context, &folder, &options).await {
                Ok(items) => items,
                Err(error) => {
                    code = fail(
                        &context,
                        &format!("ls: cannot open directory '{folder}': {}\n", reason(&error)),
                        2,
                    )
                    .await?
                    .exit_code;
                    continue;
                }
            };
            if headed {
                text += if first { "" } else { "\n" };
                text += &format!("{folder}:\n");
            }
            first = false;
            if options.long {
                let blocks: u64 = items.iter().map(|item| blocks(&item.found)).sum();
                text += &format!("total {blocks}\n");
            }
            render(&items, &options, &mut text);
            context.stdout.write_all(std::mem::take(&mut text).as_bytes()).await?;
            if options.recursive {
                let below = items.iter().rev().filter(|item| {
                    item.found.file_type.is_dir() && item.name != "." && item.name != ".."
                });
                rest.extend(
                    below.map(|item| format!("{}/{}", folder.trim_end_matches('/'), item.name)),
                );
            }
        }
        context.stdout.write_all(text.as_bytes()).await?;
        Ok(CommandStatus::with_code(code))
    }
}

fn parse(args: &[String]) -> std::result::Result<(Options, Vec<String>), Error> {
    let mut options = Options {
        all: false,
        almost: false,
        long: false,
        folder_itself: false,
        mark: false,
        mark_folders: false,
        reverse: false,
        recursive: false,
        human: false,
        numeric: false,
        owner: true,
        group: true,
        folders_first: false,
        order: Order::Name,
    };
    let mut paths = Vec::new();
    let mut parser = options::parser(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Short('a') | Long("all") => options.all = true,
            Short('A') | Long("almost-all") => options.almost = true,
            Short('l') => options.long = true,
            Short('d') | Long("directory") => options.folder_itself = true,
            Short('F') => options.mark = true,
            Long("classify") => (options.mark, _) = (true, parser.optional_value()),
            Short('p') => options.mark_folders = true,
            Short('r') | Long("reverse") => options.reverse = true,
            Short('R') | Long("recursive") => options.recursive = true,
            Short('h') | Long("human-readable") => options.human = true,
            Short('n') | Long("numeric-uid-gid") => (options.long, options.numeric) = (true, true),
            Long("full-time") => (options.long, options.numeric) = (true, false),
            Short('g') => (options.long, options.owner) = (true, false),
            Short('o') => (options.long, options.group) = (true, false),
            Short('G') => options.group = false,
            Long("group-directories-first") => options.folders_first = true,
            Short('t') => options.order = Order::Time,
            Short('S') => options.order = Order::Size,
            Short('X') => options.order = Order::Extension,
            Short('U' | 'f') => options.order = Order::None,
            Long("sort") => {
                options.order = match parser.value()?.string()?.as_str() {
                    "name" => Order::Name,
                    "time" => Order::Time,
                    "size" => Order::Size,
                    "extension" => Order::Extension,
                    "none" => Order::None,
                    other => return Err(Error::UnexpectedOption(format!("--sort={other}"))),
                }
            }
            Long("color") => drop(parser.optional_value()),
            Long("time-style") => drop(parser.value()?),
            Short('1' | 'C' | 'x' | 'm' | 'c' | 'u' | 'N' | 'q' | 'k' | 'L' | 'H' | 'v')
            | Long("literal") => {}
            Value(path) => paths.push(path.string()?),
            other => return Err(options::with_value(other.unexpected(), &mut parser)),
        }
    }
    Ok((options, paths))
}

async fn target(context: &CommandContext<'_>, at: &Path, found: &Metadata) -> Option<String> {
    if !found.file_type.is_symlink() {
        return None;
    }
    context.fs.read_link(at).await.ok().map(|target| target.display().to_string())
}

async fn list(context: &CommandContext<'_>, folder: &str, options: &Options) -> Result<Vec<Item>> {
    let at = absolute(context, folder);
    let mut items = Vec::new();
    if options.all {
        for name in [".", ".."] {
            let path = if name == "." { at.clone() } else { at.parent().unwrap_or(&at).to_owned() };
            items.push(Item {
                name: name.into(),
                found: context.fs.stat(&path).await?,
                target: None,
            });
        }
    }
    for entry in context.fs.read_dir(&at).await? {
        if options.all || options.almost || !entry.name.starts_with('.') {
            let target = target(context, &at.join(&entry.name), &entry.metadata).await;
            items.push(Item { name: entry.name, found: entry.metadata, target });
        }
    }
    sort(&mut items, options);
    Ok(items)
}

fn sort(items: &mut [Item], options: &Options) {
    let extension = |item: &Item| {
        item.name.rsplit_once('.').map(|(_, extension)| extension.to_owned()).unwrap_or_default()
    };
    match options.order {
        Order::None => return,
        Order::Name => items.sort_by(|a, b| a.name.cmp(&b.name)),
        Order::Time => {
            items.sort_by(|a, b| seconds(b).cmp(&seconds(a)).then_with(|| a.name.cmp(&b.name)))
        }
        Order::Size => {
            items.sort_by(|a, b| b.found.size.cmp(&a.found.size).then_with(|| a.name.cmp(&b.name)))
        }
        Order::Extension => {
            items.sort_by(|a, b| extension(a).cmp(&extension(b)).then_with(|| a.name.cmp(&b.name)))
        }
    }
    if options.reverse {
        items.reverse();
    }
    if options.folders_first {
        items.sort_by_key(|item| !item.found.file_type.is_dir());
    }
}

fn seconds(item: &Item) -> std::time::Duration {
    item.found.modified.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the blocks of 1 KiB that a file system with pages of 4 KiB would report.
fn blocks(found: &Metadata) -> u64 {
    match found.file_type {
        FileType::File => found.size.div_ceil(4096) * 4,
        FileType::Directory => 4,
        _ => 0,
    }
}

fn render(items: &[Item], options: &Options, text: &mut String) {
    let size =
        |found: &Metadata| if options.human { human(found.size) } else { found.size.to_string() };
    let width = items.iter().map(|item| size(&item.found).len()).max().unwrap_or(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for item in items {
        if options.long {
            let name = if options.numeric { "1000" } else { "user" };
            *text += &format!("{} 1", permissions(&item.found));
            for shown in [options.owner, options.group] {
                *text += &if shown { format!(" {name}") } else { String::new() };
            }
            *text +=
                &format!(" {:>width$} {} ", size(&item.found), date(seconds(item).as_secs(), now));
        }
        *text += &item.name;
        if let Some(target) = item.target.as_ref().filter(|_| options.long) {
            *text += &format!(" -> {target}");
        } else {
            *text += mark(&item.found, options);
        }
        text.push('\n');
    }
}

fn mark(found: &Metadata, options: &Options) -> &'static str {
    match found.file_type {
        FileType::Directory if options.mark || options.mark_folders => "/",
        FileType::Symlink if options.mark => "@",
        FileType::File if options.mark && found.mode & 0o111 != 0 => "*",
        _ => "",
    }
}

fn permissions(found: &Metadata) -> String {
    let kind = match found.file_type {
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::File => '-',
    };
    let bits = "rwxrwxrwx"
        .chars()
        .enumerate()
        .map(|(at, letter)| if found.mode & (0o400 >> at) == 0 { '-' } else { letter });
    std::iter::once(kind).chain(bits).collect()
}

/// Formats a size as `ls -h`: rounded up, with one decimal below ten.
fn human(size: u64) -> String {
    if size < 1024 {
        return size.to_string();
    }
    let (mut value, mut unit) = (size as f64, 0);
    while value >= 1024.0 && unit < 6 {
        value /= 1024.0;
        unit += 1;
    }
    let letter = ["", "K", "M", "G", "T", "P", "E"][unit];
    let tenths = (value * 10.0).ceil() / 10.0;
    if tenths < 10.0 {
        format!("{tenths:.1}{letter}")
    } else {
        format!("{:.0}{letter}", value.ceil())
    }
}

fn date(seconds: u64, now: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = civil(seconds / 86_400);
    let month = MONTHS[month - 1];
    if seconds > now || now - seconds >= HALF_YEAR {
        return format!("{month} {day:>2}  {year}");
    }
    format!("{month} {day:>2} {:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60)
}

/// Converts a day since 1970 to year, month and day.
pub(super) fn civil(days: u64) -> (u64, usize, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month as usize, day)
}
