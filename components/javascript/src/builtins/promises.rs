//! The value that follows the callbacks of promises: patches/engine adds it to the engine.

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object, Value, qjs};

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
