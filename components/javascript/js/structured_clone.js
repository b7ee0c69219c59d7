// structuredClone, by the HTML standard's algorithm.

import { DOMException, isDOMException } from '__wasm_rquickjs_builtin/abort_controller';

// Objects of wasm-rquickjs have a method of this name that clones them.
const cloneMethod = Symbol.for('__wasm_rquickjs.structuredClone');
const ERRORS = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
const REFUSED = [WeakMap, WeakSet, WeakRef, Promise, FinalizationRegistry];
const ports = () => globalThis.MessagePort;

function refuse(shown) {
    throw new DOMException(`${shown} could not be cloned.`, 'DataCloneError');
}

function clone(value, memory) {
    if (typeof value === 'symbol') refuse(value.toString());
    if (typeof value === 'function') refuse(`${value}`);
    if (typeof value !== 'object' || value === null) return value;
    if (memory.has(value)) return memory.get(value);
    const remember = (copy) => {
        memory.set(value, copy);
        return copy;
    };
    if (typeof value[cloneMethod] === 'function') return remember(value[cloneMethod]());
    if (value instanceof Date) return remember(new Date(value.getTime()));
    if (value instanceof RegExp) return remember(new RegExp(value.source, value.flags));
    if (value instanceof Boolean || value instanceof Number || value instanceof String || value instanceof BigInt) return remember(Object(value.valueOf()));
    if (value instanceof ArrayBuffer) return remember(value.slice(0));
    if (typeof SharedArrayBuffer === 'function' && value instanceof SharedArrayBuffer) return value;
    if (ArrayBuffer.isView(value)) return remember(cloneView(value, memory));
    if (isDOMException(value)) return remember(cloneException(value));
    if (value instanceof Error && !(value instanceof DOMException)) return cloneError(value, memory, remember);
    if (value instanceof Map) {
        const copy = remember(new Map());
        for (const [key, item] of [...value]) copy.set(clone(key, memory), clone(item, memory));
        return copy;
    }
    if (value instanceof Set) {
        const copy = remember(new Set());
        for (const item of [...value]) copy.add(clone(item, memory));
        return copy;
    }
    if (REFUSED.some((Class) => value instanceof Class) || value instanceof Symbol) refuse(`#<${value.constructor.name}>`);
    if (typeof ports() === 'function' && value instanceof ports()) refuse('#<MessagePort>');
    if (typeof globalThis.Blob === 'function' && value instanceof globalThis.Blob) return remember(value);
    const copy = remember(Array.isArray(value) ? new Array(value.length) : {});
    for (const key of Object.keys(value)) {
        Object.defineProperty(copy, key, { value: clone(value[key], memory), writable: true, enumerable: true, configurable: true });
    }
    return copy;
}

function cloneView(view, memory) {
    const buffer = clone(view.buffer, memory);
    const Class = globalThis.Buffer?.isBuffer(view) ? Uint8Array : globalThis[view[Symbol.toStringTag] ?? 'DataView'] ?? view.constructor;
    return new Class(buffer, view.byteOffset, view instanceof DataView ? view.byteLength : view.length);
}

function cloneException(exception) {
    const copy = new DOMException(exception.message, exception.name);
    Object.defineProperty(copy, 'stack', { value: exception.stack, writable: true, enumerable: false, configurable: true });
    return copy;
}

function cloneError(error, memory, remember) {
    const Class = Object.hasOwn(ERRORS, error.name) ? ERRORS[error.name] : Error;
    const copy = remember(new Class());
    for (const name of ['message', 'stack', 'cause']) {
        if (name !== 'stack' && !Object.hasOwn(error, name)) continue;
        const value = name === 'cause' ? clone(error.cause, memory) : error[name];
        Object.defineProperty(copy, name, { value, writable: true, enumerable: false, configurable: true });
    }
    return copy;
}

function invalidOption(message) {
    return Object.assign(new TypeError(`Failed to execute 'structuredClone': ${message}`), { code: 'ERR_INVALID_ARG_TYPE' });
}

export default function structuredClone(value, options) {
    if (arguments.length === 0) throw Object.assign(new TypeError("The \"value\" argument must be specified"), { code: 'ERR_MISSING_ARGS' });
    if (options !== undefined && options !== null && typeof options !== 'object' && typeof options !== 'function') {
        throw invalidOption('Options cannot be converted to a dictionary');
    }
    const transfer = options?.transfer;
    if (transfer !== undefined && typeof transfer?.[Symbol.iterator] !== 'function' || typeof transfer === 'string') {
        throw invalidOption('transfer in Options can not be converted to sequence.');
    }
    const memory = new Map();
    for (const item of transfer ?? []) {
        if (memory.has(item)) throw new DOMException('A value is in the list of transferred objects twice', 'DataCloneError');
        if (item instanceof ArrayBuffer) memory.set(item, item.transfer());
        else if (typeof ports() === 'function' && item instanceof ports()) memory.set(item, item);
        else throw new DOMException('Found invalid object in transferList', 'DataCloneError');
    }
    return clone(value, memory);
}
