//! The native half of Node's modules, by the names that js/ and wasm-rquickjs import.

pub(crate) mod module;
pub(crate) mod performance;

mod child_process;
mod console;
mod event_loop;
mod fs;
mod http;
mod os;
pub(crate) mod process;
mod promises;
// Formatting would change the files of wasm-rquickjs.
#[rustfmt::skip]
mod upstream;
mod vm;

use std::ffi::{CString, c_int};

use rquickjs::{Ctx, Object, Value, qjs};

use crate::modules::loader::declare;

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Creates the object whose properties a native module exports.
type Create = for<'js> fn(&Ctx<'js>) -> rquickjs::Result<Object<'js>>;

const NATIVES: [(&str, Create); 11] = [
    ("internal:native/child_process", child_process::create),
    ("internal:native/http", http::create),
    ("internal:native/loop", event_loop::create),
    ("internal:native/module", module::create),
    ("internal:native/process", process::create),
    ("internal:native/promises", promises::create),
    ("internal:native/vm", vm::create),
    ("__wasm_rquickjs_builtin/console_native", console::create),
    ("__wasm_rquickjs_builtin/fs_native", fs::create),
    ("__wasm_rquickjs_builtin/os_native", os::create),
    ("__wasm_rquickjs_builtin/perf_hooks_native", performance::create),
];

/// Whether scripts can load the module, by its name without `node:`.
pub(crate) fn is_public(name: &str) -> bool {
    public().any(|public| public == name)
}

/// The names of Node's modules, without `node:`.
pub(crate) fn public() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().filter_map(|(name, _)| name.strip_prefix("node:"))
}

/// The names of all modules in JavaScript.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|(name, _)| *name)
}

/// Returns the JavaScript of a module.
pub(crate) fn source(name: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(other, _)| *other == name).map(|(_, text)| *text)
}

/// Declares a native module. Returns `None` if no native module has this name.
pub(crate) fn native(ctx: &Ctx<'_>, name: &str) -> rquickjs::Result<Option<*mut qjs::JSModuleDef>> {
    if NATIVES.iter().any(|(other, _)| *other == name) {
        return declare_object(ctx, name).map(Some);
    }
    let declare = match name.strip_prefix("__wasm_rquickjs_builtin/") {
        Some("base64_native") => declare::<upstream::base64::js_native_module>,
        Some("encoding_native") => declare::<upstream::encoding::js_native_module>,
        Some("internal/binding/util_native") => {
            declare::<upstream::internal_binding_util::js_native_module>
        }
        Some("intl_native") => declare::<upstream::intl::js_native_module>,
        Some("string_decoder_native") => declare::<upstream::string_decoder::js_native_module>,
        Some("url_native") => declare::<upstream::url::js_native_module>,
        Some("v8_native") => declare::<upstream::v8::js_native_module>,
        Some("web_crypto_native") => declare::<upstream::web_crypto::js_native_module>,
        Some("zlib_native") => declare::<upstream::zlib::js_native_module>,
        _ => return Ok(None),
    };
    declare(ctx, name).map(Some)
}

fn declare_object(ctx: &Ctx<'_>, name: &str) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    let raw = ctx.as_raw().as_ptr();
    let exports = create(ctx, name)?;
    let name = CString::new(name)?;
    // SAFETY: The context and the names are valid, and the engine copies the names.
    unsafe {
        let module = qjs::JS_NewCModule(raw, name.as_ptr(), Some(set_exports));
        if module.is_null() {
            return Err(rquickjs::Error::Exception);
        }
        for key in exports.keys::<String>() {
            let key = CString::new(key?)?;
            qjs::JS_AddModuleExport(raw, module, key.as_ptr());
        }
        Ok(module)
    }
}

fn create<'js>(ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Object<'js>> {
    let native = NATIVES.iter().find(|(other, _)| *other == name);
    native.ok_or(rquickjs::Error::Unknown)?.1(ctx)
}

unsafe extern "C" fn set_exports(raw: *mut qjs::JSContext, module: *mut qjs::JSModuleDef) -> c_int {
    // SAFETY: The engine passes its context and the module, whose name is an atom that is freed.
    unsafe {
        let ctx = Ctx::from_raw(std::ptr::NonNull::new_unchecked(raw));
        let atom = qjs::JS_GetModuleName(raw, module);
        let name = Value::from_raw(ctx.clone(), qjs::JS_AtomToString(raw, atom));
        qjs::JS_FreeAtom(raw, atom);
        let set = || {
            let exports = create(&ctx, &name.get::<String>()?)?;
            for property in exports.props::<String, Value<'_>>() {
                let (key, value) = property?;
                let key = CString::new(key)?;
                qjs::JS_DupValue(raw, value.as_raw());
                qjs::JS_SetModuleExport(raw, module, key.as_ptr(), value.as_raw());
            }
            Ok::<_, rquickjs::Error>(())
        };
        if set().is_ok() { 0 } else { -1 }
    }
}
