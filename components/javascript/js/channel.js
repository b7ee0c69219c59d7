// The channel of messages between a program and one that it forked. A program of the sandbox has three streams, so the channel shares two of them:
// what the child sends is marked in its stdout, and what it receives comes in frames of its stdin.

import * as native from 'internal:native/process';
import process from 'node:process';
import { Buffer } from 'node:buffer';
import { addSource, removeSource, nextTick } from 'internal:event_loop';
import Readable from '__wasm_rquickjs_builtin/internal/streams/readable';
import { ERR_INVALID_ARG_TYPE } from '__wasm_rquickjs_builtin/internal/errors';

const AT_ONCE = 65536;
// The kinds of frames.
const DATA = 'd', JSON_MESSAGE = 'm', ADVANCED_MESSAGE = 'a', END = 'x';

function encode(message, mode) {
    if (mode !== 'advanced') return JSON_MESSAGE + JSON.stringify(message);
    const bytes = globalThis.__skillhost_require('node:v8').serialize(message);
    return ADVANCED_MESSAGE + bytes.toString('base64');
}

function decode(text) {
    if (text[0] === JSON_MESSAGE) return JSON.parse(text.slice(1));
    return globalThis.__skillhost_require('node:v8').deserialize(Buffer.from(text.slice(1), 'base64'));
}

function coded(Class, code, message) {
    return Object.assign(new Class(message), { code });
}

// Adds the channel's methods to a child process or to `process`. `put` sends a text.
function addMethods(target, put, mode, close) {
    target.connected = true;
    target.send = function send(message, handle, options, callback) {
        if (typeof handle === 'function') [handle, options, callback] = [undefined, undefined, handle];
        else if (typeof options === 'function') [options, callback] = [undefined, options];
        else if (options !== undefined && (options === null || typeof options !== 'object')) throw new ERR_INVALID_ARG_TYPE('options', 'Object', options);
        if (!target.connected) {
            const error = coded(Error, 'ERR_IPC_CHANNEL_CLOSED', 'Channel closed');
            if (typeof callback === 'function') nextTick(callback, error);
            else nextTick(() => target.emit('error', error));
            return false;
        }
        if (message === undefined) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "message" argument must be specified');
        if (!['string', 'object', 'number', 'boolean'].includes(typeof message)) {
            throw new ERR_INVALID_ARG_TYPE('message', ['string', 'object', 'number', 'boolean'], message);
        }
        if (handle !== undefined && handle !== null) throw coded(TypeError, 'ERR_INVALID_HANDLE_TYPE', 'This handle type cannot be sent');
        put(encode(message, mode));
        if (typeof callback === 'function') nextTick(callback, null);
        return true;
    };
    target.disconnect = function disconnect() {
        if (!target.connected) {
            target.emit('error', coded(Error, 'ERR_IPC_DISCONNECTED', 'IPC channel is already disconnected'));
            return;
        }
        put(END);
        target._disconnected();
    };
    Object.defineProperty(target, '_disconnected', {
        value() {
            if (!target.connected) return;
            target.connected = false;
            target.channel = null;
            close();
            nextTick(() => target.emit('disconnect'));
        },
        enumerable: false,
    });
}

// Emits a message on a target.
function deliver(target, text) {
    if (text[0] === END) {
        target._disconnected();
        return;
    }
    const message = decode(text);
    const isInternal = message !== null && typeof message === 'object' && typeof message.cmd === 'string' && message.cmd.startsWith('NODE_');
    target.emit(isInternal ? 'internalMessage' : 'message', message, undefined);
}

// Separates the messages in a child's stdout from its data.
class Splitter {
    #marker;
    #pending = Buffer.alloc(0);
    #data;
    #message;

    constructor(token, data, message) {
        this.#marker = Buffer.from(`\0${token}`, 'latin1');
        this.#data = data;
        this.#message = message;
    }

    write(chunk) {
        let left = this.#pending.length > 0 ? Buffer.concat([this.#pending, chunk]) : chunk;
        for (;;) {
            const at = left.indexOf(this.#marker);
            if (at < 0) {
                const kept = this.#partial(left);
                if (kept < left.length) this.#data(left.subarray(0, left.length - kept));
                this.#pending = left.subarray(left.length - kept);
                return;
            }
            if (at > 0) this.#data(left.subarray(0, at));
            const start = at + this.#marker.length, end = left.indexOf(10, start);
            if (end < 0) {
                this.#pending = left.subarray(at);
                return;
            }
            this.#message(left.toString('utf8', start, end));
            left = left.subarray(end + 1);
        }
    }

    // How many bytes at the end may begin a marker.
    #partial(bytes) {
        const last = bytes.lastIndexOf(0);
        if (last < 0 || bytes.length - last >= this.#marker.length) return 0;
        return bytes.subarray(last).equals(this.#marker.subarray(0, bytes.length - last)) ? bytes.length - last : 0;
    }

    end() {
        if (this.#pending.length > 0) this.#data(this.#pending);
    }
}

function frame(kind, bytes) {
    return Buffer.concat([Buffer.from(`${kind} ${bytes.length}\n`), bytes]);
}

// The parent's end: `input` is the stream to the child's stdin, and `output` that of its stdout. Returns what the child's stdin and stdout are for
// the program: `stdin` has `write` and `end`, and `stdout` gets the data.
export function openParent(child, { token, mode, input, output, stdout, closed }) {
    // A child that has ended does not read what is left.
    input.on('error', () => {});
    let open = true;
    addMethods(child, (text) => {
        if (open) input.write(frame(JSON_MESSAGE, Buffer.from(text)));
    }, mode, () => {});
    child.channel = { ref() {}, unref() {}, refCounted() {}, unrefCounted() {} };
    const splitter = new Splitter(token, stdout, (text) => deliver(child, text));
    output.on('data', (chunk) => splitter.write(chunk));
    output.on('end', () => {
        splitter.end();
        open = false;
        child._disconnected();
        closed();
    });
    return {
        write: (chunk, callback) => input.write(frame(DATA, chunk), callback),
        end: (callback) => input.write(frame(DATA, Buffer.alloc(0)), callback),
    };
}

// What a forked program receives on its stdin.
class Receiver {
    #source = { stdin: true, active: false, ready: () => this.#read() };
    #pending = Buffer.alloc(0);
    #stream;
    #wanted = false;
    #listeners = 0;
    #ended = false;
    #referenced = true;

    get stream() {
        if (this.#stream === undefined) {
            this.#stream = new Readable({
                highWaterMark: AT_ONCE,
                read: () => {
                    this.#wanted = true;
                    this.#update();
                },
            });
            this.#stream.fd = 0;
            if (this.#ended) this.#stream.push(null);
        }
        return this.#stream;
    }

    // Follows whether the program listens: then it stays alive for its messages.
    follow() {
        const isOurs = (name) => name === 'message' || name === 'disconnect';
        process.on('newListener', (name) => {
            if (!isOurs(name)) return;
            this.#listeners += 1;
            this.#update();
        });
        process.on('removeListener', (name) => {
            if (!isOurs(name)) return;
            this.#listeners -= 1;
            this.#update();
        });
    }

    reference(referenced) {
        this.#referenced = referenced;
        this.#update();
    }

    #update() {
        const listens = this.#listeners > 0 && process.connected;
        this.#source.active = !this.#ended && (this.#wanted || listens && this.#referenced);
        if (!this.#ended && (this.#wanted || listens)) addSource(this.#source);
        else removeSource(this.#source);
    }

    closed() {
        this.#update();
    }

    #read() {
        const chunk = native.readStdin(AT_ONCE);
        if (chunk === undefined) return;
        if (chunk === null) {
            this.#ended = true;
            this.#stream?.push(null);
            process._disconnected();
            this.#update();
            return;
        }
        this.#pending = Buffer.concat([this.#pending, chunk]);
        for (;;) {
            const end = this.#pending.indexOf(10);
            if (end < 0) return;
            const [kind, length] = this.#pending.toString('latin1', 0, end).split(' ');
            const next = end + 1 + Number(length);
            if (this.#pending.length < next) return;
            const body = this.#pending.subarray(end + 1, next);
            this.#pending = this.#pending.subarray(next);
            if (kind !== DATA) {
                deliver(process, body.toString());
            } else {
                this.#wanted = false;
                this.stream.push(body.length > 0 ? body : null);
                this.#update();
            }
        }
    }
}

// The child's end, if the program was forked.
export function openChild() {
    const token = process.env.NODE_CHANNEL_FD;
    if (token === undefined || !/^[0-9a-f]{32}$/.test(token)) return;
    const mode = process.env.NODE_CHANNEL_SERIALIZATION_MODE;
    delete process.env.NODE_CHANNEL_FD;
    delete process.env.NODE_CHANNEL_SERIALIZATION_MODE;
    const receiver = new Receiver();
    addMethods(process, (text) => native.write(1, `\0${token}${text}\n`), mode, () => receiver.closed());
    const channel = { ref: () => receiver.reference(true), unref: () => receiver.reference(false), hasRef: () => true };
    process.channel = process._channel = Object.assign(channel, { refCounted() {}, unrefCounted() {} });
    receiver.follow();
    Object.defineProperty(process, 'stdin', { get: () => receiver.stream, enumerable: true, configurable: true });
}
