//! What `console` of wasm-rquickjs asks for where it has no streams.

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object};

use crate::stdio::{self, STDERR, STDOUT};
use crate::system;

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    for name in ["println", "debug", "info"] {
        exports.set(name, Func::from(|line: String| print(STDOUT, &line)))?;
    }
    for name in ["trace", "warn", "error"] {
        exports.set(name, Func::from(|line: String| print(STDERR, &line)))?;
    }
    exports.set("is_logging_enabled", Func::from(|| false))?;
    exports.set("timestamp", Func::from(|| (system::wall_nanos() / 1_000_000) as f64))?;
    Ok(exports)
}

fn print(fd: i32, line: &str) {
    // If the reader has closed its end, the line is lost.
    stdio::write(fd, format!("{line}\n").as_bytes()).ok();
}
