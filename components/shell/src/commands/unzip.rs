//! `unzip`.

use std::io::{Cursor, Read as _};
use std::path::PathBuf;

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use zip::ZipArchive;

use super::zip::matches;
use super::{absolute, fail, reason};

pub(super) struct Unzip;

#[derive(Default)]
struct Options {
    list: bool,
    names: bool,
    pipe: bool,
    test: bool,
    quiet: bool,
    overwrite: bool,
    never: bool,
    names_only: bool,
    to: Option<String>,
    archive: Option<String>,
    wanted: Vec<String>,
    excluded: Vec<String>,
}

#[async_trait]
impl Command for Unzip {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let options = match parse(context.args) {
            Ok(options) => options,
            Err(message) => return fail(&context, &format!("unzip:  {message}\n"), 10).await,
        };
        let Some(archive) = &options.archive else {
            return fail(&context, "unzip:  no archive is named\n", 10).await;
        };
        let mut bytes = context.fs.read_file(&absolute(&context, archive)).await;
        if bytes.is_err() {
            bytes = context.fs.read_file(&absolute(&context, &format!("{archive}.zip"))).await;
        }
        let Ok(bytes) = bytes else {
            return fail(
                &context,
                &format!(
                    "unzip:  cannot find or open {archive}, {archive}.zip or {archive}.ZIP.\n"
                ),
                9,
            )
            .await;
        };
        match ZipArchive::new(Cursor::new(bytes)) {
            Ok(zip) => run(&context, &options, archive, zip).await,
            Err(_) => {
                fail(
                    &context,
                    &format!("  End-of-central-directory signature not found.\nunzip:  cannot find zipfile directory in {archive}\n"),
                    9,
                )
                .await
            }
        }
    }
}

fn parse(args: &[String]) -> std::result::Result<Options, String> {
    let mut options = Options::default();
    let mut words = args.iter();
    let mut excluding = false;
    while let Some(word) = words.next() {
        if word.len() > 1 && word.starts_with('-') {
            excluding = false;
            for (at, letter) in word.char_indices().skip(1) {
                match letter {
                    'l' | 'v' => options.list = true,
                    'Z' | '1' => options.names = true,
                    'p' => options.pipe = true,
                    't' => options.test = true,
                    'q' => options.quiet = true,
                    'o' => options.overwrite = true,
                    'n' => options.never = true,
                    'j' => options.names_only = true,
                    'x' => excluding = true,
                    'a' | 'u' | 'C' | 'L' | 'K' | 'X' | 'D' => {}
                    'd' => {
                        let attached = &word[at + 1..];
                        let folder = if attached.is_empty() {
                            words.next().cloned()
                        } else {
                            Some(attached.to_owned())
                        };
                        options.to = Some(folder.ok_or("-d needs a folder")?);
                        break;
                    }
                    other => return Err(format!("option -{other} is not supported")),
                }
            }
        } else if excluding {
            options.excluded.push(word.clone());
        } else if options.archive.is_none() {
            options.archive = Some(word.clone());
        } else {
            options.wanted.push(word.clone());
        }
    }
    Ok(options)
}

async fn run(
    context: &CommandContext<'_>,
    options: &Options,
    archive: &str,
    mut zip: ZipArchive<Cursor<Vec<u8>>>,
) -> Result<CommandStatus> {
    let (mut text, mut size, mut count) = (String::new(), 0, 0);
    if !options.quiet && !options.pipe && !options.names {
        text += &format!("Archive:  {archive}\n");
    }
    if options.list && !options.quiet {
        text += "  Length      Date    Time    Name\n---------  ---------- -----   ----\n";
    }
    for index in 0..zip.len() {
        // An entry is read as a whole, because it borrows the archive and files are written
        // asynchronously.
        let (name, length, stamp, content) = {
            let mut entry = match zip.by_index(index) {
                Ok(entry) => entry,
                Err(error) => {
                    return fail(context, &format!("unzip:  {archive}: {error}\n"), 81).await;
                }
            };
            let name = entry.name().to_owned();
            let pick = |patterns: &[String]| {
                patterns.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
            };
            if (!options.wanted.is_empty() && !pick(&options.wanted)) || pick(&options.excluded) {
                continue;
            }
            let stamp = entry.last_modified().map_or_else(
                || "1980-00-00 00:00".to_owned(),
                |at| {
                    format!(
                        "{:04}-{:02}-{:02} {:02}:{:02}",
                        at.year(),
                        at.month(),
                        at.day(),
                        at.hour(),
                        at.minute()
                    )
                },
            );
            let mut content = Vec::new();
            if !(options.list || options.names)
                && let Err(error) = entry.read_to_end(&mut content)
            {
                return fail(context, &format!("unzip:  {archive}: {name}: {error}\n"), 3).await;
            }
            (name, entry.size(), stamp, content)
        };
        count += 1;
        size += length;
        if options.names {
            text += &format!("{name}\n");
        } else if options.list {
            text += &format!("{length:>9}  {stamp}   {name}\n");
        } else if options.test {
            text += &if options.quiet {
                String::new()
            } else {
                format!("    testing: {name:<24} OK\n")
            };
        } else if options.pipe {
            context.stdout.write_all(&content).await?;
        } else if let Some(line) = place(context, options, &name, &content).await? {
            text += &line;
        }
    }
    if options.list && !options.quiet {
        text += &format!(
            "---------                     -------\n{size:>9}                     {count} file{}\n",
            if count == 1 { "" } else { "s" }
        );
    }
    if options.test {
        text += &format!("No errors detected in compressed data of {archive}.\n");
    }
    context.stdout.write_all(text.as_bytes()).await?;
    if count == 0 && !options.wanted.is_empty() {
        return fail(
            context,
            &format!("caution: filename not matched:  {}\n", options.wanted.join(" ")),
            11,
        )
        .await;
    }
    Ok(CommandStatus::success())
}

/// Extracts one entry, and returns the line to print.
async fn place(
    context: &CommandContext<'_>,
    options: &Options,
    name: &str,
    content: &[u8],
) -> Result<Option<String>> {
    // Components that lead out of the folder are dropped.
    let mut parts = name.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    let below: PathBuf =
        if options.names_only { parts.next_back().into_iter().collect() } else { parts.collect() };
    let folder = options.to.as_deref().unwrap_or("");
    let shown = PathBuf::from(folder).join(&below);
    let path = context.cwd.join(&shown);
    let say = |verb: &str| {
        (!options.quiet).then(|| {
            format!(
                "{verb:>11}: {}{}  \n",
                shown.display(),
                if name.ends_with('/') { "/" } else { "" }
            )
        })
    };
    if name.ends_with('/') {
        if !options.names_only {
            context.fs.mkdir(&path, true).await?;
        }
        return Ok(say("creating").filter(|_| !options.names_only));
    }
    if context.fs.exists(&path).await? && !options.overwrite {
        if !options.never {
            // There is no terminal to ask.
            fail(
                context,
                &format!(
                    "replace {}? [y]es, [n]o, [A]ll, [N]one, [r]ename:  NULL\n(EOF or read error, treating as \"[N]one\" ...)\n",
                    shown.display()
                ),
                1,
            )
            .await?;
        }
        return Ok(None);
    }
    if let Some(parent) = path.parent() {
        context.fs.mkdir(parent, true).await?;
    }
    if let Err(error) = context.fs.write_file(&path, content).await {
        fail(
            context,
            &format!("error:  cannot create {}\n        {}\n", shown.display(), reason(&error)),
            50,
        )
        .await?;
        return Ok(None);
    }
    Ok(say("inflating"))
}
