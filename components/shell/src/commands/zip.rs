//! `zip`.

use std::io::{Cursor, Write as _};
use std::path::Path;

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{absolute, fail, reason};

pub(super) struct Zip;

struct Options {
    recursive: bool,
    quiet: bool,
    names_only: bool,
    store: bool,
    excluded: Vec<String>,
    archive: String,
    files: Vec<String>,
}

#[async_trait]
impl Command for Zip {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let options = match parse(context.args) {
            Ok(options) => options,
            Err(message) => {
                return fail(
                    &context,
                    &format!("\nzip error: Invalid command arguments ({message})\n"),
                    16,
                )
                .await;
            }
        };
        let (mut entries, mut missing) = (Vec::new(), false);
        for file in &options.files {
            let mut found = Vec::new();
            gather(&context, &options, file, &mut found).await;
            if found.is_empty() {
                fail(&context, &format!("\tzip warning: name not matched: {file}\n"), 0).await?;
                missing = true;
            }
            entries.extend(found);
        }
        let path = absolute(&context, &options.archive);
        if entries.is_empty() {
            return fail(
                &context,
                &format!("\nzip error: Nothing to do! ({})\n", options.archive),
                12,
            )
            .await;
        }
        let old = context.fs.read_file(&path).await.ok();
        let mut listing = String::new();
        let packed = match pack(&context, &options, old, &entries, &mut listing).await {
            Ok(packed) => packed,
            Err(message) => return fail(&context, &format!("zip error: {message}\n"), 3).await,
        };
        if let Err(error) = context.fs.write_file(&path, &packed).await {
            return fail(
                &context,
                &format!(
                    "zip I/O error: {}\nzip error: Could not create output file ({})\n",
                    reason(&error),
                    options.archive
                ),
                15,
            )
            .await;
        }
        if !options.quiet {
            context.stdout.write_all(listing.as_bytes()).await?;
        }
        Ok(CommandStatus::with_code(if missing { 18 } else { 0 }))
    }
}

fn parse(args: &[String]) -> std::result::Result<Options, String> {
    let mut options = Options {
        recursive: false,
        quiet: false,
        names_only: false,
        store: false,
        excluded: Vec::new(),
        archive: String::new(),
        files: Vec::new(),
    };
    let mut words = Vec::new();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-x" | "--exclude" => {
                options.excluded.extend(rest.by_ref().take_while(|word| *word != "@").cloned())
            }
            "--recurse-paths" => options.recursive = true,
            "--quiet" => options.quiet = true,
            "--junk-paths" => options.names_only = true,
            short if short.len() > 1 && short.starts_with('-') && !short.starts_with("--") => {
                for letter in short[1..].chars() {
                    match letter {
                        'r' => options.recursive = true,
                        'q' => options.quiet = true,
                        'j' => options.names_only = true,
                        '0' => options.store = true,
                        '1'..='9' | 'X' | 'y' | 'u' | 'o' | 'D' | 'T' => {}
                        other => return Err(format!("short option '{other}' not supported")),
                    }
                }
            }
            word => words.push(word.to_owned()),
        }
    }
    let mut words = words.into_iter();
    options.archive = words.next().ok_or("no archive name")?;
    if Path::new(&options.archive).extension().is_none() {
        options.archive += ".zip";
    }
    options.files = words.collect();
    Ok(options)
}

/// Collects a file, or a folder and its contents. Names of folders end with a slash.
async fn gather(
    context: &CommandContext<'_>,
    options: &Options,
    file: &str,
    found: &mut Vec<String>,
) {
    let file = file.trim_end_matches('/');
    let Ok(about) = context.fs.stat(&absolute(context, file)).await else { return };
    if options.excluded.iter().any(|pattern| matches(pattern.as_bytes(), file.as_bytes())) {
        return;
    }
    if !about.file_type.is_dir() {
        found.push(file.to_owned());
        return;
    }
    if file != "." {
        found.push(format!("{file}/"));
    }
    if options.recursive
        && let Ok(mut entries) = context.fs.read_dir(&absolute(context, file)).await
    {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let name = if file == "." { entry.name } else { format!("{file}/{}", entry.name) };
            Box::pin(gather(context, options, &name, found)).await;
        }
    }
}

/// Matches `*` and `?`, which also match slashes, as in zip.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            matches(&pattern[1..], text) || (!text.is_empty() && matches(pattern, &text[1..]))
        }
        (Some(b'?'), Some(_)) => matches(&pattern[1..], &text[1..]),
        (Some(a), Some(b)) if a == b => matches(&pattern[1..], &text[1..]),
        _ => false,
    }
}

async fn pack(
    context: &CommandContext<'_>,
    options: &Options,
    old: Option<Vec<u8>>,
    entries: &[String],
    listing: &mut String,
) -> std::result::Result<Vec<u8>, String> {
    let shown = |error: zip::result::ZipError| error.to_string();
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let method =
        if options.store { CompressionMethod::Stored } else { CompressionMethod::Deflated };
    let kind = SimpleFileOptions::default().compression_method(method).unix_permissions(0o644);
    let names: Vec<String> = entries
        .iter()
        .filter(|entry| !(options.names_only && entry.ends_with('/')))
        .map(|entry| {
            if options.names_only {
                entry.rsplit('/').next().unwrap_or(entry).to_owned()
            } else {
                entry.trim_start_matches("./").trim_start_matches('/').to_owned()
            }
        })
        .collect();
    if let Some(old) = old {
        let mut archive = ZipArchive::new(Cursor::new(old)).map_err(shown)?;
        for index in 0..archive.len() {
            let kept = archive.by_index_raw(index).map_err(shown)?;
            if !names.iter().any(|name| name == kept.name()) {
                writer.raw_copy_file(kept).map_err(shown)?;
            }
        }
    }
    let sources = entries.iter().filter(|entry| !(options.names_only && entry.ends_with('/')));
    for (source, name) in sources.zip(&names) {
        if name.ends_with('/') {
            writer
                .add_directory(name.trim_end_matches('/'), kind.unix_permissions(0o755))
                .map_err(shown)?;
            *listing += &format!("  adding: {name} (stored 0%)\n");
            continue;
        }
        let bytes = context
            .fs
            .read_file(&absolute(context, source))
            .await
            .map_err(|error| format!("{source}: {}", reason(&error)))?;
        writer.start_file(name, kind).map_err(shown)?;
        writer.write_all(&bytes).map_err(|error| error.to_string())?;
        *listing += &format!("  adding: {name}\n");
    }
    Ok(writer.finish().map_err(shown)?.into_inner())
}
