//! Evaluating texts: `node:vm`, `require` and `-e`.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use rquickjs::prelude::{Func, Opt};
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Object, Promise, Value, qjs};

use crate::modules::loader;
use crate::system;

thread_local! {
    /// When the script that runs with a timeout must end, on the monotonic clock.
    static DEADLINE: Cell<Option<u64>> = const { Cell::new(None) };
}

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("importBuiltin", Func::from(import_builtin))?;
    exports.set("compileFunction", Func::from(compile_function))?;
    exports.set("evalScript", Func::from(eval_script))?;
    exports.set("checkScript", Func::from(check_script))?;
    exports.set("createRealm", Func::from(create_realm))?;
    exports.set("setGlobal", Func::from(set_global))?;
    exports.set("evalIn", Func::from(eval_in))?;
    exports.set("promiseState", Func::from(promise_state))?;
    Ok(exports)
}

fn import_builtin<'js>(ctx: Ctx<'js>, name: String) -> rquickjs::Result<Object<'js>> {
    loader::import_builtin(&ctx, &name)
}

fn compile_function<'js>(
    ctx: Ctx<'js>,
    name: String,
    text: String,
) -> rquickjs::Result<Value<'js>> {
    loader::compile_function(&ctx, &name, &text, false)
}

fn eval_script<'js>(
    ctx: Ctx<'js>,
    name: String,
    text: String,
    line: Opt<i32>,
    timeout: Opt<f64>,
) -> rquickjs::Result<Value<'js>> {
    limited(&ctx, timeout.0, || {
        loader::eval(&ctx, &name, &text, line.0.unwrap_or(1), qjs::JS_EVAL_TYPE_GLOBAL)
    })
}

/// Evaluates with a timeout in milliseconds.
fn limited<'js>(
    ctx: &Ctx<'js>,
    timeout: Option<f64>,
    evaluate: impl FnOnce() -> rquickjs::Result<Value<'js>>,
) -> rquickjs::Result<Value<'js>> {
    let Some(timeout) = timeout.filter(|ms| *ms > 0.0) else { return evaluate() };
    let deadline = system::monotonic_nanos().saturating_add((timeout * 1e6) as u64);
    let outer = DEADLINE.get();
    let deadline = outer.map_or(deadline, |outer| outer.min(deadline));
    set_deadline(ctx, Some(deadline));
    let result = evaluate();
    set_deadline(ctx, outer);
    if result.is_err() && system::monotonic_nanos() >= deadline {
        // Takes the exception, which cannot be caught.
        drop(ctx.catch());
        let message = format!("Script execution timed out after {timeout}ms");
        return Err(loader::throw(ctx, "Error", "ERR_SCRIPT_EXECUTION_TIMEOUT", &message));
    }
    result
}

fn set_deadline(ctx: &Ctx<'_>, deadline: Option<u64>) {
    DEADLINE.set(deadline);
    // SAFETY: The runtime is that of the context. The function needs no opaque value.
    unsafe {
        let runtime = qjs::JS_GetRuntime(ctx.as_raw().as_ptr());
        let handler = deadline.map(|_| is_late as unsafe extern "C" fn(_, _) -> _);
        qjs::JS_SetInterruptHandler(runtime, handler, std::ptr::null_mut());
    }
}

/// Tells the engine whether to end the script.
unsafe extern "C" fn is_late(_: *mut qjs::JSRuntime, _: *mut c_void) -> c_int {
    c_int::from(DEADLINE.get().is_some_and(|deadline| system::monotonic_nanos() >= deadline))
}

/// Compiles a script without running it, for its syntax errors.
fn check_script(ctx: Ctx<'_>, name: String, text: String, line: Opt<i32>) -> rquickjs::Result<()> {
    let flags = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    loader::eval(&ctx, &name, &text, line.0.unwrap_or(1), flags).map(drop)
}

unsafe extern "C" {
    /// Returns the realm of a function, without a reference.
    fn JS_GetRealm(ctx: *mut qjs::JSContext, function: qjs::JSValue) -> *mut qjs::JSContext;
    /// Takes a reference of the object.
    fn JS_SetGlobalObject(ctx: *mut qjs::JSContext, object: qjs::JSValue);
}

/// Creates a realm. Returns its global object, and a function that stands for the realm and keeps it
/// alive.
fn create_realm(ctx: Ctx<'_>) -> rquickjs::Result<Object<'_>> {
    let result = Object::new(ctx.clone())?;
    // SAFETY: The runtime is that of the context. The reference to the new context is given up after
    // its functions have theirs.
    unsafe {
        let realm = qjs::JS_NewContext(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()));
        if realm.is_null() {
            return Err(loader::throw(&ctx, "Error", "ERR_MEMORY_ALLOCATION_FAILED", "no memory"));
        }
        let global = Value::from_raw(ctx, qjs::JS_GetGlobalObject(realm));
        qjs::JS_FreeContext(realm);
        let global = global.into_object().ok_or(rquickjs::Error::Unknown)?;
        result.set("realm", global.get::<_, Value<'_>>("Function")?)?;
        result.set("global", global)?;
    }
    Ok(result)
}

/// Replaces the global object of a realm.
fn set_global<'js>(ctx: Ctx<'js>, realm: Value<'js>, global: Object<'js>) {
    // SAFETY: The function keeps its realm alive, and the object gets a reference.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        let realm = JS_GetRealm(raw, realm.as_raw());
        qjs::JS_DupValue(raw, global.as_raw());
        JS_SetGlobalObject(realm, global.as_raw());
    }
}

/// Evaluates a script in a realm.
fn eval_in<'js>(
    ctx: Ctx<'js>,
    realm: Value<'js>,
    name: String,
    text: String,
    line: i32,
    timeout: f64,
) -> rquickjs::Result<Value<'js>> {
    // SAFETY: The function keeps its realm alive; the context gets a reference.
    let other = unsafe {
        let realm = JS_GetRealm(ctx.as_raw().as_ptr(), realm.as_raw());
        Ctx::from_raw(NonNull::new(realm).ok_or(rquickjs::Error::Unknown)?)
    };
    limited(&ctx, Some(timeout), || {
        loader::eval(&other, &name, &text, line, qjs::JS_EVAL_TYPE_GLOBAL)
    })
}

/// Returns the state of a promise, and its value or the reason of its rejection.
fn promise_state<'js>(ctx: Ctx<'js>, promise: Promise<'js>) -> rquickjs::Result<Object<'js>> {
    let state = Object::new(ctx.clone())?;
    match promise.state() {
        PromiseState::Pending => state.set("state", "pending")?,
        PromiseState::Resolved => {
            state.set("state", "fulfilled")?;
            state.set("value", promise.result::<Value<'js>>().transpose()?)?;
        }
        PromiseState::Rejected => {
            state.set("state", "rejected")?;
            // SAFETY: The engine returns the value with a reference.
            let reason = unsafe {
                let raw = ctx.as_raw().as_ptr();
                Value::from_raw(ctx, qjs::JS_PromiseResult(raw, promise.as_raw()))
            };
            state.set("value", reason)?;
        }
    }
    Ok(state)
}
