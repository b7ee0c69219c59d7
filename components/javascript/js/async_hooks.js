// node:async_hooks: contexts that follow callbacks, ticks, timers and promises, and hooks for what begins and ends.

import * as native from 'internal:native/promises';

// A context is an immutable map from AsyncLocalStorage to its store; undefined is the empty one. The engine keeps the current one: a callback of a
// promise finds the one that it was registered in.
let used = false;

// Returns the context that a callback created now belongs to.
export function capture() {
    return used ? native.getContext() : undefined;
}

function enter(context) {
    used = true;
    native.setContext(context);
}

// Calls `callback` in a context.
export function run(context, callback) {
    const before = native.getContext();
    enter(context);
    try {
        return callback();
    } finally {
        native.setContext(before);
    }
}

function checkFunction(fn, name = 'fn') {
    if (typeof fn !== 'function') {
        const error = new TypeError(`The "${name}" argument must be of type function. Received ${fn === null ? 'null' : typeof fn}`);
        error.code = 'ERR_INVALID_ARG_TYPE';
        throw error;
    }
}

export class AsyncLocalStorage {
    #default;
    #name;

    constructor(options) {
        this.#default = options?.defaultValue;
        this.#name = options?.name ?? '';
    }

    get name() {
        return this.#name;
    }

    getStore() {
        const current = capture();
        return current?.has(this) ? current.get(this) : this.#default;
    }

    enterWith(store) {
        enter(new Map(capture()).set(this, store));
    }

    run(store, callback, ...args) {
        const before = native.getContext();
        const own = new Map(before).set(this, store);
        enter(own);
        try {
            return Reflect.apply(callback, null, args);
        } finally {
            // What the callback entered of other storages stays.
            const after = native.getContext();
            if (after === own || after === before) {
                native.setContext(before);
            } else {
                const context = new Map(after);
                if (before?.has(this)) context.set(this, before.get(this));
                else context.delete(this);
                native.setContext(context);
            }
        }
    }

    exit(callback, ...args) {
        return this.run(undefined, callback, ...args);
    }

    disable() {
        if (!capture()?.has(this)) return;
        const context = new Map(capture());
        context.delete(this);
        enter(context);
    }

    static bind(fn) {
        return AsyncResource.bind(fn);
    }

    static snapshot() {
        const context = capture();
        return (fn, ...args) => run(context, () => Reflect.apply(fn, undefined, args));
    }
}

// Whether anything asks for the identifiers of asynchronous calls. Until then they cost nothing.
let tracking = false;
let lastId = 1;
const TOP = { id: 1, trigger: 0, resource: {} };
const NONE = { id: 0, trigger: 0, resource: {} };
let executing = TOP;
let hooks = [];
let destroyed = [];

// The top level of the program has ended: between callbacks of the loop, nothing executes.
export function _endTop() {
    executing = NONE;
}

function emit(name, ...args) {
    for (const hook of hooks) {
        const callback = hook.callbacks[name];
        if (callback === undefined) continue;
        try {
            Reflect.apply(callback, hook.callbacks, args);
        } catch (error) {
            // An error of a hook ends the program: it may have left anything behind.
            globalThis.process._fatalHook(error);
        }
    }
}

// Returns the scope of an asynchronous call that begins now; undefined while no hook or identifier is used.
export function newScope(type, resource, trigger = executing.id) {
    if (!tracking) return undefined;
    const scope = { id: ++lastId, trigger, resource };
    emit('init', scope.id, type, scope.trigger, resource);
    return scope;
}

// Enters the scope of a callback, and returns the one that `leaveScope` goes back to.
export function enterScope(scope) {
    const before = executing;
    executing = scope;
    emit('before', scope.id);
    return before;
}

export function leaveScope(scope, before) {
    emit('after', scope.id);
    executing = before;
}

// Says that the callbacks of a scope have ended. Hooks hear of it in a later turn of the loop.
export function destroyScope(scope) {
    if (scope === undefined || scope.isDestroyed || hooks.length === 0) return;
    scope.isDestroyed = true;
    destroyed.push(scope.id);
}

// Called in each turn of the loop. Returns whether the callbacks of any scope had ended.
export function _emitDestroyed() {
    if (destroyed.length === 0) return false;
    const ids = destroyed;
    destroyed = [];
    for (const id of ids) emit('destroy', id);
    return true;
}

const promiseScopes = new WeakMap();
const entered = [];
const listeners = new Set();

// Called by the engine.
function promiseHook(type, promise, parent) {
    for (const listener of listeners) listener[type]?.(promise, parent);
}
const INIT = 0, BEFORE = 1, AFTER = 2, SETTLED = 3;

function listen(listener) {
    listeners.add(listener);
    native.setHook(promiseHook);
    return () => {
        listeners.delete(listener);
        if (listeners.size === 0) native.setHook(null);
    };
}

function promiseScope(promise) {
    let scope = promiseScopes.get(promise);
    // Hooks that are younger than the promise do not hear of its creation.
    if (scope === undefined) promiseScopes.set(promise, scope = { id: ++lastId, trigger: executing.id, resource: promise });
    return scope;
}

const followPromises = {
    [INIT](promise, parent) {
        const trigger = parent !== undefined ? promiseScope(parent).id : executing.id;
        promiseScopes.set(promise, newScope('PROMISE', promise, trigger));
    },
    [BEFORE](promise) {
        const scope = promiseScope(promise);
        entered.push([scope, enterScope(scope)]);
    },
    [AFTER](promise) {
        const scope = promiseScope(promise);
        emit('after', scope.id);
        if (entered.at(-1)?.[0] === scope) [, executing] = entered.pop();
    },
    [SETTLED](promise) {
        emit('promiseResolve', promiseScope(promise).id);
    },
};
let stopFollowing;

// What `v8.promiseHooks` adds; `callbacks` are those for the four types. Returns what removes them.
export function _addPromiseHook(callbacks) {
    return listen(callbacks.map((callback) => callback && ((...args) => {
        try {
            callback(...args);
        } catch (error) {
            globalThis.process.nextTick(() => {
                throw error;
            });
        }
    })));
}

export class AsyncResource {
    #context = capture();
    #scope;
    #destroyed = false;

    constructor(type, options = {}) {
        if (typeof type !== 'string') throw invalid('type', 'of type string', type);
        let trigger = executing.id;
        if (typeof options === 'number') {
            trigger = options;
        } else {
            if (options !== null && typeof options === 'object' && options.triggerAsyncId !== undefined) trigger = options.triggerAsyncId;
        }
        if (!Number.isSafeInteger(trigger) || trigger < -1) {
            throw Object.assign(new RangeError(`Invalid triggerAsyncId value: ${trigger}`), { code: 'ERR_INVALID_ASYNC_ID' });
        }
        if (hooks.length > 0 && type.length === 0) throw Object.assign(new TypeError(`Invalid name for async "type": ${type}`), { code: 'ERR_ASYNC_TYPE' });
        tracking = true;
        this.#scope = newScope(type, this, trigger);
    }

    asyncId() {
        return this.#scope.id;
    }

    triggerAsyncId() {
        return this.#scope.trigger;
    }

    emitDestroy() {
        if (!this.#destroyed) destroyScope(this.#scope);
        this.#destroyed = true;
        return this;
    }

    runInAsyncScope(fn, self, ...args) {
        checkFunction(fn);
        const before = enterScope(this.#scope);
        try {
            return run(this.#context, () => Reflect.apply(fn, self, args));
        } finally {
            leaveScope(this.#scope, before);
        }
    }

    bind(fn, self) {
        checkFunction(fn);
        const resource = this;
        const bound = function (...args) {
            return resource.runInAsyncScope(fn, self === undefined ? this : self, ...args);
        };
        Object.defineProperty(bound, 'length', { value: fn.length, configurable: true, writable: false, enumerable: false });
        Object.defineProperty(bound, 'asyncResource', { value: this, configurable: true, writable: true, enumerable: true });
        return bound;
    }

    static bind(fn, type, self) {
        checkFunction(fn);
        return new AsyncResource(type || fn.name || 'bound-anonymous-fn').bind(fn, self);
    }
}

function invalid(name, expected, value) {
    const received = value === null || value === undefined ? String(value) : typeof value === 'object' ? `an instance of ${value.constructor?.name}` : `type ${typeof value} (${String(value)})`;
    return Object.assign(new TypeError(`The "${name}" argument must be ${expected}. Received ${received}`), { code: 'ERR_INVALID_ARG_TYPE' });
}

class AsyncHook {
    constructor(callbacks) {
        Object.defineProperty(this, 'callbacks', { value: callbacks, enumerable: false });
    }

    enable() {
        if (hooks.includes(this)) return this;
        tracking = true;
        hooks = [...hooks, this];
        stopFollowing ??= listen(followPromises);
        return this;
    }

    disable() {
        hooks = hooks.filter((hook) => hook !== this);
        if (hooks.length === 0) {
            stopFollowing?.();
            stopFollowing = undefined;
        }
        return this;
    }
}

export function createHook(callbacks) {
    const own = {};
    for (const name of ['init', 'before', 'after', 'destroy', 'promiseResolve']) {
        const callback = callbacks[name];
        if (callback === undefined) continue;
        if (typeof callback !== 'function') {
            throw Object.assign(new TypeError(`hook.${name} must be a function`), { code: 'ERR_ASYNC_CALLBACK' });
        }
        own[name] = callback;
    }
    return new AsyncHook(own);
}

export function executionAsyncId() {
    tracking = true;
    return executing.id;
}

export function triggerAsyncId() {
    tracking = true;
    return executing.trigger;
}

export function executionAsyncResource() {
    tracking = true;
    return executing.resource;
}

export const asyncWrapProviders = Object.freeze(Object.create(null));

export default { AsyncLocalStorage, AsyncResource, createHook, executionAsyncId, triggerAsyncId, executionAsyncResource, asyncWrapProviders };
