// Where the texts of node:vm come from: their contexts, and what an `import()` in them calls.

import * as native from 'internal:native/vm';
import process from 'node:process';

// The realms of contexts: `realm` is a function of the realm, by which the engine finds it, and `global` its global object. `importer` is the
// option `importModuleDynamically`, and `object` the object that the program has.
export const contexts = new WeakMap();

export const DEFAULT_LOADER = Symbol('vm_dynamic_import_main_context_default');

// Whether the option `--experimental-vm-modules` is set.
export function hasModules() {
    const flag = '--experimental-vm-modules';
    return process.execArgv.includes(flag) || `${process.env.NODE_OPTIONS ?? ''}`.split(/[\s"]+/).includes(flag);
}

// The engine marks code with the number of its origin. 0 is that of files, whose imports the loader finds.
const WITHOUT_IMPORTER = 1;
const origins = new Map();
let last = WITHOUT_IMPORTER;

// Returns the origin of a text with this option `importModuleDynamically`. `module` is set for modules, which `import.meta` distinguishes.
export function createOrigin(importer, filename, referrer, module) {
    if (importer === undefined && module === undefined) return { number: WITHOUT_IMPORTER };
    const origin = { number: ++last, importer, filename, referrer };
    native.setImport(importFrom);
    origins.set(origin.number, origin);
    return origin;
}

function missing() {
    return Object.assign(new TypeError('A dynamic import callback was not specified.'), { code: 'ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING' });
}

// Called by the engine for an `import()` of marked code, or of a context.
function importFrom(global, number, specifier, attributes) {
    let { importer, filename, referrer } = origins.get(number) ?? {};
    if (number === 0) {
        const context = contexts.get(global);
        importer = context?.importer;
        referrer = context?.object;
    }
    if (importer === undefined) throw missing();
    if (importer === DEFAULT_LOADER) {
        const load = native.evalScript(filename ?? '[eval]', '(specifier, options) => import(specifier, options)', 1, 0, 0);
        return load(specifier, attributes === undefined ? undefined : { with: attributes });
    }
    if (!hasModules()) {
        throw Object.assign(new TypeError('A dynamic import callback was invoked without --experimental-vm-modules'), {
            code: 'ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING_FLAG',
        });
    }
    return imported(importer(specifier, referrer, attributes ?? Object.create(null)));
}

// What V8 compiled is replaced by a digest: it only says whether the code is the same.
export function digestOf(code) {
    let hash = 0xcbf29ce484222325n;
    for (let at = 0; at < code.length; at++) hash = BigInt.asUintN(64, (hash ^ BigInt(code.charCodeAt(at))) * 0x100000001b3n);
    return globalThis.Buffer.from(`quickjs ${code.length} ${hash.toString(16)}`);
}

async function imported(promise) {
    return native.importBuiltin('internal:vm_modules').namespaceOf(await promise);
}
native.setImport(importFrom);
