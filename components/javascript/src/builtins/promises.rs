//! The value that follows the callbacks of promises, which patches/engine adds to the engine, and the
//! hook that is called for them.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Function, Object, Persistent, Value, qjs};

unsafe extern "C" {
    /// Takes a reference of the value.
    fn JS_SetAsyncContext(runtime: *mut qjs::JSRuntime, value: qjs::JSValue);
    /// Returns a reference.
    fn JS_GetAsyncContext(runtime: *mut qjs::JSRuntime) -> qjs::JSValue;
}

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("setContext", Func::from(set_context))?;
    exports.set("getContext", Func::from(get_context))?;
    exports.set("setHook", Func::from(set_hook))?;
    Ok(exports)
}

/// Sets the value that callbacks find which are registered from now on.
fn set_context<'js>(ctx: Ctx<'js>, value: Value<'js>) {
    // SAFETY: The value is one of this runtime, and gets a reference for it.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        qjs::JS_DupValue(raw, value.as_raw());
        JS_SetAsyncContext(qjs::JS_GetRuntime(raw), value.as_raw());
    }
}

fn get_context(ctx: Ctx<'_>) -> Value<'_> {
    // SAFETY: The engine returns a reference.
    unsafe {
        let value = JS_GetAsyncContext(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()));
        Value::from_raw(ctx, value)
    }
}

thread_local! {
    static HOOK: RefCell<Option<Persistent<Function<'static>>>> = const { RefCell::new(None) };
}

/// Makes the engine call a function when promises are created, settled, and when their callbacks
/// begin and end.
fn set_hook<'js>(ctx: Ctx<'js>, function: Option<Function<'js>>) {
    let hook = function.as_ref().map(|_| call_hook as _);
    HOOK.set(function.map(|function| Persistent::save(&ctx, function)));
    // SAFETY: The runtime is that of the context. The hook needs no opaque value.
    unsafe {
        let runtime = qjs::JS_GetRuntime(ctx.as_raw().as_ptr());
        qjs::JS_SetPromiseHook(runtime, hook, std::ptr::null_mut());
    }
}

unsafe extern "C" fn call_hook(
    raw: *mut qjs::JSContext,
    kind: qjs::JSPromiseHookType,
    promise: qjs::JSValue,
    parent: qjs::JSValue,
    _: *mut c_void,
) {
    let Some(raw) = NonNull::new(raw) else { return };
    // SAFETY: The engine passes its context and two values, which get references for the call.
    let (ctx, promise, parent) = unsafe {
        let ctx = Ctx::from_raw(raw);
        let value = |value| {
            qjs::JS_DupValue(raw.as_ptr(), value);
            Value::from_raw(ctx.clone(), value)
        };
        (ctx.clone(), value(promise), value(parent))
    };
    let Some(hook) = HOOK.with_borrow(Clone::clone) else { return };
    let called = hook.restore(&ctx).and_then(|hook| hook.call::<_, ()>((kind, promise, parent)));
    if called.is_err() {
        // js/async_hooks.js reports the errors of hooks: this is the end of the stack.
        drop(ctx.catch());
    }
}
