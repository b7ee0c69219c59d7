// The modules of node:vm, which `--experimental-vm-modules` adds: their texts are the caller's, and the caller says what their imports mean.

import * as native from 'internal:native/vm';
import process from 'node:process';
import { inspect } from '__wasm_rquickjs_builtin/internal/util/inspect';
import { isModuleNamespaceObject } from '__wasm_rquickjs_builtin/internal/util/types';
import { ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_INVALID_THIS } from '__wasm_rquickjs_builtin/internal/errors';
import {
    validateArray, validateBoolean, validateFunction, validateInt32, validateObject, validateString, validateUint32,
} from '__wasm_rquickjs_builtin/internal/validators';
import { contexts, createOrigin, digestOf } from 'internal:vm_origins';

const STATUSES = ['unlinked', 'linking', 'linked', 'evaluating', 'evaluated', 'evaluated', 'errored'];

// What the engine knows of a module: `pointer` and `realm`; and the modules that it imports, once they are `linked`.
const wraps = new WeakMap();
const numbers = new WeakMap();
let lastNumber = 0;
let isWarned = false;

const failure = (code, message, options) => Object.assign(new Error(message, options), { code });
const notModule = () => failure('ERR_VM_MODULE_NOT_MODULE', 'Provided module is not an instance of Module');
const wrongStatus = (which) => failure('ERR_VM_MODULE_STATUS', `Module status ${which}`);
const linkFailure = (message, options) => failure('ERR_VM_MODULE_LINK_FAILURE', message, options);

function isModule(value) {
    return value !== null && typeof value === 'object' && wraps.has(value);
}

function wrapOf(module) {
    const wrap = module !== null && typeof module === 'object' ? wraps.get(module) : undefined;
    if (wrap === undefined) throw new ERR_INVALID_THIS('Module');
    return wrap;
}

// The namespace that an `import()` resolves to, for what `importModuleDynamically` returned.
export function namespaceOf(value) {
    if (isModuleNamespaceObject(value)) return value;
    if (!isModule(value)) throw notModule();
    if (value.status === 'errored') throw value.error;
    return value.namespace;
}

function identify(identifier, context) {
    if (identifier !== undefined) {
        validateString(identifier, 'options.identifier');
        return identifier;
    }
    if (context === undefined) return `vm:module(${lastNumber++})`;
    const number = numbers.get(context) ?? 0;
    numbers.set(context, number + 1);
    return `vm:module(${number})`;
}

export class Module {
    constructor(options, create) {
        if (new.target === Module) throw new TypeError('Module is not a constructor');
        if (!isWarned) {
            isWarned = true;
            process.emitWarning('VM Modules is an experimental feature and might change at any time', 'ExperimentalWarning');
        }
        const { context } = options;
        if (context !== undefined) {
            if (typeof context !== 'object' || context === null) throw new ERR_INVALID_ARG_TYPE('options.context', 'Object', context);
            if (!contexts.has(context)) throw new ERR_INVALID_ARG_TYPE('options.context', 'vm.Context', context);
        }
        const identifier = identify(options.identifier, context);
        const realm = context === undefined ? undefined : contexts.get(context).realm;
        wraps.set(this, { pointer: create(realm, identifier, this), realm, context, identifier, linked: undefined });
    }

    get identifier() {
        return wrapOf(this).identifier;
    }

    get context() {
        return wrapOf(this).context;
    }

    get namespace() {
        const { pointer, realm } = wrapOf(this);
        if (native.moduleStatus(pointer) < 2) throw wrongStatus('must not be unlinked or linking');
        return native.moduleNamespace(realm, pointer);
    }

    get status() {
        return STATUSES[native.moduleStatus(wrapOf(this).pointer)];
    }

    get error() {
        const { pointer } = wrapOf(this);
        if (STATUSES[native.moduleStatus(pointer)] !== 'errored') throw wrongStatus('must be errored');
        return native.moduleError(pointer);
    }

    async link(linker) {
        wrapOf(this);
        validateFunction(linker, 'linker');
        if (this.status === 'linked') throw failure('ERR_VM_MODULE_ALREADY_LINKED', 'Module has already been linked');
        if (this.status !== 'unlinked') throw wrongStatus('must be unlinked');
        await link(this, linker);
        instantiate(this);
    }

    evaluate(options = {}) {
        try {
            return evaluate(this, options);
        } catch (error) {
            return Promise.reject(error);
        }
    }

    [inspect.custom](depth, options) {
        wrapOf(this);
        const { constructor } = this;
        if (typeof depth === 'number' && depth < 0) return options.stylize(`[${constructor.name}]`, 'special');
        const shown = { status: this.status, identifier: this.identifier, context: this.context };
        Object.setPrototypeOf(shown, Object.getPrototypeOf(this));
        Object.defineProperty(shown, Symbol.toStringTag, { value: constructor.name, configurable: true });
        return inspect(shown, { ...options, customInspect: false });
    }
}

function evaluate(module, options) {
    const wrap = wrapOf(module);
    validateObject(options, 'options');
    const { timeout, breakOnSigint = false } = options;
    if (timeout !== undefined) validateUint32(timeout, 'options.timeout', true);
    validateBoolean(breakOnSigint, 'options.breakOnSigint');
    // A module whose link failed is `errored`, but not for the engine, which lacks what it imports.
    const status = STATUSES[native.moduleStatus(wrap.pointer)];
    if (!['linked', 'evaluated', 'errored'].includes(status)) throw wrongStatus('must be one of linked, evaluated, or errored');
    wrap.initializeMeta?.();
    wrap.initializeMeta = undefined;
    const promise = native.evaluateModule(wrap.realm, wrap.pointer, timeout ?? 0);
    if (timeout > 0 && native.promiseState(promise).value?.message === 'interrupted') {
        promise.catch(() => {});
        throw failure('ERR_SCRIPT_EXECUTION_TIMEOUT', `Script execution timed out after ${timeout}ms`);
    }
    return promise;
}

// Links a module to those that `linker` finds for its imports.
async function link(module, linker) {
    if (!(module instanceof SourceTextModule)) return;
    await module[linkWith](linker);
}
const linkWith = Symbol('link');

// Links a module to the modules that it imports, in the order of its requests.
function linkRequests(module, modules) {
    const wrap = wraps.get(module);
    const { moduleRequests } = module;
    if (modules.length !== moduleRequests.length) {
        throw Object.assign(new TypeError(`Expected ${moduleRequests.length} modules, got ${modules.length}`), { code: 'ERR_MODULE_LINK_MISMATCH' });
    }
    modules.forEach((other, index) => native.setModuleRequest(wrap.pointer, index, wraps.get(other).pointer));
    wrap.linked = [...modules];
}

function instantiate(module) {
    // The engine does not check that everything is linked that a module imports, however far away.
    const seen = new Set([module]);
    for (const each of seen) {
        const { linked } = wraps.get(each);
        if (linked === undefined && (each === module || each.moduleRequests?.length > 0)) throw linkFailure(`request for '${each.moduleRequests[0]?.specifier ?? each.identifier}' is not yet fulfilled`);
        for (const other of linked ?? []) seen.add(other);
    }
    const { realm, pointer } = wraps.get(module);
    native.linkModule(realm, pointer);
}

export class SourceTextModule extends Module {
    #error;
    #hasError = false;
    #isLinking = false;
    #requests;
    #specifiers;
    #text;

    constructor(sourceText, options = {}) {
        validateString(sourceText, 'sourceText');
        validateObject(options, 'options');
        const { lineOffset = 0, columnOffset = 0, initializeImportMeta, importModuleDynamically, cachedData } = options;
        validateInt32(lineOffset, 'options.lineOffset');
        validateInt32(columnOffset, 'options.columnOffset');
        if (initializeImportMeta !== undefined) validateFunction(initializeImportMeta, 'options.initializeImportMeta');
        if (importModuleDynamically !== undefined) validateFunction(importModuleDynamically, 'options.importModuleDynamically');
        if (cachedData !== undefined && !ArrayBuffer.isView(cachedData)) {
            throw new ERR_INVALID_ARG_TYPE('options.cachedData', ['Buffer', 'TypedArray', 'DataView'], cachedData);
        }
        super(options, (realm, identifier, module) => {
            const { number } = createOrigin(importModuleDynamically, identifier, module, true);
            const text = columnOffset > 0 ? ' '.repeat(columnOffset) + sourceText : sourceText;
            return native.compileModule(realm, identifier, text, lineOffset + 1, number);
        });
        this.#text = sourceText;
        if (cachedData !== undefined && !this.createCachedData().equals(new Uint8Array(cachedData.buffer, cachedData.byteOffset, cachedData.byteLength))) {
            throw failure('ERR_VM_MODULE_CACHED_DATA_REJECTED', '`cachedData` buffer was rejected');
        }
        const wrap = wraps.get(this);
        if (initializeImportMeta !== undefined && sourceText.includes('import.meta')) {
            wrap.initializeMeta = () => initializeImportMeta(native.moduleMeta(wrap.realm, wrap.pointer), this);
        }
    }

    get moduleRequests() {
        const { pointer, realm } = wrapOf(this);
        if (this.#requests === undefined) {
            const found = native.moduleRequests(realm, pointer);
            this.#requests = [];
            for (let at = 0; at < found.length; at += 2) {
                const attributes = Object.freeze(Object.assign(Object.create(null), found[at + 1]));
                this.#requests.push(Object.freeze(Object.assign(Object.create(null), { specifier: found[at], attributes })));
            }
            Object.freeze(this.#requests);
        }
        return this.#requests;
    }

    get dependencySpecifiers() {
        wrapOf(this);
        this.#specifiers ??= Object.freeze(this.moduleRequests.map(({ specifier }) => specifier));
        return this.#specifiers;
    }

    get status() {
        wrapOf(this);
        if (this.#hasError) return 'errored';
        return this.#isLinking ? 'linking' : super.status;
    }

    get error() {
        wrapOf(this);
        return this.#hasError ? this.#error : super.error;
    }

    linkRequests(modules) {
        wrapOf(this);
        if (this.status !== 'unlinked') throw wrongStatus('must be unlinked');
        validateArray(modules, 'modules');
        for (const module of modules) {
            if (!isModule(module)) throw notModule();
            if (module.context !== this.context) throw failure('ERR_VM_MODULE_DIFFERENT_CONTEXT', 'Linked modules must use the same context');
        }
        linkRequests(this, modules);
    }

    instantiate() {
        wrapOf(this);
        if (this.status !== 'unlinked') throw wrongStatus('must be unlinked');
        instantiate(this);
    }

    async [linkWith](linker) {
        this.#isLinking = true;
        const found = this.moduleRequests.map(async ({ specifier, attributes }) => {
            const module = await linker(specifier, this, { attributes, assert: attributes });
            if (!isModule(module)) throw notModule();
            if (module.context !== this.context) throw failure('ERR_VM_MODULE_DIFFERENT_CONTEXT', 'Linked modules must use the same context');
            if (module.status === 'errored') throw linkFailure(`request for '${specifier}' resolved to an errored module`, { cause: module.error });
            if (module.status === 'unlinked') await link(module, linker);
            return module;
        });
        try {
            linkRequests(this, await Promise.all(found));
        } catch (error) {
            this.#hasError = true;
            this.#error = error;
            throw error;
        } finally {
            this.#isLinking = false;
        }
    }

    createCachedData() {
        if (['evaluating', 'evaluated', 'errored'].includes(this.status)) {
            throw failure('ERR_VM_MODULE_CANNOT_CREATE_CACHED_DATA', 'Cached data cannot be created for a module which has been evaluated');
        }
        return digestOf(this.#text);
    }
}

export class SyntheticModule extends Module {
    constructor(exportNames, evaluateCallback, options = {}) {
        if (!Array.isArray(exportNames) || exportNames.some((name) => typeof name !== 'string')) {
            throw new ERR_INVALID_ARG_TYPE('exportNames', 'Array of unique strings', exportNames);
        }
        exportNames.forEach((name, index) => {
            if (exportNames.includes(name, index + 1)) throw new ERR_INVALID_ARG_VALUE(`exportNames.${name}`, name, 'is duplicated');
        });
        validateFunction(evaluateCallback, 'evaluateCallback');
        validateObject(options, 'options');
        super(options, (realm, identifier, module) => native.createSyntheticModule(realm, identifier, exportNames, () => {
            Reflect.apply(evaluateCallback, module, []);
        }));
        const { realm, pointer } = wraps.get(this);
        wraps.get(this).linked = [];
        native.linkModule(realm, pointer);
    }

    async link() {
        wrapOf(this);
    }

    setExport(name, value) {
        const { realm, pointer } = wrapOf(this);
        validateString(name, 'name');
        native.setModuleExport(realm, pointer, name, value);
    }
}
for (const [prototype, names] of [
    [Module.prototype, ['identifier', 'context', 'namespace', 'status', 'error', 'link', 'evaluate']],
    [SourceTextModule.prototype, ['moduleRequests', 'dependencySpecifiers', 'status', 'error']],
]) for (const name of names) Object.defineProperty(prototype, name, { enumerable: true });
