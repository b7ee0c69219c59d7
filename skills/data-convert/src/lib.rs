//! Converts between JSON, YAML, TOML and CSV, and applies jq filters.

pub mod args;
pub mod conversion;
pub mod filter;
pub mod format;
pub mod json;
pub mod json_out;
pub mod number;
pub mod position;
pub mod rows;
pub mod tables;
pub mod yaml;
pub mod yaml_out;

use std::time::UNIX_EPOCH;

use args::Args;
use bytes::Bytes;
use conversion::{Conversion, Options};
use format::Format;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::fs::{self, File};
use skillhost_guest::io::{stdin, stdout};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConvertInput {
    /// The text to convert. Give either this or `path`.
    input: Option<String>,
    /// The file to convert. Give either this or `input`.
    path: Option<String>,
    /// The input format. By default, the extension of the path or the content determines it.
    from: Option<Format>,
    /// The output format; JSON by default.
    to: Option<Format>,
    /// A jq filter, such as `.items[] | {name, price}`; `.` by default.
    filter: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ConvertOutput {
    /// The converted text. Several results are written one after another, as the format requires.
    output: String,
}

/// Converts data between JSON, JSON Lines, YAML, TOML, CSV and TSV, and selects or reshapes it with
/// a jq filter. Use it to read, query or rewrite data files without losing digits or the order of
/// keys.
#[skillhost_guest::tool]
async fn convert(input: ConvertInput) -> Result<ConvertOutput, String> {
    let (text, name) = match (input.input, input.path) {
        (Some(text), None) => (text.into_bytes(), String::new()),
        (None, Some(path)) => (fs::read(&path).await.map_err(|e| e.to_string())?, path),
        _ => return Err("give either `input` or `path`".to_owned()),
    };
    let filter = input.filter.unwrap_or_else(|| ".".to_owned());
    let options = Options {
        filter: &filter,
        to: input.to.unwrap_or(Format::Json),
        raw: false,
        compact: false,
        now: now(),
    };
    let mut written = Vec::new();
    let mut sink = async |piece: Vec<u8>| {
        written.extend(piece);
        Ok(())
    };
    let from = input
        .from
        .or_else(|| Format::from_path(&name))
        .unwrap_or_else(|| Format::from_content(&text));
    let mut conversion = Conversion::new(&options)?;
    conversion.read(text.into(), from, &mut sink).await?;
    conversion.finish(&mut sink).await?;
    Ok(ConvertOutput { output: String::from_utf8_lossy(&written).into_owned() })
}

skillhost_guest::tools!(convert);

#[skillhost_guest::main]
async fn main(args: Vec<String>) -> Result<(), String> {
    let Some(args) = args::parse(args.into_iter().skip(1))? else {
        skillhost_guest::print!("{}", args::HELP);
        return Ok(());
    };
    // Created at the first output, because the input may be the same file.
    let mut file = None;
    let mut sink = async |piece: Vec<u8>| match &args.output {
        None => stdout().write_all(piece).await.map_err(|e| e.to_string()),
        Some(path) => {
            if file.is_none() {
                file = Some(File::create(path).await.map_err(|e| e.to_string())?);
            }
            let Some(file) = &mut file else { return Ok(()) };
            file.write_all(piece).await.map_err(|e| e.to_string())
        }
    };
    let options = Options {
        filter: &args.filter,
        to: args.to,
        raw: args.raw,
        compact: args.compact,
        now: now(),
    };
    let mut conversion = Conversion::new(&options)?;
    for name in &args.inputs {
        read(name, &args, &mut conversion, &mut sink).await.map_err(|error| {
            match name.as_str() {
                "-" => error,
                name => format!("{name}: {error}"),
            }
        })?;
    }
    conversion.finish(&mut sink).await?;
    // An empty result is written, too.
    if args.output.is_some() {
        sink(Vec::new()).await?;
    }
    match file {
        Some(file) => file.close().await.map_err(|e| e.to_string()),
        None => Ok(()),
    }
}

enum Source {
    Stdin,
    File(File),
}

impl Source {
    async fn open(name: &str) -> Result<Self, String> {
        Ok(if name == "-" {
            Self::Stdin
        } else {
            Self::File(File::open(name).await.map_err(|e| e.to_string())?)
        })
    }

    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::Stdin => stdin().chunk().await,
            Self::File(file) => file.chunk().await,
        }
        .map_err(|e| e.to_string())
    }

    async fn read_to_end(&mut self) -> Result<Vec<u8>, String> {
        match self {
            Self::Stdin => stdin().read_to_end().await,
            Self::File(file) => file.read_to_end().await,
        }
        .map_err(|e| e.to_string())
    }
}

async fn read(
    name: &str,
    args: &Args,
    conversion: &mut Conversion,
    sink: &mut impl AsyncFnMut(Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    let mut source = Source::open(name).await?;
    let from = args.from.or_else(|| Format::from_path(name));
    if from != Some(Format::Jsonl) {
        let text = source.read_to_end().await?;
        let from = from.unwrap_or_else(|| Format::from_content(&text));
        return conversion.read(text.into(), from, sink).await;
    }
    // Processed record by record: only a piece of the file is in memory.
    let mut rest = Vec::new();
    while let Some(chunk) = source.chunk().await? {
        rest.extend(chunk);
        if let Some(end) = rest.iter().rposition(|b| *b == b'\n') {
            let tail = rest.split_off(end + 1);
            conversion
                .read(Bytes::from(std::mem::replace(&mut rest, tail)), Format::Jsonl, sink)
                .await?;
        }
    }
    conversion.read(rest.into(), Format::Jsonl, sink).await
}

fn now() -> f64 {
    skillhost_guest::time::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
