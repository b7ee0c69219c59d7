// node:vm: scripts in the realm of the program, and in realms of their own, whose global objects pass everything on to the program's object.

import * as native from 'internal:native/vm';
import * as loop from 'internal:native/loop';
import { ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE } from '__wasm_rquickjs_builtin/internal/errors';
import {
    validateArray, validateBoolean, validateInt32, validateObject, validateOneOf, validateString, validateUint32,
} from '__wasm_rquickjs_builtin/internal/validators';
import { contexts, createOrigin, digestOf, hasModules, DEFAULT_LOADER } from 'internal:vm_origins';

export const constants = Object.freeze({
    __proto__: null, USE_MAIN_CONTEXT_DEFAULT_LOADER: DEFAULT_LOADER, DONT_CONTEXTIFY: Symbol('vm_context_no_contextify'),
});

export class Script {
    #code;
    #filename;
    #line;
    #origin;

    constructor(code, options = {}) {
        code = `${code}`;
        if (typeof options === 'string') options = { filename: options };
        else validateObject(options, 'options');
        const { filename = 'evalmachine.<anonymous>', lineOffset = 0, columnOffset = 0, cachedData, produceCachedData = false } = options;
        validateString(filename, 'options.filename');
        validateInt32(lineOffset, 'options.lineOffset');
        validateInt32(columnOffset, 'options.columnOffset');
        validateCachedData(cachedData);
        validateBoolean(produceCachedData, 'options.produceCachedData');
        validateImport(options.importModuleDynamically);
        this.#origin = createOrigin(options.importModuleDynamically, filename, this);
        this.#code = columnOffset > 0 ? ' '.repeat(columnOffset) + code : code;
        this.#filename = filename;
        this.#line = lineOffset + 1;
        decorated(filename, this.#code, this.#line, () => native.checkScript(filename, this.#code, this.#line));
        if (cachedData !== undefined) this.cachedDataRejected = !sameData(cachedData, this.createCachedData());
        if (produceCachedData) {
            this.cachedDataProduced = true;
            this.cachedData = this.createCachedData();
        }
        this.sourceMapURL = sourceMapOf(code);
    }

    runInThisContext(options) {
        const { timeout } = runOptions(options);
        return this.#run(options, () => native.evalScript(this.#filename, this.#code, this.#line, timeout, mainOrigin(this.#origin)));
    }

    #run(options, evaluate) {
        return options?.displayErrors === false ? evaluate() : decorated(this.#filename, this.#code, this.#line, evaluate);
    }

    runInContext(contextifiedObject, options) {
        const context = contextOf(contextifiedObject, 'contextifiedObject', 'vm.Context');
        const { timeout } = runOptions(options);
        const result = this.#run(options, () => native.evalIn(context.realm, this.#filename, this.#code, this.#line, timeout, this.#origin.number));
        if (context.microtasks) loop.runMicrotasks();
        return result;
    }

    runInNewContext(contextObject, options) {
        return this.runInContext(createContext(contextObject, newContextOptions(options)), options);
    }

    createCachedData() {
        return digestOf(this.#code);
    }
}

// The loader finds the imports of code in the realm of the program.
function mainOrigin(origin) {
    return origin.importer === DEFAULT_LOADER ? 0 : origin.number;
}

// The stack of an error of a script begins with the line that it was thrown in.
function decorated(filename, code, first, evaluate) {
    try {
        return evaluate();
    } catch (error) {
        if (error !== null && typeof error === 'object' && typeof error.stack === 'string' && !decoratedErrors.has(error)) {
            decoratedErrors.add(error);
            // The realm of a context has the frames as the engine writes them.
            if (error.stack.startsWith('    at ')) {
                const frames = error.stack.trimEnd().split('\n').map((frame) => frame.replace(/^    at (?:<eval>|<anonymous>) \((.*)\)$/, '    at $1'));
                error.stack = [`${error}`, ...frames.filter((frame) => !/\(native\)$|node:module:/.test(frame))].join('\n');
            }
            const found = error.stack.split('\n').map((line) => line.endsWith(')') ? line.slice(0, -1) : line)
                .map((line) => /^(.*?)(\S.*):(\d+):(\d+)$/.exec(line)).find((match) => match?.[0].endsWith(`${filename}:${match[3]}:${match[4]}`));
            if (found) {
                const line = code.split('\n')[+found[3] - first];
                if (line !== undefined) error.stack = `${filename}:${found[3]}\n${line}\n${' '.repeat(Math.max(0, +found[4] - 1))}^\n\n${error.stack}`;
            }
        }
        throw error;
    }
}
const decoratedErrors = new WeakSet();

function sameData(given, own) {
    return own.equals(new Uint8Array(given.buffer, given.byteOffset, given.byteLength));
}

function sourceMapOf(code) {
    const found = [...code.matchAll(/\/\/[#@] sourceMappingURL=(\S+)\s*$/gm)].pop();
    return found?.[1];
}

function validateCachedData(cachedData) {
    if (cachedData !== undefined && !ArrayBuffer.isView(cachedData)) {
        throw new ERR_INVALID_ARG_TYPE('options.cachedData', ['Buffer', 'TypedArray', 'DataView'], cachedData);
    }
}

function validateImport(value) {
    if (value !== undefined && typeof value !== 'function' && value !== constants.USE_MAIN_CONTEXT_DEFAULT_LOADER) {
        throw new ERR_INVALID_ARG_TYPE('options.importModuleDynamically', 'function', value);
    }
}

function runOptions(options = {}) {
    validateObject(options, 'options');
    const { timeout, breakOnSigint = false, displayErrors = true } = options;
    if (timeout !== undefined) validateUint32(timeout, 'options.timeout', true);
    validateBoolean(displayErrors, 'options.displayErrors');
    validateBoolean(breakOnSigint, 'options.breakOnSigint');
    return { timeout: timeout ?? 0 };
}

function newContextOptions(options) {
    if (options === undefined) return {};
    validateObject(options, 'options');
    const { contextName, contextOrigin, contextCodeGeneration, microtaskMode } = options;
    if (contextName !== undefined) validateString(contextName, 'options.contextName');
    if (contextOrigin !== undefined) validateString(contextOrigin, 'options.contextOrigin');
    if (contextCodeGeneration !== undefined) {
        validateObject(contextCodeGeneration, 'options.contextCodeGeneration');
        const { strings, wasm } = contextCodeGeneration;
        if (strings !== undefined) validateBoolean(strings, 'options.contextCodeGeneration.strings');
        if (wasm !== undefined) validateBoolean(wasm, 'options.contextCodeGeneration.wasm');
    }
    if (microtaskMode !== undefined) validateString(microtaskMode, 'options.microtaskMode');
    const result = {};
    if (contextName !== undefined) result.name = contextName;
    if (contextOrigin !== undefined) result.origin = contextOrigin;
    if (contextCodeGeneration !== undefined) result.codeGeneration = contextCodeGeneration;
    if (microtaskMode !== undefined) result.microtaskMode = microtaskMode;
    return result;
}

let number = 1;

export function createContext(contextObject = {}, options = {}) {
    const own = contextObject === constants.DONT_CONTEXTIFY;
    if (!own && isContext(contextObject)) return contextObject;
    validateObject(options, 'options');
    const { name = `VM Context ${number++}`, origin, codeGeneration, microtaskMode } = options;
    validateString(name, 'options.name');
    if (origin !== undefined) validateString(origin, 'options.origin');
    let strings = true;
    if (codeGeneration !== undefined) {
        validateObject(codeGeneration, 'options.codeGeneration');
        ({ strings = true } = codeGeneration);
        validateBoolean(strings, 'options.codeGeneration.strings');
        validateBoolean(codeGeneration.wasm ?? true, 'options.codeGeneration.wasm');
    }
    validateOneOf(microtaskMode, 'options.microtaskMode', ['afterEvaluate', undefined]);
    validateImport(options.importModuleDynamically);
    const { realm, global } = native.createRealm();
    furnish(global, strings);
    const context = {
        realm, global, microtasks: microtaskMode === 'afterEvaluate', importer: options.importModuleDynamically, object: own ? global : contextObject,
    };
    remember(own ? global : contextObject);
    if (own) {
        contexts.set(global, context);
        return global;
    }
    const proxy = new Proxy(global, handlerOf(contextObject, () => proxy));
    native.setGlobal(realm, proxy);
    Object.defineProperty(global, 'globalThis', { value: proxy, writable: true, configurable: true, enumerable: false });
    contexts.set(contextObject, context);
    contexts.set(proxy, context);
    return contextObject;
}

// Gives a new realm what the engine does not.
function furnish(global, strings) {
    const define = (target, name, value) => Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false });
    define(global.Math, 'random', Math.random);
    for (const name of ['performance', 'DOMException', 'atob', 'btoa', 'queueMicrotask', 'navigator']) delete global[name];
    const console = new global.Object();
    for (const name of Object.keys(globalThis.console)) define(console, name, () => {});
    define(global, 'console', console);
    Object.defineProperty(global, 'Intl', { get: () => globalThis.Intl, set(value) { define(global, 'Intl', value); }, configurable: true, enumerable: false });
    if (strings) return;
    const refuse = () => {
        throw new global.EvalError('Code generation from strings disallowed for this context');
    };
    define(global, 'eval', refuse);
    const Function = function Function() { refuse(); };
    Function.prototype = global.Function.prototype;
    define(global.Function.prototype, 'constructor', Function);
    define(global, 'Function', Function);
}

// The traps of a context's global object: the properties of the program's object come first. Inside, that object is the global object itself.
function handlerOf(object, proxy) {
    return {
        get(target, key) {
            const value = key in object ? Reflect.get(object, key) : Reflect.get(target, key);
            return value === object ? proxy() : value;
        },
        has(target, key) {
            return key in object || key in target;
        },
        set(target, key, value) {
            const own = Reflect.getOwnPropertyDescriptor(target, key);
            if (own !== undefined && !own.configurable && !own.writable) return false;
            return Reflect.set(object, key, value);
        },
        getOwnPropertyDescriptor(target, key) {
            const own = Reflect.getOwnPropertyDescriptor(object, key);
            if (own === undefined) return Reflect.getOwnPropertyDescriptor(target, key);
            // The proxy may only show properties that cannot change if its target has them.
            if (!own.configurable && !Reflect.defineProperty(target, key, own)) own.configurable = true;
            return own;
        },
        defineProperty(target, key, descriptor) {
            const own = Reflect.getOwnPropertyDescriptor(target, key);
            if (own !== undefined && !own.configurable) return false;
            const done = Reflect.defineProperty(object, key, descriptor);
            if (done && descriptor.configurable === false) Reflect.defineProperty(target, key, descriptor);
            return done;
        },
        deleteProperty(target, key) {
            return Reflect.deleteProperty(object, key) && Reflect.deleteProperty(target, key);
        },
        ownKeys(target) {
            return [...new Set([...Reflect.ownKeys(object), ...Reflect.ownKeys(target)])];
        },
        getPrototypeOf: (target) => Reflect.getPrototypeOf(target),
        isExtensible: (target) => Reflect.isExtensible(target),
        preventExtensions: () => false,
    };
}

function contextOf(object, name, type) {
    if (object === null || typeof object !== 'object' && typeof object !== 'function') throw new ERR_INVALID_ARG_TYPE(name, 'Object', object);
    const context = contexts.get(object);
    if (context === undefined) throw new ERR_INVALID_ARG_TYPE(name, type, object);
    return context;
}

export function isContext(object) {
    if (object === null || typeof object !== 'object' && typeof object !== 'function') throw new ERR_INVALID_ARG_TYPE('object', 'Object', object);
    return contexts.has(object);
}

function fileOptions(options) {
    return typeof options === 'string' ? { filename: options } : options;
}

export function runInThisContext(code, options) {
    options = fileOptions(options);
    return new Script(code, options).runInThisContext(options);
}

export function runInContext(code, contextifiedObject, options) {
    contextOf(contextifiedObject, 'contextifiedObject', 'vm.Context');
    options = fileOptions(options);
    return new Script(code, options).runInContext(contextifiedObject, options);
}

export function runInNewContext(code, contextObject, options) {
    options = fileOptions(options);
    return runInContext(code, createContext(contextObject, newContextOptions(options)), options);
}

export function compileFunction(code, params, options = {}) {
    validateString(code, 'code');
    validateObject(options, 'options');
    if (params !== undefined) {
        validateArray(params, 'params');
        params.forEach((param, index) => validateString(param, `params[${index}]`));
    }
    const {
        filename = '', columnOffset = 0, lineOffset = 0, cachedData, produceCachedData = false, parsingContext, contextExtensions = [],
    } = options;
    validateString(filename, 'options.filename');
    validateInt32(columnOffset, 'options.columnOffset');
    validateInt32(lineOffset, 'options.lineOffset');
    validateCachedData(cachedData);
    validateBoolean(produceCachedData, 'options.produceCachedData');
    if (parsingContext !== undefined && !(parsingContext !== null && typeof parsingContext === 'object' && contexts.has(parsingContext))) {
        throw new ERR_INVALID_ARG_TYPE('options.parsingContext', 'Context', parsingContext);
    }
    validateArray(contextExtensions, 'options.contextExtensions');
    contextExtensions.forEach((extension, index) => {
        if (extension === null || typeof extension !== 'object' && typeof extension !== 'function') {
            throw new ERR_INVALID_ARG_TYPE(`options.contextExtensions[${index}]`, 'Object', extension);
        }
    });
    validateImport(options.importModuleDynamically);
    const names = contextExtensions.map((_, index) => `__extension${index}`);
    const inner = `(function (${(params ?? []).join(',')}) {\n${code}\n})`;
    const text = names.length === 0 ? inner : `(function (${names.join(',')}) { ${names.map((name) => `with (${name}) `).join('')}return ${inner}; })`;
    const origin = createOrigin(options.importModuleDynamically, filename);
    const evaluated = parsingContext === undefined ? native.evalScript(filename, text, lineOffset, 0, mainOrigin(origin))
        : native.evalIn(contexts.get(parsingContext).realm, filename, text, lineOffset, 0, origin.number);
    const compiled = names.length === 0 ? evaluated : evaluated(...contextExtensions);
    origin.referrer = compiled;
    Object.defineProperty(compiled, 'name', { value: '', configurable: true });
    if (cachedData !== undefined) compiled.cachedDataRejected = false;
    if (produceCachedData) {
        compiled.cachedDataProduced = true;
        compiled.cachedData = new Script('').createCachedData();
    }
    return compiled;
}

export function measureMemory(options = {}) {
    validateObject(options, 'options');
    const { mode = 'summary', execution = 'default' } = options;
    validateOneOf(mode, 'options.mode', ['summary', 'detailed']);
    validateOneOf(execution, 'options.execution', ['default', 'eager']);
    if (!measureMemory.isWarned) {
        Object.defineProperty(measureMemory, 'isWarned', { value: true });
        globalThis.process.emitWarning('vm.measureMemory is an experimental feature and might change at any time', 'ExperimentalWarning');
    }
    const used = globalThis.process.memoryUsage().heapUsed;
    const result = { total: { jsMemoryEstimate: used, jsMemoryRange: [used, used] } };
    if (mode === 'detailed') {
        // The engine does not know which realm an object belongs to.
        result.current = { jsMemoryEstimate: used, jsMemoryRange: [0, used] };
        result.other = created.filter((context) => context.deref() !== undefined).map(() => ({ jsMemoryEstimate: 0, jsMemoryRange: [0, used] }));
    }
    return Promise.resolve(result);
}
// The contexts that were created, as long as they are used.
let created = [], limit = 16;

function remember(context) {
    created.push(new WeakRef(context));
    if (created.length < limit) return;
    created = created.filter((other) => other.deref() !== undefined);
    limit = 16 + 2 * created.length;
}

export function createScript(code, options) {
    return new Script(code, options);
}

const vm = { Script, createContext, createScript, isContext, runInThisContext, runInContext, runInNewContext, compileFunction, measureMemory, constants };
export let Module, SourceTextModule, SyntheticModule;
if (hasModules()) {
    ({ Module, SourceTextModule, SyntheticModule } = native.importBuiltin('internal:vm_modules'));
    Object.assign(vm, { Module, SourceTextModule, SyntheticModule });
}
export default vm;
