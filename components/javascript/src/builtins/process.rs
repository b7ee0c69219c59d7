//! `node:process`, and the standard streams.

use std::cell::Cell;
use std::ffi::c_int;

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Function, Object, TypedArray, Value, qjs};

use super::performance;
use crate::bindings::wasi::cli::environment::get_environment;
use crate::bindings::wasi::filesystem::types::DescriptorType;
use crate::files::{self, ErrorCode};
use crate::modules::loader;
use crate::{command_line, stdio, system};

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("version", Func::from(|| command_line::VERSION))?;
    exports.set("cwd", Func::from(files::current_dir))?;
    exports.set("chdir", Func::from(change_dir))?;
    exports.set("exit", Func::from(|code: i32| exit(code)))?;
    exports.set("environment", Func::from(environment))?;
    exports.set("hrtime", Func::from(|| system::monotonic_nanos() as f64))?;
    exports.set("uptime", Func::from(performance::elapsed))?;
    exports.set("memory", Func::from(memory))?;
    exports.set("collectGarbage", Func::from(|ctx: Ctx<'_>| ctx.run_gc()))?;
    exports.set("write", Func::from(write))?;
    exports.set("isTerminal", Func::from(stdio::is_terminal))?;
    exports.set("readStdin", Func::from(read_stdin))?;
    exports.set("sourceLine", Func::from(source_line))?;
    exports.set("pendingAwait", Func::from(pending_await))?;
    exports.set("throwPosition", Func::from(throw_position))?;
    exports.set("random", Function::new(ctx.clone(), random)?.with_name("random")?)?;
    Ok(exports)
}

fn exit(code: i32) {
    system::exit(code as u8);
}

fn environment() -> Vec<Vec<String>> {
    get_environment().into_iter().map(|(name, value)| vec![name, value]).collect()
}

/// Changes the current folder. Returns the error, if there is one.
fn change_dir(ctx: Ctx<'_>, path: String) -> rquickjs::Result<Value<'_>> {
    let error = match files::stat(&path, true) {
        Ok(stat) if stat.type_ == DescriptorType::Directory => {
            let path = files::absolute(&path);
            let trimmed = path.trim_end_matches('/');
            files::set_current_dir(if trimmed.is_empty() {
                "/".to_owned()
            } else {
                trimmed.into()
            });
            return Ok(Value::new_undefined(ctx));
        }
        Ok(_) => ErrorCode::NotDirectory,
        Err(error) => error,
    };
    let described = files::describe(error);
    let failure = Object::new(ctx)?;
    failure.set("code", described.code)?;
    failure.set("errno", described.errno)?;
    failure.set("text", described.text)?;
    Ok(failure.into_value())
}

/// Writes text or bytes. Returns whether the reader still has its end open.
fn write(fd: i32, data: Value<'_>) -> rquickjs::Result<bool> {
    if let Some(text) = data.as_string() {
        let written = match text.to_string() {
            Ok(text) => stdio::write(fd, text.as_bytes()),
            // A text with half a surrogate pair.
            Err(_) => stdio::write(fd, lossy(&data)?.as_bytes()),
        };
        return Ok(written.is_ok());
    }
    let bytes = TypedArray::<u8>::from_value(data)?;
    // SAFETY: The engine does not run during the call. A detached buffer has no bytes.
    let bytes = unsafe { bytes.as_bytes() }.unwrap_or_default();
    Ok(stdio::write(fd, bytes).is_ok())
}

/// Returns a text whose half surrogate pairs are replaced.
fn lossy(text: &Value<'_>) -> rquickjs::Result<String> {
    let string: Object<'_> = text.ctx().globals().get("String")?;
    let prototype: Object<'_> = string.get("prototype")?;
    let well_formed: Function<'_> = prototype.get("toWellFormed")?;
    well_formed.call((rquickjs::prelude::This(text.clone()),))
}

/// Returns the bytes of the engine's memory: all, in use by objects, of objects, of others.
fn memory(ctx: Ctx<'_>) -> Vec<f64> {
    // SAFETY: The runtime fills the structure.
    let usage = unsafe {
        let mut usage = std::mem::MaybeUninit::uninit();
        qjs::JS_ComputeMemoryUsage(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), usage.as_mut_ptr());
        usage.assume_init()
    };
    #[cfg(target_arch = "wasm32")]
    let total = core::arch::wasm32::memory_size(0) << 16;
    // Native tests.
    #[cfg(not(target_arch = "wasm32"))]
    let total = 0;
    vec![
        total as f64,
        usage.malloc_size as f64,
        usage.memory_used_size as f64,
        usage.binary_object_size as f64,
    ]
}

/// Reads what stdin has: `null` at its end, `undefined` if nothing has arrived.
fn read_stdin(ctx: Ctx<'_>, max: usize) -> rquickjs::Result<Value<'_>> {
    match stdio::read_available(max) {
        None => Ok(Value::new_null(ctx)),
        Some(bytes) if bytes.is_empty() => Ok(Value::new_undefined(ctx)),
        Some(bytes) => TypedArray::new(ctx, bytes).map(TypedArray::into_value),
    }
}

unsafe extern "C" {
    /// Returns the file, an atom with a reference, of the last `throw`, if it threw the value.
    fn JS_GetThrowPosition(
        ctx: *mut qjs::JSContext,
        value: qjs::JSValue,
        line: *mut c_int,
        column: *mut c_int,
    ) -> qjs::JSAtom;
}

unsafe extern "C" {
    /// Returns the name of the module that waits, an atom with a reference.
    fn JS_GetPendingAwait(ctx: *mut qjs::JSContext, line: *mut c_int) -> qjs::JSAtom;
}

/// Returns where the module that has not ended waits: the file and the line.
fn pending_await(ctx: Ctx<'_>) -> rquickjs::Result<Option<Object<'_>>> {
    let mut line = 0;
    // SAFETY: The engine returns an atom with a reference, which is freed.
    let file = unsafe {
        let raw = ctx.as_raw().as_ptr();
        let atom = JS_GetPendingAwait(raw, &raw mut line);
        if atom == 0 {
            return Ok(None);
        }
        let file = Value::from_raw(ctx.clone(), qjs::JS_AtomToString(raw, atom));
        qjs::JS_FreeAtom(raw, atom);
        file
    };
    let position = Object::new(ctx)?;
    position.set("file", file)?;
    position.set("line", line)?;
    Ok(Some(position))
}

/// Returns where a value was thrown: the file, the line and the column.
fn throw_position<'js>(ctx: Ctx<'js>, value: Value<'js>) -> rquickjs::Result<Option<Object<'js>>> {
    let (mut line, mut column) = (0, 0);
    // SAFETY: The engine returns an atom with a reference, which is freed.
    let file = unsafe {
        let raw = ctx.as_raw().as_ptr();
        let atom = JS_GetThrowPosition(raw, value.as_raw(), &raw mut line, &raw mut column);
        if atom == 0 {
            return Ok(None);
        }
        let file = Value::from_raw(ctx.clone(), qjs::JS_AtomToString(raw, atom));
        qjs::JS_FreeAtom(raw, atom);
        file
    };
    let position = Object::new(ctx)?;
    position.set("file", file)?;
    position.set("line", line)?;
    position.set("column", column)?;
    Ok(Some(position))
}

/// Returns a line of a script, for the message of an error.
pub(crate) fn source_line(file: String, line: usize) -> Option<String> {
    let bytes = if file.starts_with('[') {
        command_line::text()?.into_bytes()
    } else {
        files::read(&loader::base_path(&file)).ok()?
    };
    let text = String::from_utf8_lossy(&bytes);
    text.lines().nth(line.checked_sub(1)?).map(str::to_owned)
}

thread_local! {
    /// The state of xorshift128+; zeros before its first use.
    static RANDOM: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
}

/// `Math.random`. The engine's own would repeat: it was seeded when the component was built.
fn random() -> f64 {
    let mut state = RANDOM.get();
    if state == [0; 2] {
        let mut bytes = [0; 16];
        system::random(&mut bytes);
        let (one, other) = bytes.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        state = [number(one) | 1, number(other)];
    }
    let [mut x, y] = state;
    x ^= x << 23;
    x ^= x >> 17;
    x ^= y ^ (y >> 26);
    RANDOM.set([y, x]);
    // The 53 bits of a number between 0 and 1.
    (y.wrapping_add(x) >> 11) as f64 / (1_u64 << 53) as f64
}
