//! A conversion. Inputs are read as a whole (JSON Lines in pieces), the filter runs on each value,
//! and the output is written in pieces.

use bytes::Bytes;
use jaq_json::Val;

use crate::filter::Program;
use crate::format::Format;
use crate::{json, json_out, rows, tables, yaml, yaml_out};

/// Bytes of output that are collected before they are written.
const PIECE: usize = 64 * 1024;

/// The options of a conversion.
pub struct Options<'a> {
    /// The jq filter.
    pub filter: &'a str,
    /// The output format.
    pub to: Format,
    /// Whether to write strings in JSON output without quotes.
    pub raw: bool,
    /// Whether to write JSON output on one line.
    pub compact: bool,
    /// The current time, in seconds since 1970.
    pub now: f64,
}

/// A conversion in progress.
pub struct Conversion {
    program: Program,
    to: Format,
    raw: bool,
    compact: bool,
    out: Vec<u8>,
    /// Results for formats whose output depends on all of them.
    collected: Vec<Val>,
    results: usize,
    lines_read: usize,
}

impl Conversion {
    /// Starts a conversion.
    ///
    /// # Errors
    /// Returns the problem with the filter.
    pub fn new(options: &Options<'_>) -> Result<Self, String> {
        let program = Program::compile(options.filter, options.now)?;
        let (to, raw, compact) = (options.to, options.raw, options.compact);
        Ok(Self {
            program,
            to,
            raw,
            compact,
            out: Vec::new(),
            collected: Vec::new(),
            results: 0,
            lines_read: 0,
        })
    }

    /// Converts one input, or for JSON Lines a piece of an input that ends with a line end. Writes
    /// output to `sink` in pieces.
    ///
    /// # Errors
    /// Returns the problem with the input (with line and column), an error of the filter, or an
    /// error of the sink.
    pub async fn read(
        &mut self,
        input: Bytes,
        from: Format,
        sink: &mut impl AsyncFnMut(Vec<u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut values = Vec::new();
        let mut keep = |value| {
            values.push(value);
            Ok(())
        };
        match from {
            Format::Json => json::read(&input, 0, keep)?,
            Format::Jsonl => {
                json::read(&input, self.lines_read, keep)?;
                self.lines_read += input.iter().filter(|b| **b == b'\n').count();
            }
            Format::Yaml => yaml::read(utf8(&input)?, keep)?,
            Format::Toml => keep(tables::read(utf8(&input)?)?)?,
            Format::Csv => keep(rows::read(&input, b',')?)?,
            Format::Tsv => keep(rows::read(&input, b'\t')?)?,
        }
        // Values keep alive the parts of the input that they need: from here on, it is freed with
        // the last of them.
        drop(input);
        for value in values {
            self.value(value, sink).await?;
        }
        Ok(())
    }

    /// Finishes the conversion: writes the output of formats that need all results.
    ///
    /// # Errors
    /// Returns the value that the format cannot represent, or an error of the sink.
    pub async fn finish(
        mut self,
        sink: &mut impl AsyncFnMut(Vec<u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        match self.to {
            Format::Csv => self.out = rows::write(&flat(self.collected), b',')?,
            Format::Tsv => self.out = rows::write(&flat(self.collected), b'\t')?,
            Format::Toml => match self.collected.as_slice() {
                [one] => self.out = tables::write(one)?.into_bytes(),
                all => {
                    return Err(format!(
                        "TOML output is one document, but there are {} results; collect them, as in `{{items: [.[]]}}`",
                        all.len()
                    ));
                }
            },
            Format::Json | Format::Jsonl | Format::Yaml => {}
        }
        if !self.out.is_empty() { sink(self.out).await } else { Ok(()) }
    }

    async fn value(
        &mut self,
        value: Val,
        sink: &mut impl AsyncFnMut(Vec<u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        // The iterator borrows the program, while writing needs the other fields of `self`.
        let Self { program, to, raw, compact, out, collected, results, .. } = self;
        for result in program.results(value) {
            let result = result?;
            *results += 1;
            match *to {
                Format::Csv | Format::Tsv | Format::Toml => collected.push(result),
                Format::Yaml => {
                    if *results > 1 {
                        out.extend(b"---\n");
                    }
                    yaml_out::write(out, &result, 0)?;
                    out.push(b'\n');
                }
                Format::Jsonl => match &result {
                    Val::Arr(items) => {
                        for item in items.iter() {
                            json_line(out, item, *raw, None)?;
                            hand_on(out, sink).await?;
                        }
                    }
                    one => json_line(out, one, *raw, None)?,
                },
                Format::Json => json_line(out, &result, *raw, (!*compact).then_some(0))?,
            }
            hand_on(out, sink).await?;
        }
        Ok(())
    }
}

async fn hand_on(
    out: &mut Vec<u8>,
    sink: &mut impl AsyncFnMut(Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    if out.len() >= PIECE { sink(std::mem::take(out)).await } else { Ok(()) }
}

fn json_line(
    out: &mut Vec<u8>,
    value: &Val,
    raw: bool,
    level: Option<usize>,
) -> Result<(), String> {
    match value {
        Val::TStr(text) if raw => out.extend(text.iter()),
        other => json_out::write(out, other, level)?,
    }
    out.push(b'\n');
    Ok(())
}

/// Rows may be separate results, or arrays of objects or of rows.
fn flat(results: Vec<Val>) -> Vec<Val> {
    let is_rows = |v: &Val| matches!(v, Val::Arr(items) if items.iter().all(|i| matches!(i, Val::Obj(_) | Val::Arr(_))));
    let mut all = Vec::new();
    for result in results {
        match &result {
            Val::Arr(items) if is_rows(&result) => all.extend(items.iter().cloned()),
            _ => all.push(result),
        }
    }
    all
}

fn utf8(input: &Bytes) -> Result<&str, String> {
    let text = std::str::from_utf8(input).map_err(|error| {
        let (line, column) = crate::position::line_column(input, error.valid_up_to());
        format!("{line}:{column}: the text is not UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}
