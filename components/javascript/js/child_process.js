// node:child_process over the programs of the sandbox.

import * as native from 'internal:native/child_process';
import { EventEmitter } from 'node:events';
import { addSource, removeSource, nextTick } from 'internal:event_loop';
import process, { SIGNALS } from 'node:process';
import fs from 'node:fs';
import path from 'node:path';
import { Buffer } from 'node:buffer';
import Readable from '__wasm_rquickjs_builtin/internal/streams/readable';
import Writable from '__wasm_rquickjs_builtin/internal/streams/writable';
import { openParent } from 'internal:channel';
import { validateAbortSignal, validateBoolean, validateFunction, validateObject, validateOneOf, validateString } from '__wasm_rquickjs_builtin/internal/validators';
import { ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE } from '__wasm_rquickjs_builtin/internal/errors';

const DEFAULT_BUFFER = 1024 * 1024;
const PROGRAM_FOLDERS = ['/bin', '/usr/bin', '/usr/local/bin', '/sbin', '/usr/sbin'];
const running = new Map();
Object.defineProperty(process, '_children', { value: running, enumerable: false });

// Reads a pipe of a program.
class Output extends Readable {
    #source;

    constructor(reader) {
        super({ highWaterMark: 65536 });
        this.writable = false;
        this.#source = { reader, active: true, ready: () => this.#take() };
    }

    #take() {
        const chunk = native.read(this.#source.reader);
        if (chunk === undefined) return;
        removeSource(this.#source);
        if (chunk === null) {
            native.close(this.#source.reader);
            this.push(null);
        } else {
            this.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
        }
    }

    _read() {
        addSource(this.#source);
    }

    ref() {
        this.#source.active = true;
    }

    unref() {
        this.#source.active = false;
    }

    _destroy(error, callback) {
        removeSource(this.#source);
        native.close(this.#source.reader);
        callback(error);
    }
}

// Writes to a pipe of a program.
class Input extends Writable {
    #writer;

    constructor(writer) {
        super({ decodeStrings: true });
        this.readable = false;
        this.#writer = writer;
    }

    _write(chunk, encoding, callback) {
        const source = {
            writer: this.#writer,
            active: true,
            ready: () => {
                const count = native.write(this.#writer, chunk);
                if (count < 0) {
                    removeSource(source);
                    callback(Object.assign(new Error('write EPIPE'), { errno: -32, code: 'EPIPE', syscall: 'write' }));
                    return;
                }
                chunk = chunk.subarray(count);
                if (chunk.length === 0) {
                    removeSource(source);
                    callback();
                }
            },
        };
        addSource(source);
    }

    _final(callback) {
        native.close(this.#writer);
        callback();
    }

    _destroy(error, callback) {
        native.close(this.#writer);
        callback(error);
    }

    ref() {}
    unref() {}
}

// Returns the arguments of the host's call: the program by its name, or the interpreter of a script.
function resolve(file, args, cwd) {
    if (!file.includes('/')) return [file, ...args];
    const full = path.resolve(cwd, file);
    if (full === process.execPath) return ['node', ...args];
    if (PROGRAM_FOLDERS.includes(path.dirname(full))) return [path.basename(full), ...args];
    let head;
    try {
        const fd = fs.openSync(full, 'r');
        try {
            const buffer = Buffer.alloc(256);
            head = buffer.toString('latin1', 0, fs.readSync(fd, buffer, 0, 256, 0));
        } finally {
            fs.closeSync(fd);
        }
    } catch (error) {
        return { code: error.code === 'EISDIR' ? 'EACCES' : error.code };
    }
    const found = /^#![ \t]*(\S+)(?:[ \t]+(\S.*?))?[ \t\r]*(?:\n|$)/.exec(head);
    if (!found) return ['bash', full, ...args];
    let [, interpreter, option] = found;
    const options = option ? option.split(/\s+/) : [];
    interpreter = path.basename(interpreter);
    if (interpreter === 'env') {
        while (options[0]?.startsWith('-')) options.shift();
        interpreter = options.shift() ?? 'sh';
    }
    return [interpreter, ...options, full, ...args];
}

function text(value, name) {
    if (typeof value !== 'string') throw new ERR_INVALID_ARG_TYPE(name, 'string', value);
    if (value.includes('\0')) throw new ERR_INVALID_ARG_VALUE(name, value, 'must be a string without null bytes');
    return value;
}

// Checks what `spawn` and its like are called with, and returns it in one form.
function normalize(file, args, options) {
    text(file, 'file');
    if (file.length === 0) throw new ERR_INVALID_ARG_VALUE('file', file, 'cannot be empty');
    if (Array.isArray(args)) args = args.slice();
    else if (args === undefined || args === null) args = [];
    else if (typeof args !== 'object') throw new ERR_INVALID_ARG_TYPE('args', 'object', args);
    else [args, options] = [[], args];
    args = args.map((arg, index) => text(`${arg}`, `args[${index}]`));
    if (options === undefined) options = {};
    else validateObject(options, 'options');
    // What another one added to the prototype of objects does not count.
    options = { __proto__: null, ...options };
    let { cwd, env, shell, argv0, detached, uid, gid, windowsHide, windowsVerbatimArguments } = options;
    if (cwd !== undefined && cwd !== null) {
        if (cwd instanceof globalThis.URL) cwd = globalThis.__skillhost_require('node:url').fileURLToPath(cwd);
        text(cwd, 'options.cwd');
        cwd = path.resolve(cwd);
    } else {
        cwd = undefined;
    }
    if (detached !== undefined && detached !== null) validateBoolean(detached, 'options.detached');
    for (const [name, value] of [['uid', uid], ['gid', gid]]) {
        if (value === undefined || value === null) continue;
        if (value !== (value | 0)) throw new ERR_INVALID_ARG_TYPE(`options.${name}`, 'int32', value);
        // Programs of the sandbox have one user.
        if (value !== 1000) throw Object.assign(new Error('spawn EPERM'), { errno: -1, code: 'EPERM', syscall: 'spawn' });
    }
    if (shell !== undefined && shell !== null && typeof shell !== 'boolean' && typeof shell !== 'string') {
        throw new ERR_INVALID_ARG_TYPE('options.shell', ['boolean', 'string'], shell);
    }
    if (argv0 !== undefined && argv0 !== null) text(argv0, 'options.argv0');
    if (windowsHide !== undefined && windowsHide !== null) validateBoolean(windowsHide, 'options.windowsHide');
    if (windowsVerbatimArguments !== undefined && windowsVerbatimArguments !== null) validateBoolean(windowsVerbatimArguments, 'options.windowsVerbatimArguments');
    if (typeof shell === 'string') text(shell, 'options.shell');
    const spawnfile = shell ? (typeof shell === 'string' ? shell : '/bin/sh') : file;
    const command = shell ? [file, ...args].join(' ') : undefined;
    if (shell) {
        args = ['-c', command];
        file = spawnfile;
    }
    const variables = env ?? process.env;
    const pairs = [];
    for (const name in variables) {
        const value = variables[name];
        if (value !== undefined) pairs.push([text(name, `options.env['${name}']`), text(`${value}`, `options.env['${name}']`)]);
    }
    return { file, args, options, cwd, env: pairs, spawnfile, spawnargs: [argv0 ?? spawnfile, ...args], command };
}

function checkTimeout(timeout) {
    if (timeout !== undefined && timeout !== null && !(Number.isInteger(timeout) && timeout >= 0)) {
        throw new ERR_OUT_OF_RANGE('timeout', 'an unsigned integer', timeout);
    }
}

function checkMaxBuffer(maxBuffer) {
    if (maxBuffer !== undefined && maxBuffer !== null && !(typeof maxBuffer === 'number' && maxBuffer >= 0)) {
        throw new ERR_OUT_OF_RANGE('options.maxBuffer', 'a positive number', maxBuffer);
    }
}

function checkKillSignal(signal) {
    if (signal === undefined || signal === null) return;
    if (typeof signal !== 'string' && typeof signal !== 'number') throw new ERR_INVALID_ARG_TYPE('options.killSignal', ['string', 'number'], signal);
    if (signalName(signal) === 0) throw Object.assign(new TypeError('Unknown signal: 0'), { code: 'ERR_UNKNOWN_SIGNAL' });
}

function signalName(signal) {
    if (signal === undefined || signal === null) return 'SIGTERM';
    if (typeof signal === 'number') {
        const name = Object.keys(SIGNALS).find((name) => SIGNALS[name] === signal);
        if (name !== undefined || signal === 0) return name ?? 0;
    } else if (Object.hasOwn(SIGNALS, String(signal).toUpperCase())) {
        return String(signal).toUpperCase();
    }
    throw Object.assign(new TypeError(`Unknown signal: ${signal}`), { code: 'ERR_UNKNOWN_SIGNAL' });
}

function spawnError(syscall, normalized, { code, errno, message }) {
    errno ??= { ENOENT: -2, EACCES: -13, ENOTDIR: -20 }[code] ?? -1;
    const error = new Error(`${syscall} ${normalized.spawnfile} ${code}`);
    Object.assign(error, { errno, code, syscall: `${syscall} ${normalized.spawnfile}`, path: normalized.spawnfile, spawnargs: normalized.spawnargs.slice(1) });
    // Why the sandbox refuses it, and what allows it.
    if (message && code !== 'ENOENT') error.message += `: ${message}`;
    return error;
}

// Splits `stdio` into what the host does, and what this module moves.
function standardStreams(stdio) {
    if (stdio === undefined || stdio === null) stdio = 'pipe';
    if (typeof stdio === 'string') {
        if (!['pipe', 'ignore', 'inherit', 'overlapped'].includes(stdio)) throw new ERR_INVALID_ARG_VALUE('stdio', stdio);
        stdio = [stdio, stdio, stdio];
    }
    if (!Array.isArray(stdio)) throw new ERR_INVALID_ARG_VALUE('stdio', stdio);
    const kinds = [], files = [];
    let ipc;
    for (let fd = 0; fd < Math.max(3, stdio.length); fd++) {
        const wanted = stdio[fd] ?? (fd < 3 ? 'pipe' : 'ignore');
        const number = typeof wanted === 'number' ? wanted : typeof wanted?.fd === 'number' ? wanted.fd : undefined;
        if (wanted === 'pipe' || wanted === 'overlapped') kinds[fd] = 'pipe';
        else if (wanted === 'ignore') kinds[fd] = 'ignore';
        else if (wanted === 'inherit' || number === fd) kinds[fd] = 'inherit';
        else if (wanted === 'ipc') {
            if (ipc !== undefined) throw Object.assign(new Error('Child process can have only one IPC pipe'), { code: 'ERR_IPC_ONE_PIPE' });
            ipc = fd;
            kinds[fd] = 'ignore';
        }
        else if (fd === 2 && number === 1 && kinds[1] === 'inherit') kinds[fd] = 'stdout';
        else if (number !== undefined) {
            kinds[fd] = 'pipe';
            files[fd] = number;
        } else if (wanted instanceof Writable || wanted instanceof Readable || typeof wanted?.pipe === 'function' || typeof wanted?.write === 'function') {
            kinds[fd] = 'pipe';
            files[fd] = wanted;
        } else throw new ERR_INVALID_ARG_VALUE('stdio', wanted);
    }
    return { kinds, files, ipc };
}

export class ChildProcess extends EventEmitter {
    constructor() {
        super();
        this.connected = false;
        this.signalCode = null;
        this.exitCode = null;
        this.killed = false;
        this.spawnfile = null;
        this.pid = undefined;
        this.stdin = this.stdout = this.stderr = null;
        this.stdio = [null, null, null];
        this.channel = null;
    }

    #handle;
    #source;
    #signal;
    #open = 0;

    // What `spawn` of this module calls in Node.
    spawn(options) {
        validateObject(options, 'options');
        if (options.envPairs !== undefined && !Array.isArray(options.envPairs)) throw new ERR_INVALID_ARG_TYPE('options.envPairs', 'Array', options.envPairs);
        validateString(options.file, 'options.file');
        if (options.args !== undefined && !Array.isArray(options.args)) throw new ERR_INVALID_ARG_TYPE('options.args', 'Array', options.args);
        const pairs = options.envPairs?.map((pair) => pair.split(/=(.*)/s).slice(0, 2));
        const args = options.args?.slice(1) ?? [];
        this._start(normalize(options.file, args, { ...options, env: pairs && Object.fromEntries(pairs) }));
    }

    _start(normalized) {
        const { options, cwd, env } = normalized;
        this.spawnfile = normalized.spawnfile;
        this.spawnargs = normalized.spawnargs;
        const { kinds, files, ipc } = standardStreams(options.stdio);
        const argv = resolve(normalized.file, normalized.args, cwd ?? process.cwd());
        const wanted = kinds.slice();
        let token;
        // The channel shares stdin and stdout.
        if (ipc !== undefined) {
            token = globalThis.__skillhost_require('node:crypto').randomBytes(16).toString('hex');
            env.push(['NODE_CHANNEL_FD', token], ['NODE_CHANNEL_SERIALIZATION_MODE', options.serialization ?? 'json']);
            kinds[0] = kinds[1] = 'pipe';
        }
        let started = argv;
        if (Array.isArray(argv)) {
            started = cwd !== undefined && !fs.existsSync(cwd) ? { code: 'ENOENT' } : native.spawn({ argv, env, cwd, stdio: kinds });
        }
        if (started.child === undefined) {
            const error = spawnError('spawn', normalized, started);
            for (let fd = 0; fd < 3; fd++) if (wanted[fd] === 'pipe' && files[fd] === undefined) this.#failed(fd);
            nextTick(() => {
                this.emit('error', error);
                this.#closed(null, null, true);
            });
            this.exitCode = error.errno;
            return;
        }
        this.pid = started.pid;
        this.#handle = started.child;
        running.set(this.pid, this);
        if (token === undefined) this.#streams(started, files);
        else this.#channel(started, files, wanted, token, options.serialization ?? 'json');
        this.#source = { child: this.#handle, active: true, ready: () => this.#ended() };
        addSource(this.#source);
        nextTick(() => this.emit('spawn'));
        if (options.timeout > 0) {
            const timer = globalThis.setTimeout(() => this.kill(options.killSignal), options.timeout);
            this.once('exit', () => globalThis.clearTimeout(timer));
        }
        if (options.signal) this.#abortBy(options.signal, options.killSignal);
    }

    #failed(fd) {
        const stream = fd === 0 ? new Writable({ write(chunk, encoding, callback) { callback(); } }) : new Readable({ read() { this.push(null); } });
        this[['stdin', 'stdout', 'stderr'][fd]] = this.stdio[fd] = stream;
        if (fd === 0) stream.destroy();
        else stream.resume?.();
    }

    #streams(started, files) {
        if (started.stdin != null) {
            const stream = new Input(started.stdin);
            if (files[0] === undefined) this.stdin = this.stdio[0] = stream;
            else if (typeof files[0] === 'number') stream.end(fs.readFileSync(files[0]));
            else files[0].pipe(stream);
        }
        for (const [fd, name] of [[1, 'stdout'], [2, 'stderr']]) {
            if (started[name] == null) continue;
            const stream = new Output(started[name]);
            this.#open += 1;
            stream.once('close', () => {
                this.#open -= 1;
                this.#maybeClosed();
            });
            const file = files[fd];
            if (file === undefined) this[name] = this.stdio[fd] = stream;
            else if (typeof file === 'number') stream.on('data', (chunk) => fs.writeSync(file, chunk));
            else stream.pipe(file, { end: false });
        }
    }

    // Separates the messages of the channel from the data of stdin and stdout.
    #channel(started, files, wanted, token, mode) {
        const { stdin, stdout } = started;
        this.#streams({ stderr: started.stderr }, files);
        const shown = wanted[1] === 'pipe' && files[1] === undefined ? new Readable({ read() {} }) : undefined;
        if (shown !== undefined) this.stdout = this.stdio[1] = shown;
        const file = files[1];
        const output = new Output(stdout);
        this.#open += 1;
        const inner = openParent(this, {
            token, mode, output, input: new Input(stdin),
            stdout: (chunk) => {
                if (shown !== undefined) shown.push(chunk);
                else if (wanted[1] === 'inherit') process.stdout.write(chunk);
                else if (typeof file === 'number') fs.writeSync(file, chunk);
                else if (file !== undefined) file.write(chunk);
            },
            closed: () => {
                shown?.push(null);
                this.#open -= 1;
                this.#maybeClosed();
            },
        });
        const given = new Writable({
            write: (chunk, encoding, callback) => inner.write(chunk, callback),
            final: (callback) => inner.end(callback),
        });
        // A child that has ended does not read what is left.
        if (wanted[0] !== 'pipe') given.on('error', () => {}).end();
        else if (files[0] === undefined) this.stdin = this.stdio[0] = given;
        else if (typeof files[0] === 'number') given.end(fs.readFileSync(files[0]));
        else files[0].pipe(given);
    }

    #abortBy(signal, killSignal) {
        const abort = () => {
            this.kill(killSignal);
            const error = new Error('The operation was aborted', { cause: signal.reason });
            error.name = 'AbortError';
            error.code = 'ABORT_ERR';
            this.emit('error', error);
        };
        if (signal.aborted) {
            nextTick(abort);
            return;
        }
        signal.addEventListener('abort', abort, { once: true });
        this.once('exit', () => signal.removeEventListener('abort', abort));
    }

    #ended() {
        const status = native.status(this.#handle);
        if (status === undefined) return;
        removeSource(this.#source);
        native.close(this.#handle);
        running.delete(this.pid);
        if (status.signal !== undefined) this.signalCode = status.signal === 'SIGTERM' ? this.#signal ?? 'SIGTERM' : status.signal;
        else this.exitCode = status.exitCode;
        this.stdin?.destroy();
        this.emit('exit', this.exitCode, this.signalCode);
        // `close` waits for the ends of the streams, also of those without a reader.
        nextTick(() => {
            for (const stream of [this.stdout, this.stderr]) if (stream?.readable) stream.resume();
        });
        this.#exited = true;
        this.#maybeClosed();
    }

    #exited = false;

    #maybeClosed() {
        if (this.#exited && this.#open === 0) this.#closed(this.exitCode, this.signalCode, false);
    }

    #closed(code, signal, failed) {
        nextTick(() => this.emit('close', failed ? this.exitCode : code, signal));
    }

    kill(signal) {
        const name = signalName(signal);
        if (this.#handle === undefined || this.#exited) return false;
        if (name === 0) return true;
        this.killed = true;
        this.#signal = name;
        native.kill(this.#handle);
        return true;
    }

    [Symbol.dispose]() {
        this.kill();
    }

    ref() {
        if (this.#source) this.#source.active = true;
    }

    unref() {
        if (this.#source) this.#source.active = false;
    }

}

export function spawn(file, args, options) {
    const normalized = normalize(file, args, options);
    ({ options } = normalized);
    validateOneOf(options.serialization, 'options.serialization', [undefined, 'json', 'advanced']);
    checkTimeout(options.timeout);
    validateAbortSignal(options.signal, 'options.signal');
    checkKillSignal(options.killSignal);
    const child = new ChildProcess();
    child._start(normalized);
    return child;
}

class MaxBufferError extends RangeError {
    constructor(name) {
        super(`${name} maxBuffer length exceeded`);
        this.code = 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER';
    }
}

// Collects what a program writes, and calls `callback` when it has ended.
function collect(child, options, callback, command) {
    const encoding = options.encoding !== 'buffer' && Buffer.isEncoding(options.encoding) ? options.encoding : null;
    const parts = { stdout: [], stderr: [] }, lengths = { stdout: 0, stderr: 0 };
    let failure = null, killed = false, done = false, timer;
    const finish = (code, signal) => {
        if (done) return;
        done = true;
        globalThis.clearTimeout(timer);
        if (!callback) return;
        const [stdout, stderr] = ['stdout', 'stderr'].map((name) => {
            return encoding || child[name]?.readableEncoding ? parts[name].join('') : Buffer.concat(parts[name]);
        });
        if (failure === null && code === 0 && signal === null) {
            callback(null, stdout, stderr);
            return;
        }
        if (failure === null) {
            failure = new Error(`Command failed: ${command}\n${stderr}`);
            const name = code < 0 ? globalThis.__skillhost_require('node:util').getSystemErrorName(code) : code;
            Object.assign(failure, { code: name, killed: child.killed || killed, signal });
        }
        failure.cmd = command;
        callback(failure, stdout, stderr);
    };
    const kill = () => {
        child.stdout?.destroy();
        child.stderr?.destroy();
        killed = true;
        try {
            child.kill(options.killSignal);
        } catch (error) {
            failure ??= error;
            finish();
        }
    };
    if (options.timeout > 0) timer = globalThis.setTimeout(kill, options.timeout);
    for (const name of ['stdout', 'stderr']) {
        const stream = child[name];
        if (!stream) continue;
        if (encoding) stream.setEncoding(encoding);
        stream.on('data', (chunk) => {
            const coded = stream.readableEncoding;
            const length = coded ? Buffer.byteLength(chunk, coded) : chunk.length;
            lengths[name] += length;
            if (lengths[name] <= options.maxBuffer) {
                parts[name].push(chunk);
                return;
            }
            parts[name].push(chunk.slice(0, options.maxBuffer - (lengths[name] - length)));
            failure = new MaxBufferError(name);
            kill();
        });
    }
    child.addListener('close', finish);
    child.addListener('error', (error) => {
        failure = error;
        child.stdout?.destroy();
        child.stderr?.destroy();
        finish();
    });
    return child;
}

export function execFile(file, args, options, callback) {
    if (args !== null && typeof args === 'object' && !Array.isArray(args)) [args, options, callback] = [[], args, options];
    else if (typeof args === 'function') [args, options, callback] = [[], undefined, args];
    if (typeof options === 'function') [options, callback] = [undefined, options];
    if (args !== undefined && args !== null && !Array.isArray(args)) throw new ERR_INVALID_ARG_TYPE('args', 'object', args);
    if (options !== undefined && options !== null) validateObject(options, 'options');
    if (callback !== undefined && callback !== null) validateFunction(callback, 'callback');
    options = { encoding: 'utf8', timeout: 0, maxBuffer: DEFAULT_BUFFER, killSignal: 'SIGTERM', cwd: null, env: null, shell: false, ...options };
    checkTimeout(options.timeout);
    checkMaxBuffer(options.maxBuffer);
    checkKillSignal(options.killSignal);
    const { timeout, ...rest } = options;
    const child = spawn(file, args ?? [], rest);
    return collect(child, options, callback, [file, ...args ?? []].join(' '));
}

export function exec(command, options, callback) {
    if (typeof options === 'function') [options, callback] = [undefined, options];
    text(command, 'command');
    return execFile(command, { ...options, shell: typeof options?.shell === 'string' ? options.shell : true }, callback);
}

function promisified(run) {
    return (...args) => {
        const { promise, resolve, reject } = Promise.withResolvers();
        promise.child = run(...args, (error, stdout, stderr) => {
            if (error !== null) {
                error.stdout = stdout;
                error.stderr = stderr;
                reject(error);
            }
            else resolve({ stdout, stderr });
        });
        return promise;
    };
}
const custom = Symbol.for('nodejs.util.promisify.custom');
Object.defineProperty(exec, custom, { value: promisified(exec) });
Object.defineProperty(execFile, custom, { value: promisified(execFile) });

// The options of this process, without `-e TEXT`: the child runs a file.
function inheritedOptions() {
    const { _eval: text, execArgv } = process;
    const at = text === undefined ? -1 : execArgv.lastIndexOf(text);
    return at > 0 ? execArgv.toSpliced(at - 1, 2) : execArgv;
}

export function fork(modulePath, args, options) {
    if (modulePath instanceof globalThis.URL) modulePath = globalThis.__skillhost_require('node:url').fileURLToPath(modulePath);
    text(modulePath, 'modulePath');
    if (args === undefined || args === null) args = [];
    else if (typeof args === 'object' && !Array.isArray(args)) [args, options] = [[], args];
    else if (!Array.isArray(args)) throw new ERR_INVALID_ARG_TYPE('args', 'object', args);
    if (options !== undefined && options !== null && (typeof options !== 'object' || Array.isArray(options))) {
        throw new ERR_INVALID_ARG_TYPE('options', 'Object', options);
    }
    const { execArgv, execPath, silent, ...rest } = { __proto__: null, ...options };
    let { stdio } = rest;
    if (typeof stdio === 'string') {
        if (!['pipe', 'ignore', 'inherit', 'overlapped'].includes(stdio)) throw new ERR_INVALID_ARG_VALUE('stdio', stdio);
        stdio = [stdio, stdio, stdio, 'ipc'];
    } else if (!Array.isArray(stdio)) {
        stdio = silent ? ['pipe', 'pipe', 'pipe', 'ipc'] : ['inherit', 'inherit', 'inherit', 'ipc'];
    } else if (!stdio.includes('ipc')) {
        throw Object.assign(new Error("Forked processes must have an IPC channel, missing value 'ipc' in options.stdio"), { code: 'ERR_CHILD_PROCESS_IPC_REQUIRED' });
    }
    return spawn(execPath || process.execPath, [...execArgv || inheritedOptions(), modulePath, ...args], { ...rest, stdio, shell: false });
}

export function spawnSync(file, args, options) {
    const normalized = normalize(file, args, options);
    options = { maxBuffer: DEFAULT_BUFFER, ...normalized.options };
    checkTimeout(options.timeout);
    checkMaxBuffer(options.maxBuffer);
    checkKillSignal(options.killSignal);
    const { cwd, env } = normalized;
    const { kinds, files } = standardStreams(options.stdio);
    let input = options.input;
    if (input !== undefined && input !== null) {
        if (typeof input === 'string') input = Buffer.from(input, options.encoding === 'buffer' ? undefined : options.encoding);
        else if (ArrayBuffer.isView(input)) input = new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
        else throw new ERR_INVALID_ARG_TYPE('options.stdio[0]', ['Buffer', 'TypedArray', 'DataView', 'string'], input);
        kinds[0] = 'pipe';
    } else if (typeof files[0] === 'number') {
        input = fs.readFileSync(files[0]);
    }
    const argv = resolve(normalized.file, normalized.args, cwd ?? process.cwd());
    let result = argv;
    if (Array.isArray(argv)) {
        result = cwd !== undefined && !fs.existsSync(cwd) ? { code: 'ENOENT' } : native.runSync({
            argv, env, cwd, stdio: kinds, input: input ?? undefined, timeout: options.timeout > 0 ? options.timeout : undefined,
            maxBuffer: options.maxBuffer ?? DEFAULT_BUFFER,
        });
    }
    if (result.pid === undefined) {
        return { error: spawnError('spawnSync', normalized, result), status: null, signal: null, output: null, pid: 0 };
    }
    const outputs = ['stdout', 'stderr'].map((name, index) => {
        const fd = index + 1;
        const bytes = Buffer.from(result[name].buffer, result[name].byteOffset, result[name].byteLength);
        if (files[fd] !== undefined) {
            if (typeof files[fd] === 'number') fs.writeSync(files[fd], bytes);
            else files[fd].write(bytes);
            return null;
        }
        if (kinds[fd] !== 'pipe') return null;
        return options.encoding && options.encoding !== 'buffer' ? bytes.toString(options.encoding) : bytes;
    });
    const [stdout, stderr] = outputs;
    let signal = result.signal ?? null;
    if (signal === 'SIGTERM' && options.killSignal) signal = signalName(options.killSignal);
    const end = { status: signal === null ? result.exitCode : null, signal, output: [null, stdout, stderr], pid: result.pid, stdout, stderr };
    if (result.timedOut) end.error = spawnError('spawnSync', normalized, { code: 'ETIMEDOUT', errno: -110 });
    else if (result.overflow) end.error = spawnError('spawnSync', normalized, { code: 'ENOBUFS', errno: -105 });
    return end;
}

function checked(result, command) {
    if (result.error !== undefined) throw Object.assign(result.error, result);
    if (result.status === 0) return result.stdout;
    let message = `Command failed: ${command}`;
    if (result.stderr?.length > 0) message += `\n${result.stderr.toString()}`;
    throw Object.assign(new Error(message), result);
}

export function execFileSync(file, args, options) {
    if (args !== null && typeof args === 'object' && !Array.isArray(args)) [args, options] = [[], args];
    const result = spawnSync(file, args ?? [], options);
    if (!options?.stdio && result.stderr) process.stderr.write(result.stderr);
    return checked(result, [options?.argv0 || file, ...args ?? []].join(' '));
}

export function execSync(command, options) {
    text(command, 'command');
    const result = spawnSync(command, [], { ...options, shell: typeof options?.shell === 'string' ? options.shell : true });
    if (!options?.stdio && result.stderr) process.stderr.write(result.stderr);
    return checked(result, command);
}

export function _forkChild() {}

export default { ChildProcess, spawn, exec, execFile, fork, spawnSync, execSync, execFileSync, _forkChild };
