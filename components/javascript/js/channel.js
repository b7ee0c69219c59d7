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

// Separates the messages in a child's stdout from its data. Looks at each byte once: a message may be large.
class Splitter {
    #marker;
    // The end of the data that may begin a marker.
    #kept = Buffer.alloc(0);
    // The pieces of a message whose end has not come; undefined outside one.
    #pieces;
    #data;
    #message;

    constructor(token, data, message) {
        this.#marker = Buffer.from(`\0${token}`, 'latin1');
        this.#data = data;
        this.#message = message;
    }

    write(chunk) {
        let left = this.#kept.length > 0 ? Buffer.concat([this.#kept, chunk]) : chunk;
        this.#kept = Buffer.alloc(0);
        while (left.length > 0) left = this.#pieces === undefined ? this.#takeData(left) : this.#takeMessage(left);
    }

    // Takes data up to a marker, and returns the rest.
    #takeData(bytes) {
        const at = bytes.indexOf(this.#marker);
        const end = at < 0 ? bytes.length - this.#partial(bytes) : at;
        if (end > 0) this.#data(bytes.subarray(0, end));
        if (at < 0) {
            this.#kept = bytes.subarray(end);
            return Buffer.alloc(0);
        }
        this.#pieces = [];
        return bytes.subarray(at + this.#marker.length);
    }

    #takeMessage(bytes) {
        const end = bytes.indexOf(10);
        this.#pieces.push(end < 0 ? bytes : bytes.subarray(0, end));
        if (end < 0) return Buffer.alloc(0);
        const text = Buffer.concat(this.#pieces).toString('utf8');
        this.#pieces = undefined;
        this.#message(text);
        return bytes.subarray(end + 1);
    }

    // How many bytes at the end may begin a marker.
    #partial(bytes) {
        const last = bytes.lastIndexOf(0);
        if (last < 0 || bytes.length - last >= this.#marker.length) return 0;
        return bytes.subarray(last).equals(this.#marker.subarray(0, bytes.length - last)) ? bytes.length - last : 0;
    }

    end() {
        if (this.#kept.length > 0) this.#data(this.#kept);
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
    child.channel = child._channel = { ref() {}, unref() {}, refCounted() {}, unrefCounted() {} };
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
    // The head of a frame that has not come whole; then its kind, the pieces of its body and how much of that is missing.
    #head = '';
    #kind;
    #pieces = [];
    #missing = 0;
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
        let left = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
        while (left.length > 0 || this.#kind !== undefined && this.#missing === 0) left = this.#kind === undefined ? this.#takeHead(left) : this.#takeBody(left);
    }

    // Takes the head of a frame, and returns the rest.
    #takeHead(bytes) {
        const end = bytes.indexOf(10);
        this.#head += bytes.toString('latin1', 0, end < 0 ? bytes.length : end);
        if (end < 0) return Buffer.alloc(0);
        const [kind, length] = this.#head.split(' ');
        this.#head = '';
        this.#kind = kind;
        this.#missing = Number(length);
        return bytes.subarray(end + 1);
    }

    #takeBody(bytes) {
        const piece = bytes.subarray(0, this.#missing);
        this.#pieces.push(piece);
        this.#missing -= piece.length;
        if (this.#missing > 0) return Buffer.alloc(0);
        const body = Buffer.concat(this.#pieces), kind = this.#kind;
        this.#pieces = [];
        this.#kind = undefined;
        if (kind !== DATA) {
            deliver(process, body.toString());
        } else {
            this.#wanted = false;
            this.stream.push(body.length > 0 ? body : null);
            this.#update();
        }
        return bytes.subarray(piece.length);
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
