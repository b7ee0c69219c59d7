// node:async_hooks: contexts that follow callbacks, ticks, timers and promises. Hooks for single events are not called.

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
        return run(new Map(capture()).set(this, store), () => Reflect.apply(callback, null, args));
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

let nextId = 2;
let executing = 1;

export class AsyncResource {
    #context = capture();
    #id = nextId++;
    #trigger;

    constructor(type, options) {
        if (typeof type !== 'string') {
            const error = new TypeError(`The "type" argument must be of type string. Received ${type === null ? 'null' : typeof type}`);
            error.code = 'ERR_INVALID_ARG_TYPE';
            throw error;
        }
        this.#trigger = (typeof options === 'number' ? options : options?.triggerAsyncId) ?? executing;
    }

    asyncId() {
        return this.#id;
    }

    triggerAsyncId() {
        return this.#trigger;
    }

    emitDestroy() {
        return this;
    }

    runInAsyncScope(fn, self, ...args) {
        checkFunction(fn);
        const before = executing;
        executing = this.#id;
        try {
            return run(this.#context, () => Reflect.apply(fn, self, args));
        } finally {
            executing = before;
        }
    }

    bind(fn, self) {
        checkFunction(fn);
        const resource = this;
        const bound = function (...args) {
            return resource.runInAsyncScope(fn, self === undefined ? this : self, ...args);
        };
        Object.defineProperty(bound, 'length', { value: fn.length, configurable: true });
        return bound;
    }

    static bind(fn, type, self) {
        checkFunction(fn);
        return new AsyncResource(type || fn.name || 'bound-anonymous-fn').bind(fn, self);
    }
}

export function createHook() {
    return { enable() { return this; }, disable() { return this; } };
}

export function executionAsyncId() {
    return executing;
}

export function triggerAsyncId() {
    return 0;
}

export function executionAsyncResource() {
    return {};
}

export const asyncWrapProviders = Object.freeze(Object.create(null));

export default { AsyncLocalStorage, AsyncResource, createHook, executionAsyncId, triggerAsyncId, executionAsyncResource, asyncWrapProviders };
