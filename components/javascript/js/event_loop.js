// The event loop, in Node's order: ticks and microtasks after each callback; timers, completed calls, what came in, immediates.

import * as native from 'internal:native/loop';
import { runTimers, nextTimer, runImmediates, hasImmediates, hasTimers, setImmediate as addImmediate, timerResources } from 'internal:timers';
import { uncaught, reportRejections } from 'internal:uncaught';
import { capture, destroyScope, enterScope, leaveScope, newScope, run as runIn, _emitDestroyed, _endTop } from 'node:async_hooks';

const ticks = [];
let nextTickIndex = 0;

// Runs a callback before anything else of the loop.
export function nextTick(callback, ...args) {
    if (typeof callback !== 'function') {
        const error = new TypeError('The "callback" argument must be of type function. Received ' + describe(callback));
        error.code = 'ERR_INVALID_ARG_TYPE';
        throw error;
    }
    const tick = { callback, args, context: capture(), scope: undefined };
    tick.scope = newScope('TickObject', tick);
    ticks.push(tick);
}

function describe(value) {
    if (value == null) return String(value);
    if (typeof value === 'object') return `an instance of ${value.constructor?.name ?? 'Object'}`;
    return `type ${typeof value} (${typeof value === 'string' ? `'${value}'` : String(value)})`;
}

export function queueMicrotask(callback) {
    if (typeof callback !== 'function') {
        const error = new TypeError('The "callback" argument must be of type function. Received ' + describe(callback));
        error.code = 'ERR_INVALID_ARG_TYPE';
        throw error;
    }
    const context = capture();
    const scope = newScope('Microtask', {});
    resolved.then(() => call(callback, undefined, [], context, scope));
}
const resolved = Promise.resolve();

// Calls a callback of the loop, and reports its error as uncaught. Returns whether there was one.
export function call(callback, self, args, context, scope) {
    const before = scope === undefined ? undefined : enterScope(scope);
    let failed = false;
    try {
        if (context === undefined && capture() === undefined) Reflect.apply(callback, self, args);
        else runIn(context, () => Reflect.apply(callback, self, args));
    } catch (error) {
        failed = true;
        uncaught(error);
    }
    if (scope !== undefined) leaveScope(scope, before);
    return failed;
}

// Runs ticks and microtasks until none is left.
export function drain() {
    let ranTicks = false;
    do {
        do {
            while (nextTickIndex < ticks.length) {
                ranTicks = true;
                const { callback, args, context, scope } = ticks[nextTickIndex++];
                if (nextTickIndex === ticks.length) {
                    ticks.length = 0;
                    nextTickIndex = 0;
                }
                // After an error, the loop goes on with other callbacks before the next ticks.
                const failed = call(callback, undefined, args, context, scope);
                destroyScope(scope);
                if (failed) {
                    addImmediate(() => {});
                    return;
                }
            }
            native.runMicrotasks();
        } while (ticks.length > 0);
    } while (reportRejections(ranTicks) || ticks.length > 0);
}

let completed = [];

// Runs a callback when the loop looks for completed calls: what an asynchronous function of node:fs does, whose work is done already.
export function defer(callback, ...args) {
    completed.push({ callback, args, context: capture(), scope: newScope('FSREQCALLBACK', {}) });
}

// What waits for something: objects with `reader`, `writer`, `child`, `http` and `kind` (native handles) or `stdin`, and with `ready()`, which is
// called when it is there. The loop goes on while one is `active`.
const sources = new Set();

export function addSource(source) {
    sources.add(source);
}

export function removeSource(source) {
    sources.delete(source);
}

function isAlive() {
    if (completed.length > 0 || hasImmediates() || hasTimers()) return true;
    for (const source of sources) if (source.active) return true;
    return false;
}

function turn() {
    runTimers();
    const now = completed;
    completed = [];
    for (const { callback, args, context, scope } of now) {
        call(callback, undefined, args, context, scope);
        destroyScope(scope);
        drain();
    }
    poll();
    runImmediates();
    _emitDestroyed();
}

// Waits for data or the next timer. Does not wait if something is left to do.
function poll() {
    const wanted = [...sources];
    if (wanted.length === 0 && (completed.length > 0 || hasImmediates())) return;
    const timeout = completed.length > 0 || hasImmediates() || !isAlive() ? 0 : nextTimer();
    if (wanted.length === 0) {
        if (timeout !== undefined && timeout > 0) native.sleep(timeout);
        return;
    }
    const readers = [], writers = [], children = [], http = [];
    let stdin = false;
    for (const source of wanted) {
        if (source.reader !== undefined) readers.push(source.reader);
        else if (source.writer !== undefined) writers.push(source.writer);
        else if (source.child !== undefined) children.push(source.child);
        else if (source.http !== undefined) http.push([source.http, source.kind]);
        else if (source.stdin) stdin = true;
    }
    const ready = native.poll({ readers, writers, children, stdin, http }, timeout ?? -1);
    // What a program wrote precedes its end.
    wanted.sort((one, other) => (one.child !== undefined) - (other.child !== undefined));
    for (const source of wanted) {
        if (!sources.has(source)) continue;
        const isReady = source.reader !== undefined ? ready.readers.includes(source.reader)
            : source.writer !== undefined ? ready.writers.includes(source.writer)
            : source.child !== undefined ? ready.children.includes(source.child)
            : source.http !== undefined ? ready.http.some(([handle, kind]) => handle === source.http && kind === source.kind)
            : ready.stdin;
        if (isReady) {
            call(source.ready, source, []);
            drain();
        }
    }
}

// The names of what keeps the loop alive, and how many asynchronous calls of node:fs have completed but are not reported yet.
export function activeResources() {
    const names = completed.map(() => 'FSReqCallback');
    for (const source of sources) {
        if (!source.active) continue;
        names.push(source.child !== undefined ? 'ProcessWrap' : source.http !== undefined ? 'HTTPINCOMINGMESSAGE' : source.stdin ? 'TTYWrap' : 'PipeWrap');
    }
    return [...names, ...timerResources()];
}

export function deferredCount() {
    return completed.length;
}

let beforeExit = () => false;
let atExit = () => 0;

// `before` is called when nothing is left to do; the loop goes on if it added something. `end` returns the exit code.
export function setExit(before, end) {
    beforeExit = before;
    atExit = end;
}

// Runs the loop until nothing is left to do, and returns the exit code.
export function enterLoop(microtasksFirst) {
    if (microtasksFirst) native.runMicrotasks();
    drain();
    _endTop();
    do {
        while (isAlive()) {
            turn();
            drain();
        }
        while (_emitDestroyed()) drain();
        if (reportRejections(true)) drain();
        if (isAlive()) continue;
        call(beforeExit, undefined, []);
        drain();
    } while (isAlive());
    return atExit();
}
