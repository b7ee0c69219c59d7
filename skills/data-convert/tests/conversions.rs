//! Each folder of tests/cases is a conversion: `args` is the command line, `input.*` the input,
//! `expected` the output or the error. BLESS=1 rewrites `expected`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a native test reads its cases")]

use std::fs;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use data_convert::args::{self, Args};
use data_convert::conversion::{Conversion, Options};
use data_convert::format::Format;

#[test]
fn all_cases_convert_as_expected() {
    let mut failed = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")).unwrap() {
        let folder = entry.unwrap().path();
        let found = run(&folder).unwrap_or_else(|error| format!("error: {error}\n"));
        let expected = folder.join("expected");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&expected, &found).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != found {
            failed.push(format!("{}:\n{found}", folder.display()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn line_numbers_continue_across_pieces() {
    let args = args::parse([]).unwrap().unwrap();
    let error = convert(
        &args,
        &[(Bytes::from("1\n2\n"), Format::Jsonl), (Bytes::from("3\n{]\n"), Format::Jsonl)],
    )
    .unwrap_err();
    assert_eq!(error, "4:2: invalid JSON: string expected");
}

#[test]
fn large_output_is_written_in_pieces() {
    let args = args::parse(["--to".into(), "jsonl".into()]).unwrap().unwrap();
    let large = format!("[{}1]", "123456789,".repeat(100_000));
    let mut pieces = 0;
    let mut conversion = Conversion::new(&options(&args)).unwrap();
    let mut sink = async |piece: Vec<u8>| {
        assert!(piece.len() < 100_000);
        pieces += 1;
        Ok(())
    };
    finish(conversion.read(Bytes::from(large), Format::Json, &mut sink)).unwrap();
    finish(conversion.finish(&mut sink)).unwrap();
    assert!(pieces > 10, "{pieces}");
}

fn run(folder: &Path) -> Result<String, String> {
    let line = fs::read_to_string(folder.join("args")).unwrap();
    let args = args::parse(line.split_whitespace().map(str::to_owned))?.unwrap();
    let input = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.file_stem().is_some_and(|s| s == "input"))
        .unwrap();
    let text = fs::read(&input).unwrap();
    let format = Format::from_path(input.to_str().unwrap()).unwrap();
    if format != Format::Jsonl {
        assert_eq!(Format::from_content(&text), format, "{}", input.display());
    }
    convert(&args, &[(Bytes::from(text), format)])
}

fn convert(args: &Args, inputs: &[(Bytes, Format)]) -> Result<String, String> {
    let mut written = Vec::new();
    let mut conversion = Conversion::new(&options(args))?;
    let mut sink = async |piece: Vec<u8>| {
        written.extend(piece);
        Ok(())
    };
    for (input, format) in inputs {
        finish(conversion.read(input.clone(), *format, &mut sink))?;
    }
    finish(conversion.finish(&mut sink))?;
    Ok(String::from_utf8(written).unwrap())
}

fn options(args: &Args) -> Options<'_> {
    Options { filter: &args.filter, to: args.to, raw: args.raw, compact: args.compact, now: 0.0 }
}

/// Returns the result of a future that is ready at once.
fn finish<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("waiting"),
    }
}
