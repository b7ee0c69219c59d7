// Event, EventTarget and CustomEvent.

import { inspect } from '__wasm_rquickjs_builtin/internal/util/inspect';
import { ERR_INVALID_ARG_TYPE, ERR_INVALID_THIS, ERR_MISSING_ARGS } from '__wasm_rquickjs_builtin/internal/errors';
import { validateAbortSignal, validateObject } from '__wasm_rquickjs_builtin/internal/validators';
import { uptime as elapsed } from 'internal:native/process';

const custom = Symbol.for('nodejs.util.inspect.custom');
const kTrusted = Symbol('kTrustEvent');
const kListeners = Symbol('kEvents');
const kLimit = Symbol('events.maxEventTargetListeners');
const kWarned = Symbol('events.maxEventTargetListenersWarned');
// An option of listeners that run although another one stopped the event.
export const kResistStopPropagation = Symbol('kResistStopPropagation');
const trusted = new WeakSet();
let defaultLimit = () => 10;

export function setDefaultLimit(get) {
    defaultLimit = get;
}

// The object of options by which an event of Node's own is trusted.
export const TRUSTED = { [kTrusted]: true };

const isTrusted = Object.getOwnPropertyDescriptor({ get isTrusted() { return trusted.has(this); } }, 'isTrusted').get;

// The engine's private fields belong to the class: these read them for the others.
let isEvent, begin, end, isDispatched, isStopped, setPassive;

export class Event {
    #type;
    #bubbles;
    #cancelable;
    #composed;
    #defaultPrevented = false;
    #timestamp = elapsed();
    #propagationStopped = false;
    #stopped = false;
    #target = null;
    #dispatched = false;
    #passive = false;

    constructor(type, options = undefined) {
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('type');
        if (options !== undefined && options !== null) validateObject(options, 'options');
        this.#bubbles = Boolean(options?.bubbles);
        this.#cancelable = Boolean(options?.cancelable);
        this.#composed = Boolean(options?.composed);
        this.#type = `${type}`;
        if (options?.[kTrusted]) trusted.add(this);
        Object.defineProperty(this, 'isTrusted', { get: isTrusted, enumerable: true, configurable: false });
    }

    static {
        isEvent = (value) => value !== null && typeof value === 'object' && #type in value;
        begin = (event, target) => {
            event.#target = target;
            event.#dispatched = true;
        };
        end = (event) => {
            event.#dispatched = false;
        };
        isDispatched = (event) => event.#dispatched;
        isStopped = (event) => event.#stopped;
        setPassive = (event, passive) => {
            event.#passive = passive;
        };
    }

    static #checked(event) {
        if (!isEvent(event)) throw new ERR_INVALID_THIS('Event');
        return event;
    }

    initEvent(type, bubbles = false, cancelable = false) {
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('type');
        if (this.#dispatched) return;
        this.#type = `${type}`;
        this.#bubbles = Boolean(bubbles);
        this.#cancelable = Boolean(cancelable);
    }

    [custom](depth, options) {
        Event.#checked(this);
        const name = this.constructor.name;
        if (depth < 0) return name;
        const shown = { type: this.#type, defaultPrevented: this.defaultPrevented, cancelable: this.#cancelable, timeStamp: this.#timestamp };
        return `${name} ${inspect(shown, { ...options, depth: Number.isInteger(options.depth) ? options.depth - 1 : options.depth })}`;
    }

    stopImmediatePropagation() {
        Event.#checked(this).#propagationStopped = true;
        this.#stopped = true;
    }

    preventDefault() {
        Event.#checked(this);
        if (!this.#passive) this.#defaultPrevented = true;
    }

    get target() { return Event.#checked(this).#target; }
    get currentTarget() { return Event.#checked(this).#dispatched ? this.#target : null; }
    get srcElement() { return Event.#checked(this).#target; }
    get type() { return Event.#checked(this).#type; }
    get cancelable() { return Event.#checked(this).#cancelable; }
    get defaultPrevented() { return Event.#checked(this).#cancelable && this.#defaultPrevented; }
    get timeStamp() { return Event.#checked(this).#timestamp; }

    composedPath() {
        return Event.#checked(this).#dispatched ? [this.#target] : [];
    }

    get returnValue() { return !Event.#checked(this).#cancelable || !this.#defaultPrevented; }
    set returnValue(value) { if (!value) this.preventDefault(); }
    get bubbles() { return Event.#checked(this).#bubbles; }
    get composed() { return Event.#checked(this).#composed; }
    get eventPhase() { return Event.#checked(this).#dispatched ? Event.AT_TARGET : Event.NONE; }
    get cancelBubble() { return Event.#checked(this).#propagationStopped; }

    set cancelBubble(value) {
        Event.#checked(this);
        if (value) this.#propagationStopped = true;
    }

    stopPropagation() {
        Event.#checked(this).#propagationStopped = true;
    }
}

// Like the interfaces of the web, whose members are enumerable.
export function makeEnumerable(Class, names) {
    for (const name of names) Object.defineProperty(Class.prototype, name, { enumerable: true });
}

makeEnumerable(Event, [
    'initEvent', 'stopImmediatePropagation', 'preventDefault', 'target', 'currentTarget', 'srcElement', 'type', 'cancelable', 'defaultPrevented',
    'timeStamp', 'composedPath', 'returnValue', 'bubbles', 'composed', 'eventPhase', 'cancelBubble', 'stopPropagation',
]);
for (const [value, name] of ['NONE', 'CAPTURING_PHASE', 'AT_TARGET', 'BUBBLING_PHASE'].entries()) {
    for (const object of [Event, Event.prototype]) Object.defineProperty(object, name, { value, enumerable: true });
}
Object.defineProperty(Event.prototype, Symbol.toStringTag, { value: 'Event', configurable: true });

export { isEvent };

export class CustomEvent extends Event {
    #detail;

    constructor(type, options = undefined) {
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('type');
        super(type, options);
        this.#detail = options?.detail ?? null;
    }

    get detail() {
        if (!(#detail in this)) throw new ERR_INVALID_THIS('CustomEvent');
        return this.#detail;
    }
}
makeEnumerable(CustomEvent, ['detail']);
Object.defineProperty(CustomEvent.prototype, Symbol.toStringTag, { value: 'CustomEvent', configurable: true });

export function isEventTarget(value) {
    return value?.[kListeners] !== undefined;
}

function checked(target) {
    if (!isEventTarget(target)) throw new ERR_INVALID_THIS('EventTarget');
    return target;
}

// Whether a listener can be called. Throws if it is nothing that can be one.
function isListener(listener) {
    if (typeof listener === 'function' || typeof listener?.handleEvent === 'function') return true;
    if (listener === undefined || listener === null) return false;
    if (typeof listener === 'object') return true;
    throw new ERR_INVALID_ARG_TYPE('listener', 'EventListener', listener);
}

function optionsOf(options) {
    if (typeof options === 'boolean') return { capture: options, once: false, passive: false };
    if (options === null || options === undefined) return { capture: false, once: false, passive: false };
    if (typeof options !== 'object' && typeof options !== 'function') throw new ERR_INVALID_ARG_TYPE('options', 'Object', options);
    return {
        once: Boolean(options.once), capture: Boolean(options.capture), passive: Boolean(options.passive), signal: options.signal,
        resists: Boolean(options[kResistStopPropagation]),
    };
}

export class EventTarget {
    constructor() {
        Object.defineProperty(this, kListeners, { value: new Map(), enumerable: false });
    }

    addEventListener(type, listener, options = {}) {
        checked(this);
        if (arguments.length < 2) throw new ERR_MISSING_ARGS('type', 'listener');
        const { once, capture, passive, signal, resists } = optionsOf(options);
        validateAbortSignal(signal, 'options.signal');
        if (!isListener(listener)) {
            const warning = new Error(`addEventListener called with ${listener} which has no effect.`);
            Object.assign(warning, { name: 'AddEventListenerArgumentTypeWarning', target: this, type });
            globalThis.process.emitWarning(warning);
            return;
        }
        type = `${type}`;
        if (signal) {
            if (signal.aborted) return;
            signal.addEventListener('abort', () => this.removeEventListener(type, listener, options), { once: true, [kResistStopPropagation]: true });
        }
        let list = this[kListeners].get(type);
        if (list === undefined) this[kListeners].set(type, list = []);
        if (list.some((other) => other.listener === listener && other.capture === capture)) return;
        list.push({ listener, once, capture, passive, resists, removed: false });
        warnOfMany(this, list.length, type);
    }

    removeEventListener(type, listener, options = {}) {
        checked(this);
        if (arguments.length < 2) throw new ERR_MISSING_ARGS('type', 'listener');
        if (!isListener(listener)) return;
        type = `${type}`;
        const capture = typeof options === 'boolean' ? options : Boolean(options?.capture);
        const list = this[kListeners].get(type);
        const index = list?.findIndex((other) => other.listener === listener && other.capture === capture) ?? -1;
        if (index < 0) return;
        list[index].removed = true;
        this[kListeners].set(type, list.toSpliced(index, 1));
    }

    dispatchEvent(event) {
        checked(this);
        if (arguments.length < 1) throw new ERR_MISSING_ARGS('event');
        if (!isEvent(event)) throw new ERR_INVALID_ARG_TYPE('event', 'Event', event);
        if (isDispatched(event)) {
            throw Object.assign(new Error(`The event "${event.type}" is already being dispatched`), { code: 'ERR_EVENT_RECURSION' });
        }
        dispatch(this, event);
        return event.defaultPrevented !== true;
    }

    [custom](depth, options) {
        if (!isEventTarget(this)) return this;
        const { name } = this.constructor;
        if (depth < 0) return name;
        return `${name} ${inspect({}, { ...options, depth: Number.isInteger(options.depth) ? options.depth - 1 : options.depth })}`;
    }
}
makeEnumerable(EventTarget, ['addEventListener', 'removeEventListener', 'dispatchEvent']);
Object.defineProperty(EventTarget.prototype, Symbol.toStringTag, { value: 'EventTarget', configurable: true });

function dispatch(target, event) {
    begin(event, target);
    for (const entry of [...target[kListeners].get(event.type) ?? []]) {
        if (entry.removed || isStopped(event) && !entry.resists) continue;
        if (entry.once) target.removeEventListener(event.type, entry.listener, { capture: entry.capture });
        setPassive(event, entry.passive);
        try {
            const { listener } = entry;
            const result = typeof listener === 'function' ? Reflect.apply(listener, target, [event]) : listener.handleEvent(event);
            if (result !== undefined && result !== null && typeof result.then === 'function') result.then(undefined, report);
        } catch (error) {
            report(error);
        }
    }
    setPassive(event, false);
    end(event);
}

function report(error) {
    globalThis.process.nextTick(() => {
        throw error;
    });
}

function warnOfMany(target, count, type) {
    const limit = limitOf(target);
    if (!(limit > 0 && count > limit) || target[kWarned]) return;
    Object.defineProperty(target, kWarned, { value: true, writable: true, configurable: true, enumerable: false });
    const warning = new Error(`Possible EventTarget memory leak detected. ${count} ${type} listeners added to ${inspect(target, { depth: -1 })}. ` +
        `MaxListeners is ${limit}. Use events.setMaxListeners() to increase limit`);
    Object.assign(warning, { name: 'MaxListenersExceededWarning', target, type, count });
    globalThis.process.emitWarning(warning);
}

export function limitOf(target) {
    return target[kLimit] ?? defaultLimit();
}

export function setLimit(target, limit) {
    Object.defineProperty(target, kLimit, { value: limit, writable: true, configurable: true, enumerable: false });
    Object.defineProperty(target, kWarned, { value: false, writable: true, configurable: true, enumerable: false });
}

// Returns the listeners of a type.
export function listenersOf(target, type) {
    return (target[kListeners].get(`${type}`) ?? []).map(({ listener }) => listener);
}

// Defines the property `onNAME` of a class of targets.
export function defineEventHandler(prototype, name, type = name) {
    const handlers = new WeakMap();
    Object.defineProperty(prototype, `on${name}`, {
        get() {
            return handlers.get(this)?.handler ?? null;
        },
        set(handler) {
            if (typeof handler !== 'function' && (handler === null || typeof handler !== 'object')) handler = null;
            const entry = handlers.get(this);
            if (entry !== undefined) {
                entry.handler = handler;
                return;
            }
            if (handler === null) return;
            const created = { handler };
            handlers.set(this, created);
            this.addEventListener(type, function (event) {
                if (typeof created.handler === 'function') return Reflect.apply(created.handler, this, [event]);
            });
        },
        configurable: true,
        enumerable: true,
    });
}
