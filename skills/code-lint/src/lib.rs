//! Checks source code and documents for faults, with established parsers.

pub mod args;
pub mod css;
pub mod finding;
pub mod html;
pub mod javascript;
pub mod language;
pub mod markdown;
// Shared with `code-format`, whose parsers recurse as well.
#[path = "../../code-format/src/nesting.rs"]
pub mod nesting;
pub mod python;
pub mod shell;

use finding::Finding;
use language::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::{fs, print, println};

/// The maximum number of files, the bytes of each, and the findings that are returned.
const MAX_FILES: usize = 1_000;
const MAX_BYTES: usize = 2 << 20;
const MAX_FINDINGS: usize = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LintInput {
    /// The text to check. Give either this or `paths`.
    text: Option<String>,
    /// The language of the text.
    language: Option<Language>,
    /// The files to check. Give either this or `text`. Their extensions determine their languages.
    #[serde(default)]
    paths: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct LintOutput {
    /// What was found. The text counts as a file without path.
    files: Vec<FileFindings>,
    /// The number of all findings.
    total: usize,
    /// The number of findings that were left out.
    more: usize,
}

#[derive(Serialize, JsonSchema)]
struct FileFindings {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    findings: Vec<Finding>,
    /// Why the file was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Checks Markdown, HTML, CSS, JavaScript, TypeScript, Python and shell scripts for syntax errors
/// and common faults. Changes nothing. Use it after you have written or changed such files.
#[skillhost_guest::tool]
async fn lint(input: LintInput) -> Result<LintOutput, String> {
    let files = match (input.text, input.paths) {
        (Some(text), paths) if paths.is_empty() => {
            let language = input.language.ok_or("a text needs `language`, such as `python`")?;
            check_size(text.len())?;
            vec![FileFindings { path: None, findings: language.lint(&text, None), error: None }]
        }
        (None, paths) if !paths.is_empty() => check(paths).await?,
        _ => return Err("give either `text` or `paths`".into()),
    };
    Ok(limited(files))
}

skillhost_guest::tools!(lint);

#[skillhost_guest::main]
async fn main(args: Vec<String>) -> Result<(), String> {
    let Some(paths) = args::parse(args.into_iter().skip(1))? else {
        print!("{}", args::HELP);
        return Ok(());
    };
    let output = limited(check(paths).await?);
    let mut failed = 0;
    for file in &output.files {
        let path = file.path.as_deref().unwrap_or_default();
        if let Some(error) = &file.error {
            failed += 1;
            println!("{path}: {error}");
        }
        for one in &file.findings {
            let column = one.column.map(|column| format!(":{column}")).unwrap_or_default();
            println!("{path}:{}{column}: {} ({})", one.line, one.message, one.rule);
        }
    }
    if output.more > 0 {
        println!("[{} more findings]", output.more);
    }
    let count = |number: usize, what: &str| {
        format!("{number} {what}{}", if number == 1 { "" } else { "s" })
    };
    let findings = count(output.total, "finding");
    match (output.total, failed) {
        (0, 0) => Ok(()),
        (_, 0) => Err(findings),
        (_, failed) => Err(format!("{findings}; not checked: {}", count(failed, "file"))),
    }
}

async fn check(paths: Vec<String>) -> Result<Vec<FileFindings>, String> {
    if paths.len() > MAX_FILES {
        return Err(format!("more than {MAX_FILES} files: check fewer at once"));
    }
    let mut files = Vec::new();
    for path in paths {
        let (findings, error) = match check_file(&path).await {
            Ok(findings) => (findings, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        files.push(FileFindings { path: Some(path), findings, error });
    }
    Ok(files)
}

async fn check_file(path: &str) -> Result<Vec<Finding>, String> {
    let language = Language::of(path)
        .ok_or("unknown language: the extension is not md, html, css, js, ts, py or sh")?;
    let size = fs::metadata(path).await.map_err(|error| error.to_string())?.len();
    check_size(usize::try_from(size).unwrap_or(usize::MAX))?;
    let text = fs::read_to_string(path).await.map_err(|error| error.to_string())?;
    Ok(language.lint(&text, Some(path)))
}

fn check_size(bytes: usize) -> Result<(), String> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(format!("larger than {} MiB, and not checked", MAX_BYTES >> 20))
}

/// Leaves out what exceeds the maximum number of findings.
fn limited(mut files: Vec<FileFindings>) -> LintOutput {
    let total = files.iter().map(|file| file.findings.len()).sum();
    let mut room = MAX_FINDINGS;
    for file in &mut files {
        file.findings.truncate(room);
        room -= file.findings.len();
    }
    LintOutput { files, total, more: total.saturating_sub(MAX_FINDINGS) }
}
