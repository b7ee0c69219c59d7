// node:process.

import * as native from 'internal:native/process';
import EventEmitter from 'node:events';
import { importBuiltin } from 'internal:native/vm';
import { nextTick, setExit } from 'internal:event_loop';
import { fatal, uncaught } from 'internal:uncaught';
import { Input, Output, TerminalOutput } from 'internal:streams';
import { openChild } from 'internal:channel';
import { ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE } from '__wasm_rquickjs_builtin/internal/errors';
import { validateArray, validateBoolean, validateNumber, validateObject, validateString, validateUint32 } from '__wasm_rquickjs_builtin/internal/validators';
import { activeResources, deferredCount } from 'internal:event_loop';

class process_ extends EventEmitter {}
Object.defineProperty(process_, 'name', { value: 'process' });
const process = new process_();
export default process;

const VERSION = native.version();
// Numbers as Linux has them.
export const SIGNALS = {
    SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGILL: 4, SIGTRAP: 5, SIGABRT: 6, SIGBUS: 7, SIGFPE: 8, SIGKILL: 9, SIGUSR1: 10, SIGSEGV: 11, SIGUSR2: 12,
    SIGPIPE: 13, SIGALRM: 14, SIGTERM: 15, SIGCHLD: 17, SIGCONT: 18, SIGSTOP: 19, SIGTSTP: 20, SIGTTIN: 21, SIGTTOU: 22, SIGURG: 23, SIGXCPU: 24,
    SIGXFSZ: 25, SIGVTALRM: 26, SIGPROF: 27, SIGWINCH: 28, SIGIO: 29, SIGPWR: 30, SIGSYS: 31, SIGIOT: 6, SIGPOLL: 29, SIGSTKFLT: 16,
};

function constant(name, value) {
    Object.defineProperty(process, name, { value, writable: false, enumerable: true, configurable: true });
}

constant('version', `v${VERSION}`);
constant('versions', Object.freeze({
    node: VERSION, acorn: '8.15.0', ada: '2.9.2', modules: '127', napi: '10', uv: '1.51.0', unicode: '16.0', v8: '12.4.254.21-node.33', zlib: '1.3.1',
    openssl: '3.0.17',
}));
constant('arch', 'x64');
constant('platform', 'linux');
constant('release', Object.freeze({ name: 'node', lts: 'Jod' }));
constant('features', Object.freeze({
    inspector: false, debug: false, uv: true, ipv6: true, openssl_is_boringssl: false, tls_alpn: true, tls_sni: true, tls_ocsp: true, tls: true,
    cached_builtins: true,
    require_module: true, typescript: 'strip',
}));
constant('config', Object.freeze({ target_defaults: Object.freeze({}), variables: Object.freeze({ v8_enable_i18n_support: 1, node_module_version: 127 }) }));
constant('allowedNodeEnvironmentFlags', new Set(['--enable-source-maps', '--import', '--max-old-space-size', '--no-deprecation', '--no-warnings', '--require', '-r', '--trace-warnings', '--unhandled-rejections']));
process.title = 'node';
process.argv = [];
process.execArgv = [];
process.execPath = '/usr/bin/node';
process.argv0 = 'node';
process.debugPort = 9229;
process.pid = 1;
process.ppid = 0;
process.exitCode = undefined;
process.domain = null;
process._exiting = false;
process.report = { getReport: () => ({}), writeReport: () => '', directory: '', filename: '', compact: false, signal: 'SIGUSR2' };
process.moduleLoadList = [];
Object.defineProperty(process, Symbol.toStringTag, { value: 'process', configurable: true });
Object.defineProperty(process, '_exiting', { enumerable: false });

let exitCode;
Object.defineProperty(process, 'exitCode', {
    get: () => exitCode,
    set(value) {
        if (value !== null && value !== undefined) {
            const code = typeof value === 'string' && /^-?\d+$/.test(value) ? +value : value;
            if (typeof code !== 'number') throw new ERR_INVALID_ARG_TYPE('code', 'integer', value);
            if (!Number.isInteger(code)) throw new ERR_OUT_OF_RANGE('code', 'an integer', value);
        }
        exitCode = value;
    },
    enumerable: true,
    configurable: false,
});

const experimental = new Set();
function warnOfExperiment(feature) {
    if (experimental.has(feature)) return;
    experimental.add(feature);
    process.emitWarning(`${feature} is an experimental feature and might change at any time`, 'ExperimentalWarning');
}

const deprecated = new Set();
function deprecate(code, message) {
    if (deprecated.has(code)) return;
    deprecated.add(code);
    process.emitWarning(message, 'DeprecationWarning', code);
}

function string(value) {
    if (typeof value === 'symbol') throw new TypeError('Cannot convert a Symbol value to a string');
    return String(value);
}

// The target inherits `toString` and the like, as the environment of Node does.
process.env = new Proxy({}, {
    get(target, key) {
        return typeof key === 'symbol' || key === '' ? undefined : target[key];
    },
    set(target, key, value) {
        if (!['string', 'number', 'boolean'].includes(typeof value) && flags.includes('--pending-deprecation')) {
            deprecate('DEP0104', 'Assigning any value other than a string, number, or boolean to a process.env property is deprecated. Please make sure to ' +
                'convert the value to a string before setting process.env with it.');
        }
        target[string(key)] = string(value);
        return true;
    },
    defineProperty(target, key, descriptor) {
        if ('get' in descriptor || 'set' in descriptor) {
            const error = new TypeError("'process.env' does not accept an accessor(getter/setter) descriptor");
            error.code = 'ERR_INVALID_OBJECT_DEFINE_PROPERTY';
            throw error;
        }
        if (!descriptor.configurable || !descriptor.writable || !descriptor.enumerable) {
            const error = new TypeError("'process.env' only accepts a configurable, writable, and enumerable data descriptor");
            error.code = 'ERR_INVALID_OBJECT_DEFINE_PROPERTY';
            throw error;
        }
        return Reflect.defineProperty(target, string(key), { ...descriptor, value: string(descriptor.value) });
    },
});

process.cwd = function cwd() {
    return native.cwd();
};

process.chdir = function chdir(directory) {
    if (typeof directory !== 'string') throw new ERR_INVALID_ARG_TYPE('directory', 'string', directory);
    const failure = native.chdir(directory);
    if (failure !== undefined) {
        const { code, errno, text } = failure;
        const error = new Error(`${code}: ${text}, chdir '${native.cwd()}' -> '${directory}'`);
        throw Object.assign(error, { errno, code, syscall: 'chdir', path: native.cwd(), dest: directory });
    }
};

process.nextTick = nextTick;

process.reallyExit = native.exit;

process.exit = function exit(code) {
    if (code !== undefined) process.exitCode = code;
    if (!process._exiting) {
        process._exiting = true;
        process.emit('exit', process.exitCode ?? 0);
    }
    process.reallyExit(Number(process.exitCode ?? 0));
};

process.abort = () => native.exit(134);
Object.defineProperty(process.abort, 'name', { value: 'abort' });

process.assert = function assert(value, message) {
    deprecate('DEP0100', 'process.assert() is deprecated. Please use the `assert` module instead.');
    if (value) return;
    throw Object.assign(new Error(message || 'assertion error'), { code: 'ERR_ASSERTION' });
};

process._rawDebug = function _rawDebug(...args) {
    native.write(2, `${globalThis.__skillhost_require('node:util').format(...args)}\n`);
};

process.threadCpuUsage = function threadCpuUsage(previous) {
    return process.cpuUsage(previous);
};

process.kill = function kill(pid, signal) {
    if (pid != (pid | 0)) throw new ERR_INVALID_ARG_TYPE('pid', 'number', pid);
    const number = typeof signal === 'number' ? signal : SIGNALS[signal || 'SIGTERM'];
    if (number === undefined) throw Object.assign(new TypeError(`Unknown signal: ${signal}`), { code: 'ERR_UNKNOWN_SIGNAL' });
    const errno = process._kill(+pid, number);
    if (errno) {
        const code = errno === -3 ? 'ESRCH' : 'EINVAL';
        throw Object.assign(new Error(`kill ${code}`), { errno, code, syscall: 'kill' });
    }
    return true;
};

// Sends a signal to this program or to a child, and returns the error number.
Object.defineProperty(process, '_kill', {
    value(pid, number) {
        if (number < 0 || number > 64) return -22;
        const child = process._children?.get(pid);
        if (number === 0 && (pid === process.pid || child !== undefined)) return 0;
        if (child !== undefined) {
            child.kill(number);
            return 0;
        }
        if (pid !== process.pid && pid !== 0) return -3;
        const name = Object.keys(SIGNALS).find((name) => SIGNALS[name] === number);
        if (name !== undefined && name !== 'SIGKILL' && process.listenerCount(name) > 0) {
            globalThis.setImmediate(() => process.emit(name, name, number));
            return 0;
        }
        return native.exit(128 + number);
    },
    writable: true,
    configurable: true,
});

// There is one program in a sandbox's process: it cannot be replaced.
process.execve = function execve(execPath, args = [], env = process.env) {
    warnOfExperiment('process.execve');
    validateString(execPath, 'execPath');
    validateArray(args, 'args');
    const isText = (value) => typeof value === 'string' && !value.includes('\0');
    for (const [index, argument] of args.entries()) {
        if (!isText(argument)) throw new ERR_INVALID_ARG_VALUE(`args[${index}]`, argument, 'must be a string without null bytes');
    }
    validateObject(env, 'env');
    if (!Object.entries(env).flat().every(isText)) {
        throw new ERR_INVALID_ARG_VALUE('env', env, 'must be an object with string keys and values without null bytes');
    }
    throw Object.assign(new TypeError('process.execve is unavailable on the current platform, which is being used to run Node.js'), {
        code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM',
    });
};

process.umask = function umask(mask) {
    const old = currentMask;
    if (mask !== undefined) {
        if (typeof mask === 'string' && !/^[0-7]+$/.test(mask)) {
            throw new ERR_INVALID_ARG_VALUE('mask', mask, 'must be a 32-bit unsigned integer or an octal string');
        }
        const value = typeof mask === 'string' ? parseInt(mask, 8) : mask;
        validateUint32(value, 'mask');
        currentMask = value & 0o777;
    }
    return old;
};
let currentMask = 0o022;

for (const name of ['getuid', 'geteuid', 'getgid', 'getegid']) process[name] = () => 1000;
process.getgroups = () => [1000];
function validateId(id, name) {
    if (typeof id === 'number') validateUint32(id, name);
    else if (typeof id !== 'string') throw new ERR_INVALID_ARG_TYPE(name, ['number', 'string'], id);
}

for (const [name, kind] of [['setuid', 'User'], ['seteuid', 'User'], ['setgid', 'Group'], ['setegid', 'Group'], ['setgroups'], ['initgroups']]) {
    process[name] = (id, group) => {
        if (kind !== undefined) {
            validateId(id, 'id');
            // Names of users and groups are unknown here.
            if (typeof id === 'string') throw Object.assign(new Error(`${kind} identifier does not exist: ${id}`), { code: 'ERR_UNKNOWN_CREDENTIAL' });
            if (id === 1000) return;
        } else if (name === 'setgroups') {
            validateArray(id, 'groups');
            id.forEach((one, index) => validateId(one, `groups[${index}]`));
            const unknown = id.find((one) => typeof one === 'string');
            if (unknown !== undefined) throw Object.assign(new Error(`Group identifier does not exist: ${unknown}`), { code: 'ERR_UNKNOWN_CREDENTIAL' });
        } else {
            validateId(id, 'user');
            validateId(group, 'extraGroup');
            if (typeof group === 'string') throw Object.assign(new Error(`Group identifier does not exist: ${group}`), { code: 'ERR_UNKNOWN_CREDENTIAL' });
        }
        throw Object.assign(new Error(`EPERM: operation not permitted, ${name}`), { errno: -1, code: 'EPERM', syscall: name });
    };
}

process.hrtime = function hrtime(previous) {
    const now = native.hrtime();
    let seconds = Math.floor(now / 1e9), nanos = Math.floor(now % 1e9);
    if (previous !== undefined) {
        if (!Array.isArray(previous)) throw new ERR_INVALID_ARG_TYPE('time', 'Array', previous);
        if (previous.length !== 2) throw new ERR_OUT_OF_RANGE('time', 2, previous.length);
        seconds -= previous[0];
        nanos -= previous[1];
        if (nanos < 0) {
            seconds -= 1;
            nanos += 1e9;
        }
    }
    return [seconds, nanos];
};
process.hrtime.bigint = () => BigInt(Math.floor(native.hrtime()));

process.uptime = () => native.uptime() / 1000;

process.cpuUsage = function cpuUsage(previous) {
    if (previous !== undefined && previous !== null) {
        validateObject(previous, 'prevValue');
        for (const name of ['user', 'system']) {
            validateNumber(previous[name], `prevValue.${name}`);
            if (!(previous[name] >= 0 && previous[name] <= Number.MAX_SAFE_INTEGER)) {
                throw Object.assign(new RangeError(`The property 'prevValue.${name}' is invalid. Received ${previous[name]}`), { code: 'ERR_INVALID_ARG_VALUE' });
            }
        }
    }
    const user = Math.floor(native.uptime() * 1000);
    return { user: user - (previous?.user ?? 0), system: 0 - (previous?.system ?? 0) };
};

process.resourceUsage = () => ({
    userCPUTime: Math.floor(native.uptime() * 1000), systemCPUTime: 0, maxRSS: Math.floor(native.memory()[0] / 1024), sharedMemorySize: 0,
    unsharedDataSize: 0, unsharedStackSize: 0, minorPageFault: 0, majorPageFault: 0, swappedOut: 0, fsRead: 0, fsWrite: 0, ipcSent: 0,
    ipcReceived: 0, signalsCount: 0, voluntaryContextSwitches: 0, involuntaryContextSwitches: 0,
});

process.memoryUsage = function memoryUsage() {
    const [rss, heapTotal, heapUsed, external] = native.memory();
    return { rss, heapTotal, heapUsed, external, arrayBuffers: 0 };
};
process.memoryUsage.rss = () => native.memory()[0];
process.constrainedMemory = () => 0;
process.availableMemory = () => 2 ** 31;

process.setUncaughtExceptionCaptureCallback = function setUncaughtExceptionCaptureCallback(fn) {
    if (fn !== null && typeof fn !== 'function') throw new ERR_INVALID_ARG_TYPE('fn', ['Function', 'null'], fn);
    if (fn !== null && process.hasUncaughtExceptionCaptureCallback()) {
        throw Object.assign(new Error('`process.setupUncaughtExceptionCapture()` was called while a capture callback was already active'), {
            code: 'ERR_UNCAUGHT_EXCEPTION_CAPTURE_ALREADY_SET',
        });
    }
    Object.defineProperty(process, '_uncaughtExceptionCapture', { value: fn, writable: true, enumerable: false, configurable: true });
};
process.hasUncaughtExceptionCaptureCallback = () => typeof process._uncaughtExceptionCapture === 'function';
process.addUncaughtExceptionCaptureCallback = process.setUncaughtExceptionCaptureCallback;

process.binding = function binding(name) {
    throw Object.assign(new Error(`No such module: ${name}`), { code: 'ERR_INVALID_MODULE' });
};
process.dlopen = function dlopen(_, filename) {
    throw Object.assign(new Error(`Native addons do not run in the sandbox: ${filename}`), { code: 'ERR_DLOPEN_FAILED' });
};
// Ends the program because of an error of an asynchronous hook.
Object.defineProperty(process, '_fatalHook', { value: fatalHook, enumerable: false });

// Ends the program after an error of a hook.
function fatalHook(error) {
    if (typeof error?.stack === 'string') fatal(error, 1);
    native.write(2, `Error: ${String(error)}\n`);
    native.exit(1);
}

process.setSourceMapsEnabled = (enabled) => validateBoolean(enabled, 'val');
process.openStdin = function openStdin() {
    process.stdin.resume();
    return process.stdin;
};
process.getActiveResourcesInfo = () => activeResources();
process._getActiveHandles = () => [];
process._getActiveRequests = () => Array.from({ length: deferredCount() }, () => ({}));
process._tickCallback = () => {};
// Programs that remove it end with the code 6 at an uncaught error.
Object.defineProperty(process, '_fatalException', { value: (error) => uncaught(error), writable: true, configurable: true });
for (const name of ['ref', 'unref']) {
    process[name] = (value) => {
        const method = value?.[Symbol.for(`nodejs.${name}`)] ?? value?.[Symbol.for(`node:${name}`)] ?? value?.[name];
        if (typeof method === 'function') Reflect.apply(method, value, []);
    };
}
// Objects whose functions are called at the end, if they are still there.
function finalizations() {
    const kept = { exit: new Map(), beforeExit: new Map() };
    const forget = new FinalizationRegistry((weak) => Object.values(kept).forEach((map) => map.delete(weak)));
    const register = (event, object, callback) => {
        warnOfExperiment(`process.finalization.${event === 'exit' ? 'register' : 'registerBeforeExit'}`);
        if (object === null || typeof object !== 'object') throw new ERR_INVALID_ARG_TYPE('obj', 'object', object);
        if (kept[event].size === 0) {
            process.on(event, () => {
                const list = [...kept[event]];
                kept[event].clear();
                for (const [weak, call] of list) {
                    const target = weak.deref();
                    if (target !== undefined) call(target, event);
                }
            });
        }
        const weak = new WeakRef(object);
        kept[event].set(weak, callback);
        forget.register(object, weak, object);
    };
    return {
        register: (object, callback) => register('exit', object, callback),
        registerBeforeExit: (object, callback) => register('beforeExit', object, callback),
        unregister(object) {
            forget.unregister(object);
            for (const map of Object.values(kept)) for (const weak of [...map.keys()]) if (weak.deref() === object) map.delete(weak);
        },
    };
}
process.finalization = finalizations();
process.loadEnvFile = function loadEnvFile(path = '.env') {
    const values = globalThis.__skillhost_require('node:util').parseEnv(globalThis.__skillhost_require('node:fs').readFileSync(path, 'utf8'));
    for (const [name, value] of Object.entries(values)) process.env[name] ??= value;
};
process.getBuiltinModule = function getBuiltinModule(name) {
    validateString(name, 'id');
    const module = globalThis.__skillhost_require('node:module');
    return module.isBuiltin(name) ? globalThis.__skillhost_require(name) : undefined;
};

let hinted = false;

process.emitWarning = function emitWarning(warning, type, code, ctor) {
    let detail;
    if (type !== null && typeof type === 'object' && !Array.isArray(type)) {
        ({ type, code, detail } = type);
    } else if (typeof type === 'function') {
        type = code = undefined;
    }
    if (typeof code === 'function') code = undefined;
    if (type !== undefined && typeof type !== 'string') throw new ERR_INVALID_ARG_TYPE('type', 'string', type);
    if (code !== undefined && typeof code !== 'string') throw new ERR_INVALID_ARG_TYPE('code', 'string', code);
    if (typeof warning === 'string') {
        warning = new Error(warning);
        const name = String(type || 'Warning');
        Object.defineProperty(warning, 'name', { value: name, writable: true, configurable: true, enumerable: false });
        if (code !== undefined) warning.code = code;
        if (typeof detail === 'string') warning.detail = detail;
    } else if (!(warning instanceof Error)) {
        throw new ERR_INVALID_ARG_TYPE('warning', ['string', 'Error'], warning);
    }
    if (warning.name === 'DeprecationWarning') {
        if (process.noDeprecation) return;
        if (process.throwDeprecation) return nextTick(() => { throw warning; });
    }
    // Those of an option's value: `--disable-warning=DEP0005`.
    if (optionValues('--disable-warning').some((value) => value === warning.code || value === warning.name)) return;
    nextTick(() => {
        if (!process.noWarnings && process.env.NODE_NO_WARNINGS !== '1') showWarning(warningText(warning));
        process.emit('warning', warning);
    });
};

// The options of NODE_OPTIONS and of the command line.
let flags = [];

function optionValues(name) {
    return flags.flatMap((option, at) => {
        if (option === name) return [flags[at + 1]];
        return option.startsWith(`${name}=`) ? [option.slice(name.length + 1)] : [];
    });
}

function showWarning(text) {
    const file = optionValues('--redirect-warnings').at(-1) ?? process.env.NODE_REDIRECT_WARNINGS;
    if (file) {
        try {
            importBuiltin('node:fs').appendFileSync(file, text);
            return;
        } catch {
            // As Node, which then writes to stderr.
        }
    }
    process.stderr.write(text);
}

function warningText(warning) {
    const traced = process.traceProcessWarnings || warning.name === 'DeprecationWarning' && process.traceDeprecation;
    let text = `(${process.release.name}:${process.pid}) `;
    if (warning.code) text += `[${warning.code}] `;
    text += traced && warning.stack ? warning.stack : `${warning.name}: ${warning.message}`;
    if (typeof warning.detail === 'string') text += `\n${warning.detail}`;
    if (!traced && !hinted) {
        hinted = true;
        const flag = warning.name === 'DeprecationWarning' ? '--trace-deprecation' : '--trace-warnings';
        text += `\n(Use \`node ${flag} ...\` to show where the warning was created)`;
    }
    return `${text}\n`;
}

function lazily(name, create) {
    let stream;
    Object.defineProperty(process, name, {
        get: () => stream ??= create(),
        set(value) { stream = value; },
        enumerable: true,
        configurable: true,
    });
}
lazily('stdin', () => new Input());
for (const [fd, name] of [[1, 'stdout'], [2, 'stderr']]) lazily(name, () => new (native.isTerminal(fd) ? TerminalOutput : Output)(fd));

// `gc` of `--expose-gc`.
function collectGarbage() {
    const { constants, performance, _measured } = importBuiltin('node:perf_hooks');
    const start = performance.now();
    native.collectGarbage();
    _measured('gc', 'gc', start, { kind: constants.NODE_PERFORMANCE_GC_MAJOR, flags: constants.NODE_PERFORMANCE_GC_FLAGS_FORCED });
}

// The globals that an option removes.
const GLOBALS = {
    fetch: ['fetch', 'FormData', 'Headers', 'Request', 'Response'], 'global-navigator': ['navigator', 'Navigator'], websocket: ['WebSocket'],
    'global-customevent': ['CustomEvent'], 'global-webcrypto': ['crypto', 'Crypto', 'CryptoKey', 'SubtleCrypto'],
};
const ABSENT = Object.keys(GLOBALS);

// Begins a run with what the build could not know.
export function _start(options) {
    process.argv = options.argv;
    process.argv0 = options.argv0;
    process.execArgv = options.execArgv;
    Object.assign(process.env, Object.fromEntries(native.environment()));
    flags = [...options.environmentOptions, ...options.execArgv];
    for (const flag of flags) {
        if (flag === '--no-warnings') process.noWarnings = true;
        else if (flag === '--warnings') process.noWarnings = false;
        else if (flag === '--no-deprecation') process.noDeprecation = true;
        else if (flag === '--throw-deprecation') process.throwDeprecation = true;
        else if (flag === '--trace-warnings') process.traceProcessWarnings = true;
        else if (flag === '--trace-deprecation') process.traceDeprecation = true;
    }
    process.title = optionValues('--title').at(-1) ?? options.argv0;
    if (options.text !== undefined) Object.defineProperty(process, '_eval', { value: options.text, enumerable: true, configurable: true });
    const rejections = optionValues('--unhandled-rejections').at(-1);
    if (rejections !== undefined) Object.defineProperty(process, '_unhandledRejections', { value: rejections, enumerable: false });
    if (flags.some((flag) => flag === '--expose-gc' || flag === '--expose_gc')) {
        Object.defineProperty(globalThis, 'gc', { value: collectGarbage, writable: true, configurable: true, enumerable: false });
    }
    for (const name of ABSENT) if (flags.includes(`--no-experimental-${name}`)) for (const global of GLOBALS[name]) delete globalThis[global];
    openChild();
    ({ argv, argv0, execArgv, title, pid, ppid } = process);
    setExit(
        () => process.emit('beforeExit', process.exitCode ?? 0),
        () => {
            if (process.exitCode === undefined && options.unsettled?.()) process.exitCode = 13;
            process._exiting = true;
            try {
                process.emit('exit', process.exitCode ?? 0);
            } catch (error) {
                uncaught(error);
            }
            return Number(process.exitCode ?? 0) & 255;
        },
    );
}

export let { argv, argv0, execArgv, title, pid, ppid } = process;
export const {
    version, versions, arch, platform, release, features, config, allowedNodeEnvironmentFlags, execPath, debugPort, env, cwd, chdir, exit, abort, kill,
    umask, getuid, geteuid, getgid, getegid, getgroups, setuid, seteuid, setgid, setegid, setgroups, initgroups, hrtime, uptime, cpuUsage,
    resourceUsage, memoryUsage, execve, constrainedMemory, availableMemory, setUncaughtExceptionCaptureCallback, hasUncaughtExceptionCaptureCallback,
    binding, dlopen, setSourceMapsEnabled, getActiveResourcesInfo, _getActiveHandles, _getActiveRequests, emitWarning, loadEnvFile,
    getBuiltinModule, reallyExit, report, finalization,
} = process;
export const emit = process.emit.bind(process), on = process.on.bind(process), once = process.once.bind(process), off = process.off.bind(process);
export { nextTick };
export { lazyStdin as stdin, lazyStdout as stdout, lazyStderr as stderr };

// An export has one value, and the streams exist from their first use on: these pass it on.
function passOn(name) {
    return new Proxy(Object.create(null), {
        get(_, key) {
            const stream = process[name];
            const value = stream[key];
            return typeof value === 'function' ? value.bind(stream) : value;
        },
        set(_, key, value) {
            process[name][key] = value;
            return true;
        },
        has: (_, key) => key in process[name],
        getPrototypeOf: () => Object.getPrototypeOf(process[name]),
    });
}
const lazyStdin = passOn('stdin'), lazyStdout = passOn('stdout'), lazyStderr = passOn('stderr');
