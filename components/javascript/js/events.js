// node:events.

import { inspect } from '__wasm_rquickjs_builtin/internal/util/inspect';
import { AbortError, ERR_INVALID_ARG_TYPE } from '__wasm_rquickjs_builtin/internal/errors';
import {
    validateAbortSignal, validateBoolean, validateFunction, validateInteger, validateNumber, validateObject, validateString,
} from '__wasm_rquickjs_builtin/internal/validators';
import {
    CustomEvent, Event, EventTarget, isEventTarget, kResistStopPropagation, limitOf, listenersOf, setDefaultLimit, setLimit,
} from 'internal:event_target';

const kCapture = Symbol('kCapture');
const kShapeMode = Symbol('shapeMode');
const errorMonitor = Symbol('events.errorMonitor');
const rejection = Symbol.for('nodejs.rejection');
let defaultMaxListeners = 10;
setDefaultLimit(() => defaultMaxListeners);

function EventEmitter(options) {
    EventEmitter.init.call(this, options);
}
export { EventEmitter as default };

EventEmitter.prototype._events = undefined;
EventEmitter.prototype._eventsCount = 0;
EventEmitter.prototype._maxListeners = undefined;
Object.defineProperty(EventEmitter.prototype, kCapture, { value: false, writable: true, enumerable: false });

EventEmitter.init = function (options) {
    if (this._events === undefined || this._events === Object.getPrototypeOf(this)._events) {
        this._events = { __proto__: null };
        this._eventsCount = 0;
        this[kShapeMode] = false;
    } else {
        this[kShapeMode] = true;
    }
    this._maxListeners ||= undefined;
    if (options?.captureRejections) {
        validateBoolean(options.captureRejections, 'options.captureRejections');
        this[kCapture] = Boolean(options.captureRejections);
    } else {
        this[kCapture] = EventEmitter.prototype[kCapture];
    }
    EventEmitter._domainInit?.(this);
};
Object.defineProperty(EventEmitter, '_domainInit', { value: undefined, writable: true, enumerable: false });

EventEmitter.usingDomains = false;
EventEmitter.captureRejectionSymbol = rejection;
EventEmitter.errorMonitor = errorMonitor;
Object.defineProperties(EventEmitter, {
    captureRejections: {
        get: () => EventEmitter.prototype[kCapture],
        set(value) {
            validateBoolean(value, 'EventEmitter.captureRejections');
            EventEmitter.prototype[kCapture] = value;
        },
        enumerable: true,
    },
    defaultMaxListeners: {
        get: () => defaultMaxListeners,
        set(limit) {
            validateNumber(limit, 'defaultMaxListeners', 0);
            defaultMaxListeners = limit;
        },
        enumerable: true,
    },
});

EventEmitter.prototype.setMaxListeners = function setMaxListeners(n) {
    validateNumber(n, 'setMaxListeners', 0);
    this._maxListeners = n;
    return this;
};

function maxListenersOf(emitter) {
    return emitter._maxListeners === undefined ? defaultMaxListeners : emitter._maxListeners;
}

EventEmitter.prototype.getMaxListeners = function getMaxListeners() {
    return maxListenersOf(this);
};

function catchRejection(emitter, promise, type, args) {
    if (!emitter[kCapture]) return;
    try {
        const { then } = promise;
        if (typeof then === 'function') {
            then.call(promise, undefined, (error) => {
                globalThis.process.nextTick(emitRejection, emitter, error, type, args);
            });
        }
    } catch (error) {
        emitter.emit('error', error);
    }
}

function emitRejection(emitter, error, type, args) {
    if (typeof emitter[rejection] === 'function') {
        emitter[rejection](error, type, ...args);
        return;
    }
    const before = emitter[kCapture];
    // The handler of the error must not be captured again.
    try {
        emitter[kCapture] = false;
        emitter.emit('error', error);
    } finally {
        emitter[kCapture] = before;
    }
}

EventEmitter.prototype.emit = function emit(type, ...args) {
    const events = this._events;
    if (type === 'error') {
        if (events !== undefined && events[errorMonitor] !== undefined) this.emit(errorMonitor, ...args);
        if (events === undefined || events.error === undefined) throwUnhandled(args);
    } else if (events === undefined) {
        return false;
    }
    const handler = events[type];
    if (handler === undefined) return false;
    if (typeof handler === 'function') {
        const result = Reflect.apply(handler, this, args);
        if (result !== undefined && result !== null) catchRejection(this, result, type, args);
    } else {
        for (const listener of handler.slice()) {
            const result = Reflect.apply(listener, this, args);
            if (result !== undefined && result !== null) catchRejection(this, result, type, args);
        }
    }
    return true;
};

function throwUnhandled(args) {
    const [error] = args;
    if (error instanceof Error) throw error;
    let text;
    try {
        text = inspect(error);
    } catch {
        text = error;
    }
    const unhandled = new Error(`Unhandled error. (${text})`);
    unhandled.code = 'ERR_UNHANDLED_ERROR';
    unhandled.stack = `Error [ERR_UNHANDLED_ERROR]${String(unhandled.stack).slice(5)}`;
    unhandled.context = error;
    throw unhandled;
}

function checkListener(listener) {
    validateFunction(listener, 'listener');
}

function add(target, type, listener, prepend) {
    checkListener(listener);
    let events = target._events;
    if (events === undefined) {
        events = target._events = { __proto__: null };
        target._eventsCount = 0;
    } else if (events.newListener !== undefined) {
        target.emit('newListener', type, listener.listener ?? listener);
        // The listener may have replaced them.
        events = target._events;
    }
    let existing = events[type];
    if (existing === undefined) {
        events[type] = listener;
        target._eventsCount += 1;
        return target;
    }
    if (typeof existing === 'function') existing = events[type] = prepend ? [listener, existing] : [existing, listener];
    else if (prepend) existing.unshift(listener);
    else existing.push(listener);
    const limit = maxListenersOf(target);
    if (limit > 0 && existing.length > limit && !existing.warned) {
        existing.warned = true;
        const warning = new Error(`Possible EventEmitter memory leak detected. ${existing.length} ${String(type)} listeners added to ` +
            `${inspect(target, { depth: -1 })}. MaxListeners is ${limit}. Use emitter.setMaxListeners() to increase limit`);
        Object.assign(warning, { name: 'MaxListenersExceededWarning', emitter: target, type, count: existing.length });
        globalThis.process.emitWarning(warning);
    }
    return target;
}

EventEmitter.prototype.addListener = function addListener(type, listener) {
    return add(this, type, listener, false);
};
EventEmitter.prototype.on = EventEmitter.prototype.addListener;

EventEmitter.prototype.prependListener = function prependListener(type, listener) {
    return add(this, type, listener, true);
};

function onceWrapper(target, type, listener) {
    const state = { fired: false, wrapped: undefined };
    const wrapped = function (...args) {
        if (state.fired) return undefined;
        target.removeListener(type, wrapped);
        state.fired = true;
        return Reflect.apply(listener, target, args);
    };
    Object.defineProperty(wrapped, 'name', { value: 'bound onceWrapper', configurable: true });
    wrapped.listener = listener;
    return wrapped;
}

EventEmitter.prototype.once = function once(type, listener) {
    checkListener(listener);
    this.on(type, onceWrapper(this, type, listener));
    return this;
};

EventEmitter.prototype.prependOnceListener = function prependOnceListener(type, listener) {
    checkListener(listener);
    this.prependListener(type, onceWrapper(this, type, listener));
    return this;
};

EventEmitter.prototype.removeListener = function removeListener(type, listener) {
    checkListener(listener);
    const events = this._events;
    const list = events?.[type];
    if (list === undefined) return this;
    if (list === listener || list.listener === listener) {
        this._eventsCount -= 1;
        if (this[kShapeMode]) {
            events[type] = undefined;
        } else if (this._eventsCount === 0) {
            this._events = { __proto__: null };
        } else {
            delete events[type];
        }
        if (events.removeListener) this.emit('removeListener', type, list.listener || listener);
    } else if (typeof list !== 'function') {
        const position = list.findLastIndex((other) => other === listener || other.listener === listener);
        if (position < 0) return this;
        if (position === 0) list.shift();
        else list.splice(position, 1);
        if (list.length === 1) events[type] = list[0];
        if (events.removeListener !== undefined) this.emit('removeListener', type, listener);
    }
    return this;
};
EventEmitter.prototype.off = EventEmitter.prototype.removeListener;

EventEmitter.prototype.removeAllListeners = function removeAllListeners(type) {
    const events = this._events;
    if (events === undefined) return this;
    if (events.removeListener === undefined) {
        if (arguments.length === 0) {
            this._events = { __proto__: null };
            this._eventsCount = 0;
        } else if (events[type] !== undefined) {
            this._eventsCount -= 1;
            if (this._eventsCount === 0) this._events = { __proto__: null };
            else delete events[type];
        }
        this[kShapeMode] = false;
        return this;
    }
    if (arguments.length === 0) {
        for (const key of Reflect.ownKeys(events)) if (key !== 'removeListener') this.removeAllListeners(key);
        this.removeAllListeners('removeListener');
        this._events = { __proto__: null };
        this._eventsCount = 0;
        this[kShapeMode] = false;
        return this;
    }
    const listeners = events[type];
    if (typeof listeners === 'function') {
        this.removeListener(type, listeners);
    } else if (listeners !== undefined) {
        for (let at = listeners.length - 1; at >= 0; at--) this.removeListener(type, listeners[at]);
    }
    return this;
};

EventEmitter.prototype.listeners = function listeners(type) {
    return rawListenersOf(this, type).map((listener) => listener.listener || listener);
};

function rawListenersOf(emitter, type) {
    const list = emitter._events?.[type];
    if (list === undefined) return [];
    return typeof list === 'function' ? [list] : list.slice();
}

EventEmitter.prototype.rawListeners = function rawListeners(type) {
    return rawListenersOf(this, type);
};

EventEmitter.prototype.listenerCount = function listenerCount(type, listener) {
    const list = this._events?.[type];
    if (list === undefined) return 0;
    if (typeof list === 'function') return listener === undefined || listener === null || list === listener || list.listener === listener ? 1 : 0;
    if (listener === undefined || listener === null) return list.length;
    return list.filter((other) => other === listener || other.listener === listener).length;
};

EventEmitter.prototype.eventNames = function eventNames() {
    return this._eventsCount > 0 ? Reflect.ownKeys(this._events) : [];
};

EventEmitter.listenerCount = (emitter, type) => {
    return typeof emitter.listenerCount === 'function' ? emitter.listenerCount(type) : EventEmitter.prototype.listenerCount.call(emitter, type);
};

function addTo(emitter, name, listener, flags) {
    if (typeof emitter.on === 'function') {
        if (flags?.once) emitter.once(name, listener);
        else emitter.on(name, listener);
    } else if (typeof emitter.addEventListener === 'function') {
        emitter.addEventListener(name, listener, flags);
    } else {
        throw new ERR_INVALID_ARG_TYPE('emitter', 'EventEmitter', emitter);
    }
}

function removeFrom(emitter, name, listener) {
    if (typeof emitter.removeListener === 'function') emitter.removeListener(name, listener);
    else if (typeof emitter.removeEventListener === 'function') emitter.removeEventListener(name, listener);
    else throw new ERR_INVALID_ARG_TYPE('emitter', 'EventEmitter', emitter);
}

export async function once(emitter, name, options = {}) {
    validateObject(options, 'options');
    const { signal } = options;
    validateAbortSignal(signal, 'options.signal');
    if (signal?.aborted) throw new AbortError(undefined, { cause: signal.reason });
    return new Promise((resolve, reject) => {
        const onError = (error) => {
            emitter.removeListener(name, onEvent);
            if (signal) removeFrom(signal, 'abort', onAbort);
            reject(error);
        };
        const onEvent = (...args) => {
            if (typeof emitter.removeListener === 'function') emitter.removeListener('error', onError);
            if (signal) removeFrom(signal, 'abort', onAbort);
            resolve(args);
        };
        const onAbort = () => {
            removeFrom(emitter, name, onEvent);
            removeFrom(emitter, 'error', onError);
            reject(new AbortError(undefined, { cause: signal.reason }));
        };
        addTo(emitter, name, onEvent, { once: true, [kResistStopPropagation]: true });
        if (name !== 'error' && typeof emitter.once === 'function') emitter.once('error', onError);
        if (signal) addTo(signal, 'abort', onAbort, { once: true, [kResistStopPropagation]: true });
    });
}

const AsyncIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}).prototype);

export function on(emitter, event, options = {}) {
    validateObject(options, 'options');
    const { signal } = options;
    validateAbortSignal(signal, 'options.signal');
    if (signal?.aborted) throw new AbortError(undefined, { cause: signal.reason });
    const high = options.highWaterMark ?? options.highWatermark ?? Number.MAX_SAFE_INTEGER;
    validateInteger(high, 'options.highWaterMark', 1);
    const low = options.lowWaterMark ?? options.lowWatermark ?? 1;
    validateInteger(low, 'options.lowWaterMark', 1);
    const events = [], waiting = [], added = [];
    let paused = false, failure = null, finished = false;

    const listen = (target, name, listener) => {
        addTo(target, name, listener);
        added.push([target, name, listener]);
    };
    const close = () => {
        for (const [target, name, listener] of added.splice(0)) removeFrom(target, name, listener);
        finished = true;
        const result = { value: undefined, done: true };
        for (const { resolve } of waiting.splice(0)) resolve(result);
        return Promise.resolve(result);
    };
    const fail = (error) => {
        if (waiting.length === 0) failure = error;
        else waiting.shift().reject(error);
        close();
    };
    const receive = (...args) => {
        if (waiting.length > 0) {
            waiting.shift().resolve({ value: args, done: false });
            return;
        }
        events.push(args);
        if (!paused && events.length > high) {
            paused = true;
            emitter.pause();
        }
    };

    const iterator = Object.setPrototypeOf({
        next() {
            if (events.length > 0) {
                const value = events.shift();
                if (paused && events.length < low) {
                    emitter.resume();
                    paused = false;
                }
                return Promise.resolve({ value, done: false });
            }
            if (failure !== null) {
                const promise = Promise.reject(failure);
                failure = null;
                return promise;
            }
            if (finished) return close();
            return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
        },
        return() {
            return close();
        },
        throw(error) {
            if (!(error instanceof Error)) throw new ERR_INVALID_ARG_TYPE('EventEmitter.AsyncIterator', 'Error', error);
            fail(error);
        },
        [Symbol.asyncIterator]() {
            return this;
        },
        [Symbol.for('nodejs.watermarkData')]: {
            get size() { return events.length; },
            get low() { return low; },
            get high() { return high; },
            get isPaused() { return paused; },
        },
    }, AsyncIteratorPrototype);

    listen(emitter, event, receive);
    if (event !== 'error' && typeof emitter.on === 'function') listen(emitter, 'error', fail);
    for (const name of options.close ?? []) listen(emitter, name, close);
    if (signal) {
        const stop = addAbortListener(signal, () => fail(new AbortError(undefined, { cause: signal.reason })));
        added.push([{ removeListener: () => stop[Symbol.dispose]() }, 'abort', stop]);
    }
    return iterator;
}

export function getEventListeners(emitterOrTarget, type) {
    if (typeof emitterOrTarget?.listeners === 'function') return emitterOrTarget.listeners(type);
    if (isEventTarget(emitterOrTarget)) return listenersOf(emitterOrTarget, type);
    throw new ERR_INVALID_ARG_TYPE('emitter', ['EventEmitter', 'EventTarget'], emitterOrTarget);
}

export function getMaxListeners(emitterOrTarget) {
    if (typeof emitterOrTarget?.getMaxListeners === 'function') return maxListenersOf(emitterOrTarget);
    if (isEventTarget(emitterOrTarget)) return limitOf(emitterOrTarget);
    throw new ERR_INVALID_ARG_TYPE('emitter', ['EventEmitter', 'EventTarget'], emitterOrTarget);
}

export function setMaxListeners(n = defaultMaxListeners, ...eventTargets) {
    validateNumber(n, 'setMaxListeners', 0);
    if (eventTargets.length === 0) {
        defaultMaxListeners = n;
        return;
    }
    for (const target of eventTargets) {
        if (isEventTarget(target)) setLimit(target, n);
        else if (typeof target?.setMaxListeners === 'function') target.setMaxListeners(n);
        else throw new ERR_INVALID_ARG_TYPE('eventTargets', ['EventEmitter', 'EventTarget'], target);
    }
}

export function addAbortListener(signal, listener) {
    if (signal === undefined) throw new ERR_INVALID_ARG_TYPE('signal', 'AbortSignal', signal);
    validateAbortSignal(signal, 'signal');
    validateFunction(listener, 'listener');
    let remove;
    if (signal.aborted) {
        globalThis.queueMicrotask(() => listener());
    } else {
        signal.addEventListener('abort', listener, { once: true, [kResistStopPropagation]: true });
        remove = () => signal.removeEventListener('abort', listener);
    }
    return { __proto__: null, [Symbol.dispose]() { remove?.(); } };
}

let AsyncResourceClass;

// Loaded when it is first named: node:async_hooks imports this module.
function asyncResourceClass() {
    if (AsyncResourceClass !== undefined) return AsyncResourceClass;
    const { AsyncResource } = globalThis.__skillhost_require('node:async_hooks');
    class EventEmitterReferencingAsyncResource extends AsyncResource {
        #emitter;

        constructor(emitter, type, options) {
            super(type, options);
            this.#emitter = emitter;
        }

        get eventEmitter() {
            return this.#emitter;
        }
    }
    AsyncResourceClass = class EventEmitterAsyncResource extends EventEmitter {
        #resource;

        constructor(options = undefined) {
            let name;
            if (typeof options === 'string') [name, options] = [options, undefined];
            else {
                if (new.target === AsyncResourceClass) validateString(options?.name, 'options.name');
                name = options?.name || new.target.name;
            }
            super(options);
            this.#resource = new EventEmitterReferencingAsyncResource(this, name, options);
        }

        emit(event, ...args) {
            return this.#resource.runInAsyncScope(super.emit, this, event, ...args);
        }

        emitDestroy() {
            this.#resource.emitDestroy();
        }

        get asyncId() { return this.#resource.asyncId(); }
        get triggerAsyncId() { return this.#resource.triggerAsyncId(); }
        get asyncResource() { return this.#resource; }
    };
    return AsyncResourceClass;
}

Object.assign(EventEmitter, { once, on, getEventListeners, getMaxListeners, setMaxListeners, addAbortListener });
EventEmitter.EventEmitter = EventEmitter;
Object.defineProperty(EventEmitter, 'EventEmitterAsyncResource', {
    get: asyncResourceClass,
    set: undefined,
    configurable: true,
    enumerable: true,
});

const { captureRejections, usingDomains, listenerCount, init } = EventEmitter;
export {
    EventEmitter, errorMonitor, captureRejections, rejection as captureRejectionSymbol, defaultMaxListeners, usingDomains, listenerCount, init,
    Event, EventTarget, CustomEvent,
};
