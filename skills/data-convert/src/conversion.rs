//! One conversion: inputs are read whole (JSON Lines in pieces), each value runs through the
//! filter, and output leaves in pieces.

use bytes::Bytes;
use jaq_json::Val;

use crate::filter::Program;
use crate::format::Format;
use crate::{json, json_out, rows, tables, yaml, yaml_out};

/// Output is handed on when this much has come together.
const PIECE: usize = 64 * 1024;

/// What to make of the inputs.
pub struct Options<'a> {
    /// The jq filter.
    pub filter: &'a str,
    /// The format to write.
    pub to: Format,
    /// Strings of JSON output are written without quotes.
    pub raw: bool,
    /// JSON output goes on one line.
    pub compact: bool,
    /// The time, in seconds since 1970.
    pub now: f64,
}

/// A conversion that is under way.
pub struct Conversion {
    program: Program,
    to: Format,
    raw: bool,
    compact: bool,
    out: Vec<u8>,
    /// For formats whose output begins with something about all of it.
    collected: Vec<Val>,
    results: usize,
    lines_read: usize,
}

impl Conversion {
    /// Begins.
    ///
    /// # Errors
    /// What is wrong with the filter.
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

    /// Takes in one input; of JSON Lines, a piece of one that ends with a line. `sink` gets output,
    /// piece by piece.
    ///
    /// # Errors
    /// What is wrong with the input (with line and column), what the filter says, or what the sink
    /// said.
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
        // Values hold on to what they need of the input: after this, it goes with the last of them.
        drop(input);
        for value in values {
            self.value(value, sink).await?;
        }
        Ok(())
    }

    /// Ends: the formats that are written in one go are written now.
    ///
    /// # Errors
    /// What the format has no form for, or what the sink said.
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
                        "TOML holds one document, and there are {} results; collect them, as in `{{items: [.[]]}}`",
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
        // The iterator borrows the program, and writing wants the rest of `self`.
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

/// Rows may come one by one, or as arrays of objects or of rows.
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
