//! Connects modules to the engine: it normalises specifiers, and compiles what they mean.
//!
//! A module's name in the engine is `node:fs` for a module of Node, `internal:...` for one of ours,
//! the URL for a file with a query, and else the absolute path of the file.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::rc::Rc;

use rquickjs::module::{Declared, Module};
use rquickjs::{Ctx, Function, Object, Persistent, Value, qjs};

use super::exports;
use super::package_json::PackageJson;
use super::resolve::{self, Files, Kind, ResolveError, Resolved};
use crate::bindings::wasi::filesystem::types::DescriptorType;
use crate::{builtins, files};

/// The name of code that no file has.
pub(crate) const EVAL: &str = "[eval]";

/// How a file is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Module,
    CommonJs,
    Json,
    /// JavaScript whose package.json does not say which: the text decides.
    Unknown,
}

thread_local! {
    static PACKAGES: RefCell<HashMap<String, Option<Rc<PackageJson>>>> = RefCell::default();
}

/// The files of the sandbox.
pub(crate) struct Sandbox;

impl Files for Sandbox {
    fn is_file(&self, path: &str) -> bool {
        files::kind(path).is_some_and(|kind| kind != DescriptorType::Directory)
    }

    fn is_dir(&self, path: &str) -> bool {
        files::kind(path) == Some(DescriptorType::Directory)
    }

    fn package_json(&self, dir: &str) -> Option<Rc<PackageJson>> {
        let path = format!("{}/package.json", dir.trim_end_matches('/'));
        PACKAGES.with_borrow_mut(|packages| {
            // A file that cannot be read or parsed counts as missing.
            let read = || PackageJson::parse(&files::read(&path).ok()?).map(Rc::new);
            packages.entry(dir.to_owned()).or_insert_with(read).clone()
        })
    }

    fn real_path(&self, path: &str) -> String {
        // Reading the file reports the error.
        files::real_path(path).unwrap_or_else(|_| path.to_owned())
    }
}

thread_local! {
    /// The realm of the program. Those of `node:vm` have no modules.
    static MAIN_REALM: Cell<*mut qjs::JSContext> = const { Cell::new(std::ptr::null_mut()) };
    /// Whether `.js` files are modules where no package.json says what they are.
    static MODULES_BY_DEFAULT: Cell<bool> = const { Cell::new(false) };
}

/// Makes `.js` files modules where no package.json says what they are.
pub(crate) fn set_modules_by_default() {
    MODULES_BY_DEFAULT.set(true);
}

/// Makes the engine load modules with this module.
pub(crate) fn install(ctx: &Ctx<'_>) {
    MAIN_REALM.set(ctx.as_raw().as_ptr());
    // SAFETY: The functions have the types that the engine calls, and need no opaque value.
    unsafe {
        let runtime = qjs::JS_GetRuntime(ctx.as_raw().as_ptr());
        let none = std::ptr::null_mut();
        qjs::JS_SetModuleLoaderFunc2(runtime, None, Some(load_raw), None, none);
        qjs::JS_SetModuleNormalizeFunc2(runtime, Some(normalize_raw));
        // As the main thread of Node may, in `Atomics.wait`.
        qjs::JS_SetCanBlock(runtime, true);
    }
}

/// Finds what `specifier` means in the file `parent`.
pub(crate) fn find(specifier: &str, parent: &str, kind: Kind) -> Result<Resolved, ResolveError> {
    resolve::resolve(&Sandbox, builtins::is_public, specifier, parent, kind)
}

/// Returns how a file is run.
pub(crate) fn format(path: &str) -> Format {
    let (_, name) = files::split(path);
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("mjs" | "mts") => Format::Module,
        Some("cjs" | "cts") => Format::CommonJs,
        Some("json") => Format::Json,
        Some("js" | "ts" | "tsx" | "jsx") | None => {
            match resolve::scope(&Sandbox, path).and_then(|(_, package)| package.is_module) {
                Some(true) => Format::Module,
                Some(false) => Format::CommonJs,
                None if MODULES_BY_DEFAULT.get() => Format::Module,
                None => Format::Unknown,
            }
        }
        Some(_) => Format::CommonJs,
    }
}

unsafe extern "C" {
    /// Returns how far a module has come.
    pub(crate) fn JS_GetModuleStatus(module: *mut qjs::JSModuleDef) -> c_int;
}

/// The status of a module that was evaluated without an error.
const EVALUATED: c_int = 5;

/// Evaluates a module of Node or of ours, and returns its namespace.
pub(crate) fn import_builtin<'js>(ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Object<'js>> {
    let module = loaded_builtin(ctx, name)?;
    // Evaluating it again would create a promise, which hooks see.
    // SAFETY: The engine's list keeps the module.
    if unsafe { JS_GetModuleStatus(module) } == EVALUATED {
        return namespace(ctx, module);
    }
    let promise = evaluate(ctx, module)?;
    if let Some(promise) = promise.as_promise()
        && promise.state() == rquickjs::promise::PromiseState::Rejected
    {
        // Throws the reason.
        promise.result::<Value<'_>>().transpose()?;
    }
    namespace(ctx, module)
}

/// Compiles every module of Node, so that a run that imports one only evaluates it.
pub(crate) fn compile_builtins(ctx: &Ctx<'_>) -> rquickjs::Result<()> {
    builtins::names().try_for_each(|name| loaded_builtin(ctx, name).map(drop))
}

/// Compiles an ECMAScript module.
pub(crate) fn compile_module(
    ctx: &Ctx<'_>,
    name: &str,
    text: &str,
) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    let flags = qjs::JS_EVAL_TYPE_MODULE | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    let value = eval(ctx, name, text, 1, flags)?;
    // SAFETY: Compiling a module returns a module. The engine's list of modules keeps it.
    Ok(unsafe { qjs::JS_VALUE_GET_PTR(value.as_raw()).cast() })
}

/// Evaluates a module, and returns the promise of its end.
pub(crate) fn evaluate<'js>(
    ctx: &Ctx<'js>,
    module: *mut qjs::JSModuleDef,
) -> rquickjs::Result<Value<'js>> {
    // SAFETY: The module is one of this context. The call takes one reference.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        let value = qjs::JS_MKPTR(qjs::JS_TAG_MODULE, module.cast());
        qjs::JS_DupValue(raw, value);
        result(ctx, qjs::JS_EvalFunction(raw, value))
    }
}

/// Returns the namespace of a module.
pub(crate) fn namespace<'js>(
    ctx: &Ctx<'js>,
    module: *mut qjs::JSModuleDef,
) -> rquickjs::Result<Object<'js>> {
    // SAFETY: The module is one of this context.
    let value = unsafe { qjs::JS_GetModuleNamespace(ctx.as_raw().as_ptr(), module) };
    result(ctx, value)?.get_object()
}

/// Evaluates a text.
pub(crate) fn eval<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    text: &str,
    line: c_int,
    flags: u32,
) -> rquickjs::Result<Value<'js>> {
    let name = CString::new(name)?;
    // The engine needs a zero after the text.
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    let mut options = qjs::JSEvalOptions {
        version: qjs::JS_EVAL_OPTIONS_VERSION as c_int,
        eval_flags: flags as c_int,
        filename: name.as_ptr(),
        line_num: line,
    };
    // SAFETY: The text ends with a zero that its length does not count; the name outlives the call.
    let value = unsafe {
        let (text, length) = (bytes.as_ptr().cast::<c_char>(), bytes.len() - 1);
        qjs::JS_Eval2(ctx.as_raw().as_ptr(), text, length as _, &raw mut options)
    };
    result(ctx, value)
}

/// Returns a value that the engine returned with a reference; fails if it is an exception.
pub(crate) fn result<'js>(ctx: &Ctx<'js>, value: qjs::JSValue) -> rquickjs::Result<Value<'js>> {
    // SAFETY: The engine returned the value to us, with a reference.
    unsafe {
        if qjs::JS_IsException(value) {
            Err(rquickjs::Error::Exception)
        } else {
            Ok(Value::from_raw(ctx.clone(), value))
        }
    }
}

trait GetObject<'js> {
    fn get_object(self) -> rquickjs::Result<Object<'js>>;
}

impl<'js> GetObject<'js> for Value<'js> {
    fn get_object(self) -> rquickjs::Result<Object<'js>> {
        self.into_object().ok_or(rquickjs::Error::Unknown)
    }
}

thread_local! {
    /// The modules of Node and of ours that are compiled. The engine's list keeps them.
    static BUILTINS: RefCell<HashMap<String, *mut qjs::JSModuleDef>> = RefCell::default();
}

fn loaded_builtin(ctx: &Ctx<'_>, name: &str) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    if let Some(module) = BUILTINS.with_borrow(|modules| modules.get(name).copied()) {
        return Ok(module);
    }
    let module = match builtins::native(ctx, name)? {
        Some(module) => module,
        None => match builtins::source(name) {
            // wasm-rquickjs has `require` as a global name, which modules of scripts must not see.
            Some(text) if !name.starts_with("internal:") && text.contains("require(") => {
                let text = format!("{REQUIRE}{text}");
                compile_module(ctx, name, &text)?
            }
            Some(text) => compile_module(ctx, name, text)?,
            None => {
                let message = format!("No such built-in module: {name}");
                return Err(throw(ctx, "Error", "ERR_UNKNOWN_BUILTIN_MODULE", &message));
            }
        },
    };
    BUILTINS.with_borrow_mut(|modules| modules.insert(name.to_owned(), module));
    Ok(module)
}

/// Precedes the text of a module of wasm-rquickjs that calls `require`. The function exists only
/// later.
const REQUIRE: &str = "const require = (name) => globalThis.__skillhost_require(name); ";

/// Throws an error with a code.
pub(crate) fn throw(ctx: &Ctx<'_>, class: &str, code: &str, message: &str) -> rquickjs::Error {
    let thrown = (|| {
        let constructor: Function<'_> = ctx.globals().get(class)?;
        let error: Object<'_> = constructor.construct((message,))?;
        error.set("code", code)?;
        Ok(error)
    })();
    match thrown {
        Ok(error) => ctx.throw(error.into_value()),
        Err(error) => error,
    }
}

trait Construct<'js> {
    fn construct(&self, args: (&str,)) -> rquickjs::Result<Object<'js>>;
}

impl<'js> Construct<'js> for Function<'js> {
    fn construct(&self, args: (&str,)) -> rquickjs::Result<Object<'js>> {
        let constructor = self.as_constructor().ok_or(rquickjs::Error::Unknown)?;
        constructor.construct(args)
    }
}

unsafe extern "C" fn normalize_raw(
    raw: *mut qjs::JSContext,
    base: *const c_char,
    specifier: *const c_char,
    _attributes: qjs::JSValue,
    _: *mut c_void,
) -> *mut c_char {
    // SAFETY: The engine passes its context and two strings.
    let (ctx, base, specifier) = unsafe { arguments(raw, base, specifier) };
    match normalize(&ctx, &base, &specifier) {
        Ok(name) => {
            // SAFETY: The engine frees what its allocator returned.
            unsafe { qjs::js_strndup(raw, name.as_ptr().cast(), name.len() as _) }
        }
        Err(_) => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn load_raw(
    raw: *mut qjs::JSContext,
    name: *const c_char,
    _: *mut c_void,
    attributes: qjs::JSValue,
) -> *mut qjs::JSModuleDef {
    // SAFETY: The engine passes its context, a string and a value that outlives the call.
    let (ctx, name, _) = unsafe { arguments(raw, name, c"".as_ptr()) };
    // SAFETY: As above. The copy gets a reference of its own.
    let attributes = unsafe {
        qjs::JS_DupValue(raw, attributes);
        Value::from_raw(ctx.clone(), attributes)
    };
    load(&ctx, &name, attributes).unwrap_or(std::ptr::null_mut())
}

unsafe fn arguments<'js>(
    raw: *mut qjs::JSContext,
    one: *const c_char,
    other: *const c_char,
) -> (Ctx<'js>, String, String) {
    // SAFETY: The caller passes a context and two strings of the engine.
    unsafe {
        let ctx = Ctx::from_raw(std::ptr::NonNull::new_unchecked(raw));
        let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
        (ctx, text(one), text(other))
    }
}

/// Whether a module is one of ours, so that it may import our own.
fn is_own(name: &str) -> bool {
    name.starts_with("node:") || name.starts_with("internal:") || name.starts_with(UPSTREAM)
}

/// The names that the modules of wasm-rquickjs have for their own.
const UPSTREAM: &str = "__wasm_rquickjs_builtin/";

fn normalize(ctx: &Ctx<'_>, base: &str, specifier: &str) -> rquickjs::Result<String> {
    if CHECKING.get() {
        return Err(throw(ctx, "Error", "", CHECKED));
    }
    if MAIN_REALM.get() != ctx.as_raw().as_ptr() {
        let message = "A dynamic import callback was not specified.";
        return Err(throw(ctx, "TypeError", "ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING", message));
    }
    if is_own(base) || base.is_empty() {
        if is_own(specifier) || builtins::source(specifier).is_some() {
            return Ok(specifier.to_owned());
        }
        return Ok(format!("node:{specifier}"));
    }
    if specifier.starts_with("internal:") || specifier.starts_with(UPSTREAM) {
        return Err(not_found(
            ctx,
            &ResolveError::NoPackage(specifier.to_owned()),
            base,
            specifier,
        ));
    }
    if specifier.starts_with("data:") {
        return Ok(specifier.to_owned());
    }
    let (specifier, query) = split_query(specifier);
    let parent = base_path(base);
    let path = file_url_path(specifier);
    let specifier = path.as_deref().unwrap_or(specifier);
    match find(specifier, &parent, Kind::Import) {
        Ok(Resolved::Builtin(name)) => Ok(format!("node:{name}")),
        Ok(Resolved::File(path)) if query.is_empty() => Ok(path),
        Ok(Resolved::File(path)) => Ok(format!("{}{query}", file_url(&path))),
        Err(error) => Err(not_found(ctx, &error, &parent, specifier)),
    }
}

/// Returns the path of the file that code belongs to.
pub(crate) fn base_path(base: &str) -> String {
    if base.starts_with('/') {
        return base.to_owned();
    }
    match file_url_path(split_query(base).0) {
        Some(path) => path,
        None => format!("{}/{EVAL}", files::current_dir()),
    }
}

fn split_query(specifier: &str) -> (&str, &str) {
    let relative = specifier.starts_with('.') || specifier.starts_with("file:");
    match specifier.find(['?', '#']).filter(|at| relative && *at > 0) {
        Some(at) => specifier.split_at(at),
        None => (specifier, ""),
    }
}

/// Returns the path of a `file:` URL.
pub(crate) fn file_url_path(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok().filter(|url| url.scheme() == "file")?;
    let decoded = percent_decode(url.path());
    Some(decoded)
}

/// Returns the `file:` URL of a path.
pub(crate) fn file_url(path: &str) -> String {
    let mut url = String::from("file://");
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' | b':' | b'@'
            | b'&' | b'=' | b'+' | b'$' | b',' | b';' => url.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => url.push(byte.into()),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let decoded =
            hex.filter(|_| *byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(decoded.unwrap_or(*byte));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Throws Node's error for a specifier that means nothing.
pub(crate) fn not_found(
    ctx: &Ctx<'_>,
    error: &ResolveError,
    parent: &str,
    specifier: &str,
) -> rquickjs::Error {
    let (code, message) = describe(error, parent, specifier);
    let class = if code == "ERR_INVALID_MODULE_SPECIFIER" { "TypeError" } else { "Error" };
    throw(ctx, class, code, &message)
}

/// Returns the code and the message of Node's error.
pub(crate) fn describe(
    error: &ResolveError,
    parent: &str,
    specifier: &str,
) -> (&'static str, String) {
    let from = if parent.is_empty() {
        String::new()
    } else if parent.ends_with(EVAL) {
        format!(" imported from {}/", resolve::dir_of(parent))
    } else {
        format!(" imported from {parent}")
    };
    match error {
        ResolveError::NoFile(path) => {
            ("ERR_MODULE_NOT_FOUND", format!("Cannot find module '{path}'{from}"))
        }
        ResolveError::NoPackage(name) => {
            ("ERR_MODULE_NOT_FOUND", format!("Cannot find package '{name}'{from}"))
        }
        ResolveError::IsFolder(path) => (
            "ERR_UNSUPPORTED_DIR_IMPORT",
            format!("Directory import '{path}' is not supported resolving ES modules{from}"),
        ),
        ResolveError::NotExported(home, subpath) => {
            let json = format!("{home}/package.json");
            let message = if subpath == "." {
                format!("No \"exports\" main defined in {json}{from}")
            } else {
                format!("Package subpath '{subpath}' is not defined by \"exports\" in {json}{from}")
            };
            ("ERR_PACKAGE_PATH_NOT_EXPORTED", message)
        }
        ResolveError::NotImported(name, home) => (
            "ERR_PACKAGE_IMPORT_NOT_DEFINED",
            format!(
                "Package import specifier \"{name}\" is not defined in package {home}/package.json{from}"
            ),
        ),
        ResolveError::InvalidTarget(home, target) => (
            "ERR_INVALID_PACKAGE_TARGET",
            format!(
                "Invalid \"exports\" target \"{target}\" defined in the package config {home}/package.json{from}"
            ),
        ),
        ResolveError::Invalid(_) => (
            "ERR_INVALID_MODULE_SPECIFIER",
            format!("Invalid module \"{specifier}\" is not a valid package name{from}"),
        ),
        ResolveError::UnknownBuiltin(name) => {
            ("ERR_UNKNOWN_BUILTIN_MODULE", format!("No such built-in module: {name}"))
        }
    }
}

/// Loads the module of a file, unless that is done.
pub(crate) fn load_file(ctx: &Ctx<'_>, path: &str) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    match LOADED.with_borrow(|modules| modules.get(path).copied()) {
        Some(module) if !module.is_null() => Ok(module),
        _ => load_module(ctx, path, path, &builtins::module::read_source(ctx, path)?),
    }
}

/// Notes which file runs, for `import.meta.main`.
pub(crate) fn set_main(path: String) {
    MAIN.set(path);
}

thread_local! {
    static MAIN: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Returns the URL of a file that is loaded as a module.
pub(crate) fn module_url(path: String) -> Option<String> {
    LOADED.with_borrow(|modules| modules.contains_key(&path)).then(|| file_url(&path))
}

thread_local! {
    /// The modules of files. The engine's list keeps them.
    static LOADED: RefCell<HashMap<String, *mut qjs::JSModuleDef>> = RefCell::default();
}

fn load(
    ctx: &Ctx<'_>,
    name: &str,
    attributes: Value<'_>,
) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    if is_own(name) || builtins::source(name).is_some() {
        return loaded_builtin(ctx, name);
    }
    if let Some(text) = name.strip_prefix("data:") {
        return load_data(ctx, name, text);
    }
    let path = base_path(name);
    let wanted: Option<String> =
        attributes.as_object().and_then(|attributes| attributes.get("type").ok());
    let format = format(&path);
    if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != "json") {
        let message = format!("Import attribute \"type\" with value \"{wanted}\" is not supported");
        return Err(throw(ctx, "TypeError", "ERR_IMPORT_ATTRIBUTE_UNSUPPORTED", &message));
    }
    if format == Format::Json {
        if wanted.as_deref() != Some("json") {
            let message = format!(
                "Module \"{}\" needs an import attribute of \"type: json\"",
                file_url(&path)
            );
            return Err(throw(ctx, "TypeError", "ERR_IMPORT_ATTRIBUTE_MISSING", &message));
        }
        return synthetic(ctx, name, &exports::Exports::default());
    }
    let text = builtins::module::read_source(ctx, &path)?;
    match format {
        Format::Module => load_module(ctx, name, &path, &text),
        Format::Unknown if is_module(ctx, &path, &text) => load_module(ctx, name, &path, &text),
        _ => synthetic(ctx, name, &all_exports(&path, &text)),
    }
}

/// Whether the text is a module by its syntax: it compiles as one, and not as CommonJS.
pub(crate) fn is_module(ctx: &Ctx<'_>, path: &str, text: &str) -> bool {
    if !["import", "export", "await"].iter().any(|word| text.contains(word)) {
        return false;
    }
    if COMPILED.with_borrow(|functions| functions.get(path).is_some_and(|(known, _)| known == text))
    {
        return false;
    }
    if let Ok(function) = compile_function(ctx, path, text, true) {
        let function = (text.to_owned(), Persistent::save(ctx, function));
        COMPILED.with_borrow_mut(|functions| functions.insert(path.to_owned(), function));
        return false;
    }
    drop(ctx.catch());
    let is_module = check_module(ctx, path, text).is_ok();
    if !is_module {
        drop(ctx.catch());
    }
    is_module
}

thread_local! {
    /// CommonJS files that were compiled to learn that they are no modules, by path, with their
    /// texts: what runs next is usually the same text.
    static COMPILED: RefCell<HashMap<String, (String, Persistent<Value<'static>>)>> =
        RefCell::default();
}

/// Checks the syntax of a module, without loading its imports.
pub(crate) fn check_module(ctx: &Ctx<'_>, path: &str, text: &str) -> rquickjs::Result<()> {
    let flags = qjs::JS_EVAL_TYPE_MODULE | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    CHECKING.set(true);
    // A name that no import finds.
    let compiled = eval(ctx, &format!("{path}#syntax"), text, 1, flags);
    CHECKING.set(false);
    if compiled.is_ok() {
        return Ok(());
    }
    // With the loader off, a text that parses fails at its first import.
    let caught = ctx.catch();
    let message = caught.as_exception().and_then(rquickjs::Exception::message);
    if message.is_some_and(|message| message == CHECKED) {
        return Ok(());
    }
    Err(ctx.throw(caught))
}

thread_local! {
    static CHECKING: Cell<bool> = const { Cell::new(false) };
}

/// The message of the error that ends a check of the syntax.
const CHECKED: &str = "the syntax is valid";

/// What precedes the text of a CommonJS file.
pub(crate) const WRAPPER: &str = "(function (exports, require, module, __filename, __dirname) {";

/// Compiles a text as the body of a function with the names of CommonJS.
pub(crate) fn compile_function<'js>(
    ctx: &Ctx<'js>,
    path: &str,
    text: &str,
    only: bool,
) -> rquickjs::Result<Value<'js>> {
    if !only
        && let Some((known, compiled)) =
            COMPILED.with_borrow_mut(|functions| functions.remove(path))
        && known == text
    {
        let compiled = compiled.restore(ctx)?;
        // SAFETY: The value is a compiled script of this context. The call takes one reference.
        return unsafe {
            let raw = ctx.as_raw().as_ptr();
            qjs::JS_DupValue(raw, compiled.as_raw());
            result(ctx, qjs::JS_EvalFunction(raw, compiled.as_raw()))
        };
    }
    // The lines of the text keep their numbers. js/module.js corrects the columns of the first.
    let wrapped = format!("{WRAPPER}{text}\n}})");
    let flags = if only { qjs::JS_EVAL_FLAG_COMPILE_ONLY } else { 0 };
    eval(ctx, path, &wrapped, 1, qjs::JS_EVAL_TYPE_GLOBAL | flags)
}

fn load_module(
    ctx: &Ctx<'_>,
    name: &str,
    path: &str,
    text: &str,
) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    // Known as a module before it is one: an error of its syntax names its URL.
    LOADED.with_borrow_mut(|modules| modules.insert(name.to_owned(), std::ptr::null_mut()));
    let module = compile_module(ctx, name, text)?;
    LOADED.with_borrow_mut(|modules| modules.insert(name.to_owned(), module));
    let url = if name.starts_with("file:") { name.to_owned() } else { file_url(path) };
    set_meta(ctx, module, path, &url)?;
    Ok(module)
}

/// Compiles a text that no file has, such as that of `-e`.
pub(crate) fn load_text(ctx: &Ctx<'_>, text: &str) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    let name = format!("{}/[eval1]", files::current_dir());
    let module = compile_module(ctx, &name, text)?;
    set_meta(ctx, module, &name, &file_url(&name))?;
    Ok(module)
}

fn load_data(ctx: &Ctx<'_>, name: &str, text: &str) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    let (head, body) = text.split_once(',').unwrap_or((text, ""));
    let body = percent_decode(body);
    let body = if head.ends_with(";base64") {
        let decode: Function<'_> = ctx.globals().get("atob")?;
        decode.call((body,))?
    } else {
        body
    };
    let module = compile_module(ctx, name, &body)?;
    set_meta(ctx, module, name, name)?;
    Ok(module)
}

fn set_meta(
    ctx: &Ctx<'_>,
    module: *mut qjs::JSModuleDef,
    path: &str,
    url: &str,
) -> rquickjs::Result<()> {
    // SAFETY: The module is one of this context.
    let meta = unsafe { qjs::JS_GetImportMeta(ctx.as_raw().as_ptr(), module) };
    let meta = result(ctx, meta)?.get_object()?;
    if path.starts_with('/') {
        meta.set("dirname", resolve::dir_of(path))?;
        meta.set("filename", path)?;
    }
    let parent = path.to_owned();
    let resolve = Function::new(ctx.clone(), move |ctx: Ctx<'_>, specifier: String| {
        // The URL of a file, which need not exist.
        if specifier.starts_with("./") || specifier.starts_with("../") || specifier.starts_with('/')
        {
            let base = url::Url::parse(&file_url(&parent)).ok();
            let joined = base.and_then(|base| base.join(&specifier).ok());
            return Ok(joined.map_or(specifier, String::from));
        }
        let name = normalize(&ctx, &parent, &specifier)?;
        Ok::<_, rquickjs::Error>(if name.starts_with('/') { file_url(&name) } else { name })
    })?;
    resolve.set_name("resolve")?;
    meta.set("main", MAIN.with_borrow(|main| main == path))?;
    meta.set("resolve", resolve)?;
    meta.set("url", url)
}

/// Returns the names that a CommonJS file exports, with those of the files that it exports again.
fn all_exports(path: &str, text: &str) -> exports::Exports {
    let mut found = exports::find(text);
    let mut seen = vec![path.to_owned()];
    let mut left: Vec<(String, String)> =
        found.reexports.drain(..).map(|specifier| (path.to_owned(), specifier)).collect();
    while let Some((parent, specifier)) = left.pop() {
        let Ok(Resolved::File(path)) = find(&specifier, &parent, Kind::Require) else { continue };
        if seen.contains(&path) {
            continue;
        }
        if let Ok(bytes) = files::read(&path) {
            let mut more = exports::find(&String::from_utf8_lossy(&bytes));
            found.names.append(&mut more.names);
            left.extend(more.reexports.into_iter().map(|specifier| (path.clone(), specifier)));
        }
        seen.push(path);
    }
    found
}

/// Declares a module that stands for a CommonJS or JSON file. Evaluating it runs the file.
fn synthetic(
    ctx: &Ctx<'_>,
    name: &str,
    exports: &exports::Exports,
) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    let raw = ctx.as_raw().as_ptr();
    let name = CString::new(name)?;
    let names = exports.names.iter().filter(|name| *name != "default");
    // SAFETY: The engine copies the names.
    unsafe {
        let module = qjs::JS_NewCModule(raw, name.as_ptr(), Some(run_synthetic));
        if module.is_null() {
            return Err(rquickjs::Error::Exception);
        }
        qjs::JS_AddModuleExport(raw, module, c"default".as_ptr());
        for name in names {
            // The engine cannot declare a name with a zero byte.
            if let Ok(name) = CString::new(name.as_str()) {
                qjs::JS_AddModuleExport(raw, module, name.as_ptr());
            }
        }
        Ok(module)
    }
}

unsafe extern "C" fn run_synthetic(
    raw: *mut qjs::JSContext,
    module: *mut qjs::JSModuleDef,
) -> c_int {
    // SAFETY: The engine passes its context and the module.
    let ctx = unsafe { Ctx::from_raw(std::ptr::NonNull::new_unchecked(raw)) };
    match set_exports(&ctx, module) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

fn set_exports(ctx: &Ctx<'_>, module: *mut qjs::JSModuleDef) -> rquickjs::Result<()> {
    let raw = ctx.as_raw().as_ptr();
    // SAFETY: The module is one of this context, and the atom is freed.
    let name = unsafe {
        let atom = qjs::JS_GetModuleName(raw, module);
        let name = result(ctx, qjs::JS_AtomToString(raw, atom));
        qjs::JS_FreeAtom(raw, atom);
        name?
    };
    let name: String = name.get()?;
    let load = import_builtin(ctx, "node:module")?.get::<_, Function<'_>>("_importCommonJs")?;
    let value: Value<'_> = load.call((base_path(&name),))?;
    let set = |name: &CStr, value: Value<'_>| {
        // SAFETY: The engine takes one reference of the value.
        unsafe {
            qjs::JS_DupValue(raw, value.as_raw());
            qjs::JS_SetModuleExport(raw, module, name.as_ptr(), value.as_raw());
        }
    };
    set(c"default", value.clone());
    let Some(object) = value.as_object() else { return Ok(()) };
    for key in object.own_keys::<String>(rquickjs::object::Filter::new().string()) {
        let key = key?;
        if key == "default" {
            continue;
        }
        // The engine refuses names that were not declared; nothing else can fail.
        if let Ok(c_name) = CString::new(key.as_str()) {
            set(&c_name, object.get(key.as_str())?);
        }
    }
    Ok(())
}

/// Declares a native module.
pub(crate) fn declare<D: rquickjs::module::ModuleDef>(
    ctx: &Ctx<'_>,
    name: &str,
) -> rquickjs::Result<*mut qjs::JSModuleDef> {
    let name = CString::new(name)?;
    // SAFETY: The context and the name are valid.
    let module =
        unsafe { Module::<'_, Declared>::init_raw::<D>(ctx.as_raw().as_ptr(), name.as_ptr()) };
    if module.is_null() { Err(rquickjs::Error::Exception) } else { Ok(module) }
}
