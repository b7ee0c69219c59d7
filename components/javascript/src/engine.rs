//! The interpreter: one runtime with one context, which the build starts and runs continue.

use std::cell::RefCell;

use rquickjs::{Context, Ctx, Function, Object, Persistent, Runtime, Value, qjs};

use crate::callee;
use crate::modules::loader;

/// Bytes of the native stack that scripts may use before they get a RangeError. build.rs sets 16 MiB.
/// Regular expressions and native functions, which scripts call, use the rest.
const STACK: usize = 4 << 20;

/// Bytes of new objects after which the first collection runs. A collection writes to every page of
/// the started engine, so short programs must end before the first one.
const FIRST_COLLECTION: usize = 32 << 20;

unsafe extern "C" {
    /// Keeps all objects that exist for as long as the runtime. Their reference counts do not change
    /// any more, so that a run copies fewer pages of the image.
    fn JS_MakeImmortal(runtime: *mut qjs::JSRuntime);
}

struct Engine {
    /// Dropping the runtime would free every object.
    _runtime: Runtime,
    context: Context,
    /// The exports of js/bootstrap.js.
    exports: Persistent<Object<'static>>,
}

thread_local! {
    static ENGINE: RefCell<Option<&'static Engine>> = const { RefCell::new(None) };
}

/// Starts the engine, evaluates the common modules and compiles the others, unless that is done.
pub(crate) fn start() {
    if ENGINE.with_borrow(Option::is_some) {
        return;
    }
    let runtime = Runtime::new().expect("memory suffices for the engine");
    runtime.set_max_stack_size(STACK);
    runtime.set_gc_threshold(usize::MAX);
    let context = Context::full(&runtime).expect("memory suffices for the engine");
    let exports = context.with(|ctx| {
        loader::install(&ctx);
        callee::install(&ctx);
        let exports = loader::import_builtin(&ctx, "internal:bootstrap");
        let exports = exports.unwrap_or_else(|error| fail(&ctx, &error));
        loader::compile_builtins(&ctx).unwrap_or_else(|error| fail(&ctx, &error));
        Persistent::save(&ctx, exports)
    });
    runtime.set_host_promise_rejection_tracker(Some(Box::new(|ctx, promise, reason, handled| {
        // An error here has nowhere to go: the tracker belongs to no call.
        drop(track_rejection(&ctx, promise, reason, handled));
    })));
    runtime.set_gc_threshold(FIRST_COLLECTION);
    context.with(|ctx| {
        // SAFETY: the engine runs no collection and no script here, and only this thread uses it.
        unsafe { JS_MakeImmortal(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) }
    });
    let engine = Box::leak(Box::new(Engine { _runtime: runtime, context, exports }));
    ENGINE.set(Some(engine));
}

/// Calls `action` with the context and the exports of js/bootstrap.js.
pub(crate) fn with<T>(action: impl for<'js> FnOnce(Ctx<'js>, Object<'js>) -> T) -> T {
    start();
    let engine = ENGINE.with_borrow(|engine| engine.expect("the engine has started"));
    engine.context.with(|ctx| {
        let exports = engine.exports.clone().restore(&ctx).expect("the context is the same");
        action(ctx, exports)
    })
}

fn track_rejection<'js>(
    ctx: &Ctx<'js>,
    promise: Value<'js>,
    reason: Value<'js>,
    handled: bool,
) -> rquickjs::Result<()> {
    let Some(engine) = ENGINE.with_borrow(|engine| *engine) else { return Ok(()) };
    let exports = engine.exports.clone().restore(ctx)?;
    exports.get::<_, Function<'_>>("trackRejection")?.call((promise, reason, handled))
}

/// Takes the exception of an error that js/ did not report, and returns its message and stack.
pub(crate) fn take_exception(ctx: &Ctx<'_>, error: &rquickjs::Error) -> String {
    let caught = ctx.catch();
    caught.as_exception().map_or_else(
        || format!("{error}: {caught:?}"),
        |e| format!("{}\n{}", e.message().unwrap_or_default(), e.stack().unwrap_or_default()),
    )
}

/// Reports an error of the start. It can only be an error of this component.
fn fail(ctx: &Ctx<'_>, error: &rquickjs::Error) -> ! {
    panic!("the engine does not start: {}", take_exception(ctx, error))
}
