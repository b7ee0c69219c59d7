//! `node:os`. The answers are those of the sandbox's shell.

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object};

use crate::system;

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("arch", Func::from(|| "x64"))?;
    exports.set("available_parallelism", Func::from(|| 1))?;
    exports.set("endianness", Func::from(|| "LE"))?;
    exports.set("platform", Func::from(|| "linux"))?;
    exports.set("release", Func::from(|| "6.1.0"))?;
    exports.set("type_", Func::from(|| "Linux"))?;
    exports.set("hostname", Func::from(|| "sandbox"))?;
    exports.set("homedir", Func::from(|| "/tmp"))?;
    exports.set("machine", Func::from(|| "x86_64"))?;
    exports.set("uptime", Func::from(|| system::monotonic_nanos() as f64 / 1e9))?;
    exports.set("version", Func::from(|| "#1 SMP"))?;
    Ok(exports)
}
