// node:vm over the one context of the program, and contexts of the engine for `createContext`.

import * as native from 'internal:native/vm';
import { ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE } from '__wasm_rquickjs_builtin/internal/errors';

const contexts = new WeakSet();

export class Script {
    #code;
    #filename;

    constructor(code, options) {
        this.#code = `${code}`;
        this.#filename = (typeof options === 'string' ? options : options?.filename) ?? 'evalmachine.<anonymous>';
        native.checkScript(this.#filename, this.#code);
    }

    runInThisContext(options) {
        return native.evalScript(this.#filename, this.#code, 1, timeoutOf(options));
    }

    runInContext(context, options) {
        if (!isContext(context)) throw new ERR_INVALID_ARG_TYPE('contextifiedObject', 'vm.Context', context);
        return runWith(context, this.#code, this.#filename, timeoutOf(options));
    }

    runInNewContext(object = {}, options) {
        return this.runInContext(createContext(object), options);
    }

    createCachedData() {
        return globalThis.Buffer.alloc(0);
    }
}

// The names of the code are looked up in the object first. Declarations of the code become properties of the object.
function runWith(object, code, filename, timeout) {
    return native.evalWith(object, filename, code, timeout);
}

// Returns the timeout in milliseconds; 0 without one.
function timeoutOf(options) {
    const timeout = options?.timeout;
    if (timeout === undefined) return 0;
    if (typeof timeout !== 'number') throw new ERR_INVALID_ARG_TYPE('options.timeout', 'number', timeout);
    if (!(timeout > 0)) throw new ERR_OUT_OF_RANGE('options.timeout', '>= 1', timeout);
    return timeout;
}

export function createContext(object = {}) {
    if (object === constants.DONT_CONTEXTIFY) object = {};
    if (object === null || typeof object !== 'object') throw new ERR_INVALID_ARG_TYPE('contextObject', 'Object', object);
    contexts.add(object);
    return object;
}

export function isContext(object) {
    if (object === null || typeof object !== 'object') throw new ERR_INVALID_ARG_TYPE('object', 'Object', object);
    return contexts.has(object);
}

export function runInThisContext(code, options) {
    return new Script(code, options).runInThisContext(options);
}

export function runInContext(code, context, options) {
    return new Script(code, options).runInContext(context, options);
}

export function runInNewContext(code, object, options) {
    return new Script(code, options).runInNewContext(object, options);
}

export function compileFunction(code, params = [], options = {}) {
    return native.evalScript(options.filename ?? '', `(function (${params.join(', ')}) {\n${code}\n})`, 0);
}

export function measureMemory() {
    return Promise.resolve({ total: { jsMemoryEstimate: 0, jsMemoryRange: [0, 0] } });
}

export const constants = Object.freeze({
    __proto__: null, USE_MAIN_CONTEXT_DEFAULT_LOADER: Symbol('vm_dynamic_import_main_context_default'), DONT_CONTEXTIFY: Symbol('vm_context_no_contextify'),
});

export function createScript(code, options) {
    return new Script(code, options);
}

export default { Script, createContext, createScript, isContext, runInThisContext, runInContext, runInNewContext, compileFunction, measureMemory, constants };
