//! Evaluating texts: `node:vm`, `require` and `-e`.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_int, c_void};
use std::ptr::NonNull;

use rquickjs::prelude::{Func, Opt};
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Function, Object, Persistent, Promise, Value, qjs};

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
    exports.set("setImport", Func::from(set_import))?;
    exports.set("compileModule", Func::from(compile_module))?;
    exports.set("createSyntheticModule", Func::from(create_synthetic_module))?;
    exports.set("moduleRequests", Func::from(module_requests))?;
    exports.set("setModuleRequest", Func::from(set_module_request))?;
    exports.set("linkModule", Func::from(link_module))?;
    exports.set("evaluateModule", Func::from(evaluate_module))?;
    exports.set("moduleStatus", Func::from(module_status))?;
    exports.set("moduleError", Func::from(module_error))?;
    exports.set("moduleNamespace", Func::from(module_namespace))?;
    exports.set("moduleMeta", Func::from(module_meta))?;
    exports.set("setModuleExport", Func::from(set_module_export))?;
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
    origin: Opt<i32>,
) -> rquickjs::Result<Value<'js>> {
    limited(&ctx, timeout.0, || {
        let _mark = Origin::set(&ctx, origin.0.unwrap_or(0));
        loader::eval(&ctx, &name, &text, line.0.unwrap_or(1), qjs::JS_EVAL_TYPE_GLOBAL)
    })
}

/// The mark of the next text that is compiled.
struct Origin(*mut qjs::JSRuntime);

impl Origin {
    fn set(ctx: &Ctx<'_>, origin: i32) -> Self {
        // SAFETY: The runtime is that of the context.
        unsafe {
            let runtime = qjs::JS_GetRuntime(ctx.as_raw().as_ptr());
            JS_SetCodeOrigin(runtime, origin);
            Self(runtime)
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // The engine took the mark, unless the text was refused before.
        // SAFETY: The runtime outlives every call.
        unsafe { JS_SetCodeOrigin(self.0, 0) }
    }
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
    fn JS_SetCodeOrigin(runtime: *mut qjs::JSRuntime, origin: c_int);
    fn JS_SetImportFunc(
        runtime: *mut qjs::JSRuntime,
        main: *mut qjs::JSContext,
        function: Option<ImportFunction>,
    );
    /// The functions that return a value return a reference.
    fn JS_GetModuleRequests(
        ctx: *mut qjs::JSContext,
        module: *mut qjs::JSModuleDef,
    ) -> qjs::JSValue;
    fn JS_SetModuleRequest(
        module: *mut qjs::JSModuleDef,
        index: c_int,
        other: *mut qjs::JSModuleDef,
    ) -> bool;
    fn JS_LinkModule(ctx: *mut qjs::JSContext, module: *mut qjs::JSModuleDef) -> c_int;
    fn JS_GetModuleError(module: *mut qjs::JSModuleDef) -> qjs::JSValue;
}

/// What the engine calls for an `import()`.
type ImportFunction =
    unsafe extern "C" fn(*mut qjs::JSContext, c_int, qjs::JSValue, qjs::JSValue) -> qjs::JSValue;

/// The engine's flag for a module whose requests `set_module_request` sets.
const BY_HAND: u32 = 1 << 8;

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
    origin: i32,
) -> rquickjs::Result<Value<'js>> {
    let other = realm_of(&ctx, &realm)?;
    limited(&ctx, Some(timeout), || {
        let _mark = Origin::set(&ctx, origin);
        loader::eval(&other, &name, &text, line, qjs::JS_EVAL_TYPE_GLOBAL)
    })
}

/// Returns the realm of a function; that of the program for `undefined`.
fn realm_of<'js>(ctx: &Ctx<'js>, realm: &Value<'js>) -> rquickjs::Result<Ctx<'js>> {
    if realm.is_undefined() {
        return Ok(ctx.clone());
    }
    // SAFETY: The function keeps its realm alive; the context gets a reference.
    unsafe {
        let realm = JS_GetRealm(ctx.as_raw().as_ptr(), realm.as_raw());
        Ok(Ctx::from_raw(NonNull::new(realm).ok_or(rquickjs::Error::Unknown)?))
    }
}

thread_local! {
    static IMPORT: RefCell<Option<Persistent<Function<'static>>>> = const { RefCell::new(None) };
}

/// Makes the engine call a function for each `import()` of a text with an origin, or in a context.
fn set_import<'js>(ctx: Ctx<'js>, function: Function<'js>) {
    IMPORT.set(Some(Persistent::save(&ctx, function)));
    // SAFETY: The runtime is that of the context, and the function has the type that it calls.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        JS_SetImportFunc(qjs::JS_GetRuntime(raw), raw, Some(import));
    }
}

unsafe extern "C" fn import(
    raw: *mut qjs::JSContext,
    origin: c_int,
    specifier: qjs::JSValue,
    attributes: qjs::JSValue,
) -> qjs::JSValue {
    // SAFETY: The engine passes its context and two values, which get references for the call.
    unsafe {
        let ctx = Ctx::from_raw(NonNull::new_unchecked(raw));
        let value = |value| {
            qjs::JS_DupValue(raw, value);
            Value::from_raw(ctx.clone(), value)
        };
        let global = Value::from_raw(ctx.clone(), qjs::JS_GetGlobalObject(raw));
        let Some(function) = IMPORT.with_borrow(Clone::clone) else { return qjs::JS_UNDEFINED };
        let called = function.restore(&ctx).and_then(|function| {
            function.call::<_, Value<'_>>((global, origin, value(specifier), value(attributes)))
        });
        match called {
            Ok(value) => qjs::JS_DupValue(raw, value.as_raw()),
            Err(_) => qjs::JS_EXCEPTION,
        }
    }
}

/// A module of `node:vm`. js/vm_modules.js keeps its realm alive, whose list keeps the module.
type Pointer = u32;

fn pointer_of(module: *mut qjs::JSModuleDef) -> Pointer {
    module as usize as u32
}

fn module_of(pointer: Pointer) -> *mut qjs::JSModuleDef {
    pointer as usize as *mut qjs::JSModuleDef
}

/// Compiles a text as a module without loading what it imports.
fn compile_module<'js>(
    ctx: Ctx<'js>,
    realm: Value<'js>,
    name: String,
    text: String,
    line: i32,
    origin: i32,
) -> rquickjs::Result<Pointer> {
    let other = realm_of(&ctx, &realm)?;
    let _mark = Origin::set(&ctx, origin);
    let flags = qjs::JS_EVAL_TYPE_MODULE | qjs::JS_EVAL_FLAG_COMPILE_ONLY | BY_HAND;
    let value = loader::eval(&other, &name, &text, line, flags)?;
    // SAFETY: Compiling a module returns a module.
    Ok(pointer_of(unsafe { qjs::JS_VALUE_GET_PTR(value.as_raw()).cast() }))
}

/// Creates a module whose exports a function sets when it is evaluated.
fn create_synthetic_module<'js>(
    ctx: Ctx<'js>,
    realm: Value<'js>,
    name: String,
    exports: Vec<String>,
    steps: Function<'js>,
) -> rquickjs::Result<Pointer> {
    let other = realm_of(&ctx, &realm)?;
    let raw = other.as_raw().as_ptr();
    let name = CString::new(name)?;
    // SAFETY: The engine copies the names, and takes a reference of the function.
    unsafe {
        let module = qjs::JS_NewCModule(raw, name.as_ptr(), Some(run_steps));
        if module.is_null() {
            return Err(rquickjs::Error::Exception);
        }
        for export in exports {
            let export = CString::new(export)?;
            qjs::JS_AddModuleExport(raw, module, export.as_ptr());
        }
        qjs::JS_DupValue(raw, steps.as_raw());
        qjs::JS_SetModulePrivateValue(raw, module, steps.as_raw());
        Ok(pointer_of(module))
    }
}

unsafe extern "C" fn run_steps(raw: *mut qjs::JSContext, module: *mut qjs::JSModuleDef) -> c_int {
    // SAFETY: The engine passes its context and the module, and returns a reference.
    let steps = unsafe {
        let ctx = Ctx::from_raw(NonNull::new_unchecked(raw));
        Value::from_raw(ctx, qjs::JS_GetModulePrivateValue(raw, module))
    };
    let called = steps.get::<Function<'_>>().and_then(|steps| steps.call::<_, ()>(()));
    if called.is_ok() { 0 } else { -1 }
}

/// Returns the specifier and the attributes of each request, one after the other.
fn module_requests<'js>(
    ctx: Ctx<'js>,
    realm: Value<'js>,
    pointer: Pointer,
) -> rquickjs::Result<Value<'js>> {
    let other = realm_of(&ctx, &realm)?;
    // SAFETY: The module is one of the realm.
    let requests = unsafe { JS_GetModuleRequests(other.as_raw().as_ptr(), module_of(pointer)) };
    loader::result(&ctx, requests)
}

fn set_module_request(pointer: Pointer, index: i32, other: Pointer) -> bool {
    // SAFETY: The modules exist.
    unsafe { JS_SetModuleRequest(module_of(pointer), index, module_of(other)) }
}

fn link_module<'js>(ctx: Ctx<'js>, realm: Value<'js>, pointer: Pointer) -> rquickjs::Result<()> {
    let other = realm_of(&ctx, &realm)?;
    // SAFETY: The module is one of the realm.
    match unsafe { JS_LinkModule(other.as_raw().as_ptr(), module_of(pointer)) } {
        0 => Ok(()),
        _ => Err(rquickjs::Error::Exception),
    }
}

/// Evaluates a linked module, and returns the promise of its end.
fn evaluate_module<'js>(
    ctx: Ctx<'js>,
    realm: Value<'js>,
    pointer: Pointer,
    timeout: f64,
) -> rquickjs::Result<Value<'js>> {
    let other = realm_of(&ctx, &realm)?;
    limited(&ctx, Some(timeout), || loader::evaluate(&other, module_of(pointer)))
}

fn module_status(pointer: Pointer) -> i32 {
    // SAFETY: The module exists.
    unsafe { loader::JS_GetModuleStatus(module_of(pointer)) }
}

fn module_error(ctx: Ctx<'_>, pointer: Pointer) -> rquickjs::Result<Value<'_>> {
    // SAFETY: The module exists.
    loader::result(&ctx, unsafe { JS_GetModuleError(module_of(pointer)) })
}

fn module_namespace<'js>(
    ctx: Ctx<'js>,
    realm: Value<'js>,
    pointer: Pointer,
) -> rquickjs::Result<Object<'js>> {
    loader::namespace(&realm_of(&ctx, &realm)?, module_of(pointer))
}

/// Returns the `import.meta` of a module.
fn module_meta<'js>(
    ctx: Ctx<'js>,
    realm: Value<'js>,
    pointer: Pointer,
) -> rquickjs::Result<Value<'js>> {
    let other = realm_of(&ctx, &realm)?;
    // SAFETY: The module is one of the realm.
    loader::result(&ctx, unsafe {
        qjs::JS_GetImportMeta(other.as_raw().as_ptr(), module_of(pointer))
    })
}

fn set_module_export<'js>(
    ctx: Ctx<'js>,
    realm: Value<'js>,
    pointer: Pointer,
    name: String,
    value: Value<'js>,
) -> rquickjs::Result<()> {
    let other = realm_of(&ctx, &realm)?;
    let c_name = CString::new(name.as_str())?;
    // SAFETY: The module is one of the realm, and the engine takes a reference of the value.
    let set = unsafe {
        let raw = other.as_raw().as_ptr();
        qjs::JS_DupValue(raw, value.as_raw());
        qjs::JS_SetModuleExport(raw, module_of(pointer), c_name.as_ptr(), value.as_raw())
    };
    if set == 0 {
        return Ok(());
    }
    let message = format!("Export '{name}' is not defined in module");
    let error: Object<'_> = other
        .globals()
        .get::<_, Function<'_>>("ReferenceError")?
        .as_constructor()
        .ok_or(rquickjs::Error::Unknown)?
        .construct((message,))?;
    Err(ctx.throw(error.into_value()))
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
