// node:module: `require`, and the start of the main file.

import * as native from 'internal:native/module';
import * as vm from 'internal:native/vm';
import process from 'node:process';
import path from 'node:path';
import { pendingAwait, sourceLine } from 'internal:native/process';
import { traced } from 'internal:tracing';
import { uncaught, ignoreRejection } from 'internal:uncaught';
import { ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE } from '__wasm_rquickjs_builtin/internal/errors';
import { validateBoolean, validateObject } from '__wasm_rquickjs_builtin/internal/validators';

const cache = Object.create(null);
// The files whose first line begins with more than their text.
const wrapped = new Set();
const wrapperLength = native.wrapperLength();
const statuses = new WeakMap();
const allNames = new Set(native.builtins());
const schemeOnly = new Set(['sea', 'sqlite', 'test', 'test/reporters']);
export const builtinModules = [...allNames].filter((name) => !schemeOnly.has(name));
const builtinNames = new Set(builtinModules);

export function isBuiltin(name) {
    if (typeof name !== 'string') return false;
    const bare = name.startsWith('node:') ? name.slice(5) : name;
    return name.startsWith('node:') ? allNames.has(bare) : builtinNames.has(bare);
}

const builtins = new Map();

// Returns a module of Node as `require` does: its default export, which has all names.
export function requireBuiltin(name) {
    const bare = name.startsWith('node:') ? name.slice(5) : name;
    if (builtins.has(bare)) return builtins.get(bare);
    const namespace = vm.importBuiltin(`node:${bare}`);
    let exports = namespace.default;
    if (exports === undefined || exports === null) {
        exports = { ...namespace };
    } else if (typeof exports === 'object' || typeof exports === 'function') {
        for (const key of Object.keys(namespace)) {
            if (key === 'default' || Object.prototype.hasOwnProperty.call(exports, key) || bare === 'process') continue;
            Object.defineProperty(exports, key, { value: namespace[key], writable: true, configurable: true, enumerable: true });
        }
    }
    builtins.set(bare, exports);
    return exports;
}

// Returns a place in a script as stack traces show it.
export function _place(filename, line, column) {
    if (line === 1 && wrapped.has(filename)) column = Math.max(1, column - wrapperLength);
    return `${native.moduleUrl(filename) ?? filename}:${line}:${column}`;
}

export default function Module(id = '', parent) {
    this.id = id;
    this.path = path.dirname(id);
    // A setter of Object.prototype must not get it.
    Object.defineProperty(this, 'exports', { value: {}, writable: true, configurable: true, enumerable: true });
    parents.set(this, parent);
    this.filename = null;
    this.loaded = false;
    this.children = [];
    parent?.children?.push(this);
}

const parents = new WeakMap();

function warnParent() {
    if (warnParent.isDone || !process.execArgv.includes('--pending-deprecation')) return;
    warnParent.isDone = true;
    process.emitWarning('module.parent is deprecated due to accuracy issues. Please use require.main to find program entry point instead.',
        'DeprecationWarning', 'DEP0144');
}

Object.defineProperty(Module.prototype, 'parent', {
    get() {
        warnParent();
        return parents.get(this);
    },
    set(value) {
        warnParent();
        parents.set(this, value);
    },
    configurable: true,
});

Module.Module = Module;
Module._cache = cache;
Module._pathCache = Object.create(null);
Module.globalPaths = [];
Module.builtinModules = builtinModules;
Module.isBuiltin = isBuiltin;
Module._extensions = Object.create(null);
Object.defineProperty(Module, 'requireBuiltin', { value: requireBuiltin, enumerable: false });

// Programs that change the wrapper of CommonJS files get theirs.
let isWrapperChanged = false;
let wrapper = ['(function (exports, require, module, __filename, __dirname) { ', '\n});'];
let wrap = (script) => wrapper[0] + script + wrapper[1];
const watched = {
    set(target, name, value, receiver) {
        isWrapperChanged = true;
        return Reflect.set(target, name, value, receiver);
    },
    defineProperty(target, name, descriptor) {
        isWrapperChanged = true;
        return Reflect.defineProperty(target, name, descriptor);
    },
};
let watchedWrapper = new Proxy(wrapper, watched);
Object.defineProperty(Module, 'wrapper', {
    get: () => watchedWrapper,
    set(value) {
        isWrapperChanged = true;
        wrapper = watchedWrapper = value;
    },
    configurable: true,
    enumerable: true,
});
Object.defineProperty(Module, 'wrap', {
    get: () => wrap,
    set(value) {
        isWrapperChanged = true;
        wrap = value;
    },
    configurable: true,
    enumerable: true,
});

Module._nodeModulePaths = (from) => native.nodeModules(path.resolve(from));

Module._resolveLookupPaths = function (request, parent) {
    if (isBuiltin(request)) return null;
    if (/^\.\.?(\/|$)/.test(request)) return [parent?.filename ? path.dirname(parent.filename) : '.'];
    return parent?.paths ?? Module._nodeModulePaths(process.cwd());
};

Module._initPaths = () => {
    const { HOME, NODE_PATH } = process.env;
    const paths = HOME ? [path.resolve(HOME, '.node_modules'), path.resolve(HOME, '.node_libraries')] : [];
    if (NODE_PATH) paths.unshift(...NODE_PATH.split(path.delimiter).filter(Boolean));
    Module.globalPaths = paths;
};

// Returns 0 for a file, 1 for a folder, and else a negative number.
Module._stat = (filename) => {
    const { statSync } = requireBuiltin('fs');
    const stats = statSync(filename, { throwIfNoEntry: false });
    return stats === undefined ? -2 : Number(stats.isDirectory());
};

Module._findPath = function (request, paths) {
    for (const dir of paths ?? []) {
        const found = native.resolve(path.isAbsolute(request) ? request : `./${request}`, path.join(dir, '-'));
        if (found.file !== undefined) return found.file;
    }
    return false;
};

Module._resolveFilename = function (request, parent, isMain, options) {
    if (isBuiltin(request)) return request;
    const from = parent?.filename ?? path.join(process.cwd(), '-');
    let found;
    if (options?.paths !== undefined && !Array.isArray(options.paths)) throw new ERR_INVALID_ARG_VALUE('options.paths', options.paths);
    if (Array.isArray(options?.paths)) {
        for (const dir of options.paths) {
            found = native.resolve(request, path.resolve(dir, '-'));
            if (found.file !== undefined) break;
        }
        found ??= { code: 'MODULE_NOT_FOUND' };
    } else {
        found = native.resolve(request, from);
        if (found.code === 'MODULE_NOT_FOUND') found = resolveMore(request, from) ?? found;
    }
    if (found.builtin !== undefined) return found.builtin;
    if (found.file !== undefined) return found.file;
    if (found.code !== 'MODULE_NOT_FOUND') {
        throw Object.assign(new (found.code === 'ERR_INVALID_MODULE_SPECIFIER' ? TypeError : Error)(found.message), { code: found.code });
    }
    const stack = [];
    for (let module = parent; module; module = statuses.get(module)?.parent) stack.push(module.filename || module.id);
    let message = `Cannot find module '${request}'`;
    if (stack.length > 0) message += `\nRequire stack:\n- ${stack.join('\n- ')}`;
    throw Object.assign(new Error(message), { code: 'MODULE_NOT_FOUND', requireStack: stack });
};

const ownExtensions = new Set(['.js', '.json', '.node']);

// Looks for a file in the global folders, and with the extensions that programs add.
function resolveMore(request, from) {
    const isBare = !/^(?:\.{1,2}(?:\/|$)|\/)/.test(request);
    for (const dir of isBare ? Module.globalPaths : []) {
        const found = native.resolve(`./${request}`, path.join(dir, '-'));
        if (found.file !== undefined) return found;
    }
    if (isBare) return undefined;
    for (const extension of Object.keys(Module._extensions)) {
        if (ownExtensions.has(extension)) continue;
        const found = native.resolve(request + extension, from);
        if (found.file !== undefined) return found;
    }
    return undefined;
}

// A module that has not ended yet warns of what its exports do not have.
const unfinished = new Proxy({}, {
    get(target, name) {
        if (!(name in target) && name !== '__esModule') warnUnfinished(name);
        return target[name];
    },
    getOwnPropertyDescriptor(target, name) {
        // What shows an object looks for its constructor.
        if (!Object.hasOwn(target, name) && name !== '__esModule' && name !== 'constructor') warnUnfinished(name);
        return Reflect.getOwnPropertyDescriptor(target, name);
    },
});

let isWarning = false;

function warnUnfinished(name) {
    // The stack trace of the warning looks at the exports, too.
    if (isWarning) return;
    isWarning = true;
    try {
        emitUnfinished(name);
    } finally {
        isWarning = false;
    }
}

function emitUnfinished(name) {
    process.emitWarning(`Accessing non-existent property '${String(name)}' of module exports inside circular dependency`);
}

function isProxy(value) {
    return requireBuiltin('util').types.isProxy(value);
}

function isPlain(exports) {
    return exports !== null && typeof exports === 'object' && !isProxy(exports) && Object.getPrototypeOf(exports) === Object.prototype &&
        !exports.__esModule;
}

const warning = new WeakSet();

function exportsOf(module) {
    if (!module.loaded && statuses.has(module) && isPlain(module.exports)) {
        Object.setPrototypeOf(module.exports, unfinished);
        warning.add(module.exports);
    }
    return module.exports;
}

Module._load = function (request, parent, isMain) {
    if (request.startsWith('node:')) {
        if (!isBuiltin(request)) {
            throw Object.assign(new Error(`No such built-in module: ${request}`), { code: 'ERR_UNKNOWN_BUILTIN_MODULE' });
        }
        return requireBuiltin(request);
    }
    return loadFile(Module._resolveFilename(request, parent, isMain), parent, isMain);
};
const load = Module._load;
const resolveFilename = Module._resolveFilename;

function loadFile(filename, parent, isMain) {
    const cached = cache[filename];
    if (cached !== undefined) {
        if (parent && !parent.children?.includes(cached)) parent.children?.push(cached);
        return exportsOf(cached);
    }
    if (isBuiltin(filename)) return requireBuiltin(filename);
    const module = new Module(filename, parent);
    statuses.set(module, { parent });
    if (isMain) {
        setMain(module);
        module.id = '.';
    }
    cache[filename] = module;
    let failed = true;
    try {
        module.load(filename);
        failed = false;
    } finally {
        if (failed) {
            delete cache[filename];
            const index = parent?.children?.indexOf(module) ?? -1;
            if (index >= 0) parent.children.splice(index, 1);
        } else if (warning.has(module.exports) && Object.getPrototypeOf(module.exports) === unfinished) {
            Object.setPrototypeOf(module.exports, Object.prototype);
        }
    }
    return module.exports;
}

function setMain(module) {
    process.mainModule = module;
    main = module;
}
let main;

Module.prototype.load = function (filename) {
    this.filename = filename;
    this.paths = Module._nodeModulePaths(path.dirname(filename));
    const handler = Module._extensions[extensionOf(filename)];
    handler(this, filename);
    this.loaded = true;
};

// Returns the longest extension of a file that has a handler.
function extensionOf(filename) {
    const name = path.basename(filename);
    for (let at = name.indexOf('.', 1); at > 0; at = name.indexOf('.', at + 1)) {
        if (Module._extensions[name.slice(at)]) return name.slice(at);
    }
    return '.js';
}

Module.prototype.require = function (id) {
    if (typeof id !== 'string') throw new ERR_INVALID_ARG_TYPE('id', 'string', id);
    if (id === '') throw new ERR_INVALID_ARG_VALUE('id', id, 'must be a non-empty string');
    if (!traced.require?.hasSubscribers) return Module._load(id, this, false);
    return traced.require.traceSync(Module._load, { __proto__: null, parentFilename: this.filename, id }, Module, id, this, false);
};

Module.prototype._compile = function (content, filename) {
    wrapped.add(filename);
    let compiled;
    try {
        compiled = isWrapperChanged ? vm.evalScript(filename, wrap(content)) : vm.compileFunction(filename, content);
    } catch (error) {
        throw betterSyntaxError(error, filename, content);
    }
    Object.defineProperty(compiled, 'name', { value: 'Object.<anonymous>', configurable: true });
    const require = makeRequire(this);
    return Reflect.apply(compiled, this.exports, [this.exports, require, this, filename, path.dirname(filename)]);
};

// Returns the error of Node for the syntax of a module in a CommonJS file.
function betterSyntaxError(error, filename, content) {
    if (!(error instanceof SyntaxError) || !native.isModule(filename, content)) return error;
    let message;
    if (/^\s*import\b(?!\s*[(.])/m.test(content)) message = 'Cannot use import statement outside a module';
    else if (/^\s*export\b/m.test(content)) message = "Unexpected token 'export'";
    else if (/\bimport\.meta\b/.test(content)) message = "Cannot use 'import.meta' outside a module";
    else message = 'await is only valid in async functions and the top level bodies of modules';
    const better = new SyntaxError(message);
    better.stack = String(error.stack).replace(error.message, () => message);
    return better;
}

// The main file, which was read to learn that it is no ECMAScript module.
let known;

Module._extensions['.js'] = function (module, filename) {
    const read = known?.filename === filename ? known : undefined;
    known = undefined;
    if (read !== undefined) {
        module._compile(read.content, filename);
        return;
    }
    const content = native.readSource(filename);
    const format = native.format(filename);
    if (format === 'module' || format === 'unknown' && native.isModule(filename, content)) {
        if (process.execArgv.includes('--no-experimental-require-module')) throw requireOfModule(filename, module);
        module.exports = requireModule(filename);
        return;
    }
    module._compile(content, filename);
};

Module._extensions['.json'] = function (module, filename) {
    const content = native.readSource(filename);
    try {
        module.exports = JSON.parse(content);
    } catch (error) {
        error.message = `${filename}: ${error.message}`;
        throw error;
    }
};

Module._extensions['.node'] = function (module, filename) {
    process.dlopen(module, filename);
};

function requireOfModule(filename, module) {
    const parent = parents.get(module)?.filename;
    const message = `require() of ES Module ${filename}${parent ? ` from ${parent}` : ''} not supported.\nInstead change the require of ` +
        `${path.basename(filename)}${parent ? ` in ${parent}` : ''} to a dynamic import() which is available in all CommonJS modules.`;
    return Object.assign(new Error(message), { code: 'ERR_REQUIRE_ESM' });
}

// `require` of an ECMAScript module.
function requireModule(filename) {
    const { namespace, promise } = native.evaluateFile(filename);
    const { state, value } = vm.promiseState(promise);
    if (state === 'rejected') {
        ignoreRejection(promise);
        promise.catch(() => {});
        throw value;
    }
    if (state === 'pending') {
        throw Object.assign(new Error('require() cannot be used on an ESM graph with top-level await. Use import() instead. To see where the ' +
            'top-level await comes from, use --experimental-print-required-tla.'), { code: 'ERR_REQUIRE_ASYNC_MODULE' });
    }
    if ('module.exports' in namespace) return namespace['module.exports'];
    // Code that compilers wrote looks for `__esModule`.
    return 'default' in namespace && !('__esModule' in namespace) ? native.withEsModule(filename) : namespace;
}

function makeRequire(module) {
    function require(id) {
        return module.require(id);
    }
    function resolve(request, options) {
        if (typeof request !== 'string') throw new ERR_INVALID_ARG_TYPE('request', 'string', request);
        return Module._resolveFilename(request, module, false, options);
    }
    function paths(request) {
        if (typeof request !== 'string') throw new ERR_INVALID_ARG_TYPE('request', 'string', request);
        return Module._resolveLookupPaths(request, module);
    }
    // A setter of Object.prototype must not get them.
    const set = (target, name, value) => Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: true });
    set(resolve, 'paths', paths);
    set(require, 'resolve', resolve);
    set(require, 'main', main);
    set(require, 'extensions', Module._extensions);
    set(require, 'cache', cache);
    return require;
}

export function createRequire(filename) {
    let file = filename;
    if (filename instanceof globalThis.URL || typeof filename === 'string' && filename.startsWith('file:')) {
        file = globalThis.__skillhost_require('node:url').fileURLToPath(filename);
    }
    if (typeof file !== 'string' || !path.isAbsolute(file)) {
        throw new ERR_INVALID_ARG_VALUE('filename', filename, 'must be a file URL object, file URL string, or absolute path string');
    }
    const module = new Module(file.endsWith('/') ? path.join(file, 'noop.js') : file);
    module.filename = module.id;
    module.paths = Module._nodeModulePaths(path.dirname(module.id));
    return makeRequire(module);
}
Module.createRequire = createRequire;

// Called by src/modules/loader.rs for an `import` of a CommonJS or JSON file.
export function _importCommonJs(filename) {
    return Module._load(filename, undefined, false);
}

// Runs the main file or text. Its errors are thrown here or reported by the promise of the module.
export function runMain(options) {
    for (const name of options.requires) Module._load(name, evalModule(), false);
    if (options.imports.length > 0) {
        followMain(preload(options.imports).then(() => runMain(Object.assign(options, { requires: [], imports: [] }))), options);
        return;
    }
    if (options.text !== undefined) {
        runText(options);
        return;
    }
    entry = () => runFile(options);
    // Modules of `--require` may replace it.
    Module.runMain(process.argv[1]);
}

// Runs the main file.
let entry = () => {};

function runFile(options) {
    const file = Module._resolveFilename(options.file, null, true);
    const format = native.format(file);
    const content = format === 'unknown' ? native.readSource(file) : undefined;
    const isModule = format === 'module' || format === 'unknown' && native.isModule(file, content);
    if (isModule && Module._extensions['.js'] === plain) {
        native.setMain(file);
        followMain(native.evaluateFile(file).promise, options);
        return;
    }
    if (content !== undefined && !isModule) known = { filename: file, content };
    // It is resolved again only for programs that replaced a step.
    if (Module._load === load && Module._resolveFilename === resolveFilename) loadFile(file, null, true);
    else Module._load(file, null, true);
}
const plain = Module._extensions['.js'];

// Evaluates the modules of `--import`, one after the other.
async function preload(names) {
    for (const name of names) {
        const url = name.startsWith('file:') ? globalThis.__skillhost_require('node:url').fileURLToPath(name) : name;
        const file = Module._resolveFilename(url, evalModule(), false);
        const format = native.format(file);
        const isModule = format === 'module' || format === 'unknown' && native.isModule(file, native.readSource(file));
        if (isModule) await native.evaluateFile(file).promise;
        else Module._load(file, evalModule(), false);
    }
}

function followMain(promise, options) {
    let settled = false;
    options.unsettled = () => {
        if (!settled) process.stderr.write(unsettledWarning());
        return !settled;
    };
    promise.then(() => { settled = true; }, (error) => {
        settled = true;
        explainScope(error);
        uncaught(error, 'uncaughtException', true);
    });
}

function unsettledWarning() {
    const place = pendingAwait();
    if (place === undefined || place === null) return 'Warning: Detected unsettled top-level await\n';
    const line = sourceLine(place.file, place.line) ?? '';
    return `Warning: Detected unsettled top-level await at ${native.moduleUrl(place.file) ?? place.file}:${place.line}\n${line}\n^\n\n\n`;
}

// Says that a name of CommonJS does not exist in modules.
function explainScope(error) {
    if (!(error instanceof ReferenceError)) return;
    const found = /^(require|module|exports|__filename|__dirname) is not defined$/.exec(error.message);
    if (!found) return;
    const hint = found[1] === 'require' ? ', you can use import instead' : '';
    const message = `${error.message} in ES module scope${hint}`;
    error.stack = String(error.stack).replace(error.message, () => message);
    error.message = message;
}

function evalModule(name = '[eval]') {
    const module = new Module(name);
    module.filename = path.join(process.cwd(), name);
    module.paths = Module._nodeModulePaths(process.cwd());
    return module;
}

function runText(options) {
    const { text, print, isModule } = options;
    if (isModule) {
        followMain(native.evaluateText(text).promise, options);
        return;
    }
    const module = evalModule(options.name);
    Object.assign(globalThis, { module, exports: module.exports, __filename: options.name, __dirname: '.' });
    globalThis.require = makeRequire(module);
    // In such a text, the modules of Node are global names.
    for (const name of builtinModules) {
        if (name.includes('/') || name.startsWith('_') || schemeOnly.has(name) || name in globalThis) continue;
        Object.defineProperty(globalThis, name, {
            get() { return requireBuiltin(name); },
            set(value) { Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false }); },
            configurable: true,
            enumerable: false,
        });
    }
    let result;
    try {
        result = vm.evalScript(options.name, text);
    } catch (error) {
        if (error instanceof SyntaxError && !print && native.isModule('[eval]', text)) {
            followMain(native.evaluateText(text).promise, options);
            return;
        }
        throw error;
    }
    if (print) globalThis.console.log(result);
}

export function syncBuiltinESMExports() {}
export function findSourceMap() {}
export class SourceMap {}
export function register() {}

let sourceMaps = Object.freeze({ __proto__: null, enabled: false, nodeModules: false, generatedCode: false });

export function getSourceMapsSupport() {
    return sourceMaps;
}

// Changes nothing here: stack traces show the places of the code that runs.
export function setSourceMapsSupport(enabled, options = {}) {
    validateBoolean(enabled, 'enabled');
    validateObject(options, 'options');
    const { nodeModules = false, generatedCode = false } = options;
    validateBoolean(nodeModules, 'options.nodeModules');
    validateBoolean(generatedCode, 'options.generatedCode');
    sourceMaps = Object.freeze({ __proto__: null, enabled, nodeModules, generatedCode });
}
export function registerHooks() {
    return { deregister() {} };
}
export function enableCompileCache() {
    return { status: 3 };
}
export function getCompileCacheDir() {}
export function flushCompileCache() {}
export const constants = { compileCacheStatus: { FAILED: 0, ENABLED: 1, ALREADY_ENABLED: 2, DISABLED: 3 } };
export function findPackageJSON(specifier, base) {
    const from = base === undefined ? path.join(process.cwd(), '-') : String(base).startsWith('file:')
        ? globalThis.__skillhost_require('node:url').fileURLToPath(base) : String(base);
    return native.findPackage(String(specifier), from);
}
export function stripTypeScriptTypes(code, options) {
    return native.stripTypes(code, options?.mode ?? 'strip');
}
export { Module };
Object.assign(Module, {
    syncBuiltinESMExports, findSourceMap, SourceMap, register, registerHooks, enableCompileCache, getCompileCacheDir, flushCompileCache, constants,
    findPackageJSON, stripTypeScriptTypes, setSourceMapsSupport, getSourceMapsSupport, runMain: () => entry(),
});
