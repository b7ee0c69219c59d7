// The first module: it loads the common modules of Node, defines the globals, and exports what src/ calls.

import 'node:events';
import process, { _start } from 'node:process';
import * as timers from 'internal:timers';
import { enterLoop, queueMicrotask, defer } from 'internal:event_loop';
import { trackRejection, fatal, uncaught } from 'internal:uncaught';
import { AbortController, AbortSignal, DOMException } from '__wasm_rquickjs_builtin/abort_controller';
import { Event, EventTarget, CustomEvent } from 'node:events';
import buffer from 'node:buffer';
import console from 'node:console';
import { URL, URLSearchParams } from 'node:url';
import { TextDecoder, TextEncoder } from '__wasm_rquickjs_builtin/encoding';
import { performance } from 'node:perf_hooks';
import { ERR_MISSING_ARGS } from '__wasm_rquickjs_builtin/internal/errors';
import module, { runMain, _place } from 'node:module';
import { MessageEvent, Navigator, Performance, WebSocket } from 'internal:web_gaps';
import 'node:fs';
import 'node:path';
import 'node:util';
import * as vm from 'internal:native/vm';
import * as base64 from '__wasm_rquickjs_builtin/base64_native';
import { random } from 'internal:native/process';

function define(name, value, enumerable = ENUMERABLE.has(name)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable });
}
const ENUMERABLE = new Set(['global', 'atob', 'btoa', 'performance', 'structuredClone', 'fetch', 'crypto', 'navigator']);

// As in Node, some names are accessors that programs can set.
function defineReplaceable(name, value) {
    Object.defineProperty(globalThis, name, { get: () => value, set(other) { value = other; }, configurable: true, enumerable: false });
}

// Classes of modules that few scripts use are loaded when they are first named.
function defineLazily(module, names) {
    if (Array.isArray(names)) names = Object.fromEntries(names.map((name) => [name, name]));
    for (const [name, exported] of Object.entries(names)) {
        const isEnumerable = ENUMERABLE.has(name);
        const accessor = Object.getOwnPropertyDescriptor({
            get [name]() {
                const value = vm.importBuiltin(module)[exported];
                define(name, value, isEnumerable);
                return value;
            },
            set [name](value) { define(name, value, isEnumerable); },
        }, name);
        Object.defineProperty(globalThis, name, { ...accessor, enumerable: isEnumerable });
    }
}

// The first call of a method that depends on a locale loads Intl, which replaces all of these.
function defineLocaleMethods() {
    for (const [prototype, names] of [
        [Date.prototype, ['toLocaleString', 'toLocaleDateString', 'toLocaleTimeString']],
        [Number.prototype, ['toLocaleString']],
        [BigInt.prototype, ['toLocaleString']],
        [String.prototype, ['localeCompare']],
    ]) {
        for (const name of names) {
            const method = { [name](...args) { vm.importBuiltin('internal:intl'); return prototype[name].apply(this, args); } };
            Object.defineProperty(prototype, name, { value: method[name], writable: true, configurable: true, enumerable: false });
        }
    }
}

// The JavaScript of wasm-rquickjs calls these.
define('__skillhost_require', module.requireBuiltin);
define('__skillhost_defer', defer);
define('__skillhost_place', _place);

Object.defineProperty(Math, 'random', { value: random, writable: true, configurable: true, enumerable: false });

define('global', globalThis);
defineReplaceable('process', process);
define('console', console);
defineReplaceable('Buffer', buffer.Buffer);
define('atob', function atob(text) {
    if (arguments.length === 0) throw new ERR_MISSING_ARGS('input');
    const decoded = base64.atob_raw(`${text}`);
    if (decoded === undefined || decoded === null) throw new DOMException('The string to be decoded is not correctly encoded.', 'InvalidCharacterError');
    return decoded;
});
define('btoa', function btoa(text) {
    if (arguments.length === 0) throw new ERR_MISSING_ARGS('input');
    const encoded = base64.btoa_raw(`${text}`);
    if (encoded === undefined || encoded === null) throw new DOMException('Invalid character', 'InvalidCharacterError');
    return encoded;
});
// A mark of the implementation, by which packages tell it from Node's.
delete buffer.Buffer.TYPED_ARRAY_SUPPORT;
Object.assign(buffer, { atob: globalThis.atob, btoa: globalThis.btoa });
for (const [name, value] of Object.entries({
    AbortController, AbortSignal, DOMException, Event, EventTarget, CustomEvent, URL, URLSearchParams, TextDecoder, TextEncoder, performance,
})) define(name, value);
for (const name of ['setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval', 'clearImmediate']) {
    Object.defineProperty(globalThis, name, { value: timers[name], writable: true, configurable: true, enumerable: true });
}
Object.defineProperty(globalThis, 'queueMicrotask', { value: queueMicrotask, writable: true, configurable: true, enumerable: true });

for (const name of ['setTimeout', 'setImmediate']) {
    Object.defineProperty(globalThis[name], Symbol.for('nodejs.util.promisify.custom'), {
        get: () => vm.importBuiltin('node:timers/promises')[name],
        configurable: true,
    });
}

defineLazily('node:stream/web', [
    'ReadableStream', 'ReadableStreamDefaultReader', 'ReadableStreamBYOBReader', 'ReadableStreamBYOBRequest', 'ReadableByteStreamController',
    'ReadableStreamDefaultController', 'TransformStream', 'TransformStreamDefaultController', 'WritableStream',
    'WritableStreamDefaultController', 'WritableStreamDefaultWriter', 'ByteLengthQueuingStrategy', 'CountQueuingStrategy', 'TextEncoderStream',
    'TextDecoderStream',
]);
defineLazily('__wasm_rquickjs_builtin/http', ['fetch', 'Headers', 'Request', 'Response']);
defineLazily('__wasm_rquickjs_builtin/http_blob', ['Blob', 'File']);
defineLazily('__wasm_rquickjs_builtin/http_form_data', ['FormData']);
defineLazily('__wasm_rquickjs_builtin/structured_clone', { structuredClone: 'default' });
defineLazily('node:worker_threads', ['MessageChannel', 'MessagePort', 'BroadcastChannel']);
defineLazily('__wasm_rquickjs_builtin/web_crypto', { crypto: 'webcrypto', Crypto: 'Crypto', CryptoKey: 'CryptoKey', SubtleCrypto: 'SubtleCrypto' });
defineLazily('internal:compression_stream', ['CompressionStream', 'DecompressionStream']);
defineLazily('internal:intl', ['Intl']);
defineLocaleMethods();
defineLazily('node:perf_hooks', ['PerformanceEntry', 'PerformanceMark', 'PerformanceMeasure', 'PerformanceObserver']);

for (const [name, value] of Object.entries({ MessageEvent, Navigator, Performance, WebSocket, navigator: new Navigator() })) define(name, value);

// What the JavaScript of wasm-rquickjs keeps in global names is not for scripts that list them.
function hideUpstreamGlobals() {
    const later = ['buffer_dep0005_warned', 'suppress_source_map_stack', 'suppress_warning_stderr', 'current_eval_script_name', 'active_handles'];
    define('__blobURLRegistry', undefined);
    for (const name of later) if (!(`__wasm_rquickjs_${name}` in globalThis)) define(`__wasm_rquickjs_${name}`, undefined);
    for (const name of Object.keys(globalThis)) {
        if (name.startsWith('__')) Object.defineProperty(globalThis, name, { enumerable: false });
    }
}
hideUpstreamGlobals();

// Runs a program to its end. `options` is what src/command_line.rs understood.
export function run(options) {
    _start(options);
    try {
        for (const file of options.envFiles) process.loadEnvFile(file);
        runMain(options);
    } catch (error) {
        uncaught(error);
    }
    // A module runs in a callback of a promise.
    return enterLoop(options.unsettled !== undefined);
}

export { trackRejection, fatal };
