// AbortController, AbortSignal and DOMException.

import { inspect } from '__wasm_rquickjs_builtin/internal/util/inspect';
import { ERR_ILLEGAL_CONSTRUCTOR, ERR_INVALID_ARG_TYPE, ERR_INVALID_THIS } from '__wasm_rquickjs_builtin/internal/errors';
import { validateUint32 } from '__wasm_rquickjs_builtin/internal/validators';
import { defineEventHandler, Event, EventTarget, makeEnumerable, TRUSTED, setLimit } from 'internal:event_target';

const CODES = {
    __proto__: null, IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5, NoModificationAllowedError: 7,
    NotFoundError: 8, NotSupportedError: 9, InUseAttributeError: 10, InvalidStateError: 11, SyntaxError: 12, InvalidModificationError: 13,
    NamespaceError: 14, InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18, NetworkError: 19, AbortError: 20, URLMismatchError: 21,
    QuotaExceededError: 22, TimeoutError: 23, InvalidNodeTypeError: 24, DataCloneError: 25,
};
const custom = Symbol.for('nodejs.util.inspect.custom');

export class DOMException extends Error {
    #name;

    constructor(message = '', options = 'Error') {
        super(`${message}`);
        if (options !== null && typeof options === 'object') {
            this.#name = 'name' in options ? `${options.name}` : 'Error';
            if ('cause' in options) Object.defineProperty(this, 'cause', { value: options.cause, configurable: true, writable: true, enumerable: false });
        } else {
            this.#name = `${options}`;
        }
        const { stack } = this;
        if (typeof stack === 'string' && stack.startsWith('Error') && !stack.startsWith(this.#name)) this.stack = this.#name + stack.slice('Error'.length);
        Object.defineProperty(this, 'stack', { enumerable: false });
    }

    static _is(value) {
        return value !== null && typeof value === 'object' && #name in value;
    }

    get name() {
        if (!(#name in this)) throw new ERR_INVALID_THIS('DOMException');
        return this.#name;
    }

    get code() {
        if (!(#name in this)) throw new ERR_INVALID_THIS('DOMException');
        return CODES[this.#name] ?? 0;
    }
}
makeEnumerable(DOMException, ['name', 'code']);

export const isDOMException = DOMException._is;
delete DOMException._is;

function show(self, fields, depth, options) {
    if (depth < 0) return options.stylize(`[${self.constructor.name}]`, 'special');
    const shown = inspect(fields, { ...options, depth: options.depth == null ? null : options.depth - 1 });
    return `${self.constructor.name} ${shown}`;
}

let create, abort;
const DEFAULT = Symbol();

export class AbortSignal extends EventTarget {
    #aborted = false;
    #reason;
    #dependents = [];

    static {
        create = (aborted = false, reason = undefined) => {
            const signal = new AbortSignal(DEFAULT);
            signal.#aborted = aborted;
            signal.#reason = reason;
            return signal;
        };
        abort = (signal, reason) => {
            if (signal.#aborted) return;
            signal.#aborted = true;
            signal.#reason = reason;
            const dependents = signal.#dependents.filter((dependent) => !dependent.#aborted);
            for (const dependent of dependents) {
                dependent.#aborted = true;
                dependent.#reason = reason;
            }
            for (const one of [signal, ...dependents]) one.dispatchEvent(new Event('abort', TRUSTED));
        };
    }

    constructor(token) {
        if (token !== DEFAULT) throw new ERR_ILLEGAL_CONSTRUCTOR();
        super();
    }

    static #checked(signal) {
        if (signal === null || typeof signal !== 'object' || !(#aborted in signal)) throw new ERR_INVALID_THIS('AbortSignal');
        return signal;
    }

    get aborted() {
        return AbortSignal.#checked(this).#aborted;
    }

    get reason() {
        return AbortSignal.#checked(this).#reason;
    }

    throwIfAborted() {
        if (AbortSignal.#checked(this).#aborted) throw this.#reason;
    }

    [custom](depth, options) {
        return show(this, { aborted: this.aborted }, depth, options);
    }

    static abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
        return create(true, reason);
    }

    static timeout(delay) {
        validateUint32(delay, 'delay', false);
        const signal = create();
        globalThis.setTimeout(() => abort(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError')), delay).unref();
        return signal;
    }

    static any(signals) {
        if (signals === null || typeof signals !== 'object' || typeof signals[Symbol.iterator] !== 'function') {
            throw new ERR_INVALID_ARG_TYPE('signals', 'Iterable', signals);
        }
        const sources = [...signals];
        sources.forEach((source, index) => {
            if (source === null || typeof source !== 'object' || !(#aborted in source)) throw new ERR_INVALID_ARG_TYPE(`signals[${index}]`, 'AbortSignal', source);
        });
        const result = create();
        for (const source of sources) {
            if (source.#aborted) {
                result.#aborted = true;
                result.#reason = source.#reason;
                return result;
            }
        }
        for (const source of sources) {
            // A combined signal depends on what its own parts depend on.
            for (const origin of source.#origins ?? [source]) {
                origin.#dependents.push(result);
                (result.#origins ??= []).push(origin);
            }
        }
        return result;
    }

    #origins;
}
makeEnumerable(AbortSignal, ['aborted', 'reason', 'throwIfAborted']);
defineEventHandler(AbortSignal.prototype, 'abort');
setLimit(AbortSignal.prototype, 0);
Object.defineProperty(AbortSignal.prototype, Symbol.toStringTag, { value: 'AbortSignal', configurable: true });

export class AbortController {
    #signal = create();

    static #checked(controller) {
        if (controller === null || typeof controller !== 'object' || !(#signal in controller)) throw new ERR_INVALID_THIS('AbortController');
        return controller;
    }

    get signal() {
        return AbortController.#checked(this).#signal;
    }

    abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
        abort(AbortController.#checked(this).#signal, reason);
    }

    [custom](depth, options) {
        return show(this, { signal: this.signal }, depth, options);
    }
}
makeEnumerable(AbortController, ['signal', 'abort']);
Object.defineProperty(AbortController.prototype, Symbol.toStringTag, { value: 'AbortController', configurable: true });
