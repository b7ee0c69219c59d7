//! `df`, of the sandbox's one disk. Its size is that of the constant machine
//! (docs/reference/scripts.md): the default limits `disk` and `files`.

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use lexopt::Arg::{Long, Short, Value};
use lexopt::{Error, ValueExt as _};

use super::{absolute, fail, options};

/// The bytes of the disk. Python's `shutil.disk_usage` returns the same.
const BYTES: u64 = 256 << 20;
const INODES: u64 = 10_000;
const SOURCE: &str = "skillhost";
const MOUNTED_ON: &str = "/";

pub(super) struct Df;

/// The unit of sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// `-B`: blocks of so many bytes, with a suffix after each number.
    Blocks { bytes: u64, suffix: &'static str },
    /// `-h` and `-H`: powers of this number.
    Human(u64),
}

const KILOBYTES: Unit = Unit::Blocks { bytes: 1 << 10, suffix: "" };

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Source,
    Type,
    Size,
    Used,
    Available,
    Percent,
    Inodes,
    InodesUsed,
    InodesFree,
    InodesPercent,
    File,
    Target,
}

struct Options {
    unit: Unit,
    portable: bool,
    columns: Vec<Column>,
    /// `--output` chose the columns.
    chosen: bool,
    paths: Vec<String>,
}

#[async_trait]
impl Command for Df {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let options = match parse(context.args) {
            Ok(options) => options,
            Err(error) => {
                let message = options::message(&error);
                let message = format!("df: {message}\nTry 'df --help' for more information.\n");
                return fail(&context, &message, 1).await;
            }
        };
        let (mut files, mut code) = (Vec::new(), 0);
        for path in &options.paths {
            if context.fs.stat(&absolute(&context, path)).await.is_ok() {
                files.push(path.as_str());
            } else {
                code = 1;
                fail(&context, &format!("df: {path}: No such file or directory\n"), 1).await?;
            }
        }
        if options.paths.is_empty() {
            files.push("-");
        }
        if !files.is_empty() {
            context.stdout.write_all(table(&options, &files).as_bytes()).await?;
        }
        Ok(CommandStatus::with_code(code))
    }
}

fn parse(args: &[String]) -> std::result::Result<Options, Error> {
    let (mut unit, mut portable, mut with_type, mut inodes) = (None, false, false, false);
    let (mut chosen, mut paths) = (None, Vec::new());
    let mut parser = options::parser(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("human-readable") => unit = Some(Unit::Human(1024)),
            Short('H') | Long("si") => unit = Some(Unit::Human(1000)),
            Short('k') => unit = Some(KILOBYTES),
            Short('m') => unit = Some(Unit::Blocks { bytes: 1 << 20, suffix: "" }),
            Short('B') | Long("block-size") => {
                let size = parser.value()?.string()?;
                let invalid = || Error::from(format!("invalid -B argument '{size}'"));
                unit = Some(block_size(&size).ok_or_else(invalid)?);
            }
            Short('P') | Long("portability") => portable = true,
            Short('T') | Long("print-type") => with_type = true,
            Short('i') | Long("inodes") => inodes = true,
            Long("output") => {
                let names = parser.optional_value().map(|names| names.string()).transpose()?;
                chosen = Some(columns(names.as_deref())?);
            }
            Short('a' | 'l') | Long("all" | "local" | "sync" | "no-sync") => {}
            Value(path) => paths.push(path.string()?),
            other => return Err(options::with_value(other.unexpected(), &mut parser)),
        }
    }
    use Column::*;
    let usual = || {
        let figures: &[Column] = match inodes {
            true => &[Inodes, InodesUsed, InodesFree, InodesPercent],
            false => &[Size, Used, Available, Percent],
        };
        let kind: &[Column] = if with_type { &[Type] } else { &[] };
        [&[Source], kind, figures, &[Target]].concat()
    };
    Ok(Options {
        unit: unit.unwrap_or(KILOBYTES),
        portable,
        chosen: chosen.is_some(),
        columns: chosen.unwrap_or_else(usual),
        paths,
    })
}

/// Parses the value of `-B`: a number with a unit, or one of them.
fn block_size(text: &str) -> Option<Unit> {
    match text {
        "" => return None,
        "human-readable" => return Some(Unit::Human(1024)),
        "si" => return Some(Unit::Human(1000)),
        _ => {}
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, letters) = text.split_at(digits);
    let (unit, suffix): (u64, _) = match letters {
        "" => (1, ""),
        "K" | "k" | "KiB" => (1 << 10, "K"),
        "M" | "MiB" => (1 << 20, "M"),
        "G" | "GiB" => (1 << 30, "G"),
        "T" | "TiB" => (1 << 40, "T"),
        "kB" | "KB" => (1_000, "kB"),
        "MB" => (1_000_000, "MB"),
        "GB" => (1_000_000_000, "GB"),
        _ => return None,
    };
    let count = if number.is_empty() { 1 } else { number.parse().ok().filter(|n| *n > 0)? };
    let bytes = unit.checked_mul(count)?;
    // GNU's df repeats the unit after each number only if no number precedes it.
    let suffix = if number.is_empty() { suffix } else { "" };
    Some(Unit::Blocks { bytes, suffix })
}

/// Parses the names of `--output`; all columns without names.
fn columns(names: Option<&str>) -> std::result::Result<Vec<Column>, Error> {
    use Column::*;
    let all = "source,fstype,itotal,iused,iavail,ipcent,size,used,avail,pcent,file,target";
    let column = |name: &str| {
        Ok(match name {
            "source" => Source,
            "fstype" => Type,
            "itotal" => Inodes,
            "iused" => InodesUsed,
            "iavail" => InodesFree,
            "ipcent" => InodesPercent,
            "size" => Size,
            "used" => Used,
            "avail" => Available,
            "pcent" => Percent,
            "file" => File,
            "target" => Target,
            _ => return Err(Error::from(format!("option --output: field '{name}' unknown"))),
        })
    };
    names.unwrap_or(all).split(',').map(column).collect()
}

fn table(options: &Options, files: &[&str]) -> String {
    let title = options.columns.iter().map(|column| title(*column, options)).collect();
    let row = |file: &&str| {
        options.columns.iter().map(|column| cell(*column, file, options.unit)).collect()
    };
    let rows: Vec<Vec<String>> = std::iter::once(title).chain(files.iter().map(row)).collect();
    let width = |at: usize| {
        let longest = rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        longest.max(least_width(options.columns[at]))
    };
    let widths: Vec<usize> = (0..options.columns.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(at, cell)| {
            let width = widths[at];
            match options.columns[at] {
                Column::Source | Column::Type | Column::File | Column::Target => {
                    format!("{cell:<width$}")
                }
                _ => format!("{cell:>width$}"),
            }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join(" ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn title(column: Column, options: &Options) -> String {
    let is_human = matches!(options.unit, Unit::Human(_));
    match column {
        Column::Source => "Filesystem".into(),
        Column::Type => "Type".into(),
        Column::Size => match options.unit {
            Unit::Human(_) => "Size".into(),
            Unit::Blocks { bytes, .. } if options.portable => format!("{bytes}-blocks"),
            Unit::Blocks { bytes, .. } => format!("{}-blocks", short(bytes)),
        },
        Column::Used => "Used".into(),
        Column::Available if is_human || options.chosen => "Avail".into(),
        Column::Available => "Available".into(),
        Column::Percent if options.portable => "Capacity".into(),
        Column::Percent => "Use%".into(),
        Column::Inodes => "Inodes".into(),
        Column::InodesUsed => "IUsed".into(),
        Column::InodesFree => "IFree".into(),
        Column::InodesPercent => "IUse%".into(),
        Column::File => "File".into(),
        Column::Target => "Mounted on".into(),
    }
}

/// Writes the size of a block with the largest unit that divides it.
fn short(bytes: u64) -> String {
    let base = if !bytes.is_multiple_of(1024) && bytes.is_multiple_of(1000) { 1000 } else { 1024 };
    let (mut number, mut power) = (bytes, 0);
    while number.is_multiple_of(base) && power < 4 {
        number /= base;
        power += 1;
    }
    match (base, power) {
        (_, 0) => format!("{number}B"),
        (1000, _) => format!("{number}{}B", ["k", "M", "G", "T"][power - 1]),
        _ => format!("{number}{}", ["K", "M", "G", "T"][power - 1]),
    }
}

fn cell(column: Column, file: &str, unit: Unit) -> String {
    match column {
        Column::Source | Column::Type => SOURCE.into(),
        Column::Size | Column::Available => size(BYTES, unit),
        Column::Used => size(0, unit),
        Column::Percent | Column::InodesPercent => "0%".into(),
        Column::Inodes | Column::InodesFree => INODES.to_string(),
        Column::InodesUsed => "0".into(),
        Column::File => file.into(),
        Column::Target => MOUNTED_ON.into(),
    }
}

/// Formats a size, rounded up as GNU's df does.
fn size(bytes: u64, unit: Unit) -> String {
    let base = match unit {
        Unit::Blocks { bytes: block, suffix, .. } => {
            return format!("{}{suffix}", bytes.div_ceil(block));
        }
        Unit::Human(base) => base,
    };
    let (mut block, mut letters) = (1, ["", "K", "M", "G", "T"].into_iter());
    let mut letter = letters.next();
    while bytes >= block * base {
        block *= base;
        letter = letters.next();
    }
    if base == 1000 && letter == Some("K") {
        letter = Some("k");
    }
    let whole = bytes.div_ceil(block);
    let tenths = (bytes * 10).div_ceil(block);
    let number = match whole < 10 && block > 1 {
        true => format!("{}.{}", tenths / 10, tenths % 10),
        false => whole.to_string(),
    };
    format!("{number}{}", letter.unwrap_or_default())
}

/// The least width of a column in GNU's df.
fn least_width(column: Column) -> usize {
    match column {
        Column::Source => 14,
        Column::Type | Column::Percent | Column::InodesPercent => 4,
        Column::Size
        | Column::Used
        | Column::Available
        | Column::Inodes
        | Column::InodesUsed
        | Column::InodesFree => 5,
        Column::File | Column::Target => 0,
    }
}
