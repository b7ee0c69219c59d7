//! `node:module`: the files that modules are loaded from.

use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object, Value};

use super::public;
use crate::bindings::skillhost::javascript::compiled;
use crate::files;
use crate::modules::loader::{self, Format};
use crate::modules::resolve::{self, Kind, ResolveError, Resolved};
use crate::typescript::{self, Language};

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("builtins", Func::from(|| public().collect::<Vec<_>>()))?;
    exports.set("nodeModules", Func::from(|dir: String| resolve::node_modules(&dir)))?;
    exports.set("resolve", Func::from(resolve))?;
    exports.set("readSource", Func::from(|ctx: Ctx<'_>, path: String| read_source(&ctx, &path)))?;
    exports.set("format", Func::from(format))?;
    exports.set("isModule", Func::from(is_module))?;
    exports.set("evaluateFile", Func::from(evaluate_file))?;
    exports.set("evaluateText", Func::from(evaluate_text))?;
    exports.set("findPackage", Func::from(find_package))?;
    exports.set("setMain", Func::from(loader::set_main))?;
    exports.set("withEsModule", Func::from(with_es_module))?;
    exports.set("moduleUrl", Func::from(loader::module_url))?;
    exports.set("wrapperLength", Func::from(|| loader::WRAPPER.len()))?;
    exports.set("stripTypes", Func::from(strip_types))?;
    Ok(exports)
}

/// Reads the text of a file that is run: without a byte order mark, and with `#!` as a comment.
pub(crate) fn read_source(ctx: &Ctx<'_>, path: &str) -> rquickjs::Result<String> {
    if Language::of(path).is_some()
        && let Some(text) = compiled::get(path).and_then(|text| String::from_utf8(text).ok())
    {
        return Ok(text);
    }
    let bytes = files::read(path).map_err(|error| {
        let described = files::describe(error);
        let message = format!("{}: {}, open '{path}'", described.code, described.text);
        loader::throw(ctx, "Error", described.code, &message)
    })?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    source(ctx, path, text)
}

/// Returns what is compiled of the text of a file.
pub(crate) fn source(ctx: &Ctx<'_>, path: &str, mut text: String) -> rquickjs::Result<String> {
    if text.starts_with('\u{feff}') {
        text.drain(..3);
    }
    if text.starts_with("#!") {
        text.replace_range(..2, "//");
    }
    match Language::of(path) {
        Some(language) => strip(ctx, path, &text, language),
        None => Ok(text),
    }
}

/// Returns the JavaScript of a file in another language.
fn strip(ctx: &Ctx<'_>, path: &str, text: &str, language: Language) -> rquickjs::Result<String> {
    if path.contains("/node_modules/") && language != Language::Jsx {
        let message = format!(
            "Stripping types is currently unsupported for files under node_modules, for \"{path}\""
        );
        let code = "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING";
        return Err(loader::throw(ctx, "Error", code, &message));
    }
    typescript::strip(text, language).map_err(|error| {
        loader::throw(ctx, "SyntaxError", "ERR_INVALID_TYPESCRIPT_SYNTAX", &error.message)
    })
}

/// Finds what a specifier means for `require`: `{ builtin }`, `{ file }` or `{ code, message }`.
fn resolve<'js>(ctx: Ctx<'js>, specifier: String, parent: String) -> rquickjs::Result<Object<'js>> {
    let result = Object::new(ctx)?;
    match loader::find(&specifier, &parent, Kind::Require) {
        Ok(Resolved::Builtin(name)) => result.set("builtin", name)?,
        Ok(Resolved::File(path)) => result.set("file", path)?,
        Err(ResolveError::NoFile(_) | ResolveError::NoPackage(_) | ResolveError::IsFolder(_)) => {
            result.set("code", "MODULE_NOT_FOUND")?;
        }
        Err(error) => {
            let (code, message) = loader::describe(&error, "", &specifier);
            result.set("code", code)?;
            result.set("message", message)?;
        }
    }
    Ok(result)
}

fn format(path: String) -> &'static str {
    match loader::format(&path) {
        Format::Module => "module",
        Format::CommonJs => "commonjs",
        Format::Json => "json",
        Format::Unknown => "unknown",
    }
}

fn is_module(ctx: Ctx<'_>, path: String, text: String) -> bool {
    loader::is_module(&ctx, &path, &text)
}

/// Loads and evaluates a module, and returns its namespace and the promise of its end.
fn evaluate_file<'js>(ctx: Ctx<'js>, path: String) -> rquickjs::Result<Object<'js>> {
    let module = loader::load_file(&ctx, &path)?;
    evaluated(&ctx, module)
}

/// Evaluates a text as a module.
fn evaluate_text<'js>(ctx: Ctx<'js>, text: String) -> rquickjs::Result<Object<'js>> {
    let module = loader::load_text(&ctx, &text)?;
    evaluated(&ctx, module)
}

/// Returns the namespace of a loaded module with `__esModule` in addition.
fn with_es_module<'js>(ctx: Ctx<'js>, path: String) -> rquickjs::Result<Object<'js>> {
    let from = serde_json::to_string(&path).map_err(|_| rquickjs::Error::Unknown)?;
    let text = format!(
        "export * from {from}; export {{ default }} from {from}; export const __esModule = true;"
    );
    let module = loader::compile_module(&ctx, &format!("{path}#required"), &text)?;
    loader::evaluate(&ctx, module)?;
    loader::namespace(&ctx, module)
}

fn evaluated<'js>(
    ctx: &Ctx<'js>,
    module: *mut rquickjs::qjs::JSModuleDef,
) -> rquickjs::Result<Object<'js>> {
    let promise: Value<'js> = loader::evaluate(ctx, module)?;
    let result = Object::new(ctx.clone())?;
    result.set("promise", promise)?;
    result.set("namespace", loader::namespace(ctx, module)?)?;
    Ok(result)
}

fn find_package(specifier: String, parent: String) -> Option<String> {
    let path = match loader::find(&specifier, &parent, Kind::Import) {
        Ok(Resolved::File(path)) => path,
        _ => files::absolute(&specifier),
    };
    resolve::scope(&loader::Sandbox, &path).map(|(dir, _)| format!("{dir}/package.json"))
}

fn strip_types(ctx: Ctx<'_>, text: String, _mode: String) -> rquickjs::Result<String> {
    strip(&ctx, "", &text, Language::TypeScript)
}
