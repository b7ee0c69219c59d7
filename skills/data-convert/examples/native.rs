//! The same conversion as a native program, for comparison with the component: `native [OPTIONS]
//! FILE...`, output on stdout.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a native program opens its files itself"
)]

use std::io::Write as _;
use std::pin::pin;
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};

use data_convert::args;
use data_convert::conversion::{Conversion, Options};
use data_convert::format::Format;

fn main() -> ExitCode {
    match convert() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn convert() -> Result<(), String> {
    let Some(args) = args::parse(std::env::args().skip(1))? else {
        return Err(args::HELP.to_owned());
    };
    let mut sink =
        async |piece: Vec<u8>| std::io::stdout().write_all(&piece).map_err(|e| e.to_string());
    let options = Options {
        filter: &args.filter,
        to: args.to,
        raw: args.raw,
        compact: args.compact,
        now: 0.0,
    };
    let mut conversion = Conversion::new(&options)?;
    for name in &args.inputs {
        let text = std::fs::read(name).map_err(|e| format!("{name}: {e}"))?;
        let from = args
            .from
            .or_else(|| Format::from_path(name))
            .unwrap_or_else(|| Format::from_content(&text));
        finish(conversion.read(text.into(), from, &mut sink))?;
    }
    finish(conversion.finish(&mut sink))
}

/// Returns the result of a future that is ready at once.
fn finish<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("native files do not wait"),
    }
}
